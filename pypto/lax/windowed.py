"""Gather and scatter of windows of whole arrays, with JAX's dimension numbers and out-of-range modes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto import dtypes, numerics
from pypto.core.avals import Aval
from pypto.core.op import Exact, No, Op, Whole
from pypto.core.whole import wholes
from pypto.errors import ShapeError
from pypto.interpreters.cpu.rules import Tilewise
from pypto.interpreters.rules import pullback
from pypto.lax.families import Sample, check_accepts, computed, movement, result_aval, sample_values
from pypto.lax.numbering import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    check_numbers,
    numbers,
    output_order,
    places,
)
from pypto.lax.ordering import ORDERED
from pypto.lax.windowed_rules import gather_batching, gather_jvp, gather_transpose, scatter_batching, scatter_rules

_PTO = No("the array tiler turns it into gathers of rows and elements")

# ---- gather ------------------------------------------------------------------------------------------------------


def fill_default(dtype: Any) -> Any:
    """What a gather reads outside when nothing is said: NaN, the least signed, the largest unsigned integer, or True."""
    if dtype.is_float:
        return float("nan")
    if dtype is dtypes.BOOL:
        return True
    return int(dtype.min_value if dtype.is_signed else dtype.max_value)


def _gather_normal(
    x: Aval, indices: Aval, *, dimension_numbers: Any, slice_sizes: Any, mode: Any = None, fill_value: Any = None, **_: Any
) -> dict[str, Any]:
    how = GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.from_any(mode)
    return {
        "dimension_numbers": numbers(GatherDimensionNumbers, dimension_numbers),
        "slice_sizes": wholes("gather: slice_sizes", slice_sizes),
        "mode": how.value,
        "fill_value": fill_value if how is GatherScatterMode.FILL_OR_DROP else None,
    }


def _gather_aval(x: Aval, indices: Aval, *, dimension_numbers: GatherDimensionNumbers, slice_sizes: tuple[int, ...], **_: Any) -> Aval:
    dn = dimension_numbers
    rank = indices.rank - 1 + len(dn.offset_dims)
    check_numbers("gather", x, indices, dn, slice_sizes, rank)
    window = iter(slice_sizes[d] for d in dn.window_axes(x.rank))
    batch = iter(indices.static_shape[:-1])
    shape = tuple(next(window) if i in dn.offset_dims else next(batch) for i in range(rank))
    return result_aval("gather", [x], shape, x.dtype)


def _gather_taint(taints: Sequence[Any], arrays: Sequence[np.ndarray], params: dict[str, Any]) -> Any:
    """An element moves with its shadow; an index that was never written taints everything."""
    data, index = taints
    dn, sizes = params["dimension_numbers"], params["slice_sizes"]
    where, _ = places(arrays[0].shape, arrays[1], dn, sizes, clip=True)
    shadow = np.zeros(arrays[0].shape, np.bool_) if data is None else data
    moved = np.ravel(shadow)[where].transpose(output_order(dn, arrays[1].ndim - 1))
    return moved if index is None else np.ones_like(moved)


_WINDOWS = (
    (GatherDimensionNumbers((1,), (0,), (0,)), (1, 6), [[0], [5], [-1], [3]]),
    (GatherDimensionNumbers((0, 2), (), (1, 0)), (2, 3), [[0, 0], [5, 3], [1, -2]]),
    (GatherDimensionNumbers((), (1,), (1,), (0,), (0,)), (1, 1), [[[1]], [[9]], [[0]], [[-1]]]),
)


def _gather_samples() -> list[Sample]:
    return [
        (
            (sample_values(d, (4, 6), seed=3), np.array(at, np.int32)),
            {"dimension_numbers": dn, "slice_sizes": sizes, "mode": mode, "fill_value": None},
        )
        for d in (dtypes.FP32, dtypes.INT8, dtypes.UINT16, dtypes.BOOL)
        for mode in ("clip", "fill", "promise_in_bounds")
        for dn, sizes, at in _WINDOWS
    ]


@movement(
    jvp=gather_jvp,
    transpose=pullback(gather_transpose),
    batching=gather_batching,
    cpu=Tilewise("windows.GATHER", uses=fill_default, weight=8.0),
    samples=_gather_samples,
    abstract=_gather_aval,
    normal=_gather_normal,
    taint=_gather_taint,
    index=(1,),
    pto=_PTO,
    golden="jax.lax.gather",
)
def gather(
    operand: Any,
    start_indices: Any,
    *,
    dimension_numbers: Any,
    slice_sizes: Any,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> Any:
    """Read windows of an array at run-time starts, as `jax.lax.gather`. `take` and subscripts are simpler spellings.

    Args:
      start_indices: integers [..., n]: index vectors along the last axis.
      dimension_numbers: a `GatherDimensionNumbers`.
      slice_sizes: constant extents of a window, one per axis of the operand.
      unique_indices, indices_are_sorted: accepted as promises; nothing depends on them.
      mode: a `GatherScatterMode` or its name; None is `promise_in_bounds`, which clips.
      fill_value: what `fill` reads for a window that does not lie inside; by default NaN, the least signed integer, the largest
        unsigned one, or True.
    Numerics:
      Bits are kept.
    Errors:
      PL301 naming the rule that the dimension numbers break, PL302 for indices that are no integers, PL308 for another mode.

    >>> import numpy as np
    >>> from pypto import lax
    >>> rows = lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> lax.gather(np.float32([10, 20, 30]), np.array([[0], [5]], np.int32), rows, (1,), mode="clip")
    Array([10., 30.], dtype=FP32)
    """
    clip = mode != "fill"
    where, inside = places(operand.shape, start_indices, dimension_numbers, slice_sizes, clip)
    order = output_order(dimension_numbers, start_indices.ndim - 1)
    read = np.ravel(operand)[where]
    if not clip:
        kind = dtypes.dtype_of(operand.dtype)
        number = fill_default(kind) if fill_value is None else fill_value
        number = numerics.round_literal(number, kind) if isinstance(number, bool | int | float) else number
        outside = ~inside.reshape((*inside.shape, *(1,) * (where.ndim - inside.ndim)))
        read = np.where(outside, np.asarray(number, operand.dtype), read)
    turned = read.transpose(order)
    return np.ascontiguousarray(turned).reshape(turned.shape)  # which would give a result without axes one


# ---- scatter -----------------------------------------------------------------------------------------------------


def _scatter_normal(x: Aval, indices: Aval, updates: Aval, *, dimension_numbers: Any, mode: Any = None, **_: Any) -> dict[str, Any]:
    return {
        "dimension_numbers": numbers(ScatterDimensionNumbers, dimension_numbers),
        "mode": GatherScatterMode.from_any(mode).value,
    }


def _window_sizes(rank: int, updates: Sequence[int], dn: ScatterDimensionNumbers) -> tuple[int, ...]:
    extents = iter(updates[a] for a in dn.update_window_dims if a < len(updates))
    kept = dn.as_gather.window_axes(rank)
    return tuple(next(extents, 0) if d in kept else 1 for d in range(rank))


def _scatter_aval(name: str, x: Aval, indices: Aval, updates: Aval, *, dimension_numbers: ScatterDimensionNumbers, **_: Any) -> Aval:
    dn = dimension_numbers
    if updates.dtype is not x.dtype:
        raise ShapeError("PL302", f"{name}: updates {updates} of {x}", fix="convert one of them")
    sizes = _window_sizes(x.rank, updates.static_shape, dn)
    check_numbers(name, x, indices, dn.as_gather, sizes, updates.rank)
    batch = tuple(d for i, d in enumerate(updates.shape) if i not in dn.update_window_dims)
    if batch != indices.shape[:-1]:
        raise ShapeError(
            "PL301", f"{name}: updates {updates} at indices {indices}", fix="the axes outside windows are those of the indices"
        )
    return x


Combine = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _combined(flat: np.ndarray, where: np.ndarray, updates: np.ndarray, combine: Combine | None) -> None:
    """Put updates into a flat array at these positions, one after the other."""
    if combine is None:
        flat[where] = updates
        return
    # the n-th update of each position, for n = 0, 1, ...: within one such round no position comes twice
    order = np.argsort(where, kind="stable")
    sorted_ = where[order]
    starts = np.flatnonzero(np.r_[True, sorted_[1:] != sorted_[:-1]]) if where.size else np.zeros(0, np.int64)
    lengths = np.diff(np.r_[starts, where.size])
    ranks = np.arange(where.size) - np.repeat(starts, lengths)
    by_rank = order[np.argsort(ranks, kind="stable")]
    begin = 0
    for size in np.bincount(ranks):
        now = by_rank[begin : begin + size]
        flat[where[now]] = numerics.elementwise(combine, flat[where[now]], updates[now])
        begin += size


_SEQUENTIAL = {numerics.add: np.add, numerics.mul: np.multiply}


def _scattered(
    x: np.ndarray, indices: np.ndarray, updates: np.ndarray, dn: ScatterDimensionNumbers, mode: str, combine: Combine | None
) -> np.ndarray:
    gather_dn = dn.as_gather
    where, inside = places(x.shape, indices, gather_dn, _window_sizes(x.ndim, updates.shape, dn), clip=mode == "clip")
    batch = [i for i in range(updates.ndim) if i not in dn.update_window_dims]
    lined = updates.transpose([*batch, *dn.update_window_dims]).reshape(where.shape)
    kept = np.broadcast_to(inside.reshape((*inside.shape, *(1,) * (where.ndim - inside.ndim))), where.shape)
    result = np.array(x)
    flat, at, values = result.reshape(-1), where[kept], np.ascontiguousarray(lined[kept])
    sequential = None if combine is None else _SEQUENTIAL.get(combine)
    if (sequential is not None and x.dtype.kind in "iu") or (sequential is not None and x.dtype == np.float32):
        with np.errstate(all="ignore"):
            sequential.at(flat, at, values)  # in order, one rounding each
    else:
        _combined(flat, at, values, combine)
    return result


_ROWS = ScatterDimensionNumbers((1,), (0,), (0,))
_BOXES = ScatterDimensionNumbers((0, 2), (), (1, 0))


def _scatter_samples() -> list[Sample]:
    made: list[Sample] = []
    for d in (dtypes.FP32, dtypes.BF16, dtypes.INT8, dtypes.UINT16):
        x = sample_values(d, (4, 6), seed=3)
        for mode in ("clip", "fill", "promise_in_bounds"):
            rows = sample_values(d, (4, 6), seed=4)
            made.append(((x, np.array([[0], [5], [0], [-1]], np.int32), rows), {"dimension_numbers": _ROWS, "mode": mode}))
            boxes = sample_values(d, (2, 3, 3), seed=5)
            made.append(((x, np.array([[0, 0], [5, 3], [1, 1]], np.int32), boxes), {"dimension_numbers": _BOXES, "mode": mode}))
    return made


def _scatter_op(name: str, combine: Combine | None, text: str, numbers: str) -> Op:
    def body(
        operand: Any,
        scatter_indices: Any,
        updates: Any,
        *,
        dimension_numbers: Any,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Any:
        return _scattered(operand, scatter_indices, updates, dimension_numbers, mode, combine)

    def abstract(x: Aval, indices: Aval, updates: Aval, **params: Any) -> Aval:
        if combine is not None:
            check_accepts(name, ORDERED - {dtypes.BOOL}, [x])
        return _scatter_aval(name, x, indices, updates, **params)

    body.__name__ = name
    body.__doc__ = f"""{text}, as `jax.lax.{name}`. `x.at[...]` is a simpler spelling.

    Args:
      scatter_indices: integers [..., n]: index vectors along the last axis.
      updates: windows, of the operand's dtype.
      dimension_numbers: a `ScatterDimensionNumbers`.
      indices_are_sorted, unique_indices: accepted as promises; nothing depends on them.
      mode: a `GatherScatterMode` or its name; None is `fill`: a window that does not lie inside is dropped.
    Numerics:
      {numbers}
    Errors:
      PL301 naming the rule that the dimension numbers break, PL302 for other dtypes, PL308 for another mode.
    """
    return computed(
        samples=_scatter_samples,
        abstract=abstract,
        normal=_scatter_normal,
        valid=lambda x, *_, **__: x,
        axes=Whole(),
        exact=Exact("movement" if combine is None else "fp32"),
        index=(1,),
        batching=scatter_batching,
        cpu=Tilewise(f"windows.{name.upper()}", weight=8.0),
        pto=_PTO,
        golden=f"jax.lax.{name}",
        **scatter_rules(name),
    )(body)


_IN_ORDER = "Updates of one element are applied one after the other, in row-major order of the indices, and each rounds to the dtype."
scatter = _scatter_op(
    "scatter",
    None,
    "Replace windows of an array",
    "Of several updates for one element the last stays, in row-major order of the indices. Bits are kept.",
)
scatter_add = _scatter_op("scatter_add", numerics.add, "Add to windows of an array", _IN_ORDER)
scatter_sub = _scatter_op("scatter_sub", numerics.sub, "Subtract from windows of an array", _IN_ORDER)
scatter_mul = _scatter_op("scatter_mul", numerics.mul, "Multiply windows of an array", _IN_ORDER)
scatter_min = _scatter_op("scatter_min", numerics.minimum, "Keep the smaller of windows of an array and updates", "As `minimum`.")
scatter_max = _scatter_op("scatter_max", numerics.maximum, "Keep the larger of windows of an array and updates", "As `maximum`.")
