"""The few largest elements of every line of a tile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto import dtypes
from pypto.interpreters.cpu.elements import BITS, Spot, lines
from pypto.interpreters.cpu.lanes import memory_kind
from pypto.interpreters.cpu.selection import WIDTH, Order, entered, selector, selects
from pypto.interpreters.cpu.text import Int
from pypto.interpreters.cpu.values import Memory, Tile

if TYPE_CHECKING:
    from pypto.interpreters.cpu.writer import Writer


class Places:
    """What finds the first k elements of a line of n, and where it leaves their places."""

    def __init__(self, w: Writer, order: Order, n: int, k: int) -> None:
        self.w = w
        self.function = selector(w.module, order, n, k)
        self.room, self.found = w.reserve(dtypes.INT32, (n + WIDTH,)), w.reserve(dtypes.INT32, (2 * WIDTH,))

    def of(self, line: str) -> None:
        self.w.fn.do(f"call void @{self.function}(ptr {line}, ptr {self.room.pointer}, ptr {self.found.pointer})")

    def place(self, i: Int) -> str:
        fn = self.w.fn
        return fn.let(f"zext i32 {fn.load('i32', fn.at(self.found.pointer, i, 4), 4)} to i64")


def fewest(w: Writer, x: Tile, axis: int, k: int, best: Memory, found: Memory, taken: Int) -> None:
    """The k <= 16 largest elements of every line, descending, and where they are; of equal ones the first."""
    fn, memory, n, order = w.fn, x.memory, x.valid[axis], Order(x.dtype, top=True)
    assert memory is not None
    size, kind = x.dtype.itemsize, memory_kind(BITS[x.dtype.itemsize])
    many = Places(w, order, n, k) if isinstance(n, int) and selects(n, k) else None

    def visit(spot: Spot) -> None:
        line = fn.at(memory.pointer, spot.offset(memory.strides), size)
        values = fn.at(best.pointer, spot.offset(best.strides), size)
        numbers = fn.at(found.pointer, spot.offset(found.strides), 4)

        def put(i: str, place: str) -> None:
            fn.store(kind, fn.load(kind, fn.at(line, place, size), size), fn.at(values, fn.mul(i, best.strides[axis]), size), size)
            fn.store("i32", fn.let(f"trunc i64 {place} to i32"), fn.at(numbers, fn.mul(i, found.strides[axis]), 4), 4)

        if many is None:
            entered(fn, order, k, line, n, taken, put)
            return
        many.of(line)
        with fn.loop(0, k) as i:
            put(i, many.place(i))

    lines(w, x.shape, x.valid, axis, visit, single=True)
