"""Watching a run: what each scope keeps in its ring, against limits; and every launch's arguments, written to files.

On a device a scope's tasks and buffers stay in ring min(depth, 3) until the scope closes: that is what the limits are about, so that is
what is counted here, though this CPU runs each task at once. A scope is the body of the entry, of each turn of a loop, and of each branch,
and what stands under `pl.scope()` or `pl.manual_scope()`. A program with a `pl.scope()` places its scopes by hand (`auto_scope=False`): its
loops and branches are none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pypto.core.avals import RefAval
from pypto.core.ir import Eqn, Jaxpr, Var
from pypto.errors import TaskError
from pypto.interpreters.reference import Machine
from pypto.source import resolve

RINGS = 4
"""Rings of a device; a scope uses ring min(its depth, 3)."""


@dataclass(frozen=True)
class Watch:
    """What to watch in a run.

    Attributes:
      window, heap: the most tasks, and bytes of buffers, that each ring may keep; 0 for no limit.
      scopes: the file that gets one line per scope with its depth, ring and peaks; None for none.
      arguments: the directory that gets every launch's buffers, as they are before and after it; None for none.
      only_marked: only those that a launch names in `dumps=`.
    """

    window: tuple[int, ...] = (0,) * RINGS
    heap: tuple[int, ...] = (0,) * RINGS
    scopes: Path | None = None
    arguments: Path | None = None
    only_marked: bool = False


@dataclass
class _Scope:
    depth: int
    where: Any
    name: str
    tasks: int = 0
    bytes: int = 0

    @property
    def ring(self) -> int:
        return min(self.depth, RINGS - 1)


class ObservedMachine(Machine):
    """The reference executor, watched. It computes the same."""

    def __init__(self, kernels: Mapping[str, Jaxpr], watch: Watch, *, check: bool) -> None:
        super().__init__(kernels, check=check)
        self._watch = watch
        self._open: list[_Scope] = []
        self._held = [[0, 0] for _ in range(RINGS)]  # tasks and bytes that the open scopes of each ring keep
        self._launches = 0
        self._tagged: list[Any] = []
        self._inside = False
        self._by_hand = False
        self._lines: list[str] = []

    def run(self, jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
        """Run a body; outside kernels it is a scope."""
        if not self._open:
            self._by_hand = any(e.op.name == "scope" and e.params["kind"] == "auto" for e in jaxpr.walk())
        elif self._inside or self._by_hand:
            return super().run(jaxpr, args)
        depth = len(self._open)
        self._open.append(_Scope(depth, jaxpr.eqns[0].source if jaxpr.eqns else None, jaxpr.name))
        try:
            return super().run(jaxpr, args)
        finally:
            while len(self._open) > depth:  # what an error left open inside, too
                self._close(self._open.pop())

    def _close(self, scope: _Scope) -> None:
        held = self._held[scope.ring]
        place = resolve(scope.where)
        row = {"scope": scope.name or "body", "depth": scope.depth, "ring": scope.ring, "tasks": scope.tasks, "bytes": scope.bytes}
        self._lines.append(json.dumps({**row, "ring_tasks": held[0], "ring_bytes": held[1], "at": str(place) if place else ""}))
        held[0] -= scope.tasks
        held[1] -= scope.bytes
        if not self._open and self._watch.scopes is not None:
            self._watch.scopes.parent.mkdir(parents=True, exist_ok=True)
            self._watch.scopes.write_text("".join(f"{line}\n" for line in self._lines))

    def _keep(self, eqn: Eqn, tasks: int, size: int) -> None:
        """Account for a task or a buffer of the innermost scope.

        Errors:
          PL509 naming the ring, its limit, and the scope that fills it.
        """
        scope = self._open[-1]
        scope.tasks += tasks
        scope.bytes += size
        held = self._held[scope.ring]
        held[0] += tasks
        held[1] += size
        for what, option, count, own, limit in (
            ("tasks", "ring_task_window", held[0], scope.tasks, self._watch.window[scope.ring]),
            ("bytes of buffers", "ring_heap", held[1], scope.bytes, self._watch.heap[scope.ring]),
        ):
            if limit and count > limit:
                place = resolve(scope.where)
                raise TaskError(
                    "PL509",
                    f"ring {scope.ring} keeps at most {limit} {what} ({option}), and its open scopes hold {count}; the innermost, of depth "
                    f"{scope.depth}{f' at {place}' if place else ''}, {own} of them",
                    fix=f"raise {option}, or split the scope: ring min(depth, 3) is free again when a scope closes",
                    at=eqn.source,
                )

    def execute(self, eqn: Eqn) -> None:
        """Run one equation, and account for it; the inside of a kernel is no scope."""
        if self._inside:
            super().execute(eqn)
            return
        if eqn.op.name == "scope" and eqn.params["kind"] in ("auto", "manual"):
            if eqn.params["edge"] == "open":
                self._open.append(_Scope(len(self._open), eqn.source, eqn.params["name"] or eqn.params["kind"]))
            else:
                self._close(self._open.pop())
        if eqn.op.name in ("call", "copy"):
            self._keep(eqn, 1, 0)
        launch = eqn.op.name == "call"
        if eqn.op.name == "dump_tag":
            self._tagged.append(self.read(eqn.ins[0]).buffer)
        if launch:
            self._dump(eqn, "before")
        self._inside = launch
        try:
            super().execute(eqn)
        finally:
            self._inside = False
        if launch:
            self._dump(eqn, "after")
            self._launches += 1
        elif eqn.op.name == "alloc":
            self._keep(eqn, 0, self.env[eqn.outs[0]].data.nbytes)

    def _dump(self, eqn: Eqn, when: str) -> None:
        if self._watch.arguments is None:
            return
        kernel, blocks = eqn.params["kernel"], eqn.params["blocks"]
        parts = eqn.params["launch"].divide(eqn.ins, blocks=blocks)
        if self._watch.only_marked:
            taken = [a for a in parts.operands if a not in parts.dumps and isinstance(a.aval, RefAval)]
            tagged = [a for a in taken if any(self.read(a).buffer is b for b in self._tagged)]
            marked = [(a.name if isinstance(a, Var) else "", a) for a in (*parts.dumps, *tagged)]
        else:
            inside = self.kernels[kernel].invars[1 if blocks else 0 :]
            marked = [(v.name, a) for v, a in zip(inside, parts.operands, strict=True)]
        for i, (name, atom) in enumerate(marked):
            data = np.ascontiguousarray(self.read(atom).data)
            file = self._watch.arguments / f"{self._launches:05}_{kernel}" / f"{name or f'value_{i}'}_{when}.npy"
            file.parent.mkdir(parents=True, exist_ok=True)
            # .npy has no name for the narrow floats: their bits, then
            np.save(file, data if data.dtype.isbuiltin == 1 else data.view(f"u{data.dtype.itemsize}"))
