"""Tangent and the inverse trigonometric functions: tan, atan, atan2, asin, acos.

Polynomials are made as in `functions`; bounds are the largest error found, rounded up, over 70 million FP32 inputs (every 61st bit
pattern) and the neighbours of every boundary, for two operands over 9 million pairs, against FP64. Multiples of pi are two FP32
numbers each, the second of which is what the first one lost.
"""

from __future__ import annotations

from typing import Any

from pypto.core.op import OPS, Ulp
from pypto.interpreters.rules import by_operand
from pypto.lax.compare import eq, gt, lt, select
from pypto.lax.composite import composite
from pypto.lax.elementwise import abs_, maximum, minimum, neg, recip, sqrt
from pypto.lax.functions import horner
from pypto.lax.rounding import whole
from pypto.lax.trigonometry import PI

# (atan(x) / x - 1) / x**2 by x**2 < 0.25
_ATAN = (-0.333333283662796, 0.19999554753303528, -0.14273107051849365, 0.10948410630226135, -0.08009076118469238, 0.0390421524643898)
# (asin(x) / x - 1) / x**2 by x**2 < 0.25
_ASIN = (0.16666659712791443, 0.07500521838665009, 0.04451337456703186, 0.03183908388018608, 0.014314963482320309, 0.037696462124586105)
# (tan(x) / x - 1) / x**2 by x**2 < 0.62
_TAN = (
    0.33333349227905273, 0.13332673907279968, 0.054059166461229324, 0.021284645423293114, 0.010831930674612522, 9.215479076374322e-05,
    0.004375857766717672,
)  # fmt: skip

_PI = (3.1415927410125732, -8.742277657347586e-08)
_HALF_PI = (1.5707963705062866, -4.371138828673793e-08)
_QUARTER_PI = (0.7853981852531433, -2.1855694143368964e-08)
_THREE_QUARTERS_PI = (2.356194496154785, -5.962440319251527e-09)
# pi / 2 in five parts: the products of the first two with k are exact while |x| <= 5e4
_TURN = tuple(part / 2 for part in PI)
_2_PI = 0.6366197466850281


def _negative(x: Any) -> Any:
    """Whether the sign bit is set, of zeros too; NaN is not negative."""
    return lt(select(eq(x, 0.0), recip(x), x), 0.0)


def _angle(low: Any, high: Any, beyond: Any, left: Any = None) -> Any:
    """atan(low / high) for 0 <= low <= high, pi/2 less that where `beyond`, and pi less what that gives where `left`.

    Of two zeros it is that of (0, 1).
    """
    ratio = select(eq(high, 0.0), 0.0, select(eq(high, low), 1.0, low / high))
    steep = gt(ratio, 0.5)
    # between 1/2 and 1 the difference is exact, and the rounding of the ratio costs nothing
    t = select(steep, select(eq(low, high), 0.0, (low - high) / (low + high)), ratio)
    z = t * t
    p = t + (t * z) * horner(z, _ATAN)
    back = neg(p)
    turned = select(beyond, back, p)
    if left is not None:
        turned = select(left, select(beyond, p, back), turned)
    parts = []
    for quarter, half, three, whole_turn in zip(_QUARTER_PI, _HALF_PI, _THREE_QUARTERS_PI, _PI, strict=True):
        aside = quarter if left is None else select(left, three, quarter)
        along = 0.0 if left is None else select(left, whole_turn, 0.0)
        parts.append(select(steep, aside, select(beyond, half, along)))
    return parts[0] + (turned + parts[1])


@composite(jvp=by_operand(lambda g, y, x: g / (x * x + 1.0)), exact=Ulp(2), golden="jax.lax.atan")
def atan(x: Any) -> Any:
    """The angle whose tangent is x, in radians, between -pi/2 and pi/2.

    Args:
      x: FP32, FP16 or BF16, any shape.
    Numerics:
      Within 2 ulp: an odd polynomial below 1/2, pi/4 + atan((x - 1) / (x + 1)) up to 1, pi/2 - atan(1 / x) beyond. Zeros keep
      their sign; the limits are -pi/2 and pi/2.

    >>> from pypto import lax
    >>> lax.atan(1.0)
    Array(0.7853982, dtype=FP32)
    """
    a = abs_(x)
    angle = _angle(minimum(a, 1.0), maximum(a, 1.0), gt(a, 1.0))
    return select(eq(x, 0.0), x, select(lt(x, 0.0), neg(angle), angle))


