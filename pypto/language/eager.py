"""The eager runtime: the same rewritten body, executed at once on NumPy, one operation after the other.

Every equation a trace would record is run by the reference machine as soon as it is made. Python's own aliasing does the
rest, which makes this an independent oracle for carries, cells and merges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pypto.core.avals import Aval
from pypto.core.ir import Atom, Eqn, Literal, Var
from pypto.core.op import Op
from pypto.interpreters.reference import Machine
from pypto.language.protocol import Names, Thunk
from pypto.language.scopes import At, Loop
from pypto.language.staging import StagingRuntime
from pypto.language.trace import PlTrace, fetch
from pypto.language.values import ScalarValue
from pypto.source import user_frame


class EagerScalar(ScalarValue):
    """A scalar whose number is known."""

    __slots__ = ()

    def number(self) -> Any:
        assert isinstance(self.trace, EagerTrace)
        return self.trace.machine.env[self.var].data.item()

    def __bool__(self) -> bool:
        return bool(self.number())

    def __int__(self) -> int:
        return int(self.number())

    __index__ = __int__

    def __float__(self) -> float:
        return float(self.number())

    def __repr__(self) -> str:
        return repr(self.number())


class EagerTrace(PlTrace):
    """Runs each equation instead of recording it."""

    concrete = True

    def __init__(self, machine: Machine, *, in_core: bool = False, undeclared_writes: bool = False) -> None:
        super().__init__(in_core=in_core, undeclared_writes=undeclared_writes)
        self.machine = machine

    def wrap(self, var: Var) -> Any:
        tracer = super().wrap(var)
        return EagerScalar(self, var, self.scope) if isinstance(tracer, ScalarValue) else tracer

    def polynomial(self, var: Var) -> Any:
        from pypto.core.index import Index

        if not var.aval.dtype.is_integer or var not in self.machine.env:
            return super().polynomial(var)
        return Index.constant(int(self.machine.env[var].data))

    def emit(self, op: Op, ins: Sequence[Atom], params: dict[str, Any], avals: Sequence[Aval] | None = None) -> tuple[Var, ...]:
        results = op.abstract_eval([a.aval for a in ins], params) if avals is None else avals
        outs = tuple(Var(a) for a in results)
        self.machine.execute(Eqn(op, tuple(ins), outs, params, user_frame()))
        return outs

    def number_of(self, a: Atom) -> Any:
        return a.value if isinstance(a, Literal) else self.machine.env[a].data


class EagerRuntime(StagingRuntime):
    """Loops run, branches are taken, regions are entered."""

    def with_(
        self, context: Any, body: Callable[..., tuple], target: str | None, escaping: Names, passed: Names, thunks: tuple[Thunk, ...]
    ) -> tuple:
        if isinstance(context, Loop) and context.kind == "spmd":
            return super().with_(context, body, target, escaping, passed, thunks)
        if not isinstance(context, At):
            return super().with_(context, body, target, escaping, passed, thunks)
        values = [fetch(n, t) for n, t in zip(passed, thunks, strict=True)]
        first = [self._task(context)] if target is not None else []
        before = self.trace.in_region
        self.trace.in_region = True
        try:
            return tuple(body(*first, *values))
        finally:
            self.trace.in_region = before
