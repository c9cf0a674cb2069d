"""Elementwise operations of the language in kernels, against integer and FP64 arithmetic: dtypes, shapes, valid regions, levels, errors."""

from __future__ import annotations

import math
import operator
from functools import cache

import ml_dtypes
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import lax
from pypto.dtypes import DTYPES, dtype_of
from pypto.errors import PyptoError, ShapeError
from tests.bits import identical
from tests.refusals import refused, reports

F32, F16, BF16 = np.float32, np.float16, ml_dtypes.bfloat16
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
FLOATS = [F32, F16, BF16]
SHAPES = {"one row": (1, 8), "one column": (8, 1), "one element": (1, 1), "ragged": (3, 5)}


def wrapped(value, dtype):
    low, bits = int(np.iinfo(dtype).min), np.iinfo(dtype).bits
    return (value - low) % 2**bits + low


def truncated(a, b):
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def unsigned(value, dtype):
    return value % 2 ** np.iinfo(dtype).bits


def shifted_right(a, n, dtype):
    return a >> n if 0 <= n < np.iinfo(dtype).bits else -(a < 0)


# What each operation means for Python's integers; results wrap.
ON_INTEGERS = {
    "add": (pl.add, lambda a, b, t: a + b),
    "sub": (pl.sub, lambda a, b, t: a - b),
    "mul": (pl.mul, lambda a, b, t: a * b),
    "div": (pl.div, lambda a, b, t: truncated(a, b)),
    "rem": (pl.rem, lambda a, b, t: a % b if b else 0),
    "fmod": (pl.fmod, lambda a, b, t: a - truncated(a, b) * b if b else 0),
    "maximum": (pl.maximum, lambda a, b, t: max(a, b)),
    "minimum": (pl.minimum, lambda a, b, t: min(a, b)),
    "and_": (pl.and_, lambda a, b, t: a & b),
    "or_": (pl.or_, lambda a, b, t: a | b),
    "xor": (pl.xor, lambda a, b, t: a ^ b),
    "shl": (pl.shl, lambda a, n, t: a << n if 0 <= n < np.iinfo(t).bits else 0),
    "shr": (pl.shr, shifted_right),
    "part_add": (pl.part_add, lambda a, b, t: a + b),
    "part_mul": (pl.part_mul, lambda a, b, t: a * b),
    "part_max": (pl.part_max, lambda a, b, t: max(a, b)),
    "part_min": (pl.part_min, lambda a, b, t: min(a, b)),
}


def python_rem(a, b):
    """Python's own `%` where it is defined; it is computed as the contract says."""
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0:
        return math.nan
    rest = math.fmod(a, b)
    return math.copysign(0.0, b) if rest == 0 else float(F32(rest + b)) if (rest < 0) != (b < 0) else rest


def ieee_fmod(a, b):
    return math.nan if math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0 else math.fmod(a, b)


def larger(a, b):
    return math.nan if math.isnan(a) or math.isnan(b) else max(a, b, key=lambda v: (v, math.copysign(1, v)))


def quotient(a, b):
    with np.errstate(all="ignore"):
        return float(np.float64(a) / np.float64(b))


# The same for floats: FP64 in, rounded once to FP32 and once more to the dtype.
ON_FLOATS = {
    "add": (pl.add, operator.add),
    "sub": (pl.sub, operator.sub),
    "mul": (pl.mul, operator.mul),
    "div": (pl.div, quotient),
    "rem": (pl.rem, python_rem),
    "fmod": (pl.fmod, ieee_fmod),
    "maximum": (pl.maximum, larger),
    "minimum": (pl.minimum, lambda a, b: -larger(-a, -b)),
    "lrelu": (pl.lrelu, lambda a, s: a if a > 0 else a * s),
    "prelu": (pl.prelu, lambda a, s: a if a > 0 else a * s),
    "part_add": (pl.part_add, operator.add),
    "part_mul": (pl.part_mul, operator.mul),
    "part_max": (pl.part_max, larger),
    "part_min": (pl.part_min, lambda a, b: -larger(-a, -b)),
}


