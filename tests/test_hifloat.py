"""HiFloat8: every code against the definition of the format, every rounding against rationals, and the array type of its own."""

import copy
import functools
import io
import math
import pickle
from bisect import bisect_left
from fractions import Fraction

import numpy as np
import pytest

import pypto
from pypto import dtypes, hifloat, lax, numerics
from pypto.dtypes import BF16, FP16, FP32, HF8, INT32, INT64, UINT8, UINT64
from pypto.errors import NumericsError, ShapeError
from pypto.testing import TensorSpec, Tolerance, check, compare, round_to
from pypto.testing.closeness import Closeness, measure
from tests.hard_inputs import patterns

CODES = np.arange(256, dtype=np.uint8)
MODES = list(numerics.MODES)


def number(code):
    """The definition, on the text of the bits: None for NaN, a float for an infinity, else a rational."""
    if code in (0x00, 0x80):
        return None if code else Fraction(0)
    bits = f"{code:08b}"
    sign, rest = (-1 if bits[0] == "1" else 1), bits[1:]
    if rest.startswith("0000"):
        return sign * Fraction(2) ** (int(rest[4:], 2) - 23)
    prefix = next(p for p in ("11", "10", "01", "001", "0001") if rest.startswith(p))
    width = {"11": 4, "10": 3, "01": 2, "001": 1, "0001": 0}[prefix]
    exponent_bits, fraction = rest[len(prefix) : len(prefix) + width], rest[len(prefix) + width :]
    exponent = 0
    if width:
        exponent = int("1" + exponent_bits[1:], 2) * (-1 if exponent_bits[0] == "1" else 1)
    value = Fraction(2) ** exponent * (1 + Fraction(int(fraction, 2), 2 ** len(fraction)))
    return sign * math.inf if value == Fraction(3, 2) * 2**15 else sign * value


@functools.cache
def ladder():
    """The finite numbers that are not negative, ascending, each with its code."""
    found = sorted((number(c), c) for c in range(128) if not isinstance(number(c), float))
    return [v for v, _ in found], [c for _, c in found]


def nearest(x, overflow="saturate"):
    """The code of a number by the definition of rounding to nearest, ties away; `x` is a rational or a float."""
    if isinstance(x, float):
        if math.isnan(x):
            return 0x80
        if math.isinf(x):
            return 0x6F if x > 0 else 0xEF
    values, codes = ladder()
    size = abs(Fraction(x))
    if size >= Fraction(5, 4) * 2**15 and overflow == "ieee":
        code = 0x6F
    else:
        above = min(bisect_left(values, size), len(values) - 1)
        below = max(above - 1, 0)
        code = codes[above] if values[above] <= size or values[above] - size <= size - values[below] else codes[below]
    return code | 0x80 if x < 0 and code else code


def encoded(x, source=FP32, mode="round", overflow="saturate"):
    return numerics.hf8_bits(numerics.convert(np.asarray(x, source.storage), source, HF8, mode, overflow)).tolist()


# ---- the values ------------------------------------------------------------------------------------------------------


def test_every_code_has_the_number_of_the_definition():
    got = numerics.widened(numerics.hf8_from_bits(CODES))
    assert got.dtype == np.float32
    for code, value in zip(CODES.tolist(), got.tolist(), strict=True):
        want = number(code)
        assert math.isnan(value) if want is None else value == want, hex(code)


def test_the_numbers_the_paper_names():
    shown = {0x00: 0.0, 0x6F: math.inf, 0xEF: -math.inf, 0x6E: 2.0**15, 0x01: 2.0**-22, 0x07: 2.0**-16, 0x7E: 2.0**-15, 0x08: 1.0}
    assert {c: float(hifloat.VALUES[c]) for c in shown} == shown
    assert np.isnan(hifloat.VALUES).nonzero()[0].tolist() == [0x80]
    assert (HF8.max_value, HF8.min_value, HF8.has_infinity, HF8.epsilon) == (2.0**15, -(2.0**15), True, 0.125)


def test_there_is_one_zero_and_no_number_twice():
    finite = [v for v in map(number, range(256)) if isinstance(v, Fraction)]
    assert len(set(finite)) == len(finite) == 253


def test_the_precision_tapers_so_that_no_single_one_is_given():
    for question in ("mantissa", "min_exponent"):
        with pytest.raises(ShapeError) as caught:
            getattr(HF8, question)
        assert caught.value.code == "PL305"


