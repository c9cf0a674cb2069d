"""Positions of extremes, and running reductions: along one axis element by element, neighbouring lines side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from pypto import dtypes
from pypto.core.ir import Eqn
from pypto.interpreters.cpu.elements import Spot, lines, ordered, result, tile
from pypto.interpreters.cpu.lanes import Lanes, memory_kind, register_kind
from pypto.interpreters.cpu.text import Int
from pypto.interpreters.cpu.values import Tile, Value

if TYPE_CHECKING:
    from pypto.interpreters.cpu.writer import Writer

_TOP, _BOTTOM = 0x7FFFFFFF, -0x80000000


def _unless_empty(w: Writer, n: Int) -> Any:
    """Around code that needs a first element; None where there is none."""
    if isinstance(n, int):
        return nullcontext() if n > 0 else None
    return w.fn.when(w.fn.let(f"icmp sgt i64 {n}, 0"))


# ---- positions ---------------------------------------------------------------------------------------------------


def position(largest: bool) -> Callable[..., list[Value]]:
    """The rule of argmax or argmin."""

    def emit(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
        x, axis, keep = tile(ins[0]), eqn.params["axis"], eqn.params["keepdims"]
        out, fn, memory = eqn.outs[0].aval, w.fn, w.materialise(x)
        valid = tuple(1 if a == axis else v for a, v in enumerate(x.valid) if keep or a != axis)
        place = result(w, eqn, valid)
        back = iter(place.strides)
        strides = [0 if a == axis and not keep else next(back) for a in range(len(x.shape))]
        strides[axis] = 0
        kind, size = memory_kind(x.dtype), x.dtype.itemsize
        into, wide = register_kind(out.dtype), out.dtype.itemsize
        n = x.valid[axis]

        def visit(spot: Spot) -> None:
            e = spot.e
            source = fn.at(memory.pointer, spot.offset(memory.strides), size)
            target = fn.at(place.pointer, spot.offset(strides), wide)

            def key(k: Int) -> str:
                raw = e.from_memory(x.dtype, spot.load(kind, size, source, memory.strides, k))
                return _key(e, x, raw, largest)

            at = Lanes(fn, e.width, _key_dtype(x))
            best, found = fn.slot(e.type(at.kind), 64), fn.slot(e.type("i32"), 64)
            fn.store(e.type(at.kind), key(0), best, 64)
            fn.store(e.type("i32"), "0" if e.width == 1 else "zeroinitializer", found, 64)
            with fn.loop(1, n) as k:
                now, old = key(k), fn.load(e.type(at.kind), best, 64)
                better = at.compare("gt" if largest else "lt", now, old)
                number = e.splat("i32", fn.let(f"trunc i64 {k} to i32"))
                fn.store(e.type(at.kind), at.select(better, now, old), best, 64)
                fn.store(e.type("i32"), e.choose(better, "i32", number, fn.load(e.type("i32"), found, 64)), found, 64)
            index = fn.load(e.type("i32"), found, 64)
            if into != "i32":
                index = e.turn("trunc" if out.dtype.bits < 32 else "sext", "i32", index, into)
            spot.store(into, wide, index, target, strides, 0)

        lines(w, x.shape, x.valid, axis, visit)
        return [Tile(out.dtype, out.static_shape, valid, place)]

    return emit


def _key_dtype(x: Tile) -> dtypes.DType:
    return dtypes.INT32 if x.dtype.is_float else dtypes.UINT8 if register_kind(x.dtype) == "i1" else x.dtype


def _key(e: Lanes, x: Tile, raw: str, largest: bool) -> str:
    """What is compared: zeros are equal, and a NaN is the extremum."""
    if x.dtype.is_float:
        return ordered(e, x.dtype, raw, nan=_TOP if largest else _BOTTOM, signed_zeros=False)
    return e.turn("zext", "i1", raw, "i8") if register_kind(x.dtype) == "i1" else raw


# ---- running reductions ------------------------------------------------------------------------------------------


def running(start: Callable[..., Any], step: Callable[..., Any]) -> Callable[..., list[Value]]:
    """The rule of a scan: `start(e, x)` and `step(e, state, x)` give the next state, a tuple of registers, and the output."""

    def emit(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
        x, axis, reverse = tile(ins[0]), eqn.params["axis"], eqn.params["reverse"]
        fn, memory = w.fn, w.materialise(x)
        place = result(w, eqn, x.valid)
        kind, size, n = memory_kind(x.dtype), x.dtype.itemsize, x.valid[axis]

        def visit(spot: Spot) -> None:
            e = spot.e.of(dtypes.FP32 if x.dtype.is_float else x.dtype)
            source = fn.at(memory.pointer, spot.offset(memory.strides), size)
            target = fn.at(place.pointer, spot.offset(place.strides), size)

            def element(k: Int) -> Int:
                return fn.sub(fn.sub(n, 1), k) if reverse else k

            def load(k: Int) -> str:
                return e.from_memory(x.dtype, spot.load(kind, size, source, memory.strides, element(k)))

            def put(k: Int, value: str) -> None:
                spot.store(kind, size, e.to_memory(x.dtype, e.rounded(x.dtype, value)), target, place.strides, element(k))

            guard = _unless_empty(w, n)
            if guard is None:
                return
            with guard:
                state, out = start(e, load(0))
                put(0, out)
                slots = [fn.slot(e.type(e.kind), 64) for _ in state]
                for s, value in zip(slots, state, strict=True):
                    fn.store(e.type(e.kind), value, s, 64)
                with fn.loop(1, n) as k:
                    state, out = step(e, [fn.load(e.type(e.kind), s, 64) for s in slots], load(k))
                    put(k, out)
                    for s, value in zip(slots, state, strict=True):
                        fn.store(e.type(e.kind), value, s, 64)

        lines(w, x.shape, x.valid, axis, visit)
        return [Tile(x.dtype, x.shape, x.valid, place)]

    return emit


def _combined(name: str) -> Callable[..., list[Value]]:
    def step(e: Lanes, state: list[str], x: str) -> tuple[list[str], str]:
        now = getattr(e, name)(state[0], x)
        return [now], now

    return running(lambda e, x: ([x], x), step)


def _log_sum(e: Lanes, state: list[str], x: str) -> tuple[list[str], str]:
    """The running maximum and the sum of exponentials below it, each step rounded; an infinite maximum is not subtracted."""
    largest, total = state
    now = e.max(largest, x)
    finite = e.let("fcmp olt", "float", e.call("fabs", "float", now), e.fill("float", float("inf")))
    shift = e.choose(finite, "float", now, e.fill("float", 0.0))
    nothing = e.let("fcmp oeq", "float", largest, e.fill("float", float("-inf")))
    kept = e.let("fmul", "float", total, e.exp(e.let("fsub", "float", largest, shift)))
    carried = e.choose(nothing, "float", e.fill("float", 0.0), kept)
    total = e.let("fadd", "float", carried, e.exp(e.let("fsub", "float", x, shift)))
    return [now, total], e.let("fadd", "float", shift, e.log(total))


def _first_log_sum(e: Lanes, x: str) -> tuple[list[str], str]:
    return _log_sum(e, [e.fill("float", float("-inf")), e.fill("float", 0.0)], x)


ARGMAX, ARGMIN = position(True), position(False)
CUMSUM, CUMPROD, CUMMAX, CUMMIN = (_combined(name) for name in ("add", "mul", "max", "min"))
CUMLOGSUMEXP = running(_first_log_sum, _log_sum)
