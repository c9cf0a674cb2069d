"""Conversions between dtypes on registers: every rounding mode, every overflow rule, as `numerics.convert` has them."""

from __future__ import annotations

from pypto import dtypes
from pypto.dtypes import DType
from pypto.interpreters.cpu import minifloats
from pypto.interpreters.cpu.lanes import Lanes, register_kind

_TRUTHS = (dtypes.BOOL, dtypes.MASK)
_WHOLE = {"rint": "roundeven", "round": "round", "floor": "floor", "ceil": "ceil", "trunc": "trunc"}


def convert(e: Lanes, x: str, *, source: DType, target: DType, mode: str, overflow: str, dtype: DType) -> str:
    """A register of `source` as a register of `target`, rounded once."""
    if source is target or (source.storage == target.storage):
        return x
    if target in _TRUTHS:
        return e.of(source).compare("ne", x, e.of(source).const(0))
    if source in _TRUTHS:
        return e.turn("uitofp", "i1", x, "float") if target.is_float else e.turn("zext", "i1", x, register_kind(target))
    if target.is_float:
        chosen = "rint" if mode == "none" else mode
        if source.is_float:
            return _float_to_float(e, x, source, target, chosen, overflow)
        return _int_to_float(e, x, source, target, chosen, overflow)
    if source.is_float:
        return _float_to_int(e, x, target, "trunc" if mode == "none" else mode, overflow)
    return _int_to_int(e, x, source, target, overflow)


def _float_to_float(e: Lanes, x: str, source: DType, target: DType, mode: str, overflow: str = "ieee") -> str:
    if target is dtypes.FP32:
        return x
    if target in (dtypes.BF16, dtypes.FP16):
        return e.rounded(target, x) if mode == "rint" else _cut(e, x, target, mode)
    return minifloats.rounded(e, x, target, mode, overflow)


def _cut(e: Lanes, x: str, target: DType, mode: str) -> str:
    """FP32 to a 16-bit float: add to the bits, then drop the low ones; FP16 has ranges of its own at both ends."""
    cut = dtypes.FP32.mantissa - target.mantissa
    below = (1 << cut) - 1
    bits = e.turn("bitcast", "float", x, "i32")
    minus = e.let("icmp slt", "i32", bits, e.fill("i32", 0))
    if mode == "odd":
        inexact = e.let("icmp ne", "i32", e.let("and", "i32", bits, e.fill("i32", below)), e.fill("i32", 0))
        bits = e.choose(inexact, "i32", e.let("or", "i32", bits, e.fill("i32", 1 << cut)), bits)
    elif mode == "round":
        bits = e.let("add", "i32", bits, e.fill("i32", 1 << (cut - 1)))
    elif mode != "trunc":
        first, second = (below, 0) if mode == "floor" else (0, below)
        bits = e.let("add", "i32", bits, e.choose(minus, "i32", e.fill("i32", first), e.fill("i32", second)))
    kept = e.turn("bitcast", "i32", e.let("and", "i32", bits, e.fill("i32", ~below)), "float")
    if target is dtypes.FP16:
        kept = _half_ends(e, x, kept, minus, mode)
    nan = e.let("fcmp uno", "float", x, x)
    return e.choose(nan, "float", e.rounded(target, x), kept)


def _half_ends(e: Lanes, x: str, kept: str, minus: str, mode: str) -> str:
    """FP16 below its smallest normal number, where the unit is 2**-24, and above its largest."""
    size = e.call("fabs", "float", x)
    units = e.let("fmul", "float", size, e.fill("float", 2.0**24))
    small = e.let("fmul", "float", whole(e, units, minus, mode, "float"), e.fill("float", 2.0**-24))
    small = e.call("copysign", "float", small, x)
    kept = e.choose(e.let("fcmp olt", "float", size, e.fill("float", 2.0**-14)), "float", small, kept)
    over = e.let("fcmp ogt", "float", e.call("fabs", "float", kept), e.fill("float", 65504.0))
    infinite = e.let("fcmp oeq", "float", size, e.fill("float", float("inf")))
    top, limit = e.fill("float", float("inf")), e.fill("float", 65504.0)
    if mode == "round":
        beyond = top
    elif mode in ("floor", "ceil"):
        away = (top, limit) if mode == "floor" else (limit, top)
        beyond = e.choose(minus, "float", *away)
    else:
        beyond = limit
    beyond = e.choose(infinite, "float", top, beyond)
    return e.choose(over, "float", e.call("copysign", "float", beyond, x), kept)


