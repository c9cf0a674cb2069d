"""Rules R5 to R7 of the value model: what nobody wrote, the level of a value, and scalars."""

from __future__ import annotations

import numpy as np
import pytest

import pypto.language as pl
from pypto.core.avals import TILE
from tests.refusals import refused
from tests.ways import every_way

CORE = pl.Level.CORE_GROUP
T = pl.Tensor[[4, 8], pl.FP32]
Flag = pl.Scalar[pl.INT32]
X = np.arange(32, dtype=np.float32).reshape(4, 8)


# ---- R5: reading what nobody wrote is legal while nobody can see it ------------------------------------------------


@pl.jit
def padding_is_computed_and_dropped(x: T, n: Flag, out: pl.Out[pl.Tensor[[4, 1], pl.FP32]]):
    with pl.at(level=CORE):
        t = pl.slice(x, [4, 16], [0, 0], valid_shape=[4, n])
        doubled = pl.exp(pl.muls(t, 0.0)) * 2.0
        out[:, :] = pl.row_sum(doubled)


@pytest.mark.parametrize("n", [1, 3, 8])
def test_padded_lanes_are_computed_with_and_do_not_reach_a_reduction(n: int):
    assert every_way(padding_is_computed_and_dropped, X, n).tolist() == [[2.0 * n]] * 4


@pl.jit
def rows_past_the_count_are_masked(x: T, n: Flag, out: pl.Out[T]):
    scratch = pl.create_tensor([4, 8], dtype=pl.FP32)
    for r in pl.range(n):
        with pl.at(level=CORE):
            scratch[r : r + 1, :] = x[r : r + 1, :]
    with pl.at(level=CORE):
        t = pl.adds(scratch, 1.0)
        out[:, :] = pl.fillpad(pl.set_validshape(t, n, 8))


def test_rows_above_the_active_count_may_be_computed_and_masked():
    expected = X + 1
    expected[2:] = 0
    assert (every_way(rows_past_the_count_are_masked, X, 2) == expected).all()


@pl.jit
def an_unwritten_row_is_stored(x: T, n: Flag, out: pl.Out[T]):
    scratch = pl.create_tensor([4, 8], dtype=pl.FP32)
    for r in pl.range(n):
        with pl.at(level=CORE):
            scratch[r : r + 1, :] = x[r : r + 1, :]
    with pl.at(level=CORE):
        out[:, :] = pl.adds(scratch, 1.0)  # refused


@pytest.mark.checked
def test_an_element_nobody_wrote_is_reported_where_it_reaches_an_output():
    assert (every_way(an_unwritten_row_is_stored, X, 4) == X + 1).all()
    refused("PL306", an_unwritten_row_is_stored, X, 3, at="out[:, :]")
    refused("PL306", an_unwritten_row_is_stored.eager, X, 3, at="out[:, :]")


@pl.jit
def an_unwritten_element_decides(x: T, out: pl.Out[T]):
    scratch = pl.create_tensor([1, 8], dtype=pl.INT32)
    row = pl.read(scratch, [0, 0])
    with pl.at(level=CORE):
        out[0:3, :] = x[0:3, :]
        out[row : row + 1, :] = x[3:4, :]  # refused


@pytest.mark.checked
def test_an_element_nobody_wrote_may_not_be_an_index():
    refused("PL306", an_unwritten_element_decides, X, at="out[row : row + 1, :]")


@pl.jit
def invalid_lanes_of_the_second_operand(x: T, n: Flag, out: pl.Out[T]):
    with pl.at(level=CORE):
        t = pl.set_validshape(x[:, :], n, 8)
        out[:, :] = pl.add(x, t)  # refused


@pytest.mark.checked
def test_a_lane_that_is_not_valid_in_any_operand_may_not_reach_an_output():
    assert (every_way(invalid_lanes_of_the_second_operand, X, 4) == X + X).all()
    refused("PL306", invalid_lanes_of_the_second_operand, X, 3, at="out[:, :]")


# ---- R6: a region value has a level --------------------------------------------------------------------------------


@pl.jit
def a_tensor_level_comparison(x: T, out: pl.Out[T]):
    with pl.at(level=CORE):
        big = pl.cmp(x[:, :], 15.0, pl.CmpType.GT)
        out[:, :] = pl.mul(big, x)


def test_cmp_gives_numbers_at_tensor_level():
    assert (every_way(a_tensor_level_comparison, X) == np.where(X > 15, X, 0)).all()


