"""The reference executor: NumPy, one op at a time, from the ops' meanings. It says what every program means.

With `check` it also tracks shadow bits and reports elements nobody wrote, or that are not valid, once they become
visible: in an output, an index, a bound or a branch. Bounds of every access are checked always.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pypto.core.allocation import explain_memory
from pypto.core.avals import Aval, RefAval, TileAval
from pypto.core.ir import Atom, Eqn, Jaxpr, Literal, Var
from pypto.core.op import Moves
from pypto.core.windows import leaves
from pypto.errors import InternalError, NumericsError, PyptoError, ShapeError
from pypto.interpreters import dispatch
from pypto.interpreters.addressed import accumulate, addressed, check_faults
from pypto.interpreters.buffers import created
from pypto.interpreters.shadow import Taint, either, outside, propagate
from pypto.interpreters.values import Buffer, Ref, Value, padded


class Machine:
    """Runs jaxprs. `kernels` are the outlined bodies that `call` launches."""

    def __init__(self, kernels: Mapping[str, Jaxpr] | None = None, *, check: bool = True) -> None:
        self.kernels = dict(kernels or {})
        self.check = check
        self.env: dict[Var, Any] = {}
        self.tasks: list[dispatch.Task] = []
        self.waiting: dict[Jaxpr, bool] = {}

    def fork(self) -> Machine:
        """A machine with values of its own, which start from these: one block of a dispatch."""
        other = Machine(check=self.check)
        other.kernels, other.tasks, other.waiting, other.env = self.kernels, self.tasks, self.waiting, dict(self.env)
        return other

    # ---- running ----

    def run(self, jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
        """Run a body on run-time values; returns its outputs."""
        self.env.update(zip(jaxpr.invars, args, strict=True))
        for eqn in jaxpr.eqns:
            self.execute(eqn)
        return [self.read(a) for a in jaxpr.outs]

    def read(self, a: Atom) -> Any:
        return Value(np.asarray(a.value), np.shape(a.value)) if isinstance(a, Literal) else self.env[a]

    def execute(self, eqn: Eqn) -> None:
        """Run one equation; an error that has no place of its own gets the equation's."""
        if eqn.op.mark:
            return
        ins = [self.read(a) for a in eqn.ins]
        handler = _HANDLERS.get(eqn.op.name) or (addressed if eqn.op.addresses is not None else None)
        try:
            self._check_addresses(eqn, ins)
            outs = handler(self, eqn, ins) if handler else self.compute(eqn, ins)
        except PyptoError as error:
            raise error.at(eqn.source) from None
        self.env.update(zip(eqn.outs, outs, strict=True))

    def _check_addresses(self, eqn: Eqn, ins: Sequence[Any]) -> None:
        """An element nobody wrote may not decide an address, a bound or a branch."""
        for i in dispatch.addresses(eqn) if "launch" in eqn.params else eqn.op.index:
            if i >= len(ins):
                break
            if isinstance(ins[i], Value) and ins[i].tainted_inside():
                raise ShapeError(
                    "PL306",
                    f"operand {i} of {eqn.op.name} depends on an element that nobody wrote or that is not valid",
                    fix="write the element before it is read as an index, a bound or a condition",
                    at=eqn.source,
                )

    def compute(self, eqn: Eqn, ins: Sequence[Value]) -> Sequence[Value]:
        """Apply an op's meaning, and carry valid regions and taints along."""
        op, params = eqn.op, eqn.params
        self._check_hazard(eqn, ins)
        if self.check:
            check_faults(eqn, ins)
        if op.index and "sizes" in params:  # a window of operand 0; its meaning would not know the variable's name
            self._window(eqn, ins[0], [int(ins[i].data) for i in op.index if i < len(ins)], params["sizes"], (), "a window")
        avals = [a.aval for a in eqn.ins]
        seen = [v.cropped() if op.crops is True or (op.crops and i in op.crops) else v for i, v in enumerate(ins)]
        arrays, taints = [v.data for v in seen], self._taints(op, avals, params, seen)
        given = {**params, "valid": ins[0].valid} if op.sees_valid and params.get("valid") is None else params
        with np.errstate(all="ignore"):
            try:
                made = op.meaning(*arrays, **given)
            except (MemoryError, ValueError) as error:
                explain_memory(error, op.name, [v.aval for v in eqn.outs], eqn.source)
                raise
        results = [np.asarray(r) for r in (made if isinstance(made, tuple) else (made,))]
        for out, result in zip(eqn.outs, results, strict=True):
            self._check_result(eqn, result, out.aval)
        shadows = propagate(op, avals, arrays, taints, given, [r.shape for r in results]) if self.check else [None] * len(results)
        shapes = [tuple(d for d in out.aval.shape if isinstance(d, int)) for out in eqn.outs]
        valids = self.valids(op, ins, params, shapes)
        return [
            Value(result if result.shape == shape else padded(result, shape), valid, self._shadow(t, result.shape, shape))
            for result, shape, valid, t in zip(results, shapes, valids, shadows, strict=True)
        ]

    def _taints(self, op: Any, avals: Sequence[Aval], params: dict[str, Any], ins: Sequence[Value]) -> list[Taint]:
        """What of the operands may not be seen. Ops that move a tile keep what lies outside its valid region; others read it."""
        if not self.check or all(v.valid == v.data.shape for v in ins) or isinstance(op.axes_of(avals, params), Moves):
            return [v.taint for v in ins]
        return [either(v.taint, outside(v.data.shape, v.valid)) for v in ins]

    def _shadow(self, taint: Taint, have: tuple[int, ...], shape: tuple[int, ...]) -> Taint:
        """The taint of a result that was computed for a valid region only: outside it nobody wrote anything."""
        if have == shape or not self.check:
            return taint
        return either(None if taint is None else padded(taint, shape), outside(shape, have))

    @staticmethod
    def valids(op: Any, ins: Sequence[Value], params: dict[str, Any], shapes: Sequence[tuple[int, ...]]) -> Sequence[tuple[int, ...]]:
        if op.valid is None or not any(shapes):
            return shapes
        operands = [v.valid if v.data.ndim or i not in op.index else int(v.data) for i, v in enumerate(ins)]
        extra: dict[str, Any] = {"old": ins[0].data.shape} if op.valid_sees_shape else {}
        if op.valid_sees_shapes:
            extra["shapes"] = tuple(v.data.shape for v in ins)
        valid = op.valid(*operands, **params, **extra)
        return valid if len(shapes) > 1 else (tuple(valid),)

    @staticmethod
    def _check_result(eqn: Eqn, result: np.ndarray, aval: Aval) -> None:
        want = aval.dtype.storage
        if result.dtype != want or (eqn.op.crops is not True and result.shape != aval.shape):
            raise InternalError(
                "PL901", f"{eqn.op.name} computed {result.dtype}{list(result.shape)}, its abstract rule says {aval}", at=eqn.source
            )

    # ---- structural ops ----

    def loop(self, eqn: Eqn, ins: Sequence[Any]) -> Sequence[Any]:
        values, body = ins[3:], eqn.params["body"]
        for i in self.turns(eqn, ins):
            if eqn.params.get("exits") and not bool(values[0].data):
                break
            values = self.run(body, [Value(np.asarray(i, np.int64), ()), *values])
        return values

    @staticmethod
    def turns(eqn: Eqn, ins: Sequence[Any]) -> range:
        """The indices a loop runs over."""
        start, stop, step = (int(v.data) for v in ins[:3])
        if step == 0:
            raise ShapeError("PL308", "a loop with step 0", fix="a step that is not zero", at=eqn.source)
        return range(start, stop, step)

    def cond(self, eqn: Eqn, ins: Sequence[Any]) -> Sequence[Any]:
        return self.run(eqn.params["then" if bool(ins[0].data) else "orelse"], [])

    def alloc(self, eqn: Eqn, ins: Sequence[Any]) -> Sequence[Any]:
        sizes = iter(ins)
        shape = tuple(int(next(sizes).data) if d is None else d for d in eqn.params["shape"])
        return (created(eqn, shape, check=self.check),)

    def unset(self, eqn: Eqn, ins: Sequence[Any]) -> Sequence[Any]:
        aval = eqn.params["aval"]
        shape = tuple(d if isinstance(d, int) else 0 for d in aval.shape)
        data = np.zeros(shape, aval.dtype.storage)
        known = aval.valid if isinstance(aval, RefAval | TileAval) else None
        valid = None if known is None else tuple(n if v is None else v for v, n in zip(known, shape, strict=True))
        if isinstance(aval, RefAval):
            return (Ref(Buffer(data, None, None, eqn.outs[0].name), data, None, None, valid),)
        return (Value(data, valid or shape, np.ones(shape, np.bool_) if self.check else None),)

    def view(self, eqn: Eqn, ins: Sequence[Any]) -> Sequence[Any]:
        ref, rank = ins[0], ins[0].data.ndim
        starts = [int(v.data) for v in ins[1 : 1 + rank]]
        extra = iter(ins[1 + rank :])
        sizes = [int(next(extra).data) if s is None else s for s in eqn.params["sizes"]]
        window = self._window(eqn, ref, starts, sizes, eqn.params["drop"], "a slice")
        return (ref.through(lambda a: a[window], self._part(eqn, ins)),)

    def _part(self, eqn: Eqn, ins: Sequence[Any]) -> tuple[int, ...] | None:
        """The valid region of a view; None where the handle is valid everywhere."""
        return None if ins[0].valid is None else self.valids(eqn.op, ins, eqn.params, [ins[0].data.shape])[0]

    def valid_view(self, eqn: Eqn, ins: Sequence[Any]) -> Sequence[Any]:
        ref, extra = ins[0], iter(ins[1:])
        valid = tuple(int(next(extra).data) if v is None else v for v in eqn.params["known"])
        return (ref.through(lambda a: a, None if valid == ref.data.shape else valid),)

    @staticmethod
    def _window(eqn: Eqn, ref: Any, starts: Sequence[int], sizes: Sequence[int], drop: Sequence[int], what: str) -> tuple[Any, ...]:
        own = eqn.ins[0].name if isinstance(eqn.ins[0], Var) else ""
        name = own or getattr(getattr(ref, "buffer", None), "name", "") or "a value"
        for axis, (d, s, n) in enumerate(zip(ref.data.shape, starts, sizes, strict=True)):
            if s < 0 or n < 0 or s + n > d:
                raise leaves(what, f"`{name}`", ref.data.shape, axis, s, n, eqn.source)
        return tuple(s if i in drop else slice(s, s + n) for i, (s, n) in enumerate(zip(starts, sizes, strict=True)))

    def reshape_view(self, eqn: Eqn, ins: Sequence[Any]) -> Sequence[Any]:
        extra = iter(ins[1:])
        shape = tuple(int(next(extra).data) if s is None else s for s in eqn.params["shape"])
        ref = ins[0]
        if int(np.prod(shape)) != ref.data.size:
            raise ShapeError("PL301", f"reshape: {ref.data.size} elements do not make {list(shape)}", fix="keep the number", at=eqn.source)
        try:
            return (ref.through(lambda a: np.reshape(a, shape, copy=False), self._part(eqn, ins)),)
        except ValueError:
            raise ShapeError(
                "PL301",
                f"reshape: the window {list(ref.data.shape)} of `{ref.buffer.name}` has gaps and cannot be seen as {list(shape)}",
                fix="reshape the whole tensor first and slice the result",
                at=eqn.source,
            ) from None

    def transpose_view(self, eqn: Eqn, ins: Sequence[Any]) -> Sequence[Any]:
        return (ins[0].through(lambda a: np.transpose(a, eqn.params["permutation"]), self._part(eqn, ins)),)

    def bits_view(self, eqn: Eqn, ins: Sequence[Any]) -> Sequence[Any]:
        ref = ins[0]
        return (Ref(ref.buffer, ref.data.view(eqn.params["dtype"].storage), ref.written, ref.tainted, ref.valid),)

    def get(self, eqn: Eqn, ins: Sequence[Any]) -> Sequence[Any]:
        source, rank = ins[0], ins[0].data.ndim
        sizes, drop, marked = eqn.params["sizes"], eqn.params["drop"], eqn.params["valid"]
        starts = [int(v.data) for v in ins[1 : 1 + rank]]
        extra = iter(ins[1 + rank :])
        if marked is not None:
            valid = tuple(int(next(extra).data) if v is None else v for v in marked)
        elif source.valid is None:
            valid = tuple(sizes)
        else:
            valid = tuple(min(max(v - s, 0), n) for v, s, n in zip(source.valid, starts, sizes, strict=True))
            self._window(eqn, source, starts, sizes, (), "load")
        for axis, (v, n) in enumerate(zip(valid, sizes, strict=True)):
            if not 0 <= v <= n:
                raise ShapeError(
                    "PL303", f"load: valid extent {v} of axis {axis} in a window of {n}", fix="between 0 and the window", at=eqn.source
                )
        window = self._window(eqn, source, starts, valid, (), "load")
        data = np.zeros(sizes, source.data.dtype)
        inside = tuple(slice(0, v) for v in valid)
        data[inside] = source.data[window]
        taint = outside(tuple(sizes), valid) if self.check else None
        unseen = self.unseen(source, window)
        if unseen is not None:
            taint = np.zeros(sizes, np.bool_) if taint is None else taint
            taint[inside] |= unseen
        shape = tuple(n for i, n in enumerate(sizes) if i not in drop)
        kept = tuple(v for i, v in enumerate(valid) if i not in drop)
        if kept and any(valid[i] == 0 for i in drop):
            kept = (0, *kept[1:])
        return (Value(data.reshape(shape), kept, None if taint is None else taint.reshape(shape)),)

    def unseen(self, source: Any, window: tuple[Any, ...]) -> Taint:
        """Elements of a window that nobody wrote, or that were tainted when they were."""
        if not self.check:
            return None
        if isinstance(source, Value):
            return None if source.taint is None else source.taint[window]
        taint = None if source.written is None else ~source.written[window]
        taint = either(taint, None if source.tainted is None else source.tainted[window])
        return taint if taint is not None and np.any(taint) else None

    def element(self, eqn: Eqn, ins: Sequence[Any]) -> Sequence[Any]:
        source, *indices = ins
        starts = [int(v.data) for v in indices]
        window = self._window(eqn, source, starts, [1] * len(starts), range(len(starts)), "read")
        taint = self.unseen(source, window)
        return (Value(np.asarray(source.data[window]), (), None if taint is None else np.asarray(taint)),)

    def placed(self, eqn: Eqn, ins: Sequence[Any]) -> tuple[tuple[Any, ...], np.ndarray, Taint]:
        """Where a store goes, and what of the value and its taint goes there: the valid region."""
        target, value, *offsets = ins
        sizes, drop = eqn.params["sizes"], eqn.params["drop"]
        starts = [int(v.data) for v in offsets]
        if value.data.ndim:
            kept = iter(value.valid)
            extents = [1 if i in drop else next(kept) for i in range(len(sizes))]
        else:
            extents = list(sizes)
        window = self._window(eqn, target, starts, extents, drop if value.data.ndim else (), "a store")
        inside = tuple(slice(0, v) for v in value.valid)
        return window, value.data[inside], None if value.taint is None else value.taint[inside]

    def set(self, eqn: Eqn, ins: Sequence[Any]) -> Sequence[Any]:
        target = ins[0]
        window, data, taint = self.placed(eqn, ins)
        if isinstance(target, Value):  # a tile is a cell: its variable gets the new content
            assert isinstance(eqn.ins[0], Var)
            self.env[eqn.ins[0]] = self._updated(target, window, data, taint)
            return ()
        self.write(eqn, target, window, data, taint)
        return ()

    def write(self, eqn: Eqn, target: Ref, window: tuple[Any, ...], data: np.ndarray, taint: Taint) -> None:
        if self.check and target.buffer.visible and taint is not None and np.any(taint):
            where = tuple(int(i[0]) for i in np.nonzero(np.broadcast_to(taint, np.shape(target.data[window]))))
            raise ShapeError(
                "PL306",
                f"element {list(where)} of what is stored into `{target.buffer.name}` comes from an element nobody wrote, or not valid",
                fix="store the valid part only, fill the rest with pl.fillpad, or write it before",
                at=eqn.source,
            )
        target.data[window] = data
        if target.written is not None:
            target.written[window] = True
        if target.tainted is not None:
            target.tainted[window] = False if taint is None else taint

    @staticmethod
    def _updated(target: Value, window: tuple[Any, ...], data: np.ndarray, taint: Taint) -> Value:
        result = np.array(target.data)
        result[window] = data
        shadow = target.taint
        if shadow is not None or taint is not None:
            shadow = np.zeros(result.shape, np.bool_) if shadow is None else shadow.copy()
            shadow[window] = False if taint is None else taint
        return Value(result, target.valid, shadow)

    def copy(self, eqn: Eqn, ins: Sequence[Any]) -> Sequence[Any]:
        target, source = ins
        if target.data.shape != source.data.shape:
            raise ShapeError(
                "PL301", f"a copy of {list(source.data.shape)} into {list(target.data.shape)}", fix="slice one of them", at=eqn.source
            )
        holds = tuple(slice(0, n) for n in source.valid or source.data.shape)
        self.write(eqn, target, holds, source.data[holds].copy(), self.unseen(source, holds))
        return ()

    def dim(self, eqn: Eqn, ins: Sequence[Any]) -> Sequence[Any]:
        return (Value(np.asarray(ins[0].data.shape[eqn.params["axis"]], np.int64), ()),)

    def valid_extent(self, eqn: Eqn, ins: Sequence[Any]) -> Sequence[Any]:
        return (Value(np.asarray(ins[0].valid[eqn.params["axis"]], np.int64), ()),)

    def _check_hazard(self, eqn: Eqn, ins: Sequence[Value]) -> None:
        """What an op's contract calls an error in checked runs, where it is visible."""
        if not self.check or eqn.op.hazard is None:
            return
        what, mask = eqn.op.hazard(*(v.data for v in ins))
        if mask is None:
            return
        for v in ins:
            if v.data.shape == mask.shape:
                unseen = either(v.taint, outside(v.data.shape, v.valid))
                mask = mask if unseen is None else mask & ~unseen
        if np.any(mask):
            where = f" at {[int(i[0]) for i in np.nonzero(mask)]}" if mask.ndim else ""
            raise NumericsError("PL704", f"{eqn.op.name}: {what}{where}", fix="guard it, or select a safe operand first", at=eqn.source)


_HANDLERS: dict[str, Callable[[Machine, Eqn, Sequence[Any]], Sequence[Any]]] = {
    "loop": Machine.loop,
    "cond": Machine.cond,
    **dispatch.HANDLERS,
    "alloc": Machine.alloc,
    "unset": Machine.unset,
    "view": Machine.view,
    "reshape_view": Machine.reshape_view,
    "transpose_view": Machine.transpose_view,
    "valid_view": Machine.valid_view,
    "bits_view": Machine.bits_view,
    "get": Machine.get,
    "read": Machine.element,
    "set": Machine.set,
    "accumulate": accumulate,
    "copy": Machine.copy,
    "dim": Machine.dim,
    "valid_extent": Machine.valid_extent,
}


def eval_jaxpr(jaxpr: Jaxpr, *args: Any) -> list[np.ndarray]:
    """Evaluate an array-level jaxpr on NumPy values."""
    values = [Value(np.asarray(a), np.shape(a)) for a in args]
    return [v.data for v in Machine(check=False).run(jaxpr, values)]
