"""Control: loops, branches, calls of kernels. What crosses a block sits in a stack slot, or, if it is a tile, in the arena."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto.core.avals import RefAval, ScalarAval, TileAval
from pypto.core.ir import Eqn, Jaxpr, Var, free_vars
from pypto.errors import InternalError
from pypto.interpreters.cpu import contractions, threads
from pypto.interpreters.cpu.lanes import register_kind
from pypto.interpreters.cpu.memory import filled
from pypto.interpreters.cpu.needs import bring
from pypto.interpreters.cpu.rules import Unsupported
from pypto.interpreters.cpu.tasks import some_task
from pypto.interpreters.cpu.text import Int
from pypto.interpreters.cpu.values import Lazy, Memory, Ref, Root, Scalar, Tile, Value, is_dense, lies_at

if TYPE_CHECKING:
    from pypto.interpreters.cpu.writer import Writer


class Loose(Exception):
    """What a loop carries is laid out in more than one way: the function is written again with less taken for granted."""

    def __init__(self, eqn: Eqn) -> None:
        super().__init__()
        self.eqn = eqn


@dataclass
class Layout:
    """What is known of a handle besides its pointer: numbers, or None where it varies."""

    fields: list[Int | None]
    roots: frozenset[Root] | None
    valid: bool
    mask: bool
    dense: bool
    certain: bool

    @staticmethod
    def of(ref: Ref) -> Layout:
        known: list[Int | None] = [x if isinstance(x, int) else None for x in fields(ref)]
        return Layout(known, ref.roots, ref.valid is not None, ref.mask is not None, ref.dense, ref.certain)

    def meet(self, other: Layout) -> Layout:
        """What is known of a handle that is one of two."""
        same = [a if a == b else None for a, b in zip(self.fields, other.fields, strict=True)]
        roots = None if self.roots is None or other.roots is None else self.roots | other.roots
        certain = self.certain and other.certain and self.mask == other.mask
        return Layout(same, roots, self.valid or other.valid, self.mask or other.mask, self.dense and other.dense, certain)


def fields(ref: Ref) -> list[Int]:
    """Extents, strides, valid extents."""
    return [*ref.shape, *ref.strides, *(ref.shape if ref.valid is None else ref.valid)]


class Carry:
    """A scalar or handle in stack slots."""

    def __init__(self, w: Writer, aval: Any) -> None:
        self.w, self.aval = w, aval
        self.count = 1 if isinstance(aval, ScalarAval) else 2 + 3 * len(aval.shape)
        self.kinds = [register_kind(aval.dtype)] if isinstance(aval, ScalarAval) else ["ptr", "ptr"] + ["i64"] * (self.count - 2)
        self.slots = [w.fn.slot(kind) for kind in self.kinds]

    def save(self, value: Value) -> None:
        if isinstance(value, Scalar):
            parts: list[Int] = [value.register]
        else:
            assert isinstance(value, Ref)
            parts = [value.pointer, value.mask or "null", *fields(value)]
        for kind, slot, part in zip(self.kinds, self.slots, parts, strict=True):
            self.w.fn.store(kind, part, slot, 1 if kind == "i1" else 8)

    def load(self, layout: Layout | None) -> Value:
        def part(i: int) -> str:
            return self.w.fn.load(self.kinds[i], self.slots[i], 1 if self.kinds[i] == "i1" else 8)

        if layout is None:
            return Scalar(self.aval.dtype, part(0))
        rank = len(self.aval.shape)
        known = [part(2 + i) if x is None else x for i, x in enumerate(layout.fields)]
        valid = tuple(known[2 * rank :]) if layout.valid else None
        mask = part(1) if layout.mask else None
        shape, strides = tuple(known[:rank]), tuple(known[rank : 2 * rank])
        return Ref(self.aval.dtype, part(0), shape, strides, layout.roots, valid, mask, layout.dense, layout.certain)


class TileCarry:
    """A tile at one place of the arena, with the valid extents that vary in stack slots."""

    def __init__(self, w: Writer, aval: TileAval, place: Memory | None = None) -> None:
        self.w, self.aval = w, aval
        self.place = place or w.reserve(aval.dtype, aval.static_shape)
        known = aval.valid if aval.valid is not None else aval.static_shape
        self.extents: list[Int | None] = list(known)  # type: ignore[arg-type]
        self.slots = [w.fn.slot("i64") if x is None else None for x in self.extents]

    def save_valid(self, t: Tile) -> None:
        for slot, known, value in zip(self.slots, self.extents, t.valid, strict=True):
            if slot is not None:
                self.w.fn.store("i64", value, slot, 8)
            elif isinstance(value, int) and value != known:
                raise InternalError("PL901", f"a carried tile of valid extents {t.valid}, declared {self.extents}")

    def load(self) -> Tile:
        valid = tuple(self.w.fn.load("i64", s, 8) if s is not None else x for s, x in zip(self.slots, self.extents))
        return Tile(self.aval.dtype, self.aval.static_shape, valid, self.place)  # type: ignore[arg-type]


# ---- loops -------------------------------------------------------------------------------------------------------


def loop(w: Writer, eqn: Eqn, ins: list[Value]) -> list[Value]:
    """Run a body for start, start + step, ... before stop."""
    body: Jaxpr = eqn.params["body"]
    start, stop, step = (w.index(x) for x in ins[:3])
    index, *inside = body.invars
    if w.orchestration and id(eqn) in w.module.facts.independent:
        _parallel(w, eqn, body, start, stop, step)
        return []
    plan = contractions.recognised(w, eqn, ins)
    if plan is not None:
        return contractions.emit(w, eqn, ins, plan)
    loose = id(eqn) in w.module.loose
    carries: list[Carry | TileCarry] = []
    layouts: list[Layout | None] = []
    around = free_vars(body)
    for v, init, atom in zip(inside, ins[3:], eqn.ins[3:], strict=True):
        layout = None
        if isinstance(v.aval, TileAval):
            assert isinstance(init, Tile)
            once = w.remaining(atom) == 1 and sum(a is atom for a in eqn.ins) == 1 and atom not in around
            carry = _tile_carry(w, v.aval, init, atom, once)
        else:
            carry = Carry(w, v.aval)
            carry.save(init)
            if isinstance(init, Ref):
                layout = Layout.of(init)
                if loose:
                    layout = Layout([None] * len(layout.fields), None, True, True, False, False)
        carries.append(carry)
        layouts.append(layout)
    del ins
    w.check(w.fn.compare("ne", step, 0), eqn, "step", [])
    n, fn = w.fn.number(), w.fn
    counter = fn.slot("i64")
    fn.store("i64", start, counter, 8)
    fn.do(f"br label %head{n}")
    fn.start(f"head{n}")
    at = fn.load("i64", counter, 8)
    up, down = fn.compare("slt", at, stop), fn.compare("sgt", at, stop)
    more = (up if step > 0 else down) if isinstance(step, int) else fn.let(f"select i1 {fn.compare('sgt', step, 0)}, i1 {up}, i1 {down}")
    if eqn.params.get("exits"):
        going = carries[0].load(None) if isinstance(carries[0], Carry) else None
        assert isinstance(going, Scalar)
        more = fn.let(f"and i1 {str(more).lower()}, {going.register}")
    fn.do(f"br i1 {more}, label %body{n}, label %done{n}")
    fn.start(f"body{n}")
    w.env[index] = Scalar(index.aval.dtype, at)
    for v, carry, layout in zip(inside, carries, layouts, strict=True):
        w.env[v] = carry.load() if isinstance(carry, TileCarry) else carry.load(layout)
    _set_goals(w, body, list(zip(inside, carries)))
    heap = _mark(w, eqn)
    outs = w.block(body)
    _store_carries(w, body, inside, outs, carries, layouts, eqn)
    w.forget(body)
    if heap is not None:
        fn.do(f"call void @pypto_free(ptr %heap, ptr {heap})")
    fn.store("i64", fn.add(at, step), counter, 8)
    threads.poll(w, w.module.costs.straight(body))
    fn.do(f"br label %head{n}")
    fn.start(f"done{n}")
    return [c.load() if isinstance(c, TileCarry) else c.load(layout) for c, layout in zip(carries, layouts, strict=True)]


def _parallel(w: Writer, eqn: Eqn, body: Jaxpr, start: Int, stop: Int, step: Int) -> None:
    """A loop whose turns are independent of each other: where it begins is known, where it ends may be not."""
    assert isinstance(start, int) and isinstance(step, int)
    around = [v for v in free_vars(body) if v in w.env]

    def turn(inner: Writer, received: Sequence[Value], index: str) -> None:
        inner.env.update(zip(around, received, strict=True))
        at = inner.fn.add(inner.fn.mul(index, step), start)
        inner.env[body.invars[0]] = Scalar(body.invars[0].aval.dtype, str(at))
        inner.block(body)

    costs = w.module.costs
    if isinstance(stop, int):
        count: Int = len(range(start, stop, step))
    else:
        count = w.fn.most(w.fn.let(f"sdiv i64 {w.fn.add(stop, step - 1 - start)}, {step}"), 0)
    threads.turns(w, eqn, count, costs.straight(body), costs.whole(body), [w.env[v] for v in around], turn)


def _tile_carry(w: Writer, aval: TileAval, init: Tile, atom: Any, once: bool) -> TileCarry:
    """A tile's place: that of the initial value, if nobody else needs it there."""
    own = init.memory
    sole = own is not None and own.slot is not None and once
    if sole and own is not None:
        others = [t for v, x in w.env.items() if v is not atom and isinstance(x, Tile) for t in x.tree()]
        sole = all(t.memory is None or t.memory.slot is not own.slot for t in others) and is_dense(init.shape, own.strides)
    if sole:
        carry = TileCarry(w, aval, own)
    else:
        carry = TileCarry(w, aval)
        if isinstance(init.source, Memory) or not once:
            w.materialise(init)
            w.move(init, carry.place)
        else:
            w.materialise(init, carry.place)
    carry.save_valid(init)
    return carry


