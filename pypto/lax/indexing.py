"""Windows, padding and reversal of whole arrays, with JAX's names and rules.

These are for array programs: starts are clamped so that a window lies inside (in kernels a window past the end is an error).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pypto.core.array import Array
from pypto.core.avals import ArrayAval, Aval
from pypto.core.op import OPS, No, Op
from pypto.core.trace import aval_of
from pypto.core.whole import whole, wholes
from pypto.errors import ShapeError
from pypto.interpreters.batching import Batched, axis_option, per_example, repeated, with_params
from pypto.interpreters.cpu.rules import Tilewise
from pypto.interpreters.rules import linear, pullback
from pypto.interpreters.tangents import Undefined, apply, zeros
from pypto.lax.axes import expand_dims, shape_of, squeeze
from pypto.lax.families import Sample, as_dtype, literal, movement, result_aval
from pypto.lax.reduction import normal_axes, normal_axis
from pypto.lax.shape import reshape

_PTO = No("the array tiler turns it into loads and stores of windows")
_X = np.linspace(-4, 4, 20, dtype=np.float32).reshape(4, 5)


# ---- how examples and cotangents go through ----------------------------------------------------------------------


def _window_with_examples(rank: int, *, start_indices: Any, limit_indices: Any, strides: Any, size: int) -> dict[str, Any]:
    return {"start_indices": (0, *start_indices), "limit_indices": (size, *limit_indices), "strides": (1, *strides)}


def _window_transpose(ct: Any, x: Any, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    """Elements go back between zeros."""
    config = []
    for start, step, extent, taken in zip(start_indices, strides, x.shape, aval_of(ct).static_shape, strict=True):
        spread = max(taken + (taken - 1) * (step - 1), 0)
        config.append((start, extent - start - spread, step - 1) if taken else (extent, 0, 0))
    return pad(ct, literal(0, ct.dtype), padding_config=config)


def _dynamic_batching(op: Op, size: int, operands: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Batched:
    """The same window of all examples; windows at places of their own are taken one by one."""
    count = len(params["allow_negative_indices"])
    arrays, starts = operands[: len(operands) - count], operands[len(operands) - count :]
    if any(batched[len(arrays) :]):
        return per_example(op, size, operands, batched, params)
    sizes = {"slice_sizes": (size, *params["slice_sizes"])} if "slice_sizes" in params else {}
    given = [x if b else repeated(x, size) for x, b in zip(arrays, batched, strict=False)]
    options = {**sizes, "allow_negative_indices": (True, *params["allow_negative_indices"])}
    return apply(op, [*given, np.int32(0), *starts], options), [True]


def _dynamic_slice_transpose(ct: Any, x: Any, *starts: Any, allow_negative_indices: Any, **_: Any) -> Any:
    return dynamic_update_slice_(zeros(x.aval), ct, *starts, allow_negative_indices=allow_negative_indices)


def _dynamic_update_transpose(ct: Any, x: Any, update: Any, *starts: Any, allow_negative_indices: Any) -> tuple[Any, ...]:
    sizes, options = aval_of(update).static_shape, {"allow_negative_indices": allow_negative_indices}
    rest = dynamic_update_slice_(ct, zeros(ArrayAval(sizes, ct.dtype)), *starts, **options)
    return rest, dynamic_slice_(ct, *starts, slice_sizes=sizes, **options)


def _pad_transpose(ct: Any, x: Any, value: Any, *, padding_config: Any) -> tuple[Any, ...]:
    """Elements come back from between the padding; the padding value gets what is left."""
    spread = pad(ct, literal(0, ct.dtype), padding_config=[(-low, -high, 0) for low, high, _ in padding_config])
    shape = aval_of(spread).static_shape
    own = strided_slice(spread, start_indices=(0,) * len(shape), limit_indices=shape, strides=tuple(i + 1 for _, _, i in padding_config))
    return own, ct.sum() - own.sum() if isinstance(value, Undefined) else None


# ---- static windows ----------------------------------------------------------------------------------------------


def _window_normal(x: Aval, *, start_indices: Any, limit_indices: Any, strides: Any = None) -> dict[str, Any]:
    steps = (1,) * x.rank if strides is None else wholes("slice: strides", strides)
    starts, limits = wholes("slice: start_indices", start_indices), wholes("slice: limit_indices", limit_indices)
    return {"start_indices": starts, "limit_indices": limits, "strides": steps}


def _window_aval(x: Aval, *, start_indices: tuple[int, ...], limit_indices: tuple[int, ...], strides: tuple[int, ...]) -> Aval:
    if not len(start_indices) == len(limit_indices) == len(strides) == x.rank:
        raise ShapeError("PL301", f"slice of {x}: {len(start_indices)} starts, {len(limit_indices)} limits", fix="one per axis")
    parts = list(zip(start_indices, limit_indices, strides, x.static_shape, strict=True))
    for axis, (low, high, step, extent) in enumerate(parts):
        if not 0 <= low <= high <= extent or step < 1:
            raise ShapeError("PL303", f"slice: {low}:{high}:{step} of axis {axis} of {x}", fix=f"inside 0:{extent}, a positive step")
    return result_aval("slice", [x], tuple(-(-(high - low) // step) for low, high, step, _ in parts), x.dtype)


@movement(
    jvp=linear(0),
    transpose=pullback(_window_transpose),
    batching=with_params(_window_with_examples),
    cpu=Tilewise("windows.STRIDED"),
    samples=lambda: [((_X,), {"start_indices": (1, 0), "limit_indices": (4, 5), "strides": s}) for s in ((1, 1), (1, 2), (3, 1))],
    abstract=_window_aval,
    normal=_window_normal,
    pto=_PTO,
    golden="jax.lax.slice",
)
def strided_slice(x: Any, *, start_indices: Any, limit_indices: Any, strides: Any = None) -> Any:
    """Every `strides`-th element from `start_indices` up to `limit_indices`, per axis; `lax.slice` is the spelling for users.

    Errors:
      PL303 for a window that does not lie in the array.
    """
    return x[tuple(slice(a, b, s) for a, b, s in zip(start_indices, limit_indices, strides, strict=True))].copy()


def slice_window(operand: Any, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = None) -> Any:
    """A static window, as `jax.lax.slice`.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.slice(np.int32([0, 1, 2, 3]), (1,), (4,), (2,))
    Array([1, 3], dtype=INT32)
    """
    return strided_slice(operand, start_indices=start_indices, limit_indices=limit_indices, strides=strides)


def slice_in_dim(operand: Any, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0) -> Any:
    """A window along one axis; negative bounds count from its end, None means the whole.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.slice_in_dim(np.int32([0, 1, 2, 3]), -3, -1)
    Array([1, 2], dtype=INT32)
    """
    shape = shape_of(operand)
    along = normal_axis("slice_in_dim", len(shape), axis)
    low, high = _counted(start_index, 0, shape[along]), _counted(limit_index, shape[along], shape[along])
    starts, limits, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[along], limits[along], steps[along] = low, high, whole("slice_in_dim: stride", stride)
    return slice_window(operand, starts, limits, steps)


def _counted(bound: int | None, default: int, extent: int) -> int:
    if bound is None:
        return default
    bound = whole("slice_in_dim: a bound", bound)
    return bound + (extent if bound < 0 else 0)


def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Any:
    """One element of an axis; a negative index counts from its end. PL303 outside."""
    along = normal_axis("index_in_dim", len(shape_of(operand)), axis)
    at = int(index) + (shape_of(operand)[along] if index < 0 else 0)
    part = slice_in_dim(operand, at, at + 1, 1, along)
    return part if keepdims else squeeze(part, (along,))


# ---- windows at run-time places ----------------------------------------------------------------------------------


def _starts(values: Sequence[np.ndarray], shape: Sequence[int], sizes: Sequence[int], negative: Sequence[bool]) -> tuple[slice, ...]:
    """Where windows lie after JAX's rule: a negative start counts from the end, then all are clamped to lie inside."""
    window = []
    for value, extent, size, wraps in zip(values, shape, sizes, negative, strict=True):
        start = int(value)
        start = min(max(start + extent if start < 0 and wraps else start, 0), extent - size)
        window.append(slice(start, start + size))
    return tuple(window)


