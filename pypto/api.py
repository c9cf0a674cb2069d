"""Looking at array functions: their jaxpr, and the shapes they give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pypto import tree
from pypto.core.avals import ArrayAval
from pypto.core.ir import Jaxpr
from pypto.core.trace import JaxprTrace, aval_of, tracing
from pypto.dtypes import DType, dtype_of
from pypto.errors import CallError


@dataclass(frozen=True)
class ShapeDtype:
    """A shape and a dtype without data.

    >>> ShapeDtype((2, 3), "FP32")
    ShapeDtype(shape=(2, 3), dtype=FP32)
    """

    shape: tuple[int, ...]
    dtype: DType

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", dtype_of(self.dtype))


def _aval(x: Any) -> ArrayAval:
    if isinstance(x, ShapeDtype):
        return ArrayAval(tuple(x.shape), x.dtype)
    aval = aval_of(x)
    return ArrayAval(aval.shape, aval.dtype)


def explain_cache(kernel: Any) -> Any:
    """Why a kernel was compiled as often as it was: one entry per program, with what was new about the call that made it.

    A retrace is caused by a shape or dtype of an argument, a plain Python argument, a captured value, or the platform; the extent of
    a `pl.dynamic` axis, the contents of arrays and the values of scalars cause none. Nothing is run or traced.

    Args:
      kernel: a `@pl.jit` kernel or a `@pl.program` class.
    Returns:
      A report: `print` it, or look at `report.programs[i].reasons`.
    Errors:
      PL601 for anything else.

    >>> import pypto.language as pl
    >>> @pl.jit
    ... def nothing(x: pl.Tensor): ...
    >>> print(explain_cache(nothing))
    nothing: 0 programs
    """
    if not hasattr(kernel, "cache_report"):
        raise CallError("PL601", f"{kernel!r} has no programs", fix="a @pl.jit kernel or a @pl.program class")
    return kernel.cache_report()


def make_jaxpr(fn: Callable[..., Any]) -> Callable[..., Jaxpr]:
    """A function that traces `fn` on arguments of the given shapes and dtypes and returns its jaxpr.

    >>> from pypto import lax
    >>> print(make_jaxpr(lambda x: lax.exp(x) * 2.0)(ShapeDtype((4,), "FP32")))
    <lambda>(v0: f32[4]):
      v1: f32[4] = exp v0
      v2: f32[4] = mul v1 2.0
      return v2
    """
    return lambda *args: _trace(fn, args)[0]


def _trace(fn: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Jaxpr, tree.Structure]:
    leaves, structure = tree.flatten(args)
    trace = JaxprTrace()
    with tracing(trace):
        inputs = [trace.new(_aval(x)) for x in leaves]
        outs, result = tree.flatten(fn(*tree.unflatten(structure, inputs)))
        return trace.finish(inputs, outs, getattr(fn, "__name__", "")), result


def eval_shape(fn: Callable[..., Any], *args: Any) -> Any:
    """The shapes and dtypes `fn` would give, without computing anything.

    >>> from pypto import lax
    >>> eval_shape(lax.exp, ShapeDtype((2, 2), "BF16"))
    ShapeDtype(shape=(2, 2), dtype=BF16)
    """
    jaxpr, structure = _trace(fn, args)
    return tree.unflatten(structure, [ShapeDtype(a.aval.static_shape, a.aval.dtype) for a in jaxpr.outs])
