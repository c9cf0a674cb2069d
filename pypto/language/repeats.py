"""Repeated calls on the reference executor: a call laid out like an earlier one finds its program by one look-up.

The first call of a layout checks its arguments, traces and lowers. What is looked at again each time is what a layout does not say:
the numbers of scalars, whether an output shares memory with another argument, the captured Python values, the platform.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto import config
from pypto.captures.freezing import ATOMS
from pypto.core.allocation import zeros
from pypto.core.avals import Aval, RefAval
from pypto.dtypes import FP32, DType
from pypto.language.calls import OMITTED, Argument, Call, Parameter, Signature, check_overlap, number
from pypto.language.types import ScalarType
from pypto.platform import Platform, platform_of

if TYPE_CHECKING:
    from pypto.language.kernel import Kernel
    from pypto.tile import Program

MOST = 256
"""How many layouts are remembered per kernel."""
_WHOLE = 2.0**100
"""Well inside FP32: no overflow to look at."""


def layout(args: tuple[Any, ...]) -> Any:
    """What of a call's arguments decides how it is checked and which program it runs; None if something else does, too."""
    found: list[Any] = []
    for a in args:
        kind = type(a)
        if kind is np.ndarray:
            found.append((a.shape, a.dtype, a.strides, a.flags.num))
        elif kind in ATOMS:
            found.append(kind)
        else:
            return None
    return tuple(found)


def _number(signature: Signature, p: Parameter, given: Any, dtype: DType) -> np.ndarray:
    """As `number`; the common cases, whose rounding is NumPy's, at once."""
    if type(given) is int and dtype.is_integer and dtype.min_value <= given <= dtype.max_value:
        return np.array(given, dtype.storage)
    if type(given) is float and dtype is FP32 and -_WHOLE < given < _WHOLE:
        return np.array(given, np.float32)
    return number(signature, p, given, dtype)


def _made(a: Argument) -> tuple[int, ...] | None:
    """The shape of an output that was left out. No array is kept: it would live as long as the kernel."""
    return a.array.shape if a.given is OMITTED and a.array is not None else None


class _Known:
    """One layout: the arguments of an earlier call, its program, and whether that is still the one."""

    __slots__ = ("arguments", "extents", "key", "outputs", "platform", "program", "statics", "unchanged")

    def __init__(self, call: Call, program: Program, unchanged: Callable[[], bool], platform: Platform) -> None:
        self.arguments = [(a.parameter, a.aval, a.static, _made(a)) for a in call.arguments]
        self.statics = [(i, a.static) for i, a in enumerate(call.arguments) if a.aval is None]
        self.outputs = any(a.parameter.is_output and a.given is not OMITTED for a in call.arguments)
        self.key, self.extents, self.program = call.key, call.extents, program
        self.unchanged, self.platform = unchanged, platform


class Repeats:
    """The layouts of one kernel's calls."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.known: dict[Any, _Known] = {}

    def __call__(self, args: tuple[Any, ...]) -> tuple[Call, Program] | None:
        """The bound call and its program, or None where it has to be looked at in full.

        Errors:
          PL602 for a scalar its dtype does not hold, PL605 for an output that shares memory with another argument.
        """
        found = self.known.get(layout(args))
        if found is None or found.platform is not platform_of(config.current().platform) or not found.unchanged():
            return None
        for i, static in found.statics:
            if i < len(args) and (type(args[i]) is not type(static) or repr(args[i]) != repr(static)):
                return None
        signature, arguments = self.kernel.signature, []
        for i, (p, aval, static, made) in enumerate(found.arguments):
            if aval is None:
                arguments.append(Argument(p, static, None, None, static))
            elif made is not None:
                arguments.append(Argument(p, OMITTED, zeros(f"the output `{p.name}`", aval.dtype, made), aval))
            elif isinstance(p.type, ScalarType):
                given = args[i] if i < len(args) else p.default
                arguments.append(Argument(p, given, _number(signature, p, given, p.type.dtype), aval))
            else:
                arguments.append(Argument(p, args[i], args[i], aval))
        if found.outputs and len(arguments) > 1:
            check_overlap(signature, arguments)
        return Call(arguments, found.key, found.extents), found.program

    def remember(self, args: tuple[Any, ...], call: Call, program: Program) -> None:
        """Let the next call laid out like this one find its program at once."""
        key = layout(args)
        if key is None or any(p.by_name for p in self.kernel.signature.parameters):
            return
        for a in call.arguments:
            if a.aval is None and type(a.static) not in ATOMS:
                return
            if isinstance(a.aval, RefAval) and not (a.given is a.array or a.given is OMITTED):
                return
            assert a.aval is None or isinstance(a.aval, Aval)
        if len(self.known) >= MOST:
            self.known.clear()
        self.known[key] = _Known(call, program, self.kernel.watch(), platform_of(config.current().platform))
