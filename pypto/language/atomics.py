"""Atomic updates of tensors: what `atomic=` of `assemble` and `store` says."""

from __future__ import annotations

import enum
from typing import Any

from pypto.errors import ShapeError


class AtomicType(enum.Enum):
    """How a store combines with what is there: not at all, or by adding, or by keeping the larger or the smaller."""

    None_ = 0
    Add = 1
    Max = 2
    Min = 3


def combination(atomic: Any) -> str | None:
    """The way a store combines, as `lax.accumulate` names it; None for a plain store.

    Errors:
      PL308 for anything but an `AtomicType`.
    """
    if atomic is None:
        return None
    if not isinstance(atomic, AtomicType):
        raise ShapeError("PL308", f"atomic={atomic!r}", fix="pl.AtomicType.Add, .Max, .Min or .None_")
    return None if atomic is AtomicType.None_ else atomic.name.lower()