# ---- rounding --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overflow", ["saturate", "ieee"])
def test_all_midpoints_their_neighbours_and_all_numbers_round_to_nearest_ties_away(overflow):
    values, codes = ladder()
    middles = [(a + b) / 2 for a, b in zip(values, [*values[1:], Fraction(3, 2) * 2**15], strict=True)]
    points = np.array([float(m) for m in middles], np.float32)
    assert [Fraction(p) for p in points.tolist()] == middles  # FP32 holds each of them
    x = np.concatenate([points, np.nextafter(points, np.float32(0)), np.nextafter(points, np.float32(np.inf)), np.float32(values)])
    x = np.concatenate([x, -x, np.float32([np.nan, np.inf, -np.inf, -0.0, 3.4e38, -3.4e38, 1e-45, -1e-45])])
    assert encoded(x, overflow=overflow) == [nearest(v, overflow) for v in x.tolist()]
    ties = encoded(points[:-1])
    assert ties == codes[1:]  # away from zero is up


@pytest.mark.parametrize("source", [FP16, BF16], ids=repr)
@pytest.mark.parametrize("overflow", ["saturate", "ieee"])
def test_every_16_bit_float_rounds_as_its_rational_does(source, overflow):
    x = patterns(source)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64).tolist()
        assert encoded(x, source, overflow=overflow) == [nearest(v, overflow) for v in wide]


@pytest.mark.parametrize("source", [INT32, INT64, UINT64, UINT8], ids=repr)
def test_integers_round_once(source):
    low, high = int(source.min_value), int(source.max_value)
    near = [v + d for v in (0, 9, 17, 19, 40960, 2**15, 2**15 + 2**12, 2**24 + 1, 2**53 + 1) for d in (-1, 0, 1)]
    x = [v for v in (*near, *(-v for v in near), low, high) if low <= v <= high]
    assert encoded(x, source, "rint", "wrap") == [nearest(Fraction(v)) for v in x]


def test_the_mode_changes_nothing():
    x = np.float32([1.0625, -1.0625, 1.07, 33.0, 1e-9, 40960, 2.0**-23])
    assert {tuple(encoded(x, mode=mode)) for mode in MODES} == {(0x09, 0x89, 0x09, 0x44, 0x00, 0x6E, 0x01)}


def test_what_is_tiny_becomes_the_only_zero_and_half_of_the_smallest_does_not():
    half = 2.0**-23
    below = float(np.nextafter(np.float32(half), np.float32(0)))
    assert encoded([half, -half, below, -below, -0.0]) == [0x01, 0x81, 0x00, 0x00, 0x00]


def test_numbers_past_the_largest_saturate_and_infinities_stay():
    x = [40959.99, 40960.0, 1e30, np.inf, -40960.0, -np.inf]
    assert encoded(x) == [0x6E, 0x6E, 0x6E, 0x6F, 0xEE, 0xEF]
    assert encoded(x, overflow="ieee") == [0x6E, 0x6F, 0x6F, 0x6F, 0xEF, 0xEF]


def test_every_code_comes_back_from_its_number_by_way_of_any_float_that_holds_it():
    x = numerics.hf8_from_bits(CODES)
    for through in (FP32, BF16):
        back = numerics.convert(numerics.convert(x, HF8, through, "rint"), through, HF8, "rint")
        assert numerics.hf8_bits(back).tolist() == CODES.tolist()


def test_codes_become_integers_and_truth_values_as_their_numbers_do():
    x = numerics.hf8_from_bits(CODES)
    for target in (dtypes.INT8, INT32, dtypes.UINT16, dtypes.BOOL, FP16):
        for mode in MODES:
            direct = numerics.convert(x, HF8, target, mode)
            assert direct.tobytes() == numerics.convert(hifloat.VALUES, FP32, target, mode).tobytes()


def test_a_literal_is_rounded_from_its_exact_value():
    just_below = Fraction(17, 16) - Fraction(1, 2**50)
    assert float(numerics.round_literal(1.0625, HF8)) == 1.125
    assert float(numerics.round_literal(float(just_below), HF8)) == 1.0
    assert float(numerics.round_literal(-(10**30), HF8)) == -(2.0**15) and float(numerics.round_literal(np.float32(0.5), HF8)) == 0.5


