"""Loads that need no memory: the whole of a tile, and the whole of a buffer that nothing ever writes.

Both come from names whose type was settled late. `acc = pl.create_tensor(...)` before a loop is a buffer until the loop's body turns
it into a tile; what was a load of it is then that tile, and what enters the loop is a tile that nobody has written.
"""

from __future__ import annotations

from pypto.core.avals import TileAval
from pypto.core.ir import Atom, Eqn, Jaxpr, Literal, Var, rename
from pypto.core.op import OPS
from pypto.tile.outputs import written
from pypto.tile.pipeline import tile_pass


@tile_pass(requires={"SSA"})
def needless_loads(jaxpr: Jaxpr) -> Jaxpr:
    """Replace loads of tiles by the tiles, and loads of buffers that stay unwritten by `empty`. Linear in the program."""
    hit = written(jaxpr)
    unwritten = {e.outs[0] for e in jaxpr.walk() if e.op.name == "alloc" and e.params["init"] is None and e.outs[0] not in hit}
    same: dict[Var, Atom] = {}

    def block(j: Jaxpr) -> Jaxpr:
        kept: list[Eqn] = []
        for e in j.eqns:
            if _is_whole_load(e):
                source, out = e.ins[0], e.outs[0]
                if isinstance(source.aval, TileAval):
                    same[out] = same.get(source, source) if isinstance(source, Var) else source
                    continue
                if source in unwritten:
                    params = {"shape": e.params["sizes"], "dtype": out.aval.dtype, "level": e.params["level"], "space": e.params["space"]}
                    kept.append(Eqn(OPS["empty"], (), e.outs, params, e.source))
                    continue
            if e.op.name == "get" and isinstance(e.ins[0].aval, TileAval):
                kept.extend(_slice(e))
                continue
            kept.append(e.replace(params={k: block(p) if isinstance(p, Jaxpr) else p for k, p in e.params.items()}))
        return j.replace(eqns=tuple(kept))

    result = block(jaxpr)
    return rename(result, same) if same else result


def _slice(e: Eqn) -> list[Eqn]:
    """A load of a part of a tile, as a slice."""
    source, sizes, (out,) = e.ins[0].aval, e.params["sizes"], e.outs
    (aval,) = OPS["slice"].abstract_eval([a.aval for a in e.ins], {"sizes": sizes})
    if not e.params["drop"]:
        return [Eqn(OPS["slice"], e.ins, (out,), {"sizes": sizes}, e.source)]
    assert isinstance(source, TileAval)
    part = Var(aval, out.name)
    return [
        Eqn(OPS["slice"], e.ins, (part,), {"sizes": sizes}, e.source),
        Eqn(OPS["reshape"], (part,), (out,), {"shape": out.aval.shape}, e.source),
    ]


def _is_whole_load(e: Eqn) -> bool:
    """A load of everything, all of it valid."""
    if e.op.name != "get" or e.params["valid"] is not None or e.params["drop"]:
        return False
    starts = e.ins[1:]
    return e.params["sizes"] == e.ins[0].aval.shape and all(isinstance(a, Literal) and a.value == 0 for a in starts)
