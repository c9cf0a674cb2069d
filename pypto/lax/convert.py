"""Conversion between dtypes, with the rounding mode and the overflow rule as visible parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pypto import dtypes, numerics
from pypto.core.array import conversion
from pypto.core.avals import Aval, ScalarAval
from pypto.core.op import OPS, Exact, Fault, Native, Op, Pointwise
from pypto.core.trace import aval_of
from pypto.dtypes import DType, Kind, dtype_of
from pypto.errors import ShapeError
from pypto.interpreters.batching import pointwise
from pypto.interpreters.cpu.rules import Lanewise
from pypto.interpreters.rules import Pair, pullback
from pypto.interpreters.tangents import Zero, apply, differentiable
from pypto.lax.families import computed, sample_values

MODES = ("none", "rint", "round", "floor", "ceil", "trunc", "odd")
OVERFLOWS = ("saturate", "wrap", "ieee", "fits")


def _abstract(x: Aval, *, dtype: DType, mode: str, overflow: str) -> Aval:
    if x.dtype.kind is Kind.MASK:
        raise ShapeError("PL305", "cast: a predicate mask is not a number", fix="use pl.sel(mask, 1.0, 0.0) to make one of it")
    if Kind.TASK in (x.dtype.kind, dtype.kind) or dtype.kind is Kind.MASK:
        raise ShapeError("PL305", f"cast: {x.dtype.name} and {dtype.name} do not convert into each other", fix="cast numbers only")
    numerics.check_pair(x.dtype, dtype)
    if mode not in MODES:
        raise ShapeError("PL308", f"cast: there is no rounding mode {mode!r}", fix=f"one of {', '.join(MODES)}")
    if overflow not in OVERFLOWS:
        raise ShapeError("PL308", f"cast: there is no overflow rule {overflow!r}", fix=f"one of {', '.join(OVERFLOWS)}")
    if isinstance(x, ScalarAval):
        return ScalarAval((), dtype)
    return replace(x, dtype=dtype)


def _faults(x: Any, *, dtype: DType, mode: str, overflow: str) -> Fault | None:
    """Integers that are to fit and do not."""
    if overflow != "fits" or x.dtype.kind not in "iu":
        return None
    low, high = int(dtype.min_value), int(dtype.max_value)
    mask = np.array([not low <= v <= high for v in x.ravel().tolist()], np.bool_).reshape(x.shape)
    return Fault(
        0, mask, "PL308", f"{{name}} is {{value}}, which {dtype.name} does not hold", f"pl.cast(x, pl.{dtype.name}) says what to do"
    )


def _samples() -> list[Any]:
    pairs = [("FP32", "BF16"), ("FP32", "FP16"), ("FP32", "INT32"), ("INT32", "FP32"), ("BF16", "FP32"), ("INT8", "FP16"), ("FP16", "INT8")]
    return [
        ((sample_values(dtypes.DTYPES[a], (3, 5), seed=i),), {"dtype": dtypes.DTYPES[b], "mode": mode, "overflow": "saturate"})
        for i, (a, b) in enumerate(pairs)
        for mode in ("rint", "round", "trunc")
    ]


def _jvp(op: Op, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Pair:
    """A tangent rounds to nearest even, whatever the value does; between floats of no arithmetic nothing flows."""
    outs = apply(op, primals, params)
    target = aval_of(outs[0])
    return outs, [convert(tangents[0], dtype=target.dtype) if differentiable(target) else Zero(target)]


def _cast_text(e: Any, name: Any) -> str:
    """A cast; what it does on overflow follows from the dtypes."""
    mode = e.params["mode"]
    return f"pl.cast({name(e.ins[0])}, pl.{e.params['dtype'].name}{'' if mode == 'round' else f', mode={mode!r}'})"


@computed(
    source=_cast_text,
    jvp=_jvp,
    transpose=pullback(lambda ct, x, **_: OPS["convert"](ct, dtype=x.dtype)),
    batching=pointwise,
    cpu=Lanewise("convert", exact=True, takes_params=True),
    samples=_samples,
    faults=_faults,
    abstract=_abstract,
    axes=Pointwise(),
    exact=Exact("cast mode"),
    valid=lambda x, **_: x,
    pto=Native("pto.tcvt"),
    golden="jax.lax.convert_element_type",
)
def convert(x: Any, *, dtype: Any, mode: str = "rint", overflow: str = "saturate") -> Any:
    """Convert to another dtype.

    Args:
      x: any shape.
      dtype: the target.
      mode: `rint` ties to even, `round` ties away from zero, `floor`, `ceil`, `trunc`, `odd` (inexact results get an odd
        last bit), `none` (`trunc` to integers, `rint` otherwise).
      overflow: to integers, `saturate` clamps and turns NaN into 0, `wrap` keeps the low bits, and so does `fits`, which is an error
        in checked runs where these are not the whole number (PL308); to FP8 and HF8,
        `saturate` clamps and `ieee` gives infinity or NaN. Other floats overflow as IEEE says.
    Numerics:
      One rounding, whatever the source. That to HF8 is to nearest with ties away from zero in every mode: the chip has no other.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.convert(np.float32([0.5, 1.5, 2.5]), dtype="INT32", mode="round")
    Array([1, 2, 3], dtype=INT32)
    """
    x = np.asarray(x)
    return numerics.convert(x, dtype_of(x.dtype), dtype_of(dtype), mode, "wrap" if overflow == "fits" else overflow)


convert.prepare = lambda op, args: args


def convert_element_type(x: Any, new_dtype: Any) -> Any:
    """Convert as JAX does: to floats to nearest even; floats to integers toward zero; integers keep the low bits.

    >>> convert_element_type(2.7, "INT32")
    Array(2, dtype=INT32)
    """
    target = dtype_of(new_dtype)
    return convert(x, dtype=target, **conversion(aval_of(x).dtype, target))
