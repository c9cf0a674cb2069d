"""Reverse mode: a function taken apart into its values and a linear program of tangents, and that program run backwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pypto.core.avals import Aval
from pypto.core.ir import Atom, Eqn, Jaxpr, Literal, Var
from pypto.core.trace import aval_of, current_trace, tracing
from pypto.errors import PyptoError
from pypto.interpreters.ad import Flat, JVPTrace
from pypto.interpreters.partial_eval import ClosedTrace, PartialTrace, pruned, replay
from pypto.interpreters.tangents import Undefined, Zero, added, check_tangent, differentiable, instantiate, operand, plain
from pypto.source import placed


@dataclass(frozen=True)
class Linear:
    """The derivative of a function at a point.

    Attributes:
      program: of residuals, then the tangents of the inputs that move; gives the tangents of the results that move.
      residuals: what the program needs of the values.
      ins, outs: types of the function's inputs and results.
      moving_in, moving_out: which of them have a tangent at all.
    """

    program: Jaxpr
    residuals: list[Any]
    ins: tuple[Aval, ...]
    outs: tuple[Aval, ...]
    moving_in: tuple[bool, ...]
    moving_out: tuple[bool, ...]

    def push(self, tangents: Sequence[Any]) -> list[Any]:
        """Tangents of the results for tangents of the inputs that move; `Zero` for those that do not."""
        made = iter(replay(self.program, [*self.residuals, *tangents]))
        return [next(made) if m else Zero(a) for a, m in zip(self.outs, self.moving_out, strict=True)]

    def pull(self, cotangents: Sequence[Any]) -> list[Any]:
        """Cotangents of the inputs, `Zero` where nothing reaches one, for cotangents of all results."""
        given = [ct for ct, m in zip(cotangents, self.moving_out, strict=True) if m]
        found = iter(backward(self.program, self.residuals, given))
        return [next(found) if m else Zero(a) for a, m in zip(self.ins, self.moving_in, strict=True)]


def linearize(fn: Flat, primals: Sequence[Any], moving: Sequence[bool] | None = None, name: str = "") -> tuple[list[Any], Linear]:
    """The results of a flat function, computed as ever, and its derivative there.

    Args:
      moving: which inputs to differentiate with respect to; by default all that can be.
    """
    known = PartialTrace(current_trace(), name)
    trace = JVPTrace(known, name)
    avals = [plain(aval_of(p)) for p in primals]
    moves = [differentiable(a) and (moving is None or moving[i]) for i, a in enumerate(avals)]
    unknowns = [known.new(a) for a, m in zip(avals, moves, strict=True) if m]
    with tracing(trace):
        given = iter(unknowns)
        outs = list(fn(*(trace.wrap(operand(p), next(given)) if m else p for p, m in zip(primals, moves, strict=True))))
    pairs = [trace.pair(o) for o in outs]
    moved = [t for _, t in pairs if not isinstance(t, Zero)]
    program = pruned(known.open_program(unknowns, moved, name))
    made = tuple(plain(aval_of(p)) for p, _ in pairs)
    linear = Linear(program, list(known.captured), tuple(avals), made, tuple(moves), tuple(not isinstance(t, Zero) for _, t in pairs))
    return [p for p, _ in pairs], linear


def linearize_jaxpr(jaxpr: Jaxpr, moving: Sequence[bool], instantiated: Sequence[bool]) -> tuple[Jaxpr, Jaxpr, list[bool], int]:
    """A program taken apart: values with residuals, and the linear program of tangents.

    Returns:
      The program of the same inputs that gives the results and then the residuals; the program of residuals and tangents that gives
      the tangents that move; which results move; how many residuals there are.
    """
    trace = ClosedTrace(current_trace(), jaxpr.name)
    with tracing(trace):
        inputs = [trace.new(v.aval, v.name) for v in jaxpr.invars]
        known = PartialTrace(trace, jaxpr.name)
        pairs_of = JVPTrace(known, jaxpr.name)
        unknowns = [known.new(plain(v.aval)) for v, m in zip(jaxpr.invars, moving, strict=True) if m]
        given = iter(unknowns)
        with tracing(pairs_of):
            outs = replay(jaxpr, [pairs_of.wrap(x, next(given)) if m else x for x, m in zip(inputs, moving, strict=True)])
        pairs = [pairs_of.pair(o) for o in outs]
        forced = [f and differentiable(aval_of(p)) for (p, _), f in zip(pairs, instantiated, strict=True)]
        tangents = [instantiate(t) if f else t for (_, t), f in zip(pairs, forced, strict=True)]
        moves = [not isinstance(t, Zero) for t in tangents]
        linear = pruned(known.open_program(unknowns, [t for t in tangents if not isinstance(t, Zero)], jaxpr.name))
        residuals = list(known.captured)
        program = trace.closed(inputs, [*(p for p, _ in pairs), *residuals], jaxpr.name)
    return program, linear, moves, len(residuals)


def backward(program: Jaxpr, residuals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
    """Run a linear program backwards under the current trace: cotangents of its inputs after the residuals, `Zero` where none arrives."""
    count = len(residuals)
    run = _Backward(dict(zip(program.invars[:count], residuals, strict=True)), {})
    run.through(program, cotangents)
    return [run.found.get(v, Zero(plain(v.aval))) for v in program.invars[count:]]


@dataclass(frozen=True)
class _Backward:
    """Values that are known, and cotangents found so far, by variable."""

    known: dict[Var, Any]
    found: dict[Var, Any]

    def through(self, program: Jaxpr, cotangents: Sequence[Any]) -> None:
        for out, ct in zip(program.outs, cotangents, strict=True):
            self._reach(out, ct)
        for eqn in reversed(program.eqns):
            cts = [self.found.pop(v, None) for v in eqn.outs]
            if any(ct is not None for ct in cts):
                given = [Zero(plain(v.aval)) if ct is None else ct for v, ct in zip(eqn.outs, cts, strict=True)]
                with placed(eqn.source):
                    self._equation(eqn, given)

    def _equation(self, eqn: Eqn, cotangents: list[Any]) -> None:
        operands = [self._read(a) for a in eqn.ins]
        if eqn.op.unfold is None:
            for a, ct in zip(eqn.ins, _transposed(eqn, cotangents, operands), strict=True):
                if ct is not None:
                    self._reach(a, ct)
            return
        program, first = eqn.op.unfold(operands, **eqn.params)
        own = program.invars[len(first) :]
        given = dict(zip(own, eqn.ins[len(eqn.ins) - len(own) :], strict=True))
        self.known.update(zip(program.invars, first, strict=False))
        self.through(_renamed(program, given), cotangents)  # what arrives at an operand adds up with what has arrived outside

    def _reach(self, a: Atom, ct: Any) -> None:
        if isinstance(a, Var) and a not in self.known and not isinstance(ct, Zero):
            check_tangent("a transpose rule", ct, plain(a.aval))
            self.found[a] = added(self.found[a], ct) if a in self.found else ct

    def _read(self, a: Atom) -> Any:
        if isinstance(a, Literal):
            return operand(a)
        return self.known[a] if a in self.known else Undefined(plain(a.aval))


def _renamed(program: Jaxpr, names: Mapping[Var, Atom]) -> Jaxpr:
    """The program of other variables."""

    def atoms(given: Sequence[Atom]) -> tuple[Atom, ...]:
        return tuple(names.get(a, a) if isinstance(a, Var) else a for a in given)

    return program.replace(eqns=tuple(e.replace(ins=atoms(e.ins)) for e in program.eqns), outs=atoms(program.outs))


def _transposed(eqn: Eqn, cotangents: list[Any], operands: list[Any]) -> Sequence[Any]:
    body = eqn.params.get("body")
    where = f" of `{body.name}`" if isinstance(body, Jaxpr) and body.name else ""
    try:
        return eqn.op.rule("transpose", where)(eqn.op, cotangents, operands, eqn.params)
    except PyptoError as error:
        raise error.at(eqn.source) from None
