"""Reductions and scans: against loops over Python numbers, in kernels at both levels, on partly valid tiles, with scratch."""

import ml_dtypes
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import dtypes, lax
from pypto.errors import LevelError, PyptoError
from tests.bits import identical
from tests.by_hand import FLOATS, INTEGERS, by_hand, f, lanes, numbers
from tests.refusals import f32, refused, sevens

SHAPES = [(1, 70), (70, 1), (1, 1), (3, 100)]
PARTS = [(2, 70), (3, 1), (1, 64), (3, 65)]

# ---- kernels -------------------------------------------------------------------------------------------------------

OPS = {
    (order, name): getattr(pl, f"{order[:3]}_{name}")
    for order in ("rows", "cols")
    for name in ("sum", "prod", "max", "min", "argmax", "argmin")
}


def reducing(op):
    @pl.jit
    def reduces(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = op(x[:])

    return reduces


def reducing_a_part(op, shape, rows, columns):
    @pl.jit
    def reduces_a_part(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], shape, valid_shape=[rows, columns])
            out[:] = pl.fillpad(op(t))

    return reduces_a_part


def both(kernel, x, out):
    """Traced and eager; the same bits."""
    other = np.array(out)
    with pypto.override(platform="cpu", verify=True):
        kernel(x, out)
    kernel.eager(x, other)
    assert identical(out, other)
    return out


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("order, name", OPS, ids=lambda n: n)
def test_a_row_or_column_reduction_is_its_formula_however_it_runs(order, name, dtype):
    kernel = reducing(OPS[order, name])
    for shape in SHAPES:
        x = numbers(dtype, shape, seed=len(name))
        want = by_hand(name, dtype, x, order)
        assert identical(both(kernel, x, np.ones_like(want)), want), shape
        if name.startswith("arg"):
            found = getattr(lax, name)(x, -1 if order == "rows" else 0, keepdims=True)
        else:
            options = {"order": "lanes64" if order == "rows" else "ascending"} if name in ("sum", "prod") else {}
            found = getattr(lax, f"reduce_{name}")(x, -1 if order == "rows" else 0, keepdims=True, **options)
        assert identical(found, want), shape


@pytest.mark.parametrize("dtype", ["FP32", "BF16", "INT16", "UINT8"])
@pytest.mark.parametrize("order, name", OPS, ids=lambda n: n)
def test_only_the_valid_part_of_a_tile_is_reduced(order, name, dtype):
    x = numbers(dtype, (3, 100), seed=1)
    for rows, columns in PARTS:
        part = by_hand(name, dtype, x[:rows, :columns], order)
        want = np.zeros((3, 1) if order == "rows" else (1, 100), part.dtype)
        want[: part.shape[0], : part.shape[1]] = part
        kernel = reducing_a_part(OPS[order, name], (3, 100), rows, columns)
        assert identical(both(kernel, x, np.ones_like(want)), want), (rows, columns)


def test_a_tile_without_valid_elements_gives_the_identities():
    x = numbers("FP32", (3, 100))
    for name, want in {"sum": 0, "prod": 1, "max": -np.inf, "min": np.inf, "argmax": 0}.items():
        kernel = reducing_a_part(OPS["rows", name], (3, 100), 3, 0)
        out = np.ones((3, 1), np.int32 if name == "argmax" else f)
        assert both(kernel, x, out).tolist() == [[want]] * 3


# C25: the search starts from an element, never from a sentinel.


@pytest.mark.parametrize(
    ("row", "largest_at", "smallest_at"),
    [
        ([-np.inf, -3.4028235e38], 1, 0),
        ([-np.inf, -np.inf], 0, 0),
        ([np.inf, np.inf], 0, 0),
        ([3.4028235e38, np.inf], 1, 0),
        ([1.0, np.nan, np.nan], 1, 1),
        ([np.nan, np.inf], 0, 0),
        ([0.0, -0.0], 0, 0),
        ([-0.0, 0.0], 0, 0),
        ([2.0, 5.0, 5.0], 1, 0),
    ],
)
def test_positions_of_hard_rows(row, largest_at, smallest_at):  # C25
    x = f32([row])
    for op, want in ((pl.row_argmax, largest_at), (pl.row_argmin, smallest_at)):
        assert both(reducing(op), x, np.full((1, 1), 9, np.int32)).tolist() == [[want]]
    assert lax.argmax(x, 1).tolist() == [largest_at] and lax.argmin(x, 1).tolist() == [smallest_at]
    for op, want in ((pl.col_argmax, largest_at), (pl.col_argmin, smallest_at)):
        assert both(reducing(op), x.T.copy(), np.full((1, 1), 9, np.int32)).tolist() == [[want]]


