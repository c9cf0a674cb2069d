"""The valid region of a tile, and what is written outside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pypto import dtypes, numerics
from pypto.core.avals import ArrayAval, Aval, TileAval
from pypto.core.op import OPS, Native, No, Op
from pypto.core.trace import aval_of
from pypto.dtypes import DTYPES, dtype_of
from pypto.errors import ShapeError
from pypto.interpreters.cpu.rules import Tilewise
from pypto.interpreters.rules import Pair, pullback
from pypto.interpreters.tangents import apply
from pypto.lax.families import movement, sample_values

PADS = ("zero", "max", "min")
_X = np.linspace(-4, 4, 12, dtype=np.float32).reshape(3, 4)


def _filled(x: np.ndarray, shape: tuple[int, ...], pad: str, valid: tuple[int, ...]) -> np.ndarray:
    """The valid part of x in the corner of a larger array of pad values."""
    value = dtype_of(x.dtype).pad(pad)
    result = np.full(shape, numerics.round_literal(value, dtype_of(x.dtype)), x.dtype)
    inside = tuple(slice(0, v) for v in valid)
    result[inside] = x[inside]
    return result


def _fill_taint(taints: Sequence[Any], arrays: Sequence[np.ndarray], params: dict[str, Any]) -> Any:
    """What is filled is written."""
    (taint,) = taints
    if taint is None:
        return None
    result = np.zeros(params.get("shape", arrays[0].shape), np.bool_)
    inside = tuple(slice(0, v) for v in params["valid"])
    result[inside] = taint[inside]
    return result


def _check_pad(name: str, x: Aval, pad: str) -> None:
    if pad not in PADS:
        raise ShapeError("PL308", f"{name}: pad={pad!r}", fix=f"one of {', '.join(PADS)}")
    x.dtype.pad(pad)  # refuses dtypes without an order


def _fillpad_aval(x: Aval, *, pad: str, valid: Any = None) -> Aval:
    _check_pad("fillpad", x, pad)
    return replace(x, valid=None) if isinstance(x, TileAval) else x


def _fill_jvp(op: Op, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Pair:
    """What is filled in does not depend on anything: its tangent is zero."""
    return apply(op, primals, params), apply(op, tangents, {**params, "pad": "zero"})


def _expand_transpose(ct: Any, x: Any, *, valid: Any, **_: Any) -> Any:
    shape = aval_of(x).static_shape
    window = OPS["strided_slice"](ct, start_indices=(0,) * len(shape), limit_indices=shape, strides=(1,) * len(shape))
    return fillpad(window, pad="zero", valid=valid)


_TILES = No("only tiles have a valid region; kernels become array programs, which have none, before they are transformed")


@movement(
    jvp=_fill_jvp,
    transpose=pullback(lambda ct, x, *, valid, **_: OPS["fillpad"](ct, pad="zero", valid=valid)),
    cpu=Tilewise("moves.FILLPAD"),
    samples=lambda: [
        ((sample_values(d, (3, 4)),), {"pad": p, "valid": (2, 3)})
        for d in sorted(DTYPES.values(), key=lambda d: d.name)
        if d.arithmetic and d is not dtypes.INDEX
        for p in PADS
    ],
    abstract=_fillpad_aval,
    valid=lambda x, *, old, **_: old,
    sees_valid=True,
    taint=_fill_taint,
    pto=Native("pto.tfillpad"),
    unit="vector",
    stays=True,
)
def fillpad(x: Any, *, pad: str, valid: tuple[int, ...] | None = None) -> Any:
    """Keep the valid region and write a pad value everywhere else; the result is valid everywhere.

    Args:
      x: any dtype with an order; outside kernels everything is valid, unless `valid` says less.
      pad: zero, max or min: 0, the largest, or the smallest value of the dtype (infinities for floats that have them).
    Errors:
      PL308 for another pad, PL305 for a predicate mask.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.fillpad(np.int8([[1, 2]]), pad="min", valid=(1, 1))
    Array([[   1, -128]], dtype=INT8)
    """
    return _filled(x, x.shape, pad, valid if valid is not None else x.shape)


def _expand_aval(x: Aval, *, shape: tuple[int, ...], pad: str, valid: Any = None) -> Aval:
    _check_pad("fillpad_expand", x, pad)
    if len(shape) != x.rank or any(n < d for n, d in zip(shape, x.static_shape, strict=True)):
        raise ShapeError("PL301", f"fillpad_expand: {x} does not fit into {list(shape)}", fix="a shape at least as large along every axis")
    return replace(x, shape=shape, valid=None, space=None) if isinstance(x, TileAval) else ArrayAval(shape, x.dtype)


@movement(
    jvp=_fill_jvp,
    transpose=pullback(_expand_transpose),
    cpu=Tilewise("making.EXPAND"),
    samples=lambda: [((_X,), {"shape": (4, 8), "pad": p, "valid": (2, 3)}) for p in PADS],
    abstract=_expand_aval,
    valid=lambda x, *, shape, **_: shape,
    sees_valid=True,
    taint=_fill_taint,
    pto=Native("pto.tfillpad_expand"),
    unit="vector",
)
def fillpad_expand(x: Any, *, shape: tuple[int, ...], pad: str, valid: tuple[int, ...] | None = None) -> Any:
    """The valid region of x in the corner of a larger tile, a pad value everywhere else; the result is valid everywhere.

    Args:
      shape: at least as large as x along every axis.
      pad: zero, max or min, as in `fillpad`.
    Errors:
      PL301 for a smaller shape, PL308 for another pad.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.fillpad_expand(np.int8([[1, 2]]), shape=(2, 3), pad="zero")
    Array([[1, 2, 0],
           [0, 0, 0]], dtype=INT8)
    """
    return _filled(x, shape, pad, valid if valid is not None else x.shape)


def _validshape_aval(x: Aval, *extents: Aval, known: tuple[int | None, ...]) -> Aval:
    if not isinstance(x, TileAval):
        raise ShapeError("PL307", f"set_validshape: {x} is not a tile", fix="use it inside a region")
    _check_extents(known, x.static_shape)
    return replace(x, valid=None if known == x.shape else known)


def _check_extents(extents: Sequence[int | None], shape: Sequence[int]) -> None:
    if len(extents) != len(shape) or any(v is not None and not 0 <= v <= d for v, d in zip(extents, shape, strict=True)):
        shown = ["?" if v is None else v for v in extents]
        raise ShapeError("PL303", f"set_validshape: {shown} exceeds the shape {list(shape)}", fix="between 0 and the tile's extents")


def _validshape_valid(x: Any, *extents: Any, known: Any, old: tuple[int, ...]) -> tuple[int, ...]:
    now = tuple(int(e) for e in extents)
    _check_extents(now, old)
    return now


@movement(
    jvp=_TILES,
    transpose=_TILES,
    batching=_TILES,
    cpu=Tilewise("moves.SET_VALIDSHAPE", reads="prefixes.SAME"),
    samples=list,
    abstract=_validshape_aval,
    valid=_validshape_valid,
    index=tuple(range(1, 9)),
    pto=Native("pto.set_validshape"),
    stays=True,
)
def set_validshape(x: Any, *extents: Any, known: tuple[int | None, ...]) -> Any:
    """Mark the leading extents of each axis as the valid region; the data stay.

    Operands: one extent per axis. `known` repeats those that are constants, and has None for the others.

    Errors:
      PL303 for an extent past the tile's, also at run time.
    """
    return np.array(x)
