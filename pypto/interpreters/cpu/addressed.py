"""Ops that go through a handle to computed places: rows and elements at the indices a tile holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from pypto.core.ir import Eqn
from pypto.interpreters.cpu.elements import BITS, bits, dense_bits, inside, tile, wide_index, zeros
from pypto.interpreters.cpu.gathering import rows
from pypto.interpreters.cpu.lanes import Lanes, memory_kind
from pypto.interpreters.cpu.memory import _ref, _write, moved
from pypto.interpreters.cpu.nest import Nest
from pypto.interpreters.cpu.text import Int
from pypto.interpreters.cpu.values import Memory, Ref, Tile, Value

if TYPE_CHECKING:
    from pypto.interpreters.cpu.writer import Writer


def element_offset(w: Writer, shape: Sequence[Int], strides: Sequence[Int], position: Int) -> Int:
    """Elements from the beginning of a window to its element at a row-major position."""
    fn, total = w.fn, 0
    extents = list(zip(shape, strides, strict=True))
    while len(extents) > 1:
        d, s = extents.pop()
        if d == 1:
            continue
        outer = fn.let(f"udiv i64 {position}, {d}")
        total = fn.add(total, fn.mul(fn.sub(position, fn.mul(outer, d)), s))
        position = outer
    return fn.add(total, fn.mul(position, extents[0][1] if extents else 0))


def _places(w: Writer, ref: Ref) -> Callable[[Int], Int]:
    """Where an element of a handle is, by its row-major position."""
    return lambda p: p if ref.dense else element_offset(w, ref.shape, ref.strides, p)


def _line_places(w: Writer, ref: Ref) -> Callable[[Int], Int]:
    """Where a row of a handle, along its last axis, begins."""
    return lambda row: w.fn.mul(row, ref.shape[-1]) if ref.dense else element_offset(w, ref.shape[:-1], ref.strides[:-1], row)


def _under(w: Writer, index: str, extent: Int, policy: str) -> tuple[str, str]:
    """An index under an out-of-range policy, and whether it is one."""
    fn, one = w.fn, Lanes(w.fn, 1)
    if policy == "clamp":
        return str(fn.least(fn.most(index, 0), fn.sub(extent, 1))), inside(one, "0", extent)
    if policy == "wrap":
        safe = fn.most(extent, 1)
        rest = fn.let(f"srem i64 {index}, {safe}")
        return str(fn.pick(fn.compare("slt", rest, 0), fn.add(rest, safe), rest)), inside(one, "0", extent)
    return index, inside(one, index, extent)


def _copy_line(w: Writer, ref: Ref, at: Int, width: int, target: str, step: int) -> None:
    """A row of a handle to elements `step` apart."""
    kind = BITS[ref.dtype.itemsize]
    source = Memory(w.fn.at(ref.pointer, at, ref.dtype.itemsize), (ref.strides[-1],))
    _write(w, Tile(kind, (width,), (width,), source), (width,), (width,), target, (step,), None)


# ---- loads -------------------------------------------------------------------------------------------------------


def _mgather(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    ref, index, p, fn = _ref(ins[0]), tile(ins[1]), eqn.params, w.fn
    where, out = w.dense(index), eqn.outs[0].aval
    shape, size, kind = out.static_shape, ref.dtype.itemsize, memory_kind(BITS[ref.dtype.itemsize])
    place = zeros(w, out.dtype, shape, w.fresh(eqn))
    one, by_row = Lanes(fn, 1), p["coalesce"] == "row"
    extent = fn.product(list(ref.shape[:-1] if by_row else ref.shape))
    starts = _line_places(w, ref) if by_row else _places(w, ref)
    with fn.loop(0, math.prod(index.shape)) as i:
        raw = wide_index(one, index.dtype, fn.load("i32", fn.at(where.pointer, i, 4), 4))
        chosen, there = _under(w, raw, extent, p["gather_oob"])
        with fn.when(there):
            at, target = starts(chosen), fn.at(place.pointer, fn.mul(i, shape[-1] if by_row else 1), size)
            if by_row:
                _copy_line(w, ref, at, shape[-1], target, 1)
            else:
                fn.store(kind, fn.load(kind, fn.at(ref.pointer, at, size), size), target, size)
    if not by_row:
        return [Tile(out.dtype, shape, index.valid, place)]
    return [Tile(out.dtype, shape, (fn.product(index.valid), shape[-1]), place)]


def _paged(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """Rows of a pool by way of a block table; the columns of the result where they are transposed."""
    ref, index, table, p, fn = _ref(ins[0]), tile(ins[1]), tile(ins[2]), eqn.params, w.fn
    where, pages, out = w.dense(index), w.dense(table), eqn.outs[0].aval
    shape, size, one = out.static_shape, ref.dtype.itemsize, Lanes(fn, 1)
    place = zeros(w, out.dtype, shape, w.fresh(eqn))
    used, block = fn.product(index.valid), p["block_size"]
    many = math.prod(table.shape)
    with fn.loop(0, used) as i:
        logical = wide_index(one, index.dtype, fn.load("i32", fn.at(where.pointer, i, 4), 4))
        quotient = fn.let(f"sdiv i64 {logical}, {block}")
        rest = fn.let(f"srem i64 {logical}, {block}")
        minus = fn.compare("slt", rest, 0)
        page = fn.sub(quotient, str(fn.let(f"zext i1 {minus} to i64")))
        rest = fn.pick(minus, fn.add(rest, block), rest)
        with fn.when(inside(one, str(page), many)):
            physical = wide_index(one, table.dtype, fn.load("i32", fn.at(pages.pointer, page, 4), 4))
            row = fn.add(fn.mul(physical, block), rest)
            known = fn.let(f"and i1 {fn.compare('sge', physical, 0)}, {inside(one, str(row), ref.shape[0])}")
            with fn.when(known):
                at = fn.add(fn.mul(row, ref.strides[0]), fn.mul(p["column"], ref.strides[1]))
                step = shape[-1] if p["trans"] else 1
                target = fn.at(place.pointer, i if p["trans"] else fn.mul(i, shape[-1]), size)
                _copy_line(w, ref, at, p["size"], target, step)
    valid = (p["size"], used) if p["trans"] else (used, p["size"])
    return [Tile(out.dtype, shape, valid, place)]


# ---- stores ------------------------------------------------------------------------------------------------------


def _marked(w: Writer, ref: Ref) -> Any:
    """What records that elements of a handle were written: a function of their offset, which does nothing where nobody asks."""
    fn, mask = w.fn, ref.mask
    if mask is None:
        return lambda at: None

    def mark(at: Int) -> None:
        with nullcontext() if ref.certain else fn.when(fn.let(f"icmp ne ptr {mask}, null")):
            fn.store("i8", 1, fn.at(mask, at), 1)

    return mark


def _mscatter(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    ref, index, fn = _ref(ins[0]), tile(ins[2]), w.fn
    w.before_store(ref.roots)
    source = bits(w, tile(ins[1]))
    w.materialise(index)
    same = (fn.compare("eq", a, b) for a, b in zip(index.valid, source.valid, strict=True))
    w.check(w.all_of(same), eqn, "region", [])
    kind, size, places, mark = memory_kind(source.dtype), source.dtype.itemsize, _places(w, ref), _marked(w, ref)
    extent = fn.product(list(ref.shape))
    nest = Nest(w, source.shape, source.valid, [index, source])

    def visit(step: Any) -> None:
        wide = wide_index(step.lanes, index.dtype, step.get(index))
        with fn.when(inside(step.lanes, wide, extent)):
            at = places(wide)
            fn.store(kind, step.get(source), fn.at(ref.pointer, at, size), size)
            mark(at)

    with nest.outer() as inner:
        inner.each(visit, width=1)
    return []


def _scatter_update(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    ref, index, fn = _ref(ins[0]), tile(ins[2]), w.fn
    w.before_store(ref.roots)
    source = dense_bits(w, tile(ins[1]))
    where, width, places = w.dense(index), source.shape[-1], _line_places(w, ref)
    memory = source.memory
    assert memory is not None

    def visit(i: str, row: str) -> None:
        at = places(row)
        line = Tile(source.dtype, (width,), (width,), Memory(fn.at(memory.pointer, fn.mul(i, width), source.dtype.itemsize), (1,)))
        target, mask = moved(w, ref, at)
        _write(w, line, (width,), (width,), target, (ref.strides[-1],), mask, certain=ref.certain)

    rows(w, index, where, fn.product(list(ref.shape[:-1])), visit)
    return []


MGATHER, PAGED, MSCATTER, SCATTER_UPDATE = _mgather, _paged, _mscatter, _scatter_update
