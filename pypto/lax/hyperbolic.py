"""The hyperbolic functions and their inverses: sinh, cosh, asinh, acosh, atanh. Bounds and polynomials are made as in `arcs`."""

from __future__ import annotations

from typing import Any

from pypto.core.op import OPS, Ulp
from pypto.interpreters.rules import by_operand
from pypto.lax.compare import eq, gt, lt, select
from pypto.lax.composite import composite
from pypto.lax.elementwise import abs_, exp, log, neg, sqrt
from pypto.lax.functions import horner, log1p

# (sinh(x) / x - 1) / x**2 by x**2 < 1
_SINH = (0.1666666716337204, 0.00833331048488617, 0.00019842895562760532, 2.7822131869470468e-06)
# (asinh(x) / x - 1) / x**2 by x**2 < 0.25
_ASINH = (-0.1666664332151413, 0.07498642057180405, -0.04438331723213196, 0.028163496404886246, -0.01322839967906475)
# (atanh(x) / x - 1) / x**2 by x**2 < 0.25
_ATANH = (0.33333301544189453, 0.2000245302915573, 0.1422378569841385, 0.11816386133432388, 0.05160436034202576, 0.1763785034418106)
# (acosh(1 + t) / sqrt(2 t) - 1) / t by t < 0.5
_ACOSH = (-0.08333321660757065, 0.018746603280305862, -0.005547900218516588, 0.0017601825529709458, -0.0004133584152441472)
_LN2 = 0.6931471805599453
# exp of more than this overflows, where half of it need not
_LARGE = 88.0
# from here on 1 is nothing next to the square
_FAR = 1e4


def _signed(x: Any, magnitude: Any) -> Any:
    """A result with the sign of x, of zeros too."""
    return select(eq(x, 0.0), x, select(lt(x, 0.0), neg(magnitude), magnitude))


@composite(jvp=by_operand(lambda g, y, x: g * OPS["cosh"](x)), exact=Ulp(2), golden="jax.lax.sinh")
def sinh(x: Any) -> Any:
    """The hyperbolic sine, (exp(x) - exp(-x)) / 2.

    Args:
      x: FP32, FP16 or BF16, any shape.
    Numerics:
      Within 2 ulp: an odd polynomial below 1, exp(|x|) / 2 - 1 / (2 exp(|x|)) above it, from 88 on the square of exp(|x| / 2).
      Zeros keep their sign; the limits are -inf and inf.

    >>> from pypto import lax
    >>> lax.sinh(1.0)
    Array(1.1752012, dtype=FP32)
    """
    a, z = abs_(x), x * x
    small = a + (a * z) * horner(z, _SINH)
    e, h = exp(a), exp(a * 0.5)
    large = select(gt(a, _LARGE), (h * 0.5) * h, e * 0.5 - 0.5 / e)
    return _signed(x, select(lt(a, 1.0), small, large))


@composite(jvp=by_operand(lambda g, y, x: g * OPS["sinh"](x)), exact=Ulp(2), golden="jax.lax.cosh")
def cosh(x: Any) -> Any:
    """The hyperbolic cosine, (exp(x) + exp(-x)) / 2.

    Args:
      x: FP32, FP16 or BF16, any shape.
    Numerics:
      Within 2 ulp: exp(|x|) / 2 + 1 / (2 exp(|x|)), from 88 on the square of exp(|x| / 2). The limits are inf.

    >>> from pypto import lax
    >>> lax.cosh(1.0)
    Array(1.5430806, dtype=FP32)
    """
    a = abs_(x)
    e, h = exp(a), exp(a * 0.5)
    return select(gt(a, _LARGE), (h * 0.5) * h, e * 0.5 + 0.5 / e)


@composite(jvp=by_operand(lambda g, y, x: g * OPS["rsqrt"](x * x + 1.0)), exact=Ulp(2), golden="jax.lax.asinh")
def asinh(x: Any) -> Any:
    """The inverse hyperbolic sine, log(x + sqrt(x**2 + 1)).

    Args:
      x: FP32, FP16 or BF16, any shape.
    Numerics:
      Within 2 ulp: an odd polynomial below 1/2, log1p(|x| + x**2 / (1 + sqrt(1 + x**2))) above it, log(|x|) + log(2) from 1e4 on.
      Zeros keep their sign; the limits are -inf and inf.

    >>> from pypto import lax
    >>> lax.asinh(1.0)
    Array(0.8813736, dtype=FP32)
    """
    a, z = abs_(x), x * x
    small = a + (a * z) * horner(z, _ASINH)
    usual = log1p(a + z / (sqrt(z + 1.0) + 1.0))
    return _signed(x, select(lt(a, 0.5), small, select(gt(a, _FAR), log(a) + _LN2, usual)))


@composite(jvp=by_operand(lambda g, y, x: g * OPS["rsqrt"]((x - 1.0) * (x + 1.0))), exact=Ulp(2), golden="jax.lax.acosh", domain=(1, 8))
def acosh(x: Any) -> Any:
    """The inverse hyperbolic cosine, log(x + sqrt(x**2 - 1)).

    Args:
      x: FP32, FP16 or BF16, at least 1; NaN below.
    Numerics:
      Within 2 ulp, also next to 1, where the result is small: with t = x - 1, sqrt(2 t) times a polynomial below 1.5,
      log1p(t + sqrt(t (x + 1))) above it, log(x) + log(2) from 1e4 on.

    >>> from pypto import lax
    >>> lax.acosh(1.0), lax.acosh(2.0)
    (Array(0., dtype=FP32), Array(1.316958, dtype=FP32))
    """
    t = x - 1.0
    root = sqrt(t + t)
    near = root + (root * t) * horner(t, _ACOSH)
    usual = log1p(t + sqrt(t * (x + 1.0)))
    return select(lt(x, 1.0), float("nan"), select(lt(t, 0.5), near, select(gt(x, _FAR), log(x) + _LN2, usual)))


@composite(jvp=by_operand(lambda g, y, x: g / ((1.0 - x) * (1.0 + x))), exact=Ulp(2), golden="jax.lax.atanh", domain=(-1, 1))
def atanh(x: Any) -> Any:
    """The inverse hyperbolic tangent, log((1 + x) / (1 - x)) / 2.

    Args:
      x: FP32, FP16 or BF16 in [-1, 1]; NaN outside.
    Numerics:
      Within 2 ulp: an odd polynomial below 1/2, log1p(2 |x| / (1 - |x|)) / 2 above it. Zeros keep their sign; atanh(1) is inf.

    >>> from pypto import lax
    >>> lax.atanh(0.5)
    Array(0.54930615, dtype=FP32)
    """
    a, z = abs_(x), x * x
    small = a + (a * z) * horner(z, _ATANH)
    return _signed(x, select(lt(a, 0.5), small, log1p((a + a) / (1.0 - a)) * 0.5))
