"""Cells: tiles that are updated in place become values where that is straight-line, and on-chip buffers elsewhere.

Also where lost tile writes (PL205) are found, which needs all uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pypto import dtypes
from pypto.core.avals import RefAval, TileAval, scalar
from pypto.core.ir import Atom, Eqn, Jaxpr, Literal, Var
from pypto.core.op import OPS
from pypto.errors import OutputError
from pypto.platform import Space
from pypto.tile.passes.shared import check_shared
from pypto.tile.pipeline import tile_pass


def is_update(e: Eqn) -> bool:
    """An in-place update of a tile."""
    return e.op.name == "set" and isinstance(e.ins[0].aval, TileAval)


@dataclass
class _Cell:
    """What is known of one tile that is updated in place."""

    var: Var
    updates: list[Eqn] = field(default_factory=list)
    straight: bool = True


@tile_pass(provides={"SSA"})
def promote_cells(jaxpr: Jaxpr) -> Jaxpr:
    """Remove in-place updates of tiles. Linear in the program."""
    check_shared(jaxpr)
    cells = _find(jaxpr)
    if not cells:
        return jaxpr
    _check_lost(jaxpr, cells)
    return _Promoter(cells).block(jaxpr)


def _find(jaxpr: Jaxpr) -> dict[Var, _Cell]:
    """Updated tiles; `straight` when every update stands in the block that defines the tile and is fully valid."""
    cells: dict[Var, _Cell] = {}
    home: dict[Var, Jaxpr] = {}

    def visit(j: Jaxpr) -> None:
        for v in j.invars:
            home[v] = j
        for e in j.eqns:
            for v in e.outs:
                home[v] = j
            if is_update(e):
                var = e.ins[0]
                assert isinstance(var, Var)
                cell = cells.setdefault(var, _Cell(var))
                cell.updates.append(e)
                value = e.ins[1].aval
                whole = not isinstance(value, TileAval) or value.valid is None
                cell.straight &= home[var] is j and whole
            for b in e.bodies():
                visit(b)

    visit(jaxpr)
    return cells


def _check_lost(jaxpr: Jaxpr, cells: dict[Var, _Cell]) -> None:
    """PL205: the last update of a tile must be followed by a read of it, or by another turn of a loop that reads it."""
    pending: dict[Var, Eqn] = {}

    def visit(j: Jaxpr) -> tuple[set[Var], set[Var]]:
        """(tiles read, tiles made) in a block; leaves `pending` with the updates nobody has read yet."""
        reads: set[Var] = set()
        made: set[Var] = set(j.invars)

        def read(atoms: Sequence[Atom]) -> None:
            for a in atoms:
                if isinstance(a, Var):
                    reads.add(a)
                    pending.pop(a, None)

        for e in j.eqns:
            made.update(e.outs)
            read(e.ins[1:] if is_update(e) else e.ins)
            before, after = dict(pending), {}
            for b in e.bodies():
                pending.clear()
                pending.update(before)  # every arm starts from what was pending before the branch
                inner_reads, inner_made = visit(b)
                reads |= inner_reads
                made |= inner_made
                if e.op.name == "loop":
                    for v in inner_reads - inner_made:
                        pending.pop(v, None)
                after.update(pending)
            if any(True for _ in e.bodies()):
                pending.clear()
                pending.update(after)
            if is_update(e):
                var = e.ins[0]
                assert isinstance(var, Var)
                pending[var] = e
        read(j.outs)
        return reads, made

    visit(jaxpr)
    for var, e in pending.items():
        if var in cells:
            name = f"`{var.name}`" if var.name else "a tile"
            raise OutputError(
                "PL205",
                f"{name} is updated here and never read again: a tile is on chip, so nothing reaches memory",
                fix="store it: `out[...] = tile`; to write a tensor, index the tensor itself in one subscript",
                at=e.source,
            )


class _Promoter:
    """Rewrites blocks: `now` maps a straight-line cell to its current value, `buffers` a cell to its on-chip buffer."""

    def __init__(self, cells: dict[Var, _Cell]) -> None:
        self.cells = cells
        self.now: dict[Var, Atom] = {}
        self.buffers: dict[Var, tuple[Var, tuple[Atom, ...]]] = {}

    def block(self, j: Jaxpr) -> Jaxpr:
        out: list[Eqn] = []
        for v in j.invars:
            self._define(v, out, None)
        for e in j.eqns:
            if is_update(e):
                self._update(e, out)
                continue
            ins = tuple(self._use(a, out, e.source) for a in e.ins)
            params = {k: self.block(p) if isinstance(p, Jaxpr) else p for k, p in e.params.items()}
            out.append(Eqn(e.op, ins, e.outs, params, e.source))
            for v in e.outs:
                self._define(v, out, e.source)
        outs = tuple(self._use(a, out, None) for a in j.outs)
        return j.replace(eqns=tuple(out), outs=outs)

    def _define(self, v: Var, out: list[Eqn], source: Any) -> None:
        cell = self.cells.get(v)
        if cell is None or cell.straight:
            return
        aval = v.aval
        assert isinstance(aval, TileAval)
        space = aval.space or Space.VEC
        buffer = Var(RefAval(aval.shape, aval.dtype, space), v.name)
        params = {"shape": aval.static_shape, "dtype": aval.dtype, "space": space, "init": None, "name": v.name}
        out.append(Eqn(OPS["alloc"], (), (buffer,), params, source))
        zeros = (_index(0),) * aval.rank
        # the buffer holds what lies outside the valid region too: it may be filled in place, and marked valid later
        whole: Atom = v if aval.valid is None else _marked(v, tuple(map(_index, aval.static_shape)), replace(aval, valid=None), out, source)
        out.append(Eqn(OPS["set"], (buffer, whole, *zeros), (), {"sizes": aval.static_shape, "drop": ()}, source))
        extents: list[Atom] = []
        for axis, known in enumerate(aval.valid_shape):
            if known is None:
                extent = Var(scalar(dtypes.INDEX), f"{v.name}_valid{axis}")
                out.append(Eqn(OPS["valid_extent"], (v,), (extent,), {"axis": axis}, source))
                extents.append(extent)
            else:
                extents.append(_index(known))
        self.buffers[v] = buffer, tuple(extents)

    def _use(self, a: Atom, out: list[Eqn], source: Any) -> Atom:
        if not isinstance(a, Var):
            return a
        if a in self.now:
            return self.now[a]
        if a not in self.buffers:
            return a
        buffer, extents = self.buffers[a]
        aval = a.aval
        assert isinstance(aval, TileAval)
        loaded = Var(replace(aval, valid=None), a.name)
        params = {"sizes": aval.static_shape, "drop": (), "valid": None, "level": aval.level, "space": aval.space}
        out.append(Eqn(OPS["get"], (buffer, *(_index(0),) * aval.rank), (loaded,), params, source))
        return loaded if aval.valid is None else _marked(loaded, extents, aval, out, source)

    def _update(self, e: Eqn, out: list[Eqn]) -> None:
        target, value, *offsets = e.ins
        assert isinstance(target, Var)
        rest = tuple(self._use(a, out, e.source) for a in (value, *offsets))
        if target in self.buffers:
            out.append(Eqn(e.op, (self.buffers[target][0], *rest), (), e.params, e.source))
            return
        fresh = Var(target.aval, target.name)
        current = self.now.get(target, target)
        out.append(Eqn(OPS["update"], (current, *rest), (fresh,), {"sizes": e.params["sizes"]}, e.source))
        self.now[target] = fresh


def _marked(v: Var, extents: Sequence[Atom], aval: TileAval, out: list[Eqn], source: Any) -> Var:
    """The tile with these leading extents as its valid region, which `aval` says as far as it is known."""
    known = tuple(int(e.value) if isinstance(e, Literal) else None for e in extents)
    marked = Var(aval, v.name)
    out.append(Eqn(OPS["set_validshape"], (v, *extents), (marked,), {"known": known}, source))
    return marked


def _index(i: int) -> Literal:
    return Literal(np.int64(i), scalar(dtypes.INDEX))
