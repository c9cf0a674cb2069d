"""Comparison and selection. On tiles a comparison is a packed predicate mask (dtype MASK), elsewhere BOOL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto import dtypes
from pypto.core.avals import Aval, TileAval
from pypto.core.op import OPS, Exact, Native, No, Op, Pointwise
from pypto.core.trace import aval_of
from pypto.errors import ShapeError
from pypto.interpreters.batching import pointwise
from pypto.interpreters.cpu.rules import Lanewise
from pypto.interpreters.rules import by_operand, stretched
from pypto.interpreters.tangents import Undefined
from pypto.lax.families import (
    NUMBERS,
    broadcast_shapes,
    broadcast_valid,
    computed,
    elementwise,
    elementwise_aval,
    literal,
    result_aval,
    unify,
    zero,
)

_ACCEPTS = NUMBERS | {dtypes.BOOL}
_EXACT = Exact("comparison")
_TCMP = Native("pto.tcmp")


def _cmp_text(e: Any, name: Callable[[Any], str]) -> str:
    return f"pl.tile.cmp({name(e.ins[0])}, {name(e.ins[1])}, pl.CmpType.{e.op.name.upper()})"


_COMPARISON: dict[str, Any] = {"accepts": _ACCEPTS, "exact": _EXACT, "pto": _TCMP, "mask": True, "source": _cmp_text}


@elementwise(
    cpu=Lanewise(lambda e, x, y: e.compare("eq", x, y)),
    accepts=_ACCEPTS,
    exact=_EXACT,
    pto=_TCMP,
    golden="jax.lax.eq",
    mask=True,
    source=_cmp_text,
)
def eq(x: Any, y: Any) -> Any:
    """x == y, element by element.

    Args:
      x, y: one dtype; shapes broadcast.
    Returns:
      BOOL; on tiles a predicate MASK for `select`.
    Numerics:
      As IEEE 754: NaN equals nothing, +0 equals -0; integers by value.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.eq(np.float32([0.0, np.nan]), np.float32([-0.0, np.nan]))
    Array([ True, False], dtype=BOOL)
    """
    return x == y


@elementwise(
    cpu=Lanewise(lambda e, x, y: e.compare("ne", x, y)),
    accepts=_ACCEPTS,
    exact=_EXACT,
    pto=_TCMP,
    golden="jax.lax.ne",
    mask=True,
    source=_cmp_text,
)
def ne(x: Any, y: Any) -> Any:
    """x != y, element by element: BOOL, or a MASK on tiles. True whenever a NaN takes part; otherwise as `eq`."""
    return x != y


@elementwise(
    cpu=Lanewise(lambda e, x, y: e.compare("lt", x, y)),
    accepts=_ACCEPTS,
    exact=_EXACT,
    pto=_TCMP,
    golden="jax.lax.lt",
    mask=True,
    source=_cmp_text,
)
def lt(x: Any, y: Any) -> Any:
    """x < y, element by element: BOOL, or a MASK on tiles. False whenever a NaN takes part; +0 and -0 are equal.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.lt(np.float32([1, 2, np.nan]), 2.0)
    Array([ True, False, False], dtype=BOOL)
    """
    return x < y


@elementwise(
    cpu=Lanewise(lambda e, x, y: e.compare("le", x, y)),
    accepts=_ACCEPTS,
    exact=_EXACT,
    pto=_TCMP,
    golden="jax.lax.le",
    mask=True,
    source=_cmp_text,
)
def le(x: Any, y: Any) -> Any:
    """x <= y, element by element: BOOL, or a MASK on tiles. False whenever a NaN takes part; otherwise as `lt`."""
    return x <= y


@elementwise(
    cpu=Lanewise(lambda e, x, y: e.compare("gt", x, y)),
    accepts=_ACCEPTS,
    exact=_EXACT,
    pto=_TCMP,
    golden="jax.lax.gt",
    mask=True,
    source=_cmp_text,
)
def gt(x: Any, y: Any) -> Any:
    """x > y, element by element: BOOL, or a MASK on tiles. False whenever a NaN takes part; otherwise as `lt`."""
    return x > y


@elementwise(
    cpu=Lanewise(lambda e, x, y: e.compare("ge", x, y)),
    accepts=_ACCEPTS,
    exact=_EXACT,
    pto=_TCMP,
    golden="jax.lax.ge",
    mask=True,
    source=_cmp_text,
)
def ge(x: Any, y: Any) -> Any:
    """x >= y, element by element: BOOL, or a MASK on tiles. False whenever a NaN takes part; otherwise as `lt`."""
    return x >= y


COMPARISONS: tuple[Op, ...] = (eq, ne, lt, le, gt, ge)
"""In the order of the language's `cmp_type` codes 0 to 5."""


