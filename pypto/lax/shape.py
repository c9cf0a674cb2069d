"""Making and moving: fill, iota, reshape, broadcast, transpose, slice, update, concatenate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pypto import dtypes, numerics
from pypto.core.array import conversion
from pypto.core.avals import TILE, ArrayAval, Aval, ScalarAval, TileAval, Valid
from pypto.core.ir import Literal
from pypto.core.op import OPS, Native, No
from pypto.core.trace import aval_of
from pypto.core.whole import wholes
from pypto.core.windows import leaves
from pypto.dtypes import DType, dtype_of
from pypto.errors import ShapeError
from pypto.interpreters.batching import with_params
from pypto.interpreters.cpu.rules import Tilewise
from pypto.interpreters.rules import by_operand, linear, pullback, stretched
from pypto.interpreters.tangents import zeros
from pypto.lax.families import literal, movement
from pypto.lax.shape_rules import broadcast_batching, fill_batching, slice_batching, update_batching, update_transpose
from pypto.lax.valid_shapes import reshape_valid

_X = np.linspace(-4, 4, 12, dtype=np.float32).reshape(3, 4)


def made(shape: tuple[int, ...], dtype: DType, level: str | None) -> Aval:
    """The abstract value of a freshly made array: a tile where a level is given."""
    return ArrayAval(shape, dtype) if level is None else TileAval(shape, dtype, level)


def moved(x: Aval, shape: tuple[Any, ...], valid: Valid | None = None) -> Aval:
    """`x` under another shape, with this valid region."""
    if isinstance(x, TileAval):
        return replace(x, shape=shape, valid=None if valid == shape else valid)
    return ArrayAval(shape, x.dtype)


def _made_by(maker: str, e: Any, *given: str) -> str:
    """A call that makes a tile, spelled at its level."""
    level = "pl.tile" if e.params["level"] == TILE else "pl"
    dtype = f"dtype=pl.{e.params['dtype'].name}"
    return f"{level}.{maker}({', '.join([*given, dtype])})"


def _fill_text(e: Any, name: Callable[[Any], str]) -> str:
    return f"{_made_by('full', e, str(list(e.params['shape'])))[:-1]}, value={name(e.ins[0])})"


def _ramp_text(e: Any, name: Callable[[Any], str]) -> str:
    text = _made_by("arange", e, name(e.ins[0]), str(list(e.params["shape"])))
    return f"{text[:-1]}, descending=True)" if e.params["descending"] else text


def _empty_text(e: Any, name: Callable[[Any], str]) -> str:
    p, space = e.params, e.params["space"]
    where = "" if space is None else f", target_memory=pl.MemorySpace.{space.name}"
    return f"pl.create_tile({list(p['shape'])}, pl.{p['dtype'].name}{where})"


def _slice_text(e: Any, name: Callable[[Any], str]) -> str:
    return f"pl.slice({name(e.ins[0])}, {list(e.params['sizes'])}, [{', '.join(map(name, e.ins[1:]))}])"


def _update_text(e: Any, name: Callable[[Any], str]) -> str:
    return f"pl.assemble({name(e.ins[0])}, {name(e.ins[1])}, [{', '.join(map(name, e.ins[2:]))}])"


# ---- making ------------------------------------------------------------------------------------------------------


@movement(
    jvp=linear(0),
    transpose=pullback(lambda ct, value, **_: ct.sum()),
    batching=fill_batching,
    source=_fill_text,
    cpu=Tilewise("moves.FILL"),
    samples=lambda: [((np.float32(1.5),), {"shape": (2, 3), "dtype": dtypes.FP32, "level": None})],
    abstract=lambda value, *, shape, dtype, level: made(shape, dtype, level),
    valid=lambda value, *, shape, **_: shape,
    pto=Native("pto.texpands"),
    unit="vector",
)
def fill(value: Any, *, shape: tuple[int, ...], dtype: DType, level: str | None = None) -> Any:
    """An array of one value: a scalar of the dtype, repeated; `full` is the spelling for users. Bits are kept."""
    return np.full(shape, np.asarray(value).astype(dtype.storage), dtype.storage)


def _extents(what: str, shape: Any) -> tuple[int, ...]:
    found = wholes(f"{what}: shape", shape)
    if any(d < 0 for d in found):
        raise ShapeError("PL308", f"{what}: extents {list(found)}", fix="0 or more")
    return found


def full(shape: Sequence[int], fill_value: Any, dtype: Any = None, *, level: str | None = None) -> Any:
    """An array of one value.

    Args:
      shape: extents.
      fill_value: a number, rounded once to the dtype, or a scalar of it.
      dtype: the dtype of the result; by default the value's. A value of a program is converted as by `convert_element_type`.
    Errors:
      PL301 for a value with axes; PL308 for extents that are no whole numbers or below 0, and a number the dtype does not hold.

    >>> full((2,), 3, "INT8")
    Array([3, 3], dtype=INT8)
    """
    kind = aval_of(fill_value).dtype if dtype is None else dtype_of(dtype)
    scalar_aval = aval_of(fill_value)
    if isinstance(fill_value, bool | int | float):
        value = literal(fill_value, kind)
    elif scalar_aval.shape != ():
        raise ShapeError("PL301", f"full: the value has shape {list(scalar_aval.shape)}", fix="give one number")
    else:
        how = {"mode": "rint", "overflow": "saturate"} if level is not None else conversion(scalar_aval.dtype, kind)
        value = fill_value if scalar_aval.dtype is kind else OPS["convert"].bind(fill_value, dtype=kind, **how)
    return fill(value, shape=_extents("full", shape), dtype=kind, level=level)


@movement(
    jvp=by_operand(lambda g, y, start, *, shape, dtype, **_: fill(g, shape=shape, dtype=dtype)),
    source=_ramp_text,
    cpu=Tilewise("moves.RAMP"),
    samples=lambda: [((np.int32(3),), {"shape": (1, 5), "dtype": dtypes.INT32, "descending": False, "level": None})],
    abstract=lambda start, *, shape, dtype, descending, level: made(shape, dtype, level),
    valid=lambda start, *, shape, **_: shape,
    pto=Native("pto.tci"),
    unit="vector",
)
def ramp(start: Any, *, shape: tuple[int, ...], dtype: DType, descending: bool = False, level: str | None = None) -> Any:
    """start, start + 1, ... along the last axis (with `descending`, start, start - 1, ...), the same in every row.

    `iota` and `pl.arange` are the spellings for users. Integers wrap.
    """
    steps = np.arange(shape[-1], dtype=np.int64)
    line = numerics.convert(np.asarray(start).astype(np.int64) + (-steps if descending else steps), dtypes.INT64, dtype, "rint", "wrap")
    return np.broadcast_to(line, shape).copy()


def iota(dtype: Any, size: int) -> Any:
    """0, 1, ..., size - 1.

    Errors:
      PL308 for a size that is no whole number, or below 0.

    >>> iota("INT32", 3)
    Array([0, 1, 2], dtype=INT32)
    """
    kind = dtype_of(dtype)
    return ramp(literal(0, kind), shape=_extents("iota", (size,)), dtype=kind)


@movement(
    jvp=No("nothing goes into it"),
    transpose=No("nothing goes into it"),
    source=_empty_text,
    cpu=Tilewise("moves.EMPTY"),
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


def _reshape_aval(x: Aval, *, shape: tuple[int, ...]) -> Aval:
    if math.prod(x.static_shape) != math.prod(shape):
        raise ShapeError(
            "PL301", f"reshape: {x} has {math.prod(x.static_shape)} elements, {list(shape)} has {math.prod(shape)}", fix="keep the number"
        )
    valid = reshape_valid(x.static_shape, x.valid, shape) if isinstance(x, TileAval) and x.valid is not None else None
    return moved(x, shape, valid)


@movement(
    jvp=linear(0),
    transpose=pullback(lambda ct, x, **_: OPS["reshape"](ct, shape=x.shape)),
    batching=with_params(lambda rank, *, shape, size: {"shape": (size, *shape)}),
    cpu=Tilewise("moves.RESHAPE"),
    samples=lambda: [((_X,), {"shape": (2, 6)}), ((_X,), {"shape": (1, 12)})],
    abstract=_reshape_aval,
    valid=lambda x, *, shape, old: reshape_valid(old, x, shape),
    pto=Native("pto.treshape"),
    golden="jax.lax.reshape",
    stays=True,
)
def reshape(x: Any, *, shape: tuple[int, ...]) -> Any:
    """The same elements in row-major order under another shape. Bits are kept.

    Errors:
      PL301 when the number of elements differs, or a partly valid region would not stay a box.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.reshape(np.int32([[1, 2], [3, 4]]), shape=(1, 4))
    Array([[1, 2, 3, 4]], dtype=INT32)
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
    jvp=linear(0),
    transpose=pullback(lambda ct, x, *, permutation: OPS["transpose"](ct, permutation=tuple(np.argsort(permutation).tolist()))),
    batching=with_params(lambda rank, *, permutation, size: {"permutation": (0, *(a + 1 for a in permutation))}),
    cpu=Tilewise("moves.TRANSPOSE"),
    samples=lambda: [((_X,), {"permutation": (1, 0)})],
    abstract=_transpose_aval,
    valid=lambda x, *, permutation: _permuted(x, permutation),
    pto=Native("pto.ttrans"),
    golden="jax.lax.transpose",
    unit="vector",
)
def transpose(x: Any, *, permutation: tuple[int, ...]) -> Any:
    """Reorder the axes: result axis i is operand axis `permutation[i]`. A real move, not a view.

    Errors:
      PL308 when `permutation` does not name each axis once.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.transpose(np.int32([[1, 2], [3, 4]]), permutation=(1, 0))
    Array([[1, 3],
           [2, 4]], dtype=INT32)
    """
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
    jvp=linear(0),
    transpose=stretched(lambda ct, x, **_: ct),
    batching=broadcast_batching,
    cpu=Tilewise("moves.BROADCAST"),
    samples=lambda: [((_X[:1],), {"shape": (3, 4)}), ((_X[:, :1],), {"shape": (3, 4)})],
    abstract=_broadcast_aval,
    valid=lambda x, *, shape, old: _broadcast_valid(x, old, shape),
    pto=Native("pto.trowexpand"),
    golden="jax.numpy.broadcast_to",
    unit="vector",
)
def broadcast(x: Any, *, shape: tuple[int, ...]) -> Any:
    """Stretch unit extents to a shape, aligned on the right as NumPy does.

    Errors:
      PL301 when another extent would have to change.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.broadcast_to(np.int32([[1], [2]]), (2, 3))
    Array([[1, 1, 1],
           [2, 2, 2]], dtype=INT32)
    """
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
            raise leaves(name, what, shape, axis, start, size, at)


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
    jvp=linear(0),
    transpose=pullback(lambda ct, x, *starts, sizes: update(zeros(x.aval), ct, *starts, sizes=sizes)),
    batching=slice_batching,
    source=_slice_text,
    cpu=Tilewise("moves.SLICE", reads="prefixes.SLICE"),
    samples=lambda: [((_X, np.int32(1), np.int32(0)), {"sizes": (2, 3)})],
    abstract=_slice_aval,
    valid=_slice_valid,
    index=tuple(range(1, 9)),
    pto=Native("pto.subview"),
    stays=True,
)
def slice_(x: Any, *starts: Any, sizes: tuple[int, ...]) -> Any:
    """A window of a value: static sizes, offsets that may be scalars. It must lie inside; nothing is clamped.

    Errors:
      PL303 naming window and extent.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.slice(np.int32([1, 2, 3, 4]), 1, sizes=(2,))
    Array([2, 3], dtype=INT32)
    """
    begin = [int(s) for s in starts]
    check_window("slice", "the sliced value", x.shape, sizes, begin)
    return x[tuple(slice(b, b + n) for b, n in zip(begin, sizes, strict=True))].copy()


