"""Conversions between dtypes, against rationals rounded by definition."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pypto.dtypes import BF16, BOOL, DTYPES, FP16, FP32, INT4, INT8, INT16, INT32, INT64, MASK, UINT8, UINT16, UINT32, UINT64, DType
from pypto.errors import ShapeError
from pypto.numerics import MODES, convert, default_overflow, round_literal
from tests.exact import FORMATS, STORAGE, float32_bits, round_float, round_integer, same

FP8E4M3FN, FP8E5M2, FP4 = DTYPES["FP8E4M3FN"], DTYPES["FP8E5M2"], DTYPES["FP4"]
bf16, f32, f16 = ml_dtypes.bfloat16, np.float32, np.float16
INTEGERS = [INT4, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64]


def tricky_floats(target: str) -> np.ndarray:
    """FP32 values on, and next to, the boundaries of a narrower format, with both signs."""
    rng = np.random.default_rng(7)
    if STORAGE[target](0).itemsize == 1:
        values = np.arange(256, dtype=np.uint8).view(STORAGE[target]).astype(np.float64)
    else:
        values = rng.integers(0, 2**16, 400).astype(np.uint16).view(STORAGE[target]).astype(np.float64)
    values = np.unique(np.abs(values[np.isfinite(values)]))
    edges = [0.0, 65504.0, 65519.99, 65520.0, 65536.0, 448.0, 464.0, 465.0, 480.0, 57344.0, 61440.0, 3.4e38, 3.3961775e38, 1e-45]
    values = np.concatenate([values, (values[1:] + values[:-1]) / 2, edges, 2.0 ** np.arange(-149.0, 128.0)]).astype(f32)
    values = np.concatenate([values, np.nextafter(values, f32(0)), np.nextafter(values, f32(np.inf))])
    noise = rng.integers(0, 0x7F800000, 600, dtype=np.uint32).view(f32)
    values = np.concatenate([values, noise, [np.inf, np.nan]]).astype(f32)
    return np.concatenate([values, -values])


def expected_float(value: float, target: str, mode: str, overflow: str) -> float:
    saturate = overflow == "saturate" and target.startswith("FP8")
    form = FORMATS[target]
    if math.isnan(value):
        return value
    if math.isinf(value):
        return value if form.infinity else (math.copysign(448.0, value) if saturate else math.nan)
    mode = "rint" if mode == "none" else mode
    return round_float(Fraction(value), form, mode, saturate=saturate, negative=math.copysign(1, value) < 0)


@pytest.mark.parametrize("overflow", ["saturate", "ieee"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("target", ["FP16", "BF16", "FP8E4M3FN", "FP8E5M2"])
def test_fp32_narrows_as_the_rational_does(target: str, mode: str, overflow: str):
    values = tricky_floats(target)
    got = convert(values, FP32, DTYPES[target], mode, overflow)
    want = np.array([expected_float(float(v), target, mode, overflow) for v in values])
    assert got.dtype == STORAGE[target]
    wrong = np.nonzero(float32_bits(got) != float32_bits(want))[0]
    assert wrong.size == 0, (values[wrong[0]], got[wrong[0]], want[wrong[0]])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("source", ["BF16", "FP16"])
def test_the_16_bit_floats_convert_to_each_other_as_the_rational_does(source: str, mode: str):
    values = np.arange(0, 2**16, 37, dtype=np.uint16).view(STORAGE[source])
    with np.errstate(all="ignore"):  # signalling NaNs
        values = values[~np.isnan(values)]
    target = "FP16" if source == "BF16" else "BF16"
    got = convert(values, DTYPES[source], DTYPES[target], mode)
    assert same(got, [expected_float(float(v), target, mode, "ieee") for v in values])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("target", ["FP32", "FP16", "BF16", "FP8E4M3FN"])
def test_64_bit_integers_round_once(target: str, mode: str):
    rng = np.random.default_rng(3)
    near = [s * (2**e + d) for s in (1, -1) for e in range(0, 63, 3) for d in (-1, 0, 1)]
    ties = [s * ((2**24 + 1) * 2**e + d) for s in (1, -1) for e in (3, 20, 37) for d in (-1, 0, 1)]
    ties += [(2**8 + 1) * 2**e + d for e in (3, 30, 53) for d in (-1, 0, 1)]
    values = np.array([*near, *ties, -(2**63), 2**63 - 1, *(rng.integers(-(2**63), 2**63 - 1, 200).tolist())], np.int64)
    got = convert(values, INT64, DTYPES[target], mode, "ieee")
    actual_mode = "rint" if mode == "none" else mode
    assert same(got, [round_float(Fraction(int(v)), FORMATS[target], actual_mode) for v in values])
    unsigned = np.array([2**64 - 1, 2**63 + 2**39, 2**63 + 2**39 + 1, 2**63 + 3 * 2**39, 0, 2**53 + 1], np.uint64)
    got = convert(unsigned, UINT64, DTYPES[target], mode, "ieee")
    assert same(got, [round_float(Fraction(int(v)), FORMATS[target], actual_mode) for v in unsigned])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("target", INTEGERS, ids=repr)
def test_floats_to_integers_round_by_mode_then_saturate(target: DType, mode: str):
    base = np.array(
        [0, 0.25, 0.5, 1.5, 2.5, 2.75, 7.5, 8.5, 126.5, 127.5, 128.5, 255.5, 32767.5, 65535.5, 2**31, 2**32, 2**63, 2**64, 1e30, 1e-40], f32
    )
    values = np.concatenate([base, np.nextafter(base, f32(0)), np.nextafter(base, f32(np.inf))])
    values = np.concatenate([values, -values])
    got = convert(values, FP32, target, mode)
    rounded = [round_integer(Fraction(float(v)), "trunc" if mode == "none" else mode) for v in values]
    assert [int(v) for v in got] == [min(max(r, int(target.min_value)), int(target.max_value)) for r in rounded]
    assert [int(v) for v in convert(np.array([np.nan, np.inf, -np.inf], f32), FP32, target, mode)] == [
        0,
        target.max_value,
        target.min_value,
    ]


def test_wrapping_goes_through_a_saturating_int32_and_drops_the_high_bits():
    values = np.array([300.0, -129.0, 40000.0, 3e9, -3e9, np.nan, np.inf], f32)
    assert convert(values, FP32, INT8, "trunc", "wrap").tolist() == [44, 127, 64, -1, 0, 0, -1]
    assert convert(values, FP32, INT16, "trunc", "wrap").tolist() == [300, -129, -25536, -1, 0, 0, -1]
    assert convert(np.array([-1.0], f32), FP32, UINT8, "trunc", "wrap").tolist() == [255]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.sampled_from(INTEGERS), st.sampled_from(["saturate", "wrap"]))
def test_integers_saturate_or_keep_their_low_bits(values: list[int], target: DType, overflow: str):
    got = [int(v) for v in convert(np.array(values, np.int64), INT64, target, "trunc", overflow)]
    low, high = int(target.min_value), int(target.max_value)
    if overflow == "saturate":
        assert got == [min(max(v, low), high) for v in values]
    else:
        assert got == [(v - low) % 2**target.bits + low for v in values]


def test_unsigned_integers_saturate_in_both_directions():
    assert convert(np.array([2**64 - 1, 5], np.uint64), UINT64, INT64, "trunc").tolist() == [2**63 - 1, 5]
    assert convert(np.array([-1, 5], np.int8), INT8, UINT64, "trunc").tolist() == [0, 5]
    assert convert(np.array([-1, 5], np.int8), INT8, UINT64, "trunc", "wrap").tolist() == [2**64 - 1, 5]


def test_the_pairs_that_keep_low_bits_are_six():
    pairs = {(s.name, d.name) for s in DTYPES.values() for d in DTYPES.values() if default_overflow(s, d) == "wrap"}
    assert pairs == {("FP32", "INT16"), ("FP16", "INT16"), ("FP16", "UINT8"), ("FP16", "INT8"), ("INT64", "INT32"), ("INT32", "INT16")}


def test_bool_converts_by_being_zero_or_not():
    assert convert(np.array([0.0, -0.0, 0.25, np.nan], f32), FP32, BOOL, "rint").tolist() == [False, False, True, True]
    assert convert(np.array([0, 256], np.int32), INT32, BOOL, "rint").tolist() == [False, True]
    assert convert(np.array([False, True]), BOOL, BF16, "rint").astype(f32).tolist() == [0.0, 1.0]


def test_every_int8_survives_a_trip_through_the_16_bit_floats():  # C21
    codes = np.arange(-128, 128).astype(np.int8)
    for middle in (FP16, BF16):
        assert np.array_equal(convert(convert(codes, INT8, middle, "round"), middle, INT8, "round"), codes)


def test_negative_int4_stay_negative():  # C33
    codes = np.arange(-8, 8).astype(ml_dtypes.int4)
    assert convert(codes, INT4, INT8, "trunc").tolist() == list(range(-8, 8))


def test_ties_go_to_even_or_away_as_the_mode_says():  # C12
    x = np.array([1.01953125, 1 + 2**-8], f32)
    assert convert(x, FP32, BF16, "rint").astype(f32).tolist() == [1.015625, 1.0]
    assert convert(x, FP32, BF16, "round").astype(f32).tolist() == [1.0234375, 1.0078125]
    halves = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5], f32)
    expected = {
        "rint": [0, 2, 2, 0, -2, -2], "round": [1, 2, 3, -1, -2, -3], "trunc": [0, 1, 2, 0, -1, -2],
        "floor": [0, 1, 2, -1, -2, -3], "ceil": [1, 2, 3, 0, -1, -2],
    }  # fmt: skip
    for mode, integers in expected.items():
        assert convert(halves, FP32, INT32, mode).tolist() == integers


def test_a_double_just_above_a_tie_rounds_up():  # C14
    assert float(round_literal(1 + 2**-8 + 2**-40, BF16)) == 1.0078125
    assert float(round_literal(1 + 2**-8, BF16)) == 1.0


def test_integers_to_bf16_round_to_nearest():  # C15
    x = np.array([259, -259, 33000, 301], np.int32)
    assert convert(x, INT32, BF16, "rint").astype(f32).tolist() == [260, -260, 33024, 300]


def test_nan_and_infinity_survive_narrowing():  # C16
    x = np.array([0x7FFF8C22, 0xFFFF8C22, 0x7FC00001, 0x7F800000, 0xFF800000], np.uint32).view(f32)
    for mode in MODES:
        for target in (BF16, FP16, FP8E5M2):
            got = convert(x, FP32, target, mode).astype(f32)
            assert np.isnan(got[:3]).all()
            assert got[3:].tolist() == [np.inf, -np.inf]
    assert np.isposinf(convert(np.array([3.4e38], f32), FP32, BF16, "rint").astype(f32)).all()


def test_fp16_overflows_at_65520_from_integers_in_one_hop_or_two():  # C17
    x = np.array([2048, 2049, 2051, 65504, 65505, 65519, 65520, 70000], np.int32)
    expected = [2048, 2048, 2052, 65504, 65504, 65504, np.inf, np.inf]
    assert convert(x, INT32, FP16, "rint").tolist() == expected
    assert convert(convert(x, INT32, FP32, "rint"), FP32, FP16, "rint").tolist() == expected


def test_two_hops_to_int8_differ_from_one():  # C18
    x = np.array([4.51, 100.6, 127.4], f32)
    assert convert(x, FP32, INT8, "rint").tolist() == [5, 101, 127]
    assert convert(convert(x, FP32, BF16, "rint"), BF16, INT8, "rint").tolist() == [4, 100, 127]
    assert convert(convert(x, FP32, BF16, "rint"), BF16, INT16, "rint").tolist() == [4, 100, 128]


def test_fp8_overflow_is_an_argument():  # C29
    small = np.array([1.125, 1.375, 1.625], f16)
    assert convert(small, FP16, FP8E5M2, "rint").astype(f32).tolist() == [1.0, 1.5, 1.5]
    large = np.array([464, 465, 3e10, np.inf], f32)
    ieee = convert(large, FP32, FP8E4M3FN, "rint", "ieee").astype(f32)
    assert ieee[0] == 448
    assert np.isnan(ieee[1:]).all()
    assert convert(large, FP32, FP8E4M3FN, "rint", "saturate").astype(f32).tolist() == [448] * 4
    assert convert(large[2:], FP32, FP8E5M2, "rint", "ieee").astype(f32).tolist() == [np.inf, np.inf]
    assert convert(large[2:], FP32, FP8E5M2, "rint", "saturate").astype(f32).tolist() == [57344, np.inf]


def test_fp4_always_saturates():
    x = np.array([0.25, 0.75, 5, 7, -100, np.inf, np.nan, -np.nan], f32)
    assert convert(x, FP32, FP4, "rint").astype(f32).tolist() == [0, 1, 4, 6, -6, 6, 6, 6]


@pytest.mark.parametrize("form", FORMATS)
@given(value=st.one_of(st.floats(allow_nan=False), st.integers(-(2**1100), 2**1100), st.integers(-(2**60), 2**60)))
def test_a_literal_is_rounded_once_from_its_exact_value(form: str, value: float | int):
    got = round_literal(value, DTYPES[form])
    assert got.dtype == STORAGE[form]
    if isinstance(value, float) and math.isinf(value):
        expected = value if FORMATS[form].infinity else math.copysign(448.0, value)
    else:
        expected = round_float(
            Fraction(value),
            FORMATS[form],
            saturate=form.startswith("FP8"),
            negative=isinstance(value, float) and math.copysign(1, value) < 0,
        )
        if form == "FP8E5M2" and isinstance(value, int) and abs(value) >= 2**565:
            expected = float(got)  # integers past every format arrive as infinity, which FP8E5M2 keeps
    assert same(got, expected)


def test_integer_literals_must_fit():
    assert round_literal(-3, INT8) == -3
    assert round_literal(2.0, UINT8).dtype == np.uint8
    assert round_literal(True, INT32) == 1
    assert round_literal(7, BOOL) == np.True_
    assert int(round_literal(-8, INT4)) == -8
    for value, dtype in [(128, INT8), (-1, UINT8), (2**64, UINT64), (2.5, INT32), (math.inf, INT32), (math.nan, INT8)]:
        with pytest.raises(ShapeError) as caught:
            round_literal(value, dtype)
        assert caught.value.code == "PL308"


def test_a_conversion_never_returns_its_input():
    for dtype in (FP32, INT32, BOOL, BF16):
        x = np.ones((2, 3), dtype.storage)
        for target in (FP32, INT32, BOOL, BF16):
            assert not np.shares_memory(convert(x, dtype, target, "rint"), x)


def test_shapes_survive_conversion_and_so_does_the_lack_of_one():
    for shape in [(), (0,), (2, 0, 3), (2, 3)]:
        for source in (FP32, INT64, FP16):
            for target in (FP32, FP16, BF16, INT8, FP8E4M3FN, BOOL):
                got = convert(np.ones(shape, source.storage), source, target, "round")
                assert got.shape == shape
                assert got.dtype == target.storage


def test_what_does_not_convert_is_refused():
    x = np.ones(2, f32)
    for code, arguments in [
        ("PL308", (FP32, BF16, "nearest")), ("PL308", (FP32, BF16, "rint", "clamp")), ("PL305", (FP32, MASK, "rint")),
        ("PL305", (FP32, DTYPES["HF4"], "rint")), ("PL305", (DTYPES["HF4"], FP32, "rint")), ("PL305", (DTYPES["TASK_ID"], INT32, "rint")),
        ("PL305", (FP32, DTYPES["FP8E8M0"], "rint")),
    ]:  # fmt: skip
        with pytest.raises(ShapeError) as caught:
            convert(x, *arguments)
        assert caught.value.code == code
