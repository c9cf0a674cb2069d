"""Shapes and extents that do not fit: each is refused at the line that combines them, with what was found."""

import numpy as np
import pytest

import pypto
import pypto.language as pl
from tests.refusals import f32, sevens, untouched

M24 = pl.Tensor[[2, 4], pl.FP32]
N = pl.dynamic("N")
X = f32([1, 2, 3, 4], [5, 6, 7, 8])
BF = X.astype(pl.BF16.storage)
INTS = X.astype(np.int32)

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
def copies_rows_of_unknown_number(x: Rows, out: pl.Out[M24]):
    out[:] = x  # refused


@pl.jit
def creates_rows_of_unknown_number(x: M24, n: pl.Scalar[pl.INT32], out: pl.Out[M24]):
    buffer = pl.create_tensor([n, 4], dtype=pl.FP32)  # refused
    for i in pl.range(2):
        with pl.at(level=pl.Level.CORE_GROUP):
            buffer[i : i + 1, :] = x[i : i + 1, :]  # refused too
            out[i : i + 1, :] = buffer[i : i + 1, :]


@pl.jit
def reshapes_to_an_unknown_number_of_rows(x: M24, n: pl.Scalar[pl.INT32], out: pl.Out[M24]):
    rows = pl.reshape(x, [n, 2])  # refused
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.reshape(rows[0:4, :], [2, 4])


@pytest.mark.parametrize("check", [True, False])
def test_extents_known_only_at_run_time_are_compared_then(check):
    with pypto.override(check=check):
        _compares_run_time_extents()


def _compares_run_time_extents():
    assert copies_rows_of_unknown_number(X).tolist() == X.tolist()
    untouched("PL301", copies_rows_of_unknown_number, np.ones((3, 4), np.float32), sevens(2, 4), at="out[:]")
    assert reshapes_to_an_unknown_number_of_rows(X, 4).tolist() == X.tolist()
    untouched("PL301", reshapes_to_an_unknown_number_of_rows, X.copy(), 5, sevens(2, 4), at="pl.reshape(x, [n, 2])")


@pytest.mark.parametrize("check", [True, False])
def test_a_buffer_has_the_extent_it_is_given_at_run_time(check):
    with pypto.override(check=check):
        _fills_a_buffer_of_a_run_time_extent()


def _fills_a_buffer_of_a_run_time_extent():
    assert creates_rows_of_unknown_number(X, 2).tolist() == X.tolist()
    at = "buffer[i : i + 1, :]"
    untouched("PL303", creates_rows_of_unknown_number, X.copy(), 1, sevens(2, 4), at=at, mark="# refused too")
    at = "pl.create_tensor([n, 4], dtype=pl.FP32)"
    untouched("PL303", creates_rows_of_unknown_number, X.copy(), -1, sevens(2, 4), at=at)


@pl.jit
def creates_a_buffer_of_two_unknown_extents(x: M24, n: pl.Scalar[pl.INT64], m: pl.Scalar[pl.INT64], out: pl.Out[M24]):
    buffer = pl.create_tensor([n, m, 4], dtype=pl.FP32)  # refused
    with pl.at(level=pl.Level.CORE_GROUP):
        buffer[0:1, 0:1, :] = pl.reshape(x[1:2, :], [1, 1, 4])
        out[:] = pl.add(x, pl.reshape(buffer[0:1, 0:1, :], [1, 4]))


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("extents", [(1 << 60, 2), (1 << 32, 1 << 32), (1 << 62, 1 << 62), ((1 << 60) + 1, 1)], ids=str)
def test_a_buffer_of_more_bytes_than_there_are_is_refused(extents, check):
    with pypto.override(check=check):
        assert creates_a_buffer_of_two_unknown_extents(X, 1, 2).tolist() == (X + X[1]).tolist()
        error = untouched("PL407", creates_a_buffer_of_two_unknown_extents, X.copy(), *extents, sevens(2, 4), at=AT_BUFFER)
    assert isinstance(error, MemoryError) and f"{extents[0] * extents[1] * 16:,} bytes" in error.message


AT_BUFFER = "pl.create_tensor([n, m, 4], dtype=pl.FP32)"


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
