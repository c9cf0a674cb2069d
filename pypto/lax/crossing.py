"""Values that cross the edge between the cube and the two vector lanes of a core group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pypto.core.avals import Aval, TileAval, join
from pypto.core.op import Fault, Native
from pypto.core.trace import aval_of
from pypto.errors import ShapeError, TaskError
from pypto.interpreters.cpu.rules import Tilewise
from pypto.interpreters.rules import by_definition, by_operand
from pypto.lax.families import movement
from pypto.lax.joining import concatenate
from pypto.lax.shape import moved, slice_

_X = np.linspace(-4, 4, 24, dtype=np.float32).reshape(4, 6)
AXIS = {"UP_DOWN": -2, "LEFT_RIGHT": -1}
"""The axis that a mode halves; NONE halves none."""


def _axis(name: str, rank: int, mode: str) -> int:
    axis = rank + AXIS[mode]
    if axis < 0:
        raise TaskError("PL507", f"{name}: mode {mode} on a value of {rank} axes", fix="a tile of two axes")
    return axis


def _half(x: Aval, mode: str) -> tuple[int, ...]:
    """The shape of one lane's half."""
    axis, shape = _axis("aiv_shard", x.rank, mode), list(x.static_shape)
    if shape[axis] % 2:
        raise TaskError("PL507", f"aiv_shard: {x} has no half of axis {axis}", fix="an even extent, or mode=pl.SplitMode.NONE")
    shape[axis] //= 2
    return tuple(shape)


def _decomposed(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """The meaning that runs exactly the decomposition."""

    def meaning(*arrays: np.ndarray, **params: Any) -> np.ndarray:
        from pypto.core.array import Array
        from pypto.core.trace import EVAL, tracing

        with tracing(EVAL):
            return np.array(decomposition(*map(Array, arrays), **params))

    return meaning


def _shard(x: Any, *, lane: int, mode: str) -> Any:
    if mode == "NONE":
        return x
    shape = _half(aval_of(x), mode)
    axis = _axis("aiv_shard", len(shape), mode)
    return slice_.bind(x, *(lane * n if i == axis else 0 for i, n in enumerate(shape)), sizes=shape)


def _shard_aval(x: Aval, *, lane: int, mode: str) -> Aval:
    if mode == "NONE":
        return x
    shape = _half(x, mode)
    if not isinstance(x, TileAval) or x.valid is None:
        return moved(x, shape)
    axis = _axis("aiv_shard", x.rank, mode)
    start = lane * shape[axis]
    valid = tuple(v if i != axis else None if v is None else min(max(v - start, 0), n) for i, (v, n) in enumerate(zip(x.valid, shape)))
    return moved(x, shape, valid)


def _shard_valid(x: tuple[int, ...], *, lane: int, mode: str, old: tuple[int, ...]) -> tuple[int, ...]:
    if mode == "NONE":
        return x
    axis = len(old) + AXIS[mode]
    half = old[axis] // 2
    return tuple(min(max(v - lane * half, 0), half) if i == axis else v for i, v in enumerate(x))


@movement(
    samples=lambda: [((_X,), {"lane": lane, "mode": mode}) for lane in (0, 1) for mode in ("NONE", "UP_DOWN", "LEFT_RIGHT")],
    abstract=_shard_aval,
    valid=_shard_valid,
    decomposition=_shard,
    jvp=by_definition,
    pto=Native("pto.tpop"),
)
def aiv_shard(x: Any, *, lane: int, mode: str) -> Any:
    """A cube result on vector lane `lane`: all of it in mode NONE, its half of the rows (UP_DOWN) or columns (LEFT_RIGHT).

    Errors:
      PL507 for an odd extent along the axis that is halved.
    """
    return _decomposed(_shard)(x, lane=lane, mode=mode)


def _gather(x: Any, y: Any, *, mode: str) -> Any:
    return agree.bind(x, y) if mode == "NONE" else concatenate.bind(x, y, axis=_axis("aic_gather", aval_of(x).rank, mode))


def _gather_aval(x: Aval, y: Aval, *, mode: str) -> Aval:
    if mode == "NONE":
        return _agree_aval(x, y)
    return concatenate.abstract(x, y, axis=_axis("aic_gather", x.rank, mode))


def _gather_valid(x: tuple[int, ...], y: tuple[int, ...], *, mode: str) -> tuple[int, ...]:
    if mode == "NONE":
        return x
    assert concatenate.valid is not None
    return concatenate.valid(x, y, axis=len(x) + AXIS[mode])


@movement(
    samples=lambda: [((_X, _X), {"mode": mode}) for mode in ("NONE", "UP_DOWN", "LEFT_RIGHT")],
    abstract=_gather_aval,
    valid=_gather_valid,
    crops=True,
    decomposition=_gather,
    jvp=by_definition,
    pto=Native("pto.tpush"),
)
def aic_gather(x: Any, y: Any, *, mode: str) -> Any:
    """What both vector lanes hand to the cube: their halves joined along the axis of the mode, or in mode NONE the value both hold."""
    return _decomposed(_gather)(x, y, mode=mode)


def _agree_aval(x: Aval, y: Aval) -> Aval:
    if x.shape != y.shape or x.dtype is not y.dtype:
        raise ShapeError("PL301", f"the vector lanes hold {x} and {y}", fix="gather a value of one type")
    return join(x, y)


def _agree_faults(x: np.ndarray, y: np.ndarray) -> Fault:
    bits = np.dtype(f"u{x.dtype.itemsize}")
    differ = np.ascontiguousarray(x).view(bits) != np.ascontiguousarray(y).view(bits)
    return Fault(
        1,
        differ,
        "PL507",
        "the vector lanes hand different values to the cube, which would get either: lane 1 has {value} at {where}",
        "gather what both lanes hold alike, or use mode=pl.SplitMode.UP_DOWN, which joins their halves",
    )


@movement(
    samples=lambda: [((_X, _X), {})],
    abstract=_agree_aval,
    valid=lambda x, y: x,
    crops=True,
    faults=_agree_faults,
    jvp=by_operand(lambda t, y, *_: t),  # the value is the first lane's, and so is its derivative
    cpu=Tilewise("moves.FIRST"),
    pto=Native("pto.tpush"),
)
def agree(x: Any, y: Any) -> Any:
    """The value that both of two lanes hold; in a checked run it is an error if they differ."""
    return np.array(x)
