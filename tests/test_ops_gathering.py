"""Gather in kernels: every form, from tiles and from tensors, with its out-of-range rules and valid regions."""

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import lax
from pypto.errors import LevelError, PyptoError
from tests.refusals import f32, refused, reports, sevens

SHAPES = [(1, 8), (8, 1), (1, 1), (3, 5)]
STORAGE = {"FP32": np.float32, "FP16": np.float16, "INT32": np.int32, "INT16": np.int16}
P = pl.tile.MaskPattern


def numbers(name, shape, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(-100, 100, shape).astype(STORAGE[name])


def indices(shape, extent, seed=0, dtype=np.int32):
    return np.random.default_rng(seed + 100).integers(0, extent, shape).astype(dtype)


def both(kernel, *args):
    """Runs a kernel traced, with the verifier around every pass, and eagerly; what they leave in their arguments must agree."""
    copies = [np.array(a) if isinstance(a, np.ndarray) else a for a in args]
    with pypto.override(verify=True):
        kernel(*args)
    kernel.eager(*copies)
    for a, b in zip(args, copies, strict=True):
        assert not isinstance(a, np.ndarray) or a.tobytes() == b.tobytes()
    return args[-1]


# By index along an axis.


@pl.jit
def along_rows(x: pl.Tensor, i: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.gather(x, dim=-1, index=i)


@pl.jit
def along_columns(x: pl.Tensor, i: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.tensor.gather(x, 0, i)


@pl.jit
def with_a_tile(x: pl.Tensor[[4, 6], pl.FP32], i: pl.Tensor[[4, 3], pl.INT32], out: pl.Out[pl.Tensor[[4, 3], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        picked = pl.load(i, [0, 0], [4, 3])
        out[:] = pl.gather(pl.load(x, [0, 0], [4, 6]), dim=-1, index=picked)


@pytest.mark.parametrize("name", STORAGE)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_index_picks_along_the_last_axis(name, shape):
    x, i = numbers(name, shape), indices((shape[0], 3), shape[1])
    assert np.array_equal(both(along_rows, x, i, np.zeros((shape[0], 3), STORAGE[name])), np.take_along_axis(x, i, 1))


def test_an_index_picks_along_the_first_axis_and_may_be_narrower_than_the_data():
    x, i = numbers("FP32", (5, 6)), indices((7, 4), 5)
    assert np.array_equal(both(along_columns, x, i, np.zeros((7, 4), np.float32)), np.take_along_axis(x[:, :4], i, 0))


def test_the_index_may_be_a_tile():  # S11
    x, i = numbers("FP32", (4, 6)), indices((4, 3), 6)
    assert np.array_equal(both(with_a_tile, x, i, np.zeros((4, 3), np.float32)), np.take_along_axis(x, i, 1))


def test_a_16_bit_index_goes_with_16_bit_data_only():
    i = indices((2, 3), 8, dtype=np.int16)
    x = numbers("FP16", (2, 8))
    assert np.array_equal(both(along_rows, x, i, np.zeros((2, 3), np.float16)), np.take_along_axis(x, i.astype(np.int64), 1))
    with pytest.raises(PyptoError) as caught:
        along_rows(numbers("FP32", (2, 8)), i, np.zeros((2, 3), np.float32))
    assert caught.value.code == "PL305"


@pytest.mark.parametrize("wrong", [5, 3, -1])
@pytest.mark.checked
def test_an_index_outside_is_an_error_with_its_value_place_and_extent(wrong):  # C56, S12
    i = np.array([[0, wrong]], np.int32)
    with pytest.raises(PyptoError) as caught:
        along_rows(f32([[10, 20, 30]]), i, np.zeros((1, 2), np.float32))
    error = caught.value
    assert error.code == "PL303" and error.source is not None and error.source.text.strip() == "out[:] = pl.gather(x, dim=-1, index=i)"
    assert (
        str(wrong) in error.message
        and "[0, 1]" in error.message
        and "0..2" in error.message
        and "`i`" in error.message
        and "`x`" in error.message
    )


def test_an_index_outside_reads_zero_without_checks():
    out = np.zeros((1, 3), np.float32)
    with pypto.override(check=False):
        along_rows(f32([[10, 20, 30]]), np.array([[0, 5, -1]], np.int32), out)
    assert out.tolist() == [[10, 0, 0]]


@pl.jit
def partly_indexed(x: pl.Tensor[[2, 4], pl.FP32], i: pl.Tensor[[2, 3], pl.INT32], out: pl.Out[pl.Tensor[[2, 4], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        some = pl.load(i, [0, 0], [2, 4], valid_shape=[2, 3])
        out[:, 0:4] = pl.gather(x, dim=-1, index=some)


def test_the_valid_region_of_the_index_is_that_of_the_result():
    out = sevens(2, 4)
    with reports("PL204"):
        partly_indexed(f32([1, 2, 3, 4], [5, 6, 7, 8]), np.array([[3, 0, 1], [0, 0, 3]], np.int32), out)
    assert out.tolist() == [[4, 1, 2, -7], [5, 5, 8, -7]]


@pl.jit
def an_unwritten_index(x: pl.Tensor[[1, 4], pl.FP32], out: pl.Out[pl.Tensor[[1, 4], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i = pl.create_tensor([1, 4], dtype=pl.INT32)
        i[:, 0:2] = pl.full([1, 2], dtype=pl.INT32, value=1)
        out[:] = pl.gather(x, dim=-1, index=i)  # refused


@pytest.mark.checked
def test_an_index_nobody_wrote_is_an_error():
    refused("PL306", an_unwritten_index, f32([[1, 2, 3, 4]]), sevens(1, 4), at="pl.gather(x, dim=-1, index=i)")


# By flat position.


@pl.jit
def flat(x: pl.Tensor[[4, 8], pl.FP32], i: pl.Tensor[[2, 8], pl.INT32], out: pl.Out[pl.Tensor[[2, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        tmp = pl.create_tile([2, 8], dtype=pl.INT32)
        out[:] = pl.tile.gather(pl.load(x, [0, 0], [4, 8]), pl.load(i, [0, 0], [2, 8]), tmp)


def test_a_tile_gathers_by_flat_position():
    x, i = numbers("FP32", (4, 8)), indices((2, 8), 32)
    assert np.array_equal(both(flat, x, i, np.zeros((2, 8), np.float32)), np.ravel(x)[i])


def test_an_address_is_computed_in_more_than_the_bits_of_its_index():  # C58: 8191 * 8 wraps in 16 bits
    x = np.arange(8192 * 8, dtype=np.int16).reshape(8192, 8)
    index = np.full((1, 8), 8191, np.int16)
    assert np.array_equal(lax.gather_along(x, index, axis=0), x[8191:])
    # a position beyond 16 bits is no index of 16 bits at all: the unit counts rows and columns apart
    assert np.asarray(lax.gather_flat(x, np.full((1, 1), 65528, np.int32))).item() == np.ravel(x)[65528]


# By lane pattern.


@pl.jit
def lanes(x: pl.Tensor[[3, 8], pl.FP32], even: pl.Out[pl.Tensor[[3, 4], pl.FP32]], odd: pl.Out[pl.Tensor[[3, 4], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        even[:] = pl.gather(x, mask_pattern=pl.tile.MaskPattern.P0101)
        odd[:] = pl.tile.gather_mask(x, pl.tile.MaskPattern.P1010, output_dtype=pl.INT32)


LANES = {"P0101": (0, 2), "P1010": (1, 2), "P0001": (0, 4), "P0010": (1, 4), "P0100": (2, 4), "P1000": (3, 4), "P1111": (0, 1)}


@pytest.mark.parametrize("pattern", LANES)
def test_the_text_of_a_pattern_is_read_from_the_right(pattern):
    x = numbers("INT16", (3, 8))
    first, stride = LANES[pattern]
    assert np.array_equal(lax.gather_mask(x, pattern=P[pattern], dtype="INT16"), x[:, first::stride])
    assert list(P).index(P[pattern]) + 1 == P[pattern]


def test_another_dtype_of_the_same_width_gets_the_bits():
    x = f32([1, -0.0, 2, np.nan, 3, np.inf, 4, 1e-40]).reshape(1, 8).repeat(3, 0)
    even, odd = np.zeros((3, 4), np.float32), np.zeros((3, 4), np.int32)
    both(lanes, x, even, odd)
    assert np.array_equal(even, x[:, ::2]) and np.array_equal(odd, x.view(np.int32)[:, 1::2])


def test_another_width_is_refused():
    with pytest.raises(PyptoError) as caught:
        lax.gather_mask(numbers("FP32", (2, 8)), pattern=1, dtype="INT16")
    assert caught.value.code == "PL305"


@pl.jit
def lanes_of_a_part(x: pl.Tensor[[2, 5], pl.FP32], out: pl.Out[pl.Tensor[[2, 4], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        part = pl.load(x, [0, 0], [2, 8], valid_shape=[2, 5])
        out[:] = pl.gather(part, mask_pattern=pl.tile.MaskPattern.P1010)


def test_lanes_of_a_partly_valid_tile_are_valid_as_far_as_it_is():
    x, out = numbers("FP32", (2, 5)), sevens(2, 4)
    with reports("PL204"):
        lanes_of_a_part(x, out)
    assert np.array_equal(out[:, :2], x[:, 1::2]) and (out[:, 2:] == -7).all()


# By comparison.


@pl.jit
def larger(x: pl.Tensor[[3, 8], pl.FP32], found: pl.Out[pl.Tensor[[3, 8], pl.INT32]], count: pl.Out[pl.Tensor[[1, 3], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        listed, n = pl.gather(x, kvalue=2.5, cmp_mode="gt", out_cols=8, offset=10)
        count[:] = n
        for r in pl.range(3):
            found[r : r + 1, :] = pl.set_validshape(listed[r : r + 1, :], 1, pl.read(n, [0, r]))


def test_the_columns_that_compare_true_are_listed_and_counted():
    x = np.random.default_rng(3).integers(0, 6, (3, 8)).astype(np.float32)
    x[1, 4], x[2] = np.nan, 0
    found, count = sevens(3, 8, dtype=np.int32), np.zeros((1, 3), np.int32)
    with reports("PL204"):
        larger(x, found, count)
    want = [10 + np.flatnonzero(row > 2.5) for row in x]
    assert count.tolist() == [[len(w) for w in want]]
    for row, w in zip(found, want, strict=True):
        assert row.tolist() == [*w, *[-7] * (8 - len(w))]


@pl.jit
def stores_past_the_matches(x: pl.Tensor[[1, 8], pl.FP32], out: pl.Out[pl.Tensor[[1, 8], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        listed, _ = pl.tile.gather_compare(x, 0.5, None, cmp_mode=pl.CmpType.LT, out_cols=8)
        out[:] = listed  # refused


@pytest.mark.checked
def test_what_lies_past_the_matches_may_not_reach_an_output():
    refused("PL306", stores_past_the_matches, f32([[0, 1, 0, 1, 1, 1, 1, 1]]), sevens(1, 8, dtype=np.int32), at="out[:]")


def test_more_matches_than_columns_are_counted_only():
    found, count = lax.gather_compare(np.zeros((1, 9), np.int32), np.int32(0), mode=0, offset=0, out_cols=4, count_dtype="UINT32")
    assert found.tolist() == [[0, 1, 2, 3]] and count.tolist() == [[9]]


# By blocks.


@pytest.mark.parametrize("name", ["INT8", "UINT16", "BF16", "FP32"])
def test_blocks_of_32_bytes_are_fetched_at_byte_offsets(name):
    x = np.arange(64, dtype=np.int32).reshape(4, 16)
    offsets = np.array([[32, 0], [224, 96]], np.uint32)
    raw = np.frombuffer(x.tobytes(), np.uint8)
    want = np.stack([np.concatenate([raw[o : o + 32] for o in row]) for row in offsets])
    assert np.asarray(lax.gatherb(x, offsets, dtype=name)).view(np.uint8).tolist() == want.tolist()


@pl.jit
def blocks(x: pl.Tensor[[2, 8], pl.FP32], o: pl.Tensor[[1, 1], pl.UINT32], out: pl.Out[pl.Tensor[[1, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.tile.gatherb(x, o)  # refused


@pytest.mark.parametrize("offset", [64, 16])
@pytest.mark.checked
def test_a_block_past_the_end_or_across_two_is_an_error(offset):
    refused(
        "PL303", blocks, numbers("FP32", (2, 8)), np.array([[offset]], np.uint32), np.zeros((1, 8), np.float32), at="pl.tile.gatherb(x, o)"
    )


# Levels and forms.


@pl.jit
def flat_at_tensor_level(x: pl.Tensor[[4, 8], pl.FP32], i: pl.Tensor[[4, 8], pl.INT32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.tensor.gather(x, indices=i)  # refused


@pl.jit
def an_axis_at_tile_level(x: pl.Tensor[[4, 8], pl.FP32], i: pl.Tensor[[4, 8], pl.INT32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.tile.gather(x, dim=-1, index=i)  # refused


@pl.jit
def two_forms(x: pl.Tensor[[4, 8], pl.FP32], i: pl.Tensor[[4, 8], pl.INT32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.gather(x, -1, i, mask_pattern=1)  # refused


@pytest.mark.parametrize("kernel", [flat_at_tensor_level, an_axis_at_tile_level], ids=["tensor", "tile"])
def test_a_form_of_the_other_level_is_a_type_error_naming_both(kernel):
    with pytest.raises(LevelError) as caught:
        kernel(numbers("FP32", (4, 8)), indices((4, 8), 8), np.zeros((4, 8), np.float32))
    assert isinstance(caught.value, TypeError) and caught.value.code == "PL307"
    assert "tile.gather" in caught.value.message and "tensor.gather" in caught.value.message


def test_two_forms_at_once_are_refused():
    refused(
        "PL308",
        two_forms,
        numbers("FP32", (4, 8)),
        indices((4, 8), 8),
        np.zeros((4, 8), np.float32),
        at="pl.gather(x, -1, i, mask_pattern=1)",
    )
