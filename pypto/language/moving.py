"""Slicing, loading, storing, reshaping: the data movement spellings of the language."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pypto import lax
from pypto.core.avals import TENSOR, TILE, show_shape
from pypto.core.trace import aval_of
from pypto.dtypes import dtype_of
from pypto.errors import CallError, ShapeError
from pypto.language import access
from pypto.language.access import Window
from pypto.language.atomics import combination
from pypto.language.creating import static_shape
from pypto.language.levels import by_level, only_at
from pypto.language.padding import narrowed, pad_name, set_validshape
from pypto.language.spelled import as_tile, trace_here
from pypto.language.spelled import max as larger
from pypto.language.spelled import min as smaller
from pypto.language.trace import PlTrace
from pypto.language.values import RefValue, TileValue
from pypto.lax.memory import dropped
from pypto.lax.placing import check_bits, check_space, reinterpret_as, scaled
from pypto.lax.reduction import normal_axes
from pypto.platform import Space


def offsets_of(trace: PlTrace, values: Sequence[Any], rank: int, what: str) -> tuple[Any, ...]:
    if len(values) != rank:
        raise ShapeError("PL301", f"{what}: {len(values)} entries for {rank} axes", fix="one per axis")
    return tuple(access.offset(trace, v, what) for v in values)


@by_level
def slice(
    x: Any,
    sizes: Sequence[Any],
    offsets: Sequence[Any],
    valid_shape: Sequence[Any] | None = None,
    drop_dims: Sequence[int] | None = None,
    pad_value: Any = None,
    clamp: bool = False,
) -> Any:
    """A window: sizes first, then offsets. Outside a region it is a view, inside it is loaded.

    Args:
      valid_shape: the leading part that carries data; bounds then apply to that part only, and the rest is padding, which reads
        as zero and may not reach an output. Of a partly valid source it is cut to what is valid there.
      drop_dims: axes of extent 1, valid there, that the result does not have.
      pad_value: what the padding holds instead, `PadValue` or 0, inf, -inf; the valid region stays what it is.
      clamp: cut the valid region where the window runs past the source's extent, instead of refusing it; the window is not
        shifted. Of a tensor only.
    Errors:
      PL303 for a window past the extent, PL304 for a run-time size inside a region, PL307 for `valid_shape=`, `pad_value=` or
      `clamp=` outside one and for `clamp=` of a tile, PL308 for an axis that cannot be dropped.
    """
    trace = trace_here("slice")
    starts, wanted = offsets_of(trace, offsets, x.ndim, "the offsets of slice"), offsets_of(trace, sizes, x.ndim, "the sizes of slice")
    valid = None if valid_shape is None else offsets_of(trace, valid_shape, x.ndim, "valid_shape")
    drop = _dropped_axes(x, wanted, valid, drop_dims)
    pad = None if pad_value is None else pad_name("slice", pad_value)
    window = Window(starts, wanted, drop)
    only_at(TENSOR, "slice", (x,), "clamp where the tile is loaded: pl.load(..., clamp=True)", clamp=clamp)
    if isinstance(x, TileValue):
        if clamp:
            raise ShapeError("PL307", "slice: clamp=True of a tile: its window must lie inside", fix="clamp where the tile is loaded")
        part = access.slice_tile(trace, x, window)
        return _padded(trace, part if valid is None else narrowed(trace, part, dropped(valid, drop)), pad)
    if not trace.in_region:
        if valid is None and pad is None and not clamp:
            return access.view(trace, x, window)
        raise ShapeError(
            "PL307",
            "slice with valid_shape=, pad_value= or clamp= makes a tile",
            fix="use it inside a region, where the padded load happens",
        )
    return _padded(trace, _loaded(trace, x, window, valid, clamp), pad)


def _dropped_axes(x: Any, sizes: Sequence[Any], valid: Sequence[Any] | None, drop_dims: Sequence[int] | None) -> tuple[int, ...]:
    """The axes a slice drops, from 0, ascending."""
    if not drop_dims:
        return ()
    axes = normal_axes("slice", x.ndim, tuple(int(a) for a in drop_dims))
    for a in axes:
        if not isinstance(sizes[a], int) or sizes[a] != 1 or (valid is not None and not (isinstance(valid[a], int) and valid[a] == 1)):
            raise ShapeError(
                "PL308", f"slice: drop_dims={list(drop_dims)}, but axis {a} is not one valid element", fix="drop axes of extent 1"
            )
    if len(axes) == x.ndim:
        raise ShapeError("PL308", "slice: drop_dims drops every axis", fix="pl.read(x, [...]) reads one element")
    return axes


def _loaded(trace: PlTrace, x: Any, window: Window, valid: Sequence[Any] | None, clamp: bool, **place: Any) -> Any:
    """A window of a tensor as a tile, its valid region cut to `valid`, and with `clamp` to what lies inside the tensor."""
    if clamp:
        window, inside = _clamped(trace, x, window)
        valid = inside if valid is None else [smaller(i, v) for i, v in zip(inside, valid, strict=True)]
    if valid is not None and x.aval.valid is not None:
        return narrowed(trace, access.load(trace, x, window, **place), dropped(tuple(valid), window.drop))
    return access.load(trace, x, window, valid, **place)


def _clamped(trace: PlTrace, x: Any, window: Window) -> tuple[Window, list[Any]]:
    """A window that may run past the end, and how much of it lies inside. It is never shifted to lie inside."""
    if x.aval.valid is not None:
        raise ShapeError("PL303", f"clamp=True of {access.called(x)}, which is partly valid already", fix="pass valid_shape= instead")
    starts, inside = [], []
    for axis, (start, size) in enumerate(zip(window.starts, window.sizes, strict=True)):
        extent = access.extent(trace, x, axis)
        starts.append(smaller(start, extent))  # a window altogether past the end loads nothing, from the end
        inside.append(larger(smaller(size, extent - start), 0))
    return Window(tuple(starts), window.sizes, window.drop), inside


def _padded(trace: PlTrace, part: Any, pad: str | None) -> Any:
    """A tile with a pad value in its padding; its valid region stays what it was."""
    if pad is None or part.aval.valid is None:
        return part
    extents = [trace.process(lax.valid_extent, [part], {"axis": a}) if v is None else v for a, v in enumerate(part.aval.valid)]
    return set_validshape(lax.fillpad(part, pad=pad), extents)


def load(
    tensor: Any,
    offsets: Sequence[Any],
    shapes: Sequence[Any],
    valid_shape: Sequence[Any] | None = None,
    target_memory: Space = Space.VEC,
    clamp: bool = False,
) -> Any:
    """Load a window of a tensor into a tile-level tile: offsets first, then sizes. `valid_shape` and `clamp` as in `slice`.

    Errors:
      PL303 for a window past the extent, PL304 for a run-time size, PL307 for a tile, PL401 for a memory
      other than VEC and MAT, PL501 outside a region.
    """
    trace = trace_here("load")
    window = Window(
        offsets_of(trace, offsets, tensor.ndim, "the offsets of load"), offsets_of(trace, shapes, tensor.ndim, "the shape of load")
    )
    valid = None if valid_shape is None else offsets_of(trace, valid_shape, tensor.ndim, "valid_shape")
    if not isinstance(tensor, RefValue):
        raise ShapeError("PL307", f"pl.load reads a GM tensor, not {aval_of(tensor)}", fix="pl.slice or a subscript for tiles")
    return _loaded(trace, tensor, window, valid, clamp, level=TILE, space=check_space("load", target_memory, (Space.VEC, Space.MAT)))


def assemble(target: Any, source: Any, offset: Sequence[Any], *, atomic: Any = None) -> Any:
    """Write `source` into `target` at an offset, and return `target`: the same as a subscript store.

    Of a partly valid tile only the valid part is written. Nothing is converted. Leading axes of extent 1 that only one of them has
    are dropped or added.

    Args:
      atomic: `AtomicType.Add`, `.Max` or `.Min` combine with what a tensor holds there, see `lax.accumulate`; blocks update in
        ascending order.
    Errors:
      PL203 for a parameter that is no output, PL301, PL302 and PL303 for what does not fit. With `atomic` PL306 in checked runs for
      an element nobody wrote before, PL305, PL307 into a tile, PL501 outside a region.
    """
    trace = trace_here("assemble")
    value = source if isinstance(source, RefValue) and not trace.in_region else as_tile(source, "assemble")
    value = _of_rank(trace, value, target.ndim)
    extents = value.shape
    if len(extents) != target.ndim:
        shapes = f"[{show_shape(extents)}] into [{show_shape(target.shape)}]"
        raise ShapeError("PL301", f"assemble: {shapes}", fix="give both the same number of axes")
    sizes = tuple(access.extent(trace, value, a) for a in range(len(extents)))
    access.store(trace, target, Window(offsets_of(trace, offset, target.ndim, "the offset of assemble"), sizes), value, combination(atomic))
    return target


def _of_rank(trace: PlTrace, value: Any, rank: int) -> Any:
    """A value with as many axes as this, where leading axes of extent 1 are the difference."""
    more = value.ndim - rank
    if more == 0 or any(d != 1 for d in value.shape[: max(0, more)]):
        return value
    if isinstance(value, RefValue):
        kept = [access.extent(trace, value, a) for a in range(max(0, more), value.ndim)]
        return access.reshape_ref(trace, value, [1] * -more + kept)
    return lax.reshape.bind(value, shape=(1,) * -more + value.shape[max(0, more) :])


def store(
    tile: Any,
    offsets: Sequence[Any],
    tensor: Any = None,
    shapes: Sequence[Any] | None = None,
    *,
    output_tensor: Any = None,
    atomic: Any = None,
) -> Any:
    """Store a tile's valid part into a tensor, and return the tensor: `assemble` the other way round.

    Args:
      shapes: the extents of the window of the tensor, for a tile that has its elements under another shape, such as a [rows, columns]
        tile for [1, rows, columns] of a tensor of three axes, or of which only the leading part is written; by default the tile's.
      output_tensor: another name of `tensor`.
      atomic: as in `assemble`.
    Errors:
      PL601 without a tensor, or with two, PL301 for `shapes` that are neither, PL307 for a tile target; otherwise as `assemble`.
    """
    if (tensor is None) == (output_tensor is None):
        raise CallError("PL601", "pl.store takes one tensor", fix="pl.store(tile, offsets, tensor), or output_tensor=tensor")
    tensor = output_tensor if tensor is None else tensor
    if not isinstance(tensor, RefValue):
        raise ShapeError("PL307", "pl.store writes to a GM tensor", fix="pl.assemble or a subscript for tiles")
    return assemble(tensor, tile if shapes is None else _under(tile, shapes), offsets, atomic=atomic)


def _under(tile: Any, shapes: Sequence[Any]) -> Any:
    """A tile under the shape of the window it goes to, or the leading part of it that the window takes."""
    value, trace = as_tile(tile, "store"), trace_here("store")
    window = static_shape(trace, shapes, "the shapes of store")
    if window in (value.shape, value.aval.valid):
        return value
    if math.prod(window) == math.prod(value.shape):
        return lax.reshape(value, shape=window)
    if len(window) == value.ndim and all(n <= d for n, d in zip(window, value.shape, strict=True)):
        return access.slice_tile(trace, value, Window((0,) * len(window), window))
    raise ShapeError(
        "PL301",
        f"store: a tile [{show_shape(value.shape)}] into a window {list(window)}",
        fix="as many elements as the tile has, or its leading part",
    )


def read(x: Any, indices: Any) -> Any:
    """One element as a scalar; `indices` is a list, or one flat number for a value of one axis.

    Every read is an unknown of its own: two reads of one element are not assumed to be equal.

    Errors:
      PL303 for an index outside the extent.
    """
    trace = trace_here("read")
    return access.read(trace, x, _element(trace, x, indices))


def write(x: Any, indices: Any, value: Any) -> Any:
    """Set one element of a tensor or tile, in place, and return it; the value takes the element's dtype if it is a number or an integer.

    A wider integer scalar, such as a loop index, keeps its low bits; that it fits is checked in checked runs.

    Errors:
      PL203 for a parameter that is no output, PL302 for a float into an integer, PL303 for an index outside the extent, PL308 for an
      integer that the element's dtype does not hold: of a number always, of a scalar in checked runs.
    """
    trace = trace_here("write")
    starts = _element(trace, x, indices)
    access.store(trace, x, Window(starts, (1,) * len(starts), tuple(range(len(starts)))), value)
    return x


def _element(trace: PlTrace, x: Any, indices: Any) -> tuple[Any, ...]:
    listed = indices if isinstance(indices, list | tuple) else [indices]
    if len(listed) == 1 and x.ndim > 1 and all(d == 1 for d in x.shape[:-1]):
        listed = [0] * (x.ndim - 1) + list(listed)  # a flat index into one row
    return offsets_of(trace, listed, x.ndim, "the indices")


def reshape(x: Any, shape: Sequence[Any]) -> Any:
    """The same elements in row-major order under another shape; of a tensor it is a view.

    Errors:
      PL301 when the number of elements differs, or a window with gaps would have to be copied.
    """
    trace = trace_here("reshape")
    if isinstance(x, RefValue):
        return access.reshape_ref(trace, x, shape)
    return lax.reshape(x, shape=static_shape(trace, shape, "reshape"))


def transpose(x: Any, axis1: int = 0, axis2: int = 1) -> Any:
    """Swap two axes: of a tensor a view, of a tile a real move. Bits are kept.

    >>> import numpy as np
    >>> transpose(np.int32([[1, 2], [3, 4]]))
    Array([[1, 3],
           [2, 4]], dtype=INT32)
    """
    rank = aval_of(x).rank if not isinstance(x, RefValue) else x.ndim
    order = list(range(rank))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    if isinstance(x, RefValue):
        return access.transpose_ref(trace_here("transpose"), x, tuple(order))
    return lax.transpose(x, permutation=tuple(order))


def concat(a: Any, b: Any) -> Any:
    """Join two tiles along their columns.

    Errors:
      PL302 for two dtypes, PL301 for another number of rows.

    >>> import numpy as np
    >>> concat(np.int32([[1, 2]]), np.int32([[3]]))
    Array([[1, 2, 3]], dtype=INT32)
    """
    return lax.concatenate([as_tile(a, "concat"), as_tile(b, "concat")], aval_of(a).rank - 1)


def reinterpret_view(x: Any, dtype: Any, *, shape: Sequence[Any] | None = None) -> Any:
    """The same bytes as elements of another dtype.

    Of a tensor, to a dtype of the same width, it is a view: writing through it reaches the buffer. To another width, and of a
    tile, it is a value.

    Args:
      dtype: a dtype of whole bytes, other than x's.
      shape: constant extents of as many bytes; by default the last axis scales with the width.
    Errors:
      PL305 for a dtype without whole bytes or the one it has, PL301 when rows are no whole number of elements.

    >>> import numpy as np
    >>> reinterpret_view(np.float32([[1.0, 2.0]]), "INT16")
    Array([[    0, 16256,     0, 16384]], dtype=INT16)
    """
    kind = dtype_of(dtype)
    source = aval_of(x).dtype
    check_bits("reinterpret_view", source, kind)
    if isinstance(x, RefValue) and source.itemsize == kind.itemsize:
        view = access.retyped(x.trace, x, kind)
        return view if shape is None else access.reshape_ref(x.trace, view, shape)
    if isinstance(x, RefValue) and not x.trace.in_region:
        raise access.outside(f"reinterpret_view of {access.called(x)} with another width")
    value = as_tile(x, "reinterpret_view")
    if shape is None:
        return reinterpret_as(value, kind)
    extents = static_shape(value.trace, shape, "reinterpret_view") if isinstance(value, TileValue) else tuple(int(d) for d in shape)
    count, wanted = scaled(math.prod(aval_of(value).static_shape), source, kind), math.prod(extents)
    if count != wanted:
        raise ShapeError(
            "PL301",
            f"reinterpret_view: {list(extents)} of {kind.name} needs {wanted * kind.itemsize} bytes, {aval_of(value)} has "
            f"{math.prod(aval_of(value).static_shape) * source.itemsize}",
            fix="keep the number of bytes",
        )
    return reinterpret_as(value, kind, extents)


def view(x: Any, shape: Sequence[Any], valid_shape: Sequence[Any] | None = None, *, layout: Any = None) -> Any:
    """A tensor under another shape, sharing its memory: `pl.tensor.view`.

    Args:
      shape: as many elements.
      valid_shape: the leading extents that hold data; loads through the view see that part.
      layout: ND only: buffers are row-major.
    Errors:
      PL307 for a tile, PL301 for another number of elements, PL303 for a valid shape that does not lie in the shape, PL308 for
      another layout.
    """
    trace = trace_here("tensor.view")
    if not isinstance(x, RefValue):
        raise ShapeError("PL307", f"pl.tensor.view of {aval_of(x)}", fix="pl.reshape for tiles")
    if layout is not None and str(layout).upper() not in ("ND", "TENSORLAYOUT.ND"):
        raise ShapeError("PL308", f"tensor.view: layout={layout!r}", fix="buffers are row-major (ND)")
    result = access.reshape_ref(trace, x, shape)
    if valid_shape is None:
        return result
    return access.marked(trace, result, offsets_of(trace, valid_shape, result.ndim, "valid_shape"))
