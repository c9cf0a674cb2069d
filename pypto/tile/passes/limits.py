"""Hold every tile of a program to its chip: rows, fractals, sizes, paths and counts; dtypes are in `legal`.

One check per limit, each a generator of errors, so that one run reports everything a program does wrong. What a check says has
the tile's name and type, the bytes or elements it has, the limit, and what to change.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from pypto.core.avals import Aval, RefAval, TileAval
from pypto.core.ir import Eqn, Jaxpr, Literal, Var
from pypto.dtypes import MASK, DType
from pypto.errors import MemorySpaceError, PyptoError
from pypto.platform import Platform, Space
from pypto.source import Frame, Source
from pypto.tile.options import split_of
from pypto.tile.passes.spaces import Spaces, stores

At = Frame | Source | None


def check_limits(jaxpr: Jaxpr, platform: Platform) -> Iterator[PyptoError]:
    """Everything about a program's tiles that the chip cannot do, in program order."""
    spaces, used = Spaces(jaxpr), _used(jaxpr)
    for eqn, share in _eqns(jaxpr, 1):
        yield from _paths(eqn, platform)
        yield from _fractals(eqn, platform)
        yield from _counts(eqn, platform, spaces)
        if any(True for _ in eqn.bodies()):  # what a loop or branch gives was made in its body
            continue
        for out in eqn.outs:
            if isinstance(out.aval, TileAval) and out in used:  # a count that comes beside a result may be left in its register
                where = spaces.of(out)
                yield from _row(out, where, platform, eqn.source)
                yield from _size(out, where, platform, share, eqn.source)


def _used(jaxpr: Jaxpr) -> set[Var]:
    """What some equation, or the end of a body, uses."""
    found = {a for a in jaxpr.outs if isinstance(a, Var)}
    for e in jaxpr.walk():
        found.update(a for a in e.ins if isinstance(a, Var))
        found.update(a for body in e.bodies() for a in body.outs if isinstance(a, Var))
    return found


def _eqns(jaxpr: Jaxpr, share: int) -> Iterator[tuple[Eqn, int]]:
    """Every equation, with the number of vector units that share a tile of its region: two where the region is split."""
    for e in jaxpr.eqns:
        yield e, share
        halves = e.op.name == "region" and split_of(e.params["options"]) is not None
        for body in e.bodies():
            yield from _eqns(body, 2 if halves else share)


# ---- how a tile is told and measured -------------------------------------------------------------------------------


def _called(a: Var | Literal) -> str:
    name = a.name if isinstance(a, Var) else ""
    return f"`{name}`, {a.aval.dtype}[{', '.join(map(str, a.aval.shape))}]" if name else f"a tile {_shown(a.aval)}"


def _shown(aval: Aval) -> str:
    return f"{aval.dtype}[{', '.join(map(str, aval.shape))}]"


def _flat(aval: TileAval) -> tuple[int, int]:
    """Rows and columns as tiles have them on chip: leading axes fold into the rows."""
    shape = aval.static_shape
    return (math.prod(shape[:-1]), shape[-1]) if shape else (1, 1)


