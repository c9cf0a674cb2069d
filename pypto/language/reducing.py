"""Row and column reductions in the language's spelling; results keep the reduced axis, with extent 1."""

from __future__ import annotations

from typing import Any

from pypto import dtypes, lax
from pypto.core.avals import TILE, TileAval
from pypto.core.trace import aval_of
from pypto.errors import ShapeError
from pypto.language.levels import by_level, only_at
from pypto.language.spelled import as_tile
from pypto.lax.reduction import ASCENDING, LANES64


def check_scratch(name: str, x: Any, tmp: Any, *, exactly: bool = False) -> None:
    """A scratch operand must be what the instruction needs; its content does not matter, and it changes nothing.

    Args:
      exactly: whether it has the operand's shape, or is at least as large along every axis.
    Errors:
      PL307 at tensor level, where the compiler makes it; PL302 for another dtype, or no tile; PL301 for another shape.
    """
    only_at(TILE, name, (x,), "leave it out: at tensor level the compiler makes the scratch tile", tmp=tmp is not None)
    if tmp is None:
        return
    have, scratch = aval_of(x), aval_of(tmp)
    if not isinstance(scratch, TileAval):
        raise ShapeError("PL302", f"pl.{name}: the scratch operand is {scratch}, no tile", fix="pl.create_tile(shape, dtype)")
    if scratch.dtype is not have.dtype:
        raise ShapeError("PL302", f"pl.{name}: the scratch tile is {scratch}, the operand {have}", fix="give it the operand's dtype")
    fits = scratch.shape == have.shape if exactly else _covers(scratch.static_shape, have.static_shape)
    if not fits:
        want = "exactly the operand's shape" if exactly else "at least the operand's extents"
        raise ShapeError("PL301", f"pl.{name}: a scratch tile {list(scratch.shape)} for {have}", fix=f"it needs {want}")


def _covers(large: tuple[int, ...], small: tuple[int, ...]) -> bool:
    return len(large) == len(small) and all(a >= b for a, b in zip(large, small, strict=True))


def _operand(name: str, x: Any, tmp: Any = None, *, exactly: bool = False) -> Any:
    value = as_tile(x, name)
    if aval_of(value).rank < 2:
        raise ShapeError("PL301", f"pl.{name} of {aval_of(value)}", fix="a tile has at least two axes: reshape it")
    check_scratch(name, value, tmp, exactly=exactly)
    return value


def _position(name: str, op: Any, x: Any, tmp: Any, axis: int, *, exactly: bool) -> Any:
    return op(_operand(name, x, tmp, exactly=exactly), axis=axis, index_dtype=dtypes.INT32, keepdims=True)


# ---- rows --------------------------------------------------------------------------------------------------------


@by_level
def row_sum(x: Any, tmp: Any = None) -> Any:
    """Sum of each row's valid part: [.., n] to [.., 1].

    Args:
      tmp: scratch of the instruction, at tile level: a tile of x's dtype, at least as large along every axis. It changes nothing.
    Numerics:
      Order `lanes64`: element j goes to partial sum j mod 64 in FP32, then halves; BF16 and FP16 round once at the end.
      Integers wrap.
    Errors:
      PL301 for a value with one axis or a smaller scratch tile, PL302 for scratch of another dtype, PL307 for scratch at tensor
      level.

    >>> import numpy as np
    >>> row_sum(np.float32([[1, 2], [3, 4]]))
    Array([[3.],
           [7.]], dtype=FP32)
    """
    return lax.reduce_sum(_operand("row_sum", x, tmp), axes=-1, keepdims=True, order=LANES64)


@by_level
def row_prod(x: Any, tmp: Any = None) -> Any:
    """Product of each row's valid part: [.., n] to [.., 1]; order, `tmp` and errors as `row_sum`.

    >>> import numpy as np
    >>> row_prod(np.int32([[2, 3, 4]]))
    Array([[24]], dtype=INT32)
    """
    return lax.reduce_prod(_operand("row_prod", x, tmp), axes=-1, keepdims=True, order=LANES64)


