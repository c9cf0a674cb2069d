"""Elementwise arithmetic. BF16 and FP16 widen to FP32, do one FP32 operation, and round once to nearest even."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pypto import dtypes, numerics
from pypto.core.avals import Aval
from pypto.core.op import OPS, Exact, Native
from pypto.core.trace import aval_of
from pypto.errors import ShapeError
from pypto.interpreters.cpu.rules import Lanewise
from pypto.interpreters.rules import by_operand, stretched
from pypto.interpreters.tangents import Undefined
from pypto.lax.families import A3_ARITHMETIC, A5_ALL, A5_WIDE, FLOATS, NATIVE_FLOATS, NUMBERS, chips, elementwise

_ARITHMETIC = Exact("fp32")


@elementwise(
    jvp=by_operand(lambda g, y, a, b: g, lambda g, y, a, b: g),
    transpose=stretched(lambda ct, a, b: (ct, ct)),
    cpu=Lanewise("add"),
    accepts=NUMBERS,
    exact=_ARITHMETIC,
    pto=Native("pto.tadd"),
    golden="jax.lax.add",
    on=chips(A3_ARITHMETIC, A5_ALL),
)
def add(x: Any, y: Any) -> Any:
    """Add two values.

    Args:
      x, y: one dtype; shapes broadcast as NumPy's. In kernels one side may be a number or a scalar.
    Numerics:
      Correctly rounded in FP32; integers wrap.
    Errors:
      PL301 for shapes that do not broadcast, PL302 for different dtypes in a kernel.

    >>> from pypto import lax
    >>> lax.add(1.5, 2)
    Array(3.5, dtype=FP32)
    """
    return numerics.add(x, y)


@elementwise(
    jvp=by_operand(lambda g, y, a, b: g, lambda g, y, a, b: -g),
    transpose=stretched(lambda ct, a, b: (ct, -ct)),
    cpu=Lanewise("sub"),
    accepts=NUMBERS,
    exact=_ARITHMETIC,
    pto=Native("pto.tsub"),
    golden="jax.lax.sub",
    on=chips(A3_ARITHMETIC, A5_ALL),
)
def sub(x: Any, y: Any) -> Any:
    """Subtract: x - y.

    Args:
      x, y: one dtype; shapes broadcast as NumPy's.
    Numerics:
      Correctly rounded in FP32; integers wrap.
    Errors:
      PL301, PL302 as `add`.

    >>> from pypto import lax
    >>> lax.sub(3, 5)
    Array(-2, dtype=INT32)
    """
    return numerics.sub(x, y)


@elementwise(
    jvp=by_operand(lambda g, y, a, b: g * b, lambda g, y, a, b: g * a),
    transpose=stretched(lambda ct, a, b: (None, ct * a) if isinstance(b, Undefined) else (ct * b, None)),
    cpu=Lanewise("mul"),
    accepts=NUMBERS,
    exact=_ARITHMETIC,
    pto=Native("pto.tmul"),
    golden="jax.lax.mul",
    on=chips(A3_ARITHMETIC, A5_WIDE),
)
def mul(x: Any, y: Any) -> Any:
    """Multiply.

    Args:
      x, y: one dtype; shapes broadcast as NumPy's.
    Numerics:
      Correctly rounded in FP32, never contracted with an addition; integers keep the low bits of the product.
    Errors:
      PL301, PL302 as `add`.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.mul(np.int8([100]), np.int8([3]))
    Array([44], dtype=INT8)
    """
    return numerics.mul(x, y)


def zero_divisor(x: Any, y: Any) -> tuple[str, Any]:
    """Integer division by zero; floats divide by zero as IEEE says."""
    return "the divisor is 0", (y == 0) if y.dtype.kind in "iu" else None


def _precision(name: str, avals: Sequence[Aval], *, high_precision: Any = None) -> None:
    """The choice of an instruction's variant: a bool, for floats."""
    if not isinstance(high_precision, bool | None):
        raise ShapeError("PL308", f"{name}: high_precision={high_precision!r}", fix="True or False")
    if high_precision and not avals[0].dtype.is_float:
        raise ShapeError("PL308", f"{name}: high_precision=True for {avals[0].dtype.name}", fix="integers have one precision: leave it out")