def _set_goals(w: Writer, body: Jaxpr, pairs: Sequence[tuple[Var | None, Carry | TileCarry]]) -> None:
    """Tell the equations that make a body's outputs where these are wanted."""
    made = {v: e for e in body.eqns for v in e.outs}
    for (_, carry), out in zip(pairs, body.outs, strict=True):
        if isinstance(carry, TileCarry) and isinstance(out, Var) and out in made and body.outs.count(out) == 1:
            w.goals[out] = carry.place


def _store_carries(
    w: Writer, body: Jaxpr, inside: Sequence[Var], outs: list[Value], carries: Sequence[Any], layouts: Sequence[Layout | None], eqn: Eqn
) -> None:
    """Write what a turn of the loop gives to where the next one finds it, all of it as if at once."""
    pending: list[tuple[TileCarry, Tile]] = []
    for v, out, carry, layout in zip(inside, outs, carries, layouts, strict=True):
        w.goals.pop(v, None)
        if isinstance(carry, TileCarry):
            assert isinstance(out, Tile)
            carry.save_valid(out)
            if not lies_at(out, carry.place):
                pending.append((carry, out))
            continue
        if layout is not None:
            assert isinstance(out, Ref)
            now = Layout.of(out)
            if any(r.local and r not in (layout.roots or ()) for r in out.roots or ()):
                raise Unsupported("an on-chip buffer made in a loop and kept in the next turn")
            if layout.meet(now) != layout:
                raise Loose(eqn)
        carry.save(out)
    write_all(w, pending)


