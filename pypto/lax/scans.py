"""Positions of extremes, and running reductions: what looks along one axis and is no plain reduction."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto import dtypes, numerics
from pypto.core.array import Array
from pypto.core.avals import ArrayAval, Aval
from pypto.core.op import OPS, Exact, Labels, Native, No, Op, Whole
from pypto.core.trace import aval_of, current_trace, tracing
from pypto.dtypes import DType, dtype_of
from pypto.errors import ShapeError
from pypto.interpreters.batching import axis_option, moved_axis
from pypto.interpreters.cpu.rules import Tilewise
from pypto.interpreters.partial_eval import ClosedTrace
from pypto.interpreters.rules import by_operand, linear, pullback
from pypto.interpreters.tangents import apply, zeros
from pypto.lax.families import FLOATS, NUMBERS, check_accepts, chips, computed, sample_values
from pypto.lax.functions import share
from pypto.lax.reduction import flattened, normal_axis, reduced, reduced_aval, reduced_labels

_SHAPES = ((1, 8), (8, 1), (1, 1), (3, 70))


def _samples(accepts: frozenset[DType], options: Sequence[dict[str, Any]]) -> Callable[[], list[Any]]:
    def make() -> list[Any]:
        return [
            ((sample_values(d, s, seed=4),), dict(o))
            for d in sorted(accepts, key=lambda d: d.name)
            if d is not dtypes.INDEX
            for s in _SHAPES
            for o in options
        ]

    return make


# ---- positions ---------------------------------------------------------------------------------------------------


def _position(name: str, last: Callable[[np.ndarray], np.ndarray]) -> dict[str, Any]:
    """The slots argmax and argmin share."""
    accepts = NUMBERS | {dtypes.BOOL}
    rows = frozenset({dtypes.INT16, dtypes.INT32, dtypes.FP16, dtypes.FP32})
    columns = frozenset({dtypes.UINT16, dtypes.UINT32, dtypes.FP16, dtypes.FP32})
    # two and four bytes on a5; of columns one byte too
    wide = rows | columns | {dtypes.BF16}

    def normal(x: Aval, *, axis: int, **rest: Any) -> dict[str, Any]:
        if axis is None:
            raise ShapeError("PL308", f"{name}: no axis is given", fix="axis=-1; flatten first to search a whole array")
        return {"axis": normal_axis(name, x.rank, axis), **rest}

    def abstract(x: Aval, *, axis: int, index_dtype: DType, keepdims: bool) -> Aval:
        check_accepts(name, accepts, [x])
        if not index_dtype.is_integer:
            raise ShapeError("PL305", f"{name}: positions are integers, not {index_dtype.name}", fix="index_dtype=INT32")
        if x.shape[axis] == 0:
            raise ShapeError("PL301", f"{name}: axis {axis} of {x} is empty", fix="reduce an axis that has elements")
        return reduced_aval(x, (axis,), keepdims, index_dtype)

    def labels(x: Aval, *, axis: int, keepdims: bool, **_: Any) -> Labels:
        return reduced_labels(x.rank, (axis,), keepdims)

    options = [{"axis": a, "index_dtype": dtypes.INT32, "keepdims": k} for a, k in ((1, True), (0, True), (0, False))]
    return {
        "normal": normal,
        "abstract": abstract,
        "axes": labels,
        "valid": lambda x, *, axis, keepdims, **_: reduced(x, (axis,), keepdims),
        "crops": True,
        "samples": _samples(accepts, options),
        "accepts": accepts,
        "jvp": No("positions are integers, which have no derivative"),
        "batching": axis_option("axis"),
        "on": chips(rows, wide),
        "on_columns": chips(columns, wide | {dtypes.INT8, dtypes.UINT8}),
        "exact": Exact("argmax, argmin"),
    }


def _found(x: np.ndarray, axis: int, index_dtype: Any, keepdims: bool, last: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    if x.shape[axis] == 0:  # a tile of which nothing is valid
        return np.zeros(reduced(x.shape, (axis,), keepdims), dtype_of(index_dtype).storage)
    return flattened(x, (axis,), keepdims, last).astype(dtype_of(index_dtype).storage)


@computed(
    cpu=Tilewise("scans.ARGMAX"),
    pto=Native("pto.trowargmax", columns="pto.tcolargmax"),
    golden="jax.lax.argmax",
    **_position("argmax", numerics.argmax_last),
)
def argmax(x: Any, *, axis: int, index_dtype: Any = dtypes.INT32, keepdims: bool = False) -> Any:
    """The position of the largest element along an axis.

    Args:
      x: any number dtype or BOOL; of a partly valid tile the valid region only.
      axis: the axis to search, also from the end.
      index_dtype: the integer dtype of the result.
    Numerics:
      The first of equal elements; +0 equals -0; NaN counts as the largest, so the first NaN wins. The start value of the search
      is an element, never a sentinel: a row of -inf gives 0. Of a tile without valid elements it is 0.
    Errors:
      PL301 for an empty axis, PL308 for one that does not exist.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.argmax(np.float32([[-np.inf, -3.4028235e38]]), -1)
    Array([1], dtype=INT32)
    """
    return _found(x, axis, index_dtype, keepdims, numerics.argmax_last)


@computed(
    cpu=Tilewise("scans.ARGMIN"),
    pto=Native("pto.trowargmin", columns="pto.tcolargmin"),
    golden="jax.lax.argmin",
    **_position("argmin", numerics.argmin_last),
)
def argmin(x: Any, *, axis: int, index_dtype: Any = dtypes.INT32, keepdims: bool = False) -> Any:
    """The position of the smallest element along an axis; as `argmax`, and NaN counts as the smallest here."""
    return _found(x, axis, index_dtype, keepdims, numerics.argmin_last)


# ---- running reductions ------------------------------------------------------------------------------------------


def _flipped(x: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    return np.flip(x, axis) if reverse else x


def _scan_taint(taints: Sequence[Any], arrays: Sequence[np.ndarray], params: dict[str, Any]) -> Any:
    """An output depends on the elements up to it."""
    (taint,) = taints
    if taint is None:
        return None
    axis, reverse = params["axis"], params["reverse"]
    return _flipped(np.logical_or.accumulate(_flipped(taint, axis, reverse), axis=axis), axis, reverse)


def _recurrence(factors: Callable[[Any, Any, Any], tuple[Any, Any]], start: float) -> Callable[..., Any]:
    """The tangent of a running result: t[i] = a[i] t[i - 1] + b[i] g[i], one turn of a `scan` per element.

    Args:
      factors: `(x, the result before it, the result) -> (a, b)`.
      start: the result before the first one.
    """

    def part(g: Any, y: Any, x: Any, *, axis: int, reverse: bool) -> Any:
        shape = aval_of(x).static_shape
        edge = tuple(1 if i == axis else d for i, d in enumerate(shape))
        first = OPS["broadcast"](Array(start, aval_of(x).dtype), shape=edge)
        low, high = (1, shape[axis]) if reverse else (0, shape[axis] - 1)
        kept = OPS["strided_slice"](
            y,
            start_indices=tuple(low if i == axis else 0 for i in range(len(shape))),
            limit_indices=tuple(high if i == axis else d for i, d in enumerate(shape)),
            strides=(1,) * len(shape),
        )
        before = OPS["concatenate"](*((kept, first) if reverse else (first, kept)), axis=axis)
        turns = [moved_axis(v, axis, 0) for v in (*factors(x, before, y), g)]
        start_tangent = zeros(ArrayAval(aval_of(turns[0]).shape[1:], aval_of(g).dtype))
        trace = ClosedTrace(current_trace(), "tangent")
        with tracing(trace):
            t, a, b, d = (trace.new(aval_of(start_tangent)) for _ in range(4))
            new = a * t + b * d
            body = trace.closed([t, a, b, d], [new, new], "tangent")
        options = {"body": body, "length": shape[axis], "reverse": reverse, "consts": 0, "carries": 1}
        return moved_axis(apply(OPS["scan"], [start_tangent, *turns], options)[1], 0, axis)

    return part


def _kept(beats: str) -> Callable[[Any, Any, Any], tuple[Any, Any]]:
    """An extreme that stays keeps its tangent: of equal elements the first one's."""

    def factors(x: Any, before: Any, y: Any) -> tuple[Any, Any]:
        new = OPS["convert"](OPS[beats](x, before), dtype=aval_of(x).dtype)
        return 1.0 - new, new

    return factors


