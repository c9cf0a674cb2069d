"""What reshaping does to a valid region."""

from __future__ import annotations

import math

from pypto.core.avals import Valid
from pypto.errors import ShapeError


def reshape_valid(old: tuple[int, ...], valid: Valid, new: tuple[int, ...]) -> Valid:
    """The valid region under a new shape: it must stay a box anchored at the origin.

    Unit axes come and go freely; otherwise only the first other axis may be partly valid, in whole rows.

    Errors:
      PL301 when it does not stay a box.
    """
    if valid == old:
        return new
    wide = _wide_valid([(d, v) for d, v in zip(old, valid, strict=True) if d != 1], [d for d in new if d != 1])
    if wide is None:
        raise ShapeError(
            "PL301",
            f"reshape: the valid region {['?' if v is None else v for v in valid]} of {list(old)} is no box in {list(new)}",
            fix="fill it first: pl.fillpad(x, pad_value=...)",
        )
    extents = iter(wide)
    result: Valid = tuple(1 if d == 1 else next(extents) for d in new)
    units = [v for d, v in zip(old, valid, strict=True) if d == 1]
    if 0 in units:  # nothing at all is valid
        return (0, *result[1:])
    return (None, *result[1:]) if None in units else result


def _wide_valid(wide: list[tuple[int, int | None]], kept: list[int]) -> list[int | None] | None:
    """`reshape_valid` without the unit axes, from pairs of extent and valid extent; None when it is no box."""
    if kept == [d for d, _ in wide]:
        return [v for _, v in wide]
    if any(d != v for d, v in wide[1:]):
        return None
    row, tail = math.prod(d for d, _ in wide[1:]), math.prod(kept[1:])
    first = wide[0][1]
    if first is None:
        return [None, *kept[1:]] if row % tail == 0 else None
    return [first * row // tail, *kept[1:]] if first * row % tail == 0 else None
