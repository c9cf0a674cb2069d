"""Loops that only sum products of matrices: the operands of several turns are packed behind each other and multiplied at once.

`for k: if k == first: acc = matmul(a, b) else: acc = matmul_acc(acc, a, b)`, and the same with several accumulators, is one product
with a longer k: where a turn takes whole chunks of the contract, the bits are the same. The accumulator stays in AMX tiles meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pypto import dtypes
from pypto.core.avals import RefAval, ScalarAval, TileAval
from pypto.core.ir import Atom, Eqn, Jaxpr, Literal, Var
from pypto.interpreters.cpu import amx, panels, threads
from pypto.interpreters.cpu.early import destination
from pypto.interpreters.cpu.packed import Side, form_of, place
from pypto.interpreters.cpu.rules import Lanewise, Tilewise
from pypto.interpreters.cpu.text import Int
from pypto.interpreters.cpu.values import Memory, Ref, Scalar, Tile, Value

if TYPE_CHECKING:
    from pypto.interpreters.cpu.writer import Writer

_BUDGET = 3 << 18  # bytes of packed operands that stay in the second cache


@dataclass(frozen=True, eq=False)
class Operand:
    """A matrix that every turn loads anew."""

    var: Var
    load: Eqn
    turned: bool


@dataclass(frozen=True, eq=False)
class Sum:
    """An accumulator: the product that makes it in the first turn (None: it comes with a value), and its operands."""

    first: Eqn | None
    left: Operand
    right: Operand
    shape: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Plan:
    """A loop that only sums products: what a turn computes first (`loads`), and the sums in the order of what is carried."""

    kind: panels.Kind
    loads: Jaxpr
    sums: tuple[Sum, ...]
    depth: int


class _OtherError(Exception):
    """A loop is no such loop."""


class _Reader:
    """Reads a body of loads, index arithmetic and products; anything else raises `_OtherError`."""

    def __init__(self, body: Jaxpr, start: int, suits: Callable[[Eqn], bool]) -> None:
        self.body, self.start, self.suits = body, start, suits
        self.made: dict[Var, Eqn] = {}
        self.early: list[Eqn] = []
        for e in body.eqns:
            if e.op.name == "cond":
                self.made.update((v, e) for v in e.outs)
                for b in e.bodies():
                    for inner in b.eqns:
                        self.note(inner)
            else:
                self.note(e)

    def note(self, e: Eqn) -> None:
        scalars = isinstance(e.op.cpu, Lanewise) and all(isinstance(v.aval, ScalarAval) for v in e.outs)
        rule = e.op.cpu.emit if isinstance(e.op.cpu, Tilewise) else ""
        if not (scalars or rule in ("products.PLAIN", "products.ACCUMULATED") or _plain_load(e)):
            raise _OtherError
        self.made.update((v, e) for v in e.outs)

    def meaning(self, a: Atom) -> Any:
        """What an operand is, whatever the variables on the way are called."""
        if isinstance(a, Literal):
            return (str(a.aval), repr(a.value))
        e = self.made.get(a)
        return (
            id(a) if e is None or e.op.name == "cond" else (e.op.name, repr(sorted(e.params.items(), key=str)), *map(self.meaning, e.ins))
        )

    def needed(self, roots: Sequence[Var]) -> tuple[Eqn, ...]:
        """The equations that lead to some variables, in order."""
        found: dict[int, Eqn] = {}

        def visit(v: Atom) -> None:
            e = self.made.get(v) if isinstance(v, Var) else None
            if e is not None and id(e) not in found:
                for a in e.ins:
                    visit(a)
                found[id(e)] = e

        for v in roots:
            visit(v)
        return tuple(found.values())

    def first_turn(self, test: Atom) -> bool:
        """Whether a condition says that this is the first turn."""
        e = self.made.get(test) if isinstance(test, Var) else None
        if e is None or e.op.name != "eq":
            return False
        sides = [*e.ins, *reversed(e.ins)]
        return any(
            a is self.body.invars[0] and isinstance(b, Literal) and int(b.value) == self.start for a, b in zip(sides[::2], sides[1::2])
        )

    def sum(self, inside: Var, out: Atom) -> tuple[Eqn | None, Eqn]:
        """How an accumulator is made in the first turn, and in the others."""
        e = self.made.get(out) if isinstance(out, Var) else None
        if e is None or isinstance(out, Literal):
            raise _OtherError
        first, more = None, e
        if e.op.name == "cond":
            if not self.first_turn(e.ins[0]):
                raise _OtherError
            at = e.outs.index(out)
            first, more = (self.made.get(e.params[b].outs[at]) for b in ("then", "orelse"))
            if first is None or more is None or _rule(first) != "products.PLAIN":
                raise _OtherError
            if _options(first) != _options(more) or [*map(self.meaning, first.ins)] != [*map(self.meaning, more.ins[1:])]:
                raise _OtherError
        if _rule(more) != "products.ACCUMULATED" or more.ins[0] is not inside or self.uses(inside) != 1:
            raise _OtherError
        return first, more

    def uses(self, v: Var) -> int:
        return sum(a is v for e in self.body.walk() for a in e.ins) + sum(a is v for a in self.body.outs)

    def operand(self, a: Atom, turned: bool) -> Operand:
        e = self.made.get(a) if isinstance(a, Var) else None
        if e is None or not isinstance(a, Var) or not _plain_load(e) or len(a.aval.shape) != 2:
            raise _OtherError
        if not self.suits(e):
            raise _OtherError
        return Operand(a, e, turned)


def _plain_load(e: Eqn) -> bool:
    """A load of a whole window from a buffer."""
    out = e.outs[0].aval if e.outs else None
    return e.op.name == "get" and isinstance(e.ins[0].aval, RefAval) and isinstance(out, TileAval) and out.valid is None


def _rule(e: Eqn) -> str:
    return e.op.cpu.emit if isinstance(e.op.cpu, Tilewise) else ""


def _options(e: Eqn) -> tuple[Any, ...]:
    return tuple(e.params.get(name) for name in ("a_trans", "b_trans", "numerics"))


def recognised(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> Plan | None:
    """The plan of a loop that is one, where AMX has instructions for it."""
    start, stop, step = (x.known if isinstance(x, Scalar) else None for x in ins[:3])

    def rows(e: Eqn) -> bool:
        ref = w.env.get(e.ins[0]) if isinstance(e.ins[0], Var) else None
        kept = [i for i in range(len(e.params["sizes"])) if i not in e.params["drop"]]
        return isinstance(ref, Ref) and ref.valid is None and ref.strides[kept[-1]] == 1

    return _plan(eqn.params["body"], (start, stop, step), w.module.features, rows)


def planned(eqn: Eqn, features: frozenset[str]) -> Plan | None:
    """The same before anything is written: of a loop with literal bounds, whatever the layout of what it loads."""
    bounds = [int(a.value) if isinstance(a, Literal) else None for a in eqn.ins[:3]]
    return _plan(eqn.params["body"], bounds, features, lambda e: True)


def _plan(body: Jaxpr, bounds: Sequence[int | None], features: frozenset[str], suits: Callable[[Eqn], bool]) -> Plan | None:
    start, stop, step = bounds
    if start is None or stop is None or step is None or step == 0 or not len(range(start, stop, step)) or len(body.outs) == 0:
        return None
    try:
        return _read(_Reader(body, start, suits), features)
    except _OtherError:
        return None


def _read(reader: _Reader, features: frozenset[str]) -> Plan | None:
    body = reader.body
    sums: list[Sum] = []
    operands: dict[Any, Operand] = {}
    kinds: set[tuple[Any, bool]] = set()
    depths: set[int] = set()
    for inside, out in zip(body.invars[1:], body.outs, strict=True):
        first, more = reader.sum(inside, out)
        a_trans, b_trans, numerics = _options(more)
        left, right = (
            operands.setdefault((reader.meaning(a), side, turned), reader.operand(a, turned))  # each side is packed in its own way
            for side, (a, turned) in enumerate(zip(more.ins[1:], (False, b_trans)))
        )
        dtype = left.var.aval.dtype
        kind = panels.kind_of(dtype, numerics)
        (m, k), shape = left.var.aval.static_shape, right.var.aval.static_shape
        n = shape[0] if b_trans else shape[1]
        wide = more.outs[0].aval.dtype is kind.wide and (first is None or first.outs[0].aval.dtype is kind.wide)
        whole = (
            isinstance(inside.aval, TileAval)
            and inside.aval.valid is None
            and shape[1 if b_trans else 0] == k
            and m % 32 == 0
            and n % 32 == 0
        )
        if a_trans or not wide or not whole or not amx.suits(kind, features) or k % amx.depth(kind):
            return None
        kinds.add((kind.dtype, kind.chunked))
        depths.add(k)
        sums.append(Sum(first, left, right, (m, n)))
    if len(kinds) != 1 or len(depths) != 1:
        return None
    roots = [o.var for o in operands.values()]
    return Plan(panels.Kind(*kinds.pop()), Jaxpr((body.invars[0],), reader.needed(roots), tuple(roots)), tuple(sums), depths.pop())


# ---- writing -----------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Panel:
    """Where an operand is packed: bytes of a strip, and of the part that one turn fills."""

    operand: Operand
    pointer: str
    strip: int
    part: int


def emit(w: Writer, eqn: Eqn, ins: Sequence[Value], plan: Plan) -> list[Value]:
    """Pack, multiply, and again."""
    fn, size = w.fn, plan.kind.dtype.itemsize
    start, stop, step = (int(x.known) for x in ins[:3])  # type: ignore[union-attr]
    turns = len(range(start, stop, step))
    operands = list({id(o): o for s in plan.sums for o in (s.left, s.right)}.values())
    lefts = {id(s.left) for s in plan.sums}
    side_of = {id(o): Side(plan.kind, id(o) not in lefts, id(o) not in lefts and o.turned) for o in operands}
    shared = {id(o) for o in operands if any(p.side == side_of[id(o)] for p in w.packed.get(id(o.load), ()))}
    own = {id(o): o.var.aval.static_shape[0] * o.var.aval.static_shape[1] * size for o in operands if id(o) not in shared}
    group = min(turns, max(1, _BUDGET // sum(own.values()))) if own else turns
    part = 16 * plan.depth * size
    held = {o: w.reserve(dtypes.INT8, (group * many,)) for o, many in own.items()}
    places = [_place(w, s, x, v) for s, x, v in zip(plan.sums, ins[3:], eqn.outs, strict=True)]
    index = eqn.params["body"].invars[0]

    def load(t: Int) -> dict[Var, Value]:
        w.env[index] = Scalar(index.aval.dtype, str(fn.add(fn.mul(t, step), start)))
        loaded = {v: x for v, x in zip(plan.loads.outs, w.block(plan.loads), strict=True) if isinstance(v, Var)}
        w.forget(plan.loads)
        return loaded

    with fn.loop(0, turns, group) as begin:
        many = fn.least(fn.sub(turns, begin), group)
        panels_of = {o: _Panel(x, held[o].pointer, group * part, part) for x in operands if (o := id(x)) in own}
        if own:
            with fn.loop(0, many) as t:
                loaded = load(fn.add(begin, t))
                for o, panel in panels_of.items():
                    x = loaded[panel.operand.var]
                    assert isinstance(x, Tile)
                    _pack(w, plan, x, panel, t, left=o in lefts)
        if shared:
            loaded = load(begin)
            for o in (o for o in operands if id(o) in shared):
                x = loaded[o.var]
                assert isinstance(x, Tile)
                form = form_of(x.memory, side_of[id(o)])
                assert form is not None
                panels_of[id(o)] = _Panel(o, place(w, *form), form[0].strip, part)
        fresh = fn.let(f"icmp eq i64 {begin}, 0")
        tiles = fn.mul(many, plan.depth // amx.depth(plan.kind))
        for s, goal in zip(plan.sums, places, strict=True):
            zeros = fresh if s.first is not None else "false"
            _multiply(w, plan, s, panels_of[id(s.left)], panels_of[id(s.right)], goal, tiles, zeros)
        threads.poll(w, w.module.costs.straight(eqn.params["body"]))
    return [Tile(plan.kind.wide, s.shape, s.shape, goal) for s, goal in zip(plan.sums, places, strict=True)]


def _place(w: Writer, s: Sum, init: Value, out: Var) -> Memory:
    """Where a sum goes; what it begins with is copied there."""
    assert isinstance(init, Tile)
    if s.first is not None:
        return destination(w, out, init.dtype, s.shape) or w.reserve(init.dtype, s.shape)
    w.materialise(init)
    return w.move(init)


def _pack(w: Writer, plan: Plan, x: Tile, panel: _Panel, t: Int, *, left: bool) -> None:
    fn, size, memory = w.fn, plan.kind.dtype.itemsize, w.materialise(x)
    target = fn.at(panel.pointer, fn.mul(t, panel.part))
    if left:
        rows, columns = x.shape
        lda = fn.mul(memory.strides[0], size)
        fn.do(
            f"call void @{amx.pack_left(w.module)}(ptr {memory.pointer}, i64 {lda}, i64 {rows}, i64 {columns * size}, "
            f"ptr {target}, i64 {panel.strip})"
        )
        return
    n, k = x.shape if panel.operand.turned else x.shape[::-1]
    function = amx.pack(w.module, plan.kind, turned=panel.operand.turned)
    fn.do(f"call void @{function}(ptr {memory.pointer}, i64 {memory.strides[0]}, i64 {n}, i64 {k}, ptr {target}, i64 {panel.strip})")


def _multiply(w: Writer, plan: Plan, s: Sum, left: _Panel, right: _Panel, goal: Memory, tiles: Int, fresh: str) -> None:
    a = f"ptr {left.pointer}, i64 64, i64 {amx.TILE}, i64 {left.strip}"
    b = f"ptr {right.pointer}, i64 {right.strip}"
    c = f"ptr {goal.pointer}, i64 {goal.strides[0]}, i64 {s.shape[0]}, i64 {s.shape[1]}"
    w.fn.do(f"call void @{amx.multiply(w.module, plan.kind)}({a}, {b}, {c}, i64 {tiles}, i1 {fresh})")