@by_level
def row_max(x: Any, tmp: Any = None) -> Any:
    """Largest element of each row's valid part: [.., n] to [.., 1]. Exact; NaN propagates, +0 is larger than -0.

    `tmp` and errors as `row_sum`.

    >>> import numpy as np
    >>> row_max(np.int32([[1, 5, 2]]))
    Array([[5]], dtype=INT32)
    """
    return lax.reduce_max(_operand("row_max", x, tmp), axes=-1, keepdims=True)


@by_level
def row_min(x: Any, tmp: Any = None) -> Any:
    """Smallest element of each row's valid part: [.., n] to [.., 1]. Exact; NaN propagates, -0 is smaller than +0.

    `tmp` and errors as `row_sum`.
    """
    return lax.reduce_min(_operand("row_min", x, tmp), axes=-1, keepdims=True)


@by_level
def row_argmax(x: Any, tmp: Any = None) -> Any:
    """Column of the largest element of each row's valid part: [.., n] to INT32 [.., 1]. See `lax.argmax`.

    Args:
      tmp: scratch of the instruction, at tile level: a tile of exactly x's dtype and shape. It changes nothing.
    Numerics:
      The first of equal elements; NaN counts as the largest.
    Errors:
      As `row_sum`.

    >>> import numpy as np
    >>> row_argmax(np.float32([[-np.inf, -3.4028235e38], [-np.inf, -np.inf]]))
    Array([[1],
           [0]], dtype=INT32)
    """
    return _position("row_argmax", lax.argmax, x, tmp, -1, exactly=True)


@by_level
def row_argmin(x: Any, tmp: Any = None) -> Any:
    """Column of the smallest element of each row's valid part, INT32; as `row_argmax`, and NaN counts as the smallest."""
    return _position("row_argmin", lax.argmin, x, tmp, -1, exactly=True)


# ---- columns -----------------------------------------------------------------------------------------------------


@by_level
def col_sum(x: Any, tmp: Any = None) -> Any:
    """Sum of each column's valid part: [m, n] to [1, n].

    Args:
      tmp: scratch of the instruction, as in `row_sum`. (The original adds in another order with it; here it changes nothing.)
    Numerics:
      Order `ascending`: rows in order in FP32; BF16 and FP16 round once at the end. Integers wrap.
    Errors:
      As `row_sum`.

    >>> import numpy as np
    >>> col_sum(np.int32([[1, 2], [3, 4]]))
    Array([[4, 6]], dtype=INT32)
    """
    return lax.reduce_sum(_operand("col_sum", x, tmp), axes=-2, keepdims=True, order=ASCENDING)


def col_prod(x: Any) -> Any:
    """Product of each column's valid part: [m, n] to [1, n]; order as `col_sum`. PL301 for a value with one axis."""
    return lax.reduce_prod(_operand("col_prod", x), axes=-2, keepdims=True, order=ASCENDING)


def col_max(x: Any) -> Any:
    """Largest element of each column's valid part: [m, n] to [1, n]. Exact; NaN propagates, +0 is larger than -0."""
    return lax.reduce_max(_operand("col_max", x), axes=-2, keepdims=True)


def col_min(x: Any) -> Any:
    """Smallest element of each column's valid part: [m, n] to [1, n]. Exact; NaN propagates, -0 is smaller than +0."""
    return lax.reduce_min(_operand("col_min", x), axes=-2, keepdims=True)


@by_level
def col_argmax(x: Any, tmp: Any = None) -> Any:
    """Row of the largest element of each column's valid part: [m, n] to INT32 [1, n]; numerics and errors as `row_argmax`.

    Args:
      tmp: scratch of the instruction, as in `row_sum`.
    """
    return _position("col_argmax", lax.argmax, x, tmp, -2, exactly=False)


@by_level
def col_argmin(x: Any, tmp: Any = None) -> Any:
    """Row of the smallest element of each column's valid part, INT32; as `col_argmax`, and NaN counts as the smallest."""
    return _position("col_argmin", lax.argmin, x, tmp, -2, exactly=False)
