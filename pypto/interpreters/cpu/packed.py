"""Packed forms of buffers in the memory that the blocks of a launch share: what they are, and where in them a tile is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pypto.core.ir import Var
from pypto.interpreters.cpu import panels
from pypto.interpreters.cpu.text import Int
from pypto.interpreters.cpu.values import Memory

if TYPE_CHECKING:
    from pypto.interpreters.cpu.writer import Writer


@dataclass(frozen=True)
class Side:
    """How a product takes an operand: what it is multiplied as, whether it is the right one, and whether that is transposed."""

    kind: panels.Kind
    right: bool
    turned: bool = False


@dataclass(frozen=True, eq=False)
class Packed:
    """A buffer in packed form: matrices one after the other.

    Attributes:
      matrices: how many there are.
      lines: columns of a right operand, rows of a left one.
      depth: k values.
      offset: where it begins in the memory that blocks share.
    """

    buffer: Var
    side: Side
    matrices: int
    lines: int
    depth: int
    offset: int

    @property
    def strip(self) -> int:
        """Bytes of 16 lines."""
        return 16 * self.depth * self.side.kind.dtype.itemsize

    @property
    def size(self) -> int:
        """Bytes of a matrix."""
        return self.strip * (self.lines // 16)

    @property
    def lines_first(self) -> bool:
        """Whether rows of the buffer are lines: its columns are k values."""
        return self.side.turned or not self.side.right


Uses = dict[int, tuple[Packed, ...]]
"""The packed forms of what a load loads, by its identity."""


def form_of(memory: Memory | None, side: Side) -> tuple[Packed, tuple[Int, ...]] | None:
    """The packed form of what was loaded, if there is one, and where in it the load begins."""
    if memory is None or memory.packed is None:
        return None
    forms, starts = memory.packed
    return next(((p, starts) for p in forms if p.side == side), None)


def place(w: Writer, p: Packed, starts: Sequence[Int]) -> str:
    """A pointer to where a load begins in a packed form."""
    fn, *lead = w.fn, *starts[:-2]
    line, k = (starts[-2], starts[-1]) if p.lines_first else (starts[-1], starts[-2])
    matrix: Int = 0
    for start, extent in zip(lead, p.buffer.aval.static_shape[:-2], strict=True):
        matrix = fn.add(fn.mul(matrix, extent), start)
    at = fn.add(fn.mul(line, p.strip // 16), fn.mul(k, 16 * p.side.kind.dtype.itemsize))
    return fn.at("%shared", fn.add(fn.add(fn.mul(matrix, p.size), at), p.offset))