@composite(
    jvp=by_operand(lambda g, z, y, x: g * (x / (x * x + y * y)), lambda g, z, y, x: -(g * (y / (x * x + y * y)))),
    exact=Ulp(2),
    golden="jax.lax.atan2",
)
def atan2(y: Any, x: Any) -> Any:
    """The angle of the point (x, y), in radians, between -pi and pi.

    Args:
      y, x: FP32, FP16 or BF16; shapes broadcast.
    Numerics:
      Within 2 ulp: atan of the ratio of the magnitudes, turned into the quadrant. Zeros and infinities
      as IEEE 754 says: the sign of a zero chooses the side.

    >>> from pypto import lax
    >>> lax.atan2(1.0, -1.0), lax.atan2(0.0, -0.0)
    (Array(2.3561945, dtype=FP32), Array(3.1415927, dtype=FP32))
    """
    across, up = abs_(x), abs_(y)
    beyond = gt(up, across)
    # a quarter of very large numbers, so that their sum is finite
    high, low = maximum(across, up), minimum(across, up)
    scale = select(gt(high, 1e38), 0.25, 1.0)
    angle = _angle(low * scale, high * scale, beyond, _negative(x))
    return select(_negative(y), neg(angle), angle)


@composite(jvp=by_operand(lambda g, y, x: g * OPS["rsqrt"]((1.0 - x) * (1.0 + x))), exact=Ulp(2), golden="jax.lax.asin", domain=(-1, 1))
def asin(x: Any) -> Any:
    """The angle whose sine is x, in radians, between -pi/2 and pi/2.

    Args:
      x: FP32, FP16 or BF16 in [-1, 1]; NaN outside.
    Numerics:
      Within 2 ulp: an odd polynomial below 1/2, pi/2 - 2 asin(sqrt((1 - x) / 2)) above it. Zeros keep their sign.

    >>> from pypto import lax
    >>> lax.asin(1.0)
    Array(1.5707964, dtype=FP32)
    """
    a = abs_(x)
    s, z, lost, large = _chord(x)
    p = (s * z) * horner(z, _ASIN)
    angle = select(large, _HALF_PI[0] - ((s + s) + (((p + p) + lost) - _HALF_PI[1])), a + p)
    return select(eq(x, 0.0), x, select(lt(x, 0.0), neg(angle), angle))


@composite(jvp=by_operand(lambda g, y, x: -(g * OPS["rsqrt"]((1.0 - x) * (1.0 + x)))), exact=Ulp(2), golden="jax.lax.acos", domain=(-1, 1))
def acos(x: Any) -> Any:
    """The angle whose cosine is x, in radians, between 0 and pi.

    Args:
      x: FP32, FP16 or BF16 in [-1, 1]; NaN outside.
    Numerics:
      Within 2 ulp, also next to 1, where the result is small: 2 asin(sqrt((1 - x) / 2)) above 1/2, pi/2 - asin(x) between,
      pi less the first one below -1/2.

    >>> from pypto import lax
    >>> lax.acos(1.0), lax.acos(-1.0)
    (Array(0., dtype=FP32), Array(3.1415927, dtype=FP32))
    """
    s, z, lost, large = _chord(x)
    p = (s * z) * horner(z, _ASIN)
    near = (s + s) + ((p + p) + lost)
    far = _PI[0] - ((s + s) + (((p + p) + lost) - _PI[1]))
    middle = _HALF_PI[0] - (x + (select(lt(x, 0.0), neg(p), p) - _HALF_PI[1]))
    return select(large, select(lt(x, 0.0), far, near), middle)


def _chord(x: Any) -> tuple[Any, Any, Any, Any]:
    """s and z = s**2 with asin(|x|) = asin(s), or pi/2 - 2 asin(s) where |x| is above 1/2; there, twice what rounding s lost."""
    a = abs_(x)
    large = gt(a, 0.5)
    z = select(large, (1.0 - a) * 0.5, a * a)
    s = select(large, sqrt(z), a)
    c = s * 4097.0
    high = c - (c - s)  # 12 bits, so that its square is exact
    rest = s - high
    lost = ((z - high * high) - rest * (high + s)) / s
    return s, z, select(gt(s, 0.0), lost, 0.0), large


@composite(jvp=by_operand(lambda g, y, x: g * (y * y + 1.0)), exact=Ulp(4), golden="jax.lax.tan", domain=(-1, 1))
def tan(x: Any) -> Any:
    """The tangent of an angle in radians.

    Args:
      x: FP32, FP16 or BF16, any shape.
    Numerics:
      Within 4 ulp for |x| <= 5e4, also next to its zeros and poles: x less k quarter turns of pi/2 (in five parts), an odd
      polynomial, and -1 divided by it for odd k, which adds to its two units. The error grows beyond, as with `sin`; of an
      infinity it means nothing. Zeros keep their sign.

    >>> from pypto import lax
    >>> lax.tan(0.5)
    Array(0.5463025, dtype=FP32)
    """
    k = whole(x * _2_PI, "rint")
    t = x
    for part in _TURN:
        t = t - k * part
    z = t * t
    p = t + (t * z) * horner(z, _TAN)
    odd = eq(k - whole(k * 0.5, "floor") * 2.0, 1.0)
    return select(eq(x, 0.0), x, select(odd, -1.0 / p, p))
