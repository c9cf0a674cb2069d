"""The few largest elements of a line, found without sorting it.

Of the largest elements of 16 classes of places (one per lane) the k-th is no larger than the k-th of all: one comparison with it leaves
about 1.4 k elements, which then count who comes before whom. Where more are left than that has room for, one after the other enters a
register that holds the best so far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pypto.dtypes import DType
from pypto.interpreters.cpu.elements import fetch, ordered
from pypto.interpreters.cpu.lanes import Lanes, memory_kind, register_kind
from pypto.interpreters.cpu.text import Function, Int

if TYPE_CHECKING:
    from pypto.interpreters.cpu.module import Module

WIDTH = 16
MOST = 16
"""The largest number of elements that are selected."""
_LOWEST = -0x80000000
_NUMBERS = f"<{', '.join(f'i32 {i}' for i in range(WIDTH))}>"
_ALONG = 4  # vectors that a turn looks at: so many maxima do not wait for each other


@dataclass(frozen=True)
class Order:
    """What comes first: the larger; `top` is that of `top_k`, with NaN above everything and -0 below +0, otherwise that of `sort32`."""

    dtype: DType
    top: bool

    @property
    def name(self) -> str:
        return f"{self.dtype.name.lower()}_{'top' if self.top else 'sort'}"

    @property
    def kind(self) -> str:
        """The type of what a scan compares: floats as they are, integers by their order."""
        return "float" if self.dtype.is_float else "i32"

    def load(self, e: Lanes, pointer: str, at: Int) -> str:
        size = self.dtype.itemsize
        raw = e.fn.load(e.type(memory_kind(self.dtype)), e.fn.at(pointer, at, size), size)
        return e.from_memory(self.dtype, raw)

    def scanned(self, e: Lanes, x: str) -> str:
        return x if self.dtype.is_float else self.of(e, x)

    def of(self, e: Lanes, x: str) -> str:
        """An i32 that is the larger the earlier an element comes."""
        if self.dtype.is_float:
            return ordered(e, self.dtype, x, nan=0x7FFFFFFF if self.top else _LOWEST, signed_zeros=self.top)
        kind = register_kind(self.dtype)
        wide = e.turn("sext" if self.dtype.is_signed else "zext", kind, x, "i32")
        return e.let("xor", "i32", wide, e.fill("i32", _LOWEST)) if self.dtype.bits == 32 and not self.dtype.is_signed else wide

    def above(self, e: Lanes, a: str, b: str) -> str:
        """Which lanes of a are larger, NaN never."""
        return e.let("fcmp ogt", "float", a, b) if self.dtype.is_float else e.let("icmp sgt", "i32", a, b)

    def larger(self, e: Lanes, a: str, b: str) -> str:
        """The larger, b unless it is a."""
        return e.choose(self.above(e, a, b), self.kind, a, b)

    def enough(self, e: Lanes, x: str, limit: str) -> str:
        """Which lanes may be among the first, if an element that is not NaN has to reach a limit."""
        if self.dtype.is_float:
            return e.let("fcmp uge" if self.top else "fcmp oge", "float", x, limit)
        return e.let("icmp sge", "i32", x, limit)

    def lowest(self, e: Lanes) -> str:
        return e.fill(self.kind, float("-inf") if self.dtype.is_float else _LOWEST)


class Best:
    """Up to 16 keys in descending order: the order of a value above, the complement of its place below, so that no two are equal."""

    def __init__(self, fn: Function, k: int) -> None:
        self.fn, self.k = fn, k
        self.room = 8 if k <= 8 else 16
        self.e = Lanes(fn, self.room)
        self.slot, self.limit = fn.slot(self.e.type("i64"), 64), fn.slot("i32")
        fn.store(self.e.type("i64"), self.e.fill("i64", -(1 << 63)), self.slot, 64)

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


def bits_set(fn: Function, mask: str, visit: Callable[[str], None]) -> None:
    """Visit the lanes of a mask that are set, as i64 numbers."""
    fn.declares.setdefault("@llvm.cttz.i16", "declare i16 @llvm.cttz.i16(i16, i1)")
    waiting = fn.slot("i16")
    fn.store("i16", fn.let(f"bitcast <{WIDTH} x i1> {mask} to i16"), waiting, 2)
    with fn.turns(lambda: fn.let(f"icmp ne i16 {fn.load('i16', waiting, 2)}, 0")):
        now = fn.load("i16", waiting, 2)
        lane = fn.let(f"zext i16 {fn.let(f'call i16 @llvm.cttz.i16(i16 {now}, i1 true)')} to i64")
        fn.store("i16", fn.let(f"and i16 {now}, {fn.let(f'sub i16 {now}, 1')}"), waiting, 2)
        visit(lane)


def entered(fn: Function, order: Order, k: int, line: str, n: Int, taken: Int, put: Callable[[str, str], None]) -> None:
    """The first `taken` (at most k) elements of a line of n: every element that beats the last one enters. `put(i, place)`, both i64."""
    one, e, top = Lanes(fn, 1), Lanes(fn, WIDTH), Best(fn, k)

    def look(j: Int, lanes: Lanes = one) -> str:
        return order.of(lanes, order.load(lanes, line, j))

    def offer(j: Int) -> None:
        """An element that comes after all others of its value: it enters only if it is larger than the last one."""
        now = look(j)
        with fn.when(fn.let(f"icmp sgt i32 {now}, {fn.load('i32', top.limit, 4)}")):
            top.enter(top.key(now, j))
            top.tighten()

    with fn.loop(0, taken) as j:
        top.enter(top.key(look(j), j))
    top.tighten()
    left = fn.sub(n, taken)
    whole = fn.add(taken, left - left % WIDTH if isinstance(left, int) else fn.let(f"and i64 {left}, {-WIDTH}"))
    with fn.loop(taken, whole, WIDTH) as j:
        above = e.let("icmp sgt", "i32", look(j, e), e.splat("i32", fn.load("i32", top.limit, 4)))
        bits_set(fn, above, lambda lane: offer(fn.add(j, lane)))
    with fn.loop(whole, n) as j:
        offer(j)
    with fn.loop(0, taken) as i:
        held = fn.let(f"trunc i64 {fn.load('i64', fn.at(top.slot, i, 8), 8)} to i32")
        put(i, fn.let(f"zext i32 {fn.let(f'xor i32 {held}, -1')} to i64"))


# ---- many at once ------------------------------------------------------------------------------------------------


def selects(n: Int, k: int) -> bool:
    """Whether a line of n elements is long enough to look at it twice, for the first k."""
    return isinstance(n, int) and 0 < k <= MOST and n >= 4 * WIDTH * rows(k)


def rows(k: int) -> int:
    """Vectors of classes: twice as many classes as elements are wanted, and as many places for those that are left."""
    return 1 if k <= WIDTH // 2 else 2


def selector(module: Module, order: Order, n: int, k: int) -> str:
    """A function that finds the first k of a dense line of n elements, of equal ones those that stand before the others.

    It gets the line, room for n + 16 numbers, and where the k places go, all i32: room for 32 of them.
    """
    name = f"select_{order.name}_{n}_{k}"
    return module.need(name, lambda m: _Selector(m, order, n, k, name).text())


class _Selector:
    def __init__(self, module: Module, order: Order, n: int, k: int, name: str) -> None:
        self.fn = module.function(name, [("ptr", "line"), ("ptr", "room"), ("ptr", "found")], "void")
        self.order, self.n, self.k, self.rows, self.e = order, n, k, rows(k), Lanes(self.fn, WIDTH)
        self.packs = "avx512f" in module.features

    def text(self) -> str:
        fn, held = self.fn, self.rows * WIDTH
        count = self.left(self.limit())
        few = fn.let(f"and i1 {fn.let(f'icmp sge i64 {count}, {self.k}')}, {fn.let(f'icmp sle i64 {count}, {held}')}")
        fn.do(f"br i1 {few}, label %few, label %many")
        fn.start("few")
        self.rank(count)
        fn.do("ret void")
        fn.start("many")
        entered(fn, self.order, self.k, "%line", self.n, self.k, self.put)
        fn.do("ret void")
        return fn.text()

    def put(self, i: str, place: str) -> None:
        self.fn.store("i32", self.fn.let(f"trunc i64 {place} to i32"), self.fn.at("%found", i, 4), 4)

    def looked(self, j: Int) -> str:
        return self.order.scanned(self.e, self.order.load(self.e, "%line", j))

    def rest(self, x: str) -> str:
        """The last vector of a line whose length is no multiple: it begins earlier, where others have been."""
        n = self.n % WIDTH
        fresh = f"<{', '.join('i1 ' + str(i >= WIDTH - n).lower() for i in range(WIDTH))}>"
        return self.e.let("and", "i1", x, fresh)

    def limit(self) -> str:
        """In every lane: the k-th of the largest elements of all classes."""
        fn, e, order = self.fn, self.e, self.order
        v, vectors = e.type(order.kind), self.n // WIDTH
        best = [fn.slot(v, 64) for _ in range(_ALONG)]
        for b in best:
            fn.store(v, order.lowest(e), b, 64)

        def look(j: Int, b: str) -> None:
            fn.store(v, order.larger(e, self.looked(j), fn.load(v, b, 64)), b, 64)

        whole = vectors - vectors % _ALONG
        with fn.loop(0, whole * WIDTH, _ALONG * WIDTH) as j:
            for i, b in enumerate(best):
                look(fn.add(j, i * WIDTH), b)
        for i in range(vectors % _ALONG):
            look((whole + i) * WIDTH, best[i])
        maxima = [fn.load(v, b, 64) for b in best]
        while len(maxima) > self.rows:
            maxima = [order.larger(e, a, b) for a, b in zip(maxima[::2], maxima[1::2], strict=True)]
        place = fn.slot(f"[{self.rows} x {v}]", 64)
        for i, m in enumerate(maxima):
            fn.store(v, m, fn.at(place, i * WIDTH, 4), 64)
        kth = order.lowest(e)
        for m in maxima:  # the largest of those that k of them reach
            candidate = e.choose(e.let("icmp sge", "i32", self.reach(place, m), e.fill("i32", self.k)), order.kind, m, order.lowest(e))
            kth = order.larger(e, candidate, kth)
        for step in (8, 4, 2, 1):
            turn = f"<{WIDTH} x i32> <{', '.join(f'i32 {i ^ step}' for i in range(WIDTH))}>"
            kth = order.larger(e, fn.let(f"shufflevector {v} {kth}, {v} poison, {turn}"), kth)
        return kth

    def reach(self, place: str, m: str) -> str:
        """How many of the maxima in memory are not below this lane's."""
        e, order = self.e, self.order
        total, no, yes = e.fill("i32", 0), e.fill("i32", 0), e.fill("i32", 1)
        for j in range(self.rows * WIDTH):
            other = e.splat(order.kind, self.fn.load(order.kind, self.fn.at(place, j, 4), 4))
            total = e.let("add", "i32", total, e.choose(order.above(e, m, other), "i32", no, yes))
        return total

    def left(self, limit: str) -> str:
        """Note the places of all elements that reach the limit; how many there are."""
        fn, e = self.fn, self.e
        count = fn.slot("i64")
        fn.store("i64", 0, count, 8)

        def note(j: Int, cut: bool = False) -> None:
            mask = self.order.enough(e, self.looked(j), limit)
            mask = self.rest(mask) if cut else mask
            numbers = e.let("add", "i32", _NUMBERS, e.splat("i32", fn.let(f"trunc i64 {j} to i32")))
            if self.packs:
                self.packed(mask, numbers, count)
            else:
                bits_set(fn, mask, lambda lane: self.single(fn.add(j, lane), count))

        with fn.loop(0, self.n // WIDTH * WIDTH, WIDTH) as j:
            note(j)
        if self.n % WIDTH:
            note(self.n - WIDTH, cut=True)
        return fn.load("i64", count, 8)

    def packed(self, mask: str, numbers: str, count: str) -> None:
        """The places of a mask's lanes, one after the other."""
        fn, e = self.fn, self.e
        v, name = e.type("i32"), f"@llvm.experimental.vector.compress.v{WIDTH}i32"
        fn.declares.setdefault(name, f"declare {v} {name}({v}, <{WIDTH} x i1>, {v})")
        fn.declares.setdefault("@llvm.ctpop.i16", "declare i16 @llvm.ctpop.i16(i16)")
        now = fn.load("i64", count, 8)
        fn.store(v, fn.let(f"call {v} {name}({v} {numbers}, <{WIDTH} x i1> {mask}, {v} poison)"), fn.at("%room", now, 4), 4)
        more = fn.let(f"call i16 @llvm.ctpop.i16(i16 {fn.let(f'bitcast <{WIDTH} x i1> {mask} to i16')})")
        fn.store("i64", fn.add(now, fn.let(f"zext i16 {more} to i64")), count, 8)

    def single(self, place: Int, count: str) -> None:
        fn = self.fn
        now = fn.load("i64", count, 8)
        fn.store("i32", fn.let(f"trunc i64 {place} to i32"), fn.at("%room", now, 4), 4)
        fn.store("i64", fn.add(now, 1), count, 8)

    def rank(self, count: str) -> None:
        """Put the places in order: each of the elements that are left counts those that come before it."""
        fn, e, order = self.fn, self.e, self.order
        size, kind = order.dtype.itemsize, memory_kind(order.dtype)
        v, many = e.type("i32"), e.splat("i32", fn.let(f"trunc i64 {count} to i32"))
        places, keys = [], []
        memory = fn.slot(f"[{self.rows * WIDTH} x i32]", 64)
        for r in range(self.rows):
            lanes = f"<{', '.join(f'i32 {r * WIDTH + i}' for i in range(WIDTH))}>"
            there = e.let("icmp slt", "i32", lanes, many)
            place = e.choose(there, "i32", fn.load(v, fn.at("%room", r * WIDTH, 4), 4), e.fill("i32", 0))
            raw = fetch(e, kind, size, "%line", e.turn("zext", "i32", place, "i64"))
            key = e.choose(there, "i32", order.of(e, e.from_memory(order.dtype, raw)), e.fill("i32", _LOWEST))
            fn.store(v, key, fn.at(memory, r * WIDTH, 4), 64)
            places.append(place)
            keys.append(key)
        for r in range(self.rows):
            rank = e.fill("i32", 0)
            for j in range(self.rows * WIDTH):
                other = e.splat("i32", fn.load("i32", fn.at(memory, j, 4), 4))
                # of equal ones, that which stands before
                before = f"<{', '.join('i1 ' + str(j < r * WIDTH + i).lower() for i in range(WIDTH))}>"
                tie = e.let("and", "i1", e.let("icmp eq", "i32", other, keys[r]), before)
                first = e.let("or", "i1", e.let("icmp sgt", "i32", other, keys[r]), tie)
                rank = e.let("add", "i32", rank, e.turn("zext", "i1", first, "i32"))
            _scatter(e, places[r], "%found", rank)


def _scatter(e: Lanes, values: str, pointer: str, index: str) -> None:
    """i32 values to i32 indices, no two of them equal."""
    fn, n = e.fn, e.width
    name = f"@llvm.masked.scatter.v{n}i32.v{n}p0"
    fn.declares.setdefault(name, f"declare void {name}(<{n} x i32>, <{n} x ptr>, i32, <{n} x i1>)")
    places = fn.let(f"getelementptr i32, ptr {pointer}, <{n} x i64> {e.turn('zext', 'i32', index, 'i64')}")
    fn.do(f"call void {name}(<{n} x i32> {values}, <{n} x ptr> {places}, i32 4, <{n} x i1> splat (i1 true))")
