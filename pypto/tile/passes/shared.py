"""Tiles with two names: where an in-place update under one of them would have to be seen under the other.

What a loop carries and what a branch gives are copies in the IR, while in Python they are the same object under another
name. So is the buffer a tile leaves its region in, and the tile a buffer becomes where it is merged with one. The two
differ only if the object is updated in place through one name and read through the other afterwards; that is PL207.
Programs that update no carried or merged tile in place are left after one walk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pypto.core.avals import RefAval, TileAval
from pypto.core.ir import Atom, Eqn, Jaxpr, Var
from pypto.errors import OutputError
from pypto.tile.outputs import handle_edges

Origin = tuple[Var, bool]
"""A tile where it was made, and whether it is the one of an earlier turn of a loop."""


@dataclass(frozen=True)
class _Event:
    """A read or an update: when, in which loops, in which arms of which branches."""

    position: int
    loops: tuple[int, ...]
    arms: tuple[tuple[int, int], ...]
    eqn: Eqn | None = None

    def excludes(self, other: _Event) -> bool:
        """Whether the two stand in different arms of one branch."""
        chosen = dict(self.arms)
        return any(chosen.get(branch, arm) != arm for branch, arm in other.arms)


@dataclass
class _Name:
    """What is known of one variable: a tile, or a buffer that some tile is a copy of or the other way round."""

    position: int
    loops: tuple[int, ...]
    reads: list[_Event] = field(default_factory=list)
    updates: list[_Event] = field(default_factory=list)
    copied: list[tuple[Var, int | None]] = field(default_factory=list)  # from what; the loop, if from its turn before

    def read_after(self, update: _Event) -> bool:
        for read in self.reads:
            if read.position > update.position and not read.excludes(update):
                return True
            # a name from outside a loop still stands for the same tile in the next turn
            if len(read.loops) > len(self.loops) and read.loops[len(self.loops)] in update.loops:
                return True
        return False


def check_shared(jaxpr: Jaxpr) -> None:
    """Refuse in-place updates that another name of the same tile would have to see.

    Errors:
      PL207 at the update.
    """
    names = _Walk().walk(jaxpr)
    tied = list(_tied(names))
    if not tied:
        return
    origins = _origins(names, tied)
    holders: dict[Origin, list[Var]] = {}
    for v in tied:
        for origin in origins[v]:
            holders.setdefault(origin, []).append(v)
    for v in tied:
        for update in names[v].updates:
            for other in dict.fromkeys(o for origin in origins[v] for o in holders[origin]):
                if other is not v and names[other].position < update.position and names[other].read_after(update):
                    raise _refused(v, other, update)


def _refused(updated: Var, other: Var, update: _Event) -> OutputError:
    name, shared = (f"`{v.name}`" if v.name else "a tile" for v in (updated, other))
    again = "the tile that it was before the loop or branch" if updated.name == other.name else shared
    return OutputError(
        "PL207",
        f"{name} may be the same tile as {again}, which is still used after this update in place",
        fix="make a copy before the loop or in the branch, `pl.adds(tile, 0.0)`, or update after the last use of the other name",
        at=update.eqn.source if update.eqn is not None else None,
    )


class _Walk:
    """One walk over a program: every tile variable with its events, and which variables are copies of which."""

    def __init__(self) -> None:
        self.names: dict[Var, _Name] = {}
        self.through: dict[Var, _Name] = {}  # what happens through each handle
        self.sharing: list[tuple[Var, Var]] = []  # a tile, and the handle it was loaded through to be merged
        self.escapes: set[Var] = set()
        self.position = 0
        self.loops: tuple[int, ...] = ()
        self.arms: tuple[tuple[int, int], ...] = ()

    def walk(self, j: Jaxpr) -> dict[Var, _Name]:
        for v in j.invars:
            self.through[v] = _Name(0, ())
        self._block(j)
        if self.sharing or self.escapes:
            self._buffers(j)
        return self.names

    def _buffers(self, j: Jaxpr) -> None:
        """Name the buffers that tiles share, with what happens to them through every handle they have."""
        back = handle_edges(j)
        bases: set[Var] = set(self.escapes)
        for tile, handle in self.sharing:
            for base in _reach(handle, back):
                if base in self.through and base not in back:
                    bases.add(base)
                    self._copy(tile, base)
        forth: dict[Var, list[Var]] = {}
        for to, sources in back.items():
            for of in sources:
                forth.setdefault(of, []).append(to)
        for base in bases:
            name = self.names.setdefault(base, self.through[base])
            if isinstance(base.aval, RefAval) and base.aval.direction not in (None, "in"):
                name.reads.append(self._event())  # the caller sees it at the end
            for handle in _reach(base, forth):
                if handle in self.through and handle is not base:
                    name.reads += self.through[handle].reads
                    name.updates += self.through[handle].updates

    def _event(self, eqn: Eqn | None = None) -> _Event:
        return _Event(self.position, self.loops, self.arms, eqn)

    def _define(self, *variables: Var) -> None:
        for v in variables:
            if isinstance(v.aval, TileAval):
                self.names[v] = _Name(self.position, self.loops)

    def _read(self, atoms: tuple[Atom, ...]) -> None:
        for a in atoms:
            if isinstance(a, Var) and a in self.names:
                self.names[a].reads.append(self._event())

    def _copy(self, to: Var, of: Atom, turn: int | None = None) -> None:
        if to in self.names and isinstance(of, Var):
            self.names[to].copied.append((of, turn))

    def _memory(self, e: Eqn) -> None:
        """What an equation does to buffers."""
        for i in (*e.op.reads, *e.op.writes):
            v = e.ins[i]
            if isinstance(v, Var) and isinstance(v.aval, RefAval):
                handle = self.through.setdefault(v, _Name(self.position, self.loops))
                (handle.updates if i in e.op.writes else handle.reads).append(self._event(e))
        if e.op.name == "alloc":
            self.through[e.outs[0]] = _Name(self.position, self.loops)
        elif e.params.get("shares") and isinstance(e.ins[0], Var):
            if e.op.name == "get":
                if isinstance(e.ins[0].aval, RefAval):
                    self.sharing.append((e.outs[0], e.ins[0]))
            else:  # a tile leaves its region: from here on it goes by the name of its buffer
                self.escapes.add(e.ins[0])
                name = self.names[e.ins[0]] = self.through[e.ins[0]]
                name.position = self.position
                name.updates.clear()
                self._copy(e.ins[0], e.ins[1])

    def _block(self, j: Jaxpr) -> None:
        self._define(*j.invars)
        for e in j.eqns:
            self.position += 1
            update = e.op.name == "set" and isinstance(e.ins[0].aval, TileAval)
            self._read(e.ins[1:] if update else e.ins)
            self._memory(e)
            if update and isinstance(e.ins[0], Var):
                self.names[e.ins[0]].updates.append(self._event(e))
            if e.op.name == "loop":
                self._loop(e)
            elif e.op.name == "cond":
                self._branch(e)
            else:
                for body in e.bodies():
                    self._block(body)
            self.position += 1
            self._define(*e.outs)
            if e.params.get("shares") and e.outs and isinstance(e.ins[0].aval, TileAval):
                self._copy(e.outs[0], e.ins[0])
            if e.op.name == "loop":
                for out, init, after in zip(e.outs, e.ins[3:], e.params["body"].outs, strict=True):
                    self._copy(out, init)
                    self._copy(out, after)
            elif e.op.name == "cond":
                for arm in e.bodies():
                    for out, given in zip(e.outs, arm.outs, strict=True):
                        self._copy(out, given)
        self.position += 1
        self._read(j.outs)

    def _loop(self, e: Eqn) -> None:
        body: Jaxpr = e.params["body"]
        outer, self.loops = self.loops, (*self.loops, id(e))
        self._block(body)
        for inside, init, after in zip(body.invars[1:], e.ins[3:], body.outs, strict=True):
            self._copy(inside, init)
            self._copy(inside, after, id(e))
        self.loops = outer

    def _branch(self, e: Eqn) -> None:
        outer = self.arms
        for number, arm in enumerate(e.bodies()):
            self.arms = (*outer, (id(e), number))
            self._block(arm)
        self.arms = outer


def _reach(start: Var, edges: dict[Var, list[Var]]) -> set[Var]:
    found, work = {start}, [start]
    while work:
        for v in edges.get(work.pop(), ()):
            if v not in found:
                found.add(v)
                work.append(v)
    return found


def _tied(names: dict[Var, _Name]) -> Iterator[Var]:
    """The variables that copies connect to an updated one, without those that stand alone."""
    group: dict[Var, Var] = {}

    def find(v: Var) -> Var:
        while group.get(v, v) is not v:
            group[v] = v = group.get(group[v], group[v])
        return v

    for v, name in names.items():
        for of, _ in name.copied:
            group.setdefault(v, v)
            group.setdefault(of, of)
            group[find(v)] = find(of)
    hot = {find(v) for v, name in names.items() if name.updates and v in group}
    return (v for v in names if v in group and find(v) in hot)


def _origins(names: dict[Var, _Name], tied: list[Var]) -> dict[Var, set[Origin]]:
    """Where the tile under each name may have been made."""
    origins: dict[Var, set[Origin]] = {v: set() if names[v].copied else {(v, False)} for v in tied}
    copies: dict[Var, list[tuple[Var, int | None]]] = {v: [] for v in tied}
    for v in tied:
        for of, turn in names[v].copied:
            copies[of].append((v, turn))
    work = [v for v in tied if origins[v]]
    while work:
        v = work.pop()
        for to, turn in copies[v]:
            # what the turn before made is not what this one makes, though it goes by the same variable
            found = {(o, old or (turn is not None and turn in names[o].loops)) for o, old in origins[v]} - origins[to]
            if found:
                origins[to] |= found
                work.append(to)
    return origins
