"""Rounding to whole numbers, signs, limits and finiteness, each as the instructions it is made of."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from pypto import dtypes
from pypto.core.avals import Aval
from pypto.core.op import Exact
from pypto.core.trace import aval_of
from pypto.errors import ShapeError
from pypto.interpreters.rules import by_operand, constant
from pypto.lax.compare import gt, lt, select
from pypto.lax.composite import composite
from pypto.lax.convert import convert
from pypto.lax.elementwise import abs_, maximum, minimum
from pypto.lax.families import NUMBERS, SIGNED, zero

_EXACT = Exact("composites")
_WHOLE = 2.0**23
"""From here on every FP32 number is whole."""


class RoundingMethod(enum.IntEnum):
    """What `round` does with a half, by JAX's codes."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def whole(x: Any, mode: str) -> Any:
    """An FP32 number, smaller than 2**31 in magnitude, rounded by a mode of `convert`; zeros are +0."""
    return convert(convert(x, dtype=dtypes.INT32, mode=mode, overflow="saturate"), dtype=dtypes.FP32, mode="rint", overflow="saturate")


def _rounded(x: Any, mode: str) -> Any:
    near = whole(x, mode)
    # x * 0 is the zero of x's sign
    return select(lt(abs_(x), _WHOLE), select(near == 0.0, x * 0.0, near), x)


@composite(jvp=constant, exact=_EXACT, golden="jax.lax.floor")
def floor(x: Any) -> Any:
    """The largest whole number that is not above x.

    Args:
      x: FP32, FP16 or BF16, any shape.
    Numerics:
      Exact. Zeros keep their sign; infinities and NaN stay.
    Errors:
      PL305 for integers.

    >>> from pypto import lax
    >>> lax.floor(-1.5)
    Array(-2., dtype=FP32)
    """
    return _rounded(x, "floor")


@composite(jvp=constant, exact=_EXACT, golden="jax.lax.ceil")
def ceil(x: Any) -> Any:
    """The smallest whole number that is not below x.

    Args:
      x: FP32, FP16 or BF16, any shape.
    Numerics:
      Exact. Between -1 and 0 it is -0; infinities and NaN stay.
    Errors:
      PL305 for integers.

    >>> from pypto import lax
    >>> lax.ceil(1.25)
    Array(2., dtype=FP32)
    """
    return _rounded(x, "ceil")


@composite(jvp=constant, exact=_EXACT, golden="jax.numpy.trunc")
def trunc(x: Any) -> Any:
    """x without its fraction.

    Args:
      x: FP32, FP16 or BF16, any shape.
    Numerics:
      Exact. The sign stays, of zeros too; infinities and NaN stay.
    Errors:
      PL305 for integers.

    >>> from pypto import lax
    >>> lax.trunc(-1.75)
    Array(-1., dtype=FP32)
    """
    return _rounded(x, "trunc")


def _method(name: str, avals: Sequence[Aval], *, rounding_method: Any = RoundingMethod.AWAY_FROM_ZERO) -> None:
    if isinstance(rounding_method, bool) or rounding_method not in tuple(RoundingMethod):
        raise ShapeError(
            "PL308", f"{name}: rounding_method={rounding_method!r}", fix="lax.RoundingMethod.AWAY_FROM_ZERO or TO_NEAREST_EVEN"
        )


@composite(jvp=constant, exact=_EXACT, golden="jax.lax.round", options=_method)
def round_(x: Any, *, rounding_method: int = RoundingMethod.AWAY_FROM_ZERO) -> Any:
    """The nearest whole number.

    Args:
      x: floats, any shape.
      rounding_method: where a half goes: `RoundingMethod.AWAY_FROM_ZERO` (0, the default, as JAX's) or `TO_NEAREST_EVEN` (1).
    Numerics:
      Exact. The sign stays, of zeros too; infinities and NaN stay.
    Errors:
      PL308 for another method, PL305 for integers.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.round(np.float32([0.5, 2.5]), rounding_method=lax.RoundingMethod.TO_NEAREST_EVEN)
    Array([0., 2.], dtype=FP32)
    """
    return _rounded(x, "rint" if rounding_method == RoundingMethod.TO_NEAREST_EVEN else "round")


@composite(jvp=constant, exact=_EXACT, golden="jax.lax.sign", accepts=NUMBERS)
def sign(x: Any) -> Any:
    """-1, 0 or 1, as x is below, at or above 0.

    Args:
      x: floats or integers, any shape; the result has its dtype.
    Numerics:
      Exact. Zeros keep their sign, and NaN stays.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.sign(np.float32([-3, -0.0, 0.5]))
    Array([-1., -0.,  1.], dtype=FP32)
    """
    dtype = aval_of(x).dtype
    if dtype.is_float:
        return select(gt(x, 0.0), 1.0, select(lt(x, 0.0), -1.0, x))
    return maximum(minimum(x, 1), -1) if dtype in SIGNED | {dtypes.INDEX} else minimum(x, 1)


def _clamped_low(g: Any, y: Any, low: Any, x: Any, high: Any) -> Any:
    return select(gt(low, x), select(gt(low, high), zero(g), g), zero(g))


def _clamped_inside(g: Any, y: Any, low: Any, x: Any, high: Any) -> Any:
    return select(gt(x, low), select(lt(x, high), g, zero(g)), zero(g))


def _clamped_high(g: Any, y: Any, low: Any, x: Any, high: Any) -> Any:
    return select(lt(high, maximum(x, low)), g, zero(g))


@composite(jvp=by_operand(_clamped_low, _clamped_inside, _clamped_high), exact=_EXACT, golden="jax.lax.clamp", accepts=NUMBERS)
def clamp(min: Any, x: Any, max: Any) -> Any:
    """x held between two limits, in JAX's order of arguments; NaN propagates.

    Args:
      min, x, max: one dtype; the limits are of x's shape or broadcast to it.
    Numerics:
      The smaller of (the larger of x and min) and max: where min is above max it is max.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.clamp(0, np.int32([-5, 3, 12]), 10)
    Array([ 0,  3, 10], dtype=INT32)
    """
    return minimum(maximum(x, min), max)


@composite(exact=_EXACT, golden="jax.lax.is_finite", mask=True)
def is_finite(x: Any) -> Any:
    """Whether an element is neither infinite nor NaN.

    Args:
      x: FP32, FP16 or BF16, any shape.
    Returns:
      A mask on tiles, BOOL elsewhere.
    Errors:
      PL305 for integers.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.is_finite(np.float32([1, np.inf, np.nan]))
    Array([ True, False, False], dtype=BOOL)
    """
    return lt(abs_(x), float("inf"))
