"""Task ids and barriers in compiled code. Work runs in program order, so no task waits; blocks of a dispatch may."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pypto import dtypes
from pypto.core.ir import Eqn
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
    """Every block of the dispatch gets here before one goes on: what others may have written is read again."""
    w.before_store(None)
    site = w.module.site(eqn, "barrier", 0, {})
    w.fn.let(f"call i64 @pypto_barrier(ptr %err, i64 {site})")
    return []
