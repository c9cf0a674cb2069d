"""Repeated calls: what an earlier call with arrays of the same layout has established is not established again.

Only calls of compiled programs on NumPy arrays, all outputs given and written completely in place, qualify, and only
of programs that cannot fail. What is looked at every time:
the layout of each array, the captured Python values, the configuration, and whether an output shares memory with another argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto import config
from pypto.core.avals import RefAval
from pypto.language.calls import Call
from pypto.language.types import IN, OUT

if TYPE_CHECKING:
    from pypto.interpreters.cpu.launch import Compiled

MOST = 256  # layouts that are remembered per kernel


def layout(args: tuple[Any, ...]) -> Any:
    """What of the arguments of a call decides how it is launched; None where an argument is no NumPy array."""
    found = []
    for a in args:
        if type(a) is not np.ndarray:
            return None
        found.append((a.shape, a.dtype, a.flags.num))
    return tuple(found)


class Quick:
    """One layout: the program, and what has to hold for it to be the right one."""

    __slots__ = ("compiled", "guard", "outs", "platform", "result", "sizes")

    def __init__(self, compiled: Compiled, guard: Any, call: Call) -> None:
        self.compiled, self.guard, self.platform = compiled, guard, config.current().platform
        arrays = [a.array for a in call.arguments if a.array is not None]
        self.sizes = [x.nbytes for x in arrays]
        self.outs = [i for i, a in enumerate(call.arguments) if a.parameter.is_output]
        self.result: Callable[[tuple[Any, ...]], Any] = lambda args: None
        if len(self.outs) == 1:
            only = self.outs[0]
            self.result = lambda args: args[only]
        elif self.outs:
            self.result = lambda args: tuple(args[i] for i in self.outs)

    def fits(self, guard: Any) -> bool:
        """Whether the program is still the one to run, on the compiled executor."""
        chosen = config.current()
        return chosen.executor == "cpu" and not chosen.check and chosen.platform == self.platform and guard == self.guard

    def run(self, args: tuple[Any, ...]) -> bool:
        """Run; False if something is to be looked at again: shared memory, or an error to be told in full."""
        addresses = [a.ctypes.data for a in args]
        for i in self.outs:
            low, high = addresses[i], addresses[i] + self.sizes[i]
            for j, other in enumerate(addresses):
                if j != i and other < high and low < other + self.sizes[j]:
                    return False
        return self.compiled.launch(addresses) == 0


def quick(compiled: Compiled, guard: Any, call: Call) -> Quick | None:
    """The quick way for calls like this one, if there is one."""
    if any(p.dynamic or p.tracked for p in compiled.parameters) or len(call.arguments) != len(compiled.parameters):
        return None
    for a, p in zip(call.arguments, compiled.parameters, strict=True):
        aval, array = a.aval, a.array
        if not isinstance(aval, RefAval) or array is None or a.given is not array or array.dtype != aval.dtype.storage:
            return None
        in_place = aval.direction == IN or (aval.direction == OUT and p.full and not p.read and not compiled.sites and array.flags.carray)
        if not in_place or not array.flags.c_contiguous:
            return None
    return Quick(compiled, guard, call)