def write_all(w: Writer, pending: list[tuple[TileCarry, Tile]]) -> None:
    """Write tiles to places that others of them may still be computed from."""
    seen: dict[int, Tile] = {}
    for i, (_, out) in enumerate(pending):  # one tile for two places: it is computed once
        if id(out) in seen or (isinstance(out.source, Lazy) and any(out in t.tree() for j, (_, t) in enumerate(pending) if j != i)):
            w.materialise(out)
        seen[id(out)] = out
    while pending:
        blocked = {i: [j for j, (_, t) in enumerate(pending) if j != i and _reads(t, c.place)] for i, (c, _) in enumerate(pending)}
        ready = next((i for i, readers in blocked.items() if not readers), None)
        if ready is None:  # they wait for each other: one that reads another's place gets a place of its own
            reader = blocked[0][0]
            carry, out = pending[reader]
            pending[reader] = (carry, Tile(out.dtype, out.shape, out.valid, _saved(w, out)))
            continue
        carry, out = pending.pop(ready)
        if isinstance(out.source, Memory):
            bring(w, out, carry.place)
        else:
            w.materialise(out, carry.place)


def _saved(w: Writer, out: Tile) -> Memory:
    return w.move(out) if isinstance(out.source, Memory) else w.materialise(out)


def _reads(tile: Tile, place: Memory) -> bool:
    return any(m.slot is place.slot for x in tile.tree() if (m := x.memory) is not None)


def _mark(w: Writer, eqn: Eqn) -> str | None:
    """Where the heap stands at the start of a turn, if what the turn allocates can go at its end."""
    body: Jaxpr = eqn.params["body"]
    allocates = any(e.op.name == "alloc" for e in body.walk())
    if not w.orchestration or not allocates or any(isinstance(a.aval, RefAval) for a in body.outs):
        return None
    return w.fn.load("ptr", "%heap", 8)


# ---- branches ----------------------------------------------------------------------------------------------------