@pl.jit
def a_tile_level_comparison(x: T, out: pl.Out[T]):
    with pl.at(level=CORE):
        t = pl.load(x, [0, 0], [4, 8])
        mask = pl.cmp(t, 15.0, pl.CmpType.GT)
        out[:, :] = pl.sel(mask, t, pl.neg(t))


def test_cmp_gives_a_mask_for_sel_at_tile_level():
    assert (every_way(a_tile_level_comparison, X) == np.where(X > 15, X, -X)).all()


@pl.jit
def a_mask_is_multiplied(x: T, out: pl.Out[T]):
    with pl.at(level=CORE):
        t = pl.load(x, [0, 0], [4, 8])
        out[:, :] = pl.mul(pl.cmp(t, 15.0, pl.CmpType.GT), t)  # refused


def test_a_mask_is_no_number():
    refused("PL302", a_mask_is_multiplied, X, at="pl.mul(pl.cmp(t, 15.0, pl.CmpType.GT), t)")


@pl.jit
def the_levels_are_mixed(x: T, out: pl.Out[T]):
    with pl.at(level=CORE):
        t = pl.load(x, [0, 0], [4, 8])
        mixed = pl.add(x[:, :], t)
        out[:, :] = pl.sel(pl.cmp(mixed, 31.0), mixed, 0.0)


def test_mixing_the_levels_gives_a_tile():
    assert (every_way(the_levels_are_mixed, X) == 0).all()
    (mixed,) = [e.outs[0] for e in the_levels_are_mixed.trace().walk() if e.op.name == "add"]
    assert mixed.aval.level == TILE


@pl.jit
def the_level_is_spelled(x: T, out: pl.Out[T]):
    with pl.at(level=CORE):
        t = pl.load(x, [0, 0], [4, 8])
        numbers = pl.tensor.cmp(t, 15.0, pl.CmpType.GT)
        mask = pl.tile.cmp(x[:, :], 15.0, pl.CmpType.LE)
        out[:, :] = pl.add(pl.mul(numbers, 100.0), pl.tile.sel(mask, x[:, :], 0.0))


def test_a_spelling_with_its_level_takes_operands_of_both():
    assert (every_way(the_level_is_spelled, X) == np.where(X > 15, 100, X)).all()


@pl.jit
def a_reduction_at_both_levels(x: T, out: pl.Out[pl.Tensor[[4, 1], pl.FP32]]):
    with pl.at(level=CORE):
        t = pl.load(x, [0, 0], [4, 8])
        tmp = pl.create_tile([4, 8], dtype=pl.FP32)
        out[:, :] = pl.sub(pl.row_sum(t, tmp), pl.row_sum(x[:, :]))


def test_row_sum_takes_a_scratch_tile_at_tile_level_and_none_at_tensor_level():
    assert (every_way(a_reduction_at_both_levels, X) == 0).all()


# ---- R7: scalars promote, tensors do not ---------------------------------------------------------------------------


@pl.jit
def every_read_is_fresh(ctr: pl.InOut[pl.Tensor[[1, 4], pl.INT32]], x: T, out: pl.Out[T]):
    for i in pl.range(4):
        slot = ctr[0, 0]
        ctr[0, 0] = slot + 1
        row = slot + 0
        with pl.at(level=CORE):
            out[row : row + 1, :] = x[3 - i : 4 - i, :]


def test_a_scalar_that_was_read_keeps_its_value_when_the_element_is_written():
    ctr, out = every_way(every_read_is_fresh, np.zeros((1, 4), np.int32), X, np.zeros_like(X))
    assert ctr.tolist() == [[4, 0, 0, 0]]
    assert (out == X[::-1]).all()


B, S = pl.dynamic("B"), pl.dynamic("S")


@pl.jit
def products_of_symbols(x: pl.Tensor[[B, S, 8], pl.FP32], out: pl.Out[pl.Tensor[[B, S, 8], pl.FP32]]):
    x.bind_dynamic(0, B)
    x.bind_dynamic(1, S)
    b_dim = pl.tensor.dim(x, 0)
    s_dim = pl.tensor.dim(x, 1)
    flat = pl.reshape(x, [b_dim * s_dim, 8])
    rows = pl.reshape(out, [b_dim * s_dim, 8])
    for b in pl.range(b_dim):
        for s in pl.range(s_dim):
            r = b * s_dim + s
            with pl.at(level=CORE):
                rows[r : r + 1, :] = pl.muls(flat[s_dim * b + s : r + 1, :], 2.0)