def _check_starts(name: str, x: Aval, sizes: Sequence[int], starts: Sequence[Aval]) -> None:
    if len(sizes) != x.rank or len(starts) != x.rank or any(not 0 <= s <= d for s, d in zip(sizes, x.static_shape, strict=True)):
        raise ShapeError("PL301", f"{name}: a window {list(sizes)} at {len(starts)} starts of {x}", fix="one per axis, inside it")
    for s in starts:
        if s.shape != () or not s.dtype.is_integer:
            raise ShapeError("PL302", f"{name}: a start {s}", fix="integer scalars")


def _negative_normal(x: Aval, *operands: Aval, allow_negative_indices: Any = True, **rest: Any) -> dict[str, Any]:
    wraps = (
        (bool(allow_negative_indices),) * x.rank if isinstance(allow_negative_indices, bool) else tuple(map(bool, allow_negative_indices))
    )
    sizes = {"slice_sizes": wholes("dynamic_slice: slice_sizes", rest["slice_sizes"])} if "slice_sizes" in rest else {}
    return {**rest, **sizes, "allow_negative_indices": wraps}


def _dynamic_slice_aval(x: Aval, *starts: Aval, slice_sizes: tuple[int, ...], allow_negative_indices: tuple[bool, ...]) -> Aval:
    _check_starts("dynamic_slice", x, slice_sizes, starts)
    return result_aval("dynamic_slice", [x], slice_sizes, x.dtype)


