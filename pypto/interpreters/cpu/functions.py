"""exp, log and rsqrt: FP64 polynomials with fused steps that round to FP32 correctly, verified over every FP32 number.

With AVX-512, exp is computed in pairs of FP32 numbers first, and in FP64 only where these cannot tell how it rounds.
`python -m benchmarks.exhaustive` repeats the verification. Other coefficients or another order of operations need it again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pypto.interpreters.cpu.text import Function, float_bits

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
    return _exp_pairs(e, x) if e.width == 16 and "avx512f" in e.fn.features else _exp_wide(e, x)


def _exp_wide(e: Lanes, x: str) -> str:
    """In FP64."""
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


_STEPS, _STEP_BITS = 32, 5  # 2 to the power of 0/32 .. 31/32 from a table
_SINGLE_ROUNDS = 12582912.0  # 1.5 * 2**23
_PER_STEP, _STEP_HIGH, _STEP_LOW = 46.16624, 0.02166085, -5.9520444e-11  # 32 / log(2); log(2) / 32 in two parts
_DOUBT = 1.5 * 2.0**-36
"""How far a pair may be from the power it stands for, relatively: the sum of all roundings is 2**-35.8 at most."""


def _step_table() -> tuple[list[float], list[float]]:
    """The powers of the table in FP32, with the step's number taken out of the exponent it will be added to; logs of what they lack."""
    powers, rests = [], []
    for j in range(_STEPS):
        power = np.float32(2.0 ** (j / _STEPS))
        powers.append(float((power.view(np.int32) - np.int32(j << (23 - _STEP_BITS))).view(np.float32)))
        rests.append(float(np.float32(j / _STEPS * math.log(2.0) - math.log(float(power)))))
    return powers, rests


def _exp_pairs(e: Lanes, x: str) -> str:
    """In pairs of FP32 numbers, sixteen lanes at a time, where both ends of the range the power lies in round alike."""
    fn = e.fn

    def op(name: str, a: str, b: str, kind: str = "float") -> str:
        return e.let(name, kind, a, b)

    def number(value: float) -> str:
        return e.fill("float", value)

    def fused(a: str, b: str, c: str) -> str:
        return e.fma("float", a, b, c)

    def looked_up(values: list[float]) -> str:
        name, v = "@llvm.x86.avx512.vpermi2var.ps.512", "<16 x float>"
        fn.declares.setdefault(name, f"declare {v} {name}({v}, <16 x i32>, {v})")
        low, high = (f"<{', '.join(f'float {float_bits(t)}' for t in values[i : i + 16])}>" for i in (0, 16))
        return fn.let(f"call {v} {name}({v} {low}, <16 x i32> {steps}, {v} {high})")

    shifted = fused(x, number(_PER_STEP), number(_SINGLE_ROUNDS))
    k = op("fsub", shifted, number(_SINGLE_ROUNDS))
    steps = e.turn("bitcast", "float", shifted, "i32")
    rest = fused(k, number(-_STEP_HIGH), x)  # exact: what is left of x has no bits below those of the constant
    powers, rests = _step_table()
    power = e.turn("bitcast", "float", looked_up(powers), "i32")
    power = op("add", power, op("shl", steps, e.fill("i32", 23 - _STEP_BITS), "i32"), "i32")
    power = e.turn("bitcast", "i32", power, "float")
    below = fused(k, number(-_STEP_LOW), looked_up(rests))
    # power * exp(rest + below) = power + power * rest + power * (below + r*r * (1/2 + r/6 + r*r/24))
    r = op("fadd", rest, below)
    tail = fused(fused(number(1.0 / 24.0), r, number(1.0 / 6.0)), r, number(0.5))
    tail = fused(op("fmul", r, r), tail, below)
    high = fused(power, rest, power)
    low = fused(power, tail, fused(power, rest, op("fsub", power, high)))
    above, beneath = (op("fadd", high, fused(power, number(doubt), low)) for doubt in (_DOUBT, -_DOUBT))
    known = op("and", op("fcmp oeq", above, beneath), op("fcmp olt", e.call("fabs", "float", x), number(60.0)), "i1")
    nothing = op("fcmp olt", x, number(-104.0))  # as where something is masked
    result = e.choose(nothing, "float", number(0.0), above)
    return _otherwise(e, op("or", known, nothing, "i1"), result, x)


def _otherwise(e: Lanes, known: str, result: str, x: str) -> str:
    """A result; where it is not known in every lane, that of the FP64 function, which is not written here again."""
    fn, n, v, name = e.fn, e.fn.number(), e.type("float"), f"exp{e.width}"
    if f"@{name}" not in fn.declares:
        fn.declares[f"@{name}"] = ""
        slow = Function(name, [(v, "x")], v, "noinline cold #0", fn.declares, fn.features)
        slow.do(f"ret {v} {_exp_wide(type(e)(slow, e.width), '%x')}")
        fn.declares[f"@{name}"] = slow.text()
    place = fn.slot(v, 64)
    fn.store(v, result, place, 64)
    all_known = fn.let(f"icmp eq i{e.width} {fn.let(f'bitcast <{e.width} x i1> {known} to i{e.width}')}, -1")
    fn.do(f"br i1 {all_known}, label %known{n}, label %doubt{n}")
    fn.cold += [
        f"doubt{n}:",
        f"  %exact{n} = call {v} @{name}({v} {x})",
        f"  store {v} %exact{n}, ptr {place}, align 64",
        f"  br label %known{n}",
    ]
    fn.start(f"known{n}")
    return fn.load(v, place, 64)


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