@elementwise(
    jvp=by_operand(lambda g, y, a, b, **_: g / b, lambda g, y, a, b, **_: -(g * (y / b))),
    transpose=stretched(lambda ct, a, b, **_: (ct / b, None)),
    cpu=Lanewise("div"),
    accepts=NUMBERS,
    exact=_ARITHMETIC,
    pto=Native("pto.tdiv"),
    golden="jax.lax.div",
    domain=(1, 4),
    hazard=zero_divisor,
    options=_precision,
    on=chips(A3_ARITHMETIC, A5_WIDE - {dtypes.BF16}),
)
def div(x: Any, y: Any, *, high_precision: bool | None = None) -> Any:
    """Divide.

    Args:
      x, y: one dtype; shapes broadcast.
      high_precision: which variant of the instruction a program asks for; the result is correctly rounded with either.
    Numerics:
      A true FP32 division, never a multiplication by the reciprocal. Integers truncate toward zero; x / 0 is 0 (an error in
      checked runs, PL704) and INT_MIN / -1 wraps. Use `floor_div` for Python's `//`.
    Errors:
      PL308 for `high_precision` that is no bool, or is True for integers.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.div(np.int32([-7]), np.int32([3]))
    Array([-2], dtype=INT32)
    """
    return numerics.div(x, y)


def _share(x: Any, y: Any, wins: str) -> Any:
    """How much of a tangent of x the larger (or smaller) of x and y takes: all, nothing, or half of it where they are equal."""
    return OPS["select"](OPS["eq"](x, y), 0.5, OPS["select"](OPS[wins](x, y), aval_of(x).dtype.storage.type(1), 0.0))


@elementwise(
    jvp=by_operand(lambda g, y, a, b: g * _share(a, b, "gt"), lambda g, y, a, b: g * _share(b, a, "gt")),
    cpu=Lanewise("max", exact=True),
    accepts=NUMBERS,
    exact=Exact("max, min"),
    pto=Native("pto.tmax"),
    golden="jax.lax.max",
    on=chips(A3_ARITHMETIC, A5_ALL),
)
def maximum(x: Any, y: Any) -> Any:
    """The larger of two values, element by element.

    Args:
      x, y: one dtype; shapes broadcast.
    Numerics:
      Exact in every dtype. NaN propagates, and +0 is larger than -0, in either order.
    Errors:
      PL301, PL302 as `add`.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.maximum(np.float32([1, np.nan]), 0.0)
    Array([ 1., nan], dtype=FP32)
    """
    return numerics.maximum(x, y)


@elementwise(
    jvp=by_operand(lambda g, y, a, b: g * _share(a, b, "lt"), lambda g, y, a, b: g * _share(b, a, "lt")),
    cpu=Lanewise("min", exact=True),
    accepts=NUMBERS,
    exact=Exact("max, min"),
    pto=Native("pto.tmin"),
    golden="jax.lax.min",
    on=chips(A3_ARITHMETIC, A5_ALL),
)
def minimum(x: Any, y: Any) -> Any:
    """The smaller of two values, element by element.

    Args:
      x, y: one dtype; shapes broadcast.
    Numerics:
      Exact in every dtype. NaN propagates, and -0 is smaller than +0, in either order.
    Errors:
      PL301, PL302 as `add`.

    >>> from pypto import lax
    >>> lax.minimum(2, -3)
    Array(-3, dtype=INT32)
    """
    return numerics.minimum(x, y)


@elementwise(
    jvp=by_operand(lambda g, y, x: -g),
    transpose=stretched(lambda ct, x: -ct),
    cpu=Lanewise("neg", exact=True),
    accepts=NUMBERS,
    exact=_ARITHMETIC,
    pto=Native("pto.tneg"),
    golden="jax.lax.neg",
    on=chips(A3_ARITHMETIC, A5_WIDE - {dtypes.INT64, dtypes.UINT64}),
)
def neg(x: Any) -> Any:
    """Change the sign.

    Args:
      x: a number dtype, any shape.
    Numerics:
      Exact for floats, NaN and zeros included; the smallest integer wraps to itself.

    >>> from pypto import lax
    >>> lax.neg(2.5)
    Array(-2.5, dtype=FP32)
    """
    return numerics.neg(x)


@elementwise(
    jvp=by_operand(lambda g, y, x: g * OPS["sign"](x)),
    cpu=Lanewise("abs", exact=True),
    accepts=NUMBERS,
    exact=_ARITHMETIC,
    pto=Native("pto.tabs"),
    golden="jax.numpy.abs",
    on=chips(NATIVE_FLOATS, NATIVE_FLOATS | {dtypes.INT8, dtypes.INT16, dtypes.INT32}),
)
def abs_(x: Any) -> Any:
    """The absolute value.

    Args:
      x: a number dtype, any shape.
    Numerics:
      Exact for floats; the smallest integer wraps to itself.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.abs(np.int8([-3, -128]))
    Array([   3, -128], dtype=INT8)
    """
    return numerics.abs(x)


