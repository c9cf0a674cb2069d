"""What an op's `cpu` slot holds: how the compiled executor makes machine code of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class Unsupported(Exception):
    """The compiled executor has no code for this; the program runs on the reference executor, and says why."""


@dataclass(frozen=True)
class Lanewise:
    """The rule of an elementwise op: register values in, register value out.

    Attributes:
      emit: `(lanes, *registers) -> register`. BF16 and FP16 arrive widened to FP32; what it returns is rounded once
        to the op's result dtype unless it is `exact`.
      exact: the result of narrow floats needs no rounding (signs, extremes, choices).
      first: the position of the first operand that is a value: its dtype is the operation's (a mask in front does not count).
      takes_params: `emit` wants the equation's params, and the dtypes as keywords `source` and `target`.
    """

    emit: Callable[..., str]
    exact: bool = False
    first: int = 0
    takes_params: bool = False


@dataclass(frozen=True)
class Tilewise:
    """The rule of any other op on tiles.

    Attributes:
      emit: `(writer, eqn, operands) -> results`: the writer holds the function under construction, operands and results are
        the values of `pypto.interpreters.cpu.values`.
    """

    emit: Callable[..., Any]
