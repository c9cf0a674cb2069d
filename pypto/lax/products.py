"""Products of arrays along any axes: each is one matmul between transpositions and reshapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pypto.core.array import Array
from pypto.core.avals import Aval
from pypto.core.trace import Tracer, aval_of, current_trace
from pypto.dtypes import DType, dtype_of, promote
from pypto.errors import ShapeError
from pypto.lax.contraction import CONTRACT, accumulator, matmul
from pypto.lax.families import as_dtype
from pypto.lax.shape import reshape, transpose

Axes = tuple[int, ...]
DimensionNumbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: DimensionNumbers,
    *,
    preferred_element_type: Any = None,
    numerics: str = CONTRACT,
) -> Any:
    """Contract any axes of two arrays, over any batch axes.

    Args:
      lhs, rhs: FP32, FP16, BF16 or INT8; of two dtypes, both are promoted.
      dimension_numbers: ((lhs contracting, rhs contracting), (lhs batch, rhs batch)), axes in pairs of equal extents, also
        counted from the end.
      preferred_element_type: the dtype of the result; by default the operands' for floats, as in JAX, and INT32 for INT8 (where
        JAX wraps in INT8).
      numerics: `contract`, or `sequential`; see `matmul`.
    Returns:
      Batch axes in the order given, then the other axes of lhs, then those of rhs.
    Numerics:
      As `matmul` over the contracting axes flattened in the order given, and one rounding to the result's dtype.
    Errors:
      PL308 for axes that do not exist or come twice, PL301 for extents that differ, PL305 for another dtype.

    >>> import numpy as np
    >>> x = np.float32([[1, 2], [3, 4]])
    >>> dot_general(x, x, (((0,), (0,)), ((), ())))
    Array([[10., 14.],
           [14., 20.]], dtype=FP32)
    """
    (contract_a, contract_b), (batch_a, batch_b) = dimension_numbers
    a, b = _promoted(lhs, rhs)
    left, right = _Side(aval_of(a), batch_a, contract_a, "lhs"), _Side(aval_of(b), batch_b, contract_b, "rhs")
    for what, x, y in (("contracting", left.contracted, right.contracted), ("batch", left.batch, right.batch)):
        if [left.shape[i] for i in x] != [right.shape[i] for i in y]:
            raise ShapeError(
                "PL301",
                f"dot_general: {what} axes {list(x)} of {list(left.shape)} and {list(y)} of {list(right.shape)} differ",
                fix="pair axes of equal extents",
            )
    product = matmul(
        _as_matrix(a, left, (*left.batch, *left.free, *left.contracted), left.free, left.contracted),
        _as_matrix(b, right, (*right.batch, *right.contracted, *right.free), right.contracted, right.free),
        out_dtype=_result(aval_of(a).dtype, preferred_element_type),
        numerics=numerics,
    )
    return _reshaped(product, (*left.extents(left.batch), *left.extents(left.free), *right.extents(right.free)))


class _Side:
    """The axes of one operand: batch, contracted, and the others."""

    def __init__(self, aval: Aval, batch: Sequence[int], contracted: Sequence[int], name: str) -> None:
        self.shape = aval.static_shape
        rank = len(self.shape)
        self.batch, self.contracted = (tuple(a + rank if a < 0 else a for a in axes) for axes in (batch, contracted))
        used = (*self.batch, *self.contracted)
        if len(set(used)) != len(used) or any(not 0 <= a < rank for a in used):
            raise ShapeError("PL308", f"dot_general: axes {list(used)} of {name}, which is {aval}", fix="name each axis at most once")
        self.free = tuple(a for a in range(rank) if a not in used)

    def extents(self, axes: Axes) -> tuple[int, ...]:
        return tuple(self.shape[a] for a in axes)


def _promoted(lhs: Any, rhs: Any) -> tuple[Any, Any]:
    """Both operands in one dtype; mixed tiles of a kernel are left to be refused."""
    a, b = (x if isinstance(x, Array | Tracer) else Array(x) for x in (lhs, rhs))
    if current_trace().strict or a.dtype is b.dtype:
        return a, b
    target = promote(a.dtype, b.dtype)
    return as_dtype(a, a.aval, target), as_dtype(b, b.aval, target)


def _result(source: DType, preferred: Any) -> DType:
    if preferred is not None:
        return dtype_of(preferred)
    return source if source.is_float and source.arithmetic else accumulator(source)


def _as_matrix(x: Any, side: _Side, order: Axes, rows: Axes, columns: Axes) -> Any:
    """[batch..., rows, columns], with the axes of rows and of columns flattened."""
    turned = x if order == tuple(range(len(order))) else transpose(x, permutation=order)
    shape = (*side.extents(side.batch), math.prod(side.extents(rows)), math.prod(side.extents(columns)))
    return _reshaped(turned, shape)


def _reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    return x if x.shape == shape else reshape(x, shape=shape)


def dot(lhs: Any, rhs: Any, *, preferred_element_type: Any = None, numerics: str = CONTRACT) -> Any:
    """The product of vectors and matrices: the last axis of lhs with the first of rhs.

    Args:
      lhs, rhs: one or two axes each.
      preferred_element_type, numerics: as in `dot_general`.
    Errors:
      PL301 for more axes, or extents that differ.

    >>> import numpy as np
    >>> dot(np.float32([1, 2]), np.float32([3, 4]))
    Array(11., dtype=FP32)
    """
    ranks = [aval_of(x).rank for x in (lhs, rhs)]
    if not all(1 <= r <= 2 for r in ranks):
        raise ShapeError("PL301", f"dot of values with {ranks[0]} and {ranks[1]} axes", fix="one or two axes each; dot_general takes more")
    return dot_general(lhs, rhs, (((ranks[0] - 1,), (0,)), ((), ())), preferred_element_type=preferred_element_type, numerics=numerics)


def batch_matmul(lhs: Any, rhs: Any, *, preferred_element_type: Any = None, numerics: str = CONTRACT) -> Any:
    """[..., m, k] @ [..., k, n] with the same batch axes on both sides; `matmul` lets them broadcast.

    Errors:
      PL301 for batch axes or inner extents that differ.

    >>> import numpy as np
    >>> batch_matmul(np.float32([[[2]], [[3]]]), np.float32([[[5]], [[7]]])).reshape(2)
    Array([10., 21.], dtype=FP32)
    """
    ranks = [aval_of(x).rank for x in (lhs, rhs)]
    if ranks[0] != ranks[1] or ranks[0] < 2:
        raise ShapeError("PL301", f"batch_matmul of values with {ranks[0]} and {ranks[1]} axes", fix="the same number, two or more")
    batch = tuple(range(ranks[0] - 2))
    numbers = (((ranks[0] - 1,), (ranks[0] - 2,)), (batch, batch))
    return dot_general(lhs, rhs, numbers, preferred_element_type=preferred_element_type, numerics=numerics)
