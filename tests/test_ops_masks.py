"""Comparison, selection, partly valid operands, and the keywords of one level: where the language says more than `pypto.lax`."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import lax
from pypto.errors import LevelError, ShapeError
from tests.bits import identical
from tests.refusals import f32, refused, reports, sevens

BF16 = ml_dtypes.bfloat16
ROW = pl.Tensor[[1, 8], pl.FP32]
INTEGER_ROW = pl.Tensor[[1, 8], pl.INT32]
X = f32([1, 0, 2, 0, -1, 5, np.nan, -0.0]).reshape(1, 8)
CODES = {0: np.equal, 1: np.not_equal, 2: np.less, 3: np.less_equal, 4: np.greater, 5: np.greater_equal}
NAMES = ("EQ", "NE", "LT", "LE", "GT", "GE")


def comparing(kind, dtype):
    shape = pl.Tensor[[1, 8], dtype]

    @pl.jit
    def compares(x: shape, y: shape, numbers: pl.Out[shape], chosen: pl.Out[shape]):
        with pl.at(level=pl.Level.CORE_GROUP):
            numbers[:] = pl.cmp(x, y, kind)
            a = pl.load(x, [0, 0], [1, 8])
            chosen[:] = pl.sel(pl.cmp(a, pl.load(y, [0, 0], [1, 8]), cmp_type=kind), a, 7)

    return compares


@pytest.mark.parametrize("code", CODES)
def test_a_comparison_is_0_or_1_at_tensor_level_and_a_mask_at_tile_level(code):
    y = np.roll(X, 1)
    with np.errstate(all="ignore"):
        want = CODES[code](X, y)
    for kind in (code, pl.CmpType(code), NAMES[code], NAMES[code].lower()):
        numbers, chosen = comparing(kind, pl.FP32)(X, y)
        assert identical(numbers, want.astype(np.float32)) and identical(chosen, np.where(want, X, np.float32(7)))


@pytest.mark.parametrize("dtype", [pl.FP16, pl.BF16, pl.INT16, pl.INT32, pl.UINT8, pl.INT64])
def test_a_comparison_gives_numbers_of_the_operands_dtype(dtype):
    x, y = (np.array([v], dtype.storage) for v in ([1, 2, 3, 4, 5, 6, 7, 8], [8, 7, 3, 4, 1, 6, 0, 9]))
    with pypto.override(platform="cpu"):
        numbers, _ = comparing(pl.CmpType.LE, dtype)(x, y)
    assert identical(numbers, np.array([[1, 1, 1, 1, 0, 1, 0, 1]], dtype.storage))


@pl.jit
def compares_with_a_float(x: INTEGER_ROW, out: pl.Out[ROW]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.cmp(x, 0.5, pl.CmpType.GT)


def test_an_integer_tile_compared_with_a_float_is_compared_in_fp32():
    x = np.array([[0, 1, -1, 2] * 2], np.int32)
    assert identical(compares_with_a_float(x), (x > 0.5).astype(np.float32))


@pytest.mark.parametrize("kind", [6, -1, "IS", True, None])
def test_another_comparison_is_refused(kind):
    with pytest.raises(ShapeError) as caught:
        pl.cmp(X, X, kind)
    assert caught.value.code == "PL308"


@pl.jit
def casts_a_mask(x: ROW, out: pl.Out[ROW]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.cast(pl.cmps(x, 0.0, pl.CmpType.EQ), pl.FP32)  # refused


@pl.jit
def adds_to_a_mask(x: ROW, out: pl.Out[ROW]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(pl.cmps(x, 0.0), 1.0)  # refused


@pl.jit
def selects_numbers(x: ROW, out: pl.Out[ROW], counts: pl.Out[INTEGER_ROW]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.sel(pl.cmps(x, 0.0), 1.0, 0.0)
        counts[:] = pl.sel(pl.cmps(x, 0.0), 1, 0)


def test_a_mask_is_no_number_and_sel_makes_one_of_it():  # C40
    refused("PL305", casts_a_mask, X, at="pl.cast(pl.cmps(x, 0.0, pl.CmpType.EQ), pl.FP32)")
    refused("PL305", adds_to_a_mask, X, at="pl.add(pl.cmps(x, 0.0), 1.0)")
    out, counts = selects_numbers(X)
    assert identical(out, f32([0, 1, 0, 1, 0, 0, 0, 1]).reshape(1, 8)) and np.asarray(counts).tolist() == [[0, 1, 0, 1, 0, 0, 0, 1]]


@pl.jit
def combines_masks(x: ROW, out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a, b = pl.cmps(x, 0.0, pl.CmpType.GE), pl.cmps(x, 1.0, pl.CmpType.LE)
        tmp = pl.create_tile([1, 32], pl.UINT8)
        out[0:1, :] = pl.sel(pl.and_(a, b), x, 9.0, tmp)
        out[1:2, :] = pl.sels(pl.or_(a, b), x, tmp, 9.0)
        out[2:3, :] = pl.sel(pl.xor(a, b), x, 9.0)
        out[3:4, :] = pl.sel(lax.is_finite(x), x, 9.0)


def test_masks_combine_bit_by_bit():
    x = np.where(np.isnan(X), np.float32(np.inf), X)
    a, b = x >= 0, x <= 1
    out = np.asarray(combines_masks(x))
    for row, mask in zip(out, (a & b, a | b, a ^ b, np.isfinite(x)), strict=True):
        assert identical(row[None], np.where(mask, x, np.float32(9)))


@pl.jit
def chooses_by_scalars(x: ROW, n: pl.Scalar[pl.INT32], s: pl.Scalar[pl.FP32], out: pl.Out[ROW]):
    with pl.at(level=pl.Level.CORE_GROUP):
        if pl.cmp(n, 3, pl.CmpType.GE):
            out[:] = pl.add(x, pl.sel(pl.cmp(s, 0.5, "lt"), 1.0, 2.0))
        else:
            out[:] = x * 0.0


def test_scalars_are_compared_to_a_truth_value():
    ones = np.ones((1, 8), np.float32)
    for n, s, want in ((3, 0.25, 2.0), (4, 0.5, 3.0), (2, 0.5, 0.0)):
        assert (np.asarray(chooses_by_scalars(ones, n, s)) == want).all()


# Valid regions of comparisons and selections


M44 = pl.Tensor[[4, 8], pl.FP32]


@pl.jit
def compares_a_part(x: M44, numbers: pl.Out[M44], chosen: pl.Out[M44]):
    with pl.at(level=pl.Level.CORE_GROUP):
        part = pl.slice(x, [4, 8], [0, 0], valid_shape=[2, 5])
        numbers[:] = pl.cmp(part, 3.0, pl.CmpType.LT)
        t = pl.load(x, [0, 0], [4, 8], valid_shape=[2, 5])
        chosen[:] = pl.sel(pl.cmp(t, 3.0, pl.CmpType.LT), 1.0, -1.0)


def test_the_result_of_a_partly_valid_comparison_is_valid_where_its_operands_are():  # C45
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    numbers, chosen = sevens(4, 8), sevens(4, 8)
    with reports("PL204", "PL204"):
        compares_a_part(x, numbers, chosen)
    inside = np.zeros((4, 8), bool)
    inside[:2, :5] = True
    assert identical(numbers, np.where(inside, (x < 3).astype(np.float32), np.float32(-7)))
    assert identical(chosen, np.where(inside, np.where(x < 3, np.float32(1), np.float32(-1)), np.float32(-7)))


@pl.jit
def selects_a_part(x: M44, out: pl.Out[M44]):
    with pl.at(level=pl.Level.CORE_GROUP):
        mask = pl.cmp(pl.load(x, [0, 0], [4, 8]), 3.0, pl.CmpType.LT)
        out[:] = pl.sel(mask, pl.load(x, [0, 0], [4, 8], valid_shape=[2, 5]), 9.0)


@pl.jit
def selects_by_a_part(x: M44, out: pl.Out[M44]):
    with pl.at(level=pl.Level.CORE_GROUP):
        mask = pl.cmp(pl.load(x, [0, 0], [4, 8], valid_shape=[2, 5]), 3.0, pl.CmpType.LT)
        out[:] = pl.sel(mask, pl.load(x, [0, 0], [4, 8]), 9.0)  # refused


@pytest.mark.checked
def test_the_valid_region_of_a_selection_is_that_of_what_is_selected():
    x, out = np.arange(32, dtype=np.float32).reshape(4, 8), sevens(4, 8)
    with reports("PL204"):
        selects_a_part(x, out)
    want = sevens(4, 8)
    want[:2, :5] = np.where(x < 3, x, 9)[:2, :5]
    assert identical(out, want)
    refused("PL306", selects_by_a_part, x, at="out[:]")


# The union of two valid regions

PARTS = {"part_add": np.add, "part_mul": np.multiply, "part_max": np.maximum, "part_min": np.minimum}


def joining(op, first, second):
    @pl.jit
    def joins(x: M44, y: M44, out: pl.Out[M44]):
        with pl.at(level=pl.Level.CORE_GROUP):
            a = pl.load(x, [0, 0], [4, 8], valid_shape=first)
            out[:] = op(a, pl.load(y, [0, 0], [4, 8], valid_shape=second))

    return joins


def union(meaning, x, y, first, second):
    """The box of both regions: what both have is combined, what one has is copied, what none has is 0; and the box."""
    box = tuple(map(max, first, second))
    result, places = np.zeros(box, np.float32), np.indices(box)
    a, b = ((places[0] < r) & (places[1] < c) for r, c in (first, second))
    x, y = x[: box[0], : box[1]], y[: box[0], : box[1]]
    return np.where(a & b, meaning(x, y), np.where(a, x, np.where(b, y, result))), box


@pytest.mark.parametrize("regions", [([2, 8], [4, 8]), ([4, 3], [2, 6]), ([1, 8], [4, 1]), ([4, 8], [4, 8]), ([0, 0], [2, 2])], ids=str)
@pytest.mark.parametrize("name", PARTS)
def test_where_one_tile_is_valid_it_is_copied_and_where_both_are_they_are_combined(name, regions):
    x, y = np.random.default_rng(0).standard_normal((2, 4, 8)).astype(np.float32)
    want, box = union(PARTS[name], x, y, *regions)
    for run in (joining(getattr(pl, name), *regions), joining(getattr(pl, name), *regions).eager):
        out = sevens(4, 8)
        with reports(*(["PL204"] if box != (4, 8) else [])):
            run(x, y, out)
        assert identical(out[: box[0], : box[1]], want)
        assert (out[box[0] :] == -7).all() and (out[:, box[1] :] == -7).all()


@pytest.mark.checked
def test_an_element_nobody_wrote_is_still_seen_in_a_union():
    @pl.jit
    def joins_the_unwritten(x: M44, out: pl.Out[M44]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.create_tile([4, 8], pl.FP32)
            out[:] = pl.part_add(t, pl.load(x, [0, 0], [4, 8]))  # refused

    refused("PL306", joins_the_unwritten, np.ones((4, 8), np.float32), at="out[:]")


def test_tiles_of_two_shapes_have_no_union():
    with pytest.raises(ShapeError) as caught:
        lax.part_add(np.ones((2, 2), np.float32), np.ones((1, 2), np.float32))
    assert caught.value.code == "PL301"


# Levels, scratch, spellings


@pl.jit
def uses_scratch(x: ROW, n: INTEGER_ROW, out: pl.Out[ROW], bits: pl.Out[INTEGER_ROW]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a, b = pl.load(x, [0, 0], [1, 8]), pl.load(n, [0, 0], [1, 8])
        tmp, other = pl.create_tile([1, 8], pl.FP32), pl.create_tile([1, 8], pl.INT32)
        out[:] = pl.prelu(pl.rem(pl.tile.rsqrt(a, tmp), a, tmp), a, tmp)
        bits[:] = pl.xors(pl.xor(b, b, other), 5, other)


def test_scratch_changes_nothing():
    x, n = f32([1, 4, 16, 64, 0.25, 100, 2, 3]).reshape(1, 8), np.arange(8, dtype=np.int32).reshape(1, 8)
    out, bits = uses_scratch(x, n)
    assert identical(out, lax.floor_mod(lax.rsqrt(x), x)) and (np.asarray(bits) == 5).all()
    assert "rsqrt[high_precision=True]" in str(uses_scratch.lower(x, n).as_ir())


def wrong_level(spelled):
    @pl.jit
    def calls(x: ROW, out: pl.Out[ROW]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = spelled(x[:], pl.load(x, [0, 0], [1, 8]))  # refused

    return calls


@pytest.mark.parametrize(
    "spelled",
    [
        lambda tensor, tile: pl.rsqrt(tensor, tile),
        lambda tensor, tile: pl.tensor.rsqrt(tile, tile),
        lambda tensor, tile: pl.rsqrt(tile, high_precision=True),
        lambda tensor, tile: pl.tile.rsqrt(tensor, high_precision=True),
    ],
)
def test_a_keyword_of_the_other_level_is_a_type_error(spelled):
    with pytest.raises(LevelError) as caught:
        wrong_level(spelled).trace(X)
    assert caught.value.code == "PL307" and isinstance(caught.value, TypeError)
    assert "pl.tile.rsqrt" in caught.value.message and "pl.tensor.rsqrt" in caught.value.message


@pytest.mark.parametrize(
    "spelled",
    [
        lambda tensor, tile: pl.rsqrt(tensor, high_precision=False),
        lambda tensor, tile: pl.rsqrt(tile, None),
        lambda tensor, tile: pl.tensor.rsqrt(tensor, high_precision=True),
        lambda tensor, tile: pl.tile.rsqrt(tensor, tile),
    ],
)
def test_a_keyword_of_its_level_or_its_default_is_taken(spelled):
    assert identical(wrong_level(spelled)(np.abs(X)), lax.rsqrt(np.abs(X)))


@pytest.mark.parametrize("shape, dtype, code", [([1, 16], pl.FP32, "PL301"), ([1, 8], pl.FP16, "PL302")])
def test_scratch_of_another_shape_or_dtype_is_refused(shape, dtype, code):
    @pl.jit
    def takes_a_remainder(x: ROW, out: pl.Out[ROW]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [1, 8])
            out[:] = pl.rem(t, t, pl.create_tile(shape, dtype))  # refused

    refused(code, takes_a_remainder, X, at="pl.rem(t, t, pl.create_tile(shape, dtype))")


def test_spellings_of_one_signature_are_the_operations_of_lax():
    for name in ("and_", "or_", "not_", "shl", "shr", "fmod", "relu", "lrelu", "sin", "cos", "div", "log", "recip", "part_add"):
        assert getattr(pl, name) is getattr(lax, name), name
    for name in ("rem", "rems", "addc", "subc", "addsc", "subsc", "relu", "lrelu", "prelu", "sel", "sels", "cmps", "maximums", "minimums"):
        assert hasattr(pl, name) and hasattr(pl.tile, name) and not hasattr(pl.tensor, name), name
