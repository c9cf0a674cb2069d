"""`pypto.jit` never runs a stale program: whatever the function can see is part of the key, and a changed part is named."""

import functools

import numpy as np
import pytest

import pypto
import pypto.language as pl

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


# ---- rules of functions with derivatives of their own ------------------------------------------------------------

SLOPE = 2.0


@pypto.custom_jvp
def bent(x):
    return x * 1.0


@bent.defjvp
def bent_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    return bent(x), dx * SLOPE


@pypto.custom_jvp
def bent_by_parts(x):
    return x * 1.0


bent_by_parts.defjvps(lambda dx, y, x: dx * SLOPE)


@pypto.custom_vjp
def bent_back(x):
    return x * 1.0


bent_back.defvjp(lambda x: (bent_back(x), None), lambda _, ct: (ct * SLOPE,))


@pytest.mark.parametrize("function", [bent, bent_by_parts, bent_back], ids=lambda f: f.__name__)
def test_what_a_rule_reads_is_part_of_the_key(function, monkeypatch):
    f = pypto.jit(lambda x: pypto.grad(function)(x))
    assert float(f(1.0)) == 2.0
    assert float(f(1.0)) == 2.0 and f.cache_size() == 1
    monkeypatch.setitem(globals(), "SLOPE", 3.0)
    assert float(f(1.0)) == 3.0
    assert "SLOPE" in f.explain()


def test_another_rule_is_another_program():
    @pypto.custom_jvp
    def changing(x):
        return x * 1.0

    changing.defjvp(lambda primals, tangents: (primals[0], tangents[0] * 2.0))
    f = pypto.jit(lambda x: pypto.grad(changing)(x))
    assert float(f(1.0)) == 2.0
    changing.defjvp(lambda primals, tangents: (primals[0], tangents[0] * 7.0))
    assert float(f(1.0)) == 7.0


# ---- transformed callables ---------------------------------------------------------------------------------------

BY = 2.0


def scaled(factor, x):
    return x * (factor * BY)


class Scaling:
    def __init__(self):
        self.factor = 1.0

    def __call__(self, x):
        return (x * self.factor).sum()


TRANSFORMED = {
    "vmap": pypto.vmap(functools.partial(scaled, 1.0)),
    "checkpoint": pypto.checkpoint(functools.partial(scaled, 1.0)),
    "vmap of grad": pypto.vmap(pypto.grad(functools.partial(scaled, 1.0))),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_what_a_transformed_callable_without_a_name_reads_is_part_of_the_key(name, monkeypatch):
    transformed = TRANSFORMED[name]
    f = pypto.jit(lambda x: transformed(x))
    first = np.asarray(f(X))
    monkeypatch.setitem(globals(), "BY", 3.0)
    assert np.array_equal(f(X), first * 1.5)


def test_what_a_transformed_object_holds_is_part_of_the_key():
    scaling = Scaling()
    slope = pypto.grad(scaling)
    f = pypto.jit(lambda x: slope(x))
    assert np.asarray(f(X)).tolist() == [1, 1, 1]
    scaling.factor = 4.0
    assert np.asarray(f(X)).tolist() == [4, 4, 4]
    assert slope.__name__ == "Scaling"
