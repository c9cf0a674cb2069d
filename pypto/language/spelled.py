"""The language's own spellings: plain functions over the ops of `pypto.lax`.

`pl.X` follows the level of its operands; `pl.tensor.X` and `pl.tile.X` are the same functions.
"""

from __future__ import annotations

import builtins
import enum
from collections.abc import Sequence
from typing import Any

from pypto import dtypes, lax
from pypto.core.avals import TENSOR, TILE, RefAval, TileAval
from pypto.core.index import extreme
from pypto.core.trace import aval_of, current_trace
from pypto.dtypes import dtype_of
from pypto.errors import BodyError, ShapeError
from pypto.language import access
from pypto.language.access import Window
from pypto.language.trace import PlTrace
from pypto.language.values import RefValue, ScalarValue, TileValue, Unset, Value, index_of
from pypto.lax.families import literal
from pypto.lax.reduction import ASCENDING, LANES64
from pypto.numerics import default_overflow
from pypto.platform import Space


class PadValue(enum.Enum):
    """What fills the padding: 0, the largest or the smallest value of the dtype."""

    zero = "zero"
    max = "max"
    min = "min"


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


def _tile(x: Any, what: str) -> Any:
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


def min(a: Any, b: Any) -> Any:  # noqa: A001 - the language's name
    """The smaller of two scalars; of plain numbers, a plain number."""
    return _extreme("min", lax.minimum, a, b)


def max(a: Any, b: Any) -> Any:  # noqa: A001 - the language's name
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
    value = _tile(x, "cast")
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
    left, right = _tile(x, "cmp"), _tile(y, "cmp")
    mask = lax.compare(left, right, _comparison(cmp_type))
    aval = aval_of(mask)
    if isinstance(aval, TileAval) and aval.level == TENSOR:
        dtype = next(aval_of(v).dtype for v in (left, right) if isinstance(aval_of(v), TileAval))
        return lax.select(mask, lax.full(aval.shape, 1, dtype, level=TENSOR), 0)
    return mask


cmps = cmp


def _comparison(kind: Any) -> int | str:
    if isinstance(kind, enum.Enum):
        return int(kind.value)
    return kind.lower() if isinstance(kind, str) else kind


def sel(mask: Any, x: Any, y: Any, tmp: Any = None) -> Any:
    """x where the mask is true, y elsewhere. `tmp` is scratch of the instruction and changes nothing."""
    return lax.select(_tile(mask, "sel"), x, y)


def sels(mask: Any, x: Any, tmp: Any, scalar: Any) -> Any:
    """x where the mask is true, a number elsewhere."""
    return lax.select(_tile(mask, "sels"), x, scalar)


# ---- reductions and broadcasts -----------------------------------------------------------------------------------


def _reduce(op: Any, x: Any, axis: int, order: str) -> Any:
    value = _tile(x, op.name)
    if aval_of(value).rank < 2:
        raise ShapeError("PL301", f"{op.name} over rows or columns of {aval_of(value)}", fix="a tile has at least two axes: reshape it")
    return op(value, axes=(aval_of(value).rank + axis,), keepdims=True, order=order)


def row_sum(x: Any, tmp: Any = None) -> Any:
    """Sum of each row: [.., n] to [.., 1], in 64 partial sums (order `lanes64`). `tmp` is scratch and changes nothing."""
    return _reduce(lax.reduce_sum, x, -1, LANES64)


def row_max(x: Any, tmp: Any = None) -> Any:
    """Largest element of each row's valid part; NaN propagates."""
    return _reduce(lax.reduce_max, x, -1, LANES64)


def row_min(x: Any, tmp: Any = None) -> Any:
    """Smallest element of each row's valid part; NaN propagates."""
    return _reduce(lax.reduce_min, x, -1, LANES64)


def col_sum(x: Any, tmp: Any = None) -> Any:
    """Sum of each column: [m, n] to [1, n], rows in order, in FP32."""
    return _reduce(lax.reduce_sum, x, -2, ASCENDING)


def col_max(x: Any, tmp: Any = None) -> Any:
    """Largest element of each column's valid part; NaN propagates."""
    return _reduce(lax.reduce_max, x, -2, ASCENDING)


def col_min(x: Any, tmp: Any = None) -> Any:
    """Smallest element of each column's valid part; NaN propagates."""
    return _reduce(lax.reduce_min, x, -2, ASCENDING)


