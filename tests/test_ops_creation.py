"""Making tiles: filled, ramps, triangles, random bits, memory nobody wrote; against loops, and the generator's published answers."""

import ml_dtypes
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import dtypes, lax, numerics
from pypto.core.avals import TILE, TileAval
from pypto.errors import PyptoError
from pypto.lax.creation import TRI_DTYPES
from pypto.platform import Space
from tests.bits import identical
from tests.refusals import f32, refused, reports, sevens

SHAPES = [(1, 8), (8, 1), (1, 1), (3, 5)]


def making(make):
    """A kernel that stores what `make` gives, which may use a scalar."""

    @pl.jit
    def makes(n: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = make(n)  # refused

    return makes


def made(make, shape, storage, n=0):
    """What a kernel makes, traced and eager; the same bits."""
    kernel, out, other = making(make), np.ones(shape, storage), np.ones(shape, storage)
    with pypto.override(platform="cpu", verify=True):
        kernel(n, out)
    kernel.eager(n, other)
    assert identical(out, other)
    return out


def made_partly(make, shape, storage, n=0):
    """As `made`, where only a part is written: the rest keeps its -7."""
    kernel, out, other = making(make), np.full(shape, -7, storage), np.full(shape, -7, storage)
    with reports("PL204"), pypto.override(platform="cpu", verify=True):
        kernel(n, out)
    with reports("PL204"):
        kernel.eager(n, other)
    assert identical(out, other)
    return out


def levels_of(make):
    """The levels of the tiles a kernel makes."""
    program = making(make).lower(0, np.zeros((2, 3), np.float32))
    return {v.aval.level for k in program.kernels for e in k.jaxpr.walk() for v in e.outs if isinstance(v.aval, TileAval)}


# full


@pytest.mark.parametrize("dtype", [d for d in dtypes.DTYPES.values() if d.arithmetic and d.kind is not dtypes.Kind.BOOL], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_full_repeats_a_number_rounded_once(dtype, shape):
    if dtype is dtypes.INDEX:
        return
    value = 1 + 2**-8 + 2**-40 if dtype.is_float else 3
    want = np.full(shape, numerics.round_literal(value, dtype), dtype.storage)
    assert identical(made(lambda n: pl.full(shape, dtype, value), shape, dtype.storage), want)
    assert identical(lax.full(shape, value, dtype), want)


def test_full_takes_a_scalar_and_has_a_level():
    assert made(lambda n: pl.full([2, 3], pl.INT32, n + 1), (2, 3), np.int32, n=4).tolist() == [[5] * 3] * 2
    assert levels_of(lambda n: pl.full([2, 3], pl.FP32, 1.0)) == {"tensor"} == levels_of(lambda n: pl.tensor.full([2, 3], pl.FP32, 1.0))
    assert levels_of(lambda n: pl.tile.full([2, 3], pl.FP32, 1.0)) == {"tile"}


def test_a_negative_int8_fill_is_negative_everywhere():  # C32
    assert made(lambda n: pl.full([1, 8], pl.INT8, -3), (1, 8), np.int8).tolist() == [[-3] * 8]


# arange, ci


@pytest.mark.parametrize("dtype", [pl.INT16, pl.INT32, pl.UINT32], ids=str)
@pytest.mark.parametrize("columns", [1, 2, 33])
def test_arange_counts_up_or_down_from_its_start(dtype, columns):
    up = np.arange(5, 5 + columns, dtype=np.int64)[None].astype(dtype.storage)
    down = np.arange(70, 70 - columns, -1, dtype=np.int64)[None].astype(dtype.storage)
    for op in (pl.arange, pl.ci, pl.tile.ci, pl.tensor.arange):
        assert identical(made(lambda n, op=op: op(5, [1, columns], dtype=dtype), (1, columns), dtype.storage), up)
        assert identical(made(lambda n, op=op: op(n, [1, columns], dtype, descending=True), (1, columns), dtype.storage, n=70), down)


def test_arange_wraps_in_its_dtype():
    assert made(lambda n: pl.arange(32766, [1, 4], dtype=pl.INT16), (1, 4), np.int16).tolist() == [[32766, 32767, -32768, -32767]]
    assert made(lambda n: pl.ci(1, [1, 3], pl.UINT32, True), (1, 3), np.uint32).tolist() == [[1, 0, 4294967295]]


@pytest.mark.parametrize(
    ("code", "make", "at"),
    [
        ("PL305", lambda n: pl.arange(0, [1, 4], dtype=pl.FP32), "pl.arange(0, [1, 4], dtype=pl.FP32)"),
        ("PL305", lambda n: pl.arange(0, [1, 4], dtype=pl.INT8), "pl.arange(0, [1, 4], dtype=pl.INT8)"),
        ("PL308", lambda n: pl.arange(0, [2, 4]), "pl.arange(0, [2, 4])"),
        ("PL304", lambda n: pl.arange(0, [1, n]), "pl.arange(0, [1, n])"),
        ("PL304", lambda n: pl.tri(0, [4, n]), "pl.tri(0, [4, n])"),
        ("PL305", lambda n: pl.tri(0, [4, 4], dtype=pl.INT8), "pl.tri(0, [4, 4], dtype=pl.INT8)"),
        ("PL303", lambda n: pl.tri(0, [4, 4], [5, 4]), "pl.tri(0, [4, 4], [5, 4])"),
        ("PL301", lambda n: pl.tri(0, [4, 4], [4]), "pl.tri(0, [4, 4], [4])"),
        ("PL302", lambda n: pl.tri(0.5, [4, 4]), "pl.tri(0.5, [4, 4])"),
        ("PL305", lambda n: pl.random(0, 0, 0, 0, 0, 0, [1, 4], dtype=pl.FP32), "pl.random(0, 0, 0, 0, 0, 0, [1, 4], dtype=pl.FP32)"),
        ("PL308", lambda n: pl.random(0, 0, 0, 0, 0, 0, [1, 4], rounds=8), "pl.random(0, 0, 0, 0, 0, 0, [1, 4], rounds=8)"),
        ("PL308", lambda n: pl.random(1 << 32, 0, 0, 0, 0, 0, [1, 4]), "pl.random(1 << 32, 0, 0, 0, 0, 0, [1, 4])"),
        ("PL401", lambda n: pl.create_tile([4, 4], pl.FP32, Space.DDR), "pl.create_tile([4, 4], pl.FP32, Space.DDR)"),
        ("PL401", lambda n: pl.create_tile([4, 4], pl.FP32, "Vec"), 'pl.create_tile([4, 4], pl.FP32, "Vec")'),
        ("PL308", lambda n: pl.create_tile([4, 4], pl.FP32, transpose=True), "pl.create_tile([4, 4], pl.FP32, transpose=True)"),
        ("PL308", lambda n: pl.create_l1([4, 4], pl.FP32, transpose=True), "pl.create_l1([4, 4], pl.FP32, transpose=True)"),
        ("PL308", lambda n: pl.create_tensor([4, 4], layout="NZ"), 'pl.create_tensor([4, 4], layout="NZ")'),
        ("PL504", lambda n: pl.create_tensor([4, 4], manual_dep=True), "pl.create_tensor([4, 4], manual_dep=True)"),
    ],
)
def test_what_cannot_be_made_is_refused(code, make, at):
    with pytest.raises(PyptoError) as caught:
        making(make)(4, np.zeros((4, 4), np.float32))
    assert caught.value.code == code and caught.value.fix
    assert caught.value.source is not None and at in caught.value.source.text


# tri


def triangle(rows, columns, diagonal, upper):
    return [[int(j >= i + diagonal if upper else j <= i + diagonal) for j in range(columns)] for i in range(rows)]


@pytest.mark.parametrize("dtype", sorted(TRI_DTYPES, key=str), ids=str)
@pytest.mark.parametrize("upper", [False, True])
def test_a_triangle_ends_at_its_diagonal(dtype, upper):
    for rows, columns in SHAPES:
        for diagonal in (-9, -1, 0, 2, 9):
            want = np.array(triangle(rows, columns, diagonal, upper), dtype.storage)
            assert identical(lax.tri(diagonal, shape=(rows, columns), dtype=dtype, upper=upper), want)
        got = made(lambda n, r=rows, c=columns: pl.tri(n - 1, [r, c], dtype=dtype, upper=upper), (rows, columns), dtype.storage, n=2)
        assert identical(got, np.array(triangle(rows, columns, 1, upper), dtype.storage))


@pytest.mark.parametrize("valid", [lambda n: [2, 3], lambda n: [2, n]], ids=["known", "at run time"])
def test_only_the_valid_part_of_a_triangle_is_written(valid):
    want = np.full((4, 8), -7, np.int32)
    want[:2, :3] = triangle(2, 3, 0, False)
    assert identical(made_partly(lambda n: pl.tri(0, [4, 8], valid(n)), (4, 8), np.int32, n=3), want)
    refused("PL306", making(lambda n: pl.set_validshape(pl.tri(0, [4, 8], valid(n)), 4, 8)), 3, sevens(4, 8, dtype=np.int32), at="out[:]")


# random: Philox-4x32

# From the generator's authors: counter, key, and the four words after 7 and after 10 rounds.
PUBLISHED = [
    (
        (0, 0, 0, 0),
        (0, 0),
        {7: (0x5F6FB709, 0x0D893F64, 0x4F121F81, 0x4F730A48), 10: (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)},
    ),
    (
        (0xFFFFFFFF,) * 4,
        (0xFFFFFFFF,) * 2,
        {7: (0x5207DDC2, 0x45165E59, 0x4D8EE751, 0x8C52F662), 10: (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)},
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        {7: (0x4DFCCABA, 0x190A87F0, 0xC47362BA, 0xB6B5242A), 10: (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)},
    ),
]


def philox(counter, key, rounds):
    """The generator with Python integers."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(rounds):
        a, b = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & 0xFFFFFFFF, (a >> 32) ^ c3 ^ k1, a & 0xFFFFFFFF
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


def words_of(number):
    return tuple(number >> 32 * i & 0xFFFFFFFF for i in range(4))


def random_tile(key, counter, rows, columns, stride, rounds):
    """Element by element, as the instruction walks over a tile."""
    out = np.zeros((rows, columns), np.uint32)
    now = sum(w << 32 * i for i, w in enumerate(counter))
    for row in range(rows):
        for group in range(-(-columns // 256)):
            for lane in range(64):
                for repeat, word in enumerate(philox(words_of(now + lane), key, rounds)):
                    if (column := group * 256 + repeat * 64 + lane) < columns:
                        out[row, column] = word
            now += stride // 4
    return out


@pytest.mark.parametrize("rounds", [7, 10])
@pytest.mark.parametrize("counter, key, words", PUBLISHED)
def test_the_generator_gives_the_published_words(counter, key, words, rounds):
    assert tuple(numerics.philox(np.array(counter, np.uint32), key, rounds).tolist()) == words[rounds] == philox(counter, key, rounds)


KEY, COUNTER = (0x01234567, 0x89ABCDEF), (0xFFFFFFF0, 0xFFFFFFFF, 0xFFFFFFFF, 7)  # the counter carries through all its words
TILES = [(1, 8), (8, 1), (1, 1), (3, 5), (2, 64), (3, 128), (2, 256), (3, 300), (2, 600)]


@pytest.mark.parametrize("shape", TILES, ids=str)
@pytest.mark.parametrize("rounds", [7, 10])
def test_random_bits_are_those_of_a_walk_over_the_tile(shape, rounds):
    want = random_tile(KEY, COUNTER, *shape, shape[1], rounds)
    assert identical(lax.random_bits(*KEY, *COUNTER, shape=shape, rounds=rounds), want)
    assert identical(made(lambda n: pl.random(*KEY, *COUNTER, shape, rounds=rounds), shape, np.uint32), want)
    assert identical(
        made(lambda n: pl.tile.random(*KEY, *COUNTER, shape, dtype=pl.INT32, rounds=rounds), shape, np.int32), want.view(np.int32)
    )


@pytest.mark.parametrize("columns", [5, 255, 257, 299])
def test_random_bits_of_a_partly_valid_tile_walk_over_the_valid_part(columns):
    want = np.full((3, 300), -7, np.int32)
    want[:2, :columns] = random_tile(KEY, COUNTER, 2, columns, 300, 10).view(np.int32)
    part = made_partly(lambda n: pl.random(*KEY, *COUNTER, [3, 300], [2, n], pl.INT32), (3, 300), np.int32, n=columns)
    assert identical(part, want)


def test_key_and_counter_may_be_scalars_and_negative_numbers():
    want = random_tile((0xFFFFFFFF, 5), (0xFFFFFFFE, 5, 0, 0), 1, 8, 8, 10)
    assert identical(made(lambda n: pl.random(-1, n, n - 7, n, 0, 0, [1, 8]), (1, 8), np.uint32, n=5), want)


def test_random_exists_on_a5_only():
    kernel, out = making(lambda n: pl.random(0, 0, 0, 0, 0, 0, [1, 8])), np.zeros((1, 8), np.uint32)
    with pypto.override(platform="a2a3"), pytest.raises(PyptoError) as caught:
        kernel.lower(0, out)
    assert caught.value.code == "PL406" and "a5" in caught.value.fix
    with pypto.override(platform="a5"):
        assert "random_bits" in str(kernel.lower(0, out))


# expands, expand_clone, created memory


@pl.jit
def expands_a_scalar(x: pl.Tensor[[3, 4], pl.BF16], out: pl.Out[pl.Tensor[[3, 4], pl.BF16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.expands(x, 1.01953125)


@pl.jit
def clones(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.expand_clone(x, out)  # refused


def test_expands_repeats_a_scalar_in_the_targets_dtype():
    out = np.zeros((3, 4), ml_dtypes.bfloat16)
    expands_a_scalar(np.zeros((3, 4), ml_dtypes.bfloat16), out)
    assert (out.astype(np.float32) == 1.015625).all()


@pytest.mark.parametrize("shape", [(2, 1, 1), (1, 3, 1), (1, 1, 4), (1, 3, 4), (2, 3, 4), (1, 1, 1)], ids=str)
def test_expand_clone_stretches_any_unit_axes(shape):
    x = np.arange(np.prod(shape), dtype=np.int16).reshape(shape)
    out = np.zeros((2, 3, 4), np.int16)
    with pypto.override(verify=True):
        clones(x, out)
    assert identical(out, np.broadcast_to(x, (2, 3, 4)).copy())


def test_expand_clone_needs_as_many_axes_and_fitting_extents():
    for shape in ((3, 4), (2, 2, 4)):
        refused("PL301", clones, np.zeros(shape, np.int16), np.zeros((2, 3, 4), np.int16), at="pl.expand_clone(x, out)")


def test_a_created_tile_records_its_space_and_its_level():
    spaces = (Space.VEC, Space.MAT, Space.LEFT, Space.RIGHT, Space.ACC, Space.BIAS)

    @pl.jit
    def creates(out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            for space in pl.unroll(len(spaces)):
                t = pl.tile.create([16, 16], pl.FP32, target_memory=spaces[space])
                t[:] = pl.full([16, 16], value=1.0)
                out[:] = t

    with pypto.override(verify=True):
        jaxpr = creates.trace()
    made = [e.outs[0].aval for e in jaxpr.walk() if e.op is lax.empty]
    assert [a.space for a in made] == list(spaces) and {a.level for a in made} == {TILE}


def test_a_tensor_created_in_l1_takes_what_a_product_gives():
    @pl.jit
    def stages(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            staged = pl.create_l1([16, 16], pl.FP32)
            staged[:] = x[:]
            out[:] = pl.matmul(staged, x)

    x = np.eye(16, dtype=np.float32) * 2
    assert np.array_equal(np.asarray(stages(x)), np.eye(16) * 4)


def test_iota_along_any_axis():
    assert lax.broadcasted_iota("INT16", (2, 3), 1).tolist() == [[0, 1, 2], [0, 1, 2]]
    assert lax.broadcasted_iota(np.float32, (2, 1, 2), 0).tolist() == [[[0, 0]], [[1, 1]]]
    assert lax.iota("BF16", 300)[257].item() == 256  # 257 rounds once, to even
    with pytest.raises(PyptoError) as caught:
        lax.broadcasted_iota("INT32", (2, 3), 2)
    assert caught.value.code == "PL308"


def test_a_filled_created_tensor_has_its_value():
    @pl.jit
    def starts_filled(x: pl.Tensor[[2, 4], pl.FP32], out: pl.Out[pl.Tensor[[2, 4], pl.FP32]]):
        outside = pl.create_tensor([2, 4], dtype=pl.FP32, init_value=2.5)
        with pl.at(level=pl.Level.CORE_GROUP):
            inside = pl.create_tensor([2, 4], dtype=pl.FP32, init_value=-1.0)
            out[:] = x + outside + inside

    assert starts_filled(f32([0, 1, 2, 3], [0, 0, 0, 0])).tolist() == [[1.5, 2.5, 3.5, 4.5], [1.5] * 4]
