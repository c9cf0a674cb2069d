"""Loops and scopes of the language: what `for` and `with` statements may stand over."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Any

from pypto.errors import BodyError, CallError, TaskError
from pypto.language.optimizations import SplitMode, checked_options


class Level(enum.Enum):
    """Where a scope's work runs. Regions of kernels use CORE_GROUP; the host and the chip have entries of their own."""

    AIV = 0
    AIC = 1
    CORE_GROUP = 2
    CHIP_DIE = 3
    CHIP = 4
    HOST = 5
    CLUSTER_0 = 6
    CLUSTER_1 = 7
    CLUSTER_2 = 8
    GLOBAL = 9
    L2CACHE = CHIP_DIE
    PROCESSOR = CHIP
    UMA = PROCESSOR
    NODE = HOST
    POD = CLUSTER_0
    CLOS1 = CLUSTER_1
    CLOS2 = CLUSTER_2


class ScopeMode(enum.Enum):
    """Who declares the dependencies between the tasks of a scope: the runtime from what they touch, or the author."""

    AUTO = 0
    MANUAL = 1


@dataclass(frozen=True)
class Asked:
    """What a scope asks of its task, as the author wrote it; None where nothing was written."""

    deps: Any = None
    no_dep_args: Any = None
    dumps: Any = None
    predicate: Any = None
    early: bool = False
    together: bool = False


@dataclass(frozen=True)
class Mark:
    """What `with pl.scope(...)`, `pl.manual_scope()` and `pl.cluster()` open. `kind`: auto, manual or cluster."""

    kind: str
    name: str = ""

    def __str__(self) -> str:
        return _SPELLED[self.kind]

    def __enter__(self) -> Any:
        raise BodyError("PL112", f"{self} is a scope of a kernel body", fix="use it in a function decorated with @pl.jit")

    def __exit__(self, *_: Any) -> None:
        return None


_SPELLED = {"auto": "pl.scope()", "manual": "pl.manual_scope()", "cluster": "pl.cluster()"}


@dataclass(frozen=True)
class Loop:
    """What a `for` statement stands over. `kind`: range, parallel, pipeline, unroll, while, spmd or split_aiv."""

    kind: str
    start: Any
    stop: Any
    step: Any
    init_values: tuple[Any, ...] = ()
    stage: int | None = None
    name: str = ""
    options: tuple[tuple[str, Any], ...] = ()
    chunk: int | None = None
    mode: SplitMode = SplitMode.NONE
    asked: Asked = Asked()

    def __iter__(self) -> Any:
        raise BodyError(
            "PL112",
            f"pl.{self.kind}(...) is a loop of a kernel body",
            fix="use it in a `for` statement of a function decorated with @pl.jit, @pl.jit.inline or @pl.jit.incore",
        )

    # the with form of pl.spmd reaches the runtime, which never calls these
    def __enter__(self) -> Any:
        return iter(self)

    def __exit__(self, *_: Any) -> None:
        return None


@dataclass(frozen=True)
class At:
    """What `with pl.at(...)` opens."""

    level: Level
    name: str = ""
    options: tuple[tuple[str, Any], ...] = ()
    asked: Asked = Asked()

    def __enter__(self) -> Any:
        raise BodyError("PL112", "pl.at(...) opens a region of a kernel body", fix="use it in a function decorated with @pl.jit")

    def __exit__(self, *_: Any) -> None:
        return None


def _bounds(name: str, args: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    if not 1 <= len(args) <= 3:
        raise CallError("PL601", f"pl.{name} takes (stop), (start, stop) or (start, stop, step); got {len(args)}", fix=f"pl.{name}(n)")
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1) if len(args) == 2 else args
    if isinstance(step, int) and step == 0:
        raise CallError("PL601", f"pl.{name}: the step is zero", fix="a step that is not zero")
    return start, stop, step


def _loop(name: str, args: tuple[Any, ...], init_values: Any, stage: int | None = None) -> Loop:
    start, stop, step = _bounds(name, args)
    inits = tuple(init_values) if isinstance(init_values, tuple | list) else () if init_values is None else (init_values,)
    return Loop(name, start, stop, step, inits, stage)


def range_(*args: Any, init_values: Any = None) -> Loop:
    """Iterations in order: (stop), (start, stop) or (start, stop, step), ints or scalars; the step may be negative.

    Names that the body assigns are carried from turn to turn. `init_values=` makes that explicit:
    `for i, (a, b) in pl.range(n, init_values=(x, y)):`.

    Errors:
      PL601 for a zero step or another number of bounds.
    """
    return _loop("range", args, init_values)


