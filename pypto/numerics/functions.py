"""Elementwise functions: correctly rounded, so that every CPU gives the same bits.

A function of FP32 numbers is computed in FP64 from + - * / and square roots alone, with a proven relative error. If all of the
values within that error round to one FP32 number, that is the answer (Ziv's strategy); the few others are settled by exact comparison
with the midpoint between the two candidates.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from pypto.dtypes import FP32, INT16, dtype_of
from pypto.errors import ShapeError
from pypto.numerics.rounding import convert

Array = np.ndarray[Any, np.dtype[Any]]

# FP64 elements per block of a fast path: its few working arrays stay in the second-level cache.
_BLOCK = 1 << 14
# `Decimal` rounds exp and ln correctly; 60 digits are twice what separates any FP32 argument's result from a midpoint.
_DIGITS = Context(prec=60, Emax=999999, Emin=-999999)

_LOG2_E = 1.4426950408889634
# log(2) in two parts: the first has 28 bits, so that its product with an exponent is exact.
_LN2_HIGH = float.fromhex("0x1.62e42fep-1")
_LN2_LOW = float.fromhex("0x1.f473de6af278fp-30")
_EXP_SERIES = [1.0 / math.factorial(n) for n in range(13, -1, -1)]
_LOG_SERIES = [2.0 / (2 * n + 1) for n in range(12, -1, -1)]


def elementwise(function: Callable[..., Array], *arrays: Array) -> Array:
    """Apply an FP32 function to arrays of one dtype.

    Args:
      function: takes and returns FP32 arrays (or the integers it is given).
      arrays: one dtype; shapes as the function takes them.
    Returns:
      What the function returns; in the dtype of the inputs if that is a float narrower than FP32.
    Numerics:
      Narrow floats are widened exactly, and the result is rounded once, to nearest even. FP32 and integers pass as they are.
    Errors:
      PL302 for mixed dtypes.
    """
    stored = arrays[0].dtype
    if any(array.dtype is not stored and array.dtype != stored for array in arrays):
        names = ", ".join(dtype_of(array).name for array in arrays)
        raise ShapeError("PL302", f"operands are {names}", fix="cast them to one dtype")
    dtype = dtype_of(stored)
    with np.errstate(all="ignore"):
        if dtype.is_integer and dtype.bits < 8:
            # ml_dtypes' 4-bit integers follow no rule of overflow: compute wide, keep the low bits.
            wide = np.asarray(function(*(array.astype(np.int16) for array in arrays)))
            return convert(wide, INT16, dtype, "trunc", "wrap") if wide.dtype == np.int16 else wide
        if not dtype.is_float or dtype is FP32:
            return np.asarray(function(*arrays))
        wide = np.asarray(function(*(array.astype(np.float32) for array in arrays)))
    return convert(wide, FP32, dtype, "rint", "ieee") if wide.dtype == np.float32 else wide


def _widened(function: Callable[..., Array]) -> Callable[..., Array]:
    @functools.wraps(function)
    def apply(*arrays: Array) -> Array:
        return elementwise(function, *arrays)

    return apply


def _floating(function: Callable[..., Array]) -> Callable[..., Array]:
    """As `_widened`, and refuses integers (PL305)."""
    apply = _widened(function)

    @functools.wraps(function)
    def check(x: Array) -> Array:
        if not dtype_of(x).is_float:
            raise ShapeError("PL305", f"{function.__name__} takes floats, not {dtype_of(x).name}", fix="cast to FP32 first")
        return apply(x)

    return check


# -- correctly rounded functions ------------------------------------------------------------------


def _settled(x: Array, fast: Callable[[Array], Array], error: float, exceeds: Callable[[float, float], bool]) -> Array:
    """Round `fast` to FP32, and settle what its error leaves open.

    Args:
      x: FP32, any shape.
      fast: maps a block of x, as FP64, to results with a relative error below `error`.
      exceeds: whether the exact function of x lies above a given midpoint of FP32; called for few x.
    """
    flat = np.ascontiguousarray(x, np.float32).reshape(-1)
    out = np.empty_like(flat)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK]
        y = fast(block.astype(np.float64))
        near = (y * (1.0 - error)).astype(np.float32)
        far = (y * (1.0 + error)).astype(np.float32)
        open_ = np.nonzero((near != far) & ~np.isnan(y))[0]
        if open_.size:
            _settle(block, near, far, open_, exceeds)
        out[start : start + _BLOCK] = near
    return out.reshape(np.shape(x))


def _settle(x: Array, near: Array, far: Array, where: Array, exceeds: Callable[[float, float], bool]) -> None:
    """Overwrite near[where] by the right one of two neighbouring candidates, asking once per distinct argument."""
    arguments, first, inverse = np.unique(x[where], return_index=True, return_inverse=True)
    answers = np.empty_like(arguments)
    for i, argument in enumerate(arguments):
        low, high = sorted((near[where[first[i]]], far[where[first[i]]]))
        # For rounding, infinity stands where the next number after the largest would.
        ends = [math.copysign(2.0**128, end) if math.isinf(end) else float(end) for end in (low, high)]
        answers[i] = high if exceeds(float(argument), (ends[0] + ends[1]) / 2) else low
    near[where] = answers[inverse]


@_floating
def exp(x: Array) -> Array:
    """e to the power of each element: correctly rounded; subnormal results kept; inf from 88.72284, 0 below -103.97208."""
    return _settled(x, _exp_fast, 2.0**-48, lambda a, middle: _DIGITS.exp(Decimal(a)) > Decimal(middle))


def _exp_fast(x: Array) -> Array:
    """exp in FP64, relative error below 2**-50.

    x = k log(2) + r with |r| < 0.347. The series stops after r**13 / 13!, which leaves 0.347**14 / 14! < 2**-57; r is known to
    2**-53 of its own size plus k * 2**-82; Horner's last steps add about 1.5 units of 2**-53, the others less each time.
    """
    nan = np.isnan(x)
    # Beyond 200 the answer is clear, and 2**k stays a normal number.
    x = np.clip(np.where(nan, 0.0, x), -200.0, 200.0)
    k = np.rint(x * _LOG2_E)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    y = np.full_like(r, _EXP_SERIES[0])
    for coefficient in _EXP_SERIES[1:]:
        y *= r
        y += coefficient
    power = (k.astype(np.int64) + 1023) << 52
    y *= power.view(np.float64)
    y[nan] = np.nan
    return y


@_floating
def log(x: Array) -> Array:
    """Natural logarithm of each element: correctly rounded; -inf for zeros, NaN for negative numbers."""
    return _settled(x, _log_fast, 2.0**-47, lambda a, middle: _DIGITS.ln(Decimal(a)) > Decimal(middle))


def _log_fast(x: Array) -> Array:
    """log in FP64, relative error below 2**-49.

    x = m 2**e with m in [sqrt(1/2), sqrt(2)), and log(m) = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.1716; m - 1 and m + 1 are exact.
    The series stops after s**25, which leaves less than 2**-68 of the result. The sum with e log(2) cancels at most two bits.
    """
    mantissa, exponent = np.frexp(x)
    small = mantissa < math.sqrt(0.5)
    mantissa = np.where(small, 2.0 * mantissa, mantissa)
    e = (exponent - small).astype(np.float64)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square = s * s
    y = np.full_like(s, _LOG_SERIES[0])
    for coefficient in _LOG_SERIES[1:]:
        y *= square
        y += coefficient
    y *= s
    y = e * _LN2_HIGH + (e * _LN2_LOW + y)
    y = np.where(x > 0.0, y, np.where(x == 0.0, -np.inf, np.nan))
    return np.where(x == np.inf, np.inf, y)


@_floating
def rsqrt(x: Array) -> Array:
    """1 / sqrt of each element, correctly rounded; inf and -inf for the zeros, NaN for negative numbers."""
    # Two FP64 operations, each within 2**-53: the relative error is below 2**-51.
    return _settled(
        x,
        lambda wide: 1.0 / np.sqrt(wide),
        2.0**-50,
        # 1/sqrt(a) > middle; a tie is impossible, its square would need more bits than a has.
        lambda a, middle: Fraction(middle) ** 2 * Fraction(a) < 1,
    )


@_floating
def sqrt(x: Array) -> Array:
    """Square root of each element, correctly rounded; sqrt(-0) is -0, NaN for negative numbers."""
    return np.sqrt(x)


@_floating
def recip(x: Array) -> Array:
    """1 / x for each element, correctly rounded."""
    return np.divide(np.float32(1.0), x)


# -- arithmetic -----------------------------------------------------------------------------------


@_widened
def add(a: Array, b: Array) -> Array:
    """a + b: floats rounded once, integers wrap."""
    return np.add(a, b)


@_widened
def sub(a: Array, b: Array) -> Array:
    """a - b: floats rounded once, integers wrap."""
    return np.subtract(a, b)


@_widened
def mul(a: Array, b: Array) -> Array:
    """a * b: floats rounded once, integers wrap."""
    return np.multiply(a, b)


@_widened
def neg(x: Array) -> Array:
    """-x: the sign bit of floats, two's complement of integers, so that the least one is its own."""
    return np.negative(x)


