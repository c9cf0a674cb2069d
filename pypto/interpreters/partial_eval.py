"""Programs that close over values of outer traces, and partial evaluation: run what is known, write down what is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pypto.core.avals import ArrayAval, Aval, ScalarAval
from pypto.core.ir import Atom, Jaxpr, Literal, Var
from pypto.core.op import Op
from pypto.core.trace import JaxprTrace, Trace, Tracer, VarTracer, aval_of, current_trace, ended, tracing
from pypto.errors import InternalError
from pypto.source import placed

R = TypeVar("R")


class ClosedTrace(JaxprTrace):
    """Builds a program that may use values of the traces around it: they become inputs of the program.

    `captured` holds those values, in the order in which they were first used.
    """

    def __init__(self, parent: Trace, name: str = "") -> None:
        super().__init__(name)
        self.parent = parent
        self._inputs: dict[int, tuple[Tracer, Var]] = {}

    @property
    def captured(self) -> list[Tracer]:
        return [x for x, _ in self._inputs.values()]

    def foreign(self, x: Tracer) -> Atom:
        around: Trace | None = self.parent
        while around is not None and around is not x.trace:
            around = around.parent
        if around is None:
            raise ended(x)
        if isinstance(x, VarTracer) and not x.scope.open:
            raise ended(x)
        if id(x) not in self._inputs:
            self._inputs[id(x)] = (x, Var(_array(x.aval), x.name))
        return self._inputs[id(x)][1]

    def closed(self, inputs: Sequence[Any], outs: Sequence[Any], name: str = "") -> Jaxpr:
        """The program; it must not have used a value of an outer trace."""
        made = self.finish(inputs, outs, name)
        self.close()
        if self._inputs:
            raise InternalError("PL901", f"{name or 'a program'} uses {self.captured[0]!r} of an outer trace")
        return made

    def open_program(self, inputs: Sequence[Any], outs: Sequence[Any], name: str = "") -> Jaxpr:
        """The program, with what it captured as its first inputs."""
        made = self.finish(inputs, outs, name)
        self.close()
        return made.replace(invars=(*(v for _, v in self._inputs.values()), *made.invars))


def _array(aval: Aval) -> Aval:
    return ArrayAval((), aval.dtype) if isinstance(aval, ScalarAval) and not aval.weak else aval


class PartialTrace(ClosedTrace):
    """Runs what is known under the trace below, and builds a program of what depends on an unknown."""

    def process(self, op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if any(isinstance(a, Tracer) and a.trace is self for a in args):
            return super().process(op, args, params)
        assert self.parent is not None
        return self.parent.process(op, args, params)


def under(trace: Trace, fn: Callable[..., R]) -> Callable[..., R]:
    """The function, run with `trace` as the current one."""

    def run(*args: Any) -> R:
        with tracing(trace):
            return fn(*args)

    return run


def trace_flat(fn: Callable[..., Sequence[Any]], avals: Sequence[Aval], name: str = "") -> tuple[Jaxpr, list[Tracer]]:
    """The program of a flat function, and the values of outer traces that are its first inputs."""
    trace = ClosedTrace(current_trace(), name)
    with tracing(trace):
        inputs = [trace.new(a) for a in avals]
        outs = list(fn(*inputs))
        program = trace.open_program(inputs, outs, name)
    return program, trace.captured


def joined(each: Sequence[tuple[Jaxpr, Sequence[Any]]]) -> tuple[list[Jaxpr], list[Any]]:
    """Programs with what they captured as programs that all take what any of them captured, and those values."""
    shared = list({id(x): x for _, captured in each for x in captured}.values())
    programs = []
    for program, captured in each:
        own = dict(zip(map(id, captured), program.invars, strict=False))
        lead = tuple(own.get(id(x)) or Var(_array(aval_of(x))) for x in shared)
        programs.append(program.replace(invars=(*lead, *program.invars[len(captured) :])))
    return programs, shared


def replay(jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
    """Run a program under the current trace, equation by equation; errors and new equations have the lines of the old ones."""
    trace = current_trace()
    env: dict[Var, Any] = dict(zip(jaxpr.invars, args, strict=True))

    def read(a: Atom) -> Any:
        return a if isinstance(a, Literal) else env[a]

    for eqn in jaxpr.eqns:
        with placed(eqn.source):
            made = trace.process(eqn.op, [read(a) for a in eqn.ins], eqn.params)
        if len(eqn.outs) == 1:
            env[eqn.outs[0]] = made
        else:
            env.update(zip(eqn.outs, made, strict=True))
    return [read(a) for a in jaxpr.outs]


def pruned(jaxpr: Jaxpr, used: Sequence[bool] | None = None) -> Jaxpr:
    """Without equations whose results nobody needs; with `used`, of these results only."""
    outs = tuple(o for o, u in zip(jaxpr.outs, used, strict=True) if u) if used is not None else jaxpr.outs
    live: set[Any] = {o for o in outs if isinstance(o, Var)}
    kept = []
    for eqn in reversed(jaxpr.eqns):
        if live.intersection(eqn.outs) or eqn.op.writes:
            kept.append(eqn)
            live.update(a for a in eqn.ins if isinstance(a, Var))
    return jaxpr.replace(eqns=tuple(reversed(kept)), outs=outs)
