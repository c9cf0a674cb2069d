"""Tangents and cotangents: which values have them, the zero that is never computed with, and sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto.core.array import Array
from pypto.core.avals import ArrayAval, Aval
from pypto.core.ir import Literal
from pypto.core.op import OPS, Op
from pypto.core.trace import Trace, Tracer, aval_of, current_trace
from pypto.errors import InternalError


def differentiable(aval: Aval) -> bool:
    """Whether values of this type have tangents: FP32, FP16 and BF16 do; integers, truth values and storage-only floats do not."""
    return aval.dtype.is_float and aval.dtype.arithmetic


@dataclass(frozen=True)
class Zero:
    """A tangent or cotangent that is zero, without data. It stays inside the interpreters."""

    aval: Aval


@dataclass(frozen=True)
class Undefined:
    """Stands for an operand a linear op is transposed with respect to: it has a type and no value."""

    aval: Aval

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype


def plain(aval: Aval) -> ArrayAval:
    """The array type of a tangent of a value of this type."""
    return ArrayAval(aval.static_shape, aval.dtype)


def zeros(aval: Aval) -> Any:
    """Zeros of a type, made under the current trace."""
    value = Literal(aval.dtype.storage.type(0), ArrayAval((), aval.dtype))
    return apply(OPS["fill"], [value], {"shape": aval.static_shape, "dtype": aval.dtype, "level": None})[0]


def instantiate(t: Any) -> Any:
    """A tangent as a value."""
    return zeros(t.aval) if isinstance(t, Zero) else t


def apply(op: Op, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """The results of an op whose operands and options are prepared already, under the current trace, always as a list."""
    return results(current_trace(), op, args, params)


def results(trace: Trace, op: Op, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """As `apply`, under a given trace."""
    made = trace.process(op, args, params)
    return list(made) if isinstance(made, tuple) else [made]


def added(a: Any, b: Any) -> Any:
    """The sum of two tangents or cotangents of one value."""
    if isinstance(a, Zero):
        return b
    return a if isinstance(b, Zero) else apply(OPS["add"], [a, b], {})[0]


def fit(t: Any, shape: tuple[int, ...]) -> Any:
    """A tangent broadcast to the shape of its result."""
    return t if aval_of(t).shape == shape else apply(OPS["broadcast"], [t], {"shape": shape})[0]


def unbroadcast(ct: Any, aval: Aval) -> Any:
    """The cotangent of an operand that was stretched: summed over what the stretching repeated."""
    have, want = aval_of(ct).static_shape, aval.static_shape
    if have == want:
        return ct
    lead = len(have) - len(want)
    axes = tuple(i for i, d in enumerate(have) if i < lead or (d != 1 and want[i - lead] == 1))
    summed = OPS["reduce_sum"](ct, axes=axes, keepdims=False) if axes else ct
    return summed if aval_of(summed).shape == want else OPS["reshape"](summed, shape=want)


def operand(x: Any) -> Any:
    """A constant operand as something formulas can be written with; numbers stay numbers."""
    if isinstance(x, Literal):
        return Array(np.asarray(x.value), x.aval.dtype)
    return Array(x) if isinstance(x, np.ndarray | np.generic) else x


def check_tangent(what: str, t: Any, aval: Aval) -> None:
    """A rule must give a tangent of the type of its value."""
    if not isinstance(t, Zero) and (aval_of(t).shape != aval.shape or aval_of(t).dtype is not aval.dtype):
        raise InternalError("PL901", f"{what} gave {aval_of(t)} for {aval}")


__all__ = [
    "Tracer",
    "Undefined",
    "Zero",
    "added",
    "apply",
    "check_tangent",
    "differentiable",
    "fit",
    "instantiate",
    "operand",
    "plain",
    "results",
    "unbroadcast",
    "zeros",
]
