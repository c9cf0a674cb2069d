"""Elementwise arithmetic. BF16 and FP16 widen to FP32, do one FP32 operation, and round once to nearest even."""

from __future__ import annotations

from typing import Any

from pypto import dtypes, numerics
from pypto.core.op import Exact, Native
from pypto.lax.families import FLOATS, INTEGERS, NUMBERS, elementwise

_ARITHMETIC = Exact("fp32")
_INTEGER = Exact("integers")


@elementwise(accepts=NUMBERS, exact=_ARITHMETIC, pto=Native("pto.tadd"), golden="jax.lax.add")
def add(x: Any, y: Any) -> Any:
    """Add two values.

    Args:
      x, y: one dtype; shapes broadcast as NumPy's. In kernels one side may be a number or a scalar.
    Numerics:
      Correctly rounded in FP32; integers wrap.
    Errors:
      PL301 for shapes that do not broadcast, PL302 for different dtypes in a kernel.

    >>> from pypto import lax
    >>> lax.add(1.5, 2)
    Array(3.5, dtype=FP32)
    """
    return numerics.add(x, y)


@elementwise(accepts=NUMBERS, exact=_ARITHMETIC, pto=Native("pto.tsub"), golden="jax.lax.sub")
def sub(x: Any, y: Any) -> Any:
    """Subtract: x - y. Numerics and errors as `add`."""
    return numerics.sub(x, y)


@elementwise(accepts=NUMBERS, exact=_ARITHMETIC, pto=Native("pto.tmul"), golden="jax.lax.mul")
def mul(x: Any, y: Any) -> Any:
    """Multiply. Numerics and errors as `add`; integers keep the low bits of the product."""
    return numerics.mul(x, y)


def _zero_divisor(x: Any, y: Any) -> tuple[str, Any]:
    """Integer division by zero; floats divide by zero as IEEE says."""
    return "the divisor is 0", (y == 0) if y.dtype.kind in "iu" else None


@elementwise(accepts=NUMBERS, exact=_ARITHMETIC, pto=Native("pto.tdiv"), golden="jax.lax.div", domain=(1, 4), hazard=_zero_divisor)
def div(x: Any, y: Any) -> Any:
    """Divide.

    Numerics:
      A true FP32 division, never a multiplication by the reciprocal. Integers truncate toward zero; x / 0 is 0 and
      INT_MIN / -1 wraps. Use `floor_div` for Python's `//`.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.div(np.int32([-7]), np.int32([3]))
    Array([-2], dtype=INT32)
    """
    return numerics.div(x, y)


@elementwise(accepts=INTEGERS, exact=_INTEGER, hazard=_zero_divisor)
def floor_div(x: Any, y: Any) -> Any:
    """Integer quotient rounded toward minus infinity, as Python's `//`. A zero divisor gives 0."""
    return numerics.floor_div(x, y)


@elementwise(accepts=INTEGERS, exact=_INTEGER, hazard=_zero_divisor)
def floor_mod(x: Any, y: Any) -> Any:
    """Integer remainder with the divisor's sign, as Python's `%`. A zero divisor gives 0.

    >>> from pypto import lax
    >>> lax.floor_mod(-5, 3)
    Array(1, dtype=INT32)
    """
    return numerics.floor_mod(x, y)


@elementwise(accepts=NUMBERS, exact=Exact("max, min"), pto=Native("pto.tmax"), golden="jax.lax.max")
def maximum(x: Any, y: Any) -> Any:
    """The larger of two values. NaN propagates, and +0 is larger than -0."""
    return numerics.maximum(x, y)


@elementwise(accepts=NUMBERS, exact=Exact("max, min"), pto=Native("pto.tmin"), golden="jax.lax.min")
def minimum(x: Any, y: Any) -> Any:
    """The smaller of two values. NaN propagates, and -0 is smaller than +0."""
    return numerics.minimum(x, y)


@elementwise(accepts=NUMBERS, exact=_ARITHMETIC, pto=Native("pto.tneg"), golden="jax.lax.neg")
def neg(x: Any) -> Any:
    """Change the sign. Exact for floats; the smallest integer wraps to itself."""
    return numerics.neg(x)


@elementwise(accepts=NUMBERS, exact=_ARITHMETIC, pto=Native("pto.tabs"), golden="jax.lax.abs")
def abs_(x: Any) -> Any:
    """The absolute value. Exact for floats; the smallest integer wraps to itself."""
    return numerics.abs(x)


@elementwise(accepts=FLOATS, exact=Exact("fp32"), pto=Native("pto.texp"), golden="jax.lax.exp")
def exp(x: Any) -> Any:
    """Raise e to each element.

    Args:
      x: FP32, FP16 or BF16, any shape.
    Numerics:
      Correctly rounded in FP32, subnormals kept; FP16 and BF16 round that once more. exp(-inf) is 0.
    Errors:
      PL305 for integers.

    >>> from pypto import lax
    >>> lax.exp(1.0)
    Array(2.7182817, dtype=FP32)
    """
    return numerics.exp(x)


@elementwise(accepts=FLOATS, exact=Exact("fp32"), pto=Native("pto.tlog"), golden="jax.lax.log", domain=(0.01, 10))
def log(x: Any) -> Any:
    """The natural logarithm, correctly rounded in FP32. log(0) is -inf; of a negative number, NaN."""
    return numerics.log(x)


@elementwise(accepts=FLOATS, exact=Exact("fp32"), pto=Native("pto.tsqrt"), golden="jax.lax.sqrt", domain=(0, 10))
def sqrt(x: Any) -> Any:
    """The square root, correctly rounded in FP32; of a negative number, NaN."""
    return numerics.sqrt(x)


@elementwise(accepts=FLOATS, exact=Exact("fp32"), pto=Native("pto.trsqrt"), golden="jax.lax.rsqrt", domain=(0.01, 10))
def rsqrt(x: Any) -> Any:
    """One over the square root, correctly rounded in FP32: one rounding, not two. rsqrt(0) is inf."""
    return numerics.rsqrt(x)


@elementwise(accepts=FLOATS, exact=Exact("fp32"), pto=Native("pto.trecip"), golden="jax.numpy.reciprocal", domain=(0.1, 10))
def recip(x: Any) -> Any:
    """One over each element, correctly rounded in FP32. recip(0) is inf."""
    return numerics.recip(x)


_BOOL = frozenset({dtypes.BOOL})


@elementwise(accepts=_BOOL, exact=_INTEGER, golden="jax.numpy.logical_and")
def logical_and(x: Any, y: Any) -> Any:
    """Both are true."""
    return x & y


@elementwise(accepts=_BOOL, exact=_INTEGER, golden="jax.numpy.logical_or")
def logical_or(x: Any, y: Any) -> Any:
    """At least one is true."""
    return x | y


@elementwise(accepts=_BOOL, exact=_INTEGER, golden="jax.numpy.logical_not")
def logical_not(x: Any) -> Any:
    """The other truth value."""
    return ~x
