"""Loop nests: everything that leads to a result is computed in one pass, what does not vary in a loop outside of it.

Axes along which every operand and target is laid out alike are merged first, so that a chain on contiguous tiles is a single loop.
The innermost axis is cut into vectors and a rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pypto.interpreters.cpu.early import destination, name_of
from pypto.interpreters.cpu.lanes import Lanes, memory_kind, register_kind
from pypto.interpreters.cpu.needs import far
from pypto.interpreters.cpu.text import Int
from pypto.interpreters.cpu.values import Lazy, Memory, Scalar, Tile

if TYPE_CHECKING:
    from pypto.interpreters.cpu.writer import Writer

WIDTH = 16
_ROW = 512  # bytes of a row from which on the next one is asked for beforehand: what a CPU foresees by itself ends with the page


@dataclass(frozen=True)
class Place:
    """Where elements go: a pointer, a stride per axis of the nest, and bytes per element; `far` if that is a buffer, not on-chip memory."""

    pointer: str
    strides: tuple[Int, ...]
    size: int
    far: bool = False


def identity(e: Lanes, x: str) -> str:
    """What a broadcast computes."""
    return x


def aligned(strides: Sequence[Int], shape: Sequence[int], full: Sequence[int]) -> tuple[Int, ...]:
    """Strides for the axes of a larger shape: what is broadcast does not move."""
    pad = len(full) - len(shape)
    return tuple(0 if i < pad or shape[i - pad] == 1 else strides[i - pad] for i in range(len(full)))


class Nest:
    """The loops over `extents`, leading parts of the static shape `full`, that evaluate `roots`."""

    def __init__(
        self,
        w: Writer,
        full: tuple[int, ...],
        extents: tuple[Int, ...],
        roots: Sequence[Tile],
        places: Sequence[Place] = (),
        *,
        keep_last: bool = False,
    ) -> None:
        self.w, self.fn = w, w.fn
        self.full, self.extents = full, extents
        self.kept: list[tuple[Tile, Memory]] = []
        self.places = list(places)
        self._settle(roots)
        self.nodes = list({id(t): t for root in roots for t in root.tree()}.values())
        self.rows: dict[int, tuple[Int, ...]] = {}  # strides of leaves and of what counts, by node
        for t in self.nodes:
            if isinstance(t.source, Memory):
                self.rows[id(t)] = aligned(t.source.strides, t.shape, full)
            elif t.source.counts is not None:
                self.rows[id(t)] = aligned(t.source.counts, t.shape, full)
        self._merge(keep_last)
        self.level: dict[int, int] = {}
        for t in self.nodes:
            own = [i for i, s in enumerate(self.rows.get(id(t), ())) if s != 0]
            below = [self.level[id(x)] for x in t.source.operands if isinstance(x, Tile)] if isinstance(t.source, Lazy) else []
            self.level[id(t)] = max([*own, *below], default=-1)
        self.values: dict[int, str] = {}
        self.counters: dict[int, Int] = {}

    # ---- before the loops ----

    def _settle(self, roots: Sequence[Tile]) -> None:
        """Compute beforehand what this nest would compute too often; keep what others ask for too, where every element is met."""
        whole = self.extents == self.full
        for root in roots:
            for t in list(root.tree()):
                if self._wanted(t) and ((t.source.shared and not (whole and t.shape == self.full)) or self._repeats(t)):  # type: ignore[union-attr]
                    self.w.materialise(t)
        for root in roots:
            for t in list(root.tree()):
                if self._wanted(t) and t.source.shared:  # type: ignore[union-attr]
                    t.source.shared = False  # type: ignore[union-attr]
                    place = destination(self.w, name_of(self.w, t), t.dtype, t.shape)
                    self.kept.append((t, place or self.w.reserve(t.dtype, t.shape)))

    @staticmethod
    def _wanted(t: Tile) -> bool:
        return isinstance(t.source, Lazy) and t.source.emit is not identity

    def _repeats(self, t: Tile) -> bool:
        """Whether a value varies along an axis, but not along one of more than one element before it."""
        assert isinstance(t.source, Lazy)
        if t.source.counts is None and not any(isinstance(x, Tile) for x in t.source.operands):
            return False
        pad = len(self.full) - len(t.shape)
        varies = [i >= pad and t.shape[i - pad] != 1 for i in range(len(self.full))]
        last = max((i for i, v in enumerate(varies) if v), default=-1)
        return any(not v and self.full[i] != 1 for i, v in enumerate(varies[: max(last, 0)]))

    def _merge(self, keep_last: bool) -> None:
        """Drop axes of one element, and merge neighbours that all operands and targets walk through alike."""
        self.places += [Place(m.pointer, aligned(m.strides, t.shape, self.full), t.dtype.itemsize, far(m.roots)) for t, m in self.kept]
        rows = [*self.rows.values(), *(p.strides for p in self.places)]
        axes: list[tuple[Int, list[Int]]] = []
        last = len(self.extents) - 1
        for i, n in enumerate(self.extents):
            strides = [r[i] for r in rows]
            if n == 1 and not (keep_last and i == last):
                continue
            if axes and not (keep_last and i == last) and isinstance(n, int):
                before, outer = axes[-1]
                if all(isinstance(s, int) and isinstance(o, int) and o == s * n for s, o in zip(strides, outer)):
                    axes[-1] = (self.fn.mul(before, n), strides)
                    continue
            axes.append((n, strides))
        if not axes:
            axes = [(1, [0] * len(rows))]
        self.counts: list[Int] = [n for n, _ in axes]
        keys = list(self.rows)
        self.rows = {key: tuple(s[j] for _, s in axes) for j, key in enumerate(keys)}
        self.places = [replace(p, strides=tuple(s[len(keys) + j] for _, s in axes)) for j, p in enumerate(self.places)]

    # ---- the loops ----

    @contextmanager
    def outer(self) -> Iterator[Inner]:
        """Open every loop but the innermost."""
        self.pointers = {id(t): t.source.pointer for t in self.nodes if isinstance(t.source, Memory)}
        self.counters = {id(t): 0 for t in self.nodes if isinstance(t.source, Lazy) and t.source.counts is not None}
        self.targets = [p.pointer for p in self.places]
        with ExitStack() as stack:
            self._evaluate(-1)
            for axis, n in enumerate(self.counts[:-1]):
                index = stack.enter_context(self.fn.loop(0, n))
                self._advance(axis, index)
                self._evaluate(axis)
            yield Inner(self)
        for t, memory in self.kept:
            t.source = memory

    def _advance(self, axis: int, index: Int) -> None:
        for t in self.nodes:
            stride = self.rows[id(t)][axis] if id(t) in self.rows else 0
            if stride == 0:
                continue
            step = self.fn.mul(index, stride)
            if id(t) in self.pointers:
                self.pointers[id(t)] = self.fn.at(self.pointers[id(t)], step, t.dtype.itemsize)
            else:
                self.counters[id(t)] = self.fn.add(self.counters[id(t)], step)
        for j, p in enumerate(self.places):
            if p.strides[axis] != 0:
                self.targets[j] = self.fn.at(self.targets[j], self.fn.mul(index, p.strides[axis]), p.size)

    def _evaluate(self, level: int) -> None:
        """Scalars of everything that varies no deeper than this level."""
        lanes = Lanes(self.fn, 1)
        for t in self.nodes:
            if self.level[id(t)] == level and level < len(self.counts) - 1:
                if isinstance(t.source, Memory):
                    raw = self.fn.load(memory_kind(t.dtype), self.pointers[id(t)], t.dtype.itemsize)
                    self.values[id(t)] = lanes.from_memory(t.dtype, raw)
                else:
                    self.values[id(t)] = self.compute(lanes, t, lambda x: self.values[id(x)], self.counters.get(id(t), 0))

    def compute(self, lanes: Lanes, t: Tile, get: Callable[[Tile], str], counter: Int = 0) -> str:
        """The register of a value that is computed, from those of its operands."""
        assert isinstance(t.source, Lazy)
        registers = []
        if t.source.counts is not None:
            first = lanes.splat("i64", str(counter))
            if lanes.width > 1:
                step = int(self.rows[id(t)][-1])
                steps = ", ".join(f"i64 {i * step}" for i in range(lanes.width))
                first = lanes.let("add", "i64", first, f"<{steps}>")
            registers.append(first)
        for x in t.source.operands:
            if isinstance(x, Tile):
                registers.append(get(x))
            else:
                registers.append(self.spread(lanes, x))
        return t.source.emit(lanes, *registers)

    def spread(self, lanes: Lanes, x: Scalar) -> str:
        """A scalar in every lane."""
        kind = register_kind(x.dtype)
        if lanes.width == 1 or x.register.startswith("%"):
            return lanes.splat(kind, x.register)
        return f"splat ({kind} {x.register})"


class Inner:
    """The innermost axis: `count` elements that are still to be walked over."""

    def __init__(self, nest: Nest) -> None:
        self.nest, self.fn = nest, nest.fn
        self.count = nest.counts[-1]
        self.axis = len(nest.counts) - 1
        self._splats: dict[tuple[int, int], str] = {}

    def prepare(self, width: int) -> None:
        """Spread what does not vary along this axis, before the loop that needs it."""
        lanes = Lanes(self.fn, width)
        for t in self.nest.nodes:
            if self.nest.level[id(t)] < self.axis and width > 1 and id(t) in self.nest.values:
                self._splats[id(t), width] = lanes.splat(register_kind(t.dtype), self.nest.values[id(t)])

    def at(self, width: int, j: Int) -> Step:
        """The elements j, j + 1, ... of this axis, in one register each."""
        return Step(self, width, j)

    def width(self) -> int:
        """How many lanes suit the number of elements."""
        if not isinstance(self.count, int):
            return WIDTH
        return min(WIDTH, 1 << (self.count.bit_length() - 1)) if self.count else 1

    def each(self, visit: Callable[[Step], None], width: int | None = None) -> None:
        """Walk over all elements in vectors, then over the rest one by one; in ascending order always."""
        width = width or self.width()
        fn, n = self.fn, self.count
        whole = n - n % width if isinstance(n, int) else fn.let(f"and i64 {n}, {-width}")
        if whole != 0:
            self.prepare(width)
            if whole == width:
                self._visit(visit, width, 0)
            else:
                with fn.loop(0, whole, width) as j:
                    self._visit(visit, width, j)
        if whole != n:
            self.prepare(1)
            with fn.loop(whole, n) as j:
                self._visit(visit, 1, j)

    def _visit(self, visit: Callable[[Step], None], width: int, j: Int) -> None:
        step = self.at(width, j)
        visit(step)
        step.keep()


class Step:
    """One register's worth of elements."""

    def __init__(self, inner: Inner, width: int, j: Int) -> None:
        self.inner, self.nest, self.fn, self.j = inner, inner.nest, inner.fn, j
        self.lanes = Lanes(inner.fn, width)
        self._raw: dict[int, str] = {}
        self._values: dict[int, str] = {}

    def get(self, t: Tile) -> str:
        """The register of a tile's elements."""
        key = id(t)
        if key in self._values:
            return self._values[key]
        for node in t.tree():  # operands first: no recursion, however long the chain
            if id(node) not in self._values:
                self._values[id(node)] = self._value(node)
        return self._values[key]

    def _value(self, t: Tile) -> str:
        key = id(t)
        if self.nest.level[key] < self.inner.axis:
            value = self.nest.values[key]
            return value if self.lanes.width == 1 else self.inner._splats[key, self.lanes.width]
        if isinstance(t.source, Memory):
            return self.lanes.from_memory(t.dtype, self.raw(t))
        counter: Int = 0
        if t.source.counts is not None:
            counter = self.fn.add(self.nest.counters[key], self.fn.mul(self.j, self.nest.rows[key][self.inner.axis]))
        return self.nest.compute(self.lanes, t, lambda x: self._values[id(x)], counter)

    def raw(self, t: Tile) -> str:
        """The bits of a tile's elements, where they are in memory as they are; otherwise those of the register."""
        while (
            isinstance(t.source, Lazy) and t.source.emit is identity and isinstance(x := t.source.operands[0], Tile) and x.dtype is t.dtype
        ):
            t = x  # only moved: a register would quieten a signalling NaN, which may be the bits of an index
        if not isinstance(t.source, Memory):
            return self.lanes.to_memory(t.dtype, self.get(t))
        if id(t) not in self._raw:
            self._raw[id(t)] = self._load(t)
        return self._raw[id(t)]

    def _load(self, t: Tile) -> str:
        kind, size = memory_kind(t.dtype), t.dtype.itemsize
        stride = self.nest.rows[id(t)][self.inner.axis]
        pointer = self.fn.at(self.nest.pointers[id(t)], self.fn.mul(self.j, stride), size)
        if self.lanes.width == 1 or stride == 1:
            if stride == 1 and far(t.source.roots):  # type: ignore[union-attr]  # a leaf
                self._ahead(pointer, self.nest.rows[id(t)], size, writes=False)
            return self.fn.load(self.lanes.type(kind), pointer, size)
        if stride == 0:
            return self.lanes.splat(kind, self.fn.load(kind, pointer, size))
        vector, v = "poison", self.lanes.type(kind)
        for i in range(self.lanes.width):
            element = self.fn.load(kind, self.fn.at(pointer, self.fn.mul(i, stride), size), size)
            vector = self.fn.let(f"insertelement {v} {vector}, {kind} {element}, i64 {i}")
        return vector

    def put(self, number: int, t: Tile) -> None:
        """Store a tile's elements in place `number`."""
        self.put_raw(number, memory_kind(t.dtype), self.raw(t))

    def put_raw(self, number: int, kind: str, value: str) -> None:
        place = self.nest.places[number]
        stride = place.strides[self.inner.axis]
        pointer = self.fn.at(self.nest.targets[number], self.fn.mul(self.j, stride), place.size)
        if self.lanes.width == 1 or stride == 1:
            if stride == 1 and place.far:
                self._ahead(pointer, place.strides, place.size, writes=True)
            self.fn.store(self.lanes.type(kind), value, pointer, place.size)
            return
        for i in range(self.lanes.width):
            element = self.fn.let(f"extractelement {self.lanes.type(kind)} {value}, i64 {i}")
            self.fn.store(kind, element, self.fn.at(pointer, self.fn.mul(i, stride), place.size), place.size)

    def _ahead(self, pointer: str, strides: tuple[Int, ...], size: int, *, writes: bool) -> None:
        """Ask for the same place of the next row, so that memory works meanwhile."""
        count = self.inner.count
        if self.lanes.width < WIDTH or len(strides) < 2 or strides[-2] == 0 or not isinstance(count, int) or count * size < _ROW:
            return
        self.fn.ask(self.fn.at(pointer, strides[-2], size), writes=writes)

    def keep(self) -> None:
        """Store what others will ask for."""
        first = len(self.nest.places) - len(self.nest.kept)
        for j, (t, _) in enumerate(self.nest.kept):
            self.put(first + j, t)