def test_the_smallest_integer_can_be_the_largest():
    low = np.full((1, 4), -128, np.int8)
    assert lax.argmax(low, 1).tolist() == [0] and lax.reduce_max(low).item() == -128
    assert lax.argmax(np.uint64([[2**64 - 2, 2**64 - 1]]), 1).tolist() == [1]


# Scratch operands: validated, and without effect.


def with_scratch(op, shape, dtype):
    @pl.jit
    def uses_scratch(x: pl.Tensor[[3, 8], pl.FP32], out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [3, 8])
            tmp = pl.create_tile(shape, dtype)
            out[:] = op(t, tmp)  # refused

    return uses_scratch


SCRATCH = {n: getattr(pl, n) for n in ("row_sum", "row_prod", "row_max", "row_min", "col_sum", "col_argmax", "col_argmin")}


@pytest.mark.parametrize("name", SCRATCH)
@pytest.mark.parametrize("shape", [(3, 8), (4, 16)], ids=str)
def test_a_scratch_tile_of_at_least_the_extents_changes_nothing(name, shape):
    x = numbers("FP32", (3, 8))
    want = np.asarray(SCRATCH[name](x))
    assert identical(both(with_scratch(SCRATCH[name], shape, pl.FP32), x, np.ones_like(want)), want)


@pytest.mark.parametrize("op", [pl.row_argmax, pl.row_argmin])
def test_an_arg_reductions_scratch_tile_has_exactly_the_shape(op):
    x = numbers("FP32", (3, 8))
    want = np.asarray(op(x))
    assert identical(both(with_scratch(op, (3, 8), pl.FP32), x, np.ones_like(want)), want)
    refused("PL301", with_scratch(op, (4, 8), pl.FP32), x, np.array(want), at="op(t, tmp)")


@pytest.mark.parametrize("name", SCRATCH)
def test_a_scratch_tile_that_does_not_fit_is_refused(name):
    x, out = numbers("FP32", (3, 8)), np.zeros((3, 1), f)
    refused("PL301", with_scratch(SCRATCH[name], (2, 8), pl.FP32), x, out, at="op(t, tmp)")
    refused("PL301", with_scratch(SCRATCH[name], (3, 8, 1), pl.FP32), x, out, at="op(t, tmp)")
    refused("PL302", with_scratch(SCRATCH[name], (3, 8), pl.FP16), x, out, at="op(t, tmp)")


