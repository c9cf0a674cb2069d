"""Joining values along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from pypto.core.avals import TENSOR, TILE, ArrayAval, Aval, TileAval, Valid
from pypto.core.op import OPS, Native
from pypto.core.trace import aval_of
from pypto.errors import ShapeError
from pypto.interpreters.batching import axis_option
from pypto.interpreters.cpu.rules import Tilewise
from pypto.interpreters.rules import linear, pullback
from pypto.lax.families import movement

_X = np.linspace(-4, 4, 12, dtype=np.float32).reshape(3, 4)


def _concatenate_aval(*xs: Aval, axis: int) -> Aval:
    first = xs[0]
    for x in xs[1:]:
        if x.dtype is not first.dtype:
            raise ShapeError("PL302", f"concatenate: {first} and {x}", fix="cast one side")
        if x.rank != first.rank or any(a != b for i, (a, b) in enumerate(zip(x.shape, first.shape, strict=True)) if i != axis):
            raise ShapeError("PL301", f"concatenate along axis {axis}: {first} and {x}", fix="only that axis may differ")
    shape = tuple(sum(x.static_shape[i] for x in xs) if i == axis else d for i, d in enumerate(first.static_shape))
    tiles = [x for x in xs if isinstance(x, TileAval)]
    if not tiles:
        return ArrayAval(shape, first.dtype)
    valid = _concatenate_valid(*(x.valid_shape if isinstance(x, TileAval) else x.static_shape for x in xs), axis=axis)
    level = TENSOR if all(x.level == TENSOR for x in tiles) else TILE
    return TileAval(shape, first.dtype, level, None, None if valid == shape else valid)


def _concatenate_valid(*valids: Valid, axis: int) -> Valid:
    """Along the axis the valid extents add up; across it they are the same."""
    extents: list[int | None] = []
    for i, parts in enumerate(zip(*valids, strict=True)):
        known = [v for v in parts if v is not None]
        if i == axis:
            extents.append(sum(known) if len(known) == len(parts) else None)
        elif len(set(known)) > 1:
            raise ShapeError(
                "PL301",
                f"concatenate along axis {axis}: the valid extents of axis {i} are {' and '.join(map(str, parts))}",
                fix="give both the same valid rows, or fill them first: pl.fillpad(x, pad_value=...)",
            )
        else:
            extents.append(known[0] if len(known) == len(parts) else None)
    return tuple(extents)


def _parts(ct: Any, *xs: Any, axis: int) -> tuple[Any, ...]:
    """Each operand's part of a cotangent."""
    made, low = [], 0
    for x in xs:
        shape = aval_of(x).static_shape
        starts = tuple(low if i == axis else 0 for i in range(len(shape)))
        limits = tuple(low + d if i == axis else d for i, d in enumerate(shape))
        made.append(OPS["strided_slice"](ct, start_indices=starts, limit_indices=limits, strides=(1,) * len(shape)))
        low += shape[axis]
    return tuple(made)


@movement(
    jvp=linear(),
    transpose=pullback(_parts),
    batching=axis_option("axis"),
    cpu=Tilewise("moves.CONCATENATE"),
    samples=lambda: [((_X, _X + 1), {"axis": 1}), ((_X, _X), {"axis": 0})],
    abstract=_concatenate_aval,
    normal=lambda *xs, axis: {"axis": axis + xs[0].rank if axis < 0 else axis},
    valid=lambda *xs, axis: _concatenate_valid(*xs, axis=axis),
    crops=True,
    pto=Native("pto.tconcat"),
    golden="jax.lax.concatenate",
    unit="vector",
)
def concatenate(*xs: Any, axis: int) -> Any:
    """Join values of one dtype along an axis.

    Of partly valid tiles the valid parts are joined, without a gap: the second one begins where the valid part of the first ends.

    Errors:
      PL301 for shapes that differ elsewhere, or valid extents that do.

    >>> from pypto import lax
    >>> lax.concatenate([lax.iota("INT32", 2), lax.iota("INT32", 3)], 0)
    Array([0, 1, 0, 1, 2], dtype=INT32)
    """
    _concatenate_valid(*(x.shape for x in xs), axis=axis)
    return np.concatenate(xs, axis)
