"""Reductions over axes, with the order of a float sum as a visible parameter."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pypto import dtypes, numerics
from pypto.core.array import Array
from pypto.core.avals import ArrayAval, Aval, TileAval
from pypto.core.op import OPS, Exact, Labels, Native, No, Op
from pypto.core.trace import aval_of
from pypto.core.whole import is_sequence, wholes
from pypto.dtypes import DType
from pypto.errors import ShapeError
from pypto.interpreters.batching import axis_option
from pypto.interpreters.cpu.rules import Tilewise
from pypto.interpreters.rules import by_operand, linear, pullback
from pypto.lax.families import A5_ALL, INTEGERS, NUMBERS, check_accepts, chips, flowless, letters, sample_values

LANES64 = "lanes64"
ASCENDING = "ascending"
ORDERS = (LANES64, ASCENDING)


def normal_axes(name: str, rank: int, axes: Any) -> tuple[int, ...]:
    """Axes as ascending non-negative numbers; None means all.

    Errors:
      PL308 for an axis that is no whole number, does not exist or comes twice.
    """
    wanted = range(rank) if axes is None else wholes(f"{name}: an axis", axes if is_sequence(axes) else (axes,))
    result = tuple(sorted(a + rank if a < 0 else a for a in wanted))
    if any(not 0 <= a < rank for a in result) or len(set(result)) != len(result):
        raise ShapeError("PL308", f"{name}: axes {axes} of a value with {rank} axes", fix="name each axis once, from 0 or from -1")
    return result


def normal_axis(name: str, rank: int, axis: int) -> int:
    """One axis, counted from 0."""
    return normal_axes(name, rank, (axis,))[0]


def reduced(shape: tuple[Any, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[Any, ...]:
    """A shape, or a valid shape, without the axes, or with extent 1 there."""
    if keepdims:
        return tuple(1 if i in axes else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def reduced_aval(x: Aval, axes: tuple[int, ...], keepdims: bool, dtype: DType | None = None) -> Aval:
    """The abstract result of a reduction: valid wherever the axes that stay are."""
    shape, kind = reduced(x.shape, axes, keepdims), dtype or x.dtype
    if isinstance(x, TileAval):
        valid = reduced(x.valid_shape, axes, keepdims)
        return TileAval(shape, kind, x.level, None, None if valid == shape else valid)
    return ArrayAval(shape, kind)


def reduced_labels(rank: int, axes: tuple[int, ...], keepdims: bool) -> Labels:
    """The axes of a reduction as letters; a kept axis of extent 1 is the letter `1`."""
    names = letters(rank)
    kept = "".join("1" if i in axes else c for i, c in enumerate(names))
    return Labels((names,), kept if keepdims else kept.replace("1", ""))


def flattened(x: np.ndarray, axes: tuple[int, ...], keepdims: bool, last: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Bring the reduced axes to the back, flatten them in row-major order, reduce there, and put the shape back."""
    kept = [i for i in range(x.ndim) if i not in axes]
    size = int(np.prod([x.shape[i] for i in axes]))
    flat = np.transpose(x, [*kept, *axes]).reshape([*(x.shape[i] for i in kept), size])
    return np.ascontiguousarray(last(flat)).reshape(reduced(x.shape, axes, keepdims))


