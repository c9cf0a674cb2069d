"""Scatter on tiles: by index along an axis, by flat index, by row.

The result is a copy of the first operand with some elements replaced; the language updates that tile in place with it. Elements
are written in row-major order of the source, so of several that go to one place the last stays. An index outside its extent is an
error in checked runs (PL303); without checks its element is dropped. Addresses are computed in 64 bits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pypto import dtypes
from pypto.core.avals import Aval, TileAval
from pypto.core.op import Fault, Native, No, outside
from pypto.dtypes import DType
from pypto.errors import ShapeError
from pypto.interpreters.batching import axis_option
from pypto.interpreters.cpu.rules import Tilewise
from pypto.interpreters.rules import linear, pullback
from pypto.lax.families import Sample, check_accepts, movement, sample_indices, sample_values
from pypto.lax.gathering import check_along, outside_mask, positions_along
from pypto.lax.placed_rules import scatter_along_transpose, scatter_flat_transpose, scatter_rows_transpose

SCATTERED = frozenset({dtypes.FP32, dtypes.FP16, dtypes.BF16, dtypes.INT32, dtypes.INT16, dtypes.INT8})
"""What the scatter unit takes."""


def check_source(name: str, x: Aval, source: Aval) -> None:
    """The source has the dtype of what it goes into.

    Errors:
      PL305 for a dtype the unit does not take, PL302 for two dtypes.
    """
    check_accepts(name, SCATTERED, [x])
    if source.dtype is not x.dtype:
        raise ShapeError("PL302", f"{name}: {source} does not go into {x}", fix=f"pl.cast(src, pl.{x.dtype.name})")


def check_width(name: str, x: Aval, index: Aval) -> None:
    """The unit wants an index as wide as the data: INT32 for 4 bytes, INT16 for fewer.

    Errors:
      PL305 for another index dtype.
    """
    want = dtypes.INT32 if x.dtype.bits == 32 else dtypes.INT16
    if index.dtype is not want:
        raise ShapeError(
            "PL305", f"{name}: an index of dtype {index.dtype.name} for {x.dtype.name} data", fix=f"pl.cast(index, pl.{want.name})"
        )


def _same_shape(name: str, index: Aval, source: Aval) -> None:
    if index.shape != source.shape:
        raise ShapeError("PL301", f"{name}: an index {index} for a source {source}", fix="one index per element: the same shape")


def _same_region(index: np.ndarray, source: np.ndarray) -> None:
    if index.shape != source.shape:
        raise ShapeError(
            "PL301",
            f"scatter: the valid region {list(index.shape)} of the index is not that of the source, {list(source.shape)}",
            fix="pl.set_validshape on one of them",
        )


def placed(x: np.ndarray, positions: np.ndarray, source: np.ndarray) -> np.ndarray:
    """A copy of x with source at these flat positions, one after the other; -1 drops an element."""
    result = np.array(x)
    there = np.ravel(positions) >= 0
    result.reshape(-1)[np.ravel(positions)[there]] = np.ravel(source)[there]
    return result


def _index_dtype(d: DType) -> Any:
    return np.int32 if d.bits == 32 else np.int16


def _samples(axis: bool) -> list[Sample]:
    made: list[Sample] = []
    for d in sorted(SCATTERED, key=lambda d: d.name):
        for i, (rows, columns) in enumerate(((1, 8), (8, 1), (1, 1), (3, 5))):
            x, source = sample_values(d, (rows, columns), seed=i), sample_values(d, (rows, 2), seed=i + 9)
            extent = columns if axis else x.size
            index = sample_indices(source.shape, extent, i).astype(_index_dtype(d))
            made.append(((x, index, source), {"axis": 1}) if axis else ((x, source, index), {}))
    return made


# ---- by index ----------------------------------------------------------------------------------------------------


def _along_aval(x: Aval, index: Aval, source: Aval, *, axis: int) -> Aval:
    check_source("scatter", x, source)
    check_width("scatter", x, index)
    check_along("scatter", x, index, axis)
    _same_shape("scatter", index, source)
    return x


@movement(
    jvp=linear(0, 2),
    transpose=pullback(scatter_along_transpose),
    batching=axis_option("axis"),
    cpu=Tilewise("gathering.SCATTER_ALONG"),
    samples=lambda: _samples(axis=True),
    abstract=_along_aval,
    valid=lambda x, *_, **__: x,
    crops=(1, 2),
    faults=lambda x, index, source, *, axis: outside(1, outside_mask(index, x.shape[axis]), x.shape[axis], f"axis {axis} of {{first}}"),
    index=(1,),
    accepts=SCATTERED,
    pto=Native("pto.tscatter"),
    unit="vector",
)
def scatter_along(x: Any, index: Any, source: Any, *, axis: int) -> Any:
    """Put elements at places along one axis: out[i, index[i, j]] = source[i, j] for axis 1, as `torch.scatter`.

    Args:
      x: FP32, FP16, BF16, INT32, INT16 or INT8.
      index: INT32 for 4-byte data, INT16 otherwise; as many axes as x and no longer than it except along `axis`.
      source: the dtype of x, the shape of the index. Only its valid region is written.
    Errors:
      PL303 for an index outside the axis, in checked runs; without checks its element is dropped. PL301, PL302, PL305.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.scatter_along(np.zeros((1, 4), np.int32), np.int32([[3, 0]]), np.int32([[7, 8]]), axis=1)
    Array([[8, 0, 0, 7]], dtype=INT32)
    """
    _same_region(index, source)
    return placed(x, positions_along(x.shape, index, axis), source)


def _flat_aval(x: Aval, source: Aval, index: Aval) -> Aval:
    check_source("scatter", x, source)
    check_width("scatter", x, index)
    _same_shape("scatter", index, source)
    return x


@movement(
    jvp=linear(0, 1),
    transpose=pullback(scatter_flat_transpose),
    cpu=Tilewise("gathering.SCATTER_FLAT"),
    samples=lambda: _samples(axis=False),
    abstract=_flat_aval,
    valid=lambda x, *_: x,
    crops=(1, 2),
    faults=lambda x, source, index: outside(2, outside_mask(index, x.size), x.size, "{first}, flattened"),
    index=(2,),
    accepts=SCATTERED,
    pto=Native("pto.tscatter"),
    unit="vector",
)
def scatter_flat(x: Any, source: Any, index: Any) -> Any:
    """Put elements at row-major positions: out.flat[index[i, j]] = source[i, j], counted over the physical columns of x.

    The sources of the language disagree on whether the index is a row or a position; it is a position. Otherwise as `scatter_along`.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.scatter_flat(np.zeros((2, 2), np.int32), np.int32([[7, 8]]), np.int32([[3, 0]]))
    Array([[8, 0],
           [0, 7]], dtype=INT32)
    """
    _same_region(index, source)
    return placed(x, np.where(outside_mask(index, x.size), -1, index.astype(np.int64)), source)


# ---- by row ------------------------------------------------------------------------------------------------------


def check_rows(name: str, x: Aval, source: Aval, index: Aval) -> None:
    """Rows of `source` go into rows of `x`: both of 2 axes, or both paged, [blocks, size, 1, d] and [b, s, 1, d].

    Errors:
      PL301, PL302, PL305.
    """
    check_accepts(name, SCATTERED, [x])
    if source.dtype is not x.dtype:
        raise ShapeError("PL302", f"{name}: {source} does not go into {x}", fix=f"pl.cast(src, pl.{x.dtype.name})")
    if not index.dtype.is_integer:
        raise ShapeError("PL305", f"{name}: an index of dtype {index.dtype.name}", fix="an integer index [b, s]")
    rows = math.prod(source.static_shape[:-1])
    paged = x.rank == 4 and x.shape[2] == 1
    if x.rank != source.rank or not (x.rank == 2 or paged) or x.shape[-1] != source.shape[-1] or index.rank != 2:
        raise ShapeError(
            "PL301",
            f"{name}: {source} into {x} at {index}",
            fix="input [rows, d], index [b, s], src [b*s, d]; or paged input [blocks, size, 1, d], src [b, s, 1, d]",
        )
    if math.prod(index.static_shape) != rows:
        raise ShapeError("PL301", f"{name}: {math.prod(index.static_shape)} indices for {rows} rows", fix="one index per row of src")


def row_positions(shape: tuple[int, ...], index: np.ndarray) -> np.ndarray:
    """Row-major positions [n, d] of whole rows of a buffer whose last axis is a row; -1 where a row does not exist."""
    width = shape[-1]
    row = np.ravel(index).astype(np.int64)[:, None]
    return np.where(outside_mask(row, math.prod(shape[:-1])), -1, row * width + np.arange(width))


def rows_outside(operand: int, shape: tuple[int, ...], index: np.ndarray) -> Fault:
    rows = math.prod(shape[:-1])
    return outside(operand, outside_mask(index, rows), rows, "the rows of {first}")


def _rows_aval(x: Aval, source: Aval, index: Aval) -> Aval:
    check_rows("scatter_update", x, source, index)
    for a in (source, index):
        if isinstance(a, TileAval) and a.valid is not None:
            raise ShapeError("PL301", f"scatter_update: {a} is partly valid", fix="slice the valid rows, or fill the rest with pl.fillpad")
    return x


def _rows_samples() -> list[Sample]:
    return [
        ((sample_values(d, (6, n), seed=1), sample_values(d, (b * s, n), seed=2), np.arange(b * s, dtype=np.int32).reshape(b, s)), {})
        for d in sorted(SCATTERED, key=lambda d: d.name)
        for n, b, s in ((8, 1, 1), (1, 2, 3), (5, 2, 2))
    ]


@movement(
    jvp=linear(0, 1),
    transpose=pullback(scatter_rows_transpose),
    cpu=Tilewise("gathering.SCATTER_ROWS"),
    samples=_rows_samples,
    abstract=_rows_aval,
    valid=lambda x, *_: x,
    faults=lambda x, source, index: rows_outside(2, x.shape, index),
    index=(2,),
    accepts=SCATTERED,
    pto=No("it is emitted as a loop of row moves"),
    unit="vector",
)
def scatter_rows(x: Any, source: Any, index: Any) -> Any:
    """Replace whole rows of a tile: row index[i, j] of x becomes row i*s + j of the source. See `scatter_update`.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.scatter_rows(np.zeros((3, 2), np.int32), np.int32([[1, 2]]), np.int32([[2]]))
    Array([[0, 0],
           [0, 0],
           [1, 2]], dtype=INT32)
    """
    return placed(x, row_positions(x.shape, index), source)
