"""Tasks on the reference executor: they run where they stand, which is an order their dependencies allow.

Blocks of an spmd dispatch run one after the other. A barrier in their body cuts it into phases: every block finishes a
phase before any starts the next, each with its own values.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto.core.ir import Eqn, Jaxpr
from pypto.errors import TaskError
from pypto.interpreters.values import Value

if TYPE_CHECKING:
    from pypto.interpreters.reference import Machine


@dataclass(frozen=True)
class Task:
    """One task of a run.

    Attributes:
      id: 1 for the first one of the run.
      name: of its kernel; "dummy" for a task without work.
      deps: the ids it names, without those of no task.
      blocks: how many blocks it had, None for a dispatch that has none.
      skipped: its predicate was false.
    """

    id: int
    name: str
    deps: tuple[int, ...]
    blocks: int | None = None
    skipped: bool = False


def _ids(deps: Sequence[Any]) -> tuple[int, ...]:
    """The ids that dependencies name: a task is named once, and id 0 is no task."""
    found = (int(i) for d in deps for i in np.ravel(d.data))
    return tuple(dict.fromkeys(i for i in found if i))


def _submit(machine: Machine, name: str, deps: Sequence[Any], blocks: int | None = None, *, skipped: bool = False) -> Task:
    task = Task(len(machine.tasks) + 1, name, _ids(deps), blocks, skipped)
    machine.tasks.append(task)
    return task


def _scalar(number: int) -> Value:
    return Value(np.asarray(number, np.int64), ())


def _dispatch(
    machine: Machine, eqn: Eqn, ins: Sequence[Any], name: str, blocks: bool, run: Callable[[int | None, Sequence[Any]], None]
) -> Any:
    """Submit a task and run it, unless its predicate is false."""
    launch = eqn.params["launch"]
    parts = launch.divide(ins, blocks=blocks)
    count = int(parts.blocks.data) if parts.blocks is not None else None
    if count is not None and launch.most is not None and count > launch.most:
        raise too_many(count, launch.most, eqn)
    skipped = parts.predicate is not None and not bool(parts.predicate.data)
    task = _submit(machine, name, parts.deps, count, skipped=skipped)
    if not skipped:
        run(count, parts.operands)
    return (_scalar(task.id),) if eqn.outs else ()


def too_many(count: int, most: int, eqn: Eqn) -> TaskError:
    """The error for blocks that could never all start."""
    return TaskError(
        "PL508",
        f"{count} blocks that must start together, where {most} can",
        fix="pl.spmd(pl.system.available_cluster_count()), with a loop over the rest of the work in the body; or leave out sync_start",
        at=eqn.source,
    )


def region(machine: Machine, eqn: Eqn, ins: Sequence[Any]) -> Sequence[Any]:
    body: Jaxpr = eqn.params["body"]

    def run(count: int | None, operands: Sequence[Any]) -> None:
        _blocks(machine, body, count, ())

    return _dispatch(machine, eqn, ins, eqn.params["name"], eqn.params["kind"] == "spmd", run)


def call(machine: Machine, eqn: Eqn, ins: Sequence[Any]) -> Sequence[Any]:
    kernel = machine.kernels[eqn.params["kernel"]]
    return _dispatch(
        machine, eqn, ins, eqn.params["kernel"], eqn.params["blocks"], lambda count, operands: _blocks(machine, kernel, count, operands)
    )


def _blocks(machine: Machine, body: Jaxpr, count: int | None, operands: Sequence[Any]) -> None:
    """Run a body once, or once per block."""
    if count is None:
        machine.run(body, operands)
    elif _waits(machine, body):
        _in_phases(machine, body, count, operands)
    else:
        for block in range(count):
            machine.run(body, [_scalar(block), *operands])


# ---- phases ------------------------------------------------------------------------------------------------------


def _waits(machine: Machine, body: Jaxpr) -> bool:
    """Whether a body has a barrier, at any depth."""
    known = machine.waiting.get(body)
    if known is None:
        known = machine.waiting[body] = any(e.op.name == "syncall" for e in body.walk())
    return known


def _in_phases(machine: Machine, body: Jaxpr, count: int, operands: Sequence[Any]) -> None:
    running = [_phases(machine.fork(), body, [_scalar(block), *operands]) for block in range(count)]
    while running:
        reached = [next(block, None) for block in running]
        first = next((e for e in reached if e is not None), None)
        if first is None:
            return
        for block, e in enumerate(reached):
            if e is not first:
                where = "has ended" if e is None else "waits at another one"
                raise TaskError(
                    "PL505",
                    f"a barrier that nobody passes: block {block} {where}",
                    fix="put pl.system.syncall where every block runs it, equally often",
                    at=first.source,
                )


def _phases(machine: Machine, body: Jaxpr, args: Sequence[Any]) -> Generator[Eqn, None, list[Any]]:
    """Run a body up to each of its barriers."""
    machine.env.update(zip(body.invars, args, strict=True))
    for eqn in body.eqns:
        if eqn.op.name == "syncall":
            yield eqn
        elif any(_waits(machine, b) for b in eqn.bodies()):
            ins = [machine.read(a) for a in eqn.ins]
            outs = yield from (_loop if eqn.op.name == "loop" else _branch)(machine, eqn, ins)
            machine.env.update(zip(eqn.outs, outs, strict=True))
        else:
            machine.execute(eqn)
    return [machine.read(a) for a in body.outs]


def _loop(machine: Machine, eqn: Eqn, ins: Sequence[Any]) -> Generator[Eqn, None, Sequence[Any]]:
    values = ins[3:]
    for i in machine.turns(eqn, ins):
        if eqn.params.get("exits") and not bool(values[0].data):
            break
        values = yield from _phases(machine, eqn.params["body"], [_scalar(i), *values])
    return values


def _branch(machine: Machine, eqn: Eqn, ins: Sequence[Any]) -> Generator[Eqn, None, Sequence[Any]]:
    return (yield from _phases(machine, eqn.params["then" if bool(ins[0].data) else "orelse"], []))


# ---- the rest ----------------------------------------------------------------------------------------------------


def task_dummy(machine: Machine, eqn: Eqn, ins: Sequence[Any]) -> Sequence[Any]:
    return (_scalar(_submit(machine, "dummy", ins).id),)


def task_invalid(machine: Machine, eqn: Eqn, ins: Sequence[Any]) -> Sequence[Any]:
    return (_scalar(0),)


def task_is_valid(machine: Machine, eqn: Eqn, ins: Sequence[Any]) -> Sequence[Any]:
    return (Value(np.asarray(bool(ins[0].data)), ()),)


def syncall(machine: Machine, eqn: Eqn, ins: Sequence[Any]) -> Sequence[Any]:
    """The barrier of a dispatch that has one block."""
    return ()


def addresses(eqn: Eqn) -> Sequence[int]:
    """The operands of a dispatch that decide what runs: the number of blocks, and the predicate."""
    blocks = eqn.params["blocks"] if eqn.op.name == "call" else eqn.params["kind"] == "spmd"
    return range(int(blocks) + int(eqn.params["launch"].predicate))


HANDLERS: dict[str, Callable[[Machine, Eqn, Sequence[Any]], Sequence[Any]]] = {
    "region": region,
    "call": call,
    "task_dummy": task_dummy,
    "task_invalid": task_invalid,
    "task_is_valid": task_is_valid,
    "syncall": syncall,
}
