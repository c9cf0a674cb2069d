"""Valid regions across the turns of a loop: what is claimed of a carried tile must hold in every turn.

A body is traced once, with what is known of the values that enter its loop. When a turn leaves a carried tile or handle
with another valid region, that claim held for the first turn only: it is weakened, here, to what holds for all of them,
and so is every claim that was derived from it. Each claim is weakened at most once per axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pypto import lax
from pypto.core.avals import Aval, RefAval, ScalarAval, TileAval, join_valid
from pypto.core.ir import Atom, Eqn, Jaxpr, Var
from pypto.errors import OutputError, PyptoError
from pypto.language.trace import PlTrace


class Weakening:
    """Weakens claims in a body that was just traced."""

    def __init__(self, trace: PlTrace) -> None:
        self.trace = trace
        self.changed: set[Var] = set()
        self.weakened: list[Var] = []

    def carries(self, eqns: Sequence[Eqn], inside: Sequence[Var], after: Sequence[Atom]) -> None:
        """Make what a loop's inputs claim hold for what its turns leave.

        Args:
          eqns: the loop's body.
          inside, after: the carried values as the body takes them, and what it makes of them.

        Errors:
          PL301 and others at the equation that cannot take the weaker claim; PL206 where a region has let the stronger one out.
        """
        weaker = True
        while weaker:
            before = len(self.weakened)
            for v, a in zip(inside, after, strict=True):
                self._weaken(v, a.aval)
            weaker = len(self.weakened) > before
            if weaker:
                self._propagate(eqns)

    def _weaken(self, v: Var, other: Aval) -> None:
        """Let `v` claim no more than `other` does."""
        if not isinstance(v.aval, TileAval | RefAval) or not isinstance(other, TileAval | RefAval):
            return
        valid = join_valid(v.aval, other)
        if valid == v.aval.valid:
            return
        if v in self.trace.escaped:
            raise OutputError(
                "PL206",
                f"`{self.trace.escaped[v]}` leaves its region as {v.aval}, but a later turn of this loop makes it partly valid",
                fix="mark the valid region before the loop, pl.set_validshape(x, ...), or carry the filled tile, pl.fillpad(x)",
            )
        v.aval = replace(v.aval, valid=valid)
        self.weakened.append(v)
        self.changed.add(v)

    def _propagate(self, eqns: Sequence[Eqn]) -> None:
        for e in eqns:
            self._follow_aliases(e.ins)
            bodies = list(e.bodies())
            if e.op is lax.loop:
                self._inner_loop(e)
            else:
                for body in bodies:
                    self._propagate(body.eqns)
            for body in bodies:
                self._follow_aliases(body.outs)
            if e.outs and (bodies or any(a in self.changed for a in e.ins if isinstance(a, Var))):
                for out, aval in zip(e.outs, _rule(e), strict=True):
                    self._weaken(out, aval)

    def _inner_loop(self, e: Eqn) -> None:
        body: Jaxpr = e.params["body"]
        inside = body.invars[1:]
        for v, init in zip(inside, e.ins[3:], strict=True):
            self._weaken(v, init.aval)
        self._propagate(body.eqns)
        self.carries(body.eqns, inside, body.outs)

    def _follow_aliases(self, atoms: Sequence[Atom]) -> None:
        """An input that its loop left alone stands for what was there before the loop."""
        for a in atoms:
            if isinstance(a, Var) and a in self.trace.aliases and not isinstance(a.aval, ScalarAval):
                self._weaken(a, self.trace.resolved(a).aval)


def _rule(e: Eqn) -> tuple[Aval, ...]:
    try:
        return e.op.abstract_eval([a.aval for a in e.ins], e.params)
    except PyptoError as error:
        raise type(error)(error.code, error.message, fix=error.fix, at=e.source) from None
