"""Elementwise functions and reductions of the numerics contract, against independent computation."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from pypto import numerics
from pypto.dtypes import FP32, INT8
from pypto.errors import ShapeError
from pypto.numerics import (
    CONTRACT,
    argmax_first,
    argmax_last,
    argmin_first,
    argmin_last,
    convert,
    div,
    elementwise,
    exp,
    floor_div,
    floor_mod,
    log,
    max_first,
    max_last,
    maximum,
    min_first,
    min_last,
    minimum,
    prod_first,
    prod_last,
    recip,
    rsqrt,
    sqrt,
    sum_first,
    sum_last,
)  # fmt: skip
from tests.exact import FORMATS, float32_bits, round_float, same

bf16, f16, f32 = ml_dtypes.bfloat16, np.float16, np.float32
DIGITS = Context(prec=80, Emax=999999, Emin=-999999)


def exact_root(x: Fraction) -> Fraction:
    """Square root to more than 200 bits, exact for squares."""
    shift = 2 * (240 + max(0, x.denominator.bit_length()))
    return Fraction(math.isqrt((x.numerator << (2 * shift)) // x.denominator), 1 << shift)


SLOW: dict[str, Callable[[float], Fraction]] = {
    "exp": lambda x: Fraction(DIGITS.exp(Decimal(x))),
    "log": lambda x: Fraction(DIGITS.ln(Decimal(x))),
    "sqrt": lambda x: exact_root(Fraction(x)),
    "rsqrt": lambda x: 1 / exact_root(Fraction(x)),
    "recip": lambda x: 1 / Fraction(x),
}
LIBRARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "recip": lambda x: 1 / x,
}  # fmt: skip
OURS = {"exp": exp, "log": log, "sqrt": sqrt, "rsqrt": rsqrt, "recip": recip}


def independent(name: str, x: np.ndarray) -> np.ndarray:
    """The correctly rounded FP32 result: FP64 by libm where 2**-44 around it rounds one way, otherwise by Decimal or rationals."""
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        y = LIBRARY[name](wide)
        low, high = (y * (1 - 2.0**-44)).astype(f32), (y * (1 + 2.0**-44)).astype(f32)
    result = low.copy()
    for i in np.nonzero((low != high) & np.isfinite(wide) & ~np.isnan(y))[0]:
        result[i] = round_float(SLOW[name](float(wide[i])), FORMATS["FP32"]) if -110 < wide[i] < 95 or name != "exp" else low[i]
    return result


@pytest.mark.parametrize("dtype", [f16, bf16])
@pytest.mark.parametrize("name", OURS)
def test_every_16_bit_float_gives_the_correctly_rounded_result(name: str, dtype: type):
    patterns = np.arange(2**16, dtype=np.uint16).view(dtype)
    with np.errstate(all="ignore"):
        wide = patterns.astype(f32)
        expected = independent(name, wide)
        assert same(OURS[name](wide), expected)
        assert same(OURS[name](patterns), expected.astype(dtype))
    assert OURS[name](patterns).dtype == dtype


@pytest.mark.parametrize("name", OURS)
def test_random_and_boundary_fp32_give_the_correctly_rounded_result(name: str):
    rng = np.random.default_rng(11)
    usual = (rng.standard_normal(60_000) * 40).astype(f32)
    edges = [
        0,
        1,
        2**-24,
        2**-25,
        2**-149,
        2**-126,
        88.72283,
        103.97208,
        87.33654,
        2**127,
        3.4028235e38,
        2.7182817,
        0.5,
        1.4142135,
        0.7071067,
    ]
    words = np.array(edges, f32).view(np.uint32)[:, None].astype(np.int64) + np.arange(-40, 40)
    around = np.maximum(words, 0).ravel().astype(np.uint32).view(f32)
    bits = rng.integers(0, 2**32, 200_000, dtype=np.uint64).astype(np.uint32).view(f32)
    with np.errstate(all="ignore"):
        x = np.concatenate([bits, usual, around, -around])
        assert same(OURS[name](x), independent(name, x))


def test_special_values_are_exact():
    inf, nan = np.inf, np.nan
    table = {
        exp: [(0, 1), (-0.0, 1), (inf, inf), (-inf, 0), (nan, nan), (89, inf), (-104, 0), (-103.5, 2.0**-149)],
        log: [(1, 0), (0, -inf), (-0.0, -inf), (-1, nan), (inf, inf), (-inf, nan), (nan, nan), (2.0**-149, f32(-103.27893))],
        rsqrt: [(0, inf), (-0.0, -inf), (-1, nan), (inf, 0), (nan, nan), (4, 0.5), (2.0**-148, 2.0**74)],
        recip: [(0, inf), (-0.0, -inf), (inf, 0), (-inf, -0.0), (nan, nan), (2.0**127, 2.0**-127)],
        sqrt: [(0, 0), (-0.0, -0.0), (-1, nan), (inf, inf), (2.0**-148, 2.0**-74)],
    }
    for function, rows in table.items():
        x, y = np.array(rows, np.float64).astype(f32).T
        assert same(function(x), y), function.__name__


def test_arguments_on_a_tie_are_settled_once_per_value():
    x = np.full(1 << 16, 2.0**-24, f32)
    assert same(exp(x), np.full_like(x, 1 + 2.0**-23))
    x = np.full(1 << 16, -(2.0**-25), f32)
    assert same(exp(x), np.ones_like(x))


@pytest.mark.parametrize("dtype", [bf16, f16])
def test_narrow_arithmetic_is_fp32_rounded_once(dtype: type):
    rng = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        a, b = (rng.integers(0, 2**16, 20_000).astype(np.uint16).view(dtype) for _ in range(2))
        wide_a, wide_b = a.astype(f32), b.astype(f32)
        for function, reference in [(numerics.add, np.add), (numerics.sub, np.subtract), (numerics.mul, np.multiply), (div, np.divide)]:
            got = function(a, b)
            assert got.dtype == dtype
            assert same(got, reference(wide_a, wide_b).astype(dtype))


def test_composites_are_computed_in_fp32_and_rounded_once():
    x = np.linspace(-3, 3, 101).astype(bf16)

    def logistic(v: np.ndarray) -> np.ndarray:
        return recip(numerics.add(np.ones_like(v), exp(numerics.neg(v))))

    assert same(elementwise(logistic, x), logistic(x.astype(f32)).astype(bf16))
    assert elementwise(lambda a, b: a < b, x, x).dtype == np.bool_


def test_a_division_is_not_a_multiplication_by_the_reciprocal():  # C19
    x, s = np.array([45.5], f32), np.array([7], f32)
    assert convert(div(x, s), FP32, INT8, "rint").tolist() == [6]
    assert convert(numerics.mul(x, recip(s)), FP32, INT8, "rint").tolist() == [7]


def test_nothing_is_contracted_or_cancelled():  # C36
    a, b, c = (np.array([v], f32) for v in (1e20, 1e10, -1e20))
    assert numerics.add(numerics.mul(a, b), numerics.mul(c, b)).tolist() == [0.0]
    assert log(exp(np.array([128], f32))).tolist() == [np.inf]
    x, y = np.array([1 + 2.0**-12], f32), np.array([-(1 + 2.0**-11)], f32)
    assert numerics.add(numerics.mul(x, x), y).tolist() == [0.0]  # an FMA would leave 2**-24


def test_narrow_steps_round_each_time():  # C37
    x, y = np.array([1], bf16), np.array([2.0**-8], bf16)
    assert numerics.sub(y, numerics.sub(numerics.add(x, y), x)).astype(f32).tolist() == [0.00390625]


def test_maximum_and_minimum_order_the_zeros_and_propagate_nan():
    for dtype in (f32, bf16, f16):
        a, b = np.array([0.0, -0.0, 0.0, -0.0, np.nan, 1, 2], dtype), np.array([-0.0, 0.0, 0.0, -0.0, 1, np.nan, -3], dtype)
        assert same(maximum(a, b), [0.0, 0.0, 0.0, -0.0, np.nan, np.nan, 2])
        assert same(minimum(a, b), [-0.0, -0.0, 0.0, -0.0, np.nan, np.nan, -3])
    assert maximum(np.array([3, -4], np.int8), np.array([-3, 4], np.int8)).tolist() == [3, 4]


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64])
def test_integers_wrap_truncate_and_floor(dtype: type):
    limits = np.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    picks = sorted({v for v in (low, low + 1, -7, -5, -3, -2, -1, 0, 1, 2, 3, 5, 7, high - 1, high) if low <= v <= high})
    a, b = (m.ravel().astype(dtype) for m in np.meshgrid(np.array(picks, object), np.array(picks, object)))

    def wrap(v: int) -> int:
        return (v - low) % (high - low + 1) + low

    pairs = [(int(p), int(q)) for p, q in zip(a, b, strict=True)]
    assert [int(v) for v in numerics.add(a, b)] == [wrap(p + q) for p, q in pairs]
    assert [int(v) for v in numerics.sub(a, b)] == [wrap(p - q) for p, q in pairs]
    assert [int(v) for v in numerics.mul(a, b)] == [wrap(p * q) for p, q in pairs]
    assert [int(v) for v in numerics.neg(a)] == [wrap(-p) for p, _ in pairs]
    assert [int(v) for v in numerics.abs(a)] == [wrap(abs(p)) for p, _ in pairs]
    quotient = [0 if q == 0 else wrap(abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)) for p, q in pairs]
    assert [int(v) for v in div(a, b)] == quotient
    assert [int(v) for v in floor_div(a, b)] == [0 if q == 0 else wrap(p // q) for p, q in pairs]
    assert [int(v) for v in floor_mod(a, b)] == [0 if q == 0 else p % q for p, q in pairs]
    assert div(a, b).dtype == floor_mod(a, b).dtype == dtype


def test_floor_division_is_python_s():  # C35
    a, b = np.array([-5, 5], np.int32), np.array([3, -3], np.int32)
    assert floor_div(a, b).tolist() == [-2, -2]
    assert floor_mod(a, b).tolist() == [1, -1]
    assert div(a, b).tolist() == [-1, -1]


def test_int4_arithmetic_keeps_four_bits():
    a = np.array([7, -8, 5], ml_dtypes.int4)
    assert numerics.add(a, a).astype(int).tolist() == [-2, 0, -6]


def lanes64(row: np.ndarray, step: Callable[[np.float32, np.float32], np.float32], identity: float) -> float:
    partials = [f32(identity)] * 64
    for j, value in enumerate(row):
        partials[j % 64] = step(partials[j % 64], f32(value))
    while len(partials) > 1:
        half = len(partials) // 2
        partials = [step(partials[i], partials[i + half]) for i in range(half)]
    return float(partials[0])


@pytest.mark.parametrize("dtype", [f32, bf16, f16])
@pytest.mark.parametrize("extent", [1, 2, 63, 64, 65, 200])
def test_row_reductions_follow_lanes64(dtype: type, extent: int):
    rng = np.random.default_rng(extent)
    x = (rng.standard_normal((3, 2, extent)) * 10 ** rng.uniform(-3, 3, (3, 2, extent))).astype(dtype)
    y = (1 + rng.standard_normal((2, extent)) / 8).astype(dtype)
    assert same(sum_last(x), np.array([[[lanes64(row, np.add, -0.0)] for row in block] for block in x]).astype(dtype))
    assert same(prod_last(y), np.array([[lanes64(row, np.multiply, 1.0)] for row in y]).astype(dtype))
    assert sum_last(x).dtype == dtype


def test_sums_of_one_dimension_and_of_strided_rows_have_the_same_bits():
    x = np.random.default_rng(0).standard_normal((200, 64)).astype(f32)
    assert same(sum_last(x.T), sum_last(np.ascontiguousarray(x.T)))
    assert same(sum_last(x[:, 3]), sum_last(x.T)[3])


@pytest.mark.parametrize("dtype", [f32, bf16])
def test_column_reductions_take_the_rows_in_order(dtype: type):
    x = (np.random.default_rng(2).standard_normal((2, 50, 3)) * 1.5).astype(dtype)
    total, product = x[:, 0].astype(f32), x[:, 0].astype(f32)
    for i in range(1, 50):
        total = total + x[:, i].astype(f32)
        product = product * x[:, i].astype(f32)
    assert same(sum_first(x), total[:, None].astype(dtype))
    assert same(prod_first(x), product[:, None].astype(dtype))


def test_the_sum_of_four_depends_on_the_order_and_ours_is_written_down():  # C42
    x = np.array([[1e8, 1, -1e8, 1]], f32)
    # lanes64: four partials, then (1e8 + -1e8) + (1 + 1), the halves tree; ascending: ((1e8 + 1) - 1e8) + 1.
    assert sum_last(x).tolist() == [[2.0]]
    assert sum_first(x.T).tolist() == [[1.0]]
    assert "lanes64" in CONTRACT["row reductions"]
    assert "ascending" in CONTRACT["col_sum, col_prod"]


def test_a_bf16_sum_of_1000_ones_is_1000():  # C22
    assert sum_last(np.ones((1, 1000), bf16)).tolist() == [[1000]]
    assert sum_first(np.ones((1000, 1), bf16)).tolist() == [[1000]]


def test_zeros_keep_their_sign_in_sums():
    assert same(sum_last(np.array([[-0.0, -0.0], [-0.0, 0.0]], f32)), [[-0.0], [0.0]])
    assert same(sum_first(np.array([[-0.0, -0.0], [-0.0, 0.0]], f32)), [[-0.0, 0.0]])


def test_empty_reductions_give_the_identity():
    x = np.zeros((2, 0), f32)
    assert same(sum_last(x), [[0.0]] * 2)
    assert same(prod_last(x), [[1.0]] * 2)
    assert same(sum_first(x.T), [[0.0] * 2])
    assert same(max_last(x), [[-np.inf]] * 2)
    assert same(min_first(x.T), [[np.inf] * 2])
    assert max_last(np.zeros((1, 0), np.int8)).tolist() == [[-128]]
    assert sum_last(np.zeros((1, 0), np.int32)).tolist() == [[0]]


def test_integer_reductions_wrap_in_their_own_dtype():
    x = np.full((1, 3), 100, np.int8)
    assert sum_last(x).tolist() == [[44]]
    assert sum_last(x).dtype == np.int8
    assert prod_last(x).tolist() == [[64]]
    assert max_first(x.T).tolist() == [[100]]


def test_extremes_propagate_nan_and_order_the_zeros():
    for dtype in (f32, bf16, f16):
        x = np.array([[-0.0, 0.0, -0.0], [-0.0, -0.0, -0.0], [0.0, 0.0, -0.0], [1, np.nan, 2], [-5, -2, -9]], dtype)
        assert same(max_last(x), np.array([[0.0], [-0.0], [0.0], [np.nan], [-2]]))
        assert same(min_last(x), np.array([[-0.0], [-0.0], [-0.0], [np.nan], [-9]]))
        assert same(max_first(x.T), max_last(x).T)
        assert same(min_first(x.T), min_last(x).T)
        assert max_last(x).dtype == dtype


def test_the_largest_finite_negative_beats_minus_infinity():  # C25
    assert argmax_last(np.array([[-np.inf, -3.4028235e38], [-np.inf, -np.inf]], f32)).tolist() == [[1], [0]]
    assert float32_bits(max_last(np.array([[-np.inf, -3.4028235e38]], f32))) == float32_bits(f32(-3.4028234663852886e38))


def test_nan_wins_every_search():  # C28
    for dtype in (f32, bf16, f16):
        x = np.array([[np.nan, 6, 8], [6, np.nan, np.nan], [8, 6, 8], [6, 8, 6]], dtype)
        assert argmax_last(x).tolist() == [[0], [1], [0], [1]]
        assert argmin_last(x).tolist() == [[0], [1], [1], [0]]
        assert argmax_first(x.T).tolist() == [[0, 1, 0, 1]]
        assert argmin_first(x.T).tolist() == [[0, 1, 1, 0]]
    assert np.isnan(max_last(np.array([[np.nan, 6, 8]], f32)))[0, 0]


def test_results_are_never_views_and_shapes_survive():
    for shape in [(), (0,), (3,), (2, 0), (2, 3)]:
        x = np.ones(shape, f32)
        for name in ("exp", "log", "sqrt", "rsqrt", "recip", "abs", "neg"):
            got = getattr(numerics, name)(x)
            assert got.shape == shape
            assert not np.shares_memory(got, x)
    x = np.ones((2, 1), f32)
    for reduce in (sum_last, sum_first, max_last, min_first, prod_last):
        assert not np.shares_memory(reduce(x), x)


def test_mixed_dtypes_and_integers_where_floats_belong_are_refused():
    for code, function, arguments in [
        ("PL302", numerics.add, (np.ones(2, f16), np.ones(2, bf16))),  # C31
        ("PL305", exp, (np.ones(2, np.int32),)),
        ("PL305", floor_div, (np.ones(2, f32), np.ones(2, f32))),
        ("PL305", sqrt, (np.ones(2),)),
    ]:
        with pytest.raises(ShapeError) as caught:
            function(*arguments)
        assert caught.value.code == code


def test_every_subject_of_the_contract_is_one_line():
    assert all(rule and "\n" not in rule for rule in CONTRACT.values())
    assert set(numerics.__all__) <= set(dir(numerics))
