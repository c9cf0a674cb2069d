"""The inverse error function, from which normal random numbers come."""

from __future__ import annotations

import math
from typing import Any

from pypto.core.op import Ulp
from pypto.interpreters.rules import by_operand
from pypto.lax.compare import eq, lt, select
from pypto.lax.composite import composite
from pypto.lax.elementwise import abs_, exp, log, mul, neg, sqrt
from pypto.lax.functions import horner

# erfinv(x) / x by w - 2.5 and by sqrt(w) - 3, where w = -log(1 - x**2) is below 5 and above (Giles, 2010)
_CENTRAL = (
    1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06, -3.5233877e-06, 3.43273939e-07, 2.81022636e-08
)  # fmt: skip
_TAIL = (
    2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844, 0.00134934322, 0.000100950558, -0.000200214257
)  # fmt: skip


@composite(
    jvp=by_operand(lambda g, y, x: g * (exp(y * y) * (0.5 * math.sqrt(math.pi)))), exact=Ulp(4), golden="jax.lax.erf_inv", domain=(-1, 1)
)
def erf_inv(x: Any) -> Any:
    """The number whose error function is x.

    Args:
      x: FP32, FP16 or BF16 in [-1, 1].
    Numerics:
      Giles' approximation: within 4 units in the last place (measured against FP64 with Newton steps), which is plenty for random
      numbers and half the length of a fit within 2. erf_inv(1) is inf, erf_inv(-1) -inf, outside NaN.

    >>> from pypto import lax
    >>> lax.erf_inv(0.5)
    Array(0.47693628, dtype=FP32)
    """
    w = neg(log(mul(1.0 - x, 1.0 + x)))
    central = lt(w, 5.0)
    ratio = select(central, horner(w - 2.5, _CENTRAL), horner(sqrt(w) - 3.0, _TAIL))
    return select(eq(abs_(x), 1.0), x * float("inf"), ratio * x)
