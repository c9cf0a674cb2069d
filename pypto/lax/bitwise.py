"""Bits of integers: and, or, xor, not, and shifts. Masks of comparisons combine by the first four as well."""

from __future__ import annotations

from typing import Any

import numpy as np

from pypto import dtypes
from pypto.core.op import Exact, Native
from pypto.core.trace import aval_of
from pypto.dtypes import DType, Kind
from pypto.errors import ShapeError
from pypto.interpreters.cpu.rules import Lanewise
from pypto.lax.convert import convert
from pypto.lax.families import A5_ALL, FLOATS, INTEGERS, UNSIGNED, chips, elementwise

BITS = INTEGERS | {dtypes.BOOL, dtypes.MASK}
_EXACT = Exact("bits")
_WIDE = A5_ALL - FLOATS
_NARROW = _WIDE - {dtypes.INT64, dtypes.UINT64}
_BITS_ON = chips(_NARROW, _NARROW)
_SHIFTS_ON = chips(_NARROW, _WIDE)
_NOT_ON = chips(frozenset({dtypes.INT16, dtypes.UINT16}), frozenset({dtypes.INT16, dtypes.UINT16}))


@elementwise(cpu=Lanewise("both"), accepts=BITS, exact=_EXACT, pto=Native("pto.tand"), on=_BITS_ON, golden="jax.lax.bitwise_and")
def and_(x: Any, y: Any) -> Any:
    """Bits that are set in both.

    Args:
      x, y: integers, truth values or masks of one dtype; shapes broadcast. In kernels one side may be a number or a scalar.
    Numerics:
      Exact. The chips have it for integers of 8, 16 and 32 bits, and for masks.
    Errors:
      PL302 for different dtypes in a kernel, PL305 for floats.

    >>> from pypto import lax
    >>> lax.and_(300, 255)
    Array(44, dtype=INT32)
    """
    return x & y


@elementwise(cpu=Lanewise("either"), accepts=BITS, exact=_EXACT, pto=Native("pto.tor"), on=_BITS_ON, golden="jax.lax.bitwise_or")
def or_(x: Any, y: Any) -> Any:
    """Bits that are set in at least one.

    Args:
      x, y: integers, truth values or masks of one dtype; shapes broadcast.
    Errors:
      PL302, PL305 as `and_`.

    >>> from pypto import lax
    >>> lax.or_(5, 2)
    Array(7, dtype=INT32)
    """
    return x | y


@elementwise(cpu=Lanewise("differ"), accepts=BITS, exact=_EXACT, pto=Native("pto.txor"), on=_BITS_ON, golden="jax.lax.bitwise_xor")
def xor(x: Any, y: Any) -> Any:
    """Bits that are set in exactly one.

    Args:
      x, y: integers, truth values or masks of one dtype; shapes broadcast.
    Errors:
      PL302, PL305 as `and_`.

    >>> from pypto import lax
    >>> lax.xor(6, 3)
    Array(5, dtype=INT32)
    """
    return x ^ y


@elementwise(cpu=Lanewise("invert"), accepts=BITS, exact=_EXACT, pto=Native("pto.tnot"), golden="jax.lax.bitwise_not", on=_NOT_ON)
def not_(x: Any) -> Any:
    """All bits inverted; of a truth value or mask, the other one.

    Args:
      x: integers, truth values or a mask, any shape. The chips have it for 16-bit integers and masks.
    Errors:
      PL305 for floats, and for other integers on a chip.

    >>> from pypto import lax
    >>> lax.not_(5)
    Array(-6, dtype=INT32)
    """
    return ~x


def _out_of_range(x: Any, count: Any) -> tuple[str, Any]:
    """Counts that shift by no bits of the dtype."""
    width = count.dtype.itemsize * 8
    return f"the count is not in 0..{width - 1}", (count < 0) | (count >= width)


def _bounded(count: Any) -> tuple[Any, Any]:
    """The count where it is in range, else 0; and where it is not."""
    _, wrong = _out_of_range(count, count)
    return np.where(wrong, np.zeros((), count.dtype), count), wrong


@elementwise(
    cpu=Lanewise("shl"),
    accepts=INTEGERS,
    exact=_EXACT,
    pto=Native("pto.tshl"),
    on=_SHIFTS_ON,
    golden="jax.lax.shift_left",
    domain=(0, 7),
    hazard=_out_of_range,
)
def shl(x: Any, count: Any) -> Any:
    """Shift left: the low bits become 0, the high ones are lost.

    Args:
      x, count: integers of one dtype; the result has it too.
    Numerics:
      A count below 0 or of at least the width gives 0, and PL704 in checked runs.

    >>> from pypto import lax
    >>> lax.shl(3, 4), lax.shl(3, 32)
    (Array(48, dtype=INT32), Array(0, dtype=INT32))
    """
    by, wrong = _bounded(count)
    return np.where(wrong, np.zeros((), x.dtype), np.left_shift(x, by))


@elementwise(
    cpu=Lanewise("shr"),
    accepts=INTEGERS,
    exact=_EXACT,
    pto=Native("pto.tshr"),
    on=_SHIFTS_ON,
    domain=(0, 7),
    hazard=_out_of_range,
)
def shr(x: Any, count: Any) -> Any:
    """Shift right: logical for unsigned dtypes, arithmetic (the sign fills the high bits) for signed ones.

    Args:
      x, count: integers of one dtype; the result has it too.
    Numerics:
      A count below 0 or of at least the width gives 0, or -1 for a negative number, and PL704 in checked runs.

    >>> from pypto import lax
    >>> lax.shr(-7, 1), lax.shr(-7, 40)
    (Array(-4, dtype=INT32), Array(-1, dtype=INT32))
    """
    by, wrong = _bounded(count)
    gone = np.where(x < 0, np.asarray(-1).astype(x.dtype), np.zeros((), x.dtype))
    return np.where(wrong, gone, np.right_shift(x, by))


def shift_right_arithmetic(x: Any, count: Any) -> Any:
    """Shift right with the sign bit filling the high bits, whatever the dtype, as JAX's.

    >>> import numpy as np
    >>> shift_right_arithmetic(np.uint8([0x80]), np.uint8(1))
    Array([192], dtype=UINT8)
    """
    return _shifted_as(x, count, Kind.INT)


def shift_right_logical(x: Any, count: Any) -> Any:
    """Shift right with zeros filling the high bits, whatever the dtype, as JAX's.

    >>> import numpy as np
    >>> shift_right_logical(np.int8([-128]), np.int8(1))
    Array([64], dtype=INT8)
    """
    return _shifted_as(x, count, Kind.UINT)


def _shifted_as(x: Any, count: Any, kind: Kind) -> Any:
    """`shr` on the same bits read as signed or unsigned."""
    dtype = aval_of(x).dtype
    if dtype not in INTEGERS:
        raise ShapeError("PL305", f"a shift does not take {dtype.name}", fix="cast to an integer dtype")
    other = _counterpart(dtype, kind)
    if other is dtype:
        return shr(x, count)
    bits = shr(*(convert(v, dtype=other, mode="trunc", overflow="wrap") for v in (x, count)))
    return convert(bits, dtype=dtype, mode="trunc", overflow="wrap")


def _counterpart(dtype: DType, kind: Kind) -> DType:
    """The dtype of this kind and the same width."""
    signed = dtype not in UNSIGNED
    if signed == (kind is Kind.INT):
        return dtype
    return dtypes.DTYPES[f"{'INT' if kind is Kind.INT else 'UINT'}{dtype.bits}"]
