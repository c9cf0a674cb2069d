"""Relative and absolute error of one array against another: the other way to compare, beside units in the last place."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto import numerics
from pypto.dtypes import DType, dtype_of
from pypto.errors import NumericsError
from pypto.testing.compare import compare
from pypto.testing.specs import Array, to_numpy

_ULPS = 4
"""The default allowance of narrow floats, in their own unit: what some roundings in another order may add up to."""


@dataclass(frozen=True)
class Closeness:
    """An element is close when `abs(actual - expected) <= atol + rtol * abs(expected)`. Integers are always exact.

    >>> Closeness.of("FP16").rtol == 4 * 2.0**-10
    True
    """

    rtol: float
    atol: float

    @staticmethod
    def of(dtype: Any) -> Closeness:
        """The default for a dtype: 1e-5 for FP32 and wider, 4 units of the last place for narrower floats, 0 for integers."""
        kind = dtype_of(dtype)
        if not kind.is_float:
            return Closeness(0.0, 0.0)
        if kind.bits >= 32:
            return Closeness(1e-5, 1e-5)
        unit = kind.epsilon
        return Closeness(_ULPS * unit, _ULPS * unit if kind.bits > 8 else unit)

    def but(self, rtol: float | None, atol: float | None) -> Closeness:
        """With the parts that are given in place of these."""
        return Closeness(self.rtol if rtol is None else rtol, self.atol if atol is None else atol)


@dataclass(frozen=True)
class Closely:
    """What comparing one array by relative and absolute error found.

    Attributes:
      passed: every element is close enough.
      mismatches, size: how many are not, of how many.
      worst: the index of the element furthest outside, None if all are inside; actual, expected: the two values there.
      max_abs, max_rel: the largest absolute and relative error among finite elements.
      quantiles: share of elements -> relative error that so many do not exceed.
      ulps: the report of the same comparison in units of the last place.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    allowed: Closeness
    passed: bool
    mismatches: int
    size: int
    worst: tuple[int, ...] | None
    actual: float
    expected: float
    max_abs: float
    max_rel: float
    quantiles: dict[float, float]
    ulps: str
    note: str = ""

    @property
    def fraction(self) -> float:
        """The part of the elements that is not close enough."""
        return self.mismatches / self.size if self.size else 0.0

    def report(self) -> str:
        """Several lines: verdict, worst element, how the error is distributed, what is normal for the dtype."""
        what = f"{self.name}: {self.dtype.name}{list(self.shape)}"
        allowed = f"rtol {self.allowed.rtol:.3g}, atol {self.allowed.atol:.3g}"
        if self.passed:
            return f"{what}: all {self.size} elements within {allowed}" + (f"\n  {self.note}" if self.note else "")
        lines = [f"{what}: {self.mismatches} of {self.size} elements differ ({self.fraction:.3%}); allowed: {allowed}"]
        if self.worst is not None:
            lines.append(f"  furthest outside at {list(self.worst)}: actual {self.actual!r}, expected {self.expected!r}")
        lines.append(f"  largest error: {self.max_abs:.3g} absolute, {self.max_rel:.3g} relative")
        lines.append("  relative error: " + ", ".join(f"{share:.0%} <= {value:.2g}" for share, value in self.quantiles.items()))
        usual = Closeness.of(self.dtype)
        if self.dtype.is_float and self.dtype.bits < 32 and self.allowed.rtol < usual.rtol:
            bits = 1 - round(math.log2(self.dtype.epsilon))
            digits = "about three decimal digits" if self.dtype.name == "FP16" else f"{bits} significant bits"
            lines.append(
                f"  expected for {self.dtype.name}: 1 ulp = 2^-{bits - 1} relative, {digits};"
                f" rtol {self.allowed.rtol:.3g} is finer than the dtype. Its default is {usual.rtol:.3g}"
            )
        lines += [line for line in self.ulps.splitlines()[1:] if "expected for" not in line]
        return "\n".join([*lines, *([f"  {self.note}"] if self.note else [])])


