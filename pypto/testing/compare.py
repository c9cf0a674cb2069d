"""Two arrays compared in units of their dtype: bits, ULPs, the worst element, a histogram."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto import hifloat, numerics
from pypto.dtypes import HF8, DType, dtype_of
from pypto.errors import NumericsError
from pypto.testing.specs import Array, to_numpy


@dataclass(frozen=True)
class Tolerance:
    """How far a float may be from its golden: within `ulp` units in the last place, or within `atol`. Integers are always exact."""

    ulp: int = 0
    atol: float = 0.0

    @staticmethod
    def of(dtype: Any) -> Tolerance:
        """The usual allowance for a golden that was computed another way: 4 ulp for FP32 and wider, 1 for narrower floats, else 0."""
        kind = dtype_of(dtype)
        if not kind.is_float:
            return EXACT
        return Tolerance(ulp=4 if kind.bits >= 32 else 1)

    def __str__(self) -> str:
        return f"{self.ulp} ulp" + (f" or {self.atol:g} absolute" if self.atol else "")


EXACT = Tolerance()


@dataclass(frozen=True)
class Comparison:
    """What comparing one array found.

    Attributes:
      passed: every element is within the tolerance.
      equal_bits: every element has the same bits; all NaNs count as the same.
      max_ulp: the largest distance; `inf` where only one side is NaN, or infinite, or infinities have opposite signs.
        For integers, the largest difference.
      mismatches: how many elements are outside the tolerance.
      worst: index of the element with the largest distance (among the mismatches if there are any), None if nothing differs;
        worst_ulp: its distance.
      actual, expected: the two values there; actual_bits, expected_bits: their bits, in hexadecimal.
      histogram: number of elements for each range of distances; empty ranges are left out.
      signed_zeros: how many elements differ only in the sign of a zero: distance 0, other bits.
      note: what else the reader should know.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    tolerance: Tolerance
    passed: bool
    equal_bits: bool
    max_ulp: float
    mismatches: int
    worst: tuple[int, ...] | None
    worst_ulp: float
    actual: Any
    expected: Any
    actual_bits: str
    expected_bits: str
    histogram: dict[str, int]
    signed_zeros: int
    note: str = ""

    @property
    def size(self) -> int:
        """The number of elements compared."""
        return sum(self.histogram.values())

    @property
    def fraction(self) -> float:
        """The part of the elements that is outside the tolerance."""
        return self.mismatches / self.size if self.size else 0.0

    def report(self) -> str:
        """Several lines: verdict, worst element, histogram, and what is normal for the dtype."""
        unit = "ulp" if self.dtype.is_float else "apart"
        what = f"{self.name}: {self.dtype.name}{list(self.shape)}"
        if self.equal_bits:
            lines = [f"{what}: all {self.size} elements equal"]
        elif self.passed and not self.mismatches:
            lines = [f"{what}: all {self.size} elements within {self.tolerance}"]
        else:
            allowed = f"; allowed: {self.tolerance}" if self.dtype.is_float else ""
            lines = [f"{what}: {self.mismatches} of {self.size} elements differ ({self.fraction:.3%}){allowed}"]
        if self.worst is not None:
            lines.append(
                f"  worst at {list(self.worst)}: actual {self.actual!s} ({self.actual_bits}), "
                f"expected {self.expected!s} ({self.expected_bits}), {self.worst_ulp:.0f} {unit}"
            )
            width = max(len(unit), *map(len, self.histogram))
            lines.append(f"  {unit:>{width}}  elements")
            lines += [f"  {label:>{width}}  {count}" for label, count in self.histogram.items()]
        if self.signed_zeros:
            lines.append(f"  {self.signed_zeros} of them are zeros of the other sign: equal values, different bits")
        if not self.passed and self.dtype.is_float and self.dtype.bits < 32 and self.tolerance.ulp <= 1:
            lines.append(f"  expected for {self.dtype.name}: 1 ulp = 2^-{-round(math.log2(self.dtype.epsilon))} relative")
        return "\n".join([*lines, *([f"  {self.note}"] if self.note else [])])


Compare = Callable[[Array, Array], Comparison | bool]
"""A comparison of one's own: of the actual and the expected array; a bool only replaces the verdict of `compare`."""


