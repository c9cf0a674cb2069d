"""`pl.system`: dummy tasks, how many cores there are, the barrier of an spmd body."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from pypto import config, dtypes, lax
from pypto.core.index import is_static
from pypto.errors import BodyError, CallError, ShapeError, TaskError
from pypto.language import access
from pypto.language.spelled import trace_here
from pypto.language.tasks import as_task, dependencies
from pypto.language.values import RefValue
from pypto.platform import platform_of


class SyncAllMode(enum.Enum):
    """How a barrier works: in hardware, on every core, or by polling memory, on any number of cores."""

    HARD = "hard"
    SOFT = "soft"


SYNC_CORES = ("mix", "aiv_only", "aic_only")
"""The cores a barrier is for."""
_WORKSPACE = 16


def task_dummy(*, deps: Any) -> Any:
    """A task without work, finished when all of `deps` are: its id stands for all of them.

    Errors:
      PL503 for dependencies that name no task, PL105 inside a region.
    """
    trace = trace_here("system.task_dummy")
    if trace.in_region:
        raise BodyError("PL105", "pl.system.task_dummy inside a region", fix="tasks are submitted by orchestration: move it out")
    return trace.process(lax.task_dummy, dependencies(trace, deps, "pl.system.task_dummy"), {})


def task_invalid() -> Any:
    """The id of no task: what `None` among dependencies means."""
    return trace_here("system.task_invalid").process(lax.task_invalid, [], {})


def task_is_valid(task: Any) -> Any:
    """Whether an id names a task, as a scalar.

    Errors:
      PL503 for anything but an id.
    """
    trace = trace_here("system.task_is_valid")
    return trace.process(lax.task_is_valid, [as_task(trace, task, "pl.system.task_is_valid")], {})


def available_cluster_count() -> int:
    """How many clusters, a cube core and its vector cores each, the platform has: the most blocks of a mixed or cube kernel at once."""
    trace_here("system.available_cluster_count")
    return platform_of(config.current().platform).cube_cores


def available_aiv_count() -> int:
    """How many vector cores the platform has: the most blocks of a vector kernel that run at once."""
    trace_here("system.available_aiv_count")
    return platform_of(config.current().platform).vector_cores


def get_subblock_idx() -> int:
    """Which of the two vector lanes this is, inside `pl.split_aiv`.

    Errors:
      PL105 outside of it.
    """
    trace = trace_here("tile.get_subblock_idx")
    if trace.lane is None:
        raise BodyError("PL105", "the lane exists inside pl.split_aiv only", fix="for lane in pl.split_aiv(2, mode=...):")
    return trace.lane[0]


def syncall(*, core_type: str = "mix", mode: Any = SyncAllMode.HARD, gm_workspace: Any = None, used_cores: Any = None) -> None:
    """Wait until every block of this spmd dispatch is here: the end of a phase of its body.

    What a block has computed stays its own; what it has written to tensors is there for all in the next phase.

    Args:
      core_type: mix, aiv_only or aic_only: the cores that wait.
      mode: HARD needs every core of the device in the dispatch, and `sync_start=True`; SOFT takes any number of blocks.
      gm_workspace: of a soft one: INT32, at least 16 elements of zeros that nothing else uses.
      used_cores: of a soft one: how many cores wait; 0 or left out: those of the dispatch.
    Errors:
      PL105 outside a region; PL601 for another core type or mode, or operands of a hard one; PL505 under a branch or loop that
      blocks may take differently, and, when the kernel is lowered, for a hard one that does not fill the device.
    """
    trace = trace_here("system.syncall")
    if not trace.in_region:
        raise BodyError("PL105", "pl.system.syncall outside a region", fix="tasks are ordered by deps=; a barrier orders the blocks of one")
    if core_type not in SYNC_CORES:
        raise CallError("PL601", f"pl.system.syncall: core_type={core_type!r}", fix=f"one of {', '.join(map(repr, SYNC_CORES))}")
    kinds = {m.value: m for m in SyncAllMode}
    chosen = mode if isinstance(mode, SyncAllMode) else kinds.get(mode.lower()) if isinstance(mode, str) else None
    if chosen is None:
        raise CallError("PL601", f"pl.system.syncall: mode={mode!r}", fix="pl.SyncAllMode.HARD or pl.SyncAllMode.SOFT")
    given: dict[str, Any] = {}
    if gm_workspace is not None:
        given["gm_workspace"] = _workspace(gm_workspace)
    if used_cores is not None:
        cores = access.offset(trace, used_cores, "used_cores of pl.system.syncall")
        given["used_cores"] = access.operand(trace, cores)
    if given and chosen is SyncAllMode.HARD:
        raise CallError("PL601", f"pl.system.syncall: a hard barrier has no {' and no '.join(given)}", fix="mode=pl.SyncAllMode.SOFT")
    if trace.concrete and trace.spmd and trace.block_count != 1:
        raise TaskError(
            "PL505",
            "an eager run executes one block after the other, so none can wait for the others",
            fix="call the kernel itself: it runs phase by phase; or run eagerly with one block",
        )
    operands = [trace.atom(x) for x in given.values()]
    trace.emit(lax.syncall, operands, {"core_type": core_type, "mode": chosen.value, "given": tuple(given)})


def cacheinvalid(tensor: Any = None, shapes: Sequence[Any] | None = None, offsets: Sequence[Any] | None = None) -> None:
    """Forget what the scalar unit's cache holds, so that the next read sees what other cores wrote. It is kept in the program.

    Memory here has no cache that could be behind it: no number changes.

    Args:
      tensor: a GM tensor; without one, all of global memory is meant.
      shapes, offsets: the window of it, an extent and a start per axis. The line that holds the window's first element is forgotten.
    Errors:
      PL601 if only some of the three are given, PL307 for anything but a GM tensor, PL301 for other numbers of axes, PL303 for a window
      past the tensor.
    """
    trace = trace_here("system.cacheinvalid")
    given = [x is not None for x in (tensor, shapes, offsets)]
    if not any(given):
        trace.emit(lax.cacheinvalid, [], {})
        return
    if tensor is None or shapes is None or offsets is None:
        raise CallError("PL601", "pl.system.cacheinvalid with a part of a window", fix="(tensor, shapes, offsets), or nothing at all")
    if not isinstance(tensor, RefValue):
        raise ShapeError("PL307", "pl.system.cacheinvalid of what is no GM tensor", fix="the tensor that other cores write")
    if not len(shapes) == len(offsets) == tensor.ndim:
        found = f"{len(shapes)} shapes and {len(offsets)} offsets for {tensor.ndim} axes of {access.called(tensor)}"
        raise ShapeError("PL301", f"pl.system.cacheinvalid: {found}", fix="one of each per axis")
    sizes = tuple(access.offset(trace, n, "a shape") for n in shapes)
    starts = tuple(access.offset(trace, n, "an offset") for n in offsets)
    line = access.view(trace, tensor, access.Window(starts, sizes))
    trace.emit(lax.cacheinvalid, [trace.atom(line)], {})


def _workspace(x: Any) -> RefValue:
    found = f"{x.aval}" if isinstance(x, RefValue) else repr(x)
    size = 1
    if isinstance(x, RefValue) and is_static(x.shape):
        for d in x.shape:
            size *= d  # type: ignore[operator]
    if not isinstance(x, RefValue) or x.dtype is not dtypes.INT32 or (is_static(x.shape) and size < _WORKSPACE):
        raise TaskError(
            "PL505", f"pl.system.syncall: gm_workspace is {found}", fix=f"an INT32 tensor of at least {_WORKSPACE} elements, all zero"
        )
    return x
