"""Forward mode: a trace whose values are pairs of a value and its tangent. Ops say in their slot `jvp` how tangents go through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pypto.core.array import ArrayMethods
from pypto.core.avals import Aval
from pypto.core.ir import Jaxpr
from pypto.core.op import Op
from pypto.core.trace import Trace, Tracer, aval_of, current_trace, tracing
from pypto.interpreters.partial_eval import ClosedTrace, PartialTrace, replay, under
from pypto.interpreters.tangents import Zero, check_tangent, differentiable, instantiate, operand, results
from pypto.source import Frame, Source, user_frame

Flat = Callable[..., Sequence[Any]]
"""A function of flat values that gives a sequence of flat values."""


class JVPTracer(ArrayMethods, Tracer):
    """A value with a tangent."""

    __slots__ = ("primal", "tangent", "where")

    def __init__(self, trace: JVPTrace, primal: Any, tangent: Any) -> None:
        self.trace, self.primal, self.tangent = trace, primal, tangent
        self.where = user_frame()

    @property
    def aval(self) -> Aval:
        return aval_of(self.primal)

    def made_at(self) -> Frame | Source | None:
        return self.where

    # a value that is differentiated is a number as soon as what it is made of is one
    def __bool__(self) -> bool:
        return bool(self.primal)

    def __int__(self) -> int:
        return int(self.primal)

    def __float__(self) -> float:
        return float(self.primal)


class JVPTrace(Trace):
    """Carries tangents along. What happens to values and to tangents is up to the trace below."""

    def __init__(self, parent: Trace, name: str = "") -> None:
        self.parent: Trace = parent
        self.name = name

    def pair(self, x: Any) -> tuple[Any, Any]:
        """The value and the tangent of an operand; of another trace's value, or a constant, the tangent is zero."""
        if isinstance(x, JVPTracer) and x.trace is self:
            return x.primal, x.tangent
        value = operand(x)
        return value, Zero(aval_of(value))

    def wrap(self, primal: Any, tangent: Any) -> Any:
        return primal if isinstance(tangent, Zero) else JVPTracer(self, primal, tangent)

    def process(self, op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
        pairs = [self.pair(a) for a in args]
        if all(isinstance(t, Zero) for _, t in pairs):
            return self.parent.process(op, [self.pair(a)[0] if isinstance(a, Tracer) else a for a in args], params)
        primals, tangents = [p for p, _ in pairs], [t for _, t in pairs]
        if not any(map(differentiable, op.abstract_eval([aval_of(p) for p in primals], params))):
            return self.parent.process(op, primals, params)
        outs, made = self._rule(op)(op, primals, tangents, params)
        wrapped = []
        for out, t in zip(outs, made, strict=True):
            check_tangent(f"the jvp rule of {op.name}", t, aval_of(out))
            wrapped.append(self.wrap(out, t if differentiable(aval_of(out)) else Zero(aval_of(out))))
        return wrapped[0] if len(wrapped) == 1 else tuple(wrapped)

    def _rule(self, op: Op) -> Callable[..., Any]:
        """The op's rule, run under the trace below; an op with bodies may have its own way where that one takes functions apart."""
        slot = "linearize" if isinstance(self.parent, PartialTrace) and op.linearize is not None else "jvp"
        return under(self.parent, op.rule(slot))


def jvp(fn: Flat, primals: Sequence[Any], tangents: Sequence[Any], name: str = "") -> tuple[list[Any], list[Any]]:
    """Values and tangents of a flat function; a tangent may be `Zero`, on the way in and on the way out."""
    parent = current_trace()
    trace = JVPTrace(parent, name)
    with tracing(trace):
        outs = fn(*(trace.wrap(operand(p), t) for p, t in zip(primals, tangents, strict=True)))
    pairs = [trace.pair(o) for o in outs]
    return [p for p, _ in pairs], [t for _, t in pairs]


def jvp_jaxpr(jaxpr: Jaxpr, moving: Sequence[bool], instantiated: Sequence[bool] | bool = False) -> tuple[Jaxpr, list[bool]]:
    """The program of values and tangents of a program.

    Args:
      moving: which inputs have a tangent.
      instantiated: which results get a tangent even if it is zero.
    Returns:
      A program of the inputs and the tangents of those that move, which gives the results and the tangents of those that move; and
      which those are.
    """
    trace = ClosedTrace(current_trace(), jaxpr.name)
    with tracing(trace):
        values = [trace.new(v.aval, v.name) for v in jaxpr.invars]
        tangents = [trace.new(v.aval, v.name and f"d{v.name}") if m else Zero(v.aval) for v, m in zip(jaxpr.invars, moving, strict=True)]
        outs, made = jvp(lambda *xs: replay(jaxpr, xs), values, tangents, jaxpr.name)
        forced = [instantiated] * len(outs) if isinstance(instantiated, bool) else list(instantiated)
        made = [instantiate(t) if f and differentiable(aval_of(o)) else t for o, t, f in zip(outs, made, forced, strict=True)]
        moves = [not isinstance(t, Zero) for t in made]
        given = [t for t in tangents if not isinstance(t, Zero)]
        program = trace.closed([*values, *given], [*outs, *(t for t in made if not isinstance(t, Zero))], jaxpr.name)
    return program, moves


def constant_derivative(op: Op, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """The jvp rule of a function whose derivative is zero wherever it has one."""
    outs = results(current_trace(), op, primals, params)
    return outs, [Zero(aval_of(o)) for o in outs]