def compare(actual: Any, expected: Any, *, tolerance: Tolerance | None = None, name: str = "result", note: str = "") -> Comparison:
    """Compare two arrays of one dtype and shape; `tolerance` defaults to exact values.

    Errors:
      PL702 if the dtypes or shapes differ.

    >>> import numpy as np
    >>> print(compare(np.float32([1, 2]), np.float32([1, 2 + 2**-22])).report())
    result: FP32[2]: 1 of 2 elements differ (50.000%); allowed: 0 ulp
      worst at [1]: actual 2.0 (0x40000000), expected 2.0000002 (0x40000001), 1 ulp
      ulp  elements
        0  1
        1  1
    """
    got, want = to_numpy(actual), to_numpy(expected)
    if got.dtype != want.dtype or got.shape != want.shape:
        raise NumericsError(
            "PL702",
            f"{name}: {got.dtype}{list(got.shape)} cannot be compared with {want.dtype}{list(want.shape)}",
            fix="compare equal shapes and dtypes; pypto.testing.round_to rounds a golden",
        )
    kind = dtype_of(got.dtype)
    allowed = (tolerance or EXACT) if kind.is_float else EXACT
    got_flat, want_flat = got.reshape(-1), want.reshape(-1)
    got_bits, want_bits = _bits(got_flat), _bits(want_flat)
    distance, infinite = ulp_distance(got_flat, want_flat)
    same_bits = got_bits == want_bits
    if kind.is_float:
        same_bits |= np.isnan(_widened(got_flat)) & np.isnan(_widened(want_flat))
    wrong = infinite | (distance > np.uint64(allowed.ulp))
    if allowed.atol:
        wrong &= ~_within(got_flat, want_flat, allowed.atol)
    worst = _worst(distance, infinite, wrong, same_bits)
    spot = (lambda values: values[worst]) if worst is not None else (lambda values: None)
    return Comparison(
        name=name,
        dtype=kind,
        shape=got.shape,
        tolerance=allowed,
        passed=not wrong.any(),
        equal_bits=bool(same_bits.all()),
        max_ulp=float("inf") if infinite.any() else float(distance.max(initial=np.uint64(0))),
        mismatches=int(wrong.sum()),
        worst=None if worst is None else tuple(int(i) for i in np.unravel_index(worst, got.shape)),
        worst_ulp=0.0 if worst is None else float("inf") if infinite[worst] else float(distance[worst]),
        actual=spot(got_flat),
        expected=spot(want_flat),
        actual_bits=_hex(spot(got_bits), kind),
        expected_bits=_hex(spot(want_bits), kind),
        histogram=_histogram(distance, infinite),
        signed_zeros=int(((distance == 0) & ~infinite & ~same_bits).sum()),
        note=note,
    )


def ulp_distance(actual: Array, expected: Array) -> tuple[Array, Array]:
    """How many representable values apart, element by element, and a mask of the pairs that are infinitely far apart.

    NaN is at distance 0 from NaN and infinitely far from all else, as an infinity is from whatever is not the same infinity;
    +0 and -0 are at distance 0. For integers and booleans it is the absolute difference.
    """
    kind = dtype_of(actual.dtype)
    if not kind.is_float:
        wide = np.uint64 if actual.dtype == np.uint64 else np.int64
        got, want = actual.astype(wide), expected.astype(wide)
        low, high = np.minimum(got, want), np.maximum(got, want)
        return high.astype(np.uint64) - low.astype(np.uint64), np.zeros(actual.shape, bool)
    (negative, magnitude), (other_negative, other_magnitude) = _sign_and_magnitude(actual), _sign_and_magnitude(expected)
    larger, smaller = np.maximum(magnitude, other_magnitude), np.minimum(magnitude, other_magnitude)
    distance = np.where(negative == other_negative, larger - smaller, larger + smaller)
    wide, other_wide = _widened(actual), _widened(expected)
    nan = np.isnan(wide) & np.isnan(other_wide)
    unlike = (np.isnan(wide) != np.isnan(other_wide)) | ((np.isinf(wide) | np.isinf(other_wide)) & (wide != other_wide))
    return np.where(nan | unlike, np.uint64(0), distance), unlike & ~nan


def _numbers(values: Array) -> Array:
    """In FP64."""
    return numerics.numbers(values).astype(np.float64)


def _widened(values: Array) -> Array:
    return numerics.widened(values)


def _bits(values: Array) -> Array:
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")


def _sign_and_magnitude(values: Array) -> tuple[Array, Array]:
    """The sign bit and the rest: within one sign, neighbouring values have neighbouring magnitudes."""
    bits = _bits(values.reshape(-1)).reshape(values.shape).astype(np.uint64)
    kind = dtype_of(values.dtype)
    if not kind.is_signed:
        return np.zeros(values.shape, bool), bits
    if kind is HF8:  # its codes do not count upward with its numbers; the place of NaN is never looked at
        return (bits >> np.uint64(7)) != 0, hifloat.RANKS[bits & np.uint64(127)].astype(np.uint64)
    sign = np.uint64(kind.bits - 1)
    return (bits >> sign) != 0, bits & ((np.uint64(1) << sign) - np.uint64(1))


def _within(actual: Array, expected: Array, atol: float) -> Array:
    with np.errstate(invalid="ignore", over="ignore"):
        return np.abs(_numbers(actual) - _numbers(expected)) <= atol


def _worst(distance: Array, infinite: Array, wrong: Array, same_bits: Array) -> int | None:
    candidates = wrong if wrong.any() else ~same_bits
    if not candidates.any():
        return None
    if (candidates & infinite).any():
        return int(np.argmax(candidates & infinite))
    places = np.flatnonzero(candidates)
    return int(places[np.argmax(distance[places])])


def _hex(bits: Any, dtype: DType) -> str:
    if bits is None:
        return ""
    return f"0x{int(bits) & ((1 << dtype.bits) - 1):0{-(-dtype.bits // 4)}x}"


def _histogram(distance: Array, infinite: Array) -> dict[str, int]:
    """Ranges that double: 0, 1, 2, 3-4, 5-8, …, inf. Empty ones are left out."""
    counts: dict[str, int] = {}
    rest = distance[~infinite]
    low, high = 0, 0
    while rest.size:
        inside = rest <= np.uint64(high)
        if inside.any():
            counts[str(high) if low >= high else f"{low}-{high}"] = int(inside.sum())
            rest = rest[~inside]
        low, high = high + 1, min(max(1, 2 * high), 2**64 - 1)
    if infinite.any():
        counts["inf"] = int(infinite.sum())
    return counts