def measure(
    actual: Any, expected: Any, allowed: Closeness | None = None, *, name: str = "result", bits: bool = False, note: str = ""
) -> Closely:
    """Compare two arrays of one dtype and shape; NaN is close to NaN, an infinity to itself.

    Args:
      allowed: by default, the dtype's (`Closeness.of`).
      bits: equal bits instead, so that zeros of another sign differ; all NaNs count as the same.
    Errors:
      PL702 if the dtypes or shapes differ.

    >>> import numpy as np
    >>> measure(np.float16([0.1]) * np.float16([0.1]), np.float16([0.01])).passed
    True
    """
    got, want = to_numpy(actual), to_numpy(expected)
    in_units = compare(got, want, name=name)
    kind = dtype_of(got.dtype)
    limit = Closeness(0.0, 0.0) if not kind.is_float else Closeness.of(kind) if allowed is None else allowed
    absolute, relative, same = _errors(got, want)
    with np.errstate(invalid="ignore", over="ignore"):
        far = ~same & ~((absolute <= limit.atol + limit.rtol * np.abs(_wide(want))) & np.isfinite(absolute))
    if not kind.is_float:
        far = ~same
    if bits:
        far = ~_equal_bits(got, want)
    finite = np.isfinite(relative)
    worst = _worst(far, absolute)
    spot = () if worst is None else worst
    return Closely(
        name=name,
        dtype=kind,
        shape=got.shape,
        allowed=limit,
        passed=not far.any(),
        mismatches=int(far.sum()),
        size=got.size,
        worst=worst,
        actual=float("nan") if worst is None else numerics.numbers(got[spot]).item(),
        expected=float("nan") if worst is None else numerics.numbers(want[spot]).item(),
        max_abs=float(np.max(absolute, initial=0.0, where=np.isfinite(absolute))),
        max_rel=float(np.max(relative, initial=0.0, where=finite)),
        quantiles=error_distribution(got, want),
        ulps=in_units.report(),
        note=note,
    )


def error_distribution(actual: Any, expected: Any, shares: tuple[float, ...] = (0.5, 0.9, 0.99, 1.0)) -> dict[float, float]:
    """For each share of the elements, the relative error that so many do not exceed (absolute where the right value is 0).

    >>> import numpy as np
    >>> error_distribution(np.float32([1, 2, 4]), np.float32([1, 2, 2]), (0.5, 1.0))
    {0.5: 0.0, 1.0: 1.0}
    """
    got, want = to_numpy(actual), to_numpy(expected)
    if got.shape != want.shape:
        raise NumericsError("PL702", f"{list(got.shape)} cannot be compared with {list(want.shape)}", fix="compare equal shapes")
    if not got.size:
        return dict.fromkeys(shares, 0.0)
    _, relative, _ = _errors(got, want)
    ordered = np.sort(np.where(np.isnan(relative), np.inf, relative), axis=None)
    return {share: float(ordered[max(0, int(np.ceil(share * ordered.size)) - 1)]) for share in shares}


def _wide(x: Array) -> Array:
    return numerics.numbers(x).astype(np.float64)


def _errors(got: Array, want: Array) -> tuple[Array, Array, Array]:
    """Absolute and relative errors, and where the values are the same."""
    a, b = _wide(got), _wide(want)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if got.dtype.kind in "iu":
        same = got == want  # FP64 does not hold every INT64
    with np.errstate(all="ignore"):
        absolute = np.where(same, 0.0, np.abs(a - b))
        relative = np.where(same, 0.0, absolute / np.where(b == 0, 1.0, np.abs(b)))
    return absolute, relative, same


def _equal_bits(a: Array, b: Array) -> Array:
    width = f"u{a.dtype.itemsize}"
    same = np.ascontiguousarray(a).view(width) == np.ascontiguousarray(b).view(width)
    same = same.reshape(a.shape)
    return same | (np.isnan(_wide(a)) & np.isnan(_wide(b))) if dtype_of(a.dtype).is_float else same


def _worst(far: Array, absolute: Array) -> tuple[int, ...] | None:
    if not far.any():
        return None
    ranked = np.where(far, np.where(np.isnan(absolute), np.inf, absolute), -1.0)
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(ranked)), far.shape))
