"""The op `switch`: one of several bodies, chosen by an index. How it is differentiated, transposed and batched stands here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pypto import dtypes
from pypto.core.avals import ArrayAval, Aval
from pypto.core.ir import Jaxpr, Var
from pypto.core.op import OPS, Exact, No, Op, Whole
from pypto.core.trace import Trace, Tracer, aval_of, current_trace, tracing
from pypto.interpreters.ad import JVPTrace, jvp_jaxpr
from pypto.interpreters.batching import Batched, batch, batch_jaxpr, chosen, repeated
from pypto.interpreters.evaluate import evaluate
from pypto.interpreters.linear import backward, linearize_jaxpr
from pypto.interpreters.partial_eval import ClosedTrace, replay
from pypto.interpreters.rules import Pair
from pypto.interpreters.tangents import Undefined, Zero, apply, differentiable, instantiate, plain, zeros
from pypto.lax.families import Sample, computed


def _abstract(index: Aval, *operands: Aval, branches: tuple[Jaxpr, ...]) -> tuple[Aval, ...]:
    return tuple(plain(o.aval) for o in branches[0].outs)


def _samples() -> list[Sample]:
    made: list[Sample] = []
    for index in (0, 1, 7):
        branches = []
        for op in (OPS["sin"], OPS["exp"]):
            trace = ClosedTrace(current_trace(), op.name)
            with tracing(trace):
                x, y = (trace.new(ArrayAval((3,), dtypes.FP32)) for _ in range(2))
                branches.append(trace.closed([x, y], [op(x) * y], op.name))
        args = (np.int32(index), np.array([0.5, -1, 2], np.float32), np.array([1, 2, 3], np.float32))
        made.append((args, {"branches": tuple(branches)}))
    return made


# ---- derivatives -------------------------------------------------------------------------------------------------


def _jvp(op: Op, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Pair:
    index, *operands = primals
    branches = params["branches"]
    moving = [not isinstance(t, Zero) for t in tangents[1:]]
    moves = _union([jvp_jaxpr(b, moving)[1] for b in branches])
    programs = tuple(jvp_jaxpr(b, moving, moves)[0] for b in branches)
    given = [t for t in tangents[1:] if not isinstance(t, Zero)]
    results = apply(op, [index, *operands, *given], {"branches": programs})
    count = len(moves)
    made = iter(results[count:])
    return results[:count], [next(made) if m else Zero(plain(aval_of(x))) for x, m in zip(results, moves, strict=False)]


def _union(each: Sequence[Sequence[bool]]) -> list[bool]:
    return [any(column) for column in zip(*each, strict=True)]


def _linearize(op: Op, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Pair:
    """The branch that is taken, with what its linear part needs (the others' places are zeros); then a switch that is linear."""
    index, *operands = primals
    branches = params["branches"]
    moving = [not isinstance(t, Zero) for t in tangents[1:]]
    moves = _union([linearize_jaxpr(b, moving, [False] * len(b.outs))[2] for b in branches])
    taken = [linearize_jaxpr(b, moving, moves) for b in branches]
    count = len(moves)
    kept = [known.outs[count:] for known, *_ in taken]
    knowns = tuple(_with_places(known, kept, i, count) for i, (known, *_) in enumerate(taken))
    made = apply(op, [index, *operands], {"branches": knowns})
    values, residuals = made[:count], made[count:]
    linears = tuple(_with_inputs(linear, kept, i) for i, (_, linear, *_) in enumerate(taken))
    given = [t for t in tangents[1:] if not isinstance(t, Zero)]
    if not any(moves):
        return values, [Zero(plain(aval_of(v))) for v in values]
    results = iter(apply(op, [index, *residuals, *given], {"branches": linears}))
    return values, [next(results) if m else Zero(plain(aval_of(v))) for v, m in zip(values, moves, strict=True)]


def _with_places(known: Jaxpr, kept: Sequence[Sequence[Any]], own: int, count: int) -> Jaxpr:
    """A branch that gives its results, and the residuals of all branches: its own ones, and zeros for the others'."""
    trace = ClosedTrace(current_trace(), known.name)
    with tracing(trace):
        inputs = [trace.new(v.aval, v.name) for v in known.invars]
        outs = replay(known, inputs)
        places = [outs[count:] if i == own else [zeros(plain(r.aval)) for r in rs] for i, rs in enumerate(kept)]
        return trace.closed(inputs, [*outs[:count], *(x for part in places for x in part)], known.name)


def _with_inputs(linear: Jaxpr, kept: Sequence[Sequence[Any]], own: int) -> Jaxpr:
    """A linear branch that takes the residuals of all branches, and uses its own."""
    mine = len(kept[own])
    before = [Var(plain(r.aval)) for rs in kept[:own] for r in rs]
    after = [Var(plain(r.aval)) for rs in kept[own + 1 :] for r in rs]
    return linear.replace(invars=(*before, *linear.invars[:mine], *after, *linear.invars[mine:]))


def _transpose(op: Op, cotangents: Sequence[Any], operands: Sequence[Any], params: dict[str, Any]) -> Sequence[Any]:
    index, *rest = operands
    unknown = [isinstance(x, Undefined) for x in rest]
    arriving = [not isinstance(ct, Zero) for ct in cotangents]
    programs = []
    for branch in params["branches"]:
        trace = ClosedTrace(current_trace(), branch.name)
        with tracing(trace):
            known = [trace.new(plain(v.aval)) for v, u in zip(branch.invars, unknown, strict=True) if not u]
            cts = [trace.new(plain(o.aval)) for o, m in zip(branch.outs, arriving, strict=True) if m]
            taken = iter(cts)
            incoming = [next(taken) if m else Zero(plain(o.aval)) for o, m in zip(branch.outs, arriving, strict=True)]
            order = [v for v, u in zip(branch.invars, unknown, strict=True) if not u]
            order += [v for v, u in zip(branch.invars, unknown, strict=True) if u]
            found = backward(branch.replace(invars=tuple(order)), known, incoming)
            programs.append(trace.closed([*known, *cts], [instantiate(ct) for ct in found], branch.name))
    given = [x for x, u in zip(rest, unknown, strict=True) if not u] + [ct for ct, m in zip(cotangents, arriving, strict=True) if m]
    made = iter(apply(op, [index, *given], {"branches": tuple(programs)}))
    return [None, *(next(made) if u else None for u in unknown)]


# ---- batching ----------------------------------------------------------------------------------------------------


def _batching(op: Op, size: int, operands: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Batched:
    """One branch for all examples; where each has an index of its own, every branch runs and each example selects."""
    index, *rest = operands
    branches = params["branches"]
    if not batched[0]:
        which = _union([batch_jaxpr(b, size, batched[1:])[1] for b in branches])
        programs = tuple(batch_jaxpr(b, size, batched[1:], which)[0] for b in branches)
        return apply(op, [index, *rest], {"branches": programs}), which
    at = OPS["clamp"](0, index, len(branches) - 1)
    results: list[Any] = []
    guarded = _is_differentiated(current_trace())
    for i, branch in enumerate(branches):
        taken = OPS["eq"](at, i) if i or guarded else None
        given, which = _guarded(taken, size, rest, batched[1:]) if guarded else (rest, batched[1:])
        outs, own = batch(lambda *xs, branch=branch: replay(branch, xs), size, given, which, branch.name)
        outs = [x if b else repeated(x, size) for x, b in zip(outs, own, strict=True)]
        results = outs if not i else [chosen(taken, new, old) for new, old in zip(outs, results, strict=True)]
    return results, [True] * len(results)


def _is_differentiated(trace: Trace | None) -> bool:
    return trace is not None and (isinstance(trace, JVPTrace) or _is_differentiated(trace.parent))


def _guarded(taken: Any, size: int, operands: Sequence[Any], batched: Sequence[bool]) -> Batched:
    """The operands of one branch: to those of an example that does not take it nothing flows back, as zero times a derivative that is
    infinite there would be NaN."""
    given, which = list(operands), list(batched)
    for k, x in enumerate(operands):
        if isinstance(x, Tracer) and differentiable(x.aval):
            each = x if batched[k] else repeated(x, size)
            given[k], which[k] = chosen(taken, each, apply(OPS["stop"], [each], {})[0]), True
    return given, which


@computed(
    samples=_samples,
    abstract=_abstract,
    axes=Whole(),
    exact=Exact("movement"),
    index=(0,),
    jvp=_jvp,
    linearize=_linearize,
    transpose=_transpose,
    batching=_batching,
    pto=No("orchestration branches on it"),
    unit="scalar",
)
def switch_(index: Any, *operands: Any, branches: tuple[Jaxpr, ...]) -> Any:
    """Run one of several bodies of one type on the operands; `lax.cond` and `lax.switch` are the spellings for users.

    An index outside 0..n-1 takes the first or the last one.
    """
    taken = branches[min(max(int(index), 0), len(branches) - 1)]
    results = tuple(np.array(x) for x in evaluate(taken, list(operands)))
    return results[0] if len(results) == 1 else results
