"""The rules of the cube unit's ops: where operands, accumulator, bias and result lie; `panels` has the loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from pypto import dtypes
from pypto.core.ir import Eqn
from pypto.interpreters.cpu import amx, panels
from pypto.interpreters.cpu.elements import tile
from pypto.interpreters.cpu.lanes import Lanes
from pypto.interpreters.cpu.memory import _write, filled
from pypto.interpreters.cpu.needs import bring, offset
from pypto.interpreters.cpu.packed import Packed, Side, form_of, place
from pypto.interpreters.cpu.rules import Unsupported
from pypto.interpreters.cpu.text import Int
from pypto.interpreters.cpu.values import Lazy, Memory, Tile, Value

if TYPE_CHECKING:
    from pypto.interpreters.cpu.writer import Writer

_DTYPES = (dtypes.FP32, dtypes.FP16, dtypes.BF16, dtypes.INT8, dtypes.FP8E4M3FN, dtypes.FP8E5M2, dtypes.HF8)


def product(*, accumulates: bool, biased: bool) -> Callable[..., list[Value]]:
    """The rule of a matrix product, with an accumulator in front or a bias at the end of its operands."""

    def emit(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
        operands = [tile(x) for x in ins]
        acc = operands.pop(0) if accumulates else None
        bias = operands.pop() if biased else None
        return [_Product(w, eqn, operands[0], operands[1], acc, bias).result()]

    return emit


class _Product:
    def __init__(self, w: Writer, eqn: Eqn, a: Tile, b: Tile, acc: Tile | None, bias: Tile | None) -> None:
        self.w, self.eqn, self.acc, self.bias = w, eqn, acc, bias
        if a.dtype not in _DTYPES:
            raise Unsupported(f"a product of {a.dtype.name}")
        self.kind = panels.kind_of(a.dtype, eqn.params.get("numerics", "contract"))
        out = eqn.outs[0].aval.static_shape
        form = form_of(b.memory, Side(self.kind, True, bool(eqn.params.get("b_trans", False))))
        # a vector is a row on the left and a column on the right; the result has no such axis
        self.row, self.column = len(a.shape) > 1, len(b.shape) > 1
        self.left = self._oriented(a if self.row else self._matrix(a, 0), self.row and eqn.params.get("a_trans", False))
        self.right = self._oriented(b if self.column else self._matrix(b, 1), self.column and eqn.params.get("b_trans", False))
        batch = out[: len(out) - self.row - self.column]
        self.shape = (*batch, self.left.shape[-2], self.right.shape[-1])
        self.form = form if form is not None and self._whole() else None

    def _whole(self) -> bool:
        """Whether this is one product of whole tiles, the left operand's rows contiguous."""
        left, right = self.left, self.right
        sizes = len(self.shape) == 2 and self.shape[0] % 32 == 0 and self.shape[1] % 32 == 0 and left.shape[1] % amx.depth(self.kind) == 0
        valid = left.valid == left.shape and right.valid == right.shape
        return sizes and valid and self.row and self.column and left.memory is not None and left.memory.strides[-1] == 1

    def _matrix(self, x: Tile, axis: int) -> Tile:
        """A vector with an axis of one element more."""
        memory = self.w.materialise(x)
        rows = ((x.shape, 1), (x.valid, 1), (memory.strides, 0))
        shape, valid, strides = ((one, *v) if axis == 0 else (*v, one) for v, one in rows)
        return Tile(x.dtype, shape, valid, self.w.elsewhere(memory, memory.pointer, strides))  # type: ignore[arg-type]

    def _oriented(self, x: Tile, turned: bool) -> Tile:
        """The operand with its last two axes in the order of the product."""
        memory = self.w.materialise(x)
        if not turned:
            return x
        swap = [(*values[:-2], values[-1], values[-2]) for values in (x.shape, x.valid, memory.strides)]
        return Tile(x.dtype, swap[0], swap[1], self.w.elsewhere(memory, memory.pointer, swap[2]))  # type: ignore[arg-type]

    def result(self) -> Tile:
        w, eqn, left, right = self.w, self.eqn, self.left, self.right
        out = eqn.outs[0].aval.dtype
        m, k, n = left.valid[-2], left.valid[-1], right.valid[-1]
        w.check(w.fn.compare("sle", k, right.valid[-2]), eqn, "product", [k, right.valid[-2]])
        batch = self._batch()
        valid = (*batch, m, n)
        wide = self.kind.wide
        plain = out is wide and self.bias is None
        if self.acc is not None:
            place, valid = self._accumulator()
        else:
            place = w.fresh(eqn) if plain and self.row and self.column else w.reserve(wide, self.shape)
            if self.form is None:
                w.fn.zero(place.pointer, math.prod(self.shape) * wide.itemsize)
        with ExitStack() as stack:
            index = [0 if d == 1 and v == 1 else stack.enter_context(w.fn.loop(0, v)) for d, v in zip(self.shape, batch)]
            if self.form is not None:
                self._from_packed(place, *self.form)
            else:
                self._multiply(place, index, m, n, k)
        total = self._shaped(Tile(wide, self.shape, valid, place))
        return total if plain or self.acc is not None else self._finished(total)

    def _batch(self) -> tuple[Int, ...]:
        """The valid extents of the batch axes: an operand that has one along an axis repeats it."""
        fn, rank = self.w.fn, len(self.shape) - 2
        left, right = ((1,) * (rank + 2 - len(x.valid)) + x.valid[:-2] for x in (self.left, self.right))
        return tuple(fn.pick(fn.compare("eq", a, 1), b, a) for a, b in zip(left, right, strict=True))

    def _shaped(self, total: Tile) -> Tile:
        """Without the axes that vectors do not have."""
        kept = [*range(len(self.shape) - 2), *([len(self.shape) - 2] if self.row else []), *([len(self.shape) - 1] if self.column else [])]
        if len(kept) == len(self.shape):
            return total
        memory = total.source
        assert isinstance(memory, Memory)
        shape, valid, strides = (tuple(v[a] for a in kept) for v in (total.shape, total.valid, memory.strides))
        return Tile(total.dtype, shape, valid, self.w.elsewhere(memory, memory.pointer, strides))  # type: ignore[arg-type]

    def _accumulator(self) -> tuple[Memory, tuple[Int, ...]]:
        """Where the accumulator is, or a copy of its valid part."""
        w, acc = self.w, self.acc
        assert acc is not None
        w.materialise(acc)
        if acc.valid != acc.shape:
            place = w.fresh(self.eqn)
            w.fn.zero(place.pointer, math.prod(acc.shape) * acc.dtype.itemsize)
            _write(w, acc, acc.shape, acc.valid, place.pointer, place.strides, None)
            return place, acc.valid
        place = w.fresh(self.eqn, over=acc)
        bring(w, acc, place)
        return place, acc.valid

    def _from_packed(self, target: Memory, p: Packed, starts: Sequence[Int]) -> None:
        """The product with an operand that was packed for all blocks."""
        w, fn, a = self.w, self.w.fn, self.left.memory
        assert a is not None
        lda = fn.mul(a.strides[0], self.kind.dtype.itemsize)
        left = f"ptr {a.pointer}, i64 {lda}, i64 64, i64 {fn.mul(lda, 16)}"
        right = f"ptr {place(w, p, starts)}, i64 {p.strip}"
        result = f"ptr {target.pointer}, i64 {target.strides[0]}, i64 {self.shape[0]}, i64 {self.shape[1]}"
        tiles, fresh = self.left.shape[1] // amx.depth(self.kind), str(self.acc is None).lower()
        fn.do(f"call void @{amx.multiply(w.module, self.kind)}({left}, {right}, {result}, i64 {tiles}, i1 {fresh})")

    def _multiply(self, place: Memory, index: Sequence[Int], m: Int, n: Int, k: Int) -> None:
        w, fn = self.w, self.w.fn
        a, am, ak = self._operand(self.left, index)
        b, bk, bn = self._operand(self.right, index)
        at = offset(w, place.strides[: len(index)], index)
        c = fn.at(place.pointer, at, 4)
        tiles = amx.suits(self.kind, w.module.features)
        function = (amx if tiles else panels).product(w.module, self.kind)
        size = panels.room(self.shape[-2], self.shape[-1], w.module.features)
        if tiles:
            size = max(size, amx.room(self.shape[-1], self.left.shape[-1], self.left.dtype.itemsize))
        scratch = w.reserve(dtypes.INT8, (size,))
        values = (a, am, ak, b, bk, bn, c, place.strides[-2], m, n, k, scratch.pointer)
        fn.do(f"call void @{function}({', '.join(f'{t} {x}' for (t, _), x in zip(panels.SIGNATURE, values, strict=True))})")

    def _operand(self, x: Tile, index: Sequence[Int]) -> tuple[str, Int, Int]:
        """The matrix of a batch: pointer, and strides of its two axes."""
        memory = x.memory
        assert memory is not None
        pad = len(index) - (len(x.shape) - 2)
        at: Int = 0
        for i, v, s in zip(index[pad:], x.valid[:-2], memory.strides[:-2], strict=True):
            at = self.w.fn.add(at, self.w.fn.mul(self.w.fn.pick(self.w.fn.compare("eq", v, 1), 0, i), s))
        return self.w.fn.at(memory.pointer, at, x.dtype.itemsize), memory.strides[-2], memory.strides[-1]

    def _finished(self, total: Tile) -> Tile:
        """Bias and rounding, in the valid region; everything else is zero."""
        w, out, wide, shape, valid = self.w, self.eqn.outs[0].aval.dtype, self.kind.wide, total.shape, total.valid

        def emit(e: Lanes, x: str, *bias: str) -> str:
            return e.rounded(out, e.of(wide).add(x, bias[0]) if bias else x) if out.is_float else e.of(wide).add(x, bias[0])

        operands: tuple[Any, ...] = (total,) if self.bias is None else (total, self.bias)
        done = Tile(out, shape, valid, Lazy(emit, operands))
        if valid == shape:
            return Tile(out, shape, valid, Lazy(emit, operands, shared=w.shared(self.eqn)))
        place = w.fresh(self.eqn)
        zero = w.literal(out.storage.type(0), out)
        _write(w, filled(out, shape, zero), shape, shape, place.pointer, place.strides, None)
        _write(w, done, shape, valid, place.pointer, place.strides, None)
        return Tile(out, shape, valid, place)


PLAIN, ACCUMULATED, BIASED = (product(accumulates=a, biased=b) for a, b in ((False, False), (True, False), (False, True)))
