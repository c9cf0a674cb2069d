"""How cotangents go through the gathers and scatters of tiles: by row-major positions, as these ops find their elements."""

from __future__ import annotations

import math
from typing import Any

from pypto import dtypes
from pypto.core.avals import ArrayAval
from pypto.core.op import OPS
from pypto.core.trace import aval_of
from pypto.interpreters.tangents import Undefined, zeros
from pypto.lax.families import literal
from pypto.lax.numbering import GatherDimensionNumbers, ScatterDimensionNumbers

_PLACES = ScatterDimensionNumbers((), (0,), (0,))
_ELEMENTS = GatherDimensionNumbers((), (0,), (0,))


def _index(x: Any) -> Any:
    return x if aval_of(x).dtype is dtypes.INT32 else OPS["convert"](x, dtype=dtypes.INT32, mode="trunc", overflow="saturate")


def _inside(index: Any, extent: int, place: Any) -> Any:
    """Positions, and -1 where the index they come from lies outside."""
    outside = OPS["logical_or"](OPS["lt"](index, 0), OPS["ge"](index, extent))
    return OPS["select"](outside, literal(-1, dtypes.INT32), place)


def _along(shape: tuple[int, ...], index: Any, axis: int) -> Any:
    """Row-major positions of x[.., index[i], ..]."""
    index = _index(index)
    own = aval_of(index).static_shape
    total: Any = None
    for i, n in enumerate(own):
        stride = math.prod(shape[i + 1 :])
        if i == axis:
            part = index
        else:
            line = OPS["ramp"](literal(0, dtypes.INT32), shape=(n,), dtype=dtypes.INT32)
            part = OPS["reshape"](line, shape=tuple(n if j == i else 1 for j in range(len(own))))
        part = part * stride
        total = part if total is None else total + part
    return _inside(index, shape[axis], total)


def _added_at(shape: tuple[int, ...], places: Any, ct: Any) -> Any:
    """Zeros of a shape, with a cotangent added at these positions."""
    count, size = math.prod(aval_of(ct).static_shape), math.prod(shape)
    flat = zeros(ArrayAval((size,), ct.dtype))
    at = OPS["reshape"](places, shape=(count, 1))
    made = OPS["scatter_add"](flat, at, OPS["reshape"](ct, shape=(count,)), dimension_numbers=_PLACES, mode="fill")
    return OPS["reshape"](made, shape=shape)


def along_transpose(ct: Any, x: Any, index: Any, *, axis: int) -> Any:
    return _added_at(x.shape, _along(x.shape, index, axis), ct)


def flat_transpose(ct: Any, x: Any, index: Any) -> Any:
    at = _index(index)
    return _added_at(x.shape, _inside(at, math.prod(x.shape), at), ct)


def _replaced(ct: Any, x: Any, source: Any, places: Any) -> tuple[Any, Any]:
    """Cotangents of an array and of the elements put into it, of which the last one at each place stays."""
    count, shape = math.prod(aval_of(places).static_shape), aval_of(ct).static_shape
    size = math.prod(shape)
    at, flat = OPS["reshape"](places, shape=(count, 1)), OPS["reshape"](ct, shape=(size,))
    put = {"dimension_numbers": _PLACES, "mode": "fill"}
    rest = None
    if isinstance(x, Undefined):
        rest = OPS["reshape"](OPS["scatter"](flat, at, zeros(ArrayAval((count,), ct.dtype)), **put), shape=shape)
    if not isinstance(source, Undefined):
        return rest, None
    number = OPS["ramp"](literal(0, dtypes.INT32), shape=(count,), dtype=dtypes.INT32)
    none = OPS["fill"](literal(-1, dtypes.INT32), shape=(size,), dtype=dtypes.INT32)
    take = {"dimension_numbers": _ELEMENTS, "slice_sizes": (1,), "mode": "fill"}
    last = OPS["eq"](OPS["gather"](OPS["scatter"](none, at, number, **put), at, **take, fill_value=-2), number)
    arriving = OPS["select"](last, OPS["gather"](flat, at, **take, fill_value=0), literal(0, ct.dtype))
    return rest, OPS["reshape"](arriving, shape=source.shape)


def scatter_along_transpose(ct: Any, x: Any, index: Any, source: Any, *, axis: int) -> tuple[Any, Any, Any]:
    rest, own = _replaced(ct, x, source, _along(aval_of(ct).static_shape, index, axis))
    return rest, None, own


def scatter_flat_transpose(ct: Any, x: Any, source: Any, index: Any) -> tuple[Any, Any]:
    at = _index(index)
    return _replaced(ct, x, source, _inside(at, math.prod(aval_of(ct).static_shape), at))


def scatter_rows_transpose(ct: Any, x: Any, source: Any, index: Any) -> tuple[Any, Any]:
    shape = aval_of(ct).static_shape
    width, rows = shape[-1], math.prod(shape[:-1])
    row = OPS["reshape"](_index(index), shape=(math.prod(aval_of(index).static_shape), 1))
    column = OPS["reshape"](OPS["ramp"](literal(0, dtypes.INT32), shape=(width,), dtype=dtypes.INT32), shape=(1, width))
    return _replaced(ct, x, source, _inside(row, rows, row * width + column))