def whole(e: Lanes, magnitude: str, minus: str, mode: str, kind: str) -> str:
    """Round numbers that are not negative to integers; the mode sees the sign `minus`."""
    if mode in ("rint", "round", "trunc"):
        return e.call(_WHOLE[mode], kind, magnitude)
    down = e.call("floor", kind, magnitude)
    if mode in ("floor", "ceil"):
        up = e.call("ceil", kind, magnitude)
        return e.choose(minus, kind, up, down) if mode == "floor" else e.choose(minus, kind, down, up)
    # odd: what is inexact and even goes up by one
    inexact = e.let("fcmp one", kind, down, magnitude)
    half = e.let("fmul", kind, down, e.fill(kind, 0.5))
    even = e.let("fcmp oeq", kind, e.call("floor", kind, half), half)
    up = e.let("fadd", kind, down, e.fill(kind, 1.0))
    return e.choose(e.let("and", "i1", inexact, even), kind, up, down)


def _int_to_float(e: Lanes, x: str, source: DType, target: DType, mode: str, overflow: str) -> str:
    instruction = "sitofp" if source.is_signed else "uitofp"
    kind = register_kind(source)
    if target is dtypes.FP32 and (source.bits <= 16 or mode == "rint"):
        return e.turn(instruction, kind, x, "float")
    if source.bits <= 16 or target not in (dtypes.FP32, dtypes.BF16):
        # FP32 holds the integer, or it is one of more than 24 bits, which overflows every other format whatever its last bits are
        return _float_to_float(e, e.turn(instruction, kind, x, "float"), dtypes.FP32, target, mode, overflow)
    wide = _sticky(e, x, source) if source.bits == 64 else e.turn(instruction, kind, x, "double")
    if target is dtypes.FP32:
        return _double_to_single(e, wide, mode)
    # to odd first: the last of 24 bits then says whether anything was lost, which is all the second rounding needs
    return _float_to_float(e, _double_to_single(e, wide, "odd"), dtypes.FP32, target, mode, overflow)


def _sticky(e: Lanes, x: str, source: DType) -> str:
    """A 64-bit integer as FP64; where that does not hold it, its last 11 bits become one that says whether any of them was set."""
    shift, instruction = ("ashr", "sitofp") if source.is_signed else ("lshr", "uitofp")
    lost = e.let("icmp ne", "i64", e.let("and", "i64", x, e.fill("i64", 0x7FF)), e.fill("i64", 0))
    kept = e.let("or", "i64", e.let(shift, "i64", x, e.fill("i64", 11)), e.turn("zext", "i1", lost, "i64"))
    long = e.let("fmul", "double", e.turn(instruction, "i64", kept, "double"), e.fill("double", 2048.0))
    offset = e.let("add", "i64", x, e.fill("i64", 1 << 53)) if source.is_signed else x
    short = e.let("icmp ult", "i64", offset, e.fill("i64", 1 << (54 if source.is_signed else 53)))
    return e.choose(short, "double", e.turn(instruction, "i64", x, "double"), long)


