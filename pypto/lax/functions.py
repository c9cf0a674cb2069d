"""Functions without an instruction, written in those that exist: expm1, log1p, tanh, logistic, erf, erfc, softplus, logaddexp.

Each bound is the largest error found, rounded up: over 600 million FP32 inputs (every seventh bit pattern) and the
neighbours of every boundary, for two operands over 6 million pairs, against the same function in FP64. Polynomials are
minimax fits: Lawson's reweighted least squares in FP64 on Chebyshev nodes, weighted for relative error of the result,
coefficients rounded to FP32 one after the other,
lowest order first, and the rest fitted again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pypto.core.op import OPS, Exact, Ulp
from pypto.interpreters.rules import by_operand
from pypto.lax.compare import eq, gt, lt, select
from pypto.lax.composite import composite
from pypto.lax.elementwise import abs_, exp, log, maximum, minimum, neg, recip
from pypto.lax.families import NUMBERS

_ERF_SLOPE = 2 / math.sqrt(math.pi)
# (expm1(x) - x) / x**2 for -0.29 < x < 0.41
_EXPM1 = (0.5, 0.16666670143604279, 0.041666582226753235, 0.008332030847668648, 0.0013918736949563026, 0.00020942444098182023)
# (tanh(x) / x - 1) / x**2 by x**2 < 0.4
_TANH = (-0.33333274722099304, 0.1333124190568924, -0.05372260883450508, 0.020582059398293495, -0.005640012212097645)
# erf(x) / x - 1 by x**2 < 0.86
_ERF_SMALL = (
    0.12837916612625122,
    -0.3761262893676758,
    0.11283625662326813,
    -0.026855729520320892,
    0.005192392971366644,
    -0.0008049530442804098,
    7.995175110409036e-05,
)
# -log(1 - erf(x)) for 0.92 < x < 4, where erf reaches 1
_ERF_LARGE = (
    -0.00017468445003032684,
    1.1295149326324463,
    0.6333469152450562,
    0.10828004032373428,
    -0.025119351223111153,
    0.004171009175479412,
    -0.00043444460607133806,
    2.109273918904364e-05,
)
# exp(x**2) (1 - erf(x)) by x - 1.25 for 0.5 < x < 2
_ERFC_MIDDLE = (
    0.36782291531562805, -0.2088218629360199, 0.10679519176483154, -0.05021849647164345, 0.02201836183667183, -0.009081520140171051,
    0.0035148647148162127, -0.0013193405466154218, 0.0005541033460758626, -0.00018388322496321052,
)  # fmt: skip
# x exp(x**2) (1 - erf(x)) by 1 / x**2 for 2 < x < 10.2
_ERFC_TAIL = (
    0.5641895532608032, -0.28208795189857483, 0.4226069748401642, -1.0374342203140259, 3.2526092529296875, -10.243968963623047,
    25.73264503479004, -41.492130279541016, 30.751384735107422,
)  # fmt: skip


def horner(x: Any, coefficients: Sequence[float]) -> Any:
    """A polynomial, coefficients from the lowest order up."""
    *rest, highest = coefficients
    second = rest.pop()
    result = x * highest + second
    for c in reversed(rest):
        result = result * x + c
    return result


def exact_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """a + b exactly, as the rounded sum and its error (Knuth's TwoSum)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@composite(jvp=by_operand(lambda g, y, x: g * (x + x)), exact=Exact("composites"), golden="jax.lax.square", accepts=NUMBERS)
def square(x: Any) -> Any:
    """x * x.

    Args:
      x: floats or integers, any shape.
    Numerics:
      Rounded once; integers wrap.

    >>> from pypto import lax
    >>> lax.square(-3)
    Array(9, dtype=INT32)
    """
    return x * x


@composite(jvp=by_operand(lambda g, y, x: g * (y + 1.0)), exact=Ulp(1.5), golden="jax.lax.expm1", domain=(-2, 2))
def expm1(x: Any) -> Any:
    """exp(x) - 1 without cancellation near 0.

    Args:
      x: FP32, FP16 or BF16, any shape.
    Numerics:
      Within 1.5 ulp. Where the result is between -1/4 and 1/2, x plus x**2 times a polynomial; elsewhere exp(x) - 1,
      which costs at most the rounding of exp. Zeros keep their sign; the limit at -inf is -1.

    >>> from pypto import lax
    >>> lax.expm1(1e-8)
    Array(1.e-08, dtype=FP32)
    """
    small = select(eq(x, 0.0), x, x + (x * x) * horner(x, _EXPM1))
    large = exp(x) - 1.0
    return select(lt(x, -0.2876821), large, select(gt(x, 0.4054651), large, small))


@composite(jvp=by_operand(lambda g, y, x: g / (x + 1.0)), exact=Ulp(1.5), golden="jax.lax.log1p", domain=(-0.9, 4))
def log1p(x: Any) -> Any:
    """log(1 + x) without cancellation near 0.

    Args:
      x: FP32, FP16 or BF16, any shape; NaN below -1.
    Numerics:
      Within 1.5 ulp: log(u) of the rounded u = 1 + x, and what the rounding lost divided by u (Kahan). Zeros keep their
      sign; log1p(-1) is -inf.

    >>> from pypto import lax
    >>> lax.log1p(1e-8)
    Array(1.e-08, dtype=FP32)
    """
    u = x + 1.0
    lost = (x - (u - 1.0)) / u
    # at -1 and at infinity the correction is NaN, and log(u) is right
    return select(eq(u, 1.0), x, log(u) + select(eq(lost, lost), lost, 0.0))


@composite(jvp=by_operand(lambda g, y, x: g * (1.0 - y * y)), exact=Ulp(1.5), golden="jax.lax.tanh")
def tanh(x: Any) -> Any:
    """The hyperbolic tangent.

    Args:
      x: FP32, FP16 or BF16, any shape.
    Numerics:
      Within 1.5 ulp: below 0.625 an odd polynomial, above it 1 - 2 / (exp(2|x|) + 1) with the sign of x. Zeros keep
      their sign; the limits are -1 and 1.

    >>> from pypto import lax
    >>> lax.tanh(0.5)
    Array(0.46211717, dtype=FP32)
    """
    a, z = abs_(x), x * x
    small = select(eq(x, 0.0), x, x + (x * z) * horner(z, _TANH))
    large = 1.0 - 2.0 / (exp(a + a) + 1.0)
    return select(lt(a, 0.625), small, select(lt(x, 0.0), neg(large), large))


@composite(jvp=by_operand(lambda g, y, x: g * (y * (1.0 - y))), exact=Ulp(2), golden="jax.lax.logistic")
def logistic(x: Any) -> Any:
    """The sigmoid 1 / (1 + exp(-x)).

    Args:
      x: FP32, FP16 or BF16, any shape.
    Numerics:
      Within 2 ulp, subnormal results included: with e = exp(-|x|), 1 or e divided by 1 + e, and the quotient
      corrected by what the rounding of 1 + e lost. The limits are 0 and 1.

    >>> from pypto import lax
    >>> lax.logistic(-80.0)
    Array(1.8048513e-35, dtype=FP32)
    """
    e = exp(neg(abs_(x)))
    d = e + 1.0
    quotient = select(lt(x, 0.0), e, 1.0) / d
    return quotient - quotient * ((e - (d - 1.0)) / d)


@composite(jvp=by_operand(lambda g, y, x: g * (_ERF_SLOPE * exp(neg(x * x)))), exact=Ulp(1.5), golden="jax.lax.erf")
def erf(x: Any) -> Any:
    """The error function.

    Args:
      x: FP32, FP16 or BF16, any shape.
    Numerics:
      Within 1.5 ulp: below 0.92 an odd polynomial, above it 1 - exp(-p(|x|)) with the sign of x. Zeros keep their sign;
      the limits are -1 and 1.

    >>> from pypto import lax
    >>> lax.erf(0.5)
    Array(0.5204999, dtype=FP32)
    """
    a = minimum(abs_(x), 4.0)
    small = x + x * horner(x * x, _ERF_SMALL)
    large = 1.0 - exp(neg(horner(a, _ERF_LARGE)))
    return select(lt(a, 0.92), small, select(lt(x, 0.0), neg(large), large))


@composite(jvp=by_operand(lambda g, y, x: -(g * (_ERF_SLOPE * exp(neg(x * x))))), exact=Ulp(5), golden="jax.lax.erfc")
def erfc(x: Any) -> Any:
    """1 - erf(x) without cancellation for large x.

    Args:
      x: FP32, FP16 or BF16, any shape.
    Numerics:
      Within 5 ulp, subnormal results included: 1 - erf(x) below 0.5, above it exp(-x**2) times a polynomial. exp(-x**2) is a product
      of two exponentials, because the rounding of x**2 alone would cost 100 units; the two and three more products make the bound.
      The limits are 2 and 0.

    >>> from pypto import lax
    >>> lax.erfc(5.0)
    Array(1.537460e-12, dtype=FP32)
    """
    m = minimum(maximum(x, 0.5), 10.5)
    c = m * 4097.0
    high = c - (c - m)  # 12 bits, so that its square is exact
    weight = exp(neg(high * high))
    correction = exp((high - m) * (high + m))
    tail = horner(recip(m * m), _ERFC_TAIL) / m
    large = weight * (correction * select(lt(m, 2.0), horner(m - 1.25, _ERFC_MIDDLE), tail))
    return select(lt(x, 0.5), 1.0 - erf(x), large)


@composite(jvp=by_operand(lambda g, y, x: g * OPS["logistic"](x)), exact=Ulp(2), golden="jax.nn.softplus")
def softplus(x: Any) -> Any:
    """log(1 + exp(x)).

    Args:
      x: FP32, FP16 or BF16, any shape.
    Numerics:
      Within 2 ulp, subnormal results included: max(x, 0) + log1p(exp(-|x|)). The limits are 0 and x.

    >>> from pypto import lax
    >>> lax.softplus(-20.0)
    Array(2.0611537e-09, dtype=FP32)
    """
    return maximum(x, 0.0) + log1p(exp(neg(abs_(x))))


def share(x: Any, y: Any) -> Any:
    """exp(x - y), the part of x in a sum of exponentials whose logarithm is y: 1 for an infinite x that is the sum."""
    return select(eq(x, y), 1.0, exp(x - y))


@composite(
    jvp=by_operand(lambda g, y, a, b: g * share(a, y), lambda g, y, a, b: g * share(b, y)),
    exact=Ulp(2),
    golden="jax.numpy.logaddexp",
    domain=(0, 4),
)
def logaddexp(x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)) without overflow.

    Args:
      x, y: FP32, FP16 or BF16; shapes broadcast.
    Numerics:
      Within 2 ulp where max(x, y) is not negative: max(x, y) + log1p(exp(-d)), with the rounding errors of d = |x - y|, of
      1 + exp(-d) and of the sum put back. Where a negative maximum cancels against the second term, within 2 ulp of the
      larger term. Infinities of one sign give themselves; NaN propagates. The derivative by an infinite operand that is the result is 1.

    >>> from pypto import lax
    >>> lax.logaddexp(-20.0, 0.0)
    Array(2.0611537e-09, dtype=FP32)
    """
    high, low = maximum(x, y), minimum(x, y)
    d, d_low = exact_sum(high, neg(low))
    e = exp(neg(d))
    u = e + 1.0
    less, tiny = e * d_low, eq(u, 1.0)
    second = select(tiny, e, log(u))
    s, s_low = exact_sum(high, second)
    rest = s_low + select(tiny, neg(less), ((e - (u - 1.0)) - less) / u)
    # at infinities the low parts are NaN and count nothing; inf - inf is NaN where the sum is what both are
    return select(eq(d, d), s + select(eq(rest, rest), rest, 0.0), x + y)
