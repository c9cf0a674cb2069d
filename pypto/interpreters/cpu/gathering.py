"""Gather and scatter on tiles: by index along an axis, by position, by comparison, by 32-byte blocks, by lane pattern, by row."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pypto.core.ir import Eqn
from pypto.interpreters.cpu.elements import bits, counted, dense_bits, inside, picked, positions, scalar, tile, wide_index, zeros
from pypto.interpreters.cpu.lanes import Lanes, memory_kind
from pypto.interpreters.cpu.memory import _write
from pypto.interpreters.cpu.needs import bring
from pypto.interpreters.cpu.nest import Nest
from pypto.interpreters.cpu.text import Int
from pypto.interpreters.cpu.values import Lazy, Memory, Tile, Value

if TYPE_CHECKING:
    from pypto.interpreters.cpu.writer import Writer


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides of a static shape."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


# ---- gather ------------------------------------------------------------------------------------------------------


def _gathered(w: Writer, eqn: Eqn, x: Tile, index: Tile, weights: Sequence[int], stride: int, extent: int) -> list[Value]:
    """x at position + index * stride, where the index is in 0..extent-1; bits move, nothing is converted."""
    source = dense_bits(w, x)
    w.materialise(index)

    def emit(e: Lanes, base: str, i: str) -> str:
        wide = wide_index(e, index.dtype, i)
        at = e.let("add", "i64", base, e.let("mul", "i64", wide, e.fill("i64", stride)))
        return picked(e, source, at, inside(e, wide, extent))

    place = w.fresh(eqn)
    found = Tile(source.dtype, index.shape, index.shape, Lazy(emit, (positions(index.shape, weights), index)))
    _write(w, found, index.shape, index.shape, place.pointer, place.strides, None)
    return [Tile(x.dtype, index.shape, index.valid, place)]


def _along(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, index, axis = tile(ins[0]), tile(ins[1]), eqn.params["axis"]
    strides = row_major(x.shape)
    weights = [0 if a == axis else s for a, s in enumerate(strides)]
    return _gathered(w, eqn, x, index, weights, strides[axis], x.shape[axis])


def _flat(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, index = tile(ins[0]), tile(ins[1])
    return _gathered(w, eqn, x, index, [0] * len(index.shape), 1, math.prod(x.shape))


def _compare(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """Row by row; a match past the last column of the result is counted only."""
    x, number, p, fn = tile(ins[0]), scalar(ins[1]), eqn.params, w.fn
    (found, counts), columns = (v.aval for v in eqn.outs), p["out_cols"]
    memory, one = w.materialise(x), Lanes(fn, 1, x.dtype)
    listed = zeros(w, found.dtype, found.static_shape)
    totals = zeros(w, counts.dtype, counts.static_shape)
    kind, size = memory_kind(x.dtype), x.dtype.itemsize
    with fn.loop(0, x.valid[0]) as r:
        slot, count = counted(fn, 0, 0)
        row = fn.at(memory.pointer, fn.mul(r, memory.strides[0]), size)
        out = fn.at(listed.pointer, fn.mul(r, columns), 4)
        with fn.loop(0, x.valid[1]) as j:
            value = one.from_memory(x.dtype, fn.load(kind, fn.at(row, fn.mul(j, memory.strides[1]), size), size))
            with fn.when(one.compare(eqn.op.cpu.uses[p["mode"]], value, number.register)):
                now = count()
                with fn.when(fn.let(f"icmp slt i64 {now}, {columns}")):
                    fn.store("i32", fn.let(f"trunc i64 {fn.add(j, p['offset'])} to i32"), fn.at(out, now, 4), 4)
                fn.store("i64", fn.add(now, 1), slot, 8)
        fn.store("i32", fn.let(f"trunc i64 {count()} to i32"), fn.at(totals.pointer, r, 4), 4)
    return [
        Tile(found.dtype, found.static_shape, (x.valid[0], columns), listed),
        Tile(counts.dtype, counts.static_shape, (1, x.valid[0]), totals),
    ]


def _blocks(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """32 bytes for each offset: the block around it, or zeros."""
    x, offset, dtype, fn = tile(ins[0]), tile(ins[1]), eqn.params["dtype"], w.fn
    source, where = w.dense(x), w.dense(offset)
    shape, place = eqn.outs[0].aval.static_shape, w.fresh(eqn)
    blocks = math.prod(x.shape) * x.dtype.itemsize // 32
    one, v = Lanes(fn, 1), "<32 x i8>"
    with fn.loop(0, math.prod(offset.shape)) as i:
        block = fn.let(f"lshr i64 {wide_index(one, offset.dtype, fn.load('i32', fn.at(where.pointer, i, 4), 4))}, 5")
        there = inside(one, block, blocks)
        at = fn.at(source.pointer, fn.mul(fn.pick(there, block, 0), 32))
        raw = fn.let(f"select i1 {there}, {v} {fn.load(v, at, 1)}, {v} zeroinitializer") if blocks else "zeroinitializer"
        fn.store(v, raw, fn.at(place.pointer, fn.mul(i, 32)), 1)
    valid = (*offset.valid[:-1], fn.mul(offset.valid[-1], 32 // dtype.itemsize))
    return [Tile(dtype, shape, valid, place)]


# ---- lane patterns -----------------------------------------------------------------------------------------------


def _packed(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, dtype = tile(ins[0]), eqn.params["dtype"]
    first, stride = eqn.op.cpu.uses[eqn.params["pattern"]]
    memory, fn, last = w.materialise(x), w.fn, x.valid[-1]
    taken = fn.add(fn.sub(last, first), stride - 1)
    if isinstance(taken, int):
        count: Int = max(0, taken // stride)
    else:
        count = fn.let(f"sdiv i64 {fn.most(taken, 0)}, {stride}")
    pointer = fn.at(memory.pointer, fn.mul(first, memory.strides[-1]), x.dtype.itemsize)
    strides = (*memory.strides[:-1], fn.mul(memory.strides[-1], stride))
    return [Tile(dtype, eqn.outs[0].aval.static_shape, (*x.valid[:-1], count), w.elsewhere(memory, pointer, strides))]


def _spread(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, source = tile(ins[0]), tile(ins[1])
    first, stride = eqn.op.cpu.uses[eqn.params["pattern"]]
    w.materialise(source)
    place = updated(w, eqn, x)
    pointer = w.fn.at(place.pointer, w.fn.mul(first, place.strides[-1]), x.dtype.itemsize)
    strides = (*place.strides[:-1], w.fn.mul(place.strides[-1], stride))
    _write(w, source, source.shape, source.valid, pointer, strides, None)
    return [Tile(x.dtype, x.shape, x.valid, place)]


# ---- scatter -----------------------------------------------------------------------------------------------------


def updated(w: Writer, eqn: Eqn, x: Tile) -> Memory:
    """A dense copy of x that the equation may change: x's own memory where nobody needs it any more."""
    w.materialise(x)
    place = w.fresh(eqn, over=x)
    bring(w, x, place)
    return place


