"""THE platform table: memory spaces with their capacities, alignment, data paths and core counts.

Figures are those the original compiler enforces for each chip family (bytes unless said).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from pypto.errors import CallError

KIB = 1024


class Space(enum.Enum):
    """Where a buffer lives."""

    DDR = "ddr"
    VEC = "vec"
    MAT = "mat"
    LEFT = "left"
    RIGHT = "right"
    ACC = "acc"
    BIAS = "bias"
    LEFT_SCALE = "left_scale"
    RIGHT_SCALE = "right_scale"
    STACK = "stack"  # the scalar unit's own: what `pl.array.create` makes

    # the language's own spellings: other names of the same members
    Vec, Mat, Left, Right, Acc, Bias, LeftScale, RightScale = VEC, MAT, LEFT, RIGHT, ACC, BIAS, LEFT_SCALE, RIGHT_SCALE

    def __str__(self) -> str:
        return self.value


Path = tuple[Space, Space]


@dataclass(frozen=True, eq=False)
class Platform:
    """One chip family.

    Attributes:
      name: the name users write in `platform=`.
      capacity: bytes a kernel may use of each on-chip space.
      paths: the pairs (from, to) between which data can be moved.
      crossings: further pairs, between the cube and the vector unit, that the compiler moves data between by way of global memory.
      row_align: bytes a row of a tile is a multiple of.
      address_align: bytes every on-chip address is a multiple of.
      fractal: elements that m, n and k of a cube operand are multiples of.
      most_rows: rows of a tile that one load fills, per space.
      most_extent: m, n and k of one product of operands that are in LEFT and RIGHT already.
      most_repeats: blocks one instruction repeats over.
      gm_granule: bytes of one efficient access to global memory.
      cube_cores, vector_cores: cores of one device.
      pto_arch: what the assembler calls it.
      family: the chip family, `a2a3` or `a5`: the key of an op's dtypes per chip.
      casts: for each dtype, the dtypes one instruction converts it to.
      checked: whether programs are held to these limits; only `cpu` is not.
    """

    name: str
    capacity: dict[Space, int]
    paths: frozenset[Path]
    crossings: frozenset[Path]
    row_align: int
    address_align: int
    fractal: int
    most_rows: dict[Space, int]
    most_extent: int
    most_repeats: int
    gm_granule: int
    cube_cores: int
    vector_cores: int
    pto_arch: str
    family: str
    casts: dict[str, tuple[str, ...]]
    checked: bool = True

    def moves(self, source: Space, target: Space) -> bool:
        """Whether one instruction moves data from `source` to `target`."""
        return source is target or (source, target) in self.paths

    def carries(self, source: Space, target: Space) -> bool:
        """Whether a program may move data from `source` to `target`: in one instruction, or across the units."""
        return self.moves(source, target) or (source, target) in self.crossings

    def targets(self, source: Space) -> tuple[Space, ...]:
        """The on-chip spaces a program may move data to from `source`, in the order of the table."""
        return tuple(s for s in Space if s is not Space.DDR and s is not source and s in self.capacity and self.carries(source, s))


_A2A3_PATHS: frozenset[Path] = frozenset(
    {
        (Space.DDR, Space.VEC),
        (Space.DDR, Space.MAT),
        (Space.VEC, Space.DDR),
        (Space.MAT, Space.LEFT),
        (Space.MAT, Space.RIGHT),
        (Space.MAT, Space.BIAS),
        (Space.ACC, Space.MAT),
        (Space.ACC, Space.DDR),
    }
)
# A mixed kernel hands tiles from one unit to the other: accumulator and L1 to the vector unit, a vector tile to the cube's operands.
_CROSSINGS: frozenset[Path] = frozenset(
    {(Space.ACC, Space.VEC), (Space.MAT, Space.VEC), (Space.VEC, Space.MAT), (Space.VEC, Space.LEFT), (Space.VEC, Space.RIGHT)}
)
_A5_PATHS = _A2A3_PATHS | {
    (Space.VEC, Space.MAT),
    (Space.ACC, Space.VEC),
    (Space.MAT, Space.LEFT_SCALE),
    (Space.MAT, Space.RIGHT_SCALE),
}


def _casts(text: str) -> dict[str, tuple[str, ...]]:
    """One line per source: the dtype, a colon, the dtypes it converts to in one instruction."""
    rows = (line.split(":") for line in text.strip().splitlines())
    return {source.strip(): tuple(targets.split()) for source, targets in rows}


_A2A3_CASTS = _casts("""
    BF16: FP32 INT32
    FP16: FP32 INT16 INT32 INT4 INT8 UINT8
    FP32: BF16 FP16 INT16 INT32 INT64
    INT16: FP16 FP32
    INT32: FP16 FP32 INT16 INT64
    INT4: FP16
    INT64: FP32 INT32
    INT8: FP16
    UINT8: FP16
