"""What is needed where: uses of variables, sets of buffers that may meet, slots that may be overwritten, and the arena they come from."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pypto.core.ir import Eqn, Jaxpr, Var, free_vars
from pypto.interpreters.cpu.text import Int
from pypto.interpreters.cpu.values import Lazy, Memory, Root, Slot, Tile, Value, lies_at

if TYPE_CHECKING:
    from pypto.interpreters.cpu.writer import Writer


class Arena:
    """Offsets of on-chip values: first fit, free again when the last reference to a slot is gone."""

    def __init__(self) -> None:
        self.free: list[tuple[int, int]] = []
        self.end = 0

    def take(self, size: int) -> Slot:
        size = max(64, (size + 63) // 64 * 64)
        for i, (offset, room) in enumerate(self.free):
            if room >= size:
                self.free[i : i + 1] = [(offset + size, room - size)] if room > size else []
                return Slot(offset, size, self._back)
        offset, self.end = self.end, self.end + size
        return Slot(offset, size, self._back)

    def _back(self, offset: int, size: int) -> None:
        merged: list[tuple[int, int]] = []
        for o, s in sorted([*self.free, (offset, size)]):
            if merged and merged[-1][0] + merged[-1][1] == o:
                merged[-1] = (merged[-1][0], merged[-1][1] + s)
            else:
                merged.append((o, s))
        self.free = merged


def used(eqn: Eqn) -> list[Var]:
    """The variables an equation uses, each once; so count those its bodies use of the blocks around."""
    inner = (v for body in eqn.bodies() for v in free_vars(body))
    return list(dict.fromkeys(a for a in (*eqn.ins, *inner) if isinstance(a, Var)))


def uses(jaxpr: Jaxpr) -> tuple[dict[Var, int], dict[Var, int]]:
    """How often a body uses what it takes and makes, and what the blocks around made."""
    own: dict[Var, int] = dict.fromkeys(jaxpr.invars, 0)
    borrowed: dict[Var, int] = {}

    def use(v: Var) -> None:
        counts = own if v in own else borrowed
        counts[v] = counts.get(v, 0) + 1

    for e in jaxpr.eqns:
        for v in used(e):
            use(v)
        own.update((v, 0) for v in e.outs)
    for v in dict.fromkeys(a for a in jaxpr.outs if isinstance(a, Var)):
        use(v)
    return own, borrowed


def weight(x: Value) -> int:
    return x.source.weight if isinstance(x, Tile) and isinstance(x.source, Lazy) else 0


def meet(a: frozenset[Root] | None, b: frozenset[Root] | None) -> bool:
    """Whether two sets of buffers may share memory."""
    if a is None or b is None:
        return a != frozenset() and b != frozenset()
    return bool(a & b)


def far(roots: frozenset[Root] | None) -> bool:
    """Whether memory may lie outside of the arena."""
    return roots is None or any(not r.local for r in roots)


def safe(t: Tile, goal: Memory) -> bool:
    """Whether a tile may be computed straight into a slot it may be computed from: then only element by element."""
    for node in t.tree():
        m = node.memory
        if m is not None and m.slot is goal.slot and goal.slot is not None:
            if m.pointer != goal.pointer or m.strides != goal.strides or node.shape != t.shape:
                return False
    return True


def bring(w: Writer, t: Tile, place: Memory) -> None:
    """Have a tile's elements, wherever they are in memory, in a place."""
    if lies_at(t, place):
        return
    if t.memory is not None and t.memory.slot is not None and t.memory.slot is place.slot:  # they may be there in another order
        t = Tile(t.dtype, t.shape, t.valid, w.move(t))
    w.move(t, place)


def offset(w: Writer, strides: Sequence[Int], starts: Sequence[Int]) -> Int:
    """Elements from the beginning of a window to a place in it."""
    total: Int = 0
    for stride, s in zip(strides, starts, strict=True):
        total = w.fn.add(total, w.fn.mul(stride, s))
    return total


def reshaped_valid(w: Writer, old: tuple[int, ...], valid: tuple[Int, ...], new: tuple[int, ...], known: Any) -> tuple[Int, ...]:
    """A valid region, of extents known at run time only, under another shape; `known` are those the abstract rule could tell.

    That it stays a box, that rule has seen: only the first axis of more than one element may be partly valid, in whole rows. Nothing at
    all is valid where an axis of one element is not.
    """
    wide = [(d, v) for d, v in zip(old, valid, strict=True) if d != 1]
    kept = [d for d in new if d != 1]
    if kept == [d for d, _ in wide]:
        extents = iter([v for _, v in wide])
    else:
        row, tail = math.prod(d for d, _ in wide[1:]), math.prod(kept[1:])
        extents = iter([w.fn.mul(wide[0][1], row // tail), *kept[1:]])
    result: list[Int] = [1 if d == 1 else next(extents) for d in new]
    for d, v in zip(old, valid, strict=True):
        if d == 1 and v != 1 and result:
            result[0] = w.fn.pick(w.fn.compare("eq", v, 0), 0, result[0])
    return tuple(r if n is None else n for r, n in zip(result, known or (None,) * len(result), strict=True))


def regrouped(w: Writer, old: tuple[int, ...], strides: Sequence[Int], new: tuple[int, ...]) -> tuple[tuple[Int, ...], list[bool | str]]:
    """Strides, known at run time only, of the same elements under another shape; and what has to hold so that there are any.

    Neighbouring axes whose extents multiply to the same number on both sides belong together: those on the old side must have no gaps.
    """
    wide = [(d, s) for d, s in zip(old, strides, strict=True) if d != 1]
    fresh: list[Int] = [0] * len(new)
    tests: list[bool | str] = []
    axes = [a for a, d in enumerate(new) if d != 1]
    while wide and axes:
        group, members = [wide.pop()], [axes.pop()]
        while (have := math.prod(d for d, _ in group)) != (want := math.prod(new[a] for a in members)):
            if have < want:
                group.append(wide.pop())
            else:
                members.append(axes.pop())
        for (d, s), (_, outer) in itertools.pairwise(group):
            tests.append(w.fn.compare("eq", outer, w.fn.mul(d, s)))
        step = group[0][1]
        for a in members:
            fresh[a], step = step, w.fn.mul(step, new[a])
    return tuple(fresh), tests
