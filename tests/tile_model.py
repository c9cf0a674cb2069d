"""What kernels of tiles mean, in plain Python: `pl` as a NumPy model, for CPython to run the original source with.

Names are Python's own, so aliasing, carries and merges need no code here; what is modelled is the data. A `Cell` is a
tile while its region lasts and a tensor in global memory afterwards (or from the start). Elements nobody wrote, or that
are not valid, are marked as unseen; storing one into an output raises `Unseen`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


class Unseen(Exception):
    """An element that nobody wrote, or that is not valid, reached an output."""


class Cell:
    """Elements, which of them are unseen, the valid extents, and the region the cell is a tile of (None: a tensor)."""

    def __init__(
        self, pl: TileLanguage, array: np.ndarray, unseen: np.ndarray, valid: tuple[int, ...], tile: bool = True, output: bool = False
    ) -> None:
        self.pl, self.array, self.unseen, self.valid = pl, array, unseen, valid
        self.region = pl.region if tile else None
        self.output = output

    @property
    def is_tile(self) -> bool:
        return self.region is not None and self.region == self.pl.region

    def __getitem__(self, index: Any) -> Any:
        window = self._window(index)
        if window is None:
            return self._element(index)
        valid = tuple(min(max(v - w.start, 0), w.stop - w.start) for v, w in zip(self.valid, window, strict=True))
        array, unseen = self.array[window], self.unseen[window]
        if self.pl.region is None:
            return Cell(self.pl, array, unseen, valid, tile=False, output=self.output)
        past = np.bool_(False) if self.is_tile else outside(array.shape, valid)  # a load brings the valid part; a slice, everything
        return Cell(self.pl, array.copy(), unseen | past, valid)

    def _window(self, index: Any) -> tuple[slice, ...] | None:
        parts = index if isinstance(index, tuple) else (index,)
        parts = (*parts, *(slice(None) for _ in range(self.array.ndim - len(parts))))
        if not any(isinstance(p, slice) for p in parts):
            return None
        window = tuple(slice(*p.indices(n)[:2]) for p, n in zip(parts, self.array.shape, strict=True))
        assert all(0 <= w.start < w.stop <= n for w, n in zip(window, self.array.shape, strict=True)), "the generator left the tile"
        return window

    def _element(self, index: tuple[int, ...]) -> np.float32:
        assert not self.unseen[index], "the generator reads written elements only"
        return np.float32(self.array[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        window = self._window(index)
        if window is None:
            window = tuple(slice(i, i + 1) for i in index)
        if isinstance(value, Cell):
            window = tuple(slice(w.start, w.start + v) for w, v in zip(window, value.valid, strict=True))
            inside = tuple(slice(0, v) for v in value.valid)
            array, unseen = value.array[inside], value.unseen[inside]
        else:
            array, unseen = np.float32(value), np.bool_(False)
        if self.output and np.any(unseen):
            raise Unseen
        self.array[window], self.unseen[window] = array, unseen

    def apply(self, function: Callable[..., Any], *others: Any) -> Cell:
        """Elementwise; the first operand says what is valid."""
        if any(not isinstance(o, (Cell, int, float, np.float32)) for o in others):
            return NotImplemented  # whatever stands for an unset name says so itself
        arrays = [self.array, *(o.array if isinstance(o, Cell) else np.float32(o) for o in others)]
        unseen = self.unseen | outside(self.array.shape, self.valid)
        for other in others:
            if isinstance(other, Cell):
                unseen = unseen | other.unseen | outside(other.array.shape, other.valid)
        return Cell(self.pl, function(*arrays).astype(np.float32), unseen, self.valid)

    def __add__(self, other: Any) -> Cell:
        return self.apply(np.add, other)

    def __sub__(self, other: Any) -> Cell:
        return self.apply(np.subtract, other)

    def __mul__(self, other: Any) -> Cell:
        return self.apply(np.multiply, other)


def outside(shape: tuple[int, ...], valid: tuple[int, ...]) -> np.ndarray:
    """The elements past the valid extents."""
    mask = np.ones(shape, np.bool_)
    mask[tuple(slice(0, v) for v in valid)] = False
    return mask


class _Annotation:
    def __getitem__(self, spec: Any) -> Any:
        return spec


class _Jit:
    def __call__(self, fn: Any) -> Any:
        return fn

    inline = __call__


class TileLanguage:
    """The name `pl` when CPython runs a kernel of `tests.tile_nests`."""

    Tensor = Tile = Out = InOut = Scalar = _Annotation()
    FP32, INT32 = "FP32", "INT32"
    jit = _Jit()

    class Level:
        CORE_GROUP = "core group"

    def __init__(self) -> None:
        self.region: int | None = None
        self._regions = 0
        self._yielded: list[tuple] = []

    # ---- where things run ----

    @contextlib.contextmanager
    def at(self, level: Any = None) -> Iterator[None]:
        before, self._regions = self.region, self._regions + 1
        self.region = self._regions if before is None else before
        try:
            yield
        finally:
            self.region = before

    def range(self, *bounds: int, init_values: tuple | None = None) -> Any:
        values = range(*map(int, bounds))
        return values if init_values is None else self._stateful(values, init_values)

    parallel = unroll = range

    def pipeline(self, *bounds: int, stage: int, init_values: tuple | None = None) -> Any:
        return self.range(*bounds, init_values=init_values)

    def spmd(self, count: int) -> Iterator[int]:
        with self.at():
            yield from range(count)

    def _stateful(self, values: range, state: tuple) -> Iterator[tuple]:
        for index in values:
            self._yielded.append(state)
            yield index, state
            state = self._yielded.pop()

    def yield_(self, *values: Any) -> Any:
        self._yielded[-1] = values
        return values if len(values) != 1 else values[0]

    # ---- making ----

    def tensor(self, array: np.ndarray, *, output: bool = False) -> Cell:
        """A parameter."""
        return Cell(self, array, np.full(array.shape, output), array.shape, tile=False, output=output)

    def create_tensor(self, shape: list[int], dtype: str) -> Cell:
        return Cell(self, np.zeros(shape, np.float32), np.ones(shape, np.bool_), tuple(shape), tile=self.region is not None)

    def create_tile(self, shape: list[int], dtype: str) -> Cell:
        return self.create_tensor(shape, dtype)

    def full(self, shape: list[int], dtype: str, value: float) -> Cell:
        return Cell(self, np.full(shape, value, np.float32), np.zeros(shape, np.bool_), tuple(shape))

    # ---- moving ----

    def slice(self, x: Cell, sizes: list[int], offsets: list[int], valid_shape: list[int]) -> Cell:
        window = tuple(slice(o, o + v) for o, v in zip(offsets, valid_shape, strict=True))
        array, unseen = np.zeros(sizes, np.float32), np.ones(sizes, np.bool_)
        inside = tuple(slice(0, v) for v in valid_shape)
        array[inside] = x.array[window]
        unseen[inside] = (x.unseen | outside(x.array.shape, x.valid))[window]
        return Cell(self, array, unseen, tuple(valid_shape))

    def assemble(self, target: Cell, source: Cell, offset: list[int]) -> Cell:
        target[tuple(slice(o, o + n) for o, n in zip(offset, source.array.shape, strict=True))] = source
        return target

    def write(self, target: Cell, index: list[int], value: Any) -> None:
        target[tuple(index)] = value

    def read(self, x: Cell, index: list[int]) -> Any:
        return x[tuple(index)]

    def reshape(self, x: Cell, shape: list[int]) -> Cell:
        assert x.valid == x.array.shape, "the generator reshapes whole cells only"
        array, unseen = x.array.reshape(shape), x.unseen.reshape(shape)
        if x.is_tile:
            return Cell(self, array.copy(), unseen.copy(), tuple(shape))
        return Cell(self, array, unseen, tuple(shape), tile=False, output=x.output)

    def set_validshape(self, x: Cell, *extents: int) -> Cell:
        past = np.bool_(False) if x.is_tile else outside(x.array.shape, x.valid)
        return Cell(self, x.array.copy(), x.unseen | past, tuple(extents))  # the data stay

    def fillpad(self, x: Cell) -> Cell:
        past = outside(x.array.shape, x.valid)
        return Cell(self, np.where(past, np.float32(0), x.array), x.unseen & ~past, x.array.shape)

    # ---- arithmetic ----

    def maximum(self, x: Cell, y: Any) -> Cell:
        return x.apply(np.maximum, y)

    def neg(self, x: Cell) -> Cell:
        return x.apply(np.negative)

    def row_max(self, x: Cell) -> Cell:
        seen = x.array[:, : x.valid[1]]
        unseen = x.unseen[:, : x.valid[1]].any(axis=1, keepdims=True) | outside((len(x.array), 1), (x.valid[0], 1))
        return Cell(self, np.where(unseen, np.float32(0), seen.max(axis=1, keepdims=True)), unseen, (x.valid[0], 1))

    def row_expand_add(self, x: Cell, v: Cell) -> Cell:
        return x.apply(lambda a: a + v.array) if not v.unseen.any() else self._expanded(x, v)

    def _expanded(self, x: Cell, v: Cell) -> Cell:
        made = x.apply(lambda a: a + v.array)
        made.unseen = made.unseen | v.unseen
        return made

    @staticmethod
    def min(a: Any, b: Any) -> Any:
        return min(a, b)

    @staticmethod
    def max(a: Any, b: Any) -> Any:
        return max(a, b)
