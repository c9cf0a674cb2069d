"""The language's own spellings: plain functions over the ops of `pypto.lax`.

`pl.X` follows the level of its operands; `pl.tensor.X` and `pl.tile.X` are the same functions.
"""

from __future__ import annotations

import builtins
import enum
from typing import Any

from pypto import lax
from pypto.core.avals import TILE, TileAval
from pypto.core.index import extreme
from pypto.core.trace import aval_of, current_trace
from pypto.dtypes import dtype_of
from pypto.errors import BodyError, ShapeError
from pypto.language import access
from pypto.language.levels import by_level, level_of
from pypto.language.trace import PlTrace
from pypto.language.values import RefValue, ScalarValue, TileValue, Unset, Value, index_of
from pypto.lax.families import literal, unify
from pypto.numerics import default_overflow


class CmpType(enum.IntEnum):
    """Comparisons by the language's codes."""

    EQ = 0
    NE = 1
    LT = 2
    LE = 3
    GT = 4
    GE = 5


def trace_here(what: str) -> PlTrace:
    """The kernel trace in force.

    Errors:
      PL112 outside a kernel.
    """
    trace = current_trace()
    if not isinstance(trace, PlTrace):
        raise BodyError("PL112", f"pl.{what} is an operation of a kernel body", fix="call it inside a function decorated with @pl.jit")
    return trace


def as_tile(x: Any, what: str) -> Any:
    """An operand as a value: a handle is loaded."""
    trace = current_trace()
    return trace.value(x, what) if isinstance(trace, PlTrace) else x


# ---- elementwise -------------------------------------------------------------------------------------------------


def adds(x: Any, scalar: Any) -> Any:
    """x + scalar: a tile and a number, which is rounded once to the tile's dtype first. Numerics as `lax.add`.

    >>> import numpy as np
    >>> adds(np.float32([1, 2]), 0.5)
    Array([1.5, 2.5], dtype=FP32)
    """
    return lax.add(x, scalar)


def subs(x: Any, scalar: Any) -> Any:
    """x - scalar: a tile and a number, which is rounded once to the tile's dtype first. Numerics as `lax.sub`."""
    return lax.sub(x, scalar)


def muls(x: Any, scalar: Any) -> Any:
    """x * scalar: a tile and a number, which is rounded once to the tile's dtype first. Numerics as `lax.mul`.

    A float next to an integer tile makes the result FP32.

    >>> import numpy as np
    >>> muls(np.int32([1, 300]), 2.5)
    Array([  2.5, 750. ], dtype=FP32)
    """
    return lax.mul(x, scalar)


def divs(x: Any, scalar: Any) -> Any:
    """x / scalar: a tile and a number. A true division, never a multiplication by the reciprocal; see `lax.div`."""
    return lax.div(x, scalar)


def maxs(x: Any, scalar: Any) -> Any:
    """The larger of each element and a scalar; NaN propagates, +0 is larger than -0. Also spelled `maximums`."""
    return lax.maximum(x, scalar)


def mins(x: Any, scalar: Any) -> Any:
    """The smaller of each element and a scalar; NaN propagates, -0 is smaller than +0. Also spelled `minimums`."""
    return lax.minimum(x, scalar)


maximums, minimums = maxs, mins


def _extreme(name: str, op: Any, a: Any, b: Any) -> Any:
    for x in (a, b):
        if isinstance(x, TileValue | RefValue):
            raise ShapeError("PL307", f"pl.{name} takes scalars", fix=f"pl.{name}imum(x, y) for tiles, pl.row_{name}(x) to reduce")
        if isinstance(x, Unset):
            raise x.error()
    if not isinstance(a, Value) and not isinstance(b, Value):
        return builtins.min(a, b) if name == "min" else builtins.max(a, b)
    result = op(a, b)
    first, second = index_of(a), index_of(b)
    if isinstance(result, ScalarValue) and result.dtype.is_integer and first is not None and second is not None:
        result.trace.polynomials[result.var] = extreme(name, first, second)
    return result


def min(a: Any, b: Any) -> Any:
    """The smaller of two scalars; of plain numbers, a plain number. What it is bounds a valid shape: `pl.min(T, n - r)`.

    Errors:
      PL307 for tiles: `pl.minimum` compares them, `pl.row_min` reduces them.

    >>> min(3, 5)
    3
    """
    return _extreme("min", lax.minimum, a, b)


def max(a: Any, b: Any) -> Any:
    """The larger of two scalars; of plain numbers, a plain number.

    Errors:
      PL307 for tiles: `pl.maximum` compares them, `pl.row_max` reduces them.

    >>> max(3, 5)
    5
    """
    return _extreme("max", lax.maximum, a, b)


def clip(x: Any, low: int, high: int) -> Any:
    """A scalar between two numbers."""
    return max(min(x, high), low)


def cast(x: Any, target_type: Any, mode: str = "round") -> Any:
    """Convert a tile or scalar to another dtype.

    Args:
      target_type: the dtype.
      mode: `round` (the default: ties away from zero, as the NPU does), `rint` (ties to even, as JAX), floor, ceil, trunc,
        odd, or none.
    Numerics:
      One rounding; to HF8 it is always `round`, the only one the chip has. To integers, FP8 and HF8 it saturates, except
      FP32->INT16, FP16->INT16/UINT8/INT8, INT64->INT32 and INT32->INT16, which keep the low bits.
    Errors:
      PL305 for a cast to the dtype it already has, PL308 for another mode.

    >>> import numpy as np
    >>> cast(np.float32([0.5, 1.5, 2.5]), "INT32"), cast(np.float32([0.5, 1.5, 2.5]), "INT32", mode="rint")
    (Array([1, 2, 3], dtype=INT32), Array([0, 2, 2], dtype=INT32))
    """
    target = dtype_of(target_type)
    if isinstance(x, bool | int | float):
        return const(x, target)
    value = as_tile(x, "cast")
    source = aval_of(value).dtype
    if source is target and not isinstance(value, ScalarValue):
        raise ShapeError("PL305", f"cast to the same dtype {target.name}", fix="remove it")
    return lax.convert(value, dtype=target, mode=mode, overflow=default_overflow(source, target))


