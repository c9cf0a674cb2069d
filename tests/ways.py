"""The ways a kernel can run, side by side, with what the abstract values claim held against what is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto import config
from pypto.core.avals import RefAval, TileAval
from pypto.core.ir import Eqn, Jaxpr, Var
from pypto.errors import PyptoError
from pypto.interpreters.reference import Machine
from pypto.language import calls, passing
from pypto.language.decorators import Kernel
from pypto.tile import lower_program

Outcome = tuple[Any, ...] | str | None
"""The bits of a result, or the code of an error."""


class ClaimingMachine(Machine):
    """A checked machine that also compares every value with the shape and valid region its variable claims."""

    def execute(self, eqn: Eqn) -> None:
        super().execute(eqn)
        for out in eqn.outs:
            self._holds(out, eqn)

    def run(self, jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
        for v, value in zip(jaxpr.invars, args, strict=True):
            self.env[v] = value
            self._holds(v, jaxpr)
        return super().run(jaxpr, args)

    def _holds(self, v: Var, where: Any) -> None:
        if isinstance(v.aval, TileAval | RefAval):
            value = self.env[v]
            claim = v.aval.shape if v.aval.valid is None else v.aval.valid
            have = value.data.shape if value.valid is None else value.valid
            wrong = [c for c, h in zip(claim, have, strict=True) if isinstance(c, int) and c != h]
            assert not wrong, f"{v} claims {claim} and is valid in {have}: {getattr(where, 'op', where)}"


def traced(kernel: Kernel, *args: Any) -> Any:
    """The ref-level trace, run as it is. For kernels whose lowering is refused this is not what the kernel means."""
    return _Traced(kernel, args).run()


def lowered(kernel: Kernel, *args: Any) -> Any:
    """The tile program, with the verifier around each pass."""
    return _Traced(kernel, args).run_lowered()


def traced_and_lowered(kernel: Kernel, *args: Any) -> tuple[Outcome, Outcome]:
    """The outcomes of both, from one trace. The first is None where only lowering can refuse the kernel, and does."""
    try:
        one = _Traced(kernel, args)
    except PyptoError as error:
        return error.code, error.code
    second = outcome(one.run_lowered)
    return None if second in ("PL205", "PL207") else outcome(one.run), second


class _Traced:
    """A kernel traced for some arguments."""

    def __init__(self, kernel: Kernel, args: tuple[Any, ...]) -> None:
        self.kernel, self.args = kernel, args
        self.jaxpr = kernel.traced([a.aval if a.aval is not None else a.static for a in self._call().arguments])

    def _call(self) -> calls.Call:
        return self.kernel._bind(_copies(self.args), {})

    def run(self) -> Any:
        return self._run(self.jaxpr, {})

    def run_lowered(self) -> Any:
        with config.override(verify=True):
            program = lower_program(self.jaxpr, platform=config.current().platform)
        return self._run(program.orchestration, program.bodies)

    def _run(self, main: Jaxpr, bodies: dict[str, Jaxpr]) -> Any:
        call = self._call()
        values = passing.to_values(call, check=True, undeclared_writes=self.kernel.undeclared_writes is not None)
        ClaimingMachine(bodies).run(main, values)
        return passing.write_back(self.kernel.signature, call, values)


def _copies(args: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in args)


def bits(result: Any) -> tuple[Any, ...]:
    """A result as something that is equal exactly when the dtypes, shapes and bits are."""
    parts = result if isinstance(result, tuple) else (result,)
    return tuple((np.asarray(p).dtype, np.asarray(p).shape, np.asarray(p).tobytes()) for p in parts)


def outcome(run: Callable[..., Any], *args: Any) -> Outcome:
    """The bits of what a run gives, or the code of its error."""
    try:
        return bits(run(*args))
    except PyptoError as error:
        return error.code


def every_way(kernel: Kernel, *args: Any) -> Any:
    """The result of a kernel that must give the same bits run eagerly, traced, lowered and called."""
    expected = bits(kernel.eager(*_copies(args)))
    assert bits(traced(kernel, *args)) == expected
    assert bits(lowered(kernel, *args)) == expected
    result = kernel(*_copies(args))
    assert bits(result) == expected
    return tuple(map(np.asarray, result)) if isinstance(result, tuple) else np.asarray(result)
