"""Arithmetic in the language's spelling: remainders, sums of three, bits, activations, and the forms with a scalar.

Operations whose signature is that of `pypto.lax` are the same objects there: `pl.shl is lax.shl`.
"""

from __future__ import annotations

from typing import Any

from pypto import lax
from pypto.core.avals import TENSOR, TILE, TileAval
from pypto.core.trace import aval_of
from pypto.errors import ShapeError
from pypto.language.levels import by_level, only_at
from pypto.language.reducing import check_scratch
from pypto.language.spelled import as_tile


def _check_tile(name: str, tmp: Any) -> None:
    """Scratch of whatever size the instruction asks for; it changes nothing."""
    if tmp is not None and not isinstance(aval_of(tmp), TileAval):
        raise ShapeError("PL302", f"pl.{name}: the scratch operand is {aval_of(tmp)}, no tile", fix="pl.create_tile(shape, dtype)")


# ---- remainders --------------------------------------------------------------------------------------------------


def rem(x: Any, y: Any, tmp: Any = None) -> Any:
    """The remainder of x / y with the sign of y, as Python's `%`: `lax.floor_mod`. JAX's `rem` is `pl.fmod`.

    Args:
      x, y: tiles of one dtype; shapes broadcast.
      tmp: scratch of the instruction: a tile of x's dtype and shape. It changes nothing.
    Numerics:
      Floats: `fmod`, plus y where the signs differ, rounded once; a zero divisor gives NaN. Integers: a zero divisor gives 0,
      and PL704 in checked runs.
    Errors:
      PL301 or PL302 for a scratch tile of another shape or dtype.

    >>> import numpy as np
    >>> rem(np.int32([7, -7, 7, -7]), np.int32([3, 3, -3, -3]))
    Array([ 1,  2, -2, -1], dtype=INT32)
    """
    value = as_tile(x, "rem")
    if tmp is not None:
        check_scratch("rem", value, tmp, exactly=True)
    return lax.floor_mod(value, y)


def rems(x: Any, scalar: Any, tmp: Any = None) -> Any:
    """The remainder of x / scalar with the sign of the scalar; numerics, scratch and errors as `rem`."""
    return rem(x, scalar, tmp)


def fmods(x: Any, scalar: Any) -> Any:
    """The remainder of x / scalar with the sign of x, exact: `lax.fmod` with a number.

    >>> import numpy as np
    >>> fmods(np.float32([7, -7]), 4.0)
    Array([ 3., -3.], dtype=FP32)
    """
    return lax.fmod(x, scalar)


# ---- sums of three -----------------------------------------------------------------------------------------------


def addc(x: Any, y: Any, z: Any) -> Any:
    """x + y + z: exactly two additions, each rounded to the dtype, from the left. No chip has it as one instruction.

    >>> import numpy as np
    >>> addc(np.int32([10]), np.int32([3]), np.int32([2]))
    Array([15], dtype=INT32)
    """
    return lax.add(lax.add(x, y), z)


def subc(x: Any, y: Any, z: Any) -> Any:
    """x - y - z: exactly two subtractions, each rounded to the dtype, from the left.

    The language's documents say x - y - z; its instruction set says x - y + z, which is not what this computes.

    >>> import numpy as np
    >>> subc(np.int32([10]), np.int32([3]), np.int32([2]))
    Array([5], dtype=INT32)
    """
    return lax.sub(lax.sub(x, y), z)


def addsc(x: Any, scalar: Any, y: Any) -> Any:
    """x + scalar + y, as `addc`."""
    return addc(x, scalar, y)


def subsc(x: Any, scalar: Any, y: Any) -> Any:
    """x - scalar - y, as `subc`."""
    return subc(x, scalar, y)


# ---- bits --------------------------------------------------------------------------------------------------------


@by_level
def xor(x: Any, y: Any, tmp: Any = None) -> Any:
    """Bits that are set in exactly one: `lax.xor`.

    Args:
      tmp: scratch of the instruction, at tile level. It changes nothing.
    Errors:
      PL307 for scratch at tensor level, PL302 for scratch that is no tile, PL305 for floats.

    >>> import numpy as np
    >>> xor(np.int32([6]), np.int32([3]))
    Array([5], dtype=INT32)
    """
    value = as_tile(x, "xor")
    only_at(TILE, "xor", (value, y), "leave it out: at tensor level the compiler makes the scratch tile", tmp=tmp is not None)
    _check_tile("xor", tmp)
    return lax.xor(value, y)


