"""Buffers and handles: views, loads, stores, each with its bounds check."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto import dtypes
from pypto.core.avals import RefAval
from pypto.core.ir import Eqn
from pypto.interpreters.cpu import threads
from pypto.interpreters.cpu.lanes import Lanes, memory_kind
from pypto.interpreters.cpu.needs import far, meet, offset, regrouped, reshaped_valid
from pypto.interpreters.cpu.nest import Nest, Place
from pypto.interpreters.cpu.rules import Unsupported
from pypto.interpreters.cpu.text import Int
from pypto.interpreters.cpu.values import Lazy, Memory, Ref, Scalar, Tile, Value, contiguous

if TYPE_CHECKING:
    from pypto.interpreters.cpu.writer import Writer


def filled(dtype: Any, shape: tuple[int, ...], value: Scalar) -> Tile:
    """A tile of one value."""
    return Tile(dtype, shape, shape, Lazy(lambda e, x: x, (value,)))


# ---- views -------------------------------------------------------------------------------------------------------


def window(w: Writer, eqn: Eqn, x: Ref | Tile, starts: Sequence[Int], sizes: Sequence[Int], what: str, drop: Sequence[int] = ()) -> None:
    """Check that a window lies inside, unless it always does."""
    if id(eqn) in w.module.facts.inside:
        return
    tests = []
    for d, s, n in zip(x.shape, starts, sizes, strict=True):
        tests += [w.fn.compare("sge", s, 0), w.fn.compare("sge", n, 0), w.fn.compare("sle", w.fn.add(s, n), d)]
    name = x.name if isinstance(x, Ref) else "a value"
    w.check(w.all_of(tests), eqn, "window", [*x.shape, *starts, *sizes], what=what, name=name)


def moved(w: Writer, ref: Ref, by: Int) -> tuple[str, str | None]:
    """Pointers to an element of a window and to its mark; where nobody may want marks, no pointer stays none."""
    mask = None if ref.mask is None else w.fn.at(ref.mask, by)
    if mask is not None and not ref.certain and by != 0:
        mask = w.fn.let(f"select i1 {w.fn.let(f'icmp eq ptr {ref.mask}, null')}, ptr null, ptr {mask}")
    return w.fn.at(ref.pointer, by, ref.dtype.itemsize), mask


def view(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """A window of a buffer."""
    ref = _ref(ins[0])
    rank = len(ref.shape)
    starts = [w.index(x) for x in ins[1 : 1 + rank]]
    extra = iter(ins[1 + rank :])
    sizes = [w.index(next(extra)) if n is None else n for n in eqn.params["sizes"]]
    drop = eqn.params["drop"]
    window(w, eqn, ref, starts, sizes, "a slice")
    pointer, mask = moved(w, ref, offset(w, ref.strides, starts))
    kept = [i for i in range(rank) if i not in drop]
    valid = None
    if ref.valid is not None:
        clipped = [clip(w, v, s, n) for v, s, n in zip(ref.valid, starts, sizes, strict=True)]
        valid = _kept_valid(w, clipped, kept, drop)
    leading = next((i for i, n in enumerate(sizes) if n != 1), rank)
    dense = ref.dense and all(n == d for n, d in zip(sizes[leading + 1 :], ref.shape[leading + 1 :]))
    shape, strides = tuple(sizes[i] for i in kept), tuple(ref.strides[i] for i in kept)
    return [Ref(ref.dtype, pointer, shape, strides, ref.roots, valid, mask, dense, ref.certain)]


def clip(w: Writer, valid: Int, start: Int, size: Int) -> Int:
    """The valid extent of a window: min(max(valid - start, 0), size)."""
    return w.fn.least(w.fn.most(w.fn.sub(valid, start), 0), size)


def _kept_valid(w: Writer, valid: Sequence[Int], kept: Sequence[int], drop: Sequence[int]) -> tuple[Int, ...]:
    """Valid extents without dropped axes; where the one element of a dropped axis is not valid, nothing is."""
    result = [valid[i] for i in kept]
    if result:
        for i in drop:
            result[0] = w.fn.pick(w.fn.compare("eq", valid[i], 0), 0, result[0])
    return tuple(result)


def reshape_view(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """The same buffer under another shape."""
    ref, extra = _ref(ins[0]), iter(ins[1:])
    shape = tuple(w.index(next(extra)) if n is None else n for n in eqn.params["shape"])
    size = w.fn.product(ref.shape)
    w.check(w.fn.compare("eq", size, w.fn.product(shape)), eqn, "reshape", [size, *shape])
    valid: tuple[Int, ...] | None = None
    held, made = eqn.ins[0].aval, eqn.outs[0].aval
    assert isinstance(held, RefAval) and isinstance(made, RefAval)
    if ref.valid is not None and held.valid is not None:  # a partly valid handle has a static shape, whatever is known of this one
        old, new = held.static_shape, made.static_shape
        if all(isinstance(v, int) for v in ref.valid):
            valid = eqn.op.valid(ref.valid, shape=new, old=old)  # type: ignore[misc]
        else:
            valid = reshaped_valid(w, old, ref.valid, new, made.valid)
    if ref.dense:
        strides = contiguous(shape, w.fn.mul)
    elif all(isinstance(d, int) for d in (*ref.shape, *ref.strides, *shape)):
        fake = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), ref.shape, ref.strides, writeable=False)  # type: ignore[arg-type]
        try:
            strides = np.reshape(fake, shape, copy=False).strides  # type: ignore[arg-type]
        except ValueError:
            w.check(False, eqn, "gaps", [*ref.shape, *shape], name=ref.name)
            strides = (0,) * len(shape)
    elif all(isinstance(d, int) for d in (*held.shape, *made.shape)):
        strides, tests = regrouped(w, held.static_shape, ref.strides, made.static_shape)
        w.check(w.all_of(tests), eqn, "gaps", [*held.static_shape, *made.static_shape], name=ref.name)
    else:
        raise Unsupported("a reshape of a window whose extents are known only at run time and which has gaps")
    return [Ref(ref.dtype, ref.pointer, shape, tuple(strides), ref.roots, valid, ref.mask, ref.dense, ref.certain)]


def transpose_view(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """The same buffer with its axes in another order."""
    ref, order = _ref(ins[0]), eqn.params["permutation"]
    pick = [tuple(values[a] for a in order) for values in (ref.shape, ref.strides)]
    valid = None if ref.valid is None else tuple(ref.valid[a] for a in order)
    return [Ref(ref.dtype, ref.pointer, pick[0], pick[1], ref.roots, valid, ref.mask, certain=ref.certain)]


def valid_view(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """The same buffer, of which only leading extents hold data."""
    ref, extra = _ref(ins[0]), iter(ins[1:])
    valid = tuple(w.index(next(extra)) if v is None else v for v in eqn.params["known"])
    whole = valid == ref.shape
    return [replace(ref, valid=None if whole else valid)]


def bits_view(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """The same buffer, its bits read as another dtype of the same width."""
    return [replace(_ref(ins[0]), dtype=eqn.params["dtype"])]


def dim(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """The extent of an axis."""
    return [w.number(_ref(ins[0]).shape[eqn.params["axis"]], dtypes.INDEX)]


def valid_extent(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """The valid extent of an axis."""
    x = ins[0]
    assert isinstance(x, Tile)
    return [w.number(x.valid[eqn.params["axis"]], dtypes.INDEX)]


def _ref(x: Value) -> Ref:
    if not isinstance(x, Ref):
        raise Unsupported("a tile where a handle is expected")
    return x


# ---- loads -------------------------------------------------------------------------------------------------------


def get(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """Load a window; where all of it holds data, it stays where it is until a store could change it."""
    x = ins[0]
    assert isinstance(x, Ref | Tile)
    rank, sizes, drop, marked = len(x.shape), eqn.params["sizes"], eqn.params["drop"], eqn.params["valid"]
    starts = [w.index(s) for s in ins[1 : 1 + rank]]
    extra = iter(ins[1 + rank :])
    within = x.valid if isinstance(x, Ref) else None if x.valid == x.shape else x.valid
    if marked is not None:
        valid = [w.index(next(extra)) if v is None else v for v in marked]
    elif within is None:
        valid = list(sizes)
    else:
        valid = [clip(w, v, s, n) for v, s, n in zip(within, starts, sizes, strict=True)]
        window(w, eqn, x, starts, sizes, "load")
    if id(eqn) not in w.module.facts.inside:
        for axis, (v, n) in enumerate(zip(valid, sizes, strict=True)):
            inside = w.all_of([w.fn.compare("sge", v, 0), w.fn.compare("sle", v, n)])
            w.check(inside, eqn, "valid", [v, n], axis=axis)
    window(w, eqn, x, starts, valid, "load")
    kept = [i for i in range(rank) if i not in drop]
    shape, kept_valid = tuple(sizes[i] for i in kept), _kept_valid(w, valid, kept, drop)
    by, strides = offset(w, _strides(w, x), starts), tuple(_strides(w, x)[i] for i in kept)
    if isinstance(x, Ref):
        memory = w.seen_through(x, w.fn.at(x.pointer, by, x.dtype.itemsize), strides, (x.pointer, tuple(starts), strides))
        if id(eqn) in w.packed:
            memory.packed = (w.packed[id(eqn)], tuple(starts))
    else:
        source = x.memory
        assert source is not None
        memory = w.elsewhere(source, w.fn.at(source.pointer, by, x.dtype.itemsize), strides)
    if valid == list(sizes):
        return [Tile(x.dtype, shape, kept_valid, memory)]
    place = w.reserve(x.dtype, shape)
    extents = tuple(valid[i] for i in kept)
    empty = [w.fn.compare("ne", valid[i], 0) for i in drop]
    if any(test is not True for test in empty):
        extents = (w.fn.pick(w.all_of(empty), extents[0], 0), *extents[1:]) if extents else extents
    w.fn.zero(place.pointer, math.prod(shape) * x.dtype.itemsize)
    _write(w, Tile(x.dtype, shape, shape, memory), shape, extents, place.pointer, place.strides, None)
    return [Tile(x.dtype, shape, kept_valid, place)]


def _strides(w: Writer, x: Ref | Tile) -> tuple[Int, ...]:
    return x.strides if isinstance(x, Ref) else w.materialise(x).strides


def read(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """One element."""
    x = ins[0]
    assert isinstance(x, Ref | Tile)
    starts = [w.index(s) for s in ins[1:]]
    window(w, eqn, x, starts, [1] * len(starts), "read")
    pointer = x.pointer if isinstance(x, Ref) else w.materialise(x).pointer
    at = w.fn.at(pointer, offset(w, _strides(w, x), starts), x.dtype.itemsize)
    raw = w.fn.load(memory_kind(x.dtype), at, x.dtype.itemsize)
    return [Scalar(x.dtype, Lanes(w.fn, 1).from_memory(x.dtype, raw))]


# ---- stores ------------------------------------------------------------------------------------------------------


def placed(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> tuple[Ref, Tile, tuple[Int, ...], str, str | None, tuple[Int, ...]]:
    """The target, the value as a tile, the extents that are stored, and where: pointer, mask and strides."""
    target, value, *offsets = ins
    target = _ref(target)
    sizes, drop = eqn.params["sizes"], eqn.params["drop"]
    starts = [w.index(s) for s in offsets]
    rank = len(sizes)
    if isinstance(value, Scalar):
        value, kept = filled(value.dtype, tuple(sizes), value), list(range(rank))
        extents: list[Int] = list(sizes)
        drop = ()
    else:
        assert isinstance(value, Tile)
        kept = [i for i in range(rank) if i not in drop]
        held = iter(value.valid)
        extents = [1 if i in drop else next(held) for i in range(rank)]
    window(w, eqn, target, starts, extents, "a store", drop)
    pointer, mask = moved(w, target, offset(w, target.strides, starts))
    return target, value, tuple(extents[i] for i in kept), pointer, mask, tuple(target.strides[i] for i in kept)


def put(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """Store the valid region of a value into a window, unless it was computed there."""
    if id(eqn) in w.done:
        return []
    if not isinstance(ins[0], Ref):
        raise Unsupported("an update of a tile in place")
    target, value, extents, pointer, mask, strides = placed(w, eqn, ins)
    w.before_store(target.roots, _same_window(w, eqn, value, target, ins[2:], strides))
    _write(w, value, value.shape, extents, pointer, strides, mask, certain=target.certain, far=far(target.roots))
    return []


def _same_window(w: Writer, eqn: Eqn, value: Tile, target: Ref, offsets: Sequence[Value], strides: tuple[Int, ...]) -> list[Memory]:
    """Loads of exactly the elements that are stored to, which nothing but the value needs: they may be read on the way."""
    here = (target.pointer, tuple(w.index(s) for s in offsets), strides)
    same = [m for t in value.tree() if (m := t.memory) is not None and m.window == here and t.shape == value.shape]
    if not same or w.remaining(eqn.ins[1]) != 1:
        return []
    others: set[int] = set()
    for v, x in w.env.items():
        if isinstance(x, Tile) and v is not eqn.ins[1]:
            others.update(id(t.source) for t in x.tree())
    return [m for m in same if id(m) not in others]


def _write(
    w: Writer,
    value: Tile,
    full: tuple[Any, ...],
    extents: tuple[Int, ...],
    pointer: str,
    strides: tuple[Int, ...],
    mask: str | None,
    *,
    certain: bool = True,
    far: bool = False,
) -> None:
    if mask is not None and not certain:
        ones = filled(dtypes.INT8, (1,) * len(full), Scalar(dtypes.INT8, "1", 1))
        with w.fn.when(w.fn.let(f"icmp ne ptr {mask}, null")):
            _write(w, ones, full, extents, mask, strides, None)
        mask = None
    places = [Place(pointer, strides, value.dtype.itemsize, far)]
    if mask is not None:
        places.append(Place(mask, strides, 1))
    nest = Nest(w, full, extents, [value], places)

    def visit(step: Any) -> None:
        step.put(0, value)
        if mask is not None:
            step.put_raw(1, "i8", step.lanes.fill("i8", 1))

    with nest.outer() as inner:
        inner.each(visit)


_COMBINE = {"add": "add", "max": "max", "min": "min"}


def accumulate(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """Combine a value with what a window holds, and store the result there."""
    target, value, extents, pointer, mask, strides = placed(w, eqn, ins)
    threads.turn(w)
    w.before_store(target.roots)
    dtype, how = value.dtype, _COMBINE[eqn.params["combine"]]
    old = Tile(dtype, value.shape, value.shape, Memory(pointer, strides))

    def emit(e: Lanes, x: str, y: str) -> str:
        at = e.of(dtype)
        return at.rounded(dtype, getattr(at, how)(x, y))

    w.materialise(value)
    _write(
        w,
        Tile(dtype, value.shape, value.valid, Lazy(emit, (old, value))),
        value.shape,
        extents,
        pointer,
        strides,
        mask,
        certain=target.certain,
    )
    return []


def copy(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """Copy one buffer into another."""
    target, source = map(_ref, ins)
    same = w.all_of(w.fn.compare("eq", a, b) for a, b in zip(target.shape, source.shape, strict=True))
    w.check(same, eqn, "copy", [*source.shape, *target.shape])
    extents = source.valid or source.shape
    w.before_store(target.roots)
    held = Memory(source.pointer, source.strides)
    if meet(target.roots, source.roots):  # they may overlap: by way of a copy
        held = _aside(w, eqn, source, extents)
    tile = Tile(source.dtype, source.shape, extents, held)  # type: ignore[arg-type]
    _write(w, tile, source.shape, tuple(extents), target.pointer, target.strides, target.mask, certain=target.certain)
    return []


def _aside(w: Writer, eqn: Eqn, source: Ref, extents: Sequence[Int]) -> Memory:
    """A copy of the valid part of a window, in memory of its own."""
    fn, strides = w.fn, contiguous(source.shape, w.fn.mul)
    total = fn.mul(fn.product(source.shape), source.dtype.itemsize)
    if w.orchestration:
        pointer = fn.let(f"call ptr @pypto_new(ptr %heap, i64 {total})")
        w.check(fn.let(f"icmp ne ptr {pointer}, null"), eqn, "memory", source.shape)
        place = Memory(pointer, strides)
    elif isinstance(total, int):
        place = Memory((held := w.reserve(source.dtype, tuple(map(int, source.shape)))).pointer, strides, held.slot)
    else:
        raise Unsupported("a copy inside a kernel between windows that may overlap and whose size is known only at run time")
    tile = Tile(source.dtype, source.shape, tuple(extents), Memory(source.pointer, source.strides))  # type: ignore[arg-type]
    _write(w, tile, source.shape, tuple(extents), place.pointer, strides, None)
    return place
