"""Compiled programs: compile once, then pack the arguments, call, and turn error records into the reference executor's errors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from pypto import numerics
from pypto.core.avals import RefAval
from pypto.core.ir import Jaxpr
from pypto.errors import InternalError, OutOfMemoryError
from pypto.interpreters.buffers import no_memory
from pypto.interpreters.cpu.module import Module, Site, written
from pypto.interpreters.cpu.native import NUMBERS
from pypto.interpreters.cpu.rules import Unsupported
from pypto.interpreters.reference import Machine

_FREE = "free memory, or use smaller buffers"
OUT_OF_MEMORY = -2
"""The status of a run that had no on-chip memory."""


@dataclass(frozen=True)
class Fallback:
    """A program the compiled executor has no code for.

    Attributes:
      reason: what it has no code for.
    """

    reason: str
    executor: str = "reference"


class Compiled:
    """A program as machine code.

    Attributes:
      text: its LLVM module.
      room: bytes of memory the thread that calls needs: on-chip memory, and what all threads share.
      main: the address of its code.
      cost: nanoseconds a run is thought to take.
    """

    executor = "cpu"
    reason = ""

    def __init__(self, module: Module, text: str, target: Any) -> None:
        from pypto.interpreters.cpu.machine import Code
        from pypto.interpreters.cpu.native import native

        self.text, self.cost = text, module.costs.whole(module.orchestration)
        self.room = module.room + module.shares.room
        self.sites, self.parameters = tuple(module.sites), tuple(module.parameters)
        self._native = native()
        self._code = Code(text, target, runtime=self._native.code.key)
        self.main = self._code.address("main")

    @property
    def origin(self) -> str:
        """Where the machine code came from: "disk", or "compiled"."""
        return self._code.origin

    @property
    def may_fail(self) -> bool:
        """Whether a check may stop a run half-way; running out of memory does not count."""
        return any(s.kind != "memory" for s in self.sites)

    def run(self, values: Sequence[Any], again: Callable[[], Any], *, threads: int = 0) -> None:
        """Run on the reference executor's run-time values; `again` repeats the run there, to get an error's exact text.

        Args:
          threads: how many threads a launch may use, the caller's included; 0 for one per processor.
        Errors:
          Whatever the reference executor raises.
        """
        slots = self._packed(values)
        record, numbers = (ctypes.c_uint64 * max(1, len(slots)))(*slots), (ctypes.c_int64 * NUMBERS)()
        status = self._native.run(self.main, record, numbers, self.room, threads, self.cost)
        if status == OUT_OF_MEMORY:
            raise OutOfMemoryError(
                "PL407",
                f"no memory for the tiles of the threads, or of the blocks that wait for each other: {self.room:,} bytes each",
                fix=_FREE,
            )
        if status:
            self._raise(self.sites[status - 1], list(numbers), again)

    def _packed(self, values: Sequence[Any]) -> list[int]:
        """The slots of the argument record: pointers, extents known at run time, the bits of scalars."""
        slots: list[int] = []
        for p, v in zip(self.parameters, values, strict=True):
            if isinstance(p.aval, RefAval):
                slots.append(v.data.ctypes.data)
                if p.tracked:
                    slots.append(v.written.ctypes.data)
                slots += [v.data.shape[i] for i in p.dynamic]
            else:
                raw = numerics.widened(v.data) if p.aval.dtype.is_float else v.data
                slots.append(int.from_bytes(raw.tobytes(), "little"))
        return slots

    def _raise(self, site: Site, numbers: Sequence[int], again: Callable[[], Any]) -> None:
        if site.kind == "memory":
            raise no_memory(site.eqn, list(numbers[: site.count]))
        if site.kind == "window" and site.known["name"] is not None:
            rank = site.count // 3
            shape, starts, sizes = (numbers[i * rank : (i + 1) * rank] for i in range(3))
            target = SimpleNamespace(data=SimpleNamespace(shape=tuple(shape)), buffer=SimpleNamespace(name=site.known["name"]))
            Machine._window(site.eqn, target, starts, sizes, (), site.known["what"])
        again()
        raise InternalError(
            "PL901",
            f"the compiled executor found a {site.kind} error, {list(numbers[: site.count])}, the reference none",
            at=site.eqn.source,
        )


def compile_program(orchestration: Jaxpr, kernels: Mapping[str, Jaxpr], target: Any = None) -> Compiled | Fallback:
    """A program as machine code for a target (by default this CPU), or the reason why not."""
    from pypto.interpreters.cpu.machine import enabled, host, unsupported

    if reason := unsupported():
        return Fallback(reason)
    target = target or host()
    try:
        module, text = written(orchestration, kernels, enabled(target))
    except Unsupported as reason:
        return Fallback(str(reason))
    return Compiled(module, text, target)
