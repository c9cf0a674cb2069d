"""Composites: ops without a PTO instruction. Their decomposition into other ops is their definition, everywhere."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from pypto import dtypes
from pypto.core.array import Array
from pypto.core.avals import Aval
from pypto.core.op import No, Op, Pointwise, Ulp
from pypto.core.trace import EVAL, aval_of, tracing
from pypto.dtypes import DType
from pypto.lax.convert import convert
from pypto.lax.families import FLOATS, broadcast_valid, check_accepts, elementwise_aval, elementwise_samples, unify


def composite(
    *,
    exact: Ulp,
    golden: str | None = None,
    accepts: frozenset[DType] = FLOATS,
    domain: tuple[float, float] = (-4, 4),
    **slots: Any,
) -> Callable[[Callable[..., Any]], Op]:
    """An elementwise op whose body is written in other ops, on FP32; FP16 and BF16 widen first and round once after.

    Args:
      exact: the measured bound, in FP32 units in the last place.
    """

    def decorate(body: Callable[..., Any]) -> Op:
        name = body.__name__.rstrip("_")
        signature = inspect.signature(body)

        def decomposition(*operands: Any) -> Any:
            source = next(aval_of(x).dtype for x in operands)
            if source.computes_in != "f32" or source is dtypes.FP32:
                return body(*operands)
            wide = [convert(x, dtype=dtypes.FP32, mode="rint", overflow="saturate") for x in operands]
            return convert(body(*wide), dtype=source, mode="rint", overflow="saturate")

        def abstract(*avals: Aval) -> Aval:
            check_accepts(name, accepts, avals)
            return elementwise_aval(name, avals)

        def meaning(*arrays: np.ndarray) -> np.ndarray:
            with tracing(EVAL):
                return np.array(decomposition(*map(Array, arrays)))

        return Op(
            name=name,
            abstract=abstract,
            meaning=meaning,
            decomposition=decomposition,
            axes=Pointwise(),
            valid=broadcast_valid,
            samples=elementwise_samples(len(signature.parameters), accepts, domain),
            doc=inspect.getdoc(body) or "",
            signature=signature,
            prepare=unify,
            accepts=accepts,
            exact=exact,
            golden=golden,
            pto=No("it is emitted as its decomposition"),
            **slots,
        )

    return decorate
