"""Gather from and scatter to buffers at computed places, and atomic updates. These ops exist in kernels only.

What such an op reads or writes is given by its `addresses`: row-major positions in the buffer, one per element, -1 for none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pypto import dtypes
from pypto.core.avals import TILE, Aval, RefAval, TileAval, Valid
from pypto.core.op import Fault, Native, No, outside
from pypto.errors import ShapeError
from pypto.interpreters.cpu.rules import Tilewise
from pypto.lax import addressed_values
from pypto.lax.families import check_accepts
from pypto.lax.gathering import GATHERED, outside_mask, valid_of
from pypto.lax.memory import set_, structural, window_text
from pypto.lax.scattering import SCATTERED, check_rows, row_positions, rows_outside

# ---- mgather -----------------------------------------------------------------------------------------------------

COALESCE = ("row", "elem")
POLICIES = ("undefined", "clamp", "wrap", "zero")
_LOADED = frozenset(
    {dtypes.INT8, dtypes.UINT8, dtypes.INT16, dtypes.UINT16, dtypes.INT32, dtypes.UINT32, dtypes.FP16, dtypes.BF16, dtypes.FP32}
    | {dtypes.FP8E4M3FN, dtypes.FP8E5M2, dtypes.HF8}
)


def _mgather_aval(mem: Aval, index: Aval, *, coalesce: str, gather_oob: str, space: Any) -> Aval:
    assert isinstance(mem, RefAval)
    check_accepts("mgather", _LOADED, [mem])
    if coalesce not in COALESCE or gather_oob not in POLICIES:
        raise ShapeError("PL308", f"mgather: coalesce={coalesce!r}, gather_oob={gather_oob!r}", fix=f"{COALESCE}; {POLICIES}")
    if index.dtype is not dtypes.INT32 or index.rank != 2:
        raise ShapeError("PL305", f"mgather: the index is {index}", fix="an INT32 index of two axes")
    known = valid_of(index)
    if coalesce == "elem":
        return TileAval(index.shape, mem.dtype, TILE, space, known)
    if mem.rank < 2 or 1 not in index.shape:
        raise ShapeError("PL301", f"mgather of rows: {mem} at {index}", fix="a memory of at least two axes, an index [1, r] or [r, 1]")
    width = mem.shape[-1]
    if not isinstance(width, int):
        raise ShapeError("PL304", f"mgather: a row of {mem} has a run-time width", fix="a constant last axis")
    shape = (math.prod(index.static_shape), width)
    valid = None if known is None else _rows_of(index.static_shape, known, width)
    return TileAval(shape, mem.dtype, TILE, space, None if valid == shape else valid)


def _rows_of(shape: tuple[int, ...], valid: Valid, width: int) -> Valid:
    """The valid region of gathered rows, for an index [1, r] or [r, 1]."""
    other = valid[0] if shape[0] == 1 else valid[1]
    rows = valid[1] if shape[0] == 1 else valid[0]
    return (None if other is None else rows if other else 0, width)


def _mgather_valid(mem: Any, index: Valid, *, coalesce: str, old: tuple[int, ...], **_: Any) -> Valid:
    return index if coalesce == "elem" else (math.prod(n or 0 for n in index), old[-1])


def _policy(index: np.ndarray, extent: int, policy: str) -> np.ndarray:
    """An index under an out-of-range policy, as Python counts: -1 is outside, wraps to the last and clamps to the first."""
    wide = index.astype(np.int64)
    if policy == "clamp":
        return np.clip(wide, 0, extent - 1)
    if policy == "wrap" and extent:
        return wide % extent
    return np.where(outside_mask(wide, extent), -1, wide)


def _mgather_places(mem: np.ndarray, index: np.ndarray, *, coalesce: str, gather_oob: str, **_: Any) -> np.ndarray:
    if coalesce == "elem":
        return _policy(index, mem.size, gather_oob)
    return row_positions(mem.shape, _policy(index, math.prod(mem.shape[:-1]), gather_oob))


def _mgather_faults(mem: np.ndarray, index: np.ndarray, *, coalesce: str, gather_oob: str, **_: Any) -> Fault | None:
    if gather_oob != "undefined":
        return None
    if coalesce == "row":
        return rows_outside(1, mem.shape, index)
    return outside(1, outside_mask(index, mem.size), mem.size, "{first}, flattened")


@structural(
    cpu=Tilewise("addressed.MGATHER"),
    unit="move",
    refs=(0,),
    abstract=_mgather_aval,
    addresses=_mgather_places,
    faults=_mgather_faults,
    valid=_mgather_valid,
    reads=(0,),
    index=(1,),
    accepts=_LOADED,
    pto=Native("pto.mgather"),
    by_values=addressed_values.mgather,
)
def mgather(mem: Any, index: Any, *, coalesce: str, gather_oob: str, space: Any) -> Any:
    """Load rows, or single elements, of a buffer at the places an index tile names.

    Args:
      mem: a buffer of 8, 16 or 32-bit elements. Its rows run along the last axis; all other axes count rows.
      index: INT32; [1, r] or [r, 1] for rows, any two axes for elements. It gives the result its valid region.
      coalesce: `row`: out[i, :] = mem[index[i], :]; `elem`: out[i, j] = mem.flat[index[i, j]].
      gather_oob: an index outside the memory: `undefined` is an error in checked runs and reads as 0 otherwise; `clamp` takes the
        nearest one (a negative index: the first); `wrap` counts modulo the extent, as Python does; `zero` reads as 0.
    Errors:
      PL303 for `undefined` in checked runs; PL301, PL304, PL305, PL308.
    """


# ---- mscatter and scatter_update ---------------------------------------------------------------------------------


def _mscatter_aval(mem: Aval, source: Aval, index: Aval) -> tuple[Aval, ...]:
    check_accepts("mscatter", GATHERED, [mem])
    if source.dtype is not mem.dtype:
        raise ShapeError("PL302", f"mscatter: {source} does not go into {mem}", fix=f"pl.cast(src, pl.{mem.dtype.name})")
    if index.dtype is not dtypes.INT32:
        raise ShapeError("PL305", f"mscatter: the index is {index}", fix="an INT32 index")
    if index.shape != source.shape:
        raise ShapeError("PL301", f"mscatter: an index {index} for a source {source}", fix="one index per element: the same shape")
    return ()


def _mscatter_places(mem: np.ndarray, source: np.ndarray, index: np.ndarray) -> np.ndarray:
    if index.shape != source.shape:
        raise ShapeError("PL301", "mscatter: the valid regions of index and source differ", fix="pl.set_validshape on one of them")
    return np.where(outside_mask(index, mem.size), -1, index.astype(np.int64))


@structural(
    cpu=Tilewise("addressed.MSCATTER"),
    unit="move",
    refs=(0,),
    abstract=_mscatter_aval,
    addresses=_mscatter_places,
    faults=lambda mem, source, index: outside(2, outside_mask(index, mem.size), mem.size, "{first}, flattened"),
    crops=(1, 2),
    writes=(0,),
    index=(2,),
    accepts=GATHERED,
    pto=Native("pto.mscatter"),
    by_values=addressed_values.mscatter,
)
def mscatter(mem: Any, source: Any, index: Any) -> Any:
    """Store the elements of a tile at the places an index tile names: mem.flat[index[i, j]] = source[i, j].

    Only the valid region is stored, in row-major order: of several elements for one place the last stays. (The chip defines no order.)

    Args:
      mem: a buffer of FP16, FP32, INT16 or INT32.
      source: a tile of its dtype.
      index: INT32, the shape of the source.
    Errors:
      PL303 for an index outside the buffer, in checked runs; without checks the element is dropped. PL301, PL302, PL305.
    """


def _update_aval(mem: Aval, source: Aval, index: Aval) -> tuple[Aval, ...]:
    check_rows("scatter_update", mem, source, index)
    for a in (source, index):
        if valid_of(a) is not None:
            raise ShapeError("PL301", f"scatter_update: {a} is partly valid", fix="slice the valid rows, or fill the rest with pl.fillpad")
    return ()


@structural(
    cpu=Tilewise("addressed.SCATTER_UPDATE"),
    unit="move",
    refs=(0,),
    abstract=_update_aval,
    addresses=lambda mem, source, index: row_positions(mem.shape, index),
    faults=lambda mem, source, index: rows_outside(2, mem.shape, index),
    writes=(0,),
    index=(2,),
    accepts=SCATTERED,
    pto=No("it is emitted as a loop of row moves"),
    by_values=addressed_values.scatter_update,
)
def scatter_update(mem: Any, source: Any, index: Any) -> Any:
    """Store whole rows: row index[i, j] of a buffer becomes row i*s + j of the source, in that order.

    Args:
      mem: [rows, d], or paged, [blocks, size, 1, d] with blocks * size rows.
      source: [b*s, d], or [b, s, 1, d]; the dtype of the buffer.
      index: an integer tile [b, s].
    Errors:
      PL303 for a row that does not exist, in checked runs; without checks the row is dropped. PL301, PL302, PL305.
    """


# ---- paged_gather ------------------------------------------------------------------------------------------------

_PAGED = frozenset({dtypes.FP16, dtypes.BF16, dtypes.FP32, dtypes.INT8})


def _paged_aval(mem: Aval, index: Aval, table: Aval, *, block_size: int, size: int, rows: int, column: int, trans: bool, **o: Any) -> Aval:
    check_accepts("paged_gather", _PAGED, [mem])
    if index.dtype is not dtypes.INT32 or table.dtype is not dtypes.INT32:
        raise ShapeError("PL305", f"paged_gather: indices {index}, block table {table}", fix="both INT32")
    count = math.prod(index.static_shape)
    if mem.rank != 2 or (index.rank > 1 and math.prod(index.static_shape[:-1]) != 1) or count > rows:
        raise ShapeError(
            "PL301", f"paged_gather: rows of {mem} at {index}, at most {rows}", fix="a pool of two axes, indices [n] or [1, n]"
        )
    width = mem.shape[1]
    if block_size < 1 or size < 1 or column < 0 or (isinstance(width, int) and column + size > width):
        raise ShapeError(
            "PL303", f"paged_gather: columns {column}:{column + size} of {mem}, blocks of {block_size}", fix="a window inside the columns"
        )
    shape = (size, rows) if trans else (rows, size)
    known = valid_of(index)
    used = count if known is None else known[-1]
    valid = (size, used) if trans else (used, size)
    return TileAval(shape, mem.dtype, o["level"], o["space"], None if valid == shape else valid)


def _paged_valid(mem: Any, index: Valid, table: Any, *, size: int, trans: bool, **_: Any) -> Valid:
    used = math.prod(n or 0 for n in index)
    return (size, used) if trans else (used, size)


def _block_outside(mem: np.ndarray, index: np.ndarray, table: np.ndarray, *, block_size: int, **_: Any) -> Fault | None:
    found = outside(
        1, outside_mask(index.astype(np.int64) // block_size, table.size), table.size * block_size, "the pages of the block table"
    )
    if np.any(found.mask):
        return found
    row = _paged_rows(index, table, block_size)
    return outside(1, outside_mask(row, len(mem)), len(mem), "the rows of {first}, after the block table")


def _paged_rows(index: np.ndarray, table: np.ndarray, block_size: int) -> np.ndarray:
    """The physical rows of logical ones; -1 where a page does not exist."""
    wide = index.astype(np.int64)
    page = wide // block_size
    known = ~outside_mask(page, table.size)
    block = np.where(known, np.ravel(table).astype(np.int64)[np.where(known, page, 0)] if table.size else -1, -1)
    return np.where(known & (block >= 0), block * block_size + wide % block_size, -1)


def _paged_places(
    mem: np.ndarray, index: np.ndarray, table: np.ndarray, *, block_size: int, size: int, rows: int, column: int, trans: bool, **_: Any
) -> np.ndarray:
    row = np.ravel(_paged_rows(index, table, block_size))
    row = np.where(outside_mask(row, len(mem)), -1, row)[:, None]
    places = np.full((rows, size), -1, np.int64)
    places[: len(row)] = np.where(row < 0, -1, row * mem.shape[1] + column + np.arange(size))
    return places.T if trans else places


@structural(
    cpu=Tilewise("addressed.PAGED"),
    unit="move",
    refs=(0,),
    abstract=_paged_aval,
    addresses=_paged_places,
    faults=_block_outside,
    valid=_paged_valid,
    crops=(1,),
    reads=(0,),
    index=(1, 2),
    accepts=_PAGED,
    pto=No("it is emitted as a loop of row loads"),
    by_values=addressed_values.paged_gather,
)
def paged_gather(
    mem: Any, index: Any, table: Any, *, block_size: int, size: int, rows: int, column: int, trans: bool, level: str, space: Any
) -> Any:
    """Load rows of a paged pool: row table[i // block_size] * block_size + i % block_size for each logical row i.

    Args:
      mem: the pool, FP16, BF16, FP32 or INT8 [rows, columns].
      index: INT32 [n] or [1, n], logical rows.
      table: INT32, the physical page of each logical one.
      size, column: how many elements of a row, from which column.
      rows: rows of the result; those past n nobody has written, and they are not valid.
      trans: rows become columns.
    Errors:
      PL303 for a row or page that does not exist, in checked runs; without checks it reads as 0. PL301, PL305.
    """


# ---- atomic updates ----------------------------------------------------------------------------------------------


def _accumulate_aval(
    target: Aval, value: Aval, *offsets: Aval, sizes: tuple[int, ...], drop: tuple[int, ...], combine: str
) -> tuple[Aval, ...]:
    check_accepts(f"an atomic {combine}", SCATTERED, [target])
    return set_.abstract(target, value, *offsets, sizes=sizes, drop=drop)


def _show_accumulate(e: Any, name: Callable[[Any], str]) -> str:
    target, value, *starts = e.ins
    window = window_text(target, starts, list(map(str, e.params["sizes"])), e.params["drop"], name)
    return f"atomic {e.params['combine']} {window} <- {name(value)}"


@structural(
    abstract=_accumulate_aval,
    show=_show_accumulate,
    refs=(0,),
    reads=(0,),
    writes=(0,),
    index=tuple(range(2, 18)),
    unit="move",
    accepts=SCATTERED,
    on={"a2a3": SCATTERED, "a5": SCATTERED - {dtypes.BF16}},
    pto=Native("pto.tstore"),
)
def accumulate(target: Any, value: Any, *offsets: Any, sizes: tuple[int, ...], drop: tuple[int, ...] = (), combine: str) -> Any:
    """Update a window of a buffer in one step no other block can see the middle of: add to it, or keep the larger or smaller.

    Only the valid region of the value takes part. Blocks update in ascending order, so that sums repeat from run to run.

    Args:
      target: a buffer of FP32, FP16, BF16, INT32, INT16 or INT8. On a5, not BF16.
      value: of the dtype of the buffer.
      combine: add, max or min.
    Numerics:
      Each update rounds once, to the dtype of the buffer; max and min as `lax.maximum` and `lax.minimum`; integers wrap.
    Errors:
      PL306 in checked runs when an element of the window was never written; PL302, PL305.
    """
