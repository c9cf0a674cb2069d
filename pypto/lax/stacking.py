"""Arrays put together and taken apart along axes, and shapes alone, with JAX's names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from pypto.core.trace import aval_of
from pypto.core.whole import whole, wholes
from pypto.errors import ShapeError
from pypto.lax.axes import expand_dims, shape_of
from pypto.lax.families import broadcast_shapes as _broadcast_shapes
from pypto.lax.indexing import slice_in_dim
from pypto.lax.joining import concatenate as _joined
from pypto.lax.reduction import normal_axis
from pypto.lax.shape import broadcast as broadcast_to
from pypto.lax.shape import full, reshape


def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Sequence[int] | None = None) -> Any:
    """An array of one value with the shape and dtype of another, unless these are given.

    >>> import numpy as np
    >>> full_like(np.float32([[1, 2]]), 7)
    Array([[7., 7.]], dtype=FP32)
    """
    aval = aval_of(x)
    return full(shape_of(x) if shape is None else shape, fill_value, aval.dtype if dtype is None else dtype)


def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """Pieces of these extents along an axis, in order.

    Errors:
      PL301 if the sizes do not add up to the extent.

    >>> import numpy as np
    >>> split(np.int32([1, 2, 3]), (1, 2))
    [Array([1], dtype=INT32), Array([2, 3], dtype=INT32)]
    """
    axis, sizes = normal_axis("split", len(shape_of(operand)), axis), wholes("split: sizes", sizes)
    extent = shape_of(operand)[axis]
    if sum(sizes) != extent or any(n < 0 for n in sizes):
        raise ShapeError("PL301", f"split: {list(sizes)} of an extent of {extent}", fix=f"sizes that add up to {extent}")
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return [slice_in_dim(operand, end - n, end, axis=axis) for end, n in zip(ends, sizes, strict=True)]


def concatenate(operands: Sequence[Any], dimension: int) -> Any:
    """Join arrays of one dtype along an axis.

    Errors:
      PL301 for no arrays, or shapes that differ elsewhere, PL302 for several dtypes, PL308 for an axis that is not there.

    >>> import numpy as np
    >>> concatenate([np.int32([1, 2]), np.int32([3])], 0)
    Array([1, 2, 3], dtype=INT32)
    """
    if not isinstance(operands, Iterable):
        raise ShapeError("PL301", f"concatenate: operands are {operands!r}", fix="a list of arrays")
    parts = list(operands)
    if not parts:
        raise ShapeError("PL301", "concatenate: no arrays", fix="at least one array")
    return _joined(*parts, axis=normal_axis("concatenate", len(shape_of(parts[0])), dimension))


def stack(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Arrays of one shape along a new axis.

    Errors:
      PL301 for no arrays, or of several shapes.

    >>> import numpy as np
    >>> stack([np.int32([1, 2]), np.int32([3, 4])], axis=1)
    Array([[1, 3],
           [2, 4]], dtype=INT32)
    """
    shapes = {shape_of(x) for x in arrays}
    if len(shapes) != 1:
        raise ShapeError("PL301", f"stack: arrays of shapes {sorted(map(list, shapes))}", fix="at least one array, all of one shape")
    axis = normal_axis("stack", len(shapes.pop()) + 1, axis)
    return _joined(*(expand_dims(x, (axis,)) for x in arrays), axis=axis)


def unstack(array: Any, axis: int = 0) -> tuple[Any, ...]:
    """The slices along an axis, without it.

    >>> import numpy as np
    >>> unstack(np.int32([[1, 2], [3, 4]]), axis=1)
    (Array([1, 3], dtype=INT32), Array([2, 4], dtype=INT32))
    """
    shape = shape_of(array)
    axis = normal_axis("unstack", len(shape), axis)
    rest = (*shape[:axis], *shape[axis + 1 :])
    return tuple(reshape(slice_in_dim(array, i, i + 1, axis=axis), shape=rest) for i in range(shape[axis]))


def tile(operand: Any, reps: Sequence[int]) -> Any:
    """The array repeated `reps[i]` times along axis i.

    Errors:
      PL301 for another number of repetitions than of axes, or a negative one.

    >>> import numpy as np
    >>> tile(np.int32([1, 2]), (2,))
    Array([1, 2, 1, 2], dtype=INT32)
    """
    shape, reps = shape_of(operand), wholes("tile: reps", reps)
    if len(reps) != len(shape) or any(n < 0 for n in reps):
        raise ShapeError("PL301", f"tile: {list(reps)} for {list(shape)}", fix="one repetition for each axis, 0 or more")
    lined = [part for d in shape for part in (1, d)]
    wide = [part for d, n in zip(shape, reps, strict=True) for part in (n, d)]
    repeated = broadcast_to(reshape(operand, shape=tuple(lined)), shape=tuple(wide))
    return reshape(repeated, shape=tuple(d * n for d, n in zip(shape, reps, strict=True)))


def broadcast(operand: Any, sizes: Sequence[int]) -> Any:
    """New axes of these extents in front, along which everything is repeated; `broadcast_to` takes a whole shape.

    >>> import numpy as np
    >>> broadcast(np.int32([1, 2]), (3,))
    Array([[1, 2],
           [1, 2],
           [1, 2]], dtype=INT32)
    """
    return broadcast_to(operand, shape=(*wholes("broadcast: sizes", sizes), *shape_of(operand)))


def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Any:
    """Axes start..stop-1 as one; by default to the end.

    >>> import numpy as np
    >>> collapse(np.ones((2, 3, 4), np.int8), 1).shape
    (2, 12)
    """
    shape = shape_of(operand)
    first = whole("collapse: start_dimension", start_dimension)
    last = None if stop_dimension is None else whole("collapse: stop_dimension", stop_dimension)
    start, stop, _ = slice(first, last).indices(len(shape))
    return reshape(operand, shape=(*shape[:start], math.prod(shape[start:stop]), *shape[stop:]))


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that these broadcast to, as NumPy's rule says.

    Errors:
      PL301 for shapes that do not fit.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    whole = _broadcast_shapes("broadcast_shapes", [wholes("broadcast_shapes: a shape", s) for s in shapes] or [()])
    return tuple(d for d in whole if isinstance(d, int))


def broadcast_to_rank(x: Any, rank: int) -> Any:
    """Axes of extent 1 in front, up to a number of axes.

    Errors:
      PL301 for more axes than that.

    >>> import numpy as np
    >>> broadcast_to_rank(np.int32([1, 2]), 3).shape
    (1, 1, 2)
    """
    shape, rank = shape_of(x), whole("broadcast_to_rank: rank", rank)
    if len(shape) > rank:
        raise ShapeError("PL301", f"broadcast_to_rank: {list(shape)} to {rank} axes", fix="reshape or squeeze it first")
    return reshape(x, shape=(*(1,) * (rank - len(shape)), *shape))
