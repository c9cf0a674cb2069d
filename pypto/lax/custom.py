"""Ops with derivatives of their own: functions with a custom rule, and stops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto.core.avals import Aval
from pypto.core.ir import Jaxpr
from pypto.core.op import OPS, Exact, Moves, No, Op, Whole
from pypto.core.trace import aval_of
from pypto.errors import NumericsError
from pypto.interpreters.batching import Batched, batch, batch_jaxpr, pointwise, repeated
from pypto.interpreters.evaluate import evaluate
from pypto.interpreters.rules import Pair, constant
from pypto.interpreters.tangents import Undefined, Zero, apply, differentiable, instantiate, plain
from pypto.lax.families import computed, elementwise_aval

_PTO = No("it is emitted as its body")


@dataclass(frozen=True, eq=False)
class Rule:
    """A user's function as an option of an equation: on flat values."""

    name: str
    call: Callable[..., Any]

    def __str__(self) -> str:
        return self.name


def body_outs(*operands: Aval, body: Jaxpr, **_: Any) -> tuple[Aval, ...]:
    return tuple(plain(o.aval) for o in body.outs)


def run_body(body: Jaxpr, operands: Sequence[Any]) -> Any:
    results = tuple(np.array(x) for x in evaluate(body, list(operands)))
    return results[0] if len(results) == 1 else results


# ---- stops -------------------------------------------------------------------------------------------------------


@computed(
    samples=lambda: [((np.array([[1, -2]], np.float32),), {})],
    abstract=lambda x: elementwise_aval("stop", (x,), None),
    valid=lambda x: x,
    axes=Moves(),
    exact=Exact("movement"),
    jvp=constant,
    batching=pointwise,
    pto=_PTO,
    golden="jax.lax.stop_gradient",
)
def stop_(x: Any) -> Any:
    """The value itself, with the derivative zero; `lax.stop_gradient` is the spelling for users."""
    return np.array(x)


def stop_gradient(x: Any) -> Any:
    """The same tree of values, through which no derivative flows, as `jax.lax.stop_gradient`.

    >>> import pypto
    >>> pypto.grad(lambda x: x * stop_gradient(x))(3.0)
    Array(3., dtype=FP32)
    """
    from pypto import tree

    return tree.tree_map(lambda leaf: OPS["stop"](leaf), x)


# ---- custom rules ------------------------------------------------------------------------------------------------


def _closed_over(name: str, tangents: Sequence[Any], consts: int) -> None:
    if any(not isinstance(t, Zero) for t in tangents[:consts]):
        raise NumericsError(
            "PL720",
            f"`{name}` has a derivative of its own and closes over a value that is differentiated: the rule knows nothing of that one",
            fix="pass the value in as an argument",
        )