@_widened
def abs(x: Array) -> Array:
    """|x|; the least integer is its own, as with `neg`."""
    return np.abs(x)


@_widened
def div(a: Array, b: Array) -> Array:
    """a / b: a true division of floats, rounded once; integers truncate toward zero.

    Integers divided by 0 give 0, and the least integer divided by -1 gives itself.
    """
    if a.dtype.kind not in "iu":
        return np.divide(a, b)
    quotient, rest, zero, _ = _int_floor(a, b)
    toward_zero = (rest != 0) & ((a < 0) != (b < 0)) & ~zero
    return quotient + toward_zero.astype(quotient.dtype)


@_widened
def floor_div(a: Array, b: Array) -> Array:
    """a // b of integers, as Python rounds: toward minus infinity. 0 where b is 0; the least integer // -1 gives itself."""
    return _int_floor(*_integers("floor_div", a, b))[0]


@_widened
def floor_mod(a: Array, b: Array) -> Array:
    """a % b as in Python: the result has the sign of b, zeros too. Integers: 0 where b is 0. Floats: NaN there.

    Of floats it is `fmod`, and where that has the other sign, `fmod` + b, rounded once.
    """
    if a.dtype.kind in "iu":
        return _int_floor(a, b)[1]
    rest = np.fmod(a, b)
    wrapped = np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)
    return np.where(rest == 0, np.copysign(np.float32(0.0), b), wrapped)


