"""Counting bits, by shifts and masks that the vector unit has."""

from __future__ import annotations

from typing import Any

from pypto.core.op import Exact
from pypto.core.trace import aval_of
from pypto.dtypes import DTYPES, DType
from pypto.lax.bitwise import and_, or_, shr, xor
from pypto.lax.composite import composite
from pypto.lax.convert import convert
from pypto.lax.families import INTEGERS, literal
from pypto.lax.placing import reinterpret

_EXACT = Exact("composites")
_COUNTED = INTEGERS - {DTYPES["INDEX"]}


def _unsigned(x: Any) -> tuple[Any, DType]:
    """The same bits as an unsigned number, whose right shifts bring in zeros."""
    other = DTYPES[f"UINT{aval_of(x).dtype.bits}"]
    return _as(x, other), other


def _as(x: Any, dtype: DType) -> Any:
    """The same bits in another dtype of the same width: a tile is only named otherwise, which needs no instruction."""
    if aval_of(x).dtype is dtype:
        return x
    return reinterpret(x, dtype=dtype) if aval_of(x).shape else convert(x, dtype=dtype, mode="trunc", overflow="wrap")


def _ones(x: Any, kind: DType) -> Any:
    """The number of bits set in an unsigned number: pairs, then groups of 4, 8, ... bits are added up side by side."""
    width = 1
    while width < kind.bits:
        # 01010101, 00110011, 00001111, ...
        mask = literal(sum(((1 << width) - 1) << place for place in range(0, kind.bits, 2 * width)), kind)
        x = and_(x, mask) + and_(shr(x, literal(width, kind)), mask)
        width *= 2
    return x


@composite(exact=_EXACT, accepts=_COUNTED)
def population_count(x: Any) -> Any:
    """How many bits are set.

    Args:
      x: integers, any shape; the result has their dtype. Of a negative number the bits of its two's complement count.
    Numerics:
      Exact.
    Errors:
      PL305 for floats and truth values.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.population_count(np.int8([0, 7, -1]))
    Array([0, 3, 8], dtype=INT8)
    """
    bits, kind = _unsigned(x)
    return _as(_ones(bits, kind), aval_of(x).dtype)


@composite(exact=_EXACT, accepts=_COUNTED)
def clz(x: Any) -> Any:
    """How many zeros stand before the highest bit that is set; the width of the dtype for 0.

    Args:
      x: integers, any shape; the result has their dtype. A negative number has none.
    Numerics:
      Exact: every bit below the highest one is set, and those that are not set are counted.
    Errors:
      PL305 for floats and truth values.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.clz(np.int8([0, 7, -1]))
    Array([8, 5, 0], dtype=INT8)
    """
    bits, kind = _unsigned(x)
    step = 1
    while step < kind.bits:
        bits = or_(bits, shr(bits, literal(step, kind)))
        step *= 2
    return _as(_ones(xor(bits, literal((1 << kind.bits) - 1, kind)), kind), aval_of(x).dtype)
