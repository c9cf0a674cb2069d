"""Task ids in compiled code, and what has no code: barriers. Work runs in program order, so nothing waits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pypto import dtypes
from pypto.core.ir import Eqn
from pypto.interpreters.cpu.rules import Unsupported
from pypto.interpreters.cpu.values import Scalar, Value

if TYPE_CHECKING:
    from pypto.interpreters.cpu.writer import Writer


def some_task(w: Writer) -> Scalar:
    """The id of a task: work runs in program order here, so nothing waits, and one id is as good as another."""
    return replace(w.literal(dtypes.TASK_ID.storage.type(1), dtypes.TASK_ID), known=None)


def task_dummy(w: Writer, eqn: Eqn, ins: list[Value]) -> list[Value]:
    return [some_task(w)]


def task_invalid(w: Writer, eqn: Eqn, ins: list[Value]) -> list[Value]:
    return [w.literal(dtypes.TASK_ID.storage.type(0), dtypes.TASK_ID)]


def task_is_valid(w: Writer, eqn: Eqn, ins: list[Value]) -> list[Value]:
    task = ins[0]
    assert isinstance(task, Scalar)
    return [Scalar(dtypes.BOOL, w.fn.let(f"icmp ne i64 {task.register}, 0"))]


def syncall(w: Writer, eqn: Eqn, ins: list[Value]) -> list[Value]:
    raise Unsupported("a barrier: every block would have to keep its values from phase to phase")
