"""The floats of 16 bits and fewer but BF16, held as FP32 in registers: to and from their bits, and rounded in every mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto import dtypes
from pypto.dtypes import DType
from pypto.interpreters.cpu import tapered

if TYPE_CHECKING:
    from pypto.interpreters.cpu.lanes import Lanes


def _layout(dtype: DType) -> tuple[int, float]:
    """How far fraction and exponent have to move to their places in FP32, and the power of two between the exponents' biases."""
    return 23 - dtype.mantissa, 2.0 ** (127 - (1 - dtype.min_exponent))


def _signed(dtype: DType) -> int:
    return 1 << (dtype.bits - 1)


def _native(e: Lanes) -> bool:
    """Whether the CPU converts FP16; without, LLVM would call a runtime function that is not there."""
    return bool({"f16c", "avx512f"} & e.fn.features)


def _from_half(e: Lanes, bits: str) -> str:
    """FP32 from FP16 bits in an i32."""
    if _native(e):
        return e.turn("fpext", "half", e.turn("bitcast", "i16", e.turn("trunc", "i32", bits, "i16"), "half"), "float")
    size = e.let("and", "i32", bits, e.fill("i32", 0x7FFF))
    moved = e.let("shl", "i32", size, e.fill("i32", 13))
    number = e.let("fmul", "float", e.turn("bitcast", "i32", moved, "float"), e.fill("float", 2.0**112))
    special = e.turn("bitcast", "i32", e.let("or", "i32", moved, e.fill("i32", 0x7F800000)), "float")
    number = e.choose(e.let("icmp uge", "i32", size, e.fill("i32", 0x7C00)), "float", special, number)
    return _with_sign(e, number, e.let("icmp ne", "i32", e.let("and", "i32", bits, e.fill("i32", 0x8000)), e.fill("i32", 0)))


def _to_half(e: Lanes, value: str) -> str:
    """FP16 bits, in an i32, of an FP32 register that is such a value."""
    if _native(e):
        return e.turn("zext", "i16", e.turn("bitcast", "half", e.turn("fptrunc", "float", value, "half"), "i16"), "i32")
    size = e.call("fabs", "float", value)
    scaled = e.turn("bitcast", "float", e.let("fmul", "float", size, e.fill("float", 2.0**-112)), "i32")
    bits = e.let("lshr", "i32", scaled, e.fill("i32", 13))
    infinite = e.let("fcmp oeq", "float", size, e.fill("float", float("inf")))
    bits = e.choose(infinite, "i32", e.fill("i32", 0x7C00), bits)
    bits = e.choose(e.let("fcmp uno", "float", value, value), "i32", e.fill("i32", 0x7E00), bits)
    sign = e.let("lshr", "i32", e.turn("bitcast", "float", value, "i32"), e.fill("i32", 16))
    return e.let("or", "i32", bits, e.let("and", "i32", sign, e.fill("i32", 0x8000)))


def rounded_half(e: Lanes, x: str) -> str:
    """An FP32 register rounded to FP16, to nearest even."""
    if _native(e):
        return e.turn("fpext", "half", e.turn("fptrunc", "float", x, "half"), "float")
    return rounded(e, x, dtypes.FP16, "rint", "ieee")


def _with_sign(e: Lanes, size: str, minus: str) -> str:
    return e.choose(minus, "float", e.let("fneg", "float", size), size)


def widened(e: Lanes, dtype: DType, raw: str) -> str:
    """An FP32 register from the bits."""
    bits = e.turn("zext", f"i{8 * dtype.itemsize}", raw, "i32")
    if dtype is dtypes.HF8:
        return tapered.widened(e, bits)
    if dtype is dtypes.FP16:
        return _from_half(e, bits)
    if dtype is dtypes.FP8E8M0:  # a power of two: the exponent and nothing else
        made = e.let("shl", "i32", bits, e.fill("i32", 23))
        made = e.choose(e.let("icmp eq", "i32", bits, e.fill("i32", 0)), "i32", e.fill("i32", 1 << 22), made)
        made = e.choose(e.let("icmp eq", "i32", bits, e.fill("i32", 255)), "i32", e.fill("i32", 0x7FC00000), made)
        return e.turn("bitcast", "i32", made, "float")
    if dtype is dtypes.FP8E5M2:
        return _from_half(e, e.let("shl", "i32", bits, e.fill("i32", 8)))
    shift, power = _layout(dtype)
    top = _signed(dtype)
    size = e.let("and", "i32", bits, e.fill("i32", top - 1))
    number = e.turn("bitcast", "i32", e.let("shl", "i32", size, e.fill("i32", shift)), "float")
    number = e.let("fmul", "float", number, e.fill("float", power))
    if dtype is dtypes.FP8E4M3FN:
        number = e.choose(e.let("icmp eq", "i32", size, e.fill("i32", 127)), "float", e.fill("float", float("nan")), number)
    minus = e.let("icmp ne", "i32", e.let("and", "i32", bits, e.fill("i32", top)), e.fill("i32", 0))
    return _with_sign(e, number, minus)


