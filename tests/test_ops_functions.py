"""Functions without an instruction: their bounds, special values, narrow floats, and bits that no machine may change."""

from __future__ import annotations

import hashlib
import math

import ml_dtypes
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import lax
from pypto.core.op import OPS, Ulp
from pypto.core.trace import EVAL, tracing
from pypto.errors import ShapeError
from tests.bits import identical
from tests.exact import same

F32, F16, BF16 = np.float32, np.float16, ml_dtypes.bfloat16
INF, NAN = math.inf, math.nan


def sigmoid(x):
    return np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x)))


def log_sum(x, y=0.0):
    return np.maximum(x, y) + np.log1p(np.exp(-np.abs(x - y)))


# The same functions in FP64, whose error is nothing next to half a unit of FP32.
MEANT = {
    "expm1": np.expm1,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "logistic": sigmoid,
    "erf": np.vectorize(math.erf, otypes=[float]),
    "softplus": log_sum,
    "exp2": np.exp2,
    "log2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
}


def inputs(seed=1, count=120_000):
    """All exponents, usual numbers, the neighbours of every boundary of a method, specials."""
    rng = np.random.default_rng(seed)
    edges = [
        2.0**-149, 2.0**-126, 2.0**-24, 2.0**-23, 0.2876821, 0.4054651, 0.5, 0.625, 0.92, 1.0, 1.5707964, 3.1415927, 3.92, 4.0, 88.72284,
        103.97208, 127.5, 128.0, 149.0, 150.0, 3.4028235e38,
    ]  # fmt: skip
    around = (np.array(edges, F32).view(np.int32)[:, None] + np.arange(-60, 61)).ravel().astype(np.int32).view(F32)
    bits = rng.integers(0, 2**32, count // 2, dtype=np.uint64).astype(np.uint32).view(F32)
    usual = (rng.standard_normal(count // 2) * 10.0 ** rng.uniform(-4, 2, count // 2)).astype(F32)
    with np.errstate(all="ignore"):
        return np.concatenate([bits, usual, around, -around, F32([0.0, -0.0, INF, -INF, NAN])])


def errors(found, exact):
    """Distance in units in the last place of the exact value; infinite for a wrong special value, or a zero of the wrong sign."""
    with np.errstate(all="ignore"):
        found, nearest = found.astype(np.float64), exact.astype(F32).astype(np.float64)
        unit = np.exp2(np.maximum(np.frexp(np.abs(exact))[1] - 1, -126) - 23)
        distance = np.abs(found - exact) / unit
    alike = (np.isnan(found) & np.isnan(exact)) | ((found == nearest) & (np.signbit(found) == np.signbit(exact)))
    distance = np.where(np.isfinite(nearest) & np.isfinite(found) & ((found != 0) | (exact != 0)), distance, INF)
    return np.where(alike, np.minimum(distance, 0.5), distance)


def bound_of(op):
    assert isinstance(op.exact, Ulp)
    return op.exact.bound


@pytest.mark.parametrize("name", MEANT)
def test_the_error_is_within_the_stated_bound_everywhere(name):
    op, x = getattr(lax, name), inputs()
    if name in ("sin", "cos"):  # their bound is stated for these arguments, and sin(-0) is +0
        x = x[(np.abs(x) <= 1e5) & ((x != 0) | ~np.signbit(x))]
    with np.errstate(all="ignore"):
        exact = MEANT[name](x.astype(np.float64))
    off = errors(np.asarray(op(x)), exact)
    assert off.max() <= bound_of(op), (x[off.argmax()], off.max())


@pytest.mark.parametrize("name", [n for n in MEANT if n not in ("sin", "cos")])
def test_every_bound_is_at_most_two_units(name):
    assert bound_of(getattr(lax, name)) <= 2


def test_next_to_the_zeros_of_sine_and_cosine_there_is_no_cancellation():
    turns = np.arange(1, 3000)
    for op, meaning, zeros in ((lax.sin, np.sin, turns * np.pi), (lax.cos, np.cos, (turns - 0.5) * np.pi)):
        x = (zeros.astype(F32).view(np.int32)[:, None] + np.arange(-4, 5)).ravel().astype(np.int32).view(F32)
        assert errors(np.asarray(op(x)), meaning(x.astype(np.float64))).max() <= bound_of(op)


def test_pow_is_within_its_bound_where_results_are_finite():
    rng = np.random.default_rng(2)
    base = np.concatenate([np.exp(rng.uniform(-87, 88, 40_000)), 1 + rng.uniform(-1, 1, 40_000) * 10.0 ** rng.uniform(-7, -0.2, 40_000)])
    base = base.astype(F32)
    with np.errstate(all="ignore"):
        exponent = rng.uniform(-103, 88, base.size) / np.log(base.astype(np.float64))
        exponent = np.where(np.isfinite(exponent), exponent, 2.5).astype(F32)
        exact = np.power(base.astype(np.float64), exponent.astype(np.float64))
    off = errors(np.asarray(lax.pow(base, exponent)), exact)
    assert off.max() <= bound_of(lax.pow_), (base[off.argmax()], exponent[off.argmax()], off.max())


def test_pow_has_the_special_values_of_ieee_754():
    values = F32([
        0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 2.5, -2.5, INF, -INF, NAN, 2.0**-149, -(2.0**-149), 3e38, -3e38, 16777215, -16777216,
        8388607.5, 1.0000001,
    ])  # fmt: skip
    x, y = (m.ravel() for m in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
    assert errors(np.asarray(lax.pow(x, y)), exact).max() <= 1


def test_logaddexp_is_within_two_units_of_the_result_or_of_the_larger_term():
    rng = np.random.default_rng(3)
    x, y = (np.concatenate([rng.uniform(-a, b, 40_000) for a, b in ((1, 0.1), (3, 3), (0, 30), (90, 90))]).astype(F32) for _ in range(2))
    wide = x.astype(np.float64), y.astype(np.float64)
    exact, high = log_sum(*wide), np.maximum(*wide)
    largest = np.maximum(np.abs(exact), np.where(high < 0, np.maximum(np.abs(high), exact - high), 0))
    unit = np.exp2(np.maximum(np.frexp(largest)[1] - 1, -126) - 23)
    assert (np.abs(np.asarray(lax.logaddexp(x, y)).astype(np.float64) - exact) / unit).max() <= bound_of(lax.logaddexp)
    specials = F32([0.0, INF, -INF, NAN, 1, -200, 3e38])
    a, b = (m.ravel() for m in np.meshgrid(specials, specials))
    with np.errstate(all="ignore"):
        assert errors(np.asarray(lax.logaddexp(a, b)), np.logaddexp(a.astype(np.float64), b.astype(np.float64))).max() <= 1


# Values one can write down

POINTS = [
    (lax.tanh, [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (NAN, NAN), (20, 1), (2.0**-149, 2.0**-149)]),
    (lax.erf, [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (NAN, NAN), (-5, -1)]),
    (lax.logistic, [(0.0, 0.5), (INF, 1), (-INF, 0.0), (NAN, NAN), (-200, 0.0), (200, 1)]),
    (lax.softplus, [(INF, INF), (-INF, 0.0), (NAN, NAN), (-200, 0.0), (200, 200), (3e38, 3e38)]),
    (lax.expm1, [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1), (NAN, NAN), (89, INF), (-30, -1)]),
    (lax.log1p, [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-1, -INF), (-2, NAN), (NAN, NAN), (2.0**-149, 2.0**-149)]),
    (lax.exp2, [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, 0.0), (NAN, NAN), (128, INF), (-149, 2.0**-149), (-151, 0.0)]),
    (lax.log2, [(0.0, -INF), (-0.0, -INF), (-1, NAN), (INF, INF), (NAN, NAN), (2.0**-149, -149), (1, 0.0)]),
    (lax.floor, [(0.5, 0.0), (-0.5, -1), (-0.0, -0.0), (8388609, 8388609), (3e9, 3e9), (INF, INF), (NAN, NAN), (-3e38, -3e38)]),
    (lax.ceil, [(0.5, 1), (-0.5, -0.0), (-0.0, -0.0), (2.0**-149, 1), (-INF, -INF), (NAN, NAN)]),
    (lax.trunc, [(1.9, 1), (-1.9, -1), (-0.9, -0.0), (NAN, NAN), (INF, INF)]),
    (lax.round, [(0.5, 1), (1.5, 2), (2.5, 3), (-0.5, -1), (-2.5, -3), (-0.4, -0.0), (0.49999997, 0.0), (NAN, NAN), (-INF, -INF)]),
    (lax.sign, [(3, 1), (-3, -1), (0.0, 0.0), (-0.0, -0.0), (NAN, NAN), (INF, 1), (-(2.0**-149), -1)]),
    (lax.relu, [(3, 3), (-3, 0.0), (-0.0, 0.0), (NAN, NAN), (INF, INF), (-INF, 0.0)]),
    (lax.square, [(-3, 9), (2e19, INF), (NAN, NAN)]),
]


@pytest.mark.parametrize("op, points", POINTS, ids=lambda v: getattr(v, "name", ""))
def test_special_values(op, points):
    x, want = np.array(points, np.float64).astype(F32).T
    assert same(op(x), want)


def test_a_half_goes_away_from_zero_or_to_the_even_number_as_jaxs_methods_say():
    x = F32([0.5, 1.5, 2.5, -0.5, -1.5, -2.5])
    away, even = lax.RoundingMethod.AWAY_FROM_ZERO, lax.RoundingMethod.TO_NEAREST_EVEN
    assert lax.round(x).tolist() == lax.round(x, away).tolist() == [1, 2, 3, -1, -2, -3]
    assert same(lax.round(x, rounding_method=even), [0, 2, 2, -0.0, -2, -2]) and identical(lax.round(x, 1), lax.round(x, even))
    for bad in (2, True, "away"):
        with pytest.raises(ShapeError) as caught:
            lax.round(x, rounding_method=bad)
        assert caught.value.code == "PL308"


def test_powers_of_two_are_exact_both_ways():
    k = np.arange(-149, 128)
    powers = np.ldexp(F32(1), k)
    assert identical(lax.exp2(k.astype(F32)), powers) and lax.log2(powers).tolist() == k.tolist()


def test_nothing_cancels_log2_and_exp2():  # C36
    assert lax.log2(lax.exp2(F32([128]))).tolist() == [INF]


def test_softplus_of_a_large_negative_number_is_small_and_not_zero():  # C24
    assert lax.softplus(-20.0).item() == lax.logaddexp(F32(-20), 0.0).item() == float(F32(2.0611537e-09))


def test_integer_pow_squares_repeatedly_and_wraps():
    x = np.array([-3, 2, 7, 0], np.int8)
    for y in (0, 1, 2, 5, 9):
        want = [(int(v) ** y + 128) % 256 - 128 for v in x]
        assert lax.integer_pow(x, y).tolist() == lax.pow(x, y).tolist() == want
    f = F32([1.1, -0.3])
    square = f * f
    assert identical(lax.integer_pow(f, 7), (f * square) * (square * square)) and identical(lax.integer_pow(f, -2), F32(1) / square)
    assert lax.integer_pow(F32([NAN, 0.0]), 0).tolist() == [1, 1]
    for bad in (2.0, True, np.int32(2)):
        with pytest.raises(ShapeError) as caught:
            lax.integer_pow(f, y=bad)
        assert caught.value.code == "PL308"
    with pytest.raises(ShapeError) as caught:
        lax.integer_pow(x, -1)
    assert caught.value.code == "PL308"


def test_clamp_takes_jaxs_order_and_propagates_nan():
    assert same(lax.clamp(-1.0, F32([-5, 0.5, NAN, 7]), 1.0), [-1, 0.5, NAN, 1])
    assert lax.clamp(np.int32([0, 5]), np.int32([9, 1]), np.int32([4, 8])).tolist() == [4, 5]


def test_is_finite_and_the_logical_ones_are_truth_values():
    assert lax.is_finite(F32([1, INF, -INF, NAN, 3e38])).tolist() == [True, False, False, False, True]
    a, b = np.array([True, True, False]), np.array([True, False, False])
    assert lax.logical_xor(a, b).tolist() == [False, True, False] and (pypto.Array(a) ^ b).tolist() == [False, True, False]


# Narrow floats: every pattern

UNARY = [
    "abs", "ceil", "cos", "erf", "exp", "exp2", "expm1", "floor", "log", "log1p", "log2", "logistic", "neg", "recip", "relu", "round",
    "rsqrt", "sign", "sin", "softplus", "sqrt", "square", "tanh", "trunc",
]  # fmt: skip


@pytest.mark.parametrize("dtype", [F16, BF16])
@pytest.mark.parametrize("name", UNARY)
def test_every_16_bit_float_is_the_fp32_result_rounded_once(name, dtype):
    op, patterns = getattr(lax, name), np.arange(2**16, dtype=np.uint16).view(dtype)
    with np.errstate(all="ignore"):
        assert identical(op(patterns), np.asarray(op(patterns.astype(F32))).astype(dtype))


@pytest.mark.parametrize("dtype", [F16, BF16])
def test_is_finite_and_two_operand_functions_widen_too(dtype):
    rng = np.random.default_rng(6)
    x, y = (rng.uniform(0.1, 6, 3000).astype(dtype) for _ in range(2))
    wide = x.astype(F32), y.astype(F32)
    for op in (lax.pow, lax.logaddexp):
        assert identical(op(x, y), np.asarray(op(*wide)).astype(dtype))
    patterns = np.arange(2**16, dtype=np.uint16).view(dtype)
    with np.errstate(all="ignore"):
        assert lax.is_finite(patterns).tolist() == np.isfinite(patterns.astype(F32)).tolist()


# The decomposition is the definition: frozen bits, in a kernel too

FROZEN = {
    "expm1": "267d87a3b70957b3",
    "log1p": "fd17e69cbec508d2",
    "tanh": "410ae3981cb572e6",
    "logistic": "07ff0d57d79fd6f1",
    "erf": "3a33e2190887647b",
    "softplus": "b2dcabaff2b800ca",
    "exp2": "fe5d5f937d6656e9",
    "log2": "879bb23f01170663",
    "sin": "102e79a92dc55a56",
    "cos": "0a8758bd261cda1d",
    "pow": "6defac57d42e890c",
    "logaddexp": "a8824391c38190f0",
}


def frozen_inputs():
    """FP32 by integer arithmetic alone, which no version of NumPy draws otherwise: any bits, and numbers from 2**-7 to 2**5."""
    hashed = (np.arange(20_000, dtype=np.uint64) * 2654435761 + 97) % 2**32
    usual = 0x3C000000 + (hashed % (12 << 23)) + ((hashed >> np.uint64(31)) << np.uint64(31))
    with np.errstate(all="ignore"):
        return np.concatenate([hashed, usual]).astype(np.uint32).view(F32)


def digest(result):
    """A hash of the bits, all NaNs alike."""
    bits = np.asarray(result).copy()
    bits[np.isnan(bits)] = NAN
    return hashlib.sha256(bits.tobytes()).hexdigest()[:16]


@pytest.mark.parametrize("name", [*MEANT, "pow", "logaddexp"])
def test_no_bit_of_a_function_changes_without_a_word(name):
    """A change of these hashes is a change of results: it belongs under Numerics in the changelog."""
    op, x = getattr(lax, name), frozen_inputs()
    result = op(x, x[::-1].copy()) if name in ("pow", "logaddexp") else op(x)
    assert digest(result) == FROZEN[name]


ROW = pl.Tensor[[8, 128], pl.FP32]


@pytest.mark.parametrize("name", MEANT)
def test_a_kernel_runs_the_same_decomposition(name):
    op = getattr(lax, name)

    @pl.jit
    def applies(x: ROW, out: pl.Out[ROW]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = op(x)

    x = inputs(seed=5, count=2000)[: 8 * 128].reshape(8, 128)
    with pypto.override(verify=True):
        assert identical(applies(x), op(x)) and identical(applies.eager(x), op(x))


def test_a_scalar_of_a_kernel_takes_the_same_functions():
    @pl.jit
    def scales(x: ROW, s: pl.Scalar[pl.FP32], out: pl.Out[ROW]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * lax.logaddexp(lax.tanh(s), 0.25)

    want = float(np.asarray(lax.logaddexp(lax.tanh(F32(0.3)), F32(0.25))))
    assert (np.asarray(scales(np.ones((8, 128), F32), 0.3)) == F32(want)).all()


@pytest.mark.parametrize("name", sorted(name for name, op in OPS.items() if op.decomposition is not None))
def test_the_kept_program_of_a_decomposition_has_its_bits(name):
    op = OPS[name]
    for operands, options in op.samples()[:6]:
        arrays = [np.asarray(x) for x in operands]
        with tracing(EVAL):
            assert identical(op.meaning(*arrays, **options), op.decomposition(*map(pypto.Array, arrays), **options))
