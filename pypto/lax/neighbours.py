"""What is done to the bits of a float: the next number, and fewer bits of exponent and fraction."""

from __future__ import annotations

from typing import Any

from pypto.core.trace import aval_of
from pypto.dtypes import DTYPES, DType
from pypto.errors import ShapeError
from pypto.lax.bits import bitcast_convert_type
from pypto.lax.bitwise import and_, or_
from pypto.lax.compare import eq, ge, gt, lt, select
from pypto.lax.elementwise import add
from pypto.lax.families import FLOATS, literal, unify


def _bits_of(name: str, x: Any) -> tuple[Any, DType, DType]:
    """The bits of floats as signed integers, with both dtypes."""
    dtype = aval_of(x).dtype
    if dtype not in FLOATS:
        raise ShapeError("PL305", f"{name} does not take {dtype.name}", fix="cast to one of BF16, FP16, FP32")
    kind = DTYPES[f"INT{dtype.bits}"]
    return bitcast_convert_type(x, kind), dtype, kind


def nextafter(x1: Any, x2: Any) -> Any:
    """The next number after x1 in the direction of x2.

    Args:
      x1, x2: FP32, FP16 or BF16; one dtype, shapes broadcast. The step is one of that dtype, subnormal numbers included.
    Numerics:
      Exact. Of equal numbers it is x2; NaN propagates; from the largest number the next one is infinity.
    Errors:
      PL305 for integers.

    >>> import numpy as np
    >>> nextafter(np.float32([1.0, 0.0]), np.float32(2.0))
    Array([1.0000001e+00, 1.4012985e-45], dtype=FP32)
    """
    x1, x2 = unify(eq, (x1, x2))
    bits, dtype, kind = _bits_of("nextafter", x1)
    # the bits of numbers of one sign are ordered by magnitude
    grows = eq(gt(x2, x1), gt(x1, literal(0, dtype)))
    stepped = bits + select(grows, literal(1, kind), literal(-1, kind))
    smallest = or_(and_(bitcast_convert_type(x2, kind), literal(int(kind.min_value), kind)), literal(1, kind))
    moved = bitcast_convert_type(select(eq(x1, literal(0, dtype)), smallest, stepped), dtype)
    return select(eq(x1, x2), x2, select(eq(x1, x1), select(eq(x2, x2), moved, x2), x1))


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """Round floats to a format of fewer bits, and keep their dtype.

    Args:
      operand: FP32, FP16 or BF16, any shape.
      exponent_bits, mantissa_bits: of the format to round to, without the sign: (8, 7) is BF16, (5, 10) is FP16.
    Numerics:
      To nearest even. What is too large becomes infinite, and what is smaller than the format's normal numbers zero, as
      `jax.lax.reduce_precision`; NaN stays NaN.
    Errors:
      PL308 for fewer than 1 exponent bit or fewer than 0 mantissa bits, PL305 for integers.

    >>> import numpy as np
    >>> reduce_precision(np.float32([1.01, 1e30]), exponent_bits=5, mantissa_bits=2)
    Array([ 1., inf], dtype=FP32)
    """
    bits, dtype, kind = _bits_of("reduce_precision", operand)
    if exponent_bits < 1 or mantissa_bits < 0:
        given = f"reduce_precision: {exponent_bits} exponent bits and {mantissa_bits} mantissa bits"
        raise ShapeError("PL308", given, fix="at least 1 exponent bit and 0 mantissa bits")
    have = dtype.bits - 1 - dtype.mantissa
    sign = and_(bits, literal(int(kind.min_value), kind))
    magnitude = and_(bits, literal(int(kind.max_value), kind))
    infinity = literal(((1 << have) - 1) << dtype.mantissa, kind)
    special = ge(magnitude, infinity)
    cut = dtype.mantissa - mantissa_bits
    if cut > 0:
        # half a unit, less one bit where the last kept one is even: a carry moves on to the next exponent, as it should
        last = select(eq(and_(bits, literal(1 << cut, kind)), literal(0, kind)), literal(0, kind), literal(1, kind))
        magnitude = and_(add(magnitude, add(last, literal((1 << (cut - 1)) - 1, kind))), literal(-(1 << cut), kind))
    if exponent_bits < have:
        middle, reach = (1 << (have - 1)) - 1, (1 << (exponent_bits - 1)) - 1
        largest, least = (middle + reach) << dtype.mantissa, (middle - reach) << dtype.mantissa
        magnitude = select(ge(magnitude, literal(largest + (1 << dtype.mantissa), kind)), infinity, magnitude)
        # exponent 0 of the format is for zeros, and subnormal numbers become those
        magnitude = select(lt(magnitude, literal(least + (1 << dtype.mantissa), kind)), literal(0, kind), magnitude)
    rounded = bitcast_convert_type(or_(sign, magnitude), dtype)
    return select(special, operand, rounded)
