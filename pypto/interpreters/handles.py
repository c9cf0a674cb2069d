"""A kernel's buffers and handles as values: what reads, stores and views are when every buffer is a whole array that is replaced.

A partly valid tile is the array of its valid part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto import dtypes, numerics
from pypto.core.array import Array
from pypto.core.avals import ArrayAval, Aval, RefAval, TileAval
from pypto.core.ir import Atom, Eqn, Jaxpr, Literal, Var
from pypto.core.op import OPS, Pointwise
from pypto.core.trace import EVAL, Tracer, aval_of, current_trace
from pypto.errors import NumericsError
from pypto.interpreters.tangents import apply, operand, plain, results, zeros
from pypto.interpreters.views import Permuted, Reshaped, View, Window
from pypto.source import placed


class RunTimeBound(Exception):
    """A bound or an extent that is known only once a loop around it is unrolled."""

    def __init__(self, eqn: Eqn) -> None:
        super().__init__()
        self.eqn = eqn


def refused(eqn: Eqn, why: str) -> NumericsError:
    return NumericsError(
        "PL703",
        f"`{eqn.op.name}` cannot be a function of values: {why}",
        fix="give the kernel a way back: pypto.custom_vjp on a function that calls it",
        at=eqn.source,
    )


class Handles:
    """Runs a program over buffers under the current trace, as a program over values."""

    def __init__(self, env: dict[Var, Any] | None = None, buffers: dict[int, Any] | None = None) -> None:
        self.env: dict[Var, Any] = {} if env is None else env
        self.buffers: dict[int, Any] = {} if buffers is None else buffers

    # ---- values ----

    def allocate(self, whole: Any) -> View:
        key = len(self.buffers)
        self.buffers[key] = whole
        return View(key, aval_of(whole).static_shape)

    def read(self, a: Atom) -> Any:
        return operand(a) if isinstance(a, Literal) else self.env[a]

    def number(self, a: Any) -> int | None:
        """An index as a number, where it is one."""
        x = self.read(a) if isinstance(a, Var | Literal) else a
        return None if isinstance(x, Tracer) else int(np.asarray(x))

    def place(self, a: Atom) -> Any:
        """A start of a window: a number where it is one."""
        known = self.number(a)
        return self.read(a) if known is None else known

    def compute(self, eqn: Eqn, ins: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        """The results of an op; of constants at once."""
        trace = current_trace() if any(isinstance(x, Tracer) for x in ins) else EVAL
        return results(trace, eqn.op, ins, params)

    # ---- equations ----

    def block(self, jaxpr: Jaxpr) -> list[Any]:
        for eqn in jaxpr.eqns:
            with placed(eqn.source):
                self.equation(eqn)
        return [self.read(a) for a in jaxpr.outs]

    def equation(self, eqn: Eqn) -> None:
        handler = getattr(self, f"_{eqn.op.name}", None)
        if eqn.op.mark or (eqn.outs and all(v.aval.dtype is dtypes.TASK_ID and not isinstance(v.aval, RefAval) for v in eqn.outs)):
            made: Sequence[Any] = [None for _ in eqn.outs]  # no value depends on the id of a task
            if handler is not None:
                handler(eqn)
        elif handler is not None:
            made = handler(eqn)
        elif eqn.op.by_values is not None:
            made = self._at_places(eqn)
        elif any(isinstance(a.aval, RefAval) or a.aval.dtype is dtypes.TASK_ID for a in eqn.ins) or eqn.op.writes:
            raise refused(eqn, "it goes through a buffer in a way that values cannot follow")
        else:
            made = self._op(eqn)
        self.env.update(zip(eqn.outs, made, strict=True))

    def _op(self, eqn: Eqn) -> Sequence[Any]:
        """An op on values. Of partly valid tiles these are the valid parts: what ops of one element each, and those that look at the
        valid part only, take as they are."""
        partly = [a for a in eqn.ins if isinstance(a.aval, TileAval) and a.aval.valid is not None]
        avals = [a.aval for a in eqn.ins]
        if partly and not (isinstance(eqn.op.axes_of(avals, eqn.params), Pointwise) or eqn.op.crops is True):
            raise refused(eqn, f"{partly[0].aval} is a partly valid tile, and it needs all of it: fill it first with pl.fillpad")
        params = {k: None if k == "level" else v for k, v in eqn.params.items()}
        made = self.compute(eqn, [self.read(a) for a in eqn.ins], params)
        for out, x in zip(eqn.outs, made, strict=True):
            self._check_shape(eqn, out.aval, x)
        return made

    @staticmethod
    def _check_shape(eqn: Eqn, aval: Aval, x: Any) -> None:
        valid = aval.valid if isinstance(aval, TileAval) and aval.valid is not None else aval.static_shape
        if None in valid:
            raise refused(eqn, f"{aval} has a valid part that is known only when it runs")
        if aval_of(x).shape != tuple(valid):
            raise refused(eqn, f"its result {aval} has a valid part that values do not follow")

    # ---- buffers and handles ----

    def _alloc(self, eqn: Eqn) -> Sequence[Any]:
        sizes = iter(eqn.ins)
        shape = tuple(self._extent(eqn, next(sizes)) if d is None else d for d in eqn.params["shape"])
        dtype, init = eqn.params["dtype"], eqn.params["init"]
        whole = zeros(ArrayAval(shape, dtype))
        if init is not None:
            whole = apply(OPS["fill"], [Array(init, dtype)], {"shape": shape, "dtype": dtype, "level": None})[0]
        return [self.allocate(whole)]

    def _extent(self, eqn: Eqn, a: Atom) -> int:
        known = self.number(a)
        if known is None:
            raise RunTimeBound(eqn)
        return known

    def _view(self, eqn: Eqn) -> Sequence[Any]:
        ref, rank = self.read(eqn.ins[0]), len(eqn.params["sizes"])
        extra = iter(eqn.ins[1 + rank :])
        sizes = tuple(self._extent(eqn, next(extra)) if n is None else n for n in eqn.params["sizes"])
        drop = eqn.params["drop"]
        step = Window(tuple(map(self.place, eqn.ins[1 : 1 + rank])), sizes, drop)
        return [ref.through(step, [n for i, n in enumerate(sizes) if i not in drop])]

    def _reshape_view(self, eqn: Eqn) -> Sequence[Any]:
        extra = iter(eqn.ins[1:])
        shape = tuple(self._extent(eqn, next(extra)) if n is None else n for n in eqn.params["shape"])
        return [self.read(eqn.ins[0]).through(Reshaped(shape), shape)]

    def _transpose_view(self, eqn: Eqn) -> Sequence[Any]:
        ref, order = self.read(eqn.ins[0]), eqn.params["permutation"]
        return [ref.through(Permuted(order), [ref.shape[i] for i in order])]

    def _valid_view(self, eqn: Eqn) -> Sequence[Any]:
        ref, extra = self.read(eqn.ins[0]), iter(eqn.ins[1:])
        valid = tuple(self._extent(eqn, next(extra)) if n is None else n for n in eqn.params["known"])
        if valid != ref.shape:
            raise refused(eqn, "a buffer that is partly valid is no whole array")
        return [ref]

    def _get(self, eqn: Eqn) -> Sequence[Any]:
        source, sizes, drop = self.read(eqn.ins[0]), eqn.params["sizes"], eqn.params["drop"]
        rank = len(sizes)
        extra = iter(eqn.ins[1 + rank :])
        marked = eqn.params["valid"]
        valid = sizes if marked is None else tuple(self._extent(eqn, next(extra)) if n is None else n for n in marked)
        whole = self.buffers[source.buffer] if isinstance(source, View) else source
        window = Window(tuple(map(self.place, eqn.ins[1 : 1 + rank])), tuple(valid), drop)
        made = window.read(source.read(whole) if isinstance(source, View) else whole)
        self._check_shape(eqn, eqn.outs[0].aval, made)
        return [made]

    def _read(self, eqn: Eqn) -> Sequence[Any]:
        source, *at = eqn.ins
        held = self.read(source)
        whole = held.read(self.buffers[held.buffer]) if isinstance(held, View) else held
        rank = len(at)
        return [Window(tuple(map(self.place, at)), (1,) * rank, tuple(range(rank))).read(whole)]

    def _set(self, eqn: Eqn) -> Sequence[Any]:
        self._store(eqn, lambda old, new: new)
        return []

    def _accumulate(self, eqn: Eqn) -> Sequence[Any]:
        op = OPS[{"add": "add", "max": "maximum", "min": "minimum"}[eqn.params["combine"]]]
        self._store(eqn, lambda old, new: apply(op, [old, new], {})[0])
        return []

    def _store(self, eqn: Eqn, combine: Callable[[Any, Any], Any]) -> None:
        target, value = self.read(eqn.ins[0]), self.read(eqn.ins[1])
        if not isinstance(target, View):
            raise refused(eqn, "it updates a tile in place")
        sizes, drop = eqn.params["sizes"], eqn.params["drop"]
        if aval_of(value).rank:
            kept = iter(aval_of(value).static_shape)
            sizes, lost = tuple(1 if i in drop else next(kept) for i in range(len(sizes))), drop
        else:
            lost = ()
        window = Window(tuple(map(self.place, eqn.ins[2:])), sizes, lost)
        whole = self.buffers[target.buffer]
        shown = target.read(whole)
        part = combine(window.read(shown), value)
        self.buffers[target.buffer] = target.written(whole, window.written(shown, part))

    def _at_places(self, eqn: Eqn) -> Sequence[Any]:
        """An op that reads or writes a buffer at computed places."""
        held, *rest = (self.read(a) for a in eqn.ins)
        assert eqn.op.by_values is not None
        made = eqn.op.by_values(held.read(self.buffers[held.buffer]), *rest, **eqn.params)
        if eqn.op.writes:
            self.buffers[held.buffer] = held.written(self.buffers[held.buffer], made)
            return []
        self._check_shape(eqn, eqn.outs[0].aval, made)
        return [made]

    def _copy(self, eqn: Eqn) -> Sequence[Any]:
        target, source = (self.read(a) for a in eqn.ins)
        part = source.read(self.buffers[source.buffer])
        self.buffers[target.buffer] = target.written(self.buffers[target.buffer], part)
        return []

    def _dim(self, eqn: Eqn) -> Sequence[Any]:
        return [Array(self.read(eqn.ins[0]).shape[eqn.params["axis"]], dtypes.INDEX)]

    def _valid_extent(self, eqn: Eqn) -> Sequence[Any]:
        return [Array(aval_of(self.read(eqn.ins[0])).static_shape[eqn.params["axis"]], dtypes.INDEX)]

    def _unset(self, eqn: Eqn) -> Sequence[Any]:
        aval = eqn.params["aval"]
        if isinstance(aval, RefAval):
            return [self.allocate(zeros(ArrayAval(aval.static_shape, aval.dtype)))]
        return [zeros(plain(aval))]

    # ---- tiles with a valid part ----

    def _set_validshape(self, eqn: Eqn) -> Sequence[Any]:
        x, extents = self.read(eqn.ins[0]), tuple(self._extent(eqn, a) for a in eqn.ins[1:])
        if any(n > d for n, d in zip(extents, aval_of(x).static_shape, strict=True)):
            raise refused(eqn, "what it makes valid was not valid before")
        return [Window((0,) * len(extents), extents).read(x)]

    def _fillpad(self, eqn: Eqn) -> Sequence[Any]:
        (x,) = (self.read(a) for a in eqn.ins)
        shape = eqn.outs[0].aval.static_shape
        if eqn.params["valid"] is not None:
            x = Window((0,) * len(shape), eqn.params["valid"]).read(x)
        if aval_of(x).shape == shape:
            return [x]
        dtype = eqn.outs[0].aval.dtype
        edge = tuple((0, n - d, 0) for n, d in zip(shape, aval_of(x).static_shape, strict=True))
        value = Array(numerics.round_literal(dtype.pad(eqn.params["pad"]), dtype), dtype)
        return apply(OPS["pad"], [x, value], {"padding_config": edge})

    _fillpad_expand = _fillpad
