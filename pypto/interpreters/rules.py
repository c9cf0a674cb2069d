"""Forms that most derivative rules have. A slot `jvp` is `(op, primals, tangents, params) -> (results, their tangents)`, a slot
`transpose` is `(op, cotangents of the results, operands, params) -> cotangents of the operands`, with an `Undefined` in the place of
every operand that has no value, and None for the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pypto.core.op import No, Op
from pypto.core.trace import aval_of
from pypto.errors import NumericsError
from pypto.interpreters.ad import constant_derivative
from pypto.interpreters.tangents import Undefined, Zero, added, apply, fit, instantiate, unbroadcast

Pair = tuple[list[Any], list[Any]]
Partial = Callable[..., Any] | No

constant = constant_derivative
NO_FLOATS = No("it takes no floats, and only floats have derivatives")
NOT_LINEAR = No("it is not linear: reverse mode goes through the linear operations of its jvp rule")


def refuse(op: Op, operand: str, reason: str) -> NumericsError:
    """The error for an operand without a derivative."""
    return NumericsError(
        "PL703", f"{op.name} has no derivative with respect to {operand}: {reason}", fix="lax.stop_gradient on it, or pypto.custom_vjp"
    )


def by_operand(*partials: Partial) -> Callable[..., Pair]:
    """The jvp rule of an op with one result, from a partial derivative per operand.

    Each is `(tangent, result, *operands, **options) -> its part of the result's tangent`, linear in the tangent, or `No(reason)`.
    """

    def jvp(op: Op, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Pair:
        (y,) = apply(op, primals, params)
        total: Any = Zero(aval_of(y))
        for i, (partial, t) in enumerate(zip(partials, tangents, strict=False)):
            if isinstance(t, Zero):
                continue
            if isinstance(partial, No):
                raise refuse(op, f"`{op.operands[i]}`", partial.reason)
            part = partial(t, y, *primals, **params)
            total = total if isinstance(part, Zero) else added(total, fit(part, aval_of(y).static_shape))
        return [y], [total]

    return jvp


def linear(*positions: int) -> Callable[..., Pair]:
    """The jvp rule of an op with one result that is linear in these operands together, and constant in the others; without any, in all."""

    def jvp(op: Op, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Pair:
        moving = positions or tuple(range(len(primals)))
        operands = [instantiate(t) if i in moving else p for i, (p, t) in enumerate(zip(primals, tangents, strict=True))]
        return apply(op, primals, params), apply(op, operands, params)

    return jvp


def pullback(fn: Callable[..., Sequence[Any] | Any]) -> Callable[..., Sequence[Any]]:
    """The transpose rule of an op with one result: `(cotangent, *operands, **options) -> cotangents`, a tuple if there are several.

    Cotangents of operands that have a value are dropped.
    """

    def transpose(op: Op, cotangents: Sequence[Any], operands: Sequence[Any], params: dict[str, Any]) -> Sequence[Any]:
        made = fn(cotangents[0], *operands, **params)
        listed = list(made) if isinstance(made, tuple | list) else [made]
        listed += [None] * (len(operands) - len(listed))
        return [ct if isinstance(x, Undefined) else None for ct, x in zip(listed, operands, strict=True)]

    return transpose


def stretched(fn: Callable[..., Any]) -> Callable[..., Sequence[Any]]:
    """As `pullback` for ops whose operands broadcast: cotangents are summed back to the operands' shapes."""

    def transpose(op: Op, cotangents: Sequence[Any], operands: Sequence[Any], params: dict[str, Any]) -> Sequence[Any]:
        made = fn(cotangents[0], *operands, **params)
        listed = made if isinstance(made, tuple | list) else [made, *[None] * (len(operands) - 1)]
        return [unbroadcast(ct, x.aval) if isinstance(x, Undefined) else None for ct, x in zip(listed, operands, strict=True)]

    return transpose


def by_definition(op: Op, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Pair:
    """The jvp rule of a composite that has no better one: that of the ops it is made of. The result is still the op's own."""
    from pypto.interpreters.ad import jvp

    assert op.decomposition is not None
    decomposition = op.decomposition
    _, made = jvp(lambda *xs: [decomposition(*xs, **params)], primals, tangents, op.name)
    return apply(op, primals, params), made


__all__ = [
    "NOT_LINEAR",
    "NO_FLOATS",
    "by_definition",
    "by_operand",
    "constant",
    "linear",
    "pullback",
    "refuse",
    "stretched",
]