@elementwise(
    jvp=by_operand(lambda g, y, x: g * y),
    cpu=Lanewise("exp", weight=4.0),
    accepts=FLOATS,
    exact=Exact("fp32"),
    pto=Native("pto.texp"),
    golden="jax.lax.exp",
    on=chips(NATIVE_FLOATS, NATIVE_FLOATS),
)
def exp(x: Any) -> Any:
    """Raise e to each element.

    Args:
      x: FP32, FP16 or BF16, any shape.
    Numerics:
      Correctly rounded in FP32, subnormals kept; FP16 and BF16 round that once more. exp(-inf) is 0.
    Errors:
      PL305 for integers.

    >>> from pypto import lax
    >>> lax.exp(1.0)
    Array(2.7182817, dtype=FP32)
    """
    return numerics.exp(x)


@elementwise(
    jvp=by_operand(lambda g, y, x, **_: g / x),
    cpu=Lanewise("log", weight=4.0),
    accepts=FLOATS,
    exact=Exact("fp32"),
    pto=Native("pto.tlog"),
    golden="jax.lax.log",
    domain=(0.01, 10),
    options=_precision,
    on=chips(NATIVE_FLOATS, NATIVE_FLOATS),
    options_on={"high_precision": frozenset({"a5"})},
)
def log(x: Any, *, high_precision: bool | None = None) -> Any:
    """The natural logarithm.

    Args:
      x: FP32, FP16 or BF16, any shape.
      high_precision: which variant of the instruction a program asks for, on a5 only; the result is the same.
    Numerics:
      Correctly rounded in FP32; FP16 and BF16 round that once more. log(0) is -inf; of a negative number, NaN.
    Errors:
      PL305 for integers; PL406 for `high_precision` when a program is lowered for a2a3.

    >>> from pypto import lax
    >>> lax.log(10.0)
    Array(2.3025851, dtype=FP32)
    """
    return numerics.log(x)


@elementwise(
    jvp=by_operand(lambda g, y, x: g * (0.5 / y)),
    cpu=Lanewise("sqrt"),
    accepts=FLOATS,
    exact=Exact("fp32"),
    pto=Native("pto.tsqrt"),
    golden="jax.lax.sqrt",
    domain=(0, 10),
    on=chips(NATIVE_FLOATS, NATIVE_FLOATS),
)
def sqrt(x: Any) -> Any:
    """The square root.

    Args:
      x: FP32, FP16 or BF16, any shape.
    Numerics:
      Correctly rounded in FP32; FP16 and BF16 round that once more. sqrt(-0) is -0; of a negative number, NaN.
    Errors:
      PL305 for integers.

    >>> from pypto import lax
    >>> lax.sqrt(2.0)
    Array(1.4142135, dtype=FP32)
    """
    return numerics.sqrt(x)


@elementwise(
    jvp=by_operand(lambda g, y, x, **_: g * (-0.5 * (y / x))),
    cpu=Lanewise("rsqrt"),
    accepts=FLOATS,
    exact=Exact("fp32"),
    pto=Native("pto.trsqrt"),
    golden="jax.lax.rsqrt",
    domain=(0.01, 10),
    options=_precision,
    on=chips(NATIVE_FLOATS, NATIVE_FLOATS),
)
def rsqrt(x: Any, *, high_precision: bool | None = None) -> Any:
    """One over the square root.

    Args:
      x: FP32, FP16 or BF16, any shape.
      high_precision: which variant of the instruction a program asks for; the result is the same.
    Numerics:
      Correctly rounded in FP32: one rounding, not the two of 1 / sqrt(x). rsqrt(0) is inf; of a negative number, NaN.
    Errors:
      PL305 for integers.

    >>> from pypto import lax
    >>> lax.rsqrt(4.0)
    Array(0.5, dtype=FP32)
    """
    return numerics.rsqrt(x)


@elementwise(
    jvp=by_operand(lambda g, y, x, **_: -(g * (y * y))),
    cpu=Lanewise("recip"),
    accepts=FLOATS,
    exact=Exact("fp32"),
    pto=Native("pto.trecip"),
    golden="jax.numpy.reciprocal",
    domain=(0.1, 10),
    options=_precision,
    on=chips(NATIVE_FLOATS, NATIVE_FLOATS),
)
def recip(x: Any, *, high_precision: bool | None = None) -> Any:
    """One over each element.

    Args:
      x: FP32, FP16 or BF16, any shape.
      high_precision: which variant of the instruction a program asks for; the result is the same.
    Numerics:
      Correctly rounded in FP32. Multiplying by it is not dividing: that rounds twice. recip(0) is inf.
    Errors:
      PL305 for integers.

    >>> from pypto import lax
    >>> lax.recip(3.0)
    Array(0.33333334, dtype=FP32)
    """
    return numerics.recip(x)
