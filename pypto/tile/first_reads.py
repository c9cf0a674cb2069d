"""Outputs that are read before anything can have been written to them: what a caller passes there is never copied in."""

from __future__ import annotations

from pypto.core.avals import RefAval
from pypto.core.ir import Atom, Eqn, Jaxpr, Var
from pypto.tile.outputs import handle_edges


class _FirstReads:
    """One walk in program order. A read is only told when no path to it can have written the buffer."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.back = handle_edges(jaxpr)
        self.outputs = {v for v in jaxpr.invars if isinstance(v.aval, RefAval) and v.aval.direction == "out"}
        self.written: set[Var] = set()
        self.found: dict[Var, Eqn] = {}

    def buffers(self, a: Atom) -> set[Var]:
        """The outputs a handle may be a window of."""
        seen: set[Var] = set()
        work = [a] if isinstance(a, Var) else []
        while work:
            v = work.pop()
            if v not in seen:
                seen.add(v)
                work.extend(self.back.get(v, ()))
        return seen & self.outputs

    def writes_in(self, jaxpr: Jaxpr) -> set[Var]:
        return {b for e in jaxpr.walk() for i in e.op.writes for b in self.buffers(e.ins[i])}

    def visit(self, jaxpr: Jaxpr, around: set[Var], earlier: set[Var]) -> None:
        """`around`: written somewhere in a loop around this body. `earlier`: those of it that an earlier turn may have written."""
        for e in jaxpr.eqns:
            for i in e.op.reads if e.op.name != "accumulate" else ():  # runs tell of an update of an element nobody wrote
                self._read(e, e.ins[i], earlier)
            for body in e.bodies():
                if e.op.name == "cond":  # a branch may be left out in the first turn
                    self.visit(body, around, earlier | around)
                else:
                    turns = self.writes_in(body) if e.op.name == "loop" or e.params.get("kind") == "spmd" else set()
                    self.visit(body, around | turns, earlier)
            for i in e.op.writes:
                self.written |= self.buffers(e.ins[i])

    def _read(self, e: Eqn, handle: Atom, earlier: set[Var]) -> None:
        if len(self.back.get(handle, ())) > 1 if isinstance(handle, Var) else True:  # a handle chosen at run time
            return
        for b in self.buffers(handle):
            if b not in self.written and b not in earlier:
                self.found.setdefault(b, e)


def first_reads(jaxpr: Jaxpr) -> dict[Var, Eqn]:
    """For each output that is read before any write, the first such read."""
    walk = _FirstReads(jaxpr)
    if walk.outputs:
        walk.visit(jaxpr, set(), set())
    return walk.found