def _select_aval(mask: Aval, x: Aval, y: Aval) -> Aval:
    if mask.dtype not in (dtypes.BOOL, dtypes.MASK):
        raise ShapeError("PL305", f"select: the condition is {mask}, not a mask", fix="compare first: pl.cmp(x, 0.0, ...) or lax.ne(x, 0)")
    value = elementwise_aval("select", [x, y])
    operands = [x, y, mask]
    shape = broadcast_shapes("select", [a.shape for a in operands])
    valid = None
    if any(isinstance(a, TileAval) and a.valid is not None for a in operands):
        valids = [a.valid_shape if isinstance(a, TileAval) else a.shape for a in operands]
        valid = broadcast_valid(*valids, shapes=[a.shape for a in operands])
    return result_aval("select", operands, shape, value.dtype, valid)


def _prepare_select(op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
    mask, *values = args
    if all(isinstance(v, bool | int | float) for v in values) and aval_of(mask).shape:
        kinds = [aval_of(v).dtype for v in values]  # two numbers make an array of the dtype they have by themselves
        return (mask, *(literal(v, max(kinds, key=lambda d: (d.is_float, d.bits))) for v in values))
    return (mask, *unify(op, tuple(values)))


def _select_taint(taints: Sequence[Any], arrays: Sequence[np.ndarray], params: dict[str, Any]) -> Any:
    """Only the chosen side's shadow is seen, and the mask's own."""
    mask, x, y = (np.zeros((), np.bool_) if t is None else t for t in taints)
    return np.where(arrays[0], x, y) | mask


def _in_first(g: Any, out: Any, mask: Any, x: Any, y: Any) -> Any:
    return select(mask, g, zero(g))


def _in_second(g: Any, out: Any, mask: Any, x: Any, y: Any) -> Any:
    return select(mask, zero(g), g)


def _chosen(ct: Any, mask: Any, x: Any, *, other: bool = False) -> Any:
    """The cotangent of one side of a selection."""
    if not isinstance(x, Undefined):
        return None
    return select(mask, zero(ct), ct) if other else select(mask, ct, zero(ct))


def _select_samples() -> list[Any]:
    mask = np.array([[True, False, True], [False, False, True]])
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    return [((mask, x, -x), {}), ((mask[:, :1], x, x + 1), {}), ((np.bool_(True), x, -x), {})]


@computed(
    jvp=by_operand(No("a condition has no derivative"), _in_first, _in_second),
    transpose=stretched(lambda ct, m, x, y: (None, _chosen(ct, m, x), _chosen(ct, m, y, other=True))),
    batching=pointwise,
    source="pl.sel",
    cpu=Lanewise("select", exact=True, first=1),
    samples=_select_samples,
    abstract=_select_aval,
    axes=Pointwise(),
    exact=Exact("movement"),
    valid=lambda mask, x, y, shapes: broadcast_valid(x, y, mask, shapes=(*shapes[1:], shapes[0])),
    prepare=_prepare_select,
    taint=_select_taint,
    pto=Native("pto.tsel"),
    golden="jax.lax.select",
)
def select(mask: Any, x: Any, y: Any) -> Any:
    """x where the mask is true, y elsewhere; neither side is computed with.

    Args:
      mask: MASK or BOOL, broadcast to the values.
      x, y: one dtype and shape; numbers take the other side's dtype. Two numbers are FP32, or INT32 if both are integers.
    Returns:
      Of their dtype; the valid region is that of the first of x, y and mask that spans an axis.
    Numerics:
      Bits are moved. Shadow bits come from the chosen side and from the mask.
    Errors:
      PL305 for a condition that is no mask, PL301 and PL302 as `add`.

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

    >>> compare(1, 2, "lt"), compare(1, 2, 0)
    (Array(True, dtype=BOOL), Array(False, dtype=BOOL))
    """
    names = [op.name for op in COMPARISONS]
    name = names[kind] if isinstance(kind, int) and not isinstance(kind, bool) and 0 <= kind < 6 else kind
    if name not in names:
        raise ShapeError("PL308", f"there is no comparison {kind!r}", fix="one of 0..5 for eq, ne, lt, le, gt, ge")
    return OPS[str(name)](x, y)
