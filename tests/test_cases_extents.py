"""Reported faults about extents (cases C52, C53, C59): rows that are no multiple of 32 bytes, broadcasts, dynamic axes."""

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import lax
from tests.refusals import f32, sevens, untouched

N = pl.dynamic("N")


# C52: rows of any width arrive as they are.


@pl.jit
def copies_126_columns(x: pl.Tensor[[2, 126], pl.FP32], out: pl.Out[pl.Tensor[[2, 126], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [2, 128], valid_shape=[2, 126])
        pl.store(t, [0, 0], out)


@pl.jit
def copies_126_columns_by_subscript(x: pl.Tensor[[2, 126], pl.FP32], out: pl.Out[pl.Tensor[[2, 126], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x[:, :]


@pl.jit
def stores_a_column_of_sums(x: pl.Tensor[[16, 8], pl.FP32], out: pl.Out[pl.Tensor[[16, 1], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.row_sum(x)


@pytest.mark.parametrize("kernel", [copies_126_columns, copies_126_columns_by_subscript])
def test_rows_of_126_floats_are_copied_exactly_or_refused(kernel):  # C52
    x = np.arange(252, dtype=np.float32).reshape(2, 126)
    assert kernel(x).tolist() == x.tolist()
    assert kernel.eager(x).tolist() == x.tolist()


def test_a_column_of_row_sums_is_stored_exactly():  # C52
    x = np.arange(128, dtype=np.float32).reshape(16, 8)
    assert stores_a_column_of_sums(x).tolist() == [[64 * i + 28] for i in range(16)]


# C53: a broadcast over the last axis of three repeats every element, not one row.

CUBE = np.arange(1, 9, dtype=np.float32).reshape(2, 2, 2)
WEIGHTS = f32([1, 10], [100, 1000])
SCALED = [[[1, 2], [30, 40]], [[500, 600], [7000, 8000]]]


@pl.jit
def scales_the_last_axis(x: pl.Tensor[[2, 2, 2], pl.FP32], q: pl.Tensor[[2, 2], pl.FP32], out: pl.Out[pl.Tensor[[2, 2, 2], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mul(x, pl.reshape(q[:, :], [2, 2, 1]))


@pl.jit
def scales_the_last_axis_row_by_row(
    x: pl.Tensor[[2, 2, 2], pl.FP32], q: pl.Tensor[[2, 2], pl.FP32], out: pl.Out[pl.Tensor[[2, 2, 2], pl.FP32]]
):
    for b in pl.range(2):
        with pl.at(level=pl.Level.CORE_GROUP):
            rows = pl.reshape(x[b : b + 1], [2, 2])
            out[b : b + 1] = pl.reshape(pl.row_expand_mul(rows, pl.reshape(q[b : b + 1], [2, 1])), [1, 2, 2])


@pytest.mark.parametrize("kernel", [scales_the_last_axis, scales_the_last_axis_row_by_row])
def test_a_matrix_scales_a_cube_along_its_last_axis(kernel):  # C53
    assert kernel(CUBE, WEIGHTS).tolist() == SCALED
    assert kernel.eager(CUBE, WEIGHTS).tolist() == SCALED


def test_arrays_broadcast_over_an_axis_of_one():  # C53
    q = pypto.Array(WEIGHTS)
    assert np.asarray(lax.mul(CUBE, q[:, :, None])).tolist() == SCALED
    assert np.asarray(lax.mul(CUBE, lax.expand_dims(WEIGHTS, (2,)))).tolist() == SCALED


# C59: a dynamic axis takes its extent from each call; one program serves them all.


@pl.jit
def adds_one(x: pl.Tensor[[N, 8], pl.FP32], out: pl.Out[pl.Tensor[[N, 8], pl.FP32]]):
    for i in pl.range(pl.tensor.dim(x, 0)):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[i : i + 1, :] = x[i : i + 1, :] + 1.0


@pl.jit
def adds_two_of_one_extent(x: pl.Tensor[[N, 8], pl.FP32], y: pl.Tensor[[N, 8], pl.FP32], out: pl.Out[pl.Tensor[[N, 8], pl.FP32]]):
    for i in pl.range(pl.tensor.dim(x, 0)):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[i : i + 1, :] = x[i : i + 1, :] + y[i : i + 1, :]


def test_one_trace_serves_every_extent_of_a_dynamic_axis():  # C59
    for rows in (2, 3, 1, 2):
        x = np.arange(rows * 8, dtype=np.float32).reshape(rows, 8)
        assert adds_one(x, sevens(rows, 8)).tolist() == (x + 1).tolist()
    assert len(adds_one._programs) == 1


def test_two_extents_for_one_symbol_are_refused_and_both_are_named():  # C59
    x, y = np.zeros((2, 8), np.float32), np.zeros((3, 8), np.float32)
    call = lambda x, y, out: adds_two_of_one_extent(x, y, out)  # noqa: E731 # refused
    error = untouched("PL602", call, x, y, sevens(2, 8), at="adds_two_of_one_extent(x, y, out)")
    assert "`x`" in error.message and "`y`" in error.message
    assert "2" in error.message and "3" in error.message


FIRST, SECOND = pl.dynamic("K"), pl.dynamic("K")


@pl.jit
def has_two_symbols_of_one_name(
    x: pl.Tensor[[FIRST, 8], pl.FP32], y: pl.Tensor[[SECOND, 8], pl.FP32], out: pl.Out[pl.Tensor[[FIRST, 8], pl.FP32]]
):
    for i in pl.range(pl.tensor.dim(x, 0)):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[i : i + 1, :] = x[i : i + 1, :] + y[i : i + 1, :]  # refused


def test_two_symbols_are_two_axes_whatever_their_names_and_a_missing_row_is_an_error():  # C59
    two, three = np.zeros((2, 8), np.float32), np.ones((3, 8), np.float32)
    assert has_two_symbols_of_one_name(two, three, sevens(2, 8)).tolist() == [[1] * 8] * 2
    error = untouched("PL303", has_two_symbols_of_one_name, three, two, sevens(3, 8), at="y[i : i + 1, :]")
    assert "`y`" in error.message and "2" in error.message
