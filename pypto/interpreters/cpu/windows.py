"""Windows of whole values: static and run-time ones, padding, reversal, and gathers and scatters of windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto import numerics
from pypto.core.ir import Eqn
from pypto.interpreters.cpu.elements import inside, scalar, tile, wide_index
from pypto.interpreters.cpu.gathering import row_major, updated
from pypto.interpreters.cpu.lanes import Lanes, memory_kind
from pypto.interpreters.cpu.memory import _write, filled
from pypto.interpreters.cpu.needs import offset
from pypto.interpreters.cpu.text import Int
from pypto.interpreters.cpu.values import Lazy, Memory, Tile, Value

if TYPE_CHECKING:
    from pypto.interpreters.cpu.writer import Writer


def _seen(w: Writer, x: Tile, starts: Sequence[Int], steps: Sequence[int], shape: tuple[int, ...]) -> Tile:
    """Every `steps`-th element from `starts` on, where they are."""
    memory = w.materialise(x)
    pointer = w.fn.at(memory.pointer, offset(w, memory.strides, starts), x.dtype.itemsize)
    strides = tuple(w.fn.mul(s, k) for s, k in zip(memory.strides, steps, strict=True))
    return Tile(x.dtype, shape, shape, w.elsewhere(memory, pointer, strides))


def _strided(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    p = eqn.params
    return [_seen(w, tile(ins[0]), p["start_indices"], p["strides"], eqn.outs[0].aval.static_shape)]


def _rev(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, turned = tile(ins[0]), eqn.params["dimensions"]
    starts = [d - 1 if a in turned else 0 for a, d in enumerate(x.shape)]
    return [_seen(w, x, starts, [-1 if a in turned else 1 for a in range(len(x.shape))], x.shape)]


def _clamped(w: Writer, start: Value, extent: int, size: int, wraps: bool) -> Int:
    """JAX's rule: a negative start counts from the end, then all are clamped so that the window lies inside."""
    fn, at = w.fn, w.index(scalar(start))
    if wraps:
        at = fn.pick(fn.compare("slt", at, 0), fn.add(at, extent), at)
    return fn.least(fn.most(at, 0), extent - size)