""")
_A5_CASTS = _casts("""
    BF16: FP16 FP32 FP4 INT32
    FP16: FP32 HF8 INT16 INT32 INT8 UINT8
    FP32: BF16 FP16 FP8E4M3FN FP8E5M2 HF8 INT16 INT32 INT64
    FP4: BF16
    FP8E4M3FN: FP32
    FP8E5M2: FP32
    HF8: FP32
    INT16: FP16 FP32 INT32 UINT32 UINT8
    INT32: FP32 INT16 INT64 UINT16 UINT8
    INT64: FP32 INT32
    INT8: FP16 INT16 INT32
    UINT32: INT16 UINT16 UINT8
    UINT8: FP16 UINT16
""")
# Vec is cut by the 8 KiB at its top that several vector instructions use as scratch without being told.
_A2A3 = Platform(
    "a2a3",
    capacity={
        Space.VEC: 184 * KIB,
        Space.MAT: 512 * KIB,
        Space.LEFT: 64 * KIB,
        Space.RIGHT: 64 * KIB,
        Space.ACC: 128 * KIB,
        Space.BIAS: 1 * KIB,
    },
    paths=_A2A3_PATHS,
    crossings=_CROSSINGS,
    row_align=32,
    address_align=32,
    fractal=16,
    most_rows={Space.VEC: 4095, Space.MAT: 16384},
    most_extent=4095,
    most_repeats=255,
    gm_granule=512,
    cube_cores=24,
    vector_cores=48,
    pto_arch="a3",
    family="a2a3",
    casts=_A2A3_CASTS,
)
_A5 = Platform(
    "a5",
    capacity={
        Space.VEC: 240 * KIB,
        Space.MAT: 512 * KIB,
        Space.LEFT: 64 * KIB,
        Space.RIGHT: 64 * KIB,
        Space.ACC: 256 * KIB,
        Space.BIAS: 4 * KIB,
        Space.LEFT_SCALE: 4 * KIB,
        Space.RIGHT_SCALE: 4 * KIB,
    },
    paths=_A5_PATHS,
    crossings=_CROSSINGS,
    row_align=32,
    address_align=32,
    fractal=16,
    most_rows={Space.VEC: 4095, Space.MAT: 16384},
    most_extent=4095,
    most_repeats=255,
    gm_granule=128,
    cube_cores=36,
    vector_cores=72,
    pto_arch="a5",
    family="a5",
    casts=_A5_CASTS,
)


def _renamed(base: Platform, name: str, *, checked: bool = True) -> Platform:
    return Platform(**{**base.__dict__, "name": name, "checked": checked})


PLATFORMS: dict[str, Platform] = {
    p.name: p
    for p in (
        _A2A3,
        _renamed(_A2A3, "a2a3sim"),
        _A5,
        _renamed(_A5, "a5sim"),
        _renamed(_A5, "cpu", checked=False),
    )
}


def platform_of(name: str) -> Platform:
    """The row called `name`.

    >>> platform_of("a2a3sim").capacity[Space.VEC]
    188416

    Errors:
      PL606 if there is no such platform.
    """
    row = PLATFORMS.get(name)
    if row is None:
        raise CallError("PL606", f"there is no platform {name!r}", fix=f"one of {', '.join(sorted(PLATFORMS))}")
    return row
