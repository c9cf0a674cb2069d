"""Gather on tiles: by index along an axis, by flat index, by comparison, by 32-byte blocks.

An index outside its extent is an error in checked runs (PL303); without checks it gives 0. Addresses are computed in 64 bits,
whatever the dtype of the index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto import dtypes
from pypto.core.avals import Aval, TileAval, Valid
from pypto.core.op import Exact, Fault, Native, No, Whole, outside
from pypto.dtypes import DType
from pypto.errors import ShapeError
from pypto.interpreters.batching import axis_option
from pypto.interpreters.cpu.rules import Tilewise
from pypto.interpreters.rules import linear, pullback
from pypto.lax.compare import COMPARISONS
from pypto.lax.families import Sample, check_accepts, computed, movement, result_aval, sample_indices, sample_values
from pypto.lax.placed_rules import along_transpose, flat_transpose

GATHERED = frozenset({dtypes.FP16, dtypes.FP32, dtypes.INT16, dtypes.INT32})
"""What the gather unit takes."""
BYTES = 32
"""Bytes of one block of `gatherb`."""

SHAPES = ((1, 8), (8, 1), (1, 1), (3, 5))

# ---- indices -----------------------------------------------------------------------------------------------------


def check_index(name: str, x: Aval, index: Aval, narrow: frozenset[DType]) -> None:
    """An index is INT32, or INT16 where the data are of a dtype in `narrow`.

    Errors:
      PL305 for another dtype.
    """
    if index.dtype is dtypes.INT32 or (index.dtype is dtypes.INT16 and x.dtype in narrow):
        return
    raise ShapeError(
        "PL305",
        f"{name}: an index of dtype {index.dtype.name} for {x.dtype.name} data",
        fix="pl.cast(index, pl.INT32), or INT16 for 16-bit",
    )


NARROW = frozenset({dtypes.FP16, dtypes.INT16})
"""16-bit data, which may have a 16-bit index."""


def outside_mask(index: np.ndarray, extent: int) -> np.ndarray:
    """Where an index is not in 0..extent-1."""
    wide = index.astype(np.int64)
    return (wide < 0) | (wide >= extent)


def valid_of(x: Aval) -> Valid | None:
    return x.valid if isinstance(x, TileAval) else None


def _indexed_taint(meaning: Callable[..., Any], taints: Sequence[Any], arrays: Sequence[np.ndarray], params: dict[str, Any]) -> Any:
    """An element is as good as the element it comes from and the index that chose it."""
    data, index = taints
    result = np.zeros(arrays[1].shape, np.bool_) if index is None else index
    return result if data is None else result | meaning(data, arrays[1], **params)


def picked(source: np.ndarray, index: np.ndarray) -> np.ndarray:
    """source[index] of a flat source; 0 where the index lies outside."""
    wide = index.astype(np.int64)
    there = (wide >= 0) & (wide < source.size)
    result = np.zeros(index.shape, source.dtype)
    result[there] = source[wide[there]]
    return result


# ---- along an axis -----------------------------------------------------------------------------------------------


def positions_along(shape: tuple[int, ...], index: np.ndarray, axis: int) -> np.ndarray:
    """Row-major positions in `shape` of x[.., index[i], ..]; -1 where the index lies outside."""
    wide = index.astype(np.int64)
    grid = [np.arange(n).reshape([-1 if a == i else 1 for a in range(len(shape))]) for i, n in enumerate(index.shape)]
    grid[axis] = np.clip(wide, 0, max(shape[axis] - 1, 0))
    flat = np.zeros(index.shape, np.int64)
    for n, part in zip(shape, grid, strict=True):
        flat = flat * n + part
    return np.where(outside_mask(wide, shape[axis]), -1, flat)


def check_along(name: str, x: Aval, index: Aval, axis: int) -> None:
    """An index has the rank of the data and is no longer on the other axes.

    Errors:
      PL301 for other shapes, PL308 for an axis that does not exist.
    """
    if not 0 <= axis < x.rank:
        raise ShapeError("PL308", f"{name}: axis {axis} of {x}", fix=f"an axis from 0 to {x.rank - 1}, or from -1")
    if index.rank != x.rank or any(i != axis and n > d for i, (n, d) in enumerate(zip(index.static_shape, x.static_shape, strict=True))):
        raise ShapeError("PL301", f"{name}: an index {index} for {x}", fix=f"the same number of axes, none longer except axis {axis}")


def _gather_along_aval(x: Aval, index: Aval, *, axis: int) -> Aval:
    check_accepts("gather", GATHERED, [x])
    check_index("gather", x, index, NARROW)
    check_along("gather", x, index, axis)
    return result_aval("gather", [x, index], index.shape, x.dtype, valid_of(index))


def index_samples(make: Callable[[np.ndarray, int], tuple[tuple[Any, ...], dict[str, Any]]]) -> Callable[[], list[Sample]]:
    """Samples of every gathered dtype and shape class; `make` gets the data and a seed."""

    def samples() -> list[Sample]:
        ordered = sorted(GATHERED, key=lambda d: d.name)
        return [make(sample_values(d, s, seed=i), i) for d in ordered for i, s in enumerate(SHAPES)]

    return samples


def _along_faults(x: np.ndarray, index: np.ndarray, *, axis: int) -> Fault:
    return outside(1, outside_mask(index, x.shape[axis]), x.shape[axis], f"axis {axis} of {{first}}")


@movement(
    jvp=linear(0),
    transpose=pullback(along_transpose),
    batching=axis_option("axis"),
    cpu=Tilewise("gathering.ALONG"),
    samples=index_samples(lambda x, i: ((x, sample_indices((x.shape[0], 3), x.shape[1], i)), {"axis": 1})),
    abstract=_gather_along_aval,
    valid=lambda x, index, **_: index,
    taint=lambda taints, arrays, params: _indexed_taint(_gather_along, taints, arrays, params),
    faults=_along_faults,
    index=(1,),
    accepts=GATHERED,
    pto=Native("pto.tgather"),
    golden="jax.numpy.take_along_axis",
    unit="vector",
)
def gather_along(x: Any, index: Any, *, axis: int) -> Any:
    """Pick elements along one axis: out[i, j] = x[i, index[i, j]] for axis 1, as `torch.gather`.

    Args:
      x: FP16, FP32, INT16 or INT32.
      index: INT32 (or INT16 for 16-bit data), as many axes as x and no longer than it except along `axis`; it gives the result
        its shape and its valid region.
    Numerics:
      Bits are kept.
    Errors:
      PL303 for an index outside the axis, in checked runs; without checks that element is 0. PL301, PL305.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.gather_along(np.float32([[10, 20, 30]]), np.int32([[2, 0]]), axis=1)
    Array([[30., 10.]], dtype=FP32)
    """
    return _gather_along(x, index, axis=axis)


def _gather_along(x: np.ndarray, index: np.ndarray, *, axis: int) -> np.ndarray:
    return picked(np.ravel(x), positions_along(x.shape, index, axis))


# ---- by flat index -----------------------------------------------------------------------------------------------


def _gather_flat_aval(x: Aval, index: Aval) -> Aval:
    check_accepts("gather", GATHERED, [x])
    check_index("gather", x, index, NARROW)
    return result_aval("gather", [x, index], index.shape, x.dtype, valid_of(index))


@movement(
    jvp=linear(0),
    transpose=pullback(flat_transpose),
    cpu=Tilewise("gathering.FLAT"),
    samples=index_samples(lambda x, i: ((x, sample_indices((2, 3), x.size, i)), {})),
    abstract=_gather_flat_aval,
    valid=lambda x, index: index,
    taint=lambda taints, arrays, params: _indexed_taint(lambda x, index: picked(np.ravel(x), index), taints, arrays, params),
    faults=lambda x, index: outside(1, outside_mask(index, x.size), x.size, "{first}, flattened"),
    index=(1,),
    accepts=GATHERED,
    pto=Native("pto.tgather"),
    unit="vector",
)
def gather_flat(x: Any, index: Any) -> Any:
    """Pick elements by row-major position: out[i, j] = x.flat[index[i, j]], counted over the physical columns of x.

    Dtypes, numerics and errors as `gather_along`.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.gather_flat(np.int32([[1, 2], [3, 4]]), np.int32([[3, 0]]))
    Array([[4, 1]], dtype=INT32)
    """
    return picked(np.ravel(x), index)


# ---- by comparison -----------------------------------------------------------------------------------------------


def _compare_aval(x: Aval, k: Aval, *, mode: int, offset: int, out_cols: int, count_dtype: DType) -> tuple[Aval, ...]:
    check_accepts("gather", GATHERED, [x])
    if x.rank != 2:
        raise ShapeError("PL301", f"gather by comparison: {x} has {x.rank} axes", fix="a tile of two axes")
    if k.dtype is not x.dtype or k.shape != ():
        raise ShapeError("PL302", f"gather: kvalue is {k}, the data {x.dtype}", fix=f"pl.cast(kvalue, pl.{x.dtype.name})")
    if count_dtype not in (dtypes.INT32, dtypes.UINT32):
        raise ShapeError("PL305", f"gather: count_dtype {count_dtype.name}", fix="pl.INT32 or pl.UINT32")
    if not 0 <= mode < 6 or out_cols < 1:
        raise ShapeError("PL308", f"gather: cmp_mode {mode}, out_cols {out_cols}", fix="a comparison 0..5 and a positive number of columns")
    rows, valid = x.static_shape[0], valid_of(x)
    some = None if valid is None else _compare_valid(valid, out_cols=out_cols)
    found = result_aval("gather", [x], (rows, out_cols), dtypes.INT32, None if some is None else some[0])
    return found, result_aval("gather", [x], (1, rows), count_dtype, None if some is None else some[1])


def _compare_valid(x: Valid, k: Any = (), *, out_cols: int, **_: Any) -> tuple[Valid, Valid]:
    return (x[0], out_cols), (1, x[0])


def _compare_taint(taints: Sequence[Any], arrays: Sequence[np.ndarray], params: dict[str, Any]) -> tuple[Any, Any]:
    """Nothing is written past the matches of a row; a row with an unseen element has unseen results."""
    _, counts = gather_compare.meaning(*arrays, **params)
    tail = np.arange(params["out_cols"]) >= counts[0][:, None]
    rows = np.zeros(len(arrays[0]), np.bool_) if taints[0] is None else taints[0].any(axis=1)
    if taints[1] is not None:
        rows = rows | bool(taints[1])
    return tail | rows[:, None], rows[None, :]


def _compare_samples() -> list[Sample]:
    return [
        ((x, np.ravel(x)[0]), {"mode": m, "offset": 0, "out_cols": 4, "count_dtype": dtypes.INT32})
        for d in sorted(GATHERED, key=lambda d: d.name)
        for i, s in enumerate(SHAPES)
        for m in (0, 4)
        for x in (sample_values(d, s, seed=i),)
    ]


@computed(
    jvp=No("columns and counts are integers"),
    cpu=Tilewise("gathering.COMPARE", uses=tuple(c.name for c in COMPARISONS)),
    samples=_compare_samples,
    abstract=_compare_aval,
    axes=Whole(),
    exact=Exact("comparison"),
    valid=_compare_valid,
    crops=True,
    taint=_compare_taint,
    accepts=GATHERED,
    pto=Native("pto.tgather"),
)
def gather_compare(x: Any, k: Any, *, mode: int, offset: int, out_cols: int, count_dtype: DType) -> Any:
    """Per row, the columns whose element compares true with a number, and how many there are.

    Args:
      x: FP16, FP32, INT16 or INT32 [rows, cols]; of a partly valid tile only the valid region takes part.
      k: a scalar of x's dtype.
      mode: 0..5 for eq, ne, lt, le, gt, ge; a NaN is only `ne`.
      offset: added to every index found.
      out_cols: columns of the result; later matches of a row are counted, not listed.
    Returns:
      INT32 [rows, out_cols], in ascending order, and `count_dtype` [1, rows]. What lies past a row's matches nobody has written.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.gather_compare(np.int32([[5, 1, 7]]), np.int32(4), mode=4, offset=0, out_cols=2, count_dtype="INT32")
    (Array([[0, 2]], dtype=INT32), Array([[2]], dtype=INT32))
    """
    hit = np.asarray(COMPARISONS[mode].meaning(x, np.broadcast_to(k, x.shape)))
    counts = hit.sum(axis=1)
    found = np.zeros((len(x), out_cols), np.int32)
    rows, columns = np.nonzero(hit)
    rank = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    listed = rank < out_cols
    found[rows[listed], rank[listed]] = columns[listed] + offset
    return found, counts[None, :].astype(count_dtype.storage)


# ---- by blocks of 32 bytes ---------------------------------------------------------------------------------------

_BLOCKED = frozenset(
    {dtypes.INT8, dtypes.UINT8, dtypes.INT16, dtypes.UINT16, dtypes.INT32, dtypes.UINT32, dtypes.FP16, dtypes.BF16, dtypes.FP32}
)


def _gatherb_aval(x: Aval, offset: Aval, *, dtype: DType) -> Aval:
    check_accepts("gatherb", _BLOCKED, [x])
    if dtype not in _BLOCKED:
        raise ShapeError("PL305", f"gatherb: output_dtype {dtype.name}", fix=f"one of {', '.join(sorted(d.name for d in _BLOCKED))}")
    if offset.dtype is not dtypes.UINT32 or offset.rank < 1:
        raise ShapeError("PL305", f"gatherb: the offsets are {offset}", fix="UINT32 byte offsets, multiples of 32")
    wide = BYTES // dtype.itemsize
    valid = valid_of(offset)
    if valid is not None:
        valid = _gatherb_valid((), valid, dtype=dtype)
    return result_aval("gatherb", [x, offset], (*offset.shape[:-1], offset.static_shape[-1] * wide), dtype, valid)


def _gatherb_valid(x: Any, offset: Valid, *, dtype: DType) -> Valid:
    return (*offset[:-1], None if offset[-1] is None else offset[-1] * (BYTES // dtype.itemsize))


def _gatherb_faults(x: np.ndarray, offset: np.ndarray, *, dtype: DType) -> Fault:
    wide = offset.astype(np.int64)
    blocks = x.nbytes // BYTES
    return outside(1, (wide % BYTES != 0) | (wide // BYTES >= blocks), x.nbytes, "{first} in bytes, in whole blocks of 32")


def _blocks(raw: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """The blocks of a flat array of bytes that the offsets name, side by side; zero where there is none."""
    places = offset.astype(np.int64)[..., None] // BYTES * BYTES + np.arange(BYTES)
    return picked(raw, np.where(places // BYTES < raw.size // BYTES, places, -1)).reshape(*offset.shape[:-1], -1)


def _gatherb_taint(taints: Sequence[Any], arrays: Sequence[np.ndarray], params: dict[str, Any]) -> Any:
    """An element is as good as the worst of its bytes, and as its offset."""
    x, size = arrays[0], params["dtype"].itemsize
    shadow = np.zeros(x.shape, np.bool_) if taints[0] is None else taints[0]
    found = _blocks(np.repeat(np.ravel(shadow), x.dtype.itemsize), arrays[1])
    found = found.reshape(*found.shape[:-1], -1, size).any(axis=-1)
    return found if taints[1] is None else found | np.repeat(taints[1], BYTES // size, axis=-1)


def _gatherb_samples() -> list[Sample]:
    offsets = np.array([[32, 0, 32]], np.uint32)
    return [((sample_values(d, (4, 32), seed=1), offsets), {"dtype": d}) for d in sorted(_BLOCKED, key=lambda d: d.name)]


@movement(
    jvp=No("bytes of one dtype read as another have no derivative; gather_flat has one"),
    cpu=Tilewise("gathering.BLOCKS"),
    samples=_gatherb_samples,
    abstract=_gatherb_aval,
    valid=_gatherb_valid,
    taint=_gatherb_taint,
    faults=_gatherb_faults,
    index=(1,),
    accepts=_BLOCKED,
    pto=Native("pto.tgatherb"),
    unit="vector",
)
def gatherb(x: Any, offset: Any, *, dtype: DType) -> Any:
    """Fetch blocks of 32 bytes: each offset becomes 32 / itemsize neighbouring elements of the result.

    Args:
      x: 8, 16 or 32-bit numbers, seen as bytes in row-major order over its physical shape.
      offset: UINT32, in bytes, multiples of 32.
      dtype: how the bytes of the result are read.
    Errors:
      PL303 in checked runs for an offset past the end or inside a block; without checks it gives zeros, or the block around it.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.gatherb(np.arange(16, dtype=np.int32).reshape(2, 8), np.uint32([[32]]), dtype="INT32")
    Array([[ 8,  9, 10, 11, 12, 13, 14, 15]], dtype=INT32)
    """
    raw = np.frombuffer(np.ascontiguousarray(x).tobytes(), np.uint8)
    return _blocks(raw, offset).view(dtype.storage)