def _weights(x: Any, before: Any, y: Any) -> tuple[Any, Any]:
    """What of a sum of exponentials was there before, and what came."""
    return share(before, y), share(x, y)


def running(*, accepts: frozenset[DType], exact: Exact, **rules: Any) -> Callable[[Callable[..., Any]], Op]:
    """A running reduction along one axis; the body runs forwards, `(x, axis)`."""

    def decorate(body: Callable[..., Any]) -> Op:
        name = body.__name__

        def abstract(x: Aval, *, axis: int, reverse: bool) -> Aval:
            check_accepts(name, accepts, [x])
            return x

        def meaning(x: Any, *, axis: int = 0, reverse: bool = False) -> Any:
            result = body(np.ascontiguousarray(_flipped(x, axis, reverse)), axis)
            return np.ascontiguousarray(_flipped(result, axis, reverse))

        meaning.__name__, meaning.__doc__, meaning.__module__ = name, body.__doc__, body.__module__
        return computed(
            samples=_samples(accepts, [{"axis": a, "reverse": r} for a, r in ((1, False), (0, False), (1, True))]),
            abstract=abstract,
            normal=lambda x, *, axis, reverse: {"axis": normal_axis(name, x.rank, axis), "reverse": bool(reverse)},
            axes=lambda x, *, axis, **_: Whole((axis,)),
            taint=_scan_taint,
            valid=lambda x, **_: x,
            crops=True,
            accepts=accepts,
            exact=exact,
            cpu=Tilewise(f"scans.{name.upper()}"),
            golden=f"jax.lax.{name}",
            pto=No("no instruction keeps every prefix; array programs scan block by block"),
            batching=axis_option("axis"),
            **rules,
        )(meaning)

    return decorate


