"""What is known of a program before it runs, whatever its data: outputs that are written completely, accesses that are inside, loops
whose turns are independent of each other.

A walk over the program with every loop index as an axis of a grid; offsets are computed on the whole grid at once by the meanings of
the ops. What is at an offset that is data, or in a loop whose bounds are data, proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pypto.core.avals import RefAval, ScalarAval, TileAval
from pypto.core.ir import Atom, Eqn, Jaxpr, Literal, Var
from pypto.interpreters.cpu.coverage import MOST, Written, comes_before, covers
from pypto.interpreters.cpu.independence import Access, conflict, moves, steady

_FEW = 8
"""Turns that stand for all those of a loop whose end is known at run time only: offsets are sums and multiples of its index. Where all
of a turn moves by one step, turns next to each other are as far apart as these everywhere, and others farther."""

_RECENT = 8  # stores to a buffer that are looked at when it is read

_SILENT = {"dim", "valid_extent", "unset"}
"""Structural ops that touch no memory."""


@dataclass(frozen=True)
class Facts:
    """What a walk found.

    Attributes:
      full: the outputs that every run writes completely.
      read: the parameters of which something may read what was there before.
      fresh: the buffers made by the orchestration of which nothing is read before it is written.
      inside: the accesses, by the identity of their equations, that stay inside their buffers in every run.
      independent: the parallel loops and launches, likewise, whose turns may run at the same time; and whether their updates have to be
        made in the order of the turns.
      steady: for the loops and launches of the orchestration, likewise, how many axes of the grid are around them, and the loads from
        buffers that nothing inside writes.
    """

    full: frozenset[Var]
    read: frozenset[Var]
    fresh: frozenset[Var]
    inside: frozenset[int]
    independent: Mapping[int, bool]
    steady: Mapping[int, tuple[int, tuple[Access, ...]]]


@dataclass(frozen=True, eq=False)
class Window:
    """A handle: a box of a buffer.

    Attributes:
      starts: offsets on the grid for each axis of the buffer, None where they are not known.
      sizes: extents for each axis of the buffer, None likewise.
      axes: which axis of the buffer each axis of the handle is; None after a reshape.
    """

    buffer: Var
    starts: tuple[np.ndarray | None, ...]
    sizes: tuple[int | None, ...]
    axes: tuple[int, ...] | None

    @staticmethod
    def whole(v: Var) -> Window:
        sizes = tuple(d if isinstance(d, int) else None for d in v.aval.shape)
        return Window(v, (np.zeros((), np.int64),) * len(sizes), sizes, tuple(range(len(sizes))))

    @property
    def is_whole(self) -> bool:
        """Whether offsets in the handle are offsets in the buffer, and extents the buffer's."""
        whole = Window.whole(self.buffer)
        return self.axes == whole.axes and self.sizes == whole.sizes and all(s is not None and not np.any(s) for s in self.starts)

    def part(self, offsets: Sequence[Any], sizes: Sequence[int | None]) -> Window:
        """A window of the handle; the whole of it where that cannot be told."""
        if self.axes is None:
            return self
        starts, extents = list(self.starts), list(self.sizes)
        for axis, offset, size in zip(self.axes, offsets, sizes, strict=True):
            base = starts[axis]
            starts[axis] = base + offset if isinstance(offset, np.ndarray) and base is not None else None
            extents[axis] = size
        return replace(self, starts=tuple(starts), sizes=tuple(extents))


