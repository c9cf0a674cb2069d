"""Pairs in memory: runs of 32 sorted by any indices, and lists of pairs merged, as the sort unit defines it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pypto import dtypes
from pypto.interpreters.cpu.elements import BITS, ordered
from pypto.interpreters.cpu.lanes import Lanes, memory_kind
from pypto.interpreters.cpu.text import Int
from pypto.interpreters.cpu.values import Memory, Tile

if TYPE_CHECKING:
    from pypto.interpreters.cpu.module import Module
    from pypto.interpreters.cpu.writer import Writer

RUN = 32
ALL = 1 << 62
_BOTTOM = -0x80000000


def descending(e: Lanes, x: str) -> str:
    """An i32 that is the larger the earlier a value comes: zeros are equal, NaN comes last."""
    return ordered(e, dtypes.FP32, x, nan=_BOTTOM, signed_zeros=False)


def pair(w: Writer, target: str, value: str, number: str, size: int) -> None:
    """A value's bits, and behind them as many of its index."""
    kind = memory_kind(BITS[size])
    w.fn.store(kind, value, target, size)
    w.fn.store(kind, number if size == 4 else w.fn.let(f"trunc i32 {number} to i16"), w.fn.at(target, size), size)


class Runs:
    """What sorts runs of 32 elements of a dense row by their values, of equal ones by index: each counts those that come before it."""

    def __init__(self, w: Writer, x: Tile, source: Memory, ties: Memory) -> None:
        self.w, self.x, self.source, self.ties = w, x, source, ties
        self.keys, self.ranks = w.reserve(dtypes.INT64, (RUN,)), w.reserve(dtypes.INT32, (RUN,))

    def sort(self, start: Int, n: Int, row: str) -> None:
        """The n elements from `start` on, as pairs."""
        w, fn, size = self.w, self.w.fn, self.x.dtype.itemsize
        kind = memory_kind(BITS[size])
        with fn.loop(0, n, RUN) as first:
            many = fn.least(fn.sub(n, first), RUN)
            begin = fn.add(start, first)
            _ranks(w, self.x, self.source, self.ties, begin, many, self.keys, self.ranks)
            target = fn.at(row, fn.mul(first, 2), size)
            with fn.loop(0, many) as i:
                at = fn.add(begin, i)
                rank = fn.let(f"zext i32 {fn.load('i32', fn.at(self.ranks.pointer, i, 4), 4)} to i64")
                number = fn.load("i32", fn.at(self.ties.pointer, at, 4), 4)
                value = fn.load(kind, fn.at(self.source.pointer, at, size), size)
                pair(w, fn.at(target, fn.mul(rank, 2), size), value, number, size)


def _ranks(w: Writer, x: Tile, source: Memory, ties: Memory, begin: Int, many: Int, keys: Memory, ranks: Memory) -> None:
    """For each of up to 32 elements, how many of them come before it."""
    fn, one = w.fn, Lanes(w.fn, 1)
    size, kind = x.dtype.itemsize, memory_kind(x.dtype)
    with fn.loop(many, RUN) as i:  # those that are missing come last
        fn.store("i64", -1, fn.at(keys.pointer, i, 8), 8)
    with fn.loop(0, many) as i:
        at = fn.add(begin, i)
        value = one.from_memory(x.dtype, fn.load(kind, fn.at(source.pointer, at, size), size))
        # unsigned: the earlier, the smaller; below it, the index
        late = one.let("xor", "i32", descending(one, value), one.fill("i32", 0x7FFFFFFF))
        high = one.let("shl", "i64", one.turn("zext", "i32", late, "i64"), one.fill("i64", 32))
        low = one.turn("zext", "i32", fn.load("i32", fn.at(ties.pointer, at, 4), 4), "i64")
        fn.store("i64", fn.let(f"or i64 {high}, {low}"), fn.at(keys.pointer, i, 8), 8)
    e = Lanes(fn, 16)
    own = [fn.load("<16 x i64>", fn.at(keys.pointer, 16 * h, 8), 8) for h in range(2)]
    sums = [fn.slot("<16 x i32>", 64) for _ in range(2)]
    for s in sums:
        fn.store("<16 x i32>", "zeroinitializer", s, 64)
    numbers = [f"<{', '.join(f'i64 {16 * h + i}' for i in range(16))}>" for h in range(2)]
    with fn.loop(0, many) as j:
        other, place = e.splat("i64", fn.load("i64", fn.at(keys.pointer, j, 8), 8)), e.splat("i64", j)
        for h in range(2):
            less = e.let("icmp ult", "i64", other, own[h])
            tie = e.let("and", "i1", e.let("icmp eq", "i64", other, own[h]), e.let("icmp ult", "i64", place, numbers[h]))
            more = e.turn("zext", "i1", e.let("or", "i1", less, tie), "i32")
            fn.store("<16 x i32>", e.let("add", "i32", fn.load("<16 x i32>", sums[h], 64), more), sums[h], 64)
    for h in range(2):
        fn.store("<16 x i32>", fn.load("<16 x i32>", sums[h], 64), fn.at(ranks.pointer, 16 * h, 4), 4)


