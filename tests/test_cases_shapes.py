"""Reported faults about shapes and views (cases C45-C47, C51, C54): valid regions, layouts, bounds."""

import ml_dtypes
import numpy as np
import pytest

import pypto.language as pl
from tests.refusals import f32, refused, reports, sevens, untouched

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


# C51: a window past the extent is an error with the numbers; the valid part can be asked for.

X34 = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
M34 = pl.Tensor[[3, 4], pl.FP32]


@pl.jit
def loads_past_the_end(x: M34, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.load(x, [2, 0], [2, 4])  # refused


@pl.jit
def slices_past_the_end(x: M34, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x[2:4, :]  # refused


@pl.jit
def views_past_the_end(x: M34, out: pl.Out[M24]):
    rows = x[2:4, :]  # refused
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = rows


@pl.jit
def loads_past_the_end_at_run_time(x: M34, r: pl.Scalar[pl.INT32], out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.load(x, [r, 0], [2, 4])  # refused


@pl.jit
def views_past_the_end_at_run_time(x: M34, r: pl.Scalar[pl.INT32], out: pl.Out[M24]):
    rows = x[r : r + 2, :]  # refused
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = rows


@pl.jit
def loads_the_valid_row(x: M34, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.load(x, [2, 0], [2, 4], valid_shape=[1, 4])


@pl.jit
def covers_whole_tiles_only(x: M34, out: pl.Out[M34]):
    for r in pl.range(3 // 2):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[r * 2 : r * 2 + 2, :] = x[r * 2 : r * 2 + 2, :]


@pl.jit
def covers_the_tail_too(x: M34, out: pl.Out[M34]):
    for r in pl.range(0, 3, 2):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [r, 0], [2, 4], valid_shape=[pl.min(2, 3 - r), 4])
            pl.store(t, [r, 0], out)


@pytest.mark.parametrize(
    ("kernel", "at"),
    [(loads_past_the_end, "pl.load(x, [2, 0], [2, 4])"), (slices_past_the_end, "x[2:4, :]"), (views_past_the_end, "x[2:4, :]")],
)
def test_a_window_past_the_extent_is_refused_when_it_is_traced(kernel, at):  # C51 (a)
    error = untouched("PL303", kernel, X34.copy(), sevens(2, 4), at=at)
    for part in ("rows 2:4", "extent 3", "`x`"):
        assert part in error.message
    assert "valid_shape=" in error.fix and "1" in error.fix
    refused("PL303", kernel.trace, at=at)


@pytest.mark.parametrize(
    ("kernel", "at"),
    [(loads_past_the_end_at_run_time, "pl.load(x, [r, 0], [2, 4])"), (views_past_the_end_at_run_time, "x[r : r + 2, :]")],
)
def test_a_window_past_the_extent_at_run_time_is_refused_with_its_numbers(kernel, at):  # C51 (a)
    out = sevens(2, 4)
    kernel(X34, 1, out)
    assert out.tolist() == X34[1:3].tolist()
    error = untouched("PL303", kernel, X34.copy(), 2, sevens(2, 4), at=at)
    for part in ("rows 2:4", "extent 3", "`x`"):
        assert part in error.message
    untouched("PL303", kernel, X34.copy(), -1, sevens(2, 4), at=at)


def test_with_a_valid_shape_only_the_valid_row_is_used():  # C51 (a)
    out = sevens(2, 4)
    with reports("PL204") as found:
        loads_the_valid_row(X34, out)
    assert "`out[1, 0:4]`" in found[0]
    assert out.tolist() == [[9, 10, 11, 12], [-7] * 4]


def test_a_tail_dropped_by_floor_division_is_reported():  # C51 (b)
    out = sevens(3, 4)
    with reports("PL204") as found:
        covers_whole_tiles_only(X34, out)
    assert "`out[2, 0:4]`" in found[0]
    assert out.tolist() == [*X34[:2].tolist(), [-7] * 4]


def test_a_tail_with_a_valid_shape_covers_everything():  # C51 (b)
    out = sevens(3, 4)
    covers_the_tail_too(X34, out)
    assert out.tolist() == X34.tolist()


# C54: start and size are checked together.

V8 = pl.Tensor[[8], pl.FP32]


@pl.jit
def fills_past_the_end(out: pl.Out[V8]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.full([8], dtype=pl.FP32, value=0)
        t[6:12] = 7  # refused
        out[:] = t


@pl.jit
def fills_past_the_end_at_run_time(r: pl.Scalar[pl.INT32], out: pl.Out[V8]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.full([8], dtype=pl.FP32, value=0)
        t[r : r + 6] = 7  # refused
        out[:] = t


@pl.jit
def stores_past_the_end(x: V8, out: pl.Out[V8]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        out[6:12] = x[0:6]  # refused


@pl.jit
def stores_past_the_end_at_run_time(x: V8, r: pl.Scalar[pl.INT32], out: pl.Out[V8]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        out[r : r + 6] = x[0:6]  # refused


@pl.jit
def writes_one_element_past_the_end(x: V8, r: pl.Scalar[pl.INT32], out: pl.Out[V8]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        pl.write(out, [r], 1.0)  # refused


def test_a_store_past_the_end_of_a_tile_is_refused_when_it_is_traced():  # C54
    error = untouched("PL303", fills_past_the_end, sevens(8), at="t[6:12]")
    assert "6:12" in error.message and "extent 8" in error.message and "`t`" in error.message
    error = untouched("PL303", stores_past_the_end, f32(*range(8)), sevens(8), at="out[6:12]")
    assert "6:12" in error.message and "extent 8" in error.message and "`out`" in error.message


def test_a_store_past_the_end_at_a_run_time_offset_is_refused_with_its_value():  # C54
    assert fills_past_the_end_at_run_time(2).tolist() == [0, 0, 7, 7, 7, 7, 7, 7]
    for start in (3, 6, -1):
        error = untouched("PL303", fills_past_the_end_at_run_time, start, sevens(8), at="t[r : r + 6]")
        assert f"{start}:{start + 6}" in error.message and "extent 8" in error.message and "`t`" in error.message
        error = untouched("PL303", stores_past_the_end_at_run_time, f32(*range(8)), start, sevens(8), at="out[r : r + 6]")
        assert f"{start}:{start + 6}" in error.message and "`out`" in error.message


@pytest.mark.parametrize("r", [8, 100, -1])
def test_a_scalar_write_past_the_end_is_refused_with_its_index(r):  # C54
    error = untouched("PL303", writes_one_element_past_the_end, f32(*range(8)), r, sevens(8), at="pl.write(out, [r], 1.0)")
    assert f"{r}" in error.message and "extent 8" in error.message
