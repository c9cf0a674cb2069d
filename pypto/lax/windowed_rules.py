"""How tangents, cotangents and examples go through `gather` and the scatters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pypto import dtypes
from pypto.core.avals import ArrayAval, Aval
from pypto.core.op import OPS, No, Op
from pypto.core.trace import aval_of
from pypto.interpreters.batching import Batched, repeated
from pypto.interpreters.rules import Pair, by_operand, linear, pullback
from pypto.interpreters.tangents import Undefined, Zero, added, apply, zeros
from pypto.lax.families import literal
from pypto.lax.numbering import GatherDimensionNumbers, ScatterDimensionNumbers

Axes = tuple[int, ...]


def _later(axes: Axes) -> Axes:
    return tuple(a + 1 for a in axes)


# ---- gather ------------------------------------------------------------------------------------------------------


def gather_jvp(op: Op, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Pair:
    """A gather of the tangents; outside the array the tangent is zero, whatever is read there."""
    options = {**params, "fill_value": 0} if params["mode"] == "fill" else params
    return apply(op, primals, params), apply(op, [tangents[0], primals[1]], options)


def gather_transpose(ct: Any, x: Any, indices: Any, *, dimension_numbers: GatherDimensionNumbers, mode: str, **_: Any) -> Any:
    """What was read several times gets the sum, in row-major order of the indices."""
    dn = dimension_numbers
    places = ScatterDimensionNumbers(
        dn.offset_dims, dn.collapsed_slice_dims, dn.start_index_map, dn.operand_batching_dims, dn.start_indices_batching_dims
    )
    how = "fill" if mode == "fill" else "clip"
    return OPS["scatter_add"](zeros(x.aval), indices, ct, dimension_numbers=places, mode=how)


def gather_batching(op: Op, size: int, operands: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Batched:
    dn, sizes = params["dimension_numbers"], params["slice_sizes"]
    own, places = batched
    offset = _later(dn.offset_dims)
    along, together = dn.operand_batching_dims, dn.start_indices_batching_dims
    if own:
        dn = replace(dn, collapsed_slice_dims=_later(dn.collapsed_slice_dims), start_index_map=_later(dn.start_index_map))
        along = _later(along)
    if own and places:
        sizes, along, together = (1, *sizes), (0, *along), (0, *_later(together))
    elif own:
        sizes, offset = (size, *sizes), (0, *offset)
    else:
        together = _later(together)
    dn = replace(dn, offset_dims=offset, operand_batching_dims=along, start_indices_batching_dims=together)
    return apply(op, operands, {**params, "dimension_numbers": dn, "slice_sizes": sizes}), [True]


# ---- scatters ----------------------------------------------------------------------------------------------------


def scatter_batching(op: Op, size: int, operands: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Batched:
    x, indices, updates = operands
    x, updates = (v if b else repeated(v, size) for v, b in ((x, batched[0]), (updates, batched[2])))
    dn = params["dimension_numbers"]
    window, along, together = _later(dn.update_window_dims), _later(dn.operand_batching_dims), dn.scatter_indices_batching_dims
    if batched[1]:
        along, together = (0, *along), (0, *_later(together))
    else:
        window = (0, *window)
    dn = ScatterDimensionNumbers(window, _later(dn.inserted_window_dims), _later(dn.scatter_dims_to_operand_dims), along, together)
    return apply(op, [x, indices, updates], {**params, "dimension_numbers": dn}), [True]


def _read(x: Any, indices: Any, updates: Aval, *, dimension_numbers: ScatterDimensionNumbers, mode: str, fill: Any = 0) -> Any:
    """The windows of an array that updates go to; `fill` for those that are dropped."""
    dn, rank = dimension_numbers.as_gather, aval_of(x).rank
    kept = dn.window_axes(rank)
    extents = iter(updates.static_shape[a] for a in dn.offset_dims)
    sizes = tuple(next(extents) if d in kept else 1 for d in range(rank))
    how = "clip" if mode == "clip" else "fill"
    return OPS["gather"](x, indices, dimension_numbers=dn, slice_sizes=sizes, mode=how, fill_value=fill)


def _last(x: Aval, indices: Any, updates: Aval, params: dict[str, Any]) -> Any:
    """Which updates are the last ones of their places: the others leave no trace."""
    count = math.prod(updates.static_shape)
    number = OPS["ramp"](literal(0, dtypes.INT32), shape=(count,), dtype=dtypes.INT32)
    own = OPS["reshape"](number, shape=updates.static_shape)
    none = OPS["fill"](literal(-1, dtypes.INT32), shape=x.static_shape, dtype=dtypes.INT32)
    placed = OPS["scatter"](none, indices, own, **params)
    return OPS["eq"](_read(placed, indices, updates, **params, fill=-2), own)


def _replace_transpose(ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> tuple[Any, ...]:
    u = updates.aval if isinstance(updates, Undefined) else aval_of(updates)
    rest = OPS["scatter"](ct, indices, zeros(ArrayAval(u.shape, ct.dtype)), **params) if isinstance(x, Undefined) else None
    if not isinstance(updates, Undefined):
        return rest, None, None
    arriving = _read(ct, indices, u, **params)
    return rest, None, OPS["select"](_last(aval_of(ct), indices, u, params), arriving, literal(0, ct.dtype))


def _add_transpose(ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> tuple[Any, ...]:
    return ct, None, _read(ct, indices, updates.aval, **params) if isinstance(updates, Undefined) else None


def _sub_transpose(ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> tuple[Any, ...]:
    own = _add_transpose(ct, x, indices, updates, **params)[2]
    return ct, None, None if own is None else -own


def _extreme_jvp(op: Op, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Pair:
    """The tangents of what is the extreme at its place, in equal parts; they are counted in FP32, whatever the dtype."""
    x, indices, updates = primals
    (y,) = apply(op, primals, params)
    u, dtype = aval_of(updates), aval_of(y).dtype
    there = OPS["convert"](OPS["eq"](x, y), dtype=dtypes.FP32)
    arriving = OPS["convert"](OPS["eq"](updates, _read(y, indices, u, **params, fill=float("nan"))), dtype=dtypes.FP32)
    count = OPS["scatter_add"](there, indices, arriving, **params)
    total: Any = Zero(aval_of(y))
    if not isinstance(tangents[0], Zero):
        total = tangents[0] * OPS["convert"](there / count, dtype=dtype)
    if not isinstance(tangents[2], Zero):
        part = tangents[2] * OPS["convert"](arriving / _read(count, indices, u, **params, fill=1), dtype=dtype)
        total = added(total, OPS["scatter_add"](zeros(aval_of(y)), indices, part, **params))
    return [y], [total]


_NO_INDEX = No("positions are integers")
_NO_FACTOR = No("its derivative in the updates needs the product of all others at each place; take logarithms and use scatter_add")


def scatter_rules(name: str) -> dict[str, Any]:
    """The derivative slots of a scatter."""
    if name == "scatter":
        return {"jvp": linear(0, 2), "transpose": pullback(_replace_transpose)}
    if name == "scatter_add":
        return {"jvp": linear(0, 2), "transpose": pullback(_add_transpose)}
    if name == "scatter_sub":
        return {"jvp": linear(0, 2), "transpose": pullback(_sub_transpose)}
    if name == "scatter_mul":
        scaled = by_operand(lambda g, y, x, at, u, **p: OPS["scatter_mul"](g, at, u, **p), _NO_INDEX, _NO_FACTOR)
        return {"jvp": scaled, "transpose": pullback(lambda ct, x, at, u, **p: OPS["scatter_mul"](ct, at, u, **p))}
    return {"jvp": _extreme_jvp}
