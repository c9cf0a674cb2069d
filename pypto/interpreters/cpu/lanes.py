"""Arithmetic on registers: one element per lane, in the numerics of the contract.

A register holds FP32 for FP32, FP16 and BF16 values, an `i1` for truth values and masks, and the integer itself otherwise. No
instruction carries a fast-math flag, and `llvm.fma` stands only where the contract or a verified function names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pypto import dtypes
from pypto.dtypes import DType
from pypto.interpreters.cpu import minifloats
from pypto.interpreters.cpu.text import Function, constant

_TRUTHS = (dtypes.BOOL, dtypes.MASK)
_OPAQUE = (dtypes.HF4,)


def register_kind(dtype: DType) -> str:
    """The scalar LLVM type of a value of a dtype in a register; formats nobody computes with stay bits."""
    if dtype in _TRUTHS:
        return "i1"
    return "float" if dtype.is_float and dtype not in _OPAQUE else f"i{8 * dtype.itemsize}"


def memory_kind(dtype: DType) -> str:
    """The scalar LLVM type of a value of a dtype in memory, as bits."""
    return "float" if dtype is dtypes.FP32 else f"i{8 * dtype.itemsize}"


class Lanes:
    """Instructions on `width` lanes; `dtype` is that of the operands of the op being written."""

    def __init__(self, fn: Function, width: int, dtype: DType = dtypes.FP32) -> None:
        self.fn, self.width, self.dtype = fn, width, dtype

    def of(self, dtype: DType) -> Lanes:
        """The same lanes for operands of another dtype."""
        return self if dtype is self.dtype else Lanes(self.fn, self.width, dtype)

    # ---- types and constants ----

    @property
    def is_float(self) -> bool:
        return self.dtype.is_float

    @property
    def kind(self) -> str:
        return register_kind(self.dtype)

    def type(self, kind: str) -> str:
        return kind if self.width == 1 else f"<{self.width} x {kind}>"

    def fill(self, kind: str, value: bool | int | float) -> str:
        """A constant in every lane."""
        text = constant(kind, value)
        return text if self.width == 1 else f"splat ({kind} {text})"

    def const(self, value: bool | int | float) -> str:
        """A constant of the operands' type in every lane."""
        return self.fill(self.kind, value)

    def splat(self, kind: str, value: str) -> str:
        """One scalar in every lane."""
        if self.width == 1:
            return value
        v = self.type(kind)
        first = self.fn.let(f"insertelement {v} poison, {kind} {value}, i64 0")
        return self.fn.let(f"shufflevector {v} {first}, {v} poison, <{self.width} x i32> zeroinitializer")

    def let(self, instruction: str, kind: str, *operands: str) -> str:
        """An instruction whose operands all have one type, stated once."""
        return self.fn.let(f"{instruction} {self.type(kind)} {', '.join(operands)}")

    def call(self, name: str, kind: str, *operands: str, result: str | None = None) -> str:
        """An intrinsic of the lanes' type."""
        suffix = kind.replace("float", "f32").replace("double", "f64")
        suffix = suffix if self.width == 1 else f"v{self.width}{suffix}"
        if result is not None:
            to = result.replace("float", "f32").replace("double", "f64")
            suffix = f"{to if self.width == 1 else f'v{self.width}{to}'}.{suffix}"
        v, function = self.type(kind), f"@llvm.{name}.{suffix}"
        back = self.type(result or kind)
        self.fn.declares.setdefault(function, f"declare {back} {function}({', '.join([v] * len(operands))})")
        return self.fn.let(f"call {back} {function}({', '.join(f'{v} {x}' for x in operands)})")

    def turn(self, instruction: str, source: str, value: str, target: str) -> str:
        """A conversion instruction: zext, sext, trunc, fpext, fptrunc, bitcast, sitofp ..."""
        return value if source == target else self.fn.let(f"{instruction} {self.type(source)} {value} to {self.type(target)}")

    def choose(self, mask: str, kind: str, x: str, y: str) -> str:
        v = self.type(kind)
        return self.fn.let(f"select {self.type('i1')} {mask}, {v} {x}, {v} {y}")

    def fma(self, kind: str, a: str, b: str, c: str) -> str:
        return self.call("fma", kind, a, b, c)

    # ---- arithmetic on the operands' type ----

    def _either(self, name: str, a: str, b: str) -> str:
        return self.let(f"f{name}" if self.is_float else name, self.kind, a, b)

    def add(self, a: str, b: str) -> str:
        return self._either("add", a, b)

    def sub(self, a: str, b: str) -> str:
        return self._either("sub", a, b)

    def mul(self, a: str, b: str) -> str:
        return self._either("mul", a, b)

    def neg(self, a: str) -> str:
        return self.let("fneg", "float", a) if self.is_float else self.let("sub", self.kind, self.const(0), a)

    def abs(self, a: str) -> str:
        if self.is_float:
            return self.call("fabs", "float", a)
        return self.choose(self.compare("lt", a, self.const(0)), self.kind, self.neg(a), a) if self.dtype.is_signed else a

    def max(self, a: str, b: str) -> str:
        return self._extreme("max", a, b)

    def min(self, a: str, b: str) -> str:
        return self._extreme("min", a, b)

    def _extreme(self, name: str, a: str, b: str) -> str:
        if self.is_float:  # NaN propagates, and +0 is larger than -0: that is what these intrinsics are
            return self.call(f"{name}imum", "float", a, b)
        return self.call(f"{'s' if self.dtype.is_signed else 'u'}{name}", self.kind, a, b)

    def compare(self, how: str, a: str, b: str) -> str:
        """eq, ne, lt, le, gt, ge: an `i1`; NaN is unordered."""
        if self.is_float:
            return self.let(f"fcmp {'u' if how == 'ne' else 'o'}{how}", "float", a, b)
        sign = "" if how in ("eq", "ne") else "s" if self.dtype.is_signed and self.kind != "i1" else "u"
        return self.let(f"icmp {sign}{how}", self.kind, a, b)

    def both(self, a: str, b: str) -> str:
        """and, of the operands' type."""
        return self.let("and", self.kind, a, b)

    def either(self, a: str, b: str) -> str:
        return self.let("or", self.kind, a, b)

    def differ(self, a: str, b: str) -> str:
        return self.let("xor", self.kind, a, b)

    def invert(self, a: str) -> str:
        return self.let("xor", self.kind, a, self.const(1 if self.kind == "i1" else -1))

    def select(self, mask: str, x: str, y: str) -> str:
        return self.choose(mask, self.kind, x, y)

    def leaky(self, x: str, slope: str) -> str:
        """x where it is positive, x * slope elsewhere."""
        return self.select(self.compare("gt", x, self.const(0)), x, self.mul(x, slope))

    def truth(self) -> Lanes:
        """The lanes of a mask."""
        return self.of(dtypes.BOOL)

    # ---- division ----

    def _divisor(self, y: str) -> tuple[str, str, str | None]:
        """A divisor no CPU traps on, where it was 0, and where it was -1."""
        zero = self.compare("eq", y, self.const(0))
        if not self.dtype.is_signed:
            return self.select(zero, self.const(1), y), zero, None
        minus = self.compare("eq", y, self.const(-1))
        bad = self.truth().either(zero, minus)
        return self.select(bad, self.const(1), y), zero, minus

    def div(self, x: str, y: str) -> str:
        """A true division of floats; integers truncate, and x / 0 is 0."""
        if self.is_float:
            return self.let("fdiv", "float", x, y)
        safe, zero, minus = self._divisor(y)
        quotient = self.let("sdiv" if self.dtype.is_signed else "udiv", self.kind, x, safe)
        if minus is not None:
            quotient = self.select(minus, self.neg(x), quotient)
        return self.select(zero, self.const(0), quotient)

    def fmod(self, x: str, y: str) -> str:
        """The remainder with the dividend's sign."""
        if self.is_float:
            return self.let("frem", "float", x, y)
        return self.let("srem" if self.dtype.is_signed else "urem", self.kind, x, self._divisor(y)[0])

    def _other_sign(self, rest: str, y: str) -> str:
        """Where a remainder is not zero and has another sign than the divisor."""
        zero, t = self.const(0), self.truth()
        signs = t.differ(self.compare("lt", rest, zero), self.compare("lt", y, zero))
        return t.both(self.compare("ne", rest, zero), signs)

    def floor_div(self, x: str, y: str) -> str:
        quotient = self.div(x, y)
        if not self.dtype.is_signed:
            return quotient
        wrong = self._other_sign(self.fmod(x, y), y)
        return self.select(wrong, self.sub(quotient, self.const(1)), quotient)

    def floor_mod(self, x: str, y: str) -> str:
        rest = self.fmod(x, y)
        if not self.dtype.is_signed:
            return rest
        wrapped = self.select(self._other_sign(rest, y), self.add(rest, y), rest)
        if not self.is_float:
            return wrapped
        return self.select(self.compare("eq", rest, self.const(0.0)), self.call("copysign", "float", self.const(0.0), y), wrapped)

    # ---- shifts ----

    def _count(self, count: str) -> tuple[str, str]:
        wrong = self.let("icmp uge", self.kind, count, self.const(self.dtype.bits))
        return self.select(wrong, self.const(0), count), wrong

    def shl(self, x: str, count: str) -> str:
        by, wrong = self._count(count)
        return self.select(wrong, self.const(0), self.let("shl", self.kind, x, by))

    def shr(self, x: str, count: str) -> str:
        by, wrong = self._count(count)
        if self.dtype.is_signed:
            gone = self.select(self.compare("lt", x, self.const(0)), self.const(-1), self.const(0))
            return self.select(wrong, gone, self.let("ashr", self.kind, x, by))
        return self.select(wrong, self.const(0), self.let("lshr", self.kind, x, by))

    # ---- functions ----

    def sqrt(self, x: str) -> str:
        return self.call("sqrt", "float", x)

    def recip(self, x: str) -> str:
        return self.let("fdiv", "float", self.const(1.0), x)

    def exp(self, x: str) -> str:
        from pypto.interpreters.cpu.functions import exp

        return exp(self, x)

    def log(self, x: str) -> str:
        from pypto.interpreters.cpu.functions import log

        return log(self, x)

    def rsqrt(self, x: str) -> str:
        from pypto.interpreters.cpu.functions import rsqrt

        return rsqrt(self, x)

    def convert(self, x: str, **params: Any) -> str:
        """To another dtype; see `casts.convert`."""
        from pypto.interpreters.cpu.casts import convert

        return convert(self, x, **params)

    def polynomial(self, x: str, coefficients: Sequence[float], kind: str = "double") -> str:
        """Horner's scheme with fused steps; the coefficient of the highest power comes first."""
        y = self.fill(kind, coefficients[0])
        for c in coefficients[1:]:
            y = self.fma(kind, y, x, self.fill(kind, c))
        return y

    # ---- narrow floats and memory ----

    def rounded(self, dtype: DType, x: str) -> str:
        """An FP32 register rounded to a narrower float, to nearest even, and still held as FP32."""
        if dtype is dtypes.FP16:
            return minifloats.rounded_half(self, x)
        if dtype is not dtypes.BF16:
            return x
        bits = self.turn("bitcast", "float", x, "i32")
        odd = self.let("and", "i32", self.let("lshr", "i32", bits, self.fill("i32", 16)), self.fill("i32", 1))
        up = self.let("add", "i32", self.let("add", "i32", bits, self.fill("i32", 0x7FFF)), odd)
        nan = self.let("fcmp uno", "float", x, x)
        kept = self.choose(nan, "i32", self.let("or", "i32", bits, self.fill("i32", 0x400000)), up)
        return self.turn("bitcast", "i32", self.let("and", "i32", kept, self.fill("i32", -65536)), "float")

    def from_memory(self, dtype: DType, raw: str) -> str:
        """A register from the bits in memory."""
        if dtype is dtypes.BF16:
            wide = self.turn("zext", "i16", raw, "i32")
            return self.turn("bitcast", "i32", self.let("shl", "i32", wide, self.fill("i32", 16)), "float")
        if dtype in _TRUTHS:
            return self.let("icmp ne", "i8", raw, self.fill("i8", 0))
        if dtype is dtypes.INT4:
            return self.let("ashr", "i8", self.let("shl", "i8", raw, self.fill("i8", 4)), self.fill("i8", 4))
        if dtype.is_float and dtype is not dtypes.FP32 and dtype not in _OPAQUE:
            return minifloats.widened(self, dtype, raw)
        return raw

    def to_memory(self, dtype: DType, value: str) -> str:
        """The bits in memory of a register that is a value of the dtype; nothing is rounded."""
        if dtype is dtypes.BF16:
            bits = self.turn("bitcast", "float", value, "i32")
            return self.turn("trunc", "i32", self.let("lshr", "i32", bits, self.fill("i32", 16)), "i16")
        if dtype in _TRUTHS:
            return self.turn("zext", "i1", value, "i8")
        if dtype is dtypes.INT4:
            return self.let("and", "i8", value, self.fill("i8", 15))
        if dtype.is_float and dtype is not dtypes.FP32 and dtype not in _OPAQUE:
            return minifloats.narrowed(self, dtype, value)
        return value