def parallel(*args: Any, init_values: Any = None, chunk: int | None = None) -> Loop:
    """Iterations that the author says are independent, so that they may be spread over cores; bounds as `pl.range`.

    Stands in orchestration, around regions. Here they run in ascending order, so runs repeat.

    Args:
      chunk: inside `pl.at(optimizations=[pl.auto_chunk])`, where alone the loop may stand in a region: turns per task.
    Errors:
      PL601 for a chunk that is no positive number; PL504 for one without `pl.auto_chunk` around it.
    """
    if chunk is not None and (isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1):
        raise CallError("PL601", f"pl.parallel: chunk={chunk!r}", fix="a positive number of turns")
    return replace(_loop("parallel", args, init_values), chunk=chunk)


def pipeline(*args: Any, stage: int, init_values: Any = None) -> Loop:
    """Iterations in order, software-pipelined `stage` deep; bounds as `pl.range`. Stands inside a region.

    Numbers do not depend on `stage`, which is how many turns' tiles are on chip at once.

    Errors:
      PL601 for a stage that is no positive number.
    """
    if not isinstance(stage, int) or stage < 1:
        raise CallError("PL601", f"pl.pipeline: stage={stage!r}", fix="a positive number of stages, usually 2 or 4")
    return _loop("pipeline", args, init_values, stage)


def unroll(*args: Any, init_values: Any = None) -> Loop:
    """Repeat the body while tracing, with the index as a Python int; bounds are constants.

    The one loop whose values may be collected in a Python list.
    """
    return _loop("unroll", args, init_values)


def split_aiv(n: int = 2, *, mode: SplitMode = SplitMode.NONE) -> Loop:
    """Run a body on both vector lanes of a core group: `for lane in pl.split_aiv(2, mode=...):`, inside a region.

    Each lane starts from what was there before, and a name that a lane gives a value holds it on that lane only. A region that has
    such a body has no vector work outside of them, and no cube work inside; `pl.aiv_shard` brings a cube result in, and
    `pl.aic_gather` takes a vector result out.

    Args:
      n: 2.
      mode: NONE: both lanes run all of it and divide the work by `lane`; UP_DOWN, LEFT_RIGHT: what is brought in is halved by
        rows or columns, and what is taken out is joined.
    Errors:
      PL601 for another number of lanes or another mode; PL507 for what stands on the wrong side.
    """
    if n != 2 or isinstance(n, bool):
        raise CallError("PL601", f"pl.split_aiv: {n!r} lanes", fix="a core group has two vector lanes: pl.split_aiv(2, mode=...)")
    if not isinstance(mode, SplitMode):
        raise CallError("PL601", f"pl.split_aiv: mode={mode!r}", fix="pl.SplitMode.NONE, UP_DOWN or LEFT_RIGHT")
    return Loop("split_aiv", 0, 2, 1, mode=mode)


def while_(*, init_values: Any) -> Loop:
    """Turns until a condition is false: `for (x,) in pl.while_(init_values=(0,)):` with `pl.cond(x < n)` as its first statement.

    A `while` statement is the same loop, with the names it assigns carried.

    Errors:
      PL601 without initial values; PL102 without `pl.cond`.
    """
    inits = tuple(init_values) if isinstance(init_values, tuple | list) else (init_values,)
    if not inits:
        raise CallError("PL601", "pl.while_ without initial values", fix="for (x,) in pl.while_(init_values=(0,)):")
    return endless(inits)


def endless(init_values: tuple[Any, ...]) -> Loop:
    """A loop that ends only by being left."""
    return Loop("while", 0, 2**63 - 1, 1, init_values)


def cond(condition: Any) -> None:
    """The condition of a `pl.while_` loop: its first statement, and nowhere else.

    Errors:
      PL102 anywhere else.
    """
    raise BodyError("PL102", "pl.cond is not the first statement of a pl.while_ body", fix="for (x,) in pl.while_(...): pl.cond(x < n)")


def _hint(what: str, name_hint: Any) -> str:
    if not isinstance(name_hint, str):
        raise CallError("PL601", f"{what}: name_hint={name_hint!r}", fix='a string: name_hint="projection"')
    return name_hint