@cache
def kernel(op, dtype, shape, valid):
    """op on two tiles, each loaded with this valid shape; the valid part is stored."""
    kind, result = dtype_of(dtype), dtype_of(dtype)
    size, seen = list(shape), list(valid)

    @pl.jit
    def runs(x: pl.Tensor[size, kind], y: pl.Tensor[size, kind], out: pl.Out[pl.Tensor[size, result]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = op(pl.load(x, [0, 0], size, valid_shape=seen), pl.load(y, [0, 0], size, valid_shape=seen))

    return runs


def integers(dtype, shape, *, counts):
    """Limits, small numbers and random ones; as second operand no zero, or counts that are in range."""
    rng = np.random.default_rng(math.prod(shape))
    limits = np.iinfo(dtype)
    pool = [v for v in (limits.min, limits.max, -7, 7, -3, 3, -1, 1, 2, 100) if limits.min <= v <= limits.max]
    x = rng.choice(np.array([*pool, 0], object), shape).astype(dtype)
    y = rng.choice(np.array(range(limits.bits) if counts else [v for v in pool if v], object), shape).astype(dtype)
    return x, y


def floats(dtype, shape):
    rng = np.random.default_rng(math.prod(shape))
    specials = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 3.0, -7.0, 2.0**-24, 300.0]
    with np.errstate(all="ignore"):
        values = [np.where(rng.random(shape) < 0.5, rng.choice(specials, shape), rng.standard_normal(shape) * 10) for _ in range(2)]
        return [v.astype(F32).astype(dtype) for v in values]


def everywhere(op, dtype, shape, x, y):
    """The bits in a kernel, in its eager body, and on arrays, which must be the same; and where only a part is valid, that part."""
    results = []
    for valid in {shape, (max(1, shape[0] - 1), max(1, shape[1] - 2))}:
        with pypto.override(platform="cpu"):
            for run in (kernel(op, dtype, shape, valid), kernel(op, dtype, shape, valid).eager):
                out = np.full(shape, 77, dtype)
                with reports(*(["PL204"] if valid != shape else [])):
                    run(x, y, out)
                assert (out[valid[0] :] == 77).all() and (out[:, valid[1] :] == 77).all()
                results.append(out[: valid[0], : valid[1]])
    whole = np.asarray(op(x, y))
    assert all(identical(part, whole[: part.shape[0], : part.shape[1]]) for part in results)
    return whole


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("name", ON_INTEGERS)
def test_integers_are_exact_and_wrap(name, shape):
    op, meaning = ON_INTEGERS[name]
    for dtype in INTEGERS:
        x, y = integers(dtype, shape, counts=name in ("shl", "shr"))
        want = [wrapped(meaning(int(a), int(b), dtype), dtype) for a, b in zip(x.flat, y.flat, strict=True)]
        found = everywhere(op, dtype, shape, x, y)
        assert found.dtype == dtype and [int(v) for v in found.flat] == want, dtype


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("name", ON_FLOATS)
def test_floats_are_one_fp32_operation_rounded_once(name, shape):
    op, meaning = ON_FLOATS[name]
    for dtype in FLOATS:
        x, y = floats(dtype, shape)
        with np.errstate(all="ignore"):
            exact = np.array([meaning(float(a), float(b)) for a, b in zip(x.flat, y.flat, strict=True)]).reshape(shape)
            want = exact.astype(F32).astype(dtype)
        assert identical(everywhere(op, dtype, shape, x, y), want), dtype


# Remainders


def test_rem_has_the_divisors_sign_and_fmod_the_dividends():
    a, b = np.array([7, -7, 7, -7]), np.array([3, 3, -3, -3])
    for dtype in (np.int32, F32, BF16):
        assert np.asarray(pl.rem(a.astype(dtype), b.astype(dtype))).astype(int).tolist() == [1, 2, -2, -1]
        assert np.asarray(pl.fmod(a.astype(dtype), b.astype(dtype))).astype(int).tolist() == [1, -1, 1, -1]


def test_a_zero_remainder_has_the_sign_the_rule_gives():
    x, y = F32([6, -6, 6, -6, 0.0, -0.0]), F32([3, 3, -3, -3, 2, 2])
    assert identical(pl.rem(x, y), F32([0.0, 0.0, -0.0, -0.0, 0.0, 0.0]))
    assert identical(pl.fmod(x, y), F32([0.0, -0.0, 0.0, -0.0, 0.0, -0.0]))


def test_fmod_is_exact_for_operands_of_any_exponents():
    rng = np.random.default_rng(4)
    with np.errstate(all="ignore"):
        x, y = (rng.integers(0, 2**32, 4000, dtype=np.uint64).astype(np.uint32).view(F32) for _ in range(2))
        want = np.array([ieee_fmod(float(a), float(b)) for a, b in zip(x, y, strict=True)])
    assert identical(lax.fmod(x, y), want.astype(F32))


def test_the_three_spellings_of_a_remainder_give_python_s_numbers():  # C35
    pairs = [(-5, 3), (5, -3)]
    assert [int(lax.floor_mod(a, b)) for a, b in pairs] == [a % b for a, b in pairs] == [1, -1]
    assert [int(lax.floor_div(a, b)) for a, b in pairs] == [a // b for a, b in pairs]
    assert [int(lax.fmod(a, b)) for a, b in pairs] == [-2, 2]
    assert lax.rem is lax.fmod  # JAX's name is C's remainder


def test_fmod_into_a_dead_operand_is_fmod():  # C76
    @pl.jit
    def takes_fmod(a: pl.Tensor[[1, 8], pl.FP32], b: pl.Tensor[[1, 8], pl.FP32], out: pl.Out[pl.Tensor[[1, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(a, [0, 0], [1, 8])
            t = pl.fmod(t, pl.load(b, [0, 0], [1, 8]))
            out[:] = t

    assert (np.asarray(takes_fmod(np.full((1, 8), 7, F32), np.full((1, 8), 4, F32))) == 3).all()


# Sums of three


def test_sums_of_three_are_two_operations_of_the_dtype():
    a, b, c, s = np.array([256], BF16), np.array([1], BF16), np.array([1], BF16), 1.0
    assert float(np.asarray(pl.addc(a, b, c))[0]) == 256.0  # 256 + 1 is 256 in BF16, twice
    assert float(np.asarray(pl.addsc(a, s, c))[0]) == 256.0
    ten, three, two = (np.array([v], np.int32) for v in (10, 3, 2))
    assert [int(np.asarray(f)[0]) for f in (pl.addc(ten, three, two), pl.subc(ten, three, two))] == [15, 5]
    assert [int(np.asarray(f)[0]) for f in (pl.addsc(ten, 3, two), pl.subsc(ten, 3, two))] == [15, 5]


# Literals and scalars


ROW = pl.Tensor[[1, 8], pl.INT32]


@pl.jit
def meets_numbers(x: ROW, plus: pl.Out[ROW], low: pl.Out[ROW], times: pl.Out[pl.Tensor[[1, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        plus[:] = pl.add(x, 5)
        low[:] = pl.ands(x, 255)
        times[:] = pl.mul(x, 2.5)


def test_a_number_takes_the_tiles_dtype_and_a_float_makes_fp32():  # C38
    plus, low, times = meets_numbers(np.array([[1, 300] * 4], np.int32))
    assert np.asarray(plus)[0, :2].tolist() == [6, 305] and np.asarray(low)[0, :2].tolist() == [1, 44]
    assert np.asarray(times)[0, :2].tolist() == [2.5, 750.0]


@pl.jit
def uses_scalar_forms(x: ROW, n: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[6, 8], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:1, :] = pl.rems(x, n)
        out[1:2, :] = pl.fmod(x, n)
        out[2:3, :] = pl.ors(x, n)
        out[3:4, :] = pl.xors(x, n)
        out[4:5, :] = pl.shls(x, 2)
        out[5:6, :] = pl.shrs(x, n)


def test_the_forms_with_a_scalar_take_run_time_scalars():
    x, n = np.array([[-9, -8, -1, 0, 1, 7, 8, 100]], np.int32), 3
    with pypto.override(platform="cpu"):
        out = np.asarray(uses_scalar_forms(x, n))
    row = [int(v) for v in x[0]]
    want = [
        [v % n for v in row], [int(math.fmod(v, n)) for v in row], [v | n for v in row], [v ^ n for v in row],
        [v << 2 for v in row], [v >> n for v in row],
    ]  # fmt: skip
    assert out.tolist() == want


# Shifts out of range


@pl.jit
def shifts_by_a_tile(x: ROW, n: ROW, out: pl.Out[ROW]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.shr(x, n)  # refused


@pytest.mark.parametrize("count", [-1, 32, 100])
@pytest.mark.checked
def test_a_count_out_of_range_is_an_error_in_checked_runs_and_shifts_everything_out_otherwise(count):
    x, n = np.array([[-5, 5] * 4], np.int32), np.array([[1] * 7 + [count]], np.int32)
    error = refused("PL704", shifts_by_a_tile, x, n, at="pl.shr(x, n)")
    assert "[0, 7]" in error.message
    with pypto.override(check=False):
        assert np.asarray(shifts_by_a_tile(x, n)).tolist() == [[-3, 2] * 3 + [-3, 0]]
    assert np.asarray(lax.shr(np.int32([-5]), count)).tolist() == [-1]
    assert np.asarray(lax.shl(np.int32([-5]), count)).tolist() == [0]


@pytest.mark.parametrize("spelled", [pl.shls, pl.shrs])
def test_a_constant_count_out_of_range_is_refused_at_once(spelled):
    for count in (-1, 16):
        with pytest.raises(ShapeError) as caught:
            spelled(np.int16([1]), count)
        assert caught.value.code == "PL308"


def test_logical_and_arithmetic_shifts_of_either_sign():
    for dtype in INTEGERS:
        bits = np.iinfo(dtype).bits
        x = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, 1, wrapped(-7, dtype)], object).astype(dtype)
        logical = [wrapped(unsigned(int(v), dtype) >> 3, dtype) for v in x]
        signed = [(unsigned(int(v), dtype) ^ 1 << bits - 1) - (1 << bits - 1) for v in x]
        three = np.array(3, dtype)
        assert [int(v) for v in np.asarray(lax.shift_right_logical(x, three))] == logical
        assert [int(v) for v in np.asarray(lax.shift_right_arithmetic(x, three))] == [wrapped(v >> 3, dtype) for v in signed]


# Operators of arrays


def test_array_operators_are_the_operations():
    x = pypto.Array(np.array([6, -5], np.int32))
    found = [x & 3, 3 & x, x | 1, x ^ 1, ~x, x << 2, x >> 1, 2 << pypto.Array(np.int32([1, 2])), x**3, x % 4]
    want = [[2, 3], [2, 3], [7, -5], [7, -6], [-7, 4], [24, -20], [3, -3], [4, 8], [216, -125], [2, 3]]
    assert [f.tolist() for f in found] == want
    assert (pypto.Array(F32([4.0])) ** 0.5).tolist() == [2.0] and (2.0 ** pypto.Array(F32([3.0]))).tolist() == [8.0]


# Refused


@pytest.mark.parametrize("op", [lax.and_, lax.or_, lax.xor, lax.shl, lax.shr])
def test_bits_of_floats_are_refused(op):
    with pytest.raises(PyptoError) as caught:
        op(F32([1]), F32([1]))
    assert caught.value.code == "PL305"


def test_a_chip_without_the_instruction_says_so_at_the_users_line():
    @pl.jit
    def inverts(x: ROW, out: pl.Out[ROW]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.not_(x)  # refused

    refused("PL406", inverts, np.ones((1, 8), np.int32), at="pl.not_(x)")
    with pypto.override(platform="cpu"):
        assert (np.asarray(inverts(np.ones((1, 8), np.int32))) == -2).all()


def test_high_precision_is_a_bool_for_floats_and_changes_no_bit():
    x = F32([0.3, 7.0])
    for op in (lax.rsqrt, lax.log, lax.recip):
        assert identical(op(x, high_precision=True), op(x)) and identical(op(x, high_precision=False), op(x))
    assert identical(lax.div(x, x, high_precision=True), lax.div(x, x))
    assert "high_precision=True" in str(pypto.make_jaxpr(lambda v: lax.log(v, high_precision=True))(x))
    for bad in (lambda: lax.log(x, high_precision=1), lambda: lax.div(np.int32([4]), 2, high_precision=True)):
        with pytest.raises(ShapeError) as caught:
            bad()
        assert caught.value.code == "PL308"


def test_dtypes_that_an_operation_does_not_take_are_named():
    for op, dtype in ((lax.relu, "INT8"), (lax.sin, "INT32"), (lax.lrelu, "INT32"), (lax.part_add, "BOOL")):
        arguments = [np.ones((2, 2), DTYPES[dtype].storage)] * len(op.operands)
        with pytest.raises(ShapeError) as caught:
            op(*arguments)
        assert caught.value.code == "PL305" and dtype in caught.value.message
