"""Bit views, transposed views, sub-tiles, joins, and vectors spread over rows and columns."""

import ml_dtypes
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import dtypes, lax
from pypto.core.avals import TileAval
from pypto.errors import PyptoError
from pypto.platform import Space
from tests.bits import identical
from tests.refusals import f32, refused, reports, sevens

SHAPES = [(1, 8), (8, 1), (1, 1), (3, 5)]
NUMBERS = ("FP32", "FP16", "BF16", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
STORAGE = {n: getattr(dtypes, n).storage for n in NUMBERS}
M48 = pl.Tensor[[4, 8], pl.FP32]
X = np.arange(1, 33, dtype=np.float32).reshape(4, 8)


def numbers(name, shape, seed=0):
    bits = np.random.default_rng(seed).integers(0, 256, (*shape, STORAGE[name].itemsize), np.uint8)
    return bits.view(STORAGE[name]).reshape(shape)


def small(name, shape, seed=0):
    low = 0 if name.startswith("U") else -20
    return np.random.default_rng(seed).integers(low, 20, shape).astype(STORAGE[name])


def both(kernel, *args):
    """Traced and eager; what they leave in their arguments must be the same bits."""
    copies = [np.array(a) if isinstance(a, np.ndarray) else a for a in args]
    with pypto.override(platform="cpu", verify=True):
        kernel(*args)
    kernel.eager(*copies)
    assert all(identical(a, b) for a, b in zip(args, copies, strict=True) if isinstance(a, np.ndarray))
    return args[-1]


def unary(change):
    @pl.jit
    def changes(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = change(x[:])  # refused

    return changes


def binary(change):
    @pl.jit
    def changes_two(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = change(x[:], y[:])  # refused

    return changes_two


# ---- bits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", NUMBERS)
@pytest.mark.parametrize("source", NUMBERS)
def test_a_bit_view_keeps_the_bytes_and_scales_the_last_axis(source, target):
    if source == target:
        return
    kind = getattr(pl, target)
    for shape in ((1, 8), (3, 16), (8, 8)):
        x = numbers(source, shape, seed=1)
        want = x.view(STORAGE[target])
        assert both(unary(lambda t: pl.reinterpret_view(t, kind)), x, np.ones_like(want)).tobytes() == x.tobytes()
        assert np.asarray(lax.reinterpret(x, dtype=kind)).tobytes() == x.tobytes() and lax.reinterpret(x, dtype=kind).shape == want.shape


def test_a_bit_view_may_say_its_shape():
    x = numbers("UINT8", (4, 1))
    out = np.zeros((1, 1), np.int32)
    assert both(unary(lambda t: pl.reinterpret_view(t, pl.INT32, shape=[1, 1])), x, out).tobytes() == x.tobytes()
    assert pl.reinterpret_view(x, pl.INT16, shape=[2, 1]).tolist() == x.reshape(2, 2).view(np.int16).tolist()


def test_a_bit_view_of_a_partly_valid_tile_scales_its_region():
    @pl.jit
    def views_a_part(x: pl.Tensor[[4, 8], pl.FP32], columns: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[4, 16], pl.INT16]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [4, 8], valid_shape=[2, columns])
            out[:] = pl.fillpad(pl.reinterpret_view(t, pl.INT16))

    want = np.zeros((4, 16), np.int16)
    want[:2, :6] = X[:2, :3].copy().view(np.int16)
    assert identical(both(views_a_part, X, 3, np.ones((4, 16), np.int16)), want)


def test_a_region_that_is_no_whole_number_of_elements_has_no_bit_view():
    @pl.jit
    def halves_a_part(x: pl.Tensor[[4, 8], pl.INT16], columns: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[4, 4], pl.INT32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [4, 8], valid_shape=[4, columns])
            out[:] = pl.reinterpret_view(t, pl.INT32)  # refused

    x, out = np.zeros((4, 8), np.int16), np.zeros((4, 4), np.int32)
    halves_a_part(x, 8, out)
    refused("PL301", halves_a_part, x, 3, out, at="pl.reinterpret_view(t, pl.INT32)")


@pl.jit
def writes_bits(x: pl.Tensor[[2, 4], pl.INT32], out: pl.Out[pl.Tensor[[2, 4], pl.FP32]]):
    words = pl.reinterpret_view(out, pl.INT32)
    with pl.at(level=pl.Level.CORE_GROUP):
        words[:] = x


@pl.jit
def reads_bits(x: pl.Tensor[[2, 4], pl.FP32], out: pl.Out[pl.Tensor[[8], pl.UINT32]]):
    words = pl.tensor.reinterpret_view(x, pl.UINT32, shape=[8])
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = words


@pl.jit
def narrows_outside(x: pl.Tensor[[2, 4], pl.FP32], out: pl.Out[pl.Tensor[[2, 8], pl.INT16]]):
    halves = pl.reinterpret_view(x, pl.INT16)  # refused
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = halves


def test_a_bit_view_of_a_tensor_shares_its_memory():
    x = np.int32([[0x3F800000, 0, -(2**31), 0x7F800000]] * 2)
    assert both(writes_bits, x, sevens(2, 4)).tobytes() == x.tobytes()
    y = f32([1, -2, 3, 4], [5, 6, 7, 8])
    assert both(reads_bits, y, np.zeros(8, np.uint32)).tobytes() == y.tobytes()


def test_a_bit_view_of_another_width_is_a_value_and_needs_a_region():
    refused("PL501", narrows_outside, f32([1, 2, 3, 4], [5, 6, 7, 8]), np.zeros((2, 8), np.int16), at="pl.reinterpret_view(x, pl.INT16)")


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("PL305", lambda t: pl.reinterpret_view(t, pl.FP32)),
        ("PL305", lambda t: pl.reinterpret_view(t, pl.BOOL)),
        ("PL305", lambda t: pl.reinterpret_view(t, pl.INDEX)),
        ("PL301", lambda t: pl.reinterpret_view(t[:, 0:3], pl.INT64)),
        ("PL301", lambda t: pl.reinterpret_view(t, pl.INT16, shape=[4, 8])),
    ],
)
def test_a_bit_view_that_cannot_be_is_refused(code, change):
    with pytest.raises(PyptoError) as caught:
        unary(change)(X, sevens(4, 8))
    assert caught.value.code == code


