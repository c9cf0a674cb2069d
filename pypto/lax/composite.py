"""Composites: ops without a PTO instruction. Their decomposition into other ops is their definition, everywhere."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from pypto import dtypes
from pypto.core.avals import ArrayAval, Aval, TileAval
from pypto.core.ir import Jaxpr, Literal
from pypto.core.op import Exact, No, Op, Pointwise, Ulp
from pypto.core.trace import EVAL, aval_of, tracing
from pypto.dtypes import DType, dtype_of
from pypto.interpreters.batching import pointwise
from pypto.interpreters.evaluate import evaluate
from pypto.interpreters.partial_eval import trace_flat
from pypto.interpreters.rules import by_definition
from pypto.lax.convert import convert
from pypto.lax.families import FLOATS, arity, broadcast_valid, check_accepts, elementwise_aval, elementwise_samples, flowless, unify

KEPT = 128
"""How many programs of one composite are kept: one per shapes, dtypes and options."""


def composite(
    *,
    exact: Ulp | Exact,
    golden: str | None = None,
    accepts: frozenset[DType] = FLOATS,
    domain: tuple[float, float] = (-4, 4),
    mask: bool = False,
    options: Callable[..., None] | None = None,
    samples: Callable[[], list[Any]] | None = None,
    **slots: Any,
) -> Callable[[Callable[..., Any]], Op]:
    """An elementwise op whose body is written in other ops, on FP32; FP16 and BF16 widen first and round once after.

    Keyword-only parameters of the body are the op's options.

    Args:
      exact: the measured bound, in FP32 units in the last place; `Exact("composites")` where nothing is rounded.
      mask: the result is a truth value: MASK on tiles, BOOL elsewhere.
      options: `(name, avals, **options)`: raises for an option the op does not take.
      samples: for ops whose options have no default.
    """

    def decorate(body: Callable[..., Any]) -> Op:
        name = body.__name__.rstrip("_")
        signature = inspect.signature(body)

        def decomposition(*operands: Any, **params: Any) -> Any:
            source = next(aval_of(x).dtype for x in operands)
            # a literal has no operators: the body gets it as a scalar
            operands = tuple(convert(x, dtype=source) if isinstance(x, Literal) else x for x in operands)
            if source.computes_in != "f32" or source is dtypes.FP32:
                return body(*operands, **params)
            wide = [convert(x, dtype=dtypes.FP32, mode="rint", overflow="saturate") for x in operands]
            result = body(*wide, **params)
            return result if mask else convert(result, dtype=source, mode="rint", overflow="saturate")

        def abstract(*avals: Aval, **params: Any) -> Aval:
            check_accepts(name, accepts, avals)
            if options is not None:
                options(name, avals, **params)
            truth = dtypes.MASK if any(isinstance(a, TileAval) for a in avals) else dtypes.BOOL
            return elementwise_aval(name, avals, truth if mask else None)

        @functools.lru_cache(KEPT)
        def program(avals: tuple[Aval, ...], params: tuple[tuple[str, Any], ...]) -> Jaxpr:
            """The decomposition as a program, so that Python runs it once per type; its equations are at no line of a user's."""
            with tracing(EVAL):
                made, _ = trace_flat(lambda *xs: [decomposition(*xs, **dict(params))], avals, name)
            return made.replace(eqns=tuple(e.replace(source=None) for e in made.eqns))

        def meaning(*arrays: np.ndarray, **params: Any) -> np.ndarray:
            avals = tuple(ArrayAval(x.shape, dtype_of(x.dtype)) for x in arrays)
            (result,) = evaluate(program(avals, tuple(params.items())), list(arrays))
            return np.array(result)

        return Op(
            name=name,
            abstract=abstract,
            meaning=meaning,
            decomposition=decomposition,
            axes=Pointwise(),
            valid=broadcast_valid,
            samples=samples or elementwise_samples(arity(signature), accepts, domain),
            doc=inspect.getdoc(body) or "",
            module=body.__module__,
            signature=signature,
            prepare=unify,
            accepts=accepts,
            exact=exact,
            golden=golden,
            pto=No("it is emitted as its decomposition"),
            **{"batching": pointwise, "jvp": by_definition, **flowless(accepts, truth=mask), **slots},
        )

    return decorate
