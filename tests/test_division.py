"""Integer division in kernels: how it rounds, and what a division by zero does in checked and unchecked runs."""

import numpy as np
import pytest

import pypto
import pypto.language as pl
from tests.refusals import f32, sevens, untouched

V4 = pl.Tensor[[4], pl.FP32]
I4 = pl.Tensor[[4], pl.INT32]

# Integer division by zero.


@pl.jit
def divides_tiles(a: I4, b: I4, out: pl.Out[I4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.div(a, b)  # refused


@pl.jit
def divides_scalars(a: I4, b: I4, out: pl.Out[I4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(4):
            out[i] = pl.read(a, [i]) // pl.read(b, [i])  # refused


@pl.jit
def takes_remainders(a: I4, b: I4, out: pl.Out[I4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(4):
            out[i] = pl.read(a, [i]) % pl.read(b, [i])  # refused


@pl.jit
def divides_floats(a: V4, b: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.div(a, b)


A, B = np.array([7, -7, 5, -(2**31)], np.int32), np.array([2, 2, -2, -1], np.int32)
ZERO = np.array([2, 0, -2, 3], np.int32)


def test_tiles_divide_toward_zero_and_wrap_at_the_end():
    assert divides_tiles(A, B).tolist() == [3, -3, -2, -(2**31)]


def test_scalars_divide_as_python_does():
    assert divides_scalars(A[:3].repeat([1, 1, 2]), B[:3].repeat([1, 1, 2])).tolist() == [7 // 2, -7 // 2, 5 // -2, 5 // -2]
    assert takes_remainders(A[:3].repeat([1, 1, 2]), B[:3].repeat([1, 1, 2])).tolist() == [7 % 2, -7 % 2, 5 % -2, 5 % -2]


@pytest.mark.parametrize(
    ("kernel", "at"),
    [
        (divides_tiles, "pl.div(a, b)"),
        (divides_scalars, "pl.read(a, [i]) // pl.read(b, [i])"),
        (takes_remainders, "pl.read(a, [i]) % pl.read(b, [i])"),
    ],
)
@pytest.mark.checked
def test_an_integer_division_by_zero_is_refused_in_checked_runs(kernel, at):
    untouched("PL704", kernel, A.copy(), ZERO.copy(), sevens(4, dtype=np.int32), at=at)
    untouched("PL704", kernel.eager, A.copy(), ZERO.copy(), sevens(4, dtype=np.int32), at=at)


@pytest.mark.parametrize("kernel", [divides_tiles, divides_scalars, takes_remainders])
def test_an_integer_division_by_zero_is_zero_in_unchecked_runs(kernel):
    with pypto.override(check=False):
        assert kernel(A, ZERO).tolist()[1] == 0


def test_a_float_division_by_zero_is_infinite():
    assert divides_floats(f32(1, -1, 2, 0.5), f32(0, 0, 1, 0)).tolist() == [np.inf, -np.inf, 2, np.inf]


@pl.jit
def divides_padding(a: I4, b: I4, out: pl.Out[I4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.div(pl.load(a, [0], [4], valid_shape=[1]), pl.load(b, [0], [4], valid_shape=[1]))
        out[:] = a
        out[:] = t


def test_a_division_by_zero_in_the_padding_is_not_reported():
    assert divides_padding(A, ZERO).tolist() == [3, *A[1:].tolist()]
