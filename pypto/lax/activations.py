"""Activations that are one instruction: relu, and the leaky forms of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from pypto import dtypes, numerics
from pypto.core.op import Exact, Native
from pypto.interpreters.cpu.rules import Lanewise
from pypto.interpreters.rules import by_operand
from pypto.lax.compare import gt, select
from pypto.lax.families import FLOATS, NATIVE_FLOATS, chips, elementwise, zero

_LEAKY_JVP = by_operand(
    lambda g, y, x, slope: select(gt(x, zero(x)), g, g * slope), lambda g, y, x, slope: select(gt(x, zero(x)), zero(g), g * x)
)
_LEAKY = chips(NATIVE_FLOATS, NATIVE_FLOATS)
_RELU = chips(NATIVE_FLOATS | {dtypes.INT32}, NATIVE_FLOATS | {dtypes.INT32})


@elementwise(
    jvp=by_operand(lambda g, y, x: select(gt(x, zero(x)), g, zero(g))),
    cpu=Lanewise(lambda e, x: e.max(x, e.const(0)), exact=True),
    accepts=FLOATS | {dtypes.INT32},
    exact=Exact("max, min"),
    pto=Native("pto.trelu"),
    golden="jax.nn.relu",
    on=_RELU,
)
def relu(x: Any) -> Any:
    """max(x, 0).

    Args:
      x: FP32, FP16, BF16 or INT32, any shape.
    Numerics:
      Exact: `maximum` with 0, so NaN stays NaN and -0 becomes +0.
    Errors:
      PL305 for other integers.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.relu(np.float32([-2, 3]))
    Array([0., 3.], dtype=FP32)
    """
    return numerics.maximum(x, np.zeros((), x.dtype))


def _leaky(x: Any, slope: Any) -> Any:
    return np.where(x > 0, x, x * slope)


@elementwise(
    jvp=_LEAKY_JVP,
    cpu=Lanewise("leaky"),
    accepts=FLOATS,
    exact=Exact("fp32"),
    pto=Native("pto.tlrelu"),
    golden="jax.nn.leaky_relu",
    on=_LEAKY,
)
def lrelu(x: Any, slope: Any) -> Any:
    """x where it is positive, x * slope elsewhere.

    Args:
      x: floats, any shape.
      slope: a number or scalar. Any: for a slope above 1 this is not max(x, x * slope).
    Numerics:
      One FP32 multiplication. NaN stays NaN.
    Errors:
      PL305 for integers.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.lrelu(np.float32([-7, 7]), 2.0)
    Array([-14.,   7.], dtype=FP32)
    """
    return _leaky(x, slope)


@elementwise(jvp=_LEAKY_JVP, cpu=Lanewise("leaky"), accepts=FLOATS, exact=Exact("fp32"), pto=Native("pto.tprelu"), on=_LEAKY)
def prelu(x: Any, slope: Any) -> Any:
    """x where it is positive, x * slope elsewhere, with a slope for each element.

    Args:
      x: floats, any shape.
      slope: x's dtype and shape (or broadcast to it).
    Numerics:
      One FP32 multiplication. NaN stays NaN.
    Errors:
      PL302 for different dtypes in a kernel, PL305 for integers.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.prelu(np.float32([-2, 3]), np.float32([0.5, 0.5]))
    Array([-1.,  3.], dtype=FP32)
    """
    return _leaky(x, slope)
