"""Quotients and remainders that are rounded down or toward zero."""

from __future__ import annotations

from typing import Any

from pypto import dtypes, numerics
from pypto.core.op import OPS, Exact, Native
from pypto.interpreters.cpu.rules import Lanewise
from pypto.interpreters.rules import by_operand
from pypto.lax.elementwise import zero_divisor
from pypto.lax.families import A5_WIDE, INTEGERS, NUMBERS, chips, elementwise


@elementwise(cpu=Lanewise("floor_div"), accepts=INTEGERS, exact=Exact("integers"), hazard=zero_divisor)
def floor_div(x: Any, y: Any) -> Any:
    """Integer quotient rounded toward minus infinity, as Python's `//`.

    Args:
      x, y: integers of one dtype; shapes broadcast.
    Numerics:
      Exact. A zero divisor gives 0, and PL704 in checked runs; INT_MIN // -1 wraps.
    Errors:
      PL305 for floats.

    >>> from pypto import lax
    >>> lax.floor_div(-5, 3)
    Array(-2, dtype=INT32)
    """
    return numerics.floor_div(x, y)


@elementwise(
    jvp=by_operand(lambda g, y, a, b: g, lambda g, y, a, b: -(g * OPS["floor"](a / b))),
    cpu=Lanewise("floor_mod"),
    accepts=NUMBERS,
    exact=Exact("remainders"),
    pto=Native("pto.trem"),
    golden="jax.numpy.remainder",
    domain=(1, 4),
    hazard=zero_divisor,
    on=chips(frozenset({dtypes.INT32, dtypes.FP32}), A5_WIDE - {dtypes.BF16}),
)
def floor_mod(x: Any, y: Any) -> Any:
    """Remainder with the divisor's sign, as Python's `%`; `pl.rem` of the language.

    Numerics:
      Integers: x - floor(x / y) * y; a zero divisor gives 0, and PL704 in checked runs.
      Floats: `fmod`, and where that has the other sign than y, `fmod` + y rounded once, which can reach y. A zero has the
      sign of y; a zero divisor gives NaN.

    >>> from pypto import lax
    >>> lax.floor_mod(-5, 3)
    Array(1, dtype=INT32)
    >>> lax.floor_mod(5.5, -2.0)
    Array(-0.5, dtype=FP32)
    """
    return numerics.floor_mod(x, y)


@elementwise(
    jvp=by_operand(lambda g, y, a, b: g, lambda g, y, a, b: -(g * OPS["trunc"](a / b))),
    cpu=Lanewise("fmod"),
    accepts=NUMBERS,
    exact=Exact("remainders"),
    pto=Native("pto.tfmod"),
    golden="jax.lax.rem",
    domain=(1, 4),
    hazard=zero_divisor,
    on=chips(frozenset({dtypes.FP32}), A5_WIDE - {dtypes.INT64, dtypes.UINT64}),
)
def fmod(x: Any, y: Any) -> Any:
    """Remainder with the dividend's sign, as C's `fmod` and `%`; JAX's `lax.rem`.

    Numerics:
      Exact. Integers: a zero divisor gives 0, and PL704 in checked runs. Floats: a zero divisor gives NaN.

    >>> from pypto import lax
    >>> lax.fmod(-5, 3), lax.fmod(-5.5, 3.0)
    (Array(-2, dtype=INT32), Array(-2.5, dtype=FP32))
    """
    return numerics.fmod(x, y)
