"""Run-time values of the reference executor: tiles and scalars, buffers, and handles on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pypto.interpreters.shadow import Taint


@dataclass(slots=True)
class Value:
    """A tile, an array or a scalar at run time. `valid` is the leading extent of each axis that holds data."""

    data: np.ndarray
    valid: tuple[int, ...]
    taint: Taint = None


@dataclass(slots=True)
class Buffer:
    """Memory: its elements, which of them were written, and which of those are tainted.

    `written` is None for memory that was full from the start. `tainted` is kept in checked runs only.
    """

    data: np.ndarray
    written: np.ndarray | None = None
    tainted: np.ndarray | None = None
    name: str = ""
    visible: bool = False


@dataclass(slots=True)
class Ref:
    """A handle: the buffer, and its arrays seen through the window."""

    buffer: Buffer
    data: np.ndarray
    written: np.ndarray | None
    tainted: np.ndarray | None

    @staticmethod
    def whole(buffer: Buffer) -> Ref:
        return Ref(buffer, buffer.data, buffer.written, buffer.tainted)

    def through(self, window: Callable[[np.ndarray], np.ndarray]) -> Ref:
        """The same buffer through a further window."""
        return Ref(self.buffer, window(self.data), *(None if a is None else window(a) for a in (self.written, self.tainted)))


def box(mask: np.ndarray) -> str:
    """The bounding box of the True elements, as a subscript; single indices where an axis has one."""
    parts = []
    for axis in range(mask.ndim):
        hit = np.nonzero(mask.any(axis=tuple(i for i in range(mask.ndim) if i != axis)))[0]
        low, high = int(hit[0]), int(hit[-1])
        parts.append(str(low) if low == high else f"{low}:{high + 1}")
    return f"[{', '.join(parts)}]"
