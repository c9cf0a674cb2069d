"""What `optimizations=[...]` of a region may hold: kept on its kernel, checked against what the region does, no number changes."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from pypto.errors import CallError


class SplitMode(enum.Enum):
    """How a mixed region is halved between the cube and the vector unit."""

    NONE = 0
    UP_DOWN = 1
    LEFT_RIGHT = 2


@dataclass(frozen=True)
class Split:
    """The optimization `pl.split(mode)`."""

    mode: SplitMode
    slot_num: int | None = None

    def __str__(self) -> str:
        return f"split({self.mode.name}{'' if self.slot_num is None else f', slot_num={self.slot_num}'})"


@dataclass(frozen=True)
class CrossCoreSlot:
    """The optimization `pl.cross_core_slot(slot_num=n)`."""

    slot_num: int

    def __str__(self) -> str:
        return f"cross_core_slot({self.slot_num})"


@dataclass(frozen=True)
class AutoChunk:
    """The optimization `pl.auto_chunk`."""

    def __str__(self) -> str:
        return "auto_chunk"


auto_chunk = AutoChunk()
"""In `optimizations=[...]` of `pl.at`: its `pl.parallel(..., chunk=n)` loops are cut into tasks of n turns each."""


def _slots(what: str, slot_num: Any) -> int:
    if isinstance(slot_num, bool) or not isinstance(slot_num, int) or slot_num < 1:
        raise CallError("PL601", f"{what}: slot_num={slot_num!r}", fix="a positive number of slots; 2 is usual")
    return slot_num


def split(mode: SplitMode, *, slot_num: int | None = None) -> Split:
    """Ask that a mixed cube and vector region be halved; numbers do not change.

    Args:
      mode: UP_DOWN halves rows, LEFT_RIGHT columns, NONE nothing.
      slot_num: as `pl.cross_core_slot`.
    Errors:
      PL601 for another mode, or a number of slots that is not positive; PL507, when the kernel is lowered, for a region that is
      not mixed.

    >>> print(split(SplitMode.UP_DOWN))
    split(UP_DOWN)
    """
    if not isinstance(mode, SplitMode):
        raise CallError("PL601", f"pl.split: mode={mode!r}", fix="pl.SplitMode.UP_DOWN, LEFT_RIGHT or NONE")
    return Split(mode, None if slot_num is None else _slots("pl.split", slot_num))


def cross_core_slot(*, slot_num: int) -> CrossCoreSlot:
    """How many tiles may be on their way between the cube and the vector cores of a region, in each direction.

    Errors:
      PL601 for a number that is not positive.

    >>> print(cross_core_slot(slot_num=4))
    cross_core_slot(4)
    """
    return CrossCoreSlot(_slots("pl.cross_core_slot", slot_num))


def checked_options(what: str, optimizations: Any) -> tuple[tuple[str, Any], ...]:
    """The optimizations of a scope, as its kernel keeps them.

    Errors:
      PL601 for anything else, and for two of one kind.
    """
    if optimizations is not None and not isinstance(optimizations, list | tuple):
        raise CallError("PL601", f"{what}: optimizations={optimizations!r}", fix="a list: optimizations=[pl.split(pl.SplitMode.UP_DOWN)]")
    given = tuple(optimizations or ())
    for item in given:
        if not isinstance(item, Split | CrossCoreSlot | AutoChunk):
            fix = "pl.split(pl.SplitMode.UP_DOWN), pl.cross_core_slot(slot_num=2) or pl.auto_chunk"
            raise CallError("PL601", f"{what}: {item!r} is no optimization", fix=fix)
        if sum(type(other) is type(item) for other in given) > 1:
            raise CallError("PL601", f"{what}: two optimizations of one kind, {', '.join(map(str, given))}", fix="one of them")
    return (("optimizations", tuple(map(str, given))),) if given else ()
