"""The staging runtime: what a rewritten body's loops, branches, scopes and assignments become in the IR."""

from __future__ import annotations

import builtins
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from pypto import dtypes, lax, tree
from pypto.core.avals import RefAval, ScalarAval, TileAval, scalar
from pypto.core.ir import Jaxpr, Literal, Var
from pypto.core.trace import Scope
from pypto.errors import BodyError, OutputError, PyptoWarning, TaskError, warning_text
from pypto.language import access, carry
from pypto.language.carry import Leaf, Mismatch, is_number
from pypto.language.protocol import Names, Thunk
from pypto.language.scopes import At, Loop
from pypto.language.trace import PlTrace
from pypto.language.types import ScalarType, annotation_of
from pypto.language.values import RefValue, ScalarValue, TileValue, Unset, Value
from pypto.platform import Space
from pypto.source import resolve, user_frame

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


def fetch(name: str, thunk: Thunk) -> Any:
    """The value of a name, or the poison of an unset one."""
    try:
        return thunk()
    except NameError:
        return Unset(name)


class StagingRuntime:
    """One call of one rewritten function under a `PlTrace`.

    Args:
      outputs: the parameters annotated Out or InOut, by name; giving such a name to anything but the same buffer is an
        error, because nothing would be written.
    """

    def __init__(self, trace: PlTrace, outputs: dict[str, RefValue]) -> None:
        self.trace = trace
        self.outputs = outputs
        self.declared: dict[str, Any] = {}

    # ---- assignment ----

    def assign(self, name: str, value: Any) -> Any:
        if isinstance(value, Unset):
            raise value.error()
        parameter = self.outputs.get(name)
        if parameter is not None:
            self._check_output(name, parameter, value)
        if isinstance(value, Value):
            value = self._declared_dtype(name, value)
            if not value.var.name:
                value.var.name = name
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
        kind = annotation_of(annotation())
        if isinstance(kind, ScalarType) and isinstance(value, ScalarValue | bool | int | float):
            return self._typed(self.trace.scalar_for(value, kind.dtype, f"`{name}`"))
        return value

    def _typed(self, x: Any) -> Any:
        """A literal as a traced scalar of its dtype, so that it keeps it."""
        return self.trace.process(lax.convert, [x], {"dtype": x.aval.dtype, "mode": "rint", "overflow": "saturate"}) if isinstance(x, Literal) else x

    def return_(self, value: Any) -> Any:
        parts, _ = tree.flatten(value)
        for part in parts:
            if isinstance(part, Unset):
                raise part.error()
        return value

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
        return self.trace.process(lax.cond, [first], {"then": then, "orelse": orelse})

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
        self.trace.yields.append([])  # a yield_ in an arm names the branch's results, not the loop's
        try:
            if not isinstance(test, Value) or self.trace.concrete:
                return (then if test else orelse)(*values)
            _truth(test)
            return self._cond(test, then, orelse, merged, values)
        finally:
            self.trace.yields.pop()

    def _cond(self, test: Any, then: Callable[..., tuple], orelse: Callable[..., tuple], merged: Names, values: list[Any]) -> tuple:
        trace, arms = self.trace, []
        for arm in (then, orelse):
            with trace.inside("cond") as scope:
                arms.append((scope, arm(*values)))
        (left, a), (right, b) = arms
        results: list[Any] = []
        joins: list[tuple[str, Any, Any]] = []
        for name, x, y in zip(merged, a, b, strict=True):
            results.append(self._merged(name, x, y, joins))
        outs: list[tuple[Any, Any]] = []
        for scope, side in ((left, 0), (right, 1)):
            with self._reopened(scope):
                outs.append(tuple(trace.atom(carry.bring(trace, pair[side], *pair)) for _, *pair in joins))
        bodies = [Jaxpr((), tuple(s.eqns), tuple(o)) for s, o in zip((left, right), outs, strict=True)]
        made = trace.emit(lax.cond, [trace.atom(test)], {"then": bodies[0], "orelse": bodies[1]})
        for var, (name, *pair) in zip(made, joins, strict=True):
            var.name = name
            self._shared_base(var, pair)
        wrapped = iter([trace.wrap(v) for v in made])
        return tuple(tree.tree_map(lambda r: next(wrapped) if r is _JOIN else r, r) if not isinstance(r, Value | Unset) else r for r in results)

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

    def _reopened(self, scope: Scope) -> Any:
        return _Reopened(self.trace, scope)

    # ---- loops ----

    def for_(
        self,
        iterator: Any,
        body: Callable[..., tuple],
        target: str,
        carried: Names,
        thunks: tuple[Thunk, ...],
        state: Names,
        stale_inits: Names,
    ) -> tuple:
        loop = self._loop(iterator)
        if len(loop.init_values) != len(state):
            raise BodyError(
                "PL102",
                f"{len(loop.init_values)} init_values for {len(state)} state names",
                fix="for i, (a, b) in pl.range(n, init_values=(x, y)):",
            )
        values = [*loop.init_values, *(fetch(n, t) for n, t in zip(carried, thunks, strict=True))]
        for value in loop.init_values:
            if isinstance(value, Unset):
                raise value.error()
        for name in stale_inits:
            self._warn_stale(name, state)
        names = (*state, *carried)
        if loop.kind == "spmd":
            return self._spmd_loop(loop, body, target, names, values)
        if loop.kind == "unroll" or self.trace.concrete:
            return self._repeat(loop, body, values, len(state))
        return self._traced_loop(loop, body, target, names, values, len(state))

    def _warn_stale(self, name: str, state: Names) -> None:
        text = warning_text(
            "PL208",
            f"`{name}` is only the initial value of this loop's carry; after the loop it still has that value",
            fix=f"read {' or '.join(f'`{s}`' for s in state)} for the result",
        )
        warnings.warn(text, PyptoWarning, stacklevel=2)

    def _loop(self, iterator: Any) -> Loop:
        if type(iterator) is builtins.range:
            raise BodyError(
                "PL103",
                "a `for` statement over Python's range: is this a loop on the device, or should the body be repeated?",
                fix="pl.range(...) loops, pl.unroll(...) repeats the body at compile time, pl.parallel / pl.spmd spread it over cores",
            )
        if not isinstance(iterator, Loop):
            raise BodyError(
                "PL104", f"a `for` statement over {type(iterator).__name__}", fix="pl.range, pl.pipeline, pl.parallel, pl.unroll or pl.spmd"
            )
        inside = self.trace.in_region
        if iterator.kind == "spmd" and inside:
            raise BodyError("PL105", "pl.spmd inside a region", fix="it opens its own region: move it out of `with pl.at` or the other pl.spmd")
        if iterator.kind == "parallel" and inside and not self.trace.in_core_function:
            raise BodyError("PL105", "pl.parallel inside pl.at", fix="pl.range or pl.pipeline inside a region; pl.parallel around it")
        if iterator.kind == "pipeline" and not inside:
            raise BodyError("PL105", "pl.pipeline outside a region", fix="pl.range or pl.parallel in orchestration; pl.pipeline under pl.at")
        return iterator

    def _repeat(self, loop: Loop, body: Callable[..., tuple], values: Sequence[Any], states: int) -> tuple:
        """Run the body once per index, now."""
        bounds = [self._number(loop.kind, b) for b in (loop.start, loop.stop, loop.step)]
        result = tuple(values)
        for i in builtins.range(*bounds):
            self.trace.yields.append([])
            result = tuple(body(i, *result))
            fed = self.trace.yields.pop()
            if fed:
                result = (*self._yielded(fed, states), *result[states:])
        return result

    def _number(self, kind: str, x: Any) -> int:
        if self.trace.concrete and isinstance(x, ScalarValue):
            return int(x)
        x = access.offset(self.trace, x, f"a bound of pl.{kind}")
        if isinstance(x, ScalarValue):
            value = x.index.value if x.index is not None else None
            if value is None:
                raise BodyError("PL106", f"pl.{kind} repeats its body at compile time, but a bound is known only at run time", fix="pl.range")
            return value
        return x

    def _yielded(self, fed: list[Any], states: int) -> tuple:
        if len(fed) != states:
            raise BodyError("PL102", f"pl.yield_ gives {len(fed)} values for {states} state names", fix="one per name of init_values=")
        return tuple(fed)

    def _traced_loop(
        self, loop: Loop, body: Callable[..., tuple], target: str, names: Names, values: list[Any], states: int
    ) -> tuple:
        trace = self.trace
        bounds = [access.offset(trace, b, f"a bound of pl.{loop.kind}") for b in (loop.start, loop.stop, loop.step)]
        operands = [trace.atom(access.operand(trace, b)) for b in bounds]
        runs = all(isinstance(b, int) for b in bounds) and len(builtins.range(*bounds)) > 0  # type: ignore[arg-type]
        with trace.inside("loop") as scope:
            index = trace.new(scalar(dtypes.INDEX), target)
            inputs, leaves = [], []
            for name, value in zip(names, values, strict=True):
                seen, parts = carry.enter(trace, name, value)
                inputs.append(seen)
                leaves.append(parts)
            trace.yields.append([])
            after = list(body(index, *inputs))
            fed = trace.yields.pop()
            results_of = list(after)
            if fed:
                after[:states] = self._yielded(fed, states)
            carries = _Carries(trace, scope, runs)
            plan = [carries.name(n, v, p, a) for n, v, p, a in zip(names, values, leaves, after, strict=True)]
        inits = [trace.atom(self._init(before, leaf)) for leaf, before, _ in carries.kept]
        jaxpr = Jaxpr((index.var, *(leaf.inside.var for leaf, _, _ in carries.kept)), tuple(scope.eqns), tuple(o for _, _, o in carries.kept))
        made = trace.emit(lax.loop, [*operands, *inits], {"body": jaxpr, "kind": loop.kind, "stage": loop.stage})
        for var, (leaf, _, out) in zip(made, carries.kept, strict=True):
            var.name = leaf.name
            if isinstance(out, Var) and isinstance(var.aval, RefAval):
                start = leaf.before.var if isinstance(leaf.before, RefValue) else None
                if start is not None and trace.base_of(trace.wrap(out)) is trace.base_of(leaf.before):
                    trace.base[var] = start
        outs = [trace.wrap(v) for v in made]
        result = [finish(outs) for finish in plan]
        return self._yield_targets(results_of, after, result, states, names, fed)

    def _init(self, before: Any, leaf: Leaf) -> Any:
        """What enters the loop, in the type the body's input settled on."""
        aval = leaf.inside.var.aval
        if isinstance(before, _NoInit):
            (out,) = self.trace.emit(lax.unset, [], {"aval": before.aval}, [before.aval])
            return self.trace.wrap(out)
        if isinstance(aval, ScalarAval):
            return self.trace.scalar_for(before, aval.dtype, leaf.name)
        return self.trace.value(before, leaf.name) if isinstance(aval, TileAval) else before

    @staticmethod
    def _yield_targets(body_values: list[Any], after: list[Any], result: list[Any], states: int, names: Names, fed: list[Any]) -> tuple:
        """`total = pl.yield_(x)`: the target names the loop's result; it is the init when the loop never runs."""
        for k in builtins.range(states, len(names)):
            for s, value in enumerate(fed):
                if body_values[k] is value and isinstance(value, Value):
                    result[k] = result[s]
        return tuple(result)

    # ---- regions ----

    def with_(
        self, context: Any, body: Callable[..., tuple], target: str | None, escaping: Names, passed: Names, thunks: tuple[Thunk, ...]
    ) -> tuple:
        values = [fetch(n, t) for n, t in zip(passed, thunks, strict=True)]
        if isinstance(context, Loop) and context.kind == "spmd":
            return self._spmd_scope(context, body, target, escaping, values)
        if not isinstance(context, At):
            raise BodyError("PL104", f"a `with` statement over {type(context).__name__}", fix="pl.at(...) or pl.spmd(n)")
        first = [self._task(context)] if target is not None else []
        if self.trace.in_region:  # a named part of the region around it
            return tuple(body(*first, *values))
        with self.trace.region("at") as scope:
            results = body(*first, *values)
            kept = self._escape(scope, escaping, results)
        self._emit_region(scope, (), "at", context.name, context.options, None)
        return tuple(self._after(v) for v in kept)

    def _task(self, context: At | Loop) -> Any:
        from pypto.language.values import Unset as Poison

        return Poison("tid", "task ids come with the scopes of a later version")

    def _emit_region(self, scope: Scope, invars: Sequence[Any], kind: str, name: str, options: Any, size: Any) -> None:
        jaxpr = Jaxpr(tuple(v.var for v in invars), tuple(scope.eqns), ())
        ins = [] if size is None else [self.trace.atom(access.operand(self.trace, size))]
        self.trace.emit(lax.region, ins, {"body": jaxpr, "kind": kind, "name": name, "options": options})

    def _escape(self, scope: Scope, names: Names, values: Sequence[Any]) -> list[Any]:
        """Values that outlive a region are stored to fresh buffers at its end. Called with the region still open."""
        if self.trace.concrete:
            return list(values)
        return [tree.tree_map(lambda part, n=name: self._escaping(scope, n, part), v) if not isinstance(v, Value | Unset) else self._escaping(scope, name, v) for name, v in zip(names, values, strict=True)]

    def _escaping(self, scope: Scope, name: str, value: Any) -> Any:
        trace = self.trace
        if not isinstance(value, Value) or value.scope is not scope:
            return value
        if isinstance(value, RefValue):
            return Unset(name, "it is a view made inside a region that has ended; make the view outside")
        shape = value.shape if isinstance(value, TileValue) else (1,)
        dtype = value.dtype if value.dtype is not dtypes.MASK else None
        if dtype is None:
            return Unset(name, "it is a predicate mask, which cannot leave its region; use pl.sel there")
        buffer = self._buffer_before(scope, shape, dtype, name)
        if isinstance(value, ScalarValue):
            trace.process(lax.set_, [buffer, value, 0], {"sizes": (1,), "drop": ()})
            return _Read(buffer)
        trace.process(lax.set_, [buffer, value, *([0] * len(shape))], {"sizes": shape, "drop": ()})
        if value.aval.valid is not None:
            return _PartlyValid(buffer, [self._valid_extent(scope, name, value, a) for a in builtins.range(len(shape))])
        return buffer

    def _valid_extent(self, scope: Scope, name: str, value: TileValue, axis: int) -> Any:
        known = value.aval.valid_shape[axis]
        if known is not None:
            return known
        extent = self.trace.process(lax.valid_extent, [value], {"axis": axis})
        buffer = self._buffer_before(scope, (1,), dtypes.INT64, f"{name}_valid{axis}")
        as_int = lax.convert.bind(extent, dtype=dtypes.INT64, mode="rint", overflow="wrap")
        self.trace.process(lax.set_, [buffer, as_int, 0], {"sizes": (1,), "drop": ()})
        return _Read(buffer)

    def _buffer_before(self, scope: Scope, shape: tuple[Any, ...], dtype: Any, name: str) -> RefValue:
        """A fresh buffer allocated just outside the region under construction."""
        assert scope.parent is not None
        with _Reopened(self.trace, scope.parent, keep=True):
            params = {"shape": tuple(shape), "dtype": dtype, "space": Space.DDR, "init": None, "name": name}
            (var,) = self.trace.emit(lax.alloc, [], params, [RefAval(tuple(shape), dtype)])
            var.name = name
            return self.trace.wrap(var)

    def _after(self, value: Any) -> Any:
        """An escaped value, seen from outside the region."""
        if isinstance(value, _Read):
            return self.trace.process(lax.read, [value.buffer, 0], {})
        if isinstance(value, _PartlyValid):
            self.trace.valid_of[value.buffer.var] = tuple(self._after(v) for v in value.valid)
            return value.buffer
        if isinstance(value, tuple | list) and not isinstance(value, Value):
            return tree.tree_map(self._after, value)
        return value

    # ---- spmd ----

    def _spmd_loop(self, loop: Loop, body: Callable[..., tuple], target: str, names: Names, values: list[Any]) -> tuple:
        return self._spmd(loop, lambda i: body(i, *values), target, names, values)

    def _spmd_scope(self, loop: Loop, body: Callable[..., tuple], target: str | None, names: Names, values: list[Any]) -> tuple:
        if self.trace.in_region:
            raise BodyError("PL105", "pl.spmd inside a region", fix="it opens its own region: move it out of `with pl.at`")
        before = self.trace.block_reads
        first = [self._task(loop)] if target is not None else []
        result = self._spmd(loop, lambda i: body(*first, *values), "block", names, [None] * len(names))
        if self.trace.block_reads == before:
            raise TaskError(
                "PL502",
                "every block of this pl.spmd does the same: its body neither reads the block index nor calls an in-core kernel that does",
                fix="i = pl.tile.get_block_idx(), or the loop form `for i in pl.spmd(n):`",
            )
        return result

    def _spmd(self, loop: Loop, run: Callable[[Any], tuple], target: str, names: Names, values: list[Any]) -> tuple:
        trace = self.trace
        count = access.offset(trace, loop.stop, "the block count of pl.spmd")
        if isinstance(count, int) and count < 1:
            raise TaskError("PL502", f"pl.spmd({count}) has no blocks", fix="a positive number of blocks")
        if trace.concrete:
            return self._spmd_now(count, run, names, values)
        with trace.region("spmd", spmd=True, count=count) as scope:
            index = trace.new(scalar(dtypes.INDEX), target)
            trace.block_index = index
            results = run(index)
            kept = [self._per_block(scope, n, v) for n, v in zip(names, results, strict=True)]
        self._emit_region(scope, (index,), "spmd", loop.name, loop.options, count)
        return tuple(kept)

    def _spmd_now(self, count: Any, run: Callable[[Any], tuple], names: Names, values: list[Any]) -> tuple:
        results: tuple = tuple(values)
        with self.trace.region("spmd", spmd=True, count=count):
            for i in builtins.range(int(count)):
                self.trace.block_index = i  # type: ignore[assignment]
                results = run(i)
        return tuple(v if isinstance(v, RefValue) else Unset(n, _PER_BLOCK) for n, v in zip(names, results, strict=True))

    @staticmethod
    def _per_block(scope: Scope, name: str, value: Any) -> Any:
        if isinstance(value, Value) and not value.scope.open or isinstance(value, Value) and value.scope is scope:
            return Unset(name, _PER_BLOCK)
        return value