def spmd(
    core_num: Any,
    *,
    name_hint: str = "",
    optimizations: Any = None,
    sync_start: bool = False,
    deps: Any = None,
    predicate: Any = None,
    allow_early_resolve: bool = False,
    no_dep_args: Any = None,
    dumps: Any = None,
) -> Loop:
    """Run a body once per block, in parallel: as a loop over the block index, or as a `with` scope.

    Blocks may not depend on each other; they are run in ascending order, so runs repeat. `as tid` gives the task's id.

    Args:
      core_num: how many blocks: an int or a scalar.
      name_hint: the name of the kernel the body becomes.
      optimizations: `[pl.split(...), pl.cross_core_slot(...)]`, kept on the kernel; they change no number.
      sync_start: all blocks start at once, so there may not be more of them than cores.
      deps: task ids, and arrays of them, that this task waits for; in the form with `as tid` only.
      predicate: `tensor[i] OP int`: where it is false when the task would start, the task is skipped.
      allow_early_resolve: tasks that wait for this one may be staged before it has finished; changes no number.
      no_dep_args: tensors that no dependency is derived from for this task.
      dumps: tensors whose content a run with dumps writes.
    Errors:
      PL502 for a body that does the same in every block; PL503, PL504 and PL508 for what is asked of the task.
    """
    asked = Asked(deps, no_dep_args, dumps, predicate, bool(allow_early_resolve), bool(sync_start))
    options = (*checked_options("pl.spmd", optimizations), *((("sync_start", True),) if sync_start else ()))
    return Loop("spmd", 0, core_num, 1, (), None, _hint("pl.spmd", name_hint), options, asked=asked)


_UNITS = (Level.CORE_GROUP, Level.AIV, Level.AIC)


def at(
    level: Level = Level.CORE_GROUP,
    *,
    name_hint: str = "",
    optimizations: Any = None,
    deps: Any = None,
    no_dep_args: Any = None,
    dumps: Any = None,
    allow_early_resolve: bool = False,
    predicate: Any = None,
) -> At:
    """Open a region: what stands under it runs on one core, on tiles. It is one task; `as tid` gives its id.

    Inside another region it is a named part of that region, and no task of its own.

    Args:
      level: CORE_GROUP; AIV or AIC for a region with vector or cube work only.
      name_hint: the name of the kernel it becomes.
      optimizations: `[pl.split(...), pl.cross_core_slot(...), pl.auto_chunk]`; kept on the kernel.
      deps: task ids, and arrays of them, that this task waits for.
      no_dep_args: tensors that no dependency is derived from for this task.
      dumps: tensors whose content a run with dumps writes.
      allow_early_resolve: tasks that wait for this one may be staged before it has finished; changes no number.
      predicate: a region has none; `pl.spmd` does.
    Errors:
      PL601 for a level that holds no tiles; PL503 and PL504 for what is asked of the task.
    """
    if not isinstance(level, Level):
        raise CallError("PL601", f"pl.at: level={level!r}", fix="level=pl.Level.CORE_GROUP")
    if level not in _UNITS:
        raise CallError("PL601", f"pl.at: level {level.name} holds no tiles", fix="level=pl.Level.CORE_GROUP")
    if predicate is not None:
        raise TaskError("PL504", "pl.at has no predicate", fix="`with pl.spmd(1, predicate=...) as tid:`, or pl.submit(..., predicate=...)")
    options = checked_options("pl.at", optimizations)
    if level is not Level.CORE_GROUP:
        options = (("level", level.name), *options)
    return At(level, _hint("pl.at", name_hint), options, Asked(deps, no_dep_args, dumps, None, bool(allow_early_resolve)))


def scope(mode: ScopeMode = ScopeMode.AUTO) -> Mark:
    """Open a scope of the runtime: tasks are tracked within it, and what it allocates is given back at its end.

    Numbers do not depend on it.

    Args:
      mode: AUTO: dependencies are derived from what tasks read and write; MANUAL: only `deps=` orders them.
    Errors:
      PL506 inside a region; AUTO in a function that leaves scopes to the compiler (`auto_scope=True`) or inside a manual scope;
      MANUAL inside MANUAL.
    """
    if not isinstance(mode, ScopeMode):
        raise CallError("PL601", f"pl.scope: mode={mode!r}", fix="pl.ScopeMode.AUTO or pl.ScopeMode.MANUAL")
    return Mark(mode.name.lower())


def manual_scope() -> Mark:
    """`pl.scope(mode=pl.ScopeMode.MANUAL)`: nothing but `deps=` orders the tasks under it."""
    return Mark("manual")


def cluster(*, name_hint: str = "") -> Mark:
    """Group the dispatches under it: they run side by side on the cores of one cluster. Numbers do not depend on it.

    Errors:
      PL506 inside a region or another cluster.
    """
    return Mark("cluster", _hint("pl.cluster", name_hint))
