"""Powers and binary logarithms: exp2, log2, pow, integer_pow, cbrt, by exact scaling with powers of two.

Bounds are measured as in `functions`. Double-length arithmetic is Dekker's and Knuth's: a value is an unevaluated sum of
two FP32 numbers, products are split by Veltkamp's constant, and nothing is ever contracted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pypto import dtypes
from pypto.core.avals import Aval
from pypto.core.op import OPS, Exact, Ulp
from pypto.core.trace import aval_of
from pypto.errors import ShapeError
from pypto.interpreters.rules import by_operand
from pypto.interpreters.tangents import Zero
from pypto.lax.bitwise import shl
from pypto.lax.compare import eq, gt, lt, select
from pypto.lax.composite import composite
from pypto.lax.convert import convert
from pypto.lax.elementwise import abs_, exp, log, maximum, minimum, neg, recip
from pypto.lax.families import NUMBERS, literal, sample_values, zero
from pypto.lax.functions import exact_sum, horner
from pypto.lax.rounding import whole

_LOG2_E = 1 / math.log(2.0)
_LN2 = math.log(2.0)
# log(2) in two parts: the first has 15 bits, so that its product with any exponent is exact.
_LN2_HIGH, _LN2_LOW = 0.693145751953125, 1.428606765330187e-06
# log(4/3) and log(4/5), each in two FP32 numbers.
_LOG_4_3 = (0.28768208622932434, -1.3777543550475002e-08)
_LOG_4_5 = (-0.2231435477733612, -3.540848503291727e-09)
_INFINITY = float("inf")


def _limited(x: Any, low: float, high: float) -> Any:
    return minimum(maximum(x, low), high)


def _power_of_two(n: Any) -> Any:
    """2**n for whole FP32 numbers 0 <= n <= 30, exactly."""
    one = literal(1, dtypes.INT32)
    bit = shl(one, convert(n, dtype=dtypes.INT32, mode="trunc", overflow="saturate"))
    return convert(bit, dtype=dtypes.FP32, mode="rint", overflow="saturate")


def scaled(y: Any, k: Any) -> Any:
    """y * 2**k for whole FP32 numbers |k| < 248: rounded once, if the result is subnormal.

    2**k is 2**r * 2**4h * 2**4h with r < 8. No factor overflows, and only the last product can be subnormal when y is not.
    """
    n = abs_(k)
    h = whole(n * 0.125, "floor")
    quarter = _power_of_two(h)
    quarter = quarter * quarter
    half, rest = quarter * quarter, _power_of_two(n - h * 8.0)
    down = lt(k, 0.0)
    half, rest = (select(down, recip(p), p) for p in (half, rest))
    return y * rest * half * half


def split(x: Any, logarithm: Any) -> tuple[Any, Any]:
    """k and m with x = m * 2**k exactly, k whole and m about sqrt(1/2)..sqrt(2), for positive finite x and its logarithm."""
    k = whole(_limited(logarithm, -104.0, 90.0) * _LOG2_E, "rint")
    return k, scaled(x, neg(k))


@composite(jvp=by_operand(lambda g, y, x: g * (y * _LN2)), exact=Ulp(1), golden="jax.lax.exp2", domain=(-10, 10))
def exp2(x: Any) -> Any:
    """2 to the power of each element.

    Args:
      x: FP32, FP16 or BF16, any shape.
    Numerics:
      Within 1 ulp, subnormal results included, and exact for whole x: exp of the fraction times log(2), scaled by the whole
      part. inf from 128; 0 below -150.

    >>> from pypto import lax
    >>> lax.exp2(-3.0), lax.exp2(0.5)
    (Array(0.125, dtype=FP32), Array(1.4142135, dtype=FP32))
    """
    x = _limited(x, -200.0, 200.0)
    k = whole(x, "rint")
    return scaled(exp((x - k) * _LN2), k)


@composite(jvp=by_operand(lambda g, y, x: g * (_LOG2_E / x)), exact=Ulp(1.3), golden="jax.numpy.log2", domain=(0.01, 10))
def log2(x: Any) -> Any:
    """The logarithm to base 2.

    Args:
      x: FP32, FP16 or BF16, any shape.
    Numerics:
      Within 1.3 ulp, and exact for powers of two, subnormal ones included: with x = m * 2**k, k + log(m) / log(2).
      log2(0) is -inf; of a negative number, NaN.

    >>> from pypto import lax
    >>> lax.log2(8.0)
    Array(3., dtype=FP32)
    """
    natural = log(x)
    k, m = split(x, natural)
    usual = k + log(m) / _LN2
    return select(gt(x, 0.0), select(lt(x, _INFINITY), usual, natural), natural)


def _exponent(name: str, avals: Sequence[Aval], *, y: Any = None) -> None:
    if not isinstance(y, int) or isinstance(y, bool):
        raise ShapeError("PL308", f"{name}: the exponent is {y!r}", fix="a Python integer; lax.pow takes floats and arrays")
    if y < 0 and avals[0].dtype.is_integer:
        raise ShapeError("PL308", f"{name}: {avals[0].dtype.name} to the power {y}", fix="convert the base to FP32 first")


def _integer_pow_samples() -> list[Any]:
    exponents = {d: (2, 0, 1, 7, -3) if d.is_float else (2, 0, 1, 7) for d in NUMBERS - {dtypes.INDEX}}
    shapes = [(1, 8), (8, 1), (1, 1), (3, 5)]
    return [
        ((sample_values(d, s, seed=i),), {"y": y})
        for d in sorted(exponents, key=lambda d: d.name)
        for i, s in enumerate(shapes)
        for y in exponents[d]
    ]


@composite(
    jvp=by_operand(lambda g, y_, x, *, y: g * (OPS["integer_pow"](x, y=y - 1) * float(y)) if y else Zero(aval_of(y_))),
    exact=Exact("composites"),
    golden="jax.lax.integer_pow",
    accepts=NUMBERS,
    options=_exponent,
    samples=_integer_pow_samples,
)
def integer_pow(x: Any, *, y: int) -> Any:
    """x to a constant whole power, by repeated squaring.

    Args:
      x: floats or integers, any shape.
      y: a Python integer; not negative for integers.
    Numerics:
      Integers wrap. Floats: one FP32 rounding for each multiplication, in the order of the bits of |y| from the lowest, and
      one more for the reciprocal if y is negative. `pow` is within 1 ulp for any exponent. x to the power 0 is 1.
    Errors:
      PL308 for an exponent that is no integer, or is negative for integers.

    >>> from pypto import lax
    >>> lax.integer_pow(3, 5), lax.integer_pow(2.0, -2)
    (Array(243, dtype=INT32), Array(0.25, dtype=FP32))
    """
    if y == 0:
        one = literal(1, aval_of(x).dtype)
        return select(eq(x, x), one, one)
    result, power, n = None, x, abs(y)
    while n:
        if n & 1:
            result = power if result is None else result * power
        n >>= 1
        if n:
            power = power * power
    return recip(result) if y < 0 else result


def _pow_in_base(x: Any, y: Any) -> Any:
    """y * x**(y - 1), which is 0 for y = 0 whatever x is."""
    flat = eq(y, 0.0)
    return select(flat, zero(x), y * pow_(x, select(flat, literal(1, aval_of(y).dtype), y - 1.0)))


@composite(
    jvp=by_operand(lambda g, z, x, y: g * _pow_in_base(x, y), lambda g, z, x, y: g * (log(select(eq(x, 0.0), 1.0, x)) * z)),
    exact=Ulp(1),
    golden="jax.lax.pow",
    domain=(0.1, 4),
)
def pow_(x: Any, y: Any) -> Any:
    """x to the power y; `lax.pow` is the spelling for users.

    Args:
      x, y: FP32, FP16 or BF16; shapes broadcast.
    Numerics:
      Within 1 ulp, special values of IEEE 754: see `lax.pow`.
    Errors:
      PL305 for integers.

    >>> from pypto import lax
    >>> lax.pow_(2.0, -1.0)
    Array(0.5, dtype=FP32)
    """
    a = abs_(x)
    at_edge = select(eq(y, y), select(lt(y, 0.0), recip(a), a), y)
    magnitude = select(eq(a, 0.0), at_edge, select(eq(a, _INFINITY), at_edge, _magnitude(a, y)))
    # the factor for a negative base: 1 for even exponents, -1 for odd ones; others have a value at 0 and infinity only
    broken = select(eq(a, 0.0), 1.0, select(eq(a, _INFINITY), 1.0, float("nan")))
    parity = select(eq(whole(y * 0.5, "floor") * 2.0, y), 1.0, -1.0)
    factor = select(lt(abs_(y), 2.0**24), select(eq(whole(y, "floor"), y), parity, broken), 1.0)
    below = lt(select(eq(x, 0.0), recip(x), x), 0.0)
    signed = select(below, magnitude * factor, magnitude)
    return select(eq(y, 0.0), 1.0, select(eq(x, 1.0), 1.0, signed))


def pow(x: Any, y: Any) -> Any:
    """x to the power y.

    Args:
      x, y: FP32, FP16 or BF16; shapes broadcast. A Python integer as y is `integer_pow`, which integers take too.
    Numerics:
      Within 1 ulp, subnormal results included: exp(y log(x)) with the exponent as a sum of two FP32 numbers, scaled by
      an exact power of two. Special values are IEEE 754's: x**0 and 1**y are 1 even for NaN, a negative base needs a whole
      exponent, zeros and infinities keep their sign for odd ones.

    >>> pow(2.0, 0.5), pow(-8.0, 1 / 3), pow(3, 4)
    (Array(1.4142135, dtype=FP32), Array(nan, dtype=FP32), Array(81, dtype=INT32))
    """
    if isinstance(y, int) and not isinstance(y, bool):
        return integer_pow(x, y=y)
    return pow_(x, y)


@composite(jvp=by_operand(lambda g, y, x: g / (y * y * 3.0)), exact=Ulp(1.5), golden="jax.lax.cbrt")
def cbrt(x: Any) -> Any:
    """The cube root, of negative numbers too.

    Args:
      x: FP32, FP16 or BF16, any shape.
    Numerics:
      Within 1.5 ulp, of subnormal numbers too: y = exp(log(|x|) / 3), then one step y - (y - |x| / y**2) / 3. Zeros and infinities
      keep their sign.

    >>> from pypto import lax
    >>> lax.cbrt(-27.0)
    Array(-3., dtype=FP32)
    """
    a = abs_(x)
    y = exp(log(a) / 3.0)
    root = y - (y - a / (y * y)) / 3.0
    return select(eq(x * 0.5, x), x, select(lt(x, 0.0), neg(root), root))


# ---- double-length arithmetic ------------------------------------------------------------------------------------


def _ordered_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """a + b exactly, where a is the larger one."""
    s = a + b
    return s, b - (s - a)


def _halves(a: Any) -> tuple[Any, Any]:
    """a as a sum of two numbers of 12 bits."""
    c = a * 4097.0
    high = c - (c - a)
    return high, a - high


def _product(a: Any, b: Any) -> tuple[Any, Any]:
    """a * b exactly, as a rounded product and its error."""
    p = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


def _double_log(a: Any) -> tuple[Any, Any]:
    """log(a) for positive finite a as a sum of two numbers, with a relative error of about 2**-32.

    a = m 2**k; m times 3/4, 5/4 or 1 is u + v near 1, v being what rounding lost. log(u + v) = 2 s + s**3 (2/3 + 2/5 s**2 + ...)
    with s = (u + v - 1) / (u + v + 1), |s| < 0.1, in double length up to the first term.
    """
    k, m = split(a, log(a))
    up, down = gt(m, 1.1875), lt(m, 0.84375)
    q = m * select(up, -0.25, select(down, 0.25, 0.0))
    u = m + q
    v = (m - u) + q
    c, c_low = (select(up, x, select(down, y, 0.0)) for x, y in zip(_LOG_4_3, _LOG_4_5, strict=True))

    f, d = u - 1.0, u + 1.0
    d_low = (u - (d - 1.0)) + v
    s = f / d
    p, p_low = _product(s, d)
    s_low = ((((f - p) - p_low) + v) - s * d_low) / d
    z = s * s
    tail = s * z * horner(z, (2 / 3, 2 / 5, 2 / 7, 2 / 9))

    high, low_1 = exact_sum(k * _LN2_HIGH, c)
    high, low_2 = exact_sum(high, s + s)
    low = tail + ((s_low + s_low) * (z + 1.0) + ((k * _LN2_LOW + c_low) + (low_1 + low_2)))
    return _ordered_sum(high, low)


def _magnitude(a: Any, y: Any) -> Any:
    """a**y for positive finite a and any y but NaN: exp(y log(a)) with the exponent in double length."""
    high, low = _double_log(a)
    # beyond 2**34 the result is 0, 1 or inf whatever y is, and the products stay finite
    y = _limited(y, -(2.0**34), 2.0**34)
    p, p_low = _product(y, high)
    t, t_low = _ordered_sum(p, p_low + y * low)
    t_low = select(lt(abs_(t), 110.0), t_low, 0.0)
    t = _limited(t, -110.0, 110.0)
    k = whole(t * _LOG2_E, "rint")
    return scaled(exp((t - k * _LN2_HIGH) + (t_low - k * _LN2_LOW)), k)
