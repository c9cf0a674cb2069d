"""What an op's `cpu` slot holds: how the compiled executor makes machine code of it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class Unsupported(Exception):
    """The compiled executor has no code for this; the program runs on the reference executor, and says why."""


@dataclass(frozen=True)
class Lanewise:
    """The rule of an elementwise op: register values in, register value out.

    Attributes:
      emit: `(lanes, *registers) -> register`, or the name of a method of `Lanes`. BF16 and FP16 arrive widened to FP32; what it
        returns is rounded once to the op's result dtype unless it is `exact`.
      exact: the result of narrow floats needs no rounding (signs, extremes, choices).
      first: the position of the first operand that is a value: its dtype is the operation's (a mask in front does not count).
      takes_params: `emit` wants the equation's params, and the dtypes as keywords `source` and `target`.
      weight: roughly how many times longer than an addition an element takes: for where work is done, never for what is computed.
    """

    emit: Callable[..., str] | str
    exact: bool = False
    first: int = 0
    takes_params: bool = False
    weight: float = 1.0

    def function(self) -> Callable[..., str]:
        """The function itself."""
        if not isinstance(self.emit, str):
            return self.emit
        from pypto.interpreters.cpu.lanes import Lanes

        return getattr(Lanes, self.emit)


@dataclass(frozen=True)
class Tilewise:
    """The rule of any other op on tiles.

    Attributes:
      emit: where `(writer, eqn, operands) -> results` is, as "module.NAME" of this package, so that importing ops loads none of it. The
        writer holds the function under construction; operands and results are the values of `pypto.interpreters.cpu.values`.
      uses: what the rule takes from the op's own room, which is above this package: a table, or a function.
      weight: as for `Lanewise`.
      reads: where a rule of `prefixes` is: how much of the operands is read, when only the beginnings of the results are; everything
        if there is none.
      orders: it orders elements, and has less to do where only some of its result is read.
    """

    emit: str
    uses: Any = None
    weight: float = 1.0
    reads: str = ""
    orders: bool = False

    def function(self) -> Callable[..., Any]:
        """The function itself."""
        module, name = self.emit.split(".")
        return getattr(importlib.import_module(f"pypto.interpreters.cpu.{module}"), name)