def scratch_at_tensor_level(op):
    @pl.jit
    def gives_scratch_to_a_tensor(x: pl.Tensor[[3, 8], pl.FP32], out: pl.Out[pl.Tensor[[3, 1], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            tmp = pl.create_tile([3, 8], pl.FP32)
            out[:] = op(x, tmp)  # refused

    return gives_scratch_to_a_tensor


def adds_its_maxima(x, tmp):
    return pl.row_expand_add(x, pl.row_max(x), tmp)  # refused


@pytest.mark.parametrize(
    ("op", "at"),
    [
        *((op, "op(x, tmp)") for op in (pl.row_sum, pl.row_max, pl.row_argmax, pl.tensor.row_sum)),
        (adds_its_maxima, "pl.row_expand_add(x, pl.row_max(x), tmp)"),
    ],
)
def test_scratch_at_tensor_level_is_a_type_error_that_names_both_spellings(op, at):
    error = refused("PL307", scratch_at_tensor_level(op), numbers("FP32", (3, 8)), sevens(3, 1), at=at)
    assert isinstance(error, LevelError) and isinstance(error, TypeError)
    assert "pl.tile." in error.message and "pl.tensor." in error.message


def test_the_tile_spelling_takes_scratch_for_a_tensor_level_value_too():
    want = sevens(3, 1)
    x = numbers("FP32", (3, 8))
    scratch_at_tensor_level(pl.tile.row_sum)(x, want)
    assert identical(want, pl.row_sum(x))


# Arrays: JAX's spelling, any axes.


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (2, 0), (-1,), 1, None, (0, 1, 2), ()], ids=str)
def test_a_reduction_over_several_axes_runs_over_them_flattened_in_row_major_order(axes):
    x = numbers("FP32", (4, 30, 5))
    gone = tuple(sorted(a % 3 for a in ((0, 1, 2) if axes is None else (axes,) if isinstance(axes, int) else axes)))
    kept = [a for a in range(3) if a not in gone]
    flat = np.transpose(x, [*kept, *gone]).reshape([*(x.shape[a] for a in kept), -1])
    want = np.array([lanes(row, lambda a, b: a + b, -0.0) for row in flat.reshape(-1, flat.shape[-1])], f)
    assert identical(lax.reduce_sum(x, axes), want.reshape([x.shape[a] for a in kept]))
    assert lax.reduce_max(x, axes, keepdims=True).shape == tuple(1 if a in gone else d for a, d in enumerate(x.shape))


def test_reductions_have_jaxs_spelling_and_its_shapes():
    x = np.int32([[1, 2, 3], [4, 5, 6]])
    assert lax.reduce_sum(x, (0,)).tolist() == [5, 7, 9]
    assert lax.reduce_prod(x, axes=[1]).tolist() == [6, 120]
    assert lax.reduce_min(x).shape == ()
    assert lax.argmax(x, 0, np.int64).dtype is dtypes.INT64 and lax.argmax(x, 0, np.int64).tolist() == [1, 1, 1]


def test_and_and_or_of_truth_values_and_of_bits():
    t = np.array([[True, True], [True, False], [False, False]])
    assert lax.reduce_and(t, 1).tolist() == [True, False, False]
    assert lax.reduce_or(t, 1).tolist() == [True, True, False]
    assert lax.reduce_and(np.uint8([0b1100, 0b1010]), 0).item() == 0b1000
    assert lax.reduce_or(np.int16([-32768, 1]), 0).item() == -32767
    assert lax.reduce_and(np.zeros((2, 0), np.int8), 1).tolist() == [-1, -1]
    assert lax.reduce_or(np.zeros((2, 0), np.bool_), 1).tolist() == [False, False]


def test_narrow_sums_are_kept_in_fp32_and_rounded_once():
    ones = np.ones((1, 1000), ml_dtypes.bfloat16)
    assert lax.reduce_sum(ones).item() == 1000 and lax.cumsum(ones, 1)[0, 600].item() == 600  # 601 in BF16, ties to even


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("PL308", lambda x: lax.reduce_sum(x, 2)),
        ("PL308", lambda x: lax.reduce_sum(x, (0, 0))),
        ("PL308", lambda x: lax.reduce_sum(x, (0, -2))),
        ("PL308", lambda x: lax.reduce_sum(x, 0, order="tree")),
        ("PL308", lambda x: lax.argmax(x, 5)),
        ("PL308", lambda x: lax.cumsum(x, -3)),
        ("PL305", lambda x: lax.argmax(x, 0, np.float32)),
        ("PL305", lambda x: lax.reduce_and(x, 0)),
        ("PL305", lambda x: lax.reduce_sum(x > 0)),
        ("PL305", lambda x: lax.cumsum(x > 0)),
        ("PL305", lambda x: lax.cumlogsumexp(x.astype(np.int32))),
        ("PL301", lambda x: lax.argmin(x[:, :0], 1)),
        ("PL301", lambda x: pl.row_sum(x[0])),
    ],
)
def test_what_a_reduction_cannot_do_is_refused(code, call):
    with pytest.raises(PyptoError) as caught:
        call(np.ones((2, 3), f))
    assert caught.value.code == code and caught.value.fix
