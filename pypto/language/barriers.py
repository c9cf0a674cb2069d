"""Barriers of an spmd body: every block must reach each of them equally often, whatever its index."""

from __future__ import annotations

from pypto.core.avals import RefAval
from pypto.core.ir import Atom, Eqn, Jaxpr, Var
from pypto.errors import TaskError
from pypto.tile.outputs import handle_edges, written


def check_barriers(body: Jaxpr) -> None:
    """Refuse a barrier under a branch, or in a loop, that blocks may take differently.

    Errors:
      PL505 at the barrier.
    """
    if any(e.op.name == "syncall" for e in body.walk()):
        _Uniform(body).check()


class _Uniform:
    """Which values of a body may differ from block to block: what comes from the block index, or from memory the body writes."""

    def __init__(self, body: Jaxpr) -> None:
        self.body = body
        self.varying: set[Var] = set(body.invars)
        self.back = handle_edges(body)
        self.hit = set(written(body))

    def check(self) -> None:
        before = -1
        while before != len(self.varying):  # what a loop carries may come round several times
            before = len(self.varying)
            self._block(self.body, None, final=False)
        self._block(self.body, None, final=True)

    def _differs(self, atoms: tuple[Atom, ...]) -> bool:
        return any(isinstance(a, Var) and a in self.varying for a in atoms)

    def _mark(self, pairs: list[tuple[Var, bool]]) -> None:
        self.varying.update(v for v, differs in pairs if differs)

    def _changes(self, handle: Atom) -> bool:
        """Whether the body may write the buffer behind a handle."""
        work, seen = [handle], set()
        while work:
            v = work.pop()
            if v in self.hit:
                return True
            if isinstance(v, Var) and v not in seen:
                seen.add(v)
                work += self.back.get(v, [])
        return False

    def _block(self, j: Jaxpr, under: Eqn | None, *, final: bool) -> None:
        for e in j.eqns:
            differs = self._differs(e.ins)
            if e.op.name == "syncall" and under is not None and final:
                raise _refused(e, under)
            if e.op.name == "loop":
                self._loop(e, under, final)
            elif e.op.name == "cond":
                self._branch(e, under, final)
            elif any(True for _ in e.bodies()):
                for inner in e.bodies():
                    self._block(inner, e, final=final)
                self._mark([(v, True) for v in e.outs])
            else:
                reads = any(isinstance(e.ins[i].aval, RefAval) and self._changes(e.ins[i]) for i in e.op.reads)
                self._mark([(v, differs or reads) for v in e.outs])
                self._mark([(e.ins[i], differs) for i in e.op.writes if isinstance(e.ins[i], Var)])  # type: ignore[misc]

    def _loop(self, e: Eqn, under: Eqn | None, final: bool) -> None:
        body, bounds = e.params["body"], self._differs(e.ins[:3])
        self._mark([(body.invars[0], bounds)])
        for inside, init, after, out in zip(body.invars[1:], e.ins[3:], body.outs, e.outs, strict=True):
            differs = bounds or self._differs((init, after)) or (bool(e.params.get("exits")) and self._differs(body.invars[1:2]))
            self._mark([(inside, self._differs((init, after))), (out, differs)])
        # a loop that is left early is left by its first carried value
        differently = bounds or (bool(e.params.get("exits")) and self._differs(body.invars[1:2]))
        self._block(body, e if differently else under, final=final)

    def _branch(self, e: Eqn, under: Eqn | None, final: bool) -> None:
        test = self._differs(e.ins[:1])
        then, orelse = e.params["then"], e.params["orelse"]
        for arm in (then, orelse):
            self._block(arm, e if test else under, final=final)
        self._mark([(v, test or self._differs((a, b))) for v, a, b in zip(e.outs, then.outs, orelse.outs, strict=True)])


def _refused(barrier: Eqn, under: Eqn) -> TaskError:
    what = "a branch that blocks may take differently" if under.op.name == "cond" else "a loop that blocks may run differently often"
    return TaskError(
        "PL505",
        f"pl.system.syncall under {what}: blocks that do not reach it leave the others waiting",
        fix="put it after the branch, where every block runs it; the test may depend on what all blocks share only",
        at=barrier.source,
    )
