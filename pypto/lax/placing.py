"""Where a tile is and how its bytes are read: moves between memory spaces, sub-tiles, bit views, layouts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pypto import dtypes
from pypto.core.avals import TILE, ArrayAval, Aval, TileAval
from pypto.core.op import OPS, Native, No
from pypto.dtypes import DTYPES, DType, dtype_of
from pypto.errors import MemorySpaceError, ShapeError
from pypto.interpreters.batching import with_params
from pypto.interpreters.cpu.rules import Tilewise
from pypto.interpreters.rules import linear, pullback
from pypto.interpreters.tangents import zeros
from pypto.lax.families import movement, sample_values
from pypto.lax.shape import check_window, moved, reshape
from pypto.platform import Space

_X = np.linspace(-4, 4, 32, dtype=np.float32).reshape(4, 8)
LAYOUTS = (None, "row_major", "col_major")
ON_CHIP = tuple(s for s in Space if s not in (Space.DDR, Space.STACK))
_FROM_MAT = (Space.LEFT, Space.RIGHT, Space.BIAS)
INNER_LAYOUTS = (None, "none_box", "row_major", "col_major")


# ---- the same bytes in another dtype -------------------------------------------------------------------------------


def scaled(extent: int, source: DType, target: DType) -> int | None:
    """How many elements of `target` are `extent` elements of `source`; None when they are no whole number."""
    count, rest = divmod(extent * source.itemsize, target.itemsize)
    return None if rest else count


def check_bits(name: str, source: DType, target: DType) -> None:
    """PL305 unless both dtypes have whole bytes and differ."""
    if source is target:
        raise ShapeError("PL305", f"{name}: it is {target.name} already", fix="remove it")
    for kind in (source, target):
        if kind.bits % 8 or kind in (dtypes.TASK_ID, dtypes.INDEX):
            raise ShapeError("PL305", f"{name}: {kind.name} has no bytes to read", fix="dtypes of 8, 16, 32 or 64 bits")


def _reinterpret_aval(x: Aval, *, dtype: DType) -> Aval:
    check_bits("reinterpret", x.dtype, dtype)
    if not x.rank:
        raise ShapeError("PL301", f"reinterpret: {x} has no axis", fix="reshape it to one element")
    last = scaled(x.static_shape[-1], x.dtype, dtype)
    if last is None:
        raise ShapeError(
            "PL301",
            f"reinterpret: rows of {x} have {x.static_shape[-1] * x.dtype.itemsize} bytes, no whole number of {dtype.name}",
            fix="reshape first, so that rows are a multiple",
        )
    shape = (*x.static_shape[:-1], last)
    if not isinstance(x, TileAval):
        return ArrayAval(shape, dtype)
    columns = x.valid_shape[-1]
    part = None if columns is None else scaled(columns, x.dtype, dtype)
    if columns is not None and part is None:
        raise _no_whole(x.valid_shape, x.dtype, dtype)
    return replace(moved(x, shape, (*x.valid_shape[:-1], part)), dtype=dtype)


def _no_whole(valid: Any, source: DType, target: DType) -> ShapeError:
    return ShapeError(
        "PL301",
        f"reinterpret: the valid part {list(valid)} of {source.name} is no whole number of {target.name}",
        fix="fill it first: pl.fillpad(x, pad_value=...)",
    )


def _reinterpret_valid(x: Any, *, dtype: DType, source: DType) -> Any:
    last = scaled(x[-1], source, dtype)
    if last is None:
        raise _no_whole(x, source, dtype)
    return (*x[:-1], last)


def _reinterpret_taint(taints: Any, arrays: Any, params: dict[str, Any]) -> Any:
    """An element is tainted if any of its bytes is."""
    (taint,) = taints
    if taint is None:
        return None
    old, new = arrays[0].dtype.itemsize, params["dtype"].itemsize
    if old >= new:
        return np.repeat(taint, old // new, axis=-1)
    return taint.reshape(*taint.shape[:-1], -1, new // old).any(axis=-1)


def _reinterpret_samples() -> list[Any]:
    kinds = [d for d in DTYPES.values() if d.bits % 8 == 0 and d.kind in (dtypes.Kind.INT, dtypes.Kind.UINT, dtypes.Kind.FLOAT)]
    chosen = [d for d in kinds if d.storage.kind != "V"]
    return [((sample_values(a, (3, 8), seed=5),), {"dtype": b, "source": a}) for a in chosen for b in chosen if a is not b and a.arithmetic]


@movement(
    jvp=No("bits of one dtype read as another have no derivative"),
    cpu=Tilewise("making.REINTERPRET"),
    samples=_reinterpret_samples,
    abstract=lambda x, *, dtype, source=None: _reinterpret_aval(x, dtype=dtype),
    normal=lambda x, *, dtype, source=None: {"dtype": dtype, "source": x.dtype},
    valid=_reinterpret_valid,
    taint=_reinterpret_taint,
    pto=No("it is another name for the same bytes"),
    stays=True,
)
def reinterpret(x: Any, *, dtype: Any, source: Any = None) -> Any:
    """The bytes of a value as elements of another dtype; the extent of the last axis scales with the width.

    Args:
      dtype: the new dtype; it differs from the old one, and both have whole bytes.
      source: the old dtype, filled in by the call.
    Numerics:
      Bits are kept; bytes are in little-endian order.
    Errors:
      PL305 for a dtype without whole bytes, or the one it has; PL301 when rows are no whole number of elements.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.reinterpret(np.float32([1.0, -0.0]), "UINT32")
    Array([1065353216, 2147483648], dtype=UINT32)
    """
    return np.ascontiguousarray(x).view(dtype_of(dtype).storage)


def reinterpret_as(x: Any, dtype: Any, shape: tuple[int, ...] | None = None) -> Any:
    """`reinterpret`, and then the shape: any one of as many bytes. By default the last axis scales."""
    kind, have = dtype_of(dtype), x.shape
    if shape is None:
        return reinterpret(x, dtype=kind)
    if have and scaled(have[-1], x.dtype, kind) is None:
        x = reshape(x, shape=(*(1 for _ in have[:-1]), int(np.prod(have))))
    result = reinterpret(x, dtype=kind)
    return result if result.shape == shape else reshape(result, shape=shape)


# ---- layouts, sub-tiles, spaces ----------------------------------------------------------------------------------


def _swapped(extents: Any) -> Any:
    return (*extents[:-2], extents[-1], extents[-2])


@movement(
    jvp=linear(0),
    transpose=pullback(lambda ct, x: OPS["relayout"](ct)),
    batching=with_params(lambda rank, size: {}),
    cpu=Tilewise("making.RELAYOUT"),
    samples=lambda: [((_X,), {}), ((_X[:1],), {})],
    abstract=lambda x: moved(x, _swapped(x.shape), _swapped(x.valid) if isinstance(x, TileAval) and x.valid else None),
    valid=lambda x: _swapped(x),
    pto=No("the fractal layout is read the other way round; no bytes move"),
    stays=True,
)
def relayout(x: Any) -> Any:
    """A matrix with rows and columns exchanged, by reading its fractal layout the other way round: `pl.tile.transpose_view`.

    The result is that of `transpose`; only its cost differs.
    """
    return np.swapaxes(x, -1, -2).copy()


def check_space(name: str, space: Any, allowed: tuple[Space, ...] = ON_CHIP) -> Space:
    """PL401 for what is no on-chip space, or not one of those the operation reaches."""
    if space not in allowed:
        shown = space.name if isinstance(space, Space) else repr(space)
        fix = f"one of {', '.join(s.name for s in allowed)}"
        if name == "load" and space in ON_CHIP:  # what a load cannot do on any chip, a move can
            fix = f"pl.move(pl.load(..., target_memory=pl.Mem.MAT), target_memory=pl.Mem.{shown})" if space in _FROM_MAT else fix
            raise MemorySpaceError("PL401", f"load: no path from global memory to {shown}; a load reaches VEC and MAT", fix=fix)
        raise MemorySpaceError("PL401", f"{name}: target_memory={shown}", fix=fix)
    return space


def _placed(x: Aval, space: Space) -> Aval:
    return replace(x, space=space, level=TILE) if isinstance(x, TileAval) else x


def _extract_aval(x: Aval, row: Aval, column: Aval, *, sizes: tuple[int, ...], space: Space) -> Aval:
    check_space("extract", space, (Space.LEFT, Space.RIGHT, Space.MAT))
    if x.rank != 2 or len(sizes) != 2:
        raise ShapeError("PL301", f"extract: a sub-tile {list(sizes)} of {x}", fix="both have rows and columns")
    if any(s > d for s, d in zip(sizes, x.static_shape, strict=True)):
        raise ShapeError("PL303", f"extract: a sub-tile {list(sizes)} is larger than {x}", fix="take a smaller one")
    valid = None
    if isinstance(x, TileAval) and x.valid is not None:
        valid = tuple(s if v == d else None for s, v, d in zip(sizes, x.valid, x.static_shape, strict=True))
    return _placed(moved(x, sizes, valid), space)


@movement(
    jvp=linear(0),
    transpose=pullback(lambda ct, x, row, column, *, sizes, **_: OPS["update"](zeros(x.aval), ct, row, column, sizes=sizes)),
    cpu=Tilewise("making.EXTRACT"),
    samples=lambda: [((_X, np.int32(1), np.int32(4)), {"sizes": (2, 4), "space": Space.LEFT})],
    abstract=_extract_aval,
    valid=lambda x, *starts, sizes, space: tuple(min(max(v - s, 0), n) for v, s, n in zip(x, starts, sizes, strict=True)),
    index=(1, 2),
    pto=Native("pto.textract"),
)
def extract(x: Any, row: Any, column: Any, *, sizes: tuple[int, ...], space: Any) -> Any:
    """A sub-tile in another memory space: L1 to L0A or L0B, or the accumulator to L1.

    Args:
      row, column: where it begins, scalars.
      sizes: its rows and columns.
      space: LEFT, RIGHT or MAT.
    Errors:
      PL303 for a sub-tile past the extent, PL401 for another space.
    """
    begin = [int(row), int(column)]
    check_window("extract", "the tile", x.shape, sizes, begin)
    return x[tuple(slice(b, b + n) for b, n in zip(begin, sizes, strict=True))].copy()


def _move_aval(x: Aval, *, space: Space, blayout: str | None, slayout: str | None) -> Aval:
    check_space("move", space)
    for keyword, value, allowed in (("blayout", blayout, LAYOUTS), ("slayout", slayout, INNER_LAYOUTS)):
        if value not in allowed:
            names = ", ".join(a for a in allowed if a)
            raise ShapeError("PL308", f"move: {keyword}={value!r}", fix=f"one of {names}, or None for the layout of the space")
    return _placed(moved(x, x.shape, x.valid if isinstance(x, TileAval) else None), space)


@movement(
    jvp=linear(0),
    transpose=pullback(lambda ct, x, **_: ct),
    batching=with_params(lambda rank, **_: {}),
    cpu=Tilewise("making.MOVE"),
    samples=lambda: [((_X,), {"space": Space.MAT, "blayout": None, "slayout": None})],
    abstract=_move_aval,
    valid=lambda x, **_: x,
    pto=Native("pto.tmov"),
)
def move(x: Any, *, space: Any, blayout: str | None = None, slayout: str | None = None) -> Any:
    """The same tile in another memory space.

    Args:
      space: an on-chip space; whether the chip has the path is checked when placement is.
      blayout, slayout: the outer and inner layout to store it in; None for that of the space. They change no value.
    Errors:
      PL401 for a space that is not on chip, PL308 for a layout that does not exist.
    """
    return np.array(x)
