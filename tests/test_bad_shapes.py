"""Shapes, dtypes and windows that do not fit: each is refused at the line that combines them, with what was found."""

import numpy as np
import pytest

import pypto.language as pl
from tests.refusals import f32, refused, sevens, untouched

M24 = pl.Tensor[[2, 4], pl.FP32]
N = pl.dynamic("N")
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


# Shapes.


@pl.jit
def adds_two_shapes(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(x, x[:, 0:3])  # refused


@pl.jit
def multiplies_inner_extents_that_differ(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(x, x)  # refused


@pl.jit
def transposes_the_wrong_operand(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(x, x, a_trans=True, b_trans=True)  # refused


@pl.jit
def accumulates_another_shape(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(x, x, b_trans=True)
        out[:] = pl.matmul_acc(acc, x, x, a_trans=True)  # refused


@pl.jit
def stores_a_larger_value(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        out[:, 0:2] = x  # refused


@pl.jit
def stores_a_smaller_value(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x[0:1, :]  # refused


@pl.jit
def copies_another_shape(x: M24, out: pl.Out[M24]):
    out[:] = x[:, 0:2]  # refused


@pl.jit
def assembles_another_rank(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        out = pl.assemble(out, pl.reshape(x, [8]), [0])  # refused


@pl.jit
def expands_a_row_as_a_column(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.row_expand_mul(x, x[0:1, :])  # refused


@pl.jit
def expands_a_longer_row(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, 0:3] = pl.col_expand_mul(x[:, 0:3], x[0:1, :])  # refused


@pl.jit
def reshapes_to_another_size(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.reshape(x + 1.0, [3, 3])  # refused


@pl.jit
def views_as_another_size(x: M24, out: pl.Out[M24]):
    flat = pl.reshape(x, [9])  # refused
    out[:] = x


@pl.jit
def gives_too_many_subscripts(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x[:, :, 0:1]  # refused


@pl.jit
def gives_too_few_offsets(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.load(x, [0], [2, 4])  # refused


@pl.jit
def concatenates_other_rows(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.concat(x, x[0:1, :])[:, 0:4]  # refused


@pl.jit
def sums_rows_of_a_vector(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        out[0, 0] = pl.read(pl.row_sum(x[0, :]), [0])  # refused


@pytest.mark.parametrize(
    ("kernel", "at"),
    [
        (adds_two_shapes, "pl.add(x, x[:, 0:3])"),
        (multiplies_inner_extents_that_differ, "pl.matmul(x, x)"),
        (transposes_the_wrong_operand, "pl.matmul(x, x, a_trans=True, b_trans=True)"),
        (accumulates_another_shape, "pl.matmul_acc(acc, x, x, a_trans=True)"),
        (stores_a_larger_value, "out[:, 0:2]"),
        (stores_a_smaller_value, "out[:]"),
        (copies_another_shape, "out[:]"),
        (assembles_another_rank, "pl.assemble(out, pl.reshape(x, [8]), [0])"),
        (expands_a_row_as_a_column, "pl.row_expand_mul(x, x[0:1, :])"),
        (expands_a_longer_row, "pl.col_expand_mul(x[:, 0:3], x[0:1, :])"),
        (reshapes_to_another_size, "pl.reshape(x + 1.0, [3, 3])"),
        (views_as_another_size, "pl.reshape(x, [9])"),
        (gives_too_many_subscripts, "x[:, :, 0:1]"),
        (gives_too_few_offsets, "pl.load(x, [0], [2, 4])"),
        (concatenates_other_rows, "pl.concat(x, x[0:1, :])"),
        (sums_rows_of_a_vector, "pl.row_sum(x[0, :])"),
    ],
)
def test_shapes_that_do_not_match_are_refused(kernel, at):
    untouched("PL301", kernel, X.copy(), sevens(2, 4), at=at)
    untouched("PL301", kernel.eager, X.copy(), sevens(2, 4), at=at)


@pl.jit.inline
def takes_two_rows(t: M24):
    return t + 1.0


@pl.jit.inline
def takes_bf16(t: pl.Tensor[[2, 4], pl.BF16]):
    return t + 1.0


@pl.jit
def passes_another_shape(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = takes_two_rows(x[0:1, :])  # refused


@pl.jit
def passes_another_dtype(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = takes_bf16(x)  # refused


def test_an_argument_of_an_inline_keeps_the_declared_type():
    untouched("PL301", passes_another_shape, X.copy(), sevens(2, 4), at="takes_two_rows(x[0:1, :])")
    untouched("PL302", passes_another_dtype, X.copy(), sevens(2, 4), at="takes_bf16(x)")


# Extents that must be known, and values an operation does not take.

Rows = pl.Tensor[[N, 4], pl.FP32]


@pl.jit
def loads_a_run_time_number_of_rows(x: Rows, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x[0 : pl.tensor.dim(x, 0), :]  # refused


@pl.jit
def fills_a_run_time_number_of_rows(x: Rows, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:2, :] = pl.full([pl.tensor.dim(x, 0), 4], dtype=pl.FP32, value=0)  # refused


@pl.jit
def uses_the_whole_of_a_dynamic_tensor(x: Rows, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:2, :] = x + 1.0  # refused


@pytest.mark.parametrize(
    ("kernel", "at"),
    [
        (loads_a_run_time_number_of_rows, "x[0 : pl.tensor.dim(x, 0), :]"),
        (fills_a_run_time_number_of_rows, "pl.full([pl.tensor.dim(x, 0), 4], dtype=pl.FP32, value=0)"),
        (uses_the_whole_of_a_dynamic_tensor, "x + 1.0"),
    ],
)
def test_a_tile_of_a_run_time_extent_is_refused(kernel, at):
    error = untouched("PL304", kernel, X.copy(), sevens(2, 4), at=at)
    assert "N" in error.message


@pl.jit
def slices_with_a_step(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, 0:2] = x[:, 0:4:2]  # refused


@pl.jit
def casts_in_an_unknown_mode(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.cast(pl.cast(x, pl.BF16, mode="nearest"), pl.FP32)  # refused


@pl.jit
def pads_with_another_number(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.fillpad(x, pad_value=1.0)  # refused


@pl.jit
def multiplies_in_an_unknown_order(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, 0:2] = pl.matmul(x, x, b_trans=True, numerics="fast")  # refused


@pytest.mark.parametrize(
    ("kernel", "at"),
    [
        (slices_with_a_step, "x[:, 0:4:2]"),
        (casts_in_an_unknown_mode, 'pl.cast(x, pl.BF16, mode="nearest")'),
        (pads_with_another_number, "pl.fillpad(x, pad_value=1.0)"),
        (multiplies_in_an_unknown_order, 'pl.matmul(x, x, b_trans=True, numerics="fast")'),
    ],
)
def test_a_value_that_an_operation_does_not_take_is_refused(kernel, at):
    untouched("PL308", kernel, X.copy(), sevens(2, 4), at=at)


# Windows past the extent.


@pl.jit
def starts_before_zero(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        out[0:1, :] = pl.load(x, [-1, 0], [1, 4])  # refused


@pl.jit
def reads_past_the_end(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        out[0, 0] = pl.read(x, [2, 0])  # refused


@pl.jit
def assembles_past_the_end(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out = pl.assemble(out, x, [1, 0])  # refused


@pl.jit
def slices_a_tile_past_the_end(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x + 1.0
        out[:] = t[1:3, :]  # refused


@pl.jit
def slices_backwards(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x[2:0, :]  # refused


@pl.jit
def marks_more_valid_than_there_is(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.load(x, [0, 0], [2, 4], valid_shape=[3, 4])  # refused


@pytest.mark.parametrize(
    ("kernel", "at"),
    [
        (starts_before_zero, "pl.load(x, [-1, 0], [1, 4])"),
        (reads_past_the_end, "pl.read(x, [2, 0])"),
        (assembles_past_the_end, "pl.assemble(out, x, [1, 0])"),
        (slices_a_tile_past_the_end, "t[1:3, :]"),
        (slices_backwards, "x[2:0, :]"),
        (marks_more_valid_than_there_is, "pl.load(x, [0, 0], [2, 4], valid_shape=[3, 4])"),
    ],
)
def test_a_window_that_is_known_to_lie_outside_is_refused_when_traced(kernel, at):
    untouched("PL303", kernel, X.copy(), sevens(2, 4), at=at)
    refused("PL303", kernel.trace, at=at)
    untouched("PL303", kernel.eager, X.copy(), sevens(2, 4), at=at)


@pl.jit
def reads_at(x: M24, r: pl.Scalar[pl.INT32], c: pl.Scalar[pl.INT32], out: pl.Out[M24]):
    out[:] = x
    out[0, 0] = pl.read(x, [r, c])  # refused


@pl.jit
def slices_a_tile_at(x: M24, r: pl.Scalar[pl.INT32], c: pl.Scalar[pl.INT32], out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x + 1.0
        out[:] = x
        out[0:1, 0:2] = t[r : r + 1, c : c + 2]  # refused


@pl.jit
def stores_at(x: M24, r: pl.Scalar[pl.INT32], c: pl.Scalar[pl.INT32], out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        out = pl.assemble(out, x[0:1, 0:2], [r, c])  # refused


@pl.jit
def views_at(x: M24, r: pl.Scalar[pl.INT32], c: pl.Scalar[pl.INT32], out: pl.Out[M24]):
    out[:] = x
    part = x[r : r + 1, c : c + 2]  # refused
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:1, 0:2] = part


@pl.jit
def loads_valid_at(x: M24, r: pl.Scalar[pl.INT32], c: pl.Scalar[pl.INT32], out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        t = pl.load(x, [r, c], [1, 4], valid_shape=[1, 2])  # refused
        out[0:1, 0:4] = t


@pytest.mark.parametrize(
    ("kernel", "at", "name"),
    [
        (reads_at, "pl.read(x, [r, c])", "x"),
        (slices_a_tile_at, "t[r : r + 1, c : c + 2]", "t"),
        (stores_at, "pl.assemble(out, x[0:1, 0:2], [r, c])", "out"),
        (views_at, "x[r : r + 1, c : c + 2]", "x"),
        (loads_valid_at, "pl.load(x, [r, c], [1, 4], valid_shape=[1, 2])", "x"),
    ],
)
@pytest.mark.parametrize(("r", "c", "number"), [(2, 0, "2"), (0, 4, "4"), (-1, 0, "-1"), (0, -3, "-3"), (1000, 0, "1000")])
def test_a_window_that_lies_outside_at_run_time_is_refused_with_its_numbers(kernel, at, name, r, c, number):
    kernel(X, 1, 2, sevens(2, 4))
    error = untouched("PL303", kernel, X.copy(), r, c, sevens(2, 4), at=at)
    extent = 2 if c == 0 else 4
    assert number in error.message and f"extent {extent}" in error.message and f"`{name}`" in error.message
    assert untouched("PL303", kernel.eager, X.copy(), r, c, sevens(2, 4), at=at).message