def _vector(name: str, x: Any, v: Any, axis: int) -> tuple[Any, Any]:
    """The target and the vector that is spread over it."""
    target, vector = _tile(x, name), _tile(v, name)
    a, b = aval_of(target), aval_of(vector)
    if not isinstance(b, TileAval) or b.rank != a.rank or b.shape[axis] != 1:
        want = "[rows, 1]" if axis == -1 else "[1, cols]"
        raise ShapeError("PL301", f"{name}: {b} is no {want} vector for {a}", fix=f"reshape it to {want}")
    return target, vector


def row_expand(target: Any, v: Any) -> Any:
    """A [rows, 1] column spread over the target's columns; of the target only the shape counts."""
    x, vector = _vector("row_expand", target, v, -1)
    return lax.broadcast(vector, shape=aval_of(x).shape)


def col_expand(target: Any, v: Any) -> Any:
    """A [1, cols] row spread over the target's rows; of the target only the shape counts."""
    x, vector = _vector("col_expand", target, v, -2)
    return lax.broadcast(vector, shape=aval_of(x).shape)


def row_expand_add(x: Any, v: Any, tmp: Any = None) -> Any:
    """x + v, a [rows, 1] column for every column of x."""
    return lax.add(*_vector("row_expand_add", x, v, -1))


def row_expand_sub(x: Any, v: Any, tmp: Any = None) -> Any:
    """x - v, a [rows, 1] column for every column of x."""
    return lax.sub(*_vector("row_expand_sub", x, v, -1))


def row_expand_mul(x: Any, v: Any, tmp: Any = None) -> Any:
    """x * v, a [rows, 1] column for every column of x."""
    return lax.mul(*_vector("row_expand_mul", x, v, -1))


def row_expand_div(x: Any, v: Any, tmp: Any = None) -> Any:
    """x / v, a [rows, 1] column for every column of x."""
    return lax.div(*_vector("row_expand_div", x, v, -1))


def row_expand_max(x: Any, v: Any, tmp: Any = None) -> Any:
    """The larger of x and a [rows, 1] column."""
    return lax.maximum(*_vector("row_expand_max", x, v, -1))


def row_expand_min(x: Any, v: Any, tmp: Any = None) -> Any:
    """The smaller of x and a [rows, 1] column."""
    return lax.minimum(*_vector("row_expand_min", x, v, -1))


def col_expand_add(x: Any, v: Any) -> Any:
    """x + v, a [1, cols] row for every row of x."""
    return lax.add(*_vector("col_expand_add", x, v, -2))


def col_expand_sub(x: Any, v: Any) -> Any:
    """x - v, a [1, cols] row for every row of x."""
    return lax.sub(*_vector("col_expand_sub", x, v, -2))


def col_expand_mul(x: Any, v: Any) -> Any:
    """x * v, a [1, cols] row for every row of x."""
    return lax.mul(*_vector("col_expand_mul", x, v, -2))


def col_expand_div(x: Any, v: Any) -> Any:
    """x / v, a [1, cols] row for every row of x."""
    return lax.div(*_vector("col_expand_div", x, v, -2))


def col_expand_max(x: Any, v: Any) -> Any:
    """The larger of x and a [1, cols] row."""
    return lax.maximum(*_vector("col_expand_max", x, v, -2))


def col_expand_min(x: Any, v: Any) -> Any:
    """The smaller of x and a [1, cols] row."""
    return lax.minimum(*_vector("col_expand_min", x, v, -2))


# ---- cube --------------------------------------------------------------------------------------------------------


def matmul(
    lhs: Any, rhs: Any, out_dtype: Any = None, a_trans: bool = False, b_trans: bool = False, *, numerics: str = "contract"
) -> Any:
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


# ---- making ------------------------------------------------------------------------------------------------------


def _static_shape(trace: PlTrace, shape: Sequence[Any], what: str) -> tuple[int, ...]:
    return tuple(access.static_extent(trace, d, f"an extent of {what}") for d in shape)


def full(shape: Sequence[Any], dtype: Any = dtypes.FP32, value: Any = 0) -> Any:
    """A tile of one value: a number, rounded once to the dtype, or a scalar."""
    trace = trace_here("full")
    kind = dtype_of(dtype)
    filled = trace.scalar_for(value, kind, "pl.full")
    return lax.fill(filled, shape=_static_shape(trace, shape, "pl.full"), dtype=kind, level=TENSOR)