@movement(
    jvp=linear(0),
    transpose=pullback(_dynamic_slice_transpose),
    batching=_dynamic_batching,
    cpu=Tilewise("windows.DYNAMIC"),
    samples=lambda: [
        ((_X, np.int32(a), np.int32(b)), {"slice_sizes": (2, 3), "allow_negative_indices": n})
        for a, b in ((1, 1), (9, -1), (-9, 0))
        for n in ((True, True), (False, True))
    ],
    abstract=_dynamic_slice_aval,
    normal=_negative_normal,
    index=tuple(range(1, 17)),
    pto=_PTO,
)
def dynamic_slice_(x: Any, *starts: Any, slice_sizes: Any, allow_negative_indices: Any = True) -> Any:
    """A window of constant sizes at run-time starts; `lax.dynamic_slice` is the spelling for users."""
    return np.array(x[_starts(starts, x.shape, slice_sizes, allow_negative_indices)])


def scalars(values: Any) -> list[Any]:
    """Index operands from a sequence of scalars, or from a 1-D array."""
    if isinstance(values, list | tuple):
        return list(values)
    if isinstance(values, Array | np.ndarray):
        return list(np.asarray(values))
    return [reshape(index_in_dim(values, i), shape=()) for i in range(shape_of(values)[0])]


def dynamic_slice(operand: Any, start_indices: Any, slice_sizes: Sequence[int], *, allow_negative_indices: Any = True) -> Any:
    """A window at run-time starts, as `jax.lax.dynamic_slice`: a negative start counts from the end, and starts are clamped.

    Args:
      start_indices: one integer scalar per axis, or a 1-D array of them.
      slice_sizes: constant extents.
      allow_negative_indices: per axis or for all, whether a negative start counts from the end; otherwise it is clamped to 0.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.dynamic_slice(np.int32([0, 1, 2, 3, 4]), (4,), (2,))
    Array([3, 4], dtype=INT32)
    """
    return dynamic_slice_(operand, *scalars(start_indices), slice_sizes=slice_sizes, allow_negative_indices=allow_negative_indices)


