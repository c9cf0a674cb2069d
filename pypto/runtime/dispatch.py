"""Running a tile program on arguments: the parameters are read from the program itself, so a loaded one needs no Python source."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pypto import config
from pypto.captures import Freezer, Key, function_reads
from pypto.core.array import Array, to_numpy
from pypto.core.avals import RefAval, ScalarAval
from pypto.core.index import Dim, Index
from pypto.core.ir import Var
from pypto.errors import CallError
from pypto.interpreters.cpu.launch import Compiled
from pypto.interpreters.reference import Machine
from pypto.language import calls, passing
from pypto.language.calls import OMITTED, Call, Parameter, Signature
from pypto.language.types import IN, INOUT, ScalarType, Symbol, TensorType
from pypto.runtime.observed import ObservedMachine, Watch
from pypto.runtime.tensors import DeviceTensor
from pypto.source import Source
from pypto.tile import Program
from pypto.tile.outputs import written


@dataclass(frozen=True)
class Timing:
    """Seconds of one dispatch.

    Attributes:
      bind: checking the arguments and bringing them to buffers.
      device: inside the program. There is no device: this is this CPU's time.
      back: copying results to the caller.
      executor: what ran it, "cpu" or "reference".
    """

    bind: float
    device: float
    back: float
    executor: str

    @property
    def total(self) -> float:
        """Seconds of the whole dispatch."""
        return self.bind + self.device + self.back


class Entry:
    """The call surface of a program: its parameters, and which inputs it writes on the device."""

    def __init__(
        self, program: Program, source: Source, defaults: Mapping[str, Any] | None = None, fixed: Sequence[tuple[int, str, Any]] = ()
    ) -> None:
        self.program, self.defaults, self.fixed = program, dict(defaults or {}), tuple(fixed)
        self._arrays: dict[int, tuple[Any, int]] = {}
        self._known = {name: self._key(value) for _, name, value in self.fixed}
        invars = program.orchestration.invars
        symbols: dict[Index, Symbol] = {}
        parameters = []
        for v in invars:
            kind = _type_of(v, symbols)
            parameters.append(Parameter(v.name, kind, self.defaults[v.name]) if v.name in self.defaults else Parameter(v.name, kind))
        self.traced = Signature(program.name, tuple(parameters), source)
        for position, name, value in sorted(self.fixed):
            parameters.insert(position, Parameter(name, None, value))
        self.signature = replace(self.traced, parameters=tuple(parameters))
        reached = written(program.orchestration, program.bodies)
        self.device_writes = frozenset(v.name for v in invars if isinstance(v.aval, RefAval) and v.aval.direction == IN and v in reached)

    @property
    def names(self) -> list[str]:
        """The parameters, in order."""
        return [p.name for p in self.signature.parameters]

    @property
    def outputs(self) -> list[int]:
        """Positions of the parameters that are written for the caller."""
        return [i for i, p in enumerate(self.signature.parameters) if p.is_output]

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any], watch: Watch | None = None) -> tuple[Any, Timing]:
        """Bind, run on the executor in force, and copy back; the outputs, and where the time went.

        Device tensors are used where they are: nothing is copied in, and what is written to them stays.
        """
        started = time.perf_counter()
        values, resident = self._resident(self.without_fixed(self.signature.bind(args, kwargs)))
        signature = self.as_run()
        call = calls.prepare(signature, values, lambda x: x)
        began, ended, executor, values = self._execute(call, watch, resident)
        result = passing.write_back(signature, call, values)
        result = _handed_back(result, resident, {p.name for p in self.traced.parameters if p.is_output}, signature)
        return result, Timing(began - started, ended - began, time.perf_counter() - ended, executor)

    def without_fixed(self, values: list[Any]) -> list[Any]:
        """The traced arguments. What was a plain Python value when the program was compiled must still be that value."""
        known = {name: value for _, name, value in self.fixed}
        kept = []
        for p, v in zip(self.signature.parameters, values, strict=True):
            if p.name not in known:
                kept.append(v)
            elif self._key(v) != self._known[p.name]:
                raise CallError(
                    "PL602",
                    f"`{p.name}` is {v!r}, but the program was compiled for {known[p.name]!r}",
                    fix=f"compile it for {p.name}={v!r}",
                )
        return kept

    def _key(self, value: Any) -> Key:
        """What decides whether a plain Python value is the one the program was compiled for: 0.0 and -0.0 are two, a NaN is one."""
        return Freezer(self._arrays, function_reads).key(value)

    def _resident(self, values: list[Any]) -> tuple[list[Any], dict[str, DeviceTensor]]:
        found: dict[str, DeviceTensor] = {}
        plain = []
        for p, v in zip(self.traced.parameters, values, strict=True):
            if isinstance(v, DeviceTensor):
                found[p.name] = v
                v = v.memory
            elif p.name in self.device_writes and v is not OMITTED:
                v = np.array(to_numpy(v))  # written on the device only: the caller's array keeps its content
            plain.append(v)
        return plain, found

    def as_run(self) -> Signature:
        """The traced parameters, those that are written on the device only as in/out."""
        if not self.device_writes:
            return self.traced
        changed = []
        for p in self.traced.parameters:
            if p.name in self.device_writes and isinstance(p.type, TensorType):
                p = replace(p, type=replace(p.type, direction=INOUT))
            changed.append(p)
        return replace(self.traced, parameters=tuple(changed))

    def _execute(self, call: Call, watch: Watch | None, resident: Collection[str]) -> tuple[float, float, str, list[Any]]:
        chosen, program = config.current(), self.program
        if chosen.executor == "cpu" and not chosen.check and watch is None:
            compiled = program.compiled
            if isinstance(compiled, Compiled):
                values = passing.to_compiled_values(
                    call, compiled.parameters, may_fail=compiled.may_fail, undeclared_writes=False, in_place=resident
                )

                def again() -> None:
                    fresh = passing.to_values(call, check=False, undeclared_writes=False)
                    Machine(program.bodies, check=False).run(program.orchestration, fresh)

                began = time.perf_counter()
                compiled.run(values, again, threads=chosen.threads or 0)
                return began, time.perf_counter(), "cpu", values
        check = bool(chosen.check)
        values = passing.to_values(call, check=check, undeclared_writes=False)
        machine = Machine if watch is None else partial(ObservedMachine, watch=watch)
        began = time.perf_counter()
        machine(program.bodies, check=check).run(program.orchestration, values)
        return began, time.perf_counter(), "reference", values


def _type_of(v: Var, symbols: dict[Index, Symbol]) -> TensorType | ScalarType:
    """The annotation a parameter of a program stands for."""
    aval = v.aval
    if isinstance(aval, ScalarAval):
        return ScalarType(aval.dtype)
    if not isinstance(aval, RefAval):
        raise CallError("PL602", f"`{v.name}` is {aval}, no parameter of a program", fix="compile a kernel, or what kernel.lower() gives")
    return TensorType(tuple(_extent(d, symbols) for d in aval.shape), aval.dtype, aval.direction or IN)


def _extent(d: Dim, symbols: dict[Index, Symbol]) -> int | Symbol:
    if isinstance(d, int):
        return d
    if d not in symbols:
        symbols[d] = Symbol(str(d))
        object.__setattr__(symbols[d], "index", d)
    return symbols[d]


def _handed_back(result: Any, resident: dict[str, DeviceTensor], declared: set[str], signature: Signature) -> Any:
    """The results with device tensors in place of their memory, without what the program wrote on the device only."""
    if result is None:
        return None
    many = result if isinstance(result, tuple) else (result,)
    names = [p.name for p in signature.parameters if p.is_output]
    if len(many) == len(names):  # not only what was left out: everything, in order
        many = tuple(resident.get(n, r) for n, r in zip(names, many, strict=True) if n in declared)
    assert all(isinstance(r, Array | DeviceTensor | np.ndarray) or r is not None for r in many)
    return None if not many else many[0] if len(many) == 1 else many
