"""HF8 in registers: its numbers are held as FP32, of which each is one; to and from codes, and rounded, in integer arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto import hifloat

if TYPE_CHECKING:
    from pypto.interpreters.cpu.lanes import Lanes

_BIAS, _FRACTION = 127, 23
_DENORMAL = 23
"""A code M below 8 is the number 2**(M - 23)."""


def _rows() -> list[tuple[int, int, int]]:
    """Code of the first number, exponent bits and fraction bits of each prefix, from the widest exponents to none."""
    return [(prefix << (7 - length), width, 7 - length - width) for prefix, length, width in hifloat.PREFIXES]


def widened(e: Lanes, bits: str) -> str:
    """An FP32 register from codes in an i32."""

    def const(value: int) -> str:
        return e.fill("i32", value)

    code = e.let("and", "i32", bits, const(0x7F))
    made = e.let("shl", "i32", e.let("add", "i32", code, const(_BIAS - _DENORMAL)), const(_FRACTION))
    made = e.choose(e.let("icmp eq", "i32", code, const(0)), "i32", const(0), made)
    for first, width, fraction_bits in reversed(_rows()):
        fraction = e.let("and", "i32", code, const((1 << fraction_bits) - 1))
        fraction = e.let("shl", "i32", fraction, const(_FRACTION - fraction_bits))
        exponent = const(0)
        if width:
            low = (1 << (width - 1)) - 1
            stored = e.let("lshr", "i32", code, const(fraction_bits))
            exponent = e.let("or", "i32", e.let("and", "i32", stored, const(low)), const(low + 1))
            sign = e.let("icmp ne", "i32", e.let("and", "i32", stored, const(low + 1)), const(0))
            exponent = e.choose(sign, "i32", e.let("sub", "i32", const(0), exponent), exponent)
        whole = e.let("shl", "i32", e.let("add", "i32", exponent, const(_BIAS)), const(_FRACTION))
        here = e.let("icmp uge", "i32", code, const(first))
        made = e.choose(here, "i32", e.let("or", "i32", whole, fraction), made)
    made = e.choose(e.let("icmp eq", "i32", code, const(hifloat.INFINITY)), "i32", const(0x7F800000), made)
    made = e.let("or", "i32", made, e.let("shl", "i32", e.let("and", "i32", bits, const(0x80)), const(24)))
    made = e.choose(e.let("icmp eq", "i32", bits, const(hifloat.NAN)), "i32", const(0x7FC00000), made)
    return e.turn("bitcast", "i32", made, "float")


def narrowed(e: Lanes, value: str) -> str:
    """The codes, in an i32, of an FP32 register of HF8 numbers."""

    def const(number: int) -> str:
        return e.fill("i32", number)

    raw = e.turn("bitcast", "float", value, "i32")
    size = e.let("and", "i32", raw, const(0x7FFFFFFF))
    exponent = e.let("sub", "i32", e.let("lshr", "i32", size, const(_FRACTION)), const(_BIAS))
    below = e.let("icmp slt", "i32", exponent, const(0))
    distance = e.choose(below, "i32", e.let("sub", "i32", const(0), exponent), exponent)
    code = e.let("add", "i32", exponent, const(_DENORMAL))
    for first, width, fraction_bits in _rows():
        made = e.let("and", "i32", e.let("lshr", "i32", size, const(_FRACTION - fraction_bits)), const((1 << fraction_bits) - 1))
        made = e.let("or", "i32", made, const(first))
        if width:
            low = (1 << (width - 1)) - 1
            stored = e.let("or", "i32", e.let("and", "i32", distance, const(low)), e.choose(below, "i32", const(low + 1), const(0)))
            made = e.let("or", "i32", made, e.let("shl", "i32", stored, const(fraction_bits)))
        # exponents of this width begin at 2**(width - 1); those of narrower ones are seen to by the rows that follow
        inside = e.let("icmp ult", "i32", distance, const(1 << width))
        code = e.choose(inside, "i32", made, code)
    code = e.choose(e.let("icmp eq", "i32", size, const(0)), "i32", const(0), code)
    code = e.choose(e.let("icmp eq", "i32", size, const(0x7F800000)), "i32", const(hifloat.INFINITY), code)
    minus = e.let("and", "i32", e.let("lshr", "i32", raw, const(24)), const(0x80))
    code = e.choose(e.let("icmp eq", "i32", code, const(0)), "i32", code, e.let("or", "i32", code, minus))
    return e.choose(e.let("icmp ugt", "i32", size, const(0x7F800000)), "i32", const(hifloat.NAN), code)


def rounded(e: Lanes, x: str, overflow: str) -> str:
    """An FP32 register rounded to HF8 numbers: to nearest, ties away from zero, by adding half of the last bit that is kept."""

    def const(number: int) -> str:
        return e.fill("i32", number)

    size = e.call("fabs", "float", x)
    bits = e.turn("bitcast", "float", size, "i32")
    exponent = e.let("sub", "i32", e.let("lshr", "i32", bits, const(_FRACTION)), const(_BIAS))
    below = e.let("icmp slt", "i32", exponent, const(0))
    distance = e.choose(below, "i32", e.let("sub", "i32", const(0), exponent), exponent)
    half = const(1 << (_FRACTION - 1))  # past the table: powers of two, or an infinity
    for _, width, fraction_bits in _rows():
        inside = e.let("icmp ult", "i32", distance, const(1 << width))
        half = e.choose(inside, "i32", const(1 << (_FRACTION - 1 - fraction_bits)), half)
    kept = e.let("sub", "i32", const(0), e.let("shl", "i32", half, const(1)))
    value = e.turn("bitcast", "i32", e.let("and", "i32", e.let("add", "i32", bits, half), kept), "float")
    least = e.fill("float", hifloat.SMALLEST)
    value = e.choose(e.let("fcmp olt", "float", size, least), "float", least, value)
    value = e.choose(e.let("fcmp olt", "float", size, e.fill("float", hifloat.SMALLEST / 2)), "float", e.fill("float", 0.0), value)
    infinity, largest = e.fill("float", float("inf")), e.fill("float", hifloat.LARGEST)
    beyond = infinity
    if overflow != "ieee":
        beyond = e.choose(e.let("fcmp oeq", "float", size, infinity), "float", infinity, largest)
    value = e.choose(e.let("fcmp ogt", "float", value, largest), "float", beyond, value)
    signed = e.call("copysign", "float", value, x)
    signed = e.choose(e.let("fcmp oeq", "float", value, e.fill("float", 0.0)), "float", value, signed)
    return e.choose(e.let("fcmp uno", "float", x, x), "float", x, signed)