@running(
    accepts=NUMBERS,
    exact=Exact("scans"),
    jvp=linear(0),
    transpose=pullback(lambda ct, x, *, axis, reverse: OPS["cumsum"](ct, axis=axis, reverse=not reverse)),
)
def cumsum(x: Any, axis: int) -> Any:
    """Sums of the elements up to each one, along an axis.

    Args:
      x: any number dtype; of a partly valid tile the valid region only.
      axis: the axis, also from the end.
      reverse: run from the end: sums of the elements from each one on.
    Numerics:
      FP32, one rounding per addition in ascending order, beginning with the first element itself; FP16 and BF16 widen first, and
      each output is rounded once from the running FP32 value (JAX, whose order is not stated, may differ in the last bits).
      Integers wrap.
    Errors:
      PL305 for a BOOL, PL308 for an axis that does not exist.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.cumsum(np.int32([1, 2, 3]), reverse=True)
    Array([6, 5, 3], dtype=INT32)
    """
    return numerics.cumsum(x, axis)


@running(accepts=NUMBERS, exact=Exact("scans"), jvp=by_operand(_recurrence(lambda x, before, y: (x, before), start=1.0)))
def cumprod(x: Any, axis: int) -> Any:
    """Products of the elements up to each one, along an axis; arguments, order and errors as `cumsum`."""
    return numerics.cumprod(x, axis)


@running(accepts=NUMBERS, exact=Exact("scans"), jvp=by_operand(_recurrence(_kept("gt"), start=-math.inf)))
def cummax(x: Any, axis: int) -> Any:
    """The largest element up to each one, along an axis; arguments as `cumsum`. NaN from the first NaN on; +0 > -0. Exact."""
    return numerics.cummax(x, axis)


@running(accepts=NUMBERS, exact=Exact("scans"), jvp=by_operand(_recurrence(_kept("lt"), start=math.inf)))
def cummin(x: Any, axis: int) -> Any:
    """The smallest element up to each one, along an axis; arguments as `cumsum`. NaN from the first NaN on; -0 < +0. Exact."""
    return numerics.cummin(x, axis)


@running(accepts=FLOATS, exact=Exact("scans"), jvp=by_operand(_recurrence(_weights, start=-math.inf)))
def cumlogsumexp(x: Any, axis: int) -> Any:
    """log(exp(x[0]) + ... + exp(x[i])) for each element, along an axis; arguments as `cumsum`, floats only.

    Numerics:
      In FP32 from the running maximum m and the sum s of exp(x - m): m' = max(m, x), s' = s exp(m - m') + exp(x - m'), output
      m' + log(s'), each step rounded; an infinite m' is not subtracted. Nothing overflows on the way. The derivative of a result
      by an infinite element that it equals is 1.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.cumlogsumexp(np.float32([1000, 1000]))
    Array([1000.    , 1000.6931], dtype=FP32)
    """
    return numerics.cumlogsumexp(x, axis)
