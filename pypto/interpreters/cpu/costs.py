"""How long pieces of a program are thought to take: enough to tell microseconds from milliseconds.

Such a number decides where work is done, and when signals are looked at; never what is computed.
"""

from __future__ import annotations

from collections.abc import Mapping

from pypto.core.avals import RefAval, TileAval
from pypto.core.ir import Eqn, Jaxpr, Literal

_BASE = 3.0  # nanoseconds of any op, whatever its size
_ELEMENT = 0.15  # of an element of the largest operand or result
_PRODUCT = 0.003  # of a multiply-add of a matrix product
_UNKNOWN = 8  # turns of a loop whose bounds are data


class Costs:
    """Estimates for the bodies of one program, in nanoseconds."""

    def __init__(self, kernels: Mapping[str, Jaxpr]) -> None:
        self._kernels = kernels
        self._known: dict[tuple[int, bool], float] = {}

    def straight(self, jaxpr: Jaxpr) -> int:
        """One pass through a body, without the turns of its loops: these are counted where they are made."""
        return 1 + int(self._of(jaxpr, False))

    def whole(self, jaxpr: Jaxpr) -> int:
        """A body with its loops."""
        return 1 + int(min(1e15, self._of(jaxpr, True)))

    def _of(self, jaxpr: Jaxpr, loops: bool) -> float:
        key = (id(jaxpr), loops)
        if key not in self._known:
            self._known[key] = sum(self._eqn(e, loops) for e in jaxpr.eqns)
        return self._known[key]

    def _eqn(self, e: Eqn, loops: bool) -> float:
        name = e.op.name
        if name == "loop":
            return _BASE + (_turns(e) * self._of(e.params["body"], True) if loops else 0)
        if name == "call":
            blocks = 1.0
            if e.params["blocks"]:
                blocks = float(e.ins[0].value) if isinstance(e.ins[0], Literal) else _UNKNOWN
            return _BASE + blocks * self._of(self._kernels[e.params["kernel"]], loops)
        bodies = list(e.bodies())
        if bodies:
            return _BASE + max(self._of(b, loops) for b in bodies)
        return _BASE + _work(e)


def _turns(e: Eqn) -> float:
    bounds = [int(a.value) for a in e.ins[:3] if isinstance(a, Literal)]
    if len(bounds) < 3 or bounds[2] == 0 or e.params.get("exits"):
        return _UNKNOWN
    return len(range(*bounds))


def _work(e: Eqn) -> float:
    sizes = []
    for a in (*e.ins, *e.outs):
        aval = a.aval
        extents = e.params.get("sizes", ()) if isinstance(aval, RefAval) else aval.shape if isinstance(aval, TileAval) else ()
        size = 1.0
        for d in extents:
            size *= d if isinstance(d, int) else 64
        sizes.append(size)
    if e.op.unit == "cube" and e.ins and len(e.ins[0].aval.shape) >= 2:
        depth = max((d for d in e.ins[0].aval.shape[-2:] if isinstance(d, int)), default=64)
        return max(sizes) * depth * _PRODUCT
    return max(sizes, default=1.0) * _ELEMENT * getattr(e.op.cpu, "weight", 1.0)
