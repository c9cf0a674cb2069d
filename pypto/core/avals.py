"""Abstract values: what is known of a value while a program is traced.

| class | what it stands for |
|---|---|
| `ArrayAval` | a whole array, pure |
| `TileAval` | an on-chip value of a kernel: an array with a level, a space and a valid shape |
| `RefAval` | a handle on a buffer in some memory space, or on a window of one |
| `ScalarAval` | one number; index scalars have the dtype INDEX |
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pypto.core.index import Dim, is_static
from pypto.dtypes import DType
from pypto.platform import Space

Valid = tuple[int | None, ...]
"""The leading extent of each axis that holds data; None where it is known only at run time."""

TENSOR = "tensor"
TILE = "tile"


def show_shape(shape: tuple[Dim, ...] | Valid) -> str:
    return ",".join("?" if d is None else str(d) for d in shape)


@dataclass(frozen=True)
class Aval:
    """Base of all abstract values: a shape and a dtype."""

    shape: tuple[Dim, ...]
    dtype: DType

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape, every extent of which must be a number."""
        assert is_static(self.shape), f"{self} has a run-time extent"
        return self.shape  # type: ignore[return-value]

    def __str__(self) -> str:
        return f"{self.dtype}[{show_shape(self.shape)}]"


@dataclass(frozen=True)
class ArrayAval(Aval):
    """A whole array as an array programmer sees it."""

    __str__ = Aval.__str__


@dataclass(frozen=True)
class TileAval(ArrayAval):
    """An on-chip value. `valid` is None when everything is valid.

    Level and valid shape are carried along, but two tiles have the same *type* when rank, shape and dtype agree.
    """

    level: str = TENSOR
    space: Space | None = None
    valid: Valid | None = None

    def __str__(self) -> str:
        valid = f" valid[{show_shape(self.valid)}]" if self.valid is not None else ""
        space = f" @{self.space}" if self.space is not None else ""
        return f"{super().__str__()}{valid}{space}"

    @property
    def valid_shape(self) -> Valid:
        return self.static_shape if self.valid is None else self.valid


@dataclass(frozen=True)
class RefAval(Aval):
    """A handle: reads and writes through it reach the buffer. `direction` is set on parameters: in, out or inout."""

    space: Space = Space.DDR
    direction: str | None = None
    valid: Valid | None = None

    def __str__(self) -> str:
        mode = f"{self.direction} " if self.direction else ""
        space = "" if self.space is Space.DDR else f" @{self.space}"
        return f"{mode}ref {super().__str__()}{space}"


@dataclass(frozen=True)
class ScalarAval(Aval):
    """One number. `weak` marks one that came from a Python number and still takes the other side's dtype."""

    shape: tuple[Dim, ...] = ()
    dtype: DType = None  # type: ignore[assignment]  # always given; keyword order follows the base class
    weak: bool = False

    def __str__(self) -> str:
        return str(self.dtype)


def scalar(dtype: DType, weak: bool = False) -> ScalarAval:
    return ScalarAval((), dtype, weak)


def type_of(aval: Aval) -> tuple[str, tuple[Dim, ...], DType]:
    """What a carried or merged name must keep: kind, shape and dtype. Valid shape, level and space may vary."""
    kind = "ref" if isinstance(aval, RefAval) else "scalar" if isinstance(aval, ScalarAval) else "array"
    return kind, aval.shape, aval.dtype


def same_type(a: Aval, b: Aval) -> bool:
    return type_of(a) == type_of(b)


def join(a: Aval, b: Aval) -> Aval:
    """The abstract value of a name that holds `a` on one path and `b` on another; both have the same type."""
    if isinstance(a, TileAval) and isinstance(b, TileAval):
        level = a.level if a.level == b.level else TILE
        space = a.space if a.space is b.space else None
        return replace(a, level=level, space=space, valid=join_valid(a, b))
    if isinstance(a, RefAval) and isinstance(b, RefAval):
        return replace(a, direction=None, valid=join_valid(a, b))
    if isinstance(a, ScalarAval) and isinstance(b, ScalarAval):
        return replace(a, weak=a.weak and b.weak)
    return a


def join_valid(a: TileAval | RefAval, b: TileAval | RefAval) -> Valid | None:
    """What is known of a valid region that is one of two."""
    if a.valid is None and b.valid is None:
        return None
    sides = (a.shape if a.valid is None else a.valid, b.shape if b.valid is None else b.valid)
    return tuple(x if x == y and isinstance(x, int) else None for x, y in zip(*sides, strict=True))
