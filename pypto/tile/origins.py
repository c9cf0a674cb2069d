"""Where an element came from that nobody may see: the padded loads and created tiles behind a store that was refused."""

from __future__ import annotations

from pypto.core.avals import TileAval
from pypto.core.ir import Atom, Eqn, Jaxpr, Var
from pypto.errors import PyptoError
from pypto.source import Source, resolve
from pypto.tile.ir import Program

_MOST = 2


def with_origins(error: PyptoError, program: Program) -> PyptoError:
    """A PL306 that also names the loads and created tiles its element may come from, with their lines; any other error as it is."""
    if error.code != "PL306" or error.source is None:
        return error
    for jaxpr in (program.orchestration, *program.bodies.values()):
        makers = _makers(jaxpr)
        for e in jaxpr.walk():
            if e.op.writes and resolve(e.source) == error.source:
                found = _origins(e, makers)
                if found:
                    return type(error)(error.code, f"{error.message}: {', '.join(found)}", fix=error.fix, at=error.source)
    return error


def _makers(jaxpr: Jaxpr) -> dict[Var, list[Atom | Eqn]]:
    """For each variable what made it, or the variables it stands for, one step back."""
    back: dict[Var, list[Atom | Eqn]] = {}
    for e in jaxpr.walk():
        if e.op.name == "loop":
            body: Jaxpr = e.params["body"]
            for init, inside, after, out in zip(e.ins[3:], body.invars[1:], body.outs, e.outs, strict=True):
                back.setdefault(inside, []).extend((init, after))
                back.setdefault(out, []).extend((init, after))
        elif e.op.name == "cond":
            for a, b, out in zip(e.params["then"].outs, e.params["orelse"].outs, e.outs, strict=True):
                back.setdefault(out, []).extend((a, b))
        else:
            for out in e.outs:
                back.setdefault(out, []).append(e)
    return back


def _origins(store: Eqn, makers: dict[Var, list[Atom | Eqn]]) -> list[str]:
    """Sentences about the nearest padded loads and created tiles, nearest first."""
    seen: set[Var] = set()
    work: list[Atom] = list(store.ins[1:])
    found: dict[str, None] = {}
    while work and len(found) < _MOST:
        v = work.pop(0)
        if not isinstance(v, Var) or v in seen:
            continue
        seen.add(v)
        for made in makers.get(v, ()):
            if not isinstance(made, Eqn):
                work.append(made)
                continue
            sentence = _sentence(made)
            if sentence:
                found[sentence] = None
            else:
                work.extend(a for a in made.ins if isinstance(a.aval, TileAval))
    return list(found)


def _sentence(e: Eqn) -> str:
    """What an equation says of elements that may not be seen; empty if nothing."""
    aval, source = e.outs[0].aval, resolve(e.source)
    if not isinstance(aval, TileAval) or not isinstance(source, Source):
        return ""
    name = f"`{e.outs[0].name}`" if e.outs[0].name else "a tile"
    if e.op.name == "empty":
        return f"{name} was created at line {source.line} and not written"
    if e.op.name == "get" and aval.valid is not None:
        shape = ", ".join("?" if n is None else str(n) for n in aval.valid)
        return f"{name} was loaded at line {source.line} with valid_shape=[{shape}]"
    return ""
