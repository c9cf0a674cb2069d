"""Valid regions and padding in the language's spelling."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from pypto import lax
from pypto.core.trace import aval_of
from pypto.errors import ShapeError
from pypto.language import access
from pypto.language.creating import static_shape
from pypto.language.spelled import as_tile, trace_here
from pypto.language.trace import PlTrace
from pypto.language.values import TileValue


class PadValue(enum.Enum):
    """What fills the padding: 0, the largest or the smallest value of the dtype (infinities where it has them)."""

    zero = "zero"
    max = "max"
    min = "min"


_NUMBERS = {0.0: "zero", float("inf"): "max", float("-inf"): "min"}


def pad_name(what: str, pad: Any) -> str:
    """A pad value as the ops name it: a `PadValue`, or one of the numbers 0, inf, -inf.

    Errors:
      PL308 for anything else, a NaN and a truth value among them.
    """
    if isinstance(pad, PadValue):
        return pad.value
    if isinstance(pad, int | float | np.integer | np.floating) and not isinstance(pad, bool):
        named = _NUMBERS.get(float(pad))
        if named is not None:
            return named
    raise ShapeError("PL308", f"{what}: pad_value={pad!r}", fix="pl.PadValue.zero, .max or .min, or 0, inf, -inf")


def fillpad(x: Any, pad_value: Any = PadValue.zero) -> Any:
    """Fill everything outside the valid region; the result is a tile of its own and valid everywhere.

    Args:
      pad_value: PadValue.zero, .max or .min, or the numbers 0, inf, -inf; for integers max and min are the dtype's limits.
    Errors:
      PL308 for another value.
    """
    return lax.fillpad(as_tile(x, "fillpad"), pad=pad_name("fillpad", pad_value))


def fillpad_inplace(x: Any, pad_value: Any = PadValue.zero) -> Any:
    """Fill everything outside the valid region of a tile in its own buffer, for every name the tile has.

    The tile keeps its valid region under its old names; the result is the filled tile, valid everywhere, as a value of its own:
    what is written into it afterwards is not seen under the old names.

    Args:
      pad_value: as in `fillpad`.
    Errors:
      PL307 for a tensor in global memory, PL308 for another value.
    """
    trace = trace_here("fillpad_inplace")
    pad = pad_name("fillpad_inplace", pad_value)
    if not isinstance(x, TileValue):
        raise ShapeError("PL307", f"fillpad_inplace fills a tile, not {aval_of(x)}", fix="load it first, or use pl.fillpad")
    if x.aval.valid is not None:
        shape = x.aval.static_shape
        zeros = [access.operand(trace, 0)] * len(shape)
        trace.process(lax.set_, [x, lax.fillpad(x, pad=pad), *zeros], {"sizes": shape, "drop": ()})
    return set_validshape(x, list(x.shape))


def fillpad_expand(x: Any, shape: Sequence[Any], pad_value: Any = PadValue.zero) -> Any:
    """The valid region of x in the corner of a larger tile, a pad value everywhere else; the result is valid everywhere.

    Args:
      shape: constant extents, at least x's along every axis.
      pad_value: as in `fillpad`.
    Errors:
      PL301 for a smaller shape, PL308 for another pad value.
    """
    trace = trace_here("fillpad_expand")
    pad = pad_name("fillpad_expand", pad_value)
    return lax.fillpad_expand(as_tile(x, "fillpad_expand"), shape=static_shape(trace, shape, "pl.fillpad_expand"), pad=pad)


def set_validshape(x: Any, *extents: Any) -> Any:
    """Mark the leading extents of each axis as the valid region; later reductions and stores see that region only.

    Args:
      x: a tile; its data stay.
      extents: one per axis, numbers or scalars, or one list of them.
    Errors:
      PL301 for another number of extents, PL303 for more than the tile has, also at run time.
    """
    trace = trace_here("set_validshape")
    listed = extents[0] if len(extents) == 1 and isinstance(extents[0], list | tuple) else extents
    value = as_tile(x, "set_validshape")
    if len(listed) != aval_of(value).rank:
        raise ShapeError("PL301", f"set_validshape: {len(listed)} extents for {aval_of(value)}", fix="one per axis")
    wanted = [access.offset(trace, v, "a valid extent") for v in listed]
    known = tuple(w if isinstance(w, int) else None for w in wanted)
    return trace.process(lax.set_validshape, [value, *(access.operand(trace, w) for w in wanted)], {"known": known})


def narrowed(trace: PlTrace, x: Any, valid_shape: Sequence[Any]) -> Any:
    """A tile whose valid region is cut to this one: never more than it was.

    Args:
      valid_shape: one number or scalar per axis.
    """
    from pypto.language.spelled import min as smaller

    have = x.aval.valid_shape
    current = [trace.process(lax.valid_extent, [x], {"axis": a}) if v is None else v for a, v in enumerate(have)]
    return set_validshape(x, [smaller(c, w) for c, w in zip(current, valid_shape, strict=True)])
