"""Whether boxes that were written are all of a region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MOST = 1 << 18
"""Points of a grid that are looked at."""


@dataclass(frozen=True, eq=False)
class Written:
    """A store that every run makes: where, for every point of the grid, and the loops around it, one for each axis of the grid."""

    starts: tuple[np.ndarray, ...]
    sizes: tuple[int, ...]
    loops: tuple[int, ...]


def covers(shape: Sequence[int], starts: Sequence[np.ndarray], sizes: Sequence[int]) -> bool:
    """Whether boxes of one size, at these places, are all of a shape."""
    if any(n == 0 or d % n for d, n in zip(shape, sizes, strict=True)):
        return False
    if any(np.any(s % n) or np.any(s < 0) or np.any(s + n > d) for s, n, d in zip(starts, sizes, shape, strict=True)):
        return False
    places, step = np.zeros((), np.int64), 1
    for s, n, d in zip(reversed(starts), reversed(sizes), reversed(shape), strict=True):
        places, step = places + s // n * step, step * (d // n)
        if places.size > MOST:
            return False
    return np.unique(places).size == step


def comes_before(w: Written, starts: Sequence[Any], sizes: Sequence[Any], loops: Sequence[int]) -> bool:
    """Whether a store has written everything that a later access touches, in the same turn of the loops around both.

    The store's other loops have ended by then: over their turns, its boxes have to tile a region of one shape, which may move with the
    loops around both; the access, over all turns of its own loops, has to stay inside.
    """
    if any(x is None for x in (*starts, *sizes)):
        return False
    common = 0
    while common < min(len(w.loops), len(loops)) and w.loops[common] == loops[common]:
        common += 1
    first, shape, corners = [], [], []
    for start, size in zip(w.starts, w.sizes, strict=True):
        if start.size == 0:
            return False
        corner = start.min(axis=_own(start, common), keepdims=True)
        steps = start - corner
        once = steps[(..., *(slice(0, 1),) * min(common, steps.ndim))]
        if not np.all(steps == once):
            return False
        first.append(once)
        shape.append(int(once.max()) + size)
        corners.append(corner.reshape(corner.shape[corner.ndim - min(common, corner.ndim) :]))
    if not covers(shape, first, w.sizes):
        return False
    for start, size, corner, extent in zip(starts, sizes, corners, shape, strict=True):
        if start.size == 0:
            continue  # inside a loop without turns
        low, high = start.min(axis=_own(start, common)), start.max(axis=_own(start, common)) + size
        if np.any(low < corner) or np.any(high > corner + extent):
            return False
    return True


def _own(start: np.ndarray, common: int) -> tuple[int, ...]:
    """The dimensions of loops that an access does not share: the first ones, as the axes of the grid count from the last."""
    return tuple(range(max(0, start.ndim - common)))
