"""Reported faults about shapes and views (cases C45-C47): valid regions and layouts."""

import ml_dtypes
import numpy as np
import pytest

import pypto.language as pl
from tests.refusals import f32, reports, sevens, untouched

# C45: the valid region survives every operation.

M24 = pl.Tensor[[2, 4], pl.FP32]
M44 = pl.Tensor[[4, 4], pl.FP32]
TWO_ROWS = f32([1, 2, 3, 4], [5, 6, 7, 8])


@pl.jit
def sums_the_valid_rows(x: pl.Tensor[[2, 4], pl.BF16], out: pl.Out[pl.Tensor[[4, 1], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 4], valid_shape=[2, 4])
        out[:] = pl.row_sum(pl.mul(pl.cast(t, pl.FP32), 1.0))


@pl.jit
def reshapes_the_valid_rows(x: pl.Tensor[[1, 2, 4], pl.FP32], out: pl.Out[M44]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0, 0], [1, 4, 4], valid_shape=[1, 2, 4])
        pl.store(pl.reshape(t, [4, 4]), [0, 0], out)


@pl.jit
def sums_run_time_rows(x: M44, rows: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[4, 1], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 4], valid_shape=[rows, 4])
        out[:] = pl.row_sum(pl.mul(pl.neg(t), -1.0))


def test_only_the_valid_rows_are_summed_and_stored():  # C45
    out = sevens(4, 1)
    with reports("PL204") as found:
        sums_the_valid_rows(TWO_ROWS.astype(ml_dtypes.bfloat16), out)
    assert "`out[2:4, 0]`" in found[0]
    assert out.tolist() == [[10], [26], [-7], [-7]]


def test_the_valid_region_survives_a_reshape():  # C45
    out = sevens(4, 4)
    with reports("PL204"):
        reshapes_the_valid_rows(TWO_ROWS.reshape(1, 2, 4), out)
    assert out.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8], [-7] * 4, [-7] * 4]


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_valid_region_known_only_at_run_time_survives(rows):  # C45
    out = sevens(4, 1)
    with reports("PL204"):
        sums_run_time_rows(np.ones((4, 4), np.float32), rows, out)
    assert out.tolist() == [[4]] * rows + [[-7]] * (4 - rows)


KEEP = {
    "neg": lambda t: pl.neg(t),
    "abs": lambda t: pl.abs(pl.neg(t)),
    "exp": lambda t: pl.exp(t),
    "add itself": lambda t: pl.add(t, t),
    "add a number": lambda t: t + 1.0,
    "maximum": lambda t: pl.maximum(t, pl.neg(t)),
    "cast twice": lambda t: pl.cast(pl.cast(t, pl.BF16), pl.FP32),
    "row_expand_mul": lambda t: pl.row_expand_mul(t, pl.row_max(t)),
    "row_expand_sub": lambda t: pl.row_expand_sub(t, pl.row_sum(t)),
    "col_expand_add": lambda t: pl.col_expand_add(t, pl.col_sum(t)),
    "reshape": lambda t: pl.reshape(pl.reshape(t, [1, 4, 4]), [4, 4]),
    "transpose twice": lambda t: pl.transpose(pl.transpose(t, 0, 1), 0, 1),
    "slice": lambda t: t[0:4, 0:4],
    "sel": lambda t: pl.sel(pl.cmp(t, pl.neg(t), pl.CmpType.GT), t, pl.neg(t)),
}
MEANT = {
    "neg": lambda x: -x,
    "abs": lambda x: x,
    "exp": lambda x: np.exp(x.astype(np.float64)).astype(np.float32),
    "add itself": lambda x: x + x,
    "add a number": lambda x: x + 1,
    "maximum": lambda x: x,
    "cast twice": lambda x: x,
    "row_expand_mul": lambda x: x * x.max(1, keepdims=True),
    "row_expand_sub": lambda x: x - x.sum(1, keepdims=True),
    "col_expand_add": lambda x: x + x.sum(0, keepdims=True),
    "reshape": lambda x: x,
    "transpose twice": lambda x: x,
    "slice": lambda x: x,
    "sel": lambda x: x,
}


