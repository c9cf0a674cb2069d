"""Runs of pairs: sort32, and the merges of runs and of lists. Nobody orders what nobody reads (see `prefixes`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from pypto import dtypes
from pypto.core.ir import Eqn, Literal
from pypto.interpreters.cpu.elements import BITS, Spot, lines, result, tile, zeros
from pypto.interpreters.cpu.lanes import Lanes, memory_kind
from pypto.interpreters.cpu.merging import ALL, RUN, Runs, merge, merge_runs, pair
from pypto.interpreters.cpu.network import LONGEST, Ranking
from pypto.interpreters.cpu.prefixes import Wanted, begins, prefix, row
from pypto.interpreters.cpu.rules import Tilewise
from pypto.interpreters.cpu.selection import MOST, Order, selects
from pypto.interpreters.cpu.text import Int
from pypto.interpreters.cpu.top import Places
from pypto.interpreters.cpu.values import Tile, Value

if TYPE_CHECKING:
    from pypto.interpreters.cpu.module import Module
    from pypto.interpreters.cpu.writer import Writer

_AHEAD = 64  # equations that are looked through for merges


def _first(w: Writer, eqn: Eqn) -> int | None:
    """Where the indices of a sort32 begin, if they count columns and have room for all: then places are in their order."""
    for eqns, at in reversed(w.walk):
        for e in eqns[:at]:
            if eqn.ins[1] in e.outs:
                counts = isinstance(e.op.cpu, Tilewise) and e.op.cpu.emit == "moves.RAMP" and not e.params["descending"]
                start = int(e.ins[0].value) if counts and isinstance(e.ins[0], Literal) else -1
                return start if start >= 0 and start + row(eqn.ins[1]) < 1 << 31 else None
    return None


def _merges(w: Writer, eqn: Eqn) -> list[Eqn]:
    """The merges that follow, each the only one to use what the one before it made: they sort runs of 128, 512, ... elements."""
    found: list[Eqn] = []
    eqns, at = w.walk[-1]
    v, length = eqn.outs[0], 2 * RUN
    for e in eqns[at + 1 : at + 1 + _AHEAD]:
        if v in e.ins:
            runs = isinstance(e.op.cpu, Tilewise) and e.op.cpu.emit == "pairs.RUNS" and e.params["block_len"] == length
            if not runs or len(e.ins) > 1 or w.left[-1].get(v) != 1:
                break
            found.append(e)
            v, length = e.outs[0], 4 * length
    return found


def _sort32(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """Sort runs of 32; where merges follow, what they will make of them is made at once, and they have nothing to do.

    Where indices rise along a row, equal elements stay in their order: an element's place is all that has to be found.
    """
    x, index, fn = tile(ins[0]), tile(ins[1]), w.fn
    out, n = eqn.outs[0].aval, x.valid[-1]
    merges, first = _merges(w, eqn), _first(w, eqn)
    valid = (*x.valid[:-1], fn.mul(n, 2))
    source, ties = w.dense(x), w.dense(index) if first is None else None
    same = (fn.compare("eq", a, b) for a, b in zip(x.valid, index.valid, strict=True))
    w.check(w.all_of(same), eqn, "region", [])
    place, size, taken = result(w, eqn, valid), x.dtype.itemsize, w.reserve(dtypes.INT64, (4,))
    chosen = _Chosen.of(w, eqn, x, merges) if isinstance(n, int) else None
    if chosen is None:
        merges = []
        ties = ties or w.dense(index)
    runs = Runs(w, x, source, ties) if ties is not None else None
    aside = [w.reserve(x.dtype, (2 * x.shape[-1],)) for _ in merges[:2]] if runs is not None else []

    def step_by_step(start: Int, target: str) -> None:
        assert runs is not None
        places = [*(aside[i % 2].pointer for i in range(len(merges))), target]
        runs.sort(start, n, places[0])
        for i, (before, after) in enumerate(pairwise(places)):
            assert chosen is not None  # of a run that has been merged more often, no more is read than of the last one
            merge_runs(w, size, before, after, n, RUN * 4**i, taken.pointer, chosen.few)

    def visit(spot: Spot) -> None:
        start = spot.offset(_row_major(x))
        target = fn.at(place.pointer, fn.mul(start, 2), size)
        if chosen is None:
            step_by_step(start, target)
        elif ties is None:
            chosen.write(fn.at(source.pointer, start, size), target, first or 0)
        else:
            numbers, k = fn.at(ties.pointer, start, 4), fn.number()
            rise = fn.let(f"call i1 @{rising(w.module)}(ptr {numbers}, i64 {n})")
            fn.do(f"br i1 {rise}, label %rising{k}, label %mixed{k}")
            fn.start(f"rising{k}")
            chosen.write(fn.at(source.pointer, start, size), target, numbers)
            fn.do(f"br label %sorted{k}")
            fn.start(f"mixed{k}")
            step_by_step(start, target)
            fn.do(f"br label %sorted{k}")
            fn.start(f"sorted{k}")

    lines(w, x.shape, x.valid, len(x.shape) - 1, visit, single=True)
    w.done.update(map(id, merges))
    return [Tile(out.dtype, out.static_shape, valid, place)]


def rising(module: Module) -> str:
    """A function that tells whether each of n u32 is larger than the one before it."""
    return module.need("rising", _rising)


def _rising(module: Module) -> str:
    fn = module.function("rising", [("ptr", "numbers"), ("i64", "n")], "i1")
    e = Lanes(fn, 16)
    wrong = fn.slot("<16 x i1>", 64)
    fn.store("<16 x i1>", "zeroinitializer", wrong, 2)

    def look(lanes: Lanes, i: Int) -> str:
        now, then = (fn.load(lanes.type("i32"), fn.at("%numbers", fn.add(i, j), 4), 4) for j in (0, 1))
        return lanes.let("icmp uge", "i32", now, then)

    pairs = fn.most(fn.sub("%n", 1), 0)
    whole = fn.let(f"and i64 {pairs}, -16")
    with fn.loop(0, whole, 16) as i:
        fn.store("<16 x i1>", e.let("or", "i1", look(e, i), fn.load("<16 x i1>", wrong, 2)), wrong, 2)
    last, some = fn.slot("i1"), fn.let(f"bitcast <16 x i1> {fn.load('<16 x i1>', wrong, 2)} to i16")
    fn.store("i1", fn.let(f"icmp ne i16 {some}, 0"), last, 1)
    one = Lanes(fn, 1)
    with fn.loop(whole, pairs) as i:
        fn.store("i1", fn.let(f"or i1 {look(one, i)}, {fn.load('i1', last, 1)}"), last, 1)
    falls = fn.load("i1", last, 1)
    fn.do(f"ret i1 {fn.let(f'xor i1 {falls}, true')}")
    return fn.text()


class _Chosen:
    """How the first pairs of every run of a row are found: by selecting them, or by sorting the run."""

    def __init__(self, w: Writer, x: Tile, run: int, few: int, *, selected: bool) -> None:
        self.w, self.x, self.run, self.few = w, x, run, few
        self.n = int(x.valid[-1])
        self.order = Order(x.dtype, top=False)
        self.whole = self.n - self.n % run
        lengths = [many for many in (run if self.whole else 0, self.n - self.whole) if many]
        self.ways = {many: Places(w, self.order, many, few) if selected else Ranking(w, self.order, many) for many in lengths}

    @staticmethod
    def of(w: Writer, eqn: Eqn, x: Tile, merges: list[Eqn]) -> _Chosen | None:
        """For as many of the merges as can be, of which the others are taken from the list; None where there is nothing to sort."""
        n = int(x.valid[-1])
        while n:
            run = RUN * 4 ** len(merges)
            few = _few(w, (merges or [eqn])[-1], 2 * run)
            if all(selects(many, few) for many in (min(run, n), n % run) if many):
                return _Chosen(w, x, run, few, selected=True)
            if min(run, n) <= LONGEST:
                return _Chosen(w, x, run, few, selected=False)
            merges.pop()
        return None

    def write(self, line: str, target: str, numbers: int | str) -> None:
        """The pairs of a row; `numbers` are its indices, or where they begin if they count columns."""
        fn, size, x = self.w.fn, self.x.dtype.itemsize, self.x
        kind = memory_kind(BITS[x.dtype.itemsize])

        def run(column: Int, many: int) -> None:
            begin, way, out = fn.at(line, column, size), self.ways[many], fn.at(target, fn.mul(column, 2), size)
            way.of(begin)

            def put(i: Int) -> None:
                at = way.place(i)
                value, number = fn.load(kind, fn.at(begin, at, size), size), fn.add(at, column)
                if isinstance(numbers, int):
                    raw = fn.let(f"trunc i64 {fn.add(number, numbers)} to i32")
                else:
                    raw = fn.load("i32", fn.at(numbers, number, 4), 4)
                pair(self.w, fn.at(out, fn.mul(i, 2), size), value, raw, size)

            few = min(self.few, many)
            if few <= MOST:
                for i in range(few):
                    put(i)
                return
            with fn.loop(0, few) as i:
                put(i)

        if self.whole:
            with fn.loop(0, self.whole, self.run) as column:
                run(column, self.run)
        if self.whole < self.n:
            run(self.whole, self.n - self.whole)


def _row_major(x: Tile) -> tuple[int, ...]:
    return tuple(math.prod(x.shape[i + 1 :]) for i in range(len(x.shape)))


def _few(w: Writer, eqn: Eqn, period: int) -> int:
    """How many pairs of each run, of so many positions, are read of the first result."""
    return -(-begins(w.module.wanted.get(eqn.outs[0]), period) // 2)


def _runs(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, fn = tile(ins[0]), w.fn
    if id(eqn) in w.done:
        return [x]
    source, size = w.dense(x), x.dtype.itemsize
    place, taken = result(w, eqn, x.valid), w.reserve(dtypes.INT64, (4,))
    used = fn.product(x.valid[:-1])
    pairs = fn.mul(_halved(w, eqn, x.valid[-1]), used)
    run = _run(w, eqn, ins[1:], x.shape[-1])
    most = _few(w, eqn, 8 * run) if isinstance(run, int) else ALL
    merge_runs(w, size, source.pointer, place.pointer, pairs, run, taken.pointer, most)
    return [Tile(x.dtype, x.shape, x.valid, place)]


def _run(w: Writer, eqn: Eqn, length: Sequence[Value], columns: int) -> Int:
    """Pairs of a sorted run: half of `block_len`, which must be a positive multiple of 64 also where only the run knows it,
    and of which four must divide the columns."""
    if not length:
        return eqn.params["block_len"] // 2
    fn, positions = w.fn, w.index(length[0])
    rest = positions % 64 if isinstance(positions, int) else fn.let(f"and i64 {positions}, 63")
    w.check(w.all_of([fn.compare("sgt", positions, 0), fn.compare("eq", rest, 0)]), eqn, "runs", [positions])
    if isinstance(positions, int):
        left: Int = columns % (4 * positions) if positions > 0 else 1
    else:  # of a quarter, as four times a length may be more than an i64 holds
        left = fn.let(f"urem i64 {columns // 4}, {positions}") if columns % 4 == 0 else 1
    w.check(fn.compare("eq", left, 0), eqn, "runs", [positions])
    return positions // 2 if isinstance(positions, int) else fn.let(f"lshr i64 {positions}, 1")


def _halved(w: Writer, eqn: Eqn, n: Int) -> Int:
    """Pairs in n elements, which must be whole ones."""
    fn = w.fn
    odd = n % 2 if isinstance(n, int) else fn.let(f"and i64 {n}, 1")
    w.check(fn.compare("eq", odd, 0), eqn, "pairs", [n])
    return n // 2 if isinstance(n, int) else fn.let(f"lshr i64 {n}, 1")


def _lists(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    xs, stops, fn = [tile(x) for x in ins], eqn.params["exhausted"], w.fn
    memories, (out, counts) = [w.dense(x) for x in xs], (v.aval for v in eqn.outs)
    size = xs[0].dtype.itemsize
    merged, taken = zeros(w, out.dtype, out.static_shape), w.reserve(dtypes.INT64, (4,))
    lists: list[tuple[str, Int]] = [
        (m.pointer, fn.mul(_halved(w, eqn, x.valid[-1]), fn.product(x.valid[:-1]))) for m, x in zip(memories, xs, strict=True)
    ]
    if stops:  # nothing is merged where a list has nothing to begin with
        full = w.all_of(fn.compare("sgt", n, 0) for _, n in lists)
        lists = [(p, fn.pick(full, n, 0)) for p, n in lists]
    most = ALL if stops else _few(w, eqn, row(eqn.outs[0]))
    merge(w, size, lists, merged.pointer, taken.pointer, stops, most)
    place = zeros(w, counts.dtype, counts.static_shape)
    for i, (_, given) in enumerate(lists):  # all leave, whether or not anybody reads so far
        gone = fn.load("i64", fn.at(taken.pointer, i, 8), 8) if stops else given
        many = str(gone) if isinstance(gone, int) else fn.let(f"trunc i64 {gone} to i16")
        fn.store("i16", many, fn.at(place.pointer, i, 2), 2)
    total: Int = 0
    for x in xs:
        total = fn.add(total, x.valid[-1])
    valid = (*xs[0].valid[:-1], total)
    return [Tile(out.dtype, out.static_shape, valid, merged), Tile(counts.dtype, (1, 4), (1, 4), place)]


# ---- what merges read --------------------------------------------------------------------------------------------


def _reads_of_runs(eqn: Eqn, outs: Sequence[Wanted]) -> Sequence[Wanted]:
    """Of what leaves first, no more comes from any run."""
    length = eqn.params["block_len"]
    return [None if length is None else prefix(begins(outs[0], 4 * length), length)]


def _reads_of_lists(eqn: Eqn, outs: Sequence[Wanted]) -> Sequence[Wanted]:
    if eqn.params["exhausted"]:  # when a list ends decides how many pairs there are
        return []
    count = begins(outs[0], row(eqn.outs[0]))
    return [prefix(count, row(x)) for x in eqn.ins]


SORT32, RUNS, LISTS = _sort32, _runs, _lists
READS_OF_RUNS, READS_OF_LISTS = _reads_of_runs, _reads_of_lists
