"""exp, log and rsqrt: FP64 polynomials with fused steps that round to FP32 correctly, verified over every FP32 number.

`python -m benchmarks.exhaustive` repeats the verification. Other coefficients or another order of operations need it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pypto.interpreters.cpu.lanes import Lanes

_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.6931471805599453, 2.3190468138462996e-17
_ROUNDS = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer, which its low bits then hold

# exp on |r| <= log(2) / 2: the polynomial through 12 Chebyshev points, lowest power last
_EXP = (
    2.511004920481866e-08,
    2.763265472252779e-07,
    2.755724088722987e-06,
    2.4801485441561313e-05,
    0.00019841269890076403,
    0.0013888888952352863,
    0.008333333333319589,
    0.04166666666648795,
    0.1666666666666668,
    0.5000000000000019,
    1.0,
    1.0,
)

# log(1 + f) = f - f*f/2 + s * (f*f/2 + s*s * P(s*s)), s = f / (2 + f): the series of 2 atanh(s)
_LOG = tuple(2.0 / (2 * n + 1) for n in range(12, 0, -1))
_SQRT_HALF = 0x3FE6A09E667F3BCD
_LN2_EXACT, _LN2_REST = float.fromhex("0x1.62e42fefap-1"), float.fromhex("0x1.cf79abc9e3b39p-40")


def exp(e: Lanes, x: str) -> str:
    """e to the power of each lane, correctly rounded in FP32."""
    fn = e.fn
    low, high = e.fill("float", -105.0), e.fill("float", 89.0)
    inside = e.choose(e.let("fcmp ogt", "float", x, low), "float", x, low)
    inside = e.choose(e.let("fcmp olt", "float", inside, high), "float", inside, high)
    wide = e.turn("fpext", "float", inside, "double")
    magic = e.fill("double", _ROUNDS)
    shifted = e.fma("double", wide, e.fill("double", _LOG2_E), magic)
    k = e.let("fsub", "double", shifted, magic)
    r = e.fma("double", k, e.fill("double", -_LN2_HIGH), wide)
    r = e.fma("double", k, e.fill("double", -_LN2_LOW), r)
    y = e.polynomial(r, _EXP)
    power = e.let("shl", "i64", e.turn("bitcast", "double", shifted, "i64"), e.fill("i64", 52))
    y = e.turn("bitcast", "i64", e.let("add", "i64", e.turn("bitcast", "double", y, "i64"), power), "double")
    result = e.turn("fptrunc", "double", y, "float")
    nan = fn.let(f"fcmp uno {e.type('float')} {x}, {x}")
    return e.choose(nan, "float", x, result)


def log(e: Lanes, x: str) -> str:
    """The natural logarithm of each lane, correctly rounded in FP32."""
    wide = e.turn("fpext", "float", x, "double")
    bits = e.turn("bitcast", "double", wide, "i64")
    offset = e.let("sub", "i64", bits, e.fill("i64", _SQRT_HALF))
    exponent = e.let("ashr", "i64", offset, e.fill("i64", 52))
    m = e.turn("bitcast", "i64", e.let("sub", "i64", bits, e.let("shl", "i64", exponent, e.fill("i64", 52))), "double")
    k = e.turn("sitofp", "i32", e.turn("trunc", "i64", exponent, "i32"), "double")
    f = e.let("fsub", "double", m, e.fill("double", 1.0))
    s = e.let("fdiv", "double", f, e.let("fadd", "double", f, e.fill("double", 2.0)))
    z = e.let("fmul", "double", s, s)
    half = e.let("fmul", "double", e.let("fmul", "double", f, f), e.fill("double", 0.5))
    tail = e.let("fadd", "double", half, e.let("fmul", "double", z, e.polynomial(z, _LOG)))
    small = e.fma("double", s, tail, e.let("fmul", "double", k, e.fill("double", _LN2_REST)))
    # f - (half - small), and k * log(2) in front: its first part has 35 bits, so that product is exact
    inner = e.let("fsub", "double", f, e.let("fsub", "double", half, small))
    y = e.fma("double", k, e.fill("double", _LN2_EXACT), inner)
    result = e.turn("fptrunc", "double", y, "float")
    for argument, value in _LOG_REPAIRS:
        hit = e.let("icmp eq", "i32", e.turn("bitcast", "float", x, "i32"), e.fill("i32", argument))
        result = e.choose(hit, "float", e.fill("float", value), result)
    zero = e.let("fcmp oeq", "float", x, e.fill("float", 0.0))
    result = e.choose(zero, "float", e.fill("float", float("-inf")), result)
    kept = e.let("fcmp ueq", "float", x, e.fill("float", float("inf")))  # inf and NaN stay
    result = e.choose(kept, "float", x, result)
    negative = e.let("fcmp olt", "float", x, e.fill("float", 0.0))
    return e.choose(negative, "float", e.fill("float", float("nan")), result)


# Arguments (as bits) for which the FP64 result lies on the wrong side of a midpoint, with the right values.
_LOG_REPAIRS = (
    (0x3C413D3A, -4.4401317),
    (0x41178FEB, 2.2484071),
    (0x4C5D65A5, 17.876608),
    (0x65D890D3, 53.20505),
    (0x6F31A8EC, 66.17683),
)


def rsqrt(e: Lanes, x: str) -> str:
    """One over the square root of each lane, correctly rounded in FP32."""
    wide = e.turn("fpext", "float", x, "double")
    return e.turn("fptrunc", "double", e.let("fdiv", "double", e.fill("double", 1.0), e.call("sqrt", "double", wide)), "float")