def keeping(op):
    @pl.jit
    def keeps(x: M24, out: pl.Out[M44]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = op(pl.load(x, [0, 0], [4, 4], valid_shape=[2, 4]))

    return keeps


@pytest.mark.parametrize("name", KEEP)
def test_what_is_stored_after_an_operation_is_its_valid_region(name):  # C45
    out = sevens(4, 4)
    with reports("PL204") as found:
        keeping(KEEP[name])(TWO_ROWS, out)
    assert "`out[2:4, 0:4]`" in found[0]
    assert out[:2].tobytes() == MEANT[name](TWO_ROWS).tobytes()
    assert (out[2:] == -7).all()


@pytest.mark.parametrize("name", KEEP)
def test_the_eager_body_keeps_the_same_valid_region(name):  # C45
    out = sevens(4, 4)
    with reports("PL204"):
        keeping(KEEP[name]).eager(TWO_ROWS, out)
    assert out[:2].tobytes() == MEANT[name](TWO_ROWS).tobytes()
    assert (out[2:] == -7).all()


# C46: a slice of a transposed tensor is a slice of what it shows.

M32 = pl.Tensor[[3, 2], pl.FP32]


@pl.jit
def takes_rows_of_a_transposed_view(x: M32, out: pl.Out[M32]):
    xt = pl.transpose(x, 0, 1)
    for h in pl.range(2):
        column = pl.reshape(xt[h : h + 1, :], [3, 1])
        with pl.at(level=pl.Level.CORE_GROUP):
            out = pl.assemble(out, column, [0, h])


@pl.jit
def takes_rows_of_a_transposed_tile(x: M32, out: pl.Out[M32]):
    with pl.at(level=pl.Level.CORE_GROUP):
        xt = pl.transpose(pl.load(x, [0, 0], [3, 2]), 0, 1)
        for h in pl.range(2):
            out = pl.assemble(out, pl.reshape(xt[h : h + 1, :], [3, 1]), [0, h])


@pl.jit
def takes_rows_of_a_view_inside_a_region(x: M32, out: pl.Out[M32]):
    with pl.at(level=pl.Level.CORE_GROUP):
        xt = pl.transpose(x, 0, 1)
        for h in pl.range(2):
            out[:, h : h + 1] = pl.reshape(xt[h : h + 1, :], [3, 1])


@pl.jit
def writes_through_a_transposed_view(x: M32, out: pl.Out[M32]):
    turned = pl.transpose(out, 0, 1)
    with pl.at(level=pl.Level.CORE_GROUP):
        turned[:] = pl.transpose(pl.load(x, [0, 0], [3, 2]), 0, 1)


@pl.jit
def reshapes_a_transposed_view_to_a_flat_one(x: M32, out: pl.Out[pl.Tensor[[1, 6], pl.FP32]]):
    flat = pl.reshape(pl.transpose(x, 0, 1), [1, 6])  # refused
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = flat


@pl.jit
def reshapes_a_transposed_tile_to_a_flat_one(x: M32, out: pl.Out[pl.Tensor[[1, 6], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.reshape(pl.transpose(pl.load(x, [0, 0], [3, 2]), 0, 1), [1, 6])


@pytest.mark.parametrize(
    "kernel",
    [
        takes_rows_of_a_transposed_view,
        takes_rows_of_a_transposed_tile,
        takes_rows_of_a_view_inside_a_region,
        writes_through_a_transposed_view,
    ],
)
def test_slices_and_reshapes_of_a_transposed_value_read_what_it_shows(kernel):  # C46
    x = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    assert kernel(x).tolist() == x.tolist()
    assert kernel.eager(x).tolist() == x.tolist()


def test_a_view_whose_elements_are_not_in_order_cannot_be_flattened():  # C46
    x = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    at = "pl.reshape(pl.transpose(x, 0, 1), [1, 6])"
    untouched("PL301", reshapes_a_transposed_view_to_a_flat_one, x, sevens(1, 6), at=at)


def test_a_transposed_tile_is_flattened_in_its_own_order():  # C46
    x = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    assert reshapes_a_transposed_tile_to_a_flat_one(x).tolist() == [[1, 3, 5, 2, 4, 6]]


# C47: a column group of a wide tensor as a matmul operand.


@pl.jit
def multiplies_a_column_group(x: M24, eye: pl.Tensor[[2, 2], pl.FP32], out: pl.Out[pl.Tensor[[2, 2], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(x[:, 2:4], eye)


@pl.jit
def multiplies_by_a_transposed_column_group(a: pl.Tensor[[1, 2], pl.FP32], x: M24, out: pl.Out[pl.Tensor[[1, 2], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(a, x[:, 2:4], b_trans=True)


@pl.jit
def multiplies_a_column_view(x: M24, eye: pl.Tensor[[2, 2], pl.FP32], out: pl.Out[pl.Tensor[[2, 2], pl.FP32]]):
    group = x[:, 2:4]
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(group, eye)


@pl.jit
def multiplies_a_run_time_column_group(
    x: M24, eye: pl.Tensor[[2, 2], pl.FP32], c: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[2, 2], pl.FP32]]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.matmul(x[:, c : c + 2], eye)


EYE = np.eye(2, dtype=np.float32)


@pytest.mark.parametrize("kernel", [multiplies_a_column_group, multiplies_a_column_view])
def test_a_column_group_times_the_identity_is_itself(kernel):  # C47
    assert kernel(TWO_ROWS, EYE).tolist() == [[3, 4], [7, 8]]


def test_a_column_group_as_the_transposed_operand():  # C47
    assert multiplies_by_a_transposed_column_group(f32([[1, 1]]), TWO_ROWS).tolist() == [[7, 15]]


@pytest.mark.parametrize(("c", "expected"), [(0, [[1, 2], [5, 6]]), (1, [[2, 3], [6, 7]]), (2, [[3, 4], [7, 8]])])
def test_a_column_group_at_a_run_time_offset(c, expected):  # C47
    assert multiplies_a_run_time_column_group(TWO_ROWS, EYE, c).tolist() == expected