def narrowed(e: Lanes, dtype: DType, value: str) -> str:
    """The bits of an FP32 register that is a value of the format."""
    if dtype is dtypes.HF8:
        return e.turn("trunc", "i32", tapered.narrowed(e, value), "i8")
    if dtype is dtypes.FP16:
        return e.turn("trunc", "i32", _to_half(e, value), "i16")
    if dtype is dtypes.FP8E5M2:
        bits = e.let("lshr", "i32", _to_half(e, value), e.fill("i32", 8))
        nan = e.let("fcmp uno", "float", value, value)  # its payload may lie in the bits that go
        return e.turn("trunc", "i32", e.choose(nan, "i32", e.fill("i32", 0x7E), bits), "i8")
    if dtype is dtypes.FP8E8M0:
        bits = e.turn("bitcast", "float", value, "i32")
        bits = e.let("lshr", "i32", bits, e.fill("i32", 23))
        return e.turn("trunc", "i32", bits, "i8")
    shift, power = _layout(dtype)
    size = e.let("fmul", "float", e.call("fabs", "float", value), e.fill("float", 1.0 / power))
    bits = e.let("lshr", "i32", e.turn("bitcast", "float", size, "i32"), e.fill("i32", shift))
    if dtype is dtypes.FP8E4M3FN:
        bits = e.choose(e.let("fcmp uno", "float", value, value), "i32", e.fill("i32", 127), bits)
    sign = e.let("lshr", "i32", e.turn("bitcast", "float", value, "i32"), e.fill("i32", 32 - dtype.bits))
    sign = e.let("and", "i32", sign, e.fill("i32", _signed(dtype)))
    return e.turn("trunc", "i32", e.let("or", "i32", bits, sign), "i8")


def rounded(e: Lanes, x: str, dtype: DType, mode: str, overflow: str) -> str:
    """An FP32 register rounded to a value of the format, once, by the mode; overflow as `numerics.convert` has it."""
    from pypto.interpreters.cpu.casts import whole

    if dtype is dtypes.HF8:
        return tapered.rounded(e, x, overflow)
    size = e.call("fabs", "float", x)
    minus = e.let("icmp slt", "i32", e.turn("bitcast", "float", x, "i32"), e.fill("i32", 0))
    # one unit in the last place: fixed below the smallest normal number
    bits = e.turn("bitcast", "float", size, "i32")
    exponent = e.let("lshr", "i32", bits, e.fill("i32", 23))
    least = 127 + dtype.min_exponent
    exponent = e.choose(e.let("icmp sgt", "i32", exponent, e.fill("i32", least)), "i32", exponent, e.fill("i32", least))
    huge = e.let("icmp sgt", "i32", exponent, e.fill("i32", 200))  # far beyond every format: it overflows as it is
    exponent = e.choose(huge, "i32", e.fill("i32", 200), exponent)
    unit_bits = e.let("shl", "i32", e.let("sub", "i32", exponent, e.fill("i32", dtype.mantissa)), e.fill("i32", 23))
    unit = e.turn("bitcast", "i32", unit_bits, "float")
    inverse_bits = e.let("sub", "i32", e.fill("i32", 254 << 23), unit_bits)
    inverse = e.turn("bitcast", "i32", inverse_bits, "float")
    turned = e.choose(huge, "float", size, e.let("fmul", "float", size, inverse))
    value = e.let("fmul", "float", whole(e, turned, minus, mode, "float"), unit)
    value = e.choose(huge, "float", size, value)
    largest, infinity = float(dtype.max_value), float("inf")
    infinite = e.let("fcmp oeq", "float", size, e.fill("float", infinity))
    over = e.let("fcmp ogt", "float", value, e.fill("float", largest))
    value = e.choose(over, "float", _beyond(e, dtype, mode, overflow, minus, infinite), value)
    signed = e.call("copysign", "float", value, x)
    nan = e.let("fcmp uno", "float", x, x)
    return e.choose(nan, "float", e.fill("float", largest) if dtype is dtypes.FP4 else x, signed)


def _beyond(e: Lanes, dtype: DType, mode: str, overflow: str, minus: str, infinite: str) -> str:
    """What a number above the largest one becomes."""
    largest = e.fill("float", float(dtype.max_value))
    top = e.fill("float", float("inf") if dtype.has_infinity else float("nan"))
    if overflow != "ieee" or dtype is dtypes.FP4:
        return e.choose(infinite, "float", top, largest) if dtype.has_infinity else largest
    if mode in ("rint", "round"):
        return top
    if mode in ("floor", "ceil"):
        grows = e.choose(minus, "float", *((top, largest) if mode == "floor" else (largest, top)))
        return e.choose(infinite, "float", top, grows)
    return e.choose(infinite, "float", top, largest)
