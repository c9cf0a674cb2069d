"""Buffers that look like a slip of the pen: created, used once, and named like another one with two letters swapped."""

from __future__ import annotations

from collections import Counter

from pypto.core.ir import Eqn, Jaxpr, Var
from pypto.errors import warn
from pypto.source import Frame, resolve


def warn_misspelled(jaxpr: Jaxpr) -> None:
    """PL211 for each such buffer, at the line that created it. Two names that differ in another way are taken as meant."""
    eqns = list(jaxpr.walk())
    created = [e for e in eqns if e.op.name in ("alloc", "empty") and e.outs[0].name]
    if len(created) < 2:
        return
    uses = Counter(a for e in eqns for a in e.ins if isinstance(a, Var))
    uses.update(a for e in eqns for body in e.bodies() for a in body.outs if isinstance(a, Var))
    by_name = {e.outs[0].name: e for e in created}
    for e in created:
        name = e.outs[0].name
        if uses[e.outs[0]] > 1:
            continue
        meant = next((by_name[other] for other in _swapped(name) if other in by_name and uses[by_name[other].outs[0]] > 0), None)
        if meant is not None and by_name[name] is e:
            warn(
                "PL211",
                f"buffer `{name}` is used once; did you mean `{meant.outs[0].name}`{_line(meant)}?",
                fix=f"use `{meant.outs[0].name}`, or give this one a name of its own",
                at=e.source,
            )


def _swapped(name: str) -> list[str]:
    """The names that differ from this one by two neighbouring letters."""
    pairs = (i for i in range(len(name) - 1) if name[i] != name[i + 1] and name[i : i + 2].isalpha())
    return [name[:i] + name[i + 1] + name[i] + name[i + 2 :] for i in pairs]


def _line(e: Eqn) -> str:
    source = resolve(e.source) if isinstance(e.source, Frame) else e.source
    return f" (line {source.line})" if source else ""
