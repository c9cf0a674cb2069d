"""Scatter in kernels: every form, into tiles and tensors; order, kept elements, valid regions, refusals."""

import ml_dtypes
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import lax
from pypto.errors import LevelError, PyptoError
from tests.refusals import f32, refused, reports, sevens
from tests.test_ops_gathering import both

STORAGE = {
    "FP32": np.float32, "FP16": np.float16, "BF16": ml_dtypes.bfloat16, "INT32": np.int32, "INT16": np.int16, "INT8": np.int8,
}  # fmt: skip
R4 = pl.Tensor[[1, 4], pl.FP32]
M24 = pl.Tensor[[2, 4], pl.FP32]
SHAPES = [(1, 8), (8, 1), (1, 1), (3, 5)]


def numbers(name, shape, seed=0):
    return np.random.default_rng(seed).integers(-100, 100, shape).astype(STORAGE[name])


def indices(name, shape, extent, seed=0):
    wide = name in ("FP32", "INT32")
    return np.random.default_rng(seed + 50).integers(0, extent, shape).astype(np.int32 if wide else np.int16)


def one_by_one(x, where, source):
    """The definition: flat positions, in row-major order of the source."""
    result = np.array(x)
    for p, v in zip(np.ravel(where), np.ravel(source), strict=True):
        result.reshape(-1)[p] = v
    return result


# By index.


