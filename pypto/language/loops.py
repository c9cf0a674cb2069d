"""Loops: what a `for` statement becomes, and which names its turns carry."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from pypto import dtypes, lax, tree
from pypto.core.avals import RefAval, ScalarAval, TileAval, same_type, scalar
from pypto.core.ir import Jaxpr, Var
from pypto.core.trace import Scope
from pypto.errors import BodyError, ShapeError, TaskError, warn
from pypto.language import access, carry
from pypto.language.carry import Leaf, Mismatch, is_number
from pypto.language.grammar import shown
from pypto.language.lanes import run_lanes
from pypto.language.protocol import Names, Thunk
from pypto.language.recovery import Broken
from pypto.language.regions import Regions
from pypto.language.scopes import At, Level, Loop, endless
from pypto.language.trace import PlTrace, fetch
from pypto.language.validity import Weakening
from pypto.language.values import RefValue, ScalarValue, Unset, Value
from pypto.source import resolve, user_frame


class Loops(Regions):
    """The part of the staging runtime that loops."""

    def for_(
        self,
        iterator: Any,
        body: Callable[..., tuple],
        target: str,
        carried: Names,
        thunks: tuple[Thunk, ...],
        state: Names,
        stale_inits: Names,
        exits: str | None = None,
    ) -> tuple:
        loop = self._loop(iterator)
        _check_exits(loop, exits)
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
        if loop.kind == "split_aiv":
            if self.trace.in_region:
                return run_lanes(self.trace, loop, body, names, values)
            passed = tuple(lambda v=v: v for v in values)
            lanes = lambda *inside: run_lanes(self.trace, loop, body, names, inside)  # noqa: E731
            return self.with_(At(Level.CORE_GROUP), lanes, None, names, names, passed)
        if loop.kind == "unroll" or self.trace.concrete:
            return self._repeat(loop, body, names, values, len(state), exits)
        return self._traced_loop(loop, body, target, names, values, len(state), exits)

    @staticmethod
    def forever() -> Loop:
        """What a `while` statement stands over."""
        return endless(())

    def _warn_stale(self, name: str, state: Names) -> None:
        warn(
            "PL208",
            f"`{name}` is only the initial value of this loop's carry; after the loop it still has that value",
            fix=f"read {' or '.join(f'`{s}`' for s in state)} for the result",
        )

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
            raise BodyError(
                "PL105", "pl.spmd inside a region", fix="it opens its own region: move it out of `with pl.at` or the other pl.spmd"
            )
        if iterator.chunk is not None and not self.trace.chunked:
            raise TaskError(
                "PL504",
                f"pl.parallel(chunk={iterator.chunk}) without pl.auto_chunk around it",
                fix="with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.auto_chunk]):",
            )
        if iterator.kind == "parallel" and inside and not (self.trace.in_core_function or self.trace.chunked):
            raise BodyError("PL105", "pl.parallel inside pl.at", fix="pl.range or pl.pipeline inside a region; pl.parallel around it")
        if iterator.kind == "pipeline" and not inside:
            raise BodyError(
                "PL105", "pl.pipeline outside a region", fix="pl.range or pl.parallel in orchestration; pl.pipeline under pl.at"
            )
        return iterator

    def _repeat(self, loop: Loop, body: Callable[..., tuple], names: Names, values: Sequence[Any], states: int, exits: str | None) -> tuple:
        """Run the body once per index, now."""
        bounds = [self._number(loop.kind, b) for b in (loop.start, loop.stop, loop.step)]
        if bounds[2] == 0:
            raise ShapeError("PL308", "a loop with step 0", fix="a step that is not zero")
        result = tuple(values)
        for i in builtins.range(*bounds):
            if exits is not None:
                going = result[names.index(exits)]
                if isinstance(going, ScalarValue) and not self.trace.concrete:
                    result = self._guarded_turn(going, lambda *v, i=i: tuple(body(i, *v)), names, result)
                    continue
                if not bool(going):
                    break
            self.trace.yields.append([])
            result = tuple(body(i, *result))
            fed = self.trace.yields.pop()
            if fed:
                result = (*self._yielded(fed, states), *result[states:])
        return result

    def if_(
        self, test: Any, then: Callable[..., tuple], orelse: Callable[..., tuple], merged: Names, passed: Names, thunks: tuple[Thunk, ...]
    ) -> tuple:
        raise NotImplementedError

    def _guarded_turn(self, going: Any, turn: Callable[..., tuple], names: Names, values: tuple) -> tuple:
        """One turn of an unrolled loop that may have been left at run time."""
        return self.if_(going, turn, lambda *v: v, names, names, tuple(lambda v=v: v for v in values))

    def _number(self, kind: str, x: Any) -> int:
        if self.trace.concrete and isinstance(x, ScalarValue):
            return int(x)
        x = access.offset(self.trace, x, f"a bound of pl.{kind}")
        if isinstance(x, ScalarValue):
            value = x.index.value if x.index is not None else None
            if value is None:
                raise BodyError(
                    "PL106", f"pl.{kind} repeats its body at compile time, but a bound is known only at run time", fix="pl.range"
                )
            return value
        return x

    def _yielded(self, fed: list[Any], states: int) -> tuple:
        if len(fed) != states:
            raise BodyError("PL102", f"pl.yield_ gives {len(fed)} values for {states} state names", fix="one per name of init_values=")
        return tuple(fed)

    def _traced_loop(
        self, loop: Loop, body: Callable[..., tuple], target: str, names: Names, values: list[Any], states: int, exits: str | None
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
            plan: list[Any] = [None] * len(names)
            for i in sorted(builtins.range(len(names)), key=lambda i: names[i] != exits):  # what ends the loop is its first carry
                plan[i] = carries.name(names[i], values[i], leaves[i], after[i])
            early = bool(carries.kept) and exits is not None and carries.kept[0][0].name == exits
            if loop.kind == "while" and not early:
                raise BodyError("PL101", "a `while` loop that nothing ends", fix="a condition that changes in the body, or a `break`")
            carries.agree()
            inside, outs = [leaf.inside.var for leaf, _, _ in carries.kept], [out for _, _, out in carries.kept]
            Weakening(trace).carries(scope.eqns, inside, outs)
        inits = [trace.atom(self._init(before, leaf)) for leaf, before, _ in carries.kept]
        jaxpr = Jaxpr((index.var, *inside), tuple(scope.eqns), tuple(outs))
        params = {"body": jaxpr, "kind": loop.kind, "stage": loop.stage, "chunk": loop.chunk, "exits": early}
        made = trace.emit(lax.loop, [*operands, *inits], params)
        for var, (leaf, _, out) in zip(made, carries.kept, strict=True):
            var.name = shown(leaf.name)
            if isinstance(out, Var) and isinstance(var.aval, RefAval):
                start = leaf.before.var if isinstance(leaf.before, RefValue) else None
                if start is not None and trace.base_of(trace.wrap(out)) is trace.base_of(leaf.before):
                    trace.base[var] = start
        results = [trace.wrap(v) for v in made]
        result = [finish(results) for finish in plan]
        return self._yield_targets(results_of, after, result, states, names, fed)

    def _init(self, before: Any, leaf: Leaf) -> Any:
        """What enters the loop, in the type the body's input settled on."""
        aval = leaf.inside.var.aval
        if isinstance(before, _NoInit):
            (out,) = self.trace.emit(lax.unset, [], {"aval": before.aval}, [before.aval])
            return self.trace.wrap(out)
        if isinstance(aval, ScalarAval):
            return self.trace.scalar_for(before, aval.dtype, leaf.name)
        return self.trace.value(before, leaf.name, shares=True) if isinstance(aval, TileAval) else before

    @staticmethod
    def _yield_targets(body_values: list[Any], after: list[Any], result: list[Any], states: int, names: Names, fed: list[Any]) -> tuple:
        """`total = pl.yield_(x)`: the target names the loop's result; it is the init when the loop never runs."""
        for k in builtins.range(states, len(names)):
            for s, value in enumerate(fed):
                if body_values[k] is value and isinstance(value, Value):
                    result[k] = result[s]
        return tuple(result)


