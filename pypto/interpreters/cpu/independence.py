"""Whether the turns of a loop may run at the same time: what one writes, no other touches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pypto.core.ir import Eqn, Var

_FAR = 1 << 62
_PAIRS = 1024  # turns of which every pair is looked at


@dataclass(frozen=True, eq=False)
class Access:
    """A box of a buffer that is read, written or updated.

    Attributes:
      buffer: None where it is not known, or where something happens that nothing is known of.
      starts, sizes: per axis of the buffer, offsets on the grid and extents; None where they are not known.
      load: the load it is, if that is one from all of a buffer.
      extents: of the grid.
      endless: axes of the grid whose extent is known at run time only: the grid has a few of their turns, of which all others follow.
    """

    kind: str
    buffer: Var | None
    starts: tuple[np.ndarray | None, ...]
    sizes: tuple[int | None, ...]
    load: Eqn | None = None
    extents: tuple[int, ...] = ()
    endless: frozenset[int] = frozenset()


def steady(accesses: Sequence[Access], own: frozenset[Var]) -> tuple[Access, ...]:
    """The loads from buffers that nothing here writes."""
    if any(a.buffer is None and a.kind != "read" for a in accesses):
        return ()
    changed = own.union(a.buffer for a in accesses if a.kind != "read" and a.buffer is not None)
    return tuple(a for a in accesses if a.load is not None and a.buffer is not None and a.buffer not in changed)


def conflict(accesses: Sequence[Access], own: frozenset[Var], axis: int, count: int) -> bool | None:
    """Whether updates have to be made in the order of the turns; None if the turns have to run one after the other.

    Args:
      accesses: everything that happens in the body.
      own: buffers that every turn makes for itself.
      axis: which axis of the grid the turns are.
    """
    if any(a.buffer is None for a in accesses) and any(a.kind != "read" for a in accesses):
        return None
    buffers = {a.buffer for a in accesses if a.kind != "read" and a.buffer not in own}
    ordered = False
    for b in buffers:
        mine = [a for a in accesses if a.buffer is b]
        if _apart(*_hulls(mine, axis, count)):
            continue
        if any(a.kind != "update" for a in mine):
            return None
        ordered = True
    return ordered


def _hulls(accesses: Sequence[Access], axis: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """For every turn, the box that holds all it touches of a buffer: lowest and highest offsets, each [axes, turns].

    An axis of the buffer along which that cannot be said of all the turns of an endless loop tells none apart.
    """
    rank = len(accesses[0].starts)
    low, high = np.full((rank, count), _FAR), np.full((rank, count), -_FAR)
    happening = [a for a in accesses if not any(s is not None and s.size == 0 for s in a.starts)]  # others: in loops without turns
    around = [e for e in accesses[0].endless if e <= axis]
    alike = [all(_together([a.starts[i] for a in happening], e) for e in around) for i in range(rank)]
    for a in happening:
        for i, (start, size) in enumerate(zip(a.starts, a.sizes, strict=True)):
            if start is None or size is None or not alike[i] or any(moves(start, e) for e in a.endless if e > axis):
                low[i], high[i] = -_FAR, _FAR
                continue
            here = start.ndim - 1 - axis
            others = tuple(d for d in range(start.ndim) if d != here)
            low[i] = np.minimum(low[i], start.min(axis=others))
            high[i] = np.maximum(high[i], start.max(axis=others) + size)
    return low, high


def _together(starts: Sequence[np.ndarray | None], axis: int) -> bool:
    """Whether offsets move by one and the same step along an axis of the grid: only then a few turns stand for all."""
    steps: set[int] = set()
    for start in starts:
        if start is None:
            return False
        steps.update(np.unique(np.diff(start, axis=start.ndim - 1 - axis)).tolist() if moves(start, axis) else [0])
    return len(steps) <= 1


def moves(start: np.ndarray, axis: int) -> bool:
    """Whether an offset varies along an axis of the grid."""
    return start.ndim > axis and start.shape[start.ndim - 1 - axis] > 1


def _apart(low: np.ndarray, high: np.ndarray) -> bool:
    """Whether boxes [axes, boxes] are pairwise without a common element."""
    count = low.shape[1]
    if count < 2 or bool(np.all(np.any(low >= high, axis=0))):
        return True
    for first, last in zip(low, high, strict=True):
        order = np.argsort(first, kind="stable")
        if np.all(last[order][:-1] <= first[order][1:]):
            return True
    sizes = high - low
    if np.all(sizes == sizes[:, :1]) and np.all(sizes > 0):
        steps = low - low.min(axis=1, keepdims=True)
        if not np.any(steps % sizes):
            return len(np.unique((steps // sizes).T, axis=0)) == count
    if count > _PAIRS:
        return False
    common = np.ones((count, count), np.bool_)
    for first, last in zip(low, high, strict=True):
        common &= (first[:, None] < last[None, :]) & (first[None, :] < last[:, None])
    np.fill_diagonal(common, False)
    return not common.any()