def _double_to_single(e: Lanes, x: str, mode: str) -> str:
    """FP64 integers to FP32 in any mode: add to the 29 bits that go, then drop them."""
    below = (1 << 29) - 1
    bits = e.turn("bitcast", "double", x, "i64")
    if mode == "odd":
        inexact = e.let("icmp ne", "i64", e.let("and", "i64", bits, e.fill("i64", below)), e.fill("i64", 0))
        bits = e.choose(inexact, "i64", e.let("or", "i64", bits, e.fill("i64", 1 << 29)), bits)
    elif mode == "round":
        bits = e.let("add", "i64", bits, e.fill("i64", 1 << 28))
    elif mode != "trunc":
        minus = e.let("icmp slt", "i64", bits, e.fill("i64", 0))
        first, second = (below, 0) if mode == "floor" else (0, below)
        bits = e.let("add", "i64", bits, e.choose(minus, "i64", e.fill("i64", first), e.fill("i64", second)))
    kept = e.turn("bitcast", "i64", e.let("and", "i64", bits, e.fill("i64", ~below)), "double")
    return e.turn("fptrunc", "double", kept, "float")


def _float_to_int(e: Lanes, x: str, target: DType, mode: str, overflow: str) -> str:
    # FP32 holds every integer that rounding an FP32 number can give
    if mode in _WHOLE:
        number = e.call(_WHOLE[mode], "float", x)
    else:
        minus = e.let("fcmp olt", "float", x, e.fill("float", 0.0))
        number = e.call("copysign", "float", whole(e, e.call("fabs", "float", x), minus, mode, "float"), x)
    kind = register_kind(target)
    if overflow in ("wrap", "fits"):
        middle = dtypes.INT64 if target.bits == 64 else dtypes.INT32
        return _nibble(e, e.turn("trunc", register_kind(middle), _saturated(e, number, middle), kind), target)
    return _saturated(e, number, target)


def _saturated(e: Lanes, number: str, target: DType) -> str:
    """Whole FP32 numbers as integers; what is too large becomes the last one, NaN 0. LLVM's own instruction takes lane after lane."""
    kind, convert = register_kind(target), "fptosi" if target.is_signed else "fptoui"
    low, top, zero = int(target.min_value), int(target.max_value), e.fill("float", 0.0)
    if target.bits <= 16:  # FP32 has both ends
        held = e.choose(e.let("fcmp ord", "float", number, number), "float", number, zero)
        held = e.choose(e.let("fcmp ogt", "float", held, e.fill("float", float(low))), "float", held, e.fill("float", float(low)))
        held = e.choose(e.let("fcmp olt", "float", held, e.fill("float", float(top))), "float", held, e.fill("float", float(top)))
        return e.turn("trunc", "i32", e.turn("fptosi", "float", held, "i32"), kind)
    limit = e.fill("float", float(top + 1))
    held = e.choose(e.let("fcmp olt", "float", number, limit), "float", number, zero)  # NaN is not below the limit either
    held = e.choose(e.let("fcmp ogt", "float", held, e.fill("float", float(low))), "float", held, e.fill("float", float(low)))
    whole = e.turn(convert, "float", held, kind)
    return e.choose(e.let("fcmp oge", "float", number, limit), kind, e.fill(kind, top), whole)


def _nibble(e: Lanes, x: str, target: DType) -> str:
    """The low 4 bits of a byte, where that is all a value has."""
    if target.bits >= 8:
        return x
    if not target.is_signed:
        return e.let("and", "i8", x, e.fill("i8", 15))
    return e.let("ashr", "i8", e.let("shl", "i8", x, e.fill("i8", 4)), e.fill("i8", 4))


def _int_to_int(e: Lanes, x: str, source: DType, target: DType, overflow: str) -> str:
    if overflow not in ("wrap", "fits"):
        low, high = max(int(target.min_value), int(source.min_value)), min(int(target.max_value), int(source.max_value))
        at = e.of(source)
        if low > source.min_value:
            x = at.max(x, at.const(low))
        if high < source.max_value:
            x = at.min(x, at.const(high))
    own, other = register_kind(source), register_kind(target)
    if own == other:
        return _nibble(e, x, target)
    if target.itemsize < source.itemsize:
        return _nibble(e, e.turn("trunc", own, x, other), target)
    return e.turn("sext" if source.is_signed else "zext", own, x, other)
