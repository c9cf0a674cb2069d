"""Exact arithmetic to test against: rationals, rounded by definition; nothing here uses the library."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Format:
    """A float format: explicit fraction bits, least normal exponent, largest finite value."""

    fraction: int
    least: int
    largest: Fraction
    infinity: bool = True


FORMATS = {
    "FP32": Format(23, -126, Fraction(2**24 - 1) * Fraction(2) ** 104),
    "FP16": Format(10, -14, Fraction(65504)),
    "BF16": Format(7, -126, Fraction(255) * Fraction(2) ** 120),
    "FP8E4M3FN": Format(3, -6, Fraction(448), infinity=False),
    "FP8E5M2": Format(2, -14, Fraction(57344)),
}


def round_integer(x: Fraction, mode: str) -> int:
    """A rational to an integer by a rounding mode."""
    low = math.floor(x)
    if x == low:
        return low
    rest = x - low
    if mode == "floor":
        return low
    if mode == "ceil":
        return low + 1
    if mode == "trunc":
        return low if x > 0 else low + 1
    if mode == "odd":
        return low if low % 2 else low + 1
    if rest != Fraction(1, 2):
        return low if rest < Fraction(1, 2) else low + 1
    if mode == "rint":
        return low if low % 2 == 0 else low + 1
    assert mode == "round"
    return low + 1 if x > 0 else low


def exponent_of(x: Fraction) -> int:
    """floor(log2(|x|)) of a nonzero rational."""
    x = abs(x)
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if Fraction(2) ** e <= x else e - 1


def round_float(x: Fraction, form: Format, mode: str = "rint", *, saturate: bool = False, negative: bool = False) -> float:
    """A rational to the nearest (or directed) value of a format, as a Python float; `negative` is the sign of an exact zero."""
    if x == 0:
        return -0.0 if negative else 0.0
    unit = Fraction(2) ** (max(exponent_of(x), form.least) - form.fraction)
    result = round_integer(x / unit, mode) * unit
    sign = -1.0 if x < 0 else 1.0
    if abs(result) > form.largest:
        outward = mode in ("rint", "round") or (mode == "floor" and x < 0) or (mode == "ceil" and x > 0)
        if not outward or saturate:
            result = form.largest
        else:
            return sign * math.inf if form.infinity else math.nan
    return sign * float(abs(result))


def fma(a: float, b: float, c: float) -> float:
    """a * b + c rounded once to FP32, subnormals kept; all arguments are FP32 values."""
    if not all(map(math.isfinite, (a, b, c))):
        return a * b + c  # FP64 follows IEEE for infinities and NaN, and FP32 values do not overflow it
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    zero = a * b if a == 0 or b == 0 else math.copysign(1.0, a) * math.copysign(1.0, b)
    both_negative = math.copysign(1.0, zero) < 0 and math.copysign(1.0, c) < 0
    return round_float(exact, FORMATS["FP32"], negative=both_negative)


def flushed_fma(a: float, b: float, c: float) -> float:
    """As `fma`, with results that are tiny after rounding to 24 bits flushed to a zero of their sign."""
    result = fma(a, b, c)
    if math.isfinite(result) and result != 0 and abs(result) <= 2.0**-126:
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        unbounded = Format(23, -10_000, FORMATS["FP32"].largest)
        if abs(round_float(exact, unbounded)) < 2.0**-126:
            return math.copysign(0.0, result)
    if result == 0 and math.isfinite(a * b):
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        return math.copysign(0.0, (-1 if exact < 0 else 1) if exact else result)
    return result


def float32_bits(x: object) -> np.ndarray:
    """Values as FP32 bit patterns with every NaN made equal: what "the same bits" means."""
    wide = np.asarray(x).astype(np.float32).copy()
    wide[np.isnan(wide)] = np.float32("nan")
    return wide.view(np.uint32)


def same(a: object, b: object) -> bool:
    """Whether two arrays hold the same values to the bit, NaN payloads aside."""
    return bool(np.array_equal(float32_bits(a), float32_bits(b)))


STORAGE = {
    "FP32": np.float32,
    "FP16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "FP8E4M3FN": ml_dtypes.float8_e4m3fn,
    "FP8E5M2": ml_dtypes.float8_e5m2,
}