def const(value: bool | int | float, dtype: Any) -> Any:
    """A number as a scalar of a stated dtype, rounded once; it keeps that dtype where a plain number would adapt.

    Errors:
      PL112 outside a kernel, PL308 for a number that an integer dtype does not hold.
    """
    trace = trace_here("const")
    kind = dtype_of(dtype)
    number = literal(value, kind)
    return trace.process(lax.convert, [number], {"dtype": kind, "mode": "rint", "overflow": "saturate"})


@by_level
def cmp(x: Any, y: Any, cmp_type: Any = CmpType.EQ) -> Any:
    """Compare, element by element. NaN is unordered: only `NE` is true for it.

    Args:
      x, y: one dtype; `y` may be a number.
      cmp_type: EQ, NE, LT, LE, GT, GE of `pl.CmpType`, their codes 0 to 5, or their names.
    Returns:
      At tile level a packed predicate mask for `sel`; at tensor level 0 or 1 in the operands' dtype (FP32 where a float meets an
      integer tile); BOOL for arrays and scalars.
    Errors:
      PL308 for another comparison.

    >>> import numpy as np
    >>> cmp(np.float32([1, 2, 3]), 2.0, CmpType.GE)
    Array([False,  True,  True], dtype=BOOL)
    """
    left, right = unify(lax.eq, (as_tile(x, "cmp"), as_tile(y, "cmp")))
    mask = lax.compare(left, right, _comparison(cmp_type))
    if not isinstance(aval_of(mask), TileAval) or level_of(left, right) == TILE:
        return mask
    dtype = aval_of(left).dtype
    return lax.select(mask, literal(1, dtype), literal(0, dtype))


def cmps(x: Any, scalar: Any, cmp_type: Any = CmpType.EQ) -> Any:
    """Compare with a number, at tile level: a packed predicate mask for `sel`; BOOL for arrays and scalars. As `cmp`.

    >>> import numpy as np
    >>> cmps(np.int32([1, 0, 2, 0]), 0)
    Array([False,  True, False,  True], dtype=BOOL)
    """
    return lax.compare(as_tile(x, "cmps"), scalar, _comparison(cmp_type))


def _comparison(kind: Any) -> int | str:
    if isinstance(kind, enum.Enum):
        return int(kind.value)
    return kind.lower() if isinstance(kind, str) else kind


def sel(mask: Any, x: Any, y: Any, tmp: Any = None) -> Any:
    """x where the mask is true, y elsewhere; `tmp` is scratch of the instruction and changes nothing.

    Bits are moved, not computed with, and an element nobody wrote on the side not chosen is not seen.

    >>> import numpy as np
    >>> sel(cmp(np.float32([1, -2]), 0.0, CmpType.GT), np.float32([1, -2]), 0.0)
    Array([1., 0.], dtype=FP32)
    """
    return lax.select(as_tile(mask, "sel"), x, y)


def sels(mask: Any, x: Any, tmp: Any, scalar: Any) -> Any:
    """x where the mask is true, a number elsewhere; `tmp` is scratch of the instruction. As `sel`."""
    return lax.select(as_tile(mask, "sels"), x, scalar)


# ---- the rest ----------------------------------------------------------------------------------------------------


def dim(x: Any, axis: int) -> Any:
    """The extent of an axis: a Python int when it is static, otherwise a scalar. `axis` may count from the end."""
    trace = trace_here("tensor.dim")
    return access.extent(trace, x, axis if axis >= 0 else x.ndim + axis)


def get_block_idx() -> Any:
    """The index of this block in its spmd dispatch: an index scalar, 0 to the number of blocks - 1.

    Errors:
      PL105 outside `pl.spmd`.
    """
    trace = trace_here("tile.get_block_idx")
    if not trace.spmd or trace.block_index is None:
        raise BodyError("PL105", "the block index exists inside pl.spmd only", fix="with pl.spmd(n): i = pl.tile.get_block_idx()")
    trace.block_reads += 1
    return trace.block_index


def get_block_num() -> Any:
    """How many blocks this spmd dispatch has.

    Errors:
      PL105 outside `pl.spmd`.
    """
    trace = trace_here("tile.get_block_num")
    if not trace.spmd:
        raise BodyError("PL105", "the number of blocks exists inside pl.spmd only", fix="use it under `with pl.spmd(n):`")
    return trace.block_count


def yield_(*values: Any) -> Any:
    """Say what the next turn of the loop starts from; returns the values, whose names stand for the loop's results.

    Errors:
      PL105 outside a loop or branch, PL102 for a second one in a body or another number of values than the state.
    """
    trace = trace_here("yield_")
    if not trace.yields:
        raise BodyError("PL105", "pl.yield_ outside a loop or branch", fix="use it as the last statement of a loop body with init_values=")
    if trace.yields[-1]:
        raise BodyError("PL102", "a second pl.yield_ in one body", fix="yield once, at the end")
    trace.yields[-1].extend(values)
    return values[0] if len(values) == 1 else values