def arange(start: Any, shape: Sequence[Any], dtype: Any = dtypes.INT32, descending: bool = False) -> Any:
    """start, start + 1, ... in one row [1, n]; with `descending`, start, start - 1, ..."""
    trace = trace_here("arange")
    kind = dtype_of(dtype)
    extents = _static_shape(trace, shape, "pl.arange")
    if not kind.is_integer or any(d != 1 for d in extents[:-1]):
        raise ShapeError("PL308", f"pl.arange makes one row of integers, not {kind.name}{list(extents)}", fix="shape [1, n], an integer dtype")
    first = trace.scalar_for(start, kind, "pl.arange")
    return lax.ramp(first, shape=extents, dtype=kind, descending=bool(descending), level=TENSOR)


def create_tensor(shape: Sequence[Any], dtype: Any = dtypes.FP32, *, init_value: Any = None, layout: Any = None) -> Any:
    """An intermediate tensor. In orchestration a GM buffer; inside a region an on-chip declaration.

    Nobody has written it: a matmul or another value may take over its name, and its elements may not reach an output.
    With `init_value` it is filled.
    """
    trace = trace_here("create_tensor")
    kind = dtype_of(dtype)
    if layout is not None and str(layout).upper() not in ("ND", "TENSORLAYOUT.ND"):
        raise ShapeError("PL308", f"create_tensor: layout={layout!r}", fix="buffers are row-major (ND)")
    if trace.in_region:
        extents = _static_shape(trace, shape, "a tensor created in a region")
        if init_value is not None:
            return full(extents, kind, init_value)
        made = lax.empty(shape=extents, dtype=kind, level=TENSOR)
        trace.created.add(made.var)
        return made
    dims = [access.offset(trace, d, "an extent of create_tensor") for d in shape]
    static = tuple(d if isinstance(d, int) else d.index.value if d.index is not None else None for d in dims)
    dynamic = [d for d, s in zip(dims, static, strict=True) if s is None]
    extents = tuple(s if s is not None else d.index for d, s in zip(dims, static, strict=True))
    init = None if init_value is None else kind.storage.type(init_value)
    params = {"shape": static, "dtype": kind, "space": Space.DDR, "init": init, "name": ""}
    (var,) = trace.emit(lax.alloc, [trace.atom(d) for d in dynamic], params, [RefAval(extents, kind)])
    if init is None:
        trace.created.add(var)
    return trace.wrap(var)


def create_tile(shape: Sequence[Any], dtype: Any, target_memory: Space = Space.VEC) -> Any:
    """An on-chip tile nobody has written yet."""
    trace = trace_here("create_tile")
    return lax.empty(shape=_static_shape(trace, shape, "pl.create_tile"), dtype=dtype_of(dtype), level=TILE, space=target_memory)


# ---- moving ------------------------------------------------------------------------------------------------------


def _offsets(trace: PlTrace, values: Sequence[Any], rank: int, what: str) -> tuple[Any, ...]:
    if len(values) != rank:
        raise ShapeError("PL301", f"{what}: {len(values)} entries for {rank} axes", fix="one per axis")
    return tuple(access.offset(trace, v, what) for v in values)


def slice(x: Any, sizes: Sequence[Any], offsets: Sequence[Any], valid_shape: Sequence[Any] | None = None) -> Any:  # noqa: A001
    """A window: sizes first, then offsets. Outside a region it is a view, inside it is loaded.

    `valid_shape` marks the leading part that carries data; bounds then apply to that part only, and the rest is padding.
    """
    trace = trace_here("slice")
    window = Window(_offsets(trace, offsets, x.ndim, "the offsets of slice"), _offsets(trace, sizes, x.ndim, "the sizes of slice"))
    valid = None if valid_shape is None else _offsets(trace, valid_shape, x.ndim, "valid_shape")
    if isinstance(x, TileValue):
        part = access.slice_tile(trace, x, window)
        return part if valid is None else set_validshape(part, *valid)
    if trace.in_region:
        return access.load(trace, x, window, valid)
    if valid is None:
        return access.view(trace, x, window)
    raise ShapeError("PL307", "slice with valid_shape= makes a tile", fix="use it inside a region, where the padded load happens")


def load(
    tensor: Any, offsets: Sequence[Any], shapes: Sequence[Any], valid_shape: Sequence[Any] | None = None, target_memory: Space = Space.VEC
) -> Any:
    """Load a window of a tensor into a tile-level tile: offsets first, then sizes."""
    trace = trace_here("load")
    window = Window(_offsets(trace, offsets, tensor.ndim, "the offsets of load"), _offsets(trace, shapes, tensor.ndim, "the shape of load"))
    valid = None if valid_shape is None else _offsets(trace, valid_shape, tensor.ndim, "valid_shape")
    if not isinstance(tensor, RefValue):
        raise ShapeError("PL307", f"pl.load reads a GM tensor, not {aval_of(tensor)}", fix="pl.slice or a subscript for tiles")
    return access.load(trace, tensor, window, valid, TILE, target_memory)


