"""The writer of one function: walks a body, equation by equation, and keeps track of every value.

Elementwise results stay unwritten until something needs them (`Lazy`), and loads stay where they are in memory until a store could
change them; so a chain becomes one loop, and most loads no code of their own.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto import dtypes, numerics
from pypto.core.avals import RefAval
from pypto.core.ir import Atom, Eqn, Jaxpr, Literal, Var, free_vars
from pypto.dtypes import DType
from pypto.interpreters.cpu import allocating, blocks, memory, sharing, tasks
from pypto.interpreters.cpu.lanes import Lanes, register_kind
from pypto.interpreters.cpu.needs import Arena, far, meet, safe, used, uses, weight
from pypto.interpreters.cpu.nest import Nest, Place
from pypto.interpreters.cpu.packed import Uses
from pypto.interpreters.cpu.rules import Lanewise, Tilewise, Unsupported
from pypto.interpreters.cpu.text import Function, Int, constant
from pypto.interpreters.cpu.values import Lazy, Memory, Ref, Root, Scalar, Slot, Tile, Value, contiguous, is_dense, spanned

if TYPE_CHECKING:
    from pypto.interpreters.cpu.module import Module

_HANDLERS = {
    "loop": blocks.loop,
    "cond": blocks.cond,
    "call": blocks.call,
    "task_dummy": tasks.task_dummy,
    "task_invalid": tasks.task_invalid,
    "task_is_valid": tasks.task_is_valid,
    "syncall": tasks.syncall,
    "unset": blocks.unset,
    "alloc": allocating.alloc,
    "view": memory.view,
    "reshape_view": memory.reshape_view,
    "transpose_view": memory.transpose_view,
    "valid_view": memory.valid_view,
    "bits_view": memory.bits_view,
    "get": memory.get,
    "set": memory.put,
    "read": memory.read,
    "accumulate": memory.accumulate,
    "copy": memory.copy,
    "dim": memory.dim,
    "valid_extent": memory.valid_extent,
}


MOST = 64
"""How many ops one loop computes at most: more would only wait for registers."""


class Writer:
    """Writes the body of one function."""

    def __init__(self, module: Module, fn: Function, *, orchestration: bool) -> None:
        self.module, self.fn, self.orchestration = module, fn, orchestration
        self.env: dict[Var, Value] = {}
        self.left: list[dict[Var, int]] = []
        self.borrowed: list[dict[Var, int]] = []
        self.arena = Arena()
        self.pinned: list[Slot] = []
        self.goals: dict[Var, Memory] = {}
        self.views: weakref.WeakSet[Memory] = weakref.WeakSet()
        self._pointers: dict[int, str] = {}
        self.walk: list[tuple[tuple[Eqn, ...], int]] = []
        self.done: set[int] = set()  # stores that were made early, by the identity of their equations
        self.packed: Uses = {}

    # ---- walking ----

    def block(self, jaxpr: Jaxpr) -> list[Value]:
        """Write a body; returns the values of its outputs, which may still be unwritten."""
        own, borrowed = uses(jaxpr)
        self.left.append(own)
        self.borrowed.append(borrowed)
        body = self.fn.number()
        self.fn.marks.append((len(self.fn.lines), body))
        for i, eqn in enumerate(jaxpr.eqns):
            self.walk.append((jaxpr.eqns, i))
            self.step(eqn)
            self.walk.pop()
            self.fn.marks.append((len(self.fn.lines), body))
        outs = [self.read(a) for a in jaxpr.outs]
        self.left.pop()
        self.borrowed.pop()
        return outs

    def forget(self, jaxpr: Jaxpr) -> None:
        """Drop what a body made, once its outputs have been taken care of."""
        for v in (*jaxpr.invars, *(v for e in jaxpr.eqns for v in e.outs)):
            self.env.pop(v, None)

    def step(self, eqn: Eqn) -> None:
        ins = [self.read(a) for a in eqn.ins]
        handler = _HANDLERS.get(eqn.op.name)
        if handler is not None:
            if any(True for _ in eqn.bodies()):
                self.settle(eqn)
            outs: Sequence[Value] = sharing.around(self, eqn, handler, ins)
        elif eqn.op.mark:
            outs = ()
        else:
            outs = self.apply(eqn, ins)
        del ins
        self.env.update(zip(eqn.outs, outs, strict=True))
        del outs
        for v in used(eqn):
            self.spend(v)
        for v in eqn.outs:
            if self.left[-1].get(v) == 0:
                self.env.pop(v, None)

    def apply(self, eqn: Eqn, ins: list[Value]) -> Sequence[Value]:
        """An op by the rule in its `cpu` slot."""
        rule = eqn.op.cpu
        if isinstance(rule, Lanewise):
            return (self.lanewise(eqn, rule, ins),)
        if isinstance(rule, Tilewise):
            return rule.function()(self, eqn, ins)
        raise Unsupported(f"{eqn.op.name}: {getattr(rule, 'reason', 'no rule')}")

    def read(self, a: Atom) -> Value:
        if isinstance(a, Literal):
            return self.literal(a.value, a.aval.dtype) if np.ndim(a.value) == 0 else self.constant(np.asarray(a.value), a.aval.dtype)
        return self.env[a]

    def remaining(self, a: Atom) -> int:
        """How many uses of a value are still to come in the block under construction, the present equation's included."""
        if isinstance(a, Literal):
            return 0
        return self.left[-1].get(a, 2)  # what an outer block made is not ours to count

    def spend(self, v: Var) -> None:
        counts = self.left[-1]
        if v in counts:
            counts[v] -= 1
            if counts[v] == 0:
                self.env.pop(v, None)
        else:
            self.borrowed[-1][v] -= 1

    def overwritable(self, place: Memory, eqn: Eqn, *, inside: bool = False, over: Tile | None = None) -> bool:
        """Whether nothing needs what a place holds any more.

        The equation itself may, in its bodies (`inside`: they will be asked again), or as the operand `over` that it updates.
        """
        mine = used(eqn)
        for v, x in self.env.items():
            if not isinstance(x, Tile) or not any(t.memory is not None and t.memory.slot is place.slot for t in x.tree()):
                continue
            count = self.left[-1].get(v, self.borrowed[-1].get(v, 0))
            if count - (v in mine) > 0 or (v in mine and not inside and x is not over):
                return False
        return True

    def lanewise(self, eqn: Eqn, rule: Lanewise, ins: list[Value]) -> Value:
        out = eqn.outs[0]
        source, target = eqn.ins[rule.first].aval.dtype, out.aval.dtype
        params = {**eqn.params, "source": source, "target": target} if rule.takes_params else {}
        function = rule.function()

        def emit(e: Lanes, *xs: str) -> str:
            result = function(e.of(source), *xs, **params)
            return result if rule.exact or not target.is_float else e.rounded(target, result)

        if all(isinstance(x, Scalar) for x in ins):
            return self._scalar(eqn, emit, ins)
        operands = tuple(x for x in ins if isinstance(x, Tile | Scalar))
        if len(operands) != len(ins):
            raise Unsupported(f"{eqn.op.name} on handles")
        tiles = [x for x in (*operands[rule.first :], *operands[: rule.first]) if isinstance(x, Tile)]
        valid = spanned([(x.valid, x.shape) for x in tiles])
        shared = self.shared(eqn)
        total = 1 + sum(weight(x) for x in operands)
        while total > MOST:
            heaviest = max((x for x in operands if isinstance(x, Tile)), key=weight)
            total -= weight(heaviest)
            self.materialise(heaviest)
        return Tile(target, out.aval.static_shape, valid, Lazy(emit, operands, shared, weight=total))

    def _scalar(self, eqn: Eqn, emit: Any, ins: Sequence[Any]) -> Scalar:
        dtype = eqn.outs[0].aval.dtype
        if dtype.is_integer and all(x.known is not None for x in ins):
            avals = [a.aval for a in eqn.ins]
            arrays = [np.asarray(x.known, a.dtype.storage) for x, a in zip(ins, avals, strict=True)]
            with np.errstate(all="ignore"):
                return self.literal(eqn.op.meaning(*arrays, **eqn.params), dtype)
        return Scalar(dtype, emit(Lanes(self.fn, 1), *(x.register for x in ins)))

    def constant(self, value: np.ndarray, dtype: DType) -> Tile:
        """An array that is part of the program."""
        raw = np.ascontiguousarray(value, dtype.storage)
        name = self.module.bytes(raw.tobytes())
        strides = contiguous(raw.shape, lambda a, b: a * b)  # type: ignore[operator]
        return Tile(dtype, raw.shape, raw.shape, Memory(name, strides))

    def literal(self, value: Any, dtype: DType) -> Scalar:
        """A constant."""
        raw = np.asarray(value)
        kind = register_kind(dtype)
        if kind == "float":
            return Scalar(dtype, constant(kind, float(numerics.widened(raw))))
        raw = raw.view(np.uint8) if dtype is dtypes.HF4 else raw  # bytes nobody computes with
        return Scalar(dtype, constant(kind, int(raw)), int(raw))

    def index(self, x: Value) -> Int:
        """An integer scalar as an i64."""
        assert isinstance(x, Scalar)
        if x.known is not None:
            return x.known
        return Lanes(self.fn, 1).turn("sext" if x.dtype.is_signed else "zext", register_kind(x.dtype), x.register, "i64")

    def number(self, value: Int, dtype: DType) -> Scalar:
        """An i64 as an INDEX scalar."""
        return Scalar(dtype, str(value), value if isinstance(value, int) else None)

    # ---- memory of tiles ----

    def reserve(self, dtype: DType, shape: tuple[int, ...]) -> Memory:
        """A place in the arena."""
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        slot = self.arena.take(size)
        self.module.room = max(self.module.room, self.arena.end)
        strides = contiguous(shape, lambda a, b: a * b)  # type: ignore[operator]
        return Memory(self.arena_pointer(slot), strides, slot)

    def arena_pointer(self, slot: Slot) -> str:
        if slot.offset not in self._pointers:
            name = f"%arena_{slot.offset}"
            self.fn.slots.append(f"  {name} = getelementptr i8, ptr %arena, i64 {slot.offset}")
            self._pointers[slot.offset] = name
        return self._pointers[slot.offset]

    def materialise(self, t: Tile, goal: Memory | None = None) -> Memory:
        """Write a tile's elements to memory; into `goal` if given, whatever they are computed from."""
        if goal is None and isinstance(t.source, Memory):
            return t.source
        if goal is None or not safe(t, goal):
            place = self.reserve(t.dtype, t.shape)
        else:
            place = goal
        if isinstance(t.source, Lazy):
            t.source.shared = False
        nest = Nest(self, t.shape, t.shape, [t], [Place(place.pointer, place.strides, t.dtype.itemsize, far(place.roots))])
        with nest.outer() as inner:
            inner.each(lambda step: step.put(0, t))
        if goal is not None and place is not goal:
            place = self.move(Tile(t.dtype, t.shape, t.valid, place), goal)
        t.source = place
        return place

    def move(self, t: Tile, place: Memory | None = None) -> Memory:
        """Copy a tile's elements, bits as they are."""
        place = place or self.reserve(t.dtype, t.shape)
        nest = Nest(self, t.shape, t.shape, [t], [Place(place.pointer, place.strides, t.dtype.itemsize, far(place.roots))])
        with nest.outer() as inner:
            inner.each(lambda step: step.put(0, t))
        return place

    def dense(self, t: Tile) -> Memory:
        """A tile's elements in memory, one after the other."""
        found = self.materialise(t)
        if is_dense(t.shape, found.strides):
            return found
        return self.move(t)

    def fresh(self, eqn: Eqn, over: Tile | None = None) -> Memory:
        """Where the result of an equation goes: where its variable is wanted, or where the operand `over` is and is not needed."""
        out = eqn.outs[0]
        goal = self.goals.pop(out, None)
        if goal is not None and self.overwritable(goal, eqn, over=over):
            return goal
        held = over.memory if over is not None else None
        if over is not None and held is not None and held.slot is not None and self._disposable(eqn, over, held):
            return held
        return self.reserve(out.aval.dtype, out.aval.static_shape)

    def _disposable(self, eqn: Eqn, over: Tile, held: Memory) -> bool:
        """Whether an operand's memory may become the result's: it was made in this block, and this is its last use."""
        own = [a for a in used(eqn) if self.env.get(a) is over]
        return (
            over.shape == eqn.outs[0].aval.shape
            and is_dense(over.shape, held.strides)
            and all(self.remaining(v) == 1 for v in own)
            and self.overwritable(held, eqn, over=over)
        )

    # ---- what a store may change ----

    def seen_through(self, ref: Ref, pointer: str, strides: tuple[Int, ...], window: Any) -> Memory:
        """The memory of a load that stays where it is."""
        found = Memory(pointer, strides, None, ref.roots, window)
        self.views.add(found)
        return found

    def elsewhere(self, memory: Memory, pointer: str, strides: tuple[Int, ...]) -> Memory:
        """Other elements of the same memory, or the same ones in another order."""
        found = Memory(pointer, strides, memory.slot, memory.roots)
        if memory.roots != frozenset():
            self.views.add(found)
        return found

    def shared(self, eqn: Eqn) -> bool:
        """Whether more than one equation uses the result."""
        return self.left[-1].get(eqn.outs[0], 0) > 1

    def before_store(self, roots: frozenset[Root] | None, keep: Iterable[Memory] = ()) -> None:
        """Copy loads that a store through these buffers could change."""
        spared = {id(m) for m in keep}
        changing = [m for m in self.views if id(m) not in spared and meet(m.roots, roots)]
        for m in sorted(changing, key=lambda m: m.pointer):
            for t in self.live():
                if t.source is m:
                    t.source = self.move(Tile(t.dtype, t.shape, t.valid, m))

    def live(self) -> list[Tile]:
        """Every tile that something may still ask for."""
        found: dict[int, Tile] = {}
        for value in self.env.values():
            if isinstance(value, Tile):
                found.update((id(t), t) for t in value.tree())
        return list(found.values())

    def settle(self, eqn: Eqn) -> None:
        """Before a nested body: write what is still unwritten, and copy loads that the body could change.

        What only enters a loop is left alone: the loop writes it where it carries it.
        """
        changes = self.changed(list(eqn.bodies()))
        if changes is None or changes:
            self.before_store(changes)
        inside = {v for body in eqn.bodies() for v in free_vars(body)}
        for v, value in list(self.env.items()):
            if isinstance(value, Tile) and not (v in eqn.ins and v not in inside and self.remaining(v) == 1):
                self.materialise(value)

    def changed(self, bodies: Sequence[Jaxpr]) -> frozenset[Root] | None:
        """The buffers that bodies may write; None for any. What they make themselves does not count."""
        made: dict[Var, Atom | None] = {}
        stores: list[Atom] = []
        for body in bodies:
            for e in body.walk():
                if e.op.name == "syncall":  # other blocks write meanwhile
                    return None
                stores += [e.ins[i] for i in e.op.writes]
                if e.op.name == "call":
                    stores += e.ins
                for v in e.outs:
                    made[v] = e.ins[0] if e.op.refs == (0,) and isinstance(v.aval, RefAval) else None
                    if e.op.name == "alloc":
                        made[v] = v
        roots: set[Root] = set()
        for a in stores:
            while isinstance(a, Var) and a in made and made[a] is not None and made[a] is not a:
                a = made[a]  # type: ignore[assignment]
            if not isinstance(a, Var) or made.get(a) is a:
                continue
            known = self.env.get(a)
            if isinstance(known, Scalar):
                continue
            if not isinstance(known, Ref) or known.roots is None:
                return None
            roots |= known.roots
        return frozenset(roots)

    # ---- checks ----

    def check(self, fine: bool | str, eqn: Eqn, kind: str, numbers: Sequence[Int], **known: Any) -> None:
        """Leave the function with an error record unless a test holds."""
        if fine is True:
            return
        site = self.module.site(eqn, kind, len(numbers), known)
        n = self.fn.number()
        self.fn.do(f"br i1 {'false' if fine is False else fine}, label %fine{n}, label %error{n}")
        self.fn.start(f"fine{n}")
        cold = [f"error{n}:"]
        for i, value in enumerate(numbers):
            cold += [f"  %e{n}_{i} = getelementptr i64, ptr %err, i64 {i}", f"  store i64 {value}, ptr %e{n}_{i}, align 8"]
        self.fn.cold += [*cold, f"  ret i64 {site}"]

    def all_of(self, tests: Iterable[bool | str]) -> bool | str:
        """Whether every test holds."""
        result: bool | str = True
        for test in tests:
            if test is True:
                continue
            if test is False:
                return False
            result = test if result is True else self.fn.let(f"and i1 {result}, {test}")
        return result