def _update_aval(x: Aval, value: Aval, *starts: Aval, sizes: tuple[int, ...]) -> Aval:
    if value.dtype is not x.dtype:
        raise ShapeError("PL302", f"update: {value} does not go into {x}", fix=f"pl.cast(value, pl.{x.dtype.name})")
    return x


@movement(
    jvp=linear(0, 1),
    transpose=pullback(update_transpose),
    batching=update_batching,
    source=_update_text,
    cpu=Tilewise("moves.UPDATE"),
    samples=lambda: [((_X, _X[:2, :2], np.int32(1), np.int32(0)), {"sizes": (2, 2)})],
    abstract=_update_aval,
    valid=lambda x, value, *starts, **_: x,
    index=tuple(range(2, 10)),
    pto=Native("pto.tinsert"),
    golden="jax.lax.dynamic_update_slice",
    stays=True,
)
def update(x: Any, value: Any, *starts: Any, sizes: tuple[int, ...]) -> Any:
    """A copy of x in which the window at `starts` holds `value` (a number fills it).

    Errors:
      PL302 for another dtype, PL303 for a window past the extent.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.update(np.int32([1, 2, 3]), np.int32([9]), 1, sizes=(1,))
    Array([1, 9, 3], dtype=INT32)
    """
    begin = [int(s) for s in starts]
    check_window("update", "the updated value", x.shape, sizes, begin)
    result = np.array(x)
    result[tuple(slice(b, b + n) for b, n in zip(begin, sizes, strict=True))] = np.reshape(value, sizes) if np.ndim(value) else value
    return result