class _Walk:
    def __init__(self, kernels: Mapping[str, Jaxpr]) -> None:
        self.kernels = kernels
        self.env: dict[Var, Any] = {}  # scalars as arrays over the grid, handles as windows
        self.extents: list[int] = []
        self.written: dict[Var, list[Written]] = {}
        self.endless: set[int] = set()
        self.loops: list[int] = []  # the loops around, one for each axis of the grid; each run of this walk through a loop is another
        self.count = 0
        self.read: set[Var] = set()
        self.outer: set[Var] = set()  # parameters, and what the orchestration makes
        self.lost = False  # something read through a handle whose buffer is not known
        self.log: list[Access] = []
        self.made: list[Var] = []
        self.seen: set[int] = set()
        self.outside: set[int] = set()
        self.independent: dict[int, bool] = {}
        self.steady: dict[int, tuple[int, tuple[Access, ...]]] = {}
        self.inner = 0

    def value(self, a: Atom) -> Any:
        if isinstance(a, Literal):
            return np.asarray(a.value) if np.ndim(a.value) == 0 else None
        return self.env.get(a)

    def block(self, jaxpr: Jaxpr, certain: bool) -> None:
        for e in jaxpr.eqns:
            self.step(e, certain)

    def step(self, e: Eqn, certain: bool) -> None:
        name, ins = e.op.name, [self.value(a) for a in e.ins]
        for v in e.outs:
            self.env.pop(v, None)
        rule = getattr(self, f"_{name}", None)
        if name in ("loop", "call"):
            rule(e, ins, certain)  # type: ignore[misc]  # both are there
        elif name == "set":
            self._set(e, ins, certain)
        elif name in ("view", "get", "read", "reshape_view", "transpose_view", "valid_view", "bits_view", "alloc"):
            rule(e, ins)  # type: ignore[misc]
        elif name == "dim":
            extent = e.ins[0].aval.shape[e.params["axis"]]
            if isinstance(extent, int):
                self.env[e.outs[0]] = np.asarray(extent, np.int64)
        elif any(True for _ in e.bodies()):
            for body in e.bodies():
                for v in body.invars:
                    self.env.pop(v, None)
                self.block(body, False)
        else:
            self._other(e, ins)

    # ---- accesses ----

    def touch(self, kind: str, e: Eqn, operand: int, window: Window | None, load: Eqn | None = None) -> None:
        if not isinstance(e.ins[operand].aval, RefAval):
            return
        if kind != "write" and window is None:
            self.lost = True
        if kind != "write" and window is not None and window.buffer not in self.read and window.buffer in self.outer:
            done = self.written.get(window.buffer, ())
            before = (comes_before(w, window.starts, window.sizes, self.loops) for w in done[-_RECENT:])
            if any(map(self._endless, window.starts)) or not any(before):
                self.read.add(window.buffer)
        where = (None, (), ()) if window is None else (window.buffer, window.starts, window.sizes)
        self.log.append(Access(kind, *where, load, tuple(self.extents), frozenset(self.endless)))

    def within(self, e: Eqn, offsets: Sequence[Any], sizes: Sequence[int | None], more: bool = True) -> None:
        """Note whether a window of operand 0 is inside, at every point of the grid."""
        self.seen.add(id(e))
        for extent, offset, size in zip(e.ins[0].aval.shape, offsets, sizes, strict=True):
            if not (more and isinstance(extent, int) and size is not None and self._holds(offset, 0, extent - size)):
                self.outside.add(id(e))
                return

    def _holds(self, x: Any, low: int, high: int) -> bool:
        """Whether a number is known to be between two others at every point of the grid, and in every turn that this stands for."""
        if not isinstance(x, np.ndarray) or self._endless(x):
            return False
        return x.size == 0 or bool(x.min() >= low and x.max() <= high)

    def _other(self, e: Eqn, ins: list[Any]) -> None:
        """Any other op: what it reads or writes is what its slots say, all of the handle; what is not known to be harmless writes."""
        updates = e.op.name == "accumulate"
        for i in sorted({*e.op.reads, *e.op.writes}):
            window = ins[i] if isinstance(ins[i], Window) else None
            if updates and window is not None:
                window = window.part(ins[2:], e.params["sizes"])
            kinds = ["update"] if updates else [k for k, s in (("read", e.op.reads), ("write", e.op.writes)) if i in s]
            for kind in kinds:
                self.touch(kind, e, i, window)
        if updates:
            self.within(e, ins[2:], e.params["sizes"])
        if e.op.unit == "control" and not e.op.reads and not e.op.writes and not e.op.mark and e.op.name not in _SILENT:
            self.log.append(Access("write", None, (), ()))
        elif len(e.outs) == 1 and isinstance(e.outs[0].aval, ScalarAval) and ins and all(isinstance(x, np.ndarray) for x in ins):
            self._scalar(e, ins)

    def _scalar(self, e: Eqn, ins: list[np.ndarray]) -> None:
        if sum(map(self._endless, ins)) > (e.op.name in ("add", "sub")) + (e.op.name in ("add", "sub", "mul")):
            return  # it may come back to where it was after more turns than are looked at
        if e.op.reads or math.prod(np.broadcast_shapes(*(x.shape for x in ins))) > MOST:
            return
        with np.errstate(all="ignore"):
            self.env[e.outs[0]] = np.asarray(e.op.meaning(*ins, **e.params))

    def _alloc(self, e: Eqn, ins: list[Any]) -> None:
        self.env[e.outs[0]] = Window.whole(e.outs[0])
        self.made.append(e.outs[0])
        if not self.inner:
            self.outer.add(e.outs[0])

    def _view(self, e: Eqn, ins: list[Any]) -> None:
        rank, drop = len(e.ins[0].aval.shape), e.params["drop"]
        self.within(e, ins[1 : 1 + rank], e.params["sizes"])
        if isinstance(ins[0], Window):
            part = ins[0].part(ins[1 : 1 + rank], e.params["sizes"])
            kept = None if part.axes is None else tuple(axis for i, axis in enumerate(part.axes) if i not in drop)
            self.env[e.outs[0]] = replace(part, axes=kept)

    def _valid_view(self, e: Eqn, ins: list[Any]) -> None:
        if isinstance(ins[0], Window):
            self.env[e.outs[0]] = ins[0]

    _bits_view = _valid_view  # elements of the same width: the window stays

    def _reshape_view(self, e: Eqn, ins: list[Any]) -> None:
        if isinstance(ins[0], Window):
            self.env[e.outs[0]] = replace(ins[0], axes=None)

    def _transpose_view(self, e: Eqn, ins: list[Any]) -> None:
        if isinstance(ins[0], Window):
            axes = ins[0].axes
            self.env[e.outs[0]] = replace(ins[0], axes=None if axes is None else tuple(axes[i] for i in e.params["permutation"]))

    def _get(self, e: Eqn, ins: list[Any]) -> None:
        rank, sizes, marked = len(e.ins[0].aval.shape), e.params["sizes"], e.params["valid"]
        extra = iter(ins[1 + rank :])
        valid = [] if marked is None else [next(extra) if v is None else np.asarray(v) for v in marked]
        fits = all(self._holds(v, 0, n) for v, n in zip(valid, sizes))
        self.within(e, ins[1 : 1 + rank], sizes, fits)
        window = ins[0].part(ins[1 : 1 + rank], sizes) if isinstance(ins[0], Window) else None
        self.touch("read", e, 0, window, e if isinstance(ins[0], Window) and ins[0].is_whole else None)

    def _read(self, e: Eqn, ins: list[Any]) -> None:
        self.within(e, ins[1:], [1] * len(ins[1:]))
        self.touch("read", e, 0, ins[0].part(ins[1:], [1] * len(ins[1:])) if isinstance(ins[0], Window) else None)

    def _set(self, e: Eqn, ins: list[Any], certain: bool) -> None:
        value, sizes = e.ins[1].aval, e.params["sizes"]
        self.within(e, ins[2:], sizes)
        window = ins[0].part(ins[2:], sizes) if isinstance(ins[0], Window) else None
        self.touch("write", e, 0, window)
        whole = not isinstance(value, TileAval) or value.valid is None
        if certain and whole and window is not None and window.axes is not None:
            if all(x is not None for x in (*window.starts, *window.sizes)):
                self.written.setdefault(window.buffer, []).append(Written(window.starts, window.sizes, tuple(self.loops)))  # type: ignore[arg-type]

    # ---- control ----

    def _axis(self, values: range) -> np.ndarray:
        """A new axis of the grid, and its positions."""
        self.extents.append(len(values))
        self.count += 1
        self.loops.append(self.count)
        return np.asarray(values, np.int64).reshape(-1, *[1] * (len(self.extents) - 1))

    def _endless(self, offset: Any) -> bool:
        """Whether an offset varies with the index of a loop whose end is not known."""
        return isinstance(offset, np.ndarray) and any(moves(offset, axis) for axis in self.endless)

    def _turns(self, e: Eqn, count: int, start: int, made: int) -> None:
        """Note whether the turns along the newest axis are independent of each other."""
        found = conflict(self.log[start:], frozenset(self.made[made:]), len(self.extents) - 1, count)
        if found is not None:
            self.independent[id(e)] = found

    def _launch(self, e: Eqn, depth: int, start: int, made: int) -> None:
        """Note what a loop or a launch of the orchestration only reads."""
        found = () if self.inner else steady(self.log[start:], frozenset(self.made[made:]))
        if found:
            self.steady[id(e)] = depth, found

    def _loop(self, e: Eqn, ins: list[Any], certain: bool) -> None:
        body, bounds = e.params["body"], [x if isinstance(x, np.ndarray) and x.ndim == 0 else None for x in ins[:3]]
        runs = None if any(b is None for b in bounds) or int(bounds[2]) == 0 else range(*(int(b) for b in bounds))  # type: ignore[arg-type]
        if runs is not None and (len(runs) > MOST or e.params.get("exits")):
            runs = None
        depth, start, made = len(self.extents), len(self.log), len(self.made)
        first, _, step = bounds
        parallel = e.params["kind"] == "parallel" and not e.outs and not self.inner and not e.params.get("exits")
        if parallel and bounds[1] is None and first is not None and step is not None and int(step) > 0:
            runs, certain = range(int(first), int(first) + _FEW * int(step), int(step)), False
            self.endless.add(depth)
        for v in body.invars:
            self.env.pop(v, None)
        if runs is not None:
            self.env[body.invars[0]] = self._axis(runs)
        for inside, init, after, out in zip(body.invars[1:], ins[3:], body.outs, e.outs, strict=True):
            if isinstance(init, Window) and after is inside:
                self.env[inside] = self.env[out] = init
        self.block(body, certain and runs is not None and len(runs) > 0)
        if runs is not None and parallel:
            self._turns(e, len(runs), start, made)
        self._launch(e, depth, start, made)
        self._leave(depth)

    def _call(self, e: Eqn, ins: list[Any], certain: bool) -> None:
        kernel, depth = self.kernels[e.params["kernel"]], len(self.extents)
        start, made = len(self.log), len(self.made)
        invars, count = list(kernel.invars), None
        parts = e.params["launch"].divide(ins, blocks=e.params["blocks"])
        certain = certain and not e.params["launch"].predicate
        if e.params["blocks"]:
            if isinstance(parts.blocks, np.ndarray) and parts.blocks.ndim == 0 and int(parts.blocks) <= MOST:
                count = int(parts.blocks)
            elif not self.inner:
                count, certain = _FEW, False
                self.endless.add(depth)
            self.env.pop(invars[0], None)
            if count is not None:
                self.env[invars[0]] = self._axis(range(count))
            invars = invars[1:]
        for v, x in zip(invars, parts.operands, strict=True):
            self.env.pop(v, None)
            if x is not None:
                self.env[v] = x
        self.inner += 1
        self.block(kernel, certain and (count is None) == (not e.params["blocks"]))
        self.inner -= 1
        if count is not None:
            self._turns(e, count, start, made)
        self._launch(e, depth, start, made)
        self._leave(depth)

    def _leave(self, depth: int) -> None:
        """Back to the grid around a loop: what was computed on its axis is no longer of use."""
        if len(self.extents) > depth:
            del self.extents[depth:], self.loops[depth:]
            self.endless = {axis for axis in self.endless if axis < depth}
            stale = [v for v, x in self.env.items() if isinstance(x, np.ndarray) and x.ndim > depth]
            stale += [v for v, x in self.env.items() if isinstance(x, Window) and any(s is not None and s.ndim > depth for s in x.starts)]
            for v in stale:
                del self.env[v]


def facts(orchestration: Jaxpr, kernels: Mapping[str, Jaxpr]) -> Facts:
    """What can be told of a program without its data."""
    walk = _Walk(kernels)
    for v in orchestration.invars:
        if isinstance(v.aval, RefAval):
            walk.env[v] = Window.whole(v)
            walk.outer.add(v)
    walk.block(orchestration, True)
    full = set()
    for v, boxes in walk.written.items():
        shape = v.aval.shape
        if all(isinstance(d, int) for d in shape) and any(covers(shape, b.starts, b.sizes) for b in boxes):  # type: ignore[arg-type]
            full.add(v)
    parameters = {v for v in orchestration.invars if isinstance(v.aval, RefAval)}
    read = parameters if walk.lost else parameters & walk.read
    fresh = frozenset() if walk.lost else frozenset(walk.outer - parameters - walk.read)
    return Facts(frozenset(full), frozenset(read), fresh, frozenset(walk.seen - walk.outside), walk.independent, walk.steady)
