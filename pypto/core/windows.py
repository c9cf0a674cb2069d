"""The error of a window that leaves what it looks into: known while tracing or when it runs, it is the same one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pypto.errors import ShapeError


def leaves(what: str, variable: str, shape: Sequence[Any], axis: int, start: int, size: int, at: Any = None) -> ShapeError:
    """PL303 of a window along one axis, with the fix that fits.

    Args:
      what: the operation; `variable`: what the window looks into, and `shape`: its extents.
      start, size: of the window along `axis`; a start below 0 or a size below 0 is such a fault, too.
    """
    extent = shape[axis]
    rows = "rows" if axis == len(shape) - 2 else "columns" if axis == len(shape) - 1 and len(shape) > 1 else f"axis {axis}"
    if start < 0:
        fix = "a window cannot start before 0"
    elif size < 0:
        fix = "a window cannot end before it starts"
    elif isinstance(extent, int) and start < extent:
        fix = f"stay inside, or pass valid_shape= with at most {extent - start} there"
    else:
        fix = f"start below {extent}: nothing of it is inside"
    return ShapeError("PL303", f"{what}: {rows} {start}:{start + size} exceed extent {extent} of {variable}", fix=fix, at=at)