@_widened
def fmod(a: Array, b: Array) -> Array:
    """The remainder of a / b rounded toward zero: the sign of a. Exact. Where b is 0, integers give 0 and floats NaN."""
    if a.dtype.kind not in "iu":
        return np.fmod(a, b)
    _, rest, zero, _ = _int_floor(a, b)
    # As `div` truncates: one divisor less where the floored remainder has the other sign than a.
    return np.where((rest != 0) & ((a < 0) != (b < 0)) & ~zero, rest - b, rest)


def _integers(name: str, a: Array, b: Array) -> tuple[Array, Array]:
    if not dtype_of(a).is_integer:
        raise ShapeError("PL305", f"{name} takes integers, not {dtype_of(a).name}", fix="use floor(a / b)")
    return a, b


def _int_floor(a: Array, b: Array) -> tuple[Array, Array, Array, Array]:
    """Floored quotient and remainder, and where b is 0 and -1. CPUs trap on both, so neither reaches their division."""
    zero = b == 0
    minus = (b < 0) & (b == np.asarray(-1).astype(b.dtype))
    safe = np.where(zero | minus, np.ones((), b.dtype), b)
    quotient = np.where(zero, np.zeros((), a.dtype), np.where(minus, np.negative(a), np.floor_divide(a, safe)))
    # Where b is -1 or was replaced by 1 there is no remainder.
    rest = np.where(zero | minus, np.zeros((), a.dtype), a - quotient * safe)
    return quotient, rest, zero, minus


@_widened
def maximum(a: Array, b: Array) -> Array:
    """The larger of two elements: NaN if either is NaN; +0 is larger than -0."""
    result = np.asarray(np.maximum(a, b))
    if result.dtype == np.float32:
        # Which zero NumPy takes depends on the CPU. -0 + -0 is -0, every other sum of zeros is +0.
        result = np.where((a == 0) & (b == 0), np.add(a, b), result)
    return result


@_widened
def minimum(a: Array, b: Array) -> Array:
    """The smaller of two elements: NaN if either is NaN; -0 is smaller than +0."""
    result = np.asarray(np.minimum(a, b))
    if result.dtype == np.float32:
        result = np.where((a == 0) & (b == 0), np.negative(np.add(np.negative(a), np.negative(b))), result)
    return result
