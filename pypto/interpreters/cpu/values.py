"""What the compiled executor knows of run-time values while it writes code: scalars, handles, tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pypto.dtypes import DType
from pypto.interpreters.cpu.text import Int


@dataclass(eq=False)
class Root:
    """A buffer, as far as the writer knows; two different ones never share memory.

    Attributes:
      name: what errors call it.
      local: made in the arena, so that there is one of it however often the code runs.
    """

    name: str = ""
    local: bool = False


@dataclass(frozen=True, eq=False)
class Scalar:
    """One number in a register, or a constant in LLVM's spelling; `known` is the value of an integer constant."""

    dtype: DType
    register: str
    known: int | None = None


@dataclass(eq=False)
class Ref:
    """A handle: a pointer, an extent and a stride (in elements) per axis.

    Attributes:
      roots: the buffers it may be a window of; None: any.
      valid: the extents that hold data; None: all.
      mask: a pointer to one byte per element that records writes, with the same strides; None where nobody asks.
      dense: the elements lie one after the other, in row-major order.
      certain: whether there is a mask is known; otherwise its pointer may be null.
    """

    dtype: DType
    pointer: str
    shape: tuple[Int, ...]
    strides: tuple[Int, ...]
    roots: frozenset[Root] | None
    valid: tuple[Int, ...] | None = None
    mask: str | None = None
    dense: bool = False
    certain: bool = True

    @property
    def name(self) -> str | None:
        """What errors call the buffer; None when that depends on the run."""
        names = {r.name for r in self.roots} if self.roots is not None else set()
        return names.pop() if len(names) == 1 else None


class Slot:
    """A piece of the arena; it is free again when nothing refers to it any more."""

    __slots__ = ("give_back", "offset", "size")

    def __init__(self, offset: int, size: int, give_back: Callable[[int, int], None]) -> None:
        self.offset, self.size, self.give_back = offset, size, give_back

    def __del__(self) -> None:
        self.give_back(self.offset, self.size)


@dataclass(eq=False)
class Memory:
    """Elements in memory. `roots` is None for a slot of the arena that is written once; otherwise stores may change it."""

    pointer: str
    strides: tuple[Int, ...]
    slot: Slot | None = None
    roots: frozenset[Root] | None = frozenset()
    window: Any = None  # equal windows are the same elements in the same order
    packed: Any = None  # packed forms of the buffer, if the launch has any, and where in it this begins


@dataclass(eq=False)
class Lazy:
    """Elements that are computed where they are needed, once per element.

    Attributes:
      emit: `(lanes, *registers) -> register`.
      operands: tiles and scalars; a tile broadcasts to the shape of the result.
      shared: whether more than one place will ask: the first one also keeps the results in memory.
      weight: how many ops lead to it.
      counts: weights of a position: `emit` takes the sum of index * weight over all axes, an i64, as its first register.
    """

    emit: Callable[..., str]
    operands: tuple[Tile | Scalar, ...]
    shared: bool = False
    weight: int = 1
    counts: tuple[int, ...] | None = None


@dataclass(eq=False)
class Tile:
    """A tile: static shape, valid extents, and where its elements come from."""

    dtype: DType
    shape: tuple[int, ...]
    valid: tuple[Int, ...]
    source: Memory | Lazy

    @property
    def memory(self) -> Memory | None:
        return self.source if isinstance(self.source, Memory) else None

    def tree(self) -> Iterator[Tile]:
        """This tile and everything it is computed from, each once, operands first."""
        seen: set[int] = set()
        stack: list[tuple[Tile, bool]] = [(self, False)]
        while stack:
            tile, ready = stack.pop()
            if ready:
                yield tile
            elif id(tile) not in seen:
                seen.add(id(tile))
                stack.append((tile, True))
                if isinstance(tile.source, Lazy):
                    stack.extend((t, False) for t in tile.source.operands if isinstance(t, Tile))


Value = Scalar | Ref | Tile


def contiguous(shape: tuple[Int, ...], product: Callable[[Int, Int], Int]) -> tuple[Int, ...]:
    """Row-major strides."""
    strides: list[Int] = []
    step: Int = 1
    for d in reversed(shape):
        strides.append(step)
        step = product(step, d)
    return tuple(reversed(strides))


def is_dense(shape: tuple[Int, ...], strides: tuple[Int, ...]) -> bool:
    """Whether strides of a static shape are those of row-major order, as far as they matter."""
    step = 1
    for n, s in zip(reversed(shape), reversed(strides), strict=True):
        if not isinstance(n, int) or (n != 1 and s != step):
            return False
        step *= n
    return True


def lies_at(t: Tile, place: Memory) -> bool:
    """Whether a tile's elements are in a place, in its order."""
    m = t.memory
    alike = m is not None and all(n == 1 or a == b for n, a, b in zip(t.shape, m.strides, place.strides, strict=True))
    return m is not None and m.pointer == place.pointer and alike


def spanned(regions: Sequence[tuple[tuple[Int, ...], tuple[int, ...]]]) -> tuple[Int, ...]:
    """The valid region of a broadcast, from the operands' regions and shapes: the first operand that spans an axis decides."""
    rank = max(len(shape) for _, shape in regions)
    result: list[Int] = []
    for axis in range(rank):
        extents = [(v[at], s[at]) for v, s in regions if (at := axis - rank + len(s)) >= 0]
        result.append(next((v for v, d in extents if d != 1), extents[0][0]))
    return tuple(result)