def _scattered(w: Writer, eqn: Eqn, x: Tile, index: Tile, source: Tile, weights: Sequence[int], stride: int, extent: int) -> list[Value]:
    """source to position + index * stride, element after element in row-major order."""
    moved, fn = bits(w, source), w.fn
    w.materialise(index)
    same = (fn.compare("eq", a, b) for a, b in zip(index.valid, source.valid, strict=True))
    w.check(w.all_of(same), eqn, "region", [])
    place = updated(w, eqn, x)
    kind, size = memory_kind(moved.dtype), moved.dtype.itemsize
    base = positions(source.shape, weights)
    nest = Nest(w, source.shape, source.valid, [base, index, moved])

    def visit(step: Any) -> None:
        wide = wide_index(step.lanes, index.dtype, step.get(index))
        with fn.when(inside(step.lanes, wide, extent)):
            at = fn.add(step.get(base), fn.mul(wide, stride))
            fn.store(kind, step.get(moved), fn.at(place.pointer, at, size), size)

    with nest.outer() as inner:
        inner.each(visit, width=1)
    return [Tile(x.dtype, x.shape, x.valid, place)]


def _scatter_along(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, index, source, axis = tile(ins[0]), tile(ins[1]), tile(ins[2]), eqn.params["axis"]
    strides = row_major(x.shape)
    weights = [0 if a == axis else s for a, s in enumerate(strides)]
    return _scattered(w, eqn, x, index, source, weights, strides[axis], x.shape[axis])


def _scatter_flat(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, source, index = tile(ins[0]), tile(ins[1]), tile(ins[2])
    return _scattered(w, eqn, x, index, source, [0] * len(source.shape), 1, math.prod(x.shape))


def _scatter_rows(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, source, index, fn = tile(ins[0]), dense_bits(w, tile(ins[1])), tile(ins[2]), w.fn
    where, width = w.dense(index), x.shape[-1]
    place = updated(w, eqn, x)
    rows(
        w,
        index,
        where,
        math.prod(x.shape[:-1]),
        lambda i, row: _row(w, source, i, fn.at(place.pointer, fn.mul(row, width), source.dtype.itemsize)),
    )
    return [Tile(x.dtype, x.shape, x.valid, place)]


def rows(w: Writer, index: Tile, where: Memory, extent: Int, visit: Callable[[str, str], None]) -> None:
    """Visit every element of a dense index tile that is in 0..extent-1, with its number."""
    fn, one, size = w.fn, Lanes(w.fn, 1), index.dtype.itemsize
    with fn.loop(0, math.prod(index.shape)) as i:
        raw = fn.load(memory_kind(index.dtype), fn.at(where.pointer, i, size), size)
        row = wide_index(one, index.dtype, raw)
        with fn.when(inside(one, row, extent)):
            visit(i, row)


def _row(w: Writer, source: Tile, i: str, target: str) -> None:
    """Copy row i of a dense tile."""
    width, memory = source.shape[-1], source.memory
    assert memory is not None
    at = w.fn.at(memory.pointer, w.fn.mul(i, width), source.dtype.itemsize)
    row = Tile(source.dtype, (width,), (width,), Memory(at, (1,)))
    _write(w, row, (width,), (width,), target, (1,), None)


ALONG, FLAT, COMPARE, BLOCKS, PACKED, SPREAD = _along, _flat, _compare, _blocks, _packed, _spread
SCATTER_ALONG, SCATTER_FLAT, SCATTER_ROWS = _scatter_along, _scatter_flat, _scatter_rows
