"""Kernels as functions: a program over buffers becomes one over values, so that it can be differentiated.

Handles become views of values, a store gives the buffer a new value, and loops and branches carry the buffers they write. What a kernel
does in program order is what is computed here, op by op, with the same bits. A loop runs as a `scan`; one whose turns decide the bounds
of loops inside it, or that carries handles, is unrolled; one whose bounds are data runs as a `while`, which has forward mode only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto import dtypes
from pypto.core.array import Array
from pypto.core.avals import RefAval
from pypto.core.ir import Atom, Eqn, Jaxpr, Var
from pypto.core.op import OPS
from pypto.core.trace import Tracer, aval_of, current_trace
from pypto.interpreters.handles import Handles, RunTimeBound, refused
from pypto.interpreters.partial_eval import joined, trace_flat
from pypto.interpreters.tangents import apply, plain
from pypto.interpreters.views import View


def discharge(jaxpr: Jaxpr, args: Sequence[Any], outputs: Sequence[int]) -> list[Any]:
    """What is in the buffers of these parameters after a kernel has run, as a function of what is in all parameters before.

    Args:
      jaxpr: a ref-level program without in-place updates of tiles.
      args: a value per parameter: a whole array for a buffer.
    Errors:
      PL703 naming an operation that values cannot do, at its line.
    """
    run = _Discharge(jaxpr.name)
    for v, x in zip(jaxpr.invars, args, strict=True):
        run.env[v] = run.allocate(x) if isinstance(v.aval, RefAval) else x
    try:
        run.block(jaxpr)
    except RunTimeBound as found:
        raise refused(found.eqn, "an extent or a bound in it is known only when it runs") from None
    views = [run.env[jaxpr.invars[i]] for i in outputs]
    return [run.buffers[v.buffer] for v in views]


class _Discharge(Handles):
    """Runs a program over buffers under the current trace, as a program over values.

    Attributes:
      name: of the kernel.
      repeated: it runs a turn of a `scan`, whose index is no number: unrolled, bounds that depend on the turn are numbers.
    """

    def __init__(self, name: str, env: dict[Var, Any] | None = None, buffers: dict[int, Any] | None = None, repeated: bool = False) -> None:
        super().__init__(env, buffers)
        self.name, self.repeated = name, repeated

    def _inner(self, written: Sequence[int], values: Sequence[Any], repeated: bool | None = None) -> _Discharge:
        """A body that begins with these values in the buffers it may write."""
        buffers = {**self.buffers, **dict(zip(written, values, strict=True))}
        return _Discharge(self.name, dict(self.env), buffers, self.repeated if repeated is None else repeated)

    # ---- tasks ----

    def _region(self, eqn: Eqn) -> Sequence[Any]:
        body, launch = eqn.params["body"].replace(outs=()), eqn.params["launch"]
        parts = launch.divide(eqn.ins, blocks=eqn.params["kind"] == "spmd")

        def run(inner: _Discharge) -> list[Any]:
            inner._blocks(eqn, body, parts.blocks)
            return []

        if parts.predicate is None:
            run(self)
        else:
            self._either(eqn, self.read(parts.predicate), [lambda inner: [], run], self._written(body))
        return [None for _ in eqn.outs]

    def _blocks(self, eqn: Eqn, body: Jaxpr, blocks: Atom | None) -> None:
        if blocks is None:
            self.block(body)
        elif any(e.op.name == "syncall" for e in body.walk()):
            self._phases(eqn, body, self._extent(eqn, blocks))
        else:
            self._turns(eqn, body, 0, self._extent(eqn, blocks), 1, [])

    def _phases(self, eqn: Eqn, body: Jaxpr, blocks: int) -> None:
        """Blocks that wait for each other: all of them run up to where they wait, then all of them go on."""
        phases: list[list[Eqn]] = [[]]
        for e in body.eqns:
            if e.op.name == "syncall":
                phases.append([])
            elif any(inner.op.name == "syncall" for b in e.bodies() for inner in b.walk()):
                raise refused(e, "blocks wait for each other inside it; outside loops and branches they may")
            else:
                phases[-1].append(e)
        each = [_Discharge(self.name, dict(self.env), self.buffers, self.repeated) for _ in range(blocks)]
        for i, block in enumerate(each):
            block.env.update(zip(body.invars, [Array(i, dtypes.INDEX)], strict=False))
        for phase in phases:
            for block in each:
                block.block(body.replace(eqns=tuple(phase)))

    # ---- loops ----

    def _loop(self, eqn: Eqn) -> Sequence[Any]:
        start, stop, step, *inits = eqn.ins
        carried = [self.read(a) for a in inits]
        bounds = [self.number(a) for a in (start, stop, step)]
        first, last, stride = bounds
        if first is not None and last is not None and stride is not None and not eqn.params.get("exits"):
            return self._turns(eqn, eqn.params["body"], first, last, stride, carried)
        if stride is None or self.repeated or any(isinstance(c, View) or c is None for c in carried):
            raise RunTimeBound(eqn)
        return self._until(eqn, self.place(start), self.place(stop), stride, carried)

    def _turns(self, eqn: Eqn, body: Jaxpr, start: int, stop: int, step: int, carried: list[Any]) -> list[Any]:
        turns = range(start, stop, step)
        if len(turns) > 1 and not any(isinstance(c, View) or c is None for c in carried):
            try:
                return self._scanned(eqn, body, turns, carried)
            except RunTimeBound:
                pass  # unrolled, every bound inside is a number, or data
        for i in turns:
            carried = self._turn(body, Array(i, dtypes.INDEX), carried)
        return carried

    def _turn(self, body: Jaxpr, i: Any, carried: Sequence[Any]) -> list[Any]:
        inputs = body.invars
        self.env.update(zip(inputs, [i, *carried][: len(inputs)], strict=True))
        return self.block(body)

    def _next(self, eqn: Eqn, body: Jaxpr, step: int, count: int, written: Sequence[int], repeated: bool) -> Callable[..., list[Any]]:
        """A turn as a function of the index, the carried values and the buffers it may write, which gives the next ones."""

        def turn(i: Any, *values: Any) -> list[Any]:
            inner = self._inner(written, values[count:], repeated)
            outs = inner._turn(body, i, values[:count])
            if any(isinstance(o, View) for o in outs):
                raise RunTimeBound(eqn)
            return [i + Array(step, dtypes.INDEX), *outs, *(inner.buffers[key] for key in written)]

        return turn

    def _scanned(self, eqn: Eqn, body: Jaxpr, turns: range, carried: list[Any]) -> list[Any]:
        """A loop as one `scan`: it carries its values and the buffers that its turns write."""
        written = self._written(body)
        starts = [Array(turns.start, dtypes.INDEX), *carried, *(self.buffers[key] for key in written)]
        turn = self._next(eqn, body, turns.step, len(carried), written, True)
        program, captured = trace_flat(turn, [plain(aval_of(x)) for x in starts], "turn")
        options = {"body": program, "length": len(turns), "reverse": False, "consts": len(captured), "carries": len(starts)}
        made = apply(OPS["scan"], [*captured, *starts], options)
        return self._after(written, made, len(carried))

    def _until(self, eqn: Eqn, start: Any, stop: Any, step: int, carried: list[Any]) -> list[Any]:
        """A loop that ends when the data say so, as one `while`."""
        body = eqn.params["body"]
        written = self._written(body)
        first = start if isinstance(start, Tracer | Array) else Array(start, dtypes.INDEX)
        starts = [first, *carried, *(self.buffers[key] for key in written)]
        avals = [plain(aval_of(x)) for x in starts]

        def goes_on(i: Any, *values: Any) -> list[Any]:
            ahead = OPS["lt" if step > 0 else "gt"](i, stop)
            return [OPS["and"](ahead, values[0]) if eqn.params.get("exits") else ahead]

        test, seen = trace_flat(goes_on, avals, "test")
        program, captured = trace_flat(self._next(eqn, body, step, len(carried), written, False), avals, f"a loop of {self.name}")
        options = {"test": test, "body": program, "tests": len(seen), "consts": len(captured)}
        return self._after(written, apply(OPS["while"], [*seen, *captured, *starts], options), len(carried))

    def _after(self, written: Sequence[int], made: Sequence[Any], count: int) -> list[Any]:
        """What a loop leaves: the buffers it wrote, and its carried values."""
        self.buffers.update(zip(written, made[1 + count :], strict=True))
        return list(made[1 : 1 + count])

    # ---- what a body may write ----

    def _written(self, body: Jaxpr) -> list[int]:
        """The buffers outside a body that it may write, in order."""
        base: dict[Var, int | None] = {}
        found: set[int] = set()
        everything = {v.buffer for v in self.env.values() if isinstance(v, View)}

        def key(a: Atom) -> int | None:
            if isinstance(a, Var) and a in base:
                return base[a]
            held = self.env.get(a) if isinstance(a, Var) else None
            return held.buffer if isinstance(held, View) else None

        for eqn in body.walk():
            if eqn.op.name == "alloc":
                base[eqn.outs[0]] = None
            elif eqn.outs and isinstance(eqn.outs[0].aval, RefAval) and eqn.op.refs == (0,):
                base[eqn.outs[0]] = key(eqn.ins[0])
            elif any(isinstance(v.aval, RefAval) for v in eqn.outs):
                found |= everything  # a handle that one of several buffers may be behind
            for i in eqn.op.writes:
                written = key(eqn.ins[i])
                if written is not None:
                    found.add(written)
        return sorted(found)

    # ---- branches ----

    def _cond(self, eqn: Eqn) -> Sequence[Any]:
        branches = (eqn.params["orelse"], eqn.params["then"])
        written = sorted({key for b in branches for key in self._written(b)})
        return self._either(eqn, self.read(eqn.ins[0]), [lambda inner, b=b: inner.block(b) for b in branches], written)

    def _either(self, eqn: Eqn, test: Any, branches: Sequence[Callable[[_Discharge], list[Any]]], written: Sequence[int]) -> Sequence[Any]:
        """One of two bodies; the results, and what they wrote is in the buffers."""
        if not isinstance(test, Tracer):
            return branches[int(bool(np.asarray(test)))](self)

        def taken(branch: Callable[[_Discharge], list[Any]]) -> Callable[..., list[Any]]:
            def run(*values: Any) -> list[Any]:
                inner = self._inner(written, values)
                outs = branch(inner)
                if any(isinstance(o, View) for o in outs):
                    raise RunTimeBound(eqn)
                return [*outs, *(inner.buffers[key] for key in written)]

            return run

        held = [self.buffers[key] for key in written]
        made = _switched(test, [taken(b) for b in branches], held)
        count = len(made) - len(written)
        self.buffers.update(zip(written, made[count:], strict=True))
        return made[:count]


def _switched(test: Any, branches: Sequence[Callable[..., list[Any]]], held: Sequence[Any]) -> list[Any]:
    """A branch taken when it runs."""
    name = "turn" if current_trace().name == "turn" else "branch"
    programs, shared = joined([trace_flat(b, [plain(aval_of(x)) for x in held], name) for b in branches])
    index = apply(OPS["convert"], [test], {"dtype": dtypes.INT32, "mode": "rint", "overflow": "saturate"})[0]
    return apply(OPS["switch"], [index, *shared, *held], {"branches": tuple(programs)}) if programs[0].outs else []
