"""Reductions: row by row in 64 partial results, or column by column in ascending order; both in the order of the contract."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto import dtypes
from pypto.core.ir import Eqn
from pypto.interpreters.cpu.elements import tile
from pypto.interpreters.cpu.lanes import Lanes, memory_kind, register_kind
from pypto.interpreters.cpu.memory import _write, filled
from pypto.interpreters.cpu.nest import Inner, Nest, Place
from pypto.interpreters.cpu.text import Int
from pypto.interpreters.cpu.values import Lazy, Memory, Scalar, Tile, Value, contiguous

if TYPE_CHECKING:
    from pypto.interpreters.cpu.writer import Writer

ROW = 64
_WIDTH = 16


def reduction(how: str) -> Callable[..., list[Value]]:
    """The rule of a reduction by `add`, `mul`, `max`, `min`, `both` (and), `either` (or) or `differ` (xor)."""

    def emit(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
        return [_Reduction(w, eqn, how, tile(ins[0])).result()]

    return emit


class _Reduction:
    def __init__(self, w: Writer, eqn: Eqn, how: str, x: Tile) -> None:
        self.w, self.eqn, self.how, self.x = w, eqn, how, x
        self.dtype = x.dtype
        self.inside = dtypes.UINT8 if register_kind(x.dtype) == "i1" else dtypes.FP32 if x.dtype.is_float else x.dtype
        self.kind = register_kind(self.inside)
        self.axes, self.keep = eqn.params["axes"], eqn.params["keepdims"]
        chain = eqn.params.get("order", "lanes64") == "ascending"
        self.chain = chain and x.dtype.is_float and how in ("add", "mul")
        self.ordered = x.dtype.is_float and how in ("add", "mul")
        self.shape = eqn.outs[0].aval.static_shape
        self.valid = tuple(1 if i in self.axes else v for i, v in enumerate(x.valid) if self.keep or i not in self.axes)

    @property
    def identity(self) -> Any:
        if self.how == "add":
            return -0.0 if self.dtype.is_float else 0
        if self.how in ("max", "min"):
            return self.dtype.pad("min" if self.how == "max" else "max")
        return {"mul": 1, "both": 1 if self.inside is not self.dtype else -1, "either": 0, "differ": 0}[self.how]

    def combine(self, e: Lanes, a: str, b: str) -> str:
        return getattr(e.of(self.inside), self.how)(a, b)

    def widened(self, e: Lanes, x: str) -> str:
        return e.turn("zext", "i1", x, "i8") if register_kind(self.dtype) == "i1" else x

    def narrowed(self, e: Lanes, x: str) -> str:
        """A total as a register of the result's dtype."""
        if register_kind(self.dtype) == "i1":
            return e.let("icmp ne", "i8", x, e.fill("i8", 0))
        return e.rounded(self.dtype, x)

    # ---- which way ----

    def result(self) -> Tile:
        x, rank = self.x, len(self.x.shape)
        wide = [a for a in self.axes if x.shape[a] != 1 or x.valid[a] != 1]
        kept = [a for a in range(rank) if a not in wide]
        place = self.w.fresh(self.eqn)
        if self.valid != self.shape:
            zero = self.w.literal(self.dtype.storage.type(0), self.dtype)
            _write(self.w, filled(self.dtype, self.shape, zero), self.shape, self.shape, place.pointer, place.strides, None)
        # the result's stride for every axis of the operand
        back, strides = iter(place.strides), []
        for a in range(rank):
            strides.append(next(back) if self.keep or a not in self.axes else 0)
        strides = [0 if a in self.axes else s for a, s in enumerate(strides)]
        if not wide:
            _write(self.w, x, x.shape, x.valid, place.pointer, tuple(strides), None)
        elif wide == [rank - 1]:
            self.rows(x, place.pointer, tuple(strides))
        elif len(wide) == 1 and (self.chain or not self.ordered) and x.shape[-1] != 1 and x.valid[-1] != 1:
            self.columns(x, wide[0], place.pointer, tuple(strides))
        else:
            self.rows(self.turned(kept, wide), place.pointer, (*(strides[a] for a in kept), 0))
        return Tile(self.dtype, self.shape, self.valid, place)

    def turned(self, kept: list[int], wide: list[int]) -> Tile:
        """The operand with the reduced axes at the back, as one."""
        x, w = self.x, self.w
        memory = w.materialise(x)
        order = [*kept, *wide]
        shape, strides, valid = (tuple(values[a] for a in order) for values in (x.shape, memory.strides, x.valid))
        turned = Tile(x.dtype, shape, valid, w.elsewhere(memory, memory.pointer, strides))  # type: ignore[arg-type]
        if len(wide) == 1:
            return turned
        # the valid elements close up: partial results count them through
        place, last = w.reserve(x.dtype, shape), int(np.prod(shape[len(kept) :]))  # type: ignore[arg-type]
        inner = contiguous(valid[len(kept) :], w.fn.mul)
        _write(w, turned, shape, valid, place.pointer, (*place.strides[: len(kept)], *inner), None)
        flat = Memory(place.pointer, (*place.strides[: len(kept)], 1), place.slot)
        taken = w.fn.product(valid[len(kept) :])
        return Tile(x.dtype, (*shape[: len(kept)], last), (*valid[: len(kept)], taken), flat)  # type: ignore[arg-type]

    # ---- along the last axis ----

    def rows(self, x: Tile, pointer: str, strides: tuple[Int, ...]) -> None:
        nest = Nest(self.w, x.shape, x.valid, [x], [Place(pointer, strides, self.dtype.itemsize)], keep_last=True)
        with nest.outer() as inner:
            total = self._chain(inner, x) if self.chain else self._partials(inner, x)
            lanes = Lanes(self.w.fn, 1)
            if self.how == "add" and self.dtype.is_float and x.valid[-1] == 0:
                total = lanes.fill("float", 0.0)
            elif self.how == "add" and self.dtype.is_float and not isinstance(x.valid[-1], int):
                nothing = self.w.fn.let(f"icmp eq i64 {x.valid[-1]}, 0")
                total = lanes.choose(nothing, "float", lanes.fill("float", 0.0), total)
            bits = lanes.to_memory(self.dtype, self.narrowed(lanes, total))
            self.w.fn.store(memory_kind(self.dtype), bits, nest.targets[0], self.dtype.itemsize)

    def _chain(self, inner: Inner, x: Tile) -> str:
        """One element after the other."""
        fn = self.w.fn
        total = fn.slot(self.kind)
        fn.store(self.kind, Lanes(fn, 1, self.inside).const(self.identity), total, 8)
        with fn.loop(0, inner.count) as j:
            step = inner.at(1, j)
            value = self.widened(step.lanes, step.get(x))
            fn.store(self.kind, self.combine(step.lanes, fn.load(self.kind, total, 8), value), total, 8)
            step.keep()
        return fn.load(self.kind, total, 8)

    def _partials(self, inner: Inner, x: Tile) -> str:
        """Element j goes to partial j mod 64, in four vectors; then halves."""
        fn, n = self.w.fn, inner.count
        lanes = Lanes(fn, _WIDTH, self.inside)
        used = min(4, max(1, -(-n // _WIDTH))) if isinstance(n, int) else 4
        vector = lanes.type(self.kind)
        sums = [fn.slot(vector, 64) for _ in range(used)]
        for s in sums:
            fn.store(vector, lanes.const(self.identity), s, 64)
        inner.prepare(_WIDTH)

        def take(u: int, j: Int) -> None:
            step = inner.at(_WIDTH, j)
            value = self.widened(step.lanes, step.get(x))
            fn.store(vector, self.combine(lanes, fn.load(vector, sums[u], 64), value), sums[u], 64)
            step.keep()

        whole: Int = n // ROW * ROW if isinstance(n, int) else fn.let(f"and i64 {n}, {-ROW}")
        if whole != 0:
            with fn.loop(0, whole, ROW) as j:
                for u in range(4):
                    take(u, fn.add(j, _WIDTH * u))
        done = whole
        if isinstance(n, int) and isinstance(whole, int):
            for u in range((n - whole) // _WIDTH):
                take(u, whole + _WIDTH * u)
            done = n - n % _WIDTH
        if done != n:
            self._rest(inner, x, sums, done, n, vector)
        values = [fn.load(vector, s, 64) for s in sums]
        # partial i and partial i + 32 first: vectors 0 and 2, 1 and 3
        pairs = [self.combine(lanes, v, values[i + 2]) if i + 2 < used else v for i, v in enumerate(values[:2])]
        return self._halves(pairs, lanes)

    def _rest(self, inner: Inner, x: Tile, sums: list[str], done: Int, n: Int, vector: str) -> None:
        """Elements that fill no vector, one by one, to the partials in memory."""
        fn = self.w.fn
        memory = fn.slot(f"[{ROW} x {self.kind}]", 64)
        size = self.inside.itemsize
        for u, s in enumerate(sums):
            fn.store(vector, fn.load(vector, s, 64), fn.at(memory, _WIDTH * u, size), 64)
        inner.prepare(1)
        with fn.loop(done, n) as j:
            step = inner.at(1, j)
            value = self.widened(step.lanes, step.get(x))
            at = fn.at(memory, fn.let(f"and i64 {j}, {ROW - 1}"), size)
            fn.store(self.kind, self.combine(step.lanes, fn.load(self.kind, at, size), value), at, size)
            step.keep()
        for u, s in enumerate(sums):
            fn.store(vector, fn.load(vector, fn.at(memory, _WIDTH * u, size), 64), s, 64)

    def _halves(self, values: list[str], lanes: Lanes) -> str:
        fn = self.w.fn
        total = values[0] if len(values) == 1 else self.combine(lanes, values[0], values[1])
        width = _WIDTH
        while width > 1:
            v, half = f"<{width} x {self.kind}>", width // 2
            low, high = (
                fn.let(f"shufflevector {v} {total}, {v} poison, <{half} x i32> <{', '.join(f'i32 {i + first}' for i in range(half))}>")
                for first in (0, half)
            )
            width = half
            if width == 1:
                low, high = (fn.let(f"extractelement <1 x {self.kind}> {x}, i64 0") for x in (low, high))
            total = self.combine(Lanes(fn, width, self.inside), low, high)
        return total

    # ---- along another axis ----

    def columns(self, x: Tile, axis: int, pointer: str, strides: tuple[Int, ...]) -> None:
        """Rows in order, each added to the totals of all columns."""
        w = self.w
        shape = tuple(1 if a == axis else n for a, n in enumerate(x.shape))
        valid = tuple(1 if a == axis else v for a, v in enumerate(x.valid))
        totals = w.reserve(self.inside, shape)
        first = filled(self.inside, shape, w.literal(np.asarray(self.identity).astype(self.inside.storage), self.inside))
        _write(w, first, shape, shape, totals.pointer, totals.strides, None)
        old = Tile(self.inside, shape, shape, totals)
        moving = tuple(0 if a == axis else s for a, s in enumerate(totals.strides))
        nest = Nest(w, x.shape, x.valid, [x, old], [Place(totals.pointer, moving, self.inside.itemsize)])

        def visit(step: Any) -> None:
            total = self.combine(step.lanes, step.get(old), self.widened(step.lanes, step.get(x)))
            step.put_raw(0, memory_kind(self.inside), total)

        with nest.outer() as inner:
            inner.each(visit)
        self._finish(old, valid, axis, pointer, strides)

    def _finish(self, totals: Tile, valid: tuple[Int, ...], axis: int, pointer: str, strides: tuple[Int, ...]) -> None:
        rows: Int = self.x.valid[axis]
        operands: list[Tile | Scalar] = [totals]
        if self.how == "add" and self.dtype.is_float and not (isinstance(rows, int) and rows > 0):
            nothing = self.w.fn.compare("eq", rows, 0)
            operands.append(Scalar(dtypes.BOOL, str(nothing).lower()))

        def emit(e: Lanes, total: str, *nothing: str) -> str:
            if nothing:
                total = e.choose(nothing[0], "float", e.fill("float", 0.0), total)
            return self.narrowed(e, total)

        done = Tile(self.dtype, totals.shape, valid, Lazy(emit, tuple(operands)))
        _write(self.w, done, totals.shape, valid, pointer, strides, None)


SUM, PROD, MAX, MIN = reduction("add"), reduction("mul"), reduction("max"), reduction("min")
AND, OR, XOR = reduction("both"), reduction("either"), reduction("differ")
