"""A branch that hands a tile on gives it a second name: an in-place update seen through one of the two only is refused."""

import numpy as np
import pytest

import pypto.language as pl
from pypto.errors import OutputError

Flag = pl.Scalar[pl.INT32]
Rows = pl.Tensor[[2, 8], pl.FP32]
X = np.arange(16, dtype=np.float32).reshape(2, 8)


@pl.jit
def the_tile_is_updated(x: Rows, flag: Flag, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x[:]
        u = t if flag == 0 else pl.neg(t)
        t[0:1, :] = 5.0  # under `u` too, in Python
        out[:] = pl.add(t, u)


@pl.jit
def the_result_is_updated(x: Rows, flag: Flag, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x[:]
        u = t if flag == 0 else pl.neg(t)
        u[0:1, :] = 5.0  # under `t` too, in Python
        out[:] = pl.add(t, u)


@pl.jit
def the_result_is_updated_in_a_loop(x: Rows, flag: Flag, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x[:]
        for _ in pl.range(2):
            u = t if flag == 0 else pl.neg(t)
            u[0:1, :] = pl.adds(u[0:1, :], 1.0)  # the next turn reads it as `t`, in Python
            out[:] = u


@pytest.mark.parametrize(
    "kernel", [the_tile_is_updated, the_result_is_updated, the_result_is_updated_in_a_loop], ids=lambda k: k.fn.__name__
)
def test_an_update_that_another_name_would_see_is_refused_at_its_line(kernel):
    with pytest.raises(OutputError) as caught:
        kernel.lower()
    assert caught.value.code == "PL207"
    assert caught.value.source.text.endswith("in Python")


@pl.jit
def the_name_is_kept(x: Rows, flag: Flag, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x[:]
        for _ in pl.range(2):
            if flag != 0:
                t = pl.neg(t)
            t[0:1, :] = pl.adds(t[0:1, :], 1.0)
        out[:] = t


@pl.jit
def the_update_comes_after_the_last_use(x: Rows, flag: Flag, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x[:]
        u = t if flag == 0 else pl.neg(t)
        out[:] = t
        u[0:1, :] = 5.0
        out[:] = u


@pytest.mark.parametrize("kernel", [the_name_is_kept, the_update_comes_after_the_last_use], ids=lambda kernel: kernel.fn.__name__)
@pytest.mark.parametrize("flag", [0, 1])
def test_an_update_that_no_other_name_sees_is_fine(kernel, flag):
    assert np.asarray(kernel(X, flag)).tobytes() == np.asarray(kernel.eager(X, flag)).tobytes()
