"""Tensor level and tile level: which one a call is at, and the keywords that only one of them has.

`pl.X` follows its operands; `pl.tensor.X` and `pl.tile.X` take operands of both levels and say the level themselves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

from pypto.core.avals import TENSOR, TILE, TileAval
from pypto.core.trace import Tracer
from pypto.errors import LevelError

_spelled: ContextVar[str | None] = ContextVar("pypto_level", default=None)
F = TypeVar("F", bound=Callable[..., Any])

# what the language has at one level only; everything else takes values of both, and `pl.X` follows its operands
TILE_ONLY = {
    "load", "store", "move", "extract", "create_tile", "tri", "fillpad_inplace",
    "rem", "rems", "addc", "addsc", "subc", "subsc", "relu", "lrelu", "prelu", "sel", "sels", "cmps", "maximums", "minimums",
    "gather_mask", "gather_compare", "gatherb", "mgather", "mscatter", "scatter_mask",
    "matmul_bias", "batch_matmul", "batch_matmul_acc", "gemv", "gemv_acc", "gemv_bias",
}  # fmt: skip
TENSOR_ONLY = {"create_tensor", "create_l1", "expand_clone", "paged_gather"}


def level_of(*operands: Any) -> str:
    """The level of a call: that of its spelling, or tile level if any operand is a tile-level tile."""
    said = _spelled.get()
    if said is not None:
        return said
    tiles = (x.aval for x in operands if isinstance(x, Tracer) and isinstance(x.aval, TileAval))
    return TILE if any(a.level == TILE for a in tiles) else TENSOR


def by_level(function: F) -> F:
    """Mark a function whose meaning depends on the level it is spelled at."""
    function.__by_level__ = True  # type: ignore[attr-defined]
    return function


def spelled_at(function: Any, level: str) -> Any:
    """A function as the namespace of one level has it: itself, where the level changes nothing."""
    if not getattr(function, "__by_level__", False):
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        token = _spelled.set(level)
        try:
            return function(*args, **kwargs)
        finally:
            _spelled.reset(token)

    return call


def only_at(level: str, name: str, operands: Sequence[Any], fix: str, **given: bool) -> None:
    """Refuse keywords that only one level has.

    Args:
      given: for each keyword, whether the call gives it another value than its default.
    Errors:
      PL307, also a TypeError, naming the keyword and both spellings.
    """
    if level_of(*operands) == level:
        return
    other = TENSOR if level == TILE else TILE
    for keyword, is_given in given.items():
        if is_given:
            raise LevelError(
                "PL307",
                f"pl.{name}: `{keyword}` exists at {level} level only: pl.{level}.{name} takes it, pl.{other}.{name} does not",
                fix=fix,
            )
