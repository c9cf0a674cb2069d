"""The op `scan`: a body run once per element of the leading axes of arrays, with values carried from turn to turn.

Its operands are what every turn sees, then the carried values, then the arrays it takes a slice of; its results are the last
carried values, then one array per value that each turn gives. How it is differentiated, transposed and batched stands here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pypto.core.avals import ArrayAval, Aval
from pypto.core.ir import Jaxpr, Var
from pypto.core.op import Exact, No, Op, Whole
from pypto.core.trace import aval_of, current_trace, tracing
from pypto.dtypes import FP32
from pypto.interpreters.ad import jvp_jaxpr
from pypto.interpreters.batching import Batched, batch_jaxpr, moved_axis, repeated
from pypto.interpreters.evaluate import evaluate
from pypto.interpreters.linear import backward, linearize_jaxpr
from pypto.interpreters.partial_eval import ClosedTrace, replay
from pypto.interpreters.rules import Pair
from pypto.interpreters.tangents import Undefined, Zero, added, apply, instantiate, plain, zeros
from pypto.lax.families import Sample, computed


def stacked(aval: Aval, length: int) -> ArrayAval:
    """One value of a type per turn."""
    return ArrayAval((length, *aval.static_shape), aval.dtype)


def _abstract(*operands: Aval, body: Jaxpr, length: int, carries: int, **_: Any) -> tuple[Aval, ...]:
    outs = [o.aval for o in body.outs]
    return (*(plain(a) for a in outs[:carries]), *(stacked(a, length) for a in outs[carries:]))


def _samples() -> list[Sample]:
    from pypto.lax.elementwise import add, mul

    made: list[Sample] = []
    for reverse in (False, True):
        trace = ClosedTrace(current_trace(), "step")
        with tracing(trace):
            scale, total, x = (trace.new(ArrayAval(s, FP32)) for s in ((), (3,), (3,)))
            new = add(mul(total, scale), x)
            body = trace.closed([scale, total, x], [new, mul(new, x)], "step")
        rng = np.random.default_rng(5)
        args = (np.float32(0.5), rng.uniform(-1, 1, 3).astype(np.float32), rng.uniform(-1, 1, (4, 3)).astype(np.float32))
        made.append((args, {"body": body, "length": 4, "reverse": reverse, "consts": 1, "carries": 1}))
    return made


# ---- derivatives -------------------------------------------------------------------------------------------------


def _parts(values: Sequence[Any], consts: int, carries: int) -> tuple[list[Any], list[Any], list[Any]]:
    return list(values[:consts]), list(values[consts : consts + carries]), list(values[consts + carries :])


def _moving(tangents: Sequence[Any]) -> list[bool]:
    return [not isinstance(t, Zero) for t in tangents]


def _interleaved(values: Sequence[Any], tangents: Sequence[Any], consts: int, carries: int) -> list[Any]:
    """Values and tangents, each kind of operand together."""
    return [x for a, b in zip(_parts(values, consts, carries), _parts(tangents, consts, carries), strict=True) for x in (*a, *b)]


def _jvp(op: Op, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Pair:
    body, consts, carries = params["body"], params["consts"], params["carries"]
    moving = _moving(tangents)
    while True:  # a carried value moves if its start does, or what a turn makes of it: at most one more each time
        program, moves = jvp_jaxpr(body, moving, [*moving[consts : consts + carries], *[False] * (len(body.outs) - carries)])
        carried = [m or n for m, n in zip(moving[consts : consts + carries], moves[:carries], strict=True)]
        if carried == moving[consts : consts + carries]:
            break
        moving[consts : consts + carries] = carried
    given = [instantiate(t) if m else t for t, m in zip(tangents, moving, strict=True)]
    # inputs of the program: values, then tangents; of scan: each kind of operand together
    tangent_inputs = iter(program.invars[len(primals) :])
    marks = [next(tangent_inputs) if m else None for m in moving]
    invars = [v for v in _interleaved(program.invars[: len(primals)], marks, consts, carries) if v is not None]
    made = iter(program.outs[len(body.outs) :])
    out_tangents = [next(made) if m else None for m in moves]
    outs = [o for o in _interleaved(program.outs[: len(body.outs)], out_tangents, 0, carries) if o is not None]
    program = program.replace(invars=tuple(invars), outs=tuple(outs))
    operands = [
        x for x in _interleaved(primals, [t if m else None for t, m in zip(given, moving, strict=True)], consts, carries) if x is not None
    ]
    counts = {"consts": consts + sum(moving[:consts]), "carries": carries + sum(moving[consts : consts + carries])}
    results = apply(op, operands, {**params, "body": program, **counts})
    return _separated(results, moves, carries)


def _separated(results: Sequence[Any], moves: Sequence[bool], carries: int) -> Pair:
    """Results and their tangents, from results in which each kind has its tangents behind it."""
    rest = iter(results)
    values: list[Any] = []
    tangents: list[Any] = []
    for kind in (moves[:carries], moves[carries:]):
        here = [next(rest) for _ in kind]
        values += here
        tangents += [next(rest) if m else Zero(plain(aval_of(x))) for x, m in zip(here, kind, strict=True)]
    return values, tangents


def _linearize(op: Op, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Pair:
    """Values, with what the linear part needs of every turn stacked up; then a scan that is linear in the tangents."""
    body, consts, carries = params["body"], params["consts"], params["carries"]
    moving = _moving(tangents)
    while True:
        forced = [*moving[consts : consts + carries], *[False] * (len(body.outs) - carries)]
        known, linear, moves, count = linearize_jaxpr(body, moving, forced)
        carried = [m or n for m, n in zip(moving[consts : consts + carries], moves[:carries], strict=True)]
        if carried == moving[consts : consts + carries]:
            break
        moving[consts : consts + carries] = carried
    outs, residuals = known.outs[: len(body.outs)], known.outs[len(body.outs) :]
    # what every turn sees anyway is not stacked
    shared = dict(zip(known.invars[:consts], primals[:consts], strict=True))
    hoisted = [isinstance(r, Var) and r in shared for r in residuals]
    turning = [r for r, h in zip(residuals, hoisted, strict=True) if not h]
    made = apply(op, primals, {**params, "body": known.replace(outs=(*outs, *turning))})
    values, stacks = made[: len(outs)], iter(made[len(outs) :])
    given = [instantiate(t) for t, m in zip(tangents, moving, strict=True) if m]
    moved = [sum(moving[:consts]), sum(moving[consts : consts + carries])]
    const_tangents, carry_tangents, x_tangents = _parts(given, *moved)
    inputs, tangent_inputs = linear.invars[:count], linear.invars[count:]
    fixed = [(v, shared[r]) for v, r, h in zip(inputs, residuals, hoisted, strict=True) if h and isinstance(r, Var)]
    varying = [(v, next(stacks)) for v, h in zip(inputs, hoisted, strict=True) if not h]
    const_inputs, carry_inputs, x_inputs = _parts(tangent_inputs, *moved)
    invars = [*(v for v, _ in fixed), *const_inputs, *carry_inputs, *(v for v, _ in varying), *x_inputs]
    operands = [*(x for _, x in fixed), *const_tangents, *carry_tangents, *(x for _, x in varying), *x_tangents]
    counts = {"consts": len(fixed) + moved[0], "carries": moved[1]}
    program = linear.replace(invars=tuple(invars))
    results = iter(apply(op, operands, {**params, "body": program, **counts}))
    return values, [next(results) if m else Zero(plain(aval_of(x))) for x, m in zip(values, moves, strict=True)]


def _transpose(op: Op, cotangents: Sequence[Any], operands: Sequence[Any], params: dict[str, Any]) -> Sequence[Any]:
    """The turns in the other order: carried cotangents go back, those of what every turn sees add up."""
    body, consts, carries = params["body"], params["consts"], params["carries"]
    # every carried value is a tangent, also one that starts as a known zero
    unknown = [isinstance(x, Undefined) or consts <= i < consts + carries for i, x in enumerate(operands)]
    carried, given = list(cotangents[:carries]), list(cotangents[carries:])
    fixed, _, xs = _parts(operands, consts, carries)
    wanted, _, slices = _parts(body.invars, consts, carries)
    const_unknown = unknown[:consts]
    slice_unknown = unknown[consts + carries :]
    arriving = _moving(given)

    trace = ClosedTrace(current_trace(), body.name)
    with tracing(trace):
        residuals = {v: trace.new(plain(v.aval), v.name) for v, u in zip(body.invars, unknown, strict=True) if not u}
        totals = [trace.new(plain(v.aval)) for v, u in zip(wanted, const_unknown, strict=True) if u]
        backs = [trace.new(plain(v.aval)) for v in body.invars[consts : consts + carries]]
        arrives = [trace.new(plain(o.aval)) for o, m in zip(body.outs[carries:], arriving, strict=True) if m]
        taken = iter(arrives)
        incoming = [*backs, *(next(taken) if m else Zero(plain(o.aval)) for o, m in zip(body.outs[carries:], arriving, strict=True))]
        order = [*(v for v in body.invars if v in residuals), *(v for v in body.invars if v not in residuals)]
        found = backward(body.replace(invars=tuple(order)), list(residuals.values()), incoming)
        by_var = dict(zip((v for v in body.invars if v not in residuals), found, strict=True))
        new_totals = [added(t, by_var[v]) for t, v in zip(totals, (v for v in wanted if v in by_var), strict=True)]
        new_backs = [instantiate(by_var[v]) for v in body.invars[consts : consts + carries]]
        slice_cts = [instantiate(by_var[v]) for v, u in zip(slices, slice_unknown, strict=True) if u]
        shared = [residuals[v] for v in wanted if v in residuals]
        varying = [residuals[v] for v in slices if v in residuals]
        program = trace.closed([*shared, *totals, *backs, *varying, *arrives], [*new_totals, *new_backs, *slice_cts], body.name)
    starts = [zeros(x.aval) for x, u in zip(fixed, const_unknown, strict=True) if u]
    args = [
        *(x for x, u in zip(fixed, const_unknown, strict=True) if not u),
        *starts,
        *map(instantiate, carried),
        *(x for x, u in zip(xs, slice_unknown, strict=True) if not u),
        *(ct for ct, m in zip(given, arriving, strict=True) if m),
    ]
    counts = {"consts": len(shared), "carries": len(totals) + len(backs)}
    made = iter(apply(op, args, {**params, "body": program, "reverse": not params["reverse"], **counts}))
    const_cts = [next(made) if u else None for u in const_unknown]
    carry_cts = [next(made) for _ in range(carries)]
    return [*const_cts, *carry_cts, *(next(made) if u else None for u in slice_unknown)]


# ---- batching ----------------------------------------------------------------------------------------------------


def _batching(op: Op, size: int, operands: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Batched:
    body, consts, carries = params["body"], params["consts"], params["carries"]
    which = list(batched)
    while True:  # a carried value has examples if its start has, or what a turn makes of it
        program, made = batch_jaxpr(body, size, which, [*which[consts : consts + carries], *[False] * (len(body.outs) - carries)])
        carried = [a or b for a, b in zip(which[consts : consts + carries], made[:carries], strict=True)]
        if carried == which[consts : consts + carries]:
            break
        which[consts : consts + carries] = carried
    fixed, start, xs = _parts(operands, consts, carries)
    starts = [repeated(x, size) if w and not b else x for x, w, b in zip(start, carried, batched[consts : consts + carries], strict=True)]
    slices = [moved_axis(x, 0, 1) if b else x for x, b in zip(xs, batched[consts + carries :], strict=True)]
    outs = apply(op, [*fixed, *starts, *slices], {**params, "body": program})
    results = [*outs[:carries], *(moved_axis(y, 1, 0) if b else y for y, b in zip(outs[carries:], made[carries:], strict=True))]
    return results, [*carried, *made[carries:]]


def _together(body: Jaxpr, turns: int, consts: int, carries: int) -> Jaxpr:
    """A program of several turns: of what every turn sees, the carried values, then the slices of each turn, in their order."""
    trace = ClosedTrace(current_trace(), body.name)
    with tracing(trace):
        fixed, carried, slices = _parts([plain(v.aval) for v in body.invars], consts, carries)
        shared, first = [trace.new(a) for a in fixed], [trace.new(a) for a in carried]
        own = [[trace.new(a) for a in slices] for _ in range(turns)]
        values, given = first, []
        for xs in own:
            outs = replay(body, [*shared, *values, *xs])
            values = outs[:carries]
            given += outs[carries:]
        return trace.closed([*shared, *first, *(x for xs in own for x in xs)], [*values, *given], body.name)


@computed(
    samples=_samples,
    abstract=_abstract,
    axes=Whole(),
    exact=Exact("movement"),
    jvp=_jvp,
    linearize=_linearize,
    transpose=_transpose,
    batching=_batching,
    pto=No("orchestration runs it as a loop"),
    unit="scalar",
)
def scan_(*operands: Any, body: Jaxpr, length: int, reverse: bool, consts: int, carries: int, unroll: int = 1) -> Any:
    """Run a body `length` times; `lax.scan` is the spelling for users.

    Operands: `consts` values every turn sees, `carries` values carried from turn to turn, then arrays of which turn i sees slice i.
    The body gives the next carried values, then what is stacked up along a new leading axis. `reverse` begins with the last slice.
    `unroll` turns run as one program.
    """
    fixed, carried, xs = _parts(operands, consts, carries)
    shapes = [(length, *o.aval.static_shape) for o in body.outs[carries:]]
    stacks = [np.zeros(s, o.aval.dtype.storage) for s, o in zip(shapes, body.outs[carries:], strict=True)]
    order = range(length - 1, -1, -1) if reverse else range(length)
    whole = length - length % unroll
    several = _together(body, unroll, consts, carries) if whole and unroll > 1 else body
    for program, turns in [(several, order[k : k + unroll]) for k in range(0, whole, unroll)] + [(body, (i,)) for i in order[whole:]]:
        outs = evaluate(program, [*fixed, *carried, *(np.asarray(x[i]) for i in turns for x in xs)])
        carried, made = outs[:carries], iter(outs[carries:])
        for i in turns:
            for stack in stacks:
                stack[i] = next(made)
    results = tuple(np.array(c) for c in carried) + tuple(stacks)
    return results[0] if len(results) == 1 else results
