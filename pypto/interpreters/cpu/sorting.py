"""Sorting: runs of pairs (sort32, mrgsort), and whole lines by keys (sort, top_k)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pypto import dtypes
from pypto.core.ir import Eqn
from pypto.interpreters.cpu.elements import BITS, Spot, lines, ordered, result, sortable, tile, zeros
from pypto.interpreters.cpu.lanes import Lanes, memory_kind
from pypto.interpreters.cpu.text import Function, Int
from pypto.interpreters.cpu.top import fewest
from pypto.interpreters.cpu.values import Memory, Tile, Value

if TYPE_CHECKING:
    from pypto.interpreters.cpu.module import Module
    from pypto.interpreters.cpu.writer import Writer

RUN = 32
_BOTTOM = -0x80000000


# ---- whole lines by keys -----------------------------------------------------------------------------------------


def sorter(module: Module, keys: int) -> str:
    """A function that sorts 0..n-1 by arrays of i64 keys, the first before the others: a stable merge sort from below.

    It gets the keys, [keys][stride], two places for n i32 each, and returns the one that holds the result.
    """
    name = f"sort_{keys}"
    return module.need(name, lambda m: _sorter(m, keys, name))


def _sorter(module: Module, keys: int, name: str) -> str:
    parameters = [("ptr", "keys"), ("i64", "stride"), ("i64", "n"), ("ptr", "a"), ("ptr", "b")]
    fn = module.function(name, parameters, "ptr")
    source, target, width = fn.slot("ptr"), fn.slot("ptr"), fn.slot("i64")
    fn.store("ptr", "%a", source, 8)
    fn.store("ptr", "%b", target, 8)
    fn.store("i64", 1, width, 8)
    with fn.loop(0, "%n") as i:
        fn.store("i32", fn.let(f"trunc i64 {i} to i32"), fn.at("%a", i, 4), 4)

    def number(place: str, at: Int) -> str:
        return fn.let(f"zext i32 {fn.load('i32', fn.at(place, at, 4), 4)} to i64")

    def below(p: str, q: str) -> str:
        """Whether element p comes before element q."""
        test = "false"
        for k in reversed(range(keys)):
            first = fn.at("%keys", fn.mul("%stride", k), 8)
            x, y = (fn.load("i64", fn.at(first, e, 8), 8) for e in (p, q))
            same = fn.let(f"icmp eq i64 {x}, {y}")
            later = fn.let(f"and i1 {same}, {test}")
            test = fn.let(f"or i1 {fn.let(f'icmp slt i64 {x}, {y}')}, {later}")
        return test

    low, left, right = fn.slot("i64"), fn.slot("i64"), fn.slot("i64")
    with fn.turns(lambda: fn.let(f"icmp slt i64 {fn.load('i64', width, 8)}, %n")):
        step, now, then = fn.load("i64", width, 8), fn.load("ptr", source, 8), fn.load("ptr", target, 8)
        fn.store("i64", 0, low, 8)
        with fn.turns(lambda: fn.let(f"icmp slt i64 {fn.load('i64', low, 8)}, %n")):
            begin = fn.load("i64", low, 8)
            middle = fn.least(fn.add(begin, step), "%n")
            end = fn.least(fn.add(middle, step), "%n")
            fn.store("i64", begin, left, 8)
            fn.store("i64", middle, right, 8)
            with fn.loop(begin, end) as o:
                i, j = fn.load("i64", left, 8), fn.load("i64", right, 8)
                more, rest = fn.let(f"icmp slt i64 {i}, {middle}"), fn.let(f"icmp slt i64 {j}, {end}")
                safe_i, safe_j = fn.pick(more, i, begin), fn.pick(rest, j, begin)
                p, q = number(now, safe_i), number(now, safe_j)
                second = fn.let(f"select i1 {more}, i1 {fn.let(f'and i1 {rest}, {below(q, p)}')}, i1 true")
                chosen = fn.let(f"select i1 {second}, i64 {q}, i64 {p}")
                fn.store("i32", fn.let(f"trunc i64 {chosen} to i32"), fn.at(then, o, 4), 4)
                moved = fn.let(f"zext i1 {second} to i64")
                fn.store("i64", fn.add(j, moved), right, 8)
                fn.store("i64", fn.sub(fn.add(i, 1), moved), left, 8)
            fn.store("i64", end, low, 8)
        fn.store("ptr", then, source, 8)
        fn.store("ptr", now, target, 8)
        fn.store("i64", fn.mul(step, 2), width, 8)
    fn.do(f"ret ptr {fn.load('ptr', source, 8)}")
    return fn.text()


class _Lines:
    """Scratch for sorting lines of up to n elements by some keys."""

    def __init__(self, w: Writer, n: int, keys: int) -> None:
        self.w, self.n, self.count = w, max(n, 1), keys
        self.keys = w.reserve(dtypes.INT64, (keys, self.n))
        self.first, self.second = (w.reserve(dtypes.INT32, (self.n,)) for _ in range(2))
        self.function = sorter(w.module, keys)

    def fill(self, number: int, x: Tile, spot: Spot, n: Int, change: Callable[[Lanes, str], str]) -> None:
        """Compute the keys of one operand's line."""
        fn, memory = self.w.fn, x.memory
        assert memory is not None
        size, kind = x.dtype.itemsize, memory_kind(x.dtype)
        source = fn.at(memory.pointer, spot.offset(memory.strides), size)
        with fn.loop(0, n) as k:
            value = spot.e.from_memory(x.dtype, spot.load(kind, size, source, memory.strides, k))
            fn.store("i64", change(spot.e, value), fn.at(self.keys.pointer, fn.add(k, number * self.n), 8), 8)

    def order(self, n: Int) -> str:
        """Where the sorted numbers are."""
        arguments = f"ptr {self.keys.pointer}, i64 {self.n}, i64 {n}, ptr {self.first.pointer}, ptr {self.second.pointer}"
        return self.w.fn.let(f"call ptr @{self.function}({arguments})")


