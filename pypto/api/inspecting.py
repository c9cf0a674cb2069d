"""Looking at array functions: their jaxpr, and the shapes they give."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pypto import tree
from pypto.api.flat import Flattened, is_static, name_of, static_positions
from pypto.core.avals import ArrayAval, Aval
from pypto.core.ir import Jaxpr
from pypto.core.trace import aval_of, current_trace, tracing
from pypto.core.whole import wholes
from pypto.dtypes import DType, dtype_of
from pypto.errors import CallError
from pypto.interpreters.partial_eval import ClosedTrace


@dataclass(frozen=True)
class ShapeDtypeStruct:
    """A shape and a dtype without data, as `jax.ShapeDtypeStruct`.

    >>> ShapeDtypeStruct((2, 3), "FP32")
    ShapeDtypeStruct(shape=(2, 3), dtype=FP32)
    """

    shape: tuple[int, ...]
    dtype: DType

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", wholes("ShapeDtypeStruct: shape", self.shape))
        object.__setattr__(self, "dtype", dtype_of(self.dtype))

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)


def _aval(x: Any) -> ArrayAval:
    if isinstance(x, ShapeDtypeStruct):
        return ArrayAval(x.shape, x.dtype)
    aval = aval_of(x)
    return ArrayAval(aval.shape, aval.dtype)


def explain_cache(kernel: Any) -> Any:
    """Why a kernel was compiled as often as it was: one entry per program, with what was new about the call that made it.

    A retrace is caused by a shape or dtype of an argument, a plain Python argument, a captured value, or the platform; the extent of
    a `pl.dynamic` axis, the contents of arrays and the values of scalars cause none. Nothing is run or traced.

    Args:
      kernel: a `@pl.jit` kernel, a `@pl.program` class, or a function of `pypto.jit`.
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
        raise CallError("PL601", f"{kernel!r} has no programs", fix="a @pl.jit kernel, a @pl.program class, or a function of pypto.jit")
    return kernel.cache_report()


def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | Sequence[int] = (),
    axis_env: Sequence[tuple[str, int]] | None = None,
    return_shape: bool = False,
) -> Callable[..., Jaxpr | Any]:
    """A function that traces `fun` on arguments of the given shapes and dtypes and returns its jaxpr, as `jax.make_jaxpr`.

    Args:
      static_argnums: positions of arguments that are passed on as they are.
      axis_env: names and extents of axes that `fun` may use in `lax.psum` and the like.
      return_shape: return a pair, the jaxpr and the tree of `ShapeDtypeStruct` of the results.
    Errors:
      PL110 when `fun` uses a value of a trace that is not an argument.

    >>> from pypto import lax
    >>> print(make_jaxpr(lambda x: lax.exp(x) * 2.0)(ShapeDtypeStruct((4,), "FP32")))
    <lambda>(v0: f32[4]):
      v1: f32[4] = exp v0
      v2: f32[4] = mul v1 2.0
      return v2
    """
    chosen = static_positions(static_argnums)

    def made(*args: Any, **kwargs: Any) -> Any:
        jaxpr, structure = traced(fun, args, kwargs, chosen, tuple(axis_env or ()))
        return (jaxpr, _structs(jaxpr, structure)) if return_shape else jaxpr

    return made


def traced(
    fun: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    static: frozenset[int] = frozenset(),
    axes: Sequence[tuple[str, int]] = (),
) -> tuple[Jaxpr, tree.Structure]:
    """The jaxpr of a call, and the structure of what it returns."""
    flat = Flattened(fun, args, kwargs, lambda i: is_static(i, static, len(args)))
    trace = ClosedTrace(current_trace(), name_of(fun))
    trace.axes = axes
    with tracing(trace):
        inputs = [trace.new(_aval(x)) for x in flat.leaves]
        outs = flat(*inputs)
        jaxpr = trace.open_program(inputs, outs, name_of(fun))
    if trace.captured:
        raise CallError("PL601", f"`{name_of(fun)}` uses {trace.captured[0]!r} from around it", fix="pass it in as an argument")
    return jaxpr, flat.structure


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The shapes and dtypes `fun` would give, without computing anything, as `jax.eval_shape`.

    >>> from pypto import lax
    >>> eval_shape(lax.exp, ShapeDtypeStruct((2, 2), "BF16"))
    ShapeDtypeStruct(shape=(2, 2), dtype=BF16)
    """
    return _structs(*traced(fun, args, kwargs))


def _structs(jaxpr: Jaxpr, structure: tree.Structure) -> Any:
    avals: list[Aval] = [a.aval for a in jaxpr.outs]
    return tree.unflatten(structure, [ShapeDtypeStruct(a.static_shape, a.dtype) for a in avals])
