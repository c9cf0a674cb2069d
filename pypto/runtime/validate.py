"""Which pass changed a number: the program is run after each pass, and its outputs are compared, bit for bit by default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto.core.array import to_numpy
from pypto.core.ir import Jaxpr
from pypto.errors import CallError, NumericsError
from pypto.interpreters.reference import Machine
from pypto.interpreters.values import Ref
from pypto.language import calls, passing
from pypto.language.calls import OMITTED
from pypto.testing.closeness import Closeness, measure
from pypto.tile import Program
from pypto.tile.pipeline import Pass, stages

if TYPE_CHECKING:
    from pypto.runtime.compiled import CompiledProgram

Outputs = dict[str, np.ndarray]


def validate(
    compiled: CompiledProgram,
    tensors: Mapping[str, Any] | Sequence[Any],
    expected: Mapping[str, Any] | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    passes: Sequence[Pass] | None = None,
) -> list[str]:
    """Run a program after each pass on the same arguments, and on both executors at the end.

    Args:
      tensors: the arguments, by name or in order; nothing is written to them. Outputs may be left out.
      expected: right results by name, to compare every stage with; without them each stage is compared with the one before.
      rtol, atol: what is allowed. Default: equal bits between stages, the dtype's usual allowance against `expected`.
      passes: in place of the compiler's own.
    Returns:
      The names of the stages, all of which agree.
    Errors:
      PL705 naming the first pass whose results differ, with the worst element.
      PL608 for a program that no longer knows what it was compiled from.
    """
    if compiled.program.traced is None:
        raise CallError("PL608", f"{compiled!r} holds only the program after all passes", fix="compile the kernel, not its lowered program")
    call_arguments = _arguments(compiled, tensors)
    wanted = None if expected is None else {name: to_numpy(value) for name, value in expected.items()}
    _refuse_unknown(compiled, wanted)
    before: Outputs | None = None
    last, seen = "", []
    stage: Jaxpr | Program = compiled.program
    for name, stage in stages(compiled.program.traced, compiled.platform, passes):
        found = _run(compiled, stage, call_arguments)
        _compare(compiled, name, last, found, before, wanted, rtol, atol)
        before, last = found, name
        seen.append(name)
    assert isinstance(stage, Program)
    machine_code = stage.compiled
    if machine_code.executor == "cpu" and before is not None:
        found = _run_compiled(compiled, machine_code, stage, call_arguments)
        _compare(compiled, "machine code", last, found, before, wanted, rtol, atol)
        seen.append("machine code")
    return seen


def _arguments(compiled: CompiledProgram, tensors: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
    """The traced arguments, in order."""
    entry = compiled.entry
    args, kwargs = ((), dict(tensors)) if isinstance(tensors, Mapping) else (tuple(tensors), {})
    return entry.without_fixed(entry.signature.bind(args, kwargs))


def _refuse_unknown(compiled: CompiledProgram, wanted: Outputs | None) -> None:
    written = {compiled.entry.signature.parameters[i].name for i in compiled.output_indices}
    for name in wanted or ():
        if name not in written:
            raise CallError("PL601", f"expected= names {name!r}, the outputs are {sorted(written)}", fix="results by the outputs' names")


def _copied(value: Any) -> Any:
    return value if value is OMITTED or isinstance(value, bool | int | float) else np.array(to_numpy(value))


def _prepared(compiled: CompiledProgram, arguments: list[Any]) -> calls.Call:
    return calls.prepare(compiled.entry.as_run(), [_copied(a) for a in arguments], lambda x: x)


def _results(values: Sequence[Any]) -> Outputs:
    """Everything that was written, device-only writes included."""
    return {v.buffer.name: v.buffer.data for v in values if isinstance(v, Ref) and v.buffer.visible}


def _run(compiled: CompiledProgram, stage: Jaxpr | Program, arguments: list[Any]) -> Outputs:
    values = passing.to_values(_prepared(compiled, arguments), check=False, undeclared_writes=False)
    if isinstance(stage, Program):
        Machine(stage.bodies, check=False).run(stage.orchestration, values)
    else:
        Machine(check=False).run(stage, values)
    return _results(values)


def _run_compiled(compiled: CompiledProgram, machine_code: Any, program: Program, arguments: list[Any]) -> Outputs:
    call = _prepared(compiled, arguments)
    values = passing.to_compiled_values(call, machine_code.parameters, may_fail=True, undeclared_writes=False)
    machine_code.run(values, lambda: _run(compiled, program, arguments))
    names = {p.name for p in compiled.entry.as_run().parameters if p.is_output}
    return {v.buffer.name: v.buffer.data for v in values if isinstance(v, Ref) and v.buffer.name in names}


def _compare(
    compiled: CompiledProgram,
    name: str,
    last: str,
    found: Outputs,
    before: Outputs | None,
    wanted: Outputs | None,
    rtol: float | None,
    atol: float | None,
) -> None:
    reference = wanted if wanted is not None else before
    for output, want in (reference or {}).items():
        if wanted is None:
            allowed = Closeness(rtol or 0.0, atol or 0.0)
        else:
            allowed = Closeness.of(want.dtype).but(rtol, atol)
        result = measure(found[output], want, allowed, name=output, bits=wanted is None and rtol is None and atol is None)
        if not result.passed:
            where = "before any pass: the kernel itself differs" if not last else f"first after pass {name}; after {last} they agreed"
            raise NumericsError(
                "PL705",
                f"{compiled.name}: results differ {where}\n{result.report()}",
                fix="compile with dump_passes=True and read the files of the two passes" if last else "follow it with kernel.eager(...)",
                at=compiled.source,
            )
