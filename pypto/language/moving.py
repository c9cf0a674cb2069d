"""Making, slicing, loading, storing and padding: the data movement spellings of the language."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from pypto import dtypes, lax
from pypto.core.avals import TENSOR, TILE, RefAval
from pypto.core.index import dim
from pypto.core.trace import aval_of
from pypto.dtypes import dtype_of
from pypto.errors import ShapeError
from pypto.language import access
from pypto.language.access import Window
from pypto.language.spelled import as_tile, trace_here
from pypto.language.trace import PlTrace
from pypto.language.values import RefValue, TileValue, index_of
from pypto.platform import Space


class PadValue(enum.Enum):
    """What fills the padding: 0, the largest or the smallest value of the dtype."""

    zero = "zero"
    max = "max"
    min = "min"


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
        raise ShapeError(
            "PL308", f"pl.arange makes one row of integers, not {kind.name}{list(extents)}", fix="shape [1, n], an integer dtype"
        )
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
    extents = tuple(dim(index_of(d) or 0) for d in dims)
    static = tuple(d if isinstance(d, int) else None for d in extents)
    dynamic = [d for d, s in zip(dims, static, strict=True) if s is None]
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


def slice(x: Any, sizes: Sequence[Any], offsets: Sequence[Any], valid_shape: Sequence[Any] | None = None) -> Any:
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
    value = source if isinstance(source, RefValue) and not trace.in_region else as_tile(source, "assemble")
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
    return lax.concatenate(as_tile(a, "concat"), as_tile(b, "concat"), axis=aval_of(a).rank - 1)


def fillpad(x: Any, pad_value: Any = PadValue.zero) -> Any:
    """Fill everything outside the valid region; the result is valid everywhere.

    Args:
      pad_value: PadValue.zero, .max or .min, or the numbers 0, inf, -inf.
    """
    return lax.fillpad(as_tile(x, "fillpad"), pad=_pad_name(pad_value))


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
    value = as_tile(x, "set_validshape")
    wanted = _offsets(trace, listed, aval_of(value).rank, "the valid extents")
    known = tuple(w if isinstance(w, int) else None for w in wanted)
    return trace.process(lax.set_validshape, [value, *(access.operand(trace, w) for w in wanted)], {"known": known})
