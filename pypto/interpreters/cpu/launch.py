"""Compiled programs: compile once, then pack the arguments, call, and turn error records into the reference executor's errors."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from pypto.core.avals import RefAval
from pypto.core.ir import Jaxpr
from pypto.errors import InternalError
from pypto.interpreters.cpu.module import Parameter, Site, written
from pypto.interpreters.cpu.rules import Unsupported
from pypto.interpreters.reference import Machine

_RECORD = 64  # numbers an error record holds


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
      room: bytes of on-chip memory a call needs.
    """

    executor = "cpu"
    reason = ""

    def __init__(self, text: str, room: int, sites: Sequence[Site], parameters: Sequence[Parameter], target: Any) -> None:
        from pypto.interpreters.cpu.machine import Code

        self.text, self.room = text, room
        self.sites, self.parameters = tuple(sites), tuple(parameters)
        self._code = Code(text, target)
        self._entry = self._code.function("entry", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        self._local = threading.local()

    def run(self, values: Sequence[Any], again: Callable[[], Any]) -> None:
        """Run on the reference executor's run-time values; `again` repeats the run there, to get an error's exact text.

        Errors:
          Whatever the reference executor raises.
        """
        status = self.launch(self._packed(values))
        if status:
            self._raise(self.sites[status - 1], [int(x) for x in self._memory()[1]], again)

    def launch(self, slots: Sequence[int]) -> int:
        """Run on an argument record made of these slots; the status, 0 if nothing failed."""
        arena, _, err, record, address = self._memory()
        record[: len(slots)] = slots
        return self._entry(arena, err, address)

    def _memory(self) -> tuple[int, np.ndarray, int, Any, int]:
        """Of this thread: the arena, the error record with its address, the argument record with its address."""
        found = getattr(self._local, "memory", None)
        if found is None:
            space, err = np.zeros(self.room + 4096, np.uint8), np.zeros(_RECORD, np.int64)
            record = (ctypes.c_uint64 * max(1, 32 * len(self.parameters)))()
            arena = -(-space.ctypes.data // 4096) * 4096
            self._local.space = space
            found = self._local.memory = (arena, err, err.ctypes.data, record, ctypes.addressof(record))
        return found

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
                raw = v.data.astype(np.float32) if p.aval.dtype.is_float else v.data
                slots.append(int.from_bytes(raw.tobytes(), "little"))
        return slots

    def _raise(self, site: Site, numbers: Sequence[int], again: Callable[[], Any]) -> None:
        if site.kind == "memory":
            raise MemoryError(f"{numbers[0]} bytes for `{site.eqn.outs[0].name}`")
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
    from pypto.interpreters.cpu.machine import enabled, host

    target = target or host()
    try:
        module, text = written(orchestration, kernels, enabled(target))
    except Unsupported as reason:
        return Fallback(str(reason))
    return Compiled(text, module.room, module.sites, module.parameters, target)