# ---- other views -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NUMBERS)
def test_a_transposed_view_exchanges_rows_and_columns(name):
    for shape in SHAPES:
        x = numbers(name, shape)
        want = np.ones(shape[::-1], x.dtype)
        assert both(unary(pl.tile.transpose_view), x, want).tobytes() == x.T.copy().tobytes()


def test_a_transposed_view_is_no_work_of_the_vector_unit():
    kernel = unary(lambda t: pl.matmul(t, pl.tile.transpose_view(t)))
    assert identical(both(kernel, X, np.ones((4, 4), np.float32)), (X @ X.T).astype(np.float32))
    assert [k.unit for k in kernel.lower(X, sevens(4, 4)).kernels] == ["cube"]


def test_a_transposed_view_turns_the_valid_region():
    @pl.jit
    def turns_a_part(x: M48, out: pl.Out[pl.Tensor[[8, 4], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.fillpad(pl.tile.transpose_view(pl.load(x, [0, 0], [4, 8], valid_shape=[2, 3])))

    want = np.zeros((8, 4), np.float32)
    want[:3, :2] = X[:2, :3].T
    assert identical(both(turns_a_part, X, sevens(8, 4)), want)


@pl.jit
def views_a_tensor(x: M48, n: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[2, 16], pl.FP32]]):
    wide = pl.tensor.view(x, [2, 16], valid_shape=[2, n])
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.fillpad(wide, pl.PadValue.min)


@pl.jit
def writes_through_a_view(x: M48, out: pl.Out[M48]):
    flat = pl.tensor.view(out, [32])
    with pl.at(level=pl.Level.CORE_GROUP):
        flat[0:32] = pl.reshape(x, [32])


def test_a_tensor_view_has_another_shape_and_a_valid_region():
    want = X.reshape(2, 16).copy()
    want[:, 5:] = -np.inf
    assert identical(both(views_a_tensor, X, 5, sevens(2, 16)), want)
    assert identical(both(writes_through_a_view, X, sevens(4, 8)), X)


@pytest.mark.parametrize(
    ("code", "make"),
    [
        ("PL301", lambda x: pl.tensor.view(x, [5, 8])),
        ("PL308", lambda x: pl.tensor.view(x, [32], layout="NZ")),
        ("PL303", lambda x: pl.tensor.view(x, [32], valid_shape=[33])),
    ],
)
def test_a_tensor_view_that_cannot_be_is_refused(code, make):
    @pl.jit
    def views(x: M48, out: pl.Out[pl.Tensor[[32], pl.FP32]]):
        flat = make(x)
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = flat

    with pytest.raises(PyptoError) as caught:
        views(X, sevens(32))
    assert caught.value.code == code


def test_tiles_have_no_tensor_view():
    with pytest.raises(PyptoError) as caught:
        unary(lambda t: pl.tensor.view(t, [32]))(X, sevens(32))
    assert caught.value.code == "PL307" and "pl.tensor.view(t, [32])" in caught.value.source.text


# ---- sub-tiles and spaces --------------------------------------------------------------------------------------------


@pl.jit
def extracts(x: M48, r: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[2, 3], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        staged = pl.load(x, [0, 0], [4, 8], target_memory=pl.Mem.MAT)
        part = pl.extract(staged, r, 4, [2, 3], target_memory=pl.Mem.LEFT)  # refused
        out[:] = pl.move(part, pl.Mem.VEC)


def spaces_in(kernel, op, *args):
    return [e.outs[0].aval.space for e in kernel.trace(*args).walk() if e.op is op]


def test_extract_takes_a_sub_tile_into_another_space():
    with pypto.override(platform="cpu"):  # a chip has no way from LEFT to anything that could be looked at
        assert identical(both(extracts, X, 1, sevens(2, 3)), X[1:3, 4:7].copy())
    assert spaces_in(extracts, lax.extract) == [Space.LEFT] and spaces_in(extracts, lax.move) == [Space.VEC]
    with pypto.override(platform="cpu"):
        refused("PL303", extracts, X, 3, sevens(2, 3), at="pl.extract(staged, r, 4, [2, 3], target_memory=pl.Mem.LEFT)")


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("PL401", lambda t: pl.extract(t, 0, 0, [4, 8], target_memory=pl.Mem.VEC)),
        ("PL401", lambda t: pl.extract(t, 0, 0, [4, 8], target_memory="LEFT")),
        ("PL303", lambda t: pl.extract(t, 0, 0, [5, 8], target_memory=pl.Mem.LEFT)),
        ("PL301", lambda t: pl.extract(t, 0, 0, [8], target_memory=pl.Mem.LEFT)),
        ("PL401", lambda t: pl.move(t, pl.Mem.DDR)),
        ("PL308", lambda t: pl.move(t, pl.Mem.MAT, blayout="diagonal")),
        ("PL308", lambda t: pl.move(t, pl.Mem.MAT, slayout="nz")),
    ],
)
def test_a_move_that_cannot_be_is_refused(code, change):
    with pytest.raises(PyptoError) as caught:
        unary(change)(X, sevens(4, 8))
    assert caught.value.code == code and "lambda t" in caught.value.source.text


