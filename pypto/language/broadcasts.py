"""Vectors that are spread over the rows and columns of a tile."""

from __future__ import annotations

from typing import Any

from pypto import lax
from pypto.core.avals import ArrayAval
from pypto.core.trace import aval_of
from pypto.errors import ShapeError
from pypto.language.levels import by_level
from pypto.language.reducing import check_scratch
from pypto.language.spelled import as_tile


def _vector(name: str, x: Any, v: Any, axis: int) -> tuple[Any, Any]:
    """The target and the vector that is spread over it."""
    target, vector = as_tile(x, name), as_tile(v, name)
    a, b = aval_of(target), aval_of(vector)
    more = a.rank - b.rank
    if isinstance(b, ArrayAval) and more > 0 and b.rank and all(d == 1 for d in a.shape[:more]):
        vector = lax.reshape.bind(vector, shape=(1,) * more + b.static_shape)  # leading axes of one element are no rows
        b = aval_of(vector)
    if not isinstance(b, ArrayAval) or b.rank != a.rank or b.shape[axis] != 1:
        want = "[rows, 1]" if axis == -1 else "[1, cols]"
        raise ShapeError("PL301", f"{name}: {b} is no {want} vector for {a}", fix=f"reshape it to {want}")
    return target, vector


def row_expand(target: Any, v: Any) -> Any:
    """A [rows, 1] column spread over the target's columns; of the target only the shape counts. Bits are kept.

    Errors:
      PL301 for a vector that is no column of the target.
    """
    x, vector = _vector("row_expand", target, v, -1)
    return lax.broadcast_to(vector, shape=aval_of(x).shape)


def col_expand(target: Any, v: Any) -> Any:
    """A [1, cols] row spread over the target's rows; of the target only the shape counts. Bits are kept.

    Errors:
      PL301 for a vector that is no row of the target.
    """
    x, vector = _vector("col_expand", target, v, -2)
    return lax.broadcast_to(vector, shape=aval_of(x).shape)


@by_level
def row_expand_add(x: Any, v: Any, tmp: Any = None) -> Any:
    """x + v, a [rows, 1] column for every column of x. Numerics as `lax.add`.

    Args:
      tmp: scratch of the instruction, at tile level: a tile of x's dtype and axes, at least as large. It changes nothing.
    Errors:
      PL301 for a vector or a scratch tile of another shape, PL302 for another dtype, PL307 for scratch at tensor level.
    """
    operands = _vector("row_expand_add", x, v, -1)
    check_scratch("row_expand_add", operands[0], tmp)
    return lax.add(*operands)


def row_expand_sub(x: Any, v: Any) -> Any:
    """x - v, a [rows, 1] column for every column of x. Numerics as `lax.sub`, errors as `row_expand_mul`."""
    return lax.sub(*_vector("row_expand_sub", x, v, -1))


def row_expand_mul(x: Any, v: Any) -> Any:
    """x * v, a [rows, 1] column for every column of x. Numerics as `lax.mul`.

    Errors:
      PL301 for a vector that is no column of x, PL302 for another dtype.

    >>> import numpy as np
    >>> row_expand_mul(np.float32([[1, 2], [3, 4]]), np.float32([[10], [100]]))
    Array([[ 10.,  20.],
           [300., 400.]], dtype=FP32)
    """
    return lax.mul(*_vector("row_expand_mul", x, v, -1))


def row_expand_div(x: Any, v: Any) -> Any:
    """x / v, a [rows, 1] column for every column of x. Numerics as `lax.div`, errors as `row_expand_mul`."""
    return lax.div(*_vector("row_expand_div", x, v, -1))


def row_expand_max(x: Any, v: Any) -> Any:
    """The larger of x and a [rows, 1] column. Numerics as `lax.maximum`, errors as `row_expand_mul`."""
    return lax.maximum(*_vector("row_expand_max", x, v, -1))


def row_expand_min(x: Any, v: Any) -> Any:
    """The smaller of x and a [rows, 1] column. Numerics as `lax.minimum`, errors as `row_expand_mul`."""
    return lax.minimum(*_vector("row_expand_min", x, v, -1))


def row_expand_expdif(x: Any, v: Any) -> Any:
    """exp(x - v), a [rows, 1] column for every column of x: the numerator of a softmax.

    Numerics:
      The difference is rounded to the dtype, as `lax.sub`, then `lax.exp` of it.
    Errors:
      PL301 for a vector of another shape, PL305 for integers.

    >>> import numpy as np
    >>> row_expand_expdif(np.float32([[1, 2]]), np.float32([[2]]))
    Array([[0.36787945, 1.        ]], dtype=FP32)
    """
    return lax.exp(lax.sub(*_vector("row_expand_expdif", x, v, -1)))


def col_expand_add(x: Any, v: Any) -> Any:
    """x + v, a [1, cols] row for every row of x. Numerics as `lax.add`, errors as `col_expand_mul`."""
    return lax.add(*_vector("col_expand_add", x, v, -2))


def col_expand_sub(x: Any, v: Any) -> Any:
    """x - v, a [1, cols] row for every row of x. Numerics as `lax.sub`, errors as `col_expand_mul`."""
    return lax.sub(*_vector("col_expand_sub", x, v, -2))


def col_expand_mul(x: Any, v: Any) -> Any:
    """x * v, a [1, cols] row for every row of x. Numerics as `lax.mul`.

    Errors:
      PL301 for a vector that is no row of x, PL302 for another dtype.

    >>> import numpy as np
    >>> col_expand_mul(np.float32([[1, 2], [3, 4]]), np.float32([[10, 100]]))
    Array([[ 10., 200.],
           [ 30., 400.]], dtype=FP32)
    """
    return lax.mul(*_vector("col_expand_mul", x, v, -2))


def col_expand_div(x: Any, v: Any) -> Any:
    """x / v, a [1, cols] row for every row of x. Numerics as `lax.div`, errors as `col_expand_mul`."""
    return lax.div(*_vector("col_expand_div", x, v, -2))


def col_expand_max(x: Any, v: Any) -> Any:
    """The larger of x and a [1, cols] row. Numerics as `lax.maximum`, errors as `col_expand_mul`."""
    return lax.maximum(*_vector("col_expand_max", x, v, -2))


def col_expand_min(x: Any, v: Any) -> Any:
    """The smaller of x and a [1, cols] row. Numerics as `lax.minimum`, errors as `col_expand_mul`."""
    return lax.minimum(*_vector("col_expand_min", x, v, -2))


def col_expand_expdif(x: Any, v: Any) -> Any:
    """exp(x - v), a [1, cols] row for every row of x. Numerics and errors as `row_expand_expdif`."""
    return lax.exp(lax.sub(*_vector("col_expand_expdif", x, v, -2)))
