"""Every way to run a kernel, compared bit for bit: as a program, compiled, and statement by statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import pypto
from pypto.errors import PyptoError
from pypto.interpreters.dispatch import Task
from pypto.interpreters.reference import Machine
from pypto.language import passing
from tests.bits import identical


def runs(kernel: Any, *args: Any, eager: bool = True) -> list[tuple[np.ndarray, ...]]:
    """The results of each way; what a kernel writes in place is given to each way afresh."""

    def fresh() -> list[Any]:
        return [np.array(a) if isinstance(a, np.ndarray) else a for a in args]

    def compiled(*given: Any) -> Any:
        with pypto.override(check=False, executor="cpu"):
            return kernel(*given)

    def unchecked(*given: Any) -> Any:
        with pypto.override(check=False, executor="reference"):
            return kernel(*given)

    def verified(*given: Any) -> Any:
        with pypto.override(verify=True, check=True):
            return kernel(*given)

    ways: list[Callable[..., Any]] = [verified, unchecked, compiled, *([kernel.eager] if eager else [])]
    return [_parts(way(*fresh())) for way in ways]


def _parts(result: Any) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(r) for r in (result if isinstance(result, tuple) else (result,)))


def same_everywhere(kernel: Any, *args: Any, want: Sequence[Any], eager: bool = True) -> None:
    """Every way gives exactly `want`."""
    for results in runs(kernel, *args, eager=eager):
        assert len(results) == len(want)
        for result, expected in zip(results, want, strict=True):
            assert identical(result, np.asarray(expected))


def traced_error(code: str, fn: Any, decorate: Callable[[Any], Any], run: Callable[[Any], Any]) -> PyptoError:
    """The error of a kernel whose faulty line carries `# refused`."""
    with pytest.raises(PyptoError) as caught:
        run(decorate(fn))
    error = caught.value
    assert error.code == code, error.render()
    assert error.source is not None and error.source.text.endswith("# refused"), error.render()
    assert error.fix, error.render()
    return error


def tasks_of(kernel: Any, *args: Any) -> list[Task]:
    """The tasks that one run of a kernel submits, in order."""
    call = kernel._bind(args, {})
    program = kernel._program(call)
    machine = Machine(program.bodies)
    machine.run(program.orchestration, passing.to_values(call, check=True, undeclared_writes=False))
    return machine.tasks


def launches(kernel: Any) -> list[str]:
    """The lines of the printed orchestration that submit tasks."""
    lines = str(kernel.lower()).split("type=pl.FunctionType.InCore")[0].splitlines()
    return [line.strip() for line in lines if "submit(" in line or "task_dummy(" in line]
