"""Loops and scopes of the language: what `for` and `with` statements may stand over."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from pypto.errors import BodyError, CallError


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


class SplitMode(enum.Enum):
    """How a mixed region is halved between the cube and the vector unit."""

    NONE = 0
    UP_DOWN = 1
    LEFT_RIGHT = 2


@dataclass(frozen=True)
class Split:
    """The optimization `pl.split(mode)`."""

    mode: SplitMode

    def __str__(self) -> str:
        return f"split({self.mode.name})"


def split(mode: SplitMode) -> Split:
    """Ask that a mixed cube and vector region be halved; numbers do not change."""
    return Split(mode)


@dataclass(frozen=True)
class Loop:
    """What a `for` statement stands over. `kind`: range, parallel, pipeline, unroll, while or spmd."""

    kind: str
    start: Any
    stop: Any
    step: Any
    init_values: tuple[Any, ...] = ()
    stage: int | None = None
    name: str = ""
    options: tuple[tuple[str, Any], ...] = ()

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


def parallel(*args: Any, init_values: Any = None) -> Loop:
    """Iterations that the author says are independent, so that they may be spread over cores; bounds as `pl.range`.

    Stands in orchestration, around regions. Here they run in ascending order, so runs repeat.
    """
    return _loop("parallel", args, init_values)


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


def _options(optimizations: Any, **flags: Any) -> tuple[tuple[str, Any], ...]:
    given = tuple(optimizations or ())
    for item in given:
        if not isinstance(item, Split):
            raise CallError("PL601", f"{item!r} is no optimization of this version", fix="pl.split(pl.SplitMode.UP_DOWN)")
    named = tuple((k, v) for k, v in flags.items() if v)
    return (*((("optimizations", tuple(map(str, given))),) if given else ()), *named)


def spmd(core_num: Any, *, name_hint: str = "", optimizations: Any = None, sync_start: bool = False) -> Loop:
    """Run a body once per block, in parallel: as a loop over the block index, or as a `with` scope.

    Blocks may not depend on each other; they are run in ascending order, so runs repeat.

    Args:
      core_num: how many blocks: an int or a scalar.
      name_hint: the name of the kernel the body becomes.
      optimizations, sync_start: kept on the kernel; they change no number.
    """
    return Loop("spmd", 0, core_num, 1, (), None, name_hint, _options(optimizations, sync_start=sync_start))


def at(level: Level = Level.CORE_GROUP, *, name_hint: str = "", optimizations: Any = None) -> At:
    """Open a region: what stands under it runs on one core, on tiles.

    Args:
      level: CORE_GROUP.
      name_hint: the name of the kernel it becomes.
      optimizations: `[pl.split(...)]`; kept on the kernel.
    """
    if not isinstance(level, Level):
        raise CallError("PL601", f"pl.at: level={level!r}", fix="level=pl.Level.CORE_GROUP")
    if level is not Level.CORE_GROUP:
        raise CallError("PL601", f"pl.at: level {level.name} holds no tiles", fix="level=pl.Level.CORE_GROUP")
    return At(level, name_hint, _options(optimizations))