def _dynamic_update_aval(x: Aval, update: Aval, *starts: Aval, allow_negative_indices: tuple[bool, ...]) -> Aval:
    if update.rank != x.rank:
        raise ShapeError("PL301", f"dynamic_update_slice: {update} into {x}", fix="the same number of axes")
    if update.dtype is not x.dtype:
        raise ShapeError("PL302", f"dynamic_update_slice: {update} into {x}", fix="convert one of them")
    _check_starts("dynamic_update_slice", x, update.static_shape, starts)
    return x


@movement(
    jvp=linear(0, 1),
    transpose=pullback(_dynamic_update_transpose),
    batching=_dynamic_batching,
    cpu=Tilewise("windows.DYNAMIC_UPDATE"),
    samples=lambda: [
        ((_X, -_X[:2, :3], np.int32(a), np.int32(b)), {"allow_negative_indices": n})
        for a, b in ((1, 1), (9, -1))
        for n in ((True, True), (False, True))
    ],
    abstract=_dynamic_update_aval,
    normal=_negative_normal,
    valid=lambda x, *_, **__: x,
    index=tuple(range(2, 18)),
    pto=_PTO,
)
def dynamic_update_slice_(x: Any, update: Any, *starts: Any, allow_negative_indices: Any = True) -> Any:
    """A copy with a window replaced; `lax.dynamic_update_slice` is the spelling for users."""
    result = np.array(x)
    result[_starts(starts, x.shape, update.shape, allow_negative_indices)] = update
    return result


def dynamic_update_slice(operand: Any, update: Any, start_indices: Any, *, allow_negative_indices: Any = True) -> Any:
    """A copy in which a window at run-time starts holds `update`, as `jax.lax.dynamic_update_slice`; starts as `dynamic_slice`.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.dynamic_update_slice(np.int32([0, 1, 2]), np.int32([7, 8]), (2,))
    Array([0, 7, 8], dtype=INT32)
    """
    return dynamic_update_slice_(operand, update, *scalars(start_indices), allow_negative_indices=allow_negative_indices)


def _along(operand: Any, axis: int, start: Any, size: int) -> tuple[list[Any], list[int]]:
    shape = shape_of(operand)
    at = normal_axis("dynamic_slice", len(shape), axis)
    return [start if i == at else 0 for i in range(len(shape))], [size if i == at else d for i, d in enumerate(shape)]


def dynamic_slice_in_dim(operand: Any, start_index: Any, slice_size: int, axis: int = 0) -> Any:
    """`dynamic_slice` along one axis."""
    return dynamic_slice(operand, *_along(operand, axis, start_index, slice_size))


def dynamic_index_in_dim(operand: Any, index: Any, axis: int = 0, keepdims: bool = True) -> Any:
    """One element of an axis at a run-time index, clamped as `dynamic_slice` does."""
    part = dynamic_slice_in_dim(operand, index, 1, axis)
    return part if keepdims else squeeze(part, (normal_axis("dynamic_index_in_dim", len(shape_of(operand)), axis),))


def dynamic_update_slice_in_dim(operand: Any, update: Any, start_index: Any, axis: int) -> Any:
    """`dynamic_update_slice` along one axis."""
    return dynamic_update_slice(operand, update, _along(operand, axis, start_index, 1)[0])


def dynamic_update_index_in_dim(operand: Any, update: Any, index: Any, axis: int) -> Any:
    """Replace one element of an axis; `update` may leave that axis out."""
    if len(shape_of(update)) < len(shape_of(operand)):
        update = expand_dims(update, (normal_axis("dynamic_update_index_in_dim", len(shape_of(operand)), axis),))
    return dynamic_update_slice_in_dim(operand, update, index, axis)


# ---- padding and reversal ----------------------------------------------------------------------------------------


def _pad_normal(x: Aval, value: Aval, *, padding_config: Any) -> dict[str, Any]:
    each = padding_config if isinstance(padding_config, Iterable) else (padding_config,)
    return {"padding_config": tuple(wholes("pad: (low, high, interior)", p) for p in each)}


