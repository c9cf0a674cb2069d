"""Operands of matrix products that are packed once per launch, for all of its blocks, in memory that all of them read.

A buffer that nothing in a launch writes, and whose tiles more than one block multiplies, is packed as a whole before the launch, by all
threads; its tiles are then parts of the packed matrix. Where that is not known of it, or where it would take too much memory, every block
packs what it loads, as ever. All of this is decided while code is written, from what `facts` knows of every load.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto.core.avals import TileAval
from pypto.core.ir import Eqn, Jaxpr, Var
from pypto.interpreters.cpu import amx, contractions, panels, threads
from pypto.interpreters.cpu.independence import Access
from pypto.interpreters.cpu.packed import Packed, Side, Uses
from pypto.interpreters.cpu.rules import Tilewise
from pypto.interpreters.cpu.values import Ref, Value

if TYPE_CHECKING:
    from pypto.interpreters.cpu.facts import Facts
    from pypto.interpreters.cpu.writer import Writer

_MOST = 64 << 20  # bytes of packed operands of a program
_NANOSECONDS = 0.2  # of packing a byte
_LINES = (128, 64, 32, 16)  # rows or columns that one turn packs


@dataclass
class Shares:
    """For each launch, by the identity of its equation, the packed forms of what its loads load; and bytes of shared memory."""

    launches: dict[int, Uses] = field(default_factory=dict)
    room: int = 0


# ---- what is wanted ----------------------------------------------------------------------------------------------


def _wanted(jaxpr: Jaxpr, features: frozenset[str]) -> Iterator[tuple[Eqn, Side, bool]]:
    """Loads that products on tiles take as they are, how, and whether one after the other along k in a loop."""
    made = {v: e for e in jaxpr.eqns for v in e.outs}
    for e in jaxpr.eqns:
        plan = contractions.planned(e, features) if e.op.name == "loop" else None
        if plan is not None:
            for s in plan.sums:
                yield s.left.load, Side(plan.kind, False), True
                yield s.right.load, Side(plan.kind, True, s.right.turned), True
            continue
        rule = e.op.cpu.emit if isinstance(e.op.cpu, Tilewise) else ""
        if rule in ("products.PLAIN", "products.ACCUMULATED", "products.BIASED"):
            b = e.ins[2 if rule == "products.ACCUMULATED" else 1]
            load = made.get(b) if isinstance(b, Var) else None
            if load is not None and load.op.name == "get":
                side = Side(panels.kind_of(b.aval.dtype, e.params.get("numerics", "contract")), True, bool(e.params.get("b_trans", False)))
                if amx.suits(side.kind, features):
                    yield load, side, False
        for body in e.bodies():
            yield from _wanted(body, features)


def _fits(a: Access, side: Side, along: bool, outside: int) -> bool:
    """Whether a load takes whole packed tiles of a whole buffer, and, in a loop along k, the next ones in the next turn."""
    e = a.load
    assert e is not None and a.buffer is not None
    out, shape = e.outs[0].aval, a.buffer.aval.shape
    known = all(isinstance(d, int) for d in shape) and not any(x is None for x in (*a.starts, *a.sizes))
    if not known or not isinstance(out, TileAval) or out.valid is not None or len(out.shape) != 2:
        return False
    if e.ins[0].aval.dtype is not a.buffer.aval.dtype or tuple(e.params["drop"]) != tuple(range(len(shape) - 2)):
        return False
    deep = amx.depth(side.kind)
    units = (16, deep) if side.turned or not side.right else (deep, 16)
    for axis, unit in zip((-2, -1), units, strict=True):
        if shape[axis] % unit or a.sizes[axis] % unit or np.any(a.starts[axis] % unit):  # type: ignore[operator]
            return False
    if any(s.shape[max(0, s.ndim - outside) :] != (1,) * min(outside, s.ndim) for s in a.starts):  # type: ignore[union-attr]
        return False  # it moves with a loop around the launch: each time it is another part
    k = units.index(deep) - 2
    return not along or all(_steps(s, a.sizes[i] if i == k + len(shape) else 0, a.extents) for i, s in enumerate(a.starts))


def _steps(start: Any, step: int | None, extents: tuple[int, ...]) -> bool:
    """Whether a start grows by so much from turn to turn of the innermost loop."""
    if extents[-1] == 1:
        return True
    if start.ndim < len(extents) or start.shape[0] == 1:
        return step == 0
    return bool(np.all(np.diff(start, axis=0) == step))


def _pays(a: Access, outside: int) -> bool:
    """Whether tiles are loaded twice and more, and most of the buffer is."""
    times = math.prod(a.extents[outside:])
    starts = np.broadcast_arrays(*a.starts)  # type: ignore[arg-type]
    places = len(np.unique(np.stack([s.ravel() for s in starts]), axis=1).T)
    assert a.buffer is not None
    whole = math.prod(a.buffer.aval.static_shape)
    return times >= 2 * places and 2 * places * math.prod(a.sizes) >= whole  # type: ignore[arg-type]


def shares(orchestration: Jaxpr, kernels: Mapping[str, Jaxpr], features: frozenset[str], known: Facts) -> Shares:
    """What is packed before which launch of a program."""
    found = Shares()
    if "amx-granted" not in features or not known.steady:
        return found
    wanted: dict[int, list[tuple[Side, bool]]] = {}
    for kernel in kernels.values():
        for load, side, along in _wanted(kernel, features):
            wanted.setdefault(id(load), []).append((side, along))

    def visit(jaxpr: Jaxpr, covered: frozenset[int]) -> None:
        for e in jaxpr.eqns:
            uses = _of_launch(e, wanted, covered, known, found)
            if uses:
                found.launches[id(e)] = uses
            if id(e) not in known.independent:  # what is inside of those runs in workers
                for body in e.bodies():
                    visit(body, covered | uses.keys())

    visit(orchestration, frozenset())
    return found


def _of_launch(e: Eqn, wanted: Mapping[int, list[tuple[Side, bool]]], covered: frozenset[int], known: Facts, found: Shares) -> Uses:
    """The packed forms that one loop or launch uses."""
    outside, accesses = known.steady.get(id(e), (0, ()))
    uses: dict[int, dict[Side, Packed]] = {}
    made: dict[tuple[Var, Side], Packed] = {}
    by_load: dict[int, list[Access]] = {}
    for a in accesses:
        by_load.setdefault(id(a.load), []).append(a)
    for load, mine in by_load.items():
        if load in covered or load not in known.inside:
            continue
        for side, along in wanted.get(load, ()):
            buffer = mine[0].buffer
            assert buffer is not None
            same = all(a.buffer is buffer and _fits(a, side, along, outside) for a in mine)
            if not same or not any(_pays(a, outside) for a in mine):
                continue
            packed = made.get((buffer, side)) or _packed(buffer, side, found)
            if packed is not None:
                made[buffer, side] = uses.setdefault(load, {})[side] = packed
    return {load: tuple(forms.values()) for load, forms in uses.items()}


def _packed(buffer: Var, side: Side, found: Shares) -> Packed | None:
    *lead, rows, columns = buffer.aval.static_shape
    lines, depth = (rows, columns) if side.turned or not side.right else (columns, rows)
    made = Packed(buffer, side, math.prod(lead), lines, depth, found.room)
    if found.room + made.matrices * made.size > _MOST:
        return None
    found.room += made.matrices * made.size
    return made


# ---- code --------------------------------------------------------------------------------------------------------


def around(w: Writer, eqn: Eqn, handler: Callable[..., Sequence[Value]], ins: list[Value]) -> Sequence[Value]:
    """Write a structural equation; if it is a launch that shares operands, pack these before."""
    if id(eqn) not in w.module.shares.launches or w.fn.name != "main":
        return handler(w, eqn, ins)
    outer = w.packed
    w.packed = outer | _before(w, eqn)
    outs = handler(w, eqn, ins)
    w.packed = outer
    return outs


def _before(w: Writer, eqn: Eqn) -> Uses:
    """Pack what a launch shares, and say what its loads may then use; buffers that have no name any more are left out."""
    uses = w.module.shares.launches.get(id(eqn), {})
    forms = {id(p): p for ps in uses.values() for p in ps if isinstance(w.env.get(p.buffer), Ref)}
    for p in forms.values():
        _pack(w, p)
    return {load: kept for load, ps in uses.items() if (kept := tuple(p for p in ps if id(p) in forms))}


def _pack(w: Writer, p: Packed) -> None:
    ref, size = w.env[p.buffer], p.side.kind.dtype.itemsize
    assert isinstance(ref, Ref)
    many = next(n for n in _LINES if p.lines % n == 0)
    groups, row = p.lines // many, p.depth if p.lines_first else p.lines
    cost = 1 + int(many * p.depth * size * _NANOSECONDS)

    def turn(inner: Writer, received: Sequence[Value], index: str) -> None:
        fn, source = inner.fn, received[0]
        assert isinstance(source, Ref)
        matrix, group = (fn.let(f"{how} i64 {index}, {groups}") for how in ("udiv", "urem"))
        first = fn.add(fn.mul(matrix, p.lines * p.depth), fn.mul(group, many * (p.depth if p.lines_first else 1)))
        begin = fn.at(source.pointer, first, size)
        target = fn.at(fn.at("%shared", p.offset), fn.add(fn.mul(matrix, p.size), fn.mul(group, many // 16 * p.strip)))
        if p.side.right:
            function = amx.pack(inner.module, p.side.kind, turned=p.side.turned)
            fn.do(f"call void @{function}(ptr {begin}, i64 {row}, i64 {many}, i64 {p.depth}, ptr {target}, i64 {p.strip})")
        else:
            function, width = amx.pack_left(inner.module), p.depth * size
            fn.do(f"call void @{function}(ptr {begin}, i64 {width}, i64 {many}, i64 {width}, ptr {target}, i64 {p.strip})")

    threads.spread(w, p.matrices * groups, cost, cost, False, [ref], turn)
