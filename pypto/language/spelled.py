"""The language's own spellings: plain functions over the ops of `pypto.lax`.

`pl.X` follows the level of its operands; `pl.tensor.X` and `pl.tile.X` are the same functions.
"""

from __future__ import annotations

import builtins
import enum
from typing import Any

from pypto import lax
from pypto.core.avals import TENSOR, TileAval
from pypto.core.index import extreme
from pypto.core.trace import aval_of, current_trace
from pypto.dtypes import dtype_of
from pypto.errors import BodyError, ShapeError
from pypto.language import access
from pypto.language.trace import PlTrace
from pypto.language.values import RefValue, ScalarValue, TileValue, Unset, Value, index_of
from pypto.lax.families import literal
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
    """x + scalar."""
    return lax.add(x, scalar)


def subs(x: Any, scalar: Any) -> Any:
    """x - scalar."""
    return lax.sub(x, scalar)


def muls(x: Any, scalar: Any) -> Any:
    """x * scalar."""
    return lax.mul(x, scalar)


def divs(x: Any, scalar: Any) -> Any:
    """x / scalar."""
    return lax.div(x, scalar)


def maxs(x: Any, scalar: Any) -> Any:
    """The larger of each element and a scalar."""
    return lax.maximum(x, scalar)


def mins(x: Any, scalar: Any) -> Any:
    """The smaller of each element and a scalar."""
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
    """The smaller of two scalars; of plain numbers, a plain number."""
    return _extreme("min", lax.minimum, a, b)


def max(a: Any, b: Any) -> Any:
    """The larger of two scalars; of plain numbers, a plain number."""
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
      One rounding. To integers it saturates, except FP32->INT16, FP16->INT16/UINT8/INT8, INT64->INT32 and INT32->INT16,
      which keep the low bits.
    Errors:
      PL305 for a cast to the dtype it already has.
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
    """A number as a scalar of a stated dtype."""
    trace = trace_here("const")
    kind = dtype_of(dtype)
    number = literal(value, kind)
    return trace.process(lax.convert, [number], {"dtype": kind, "mode": "rint", "overflow": "saturate"})


def cmp(x: Any, y: Any, cmp_type: Any = CmpType.EQ) -> Any:
    """Compare. At tile level the result is a packed predicate mask for `sel`; at tensor level it is 0 or 1 in x's dtype."""
    left, right = as_tile(x, "cmp"), as_tile(y, "cmp")
    mask = lax.compare(left, right, _comparison(cmp_type))
    aval = aval_of(mask)
    if isinstance(aval, TileAval) and aval.level == TENSOR:
        dtype = next(aval_of(v).dtype for v in (left, right) if isinstance(aval_of(v), TileAval))
        return lax.select(mask, lax.full(aval.static_shape, 1, dtype, level=TENSOR), 0)
    return mask


cmps = cmp


def _comparison(kind: Any) -> int | str:
    if isinstance(kind, enum.Enum):
        return int(kind.value)
    return kind.lower() if isinstance(kind, str) else kind


def sel(mask: Any, x: Any, y: Any, tmp: Any = None) -> Any:
    """x where the mask is true, y elsewhere. `tmp` is scratch of the instruction and changes nothing."""
    return lax.select(as_tile(mask, "sel"), x, y)


def sels(mask: Any, x: Any, tmp: Any, scalar: Any) -> Any:
    """x where the mask is true, a number elsewhere."""
    return lax.select(as_tile(mask, "sels"), x, scalar)


# ---- cube --------------------------------------------------------------------------------------------------------


def matmul(lhs: Any, rhs: Any, out_dtype: Any = None, a_trans: bool = False, b_trans: bool = False, *, numerics: str = "contract") -> Any:
    """Multiply matrices on the cube unit: [m, k] @ [k, n], accumulated in FP32 (INT32 for INT8).

    `out_dtype` rounds the result once; by default it is the accumulator's dtype, or that of the created tensor whose name
    the result takes. See `lax.matmul` for the order.
    """
    out = None if out_dtype is None else dtype_of(out_dtype)
    result = lax.matmul(lhs, rhs, out_dtype=out, a_trans=a_trans, b_trans=b_trans, numerics=numerics)
    if out is None and isinstance(result, TileValue):
        result.trace.defaulted.add(result.var)
    return result


def matmul_acc(acc: Any, lhs: Any, rhs: Any, a_trans: bool = False, b_trans: bool = False, *, numerics: str = "contract") -> Any:
    """acc + lhs @ rhs, accumulated on chip. The accumulator is FP32, or INT32 for INT8."""
    return lax.matmul_acc(acc, lhs, rhs, a_trans=a_trans, b_trans=b_trans, numerics=numerics)


# ---- the rest ----------------------------------------------------------------------------------------------------


def dim(x: Any, axis: int) -> Any:
    """The run-time extent of an axis, as a scalar; a Python int when it is static."""
    trace = trace_here("tensor.dim")
    return access.extent(trace, x, axis if axis >= 0 else x.ndim + axis)


def get_block_idx() -> Any:
    """The index of this block in its spmd dispatch."""
    trace = trace_here("tile.get_block_idx")
    if not trace.spmd or trace.block_index is None:
        raise BodyError("PL105", "the block index exists inside pl.spmd only", fix="with pl.spmd(n): i = pl.tile.get_block_idx()")
    trace.block_reads += 1
    return trace.block_index


def get_block_num() -> Any:
    """How many blocks this spmd dispatch has."""
    trace = trace_here("tile.get_block_num")
    if not trace.spmd:
        raise BodyError("PL105", "the number of blocks exists inside pl.spmd only", fix="use it under `with pl.spmd(n):`")
    return trace.block_count


def yield_(*values: Any) -> Any:
    """Say what the next turn of the loop starts from; returns the values, whose names stand for the loop's results."""
    trace = trace_here("yield_")
    if not trace.yields:
        raise BodyError("PL105", "pl.yield_ outside a loop or branch", fix="use it as the last statement of a loop body with init_values=")
    if trace.yields[-1]:
        raise BodyError("PL102", "a second pl.yield_ in one body", fix="yield once, at the end")
    trace.yields[-1].extend(values)
    return values[0] if len(values) == 1 else values
