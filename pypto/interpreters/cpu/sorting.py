"""Sorting whole lines by keys (sort, top_k)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pypto import dtypes
from pypto.core.ir import Eqn
from pypto.interpreters.cpu.elements import BITS, Spot, lines, sortable, tile, zeros
from pypto.interpreters.cpu.lanes import Lanes, memory_kind
from pypto.interpreters.cpu.selection import MOST
from pypto.interpreters.cpu.text import Function, Int
from pypto.interpreters.cpu.top import fewest
from pypto.interpreters.cpu.values import Memory, Tile, Value

if TYPE_CHECKING:
    from pypto.interpreters.cpu.module import Module
    from pypto.interpreters.cpu.writer import Writer


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
    if 0 < k <= MOST and x.dtype.bits <= 32 and memory.strides[axis] == 1:
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


SORT, TOP_K = _sort, _top_k