_PER_BLOCK = "it is made once per block of a pl.spmd and cannot be used after it; write it to a tensor"


class _Join:
    """Marks a part of a merged value that comes out of the branch."""


_JOIN = _Join()


class _Read:
    """A scalar that leaves a region through a buffer of one element."""

    def __init__(self, buffer: RefValue) -> None:
        self.buffer = buffer


class _PartlyValid:
    """A partly valid tile that leaves a region through a buffer."""

    def __init__(self, buffer: RefValue, valid: list[Any]) -> None:
        self.buffer, self.valid = buffer, valid


class _NoInit:
    """Stands for the missing initial value of a name first set inside a loop that runs."""

    def __init__(self, aval: Any) -> None:
        self.aval = aval


class _Reopened:
    """Emit into a scope that is not the current one."""

    def __init__(self, trace: PlTrace, scope: Scope, *, keep: bool = False) -> None:
        self.trace, self.scope, self.keep = trace, scope, keep

    def __enter__(self) -> None:
        self.outer = self.trace.scope
        self.trace.scope, self.scope.open = self.scope, True

    def __exit__(self, *_: Any) -> None:
        self.trace.scope = self.outer
        self.scope.open = self.keep


class _Carries:
    """Decides for each name of a loop whether it is carried, and as what."""

    def __init__(self, trace: PlTrace, scope: Scope, runs: bool) -> None:
        self.trace, self.scope, self.runs = trace, scope, runs
        self.kept: list[tuple[Leaf, Any, Any]] = []

    def name(self, name: str, value: Any, leaves: list[Leaf], after: Any) -> Callable[[list[Any]], Any]:
        """Plan one name; the result turns the loop's outputs into the name's value after the loop."""
        if isinstance(value, Unset):
            return self._first_set_inside(name, after)
        parts, structure = tree.flatten(after)
        _, before = tree.flatten(value)
        if structure != before:
            raise carry.carry_error(Leaf(name, value, value), after, self._where(after))
        plans = [self._leaf(leaf, part) for leaf, part in zip(leaves, parts, strict=True)]
        return lambda outs: tree.unflatten(structure, [p(outs) for p in plans])

    def _leaf(self, leaf: Leaf, after: Any) -> Callable[[list[Any]], Any]:
        trace = self.trace
        if isinstance(after, Unset):
            return lambda outs: Unset(leaf.name, after.why or "the last turn of the loop may leave it unset")
        if isinstance(leaf.inside, Value):
            if isinstance(after, Value) and trace.resolved(after.var) is leaf.inside.var:
                return self._unchanged(leaf)
            if is_number(leaf.before) and is_number(after) and type(after) is type(leaf.before) and after == leaf.before:
                return self._unchanged(leaf)
            if isinstance(leaf.before, RefValue) and isinstance(after, RefValue) and trace.resolved(after.var) is trace.resolved(leaf.before.var):
                return self._unchanged(leaf)
            return self._carried(leaf, after)
        if not isinstance(after, Value) and _same_python(leaf.before, after):
            return lambda outs: leaf.before
        raise carry.carry_error(leaf, after, self._where(after))

    def _unchanged(self, leaf: Leaf) -> Callable[[list[Any]], Any]:
        """The body leaves the name alone: what it saw is what was there before, and there is no carry."""
        before = self.trace.atom(self._plain(leaf))
        self.trace.aliases[leaf.inside.var] = before
        return lambda outs: leaf.before

    def _plain(self, leaf: Leaf) -> Any:
        aval = leaf.inside.var.aval
        return self.trace.scalar_for(leaf.before, aval.dtype, leaf.name) if is_number(leaf.before) else leaf.before

    def _carried(self, leaf: Leaf, after: Any) -> Callable[[list[Any]], Any]:
        try:
            before, value = carry.settle(self.trace, self.scope, leaf, after)
        except Mismatch:
            raise carry.carry_error(leaf, after, self._where(after)) from None
        position = len(self.kept)
        self.kept.append((leaf, before, self.trace.atom(value)))
        return lambda outs: outs[position]

    def _first_set_inside(self, name: str, after: Any) -> Callable[[list[Any]], Any]:
        why = "it is set inside a loop that may not run"
        parts, structure = tree.flatten(after)
        if isinstance(after, Unset) or not all(isinstance(p, Value) or is_number(p) for p in parts) or not self.runs:
            if not any(isinstance(p, Value | Unset) for p in parts) and self.runs:
                return lambda outs: after  # a plain Python value
            return lambda outs: Unset(name, why)
        plans = []
        for part in parts:
            value = part if isinstance(part, Value) else self.trace.scalar_for(part, carry.number_aval(part).dtype, name)
            inside = self.trace.new(value.aval, name)
            leaf = Leaf(name, _NoInit(value.aval), inside)
            plans.append(len(self.kept))
            self.kept.append((leaf, leaf.before, self.trace.atom(value)))
        return lambda outs: tree.unflatten(structure, [outs[p] for p in plans])

    def _where(self, after: Any) -> Any:
        if isinstance(after, Value):
            for e in reversed(self.scope.eqns):
                if after.var in e.outs:
                    return resolve(e.source)
        return resolve(self.scope.where) or resolve(user_frame())


def _same_python(a: Any, b: Any) -> bool:
    if a is b:
        return True
    try:
        return type(a) is type(b) and bool(a == b)
    except (TypeError, ValueError):  # values that do not compare are different values
        return False


def _truth(test: Any) -> None:
    if not (isinstance(test, ScalarValue) and test.dtype is dtypes.BOOL):
        raise BodyError("PL106", f"a condition is {test.aval}, not a truth value", fix="compare: x != 0; for tiles pl.cmp and pl.sel")


def _boolean(x: Any) -> Any:
    if isinstance(x, Unset):
        raise x.error()
    return Literal(dtypes.BOOL.storage.type(bool(x)), scalar(dtypes.BOOL))
