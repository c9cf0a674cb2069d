"""Functions that are computed again on the way back: `pypto.checkpoint`, and what its policies keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto import dtypes
from pypto.core.avals import ArrayAval
from pypto.core.ir import Atom, Jaxpr, Var
from pypto.core.op import OPS, Exact, Moves, No, Op, Whole
from pypto.core.trace import aval_of, current_trace, tracing
from pypto.errors import CallError
from pypto.interpreters.ad import jvp
from pypto.interpreters.batching import Batched, batch, batch_jaxpr, pointwise
from pypto.interpreters.linear import linearize_jaxpr
from pypto.interpreters.partial_eval import ClosedTrace, pruned, replay
from pypto.interpreters.rules import Pair, linear, pullback
from pypto.interpreters.tangents import Zero, apply, plain
from pypto.lax.custom import body_outs, run_body
from pypto.lax.families import computed, elementwise_aval

Policy = Callable[..., bool]
"""`(op, *types of the operands, **options) -> whether its results are kept for the way back`."""

_PTO = No("it is emitted as its body")


# ---- names for policies ------------------------------------------------------------------------------------------


@computed(
    samples=lambda: [((np.array([[1, -2]], np.float32),), {"name": "here"})],
    abstract=lambda x, *, name: elementwise_aval("checkpoint_name", (x,), None),
    valid=lambda x, **_: x,
    axes=Moves(),
    exact=Exact("movement"),
    jvp=linear(0),
    transpose=pullback(lambda ct, x, *, name: ct),
    batching=pointwise,
    pto=_PTO,
)
def checkpoint_name_(x: Any, *, name: str) -> Any:
    """The value itself, under a name that policies of `pypto.checkpoint` know; `pypto.checkpoint_name` is the spelling for users."""
    return np.array(x)


def checkpoint_name(x: Any, name: str) -> Any:
    """The same tree of values, under a name for the policies of `pypto.checkpoint`, as `jax.ad_checkpoint.checkpoint_name`.

    Errors:
      PL601 for a name that is no string.

    >>> checkpoint_name(2.0, "twice")
    Array(2., dtype=FP32)
    """
    from pypto import tree

    if not isinstance(name, str):
        raise CallError("PL601", f"checkpoint_name: the name is {name!r}", fix="a string")
    return tree.tree_map(lambda leaf: OPS["checkpoint_name"](leaf, name=name), x)


# ---- taken apart -------------------------------------------------------------------------------------------------


def _divided(known: Jaxpr, count: int, policy: Policy | None) -> tuple[list[Var], Jaxpr]:
    """What is kept of the values of a program, and how the others that are needed are computed again.

    Args:
      known: gives results, then from `count` on what the way back needs.
    Returns:
      The values to keep; the program of the inputs it uses and of those, which gives what the way back needs.
    """
    keep: dict[Var, Var] = {}  # a value, and the one that is kept for it
    for eqn in known.eqns if policy is not None else ():
        assert policy is not None
        if policy(eqn.op, *(a.aval for a in eqn.ins), **eqn.params):
            keep.update((v, v) for v in eqn.outs)
            if eqn.op is OPS["checkpoint_name"] and isinstance(eqn.ins[0], Var):
                keep[eqn.ins[0]] = eqn.outs[0]  # the same value before it had the name
    for v in known.invars:
        keep.pop(v, None)  # inputs are there anyway

    def kept(a: Atom) -> Atom:
        return keep.get(a, a) if isinstance(a, Var) else a

    again = known.replace(
        eqns=tuple(e.replace(ins=tuple(map(kept, e.ins))) for e in known.eqns if not all(v in keep for v in e.outs)),
        outs=tuple(map(kept, known.outs[count:])),
    )
    again = pruned(again)
    used = {a for atoms in (*(e.ins for e in again.eqns), again.outs) for a in atoms if isinstance(a, Var)}
    saved = [v for v in dict.fromkeys(keep.values()) if v in used]
    return saved, again.replace(invars=(*(v for v in known.invars if v in used), *saved))


def _remat_jvp(op: Op, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Pair:
    return jvp(lambda *xs: replay(params["body"], xs), primals, tangents, params["body"].name)


def _remat_linearize(op: Op, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Pair:
    """The operands are kept, and what the policy says; the linear part holds how the rest is computed again."""
    body, policy = params["body"], params["policy"]
    count = len(body.outs)
    moving = [not isinstance(t, Zero) for t in tangents]
    known, tangent, moves, _ = linearize_jaxpr(body, moving, [False] * count)
    if not any(moves):
        outs = apply(op, primals, params)
        return outs, [Zero(plain(aval_of(o))) for o in outs]
    saved, again = _divided(known, count, policy)
    first = pruned(known.replace(outs=(*known.outs[:count], *saved))) if saved else body
    made = apply(op, primals, {"body": first, "policy": policy})
    outs, kept = made[:count], made[count:]
    wanted = [x for x, v in zip(primals, known.invars, strict=True) if v in again.invars]
    given = [t for t in tangents if not isinstance(t, Zero)]
    results: dict[Atom, Any] = dict.fromkeys(
        tangent.outs
    )  # one that is returned twice is one tangent; an operand's stays that of the operand
    passed: dict[Atom, Any] = dict(zip(tangent.invars[len(tangent.invars) - len(given) :], given, strict=True))
    new = [a for a in results if a not in passed]
    if new:
        options = {"again": again, "tangent": tangent.replace(outs=tuple(new))}
        results.update(zip(new, apply(OPS["remat_tangent"], [*wanted, *kept, *given], options), strict=True))
    results.update(passed)
    found = iter(results[a] for a in tangent.outs)
    return outs, [next(found) if m else Zero(plain(aval_of(o))) for o, m in zip(outs, moves, strict=True)]


def _remat_batching(op: Op, size: int, operands: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Batched:
    body, which = batch_jaxpr(params["body"], size, batched)
    return apply(op, operands, {**params, "body": body}), which


def _samples() -> list[Any]:
    trace = ClosedTrace(current_trace(), "f")
    with tracing(trace):
        x = trace.new(ArrayAval((3,), dtypes.FP32))
        body = trace.closed([x], [OPS["sin"](x) * x], "f")
    return [((np.array([1, 2, 3], np.float32),), {"body": body, "policy": None})]


@computed(
    samples=_samples,
    abstract=body_outs,
    axes=Whole(),
    exact=Exact("movement"),
    jvp=_remat_jvp,
    linearize=_remat_linearize,
    batching=_remat_batching,
    pto=_PTO,
    unit="scalar",
)
def remat(*operands: Any, body: Jaxpr, policy: Policy | None) -> Any:
    """Run a body of which reverse mode keeps the operands, and what a policy says; `pypto.checkpoint` is the spelling for users."""
    return run_body(body, operands)


# ---- the linear part ---------------------------------------------------------------------------------------------


def _whole(again: Jaxpr, tangent: Jaxpr, operands: Sequence[Any]) -> list[Any]:
    count = len(again.invars)
    return replay(tangent, [*replay(again, operands[:count]), *operands[count:]])


def _unfold(operands: Sequence[Any], *, again: Jaxpr, tangent: Jaxpr) -> tuple[Jaxpr, Sequence[Any]]:
    """What is not kept is computed again, then back through the linear part."""
    return tangent, replay(again, operands[: len(again.invars)])


def _inline_jvp(op: Op, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Pair:
    return jvp(lambda *xs: _whole(params["again"], params["tangent"], xs), primals, tangents, params["tangent"].name)


def _inline_batching(op: Op, size: int, operands: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Batched:
    return batch(lambda *xs: _whole(params["again"], params["tangent"], xs), size, operands, batched, params["tangent"].name)


@computed(
    samples=list,
    abstract=lambda *operands, tangent, **_: tuple(plain(o.aval) for o in tangent.outs),
    axes=Whole(),
    exact=Exact("movement"),
    jvp=_inline_jvp,
    unfold=_unfold,
    transpose=No("reverse mode goes on in its linear part"),
    batching=_inline_batching,
    pto=_PTO,
    unit="scalar",
)
def remat_tangent(*operands: Any, again: Jaxpr, tangent: Jaxpr) -> Any:
    """The linear part of `remat`: of its operands, what was kept, and their tangents, the tangents of its results."""
    count = len(again.invars)
    made = run_body(again, operands[:count])
    return run_body(tangent, [*(made if isinstance(made, tuple) else (made,)), *operands[count:]])


__all__ = ["Policy", "checkpoint_name", "remat"]
