"""Row and column reductions, and the vectors that are spread over rows and columns."""

from __future__ import annotations

from typing import Any

from pypto import lax
from pypto.core.avals import TileAval
from pypto.core.trace import aval_of
from pypto.errors import ShapeError
from pypto.language.spelled import as_tile
from pypto.lax.reduction import ASCENDING, LANES64


def _reduce(op: Any, x: Any, axis: int, order: str) -> Any:
    value = as_tile(x, op.name)
    if aval_of(value).rank < 2:
        raise ShapeError("PL301", f"{op.name} over rows or columns of {aval_of(value)}", fix="a tile has at least two axes: reshape it")
    return op(value, axes=(aval_of(value).rank + axis,), keepdims=True, order=order)


def row_sum(x: Any, tmp: Any = None) -> Any:
    """Sum of each row: [.., n] to [.., 1], in 64 partial sums (order `lanes64`). `tmp` is scratch and changes nothing."""
    return _reduce(lax.reduce_sum, x, -1, LANES64)


def row_max(x: Any, tmp: Any = None) -> Any:
    """Largest element of each row's valid part; NaN propagates."""
    return _reduce(lax.reduce_max, x, -1, LANES64)


def row_min(x: Any, tmp: Any = None) -> Any:
    """Smallest element of each row's valid part; NaN propagates."""
    return _reduce(lax.reduce_min, x, -1, LANES64)


def col_sum(x: Any, tmp: Any = None) -> Any:
    """Sum of each column: [m, n] to [1, n], rows in order, in FP32."""
    return _reduce(lax.reduce_sum, x, -2, ASCENDING)


def col_max(x: Any, tmp: Any = None) -> Any:
    """Largest element of each column's valid part; NaN propagates."""
    return _reduce(lax.reduce_max, x, -2, ASCENDING)


def col_min(x: Any, tmp: Any = None) -> Any:
    """Smallest element of each column's valid part; NaN propagates."""
    return _reduce(lax.reduce_min, x, -2, ASCENDING)


def _vector(name: str, x: Any, v: Any, axis: int) -> tuple[Any, Any]:
    """The target and the vector that is spread over it."""
    target, vector = as_tile(x, name), as_tile(v, name)
    a, b = aval_of(target), aval_of(vector)
    if not isinstance(b, TileAval) or b.rank != a.rank or b.shape[axis] != 1:
        want = "[rows, 1]" if axis == -1 else "[1, cols]"
        raise ShapeError("PL301", f"{name}: {b} is no {want} vector for {a}", fix=f"reshape it to {want}")
    return target, vector


def row_expand(target: Any, v: Any) -> Any:
    """A [rows, 1] column spread over the target's columns; of the target only the shape counts."""
    x, vector = _vector("row_expand", target, v, -1)
    return lax.broadcast(vector, shape=aval_of(x).shape)


def col_expand(target: Any, v: Any) -> Any:
    """A [1, cols] row spread over the target's rows; of the target only the shape counts."""
    x, vector = _vector("col_expand", target, v, -2)
    return lax.broadcast(vector, shape=aval_of(x).shape)


def row_expand_add(x: Any, v: Any, tmp: Any = None) -> Any:
    """x + v, a [rows, 1] column for every column of x."""
    return lax.add(*_vector("row_expand_add", x, v, -1))


def row_expand_sub(x: Any, v: Any, tmp: Any = None) -> Any:
    """x - v, a [rows, 1] column for every column of x."""
    return lax.sub(*_vector("row_expand_sub", x, v, -1))


def row_expand_mul(x: Any, v: Any, tmp: Any = None) -> Any:
    """x * v, a [rows, 1] column for every column of x."""
    return lax.mul(*_vector("row_expand_mul", x, v, -1))


def row_expand_div(x: Any, v: Any, tmp: Any = None) -> Any:
    """x / v, a [rows, 1] column for every column of x."""
    return lax.div(*_vector("row_expand_div", x, v, -1))


def row_expand_max(x: Any, v: Any, tmp: Any = None) -> Any:
    """The larger of x and a [rows, 1] column."""
    return lax.maximum(*_vector("row_expand_max", x, v, -1))


def row_expand_min(x: Any, v: Any, tmp: Any = None) -> Any:
    """The smaller of x and a [rows, 1] column."""
    return lax.minimum(*_vector("row_expand_min", x, v, -1))


def col_expand_add(x: Any, v: Any) -> Any:
    """x + v, a [1, cols] row for every row of x."""
    return lax.add(*_vector("col_expand_add", x, v, -2))


def col_expand_sub(x: Any, v: Any) -> Any:
    """x - v, a [1, cols] row for every row of x."""
    return lax.sub(*_vector("col_expand_sub", x, v, -2))


def col_expand_mul(x: Any, v: Any) -> Any:
    """x * v, a [1, cols] row for every row of x."""
    return lax.mul(*_vector("col_expand_mul", x, v, -2))


def col_expand_div(x: Any, v: Any) -> Any:
    """x / v, a [1, cols] row for every row of x."""
    return lax.div(*_vector("col_expand_div", x, v, -2))


def col_expand_max(x: Any, v: Any) -> Any:
    """The larger of x and a [1, cols] row."""
    return lax.maximum(*_vector("col_expand_max", x, v, -2))


def col_expand_min(x: Any, v: Any) -> Any:
    """The smaller of x and a [1, cols] row."""
    return lax.minimum(*_vector("col_expand_min", x, v, -2))
