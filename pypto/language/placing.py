"""Where a tile is and how it lies there: other spaces, sub-tiles, fractal layouts read the other way round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pypto import lax
from pypto.core.trace import aval_of
from pypto.errors import ShapeError
from pypto.language import access
from pypto.language.creating import static_shape
from pypto.language.moving import offsets_of, transpose
from pypto.language.spelled import as_tile, trace_here
from pypto.language.values import RefValue
from pypto.platform import Space


def transpose_view(x: Any) -> Any:
    """A tile with rows and columns exchanged, by reading its fractal layout the other way round: `pl.tile.transpose_view`.

    Nothing moves, so this is how a tile-level matmul takes an operand transposed. Of a tensor it is `transpose`.

    >>> import numpy as np
    >>> transpose_view(np.int32([[1, 2], [3, 4]]))
    Array([[1, 3],
           [2, 4]], dtype=INT32)
    """
    if isinstance(x, RefValue):
        return transpose(x, x.ndim - 2, x.ndim - 1)
    if aval_of(x).rank < 2:
        raise ShapeError("PL301", f"transpose_view of {aval_of(x)}", fix="a value with rows and columns")
    return lax.relayout(x)


def extract(src: Any, index_row: Any, index_col: Any, shape: Sequence[Any], *, target_memory: Space) -> Any:
    """A sub-tile in another memory space: from L1 to L0A or L0B, or from the accumulator to L1.

    Args:
      index_row, index_col: where it begins; integers or integer scalars.
      shape: its constant extents.
      target_memory: LEFT, RIGHT or MAT.
    Errors:
      PL303 for a sub-tile past the extent, PL401 for another space.
    """
    trace = trace_here("extract")
    value = as_tile(src, "extract")
    starts = offsets_of(trace, (index_row, index_col), 2, "the indices of extract")
    params = {"sizes": static_shape(trace, shape, "extract"), "space": target_memory}
    return trace.process(lax.extract, [value, *(access.operand(trace, s) for s in starts)], params)


def move(tile: Any, target_memory: Space, blayout: str | None = None, slayout: str | None = None) -> Any:
    """The same tile in another memory space. See `lax.move`.

    Args:
      target_memory: an on-chip space.
      blayout, slayout: the layout to store it in, row_major or col_major (slayout also none_box); None for that of the space.
    Errors:
      PL401 for a space that is not on chip, PL308 for another layout.
    """
    return lax.move(as_tile(tile, "move"), space=target_memory, blayout=blayout, slayout=slayout)
