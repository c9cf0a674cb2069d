"""Truth values of arrays and scalars combined; masks of tiles combine by `and_`, `or_`, `xor` and `not_`."""

from __future__ import annotations

from typing import Any

from pypto import dtypes
from pypto.core.op import Exact
from pypto.interpreters.cpu.rules import Lanewise
from pypto.lax.families import elementwise

_BOOL = frozenset({dtypes.BOOL})
_EXACT = Exact("integers")


@elementwise(cpu=Lanewise("both"), accepts=_BOOL, exact=_EXACT, golden="jax.numpy.logical_and")
def logical_and(x: Any, y: Any) -> Any:
    """Both are true.

    Args:
      x, y: BOOL; shapes broadcast. (Python's `and` in a kernel body evaluates its second operand only where needed.)

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.logical_and(np.array([True, True]), np.array([True, False]))
    Array([ True, False], dtype=BOOL)
    """
    return x & y


@elementwise(cpu=Lanewise("either"), accepts=_BOOL, exact=_EXACT, golden="jax.numpy.logical_or")
def logical_or(x: Any, y: Any) -> Any:
    """At least one is true.

    Args:
      x, y: BOOL; shapes broadcast.
    """
    return x | y


@elementwise(cpu=Lanewise("differ"), accepts=_BOOL, exact=_EXACT, golden="jax.numpy.logical_xor")
def logical_xor(x: Any, y: Any) -> Any:
    """Exactly one is true.

    Args:
      x, y: BOOL; shapes broadcast.
    """
    return x ^ y


@elementwise(cpu=Lanewise("invert"), accepts=_BOOL, exact=_EXACT, golden="jax.numpy.logical_not")
def logical_not(x: Any) -> Any:
    """The other truth value.

    Args:
      x: BOOL, any shape.
    """
    return ~x
