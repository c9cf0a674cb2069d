"""Which memory spaces a tile needs: what its maker gives and its users ask for, judged before anything is planned.

A space the author named stands. Otherwise products are made in ACC and their operands come by way of MAT; everything else, and
whatever a vector instruction touches, is in VEC. A tile that both units use needs room in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pypto.core.avals import TileAval
from pypto.core.ir import Atom, Eqn, Jaxpr, Var
from pypto.platform import Space


def accumulates(e: Eqn) -> bool:
    """Whether it is a product that is added to its first operand, in the operand's own memory."""
    return e.op.unit == "cube" and e.op.operands[0] == "acc"


def stores(e: Eqn) -> bool:
    """Whether it writes its second operand into its first."""
    return e.op.writes == (0,)


@dataclass
class _Uses:
    """What is known of the tiles that are one buffer."""

    made: set[Space] = field(default_factory=set)
    wanted: set[Space] = field(default_factory=set)
    stored: bool = False


class Spaces:
    """The spaces of every tile of a program without cells. Linear in the program."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.root: dict[Var, Var] = {}
        self.uses: dict[Var, _Uses] = {}
        eqns = list(jaxpr.walk())
        for e in eqns:
            self._join(e)
        for e in eqns:
            self._makes(e)
        changed = True
        while changed:  # once back through the program, and again only for what a loop carries around
            before = [(len(u.wanted), u.stored) for u in self.uses.values()]
            for e in reversed(eqns):
                self._asks(e)
            changed = before != [(len(u.wanted), u.stored) for u in self.uses.values()]

    def of(self, v: Var) -> frozenset[Space]:
        """The spaces a tile needs room in, one of them where it is made."""
        assert isinstance(v.aval, TileAval)
        known = self._of(v)
        if known.made:
            extra = known.wanted - known.made
            return frozenset(known.made | (extra if Space.ACC in known.made or Space.VEC in known.made else set()))
        return frozenset(known.wanted | ({Space.VEC} if known.stored or not known.wanted else set()))

    # ---- what is one buffer ----

    def _find(self, v: Var) -> Var:
        start = v
        while v in self.root:
            v = self.root[v]
        while start is not v:  # what was walked over is one step from the end afterwards
            self.root[start], start = v, self.root[start]
        return v

    def _of(self, v: Var) -> _Uses:
        return self.uses.setdefault(self._find(v), _Uses())

    def _link(self, a: Atom, b: Atom) -> None:
        if isinstance(a, Var) and isinstance(b, Var) and isinstance(a.aval, TileAval):
            left, right = self._find(a), self._find(b)
            if left is not right:
                self.root[left] = right

    def _join(self, e: Eqn) -> None:
        """What a loop carries and what a branch gives are one buffer with what comes out."""
        if e.op.name == "loop":
            body: Jaxpr = e.params["body"]
            for init, inside, after, out in zip(e.ins[3:], body.invars[1:], body.outs, e.outs, strict=True):
                self._link(init, out)
                self._link(inside, out)
                self._link(after, out)
        elif e.op.name == "cond":
            for a, b, out in zip(e.params["then"].outs, e.params["orelse"].outs, e.outs, strict=True):
                self._link(a, out)
                self._link(b, out)
        elif accumulates(e):
            self._link(e.ins[0], e.outs[0])

    # ---- who makes it, who uses it ----

    def _makes(self, e: Eqn) -> None:
        for out in _tiles(e.outs):
            known = self._of(out)
            assert isinstance(out.aval, TileAval)
            if out.aval.space is not None:
                known.made.add(out.aval.space)
            elif e.op.unit == "cube":
                known.made.add(Space.ACC)
            elif e.op.unit == "vector" and not e.op.stays and not self._rounds_on_the_way_out(e):
                known.made.add(Space.VEC)

    def _asks(self, e: Eqn) -> None:
        for i, v in enumerate(e.ins):
            if not (isinstance(v, Var) and isinstance(v.aval, TileAval)):
                continue
            known = self._of(v)
            if e.op.unit == "cube":
                known.wanted.add(Space.ACC if accumulates(e) and i == 0 else Space.MAT)
            elif stores(e):
                known.stored = True
            elif e.op.stays or self._rounds_on_the_way_out(e):
                out = self._of(e.outs[0])
                known.wanted |= out.wanted | (out.made - {Space.ACC})
                known.stored = known.stored or out.stored
            elif e.op.unit == "vector":
                known.wanted.add(Space.VEC)

    def _rounds_on_the_way_out(self, e: Eqn) -> bool:
        """What leaves the accumulator may be rounded on its way, to even: such a cast needs no room in VEC."""
        if e.op.name != "convert" or e.params["mode"] != "rint":
            return False
        source = e.ins[0]
        return isinstance(source, Var) and isinstance(source.aval, TileAval) and Space.ACC in self._of(source).made


def _tiles(vars: tuple[Var, ...]) -> Iterator[Var]:
    return (v for v in vars if isinstance(v.aval, TileAval))