def merger(module: Module, size: int) -> str:
    """A function that merges up to four lists of pairs: the largest head leaves first, of equal ones that of the first list.

    It gets four pointers and four counts of pairs, the target, a place for the four counts taken, whether to stop at the end of the
    first list that has one, and after how many pairs to stop. An element behind a smaller one leaves with it: what counts is the least
    value so far.
    """
    name = f"merge_{8 * size}"
    return module.need(name, lambda m: _merger(m, size, name))


def _merger(module: Module, size: int, name: str) -> str:
    parameters = [("ptr", f"p{i}") for i in range(4)] + [("i64", f"n{i}") for i in range(4)]
    fn = module.function(name, [*parameters, ("ptr", "out"), ("ptr", "taken"), ("i1", "stops"), ("i64", "most")], "void")
    dtype, kind = (dtypes.FP32, "i32") if size == 4 else (dtypes.FP16, "i16")
    one = Lanes(fn, 1)
    at, heads = [fn.slot("i64") for _ in range(4)], [fn.slot("i64") for _ in range(4)]
    gone = str(-(1 << 62))

    def key(i: int, number: Int) -> str:
        raw = fn.load(memory_kind(dtype), fn.at(f"%p{i}", fn.mul(number, 2), size), size)
        return fn.let(f"sext i32 {descending(one, one.from_memory(dtype, raw))} to i64")

    for i in range(4):
        fn.store("i64", 0, at[i], 8)
        fn.store("i64", gone, heads[i], 8)
        with fn.when(fn.let(f"icmp sgt i64 %n{i}, 0")):
            fn.store("i64", key(i, 0), heads[i], 8)
    total = fn.add(fn.add("%n0", "%n1"), fn.add("%n2", "%n3"))
    count, end = fn.slot("i64"), fn.slot("i64")
    fn.store("i64", 0, count, 8)
    fn.store("i64", fn.least(total, "%most"), end, 8)
    with fn.turns(lambda: fn.let(f"icmp slt i64 {fn.load('i64', count, 8)}, {fn.load('i64', end, 8)}")):
        now = [fn.load("i64", h, 8) for h in heads]
        best, which = now[0], "0"
        for i in range(1, 4):
            better = fn.let(f"icmp sgt i64 {now[i]}, {best}")
            best, which = fn.let(f"select i1 {better}, i64 {now[i]}, i64 {best}"), fn.let(f"select i1 {better}, i64 {i}, i64 {which}")
        done = fn.load("i64", count, 8)
        target = fn.at("%out", fn.mul(done, 2), size)
        for i in range(4):
            with fn.when(fn.let(f"icmp eq i64 {which}, {i}")):
                p = fn.load("i64", at[i], 8)
                pair = fn.at(f"%p{i}", fn.mul(p, 2), size)
                fn.store(f"<2 x {kind}>", fn.load(f"<2 x {kind}>", pair, size), target, size)
                after = fn.add(p, 1)
                fn.store("i64", after, at[i], 8)
                fn.store("i64", gone, heads[i], 8)
                more = fn.let(f"icmp slt i64 {after}, %n{i}")
                with fn.when(more):
                    fn.store("i64", fn.least(key(i, after), now[i]), heads[i], 8)
                with fn.when(fn.let(f"and i1 %stops, {fn.let(f'xor i1 {more}, true')}")):
                    fn.store("i64", fn.add(done, 1), end, 8)
        fn.store("i64", fn.add(done, 1), count, 8)
    for i in range(4):
        fn.store("i64", fn.load("i64", at[i], 8), fn.at("%taken", i, 8), 8)
    fn.do("ret void")
    return fn.text()


def merge(w: Writer, size: int, lists: Sequence[tuple[str, Int]], out: str, taken: str, stops: bool, most: int) -> None:
    padded = [*lists, *[(lists[0][0], 0)] * (4 - len(lists))]
    arguments = [
        *(f"ptr {p}" for p, _ in padded),
        *(f"i64 {n}" for _, n in padded),
        f"ptr {out}",
        f"ptr {taken}",
        f"i1 {str(stops).lower()}",
        f"i64 {most}",
    ]
    w.fn.do(f"call void @{merger(w.module, size)}({', '.join(arguments)})")


def merge_runs(w: Writer, size: int, source: str, target: str, pairs: Int, run: Int, taken: str, most: int) -> None:
    """Merge runs of pairs four at a time; of each group no more than `most` pairs are made."""
    fn = w.fn
    with fn.loop(0, pairs, fn.mul(run, 4)) as start:
        lists: list[tuple[str, Int]] = []
        for i in range(4):
            begin = fn.add(start, fn.mul(run, i))
            many = fn.least(fn.most(fn.sub(pairs, begin), 0), run)
            lists.append((fn.at(source, fn.mul(begin, 2), size), many))
        merge(w, size, lists, fn.at(target, fn.mul(start, 2), size), taken, False, most)
