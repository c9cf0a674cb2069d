"""Drop what nobody uses."""

from __future__ import annotations

from pypto.core.ir import Eqn, Jaxpr, Var
from pypto.tile.pipeline import tile_pass


@tile_pass(provides={"NO_DEAD_CODE"})
def dead_code(jaxpr: Jaxpr) -> Jaxpr:
    """Drop equations whose results are unused and that touch no memory. One backward walk."""
    live: set[Var] = set()

    def body(j: Jaxpr) -> tuple[Jaxpr, bool]:
        live.update(a for a in j.outs if isinstance(a, Var))
        kept: list[Eqn] = []
        effects = False
        for eqn in reversed(j.eqns):
            bodies, touched = {}, bool(eqn.op.writes or eqn.op.reads or eqn.op.keep or eqn.op.mark)
            needed = touched or any(v in live for v in eqn.outs)
            if list(eqn.bodies()):
                for key, value in eqn.params.items():
                    if isinstance(value, Jaxpr):
                        bodies[key], inner = body(value)
                        touched |= inner
                needed |= touched
            if needed:
                live.update(a for a in eqn.ins if isinstance(a, Var))
                kept.append(eqn.replace(params={**eqn.params, **bodies}) if bodies else eqn)
                effects |= touched
        return j.replace(eqns=tuple(reversed(kept))), effects

    return body(jaxpr)[0]
