"""What the view of an annotation says of a tensor: the strides it must have, and how much of it holds data."""

from __future__ import annotations

from typing import Any

from pypto import lax
from pypto.core.index import Index
from pypto.errors import ShapeError
from pypto.language.access import called, marked, operand
from pypto.language.layouts import TensorView
from pypto.language.trace import PlTrace
from pypto.language.values import RefValue, TileValue

Strides = tuple[Index, ...]


def viewed(trace: PlTrace, x: Any, view: TensorView | None, where: str) -> Any:
    """The value under an annotation with this view: the same buffer, or tile, of which only the leading extents hold data.

    Errors:
      PL302 for strides that are not the view's, or not known to be; PL303 for more data than there is.
    """
    if view is None or not isinstance(x, RefValue | TileValue):
        return x
    if view.stride is not None:
        _check_strides(trace, x, tuple(view.stride), where)
    return x if view.valid_shape is None else _marked(trace, x, tuple(view.valid_shape))


def _marked(trace: PlTrace, x: RefValue | TileValue, valid: tuple[int, ...]) -> Any:
    have = x.aval.valid if x.aval.valid is not None else x.shape
    if any(isinstance(most, int) and want > most for most, want in zip(have, valid, strict=True)):
        found = ", ".join("?" if n is None else str(n) for n in have)
        fix = "between 0 and the extents that hold data"
        raise ShapeError("PL303", f"valid extents {list(valid)} of {called(x)}, of which [{found}] hold data", fix=fix)
    if isinstance(x, TileValue):
        return trace.process(lax.set_validshape, [x, *(operand(trace, n) for n in valid)], {"known": valid})
    return marked(trace, x, valid)


def _check_strides(trace: PlTrace, x: RefValue | TileValue, wanted: tuple[int, ...], where: str) -> None:
    if isinstance(x, TileValue):
        raise ShapeError("PL302", f"{where} is declared with strides {list(wanted)} and is a tile, which has none", fix="drop stride=")
    have = strides(trace, x)
    if have is None or any((h - n).value != 0 for h, n in zip(have, wanted, strict=True)):
        found = "strides that are not known" if have is None else f"strides [{', '.join(map(str, have))}]"
        fix = "pass the window of the larger tensor, or drop stride= from the annotation"
        raise ShapeError("PL302", f"{where} is declared with strides {list(wanted)}, got {called(x)} with {found}", fix=fix)


def strides(trace: PlTrace, x: RefValue) -> Strides | None:
    """Elements between neighbours along each axis of a handle; None where the trace does not know them."""
    var = trace.resolved(x.var)
    if var in trace.strides:
        return tuple(Index.of(n) for n in trace.strides[var])
    if var not in trace.views:
        whole = var in trace.created or trace.parameter_of(x) is var
        return _row_major(x.shape) if whole else None
    source, op, params = trace.views[var]
    have = strides(trace, source)
    if have is None or op in (lax.valid_view, lax.bits_view):
        return have
    if op is lax.view:
        return tuple(n for axis, n in enumerate(have) if axis not in params["drop"])
    if op is lax.transpose_view:
        return tuple(have[axis] for axis in params["permutation"])
    compact = all((a - b).value == 0 for a, b in zip(have, _row_major(source.shape), strict=True))
    return _row_major(x.shape) if compact else None  # a reshape


def _row_major(shape: tuple[Any, ...]) -> Strides:
    found, step = [], Index.constant(1)
    for extent in reversed(shape):
        found.append(step)
        step = step * Index.of(extent)
    return tuple(reversed(found))
