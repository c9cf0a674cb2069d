"""Small arrays of scalars: `pl.array.create(n, dtype)`. They are handles: whoever has one writes the same elements."""

from __future__ import annotations

from typing import Any

from pypto import dtypes, lax
from pypto.core.avals import RefAval
from pypto.dtypes import dtype_of
from pypto.errors import ShapeError, TaskError
from pypto.language import access
from pypto.language.spelled import trace_here
from pypto.language.values import RefValue
from pypto.platform import Space


def create(extent: Any, dtype: Any) -> RefValue:
    """An array of `extent` zeros: `tids[i] = tid` writes an element, `tids[i]` reads one, and inline functions write the caller's.

    Args:
      extent: a positive constant.
      dtype: an integer dtype, BOOL, or TASK_ID, whose zero is the id of no task.
    Errors:
      PL304 for a run-time extent, PL308 for one that is not positive, PL305 for another dtype, PL504 for task ids in a region.
    """
    trace = trace_here("array.create")
    kind = dtype_of(dtype)
    size = access.static_extent(trace, extent, "the extent of pl.array.create")
    if size < 1:
        raise ShapeError("PL308", f"pl.array.create({size}, pl.{kind.name})", fix="a positive number of elements")
    if not (kind.is_integer or kind in (dtypes.BOOL, dtypes.TASK_ID)) or (kind.bits < 8 and kind is not dtypes.BOOL):
        raise ShapeError(
            "PL305", f"pl.array.create: no arrays of {kind.name}", fix="integers, BOOL or TASK_ID; pl.full makes tiles of floats"
        )
    if kind is dtypes.TASK_ID and trace.in_region:
        raise TaskError("PL504", "an array of task ids inside a region, where there are no tasks", fix="create it in orchestration")
    params = {"shape": (size,), "dtype": kind, "space": Space.STACK, "init": kind.storage.type(0), "name": "", "manual_dep": False}
    (var,) = trace.emit(lax.alloc, [], params, [RefAval((size,), kind, Space.STACK)])
    return trace.wrap(var)


def _array(what: str, array: Any) -> RefValue:
    trace_here(f"array.{what}")
    if not isinstance(array, RefValue) or array.aval.space is not Space.STACK:
        raise ShapeError("PL308", f"pl.array.{what} of {array!r}", fix="an array made by pl.array.create")
    return array


def get_element(array: Any, index: Any) -> Any:
    """`array[index]`, as a scalar."""
    return _array("get_element", array)[index]


def update_element(array: Any, index: Any, value: Any) -> RefValue:
    """`array[index] = value`; returns the array, which every name of it sees changed."""
    _array("update_element", array)[index] = value
    return array
