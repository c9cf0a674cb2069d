"""Tile ops that move elements: most only change how a later loop walks through memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pypto import dtypes, numerics
from pypto.core.ir import Eqn
from pypto.interpreters.cpu.elements import scalar, tile
from pypto.interpreters.cpu.lanes import Lanes, register_kind
from pypto.interpreters.cpu.memory import _write, filled, window
from pypto.interpreters.cpu.needs import bring, offset, reshaped_valid
from pypto.interpreters.cpu.nest import identity
from pypto.interpreters.cpu.rules import Unsupported
from pypto.interpreters.cpu.text import Int
from pypto.interpreters.cpu.values import Lazy, Scalar, Tile, Value

if TYPE_CHECKING:
    from pypto.interpreters.cpu.writer import Writer


# ---- making ------------------------------------------------------------------------------------------------------


def _fill(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    value, dtype = scalar(ins[0]), eqn.params["dtype"]
    if value.dtype is not dtype:
        raise Unsupported(f"a fill of {dtype.name} by {value.dtype.name}")
    return [filled(dtype, eqn.params["shape"], value)]


def _empty(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    dtype = eqn.params["dtype"]
    return [filled(dtype, eqn.params["shape"], w.literal(np.zeros((), dtype.storage), dtype))]


def _first(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """The first operand: in unchecked runs nobody asks whether the other one is the same."""
    return [tile(ins[0])]


def _ramp(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    shape, dtype, down = eqn.params["shape"], eqn.params["dtype"], eqn.params["descending"]
    first = scalar(ins[0])
    if first.dtype.is_float:  # a whole number, held as a float
        one = Lanes(w.fn, 1, first.dtype)
        to_whole = {"source": first.dtype, "target": dtypes.INT64, "mode": "trunc", "overflow": "saturate", "dtype": dtypes.INT64}
        start: Int = one.convert(first.register, **to_whole)
    else:
        start = w.index(first)

    def emit(e: Lanes, position: str) -> str:
        first = e.splat("i64", str(start))
        value = e.let("sub" if down else "add", "i64", first, position)
        if not dtype.is_float:
            return e.turn("trunc", "i64", value, register_kind(dtype))
        return e.convert(value, source=dtypes.INT64, target=dtype, mode="rint", overflow="wrap", dtype=dtype)

    return [Tile(dtype, shape, shape, Lazy(emit, (), shared=w.shared(eqn), counts=(*(0 for _ in shape[1:]), 1)[: len(shape)]))]


# ---- the same elements elsewhere ---------------------------------------------------------------------------------


def _reshape(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, shape = tile(ins[0]), eqn.params["shape"]
    memory = w.dense(x)
    strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
    if all(isinstance(v, int) for v in x.valid):
        valid = eqn.op.valid(x.valid, shape=shape, old=x.shape)  # type: ignore[misc]
    else:
        valid = reshaped_valid(w, x.shape, x.valid, shape, getattr(eqn.outs[0].aval, "valid", None))
    return [Tile(x.dtype, shape, valid, w.elsewhere(memory, memory.pointer, strides))]


def _transpose(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, order = tile(ins[0]), eqn.params["permutation"]
    memory = w.materialise(x)
    shape, strides, valid = (tuple(values[a] for a in order) for values in (x.shape, memory.strides, x.valid))
    return [Tile(x.dtype, shape, valid, w.elsewhere(memory, memory.pointer, strides))]  # type: ignore[arg-type]


def _broadcast(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, shape = ins[0], eqn.params["shape"]
    if isinstance(x, Scalar):
        return [filled(x.dtype, shape, x)]
    x = tile(x)
    pad = len(shape) - len(x.shape)
    valid = tuple(d if i < pad or x.shape[i - pad] != d else x.valid[i - pad] for i, d in enumerate(shape))
    return [Tile(x.dtype, shape, valid, Lazy(identity, (x,)))]


def _slice(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, sizes = tile(ins[0]), eqn.params["sizes"]
    starts = [w.index(s) for s in ins[1:]]
    window(w, eqn, x, starts, sizes, "a window")
    memory = w.materialise(x)
    valid = tuple(w.fn.least(w.fn.most(w.fn.sub(v, s), 0), n) for v, s, n in zip(x.valid, starts, sizes, strict=True))
    pointer = w.fn.at(memory.pointer, offset(w, memory.strides, starts), x.dtype.itemsize)
    return [Tile(x.dtype, sizes, valid, w.elsewhere(memory, pointer, memory.strides))]


def _update(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, value, sizes = tile(ins[0]), ins[1], eqn.params["sizes"]
    starts = [w.index(s) for s in ins[2:]]
    window(w, eqn, x, starts, sizes, "a window")
    if isinstance(value, Tile):
        memory = w.materialise(value) if value.shape == tuple(sizes) else w.dense(value)
        strides = memory.strides if value.shape == tuple(sizes) else tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))
        value = Tile(value.dtype, sizes, sizes, w.elsewhere(memory, memory.pointer, strides))
    else:
        value = filled(x.dtype, sizes, scalar(value))
    w.materialise(x)
    place = w.fresh(eqn, over=x)
    bring(w, x, place)
    pointer = w.fn.at(place.pointer, offset(w, place.strides, starts), x.dtype.itemsize)
    _write(w, value, sizes, sizes, pointer, place.strides, None)
    return [Tile(x.dtype, x.shape, x.valid, place)]


def _concatenate(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """The valid parts, one behind the other."""
    axis, tiles = eqn.params["axis"], [tile(x) for x in ins]
    shape, first = eqn.outs[0].aval.static_shape, tiles[0]
    for x in tiles[1:]:
        same = (w.fn.compare("eq", v, f) for i, (v, f) in enumerate(zip(x.valid, first.valid)) if i != axis)
        w.check(w.all_of(same), eqn, "concatenate", [])
    place = w.fresh(eqn)
    valid, at = list(first.valid), 0
    if any(x.valid != x.shape for x in tiles):
        w.fn.zero(place.pointer, math.prod(shape) * first.dtype.itemsize)
    for x in tiles:
        pointer = w.fn.at(place.pointer, w.fn.mul(at, place.strides[axis]), x.dtype.itemsize)
        _write(w, x, x.shape, x.valid, pointer, place.strides, None)
        at = w.fn.add(at, x.valid[axis])
    valid[axis] = at
    return [Tile(first.dtype, shape, tuple(valid), place)]


# ---- the valid region --------------------------------------------------------------------------------------------


def _fillpad(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, given = tile(ins[0]), eqn.params.get("valid")
    if given is not None:  # the call says what is valid
        x = Tile(x.dtype, x.shape, tuple(given), Lazy(identity, (x,)))
    pad = w.literal(numerics.round_literal(x.dtype.pad(eqn.params["pad"]), x.dtype), x.dtype)
    if x.valid == x.shape:
        return [Tile(x.dtype, x.shape, x.shape, Lazy(identity, (x,)))]
    w.materialise(x)
    place = w.fresh(eqn)
    _write(w, filled(x.dtype, x.shape, pad), x.shape, x.shape, place.pointer, place.strides, None)
    _write(w, x, x.shape, x.valid, place.pointer, place.strides, None)
    return [Tile(x.dtype, x.shape, x.shape, place)]


def _set_validshape(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, valid = tile(ins[0]), tuple(w.index(e) for e in ins[1:])
    inside = (test for v, d in zip(valid, x.shape, strict=True) for test in (w.fn.compare("sge", v, 0), w.fn.compare("sle", v, d)))
    w.check(w.all_of(inside), eqn, "validshape", list(valid))
    return [Tile(x.dtype, x.shape, valid, Lazy(identity, (x,)))]


FILL, EMPTY, RAMP, FIRST = _fill, _empty, _ramp, _first
RESHAPE, TRANSPOSE, BROADCAST = _reshape, _transpose, _broadcast
SLICE, UPDATE, CONCATENATE = _slice, _update, _concatenate
FILLPAD, SET_VALIDSHAPE = _fillpad, _set_validshape
