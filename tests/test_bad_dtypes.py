"""Dtypes that do not go together: nothing converts on its own, and the line that mixes them is refused."""

import numpy as np
import pytest

import pypto.language as pl
from tests.refusals import f32, sevens, untouched

M24 = pl.Tensor[[2, 4], pl.FP32]
X = f32([1, 2, 3, 4], [5, 6, 7, 8])
BF = X.astype(pl.BF16.storage)
INTS = X.astype(np.int32)

# Nothing converts on its own.


@pl.jit
def adds_two_dtypes(x: M24, y: pl.Tensor[[2, 4], pl.BF16], z: pl.Tensor[[2, 4], pl.INT32], out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(x, y)  # refused


@pl.jit
def multiplies_two_dtypes(x: M24, y: pl.Tensor[[2, 4], pl.BF16], z: pl.Tensor[[2, 4], pl.INT32], out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, 0:2] = pl.matmul(x, y, b_trans=True)  # refused


@pl.jit
def stores_another_dtype(x: M24, y: pl.Tensor[[2, 4], pl.BF16], z: pl.Tensor[[2, 4], pl.INT32], out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = y  # refused


@pl.jit
def stores_integers_into_floats(x: M24, y: pl.Tensor[[2, 4], pl.BF16], z: pl.Tensor[[2, 4], pl.INT32], out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = z + 1  # refused


@pl.jit
def copies_another_dtype(x: M24, y: pl.Tensor[[2, 4], pl.BF16], z: pl.Tensor[[2, 4], pl.INT32], out: pl.Out[M24]):
    out[:] = y  # refused


@pl.jit
def updates_a_tile_with_another_dtype(x: M24, y: pl.Tensor[[2, 4], pl.BF16], z: pl.Tensor[[2, 4], pl.INT32], out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x + 1.0
        t[0:1, :] = y[0:1, :]  # refused
        out[:] = t


@pl.jit
def expands_another_dtype(x: M24, y: pl.Tensor[[2, 4], pl.BF16], z: pl.Tensor[[2, 4], pl.INT32], out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.col_expand_mul(x, y[0:1, :])  # refused


@pl.jit
def selects_between_dtypes(x: M24, y: pl.Tensor[[2, 4], pl.BF16], z: pl.Tensor[[2, 4], pl.INT32], out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.sel(pl.cmp(x, x, pl.CmpType.GT), x, y)  # refused


@pl.jit
def accumulates_in_the_wrong_dtype(x: M24, y: pl.Tensor[[2, 4], pl.BF16], z: pl.Tensor[[2, 4], pl.INT32], out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(y, y, out_dtype=pl.BF16, b_trans=True)
        acc = pl.matmul_acc(acc, y, y, b_trans=True)  # refused
        out[:, 0:2] = acc


@pl.jit
def writes_a_float_into_integers(x: M24, y: pl.Tensor[[2, 4], pl.BF16], z: pl.Tensor[[2, 4], pl.INT32], out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = z + 0
        pl.write(t, [0, 0], 1.5)  # refused
        out[:] = pl.cast(t, pl.FP32)


@pl.jit
def fills_integers_with_a_fraction(x: M24, y: pl.Tensor[[2, 4], pl.BF16], z: pl.Tensor[[2, 4], pl.INT32], out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.cast(pl.full([2, 4], dtype=pl.INT32, value=1.5), pl.FP32)  # refused


@pl.jit
def adds_an_index_to_a_tile(x: M24, y: pl.Tensor[[2, 4], pl.BF16], z: pl.Tensor[[2, 4], pl.INT32], out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(2):
            out[:] = x + i  # refused


@pl.jit
def indexes_with_a_float(x: M24, y: pl.Tensor[[2, 4], pl.BF16], z: pl.Tensor[[2, 4], pl.INT32], out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:1, :] = x[pl.read(x, [0, 0]) : 2, :]  # refused


@pytest.mark.parametrize(
    ("kernel", "at"),
    [
        (adds_two_dtypes, "pl.add(x, y)"),
        (multiplies_two_dtypes, "pl.matmul(x, y, b_trans=True)"),
        (stores_another_dtype, "out[:]"),
        (stores_integers_into_floats, "out[:]"),
        (copies_another_dtype, "out[:]"),
        (updates_a_tile_with_another_dtype, "t[0:1, :]"),
        (expands_another_dtype, "pl.col_expand_mul(x, y[0:1, :])"),
        (selects_between_dtypes, "pl.sel(pl.cmp(x, x, pl.CmpType.GT), x, y)"),
        (accumulates_in_the_wrong_dtype, "pl.matmul_acc(acc, y, y, b_trans=True)"),
        (writes_a_float_into_integers, "pl.write(t, [0, 0], 1.5)"),
        (fills_integers_with_a_fraction, "pl.full([2, 4], dtype=pl.INT32, value=1.5)"),
        (adds_an_index_to_a_tile, "x + i"),
        (indexes_with_a_float, "x[pl.read(x, [0, 0]) : 2, :]"),
    ],
)
def test_two_dtypes_in_one_operation_are_refused(kernel, at):
    untouched("PL302", kernel, X.copy(), BF.copy(), INTS.copy(), sevens(2, 4), at=at)
    if kernel is not adds_an_index_to_a_tile:  # an eager loop index is a Python int, and a number takes the tile's dtype
        untouched("PL302", kernel.eager, X.copy(), BF.copy(), INTS.copy(), sevens(2, 4), at=at)


@pl.jit
def adds_masks(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        mask = pl.cmp(pl.load(x, [0, 0], [2, 4]), x, pl.CmpType.GT)
        out[:] = pl.add(mask, mask)  # refused


@pl.jit
def casts_to_the_same_dtype(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.cast(x, pl.FP32)  # refused


@pl.jit
def takes_the_exponential_of_integers(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.exp(pl.cast(x, pl.INT32))  # refused


@pl.jit
def divides_indices(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(2):
            out[0, 0] = i / 2  # refused


@pytest.mark.parametrize(
    ("kernel", "at"),
    [
        (adds_masks, "pl.add(mask, mask)"),
        (casts_to_the_same_dtype, "pl.cast(x, pl.FP32)"),
        (takes_the_exponential_of_integers, "pl.exp(pl.cast(x, pl.INT32))"),
        (divides_indices, "i / 2"),
    ],
)
def test_a_dtype_that_an_operation_does_not_take_is_refused(kernel, at):
    untouched("PL305", kernel, X.copy(), sevens(2, 4), at=at)


# Operations of the other level, or of scalars.


@pl.jit
def loads_a_tile(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.load(x + 1.0, [0, 0], [2, 4])  # refused


@pl.jit
def stores_into_a_tile(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x + 1.0
        pl.store(x, [0, 0], t)  # refused
        out[:] = t


@pl.jit
def takes_the_scalar_maximum_of_tiles(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.max(x, x)  # refused


@pl.jit
def pads_a_view_outside(x: M24, out: pl.Out[M24]):
    rows = pl.slice(x, [2, 4], [1, 0], valid_shape=[1, 4])  # refused
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = rows


@pytest.mark.parametrize(
    ("kernel", "at"),
    [
        (loads_a_tile, "pl.load(x + 1.0, [0, 0], [2, 4])"),
        (stores_into_a_tile, "pl.store(x, [0, 0], t)"),
        (takes_the_scalar_maximum_of_tiles, "pl.max(x, x)"),
        (pads_a_view_outside, "pl.slice(x, [2, 4], [1, 0], valid_shape=[1, 4])"),
    ],
)
def test_an_operation_of_the_other_level_is_refused(kernel, at):
    untouched("PL307", kernel, X.copy(), sevens(2, 4), at=at)
