"""Reductions over axes, with the order of a float sum as a visible parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pypto import dtypes, numerics
from pypto.core.avals import ArrayAval, Aval, TileAval
from pypto.core.op import Exact, Labels, Native
from pypto.errors import ShapeError
from pypto.lax.families import NUMBERS, check_accepts, computed, letters, sample_values

LANES64 = "lanes64"
ASCENDING = "ascending"
ORDERS = (LANES64, ASCENDING)


def normal_axes(name: str, rank: int, axes: Any) -> tuple[int, ...]:
    """Axes as ascending non-negative numbers; None means all.

    Errors:
      PL308 for an axis that does not exist or comes twice.
    """
    wanted = range(rank) if axes is None else (axes,) if isinstance(axes, int) else axes
    result = tuple(sorted(a + rank if a < 0 else a for a in wanted))
    if any(not 0 <= a < rank for a in result) or len(set(result)) != len(result):
        raise ShapeError("PL308", f"{name}: axes {axes} of a value with {rank} axes", fix="name each axis once, from 0 or from -1")
    return result


def _reduced(shape: tuple[Any, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[Any, ...]:
    if keepdims:
        return tuple(1 if i in axes else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def _rules(name: str) -> dict[str, Any]:
    def abstract(x: Aval, *, axes: tuple[int, ...], keepdims: bool = True, order: str = LANES64) -> Aval:
        check_accepts(name, NUMBERS, [x])
        if order not in ORDERS:
            raise ShapeError("PL308", f"{name}: there is no order {order!r}", fix=f"one of {', '.join(ORDERS)}")
        shape = _reduced(x.shape, axes, keepdims)
        if isinstance(x, TileAval):
            valid = _reduced(x.valid_shape, axes, keepdims)
            return TileAval(shape, x.dtype, x.level, None, None if valid == shape else valid)
        return ArrayAval(shape, x.dtype)

    def labels(x: Aval, *, axes: tuple[int, ...], keepdims: bool = True, **_: Any) -> Labels:
        names = letters(x.rank)
        kept = "".join("1" if i in axes else c for i, c in enumerate(names))
        return Labels((names,), kept if keepdims else kept.replace("1", ""))

    def samples() -> list[Any]:
        return [
            ((sample_values(d, s, seed=3),), {"axes": (a,), "keepdims": True, "order": o})
            for d in (dtypes.FP32, dtypes.BF16, dtypes.FP16, dtypes.INT32)
            for s in ((1, 8), (8, 1), (1, 1), (3, 100))
            for a, o in ((1, LANES64), (0, ASCENDING))
        ]

    return {
        "samples": samples,
        "abstract": abstract,
        "axes": labels,
        "valid": lambda x, *, axes, keepdims=True, **_: _reduced(x, axes, keepdims),
        "crops": True,
    }


def _apply(x: np.ndarray, axes: tuple[int, ...], keepdims: bool, last: Callable[..., Any]) -> np.ndarray:
    """Bring the reduced axes to the back, flatten them in row-major order, reduce there, and put the shape back."""
    kept = [i for i in range(x.ndim) if i not in axes]
    flat = np.transpose(x, [*kept, *axes]).reshape([x.shape[i] for i in kept] + [-1])
    return np.ascontiguousarray(last(flat)).reshape(_reduced(x.shape, axes, keepdims))


@computed(exact=Exact("row reductions"), pto=Native("pto.trowsum"), golden="jax.numpy.sum", **_rules("reduce_sum"))
def reduce_sum(x: Any, *, axes: tuple[int, ...], keepdims: bool = True, order: str = LANES64) -> Any:
    """Sum over axes, in a stated order.

    Args:
      x: any shape; a partly valid tile is summed over its valid region only.
      axes: the axes to sum over, flattened in row-major order.
      order: `lanes64`: 64 partial sums, element j in partial j mod 64, then halves; `ascending`: one after the other.
    Numerics:
      In FP32; FP16 and BF16 widen first and round once at the end. Integers wrap.
    """
    if order == ASCENDING:
        return _apply(x, axes, keepdims, lambda f: numerics.sum_first(f[..., None]))
    return _apply(x, axes, keepdims, numerics.sum_last)


@computed(exact=Exact("max, min"), pto=Native("pto.trowmax"), golden="jax.numpy.max", **_rules("reduce_max"))
def reduce_max(x: Any, *, axes: tuple[int, ...], keepdims: bool = True, order: str = LANES64) -> Any:
    """The largest element over axes; NaN propagates. A partly valid tile is reduced over its valid region only."""
    return _apply(x, axes, keepdims, numerics.max_last)


@computed(exact=Exact("max, min"), pto=Native("pto.trowmin"), golden="jax.numpy.min", **_rules("reduce_min"))
def reduce_min(x: Any, *, axes: tuple[int, ...], keepdims: bool = True, order: str = LANES64) -> Any:
    """The smallest element over axes; NaN propagates. A partly valid tile is reduced over its valid region only."""
    return _apply(x, axes, keepdims, numerics.min_last)
