"""Elements at computed places: positions as tiles, fetches and stores by index, bits without a dtype, and walks along lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pypto import dtypes
from pypto.core.ir import Eqn
from pypto.dtypes import DType
from pypto.interpreters.cpu.lanes import Lanes, memory_kind, register_kind
from pypto.interpreters.cpu.rules import Unsupported
from pypto.interpreters.cpu.text import Function, Int
from pypto.interpreters.cpu.values import Lazy, Memory, Scalar, Tile, Value

if TYPE_CHECKING:
    from pypto.interpreters.cpu.writer import Writer

WIDTH = 16
BITS = {1: dtypes.UINT8, 2: dtypes.UINT16, 4: dtypes.UINT32, 8: dtypes.UINT64}


def tile(x: Value) -> Tile:
    """An operand that must be a tile."""
    if not isinstance(x, Tile):
        raise Unsupported("a scalar or a handle where a tile is expected")
    return x


def scalar(x: Value) -> Scalar:
    """An operand that must be a scalar; a tile without axes is none."""
    if not isinstance(x, Scalar):
        raise Unsupported("a tile where a scalar is expected")
    return x


def bits(w: Writer, x: Tile) -> Tile:
    """A tile's elements as unsigned integers of the same bits, in memory: nothing that moves them can change a NaN."""
    memory = w.materialise(x)
    return Tile(BITS[x.dtype.itemsize], x.shape, x.valid, memory)


def dense_bits(w: Writer, x: Tile) -> Tile:
    """The same, one element after the other."""
    memory = w.dense(x)
    return Tile(BITS[x.dtype.itemsize], x.shape, x.valid, memory)


