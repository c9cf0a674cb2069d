"""Tasks: how one is dispatched, dependency handles, runtime scopes, and the barrier between the phases of an spmd body."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pypto import dtypes
from pypto.core.avals import Aval, RefAval, ScalarAval, scalar
from pypto.core.op import Native, No
from pypto.errors import InternalError
from pypto.lax.memory import structural

Namer = Callable[[Any], str]


class Divided(NamedTuple):
    """The operands of a dispatch, by what they are for."""

    blocks: Any
    predicate: Any
    deps: Sequence[Any]
    no_dep: Sequence[Any]
    dumps: Sequence[Any]
    operands: Sequence[Any]


@dataclass(frozen=True)
class Launch:
    """How a task is dispatched. Its operands come first: the block count, the predicate, deps, no_dep, dumps, then the kernel's own.

    Attributes:
      named: it gives a TASK_ID that later tasks may name.
      predicate: it has a predicate: where that is false, the task is skipped.
      deps: how many task ids, and arrays of them, it waits for.
      no_dep: how many buffers are left out of the dependencies derived for it.
      dumps: how many buffers are marked for a dump.
      early: consumers may be staged before it has finished.
      together: all blocks start at once.
      most: how many blocks can start at once, where that is a limit that the number of blocks may break.
    """

    named: bool = False
    predicate: bool = False
    deps: int = 0
    no_dep: int = 0
    dumps: int = 0
    early: bool = False
    together: bool = False
    most: int | None = None

    @property
    def width(self) -> int:
        """How many operands are the dispatch's own, the block count aside."""
        return int(self.predicate) + self.deps + self.no_dep + self.dumps

    def divide(self, operands: Sequence[Any], *, blocks: bool) -> Divided:
        """The operands of a dispatch, by what they are for."""
        rest = list(operands)
        count = rest.pop(0) if blocks else None
        predicate = rest.pop(0) if self.predicate else None
        first, second, third = self.deps, self.deps + self.no_dep, self.width - int(self.predicate)
        return Divided(count, predicate, rest[:first], rest[first:second], rest[second:third], rest[third:])

    @property
    def outs(self) -> tuple[Aval, ...]:
        return (scalar(dtypes.TASK_ID),) if self.named else ()


DIRECT = Launch()
"""A dispatch that asks for nothing."""


def show_launch(launch: Launch, parts: Divided, name: Namer) -> list[str]:
    """What a dispatch asks for, as keywords."""
    shown = []
    for keyword, values in (("deps", parts.deps), ("no_dep_args", parts.no_dep), ("dumps", parts.dumps)):
        if values:
            shown.append(f"{keyword}=[{', '.join(map(name, values))}]")
    if parts.predicate is not None:
        shown.append(f"predicate={name(parts.predicate)}")
    if launch.together:
        shown.append("sync_start=True")
    if launch.early:
        shown.append("allow_early_resolve=True")
    return shown


def check_task(*operands: Aval) -> None:
    """Dependencies are task ids or arrays of them."""
    for a in operands:
        if a.dtype is not dtypes.TASK_ID or not isinstance(a, ScalarAval | RefAval):
            raise InternalError("PL901", f"a dependency on {a}")


def _dummy_aval(*deps: Aval) -> Aval:
    check_task(*deps)
    return scalar(dtypes.TASK_ID)


@structural(
    abstract=_dummy_aval,
    refs=tuple(range(64)),
    keep=True,
    pto=No("the orchestration submits it"),
    source=lambda e, name: f"pl.system.task_dummy(deps=[{', '.join(map(name, e.ins))}])",
    show=lambda e, name: f"task_dummy(deps=[{', '.join(map(name, e.ins))}])",
)
def task_dummy(*deps: Any) -> Any:
    """A task without work: finished when all of `deps` are. Its id stands for all of them."""