@pl.jit
def along_rows(x: pl.Tensor, i: pl.Tensor, s: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.scatter(x, -1, i, s)


@pl.jit
def flat(x: pl.Tensor, i: pl.Tensor, s: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.tile.scatter(x, s, i)


@pytest.mark.parametrize("name", STORAGE)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_elements_go_where_the_index_says_and_the_last_one_stays(name, shape):  # C57: one row, one column, one element
    x, s = numbers(name, shape), numbers(name, (shape[0], 4), 1)
    i = indices(name, s.shape, shape[1])
    where = np.arange(shape[0])[:, None] * shape[1] + i.astype(np.int64)
    assert np.array_equal(both(along_rows, x, i, s, np.zeros(shape, x.dtype)), one_by_one(x, where, s))


@pytest.mark.parametrize("name", STORAGE)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_tile_scatters_by_flat_position(name, shape):
    x, s = numbers(name, shape), numbers(name, (2, 3), 1)
    i = indices(name, s.shape, x.size)
    assert np.array_equal(both(flat, x, i, s, np.zeros(shape, x.dtype)), one_by_one(x, i.astype(np.int64), s))


def test_one_row_is_scattered():  # C57
    base, out = np.zeros((1, 16), np.float32), np.zeros((1, 16), np.float32)
    both(along_rows, base, np.arange(0, 16, 2, dtype=np.int32)[None], np.arange(1, 9, dtype=np.float32)[None], out)
    assert out[0, ::2].tolist() == [1, 2, 3, 4, 5, 6, 7, 8] and not out[0, 1::2].any()


def test_an_axis_other_than_the_last():
    x, s = numbers("INT32", (5, 6)), numbers("INT32", (2, 3), 1)
    i = indices("INT32", s.shape, 5)
    found = lax.scatter_along(x, i, s, axis=0)
    assert np.array_equal(found, one_by_one(x, i.astype(np.int64) * 6 + np.arange(3), s))


def test_an_address_is_computed_in_more_than_the_bits_of_its_index():  # C58
    x = np.zeros((8192, 8), np.int16)
    found = np.asarray(lax.scatter_along(x, np.full((1, 8), 8191, np.int16), np.full((1, 8), 3, np.int16), axis=0))
    assert (found[8191] == 3).all() and not found[:8191].any()


@pytest.mark.parametrize("wrong", [8, -1])
@pytest.mark.parametrize("kernel", [along_rows, flat], ids=["along", "flat"])
@pytest.mark.checked
def test_an_index_outside_is_an_error_with_its_value_and_place(kernel, wrong):
    i = np.array([[0, wrong]], np.int32)
    with pytest.raises(PyptoError) as caught:
        kernel(numbers("FP32", (1, 8)), i, f32([[1, 2]]), np.zeros((1, 8), np.float32))
    assert caught.value.code == "PL303" and all(t in caught.value.message for t in (str(wrong), "[0, 1]", "`i`"))


def test_an_index_outside_is_dropped_without_checks():
    out = np.zeros((1, 4), np.float32)
    with pypto.override(check=False):
        along_rows(f32([[1, 2, 3, 4]]), np.array([[0, 4, -1]], np.int32), f32([[7, 8, 9]]), out)
    assert out.tolist() == [[7, 2, 3, 4]]


@pytest.mark.parametrize("name, dtype", [("FP32", np.int16), ("FP16", np.int32), ("INT8", np.int32)])
def test_an_index_is_as_wide_as_the_unit_wants_it(name, dtype):
    with pytest.raises(PyptoError) as caught:
        lax.scatter_along(numbers(name, (2, 4)), np.zeros((2, 2), dtype), numbers(name, (2, 2)), axis=1)
    assert caught.value.code == "PL305"


@pl.jit
def part_of_a_source(x: M24, i: pl.Tensor[[2, 2], pl.INT32], s: pl.Tensor[[2, 2], pl.FP32], out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        index = pl.load(i, [0, 0], [2, 4], valid_shape=[2, 2])
        source = pl.load(s, [0, 0], [2, 4], valid_shape=[2, 2])
        out[:] = pl.scatter(x, -1, index, source)


def test_only_the_valid_part_of_a_source_is_scattered():
    out = both(
        part_of_a_source, f32([1, 2, 3, 4], [5, 6, 7, 8]), np.array([[3, 1], [2, 2]], np.int32), f32([10, 20], [30, 40]), sevens(2, 4)
    )
    assert out.tolist() == [[1, 20, 3, 10], [5, 6, 40, 8]]


# What is scattered into.


@pl.jit
def a_tile_under_two_names(i: pl.Tensor[[1, 2], pl.INT32], s: pl.Tensor[[1, 2], pl.FP32], out: pl.Out[pl.Tensor[[1, 4], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.full([1, 4], dtype=pl.FP32, value=1.0)
        alias = t
        for _ in pl.range(2):
            pl.scatter(alias, -1, i, s)
        out[:] = t


def test_a_tile_is_updated_for_every_name_it_has():
    assert both(a_tile_under_two_names, np.array([[2, 0]], np.int32), f32([[5, 6]]), sevens(1, 4)).tolist() == [[6, 1, 5, 1]]


@pl.jit
def a_tensor_in_place(i: pl.Tensor[[1, 2], pl.INT32], s: pl.Tensor[[1, 2], pl.FP32], out: pl.InOut[pl.Tensor[[1, 4], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out = pl.scatter(out, -1, i, s)


@pl.jit
def an_input_is_copied(x: R4, i: pl.Tensor[[1, 2], pl.INT32], s: pl.Tensor[[1, 2], pl.FP32], out: pl.Out[R4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = pl.tensor.scatter(x, dim=-1, index=i, src=s)
        out[:] = pl.add(y, x)


def test_a_tensor_that_may_be_written_is_written():
    assert both(a_tensor_in_place, np.array([[2, 0]], np.int32), f32([[5, 6]]), f32([[1, 1, 1, 1]])).tolist() == [[6, 1, 5, 1]]


def test_an_input_keeps_its_elements():
    x = f32([[1, 1, 1, 1]])
    assert both(an_input_is_copied, x, np.array([[2, 0]], np.int32), f32([[5, 6]]), sevens(1, 4)).tolist() == [[7, 2, 6, 2]]
    assert (x == 1).all()


# By lane pattern.


@pl.jit
def rotates_pairs(x: pl.Tensor[[3, 8], pl.FP32], out: pl.Out[pl.Tensor[[3, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        even = pl.gather(x, mask_pattern=pl.tile.MaskPattern.P0101)
        odd = pl.gather(x, mask_pattern=pl.tile.MaskPattern.P1010)
        buf = pl.full([3, 8], dtype=pl.FP32, value=0.0)
        buf = pl.tensor.scatter(pl.neg(odd), mask_pattern=pl.tile.MaskPattern.P0101, dst=buf)
        buf = pl.tensor.scatter(even, mask_pattern=pl.tile.MaskPattern.P1010, dst=buf)
        out[:] = buf


def test_lanes_are_taken_apart_and_put_together_again():
    x = numbers("FP32", (3, 8))
    out = both(rotates_pairs, x, sevens(3, 8))
    assert np.array_equal(out[:, 0::2], -x[:, 1::2]) and np.array_equal(out[:, 1::2], x[:, 0::2])


@pytest.mark.parametrize("name", STORAGE)
def test_the_lanes_a_pattern_does_not_select_are_kept(name):
    x, s = numbers(name, (2, 8)), numbers(name, (2, 2), 1)
    want = np.array(x)
    want[:, 2::4] = s
    assert np.array_equal(lax.scatter_mask(x, s, pattern=pl.tile.MaskPattern.P0100), want)


# Rows.

D = pl.dynamic("D")
ROWS = pl.Tensor[[4, 8], pl.BF16]
ONE = pl.Tensor[[1], pl.FP32]
PAGES = pl.Tensor[[3, 4, 1, 8], pl.FP32]


@pl.jit
def updates_a_cache(cache: pl.InOut[pl.Tensor[[D, 8], pl.BF16]], i: pl.Tensor[[2, 2], pl.INT32], s: ROWS, out: pl.Out[ROWS]):
    with pl.at(level=pl.Level.CORE_GROUP):
        cache = pl.scatter_update(cache, -2, i, s)
        out[:] = s


def test_rows_of_a_tensor_of_any_extent_are_replaced_in_order():
    rng = np.random.default_rng(0)
    cache, s = (rng.normal(size=(n, 8)).astype(ml_dtypes.bfloat16) for n in (7, 4))
    want = np.array(cache)
    for row, value in zip([6, 0, 3, 0], s, strict=True):
        want[row] = value
    both(updates_a_cache, cache, np.array([[6, 0], [3, 0]], np.int32), s, np.zeros((4, 8), ml_dtypes.bfloat16))
    assert np.array_equal(cache, want)


@pl.jit
def updates_pages(cache: pl.InOut[PAGES], i: pl.Tensor[[2, 1], pl.INT64], s: pl.Tensor[[2, 1, 1, 8], pl.FP32], out: pl.Out[ONE]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.tensor.scatter_update(cache, i, s)
        out[:] = pl.full([1], dtype=pl.FP32, value=1.0)


def test_rows_of_pages_are_counted_through():
    cache, s = np.zeros((3, 4, 1, 8), np.float32), numbers("FP32", (2, 1, 1, 8))
    updates_pages(cache, np.array([[11], [4]]), s, np.zeros(1, np.float32))
    want = np.zeros((12, 8), np.float32)
    want[[11, 4]] = s.reshape(2, 8)
    assert np.array_equal(cache.reshape(12, 8), want)


@pl.jit
def updates_a_tile(i: pl.Tensor[[1, 2], pl.INT32], s: pl.Tensor[[2, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.full([4, 8], dtype=pl.FP32, value=0.0)
        out[:] = pl.tile.scatter_update(t, index=i, src=s, dim=-2)


def test_rows_of_a_tile_are_replaced():
    s = numbers("FP32", (2, 8))
    out = both(updates_a_tile, np.array([[3, 1]], np.int32), s, sevens(4, 8))
    assert np.array_equal(out[[3, 1]], s) and not out[[0, 2]].any()


@pl.jit
def updates_an_input(cache: pl.Tensor[[4, 8], pl.FP32], i: pl.Tensor[[1, 1], pl.INT32], out: pl.Out[pl.Tensor[[1, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = cache[0:1, :]
        pl.scatter_update(cache, -2, i, out)  # refused


def test_rows_of_an_input_are_not_replaced():
    refused(
        "PL203",
        updates_an_input,
        numbers("FP32", (4, 8)),
        np.zeros((1, 1), np.int32),
        sevens(1, 8),
        at="pl.scatter_update(cache, -2, i, out)",
    )


@pytest.mark.checked
def test_a_row_that_does_not_exist_is_an_error():
    with pytest.raises(PyptoError) as caught:
        updates_pages(np.zeros((3, 4, 1, 8), np.float32), np.array([[1], [12]]), numbers("FP32", (2, 1, 1, 8)), np.zeros(1, np.float32))
    assert caught.value.code == "PL303" and all(t in caught.value.message for t in ("12", "[1, 0]", "0..11"))


# Into memory.


@pl.jit
def stores_elements(s: pl.Tensor[[2, 3], pl.INT16], i: pl.Tensor[[2, 3], pl.INT32], out: pl.InOut[pl.Tensor[[5, 4], pl.INT16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out = pl.mscatter(s, i, out)


def test_elements_are_stored_at_flat_positions_of_a_tensor():
    s, i, out = numbers("INT16", (2, 3)), np.array([[19, 0, 7], [7, 3, 7]], np.int32), numbers("INT16", (5, 4), 9)
    want = one_by_one(out, i, s)
    assert np.array_equal(both(stores_elements, s, i, out), want)


def test_of_several_elements_for_one_position_the_last_in_row_major_order_stays():
    s, out = np.int16([[1, 2, 3], [4, 5, 6]]), np.zeros((5, 4), np.int16)
    for index, want in (
        ([[7, 7, 7], [7, 7, 7]], {7: 6}),
        ([[7, 2, 2], [9, 7, 9]], {2: 3, 7: 5, 9: 6}),
        ([[5, 5, 0], [0, 1, 1]], {5: 2, 0: 4, 1: 6}),
    ):
        got = both(stores_elements, s, np.array(index, np.int32), out.copy()).ravel()
        assert {place: int(got[place]) for place in np.flatnonzero(got)} == want


@pl.jit
def stores_elements_of_an_out(s: pl.Tensor[[1, 3], pl.FP32], i: pl.Tensor[[1, 3], pl.INT32], out: pl.Out[pl.Tensor[[2, 4], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.mscatter(s, i, out)


def test_what_no_element_was_stored_to_is_reported():
    out = sevens(2, 4)
    with reports("PL204") as found:
        stores_elements_of_an_out(f32([[1, 2, 3]]), np.array([[0, 5, 6]], np.int32), out)
    assert out.tolist() == [[1, -7, -7, -7], [-7, 2, 3, -7]] and "out[0, 1:4]" in found[0]


@pl.jit
def at_both_levels(x: R4, i: pl.Tensor[[1, 2], pl.INT32], s: pl.Tensor[[1, 2], pl.FP32], out: pl.Out[R4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.tile.scatter(x, dim=-1, index=i, src=s)


def test_an_axis_at_tile_level_is_a_type_error():
    with pytest.raises(LevelError) as caught:
        at_both_levels(f32([[1, 2, 3, 4]]), np.zeros((1, 2), np.int32), f32([[1, 2]]), sevens(1, 4))
    assert isinstance(caught.value, TypeError) and caught.value.code == "PL307"