def zeros(w: Writer, dtype: DType, shape: tuple[int, ...], place: Memory | None = None) -> Memory:
    """A dense place full of zeros."""
    place = place or w.reserve(dtype, shape)
    w.fn.zero(place.pointer, int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
    return place


def result(w: Writer, eqn: Eqn, valid: Sequence[Int]) -> Memory:
    """Where the first result goes; where its valid region is not all of it, zeros to begin with."""
    aval = eqn.outs[0].aval
    place = w.fresh(eqn)
    return place if tuple(valid) == aval.static_shape else zeros(w, aval.dtype, aval.static_shape, place)


# ---- by position -------------------------------------------------------------------------------------------------


def positions(shape: tuple[int, ...], weights: Sequence[int]) -> Tile:
    """INT64: the sum of index * weight over all axes."""
    return Tile(dtypes.INT64, shape, shape, Lazy(lambda e, p: p, (), counts=tuple(weights)))


def wide_index(e: Lanes, dtype: DType, x: str) -> str:
    """An integer register as i64."""
    return e.turn("sext" if dtype.is_signed else "zext", register_kind(dtype), x, "i64")


def fetch(e: Lanes, kind: str, size: int, pointer: str, index: str) -> str:
    """Elements of memory at i64 indices, one per lane."""
    if e.width == 1:
        return e.fn.load(kind, e.fn.at(pointer, index, size), size)
    places = e.fn.let(f"getelementptr i{8 * size}, ptr {pointer}, {e.type('i64')} {index}")
    v, n = e.type(kind), e.width
    name = f"@llvm.masked.gather.v{n}{kind.replace('float', 'f32')}.v{n}p0"
    e.fn.declares.setdefault(name, f"declare {v} {name}(<{n} x ptr>, i32, <{n} x i1>, {v})")
    return e.fn.let(f"call {v} {name}(<{n} x ptr> {places}, i32 {size}, <{n} x i1> splat (i1 true), {v} zeroinitializer)")


def inside(e: Lanes, index: str, extent: Int) -> str:
    """An i1: whether an i64 index is in 0..extent-1."""
    return e.let("icmp ult", "i64", index, e.splat("i64", str(extent)) if isinstance(extent, str) else e.fill("i64", extent))


def picked(e: Lanes, source: Tile, index: str, there: str) -> str:
    """The bits of a dense tile's elements at an index; 0 where `there` is false."""
    memory = source.memory
    assert memory is not None
    kind = memory_kind(source.dtype)
    safe = e.choose(there, "i64", index, e.fill("i64", 0))
    raw = fetch(e, kind, source.dtype.itemsize, memory.pointer, safe)
    return e.choose(there, kind, raw, e.fill(kind, 0))


# ---- lines -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spot:
    """Neighbouring lines, one per lane: their indices along the other axes."""

    e: Lanes
    at: dict[int, Int]
    lane: int | None
    axis: int

    def offset(self, strides: Sequence[Int]) -> Int:
        """Elements to the beginning of the first line."""
        fn, total = self.e.fn, 0
        for a, i in self.at.items():
            total = fn.add(total, fn.mul(i, strides[a]))
        return total

    def load(self, kind: str, size: int, pointer: str, strides: Sequence[Int], k: Int) -> str:
        """Element k of each line."""
        fn, e = self.e.fn, self.e
        place = fn.at(pointer, fn.mul(k, strides[self.axis]), size)
        step = 0 if self.lane is None else strides[self.lane]
        if e.width == 1 or step == 1:
            return fn.load(e.type(kind), place, size)
        if step == 0:
            return e.splat(kind, fn.load(kind, place, size))
        return fetch(e, kind, size, place, self.lanes_by(step))

    def lanes_by(self, step: Int) -> str:
        """Lane number times a step, i64."""
        numbers = f"<{', '.join(f'i64 {i}' for i in range(self.e.width))}>"
        by = self.e.fill("i64", step) if isinstance(step, int) else self.e.splat("i64", step)
        return self.e.let("mul", "i64", numbers, by)

    def store(self, kind: str, size: int, value: str, pointer: str, strides: Sequence[Int], k: Int) -> None:
        """Put element k of each line."""
        fn, e = self.e.fn, self.e
        place = fn.at(pointer, fn.mul(k, strides[self.axis]), size)
        step = 0 if self.lane is None else strides[self.lane]
        if e.width == 1 or step == 1:
            fn.store(e.type(kind), value, place, size)
            return
        for i in range(e.width):
            element = fn.let(f"extractelement {e.type(kind)} {value}, i64 {i}")
            fn.store(kind, element, fn.at(place, fn.mul(i, step), size), size)


def lines(
    w: Writer, shape: Sequence[int], extents: Sequence[Int], axis: int, visit: Callable[[Spot], None], *, single: bool = False
) -> None:
    """Visit every line along an axis, up to WIDTH neighbours at once; `single`: one at a time."""
    fn = w.fn
    axes = [i for i in range(len(shape)) if i != axis and extents[i] != 1]
    lane = axes.pop() if axes and not single else None
    with ExitStack() as stack:
        at: dict[int, Int] = {a: stack.enter_context(fn.loop(0, extents[a])) for a in axes}
        if lane is None:
            visit(Spot(Lanes(fn, 1), at, None, axis))
            return
        n = extents[lane]
        width = WIDTH if not isinstance(n, int) else min(WIDTH, 1 << (max(n, 1).bit_length() - 1))
        whole = n - n % width if isinstance(n, int) else fn.let(f"and i64 {n}, {-width}")
        if whole != 0 and width > 1:
            with fn.loop(0, whole, width) as j:
                visit(Spot(Lanes(fn, width), {**at, lane: j}, lane, axis))
        rest = whole if width > 1 else 0
        if rest != n:
            with fn.loop(rest, n) as j:
                visit(Spot(Lanes(fn, 1), {**at, lane: j}, lane, axis))


def ordered(e: Lanes, dtype: DType, x: str, *, nan: int, signed_zeros: bool) -> str:
    """An i32 of the order of floats held as FP32; every NaN is `nan`, and zeros are equal unless they are told apart."""
    number = x if signed_zeros else e.let("fadd", "float", x, e.fill("float", 0.0))
    raw = e.turn("bitcast", "float", number, "i32")
    flip = e.let("and", "i32", e.let("ashr", "i32", raw, e.fill("i32", 31)), e.fill("i32", 0x7FFFFFFF))
    return e.choose(e.let("fcmp uno", "float", x, x), "i32", e.fill("i32", nan), e.let("xor", "i32", raw, flip))


def sortable(e: Lanes, dtype: DType, x: str, *, signed_zeros: bool) -> str:
    """An i64 whose signed order is that of the numbers, NaN above everything."""
    if dtype.is_float:
        return e.turn("sext", "i32", ordered(e, dtype, x, nan=0x7FFFFFFF, signed_zeros=signed_zeros), "i64")
    kind = register_kind(dtype)
    if dtype.is_signed and kind != "i1":
        return e.turn("sext", kind, x, "i64")
    wide = e.turn("zext", kind, x, "i64")
    return e.let("xor", "i64", wide, e.fill("i64", -(1 << 63))) if dtype.bits == 64 else wide


def counted(fn: Function, low: Int, high: Int) -> tuple[str, Callable[[], str]]:
    """A counter in a stack slot, and what reads it: for loops that end early."""
    slot = fn.slot("i64")
    fn.store("i64", low, slot, 8)
    return slot, lambda: fn.load("i64", slot, 8)
