"""Which outputs a program writes completely, whatever its data: for these nobody needs to record writes.

A walk over the program with every loop index as an axis of a grid; offsets are computed on the whole grid at once by the meanings of
the ops. What is under a branch, in a loop whose bounds are data, or at an offset that is data proves nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pypto.core.avals import RefAval, TileAval
from pypto.core.ir import Atom, Eqn, Jaxpr, Literal, Var

_MOST = 1 << 18  # points of a grid that are looked at


@dataclass(frozen=True, eq=False)
class Window:
    """A handle: a box of a parameter. `starts` are offsets on the grid for each of its axes, `axes` those the handle still has."""

    parameter: Var
    starts: tuple[np.ndarray, ...]
    axes: tuple[int, ...]


class _Walk:
    def __init__(self, kernels: Mapping[str, Jaxpr]) -> None:
        self.kernels = kernels
        self.env: dict[Var, Any] = {}  # scalars as arrays over the grid, handles as windows
        self.extents: list[int] = []
        self.written: dict[Var, list[tuple[tuple[np.ndarray, ...], tuple[int, ...]]]] = {}
        self.read: set[Var] = set()

    def value(self, a: Atom) -> Any:
        return np.asarray(a.value) if isinstance(a, Literal) and np.ndim(a.value) == 0 else self.env.get(a) if isinstance(a, Var) else None

    def block(self, jaxpr: Jaxpr, certain: bool) -> None:
        for e in jaxpr.eqns:
            self.step(e, certain)

    def step(self, e: Eqn, certain: bool) -> None:
        name, ins = e.op.name, [self.value(a) for a in e.ins]
        for i in e.op.reads:
            if isinstance(ins[i], Window):
                self.read.add(ins[i].parameter)
        if name == "loop":
            self._loop(e, ins, certain)
        elif name == "call":
            self._call(e, ins, certain)
        elif name == "view" and isinstance(ins[0], Window):
            self._view(e, ins)
        elif name == "set" and isinstance(ins[0], Window):
            if certain:
                self._set(e, ins)
        elif name == "alloc":
            rank = e.outs[0].aval.rank
            self.env[e.outs[0]] = Window(e.outs[0], (np.zeros((), np.int64),) * rank, tuple(range(rank)))
        elif name == "dim" and isinstance(e.ins[0].aval.shape[e.params["axis"]], int):
            self.env[e.outs[0]] = np.asarray(e.ins[0].aval.shape[e.params["axis"]], np.int64)
        elif any(True for _ in e.bodies()):
            for body in e.bodies():
                self.block(body, False)
        elif len(e.outs) == 1 and e.outs[0].aval.shape == () and not e.op.reads and ins and all(isinstance(x, np.ndarray) for x in ins):
            self._scalar(e, ins)

    def _scalar(self, e: Eqn, ins: list[np.ndarray]) -> None:
        if isinstance(e.outs[0].aval, RefAval | TileAval) or math.prod(self.extents) > _MOST:
            return
        with np.errstate(all="ignore"):
            self.env[e.outs[0]] = np.asarray(e.op.meaning(*ins, **e.params))

    def _axis(self, values: range) -> np.ndarray:
        """A new axis of the grid, and its positions."""
        self.extents.append(len(values))
        return np.asarray(values, np.int64).reshape(-1, *[1] * (len(self.extents) - 1))

    def _loop(self, e: Eqn, ins: list[Any], certain: bool) -> None:
        body, bounds = e.params["body"], [x if isinstance(x, np.ndarray) and x.ndim == 0 else None for x in ins[:3]]
        runs = None if any(b is None for b in bounds) or int(bounds[2]) == 0 else range(*(int(b) for b in bounds))  # type: ignore[arg-type]
        known = runs is not None and len(runs) * math.prod(self.extents) <= _MOST
        depth = len(self.extents)
        if known and runs is not None:
            self.env[body.invars[0]] = self._axis(runs)
        for inside, init, after, out in zip(body.invars[1:], ins[3:], body.outs, e.outs, strict=True):
            if isinstance(init, Window) and after is inside:
                self.env[inside] = self.env[out] = init
        self.block(body, certain and known)
        del self.extents[depth:]

    def _call(self, e: Eqn, ins: list[Any], certain: bool) -> None:
        kernel, depth = self.kernels[e.params["kernel"]], len(self.extents)
        invars = list(kernel.invars)
        for v in (x for q in kernel.walk() for x in q.outs):
            self.env.pop(v, None)
        parts = e.params["launch"].divide(ins, blocks=e.params["blocks"])
        ins, certain = list(parts.operands), certain and not e.params["launch"].predicate
        if e.params["blocks"]:
            count = parts.blocks
            known = isinstance(count, np.ndarray) and count.ndim == 0 and int(count) * math.prod(self.extents) <= _MOST
            certain = certain and known
            self.env.pop(invars[0], None)
            if known:
                self.env[invars[0]] = self._axis(range(int(count)))
            invars = invars[1:]
        for v, x in zip(invars, ins, strict=True):
            self.env.pop(v, None)
            if x is not None:
                self.env[v] = x
        self.block(kernel, certain)
        del self.extents[depth:]

    def _view(self, e: Eqn, ins: list[Any]) -> None:
        window, drop = ins[0], e.params["drop"]
        starts = list(window.starts)
        offsets = ins[1 : 1 + len(window.axes)]
        if any(not isinstance(x, np.ndarray) for x in offsets):
            return
        for axis, offset in zip(window.axes, offsets, strict=True):
            starts[axis] = starts[axis] + offset
        kept = tuple(axis for i, axis in enumerate(window.axes) if i not in drop)
        self.env[e.outs[0]] = replace(window, starts=tuple(starts), axes=kept)

    def _set(self, e: Eqn, ins: list[Any]) -> None:
        window, value = ins[0], e.ins[1].aval
        offsets = ins[2:]
        whole = not isinstance(value, TileAval) or value.valid is None
        if not whole or any(not isinstance(x, np.ndarray) for x in offsets) or len(offsets) != len(window.axes):
            return
        starts, sizes = list(window.starts), [1] * len(window.starts)
        for axis, offset, size in zip(window.axes, offsets, e.params["sizes"], strict=True):
            starts[axis], sizes[axis] = starts[axis] + offset, size
        self.written.setdefault(window.parameter, []).append((tuple(starts), tuple(sizes)))


def _covers(shape: Sequence[int], starts: tuple[np.ndarray, ...], sizes: tuple[int, ...]) -> bool:
    """Whether boxes of one size, at these places, are all of a shape."""
    if any(d % n for d, n in zip(shape, sizes, strict=True)):
        return False
    if any(np.any(s % n) or np.any(s < 0) or np.any(s + n > d) for s, n, d in zip(starts, sizes, shape, strict=True)):
        return False
    places, step = np.zeros((), np.int64), 1
    for s, n, d in zip(reversed(starts), reversed(sizes), reversed(shape), strict=True):
        places, step = places + s // n * step, step * (d // n)
    return np.unique(places).size == step


def coverage(orchestration: Jaxpr, kernels: Mapping[str, Jaxpr]) -> tuple[frozenset[Var], frozenset[Var]]:
    """The outputs that every run writes completely, and the parameters something may read."""
    walk = _Walk(kernels)
    for v in orchestration.invars:
        if isinstance(v.aval, RefAval):
            walk.env[v] = Window(v, (np.zeros((), np.int64),) * v.aval.rank, tuple(range(v.aval.rank)))
    walk.block(orchestration, True)
    full = set()
    for v, boxes in walk.written.items():
        shape = v.aval.shape
        if all(isinstance(d, int) for d in shape) and any(_covers(shape, *box) for box in boxes):  # type: ignore[arg-type]
            full.add(v)
    return frozenset(full), frozenset(walk.read | _lost(orchestration, kernels, walk))


def _lost(orchestration: Jaxpr, kernels: Mapping[str, Jaxpr], walk: _Walk) -> set[Var]:
    """Every parameter, if something reads through a handle whose buffer is not known."""
    for e in itertools.chain(orchestration.walk(), *(k.walk() for k in kernels.values())):
        for i in e.op.reads:
            a = e.ins[i]
            if isinstance(a, Var) and isinstance(a.aval, RefAval) and not isinstance(walk.env.get(a), Window):
                return {v for v in orchestration.invars if isinstance(v.aval, RefAval)}
    return set()
