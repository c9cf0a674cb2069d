"""How much of a row anybody reads: what orders elements need not order those behind.

A backward walk. What an op reads of its operands, when only the beginnings of its results are read, is what its rule says
(`Tilewise.reads`); an op that says nothing reads everything, and so does whoever gets what leaves a body.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pypto.core.avals import TileAval
from pypto.core.ir import Atom, Eqn, Jaxpr, Literal, Var
from pypto.interpreters.cpu.rules import Tilewise


@dataclass(frozen=True)
class Prefix:
    """Of every `period` positions of a row, none is read that comes after the first `count`."""

    count: int
    period: int


Wanted = Prefix | None
"""What is read of a value: None for everything."""

Rule = Callable[[Eqn, Sequence[Wanted]], Sequence[Wanted]]
"""From what is read of the results, what is read of the operands."""


def either(a: Wanted, b: Wanted) -> Wanted:
    """What two readers read."""
    if a is None or b is None:
        return None
    if not a.count or not b.count:
        return a if a.count else b
    long, short = max(a.period, b.period), min(a.period, b.period)
    return None if long % short else prefix(max(a.count, b.count), short)


def prefix(count: int, period: int) -> Wanted:
    """The first positions of every period, if that is not all of them."""
    return Prefix(count, period) if count < period else None


def begins(wanted: Wanted, period: int) -> int:
    """How many positions at the beginning of every `period` positions are read."""
    return period if wanted is None or wanted.period % period else min(wanted.count, period)


def of_row(wanted: Wanted, x: Atom) -> int:
    """How many positions of a whole row are read."""
    return begins(wanted, row(x))


def row(x: Atom) -> int:
    """The length of a row of a tile."""
    return x.aval.static_shape[-1]  # type: ignore[union-attr]


class _Walk:
    def __init__(self) -> None:
        self.found: dict[Var, Wanted] = {}

    def use(self, a: Atom, wanted: Wanted) -> None:
        if isinstance(a, Var):
            self.found[a] = either(self.found[a], wanted) if a in self.found else wanted

    def body(self, jaxpr: Jaxpr) -> None:
        for a in jaxpr.outs:
            self.use(a, None)
        for e in reversed(jaxpr.eqns):
            self.step(e)

    def step(self, e: Eqn) -> None:
        for body in e.bodies():
            self.body(body)
        rule, reads = e.op.cpu, None
        if isinstance(rule, Tilewise) and rule.reads:
            reads = _rule(rule.reads)(e, [self.found.get(v) for v in e.outs])
        elif e.op.name in _STRUCTURAL:
            reads = _STRUCTURAL[e.op.name](e, [self.found.get(v) for v in e.outs])
        for a, wanted in itertools.zip_longest(e.ins, reads or ()):
            self.use(a, wanted)


def _rule(where: str) -> Rule:
    module, name = where.split(".")
    return getattr(importlib.import_module(f"pypto.interpreters.cpu.{module}"), name)


def wanted(bodies: Iterable[Jaxpr]) -> dict[Var, Wanted]:
    """What is read of each value of these bodies, if an op of theirs would like to know."""
    given = tuple(bodies)
    if not any(isinstance(e.op.cpu, Tilewise) and e.op.cpu.orders for b in given for e in b.walk()):
        return {}
    walk = _Walk()
    for body in given:
        walk.body(body)
    return walk.found


# ---- what ops read -----------------------------------------------------------------------------------------------


def _number(a: Atom) -> int | None:
    return int(a.value) if isinstance(a, Literal) else None


def _slice(e: Eqn, outs: Sequence[Wanted]) -> Sequence[Wanted]:
    """Up to where the window is read."""
    start = _number(e.ins[len(e.ins[0].aval.shape)])
    if start is None:
        return [None]
    return [prefix(start + of_row(outs[0], e.outs[0]), row(e.ins[0]))]


def _lanes(e: Eqn, outs: Sequence[Wanted]) -> Sequence[Wanted]:
    """Up to the last lane that is read."""
    first, stride = e.op.cpu.uses[e.params["pattern"]]
    count = of_row(outs[0], e.outs[0])
    return [prefix(first + stride * (count - 1) + 1 if count else 0, row(e.ins[0]))]


def _same(e: Eqn, outs: Sequence[Wanted]) -> Sequence[Wanted]:
    return [outs[0]]


def _get(e: Eqn, outs: Sequence[Wanted]) -> Sequence[Wanted] | None:
    """A window of a tile; of a handle nobody asks."""
    rank = len(e.ins[0].aval.shape)
    start = _number(e.ins[rank]) if rank else None
    if not isinstance(e.ins[0].aval, TileAval) or start is None:
        return None
    return [prefix(start + e.params["sizes"][-1], row(e.ins[0]))]


def _set(e: Eqn, outs: Sequence[Wanted]) -> Sequence[Wanted] | None:
    """The valid columns of what is stored."""
    value = e.ins[1].aval
    if not isinstance(value, TileAval) or not value.shape or value.valid is None or value.valid[-1] is None:
        return None
    return [None, prefix(value.valid[-1], row(e.ins[1]))]


SLICE, LANES, SAME = _slice, _lanes, _same
_STRUCTURAL: dict[str, Callable[[Eqn, Sequence[Any]], Sequence[Wanted] | None]] = {"get": _get, "set": _set}
