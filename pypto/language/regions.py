"""Regions: `with pl.at`, both forms of `pl.spmd`, and how values leave them."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from pypto import dtypes, lax, tree
from pypto.core.avals import RefAval, scalar
from pypto.core.index import is_static
from pypto.core.ir import Jaxpr, Var
from pypto.core.trace import Scope
from pypto.errors import BodyError, TaskError
from pypto.language import access
from pypto.language.barriers import check_barriers
from pypto.language.lanes import check_lanes
from pypto.language.protocol import Names, Thunk
from pypto.language.scopes import At, Loop, Mark
from pypto.language.tasks import Dispatch, dispatch, part_asks_nothing
from pypto.language.trace import PlTrace, Reopened, fetch
from pypto.language.values import RefValue, ScalarValue, TileValue, Unset, Value
from pypto.lax import control
from pypto.platform import Space

_SKIPPED = "the predicate of its pl.spmd was false"
_PER_BLOCK = "it is made once per block of a pl.spmd and cannot be used after it; write it to a tensor"


class _Read:
    """A scalar that leaves a region through a buffer of one element."""

    def __init__(self, buffer: RefValue) -> None:
        self.buffer = buffer


class _PartlyValid:
    """A partly valid tile that leaves a region through a buffer."""

    def __init__(self, buffer: RefValue, valid: list[Any]) -> None:
        self.buffer, self.valid = buffer, valid


def _chosen(scope: Scope, handle: Var) -> bool:
    """Whether a loop or branch of a region decides which buffer this is."""
    return any(handle in e.outs for e in scope.eqns if e.op in (lax.loop, control.cond))


class Regions:
    """The part of the staging runtime that opens and closes regions."""

    trace: PlTrace

    def with_(
        self, context: Any, body: Callable[..., tuple], target: str | None, escaping: Names, passed: Names, thunks: tuple[Thunk, ...]
    ) -> tuple:
        values = [fetch(n, t) for n, t in zip(passed, thunks, strict=True)]
        if isinstance(context, Mark):
            return self._marked(context, body, target, values)
        if isinstance(context, Loop) and context.kind == "spmd":
            before = dict(zip(passed, values, strict=True))
            return self._spmd_scope(context, body, target, escaping, values, [before.get(n, Unset(n, _SKIPPED)) for n in escaping])
        if not isinstance(context, At):
            raise BodyError("PL104", f"a `with` statement over {type(context).__name__}", fix="pl.at(...), pl.spmd(n) or pl.scope()")
        if self.trace.in_region:
            return self._part(context, body, target, values)
        asks = dispatch(self.trace, context.asked, "pl.at", named=target is not None)
        pending = self._pending(target)
        chunked = any("auto_chunk" in chosen for key, chosen in context.options if key == "optimizations")
        self.trace.chunked = chunked
        try:
            with self.trace.region("at") as scope:
                results = body(*pending, *values)
                marked = self.trace.no_dep
                kept = self._escape(scope, escaping, results)
        finally:
            self.trace.chunked = False
        task = self._emit_region(scope, (), "at", context.name, self.trace.region_options(context.options), [], asks, marked, target)
        return tuple(task if _is_one(v, pending) else tree.tree_map(self._after, v) for v in kept)

    def _marked(self, mark: Mark, body: Callable[..., tuple], target: str | None, values: Sequence[Any]) -> tuple:
        """A scope or cluster: its edges are marked, and its body stands where it stands."""
        _check_mark(self.trace, mark, target)
        self.trace.scopes.append(mark.kind)
        try:
            self._edge("open", mark.kind, mark.name)
            result = body(*values)
            self._edge("close", mark.kind, mark.name)
        finally:
            self.trace.scopes.pop()
        return tuple(result)

    def _edge(self, edge: str, kind: str, name: str, options: tuple[tuple[str, Any], ...] = ()) -> None:
        self.trace.emit(lax.scope, [], {"edge": edge, "kind": kind, "name": name, "options": options})

    def _part(self, context: At, body: Callable[..., tuple], target: str | None, values: Sequence[Any]) -> tuple:
        """A named part of the region around it."""
        part_asks_nothing(context.asked)
        pending = [Unset(target, "pl.at inside a region is a part of it and no task")] if target is not None else []
        self._edge("open", "part", context.name, context.options)
        result = body(*pending, *values)
        self._edge("close", "part", context.name)
        return tuple(result)

    @staticmethod
    def _pending(target: str | None) -> list[Unset]:
        """What the `as` name stands for until its task exists."""
        return [Unset(target, "a task has an id once its `with` block has ended")] if target is not None else []

    def _emit_region(
        self,
        scope: Scope,
        invars: Sequence[Any],
        kind: str,
        name: str,
        options: Any,
        size: list[Any],
        asks: Dispatch,
        marked: Sequence[Any],
        target: str | None,
    ) -> Any:
        """The equation of a task; returns its id if it has a name."""
        trace = self.trace
        launch, operands = asks.operands(trace, marked)
        if trace.concrete:  # the body has run; what is left is the id
            return trace.process(lax.task_dummy, asks.deps, {}) if target is not None else None
        jaxpr = Jaxpr(tuple(v.var for v in invars), tuple(scope.eqns), ())
        check_barriers(jaxpr)
        check_lanes(jaxpr)
        ins = [trace.atom(access.operand(trace, n)) for n in size]
        params = {"body": jaxpr, "kind": kind, "name": name, "options": options, "launch": launch}
        outs = trace.emit(lax.region, [*ins, *operands], params)
        if not outs:
            return None
        outs[0].name = target or ""
        return trace.wrap(outs[0])

    def _escape(self, scope: Scope, names: Names, values: Sequence[Any]) -> list[Any]:
        """Values that outlive a region are stored to fresh buffers at its end. Called with the region still open.

        Two names of one tile are two names of its buffer afterwards.
        """
        stored: dict[Var, Any] = {}

        def part(name: str, value: Any) -> Any:
            if not isinstance(value, Value) or value.scope is not scope:
                return value
            if value.var not in stored:
                stored[value.var] = self._escaping(scope, name, value)
            return stored[value.var]

        return [tree.tree_map(lambda v, n=name: part(n, v), value) for name, value in zip(names, values, strict=True)]

    def _escaping(self, scope: Scope, name: str, value: Value) -> Any:
        trace = self.trace
        if isinstance(value, RefValue):
            if not _chosen(scope, value.var) or not is_static(value.shape):
                return Unset(name, "it is a view made inside a region that has ended; make the view outside")
            value = access.load_whole(trace, value, shares=True)
        shape = value.shape if isinstance(value, TileValue) else (1,)
        dtype = value.dtype if value.dtype is not dtypes.MASK else None
        if dtype is None:
            return Unset(name, "it is a predicate mask, which cannot leave its region; use pl.sel there")
        buffer = self._buffer_before(scope, shape, dtype, name)
        if isinstance(value, ScalarValue):
            trace.process(lax.set_, [buffer, value, 0], {"sizes": (1,), "drop": ()})
            return _Read(buffer)
        trace.process(lax.set_, [buffer, value, *([0] * len(shape))], {"sizes": shape, "drop": (), "shares": True})
        assert isinstance(value, TileValue)
        trace.escaped[value.var] = name
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
        with Reopened(self.trace, scope.parent, keep=True):
            params = {"shape": tuple(shape), "dtype": dtype, "space": Space.DDR, "init": None, "name": name}
            (var,) = self.trace.emit(lax.alloc, [], params, [RefAval(tuple(shape), dtype)])
            var.name = name
            return self.trace.wrap(var)

    def _after(self, value: Any) -> Any:
        """An escaped value, seen from outside the region."""
        if isinstance(value, _Read):
            return self.trace.process(lax.read, [value.buffer, 0], {})
        if isinstance(value, _PartlyValid):
            return self._seen_partly(value.buffer, [self._after(v) for v in value.valid])
        return value

    def _seen_partly(self, buffer: RefValue, valid: list[Any]) -> RefValue:
        """The handle of a buffer of which only the leading extents hold data."""
        known = tuple(v if isinstance(v, int) else None for v in valid)
        extents = [v for v in valid if not isinstance(v, int)]
        made = self.trace.derive(buffer, lax.valid_view, [buffer, *extents], {"known": known}, buffer.shape)
        made.var.name = buffer.var.name
        return made

    # ---- spmd ----

    def _spmd_loop(self, loop: Loop, body: Callable[..., tuple], target: str, names: Names, values: list[Any]) -> tuple:
        if loop.asked.deps is not None:
            raise _no_deps(f"for {target} in pl.spmd(...)")
        return self._spmd(loop, lambda i: body(i, *values), target, names, values, [], None)

    def _spmd_scope(
        self, loop: Loop, body: Callable[..., tuple], target: str | None, names: Names, values: list[Any], untouched: list[Any]
    ) -> tuple:
        if self.trace.in_region:
            raise BodyError("PL105", "pl.spmd inside a region", fix="it opens its own region: move it out of `with pl.at`")
        if loop.asked.deps is not None and target is None:
            raise _no_deps("with pl.spmd(...)")
        before = self.trace.block_reads
        pending = self._pending(target)
        result = self._spmd(loop, lambda i: body(*pending, *values), "block", names, untouched, pending, target)
        skipped = self.trace.concrete and loop.asked.predicate is not None and not bool(loop.asked.predicate)
        if self.trace.block_reads == before and not skipped:
            raise TaskError(
                "PL502",
                "every block of this pl.spmd does the same: its body neither reads the block index nor calls an in-core kernel that does",
                fix="i = pl.tile.get_block_idx(), or the loop form `for i in pl.spmd(n):`",
            )
        return result

    def _spmd(
        self,
        loop: Loop,
        run: Callable[[Any], tuple],
        target: str,
        names: Names,
        values: list[Any],
        pending: list[Unset],
        task: str | None,
    ) -> tuple:
        trace = self.trace
        count = access.offset(trace, loop.stop, "the block count of pl.spmd")
        if isinstance(count, int) and count < 1:
            raise TaskError("PL502", f"pl.spmd({count}) has no blocks", fix="a positive number of blocks")
        asks = dispatch(trace, loop.asked, "pl.spmd", named=task is not None)
        if trace.concrete:
            kept: Sequence[Any] = self._spmd_now(count, run, names, values, asks)
            tid = self._emit_region(trace.scope, (), "spmd", loop.name, loop.options, [count], asks, [], task)
        else:
            with trace.region("spmd", spmd=True, count=count) as scope:
                index = trace.new(scalar(dtypes.INDEX), target)
                trace.block_index = index
                results = run(index)
                marked = trace.no_dep
                kept = [v if _is_one(v, pending) else self._per_block(scope, n, v) for n, v in zip(names, results, strict=True)]
            tid = self._emit_region(scope, (index,), "spmd", loop.name, trace.region_options(loop.options), [count], asks, marked, task)
        return tuple(tid if _is_one(v, pending) else v for v in kept)

    def _spmd_now(self, count: Any, run: Callable[[Any], tuple], names: Names, values: list[Any], asks: Dispatch) -> tuple:
        results: tuple = tuple(values)
        if all(bool(test) for test in asks.predicate):
            with self.trace.region("spmd", spmd=True, count=count):
                for i in builtins.range(int(count)):
                    self.trace.block_index = i  # type: ignore[assignment]
                    results = run(i)
        return tuple(v if isinstance(v, RefValue | Unset) else Unset(n, _PER_BLOCK) for n, v in zip(names, results, strict=True))

    @staticmethod
    def _per_block(scope: Scope, name: str, value: Any) -> Any:
        if (isinstance(value, Value) and not value.scope.open) or (isinstance(value, Value) and value.scope is scope):
            return Unset(name, _PER_BLOCK)
        return value


def _is_one(value: Any, of: Sequence[Any]) -> bool:
    """Whether a value is one of these: comparing would be using it."""
    return any(value is x for x in of)


def _no_deps(spelled: str) -> TaskError:
    return TaskError(
        "PL504",
        f"`{spelled}` does not accept `deps=`: it names no task",
        fix="`with pl.spmd(n, deps=[...]) as tid:`, and i = pl.tile.get_block_idx() under it",
    )


_DEEPEST = 64
"""How many runtime scopes may stand inside one another."""


def _check_mark(trace: PlTrace, mark: Mark, target: str | None) -> None:
    """PL506 where a scope or cluster may not stand; PL504 if it is to name a task."""

    def refuse(found: str, fix: str) -> TaskError:
        return TaskError("PL506", found, fix=fix)

    spelled, around = str(mark), trace.scopes
    if target is not None:
        raise TaskError("PL504", f"`with {spelled} as {target}`: it is no task", fix="`as` after pl.at or pl.spmd, which are tasks")
    if trace.in_region:
        raise refuse(f"{spelled} inside a region: it belongs to orchestration", "put it around the region")
    if mark.kind == "auto" and trace.auto_scope:
        raise refuse(
            f"{spelled} where the compiler places the scopes",
            "@pl.jit(auto_scope=False) or @pl.jit.inline(auto_scope=False) on this function, or pl.manual_scope()",
        )
    if mark.kind in ("auto", "manual") and "manual" in around:
        raise refuse(f"{spelled} inside a manual scope", "end the manual scope before")
    if mark.kind == "cluster" and trace.in_cluster:
        raise refuse(f"{spelled} inside another cluster", "one cluster around both dispatches")
    if len(around) >= _DEEPEST:
        raise refuse(f"{spelled} is scope {_DEEPEST + 1} inside another", "end some of them before")