@structural(
    abstract=lambda: scalar(dtypes.TASK_ID),
    pto=No("the orchestration's own value"),
    source="pl.system.task_invalid",
    show=lambda e, name: "task_invalid()",
)
def task_invalid() -> Any:
    """The id of no task; waiting for it waits for nothing."""


@structural(
    abstract=lambda task: scalar(dtypes.BOOL),
    unit="scalar",
    pto=No("the orchestration's own value"),
    source="pl.system.task_is_valid",
)
def task_is_valid(task: Any) -> Any:
    """Whether an id names a task: BOOL."""


def _show_scope(e: Any, name: Namer) -> str:
    p = e.params
    options = "".join(f" {key}={value}" for key, value in p["options"])
    return f"{p['edge']} {p['kind']}{' ' + p['name'] if p['name'] else ''}{options if p['edge'] == 'open' else ''}"


@structural(abstract=lambda *, edge, kind, name, options: (), mark=True, pto=No("it marks a place"), show=_show_scope)
def scope(*, edge: str, kind: str, name: str, options: tuple[tuple[str, Any], ...]) -> Any:
    """One edge, `open` or `close`, of a scope; edges are nested as brackets are.

    Kinds: `auto` and `manual`, the runtime's scopes, within which tasks are tracked and memory is reclaimed; `cluster`, whose
    dispatches run side by side on one cluster; `part`, a named part of a region; `lane`, what one of the two vector lanes runs.
    """


@structural(
    abstract=lambda ref: (),
    refs=(0,),
    mark=True,
    source="pl.prefetch.async_prefetch",
    pto=Native("pto.tprefetch_async"),
    show=lambda e, name: f"prefetch {name(e.ins[0])}",
)
def prefetch(ref: Any) -> Any:
    """Bring a buffer into the cache nearest to the cores: a hint. It reads nothing that a program could see, and orders nothing."""


@structural(
    abstract=lambda ref: (),
    refs=(0,),
    mark=True,
    source="pl.dump_tag",
    pto=No("it is a mark on the arguments of tasks"),
    show=lambda e, name: f"dump_tag {name(e.ins[0])}",
)
def dump_tag(ref: Any) -> Any:
    """Mark a buffer: runs with dumps write it before and after every later task that takes it. It changes no number."""


@structural(
    abstract=lambda *refs: (),
    refs=(0,),
    mark=True,
    source="pl.system.cacheinvalid",
    pto=Native("pto.cmo.cacheinvalid"),
    show=lambda e, name: f"cacheinvalid {name(e.ins[0])}" if e.ins else "cacheinvalid",
)
def cacheinvalid(*refs: Any) -> Any:
    """Forget what the scalar unit's cache holds, of the line a window starts in, or without one of all of global memory.

    Memory here has no cache that could be behind it: it changes no number.
    """


def _barrier_text(e: Any, name: Namer) -> str:
    p = e.params
    given = [f"core_type={p['core_type']!r}", f"mode={p['mode']!r}"]
    return f"pl.system.syncall({', '.join([*given, *(f'{k}={name(a)}' for k, a in zip(p['given'], e.ins, strict=True))])})"


def _show_barrier(e: Any, name: Namer) -> str:
    p = e.params
    operands = [f"{k}={name(a)}" for k, a in zip(p["given"], e.ins, strict=True)]
    kind, mode = p["core_type"], p["mode"]
    return f"syncall({', '.join([f'core_type={kind}', f'mode={mode}', *operands])})"


@structural(
    abstract=lambda *operands, core_type, mode, given: (),
    refs=(0, 1),
    keep=True,
    pto=Native("pto.syncall"),
    source=_barrier_text,
    show=_show_barrier,
)
def syncall(*operands: Any, core_type: str, mode: str, given: tuple[str, ...]) -> Any:
    """Every block of an spmd dispatch waits here until all of them have arrived: the end of a phase of its body.

    `core_type` is mix, aiv_only or aic_only, `mode` hard or soft; the operands of a soft one are named by `given`.
    """
