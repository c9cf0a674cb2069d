"""The few largest elements of a line: they stay in one register, and most others are turned away by one comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.interpreters.cpu.elements import BITS, Spot, lines, ordered
from pypto.interpreters.cpu.lanes import Lanes, memory_kind, register_kind
from pypto.interpreters.cpu.text import Int
from pypto.interpreters.cpu.values import Memory, Tile

if TYPE_CHECKING:
    from pypto.interpreters.cpu.writer import Writer

_WIDTH = 16
_LOWEST = -0x80000000


def _order(e: Lanes, x: Tile, value: str) -> str:
    """An i32 in the order of the numbers: -0 before +0, NaN above everything."""
    if x.dtype.is_float:
        return ordered(e, x.dtype, value, nan=0x7FFFFFFF, signed_zeros=True)
    kind = register_kind(x.dtype)
    wide = e.turn("sext" if x.dtype.is_signed else "zext", kind, value, "i32")
    return e.let("xor", "i32", wide, e.fill("i32", _LOWEST)) if x.dtype.bits == 32 and not x.dtype.is_signed else wide


class _Best:
    """Up to 16 keys in descending order: the order of a value above, the complement of its place below, so that no two are equal."""

    def __init__(self, w: Writer, k: int) -> None:
        self.fn, self.k = w.fn, k
        self.room = 8 if k <= 8 else 16
        self.e = Lanes(w.fn, self.room)
        self.slot, self.limit = w.fn.slot(self.e.type("i64"), 64), w.fn.slot("i32")
        w.fn.store(self.e.type("i64"), self.e.fill("i64", -(1 << 63)), self.slot, 64)

    def key(self, order: str, at: Int) -> str:
        one = Lanes(self.fn, 1)
        high = one.let("shl", "i64", one.turn("sext", "i32", order, "i64"), "32")
        return one.let("or", "i64", high, str(self.fn.sub(0xFFFFFFFF, at)))

    def enter(self, key: str) -> None:
        """Put a key where it belongs; the last one leaves."""
        fn, e, room = self.fn, self.e, self.room
        v, truth = e.type("i64"), e.type("i1")
        old, new = fn.load(v, self.slot, 64), e.splat("i64", key)
        stays = e.let("icmp sgt", "i64", old, new)
        order = f"<{room} x i32> <{', '.join(f'i32 {max(i - 1, 0)}' for i in range(room))}>"
        moved = fn.let(f"shufflevector {v} {old}, {v} poison, {order}")
        above = fn.let(f"shufflevector {truth} {stays}, {truth} poison, {order}")
        first = f"<{', '.join('i1 ' + str(i == 0).lower() for i in range(room))}>"
        here = e.let("or", "i1", above, first)  # the slot before stays: this one takes the key
        fn.store(v, e.choose(stays, "i64", old, e.choose(here, "i64", new, moved)), self.slot, 64)

    def tighten(self) -> None:
        """What an element has to beat."""
        last = self.fn.let(f"extractelement {self.e.type('i64')} {self.fn.load(self.e.type('i64'), self.slot, 64)}, i64 {self.k - 1}")
        self.fn.store("i32", self.fn.let(f"trunc i64 {self.fn.let(f'ashr i64 {last}, 32')} to i32"), self.limit, 4)


def fewest(w: Writer, x: Tile, axis: int, k: int, best: Memory, found: Memory, taken: Int) -> None:
    """The k <= 16 largest elements of every line, descending, and where they are; of equal ones the first."""
    fn, memory, n = w.fn, x.memory, x.valid[axis]
    assert memory is not None
    size, kind = x.dtype.itemsize, memory_kind(x.dtype)
    one, e, waiting = Lanes(fn, 1), Lanes(fn, _WIDTH), fn.slot("i16")
    fn.declares.setdefault("@llvm.cttz.i16", "declare i16 @llvm.cttz.i16(i16, i1)")

    def visit(spot: Spot) -> None:
        line = fn.at(memory.pointer, spot.offset(memory.strides), size)
        top = _Best(w, k)

        def order(j: Int, lanes: Lanes = one) -> str:
            return _order(lanes, x, lanes.from_memory(x.dtype, fn.load(lanes.type(kind), fn.at(line, j, size), size)))

        def offer(j: Int) -> None:
            """An element that comes after all others of its value: it enters only if it is larger than the last one."""
            now = order(j)
            with fn.when(fn.let(f"icmp sgt i32 {now}, {fn.load('i32', top.limit, 4)}")):
                top.enter(top.key(now, j))
                top.tighten()

        with fn.loop(0, taken) as j:
            top.enter(top.key(order(j), j))
        top.tighten()
        left = fn.sub(n, taken)
        whole = fn.add(taken, left - left % _WIDTH if isinstance(left, int) else fn.let(f"and i64 {left}, {-_WIDTH}"))
        with fn.loop(taken, whole, _WIDTH) as j:
            above = e.let("icmp sgt", "i32", order(j, e), e.splat("i32", fn.load("i32", top.limit, 4)))
            fn.store("i16", fn.let(f"bitcast {e.type('i1')} {above} to i16"), waiting, 2)
            with fn.turns(lambda: fn.let(f"icmp ne i16 {fn.load('i16', waiting, 2)}, 0")):
                mask = fn.load("i16", waiting, 2)
                lane = fn.let(f"zext i16 {fn.let(f'call i16 @llvm.cttz.i16(i16 {mask}, i1 true)')} to i64")
                fn.store("i16", fn.let(f"and i16 {mask}, {fn.let(f'sub i16 {mask}, 1')}"), waiting, 2)
                offer(fn.add(j, lane))
        with fn.loop(whole, n) as j:
            offer(j)
        _put(w, x, line, spot, best, found, top, taken, axis)

    lines(w, x.shape, x.valid, axis, visit, single=True)


def _put(w: Writer, x: Tile, line: str, spot: Spot, best: Memory, found: Memory, top: _Best, taken: Int, axis: int) -> None:
    """The places that are held, and the bits of the elements there."""
    fn, size, kind = w.fn, x.dtype.itemsize, memory_kind(BITS[x.dtype.itemsize])
    values = fn.at(best.pointer, spot.offset(best.strides), size)
    numbers = fn.at(found.pointer, spot.offset(found.strides), 4)
    with fn.loop(0, taken) as i:
        held = fn.let(f"trunc i64 {fn.load('i64', fn.at(top.slot, i, 8), 8)} to i32")
        number = fn.let(f"xor i32 {held}, -1")
        at = fn.let(f"zext i32 {number} to i64")
        fn.store(kind, fn.load(kind, fn.at(line, at, size), size), fn.at(values, fn.mul(i, best.strides[axis]), size), size)
        fn.store("i32", number, fn.at(numbers, fn.mul(i, found.strides[axis]), 4), 4)