def _custom_jvp_rule(op: Op, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Pair:
    consts = params["consts"]
    _closed_over(params["body"].name, tangents, consts)
    return params["rule"].call(
        list(primals[consts:]),
        [instantiate(t) if differentiable(t.aval if isinstance(t, Zero) else aval_of(t)) else t for t in tangents[consts:]],
    )


def _custom_jvp_batching(op: Op, size: int, operands: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Batched:
    consts, own = params["consts"], list(batched)
    body, _ = batch_jaxpr(params["body"], size, own, True)

    def rule(primals: list[Any], tangents: list[Any]) -> Pair:
        inputs = [*primals, *(t for t in tangents if not isinstance(t, Zero))]
        flags = [*own[consts:], *(b for b, t in zip(own[consts:], tangents, strict=True) if not isinstance(t, Zero))]
        zero: list[Any] = []

        def flat(*xs: Any) -> list[Any]:
            rest = iter(xs[len(primals) :])
            outs, made = params["rule"].call(list(xs[: len(primals)]), [t if isinstance(t, Zero) else next(rest) for t in tangents])
            zero.append([isinstance(t, Zero) for t in made])
            return [*outs, *(t for t in made if not isinstance(t, Zero))]

        found, which = batch(flat, size, inputs, flags, params["body"].name)
        found = [x if b else repeated(x, size) for x, b in zip(found, which, strict=True)]
        outs, rest = found[: len(zero[0])], iter(found[len(zero[0]) :])
        return outs, [Zero(plain(aval_of(o))) if z else next(rest) for o, z in zip(outs, zero[0], strict=True)]

    made = apply(op, operands, {"body": body, "rule": Rule(params["rule"].name, rule), "consts": consts})
    return made, [True] * len(made)


@computed(
    samples=list,
    abstract=body_outs,
    axes=Whole(),
    exact=Exact("movement"),
    jvp=_custom_jvp_rule,
    batching=_custom_jvp_batching,
    pto=_PTO,
    unit="scalar",
)
def custom_jvp_call(*operands: Any, body: Jaxpr, rule: Rule, consts: int) -> Any:
    """Run a body whose derivative is given by a rule; `pypto.custom_jvp` is the spelling for users."""
    return run_body(body, operands)


def _custom_vjp_rule(op: Op, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Pair:
    consts, body = params["consts"], params["body"]
    _closed_over(body.name, tangents, consts)
    outs, residuals = params["fwd"].call(list(primals[consts:]))
    kept = [(i, t) for i, t in enumerate(tangents[consts:]) if not isinstance(t, Zero)]
    types = tuple(plain(aval_of(o)) for o in outs)
    options = {
        "bwd": params["bwd"],
        "name": body.name,
        "results": types,
        "moving": tuple(i for i, _ in kept),
        "count": len(residuals),
    }
    flowing = [i for i, a in enumerate(types) if differentiable(a)]
    if not flowing:
        return outs, [Zero(a) for a in types]
    made = apply(OPS["custom_tangent"], [*residuals, *(t for _, t in kept)], options)
    return outs, [made[i] if differentiable(a) else Zero(a) for i, a in enumerate(types)]


def _custom_vjp_batching(op: Op, size: int, operands: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Batched:
    consts, own, name = params["consts"], list(batched), params["body"].name
    body, _ = batch_jaxpr(params["body"], size, own, True)
    kept: list[list[bool]] = []

    def fwd(primals: list[Any]) -> tuple[list[Any], list[Any]]:
        counts: list[int] = []

        def flat(*xs: Any) -> list[Any]:
            outs, residuals = params["fwd"].call(list(xs))
            counts.append(len(outs))
            return [*outs, *residuals]

        found, which = batch(flat, size, primals, own[consts:], name)
        count = counts[0]
        kept.append(list(which[count:]))
        return [x if b else repeated(x, size) for x, b in zip(found[:count], which, strict=False)], list(found[count:])

    def bwd(residuals: list[Any], cotangents: list[Any]) -> list[Any]:
        none: list[list[bool]] = []

        def flat(*xs: Any) -> list[Any]:
            made = params["bwd"].call(list(xs[: len(residuals)]), list(xs[len(residuals) :]))
            none.append([isinstance(ct, Zero) for ct in made])
            return [ct for ct in made if not isinstance(ct, Zero)]

        found, which = batch(flat, size, [*residuals, *cotangents], [*kept[-1], *(True for _ in cotangents)], name)
        rest = iter(zip(found, which, strict=True))
        result: list[Any] = []
        for x, b, zero in zip(operands[consts:], own[consts:], none[0], strict=True):
            if zero:
                result.append(Zero(plain(aval_of(x))))
                continue
            ct, has = next(rest)
            ct = ct if has else repeated(ct, size)
            result.append(ct if b else OPS["reduce_sum"](ct, axes=(0,)))
        return result

    options = {"body": body, "fwd": Rule(params["fwd"].name, fwd), "bwd": Rule(params["bwd"].name, bwd), "consts": consts}
    made = apply(op, operands, options)
    return made, [True] * len(made)


@computed(
    samples=list,
    abstract=body_outs,
    axes=Whole(),
    exact=Exact("movement"),
    jvp=_custom_vjp_rule,
    batching=_custom_vjp_batching,
    pto=_PTO,
    unit="scalar",
)
def custom_vjp_call(*operands: Any, body: Jaxpr, fwd: Rule, bwd: Rule, consts: int) -> Any:
    """Run a body whose way back is given by a rule; `pypto.custom_vjp` is the spelling for users."""
    return run_body(body, operands)


def _custom_tangent_transpose(op: Op, cotangents: Sequence[Any], operands: Sequence[Any], params: dict[str, Any]) -> Sequence[Any]:
    residuals, count = list(operands[: params["count"]]), params["count"]
    found = params["bwd"].call(residuals, [instantiate(ct) for ct in cotangents])
    moved = [found[i] for i in params["moving"]]
    return [
        *(None for _ in range(count)),
        *(ct if isinstance(x, Undefined) else None for ct, x in zip(moved, operands[count:], strict=True)),
    ]


_BACKWARD_ONLY = No("a function with a custom_vjp rule has reverse mode only; give it a custom_jvp rule for both")


@computed(
    samples=list,
    abstract=lambda *operands, results, **_: tuple(results),
    axes=Whole(),
    exact=Exact("movement"),
    jvp=_BACKWARD_ONLY,
    transpose=_custom_tangent_transpose,
    batching=_BACKWARD_ONLY,
    pto=_PTO,
    unit="scalar",
)
def custom_tangent(*operands: Any, bwd: Rule, name: str, results: tuple[Aval, ...], moving: tuple[int, ...], count: int) -> Any:
    """The linear part of a function with a custom way back, which is all that is known of it: running it forward is an error."""
    raise NumericsError("PL703", f"`{name}` has no jvp rule: {_BACKWARD_ONLY.reason}", fix="pypto.vjp or pypto.grad; or pypto.custom_jvp")