def test_a_move_changes_the_space_and_nothing_else():
    def moves(t):
        return pl.move(pl.set_validshape(t, 2, 8), pl.Mem.MAT, blayout="col_major", slayout="row_major")

    @pl.jit
    def stages(x: M48, out: pl.Out[M48]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = moves(x)

    out = sevens(4, 8)
    with reports("PL204"), pypto.override(platform="cpu"):  # MAT is not stored from on a chip
        stages(X, out)
    assert identical(out[:2], X[:2]) and (out[2:] == -7).all()
    (made,) = [e.outs[0].aval for e in stages.trace().walk() if e.op is lax.move]
    assert isinstance(made, TileAval) and (made.space, made.level, made.valid) == (Space.MAT, "tile", (2, 8))


# ---- concat ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NUMBERS)
def test_concat_joins_columns(name):
    for shape in SHAPES:
        x, y = numbers(name, shape), numbers(name, (shape[0], shape[1] + 2), seed=1)
        want = np.concatenate([x, y], 1)
        assert both(binary(pl.concat), x, y, np.ones_like(want)).tobytes() == want.tobytes()


@pl.jit
def joins_parts(x: M48, y: M48, n: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[4, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.load(x, [0, 0], [4, 8], valid_shape=[3, n])
        b = pl.load(y, [0, 0], [4, 8], valid_shape=[3, 4])
        out[:] = pl.fillpad(pl.concat(a, b), pl.PadValue.min)  # refused


@pl.jit
def joins_uneven_rows(x: M48, n: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[4, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = pl.load(x, [0, 0], [4, 8], valid_shape=[n, 8])
        out[:] = pl.fillpad(pl.concat(a, x[:]))  # refused


def test_concat_of_partly_valid_tiles_leaves_no_gap():
    want = np.full((4, 16), -np.inf, np.float32)
    want[:3, :2], want[:3, 2:6] = X[:3, :2], -X[:3, :4]
    assert identical(both(joins_parts, X, -X, 2, sevens(4, 16)), want)


def test_concat_needs_the_same_valid_rows():
    refused("PL301", joins_uneven_rows, X, 3, sevens(4, 16), at="pl.concat(a, x[:])")


def test_concat_reads_both_operands_before_it_writes():  # C76
    rows = np.arange(32, dtype=np.float32)
    a, b = np.repeat(rows[:, None], 8, 1), np.repeat(rows[:, None] + 100, 8, 1)
    assert identical(both(binary(pl.concat), a, b, np.ones((32, 16), np.float32)), np.concatenate([a, b], 1))


# ---- row_expand and col_expand ---------------------------------------------------------------------------------------

ARITHMETIC = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": None, "max": np.maximum, "min": np.minimum}


def elementwise(name, a, b):
    """The formula with Python or FP32 numbers, rounded once to the dtype."""
    wide = a.astype(np.float32 if a.dtype.kind not in "iu" else object)
    other = b.astype(wide.dtype)
    if name == "div" and wide.dtype == object:
        return np.vectorize(lambda x, y: int(abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1), otypes=[object])(wide, other).astype(
            a.dtype
        )
    result = wide / other if name == "div" else ARITHMETIC[name](wide, other)
    if wide.dtype == object:
        return (result % (1 << 8 * a.dtype.itemsize)).astype(np.uint64).astype(f"u{a.dtype.itemsize}").view(a.dtype)
    return result.astype(a.dtype)


@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_a_vector_is_spread_over_columns_or_rows(name, dtype):
    for shape in SHAPES:
        x = small(dtype, shape, seed=2)
        column, row = small(dtype, (shape[0], 1), seed=3), small(dtype, (1, shape[1]), seed=4)
        column, row = (np.where(v == 0, np.ones((), v.dtype), v) for v in (column, row))
        for op, v in ((getattr(pl, f"row_expand_{name}"), column), (getattr(pl, f"col_expand_{name}"), row)):
            want = elementwise(name, x, np.broadcast_to(v, shape))
            assert identical(both(binary(op), x, v, np.ones_like(want)), want), shape


@pytest.mark.parametrize("dtype", ["FP32", "FP16", "BF16"])
def test_expdif_is_the_exponential_of_the_rounded_difference(dtype):
    x = np.random.default_rng(0).uniform(-3, 3, (3, 5)).astype(STORAGE[dtype])
    for op, v in ((pl.row_expand_expdif, x.max(1, keepdims=True)), (pl.col_expand_expdif, x.max(0, keepdims=True))):
        difference = (x.astype(np.float32) - v.astype(np.float32)).astype(x.dtype)
        # NumPy's FP64 exponential is within one unit of 53 bits, far from any tie of 24 bits on this data
        want = np.exp(difference.astype(np.float64)).astype(np.float32).astype(x.dtype)
        assert identical(both(binary(op), x, v, np.ones_like(want)), want)


@pytest.mark.parametrize("name", NUMBERS)
def test_an_expanded_vector_is_copied_in_the_shape_of_the_target(name):
    for shape in SHAPES:
        target = np.zeros(shape, np.float32)
        column, row = numbers(name, (shape[0], 1)), numbers(name, (1, shape[1]))
        for op, v in ((pl.row_expand, column), (pl.col_expand, row)):
            want = np.broadcast_to(v, shape).copy()
            assert both(binary(op), target, v, np.ones_like(want)).tobytes() == want.tobytes()


def test_a_vector_of_another_shape_is_refused():
    for op in (pl.row_expand_expdif, pl.row_expand_add, pl.row_expand):
        refused("PL301", binary(op), X, X[:1], sevens(4, 8), at="change(x[:], y[:])")
    refused("PL301", binary(pl.col_expand_expdif), X, X[:, :1].copy(), sevens(4, 8), at="change(x[:], y[:])")
    mixed = np.ones((4, 1), ml_dtypes.bfloat16)
    refused("PL302", binary(pl.row_expand_add), X, mixed, sevens(4, 8), at="change(x[:], y[:])")