def _copied(fn: Function, x: Tile, place: Memory, spot: Spot, order: str, axis: int, n: Int) -> None:
    """A line in another order, bits as they are."""
    memory, size = x.memory, x.dtype.itemsize
    assert memory is not None
    kind = memory_kind(BITS[size])
    source = fn.at(memory.pointer, spot.offset(memory.strides), size)
    target = fn.at(place.pointer, spot.offset(place.strides), size)
    with fn.loop(0, n) as k:
        at = fn.let(f"zext i32 {fn.load('i32', fn.at(order, k, 4), 4)} to i64")
        raw = fn.load(kind, fn.at(source, fn.mul(at, memory.strides[axis]), size), size)
        fn.store(kind, raw, fn.at(target, fn.mul(k, place.strides[axis]), size), size)


def _sort(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    xs, axis, keys = [tile(x) for x in ins], eqn.params["dimension"], eqn.params["num_keys"]
    for x in xs:
        w.materialise(x)
    valid, n = xs[0].valid, xs[0].valid[axis]
    places = [_place(w, x, valid) for x in xs]
    scratch = _Lines(w, xs[0].shape[axis], keys)

    def visit(spot: Spot) -> None:
        for i, x in enumerate(xs[:keys]):
            scratch.fill(i, x, spot, n, lambda e, v, x=x: sortable(e, x.dtype, v, signed_zeros=False))
        order = scratch.order(n)
        for x, place in zip(xs, places, strict=True):
            _copied(w.fn, x, place, spot, order, axis, n)

    lines(w, xs[0].shape, valid, axis, visit, single=True)
    return [Tile(x.dtype, x.shape, valid, place) for x, place in zip(xs, places, strict=True)]


def _place(w: Writer, x: Tile, valid: Sequence[Int]) -> Memory:
    return w.reserve(x.dtype, x.shape) if tuple(valid) == x.shape else zeros(w, x.dtype, x.shape)


def _top_k(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, k, axis, fn = tile(ins[0]), eqn.params["k"], eqn.params["axis"], w.fn
    memory, (values, numbers) = w.materialise(x), (v.aval for v in eqn.outs)
    n = x.valid[axis]
    taken = fn.least(n, k)
    valid = tuple(taken if a == axis else v for a, v in enumerate(x.valid))
    whole = valid == values.static_shape
    best, found = (w.reserve(a.dtype, a.static_shape) if whole else zeros(w, a.dtype, a.static_shape) for a in (values, numbers))
    if 0 < k <= 16 and x.dtype.bits <= 32 and memory.strides[axis] == 1:
        fewest(w, x, axis, k, best, found, taken)
        return [Tile(x.dtype, values.static_shape, valid, best), Tile(numbers.dtype, numbers.static_shape, valid, found)]
    scratch = _Lines(w, x.shape[axis], 1)

    def visit(spot: Spot) -> None:
        scratch.fill(0, x, spot, n, lambda e, v: e.let("xor", "i64", sortable(e, x.dtype, v, signed_zeros=True), e.fill("i64", -1)))
        order = scratch.order(n)
        _copied(fn, x, best, spot, order, axis, taken)
        target = fn.at(found.pointer, spot.offset(found.strides), 4)
        with fn.loop(0, taken) as i:
            fn.store("i32", fn.load("i32", fn.at(order, i, 4), 4), fn.at(target, fn.mul(i, found.strides[axis]), 4), 4)

    lines(w, x.shape, x.valid, axis, visit, single=True)
    return [Tile(x.dtype, values.static_shape, valid, best), Tile(numbers.dtype, numbers.static_shape, valid, found)]


# ---- runs of pairs -----------------------------------------------------------------------------------------------


def descending(e: Lanes, x: str) -> str:
    """An i32 that is the larger the earlier a value comes: zeros are equal, NaN comes last."""
    return ordered(e, dtypes.FP32, x, nan=_BOTTOM, signed_zeros=False)


def _sort32(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """Each element of a run counts those that come before it: that is its place."""
    x, index, fn = tile(ins[0]), tile(ins[1]), w.fn
    source, ties = w.dense(x), w.dense(index)
    same = (fn.compare("eq", a, b) for a, b in zip(x.valid, index.valid, strict=True))
    w.check(w.all_of(same), eqn, "region", [])
    out, n = eqn.outs[0].aval, x.valid[-1]
    valid = (*x.valid[:-1], fn.mul(n, 2))
    place = result(w, eqn, valid)
    size, kind = x.dtype.itemsize, memory_kind(BITS[x.dtype.itemsize])
    keys, ranks = w.reserve(dtypes.INT64, (RUN,)), w.reserve(dtypes.INT32, (RUN,))

    def visit(spot: Spot) -> None:
        row = spot.offset((*(math.prod(x.shape[i + 1 :]) for i in range(len(x.shape))),))
        with fn.loop(0, n, RUN) as first:
            many = fn.least(fn.sub(n, first), RUN)
            begin = fn.add(row, first)
            _ranks(w, x, source, ties, begin, many, keys, ranks)
            target = fn.at(place.pointer, fn.mul(begin, 2), size)
            with fn.loop(0, many) as i:
                at = fn.add(begin, i)
                rank = fn.let(f"zext i32 {fn.load('i32', fn.at(ranks.pointer, i, 4), 4)} to i64")
                pair = fn.at(target, fn.mul(rank, 2), size)
                fn.store(kind, fn.load(kind, fn.at(source.pointer, at, size), size), pair, size)
                number = fn.load("i32", fn.at(ties.pointer, at, 4), 4)
                fn.store(kind, number if size == 4 else fn.let(f"trunc i32 {number} to i16"), fn.at(pair, size), size)

    lines(w, x.shape, x.valid, len(x.shape) - 1, visit, single=True)
    return [Tile(out.dtype, out.static_shape, valid, place)]


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

    It gets four pointers and four counts of pairs, the target, a place for the four counts taken, and whether to stop at the end of
    the first list that has one. An element behind a smaller one leaves with it: what counts is the least value so far.
    """
    name = f"merge_{8 * size}"
    return module.need(name, lambda m: _merger(m, size, name))


def _merger(module: Module, size: int, name: str) -> str:
    parameters = [("ptr", f"p{i}") for i in range(4)] + [("i64", f"n{i}") for i in range(4)]
    fn = module.function(name, [*parameters, ("ptr", "out"), ("ptr", "taken"), ("i1", "stops")], "void")
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
    fn.store("i64", total, end, 8)
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


def _merge(w: Writer, size: int, lists: Sequence[tuple[str, Int]], out: str, taken: str, stops: bool | str) -> None:
    padded = [*lists, *[(lists[0][0], 0)] * (4 - len(lists))]
    arguments = [
        *(f"ptr {p}" for p, _ in padded),
        *(f"i64 {n}" for _, n in padded),
        f"ptr {out}",
        f"ptr {taken}",
        f"i1 {str(stops).lower()}",
    ]
    w.fn.do(f"call void @{merger(w.module, size)}({', '.join(arguments)})")


def _runs(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, fn = tile(ins[0]), w.fn
    source, size = w.dense(x), x.dtype.itemsize
    place, taken = result(w, eqn, x.valid), w.reserve(dtypes.INT64, (4,))
    used = fn.product(x.valid[:-1])
    pairs = fn.mul(_halved(w, eqn, x.valid[-1]), used)
    run = _run(w, eqn, ins[1:], x.shape[-1])
    with fn.loop(0, pairs, fn.mul(run, 4)) as start:
        lists: list[tuple[str, Int]] = []
        for i in range(4):
            begin = fn.add(start, fn.mul(run, i))
            many = fn.least(fn.most(fn.sub(pairs, begin), 0), run)
            lists.append((fn.at(source.pointer, fn.mul(begin, 2), size), many))
        _merge(w, size, lists, fn.at(place.pointer, fn.mul(start, 2), size), taken.pointer, False)
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
    _merge(w, size, lists, merged.pointer, taken.pointer, stops)
    place = w.reserve(counts.dtype, counts.static_shape)
    for i in range(4):
        many = fn.let(f"trunc i64 {fn.load('i64', fn.at(taken.pointer, i, 8), 8)} to i16")
        fn.store("i16", many, fn.at(place.pointer, i, 2), 2)
    total: Int = 0
    for x in xs:
        total = fn.add(total, x.valid[-1])
    valid = (*xs[0].valid[:-1], total)
    return [Tile(out.dtype, out.static_shape, valid, merged), Tile(counts.dtype, (1, 4), (1, 4), place)]


SORT, TOP_K, SORT32, RUNS, LISTS = _sort, _top_k, _sort32, _runs, _lists
