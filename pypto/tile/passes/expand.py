"""Replace composites by their decomposition, so that a tile program holds instructions only."""

from __future__ import annotations

from pypto.core.ir import Atom, Eqn, Jaxpr, Literal, Var
from pypto.core.trace import JaxprTrace, tracing
from pypto.tile.pipeline import tile_pass


class _Strict(JaxprTrace):
    strict = True


def _expanded(eqn: Eqn) -> tuple[list[Eqn], Atom]:
    """The equations of a decomposition on the operands of one equation, and its result."""
    trace = _Strict()
    operands = [a if isinstance(a, Literal) else trace.wrap(a) for a in eqn.ins]
    assert eqn.op.decomposition is not None
    with tracing(trace):
        result = trace.atom(eqn.op.decomposition(*operands, **eqn.params))
    return [e.replace(source=eqn.source) for e in trace.scope.eqns], result


@tile_pass(requires={"SSA"}, provides={"INSTRUCTIONS"})
def expand_composites(jaxpr: Jaxpr) -> Jaxpr:
    """Inline every decomposition, also of composites that use composites. Linear in the result."""
    table: dict[Var, Atom] = {}

    def use(a: Atom) -> Atom:
        return table.get(a, a) if isinstance(a, Var) else a

    def add(e: Eqn, out: list[Eqn]) -> None:
        e = e.replace(ins=tuple(use(a) for a in e.ins))
        if e.op.decomposition is None:
            params = {k: block(p) if isinstance(p, Jaxpr) else p for k, p in e.params.items()}
            out.append(e.replace(params=params))
            return
        eqns, result = _expanded(e)
        for inner in eqns:
            add(inner, out)
        table[e.outs[0]] = use(result)

    def block(j: Jaxpr) -> Jaxpr:
        out: list[Eqn] = []
        for e in j.eqns:
            add(e, out)
        return j.replace(eqns=tuple(out), outs=tuple(use(a) for a in j.outs))

    return block(jaxpr)