def cond(w: Writer, eqn: Eqn, ins: list[Value]) -> list[Value]:
    """Run one of two bodies."""
    test = ins[0]
    assert isinstance(test, Scalar)
    fn, n = w.fn, w.fn.number()
    carries: list[Carry | TileCarry] = []
    for v in eqn.outs:
        if isinstance(v.aval, TileAval):
            goal = w.goals.pop(v, None)
            if goal is not None and not w.overwritable(goal, eqn, inside=True):
                goal = None
            carries.append(TileCarry(w, v.aval, goal))
        else:
            carries.append(Carry(w, v.aval))
    fn.do(f"br i1 {test.register}, label %then{n}, label %else{n}")
    layouts: list[list[Layout | None]] = []
    for label, body in (("then", eqn.params["then"]), ("else", eqn.params["orelse"])):
        fn.start(f"{label}{n}")
        _set_goals(w, body, [(None, c) for c in carries])
        layouts.append(_arm(w, body, carries))
        fn.do(f"br label %join{n}")
    fn.start(f"join{n}")
    results: list[Value] = []
    for carry, first, second in zip(carries, *layouts, strict=True):
        if isinstance(carry, TileCarry):
            results.append(carry.load())
        else:
            results.append(carry.load(first.meet(second) if first is not None and second is not None else None))
    return results


def _arm(w: Writer, body: Jaxpr, carries: Sequence[Carry | TileCarry]) -> list[Layout | None]:
    outs = w.block(body)
    layouts: list[Layout | None] = []
    pending: list[tuple[TileCarry, Tile]] = []
    for out, carry in zip(outs, carries, strict=True):
        if isinstance(carry, TileCarry):
            assert isinstance(out, Tile)
            carry.save_valid(out)
            if not lies_at(out, carry.place):
                pending.append((carry, out))
            layouts.append(None)
        else:
            carry.save(out)
            layouts.append(Layout.of(out) if isinstance(out, Ref) else None)
    write_all(w, pending)
    del outs
    w.forget(body)
    return layouts


# ---- calls and the rest ------------------------------------------------------------------------------------------


def call(w: Writer, eqn: Eqn, ins: list[Value]) -> list[Value]:
    """Launch a kernel, once or for each block, unless its predicate is false."""
    launch, fn = eqn.params["launch"], w.fn
    parts = launch.divide(ins, blocks=eqn.params["blocks"])
    skip = fn.number()
    if parts.blocks is not None and launch.most is not None:
        count = w.index(parts.blocks)
        w.check(fn.compare("sle", count, launch.most), eqn, "blocks", [count])
    if parts.predicate is not None:
        assert isinstance(parts.predicate, Scalar)
        fn.do(f"br i1 {parts.predicate.register}, label %launch{skip}, label %skip{skip}")
        fn.start(f"launch{skip}")
    _launch(w, eqn, parts)
    if parts.predicate is not None:
        fn.do(f"br label %skip{skip}")
        fn.start(f"skip{skip}")
    return [some_task(w)] if eqn.outs else []


def _launch(w: Writer, eqn: Eqn, parts: Any) -> None:
    if parts.blocks is None:
        threads.start(w, eqn.params["kernel"], parts.operands, [])
        return
    kernel = w.module.kernels[eqn.params["kernel"]]

    def block(inner: Writer, received: Sequence[Value], index: str) -> None:
        threads.start(inner, eqn.params["kernel"], received, [f"i64 {index}"])

    straight, whole = w.module.costs.straight(kernel), w.module.costs.whole(kernel)
    if any(e.op.name == "syncall" for e in kernel.walk()):
        threads.phases(w, w.index(parts.blocks), straight, parts.operands, block)
        return
    threads.turns(w, eqn, w.index(parts.blocks), straight, whole, parts.operands, block)


def unset(w: Writer, eqn: Eqn, ins: list[Value]) -> list[Value]:
    """A name without a value reads as zero."""
    aval = eqn.params["aval"]
    zero = w.literal(np.zeros((), aval.dtype.storage), aval.dtype)
    if isinstance(aval, ScalarAval):
        return [replace(zero, known=None)]
    if isinstance(aval, RefAval):
        shape = tuple(d if isinstance(d, int) else 0 for d in aval.shape)
        place = w.reserve(aval.dtype, shape)
        if place.slot is not None:
            w.pinned.append(place.slot)
        return [Ref(aval.dtype, place.pointer, shape, place.strides, frozenset([Root(eqn.outs[0].name, local=True)]), dense=True)]
    return [filled(aval.dtype, aval.static_shape, zero)]
