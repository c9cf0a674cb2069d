"""Axes that come and go, stretch, and the choice among several arrays, with JAX's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pypto import dtypes
from pypto.core.trace import aval_of
from pypto.core.whole import wholes
from pypto.errors import ShapeError
from pypto.lax.compare import eq, select
from pypto.lax.reduction import normal_axes
from pypto.lax.shape import broadcast, reshape


def shape_of(x: Any) -> tuple[int, ...]:
    """The static shape of anything an op takes."""
    return aval_of(x).static_shape


def squeeze(array: Any, dimensions: Sequence[int]) -> Any:
    """Drop axes of extent 1. PL301 for an axis of another extent.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.squeeze(np.ones((1, 3), np.int32), (0,)).shape
    (3,)
    """
    shape = shape_of(array)
    gone = normal_axes("squeeze", len(shape), wholes("squeeze: dimensions", dimensions))
    if any(shape[a] != 1 for a in gone):
        raise ShapeError("PL301", f"squeeze: axes {list(dimensions)} of {list(shape)}", fix="axes of extent 1")
    return reshape(array, shape=tuple(d for i, d in enumerate(shape) if i not in gone))


def expand_dims(array: Any, dimensions: Sequence[int]) -> Any:
    """Insert axes of extent 1, which stand at these places of the result.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.expand_dims(np.ones(3, np.int32), (0, 2)).shape
    (1, 3, 1)
    """
    shape = shape_of(array)
    dimensions = wholes("expand_dims: dimensions", dimensions)
    made = normal_axes("expand_dims", len(shape) + len(dimensions), dimensions)
    rest = iter(shape)
    return reshape(array, shape=tuple(1 if i in made else next(rest) for i in range(len(shape) + len(made))))


def broadcast_in_dim(operand: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Any:
    """Stretch to a shape: axis i of the operand becomes axis broadcast_dimensions[i]; an extent of 1 is repeated.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.broadcast_in_dim(np.int32([1, 2]), (2, 2), (0,))
    Array([[1, 1],
           [2, 2]], dtype=INT32)
    """
    have, want, axes = shape_of(operand), wholes("broadcast_in_dim: shape", shape), wholes("broadcast_in_dim: axes", broadcast_dimensions)
    fits = len(axes) == len(have) and list(axes) == sorted(set(axes)) and all(0 <= a < len(want) for a in axes)
    if not fits or any(d not in (1, want[a]) for d, a in zip(have, axes, strict=True)):
        raise ShapeError(
            "PL301", f"broadcast_in_dim: {list(have)} at axes {list(axes)} of {want}", fix="ascending axes; equal extents, or 1"
        )
    lined = tuple(have[axes.index(i)] if i in axes else 1 for i in range(len(want)))
    return broadcast(operand if lined == have else reshape(operand, shape=lined), shape=want)


def select_n(which: Any, *cases: Any) -> Any:
    """Element i of case which[i]: of two cases, the second where `which` is true; `which` is BOOL or INT32, one for all or one each.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.select_n(np.int32([0, 2, 1]), np.int32([1, 2, 3]), np.int32([4, 5, 6]), np.int32([7, 8, 9]))
    Array([1, 8, 6], dtype=INT32)
    """
    kind, shapes = aval_of(which), {shape_of(c) for c in cases}
    if not cases or len(shapes) > 1 or kind.shape not in ((), *shapes):
        raise ShapeError("PL301", f"select_n: {kind} among {[str(aval_of(c)) for c in cases]}", fix="one shape for all, or a scalar which")
    first, *others = cases
    if kind.dtype is dtypes.BOOL and len(cases) <= 2:
        return select(which, others[0] if others else first, first)
    if kind.dtype is not dtypes.INT32:
        raise ShapeError("PL305", f"select_n: which is {kind} for {len(cases)} cases", fix="BOOL for two, INT32 for more")
    result = first
    for i, case in enumerate(others, 1):
        result = select(eq(which, i), case, result)
    return result
