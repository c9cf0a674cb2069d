"""THE dtype table: every element type of the language, its storage, its limits, and how types promote."""

from __future__ import annotations

import enum
import itertools
import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from pypto import hifloat
from pypto.errors import ShapeError

Number = bool | int | float


class Kind(enum.Enum):
    """What family of values a dtype holds."""

    BOOL = "bool"
    INT = "int"
    UINT = "uint"
    FLOAT = "float"
    INDEX = "index"
    MASK = "mask"
    TASK = "task"


@dataclass(frozen=True, eq=False)
class DType:
    """One element type: a row of the table. Rows are unique, so they compare and hash by identity.

    Attributes:
      name: the language's spelling, "FP32".
      short: the spelling of printed programs, "f32".
      storage: NumPy dtype of an array of this type; one element per item, also for types of less than a byte.
        HF8 has one of its own, `pypto.hifloat.STORAGE`, because NumPy and ml_dtypes have none.
      bits: width of one element on the device.
      kind: family of values.
      computes_in: short name of the type arithmetic happens in; one rounding leads back.
      accumulates_in: short name of a matmul's accumulator, None if matmul does not take the type.
      pto: spelling in PTO assembly, None if there is none.
      code: the number the original's headers give the type, None if it is ours only.
      arithmetic: False for types that are only stored and converted.
    """

    name: str
    short: str
    storage: np.dtype[Any]
    bits: int
    kind: Kind
    computes_in: str
    accumulates_in: str | None
    pto: str | None
    code: int | None
    arithmetic: bool = True

    def __repr__(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.short

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        # Identity must survive pickling and copying.
        return _by_name, (self.name,)

    @property
    def is_float(self) -> bool:
        """Whether values are floating point, storage-only formats included."""
        return self.kind is Kind.FLOAT

    @property
    def is_integer(self) -> bool:
        """Whether values are integers; INDEX counts, BOOL does not."""
        return self.kind in (Kind.INT, Kind.UINT, Kind.INDEX)

    @property
    def is_signed(self) -> bool:
        """Whether negative values exist."""
        return self.kind in (Kind.INT, Kind.INDEX) or (self.is_float and self.name != "FP8E8M0")

    @property
    def itemsize(self) -> int:
        """Bytes of one element, rounded up to a whole byte."""
        return -(-self.bits // 8)

    def get_byte(self) -> int:
        """`itemsize`, as the language spells it."""
        return self.itemsize

    @property
    def mantissa(self) -> int:
        """Explicit fraction bits of a float format (FP32: 23).

        Errors:
          PL305 if the type is no float of fixed precision.
        """
        return int(self._limits().nmant)

    @property
    def min_exponent(self) -> int:
        """Exponent of the smallest normal value of a float format (FP32: -126).

        Errors:
          PL305 if the type is no float of fixed precision.
        """
        return math.frexp(float(self._limits().smallest_normal))[1] - 1

    @property
    def epsilon(self) -> float:
        """How far the number after 1 is from 1 in a float format (FP32: 2**-23). HF8, whose precision tapers, is finest there.

        Errors:
          PL305 if the type is no float, or HF4.
        """
        return hifloat.EPSILON if self.name == "HF8" else float(self._limits().eps)

    @property
    def max_value(self) -> Number:
        """Largest finite value, as an exact Python number."""
        return self._range()[1]

    @property
    def min_value(self) -> Number:
        """Smallest (most negative) finite value, as an exact Python number."""
        return self._range()[0]

    @property
    def has_infinity(self) -> bool:
        """Whether a float format can hold infinities."""
        return self.name in ("FP32", "FP16", "BF16", "FP8E5M2", "HF8")

    def pad(self, kind: str) -> Number:
        """The value that fills the padding of a tile.

        Args:
          kind: "zero", "max" (identity of a minimum) or "min" (identity of a maximum).
        Returns:
          0, or the type's extremes: infinities where the format has them, otherwise the finite limits.
        Errors:
          PL308 for another kind; PL305 if the type has no order.
        """
        if kind not in ("zero", "max", "min"):
            raise ShapeError("PL308", f"pad {kind!r} is not a pad value", fix="use 'zero', 'max' or 'min'")
        low, high = self._range()
        if kind == "zero":
            return type(low)(0)
        if self.has_infinity:
            low, high = -float("inf"), float("inf")
        return high if kind == "max" else low

    def _limits(self) -> Any:
        if not self.is_float or self.name in ("HF8", "HF4"):
            raise ShapeError("PL305", f"{self.name} is not a float format of fixed precision", fix="cast to FP32 first")
        return ml_dtypes.finfo(self.storage)

    def _range(self) -> tuple[Number, Number]:
        if self.kind is Kind.BOOL:
            return False, True
        if self.is_integer:
            return (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1) if self.is_signed else (0, (1 << self.bits) - 1)
        if not self.is_float:
            raise ShapeError("PL305", f"{self.name} values have no smallest or largest", fix="use a number dtype")
        if self.name == "HF8":
            return -hifloat.LARGEST, hifloat.LARGEST
        limits = self._limits()
        return float(limits.min) if self.is_signed else float(limits.smallest_normal), float(limits.max)


def _row(name: str, short: str, storage: Any, bits: int, kind: Kind, code: int | None, pto: str | None,
         computes_in: str = "", accumulates_in: str | None = None, arithmetic: bool = True) -> DType:  # fmt: skip
    return DType(name, short, np.dtype(storage), bits, kind, computes_in or short, accumulates_in, pto, code, arithmetic)


BOOL = _row("BOOL", "bool", np.bool_, 1, Kind.BOOL, 0x00, "i1")
INT4 = _row("INT4", "i4", ml_dtypes.int4, 4, Kind.INT, 0x10, None)
INT8 = _row("INT8", "i8", np.int8, 8, Kind.INT, 0x11, "i8", accumulates_in="i32")
INT16 = _row("INT16", "i16", np.int16, 16, Kind.INT, 0x12, "i16")
INT32 = _row("INT32", "i32", np.int32, 32, Kind.INT, 0x13, "i32")
INT64 = _row("INT64", "i64", np.int64, 64, Kind.INT, 0x14, "i64")
INDEX = _row("INDEX", "index", np.int64, 64, Kind.INDEX, 0x15, "index")
UINT4 = _row("UINT4", "u4", ml_dtypes.uint4, 4, Kind.UINT, 0x20, None)
UINT8 = _row("UINT8", "u8", np.uint8, 8, Kind.UINT, 0x21, "ui8", accumulates_in="i32")
UINT16 = _row("UINT16", "u16", np.uint16, 16, Kind.UINT, 0x22, "ui16")
UINT32 = _row("UINT32", "u32", np.uint32, 32, Kind.UINT, 0x23, "ui32")
UINT64 = _row("UINT64", "u64", np.uint64, 64, Kind.UINT, 0x24, "ui64")
FP4 = _row("FP4", "f4e2m1", ml_dtypes.float4_e2m1fn, 4, Kind.FLOAT, 0x30, "!pto.f4E2M1x2", "f32", None, False)
FP8E4M3FN = _row("FP8E4M3FN", "f8e4m3fn", ml_dtypes.float8_e4m3fn, 8, Kind.FLOAT, 0x31, "f8E4M3FN", "f32", "f32", False)
FP8E5M2 = _row("FP8E5M2", "f8e5m2", ml_dtypes.float8_e5m2, 8, Kind.FLOAT, 0x32, "f8E5M2", "f32", "f32", False)
FP16 = _row("FP16", "f16", np.float16, 16, Kind.FLOAT, 0x33, "f16", "f32", "f32")
FP32 = _row("FP32", "f32", np.float32, 32, Kind.FLOAT, 0x34, "f32", "f32", "f32")
FP8E8M0 = _row("FP8E8M0", "f8e8m0", ml_dtypes.float8_e8m0fnu, 8, Kind.FLOAT, 0x36, "!pto.f8E8M0", "f32", None, False)
BF16 = _row("BF16", "bf16", ml_dtypes.bfloat16, 16, Kind.FLOAT, 0x40, "bf16", "f32", "f32")
# HiF4 has scales on three levels, which nothing here computes: its elements are opaque bytes.
HF4 = _row("HF4", "hf4", hifloat.opaque("hf4", np.void), 4, Kind.FLOAT, 0x41, None, "f32", None, False)
HF8 = _row("HF8", "hf8", hifloat.STORAGE, 8, Kind.FLOAT, 0x42, "!pto.hif8", "f32", "f32", False)
TASK_ID = _row("TASK_ID", "task", np.int64, 64, Kind.TASK, 0x50, None, arithmetic=False)
# The packed predicate of a tile-level compare: not a number, so it is no BOOL and converts to nothing.
MASK = _row("MASK", "mask", np.bool_, 1, Kind.MASK, None, None, arithmetic=False)

DTYPES: dict[str, DType] = {
    row.name: row
    for row in (BOOL, INT4, INT8, INT16, INT32, INT64, INDEX, UINT4, UINT8, UINT16, UINT32, UINT64, FP4, FP8E4M3FN, FP8E5M2,
                FP16, FP32, FP8E8M0, BF16, HF4, HF8, TASK_ID, MASK)
}  # fmt: skip
"""Every row by its name."""


def _by_name(name: str) -> DType:
    return DTYPES[name]


# Where several rows share a storage type, an array means the plain number.
_PLAIN = [row for row in DTYPES.values() if row not in (INDEX, TASK_ID, MASK)]
_BY_STORAGE: dict[np.dtype[Any], DType] = {row.storage: row for row in _PLAIN}
_BY_TEXT: dict[str, DType] = {
    **{row.storage.name: row for row in _PLAIN if row is not HF4},
    **{row.short: row for row in DTYPES.values()},
    **DTYPES,
}


def dtype_of(x: Any) -> DType:
    """The row for anything that names or has an element type.

    Args:
      x: a `DType`; a name ("FP32", "f32", "float32", "bfloat16"); a NumPy dtype or scalar type, `ml_dtypes` included; a torch
        dtype; or an object with such a `.dtype`. int64 means INT64, never INDEX.
    Errors:
      PL305 for float64, complex numbers and everything else that is not in the table.
    """
    if isinstance(x, DType):
        return x
    if isinstance(x, str):
        found = _BY_TEXT.get(x)
    elif isinstance(x, np.dtype):
        found = _BY_STORAGE.get(x)
    elif isinstance(x, type) and issubclass(x, (np.generic, bool, int, float, complex)):
        found = _BY_STORAGE.get(np.dtype(x))
    elif hasattr(x, "dtype") and x.dtype is not x:
        return dtype_of(x.dtype)  # arrays (whose text would be long to make), and the scalar types of JAX
    elif str(x).startswith("torch."):
        found = _BY_TEXT.get(str(x).removeprefix("torch."))
    else:
        found = None
    if found is None:
        text = repr(x) if isinstance(x, str) else getattr(x, "__name__", str(x))
        wide = "float" in text or "complex" in text or "double" in text
        fix = "convert to float32 (FP32) first" if wide else f"use one of {', '.join(DTYPES)}"
        raise ShapeError("PL305", f"{text} is not a dtype of pypto", fix=fix)
    return found


def _join(a: DType, b: DType) -> DType | None:
    """The smallest type of the promotion lattice above both, or None."""
    if a is b:
        return a
    if BOOL in (a, b):
        return b if a is BOOL else a
    if a.is_float and b.is_float:
        return FP32  # either one is FP32, or they are BF16 and FP16, and neither of those holds the other
    if a.is_float or b.is_float:
        return a if a.is_float else b
    if INDEX in (a, b):
        return None if UINT64 in (a, b) else INDEX
    if a.kind is b.kind:
        return a if a.bits > b.bits else b
    unsigned, signed = (a, b) if a.kind is Kind.UINT else (b, a)
    wider = [row for row in (INT8, INT16, INT32, INT64) if row.bits > unsigned.bits and row.bits >= signed.bits]
    return wider[0] if wider else None


_PROMOTION: dict[tuple[DType, DType], DType] = {
    (a, b): joined
    for a, b in itertools.product([row for row in DTYPES.values() if row.arithmetic], repeat=2)
    if (joined := _join(a, b)) is not None
}


def promote(a: DType, b: DType) -> DType:
    """The dtype in which JAX would combine two arrays, in its default 32-bit mode.

    One difference, on purpose: UINT32 with a signed integer is INT64, which holds every value, where JAX wraps in INT32.

    Errors:
      PL302 when no dtype holds both (UINT64 with a signed integer), or one of them is only stored.

    >>> promote(BF16, FP16), promote(INT32, BF16), promote(UINT8, INT8)
    (FP32, BF16, INT16)
    """
    if a is b:
        return a
    joined = _PROMOTION.get((a, b))
    if joined is None:
        raise ShapeError("PL302", f"{a.name} and {b.name} have no common dtype", fix="cast one of them explicitly")
    return joined


def promote_weak(dtype: DType, python_type: type) -> DType:
    """The dtype of an array combined with a Python number, which is *weak*: it adapts to the array where it can.

    Args:
      dtype: of the array.
      python_type: bool, int or float.
    Errors:
      PL302 if the array's dtype is only stored; PL308 for another Python type.

    >>> promote_weak(BF16, float), promote_weak(INT8, float), promote_weak(BOOL, int)
    (BF16, FP32, INT32)
    """
    if python_type not in (bool, int, float):
        raise ShapeError("PL308", f"{python_type.__name__} is not a Python number type", fix="use bool, int or float")
    if not dtype.arithmetic:
        raise ShapeError("PL302", f"{dtype.name} does not combine with a Python number", fix="cast the array first")
    if python_type is float and not dtype.is_float:
        return FP32
    return INT32 if python_type is int and dtype is BOOL else dtype
