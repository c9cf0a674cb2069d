"""Whole numbers as options and arguments: extents, axes, positions, counts. A float is no whole number, whatever its value."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from pypto.errors import PyptoError, ShapeError


def whole(what: str, value: Any) -> int:
    """A whole number as a Python one.

    Errors:
      PL308 for anything else.

    >>> import numpy as np
    >>> whole("top_k: k", np.int64(3))
    3
    """
    try:
        return operator.index(value)
    except TypeError as error:
        if isinstance(error, PyptoError):
            raise  # it is a value of a trace, which says so itself
        raise ShapeError("PL308", f"{what} is {_shown(value)}", fix="a whole number") from None


def wholes(what: str, values: Any) -> tuple[int, ...]:
    """Whole numbers, from any sequence of them.

    Errors:
      PL308 for anything else.

    >>> wholes("reshape: shape", [2, 3])
    (2, 3)
    """
    if isinstance(values, str) or not is_sequence(values):
        raise ShapeError("PL308", f"{what} is {_shown(values)}", fix="a tuple of whole numbers")
    return tuple(whole(what, v) for v in values)


def is_sequence(values: Any) -> bool:
    """Whether it holds several: an array without axes does not."""
    return isinstance(values, Iterable) and getattr(values, "shape", None) != ()


def _shown(value: Any) -> str:
    aval = getattr(value, "aval", None)
    return repr(value) if aval is None else str(aval)
