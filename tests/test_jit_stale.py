"""`pypto.jit` never runs a stale program: whatever the function can see is part of the key, and a changed part is named."""

import functools

import numpy as np

import pypto
import pypto.language as pl
from pypto import lax

X = np.array([1, 2, 3], np.float32)
Row = pl.Tensor[[1, 8], pl.FP32]


# ---- the platform ------------------------------------------------------------------------------------------------


@pl.jit
def clusters(x: Row, out: pl.Out[Row]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.muls(x, float(pl.system.available_cluster_count()))


def cores(name):
    return pypto.platform.platform_of(name).cube_cores


def test_a_kernel_that_asks_for_the_platform_is_traced_again_on_another():
    ones = np.ones((1, 8), np.float32)
    f = pypto.jit(lambda x: clusters(x) * 1.0)
    for name in ("a2a3sim", "a5sim", "a2a3sim"):
        with pypto.override(platform=name):
            assert np.asarray(f(ones)).tolist() == [[cores(name)] * 8]
            assert np.asarray(pypto.vmap(clusters)(ones[None])).tolist() == [[[cores(name)] * 8]]
    assert f.cache_size() == 2 and cores("a2a3sim") != cores("a5sim")
    assert "a5sim" in f.explain()


# ---- defaults ----------------------------------------------------------------------------------------------------


def test_a_default_that_changed_in_place_is_a_new_program():
    def scaled(x, factors=[2.0], *, shift={"by": 0.0}):  # noqa: B006 - what this is about
        return x * factors[0] + shift["by"]

    f = pypto.jit(scaled)
    assert np.array_equal(f(X), X * 2)
    scaled.__defaults__[0][0] = 3.0
    assert np.array_equal(f(X), X * 3)
    assert "factors" in f.explain() and "3.0" in f.explain()
    scaled.__kwdefaults__["shift"]["by"] = 1.0
    assert np.array_equal(f(X), X * 3 + 1)
    scaled.__defaults__ = ([5.0],)
    assert np.array_equal(f(X), X * 5 + 1)
    assert f.cache_size() == 4