# ---- arrays ----------------------------------------------------------------------------------------------------------


def some():
    return np.asarray(pypto.Array([[1.0, -1.5, 0.0], [np.inf, np.nan, 2.0**-22]], "HF8"))


def test_an_array_of_codes_is_never_taken_for_hf8_nor_hf8_for_codes():
    assert dtypes.dtype_of(some()) is HF8 and dtypes.dtype_of(CODES) is UINT8
    assert HF8.storage != np.dtype(np.uint8) and dtypes.dtype_of("hf8") is HF8
    for call in (lambda: numerics.hf8_from_bits(np.float32([1])), lambda: numerics.hf8_bits(CODES)):
        with pytest.raises(ShapeError) as caught:
            call()
        assert caught.value.code == "PL305" and caught.value.fix


def test_codes_and_arrays_share_memory():
    codes = CODES.copy()
    x = numerics.hf8_from_bits(codes)
    assert np.shares_memory(x, codes) and np.shares_memory(numerics.hf8_bits(x), codes)


def test_numpy_neither_computes_with_it_nor_casts_it_to_numbers():
    x = some().copy()
    for wrong in (lambda: x + x, lambda: np.maximum(x, x), lambda: np.isnan(x), lambda: x.astype(np.float32), lambda: x.astype(np.uint8)):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(TypeError):
        x[0, 0] = 1.5


def test_numpy_moves_it_as_bytes():
    x = some()
    moved = [x.T.copy(), x[:, ::2], np.concatenate([x, x]), x.reshape(3, 2), np.take(x, [2, 0], 1)]
    moved.append(np.where([True, False, True], x, x[0, 0]))
    assert all(m.dtype == HF8.storage for m in moved)
    assert numerics.hf8_bits(moved[4]).tolist() == numerics.hf8_bits(x)[:, [2, 0]].tolist()
    assert np.array_equal(x, copy.deepcopy(x)) and not np.array_equal(x, x[::-1])
    assert numerics.hf8_bits(np.zeros(2, HF8.storage)).tolist() == [0, 0]


def test_it_is_saved_pickled_and_read_as_itself():
    x, file = some(), io.BytesIO()
    np.save(file, x)
    file.seek(0)
    for back in (np.load(file), pickle.loads(pickle.dumps(x))):
        assert back.dtype == HF8.storage and dtypes.dtype_of(back) is HF8 and back.tobytes() == x.tobytes()
    assert pickle.loads(pickle.dumps(x[0, 1])) == x[0, 1]


def test_elements_and_arrays_show_their_numbers():
    x = some()
    assert (repr(x[0, 1]), float(x[0, 1]), str(x[1, 0])) == ("-1.5", -1.5, "inf")
    assert repr(pypto.Array(x[0])) == "Array([ 1. , -1.5,  0. ], dtype=HF8)"
    assert pypto.Array(x[0]).tolist() == [1.0, -1.5, 0.0] and pypto.Array(x)[0, 1].item() == -1.5
    assert float(pypto.Array(x[0, 1])) == -1.5 and int(pypto.Array(x[0, 0])) == 1 and not bool(pypto.Array(x[0, 2]))
    assert np.asarray(pypto.Array(x[0]), np.float64).tolist() == [1.0, -1.5, 0.0]
    with pytest.raises(ValueError, match="ambiguous"):
        bool(pypto.Array(x))


def test_an_element_is_not_made_by_its_class():
    with pytest.raises(TypeError, match="round_literal"):
        HF8.storage.type(1)


# ---- array functions -------------------------------------------------------------------------------------------------


def test_array_functions_convert_it_and_read_its_bits():
    x = pypto.Array([1.0, 1.0625, -3.0], "HF8")
    assert x.dtype is HF8 and x.astype("FP32").tolist() == [1.0, 1.125, -3.0]
    codes = lax.bitcast_convert_type(x, "UINT8")
    assert codes.tolist() == [0x08, 0x09, 0x94]
    assert lax.bitcast_convert_type(codes, "HF8").tolist() == x.tolist()
    assert lax.convert_element_type(np.float32([1.0625]), "HF8").tolist() == [1.125]