@by_level
def xors(x: Any, scalar: Any, tmp: Any = None) -> Any:
    """Bits that are set in exactly one of an element and a scalar; scratch and errors as `xor`."""
    return xor(x, scalar, tmp)


def ands(x: Any, scalar: Any) -> Any:
    """Bits that are set in both an element and a scalar: `lax.and_` with a number.

    >>> import numpy as np
    >>> ands(np.int32([1, 300]), 255)
    Array([ 1, 44], dtype=INT32)
    """
    return lax.and_(x, scalar)


def ors(x: Any, scalar: Any) -> Any:
    """Bits that are set in an element or a scalar: `lax.or_` with a number."""
    return lax.or_(x, scalar)


def shls(x: Any, scalar: Any) -> Any:
    """Shift left by a number of bits: `lax.shl` with a number.

    Errors:
      PL308 for a constant that is not in 0 .. width - 1; other counts are checked when they are known (PL704).

    >>> import numpy as np
    >>> shls(np.int32([3, -1]), 4)
    Array([ 48, -16], dtype=INT32)
    """
    return lax.shl(x, _count("shls", x, scalar))


def shrs(x: Any, scalar: Any) -> Any:
    """Shift right by a number of bits, logical for unsigned and arithmetic for signed dtypes: `lax.shr`. Errors as `shls`.

    >>> import numpy as np
    >>> shrs(np.int32([-7]), 1), shrs(np.uint8([0x80]), 7)
    (Array([-4], dtype=INT32), Array([1], dtype=UINT8))
    """
    return lax.shr(x, _count("shrs", x, scalar))


def _count(name: str, x: Any, scalar: Any) -> Any:
    width = aval_of(x).dtype.bits
    if isinstance(scalar, int) and not 0 <= scalar < width:
        raise ShapeError("PL308", f"pl.{name} by {scalar} bits", fix=f"a count in 0..{width - 1}")
    return scalar


# ---- functions ---------------------------------------------------------------------------------------------------


def prelu(x: Any, slope: Any, tmp: Any = None) -> Any:
    """x where it is positive, x * slope elsewhere: `lax.prelu`.

    Args:
      slope: a tile of x's dtype and shape.
      tmp: scratch of the instruction, a tile. It changes nothing.
    Errors:
      PL301 for a slope of another shape, PL302 for scratch that is no tile.

    >>> import numpy as np
    >>> prelu(np.float32([-2, 3]), np.float32([0.5, 0.5]))
    Array([-1.,  3.], dtype=FP32)
    """
    value, factor = as_tile(x, "prelu"), as_tile(slope, "prelu")
    if aval_of(value).shape != aval_of(factor).shape:
        raise ShapeError(
            "PL301", f"pl.prelu: {aval_of(factor)} is no slope for {aval_of(value)}", fix="a tile of its shape; pl.lrelu takes a number"
        )
    _check_tile("prelu", tmp)
    return lax.prelu(value, factor)


@by_level
def rsqrt(x: Any, tmp: Any = None, *, high_precision: bool | None = None) -> Any:
    """One over the square root: `lax.rsqrt`, correctly rounded whatever is asked for.

    Args:
      tmp: scratch, at tile level: a tile of x's dtype and shape. It chooses the precise variant of the instruction.
      high_precision: the same choice at tensor level.
    Errors:
      PL307 for the keyword of the other level, PL301 or PL302 for another scratch tile, PL308 for `high_precision` that is no bool.

    >>> import numpy as np
    >>> rsqrt(np.float32([4, 0]))
    Array([0.5, inf], dtype=FP32)
    """
    value = as_tile(x, "rsqrt")
    check_scratch("rsqrt", value, tmp, exactly=True)
    only_at(TENSOR, "rsqrt", (value,), "pass a scratch tile: pl.tile.rsqrt(x, tmp)", high_precision=bool(high_precision))
    asked = True if tmp is not None else high_precision
    return lax.rsqrt(value, high_precision=asked)
