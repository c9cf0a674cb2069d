"""Sine and cosine by the recipe of the language, one FP32 operation per step."""

from __future__ import annotations

from typing import Any

from pypto.core.op import OPS, Ulp
from pypto.interpreters.rules import by_operand
from pypto.lax.composite import composite
from pypto.lax.rounding import whole

_1_PI = 0.31830988732818603515625
# pi in five parts: the first two are short, so that their products with k are exact while |x| <= 1e5.
PI = (3.140625, 0.0009670257568359375, 6.2771141529083251953125e-7, 1.21644916362149131821e-10, -1.0290623200529979163e-13)
# pi / 2 in two parts
_HALF_PI = (1.57079637050628662109375, -4.371139000189375e-8)


def _recipe(k: Any, t: Any) -> Any:
    """sin(t) with the sign that k half turns give: an odd polynomial of degree 9."""
    sign = (whole(k * 0.5, "floor") * 4.0 + k * -2.0) + 1.0
    u = t * t
    p = (((u * 2.604926501e-6 - 1.980894471e-4) * u + 8.333049340e-3) * u - 1.666665792e-1) * u + 1.0
    return sign * (t * p)


@composite(jvp=by_operand(lambda g, y, x: g * OPS["cos"](x)), exact=Ulp(3), golden="jax.lax.sin")
def sin(x: Any) -> Any:
    """The sine of an angle in radians.

    Args:
      x: FP32, FP16 or BF16, any shape.
    Numerics:
      Within 3 ulp for |x| <= 1e5, also next to the multiples of pi. The language fixes the steps, so the bits are the
      original compiler's: k = round(x / pi) as INT32, x - k pi in five parts, a polynomial of degree 9. The error grows beyond 1e5,
      and from 2**31 pi on, where k leaves INT32, the result means nothing (of an infinity it is infinite). sin(-0) is +0.

    >>> from pypto import lax
    >>> lax.sin(0.5)
    Array(0.47942555, dtype=FP32)
    """
    k = whole(x * _1_PI, "round")
    t = x
    for part in PI:
        t = t - k * part
    return _recipe(k, t)


@composite(jvp=by_operand(lambda g, y, x: -(g * OPS["sin"](x))), exact=Ulp(6), golden="jax.lax.cos")
def cos(x: Any) -> Any:
    """The cosine of an angle in radians.

    Args:
      x: FP32, FP16 or BF16, any shape.
    Numerics:
      Within 6 ulp (3.3 units of 2**-24) for |x| <= 1e5, also next to its zeros: the recipe of `sin` with k = rint(x / pi + 1/2), so
      cos(0) is 1.0000001. Beyond that as `sin`.

    >>> from pypto import lax
    >>> lax.cos(0.5)
    Array(0.87758255, dtype=FP32)
    """
    k = whole(x * _1_PI + 0.5, "rint")
    t = x - k * PI[0] - k * PI[1] + _HALF_PI[0]
    for part in PI[2:]:
        t = t - k * part
    return _recipe(k, t + _HALF_PI[1])
