"""Runs of pairs: sort32, and the merges of runs and of lists. Nobody orders what nobody reads (see `prefixes`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pypto import dtypes
from pypto.core.ir import Eqn, Literal
from pypto.interpreters.cpu.elements import BITS, Spot, lines, ordered, result, tile, zeros
from pypto.interpreters.cpu.lanes import Lanes, memory_kind
from pypto.interpreters.cpu.prefixes import Wanted, begins, prefix, row
from pypto.interpreters.cpu.rules import Tilewise
from pypto.interpreters.cpu.selection import Order, selects
from pypto.interpreters.cpu.text import Int
from pypto.interpreters.cpu.top import Places
from pypto.interpreters.cpu.values import Memory, Tile, Value

if TYPE_CHECKING:
    from pypto.interpreters.cpu.module import Module
    from pypto.interpreters.cpu.writer import Writer

RUN = 32
_BOTTOM = -0x80000000
_AHEAD = 64  # equations that are looked through for merges
_ALL = 1 << 62


def descending(e: Lanes, x: str) -> str:
    """An i32 that is the larger the earlier a value comes: zeros are equal, NaN comes last."""
    return ordered(e, dtypes.FP32, x, nan=_BOTTOM, signed_zeros=False)


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
    """Each element of a run counts those that come before it: that is its place. Where merges follow and little of what they make is
    read, this selects it, and the merges have nothing to do.
    """
    x, index, fn = tile(ins[0]), tile(ins[1]), w.fn
    out, n = eqn.outs[0].aval, x.valid[-1]
    valid = (*x.valid[:-1], fn.mul(n, 2))
    merges, first = _merges(w, eqn), _first(w, eqn)
    if merges and first is not None and isinstance(n, int) and index.valid == x.valid:
        run = RUN * 4 ** len(merges)
        few = _few(w, merges[-1], 2 * run)
        if all(selects(many, few) for many in (run, n % run) if many and many <= n):
            source, place = w.dense(x), result(w, eqn, valid)
            _select(w, x, source, place, first, run, few)
            w.done.update(map(id, merges))
            return [Tile(out.dtype, out.static_shape, valid, place)]
    source, ties = w.dense(x), w.dense(index)
    same = (fn.compare("eq", a, b) for a, b in zip(x.valid, index.valid, strict=True))
    w.check(w.all_of(same), eqn, "region", [])
    place = result(w, eqn, valid)
    size, kind = x.dtype.itemsize, memory_kind(BITS[x.dtype.itemsize])
    keys, ranks = w.reserve(dtypes.INT64, (RUN,)), w.reserve(dtypes.INT32, (RUN,))

    def visit(spot: Spot) -> None:
        start = spot.offset(_row_major(x))
        with fn.loop(0, n, RUN) as first:
            many = fn.least(fn.sub(n, first), RUN)
            begin = fn.add(start, first)
            _ranks(w, x, source, ties, begin, many, keys, ranks)
            target = fn.at(place.pointer, fn.mul(begin, 2), size)
            with fn.loop(0, many) as i:
                at = fn.add(begin, i)
                rank = fn.let(f"zext i32 {fn.load('i32', fn.at(ranks.pointer, i, 4), 4)} to i64")
                number = fn.load("i32", fn.at(ties.pointer, at, 4), 4)
                _pair(w, fn.at(target, fn.mul(rank, 2), size), fn.load(kind, fn.at(source.pointer, at, size), size), number, size)

    lines(w, x.shape, x.valid, len(x.shape) - 1, visit, single=True)
    return [Tile(out.dtype, out.static_shape, valid, place)]


def _row_major(x: Tile) -> tuple[int, ...]:
    return tuple(math.prod(x.shape[i + 1 :]) for i in range(len(x.shape)))


def _few(w: Writer, eqn: Eqn, period: int) -> int:
    """How many pairs of each run, of so many positions, are read of the first result."""
    return -(-begins(w.module.wanted.get(eqn.outs[0]), period) // 2)


def _pair(w: Writer, target: str, value: str, number: str, size: int) -> None:
    """A value's bits, and behind them as many of its index."""
    kind = memory_kind(BITS[size])
    w.fn.store(kind, value, target, size)
    w.fn.store(kind, number if size == 4 else w.fn.let(f"trunc i32 {number} to i16"), w.fn.at(target, size), size)


def _select(w: Writer, x: Tile, source: Memory, place: Memory, first: int, run: int, few: int) -> None:
    """The first few pairs of every run of a row; of the last one, which may be shorter, too."""
    fn, n, size, order = w.fn, int(x.valid[-1]), x.dtype.itemsize, Order(x.dtype, top=False)
    kind = memory_kind(BITS[size])

    whole = n - n % run
    many = Places(w, order, run, few) if whole else None
    rest = Places(w, order, n - whole, few) if whole < n else None

    def visit(spot: Spot) -> None:
        start = spot.offset(_row_major(x))

        def select(places: Places, column: Int) -> None:
            begin = fn.add(start, column)
            line, target = fn.at(source.pointer, begin, size), fn.at(place.pointer, fn.mul(begin, 2), size)
            places.of(line)
            for i in range(few):
                at = places.place(i)
                number = fn.let(f"trunc i64 {fn.add(at, fn.add(column, first))} to i32")
                _pair(w, fn.at(target, 2 * i, size), fn.load(kind, fn.at(line, at, size), size), number, size)

        if many is not None:
            with fn.loop(0, whole, run) as column:
                select(many, column)
        if rest is not None:
            select(rest, whole)

    lines(w, x.shape, x.valid, len(x.shape) - 1, visit, single=True)


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


def _merge(w: Writer, size: int, lists: Sequence[tuple[str, Int]], out: str, taken: str, stops: bool, most: int) -> None:
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


def _runs(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, fn = tile(ins[0]), w.fn
    if id(eqn) in w.done:
        return [x]
    source, size = w.dense(x), x.dtype.itemsize
    place, taken = result(w, eqn, x.valid), w.reserve(dtypes.INT64, (4,))
    used = fn.product(x.valid[:-1])
    pairs = fn.mul(_halved(w, eqn, x.valid[-1]), used)
    run = _run(w, eqn, ins[1:], x.shape[-1])
    most = _few(w, eqn, 8 * run) if isinstance(run, int) else _ALL
    with fn.loop(0, pairs, fn.mul(run, 4)) as start:
        lists: list[tuple[str, Int]] = []
        for i in range(4):
            begin = fn.add(start, fn.mul(run, i))
            many = fn.least(fn.most(fn.sub(pairs, begin), 0), run)
            lists.append((fn.at(source.pointer, fn.mul(begin, 2), size), many))
        _merge(w, size, lists, fn.at(place.pointer, fn.mul(start, 2), size), taken.pointer, False, most)
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
    most = _ALL if stops else _few(w, eqn, row(eqn.outs[0]))
    _merge(w, size, lists, merged.pointer, taken.pointer, stops, most)
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