def reduction(
    *,
    accepts: frozenset[DType],
    exact: Exact,
    pto: Native | No,
    cpu: Tilewise,
    golden: str | None = None,
    on: dict[str, frozenset[DType]] | None = None,
    on_columns: dict[str, frozenset[DType]] | None = None,
    **rules: Any,
) -> Callable[[Callable[..., Any]], Op]:
    """A reduction over any axes. The body reduces the last axis of [..., n] to [..., 1]; with a parameter `order`, in that order."""

    def decorate(body: Callable[..., Any]) -> Op:
        name = body.__name__
        given = inspect.signature(body).parameters
        ordered = "order" in given

        def abstract(x: Aval, *, axes: tuple[int, ...], keepdims: bool, order: str = LANES64) -> Aval:
            check_accepts(name, accepts, [x])
            if order not in ORDERS:
                raise ShapeError("PL308", f"{name}: there is no order {order!r}", fix=f"one of {', '.join(ORDERS)}")
            return reduced_aval(x, axes, keepdims)

        def meaning(x: np.ndarray, *, axes: tuple[int, ...], keepdims: bool, **order: str) -> np.ndarray:
            return flattened(x, axes, keepdims, lambda flat: body(flat, **order))

        def samples() -> list[Any]:
            orders: list[dict[str, Any]] = [{"order": LANES64}, {"order": ASCENDING}] if ordered else [{}, {}]
            return [
                ((sample_values(d, s, seed=3),), {"axes": a, "keepdims": keep, **order})
                for d in sorted(accepts, key=lambda d: d.name)
                if d is not dtypes.INDEX
                for s in ((1, 8), (8, 1), (1, 1), (3, 100))
                for a, keep, order in (((1,), True, orders[0]), ((0,), True, orders[1]), ((0, 1), False, orders[0]))
            ]

        def text(e: Any, atom: Callable[[Any], str]) -> str:
            axes, rank = e.params["axes"], e.ins[0].aval.rank
            kind = {(rank - 1,): "row", (rank - 2,): "col"}.get(axes) if rank == 2 and e.params["keepdims"] else None
            if kind is None or isinstance(pto, No):
                return f"lax.{name}({atom(e.ins[0])}, axes={list(axes)}, keepdims={e.params['keepdims']})"
            return f"pl.{kind}_{name.removeprefix('reduce_')}({atom(e.ins[0])})"

        x, *options = given.values()
        axis_options = [
            inspect.Parameter("axes", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Any"),
            inspect.Parameter("keepdims", inspect.Parameter.KEYWORD_ONLY, default=False, annotation="bool"),
        ]
        return Op(
            name=name,
            source=text,
            abstract=abstract,
            meaning=meaning,
            axes=lambda x, *, axes, keepdims, **_: reduced_labels(x.rank, axes, keepdims),
            valid=lambda x, *, axes, keepdims, **_: reduced(x, axes, keepdims),
            normal=lambda x, *, axes, **rest: {"axes": normal_axes(name, x.rank, axes), **rest},
            crops=True,
            samples=samples,
            doc=inspect.getdoc(body) or "",
            module=body.__module__,
            signature=inspect.Signature([x, *axis_options, *options], return_annotation="Any"),
            accepts=accepts,
            on=on,
            on_columns=on_columns,
            exact=exact,
            pto=pto,
            cpu=cpu,
            golden=golden,
            batching=axis_option("axes"),
            **{**flowless(accepts), **rules},
        )

    return decorate


def _stands(x: Any, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of x with extent 1 in the reduced axes."""
    return reduced(aval_of(x).static_shape, axes, keepdims=True)


def _spread(ct: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """What belongs to a result, for every element that went into it."""
    standing = OPS["reshape"](ct, shape=_stands(x, axes))
    return OPS["broadcast"](standing, shape=aval_of(x).static_shape)


def _extreme_part(g: Any, y: Any, x: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The tangents of the elements that are the extreme, in equal parts; they are counted in FP32, whatever the dtype."""
    there = OPS["convert"](OPS["eq"](x, _spread(y, x, axes)), dtype=dtypes.FP32)
    count = reduce_sum(there, axes=axes, keepdims=True)
    return reduce_sum(g * OPS["convert"](there / count, dtype=g.dtype), axes=axes, keepdims=keepdims)


def _product_part(g: Any, y: Any, x: Any, *, axes: tuple[int, ...], keepdims: bool, order: str) -> Any:
    """Every tangent times the product of the other elements: of those before it and of those after it."""
    shape = aval_of(x).static_shape
    kept = tuple(i for i in range(len(shape)) if i not in axes)
    order_of = (*kept, *axes)
    lead = tuple(shape[i] for i in kept)
    flat = (*lead, math.prod(shape[i] for i in axes))
    turned = (OPS["reshape"](OPS["transpose"](v, permutation=order_of), shape=flat) for v in (g, x))
    t, v = turned
    last = len(lead)
    if not flat[-1]:
        return OPS["mul"](y, 0.0)
    one = OPS["broadcast"](fill_one(v.dtype), shape=(*lead, 1))
    starts, ends = (0,) * (last + 1), (*lead, flat[-1] - 1)
    before = OPS["cumprod"](OPS["concatenate"](one, _part(v, starts, ends), axis=last), axis=last, reverse=False)
    after = OPS["cumprod"](OPS["concatenate"](_part(v, (*starts[:-1], 1), flat), one, axis=last), axis=last, reverse=True)
    total = reduce_sum(t * (before * after), axes=(last,), keepdims=False, order=order)
    return OPS["reshape"](total, shape=reduced(shape, axes, keepdims))


def _part(x: Any, start: tuple[int, ...], limit: tuple[int, ...]) -> Any:
    return OPS["strided_slice"](x, start_indices=start, limit_indices=limit, strides=(1,) * len(start))


def fill_one(dtype: DType) -> Any:
    return Array(dtype.storage.type(1), dtype)


_A2A3 = frozenset({dtypes.INT16, dtypes.INT32, dtypes.FP16, dtypes.FP32})
_TRUTHS = INTEGERS | {dtypes.BOOL}


def _in_order(order: str, flat: np.ndarray, lanes: Callable[..., Any], ascending: Callable[..., Any]) -> Any:
    return ascending(flat[..., None])[..., 0] if order == ASCENDING else lanes(flat)


@reduction(
    jvp=linear(0),
    transpose=pullback(lambda ct, x, *, axes, **_: _spread(ct, x, axes)),
    cpu=Tilewise("reductions.SUM"),
    accepts=NUMBERS,
    on=chips(_A2A3, _A2A3 | {dtypes.INT64, dtypes.UINT64}),
    on_columns=chips(_A2A3, A5_ALL),
    exact=Exact("row reductions"),
    pto=Native("pto.trowsum", columns="pto.tcolsum"),
    golden="jax.lax.reduce_sum",
)
def reduce_sum(x: Any, *, order: str = LANES64) -> Any:
    """Sum over axes, in a stated order.

    Args:
      x: any shape; a partly valid tile is summed over its valid region only.
      axes: the axes to sum over, an int or several, flattened in row-major order; None for all.
      keepdims: whether they stay, with extent 1.
      order: `lanes64`: 64 partial sums, element j in partial j mod 64, then halves; `ascending`: one after the other.
    Numerics:
      In FP32; FP16 and BF16 widen first and round once at the end. Integers wrap. Over nothing it is 0.
    Errors:
      PL305 for a BOOL, PL308 for an axis that does not exist.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.reduce_sum(np.float32([[1, 2], [3, 4]]), 0)
    Array([4., 6.], dtype=FP32)
    """
    return _in_order(order, x, numerics.sum_last, numerics.sum_first)


@reduction(
    jvp=by_operand(_product_part),
    cpu=Tilewise("reductions.PROD"),
    accepts=NUMBERS,
    on=chips(_A2A3, _A2A3),
    on_columns=chips(frozenset(), _A2A3 | {dtypes.BF16, dtypes.UINT16, dtypes.UINT32}),
    exact=Exact("row reductions"),
    pto=Native("pto.trowprod", columns="pto.tcolprod"),
    golden="jax.lax.reduce_prod",
)
def reduce_prod(x: Any, *, order: str = LANES64) -> Any:
    """Multiply over axes, in a stated order: arguments, order and errors as `reduce_sum`. Over nothing it is 1.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.reduce_prod(np.int32([2, 3, 4]))
    Array(24, dtype=INT32)
    """
    return _in_order(order, x, numerics.prod_last, numerics.prod_first)


_EXTREMES = chips(_A2A3, _A2A3 | {dtypes.INT8, dtypes.UINT8, dtypes.INT64, dtypes.UINT64})
_EXTREMES_OF_COLUMNS = chips(_A2A3, A5_ALL)


@reduction(
    jvp=by_operand(_extreme_part),
    cpu=Tilewise("reductions.MAX"),
    accepts=NUMBERS,
    on=_EXTREMES,
    on_columns=_EXTREMES_OF_COLUMNS,
    exact=Exact("max, min"),
    pto=Native("pto.trowmax", columns="pto.tcolmax"),
    golden="jax.lax.reduce_max",
)
def reduce_max(x: Any) -> Any:
    """The largest element over axes; NaN propagates, +0 is larger than -0.

    Args:
      x: any shape; a partly valid tile is reduced over its valid region only.
      axes: the axes to reduce, an int or several; None for all.
      keepdims: whether they stay, with extent 1.
    Numerics:
      Exact. Over nothing it is -inf, or the least integer.
    Errors:
      PL305 for a BOOL (`reduce_or`), PL308 for an axis that does not exist.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.reduce_max(np.float32([[-5, -2, -9]]), 1)
    Array([-2.], dtype=FP32)
    """
    return numerics.max_last(x)


@reduction(
    jvp=by_operand(_extreme_part),
    cpu=Tilewise("reductions.MIN"),
    accepts=NUMBERS,
    on=_EXTREMES,
    on_columns=_EXTREMES_OF_COLUMNS,
    exact=Exact("max, min"),
    pto=Native("pto.trowmin", columns="pto.tcolmin"),
    golden="jax.lax.reduce_min",
)
def reduce_min(x: Any) -> Any:
    """The smallest element over axes; NaN propagates, -0 is smaller than +0. Otherwise as `reduce_max`; over nothing it is inf."""
    return numerics.min_last(x)


@reduction(
    cpu=Tilewise("reductions.AND"),
    accepts=_TRUTHS,
    exact=Exact("integers"),
    pto=No("the vector unit reduces numbers only"),
    golden="jax.lax.reduce_and",
)
def reduce_and(x: Any) -> Any:
    """The bitwise and over axes; of truth values, whether all are true. Axes as in `reduce_max`; over nothing every bit is set.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.reduce_and(np.array([[True, False], [True, True]]), 1)
    Array([False,  True], dtype=BOOL)
    """
    return np.bitwise_and.reduce(x, axis=-1, keepdims=True)


@reduction(
    cpu=Tilewise("reductions.OR"),
    accepts=_TRUTHS,
    exact=Exact("integers"),
    pto=No("the vector unit reduces numbers only"),
    golden="jax.lax.reduce_or",
)
def reduce_or(x: Any) -> Any:
    """The bitwise or over axes; of truth values, whether any is true. Axes as in `reduce_max`; over nothing no bit is set.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.reduce_or(np.int32([[1, 2], [4, 4]]), -1)
    Array([3, 4], dtype=INT32)
    """
    return np.bitwise_or.reduce(x, axis=-1, keepdims=True)


@reduction(
    cpu=Tilewise("reductions.XOR"),
    accepts=_TRUTHS,
    exact=Exact("integers"),
    pto=No("the vector unit reduces numbers only"),
    golden="jax.lax.reduce_xor",
)
def reduce_xor(x: Any) -> Any:
    """The bitwise exclusive or over axes; of truth values, whether an odd number is true. Axes as in `reduce_max`; over nothing, 0.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.reduce_xor(np.int32([[1, 3], [4, 4]]), -1)
    Array([2, 0], dtype=INT32)
    """
    return np.bitwise_xor.reduce(x, axis=-1, keepdims=True)
