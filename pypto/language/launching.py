"""Repeated calls: what an earlier call with such arguments has established is not established again.

A call that ran compiled code leaves a `Quick` behind: a table of what its arguments were like, which the runtime compares with those of
the next call, in native code, before it runs the program on them. What is looked at every time: type, dtype, extents and layout of each
array, whether an output shares memory with another argument, the range of numbers, the captured Python values, the configuration.

Only calls qualify whose outputs are written completely and where they are, by a program that no check can stop half-way.
"""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto import config, dtypes
from pypto.captures.freezing import ATOMS
from pypto.core.array import Array
from pypto.core.avals import ArrayAval, RefAval, ScalarAval
from pypto.core.trace import EVAL, current_trace
from pypto.interpreters.cpu import native
from pypto.language.calls import OMITTED, Argument, Call
from pypto.language.types import IN, OUT

if TYPE_CHECKING:
    from pypto.captures import Guard
    from pypto.interpreters.cpu.launch import Compiled
    from pypto.language.kernel import Kernel

MOST = 16
"""How many kinds of calls are remembered per kernel."""

MISS = object()
"""What a call gives that has to go the long way."""

_READ, _WRITTEN, _ZEROED, _OBJECT, _FLOAT, _INTEGER = range(6)
_HEAD, _ROW = 16, 8  # words of the table's head, and per argument: see launch.ll


class Launches:
    """The quick ways of one kernel, the oldest first."""

    __slots__ = ("guard", "known")

    def __init__(self, guard: Guard | Kernel) -> None:
        self.guard = guard
        self.known: tuple[Quick, ...] = ()

    def __call__(self, args: tuple[Any, ...]) -> Any:
        """The result of a call, or MISS."""
        if current_trace() is not EVAL:
            return MISS
        chosen = config.current()
        for quick in self.known:
            if quick.config is not chosen:
                if quick.config != chosen:
                    continue
                quick.config = chosen
            if quick.unchanged() and (result := quick(args)) is not MISS:
                return result
        return MISS

    def remember(self, compiled: Compiled, call: Call) -> None:
        """Let the next call like this one go the quick way, if there is one for it."""
        if native.layout_known() and (rows := _rows(compiled, call)) is not None:
            self.known = (*self.known[1 - MOST :], Quick(compiled, call, rows, self.guard.watch()))


class Quick:
    """The quick way for one kind of call."""

    __slots__ = (
        "_count", "_defaults", "_fresh", "_kept", "_least", "_native", "_only", "_outputs", "_table", "config", "unchanged",
    )  # fmt: skip

    def __init__(self, compiled: Compiled, call: Call, rows: list[list[int]], unchanged: Callable[[], bool]) -> None:
        self.config, self.unchanged = config.current(), unchanged
        self._native = native.native().quick
        slots = sum(p.slots for p in compiled.parameters)
        numbers = (ctypes.c_int64 * native.NUMBERS)()
        head = [len(rows), id(np.ndarray), compiled.main, compiled.room, self.config.threads or 0, slots, ctypes.addressof(numbers)]
        head += [compiled.cost, id(float), id(int), native.TYPE, native.FIELDS]
        template: list[int] = []
        extents = [(ctypes.c_int64 * max(1, a.array.ndim))(*a.array.shape) if a.array is not None else None for a in call.arguments]
        for row, a, shape in zip(rows, call.arguments, extents, strict=True):
            if row[0] == _OBJECT:
                continue
            row[1] = len(template)
            template.append(0)
            if row[0] in (_READ, _WRITTEN, _ZEROED) and shape is not None and a.array is not None:
                row[3:5] = a.array.ndim, ctypes.addressof(shape)
        for row in rows:
            if row[0] == _OBJECT:
                row[1] = len(template)  # a slot nobody reads
        head += [0] * (_HEAD - len(head))
        words = [*head, *template, 0, *(w for row in rows for w in row)]
        words[5] = len(template) + 1
        table = (ctypes.c_int64 * len(words))(*words)
        self._table = ctypes.addressof(table)
        self._kept = (table, numbers, extents, compiled, [a.static for a in call.arguments])
        outs = [(i, a) for i, a in enumerate(call.arguments) if a.parameter.is_output]
        omitted = [a for _, a in outs if a.given is OMITTED]
        self._fresh = [ArrayAval(a.array.shape, a.aval.dtype) for a in omitted if a.array is not None and a.aval is not None]
        self._outputs = tuple(i for i, a in outs if not omitted or a.given is OMITTED)
        self._count = len(rows) - len(omitted)
        self._defaults = tuple(a.parameter.default for a in call.arguments)
        self._least = self._count
        while self._least and not omitted and self._defaults[self._least - 1] is not inspect.Parameter.empty:
            self._least -= 1
        self._only = self._outputs[0] if len(self._outputs) == 1 else None

    def __call__(self, args: tuple[Any, ...]) -> Any:
        """Run, or MISS where something is to be looked at again."""
        if len(args) < self._least:
            return MISS
        if len(args) != self._count:
            args = (*args, *self._defaults[len(args) :])
        if self._fresh:
            try:
                made = [np.empty(aval.static_shape, aval.dtype.storage) for aval in self._fresh]
            except MemoryError:
                return MISS  # the long way has the error that says which
            args = (*args, *made)
            if self._native(args, self._table):
                return MISS
            arrays = [Array.adopt(data, aval) for data, aval in zip(made, self._fresh)]
            return arrays[0] if self._only is not None else tuple(arrays)
        if self._native(args, self._table):
            return MISS
        return args[self._only] if self._only is not None else tuple([args[i] for i in self._outputs]) or None


def _rows(compiled: Compiled, call: Call) -> list[list[int]] | None:
    """What the table says of each argument; None if calls like this one go the long way."""
    if compiled.may_fail or any(p.dynamic or p.tracked for p in compiled.parameters):
        return None
    given = [a.given is not OMITTED for a in call.arguments]
    if given != sorted(given, reverse=True):  # an output left out before an argument that was given
        return None
    parameters = iter(compiled.parameters)
    rows = []
    for a in call.arguments:
        row = _static_row(a) if a.aval is None else _row(a, next(parameters))
        if row is None:
            return None
        rows.append(row)
    return rows


def _static_row(a: Argument) -> list[int] | None:
    return [_OBJECT, 0, id(a.static), 0, 0, 0, 0, 0] if type(a.static) in ATOMS else None


def _row(a: Argument, p: Any) -> list[int] | None:
    aval, array = a.aval, a.array
    assert array is not None and aval is not None
    dtype = aval.dtype
    if isinstance(aval, ScalarAval):
        if dtype is dtypes.FP32 and type(a.given) is float:
            return [_FLOAT, 0, 0, 0, 0, 0, 0, 0]
        if dtype.is_integer and dtype is not dtypes.UINT64 and type(a.given) is int:
            return [_INTEGER, 0, 0, int(dtype.min_value), int(dtype.max_value), 0, 0, 0]
        return None
    if not isinstance(aval, RefAval) or not (a.given is array or a.given is OMITTED) or array.dtype != dtype.storage:
        return None
    flags = native.ALIGNED | native.CONTIGUOUS | (0 if aval.direction == IN else native.WRITABLE)
    if type(array) is not np.ndarray or not (array.flags.c_contiguous and array.flags.aligned) or array.dtype is not np.dtype(array.dtype):
        return None
    kind = _READ if aval.direction == IN else _ZEROED if aval.direction == OUT and p.read else _WRITTEN
    return [kind, 0, id(array.dtype), 0, 0, flags, array.nbytes, 0]
