"""Tiles from nothing but numbers (triangles, random words), and tiles seen, placed or joined in other ways."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pypto import dtypes, numerics
from pypto.core.ir import Eqn
from pypto.interpreters.cpu.elements import positions, scalar, tile, zeros
from pypto.interpreters.cpu.lanes import Lanes, register_kind
from pypto.interpreters.cpu.memory import _write, filled
from pypto.interpreters.cpu.needs import offset
from pypto.interpreters.cpu.nest import identity
from pypto.interpreters.cpu.text import Int
from pypto.interpreters.cpu.values import Lazy, Memory, Scalar, Tile, Value, spanned
from pypto.numerics.philox import BUMPS, MULTIPLIERS
from pypto.numerics.threefry import PARITY, ROTATIONS

if TYPE_CHECKING:
    from pypto.interpreters.cpu.writer import Writer


def _now(w: Writer, eqn: Eqn, shape: tuple[int, ...], extents: Iterable[Value]) -> tuple[Int, ...]:
    """The region that is written: `valid`, with the run-time extents filled in; all of it where nothing is said."""
    known, given = eqn.params["valid"], iter(extents)
    if known is None:
        return shape
    valid = tuple(w.index(scalar(next(given))) if n is None else n for n in known)
    inside = (test for v, d in zip(valid, shape, strict=True) for test in (w.fn.compare("sge", v, 0), w.fn.compare("sle", v, d)))
    w.check(w.all_of(inside), eqn, "validshape", list(valid))
    return valid


def _cut(w: Writer, eqn: Eqn, whole: Tile, valid: tuple[Int, ...]) -> Tile:
    """A tile of which only a region is written; the rest is zero."""
    if valid == whole.shape:
        return whole
    place = zeros(w, whole.dtype, whole.shape, w.fresh(eqn))
    _write(w, whole, whole.shape, valid, place.pointer, place.strides, None)
    return Tile(whole.dtype, whole.shape, valid, place)


# ---- triangles ---------------------------------------------------------------------------------------------------


def _tri(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    shape, dtype, upper = tuple(eqn.params["shape"]), eqn.params["dtype"], eqn.params["upper"]
    diagonal = w.index(scalar(ins[0]))
    lead = (0,) * (len(shape) - 2)
    # column - row - diagonal decides
    distance = positions(shape, (*lead, -1, 1))

    def emit(e: Lanes, p: str) -> str:
        limit = e.fill("i64", diagonal) if isinstance(diagonal, int) else e.splat("i64", diagonal)
        one = e.let(f"icmp {'sge' if upper else 'sle'}", "i64", p, limit)
        return e.turn("uitofp", "i1", one, "float") if dtype.is_float else e.turn("zext", "i1", one, register_kind(dtype))

    whole = Tile(dtype, shape, shape, Lazy(emit, (distance,), shared=w.shared(eqn)))
    return [_cut(w, eqn, whole, _now(w, eqn, shape, ins[1:]))]


# ---- random words ------------------------------------------------------------------------------------------------

_WORD = 0xFFFFFFFF


def philox(e: Lanes, words: Sequence[str], keys: Sequence[str], rounds: int) -> list[str]:
    """Philox-4x32 on registers of i64 that hold 32-bit words."""

    def op(name: str, a: str, b: str) -> str:
        return e.let(name, "i64", a, b)

    def word(x: str) -> str:
        return op("and", x, e.fill("i64", _WORD))

    c0, c1, c2, c3 = words
    k0, k1 = keys
    half = e.fill("i64", 32)
    for _ in range(rounds):
        first, second = op("mul", c0, e.fill("i64", MULTIPLIERS[0])), op("mul", c2, e.fill("i64", MULTIPLIERS[1]))
        c0 = op("xor", op("xor", op("lshr", second, half), c1), k0)
        c2 = op("xor", op("xor", op("lshr", first, half), c3), k1)
        c1, c3 = word(second), word(first)
        k0, k1 = word(op("add", k0, e.fill("i64", BUMPS[0]))), word(op("add", k1, e.fill("i64", BUMPS[1])))
    return [c0, c1, c2, c3]


def _random(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """Groups of 256 columns: lane l of 0..63 makes the words of columns l, 64 + l, 128 + l and 192 + l."""
    shape, dtype, rounds, fn = tuple(eqn.params["shape"]), eqn.params["dtype"], eqn.params["rounds"], w.fn
    valid = _now(w, eqn, shape, ins[6:])
    place = zeros(w, dtype, shape, w.fresh(eqn))
    group = w.reserve(dtypes.UINT32, (256,))
    key = [fn.let(f"zext i32 {scalar(x).register} to i64") for x in ins[:2]]
    word = [fn.let(f"zext i32 {scalar(x).register} to i64") for x in ins[2:6]]
    low, high = (fn.let(f"or i64 {word[i]}, {fn.let(f'shl i64 {word[i + 1]}, 32')}") for i in (0, 2))
    columns = valid[-1]
    groups: Int = -(-columns // 256) if isinstance(columns, int) else fn.let(f"lshr i64 {fn.add(columns, 255)}, 8")
    with _rows(w, valid, place) as (row, pointer), fn.loop(0, groups) as g:
        start = fn.mul(fn.add(fn.mul(row, groups), g), shape[-1] // 4)
        with fn.loop(0, 64, 16) as first:
            e = Lanes(fn, 16)
            steps = f"<{', '.join(f'i64 {i}' for i in range(16))}>"
            offsets = e.let("add", "i64", e.splat("i64", str(fn.add(start, first))), steps)
            lows = e.let("add", "i64", offsets, e.splat("i64", low))
            carry = e.turn("zext", "i1", e.let("icmp ult", "i64", lows, e.splat("i64", low)), "i64")
            highs = e.let("add", "i64", e.splat("i64", high), carry)
            halves = [e.let(name, "i64", x, e.fill("i64", by)) for x in (lows, highs) for name, by in (("and", _WORD), ("lshr", 32))]
            for j, made in enumerate(philox(e, halves, [e.splat("i64", k) for k in key], rounds)):
                fn.store("<16 x i32>", e.turn("trunc", "i64", made, "i32"), fn.at(group.pointer, fn.add(first, 64 * j), 4), 4)
        begin = fn.mul(g, 256)
        many = fn.least(fn.sub(columns, begin), 256)
        line = Tile(dtypes.UINT32, (256,), (256,), group)
        _write(w, line, (256,), (many,), fn.at(pointer, begin, 4), (1,), None)
    return [Tile(dtype, shape, valid, place)]


@contextmanager
def _rows(w: Writer, valid: Sequence[Int], place: Memory) -> Iterator[tuple[Int, str]]:
    """The rows of a valid region, counted, and where each begins."""
    fn, lead = w.fn, list(valid[:-1])
    with fn.loop(0, fn.product(lead)) as row:
        rest, at = row, []
        for n in reversed(lead[1:]):
            safe = fn.most(n, 1)
            at.append(fn.let(f"urem i64 {rest}, {safe}"))
            rest = fn.let(f"udiv i64 {rest}, {safe}")
        index = [rest, *reversed(at)] if lead else []
        yield row, fn.at(place.pointer, offset(w, place.strides[:-1], index), 4)


def _threefry(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """Both words in one register of 64 bits, so that they are computed once."""

    def emit(e: Lanes, key0: str, key1: str, x0: str, x1: str) -> str:
        def op(name: str, a: str, b: str) -> str:
            return e.let(name, "i32", a, b)

        parity = op("xor", op("xor", key0, key1), e.fill("i32", PARITY))
        keys = [key0, key1, parity]
        a, b = op("add", x0, key0), op("add", x1, key1)
        for group in range(5):
            for r in ROTATIONS[group % 2]:
                a = op("add", a, b)
                turned = op("or", op("shl", b, e.fill("i32", r)), op("lshr", b, e.fill("i32", 32 - r)))
                b = op("xor", turned, a)
            a = op("add", a, keys[(group + 1) % 3])
            b = op("add", b, op("add", keys[(group + 2) % 3], e.fill("i32", group + 1)))
        high = e.let("shl", "i64", e.turn("zext", "i32", b, "i64"), e.fill("i64", 32))
        return e.let("or", "i64", e.turn("zext", "i32", a, "i64"), high)

    def half(shift: int) -> Callable[..., str]:
        return lambda e, x: e.turn("trunc", "i64", e.let("lshr", "i64", x, e.fill("i64", shift)), "i32")

    if all(isinstance(x, Scalar) for x in ins):
        one = Lanes(w.fn, 1)
        both = emit(one, *(scalar(x).register for x in ins))
        return [Scalar(dtypes.UINT32, half(s)(one, both)) for s in (0, 32)]
    operands = tuple(x for x in ins if isinstance(x, Tile | Scalar))
    shape = eqn.outs[0].aval.static_shape
    valid = spanned([(x.valid, x.shape) for x in operands if isinstance(x, Tile)])
    pair = Tile(dtypes.UINT64, shape, shape, Lazy(emit, operands, shared=True))
    w.materialise(pair)
    return [Tile(dtypes.UINT32, shape, valid, Lazy(half(s), (pair,))) for s in (0, 32)]


# ---- the same elements, elsewhere or otherwise -------------------------------------------------------------------


def _move(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x = tile(ins[0])
    return [Tile(x.dtype, x.shape, x.valid, Lazy(identity, (x,)))]


def _relayout(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x = tile(ins[0])
    memory = w.materialise(x)
    shape, strides, valid = ((*v[:-2], v[-1], v[-2]) for v in (x.shape, memory.strides, x.valid))
    return [Tile(x.dtype, shape, valid, w.elsewhere(memory, memory.pointer, strides))]  # type: ignore[arg-type]


def _extract(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, sizes, fn = tile(ins[0]), eqn.params["sizes"], w.fn
    starts = [w.index(scalar(s)) for s in ins[1:]]
    fits = [t for s, n, d in zip(starts, sizes, x.shape, strict=True) for t in (fn.compare("sge", s, 0), fn.compare("sle", s, d - n))]
    w.check(w.all_of(fits), eqn, "extract", list(starts))
    memory = w.materialise(x)
    valid = tuple(fn.least(fn.most(fn.sub(v, s), 0), n) for v, s, n in zip(x.valid, starts, sizes, strict=True))
    pointer = fn.at(memory.pointer, offset(w, memory.strides, starts), x.dtype.itemsize)
    return [Tile(x.dtype, tuple(sizes), valid, w.elsewhere(memory, pointer, memory.strides))]


def _reinterpret(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    x, dtype, fn = tile(ins[0]), eqn.params["dtype"], w.fn
    shape, old, new = eqn.outs[0].aval.static_shape, x.dtype.itemsize, dtype.itemsize
    memory, last = w.dense(x), x.valid[-1]
    if old >= new:
        last = fn.mul(last, old // new)
    else:
        ratio = new // old
        rest = last % ratio if isinstance(last, int) else fn.let(f"urem i64 {last}, {ratio}")
        w.check(fn.compare("eq", rest, 0), eqn, "bits", [last])
        last = last // ratio if isinstance(last, int) else fn.let(f"udiv i64 {last}, {ratio}")
    strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
    return [Tile(dtype, shape, (*x.valid[:-1], last), w.elsewhere(memory, memory.pointer, strides))]


def _expand(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """The valid part in the corner of a larger tile of the pad value."""
    x, shape, given = tile(ins[0]), tuple(eqn.params["shape"]), eqn.params.get("valid")
    pad = w.literal(numerics.round_literal(x.dtype.pad(eqn.params["pad"]), x.dtype), x.dtype)
    w.materialise(x)
    place = w.fresh(eqn)
    _write(w, filled(x.dtype, shape, pad), shape, shape, place.pointer, place.strides, None)
    _write(w, x, x.shape, x.valid if given is None else tuple(given), place.pointer, place.strides, None)
    return [Tile(x.dtype, shape, shape, place)]


def part(how: str) -> Callable[..., list[Value]]:
    """The rule of a part op: combined where both operands are valid, copied where one is, zero elsewhere."""

    def emit(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
        x, y = _part_operands(w, ins, eqn.outs[0].aval.static_shape)
        w.materialise(x)
        w.materialise(y)
        valid = tuple(w.fn.most(a, b) for a, b in zip(x.valid, y.valid, strict=True))
        both = tuple(w.fn.least(a, b) for a, b in zip(x.valid, y.valid, strict=True))
        place = zeros(w, x.dtype, x.shape, w.fresh(eqn))
        for t in (x, y):
            if t.valid != both:
                _write(w, t, t.shape, t.valid, place.pointer, place.strides, None)
        dtype = x.dtype

        def combine(e: Lanes, a: str, b: str) -> str:
            return e.of(dtype).rounded(dtype, getattr(e.of(dtype), how)(a, b))

        _write(w, Tile(dtype, x.shape, both, Lazy(combine, (x, y))), x.shape, both, place.pointer, place.strides, None)
        return [Tile(dtype, x.shape, valid, place)]

    return emit


def _part_operands(w: Writer, ins: Sequence[Value], shape: tuple[int, ...]) -> list[Tile]:
    return [filled(x.dtype, shape, x) if isinstance(x, Scalar) else tile(x) for x in ins]


TRI, RANDOM, THREEFRY, MOVE, RELAYOUT, EXTRACT = _tri, _random, _threefry, _move, _relayout, _extract
REINTERPRET, EXPAND = _reinterpret, _expand
PART_ADD, PART_MUL, PART_MAX, PART_MIN = part("add"), part("mul"), part("max"), part("min")