@pytest.mark.parametrize("shape", [(1, 1, 8), (2, 3, 8), (3, 2, 8)])
def test_index_scalars_multiply_symbols_and_extents_are_known(shape: tuple[int, ...]):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    assert (every_way(products_of_symbols, x, np.zeros(shape, np.float32)) == x * 2).all()


@pl.jit
def quotients_are_equal_when_their_operands_are(x: pl.Tensor[[16, 8], pl.FP32], n: Flag, out: pl.Out[pl.Tensor[[16, 8], pl.FP32]]):
    for block in pl.spmd(8):
        lo = block // 2 * 4 + block % 2 * 2
        top = pl.min(n, 4) * 2
        out[lo : 2 * (block % 2) + 4 * (block // 2) + 2, :] = pl.adds(x[lo : lo + 2, :], 1.0)
        out[lo : lo + top - 2 * pl.min(n, 4) + 1, :] = x[lo : lo + 1, :]


def test_quotients_remainders_and_minima_of_equal_operands_are_equal():
    x = np.arange(128, dtype=np.float32).reshape(16, 8)
    expected = x + np.arange(16)[:, None] % 2
    assert (every_way(quotients_are_equal_when_their_operands_are, x, 3) == expected).all()


@pl.jit
def an_extent_known_at_run_time_only(x: T, n: Flag, out: pl.Out[T]):
    with pl.at(level=CORE):
        out[0:n, :] = x[0:n, :]  # refused


def test_a_tile_whose_extent_is_known_at_run_time_only_is_refused():
    refused("PL304", an_extent_known_at_run_time_only, X, 2, at="x[0:n, :]")


@pl.jit
def scalars_promote(a: pl.Scalar[pl.INT32], b: pl.Scalar[pl.INT64], out: pl.Out[pl.Tensor[[1, 8], pl.INT64]]):
    with pl.at(level=CORE):
        t = pl.full([1, 8], dtype=pl.INT64, value=0)
        for i in pl.range(4):
            pl.write(t, [0, i], a + b + i * 2)
        pl.write(t, [0, 4], pl.max(a, b))
        pl.write(t, [0, 5], a // 3)
        pl.write(t, [0, 6], a % 3)
        out[:, :] = t


def test_index_absorbs_integers_and_the_wider_integer_wins():
    result = every_way(scalars_promote, -7, 2**40)
    assert result.tolist() == [[2**40 - 7, 2**40 - 5, 2**40 - 3, 2**40 - 1, 2**40, -3, 2, 0]]


@pl.jit
def an_annotation_fixes_the_dtype(n: pl.Tensor[[1, 4], pl.INT32], out: pl.Out[pl.Tensor[[1, 1], pl.INT64]]):
    m: pl.Scalar[pl.INT64] = 0
    for b in pl.range(4):
        m = pl.max(m, n[0, b])
    out[0, 0] = m


def test_an_annotated_number_keeps_its_dtype_through_a_carry():
    assert every_way(an_annotation_fixes_the_dtype, np.array([[3, 9, 2, 5]], np.int32)).tolist() == [[9]]
    (loop,) = [e for e in an_annotation_fixes_the_dtype.trace().walk() if e.op.name == "loop"]
    assert [str(v.aval) for v in loop.outs] == ["i64"]


@pl.jit
def true_division_of_integers(a: Flag, out: pl.Out[T]):
    out[0, 0] = a / 2  # refused


@pl.jit
def true_division_of_floats(a: pl.Scalar[pl.FP32], out: pl.Out[pl.Tensor[[1, 1], pl.FP32]]):
    out[0, 0] = a / 3.0


def test_a_slash_is_for_floats_and_is_one_fp32_operation():
    refused("PL305", true_division_of_integers, 4, at="a / 2")
    assert every_way(true_division_of_floats, 1.0).tolist() == [[float(np.float32(1) / np.float32(3))]]


@pl.jit
def tiles_do_not_promote(x: T, y: pl.Tensor[[4, 8], pl.BF16], out: pl.Out[T]):
    with pl.at(level=CORE):
        out[:, :] = pl.add(x, y)  # refused


@pl.jit
def an_index_meets_a_tile(x: T, out: pl.Out[T]):
    with pl.at(level=CORE):
        for i in pl.range(4):
            out[i : i + 1, :] = pl.muls(x[i : i + 1, :], i)  # refused


def test_tiles_of_two_dtypes_or_a_tile_and_an_index_need_a_cast():
    import ml_dtypes

    refused("PL302", tiles_do_not_promote, X, X.astype(ml_dtypes.bfloat16), at="pl.add(x, y)")
    refused("PL302", an_index_meets_a_tile, X, at="pl.muls(x[i : i + 1, :], i)")
