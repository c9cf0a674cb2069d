"""Making and moving: fill, iota, reshape, broadcast, transpose, slice, concatenate, and the valid region."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pypto import dtypes
from pypto.core.avals import ArrayAval, Aval, ScalarAval, TileAval, Valid
from pypto.core.ir import Literal
from pypto.core.op import Native
from pypto.core.trace import aval_of
from pypto.dtypes import DType, dtype_of
from pypto.errors import ShapeError
from pypto.lax.families import as_dtype, literal, movement, sample_values

_X = sample_values(dtypes.FP32, (3, 4))


def made(shape: tuple[int, ...], dtype: DType, level: str | None) -> Aval:
    """The abstract value of a freshly made array: a tile where a level is given."""
    return ArrayAval(shape, dtype) if level is None else TileAval(shape, dtype, level)


def moved(x: Aval, shape: tuple[Any, ...], valid: Valid | None = None) -> Aval:
    """`x` under another shape, with this valid region."""
    if isinstance(x, TileAval):
        return replace(x, shape=shape, valid=None if valid == shape else valid)
    return ArrayAval(shape, x.dtype)


# ---- making ------------------------------------------------------------------------------------------------------


@movement(
    samples=lambda: [((np.float32(1.5),), {"shape": (2, 3), "dtype": dtypes.FP32, "level": None})],
    abstract=lambda value, *, shape, dtype, level: made(shape, dtype, level),
    valid=lambda value, *, shape, **_: shape,
    pto=Native("pto.texpands"),
    unit="vector",
)
def fill(value: Any, *, shape: tuple[int, ...], dtype: DType, level: str | None = None) -> Any:
    """An array of one value; `full` is the spelling for users."""
    return np.full(shape, np.asarray(value).astype(dtype.storage), dtype.storage)


def full(shape: Sequence[int], value: Any, dtype: Any = None, *, level: str | None = None) -> Any:
    """An array of one value.

    Args:
      shape: extents.
      value: a number, rounded once to the dtype, or a scalar of it.
      dtype: the dtype of the result; by default the value's.

    >>> full((2,), 3, "INT8")
    Array([3, 3], dtype=INT8)
    """
    kind = aval_of(value).dtype if dtype is None else dtype_of(dtype)
    scalar_aval = aval_of(value)
    if isinstance(value, bool | int | float):
        value = literal(value, kind)
    elif scalar_aval.shape != ():
        raise ShapeError("PL301", f"full: the value has shape {list(scalar_aval.shape)}", fix="give one number")
    else:
        value = as_dtype(value, scalar_aval, kind)
    return fill(value, shape=tuple(int(d) for d in shape), dtype=kind, level=level)


@movement(
    samples=lambda: [((np.int32(3),), {"shape": (1, 5), "dtype": dtypes.INT32, "descending": False, "level": None})],
    abstract=lambda start, *, shape, dtype, descending, level: made(shape, dtype, level),
    valid=lambda start, *, shape, **_: shape,
    pto=Native("pto.tci"),
    unit="vector",
)
def ramp(start: Any, *, shape: tuple[int, ...], dtype: DType, descending: bool = False, level: str | None = None) -> Any:
    """start, start + 1, ... along the last axis; `iota` and `pl.arange` are the spellings for users."""
    steps = np.arange(shape[-1], dtype=np.int64)
    line = (np.asarray(start).astype(np.int64) + (-steps if descending else steps)).astype(dtype.storage)
    return np.broadcast_to(line, shape).copy()


def iota(dtype: Any, size: int) -> Any:
    """0, 1, ..., size - 1.

    >>> iota("INT32", 3)
    Array([0, 1, 2], dtype=INT32)
    """
    kind = dtype_of(dtype)
    return ramp(literal(0, kind), shape=(int(size),), dtype=kind)


@movement(
    samples=lambda: [((), {"shape": (2, 4), "dtype": dtypes.FP32, "level": "tile", "space": None})],
    abstract=lambda *, shape, dtype, level, space=None: TileAval(shape, dtype, level, space),
    valid=lambda *, shape, **_: shape,
    taint=lambda taints, arrays, params: np.ones(params["shape"], np.bool_),
    pto=Native("pto.alloc_tile"),
)
def empty(*, shape: tuple[int, ...], dtype: DType, level: str, space: Any = None) -> Any:
    """An on-chip tile nobody has written; it reads as zero and its elements may not reach an output."""
    return np.zeros(shape, dtype.storage)


# ---- moving ------------------------------------------------------------------------------------------------------


def reshape_valid(old: tuple[int, ...], valid: Valid, new: tuple[int, ...]) -> Valid:
    """The valid region under a new shape: it must stay a box anchored at the origin.

    Leading unit axes come and go freely; otherwise only the first axis may be partly valid, in whole rows.

    Errors:
      PL301 when it does not stay a box.
    """
    if valid == old:
        return new
    wide = [(d, v) for d, v in zip(old, valid, strict=True) if d != 1]
    kept = [d for d in new if d != 1]
    if kept == [d for d, _ in wide]:
        rest = iter(v for _, v in wide)
        return tuple(1 if d == 1 else next(rest) for d in new)
    if None not in valid and all(d == v for d, v in wide[1:]):
        count = math.prod(v for v in valid if v is not None)
        tail = math.prod(new[1:])
        if tail and count % tail == 0:
            return (count // tail, *new[1:])
        if len(kept) == 1:  # a flat row: its leading elements are valid
            return tuple(1 if d == 1 else count for d in new)
    raise ShapeError(
        "PL301",
        f"reshape: the valid region {list(valid)} of {list(old)} is no box in {list(new)}",
        fix="fill it first: pl.fillpad(x, pad_value=...)",
    )


def _reshape_aval(x: Aval, *, shape: tuple[int, ...]) -> Aval:
    if math.prod(x.static_shape) != math.prod(shape):
        raise ShapeError(
            "PL301", f"reshape: {x} has {math.prod(x.static_shape)} elements, {list(shape)} has {math.prod(shape)}", fix="keep the number"
        )
    valid = reshape_valid(x.static_shape, x.valid, shape) if isinstance(x, TileAval) and x.valid is not None else None
    return moved(x, shape, valid)


@movement(
    samples=lambda: [((_X,), {"shape": (2, 6)}), ((_X,), {"shape": (1, 12)})],
    abstract=_reshape_aval,
    valid=lambda x, *, shape, old: reshape_valid(old, x, shape),
    pto=Native("pto.treshape"),
    golden="jax.lax.reshape",
)
def reshape(x: Any, *, shape: tuple[int, ...]) -> Any:
    """The same elements in row-major order under another shape.

    Errors:
      PL301 when the number of elements differs, or a partly valid region would not stay a box.
    """
    return np.reshape(x, shape).copy()


def _transpose_aval(x: Aval, *, permutation: tuple[int, ...]) -> Aval:
    if sorted(permutation) != list(range(x.rank)):
        raise ShapeError("PL308", f"transpose: {list(permutation)} is no permutation of {x.rank} axes", fix="name each axis once")
    pick = tuple(x.shape[a] for a in permutation)
    return moved(x, pick, _permuted(x.valid, permutation) if isinstance(x, TileAval) and x.valid else None)


def _permuted(valid: Valid, permutation: tuple[int, ...]) -> Valid:
    return tuple(valid[a] for a in permutation)


@movement(
    samples=lambda: [((_X,), {"permutation": (1, 0)})],
    abstract=_transpose_aval,
    valid=lambda x, *, permutation: _permuted(x, permutation),
    pto=Native("pto.ttrans"),
    golden="jax.lax.transpose",
    unit="vector",
)
def transpose(x: Any, *, permutation: tuple[int, ...]) -> Any:
    """Reorder the axes: result axis i is operand axis `permutation[i]`. A real move, not a view."""
    return np.transpose(x, permutation).copy()


def _broadcast_aval(x: Aval, *, shape: tuple[int, ...]) -> Aval:
    try:
        np.broadcast_shapes(x.static_shape, shape)
        fits = np.broadcast_shapes(x.static_shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError("PL301", f"broadcast: {list(x.shape)} does not stretch to {list(shape)}", fix="only unit extents stretch")
    if isinstance(x, ScalarAval):
        return ArrayAval(shape, x.dtype)
    return moved(x, shape, _broadcast_valid(x.valid, x.static_shape, shape) if isinstance(x, TileAval) and x.valid else None)


def _broadcast_valid(valid: Valid, old: tuple[int, ...], shape: tuple[int, ...]) -> Valid:
    pad = len(shape) - len(old)
    return tuple(d if i < pad or old[i - pad] != d else valid[i - pad] for i, d in enumerate(shape))


@movement(
    samples=lambda: [((_X[:1],), {"shape": (3, 4)}), ((_X[:, :1],), {"shape": (3, 4)})],
    abstract=_broadcast_aval,
    valid=lambda x, *, shape, old: _broadcast_valid(x, old, shape),
    pto=Native("pto.trowexpand"),
    golden="jax.numpy.broadcast_to",
    unit="vector",
)
def broadcast(x: Any, *, shape: tuple[int, ...]) -> Any:
    """Stretch unit extents to a shape, aligned on the right as NumPy does."""
    return np.broadcast_to(x, shape).copy()


def check_window(name: str, what: str, shape: tuple[Any, ...], sizes: Sequence[int | None], starts: Sequence[Any], at: Any = None) -> None:
    """A window must lie inside the extents; what is known only at run time is checked then.

    Errors:
      PL303 naming variable, axis, window and extent.
    """
    for axis, (extent, size, start) in enumerate(zip(shape, sizes, starts, strict=True)):
        if not isinstance(start, int) or size is None:
            continue
        if start < 0 or (isinstance(extent, int) and start + size > extent):
            inside = max(0, extent - start) if isinstance(extent, int) else 0
            rows = "rows" if axis == len(shape) - 2 else "columns" if axis == len(shape) - 1 and len(shape) > 1 else f"axis {axis}"
            raise ShapeError(
                "PL303",
                f"{name}: {rows} {start}:{start + size} exceed extent {extent} of {what}",
                fix=f"stay inside, or pass valid_shape= with at most {inside} there" if start >= 0 else "a window cannot start before 0",
                at=at,
            )


def known(a: Any) -> int | None:
    """The value of an index operand when it is a constant."""
    if isinstance(a, Literal):
        return int(a.value)
    return None


def _slice_aval(x: Aval, *starts: Aval, sizes: tuple[int, ...]) -> Aval:
    if len(sizes) != x.rank or len(starts) != x.rank:
        raise ShapeError(
            "PL301", f"slice: {x} needs {x.rank} sizes and offsets, got {len(sizes)} and {len(starts)}", fix="give one per axis"
        )
    if any(s > d for s, d in zip(sizes, x.static_shape, strict=True)):
        raise ShapeError("PL303", f"slice: a window {list(sizes)} is larger than {x}", fix="take a smaller window")
    valid = None
    if isinstance(x, TileAval) and x.valid is not None:
        # where the window starts is not part of the abstract value, so a partly valid axis is known at run time only
        valid = tuple(s if v == d else None for s, v, d in zip(sizes, x.valid, x.static_shape, strict=True))
    return moved(x, sizes, valid)


def _slice_valid(x: Any, *starts: Any, sizes: tuple[int, ...]) -> Any:
    return tuple(min(max(v - s, 0), n) for v, s, n in zip(x, starts, sizes, strict=True))


@movement(
    samples=lambda: [((_X, np.int32(1), np.int32(0)), {"sizes": (2, 3)})],
    abstract=_slice_aval,
    valid=_slice_valid,
    index=tuple(range(1, 9)),
    pto=Native("pto.subview"),
)
def slice_(x: Any, *starts: Any, sizes: tuple[int, ...]) -> Any:
    """A window of a value: static sizes, offsets that may be scalars. It must lie inside; nothing is clamped.

    Errors:
      PL303 naming window and extent.
    """
    begin = [int(s) for s in starts]
    check_window("slice", "the sliced value", x.shape, sizes, begin)
    return x[tuple(slice(b, b + n) for b, n in zip(begin, sizes, strict=True))].copy()


def _update_aval(x: Aval, value: Aval, *starts: Aval, sizes: tuple[int, ...]) -> Aval:
    if value.dtype is not x.dtype:
        raise ShapeError("PL302", f"update: {value} does not go into {x}", fix=f"pl.cast(value, pl.{x.dtype.name})")
    return x


@movement(
    samples=lambda: [((_X, _X[:2, :2], np.int32(1), np.int32(0)), {"sizes": (2, 2)})],
    abstract=_update_aval,
    valid=lambda x, value, *starts, **_: x,
    index=tuple(range(2, 10)),
    pto=Native("pto.tinsert"),
    golden="jax.lax.dynamic_update_slice",
)
def update(x: Any, value: Any, *starts: Any, sizes: tuple[int, ...]) -> Any:
    """A copy of x in which the window at `starts` holds `value` (a number fills it).

    Errors:
      PL303 for a window past the extent.
    """
    begin = [int(s) for s in starts]
    check_window("update", "the updated value", x.shape, sizes, begin)
    result = np.array(x)
    result[tuple(slice(b, b + n) for b, n in zip(begin, sizes, strict=True))] = np.reshape(value, sizes) if np.ndim(value) else value
    return result


def _concatenate_aval(*xs: Aval, axis: int) -> Aval:
    first = xs[0]
    for x in xs[1:]:
        if x.dtype is not first.dtype:
            raise ShapeError("PL302", f"concatenate: {first} and {x}", fix="cast one side")
        if x.rank != first.rank or any(a != b for i, (a, b) in enumerate(zip(x.shape, first.shape, strict=True)) if i != axis):
            raise ShapeError("PL301", f"concatenate along axis {axis}: {first} and {x}", fix="only that axis may differ")
    shape = tuple(sum(x.static_shape[i] for x in xs) if i == axis else d for i, d in enumerate(first.static_shape))
    return moved(first, shape)


@movement(
    samples=lambda: [((_X, _X + 1), {"axis": 1}), ((_X, _X), {"axis": 0})],
    abstract=_concatenate_aval,
    valid=lambda *xs, axis: tuple(sum(x[i] for x in xs) if i == axis else d for i, d in enumerate(xs[0])),
    pto=Native("pto.tconcat"),
    golden="jax.lax.concatenate",
    unit="vector",
)
def concatenate(*xs: Any, axis: int) -> Any:
    """Join values of one dtype along an axis."""
    return np.concatenate(xs, axis)


# ---- the valid region --------------------------------------------------------------------------------------------


def _fillpad_taint(taints: Sequence[Any], arrays: Sequence[np.ndarray], params: dict[str, Any]) -> Any:
    """What is filled is written."""
    (taint,) = taints
    if taint is None:
        return None
    inside = np.zeros(arrays[0].shape, np.bool_)
    inside[tuple(slice(0, v) for v in params["valid"])] = True
    return taint & inside


@movement(
    samples=lambda: [((_X,), {"pad": "min", "valid": (2, 3)})],
    abstract=lambda x, *, pad, valid=None: replace(x, valid=None) if isinstance(x, TileAval) else x,
    valid=lambda x, *, old, **_: old,
    sees_valid=True,
    taint=_fillpad_taint,
    pto=Native("pto.tfillpad"),
    unit="vector",
)
def fillpad(x: Any, *, pad: str, valid: tuple[int, ...] | None = None) -> Any:
    """Keep the valid region and write a pad value everywhere else; the result is valid everywhere.

    Args:
      pad: zero, max or min: 0, the largest, or the smallest value of the dtype (infinities for floats).
    """
    result = np.full(x.shape, np.asarray(dtype_of(x.dtype).pad(pad), x.dtype), x.dtype)
    inside = tuple(slice(0, v) for v in (valid if valid is not None else x.shape))
    result[inside] = x[inside]
    return result


def _validshape_aval(x: Aval, *extents: Aval, known: tuple[int | None, ...]) -> Aval:
    if not isinstance(x, TileAval):
        raise ShapeError("PL307", f"set_validshape: {x} is not a tile", fix="use it inside a region")
    for have, want in zip(x.static_shape, known, strict=True):
        if want is not None and not 0 <= want <= have:
            raise ShapeError("PL303", f"set_validshape: {list(known)} exceeds the shape {list(x.shape)}", fix="at most the tile's extents")
    return replace(x, valid=None if known == x.shape else known)


@movement(
    samples=list,
    abstract=_validshape_aval,
    valid=lambda x, *extents, known: tuple(int(e) for e in extents),
    index=tuple(range(1, 9)),
    pto=Native("pto.set_validshape"),
)
def set_validshape(x: Any, *extents: Any, known: tuple[int | None, ...]) -> Any:
    """Mark the leading extents of each axis as the valid region; the data stay."""
    return np.array(x)