def assemble(target: Any, source: Any, offset: Sequence[Any]) -> Any:
    """Write `source` into `target` at an offset, and return `target`: the same as a subscript store."""
    trace = trace_here("assemble")
    value = source if isinstance(source, RefValue) and not trace.in_region else _tile(source, "assemble")
    extents = value.shape
    if len(extents) != target.ndim:
        raise ShapeError("PL301", f"assemble: {list(extents)} into {list(target.shape)}", fix="give both the same number of axes")
    sizes = tuple(access.extent(trace, value, a) for a in range(len(extents)))
    access.store(trace, target, Window(_offsets(trace, offset, target.ndim, "the offset of assemble"), sizes), value)
    return target


def store(tile: Any, offsets: Sequence[Any], tensor: Any) -> Any:
    """Store a tile's valid part into a tensor, and return the tensor."""
    if not isinstance(tensor, RefValue):
        raise ShapeError("PL307", "pl.store writes to a GM tensor", fix="pl.assemble or a subscript for tiles")
    return assemble(tensor, tile, offsets)


def read(x: Any, indices: Any) -> Any:
    """One element as a scalar; `indices` is a list, or one flat number for a value of one axis."""
    trace = trace_here("read")
    return access.read(trace, x, _element(trace, x, indices))


def write(x: Any, indices: Any, value: Any) -> None:
    """Set one element of a tensor or tile, in place."""
    trace = trace_here("write")
    starts = _element(trace, x, indices)
    access.store(trace, x, Window(starts, (1,) * len(starts), tuple(range(len(starts)))), value)


def _element(trace: PlTrace, x: Any, indices: Any) -> tuple[Any, ...]:
    listed = indices if isinstance(indices, list | tuple) else [indices]
    if len(listed) == 1 and x.ndim > 1 and all(d == 1 for d in x.shape[:-1]):
        listed = [0] * (x.ndim - 1) + list(listed)  # a flat index into one row
    return _offsets(trace, listed, x.ndim, "the indices")


def reshape(x: Any, shape: Sequence[Any]) -> Any:
    """The same elements in row-major order under another shape; of a tensor it is a view."""
    trace = trace_here("reshape")
    if isinstance(x, RefValue):
        return access.reshape_ref(trace, x, shape)
    return lax.reshape(x, shape=_static_shape(trace, shape, "reshape"))


def transpose(x: Any, axis1: int = 0, axis2: int = 1) -> Any:
    """Swap two axes: of a tensor a view, of a tile a real move."""
    rank = aval_of(x).rank if not isinstance(x, RefValue) else x.ndim
    order = list(range(rank))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    if isinstance(x, RefValue):
        return access.transpose_ref(trace_here("transpose"), x, tuple(order))
    return lax.transpose(x, permutation=tuple(order))


def concat(a: Any, b: Any) -> Any:
    """Join two tiles along their columns."""
    return lax.concatenate(_tile(a, "concat"), _tile(b, "concat"), axis=aval_of(a).rank - 1)


def fillpad(x: Any, pad_value: Any = PadValue.zero) -> Any:
    """Fill everything outside the valid region; the result is valid everywhere.

    Args:
      pad_value: PadValue.zero, .max or .min, or the numbers 0, inf, -inf.
    """
    return lax.fillpad(_tile(x, "fillpad"), pad=_pad_name(pad_value))


def _pad_name(pad: Any) -> str:
    if isinstance(pad, PadValue):
        return pad.value
    if isinstance(pad, int | float) and not isinstance(pad, bool):
        named = {0.0: "zero", float("inf"): "max", float("-inf"): "min"}.get(float(pad))
        if named:
            return named
    raise ShapeError("PL308", f"fillpad: pad_value={pad!r}", fix="pl.PadValue.zero, .max or .min, or 0, inf, -inf")


def set_validshape(x: Any, *extents: Any) -> Any:
    """Mark the leading extents of each axis as the valid region; later reductions and stores see that region only."""
    trace = trace_here("set_validshape")
    listed = extents[0] if len(extents) == 1 and isinstance(extents[0], list | tuple) else extents
    value = _tile(x, "set_validshape")
    wanted = _offsets(trace, listed, aval_of(value).rank, "the valid extents")
    known = tuple(w if isinstance(w, int) else None for w in wanted)
    return trace.process(lax.set_validshape, [value, *(access.operand(trace, w) for w in wanted)], {"known": known})


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
