"""The eager runtime: the same rewritten body, executed at once on NumPy, one operation after the other.

Every equation a trace would record is run by the reference machine as soon as it is made. Python's own aliasing does the
rest, which makes this an independent oracle for carries, cells and merges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pypto import numerics
from pypto.core.avals import Aval, TileAval
from pypto.core.ir import Atom, Eqn, Var
from pypto.core.op import Op
from pypto.interpreters.reference import Machine
from pypto.language.staging import StagingRuntime
from pypto.language.trace import PlTrace
from pypto.language.values import RefValue, ScalarValue, TileValue
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


class EagerTile(TileValue):
    """A tile whose elements are known: printing shows them, `np.asarray` copies them."""

    __slots__ = ()

    def __repr__(self) -> str:
        assert isinstance(self.trace, EagerTrace)
        return _shown("Tile", self.trace.machine.env[self.var].data, self.aval)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        assert isinstance(self.trace, EagerTrace)
        return np.array(self.trace.machine.env[self.var].data, dtype)


class EagerRef(RefValue):
    """A tensor whose elements are known: printing shows them, `np.asarray` copies them."""

    __slots__ = ()

    def __repr__(self) -> str:
        assert isinstance(self.trace, EagerTrace)
        return _shown("Tensor", self.trace.machine.env[self.var].data, self.aval)

    __array__ = EagerTile.__array__


def _shown(what: str, data: np.ndarray, aval: Aval) -> str:
    numbers = numerics.widened(data) if aval.dtype.is_float else data
    valid = f", valid={list(aval.valid_shape)}" if isinstance(aval, TileAval) and aval.valid is not None else ""
    return f"{what}({np.array2string(numbers, separator=', ', prefix=f'{what}(')}{valid}, dtype={aval.dtype.name})"


_KNOWN: dict[type, type] = {ScalarValue: EagerScalar, TileValue: EagerTile, RefValue: EagerRef}


class EagerTrace(PlTrace):
    """Runs each equation instead of recording it."""

    concrete = True

    def __init__(self, machine: Machine, *, in_core: bool = False, undeclared_writes: bool = False) -> None:
        super().__init__(in_core=in_core, undeclared_writes=undeclared_writes)
        self.machine = machine

    def wrap(self, var: Var) -> Any:
        return _KNOWN[type(super().wrap(var))](self, var, self.scope)

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


class EagerRuntime(StagingRuntime):
    """Loops run, branches are taken, regions are entered: the methods of the staging runtime do so on a concrete trace."""
