"""The staging runtime: what a rewritten body's assignments, conditions, branches, loops and scopes become in the IR."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from pypto import dtypes, lax, tree
from pypto.core.avals import scalar
from pypto.core.ir import Atom, Jaxpr, Literal, Var
from pypto.core.trace import Scope
from pypto.errors import BodyError, OutputError, ShapeError
from pypto.language import carry
from pypto.language.directives import check_assertion
from pypto.language.grammar import shown
from pypto.language.loops import Loops
from pypto.language.protocol import Names, Thunk
from pypto.language.recovery import Broken, recover
from pypto.language.trace import PlTrace, Reopened, fetch
from pypto.language.types import Annotation, ArrayType, ScalarType, TensorType, TupleType, annotation_of, differ
from pypto.language.values import RefValue, ScalarValue, TileValue, Unset, Value
from pypto.language.viewing import viewed
from pypto.lax import control

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "is": operator.is_,
    "is not": operator.is_not,
    "in": lambda a, b: a in b,
    "not in": lambda a, b: a not in b,
}


class StagingRuntime(Loops):
    """One call of one rewritten function under a `PlTrace`.

    Args:
      outputs: the parameters annotated Out or InOut, by name; giving such a name to anything but the same buffer is an
        error, because nothing would be written.
      returns: the return annotation.
    """

    def __init__(self, trace: PlTrace, outputs: dict[str, RefValue], returns: Annotation | None = None) -> None:
        self.trace = trace
        self.outputs = outputs
        self.returns = returns
        self.declared: dict[str, Any] = {}

    # ---- assignment ----

    def assign(self, name: str, value: Any) -> Any:
        if isinstance(value, Broken):
            return value
        if isinstance(value, Unset):
            if value.held:
                return value
            raise value.error()
        parameter = self.outputs.get(name)
        if parameter is not None:
            recover(self.trace, lambda: self._check_output(name, parameter, value))
        if isinstance(value, Value):
            value = self._declared_dtype(name, value)
            if not value.var.name:
                value.var.name = shown(name)
        return value

    def _check_output(self, name: str, parameter: RefValue, value: Any) -> None:
        if isinstance(value, RefValue) and self.trace.base_of(value) is self.trace.base_of(parameter):
            return
        what = f"a new value {value.aval}" if isinstance(value, Value) else repr(value)
        raise OutputError(
            "PL201",
            f"`{name}` is an output parameter; this line only gives the name to {what}: the caller's buffer stays unwritten",
            fix=f"write through it: `{name}[:] = ...` for all of it, or `{name}[r0:r1, :] = ...` for a part",
        )

    def _declared_dtype(self, name: str, value: Value) -> Value:
        """A tensor created under a name says what dtype a matmul that replaces it gives."""
        if value.var in self.trace.created:
            self.declared[name] = value.dtype
        elif isinstance(value, TileValue) and name in self.declared and value.var in self.trace.defaulted:
            want = self.declared[name]
            if want is not value.dtype and want.is_float and value.dtype.is_float:
                return lax.convert.bind(value, dtype=want, mode="rint", overflow="saturate")
        return value

    def annotate(self, name: str, annotation: Thunk, value: Any) -> Any:
        return self._as_annotated(annotation_of(annotation()), value, f"`{name}`")

    def _as_annotated(self, kind: Annotation | None, value: Any, what: str) -> Any:
        """A value under an annotation: a scalar takes its dtype, the shape and dtype of anything else must be what it says."""
        if isinstance(kind, TupleType) and isinstance(value, tuple | list):
            if len(kind.parts) != len(value):
                raise ShapeError("PL301", f"{what} is {len(value)} values, annotated {kind!r}", fix="one part per value")
            return type(value)(
                [self._as_annotated(k, v, f"part {i} of {what}") for i, (k, v) in enumerate(zip(kind.parts, value, strict=True))]
            )
        if isinstance(kind, ScalarType) and isinstance(value, ScalarValue | bool | int | float):
            return self._typed(self.trace.scalar_for(value, kind.dtype, what))
        if kind is None or isinstance(value, Unset):
            return value
        fits = isinstance(value, RefValue | TileValue) and isinstance(kind, TensorType | ArrayType)
        if fits and isinstance(kind, ArrayType):
            fits = value.shape == (kind.extent,) and value.dtype is kind.dtype
        elif fits and isinstance(kind, TensorType):
            fits = kind.dtype in (None, value.dtype) and (kind.dims is None or not differ(kind.dims, value.shape))
        if not fits:
            raise ShapeError(
                "PL301" if isinstance(value, Value) and getattr(kind, "dtype", None) in (None, value.dtype) else "PL302",
                f"{what} is annotated {kind!r} and is {carry.type_text(value)}",
                fix="correct the annotation, or leave it out",
            )
        return viewed(self.trace, value, kind.view, what) if isinstance(kind, TensorType) else value

    def assert_(self, condition: Any, message: Thunk) -> None:
        if isinstance(condition, Unset):
            raise condition.error()
        if isinstance(condition, Value) and not self.trace.concrete:
            raise BodyError(
                "PL106",
                f"`assert` on {condition!r}, which is known only at run time",
                fix="assert what Python knows: static extents and captured constants; check the values of arguments before the call",
            )
        if not bool(condition):
            check_assertion(condition, message())

    def _typed(self, x: Any) -> Any:
        """A literal as a traced scalar of its dtype, so that it keeps it."""
        return (
            self.trace.process(lax.convert, [x], {"dtype": x.aval.dtype, "mode": "rint", "overflow": "saturate"})
            if isinstance(x, Literal)
            else x
        )

    def return_(self, value: Any) -> Any:
        parts, _ = tree.flatten(value)
        for part in parts:
            if isinstance(part, Unset) and not isinstance(part, Broken):
                raise part.error()
        if value is None and self.returns is not None:
            raise OutputError("PL209", f"this function is annotated to return {self.returns!r} and returns nothing", fix="`return` it")
        return self._as_annotated(self.returns, value, "the result")

    # ---- expressions ----

    def and_(self, first: Any, *rest: Thunk) -> Any:
        for thunk in rest:
            first = self._both(first, thunk, short=False)
        return first

    def or_(self, first: Any, *rest: Thunk) -> Any:
        for thunk in rest:
            first = self._both(first, thunk, short=True)
        return first

    def _both(self, first: Any, thunk: Thunk, *, short: bool) -> Any:
        """`first and second` (short: `or`): the second operand is only evaluated where Python would."""
        if not isinstance(first, Value) or self.trace.concrete:
            return first if bool(first) == short else thunk()
        _truth(first)
        with self.trace.inside("cond") as scope:
            second = thunk()
            second = second if isinstance(second, Value) else _boolean(second)
        op = lax.logical_or if short else lax.logical_and
        if not any(e.op.reads or e.op.writes or list(e.bodies()) for e in scope.eqns):
            scope_value = self._splice(scope, second)
            return op.bind(first, scope_value)
        constant = Literal(dtypes.BOOL.storage.type(short), scalar(dtypes.BOOL))
        other = Jaxpr((), (), (constant,))
        taken = Jaxpr((), tuple(scope.eqns), (second.var if isinstance(second, Value) else second,))
        then, orelse = (other, taken) if short else (taken, other)
        return self.trace.process(control.cond, [first], {"then": then, "orelse": orelse})

    def _splice(self, scope: Scope, value: Any) -> Any:
        """Move a finished scope's equations into the current one."""
        self.trace.scope.eqns.extend(scope.eqns)
        return type(value)(self.trace, value.var, self.trace.scope) if isinstance(value, Value) else value

    def not_(self, value: Any) -> Any:
        if not isinstance(value, Value) or self.trace.concrete:
            return not value
        _truth(value)
        return lax.logical_not.bind(value)

    def compare(self, first: Any, operators: Names, *rest: Thunk) -> Any:
        result: Any = True
        for spelled, thunk in zip(operators, rest, strict=True):
            held: list[Any] = []

            def step(left: Any = first, spelled: str = spelled, thunk: Thunk = thunk, held: list[Any] = held) -> Any:
                held.append(thunk())
                return OPERATORS[spelled](left, held[0])

            result = self._both(result, step, short=False)
            if not held:
                break
            first = held[0]
            if isinstance(first, Value) and not first.scope.open:
                first = type(first)(self.trace, first.var, self.trace.scope)
        return result

    def choose(self, test: Any, then: Thunk, orelse: Thunk) -> Any:
        name = "a conditional expression"
        (value,) = self.if_(test, lambda: (then(),), lambda: (orelse(),), (name,), (), ())
        if isinstance(value, Unset):
            raise value.error()
        return value

    # ---- branches ----

    def if_(
        self, test: Any, then: Callable[..., tuple], orelse: Callable[..., tuple], merged: Names, passed: Names, thunks: tuple[Thunk, ...]
    ) -> tuple:
        values = [fetch(n, t) for n, t in zip(passed, thunks, strict=True)]
        if isinstance(test, Unset):
            raise test.error()
        if not isinstance(test, Value) or self.trace.concrete:
            return self._arm(then if test else orelse, values)[0]
        _truth(test)
        return self._cond(test, then, orelse, merged, values)

    def _arm(self, arm: Callable[..., tuple], values: list[Any]) -> tuple[tuple, int]:
        """What an arm leaves, and how many values its `pl.yield_` gives: those name the branch's results, not the loop's."""
        self.trace.yields.append([])
        try:
            return arm(*values), len(self.trace.yields[-1])
        finally:
            self.trace.yields.pop()

    def _cond(self, test: Any, then: Callable[..., tuple], orelse: Callable[..., tuple], merged: Names, values: list[Any]) -> tuple:
        trace, arms = self.trace, []
        for arm in (then, orelse):
            with trace.inside("cond") as scope:
                arms.append((scope, *self._arm(arm, values)))
        (left, a, first), (right, b, second) = arms
        if first != second:
            raise BodyError(
                "PL102",
                f"one arm of this branch yields {first} values, the other {second}",
                fix="pl.yield_ as many values in both arms, or assign the names instead",
                at=left.where,
            )
        results: list[Any] = []
        joins: list[tuple[str, Any, Any]] = []
        for name, x, y in zip(merged, a, b, strict=True):
            results.append(self._merged(name, x, y, joins))
        outs: list[tuple[Atom, ...]] = []
        for scope, side in ((left, 0), (right, 1)):
            with Reopened(self.trace, scope):
                outs.append(tuple(trace.atom(carry.bring(trace, pair[side], *pair)) for _, *pair in joins))
        bodies = [Jaxpr((), tuple(s.eqns), tuple(o)) for s, o in zip((left, right), outs, strict=True)]
        made = trace.emit(control.cond, [trace.atom(test)], {"then": bodies[0], "orelse": bodies[1]})
        for var, (name, *pair) in zip(made, joins, strict=True):
            var.name = shown(name) if name.isidentifier() else ""  # a conditional expression has no name
            self._shared_base(var, pair)
        wrapped = iter([trace.wrap(v) for v in made])
        return tuple(
            tree.tree_map(lambda r: next(wrapped) if r is _JOIN else r, r) if not isinstance(r, Value | Unset) else r for r in results
        )

    def _merged(self, name: str, x: Any, y: Any, joins: list[tuple[str, Any, Any]]) -> Any:
        """One name after a branch; containers of one structure are merged part by part."""
        left, structure = tree.flatten(x)
        right, other = tree.flatten(y)
        if structure != other:
            return Unset(name, "its structure differs between the arms")
        parts: list[Any] = []
        for p, q in zip(left, right, strict=True):
            how, value = carry.merge(self.trace, name, p, q)
            if how == "unset":
                return value
            if how == "join":
                joins.append((name, p, q))
                value = _JOIN
            elif isinstance(value, Value) and not value.scope.open:
                return Unset(name, "it was made inside a branch that has ended")
            parts.append(value)
        return tree.unflatten(structure, parts)

    def _shared_base(self, var: Var, pair: Sequence[Any]) -> None:
        """A handle chosen between windows of one buffer is a window of it."""
        bases = {self.trace.base_of(x) for x in pair if isinstance(x, RefValue)}
        if len(bases) == 1:
            self.trace.base[var] = bases.pop()


class _Join:
    """Marks a part of a merged value that comes out of the branch."""


_JOIN = _Join()


def _truth(test: Any) -> None:
    if not (isinstance(test, ScalarValue) and test.dtype is dtypes.BOOL):
        raise BodyError("PL106", f"a condition is {test.aval}, not a truth value", fix="compare: x != 0; for tiles pl.cmp and pl.sel")


def _boolean(x: Any) -> Any:
    if isinstance(x, Unset):
        raise x.error()
    return Literal(dtypes.BOOL.storage.type(bool(x)), scalar(dtypes.BOOL))
