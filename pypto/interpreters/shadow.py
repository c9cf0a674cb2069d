"""Shadow bits: which elements were never written, or come from ones that were not, as MemorySanitizer tracks them.

A taint is a bool array of an element's shape, or None when nothing is tainted. Taints follow each op's axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pypto.core.op import Labels, Moves, Op, Pointwise, Structural, Whole

Taint = np.ndarray | None


def outside(shape: tuple[int, ...], valid: tuple[int, ...]) -> Taint:
    """The elements of a tile that lie outside its valid region."""
    if valid == shape:
        return None
    taint = np.ones(shape, np.bool_)
    taint[tuple(slice(0, v) for v in valid)] = False
    return taint


def either(a: Taint, b: Taint) -> Taint:
    return b if a is None else a if b is None else a | b


def propagate(
    op: Op,
    avals: Sequence[Any],
    arrays: Sequence[np.ndarray],
    taints: Sequence[Taint],
    params: dict[str, Any],
    shapes: Sequence[tuple[int, ...]],
) -> Sequence[Taint]:
    """The taint of each of an op's results, which have these shapes."""
    if op.taint is not None:
        made = op.taint(taints, arrays, params)
    elif all(t is None for t in taints):
        return [None] * len(shapes)
    else:
        axes = op.axes_of(avals, params)
        made = _moved(op, arrays, taints, params) if isinstance(axes, Moves) else tuple(_along(op, axes, taints, s) for s in shapes)
    return [t if t is not None and np.any(t) else None for t in (made if isinstance(made, tuple) else (made,))]


def _moved(op: Op, arrays: Sequence[np.ndarray], taints: Sequence[Taint], params: dict[str, Any]) -> Any:
    """Shadow bits moved as the elements are: an operand that is only an address keeps its value, data give way to their taints."""
    moved = [a if i in op.index else _or_none(t, a) for i, (a, t) in enumerate(zip(arrays, taints, strict=True))]
    made = op.meaning(*moved, **_bool_params(op, params))
    return tuple(np.asarray(m, np.bool_) for m in made) if isinstance(made, tuple) else np.asarray(made, np.bool_)


def _along(op: Op, axes: Any, taints: Sequence[Taint], shape: tuple[int, ...]) -> Taint:
    """The taint of one result, by the op's axes."""
    result: Taint
    if isinstance(axes, Pointwise):
        result = None
        for t in taints:
            if t is not None:
                result = either(result, np.broadcast_to(t, shape))
    elif isinstance(axes, Labels):
        result = _by_labels(axes, taints, shape)
    elif isinstance(axes, Whole) and axes.axes is not None:
        result = None
        for t in taints:
            if t is not None and t.ndim == len(shape):
                result = either(result, np.broadcast_to(t.any(axis=axes.axes, keepdims=True), shape))
    elif isinstance(axes, Whole):
        result = np.ones(shape, np.bool_) if any(np.any(t) for t in taints if t is not None) else None
    else:
        assert not isinstance(axes, Structural), op.name
        result = None
    return result


def _or_none(t: Taint, a: np.ndarray) -> np.ndarray:
    return np.zeros(np.shape(a), np.bool_) if t is None else t


def _bool_params(op: Op, params: dict[str, Any]) -> dict[str, Any]:
    """Movement ops that make elements name their dtype; their taint is made of truth values."""
    from pypto import dtypes

    return {**params, "dtype": dtypes.BOOL} if "dtype" in params else params


def _by_labels(axes: Labels, taints: Sequence[Taint], shape: tuple[int, ...]) -> Taint:
    """Reduce what the output does not have, then stretch over what the operand does not have."""
    result: Taint = None
    for names, taint in zip(axes.inputs, taints, strict=True):
        if taint is None:
            continue
        gone = tuple(i for i, c in enumerate(names) if c not in axes.output)
        kept = [c for c in names if c in axes.output]
        reduced = taint.any(axis=gone) if gone else taint
        order = sorted(range(len(kept)), key=lambda i, kept=kept: axes.output.index(kept[i]))
        reduced = np.transpose(reduced, order)
        extents = iter(reduced.shape)
        view = tuple(next(extents) if c in kept else 1 for c in axes.output)
        result = either(result, np.broadcast_to(reduced.reshape(view), shape))
    return result