def _check_exits(loop: Loop, exits: str | None) -> None:
    """Whether a loop of this kind may be left early."""
    if exits is not None and loop.kind not in ("range", "unroll", "while"):
        raise BodyError(
            "PL105",
            f"`break` in pl.{loop.kind}, whose turns do not run one after the other",
            fix="pl.range, pl.unroll or `while` can be left; elsewhere guard the body with `if`",
        )
    if exits is None and loop.kind == "while":
        raise BodyError("PL102", "a pl.while_ loop that is not written as one", fix="for (x,) in pl.while_(init_values=(0,)):")


class _NoInit:
    """Stands for the missing initial value of a name first set inside a loop that runs."""

    def __init__(self, aval: Any) -> None:
        self.aval = aval


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
        if isinstance(after, Broken):
            return lambda outs: after
        if isinstance(after, Unset):
            if isinstance(leaf.inside, Value) and carry.uses(trace, self.scope.eqns, leaf.inside.var):
                raise after.error()  # the next turn reads it
            return lambda outs: Unset(leaf.name, after.why or "the last turn of the loop may leave it unset")
        if isinstance(leaf.inside, Value):
            if isinstance(after, Value) and trace.resolved(after.var) is leaf.inside.var:
                return self._unchanged(leaf)
            if is_number(leaf.before) and type(after) is type(leaf.before) and repr(after) == repr(leaf.before):
                return self._unchanged(leaf)
            if isinstance(leaf.before, Value) and isinstance(after, Value) and trace.resolved(after.var) is trace.resolved(leaf.before.var):
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

    def agree(self) -> None:
        """Settle again what one name settled as while another name took its value."""
        settled = False
        while not settled:
            settled = True
            for position, (leaf, before, out) in enumerate(self.kept):
                if same_type(leaf.inside.var.aval, out.aval):
                    continue
                settled = False
                after = self.trace.wrap(out) if isinstance(out, Var) else out.value.item()
                try:
                    before, value = carry.settle(self.trace, self.scope, leaf, after)
                except Mismatch:
                    raise carry.carry_error(leaf, after, self._where(after)) from None
                self.kept[position] = leaf, before, self.trace.atom(value)

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
