"""Gathers and scatters of kernels at computed places, as functions of whole arrays: what is differentiated in their stead.

An index outside reads as 0 and is dropped where it writes, as in a run without checks.
"""

from __future__ import annotations

import math
from typing import Any

from pypto import dtypes
from pypto.core.array import Array
from pypto.core.op import OPS
from pypto.core.trace import aval_of
from pypto.interpreters.batching import reshaped
from pypto.lax.subscripts import At


def _numbers(count: int) -> Any:
    return Array(range(count), dtypes.INT32)


def _inside(index: Any, extent: int) -> Any:
    """An index; what lies outside becomes the extent, which is outside as well but not counted from the end."""
    outside = OPS["or"](OPS["lt"](index, 0), OPS["ge"](index, extent))
    return OPS["select"](outside, Array(extent, aval_of(index).dtype), index)


def _policy(index: Any, extent: int, policy: str) -> Any:
    if policy == "clamp":
        return OPS["clamp"](0, index, extent - 1)
    if policy == "wrap" and extent:
        return index % Array(extent, dtypes.INT32)
    return _inside(index, extent)


def _rows(index: Any, width: int) -> Any:
    """Positions of whole rows of this width, [rows, width]."""
    count = math.prod(aval_of(index).static_shape)
    return reshaped(index, (count, 1)) * Array(width, aval_of(index).dtype) + _numbers(width).astype(aval_of(index).dtype)


def _flat(mem: Any) -> Any:
    return reshaped(mem, (math.prod(aval_of(mem).static_shape),))


def _read(mem: Any, places: Any) -> Any:
    return At(_flat(mem))[places].get(mode="fill", fill_value=0)


def _written(mem: Any, places: Any, source: Any) -> Any:
    made = At(_flat(mem))[places].set(reshaped(source, aval_of(places).static_shape), mode="drop")
    return reshaped(made, aval_of(mem).static_shape)


def mgather(mem: Any, index: Any, *, coalesce: str, gather_oob: str, space: Any) -> Any:
    """Rows or elements of a buffer."""
    shape = aval_of(mem).static_shape
    if coalesce == "elem":
        return _read(mem, _policy(index, math.prod(shape), gather_oob))
    return _read(mem, _rows(_policy(index, math.prod(shape[:-1]), gather_oob), shape[-1]))


def mscatter(mem: Any, source: Any, index: Any) -> Any:
    """A buffer with elements replaced; of several for one place the last stays."""
    return _written(mem, _inside(index, math.prod(aval_of(mem).static_shape)), source)


def scatter_update(mem: Any, source: Any, index: Any) -> Any:
    """A buffer with rows replaced; of several for one row the last stays."""
    shape = aval_of(mem).static_shape
    return _written(mem, _rows(_inside(index, math.prod(shape[:-1])), shape[-1]), source)


def paged_gather(
    mem: Any, index: Any, table: Any, *, block_size: int, size: int, rows: int, column: int, trans: bool, level: str, space: Any
) -> Any:
    """Rows of a paged pool, as many as there are indices."""
    count, width = aval_of(mem).static_shape
    block = Array(block_size, dtypes.INT32)
    own, pages = _flat(index), math.prod(aval_of(table).static_shape)
    page = At(_flat(table))[_inside(own // block, pages)].get(mode="fill", fill_value=-1)
    row = OPS["select"](OPS["lt"](page, 0), Array(count, dtypes.INT32), page * block + own % block)
    places = reshaped(_inside(row, count), (math.prod(aval_of(own).static_shape), 1)) * Array(width, dtypes.INT32) + Array(
        column, dtypes.INT32
    )
    made = _read(mem, places + _numbers(size))
    return OPS["transpose"](made, permutation=(1, 0)) if trans else made
