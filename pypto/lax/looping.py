"""The op `while`: a body run as long as a test holds. How it is differentiated and batched stands here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pypto import dtypes
from pypto.core.avals import ArrayAval, Aval
from pypto.core.ir import Jaxpr
from pypto.core.op import OPS, Exact, No, Op, Whole
from pypto.core.trace import aval_of, current_trace, tracing
from pypto.interpreters.ad import jvp_jaxpr
from pypto.interpreters.batching import Batched, batch_jaxpr, chosen, repeated
from pypto.interpreters.evaluate import evaluate
from pypto.interpreters.partial_eval import ClosedTrace, replay
from pypto.interpreters.rules import Pair
from pypto.interpreters.tangents import Zero, apply, instantiate, plain
from pypto.lax.families import Sample, computed

_FORWARD_ONLY = No(
    "how many turns it takes is known only when it runs, so nothing can be kept for the way back; a fori_loop with constant bounds "
    "and a scan have reverse mode"
)


def _abstract(*operands: Aval, body: Jaxpr, **_: Any) -> tuple[Aval, ...]:
    return tuple(plain(o.aval) for o in body.outs)


def _samples() -> list[Sample]:
    test, body = ClosedTrace(current_trace(), "test"), ClosedTrace(current_trace(), "body")
    with tracing(test):
        limit, i, x = (test.new(ArrayAval(s, d)) for s, d in (((), dtypes.INT32), ((), dtypes.INT32), ((3,), dtypes.FP32)))
        tested = test.closed([limit, i, x], [OPS["lt"](i, limit)], "test")
    with tracing(body):
        scale, i, x = (body.new(ArrayAval(s, d)) for s, d in (((), dtypes.FP32), ((), dtypes.INT32), ((3,), dtypes.FP32)))
        stepped = body.closed([scale, i, x], [i + 1, OPS["sin"](x) * scale], "body")
    params = {"test": tested, "body": stepped, "tests": 1, "consts": 1}
    start = np.array([0.5, 1.0, -2.0], np.float32)
    return [((np.int32(n), np.float32(1.5), np.int32(0), start), params) for n in (3, 0)]


def _split(values: Sequence[Any], params: dict[str, Any]) -> tuple[list[Any], list[Any], list[Any]]:
    tests, consts = params["tests"], params["consts"]
    return list(values[:tests]), list(values[tests : tests + consts]), list(values[tests + consts :])


def _jvp(op: Op, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Pair:
    """Tangents are carried beside the values; the test sees the values only."""
    test_consts, consts, start = _split(primals, params)
    _, const_tangents, start_tangents = _split(tangents, params)
    const_moving = [not isinstance(t, Zero) for t in const_tangents]
    moving = [not isinstance(t, Zero) for t in start_tangents]
    while True:
        program, moves = jvp_jaxpr(params["body"], [*const_moving, *moving], moving)
        if all(m <= n for m, n in zip(moves, moving, strict=True)):
            break
        moving = [a or b for a, b in zip(moving, moves, strict=True)]
    count = len(consts)
    values, marks = program.invars[: count + len(start)], program.invars[count + len(start) :]
    inputs = (*values[:count], *marks[: sum(const_moving)], *values[count:], *marks[sum(const_moving) :])
    test = params["test"]
    trace = ClosedTrace(current_trace(), test.name)
    with tracing(trace):
        seen = [trace.new(v.aval, v.name) for v in test.invars]
        unseen = [trace.new(plain(aval_of(x))) for x, m in zip(start, moving, strict=True) if m]
        tested = trace.closed([*seen, *unseen], replay(test, seen), test.name)
    given = [t for t in const_tangents if not isinstance(t, Zero)]
    carried = [instantiate(t) for t, m in zip(start_tangents, moving, strict=True) if m]
    options = {"test": tested, "body": program.replace(invars=inputs), "tests": params["tests"], "consts": count + len(given)}
    results = apply(op, [*test_consts, *consts, *given, *start, *carried], options)
    made = iter(results[len(start) :])
    return results[: len(start)], [next(made) if m else Zero(plain(aval_of(x))) for x, m in zip(start, moving, strict=True)]


def _linearize(op: Op, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Pair:
    """Values, and once more with the tangents: that loop runs forward only."""
    return apply(op, primals, params), _jvp(op, primals, tangents, params)[1]


def _batching(op: Op, size: int, operands: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Batched:
    """All examples go on until the last one stops; one that has stopped keeps its values. Bodies have no effects but their values."""
    test_consts, consts, start = _split(operands, params)
    test_own, const_own, own = _split(batched, params)
    while True:
        body, made = batch_jaxpr(params["body"], size, [*const_own, *own], own)
        test, (each,) = batch_jaxpr(params["test"], size, [*test_own, *own])
        wanted = [True] * len(own) if each else [a or b for a, b in zip(own, made, strict=True)]
        if wanted == own:
            break
        own = wanted
    given = [
        repeated(x, size) if w and aval_of(x).rank == o.aval.rank else x for x, w, o in zip(start, own, params["body"].outs, strict=True)
    ]
    if not each:
        return apply(op, [*test_consts, *consts, *given], {**params, "test": test, "body": body}), own
    some = ClosedTrace(current_trace(), "any")
    with tracing(some):
        inputs = [some.new(v.aval, v.name) for v in test.invars]
        tested = some.closed(inputs, [OPS["reduce_or"](replay(test, inputs)[0], axes=(0,))], test.name)
    step = ClosedTrace(current_trace(), "step")
    with tracing(step):
        seen = [step.new(plain(aval_of(x))) for x in test_consts]
        fixed = [step.new(plain(aval_of(x))) for x in consts]
        carried = [step.new(plain(aval_of(x))) for x in given]
        goes_on = replay(test, [*seen, *carried])[0]
        new = replay(body, [*fixed, *carried])
        kept = [chosen(goes_on, a, b) for a, b in zip(new, carried, strict=True)]
        stepped = step.closed([*seen, *fixed, *carried], kept, body.name)
    options = {"test": tested, "body": stepped, "tests": len(test_consts), "consts": len(test_consts) + len(consts)}
    return apply(op, [*test_consts, *test_consts, *consts, *given], options), own


@computed(
    samples=_samples,
    abstract=_abstract,
    axes=Whole(),
    exact=Exact("movement"),
    jvp=_jvp,
    linearize=_linearize,
    transpose=_FORWARD_ONLY,
    batching=_batching,
    pto=No("orchestration runs it as a loop"),
    unit="scalar",
)
def while_(*operands: Any, test: Jaxpr, body: Jaxpr, tests: int, consts: int) -> Any:
    """Run a body on carried values as long as a test of them holds; `lax.while_loop` is the spelling for users.

    Operands: `tests` values only the test sees, `consts` values only the body sees, then the carried ones.
    """
    seen, fixed, carried = _split(operands, {"tests": tests, "consts": consts})
    while bool(evaluate(test, [*seen, *carried])[0]):
        carried = evaluate(body, [*fixed, *carried])
    results = tuple(np.array(c) for c in carried)
    return results[0] if len(results) == 1 else results
