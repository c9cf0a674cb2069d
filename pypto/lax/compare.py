"""Comparison and selection. On tiles a comparison is a packed predicate mask (dtype MASK), elsewhere BOOL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pypto import dtypes
from pypto.core.avals import Aval, TileAval
from pypto.core.op import OPS, Exact, Native, Op, Pointwise
from pypto.errors import ShapeError
from pypto.lax.families import NUMBERS, broadcast_shapes, broadcast_valid, computed, elementwise, elementwise_aval, unify

_ACCEPTS = NUMBERS | {dtypes.BOOL}
_EXACT = Exact("comparison")
_TCMP = Native("pto.tcmp")


@elementwise(accepts=_ACCEPTS, exact=_EXACT, pto=_TCMP, golden="jax.lax.eq", mask=True)
def eq(x: Any, y: Any) -> Any:
    """x == y. NaN equals nothing; +0 equals -0."""
    return x == y


@elementwise(accepts=_ACCEPTS, exact=_EXACT, pto=_TCMP, golden="jax.lax.ne", mask=True)
def ne(x: Any, y: Any) -> Any:
    """x != y. True whenever a NaN takes part."""
    return x != y


@elementwise(accepts=_ACCEPTS, exact=_EXACT, pto=_TCMP, golden="jax.lax.lt", mask=True)
def lt(x: Any, y: Any) -> Any:
    """x < y; false whenever a NaN takes part."""
    return x < y


@elementwise(accepts=_ACCEPTS, exact=_EXACT, pto=_TCMP, golden="jax.lax.le", mask=True)
def le(x: Any, y: Any) -> Any:
    """x <= y; false whenever a NaN takes part."""
    return x <= y


@elementwise(accepts=_ACCEPTS, exact=_EXACT, pto=_TCMP, golden="jax.lax.gt", mask=True)
def gt(x: Any, y: Any) -> Any:
    """x > y; false whenever a NaN takes part."""
    return x > y


@elementwise(accepts=_ACCEPTS, exact=_EXACT, pto=_TCMP, golden="jax.lax.ge", mask=True)
def ge(x: Any, y: Any) -> Any:
    """x >= y; false whenever a NaN takes part."""
    return x >= y


COMPARISONS: tuple[Op, ...] = (eq, ne, lt, le, gt, ge)
"""In the order of the language's `cmp_type` codes 0 to 5."""


def _select_aval(mask: Aval, x: Aval, y: Aval) -> Aval:
    if mask.dtype not in (dtypes.BOOL, dtypes.MASK):
        raise ShapeError("PL305", f"select: the condition is {mask}, not a mask", fix="compare first: pl.cmp(x, 0.0, ...) or lax.ne(x, 0)")
    value = elementwise_aval("select", [x, y])
    shape = broadcast_shapes("select", [mask.shape, value.shape])
    if isinstance(value, TileAval) or isinstance(mask, TileAval):
        tile = value if isinstance(value, TileAval) else mask
        valid = tile.valid if isinstance(tile, TileAval) else None
        level = tile.level if isinstance(tile, TileAval) else "tensor"
        return TileAval(shape, value.dtype, level, None, valid)
    return type(value)(shape, value.dtype)


def _prepare_select(op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
    mask, *values = args
    return (mask, *unify(op, tuple(values)))


def _select_taint(taints: Sequence[Any], arrays: Sequence[np.ndarray], params: dict[str, Any]) -> Any:
    """Only the chosen side's shadow is seen, and the mask's own."""
    mask, x, y = (np.zeros((), np.bool_) if t is None else t for t in taints)
    return np.where(arrays[0], x, y) | mask


def _select_samples() -> list[Any]:
    mask = np.array([[True, False, True], [False, False, True]])
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    return [((mask, x, -x), {}), ((mask[:, :1], x, x + 1), {}), ((np.bool_(True), x, -x), {})]


@computed(
    samples=_select_samples,
    abstract=_select_aval,
    axes=Pointwise(),
    exact=Exact("movement"),
    valid=lambda mask, x, y: broadcast_valid(x, y) if isinstance(x, tuple) and x else broadcast_valid(mask),
    prepare=_prepare_select,
    taint=_select_taint,
    pto=Native("pto.tsel"),
    golden="jax.lax.select",
)
def select(mask: Any, x: Any, y: Any) -> Any:
    """x where the mask is true, y elsewhere; neither side is computed with.

    Args:
      mask: MASK or BOOL, broadcast to the values.
      x, y: one dtype and shape; numbers take the other side's dtype.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.select(np.array([True, False]), np.float32([1, 2]), 0.0)
    Array([1., 0.], dtype=FP32)
    """
    return np.where(mask, x, y)


def compare(x: Any, y: Any, kind: int | str) -> Any:
    """Compare by code 0..5 or by name: eq ne lt le gt ge.

    Errors:
      PL308 for another code.
    """
    names = [op.name for op in COMPARISONS]
    name = names[kind] if isinstance(kind, int) and not isinstance(kind, bool) and 0 <= kind < 6 else kind
    if name not in names:
        raise ShapeError("PL308", f"there is no comparison {kind!r}", fix="one of 0..5 for eq, ne, lt, le, gt, ge")
    return OPS[str(name)](x, y)