def test_arithmetic_and_promotion_are_refused():
    x = pypto.Array([1.0], "HF8")
    for call, code in ((lambda: x + x, "PL305"), (lambda: lax.exp(x), "PL305"), (lambda: x + 1.0, "PL302")):
        with pytest.raises(pypto.PyptoError) as caught:
            call()
        assert caught.value.code == code


def test_a_conversion_is_the_same_traced_and_mapped():
    x = np.linspace(-9, 9, 12, dtype=np.float32).reshape(3, 4)
    want = encoded(x)

    def function(v):
        return lax.convert_element_type(v, "HF8")

    for run in (function, pypto.jit(function), pypto.vmap(function), pypto.jit(pypto.vmap(function))):
        assert numerics.hf8_bits(np.asarray(run(x))).tolist() == want


def test_nothing_flows_back_through_it_as_through_fp8():
    for name in ("HF8", "FP8E5M2"):
        gradient = pypto.grad(lambda v, name=name: v.astype(name).astype("FP32").sum() + v.sum())(np.float32([1.1, 2.0]))
        assert gradient.tolist() == [1.0, 1.0]


def test_a_product_is_the_fp32_chain_of_the_numbers():
    rng = np.random.default_rng(3)
    a, b = (np.asarray(pypto.Array(rng.standard_normal(s).astype(np.float32), "HF8")) for s in ((5, 70), (70, 9)))
    want = numerics.matmul(numerics.widened(a), numerics.widened(b))
    assert np.asarray(lax.matmul(a, b)).tobytes() == want.tobytes()
    hand = Fraction(0)
    for x, y in zip(numerics.widened(a)[0].tolist(), numerics.widened(b)[:, 0].tolist(), strict=True):
        hand = Fraction(float(np.float32(float(hand + Fraction(x) * Fraction(y)))))  # FP64 holds each of these sums
    assert float(want[0, 0]) == hand


# ---- inputs and comparisons ------------------------------------------------------------------------------------------


def test_inputs_are_the_fp64_numbers_rounded_once():
    made = TensorSpec("x", [64], HF8).make(1)
    wide = TensorSpec("x", [64], FP32).make(1)  # normal numbers of the same seed and name, to 24 bits: none is next to a tie
    assert made.dtype == HF8.storage and numerics.hf8_bits(made).tolist() == encoded(wide)
    assert round_to([1.0625, 1e9], HF8).tobytes() == b"\x09\x6f"
    assert round_to(round_to([1.5], HF8), FP32).tolist() == [1.5]


def test_outputs_start_as_nan():
    assert set(TensorSpec("out", [8], HF8, output=True).make().tobytes()) == {0x80}


def test_neighbours_are_one_unit_apart_across_every_change_of_precision():
    values, codes = ladder()
    a, b = (numerics.hf8_from_bits(np.uint8(c)) for c in (codes[:-1], codes[1:]))
    found = compare(a, b)
    assert found.max_ulp == 1 and found.histogram == {"1": len(codes) - 1}
    assert compare(a, b, tolerance=Tolerance(ulp=1)).passed
    infinite = numerics.hf8_from_bits(np.uint8([0x6F, 0x80]))
    assert compare(infinite, numerics.hf8_from_bits(np.uint8([0x6E, 0x80]))).histogram == {"0": 1, "inf": 1}
    assert len(values) == 127


def test_closeness_counts_in_the_unit_at_one():
    assert Closeness.of("HF8") == Closeness(0.5, 0.125)
    a, b = pypto.Array([1.0, 8.0], "HF8"), pypto.Array([1.0, 16.0], "HF8")
    assert measure(np.asarray(a), np.asarray(b)).passed and not measure(np.asarray(a), np.asarray(b), Closeness(0.1, 0.1)).passed
    assert measure(np.asarray(a), np.asarray(b), Closeness(0.1, 0.1)).expected == 16.0


def test_a_golden_in_fp32_is_rounded_to_it_and_a_golden_of_codes_is_refused():
    specs = [TensorSpec("x", [8], FP32), TensorSpec("out", [8], HF8, output=True)]

    def kernel(x, out):
        out[:] = numerics.convert(x, FP32, HF8, "round")

    assert check(kernel, lambda x: x, specs).passed
    with pytest.raises(NumericsError) as caught:
        check(kernel, lambda x: np.zeros(8, np.uint8), specs)
    assert caught.value.code == "PL702"