def _dynamic(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, sizes, wraps = tile(ins[0]), eqn.params["slice_sizes"], eqn.params["allow_negative_indices"]
    starts = [_clamped(w, s, d, n, k) for s, d, n, k in zip(ins[1:], x.shape, sizes, wraps, strict=True)]
    return [_seen(w, x, starts, [1] * len(sizes), tuple(sizes))]


def _dynamic_update(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, value, wraps = tile(ins[0]), tile(ins[1]), eqn.params["allow_negative_indices"]
    starts = [_clamped(w, s, d, n, k) for s, d, n, k in zip(ins[2:], x.shape, value.shape, wraps, strict=True)]
    w.materialise(value)
    place = updated(w, eqn, x)
    pointer = w.fn.at(place.pointer, offset(w, place.strides, starts), x.dtype.itemsize)
    _write(w, value, value.shape, value.shape, pointer, place.strides, None)
    return [Tile(x.dtype, x.shape, x.valid, place)]


def _pad(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """The value everywhere, then the elements that are not cut off where they belong."""
    x, value, shape = tile(ins[0]), scalar(ins[1]), eqn.outs[0].aval.static_shape
    w.materialise(x)
    place = w.fresh(eqn)
    _write(w, filled(x.dtype, shape, value), shape, shape, place.pointer, place.strides, None)
    first, count, target, strides = [], [], 0, []
    for d, (low, _, inner), n, s in zip(x.shape, eqn.params["padding_config"], shape, place.strides, strict=True):
        step = inner + 1
        begin = max(0, (step - 1 - low) // step)  # the first element that lies at 0 or after
        kept = max(0, min(d, (n - 1 - low) // step + 1) - begin) if n > 0 else 0
        first.append(begin)
        count.append(kept)
        target += (low + begin * step) * int(s) if kept else 0
        strides.append(int(s) * step)
    if all(count):
        part = _seen(w, x, first, [1] * len(shape), tuple(count))
        pointer = w.fn.at(place.pointer, target, x.dtype.itemsize)
        _write(w, part, part.shape, part.shape, pointer, tuple(strides), None)
    return [Tile(x.dtype, shape, shape, place)]


# ---- gathers and scatters of windows -----------------------------------------------------------------------------


@contextmanager
def _windows(
    w: Writer, shape: Sequence[int], indices: Tile, dn: Any, sizes: Sequence[int], clip: bool
) -> Iterator[tuple[list[Int], Int, str | None]]:
    """Loops over all windows: their batch indices, where they begin in row-major order, and whether they lie inside."""
    fn, where, one = w.fn, w.dense(indices), Lanes(w.fn, 1)
    batch, steps, strides = indices.shape[:-1], row_major(indices.shape), row_major(shape)
    size, kind = indices.dtype.itemsize, memory_kind(indices.dtype)
    with ExitStack() as stack:
        at: list[Int] = [stack.enter_context(fn.loop(0, n)) for n in batch]
        vector = fn.at(where.pointer, offset(w, steps[:-1], at), size)
        begin: Int = 0
        tests: list[bool | str] = []
        for k, d in enumerate(dn.start_index_map):
            start: Int = wide_index(one, indices.dtype, fn.load(kind, fn.at(vector, k, size), size))
            last = shape[d] - sizes[d]
            if indices.dtype.bits == 64 and not indices.dtype.is_signed:
                start = fn.pick(fn.compare("slt", start, 0), 1 << 62, start)
            if not clip:
                tests.append(inside(one, str(start), last + 1))
            begin = fn.add(begin, fn.mul(fn.least(fn.most(start, 0), last), strides[d]))
        for d, b in zip(dn.operand_batching_dims, dn.start_indices_batching_dims, strict=True):
            begin = fn.add(begin, fn.mul(at[b], strides[d]))
        there = w.all_of(tests)
        yield at, begin, None if there is True else str(there)


def _gather(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, indices, p, fn = tile(ins[0]), tile(ins[1]), eqn.params, w.fn
    dn, sizes, clip = p["dimension_numbers"], p["slice_sizes"], p["mode"] != "fill"
    memory, out = w.dense(x), eqn.outs[0].aval
    w.materialise(indices)
    place, axes = w.fresh(eqn), dn.window_axes(len(x.shape))
    shape = tuple(sizes[d] for d in axes)
    strides = row_major(x.shape)
    into = tuple(place.strides[a] for a in dn.offset_dims)
    batch = [s for a, s in enumerate(place.strides) if a not in dn.offset_dims]
    if not clip:
        number = eqn.op.cpu.uses(x.dtype) if p["fill_value"] is None else p["fill_value"]
        number = numerics.round_literal(number, x.dtype) if isinstance(number, bool | int | float) else number
        empty = filled(x.dtype, out.static_shape, w.literal(np.asarray(number, x.dtype.storage), x.dtype))
        _write(w, empty, out.static_shape, out.static_shape, place.pointer, place.strides, None)
    with _windows(w, x.shape, indices, dn, sizes, clip) as (at, begin, there):
        source = Memory(fn.at(memory.pointer, begin, x.dtype.itemsize), tuple(strides[d] for d in axes))
        target = fn.at(place.pointer, offset(w, batch, at), x.dtype.itemsize)
        with _if(w, there):
            _write(w, Tile(x.dtype, shape, shape, source), shape, shape, target, into, None)
    return [Tile(x.dtype, out.static_shape, out.static_shape, place)]


@contextmanager
def _if(w: Writer, test: str | None) -> Iterator[None]:
    with ExitStack() as stack:
        if test is not None:
            stack.enter_context(w.fn.when(test))
        yield


def scatter(how: str | None) -> Callable[..., list[Value]]:
    """The rule of a scatter that replaces (None) or combines by `add`, `sub`, `mul`, `min` or `max`: window after window, in order."""

    def emit(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
        x, indices, updates, p, fn = tile(ins[0]), tile(ins[1]), tile(ins[2]), eqn.params, w.fn
        dn, size = p["dimension_numbers"], x.dtype.itemsize
        moved = w.dense(updates)
        w.materialise(indices)
        place = updated(w, eqn, x)
        axes, strides = dn.as_gather.window_axes(len(x.shape)), row_major(x.shape)
        extents = dict(zip(axes, (updates.shape[a] for a in dn.update_window_dims), strict=True))
        sizes = [extents.get(d, 1) for d in range(len(x.shape))]
        shape = tuple(sizes[d] for d in axes)
        own = row_major(updates.shape)
        batch = [s for a, s in enumerate(own) if a not in dn.update_window_dims]
        with _windows(w, x.shape, indices, dn.as_gather, sizes, p["mode"] == "clip") as (at, begin, there):
            pointer, into = fn.at(place.pointer, begin, size), tuple(strides[d] for d in axes)
            source = Memory(fn.at(moved.pointer, offset(w, batch, at), size), tuple(own[a] for a in dn.update_window_dims))
            value = Tile(x.dtype, shape, shape, source)
            if how is not None:
                old = Tile(x.dtype, shape, shape, Memory(pointer, into))
                value = Tile(x.dtype, shape, shape, Lazy(_combine(how, x.dtype), (old, value)))
            with _if(w, there):
                _write(w, value, shape, shape, pointer, into, None)
        return [Tile(x.dtype, x.shape, x.valid, place)]

    return emit


def _combine(how: str, dtype: Any) -> Callable[..., str]:
    return lambda e, a, b: e.of(dtype).rounded(dtype, getattr(e.of(dtype), how)(a, b))


STRIDED, REV, DYNAMIC, DYNAMIC_UPDATE, PAD, GATHER = _strided, _rev, _dynamic, _dynamic_update, _pad, _gather
SCATTER, SCATTER_ADD, SCATTER_SUB, SCATTER_MUL = scatter(None), scatter("add"), scatter("sub"), scatter("mul")
SCATTER_MIN, SCATTER_MAX = scatter("min"), scatter("max")