def _pad_aval(x: Aval, value: Aval, *, padding_config: tuple[tuple[int, int, int], ...]) -> Aval:
    if value.shape != () or value.dtype is not x.dtype:
        raise ShapeError("PL302", f"pad: {value} pads {x}", fix="a scalar of its dtype")
    if len(padding_config) != x.rank or any(len(p) != 3 or p[2] < 0 for p in padding_config):
        raise ShapeError("PL308", f"pad: {list(padding_config)} of {x}", fix="(low, high, interior) per axis, interior not negative")
    shape = tuple(d + low + high + max(d - 1, 0) * inner for d, (low, high, inner) in zip(x.static_shape, padding_config, strict=True))
    if any(d < 0 for d in shape):
        raise ShapeError("PL301", f"pad: {x} with {list(padding_config)} has the shape {list(shape)}", fix="remove fewer elements")
    return result_aval("pad", [x], shape, x.dtype)


def _pad_samples() -> list[Sample]:
    configs = [((1, 2, 0), (0, 0, 3)), ((-1, 0, 1), (2, -3, 0)), ((0, 0, 0), (-2, -2, 2)), ((-4, 1, 0), (1, 1, 1))]
    return [((_X, np.float32(-1)), {"padding_config": c}) for c in configs]


def _prepare_pad(op: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    x, value = args
    return x, as_dtype(value, aval_of(value), aval_of(x).dtype) if isinstance(value, bool | int | float) else value


@movement(
    jvp=linear(0, 1),
    transpose=pullback(_pad_transpose),
    batching=with_params(lambda rank, *, padding_config, size: {"padding_config": ((0, 0, 0), *padding_config)}, 0),
    cpu=Tilewise("windows.PAD"),
    samples=_pad_samples,
    abstract=_pad_aval,
    normal=_pad_normal,
    prepare=_prepare_pad,
    pto=_PTO,
    golden="jax.lax.pad",
)
def pad(operand: Any, padding_value: Any, *, padding_config: Any) -> Any:
    """Put a value before, after and between the elements of each axis, as `jax.lax.pad`.

    Args:
      padding_value: a scalar of the operand's dtype, or a number.
      padding_config: (low, high, interior) per axis. A negative low or high removes what is there after the interior was put in.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.pad(np.int32([1, 2, 3]), 0, [(1, -1, 1)])
    Array([0, 1, 0, 2, 0], dtype=INT32)
    """
    spread = tuple(d + max(d - 1, 0) * inner for d, (_, _, inner) in zip(operand.shape, padding_config, strict=True))
    inner = np.full(spread, padding_value, operand.dtype)
    inner[tuple(slice(None, None, i + 1) for _, _, i in padding_config)] = operand
    result = np.full(tuple(d + low + high for d, (low, high, _) in zip(spread, padding_config, strict=True)), padding_value, operand.dtype)
    here, there = [], []
    for d, (low, high, _) in zip(spread, padding_config, strict=True):
        here.append(slice(max(-low, 0), d - max(-high, 0)))
        there.append(slice(max(low, 0), max(low, 0) + max(0, d - max(-high, 0) - max(-low, 0))))
    result[tuple(there)] = inner[tuple(here)]
    return result


@movement(
    jvp=linear(0),
    transpose=pullback(lambda ct, x, *, dimensions: OPS["rev"](ct, dimensions=dimensions)),
    batching=axis_option("dimensions"),
    cpu=Tilewise("windows.REV"),
    samples=lambda: [((_X,), {"dimensions": d}) for d in ((0,), (1,), (0, 1), ())],
    abstract=lambda x, *, dimensions: result_aval("rev", [x], x.shape, x.dtype),
    normal=lambda x, *, dimensions: {"dimensions": normal_axes("rev", x.rank, tuple(dimensions))},
    pto=_PTO,
    golden="jax.lax.rev",
)
def rev(operand: Any, *, dimensions: tuple[int, ...]) -> Any:
    """Reverse the order of the elements along axes.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.rev(np.int32([1, 2, 3]), (0,))
    Array([3, 2, 1], dtype=INT32)
    """
    return np.flip(operand, dimensions).copy()
