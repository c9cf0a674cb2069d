"""Subscripts of whole arrays: `x[...]`, `x.at[...]`, and gathers along one axis with NumPy's names.

An integer array as a subscript counts from the end where it is negative, and is clamped where it lies outside, as in JAX. Updates
outside are dropped. Constant integers and slices obey Python's rules.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto import dtypes, numerics
from pypto.core.array import INDEXING, Array, to_numpy
from pypto.core.trace import Tracer, aval_of
from pypto.errors import ShapeError
from pypto.lax.axes import expand_dims, shape_of, squeeze
from pypto.lax.compare import ge, lt, select
from pypto.lax.convert import convert_element_type
from pypto.lax.elementwise import add
from pypto.lax.families import literal
from pypto.lax.indexing import rev, slice_window
from pypto.lax.logical import logical_or
from pypto.lax.numbering import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from pypto.lax.reduction import normal_axis
from pypto.lax.remainders import floor_mod
from pypto.lax.rounding import clamp
from pypto.lax.shape import broadcast, reshape
from pypto.lax.windowed import gather, scatter, scatter_add, scatter_max, scatter_min, scatter_mul

_ELEMENTS = GatherDimensionNumbers((), (0,), (0,))
_PLACES = ScatterDimensionNumbers((), (0,), (0,))


@dataclass(frozen=True)
class _Entry:
    """One part of a subscript: a new axis, or what is taken of an axis: a range of it, or positions (an int or an index array)."""

    axis: int | None
    range: tuple[int, int, int] | None = None
    index: Any = None


def _entries(shape: tuple[int, ...], key: Any) -> list[_Entry]:
    """A subscript, completed to one entry per axis."""
    parts: list[Any] = []
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, list):
            part = np.asarray(part, np.int32) if not part else np.asarray(part)
        if not isinstance(part, Tracer) and hasattr(part, "dtype") and to_numpy(part).dtype == np.bool_:
            mask = to_numpy(part)
            parts += [axis.astype(np.int32) for axis in np.nonzero(mask)] if mask.ndim else [None, np.arange(int(mask), dtype=np.int32)]
        else:
            parts.append(part)
    taken = sum(p is not None and p is not Ellipsis for p in parts)
    if taken > len(shape) or sum(p is Ellipsis for p in parts) > 1:
        raise ShapeError("PL301", f"{taken} subscripts for an array with {len(shape)} axes", fix="one per axis, and one `...` at most")
    if not any(p is Ellipsis for p in parts):
        parts.append(Ellipsis)
    at = next(i for i, p in enumerate(parts) if p is Ellipsis)
    parts[at : at + 1] = [slice(None)] * (len(shape) - taken)
    entries, axis = [], 0
    for part in parts:
        if part is None:
            entries.append(_Entry(None))
            continue
        entries.append(_entry(axis, shape[axis], part))
        axis += 1
    return entries


def _entry(axis: int, extent: int, part: Any) -> _Entry:
    if isinstance(part, slice):
        bounds = part.indices(extent)
        return _Entry(axis, range=(bounds[0], len(range(*bounds)), bounds[2]))
    aval = aval_of(part)
    if aval.dtype is dtypes.BOOL:
        raise ShapeError("PL304", "a traced truth value as a subscript: a shape that depends on data", fix="lax.select, or a known mask")
    if not aval.dtype.is_integer:
        raise ShapeError(
            "PL302", f"a subscript of dtype {aval.dtype.name}", fix="integers, slices, None, arrays of integers or truth values"
        )
    if isinstance(part, Tracer) or aval.shape != ():
        return _Entry(axis, index=part if isinstance(part, Tracer) else to_numpy(part).astype(np.int64))
    at = int(part)
    if not -extent <= at < extent:
        raise ShapeError("PL303", f"index {at} is outside axis {axis} of extent {extent}", fix="a constant index must exist")
    return _Entry(axis, index=at % extent)


def _is_basic(entries: Sequence[_Entry]) -> bool:
    return all(e.index is None or isinstance(e.index, int) for e in entries)


def subscript(x: Any, key: Any) -> Any:
    """`x[key]`.

    >>> import numpy as np
    >>> from pypto import Array
    >>> Array(np.float32([10, 20, 30]))[np.int32([0, 5, -1])]
    Array([10., 30., 30.], dtype=FP32)
    """
    shape = shape_of(x)
    entries = _entries(shape, key)
    return _basic(x, shape, entries) if _is_basic(entries) else _get(x, key, "clip", None)


def _basic(x: Any, shape: tuple[int, ...], entries: Sequence[_Entry]) -> Any:
    """Ranges and constant indices: a window with strides, some of it reversed, some axes dropped or new."""
    starts, limits, steps, back, drop, new = list(shape), list(shape), [1] * len(shape), [], [], []
    kept = 0
    for e in entries:
        if e.axis is None:
            new.append(kept)
            kept += 1
            continue
        start, count, step = e.range if e.range is not None else (e.index, 1, 1)
        if step < 0:
            start, step = start + step * (count - 1) if count else 0, -step
            back.append(e.axis)
        starts[e.axis] = start if count else 0
        limits[e.axis], steps[e.axis] = (start + step * (count - 1) + 1 if count else 0), step
        if e.range is None:
            drop.append(e.axis)
        else:
            kept += 1
    part = slice_window(x, starts, limits, steps)
    part = rev(part, tuple(back)) if back else part
    part = squeeze(part, tuple(drop)) if drop else part
    return expand_dims(part, tuple(new)) if new else part


# ---- index arrays: positions in the flattened array --------------------------------------------------------------


def _wrapped(index: Any, extent: int, mode: str) -> tuple[Any, Any]:
    """An index array as INT32, from 0 and inside; and where it lay outside, for mode `fill`."""
    if isinstance(index, np.ndarray):
        counted = np.where(index < 0, index + extent, index)
        outside = (counted < 0) | (counted >= extent) if mode == "fill" else None
        return np.clip(counted, 0, max(extent - 1, 0)).astype(np.int32), outside
    wide = convert_element_type(index, dtypes.INT32)
    counted = select(lt(wide, 0), add(wide, extent), wide)
    outside = logical_or(lt(counted, 0), ge(counted, extent)) if mode == "fill" else None
    return clamp(np.int32(0), counted, np.int32(max(extent - 1, 0))), outside


def _positions(shape: tuple[int, ...], entries: Sequence[_Entry], mode: str) -> tuple[Any, tuple[int, ...]]:
    """Row-major positions of what a subscript takes, and the shape it has; -1 where an index lies outside and the mode is `fill`.

    Index arrays broadcast against each other; their axes stand where the first of them does, or in front when a range or a new axis
    stands between them.
    """
    if math.prod(shape) >= 2**31:
        raise ShapeError("PL301", f"index arrays into {list(shape)}: more than 2**31 elements", fix="use lax.gather with INT64 indices")
    advanced = [i for i, e in enumerate(entries) if e.index is not None]
    apart = any(b - a != 1 for a, b in itertools.pairwise(advanced))
    shared = np.broadcast_shapes(*(() if isinstance(e.index, int) else shape_of(e.index) for e in entries if e.index is not None))
    first = 0 if apart or not advanced else sum(e.index is None for e in entries[: advanced[0]])
    extents = [1 if e.axis is None else e.range[1] for e in entries if e.index is None]  # type: ignore[index]
    result = (*extents[:first], *shared, *extents[first:])
    total: Any = np.zeros((), np.int32)
    gone: Any = None
    place = iter([*range(first), *range(first + len(shared), len(result))])
    for e in entries:
        if e.axis is None:
            next(place)
            continue
        stride = math.prod(shape[e.axis + 1 :])
        if e.range is not None:
            start, count, step = e.range
            at, lies = (start + step * np.arange(count, dtype=np.int32)), next(place)
            part = (at * stride).astype(np.int32).reshape([-1 if i == lies else 1 for i in range(len(result))])
        else:
            index, outside = _wrapped(np.asarray(e.index) if isinstance(e.index, int) else e.index, shape[e.axis], mode)
            own = shape_of(index)
            lined = (*(1 for _ in range(first + len(shared) - len(own))), *own, *(1 for _ in range(len(result) - first - len(shared))))
            part = _lined(index, lined) * np.int32(stride)
            if outside is not None:
                where = _lined(outside, lined)
                gone = where if gone is None else _either(gone, where)
        total = total + part if isinstance(total, np.ndarray) and isinstance(part, np.ndarray) else add(total, part)
    if gone is not None:
        total = np.where(gone, -1, total).astype(np.int32) if _known(gone, total) else select(gone, literal(-1, dtypes.INT32), total)
    return total, result


def _known(*values: Any) -> bool:
    return all(isinstance(v, np.ndarray) for v in values)


def _lined(x: Any, shape: tuple[int, ...]) -> Any:
    return x.reshape(shape) if isinstance(x, np.ndarray) else reshape(x, shape=shape)


def _either(a: Any, b: Any) -> Any:
    return a | b if _known(a, b) else logical_or(a, b)


def _spread(x: Any, shape: tuple[int, ...]) -> Any:
    return np.broadcast_to(x, shape) if isinstance(x, np.ndarray) else x if shape_of(x) == shape else broadcast(x, shape=shape)


def _get(x: Any, key: Any, mode: str, fill_value: Any) -> Any:
    shape = shape_of(x)
    where, result = _positions(shape, _entries(shape, key), "fill" if mode == "fill" else "clip")
    flat = reshape(x, shape=(math.prod(shape),))
    vectors = _lined(_spread(where, result), (*result, 1))
    return gather(flat, vectors, _ELEMENTS, (1,), mode=mode, fill_value=fill_value)


class At:
    """`x.at`: what `x.at[key]` does is said by the method called on it; the array itself never changes.

    >>> import numpy as np
    >>> from pypto import Array
    >>> Array(np.float32([1, 2, 3])).at[np.int32([0, 0, 9])].add(10.0)
    Array([21.,  2.,  3.], dtype=FP32)
    """

    def __init__(self, x: Any) -> None:
        self._x = x

    def __getitem__(self, key: Any) -> _At:
        return _At(self._x, key)


class _At:
    def __init__(self, x: Any, key: Any) -> None:
        self._x, self._key = x, key

    def get(self, *, mode: Any = "clip", fill_value: Any = None) -> Any:
        """The elements; `mode` says what an index outside reads: `clip`, or `fill`."""
        how = GatherScatterMode.from_any(mode)
        name = "fill" if how is GatherScatterMode.FILL_OR_DROP else "clip"
        return _get(self._x, self._key, name, fill_value)

    def _put(self, op: Callable[..., Any], values: Any, mode: Any) -> Any:
        x, shape, kind = self._x, shape_of(self._x), aval_of(self._x).dtype
        how = "clip" if GatherScatterMode.from_any(mode) is GatherScatterMode.CLIP else "fill"
        where, result = _positions(shape, _entries(shape, self._key), how)
        if isinstance(values, bool | int | float):
            values = numerics.round_literal(values, kind)
        value = values if isinstance(values, Tracer | Array) else Array(values)
        value = value if value.dtype is kind else convert_element_type(value, kind)
        count = math.prod(result)
        updates = reshape(_spread(value, result), shape=(count,))
        made = op(reshape(x, shape=(math.prod(shape),)), _lined(_spread(where, result), (count, 1)), updates, _PLACES, mode=how)
        return reshape(made, shape=shape)

    def set(self, values: Any, *, mode: Any = None) -> Any:
        """A copy with these elements replaced; of several values for one element the last stays."""
        return self._put(scatter, values, mode)

    def add(self, values: Any, *, mode: Any = None) -> Any:
        """A copy with values added, one after the other."""
        return self._put(scatter_add, values, mode)

    def multiply(self, values: Any, *, mode: Any = None) -> Any:
        """A copy with elements multiplied, one after the other."""
        return self._put(scatter_mul, values, mode)

    mul = multiply

    def min(self, values: Any, *, mode: Any = None) -> Any:
        """A copy with the smaller of each element and its values."""
        return self._put(scatter_min, values, mode)

    def max(self, values: Any, *, mode: Any = None) -> Any:
        """A copy with the larger of each element and its values."""
        return self._put(scatter_max, values, mode)


# ---- along one axis ----------------------------------------------------------------------------------------------


def take(x: Any, indices: Any, axis: int | None = None, mode: str | None = None, fill_value: Any = None) -> Any:
    """Elements, or slices along an axis, at the places an integer array names, as `jax.numpy.take`.

    Args:
      axis: the axis; None takes of the flattened array.
      mode: `fill` (the default): an index outside reads `fill_value`, and a negative one counts from the end; `clip`: clamped, a
        negative one to 0; `wrap`: modulo the extent.
      fill_value: by default NaN, the least signed or the largest unsigned integer.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.take(np.float32([10, 20, 30]), np.int32([0, 5, -1])), lax.take(np.int32([10, 20, 30]), np.int32([0, 5]), mode="clip")
    (Array([10., nan, 30.], dtype=FP32), Array([10, 30], dtype=INT32))
    """
    if axis is None:
        x, axis = reshape(x, shape=(math.prod(shape_of(x)),)), 0
    shape, at = shape_of(x), normal_axis("take", len(shape_of(x)), axis)
    index, how = _taken(indices, shape[at], mode)
    rank = len(shape_of(index))
    offset = tuple(i for i in range(len(shape) - 1 + rank) if not at <= i < at + rank)
    numbers = GatherDimensionNumbers(offset, (at,), (at,))
    sizes = tuple(1 if i == at else d for i, d in enumerate(shape))
    return gather(x, reshape(index, shape=(*shape_of(index), 1)), numbers, sizes, mode=how, fill_value=fill_value)


def take_along_axis(x: Any, indices: Any, axis: int = -1, mode: str | None = None, fill_value: Any = None) -> Any:
    """out[i, j] = x[i, indices[i, j]] for the last axis, as `jax.numpy.take_along_axis`; modes as `take`.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.take_along_axis(np.int32([[1, 2], [3, 4]]), np.int32([[1], [0]]))
    Array([[2],
           [3]], dtype=INT32)
    """
    shape, at = shape_of(x), normal_axis("take_along_axis", len(shape_of(x)), axis)
    if len(shape_of(indices)) != len(shape):
        raise ShapeError("PL301", f"take_along_axis: {list(shape_of(indices))} for {list(shape)}", fix="the same number of axes")
    index, how = _taken(indices, shape[at], mode)
    own = shape_of(index)
    whole = tuple(n if i == at else max(n, d) for i, (n, d) in enumerate(zip(own, shape, strict=True)))
    if any({n, d} - {1, w} for i, (n, d, w) in enumerate(zip(own, shape, whole, strict=True)) if i != at):
        raise ShapeError("PL301", f"take_along_axis: {list(own)} for {list(shape)} along axis {at}", fix="equal or unit extents elsewhere")
    source = tuple(d if i == at else w for i, (d, w) in enumerate(zip(shape, whole, strict=True)))
    others = tuple(i for i in range(len(shape)) if i != at)
    numbers = GatherDimensionNumbers((), (at,), (at,), others, others)
    spread, places = broadcast(x, shape=source) if source != shape else x, broadcast(index, shape=whole) if whole != own else index
    return gather(spread, reshape(places, shape=(*whole, 1)), numbers, (1,) * len(shape), mode=how, fill_value=fill_value)


def _taken(indices: Any, extent: int, mode: str | None) -> tuple[Any, str]:
    index = indices if isinstance(indices, Tracer | Array) else Array(indices)
    if not index.dtype.is_integer:
        raise ShapeError("PL302", f"take: indices {index.aval}", fix="integers")
    if mode == "clip":
        return index, "clip"
    if mode == "wrap":
        return floor_mod(index, literal(extent, index.dtype)), "promise_in_bounds"
    if mode not in (None, "fill"):
        raise ShapeError("PL308", f"take: mode {mode!r}", fix="fill, clip or wrap")
    if not index.dtype.is_signed:
        return index, "fill"
    wide = convert_element_type(index, dtypes.INT32) if index.dtype.bits < 32 else index
    return select(lt(wide, 0), add(wide, literal(extent, wide.dtype)), wide), "fill"


INDEXING.update(get=subscript, at=At)