def _nbytes(count: int, dtype: DType) -> int:
    return -(-count * dtype.bits // 8)


# ---- rows ----------------------------------------------------------------------------------------------------------


def _row(v: Var, where: frozenset[Space], platform: Platform, at: At) -> Iterator[PyptoError]:
    """A row is whole blocks; a column [n, 1] is stored as one row. What only the cube unit sees is in fractals instead."""
    aval = v.aval
    assert isinstance(aval, TileAval)
    if Space.VEC not in where or aval.dtype is MASK:  # the bits of a mask are padded to whole blocks by what makes them
        return
    rows, columns = _flat(aval)
    column = columns == 1 and rows > 1
    count = rows if column else columns
    have, step = _nbytes(count, aval.dtype), platform.row_align
    if have % step == 0:
        return
    unit = step * 8 // aval.dtype.bits
    padded = -(-count // unit) * unit
    if column:
        what = f"a column of {rows} {aval.dtype.name} is one row of {have} bytes"
        fix = f"make it {padded} rows, a multiple of {unit}: {_padding(aval, -2, padded)}"
    else:
        what = f"a row of {columns} {aval.dtype.name} is {have} bytes"
        fix = f"make the last axis {padded}, a multiple of {unit}: {_padding(aval, -1, padded)}"
    if rows == columns == 1:
        fix = f"{fix}; or keep one number as a scalar: pl.read, pl.write"
    yield MemorySpaceError("PL402", f"{_called(v)}: {what}; rows on {platform.name} are multiples of {step} bytes", fix=fix, at=at)


def _padding(aval: TileAval, axis: int, extent: int) -> str:
    """How to load a tile padded to a larger extent."""
    shape = list(aval.static_shape)
    if len(shape) < -axis:
        axis = -1
    valid = list(shape)
    shape[axis] = extent
    return f"pl.slice(x, {shape}, offsets, valid_shape={valid})"


# ---- fractals ------------------------------------------------------------------------------------------------------


def _factors(e: Eqn) -> list[Var | Literal]:
    """The left and the right operand of a product; nothing of any other equation."""
    return [e.ins[e.op.operands.index(name)] for name in ("a", "b")] if e.op.unit == "cube" else []


def _fractals(e: Eqn, platform: Platform) -> Iterator[PyptoError]:
    """The cube unit works on fractals: m, n and k are whole ones. A left operand may have one row."""
    for side, operand in zip(("left", "right"), _factors(e), strict=False):
        aval = operand.aval
        if not isinstance(aval, TileAval) or aval.rank < 2:
            continue
        block = max(platform.fractal, platform.row_align * 8 // aval.dtype.bits) if platform.fractal > 1 else 1
        turned = e.params.get("a_trans" if side == "left" else "b_trans", False)
        rows = aval.static_shape[-2]
        k_axis = -1 if (side == "left") != bool(turned) else -2
        wanted = {axis: block if axis == k_axis else platform.fractal for axis in (-2, -1)}
        one_row = side == "left" and not turned and rows == 1
        bad = {a: w for a, w in wanted.items() if aval.static_shape[a] % w and not (a == -2 and one_row)}
        if not bad:
            continue
        padded = list(aval.static_shape)
        for axis, unit in bad.items():
            padded[axis] = -(-padded[axis] // unit) * unit
        units = " and ".join(f"{'rows' if a == -2 else 'columns'} that are a multiple of {w}" for a, w in bad.items())
        yield MemorySpaceError(
            "PL403",
            f"the {side} operand of {e.op.name}, {_called(operand)}: the cube unit of {platform.name} takes {units}",
            fix=f"load it padded: pl.slice(x, {padded}, offsets, valid_shape={list(aval.static_shape)})",
            at=e.source,
        )


# ---- sizes ---------------------------------------------------------------------------------------------------------


def _size(v: Var, where: frozenset[Space], platform: Platform, share: int, at: At) -> Iterator[PyptoError]:
    """Each tile by itself fits the spaces it needs.

    A product that is only stored, or multiplied again, may be larger than the accumulator: it is made in parts. Where vector
    instructions want all of it, it may not.
    """
    aval = v.aval
    assert isinstance(aval, TileAval)
    rows, columns = _flat(aval)
    for space in sorted(where, key=lambda s: s.value):
        limit = platform.capacity.get(space)
        if limit is None or (space is Space.ACC and aval.space is None and Space.VEC not in where):
            continue
        step = platform.fractal * (2 if aval.dtype.is_integer and platform.family == "a2a3" else 1)
        count = (-(-rows // step) * step if space is Space.ACC else rows) * columns
        have = _nbytes(count, aval.dtype)
        limit *= share if space is Space.VEC else 1
        if have > limit:
            yield MemorySpaceError(
                "PL404",
                f"{_called(v)} is {have} bytes; {space.name} of {platform.name} holds {limit}",
                fix=f"work on at most {limit * 8 // aval.dtype.bits} elements at a time: a smaller tile inside a loop",
                at=at,
            )
            return


# ---- paths ---------------------------------------------------------------------------------------------------------


def _space(a: Var | Literal) -> Space | None:
    return a.aval.space if isinstance(a.aval, TileAval) else None


def _paths(e: Eqn, platform: Platform) -> Iterator[PyptoError]:
    """Where the author named spaces, data must be able to go the way the program sends it."""
    if e.op.name in ("empty", "get"):
        space = _space(e.outs[0])
        if space is not None and space not in platform.capacity:
            yield _no_path(e, f"{platform.name} has no {space.name}", f"one of {_names(platform.capacity)}")
        return
    if e.op.name in ("move", "extract"):
        target = e.params["space"]
        source = _space(e.ins[0])
        if target not in platform.capacity:
            yield _no_path(e, f"{platform.name} has no {target.name}", f"one of {_names(platform.capacity)}")
        elif source is not None and not platform.carries(source, target):
            yield _no_path(e, f"{platform.name} has no path from {source.name} to {target.name}", _way(source, target, platform))
        return
    for i, a in enumerate(e.ins):
        source = _space(a)
        if source is None or e.op.stays:
            continue
        if stores(e) and i == 1 and _is_global(e.ins[0]) and not platform.carries(source, Space.DDR):
            moved = "move it to VEC first: pl.move(x, target_memory=pl.Mem.VEC)"
            fix = moved if platform.carries(source, Space.VEC) else f"only VEC and ACC are stored from; {_way(source, Space.VEC, platform)}"
            yield _no_path(e, f"{platform.name} has no path from {source.name} to global memory, for {_called(a)}", fix)
        elif e.op.unit == "vector" and not platform.carries(source, Space.VEC):
            fix = "pl.load(x, offsets, shape) brings a tile to VEC"
            yield _no_path(e, f"{e.op.name} works in VEC; {platform.name} has no path there from {source.name}, where {_called(a)} is", fix)


def _is_global(target: Var | Literal) -> bool:
    return isinstance(target.aval, RefAval) and target.aval.space is Space.DDR


def _no_path(e: Eqn, message: str, fix: str) -> PyptoError:
    return MemorySpaceError("PL401", message, fix=fix, at=e.source)


def _names(spaces: dict[Space, int]) -> str:
    return ", ".join(s.name for s in spaces)


def _way(source: Space, target: Space, platform: Platform) -> str:
    """What to write instead of an impossible move."""
    through = [s for s in platform.targets(source) if platform.carries(s, target)]
    if through:
        return f"go through {through[0].name}: pl.move(pl.move(x, pl.Mem.{through[0].name}), pl.Mem.{target.name})"
    from_gm = platform.carries(Space.DDR, target)
    if from_gm:
        return f"load it again from global memory: pl.load(..., target_memory=pl.Mem.{target.name})"
    reach = [s.name for s in platform.targets(source)]
    return f"from {source.name} data goes to {', '.join(reach)}" if reach else f"nothing leaves {source.name} but through a product"


# ---- counts of one instruction -------------------------------------------------------------------------------------


def _counts(e: Eqn, platform: Platform, spaces: Spaces) -> Iterator[PyptoError]:
    if e.op.name == "get" and isinstance(e.outs[0].aval, TileAval):
        rows, columns = _flat(e.outs[0].aval)
        most = min(platform.most_rows[s] for s in (spaces.of(e.outs[0]) & set(platform.most_rows)) or {Space.VEC})
        if rows > most and columns > 1:
            yield _count(e, f"a load of {rows} rows; {platform.name} loads at most {most} at once", "load fewer rows, in a loop")
    elif e.op.unit == "cube":
        for operand, most in ((a, platform.most_extent) for a in _factors(e)):
            if _space(operand) in (Space.LEFT, Space.RIGHT) and max(operand.aval.static_shape) > most:
                what = f"{e.op.name} of {_called(operand)}, in {_space(operand)}; {platform.name} multiplies extents up to {most}"
                yield _count(e, what, "split that axis in a loop with pl.matmul_acc")
    elif e.op.name == "sort32":
        columns, most = e.ins[0].aval.static_shape[-1], platform.most_repeats
        blocks = -(-columns // 32)
        if blocks > most:
            what = f"sort32 of {columns} columns is {blocks} blocks; one instruction of {platform.name} sorts {most}"
            yield _count(e, what, f"sort at most {most * 32} columns at a time and join them with pl.mrgsort")
    elif e.op.name == "mrgsort_runs" and e.params["block_len"] is not None:  # a length known at run time says nothing here
        columns, most = e.ins[0].aval.static_shape[-1], platform.most_repeats
        groups = columns // (4 * e.params["block_len"])
        if groups > most:
            what = f"mrgsort of {columns} columns is {groups} groups of four runs; one instruction of {platform.name} merges {most}"
            yield _count(e, what, "merge a part of the row at a time")


def _count(e: Eqn, message: str, fix: str) -> PyptoError:
    return MemorySpaceError("PL405", message, fix=fix, at=e.source)
