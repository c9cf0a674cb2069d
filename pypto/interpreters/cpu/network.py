"""Sorting whole lines: a bitonic network on 64-bit keys, of which no two are equal, so that their order is the only one there is.

A key is the order of an element above and its place below. Distances within a vector are shuffles, others are pairs of vectors; 64 keys
at a time stay in registers, and what is longer is sorted in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto import dtypes
from pypto.interpreters.cpu.lanes import Lanes
from pypto.interpreters.cpu.selection import Order
from pypto.interpreters.cpu.text import Function, Int

if TYPE_CHECKING:
    from pypto.interpreters.cpu.module import Module
    from pypto.interpreters.cpu.writer import Writer

LONGEST = 4096
"""Elements of a line that is sorted so: more keys would not stay in the first cache."""
_LANES = 8
_BLOCK = 64
_LAST = str((1 << 63) - 1)


class Ranking:
    """What sorts a dense line of n elements, and tells the places of the first, the second ..."""

    def __init__(self, w: Writer, order: Order, n: int) -> None:
        self.w = w
        length = padded(n)
        self.keys = w.reserve(dtypes.INT64, (length,))
        name = f"rank_{order.name}_{n}"
        self.function = w.module.need(name, lambda m: _ranked(m, order, n, name))

    def of(self, line: str) -> None:
        self.w.fn.do(f"call void @{self.function}(ptr {line}, ptr {self.keys.pointer})")

    def place(self, i: Int) -> str:
        fn = self.w.fn
        return fn.let(f"and i64 {fn.load('i64', fn.at(self.keys.pointer, i, 8), 8)}, {0xFFFFFFFF}")


def padded(n: int) -> int:
    """The length of the network for n keys."""
    return max(2 * _LANES, 1 << (n - 1).bit_length())


def _ranked(module: Module, order: Order, n: int, name: str) -> str:
    """Make the keys of a line, and sort them."""
    fn, length = module.function(name, [("ptr", "line"), ("ptr", "keys")], "void"), padded(n)
    network = f"network_{min(length, _BLOCK)}"
    module.need(network, lambda m: _network(m, min(length, _BLOCK), network))

    def key(e: Lanes, at: Int) -> None:
        late = e.let("xor", "i32", order.of(e, order.load(e, "%line", at)), e.fill("i32", -1))
        high = e.let("shl", "i64", e.turn("sext", "i32", late, "i64"), e.fill("i64", 32))
        place = str(at) if e.width == 1 else e.let("add", "i64", e.splat("i64", str(at)), _numbers(e.width))
        fn.store(e.type("i64"), e.let("or", "i64", high, place), fn.at("%keys", at, 8), 8)

    whole = n - n % _LANES
    with fn.loop(0, whole, _LANES) as i:
        key(Lanes(fn, _LANES), i)
    with fn.loop(whole, n) as i:
        key(Lanes(fn, 1), i)
    with fn.loop(n, length) as i:
        fn.store("i64", _LAST, fn.at("%keys", i, 8), 8)
    if length > _BLOCK:
        module.need("network", lambda m: _long(m, "network"))
        fn.do(f"call void @network(ptr %keys, i64 {length})")
    else:
        fn.do(f"call void @{network}(ptr %keys, i1 true)")
    fn.do("ret void")
    return fn.text()


def _numbers(count: int) -> str:
    return f"<{', '.join(f'i64 {i}' for i in range(count))}>"


class _Steps:
    """Exchanges of keys, each up or down: known while writing, or an i1."""

    def __init__(self, fn: Function) -> None:
        self.fn, self.e = fn, Lanes(fn, _LANES)

    def extremes(self, a: str, b: str) -> tuple[str, str]:
        return self.e.call("smin", "i64", a, b), self.e.call("smax", "i64", a, b)

    def across(self, a: str, b: str, up: bool | str) -> tuple[str, str]:
        """The smaller of each pair of lanes in the first vector, if up."""
        low, high = self.extremes(a, b)
        if isinstance(up, bool):
            return (low, high) if up else (high, low)
        v = self.e.type("i64")
        return self.fn.let(f"select i1 {up}, {v} {low}, {v} {high}"), self.fn.let(f"select i1 {up}, {v} {high}, {v} {low}")

    def within(self, v: str, distance: int, up: str | list[bool]) -> str:
        """The same between lanes of one vector; `up` says it of each lane."""
        kind, lanes = self.e.type("i64"), range(_LANES)
        turn = f"<{_LANES} x i32> <{', '.join(f'i32 {i ^ distance}' for i in lanes)}>"
        low, high = self.extremes(v, self.fn.let(f"shufflevector {kind} {v}, {kind} poison, {turn}"))
        first = [not i & distance for i in lanes]
        if isinstance(up, list):
            return self.e.choose(_truths([f == u for f, u in zip(first, up, strict=True)]), "i64", low, high)
        t = self.e.type("i1")
        mask = self.fn.let(f"select i1 {up}, {t} {_truths(first)}, {t} {_truths([not f for f in first])}")
        return self.e.choose(mask, "i64", low, high)

    def last(self, v: str, up: str | bool) -> str:
        """Distances 4, 2 and 1, all one way."""
        for distance in (4, 2, 1):
            v = self.within(v, distance, [up] * _LANES if isinstance(up, bool) else up)
        return v

    def block(self, vs: list[str], up: str | bool) -> list[str]:
        """Sort a few vectors of keys, in registers."""
        size = 2
        while size <= len(vs) * _LANES:
            whole = size == len(vs) * _LANES
            distance = size // 2
            while distance >= _LANES:
                step = distance // _LANES
                for i in range(len(vs)):
                    if not i & step:
                        way: str | bool = up if whole else not (i * _LANES) & size
                        vs[i], vs[i + step] = self.across(vs[i], vs[i + step], way)
                distance //= 2
            if size >= _LANES:
                vs = [self.last(v, up if whole else not (i * _LANES) & size) for i, v in enumerate(vs)]
            else:
                for step in (4, 2, 1)[-size.bit_length() + 1 :]:
                    vs = [self.within(v, step, [not i & size for i in range(_LANES)]) for v in vs]
            size *= 2
        return vs


def _truths(bits: list[bool]) -> str:
    return f"<{', '.join('i1 ' + str(b).lower() for b in bits)}>"


def _network(module: Module, length: int, name: str) -> str:
    """A function that sorts so many keys, up or down."""
    fn = module.function(name, [("ptr", "keys"), ("i1", "up")], "void")
    steps, v = _Steps(fn), f"<{_LANES} x i64>"
    vs = [fn.load(v, fn.at("%keys", i * _LANES, 8), 8) for i in range(length // _LANES)]
    for i, x in enumerate(steps.block(vs, "%up")):
        fn.store(v, x, fn.at("%keys", i * _LANES, 8), 8)
    fn.do("ret void")
    return fn.text()


def _long(module: Module, name: str) -> str:
    """A function that sorts a number of keys that is a power of two above 64: blocks, up and down in turn, then merges in memory."""
    fn = module.function(name, [("ptr", "keys"), ("i64", "length")], "void")
    steps, v = _Steps(fn), f"<{_LANES} x i64>"

    def rises(at: Int, size: Int) -> str:
        return fn.let(f"icmp eq i64 {fn.let(f'and i64 {at}, {size}')}, 0")

    with fn.loop(0, "%length", _BLOCK) as i:
        fn.do(f"call void @network_{_BLOCK}(ptr {fn.at('%keys', i, 8)}, i1 {rises(i, _BLOCK)})")
    size, distance = fn.slot("i64"), fn.slot("i64")
    fn.store("i64", 2 * _BLOCK, size, 8)
    with fn.turns(lambda: fn.let(f"icmp sle i64 {fn.load('i64', size, 8)}, %length")):
        run = fn.load("i64", size, 8)
        fn.store("i64", fn.let(f"lshr i64 {run}, 1"), distance, 8)
        with fn.turns(lambda: fn.let(f"icmp sge i64 {fn.load('i64', distance, 8)}, {_LANES}")):
            far = fn.load("i64", distance, 8)
            with fn.loop(0, "%length", fn.mul(far, 2)) as begin:
                up = rises(begin, run)
                with fn.loop(begin, fn.add(begin, far), _LANES) as i:
                    places = [fn.at("%keys", i, 8), fn.at("%keys", fn.add(i, far), 8)]
                    pair = steps.across(fn.load(v, places[0], 8), fn.load(v, places[1], 8), up)
                    for p, x in zip(places, pair, strict=True):
                        fn.store(v, x, p, 8)
            fn.store("i64", fn.let(f"lshr i64 {far}, 1"), distance, 8)
        with fn.loop(0, "%length", _LANES) as i:
            place = fn.at("%keys", i, 8)
            fn.store(v, steps.last(fn.load(v, place, 8), rises(i, run)), place, 8)
        fn.store("i64", fn.mul(run, 2), size, 8)
    fn.do("ret void")
    return fn.text()
