"""Run-time values of the reference executor: tiles and scalars, buffers, and handles on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pypto.interpreters.shadow import Taint


@dataclass(slots=True)
class Value:
    """A tile, an array or a scalar at run time. `valid` is the leading extent of each axis that holds data."""

    data: np.ndarray
    valid: tuple[int, ...]
    taint: Taint = None

    def cropped(self) -> Value:
        """The valid region on its own."""
        inside = tuple(slice(0, n) for n in self.valid)
        return Value(self.data[inside], self.valid, None if self.taint is None else self.taint[inside])

    def tainted_inside(self) -> bool:
        """Whether an element of the valid region is tainted."""
        return self.taint is not None and bool(np.any(self.cropped().taint))


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
    """A handle: the buffer, and its arrays seen through the window. `valid` is None where all of it holds data."""

    buffer: Buffer
    data: np.ndarray
    written: np.ndarray | None
    tainted: np.ndarray | None
    valid: tuple[int, ...] | None = None

    @staticmethod
    def whole(buffer: Buffer) -> Ref:
        return Ref(buffer, buffer.data, buffer.written, buffer.tainted)

    def through(self, window: Callable[[np.ndarray], np.ndarray], valid: tuple[int, ...] | None = None) -> Ref:
        """The same buffer through a further window, of which the leading extents `valid` hold data."""
        written, tainted = (None if a is None else window(a) for a in (self.written, self.tainted))
        return Ref(self.buffer, window(self.data), written, tainted, valid)


def boxes(mask: np.ndarray) -> Iterator[str]:
    """Boxes that together are exactly the True elements, as subscripts; an axis of which a box has one element shows its index.

    >>> list(boxes(np.array([[1, 0, 0, 1], [1, 0, 0, 1], [1, 1, 1, 1]], bool)))
    ['[0:2, 0]', '[0:2, 3]', '[2, 0:4]']
    """
    for parts in _boxes(mask):
        yield f"[{', '.join(str(low) if high == low + 1 else f'{low}:{high}' for low, high in parts)}]"


def _boxes(mask: np.ndarray) -> Iterator[tuple[tuple[int, int], ...]]:
    if not mask.any():
        return
    if mask.ndim == 0:
        yield ()
        return
    # runs of equal slices along the first axis, each taken apart along the others
    changes = (mask[1:] != mask[:-1]).any(axis=tuple(range(1, mask.ndim)))
    starts = [0, *(int(i) + 1 for i in np.flatnonzero(changes))]
    for low, high in zip(starts, [*starts[1:], len(mask)], strict=True):
        for rest in _boxes(mask[low]):
            yield ((low, high), *rest)


def padded(a: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An array with zeros after its end along each axis."""
    if a.shape == shape:
        return a
    result = np.zeros(shape, a.dtype)
    result[tuple(slice(0, n) for n in a.shape)] = a
    return result
