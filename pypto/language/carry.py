"""Names across loops and branches: what enters, what leaves, and what type a carried or merged name keeps.

A body is traced once. Two things have no type before their body is traced: a Python number and a created tensor that
nobody has written; both take the type of the value that replaces them, which is settled after the body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pypto import dtypes, lax, tree
from pypto.core.avals import TENSOR, Aval, RefAval, ScalarAval, TileAval, join, same_type, scalar
from pypto.core.ir import Atom, Eqn, Var
from pypto.core.trace import Scope
from pypto.errors import OutputError
from pypto.language.trace import PlTrace
from pypto.language.values import RefValue, ScalarValue, TileValue, Unset, Value
from pypto.source import Frame, Source, resolve


def number_aval(x: bool | int | float) -> ScalarAval:
    """The type a Python number has until something replaces it."""
    return scalar(dtypes.BOOL if isinstance(x, bool) else dtypes.INDEX if isinstance(x, int) else dtypes.FP32, weak=True)


def is_number(x: Any) -> bool:
    return isinstance(x, bool | int | float) and not isinstance(x, Value)


def is_traceable(x: Any) -> bool:
    return isinstance(x, Value | Unset) or is_number(x)


def type_text(x: Any) -> str:
    return str(x.aval) if isinstance(x, Value) else "nothing" if isinstance(x, Unset) else f"the Python value {x!r}"


@dataclass
class Leaf:
    """One carried value: what it is before the loop, inside, and what the body makes of it."""

    name: str
    before: Any
    inside: Any


def enter(trace: PlTrace, name: str, value: Any) -> tuple[Any, list[Leaf]]:
    """A value as the loop body sees it. Containers are taken apart; what cannot be traced passes through."""
    parts, structure = tree.flatten(value)
    leaves = []
    for part in parts:
        if is_number(part):
            inside: Any = trace.new(number_aval(part), name)
            if not isinstance(part, float):
                trace.polynomial(inside.var)
        elif isinstance(part, RefValue):
            inside = trace.new(RefAval(part.shape, part.dtype, part.aval.space, None, part.aval.valid), name)
            trace.base[inside.var] = part.var
        elif isinstance(part, Value):
            inside = trace.new(part.aval, name)
        else:
            inside = part
        leaves.append(Leaf(name, part, inside))
    return tree.unflatten(structure, [leaf.inside for leaf in leaves]), leaves


def uses(trace: PlTrace, eqns: Sequence[Eqn], var: Var) -> list[Eqn]:
    """The equations that use a variable, nested ones included, also under the names that nested loops see it as."""
    names = {var, *(v for v in trace.aliases if trace.resolved(v) is var)}
    found = []
    stack = list(eqns)
    while stack:
        e = stack.pop()
        if any(a in names for a in e.ins if isinstance(a, Var)):
            found.append(e)
        for body in e.bodies():
            stack.extend(body.eqns)
            if any(a in names for a in body.outs if isinstance(a, Var)):
                found.append(e)
    return found


def only_used_as_tile(trace: PlTrace, eqns: Sequence[Eqn], var: Var) -> bool:
    """Whether a handle is used as a tile is, so that it may as well be one: loads are slices of it, stores update it in place."""
    return all(
        e.op in (lax.read, lax.set_) or (e.op is lax.get and e.params["valid"] is None and e.params["level"] == TENSOR)
        for e in uses(trace, eqns, var)
    )


def only_converted(trace: PlTrace, eqns: Sequence[Eqn], var: Var, dtype: Any) -> bool:
    """Whether a number is only ever used after conversion to `dtype`."""
    return all(e.op is lax.convert and e.params["dtype"] is dtype for e in uses(trace, eqns, var))


class Mismatch(Exception):
    """Two values of one name have different types."""


def settle(trace: PlTrace, scope: Scope, leaf: Leaf, after: Any) -> tuple[Any, Any]:
    """Bring what enters (`before`) and what leaves (`after`) a loop to one type; returns both as operands.

    `scope` is the body, still open. May retype the body's input: a number or an unwritten handle takes the type of
    what replaces it, provided the body did not use it as something else.
    """
    inside, after = _as_typed(trace, leaf.inside), _as_typed(trace, after)
    if isinstance(after, Value) and isinstance(inside, Value):
        if same_type(after.aval, inside.aval):
            return leaf.before, after
        if isinstance(inside, ScalarValue) and inside.aval.weak and isinstance(after, ScalarValue):
            return _retype_number(trace, scope, leaf, after)
        if isinstance(inside, RefValue) and isinstance(after, TileValue) and after.shape == inside.shape:
            if after.dtype is inside.dtype and only_used_as_tile(trace, scope.eqns, inside.var):
                inside.var.aval = TileAval(after.aval.shape, after.dtype, after.aval.level, None, inside.aval.valid)
                return leaf.before, after  # the loop's operand is loaded where the loop is made
        if isinstance(inside, TileValue) and isinstance(after, RefValue) and after.shape == inside.shape and after.dtype is inside.dtype:
            return leaf.before, trace.value(after, leaf.name, shares=True)
        if isinstance(inside, ScalarValue) and isinstance(after, ScalarValue) and after.dtype.is_integer and inside.dtype.is_integer:
            if inside.dtype is dtypes.INDEX or after.dtype.bits <= inside.dtype.bits:
                return leaf.before, lax.convert.bind(after, dtype=inside.dtype, mode="rint", overflow="wrap")
    if is_number(after) and isinstance(inside, ScalarValue):
        assert isinstance(after, bool | int | float)
        wide = number_aval(after).dtype
        if (
            wide is inside.dtype
            or (inside.dtype.is_float and wide is not dtypes.BOOL)
            or (inside.dtype.is_integer and wide is dtypes.INDEX)
        ):
            return leaf.before, trace.scalar_for(after, inside.dtype, leaf.name)
    raise Mismatch


def _as_typed(trace: PlTrace, x: Any) -> Any:
    """A value as what its variable is by now: the input of this loop that it is may have been retyped."""
    if not isinstance(x, Value):
        return x
    now = trace.wrap(x.var)
    now.scope = x.scope
    return now


def _retype_number(trace: PlTrace, scope: Scope, leaf: Leaf, after: ScalarValue) -> tuple[Any, Any]:
    """`s = 0` before the loop and a typed scalar after it: the number was of that type all along, or an index."""
    inside, dtype = leaf.inside, after.dtype
    if isinstance(leaf.before, float) and not dtype.is_float:
        raise Mismatch
    if only_converted(trace, scope.eqns, inside.var, dtype):
        inside.var.aval = scalar(dtype)
        return leaf.before, after
    if dtype.is_integer and inside.dtype is dtypes.INDEX:  # the body used it as an index, which absorbs integers
        return leaf.before, lax.convert.bind(after, dtype=dtypes.INDEX, mode="rint", overflow="wrap")
    raise Mismatch


def carry_error(leaf: Leaf, after: Any, at: Frame | Source | None) -> OutputError:
    inside = type_text(leaf.inside if not is_number(leaf.before) else leaf.before)
    return OutputError(
        "PL206",
        f"`{leaf.name}` enters the loop as {inside}{_made_at(leaf.before)} and leaves its body as {type_text(after)}",
        fix="a carried name keeps its shape and dtype: use another name for the new value, or cast or reshape it",
        at=at,
    )


def _made_at(x: Any) -> str:
    """Where a value was made, when that is known."""
    for e in reversed(x.scope.eqns) if isinstance(x, Value) else ():
        if x.var in e.outs:
            return f" ({resolve(e.source)})"
    return ""


# ---- branches ----------------------------------------------------------------------------------------------------


def merge(trace: PlTrace, name: str, a: Any, b: Any) -> tuple[str, Any]:
    """What a name is after a branch: ("same", value), ("join", None) or ("unset", poison)."""
    if a is b or (isinstance(a, Value) and isinstance(b, Value) and a.var is b.var):
        return "same", a
    for side in (a, b):
        if isinstance(side, Unset):
            return "unset", side
    if is_traceable(a) and is_traceable(b):
        if is_number(a) and is_number(b) and type(a) is type(b) and a == b and str(a) == str(b):
            return "same", a
        return (
            ("join", None)
            if mergeable(a, b)
            else ("unset", Unset(name, f"it is {type_text(a)} in one arm and {type_text(b)} in the other"))
        )
    try:
        if type(a) is type(b) and bool(a == b):
            return "same", a
    except (TypeError, ValueError):  # values that do not compare are different values
        pass
    return "unset", Unset(name, f"it is {type_text(a)} in one arm and {type_text(b)} in the other")


def common_scalar(a: Any, b: Any) -> Any:
    """The dtype a scalar has after a branch whose arms leave `a` and `b`; None when they do not fit."""
    avals = [x.aval if isinstance(x, Value) else number_aval(x) for x in (a, b)]
    if dtypes.BOOL in (avals[0].dtype, avals[1].dtype) and avals[0].dtype is not avals[1].dtype:
        return None
    from pypto.lax.families import promote_scalars

    return promote_scalars(avals)


def mergeable(a: Any, b: Any) -> bool:
    kinds = {type(x) if isinstance(x, Value) else ScalarValue for x in (a, b)}
    if kinds == {ScalarValue}:
        return common_scalar(a, b) is not None
    if kinds <= {RefValue, TileValue}:
        return a.shape == b.shape and a.dtype is b.dtype
    return False


def bring(trace: PlTrace, x: Any, a: Any, b: Any) -> Any:
    """One arm's value in the type both arms share."""
    if isinstance(a, TileValue) or isinstance(b, TileValue):
        return trace.value(x, "a merged name", shares=True)
    if isinstance(a, RefValue):
        return x
    return trace.scalar_for(x, common_scalar(a, b), "a merged name")


def joined(a: Atom, b: Atom) -> Aval:
    return join(a.aval, b.aval)


Thunk = Callable[[], Any]
