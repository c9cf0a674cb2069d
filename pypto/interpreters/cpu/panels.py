"""Matrix products on plain vector units: operands are widened into panels, blocks of the result stay in registers.

One function per kind of product: `c += a @ b`. BF16 in the contract's order takes per 32 k-values an FMA chain over the even and one
over the odd k, with subnormals flushed by the CPU's own switches; the other floats one chain over ascending k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pypto import dtypes
from pypto.dtypes import DType
from pypto.interpreters.cpu.lanes import Lanes, memory_kind
from pypto.interpreters.cpu.text import Function, Int

if TYPE_CHECKING:
    from pypto.interpreters.cpu.module import Module

DEPTH = 256  # k values per panel
CHUNK = 32
_WIDTH = 16


@dataclass(frozen=True)
class Kind:
    """What is multiplied: the dtype, and whether in the order of the BF16 chunks."""

    dtype: DType
    chunked: bool

    @property
    def name(self) -> str:
        return f"{self.dtype.short}{'_chunks' if self.chunked else ''}"

    @property
    def wide(self) -> DType:
        """What panels and results hold."""
        return dtypes.INT32 if self.dtype is dtypes.INT8 else dtypes.FP32

    @property
    def register(self) -> str:
        return "i32" if self.dtype is dtypes.INT8 else "float"


def kind_of(dtype: DType, numerics: str) -> Kind:
    """The kind of a product of a dtype, in the order an equation asks for."""
    return Kind(dtype, dtype is dtypes.BF16 and numerics == "contract")


def block_of(features: frozenset[str]) -> tuple[int, int]:
    """Rows, and vectors of columns, of a block of the result: what the registers hold."""
    return (8, 2) if "avx512f" in features else (4, 1)


def room(m: int, n: int, features: frozenset[str]) -> int:
    """Bytes of scratch that a product of this size needs."""
    rows, vectors = block_of(features)
    columns = vectors * _WIDTH
    return 4 * DEPTH * (-(-m // rows) * rows + -(-n // columns) * columns) + 4 * rows * columns + 256


def widened(e: Lanes, kind: Kind, raw: str) -> str:
    """A panel's elements from those in memory."""
    if kind.dtype is dtypes.INT8:
        return e.turn("sext", "i8", raw, "i32")
    return e.from_memory(kind.dtype, raw)


def product(module: Module, kind: Kind) -> str:
    """The function that adds a product to a dense result; its scratch is `room` bytes."""
    name = f"product_{kind.name}"
    return module.need(name, lambda m: _product(m, kind, name))


_ARGUMENTS = ("a", "am", "ak", "b", "bk", "bn", "c", "ldc", "m", "n", "k", "scratch")
SIGNATURE = [("ptr" if x in ("a", "b", "c", "scratch") else "i64", x) for x in _ARGUMENTS]
"""Pointers; strides in elements of a along m and k, of b along k and n, of c along m; extents."""


def _product(module: Module, kind: Kind, name: str) -> str:
    inner = module.need(f"{name}_inner", lambda m: _inner(m, kind, f"{name}_inner"))
    fn = module.function(name, SIGNATURE, "void")
    call = f"call void @{inner}({', '.join(f'{t} %{x}' for t, x in SIGNATURE)})"
    if kind.chunked:
        was, now = fn.slot("i32", 4), fn.slot("i32", 4)
        fn.do(f"call void @llvm.x86.sse.stmxcsr(ptr {was})")
        fn.store("i32", fn.let(f"or i32 {fn.load('i32', was, 4)}, 32832"), now, 4)  # flush to zero, subnormals are zero
        fn.do(f"call void @llvm.x86.sse.ldmxcsr(ptr {now})")
        fn.do(call)
        fn.do(f"call void @llvm.x86.sse.ldmxcsr(ptr {was})")
    else:
        fn.do(call)
    fn.do("ret void")
    return fn.text()


def _inner(module: Module, kind: Kind, name: str) -> str:
    rows, vectors = block_of(module.features)
    columns = vectors * _WIDTH
    pack_a = module.need(f"{name}_a", lambda m: _pack_a(m, kind, f"{name}_a", rows))
    pack_b = module.need(f"{name}_b", lambda m: _pack_b(m, kind, f"{name}_b", columns))
    block = module.need(f"{name}_block", lambda m: _block(m, kind, f"{name}_block", rows, vectors))
    fn = module.function(name, SIGNATURE, "void")
    size, wide = kind.dtype.itemsize, kind.register
    m_up = fn.mul(fn.let(f"udiv i64 {fn.add('%m', rows - 1)}, {rows}"), rows)
    n_up = fn.mul(fn.let(f"udiv i64 {fn.add('%n', columns - 1)}, {columns}"), columns)
    panel_a = fn.at("%scratch", 0)
    panel_b = fn.at(panel_a, fn.mul(m_up, DEPTH), 4)
    edge = fn.at(panel_b, fn.mul(n_up, DEPTH), 4)
    with fn.loop(0, "%k", DEPTH) as k:
        depth = fn.least(fn.sub("%k", k), DEPTH)
        padded = fn.let(f"and i64 {fn.add(depth, CHUNK - 1)}, {-CHUNK}") if kind.chunked else depth
        a = fn.at("%a", fn.mul(k, "%ak"), size)
        b = fn.at("%b", fn.mul(k, "%bk"), size)
        fn.do(f"call void @{pack_a}(ptr {a}, i64 %am, i64 %ak, i64 %m, i64 {depth}, ptr {panel_a})")
        fn.do(f"call void @{pack_b}(ptr {b}, i64 %bk, i64 %bn, i64 %n, i64 {depth}, i64 {padded}, ptr {panel_b})")
        with fn.loop(0, "%n", columns) as j:
            strip = fn.at(panel_b, fn.mul(j, DEPTH), 4)
            wide_enough = fn.let(f"icmp sle i64 {fn.add(j, columns)}, %n")
            with fn.loop(0, "%m", rows) as i:
                strip_a = fn.at(panel_a, fn.mul(i, DEPTH), 4)
                c = fn.at("%c", fn.add(fn.mul(i, "%ldc"), j), 4)
                tall = fn.let(f"icmp sle i64 {fn.add(i, rows)}, %m")
                whole = fn.let(f"and i1 {wide_enough}, {tall}")
                with fn.when(whole):
                    fn.do(f"call void @{block}(ptr {strip_a}, ptr {strip}, ptr {c}, i64 %ldc, i64 {padded})")
                with fn.when(fn.let(f"xor i1 {whole}, true")):
                    _edge(fn, block, wide, (strip_a, strip, c, edge), (i, j), padded, columns, rows)
    fn.do("ret void")
    return fn.text()


def _edge(
    fn: Function, block: str, wide: str, at: tuple[str, str, str, str], place: tuple[Int, Int], padded: Int, columns: int, rows: int
) -> None:
    """A block that hangs over the edge of the result: computed aside."""
    strip_a, strip, c, edge = at
    height = fn.least(fn.sub("%m", place[0]), rows)
    width = fn.least(fn.sub("%n", place[1]), columns)

    def copy(source: str, source_ld: Int, target: str, target_ld: Int) -> None:
        with fn.loop(0, height) as r, fn.loop(0, width) as s:
            value = fn.load(wide, fn.at(source, fn.add(fn.mul(r, source_ld), s), 4), 4)
            fn.store(wide, value, fn.at(target, fn.add(fn.mul(r, target_ld), s), 4), 4)

    fn.zero(edge, 4 * rows * columns)
    copy(c, "%ldc", edge, columns)
    fn.do(f"call void @{block}(ptr {strip_a}, ptr {strip}, ptr {edge}, i64 {columns}, i64 {padded})")
    copy(edge, columns, c, "%ldc")


def _position(fn: Function, kind: Kind, k: Int) -> Int:
    """Where k value number k stands in a panel: in chunks, the even ones come first."""
    if not kind.chunked:
        return k
    assert isinstance(k, str)
    within = fn.let(f"and i64 {k}, {CHUNK - 1}")
    odd = fn.let(f"shl i64 {fn.let(f'and i64 {within}, 1')}, 4")
    return fn.add(fn.sub(k, within), fn.add(odd, fn.let(f"lshr i64 {within}, 1")))


def _pack_a(module: Module, kind: Kind, name: str, rows: int) -> str:
    """Rows of a, widened: [m up to whole blocks][DEPTH]; what is missing is zero."""
    names = ("a", "am", "ak", "m", "k", "panel")
    fn = module.function(name, [("ptr" if x in ("a", "panel") else "i64", x) for x in names], "void")
    size, memory = kind.dtype.itemsize, memory_kind(kind.dtype)
    vector, one = Lanes(fn, _WIDTH), Lanes(fn, 1)
    up = fn.mul(fn.let(f"udiv i64 {fn.add('%m', rows - 1)}, {rows}"), rows)
    with fn.loop("%m", up) as i:
        fn.zero(fn.at("%panel", fn.mul(i, DEPTH), 4), 4 * DEPTH)
    with fn.loop(0, "%m") as i:
        row, target = fn.at("%a", fn.mul(i, "%am"), size), fn.at("%panel", fn.mul(i, DEPTH), 4)
        step = CHUNK if kind.chunked else _WIDTH
        unit = fn.let("icmp eq i64 %ak, 1")
        whole = fn.pick(unit, fn.let(f"and i64 %k, {-step}"), 0)
        with fn.loop(0, whole, step) as k:
            if kind.chunked:
                pairs = fn.load("<16 x i32>", fn.at(row, k, size), 2)
                even = vector.turn("bitcast", "i32", vector.let("shl", "i32", pairs, vector.fill("i32", 16)), "float")
                odd = vector.turn("bitcast", "i32", vector.let("and", "i32", pairs, vector.fill("i32", -65536)), "float")
                fn.store("<16 x float>", even, fn.at(target, k, 4), 4)
                fn.store("<16 x float>", odd, fn.at(target, fn.add(k, _WIDTH), 4), 4)
            else:
                value = widened(vector, kind, fn.load(vector.type(memory), fn.at(row, k, size), size))
                fn.store(vector.type(kind.register), value, fn.at(target, k, 4), 4)
        if kind.chunked:
            with fn.loop(whole, fn.let(f"and i64 {fn.add('%k', CHUNK - 1)}, {-CHUNK}")) as k:
                fn.store("float", "0.0", fn.at(target, k, 4), 4)
        with fn.loop(whole, "%k") as k:
            value = widened(one, kind, fn.load(memory, fn.at(row, fn.mul(k, "%ak"), size), size))
            fn.store(kind.register, value, fn.at(target, _position(fn, kind, k), 4), 4)
    fn.do("ret void")
    return fn.text()


def _pack_b(module: Module, kind: Kind, name: str, columns: int) -> str:
    """Strips of `columns` columns of b, widened: [strip][k][columns]; what is missing is zero."""
    names = ("b", "bk", "bn", "n", "k", "padded", "panel")
    fn = module.function(name, [("ptr" if x in ("b", "panel") else "i64", x) for x in names], "void")
    size, memory = kind.dtype.itemsize, memory_kind(kind.dtype)
    vector, one = Lanes(fn, _WIDTH), Lanes(fn, 1)
    unit = fn.let("icmp eq i64 %bn, 1")
    with fn.loop(0, "%n", columns) as j:
        strip = fn.at("%panel", fn.mul(j, DEPTH), 4)
        left = fn.least(fn.sub("%n", j), columns)
        full = fn.let(f"icmp eq i64 {left}, {columns}")
        if kind.chunked:
            with fn.loop("%k", "%padded") as k:
                fn.zero(fn.at(strip, fn.mul(_position(fn, kind, k), columns), 4), 4 * columns)
        quick = fn.let(f"and i1 {unit}, {full}")
        with fn.when(quick), fn.loop(0, "%k") as k:
            row = fn.at("%b", fn.add(fn.mul(k, "%bk"), j), size)
            target = fn.at(strip, fn.mul(_position(fn, kind, k), columns), 4)
            for v in range(0, columns, _WIDTH):
                value = widened(vector, kind, fn.load(vector.type(memory), fn.at(row, v, size), size))
                fn.store(vector.type(kind.register), value, fn.at(target, v, 4), 4)
        with fn.when(fn.let(f"xor i1 {quick}, true")):
            fn.zero(strip, fn.mul("%padded", 4 * columns))
            with fn.loop(0, left) as s:
                column = fn.at("%b", fn.mul(fn.add(j, s), "%bn"), size)
                with fn.loop(0, "%k") as k:
                    value = widened(one, kind, fn.load(memory, fn.at(column, fn.mul(k, "%bk"), size), size))
                    fn.store(kind.register, value, fn.at(strip, fn.add(fn.mul(_position(fn, kind, k), columns), s), 4), 4)
    fn.do("ret void")
    return fn.text()


def _block(module: Module, kind: Kind, name: str, rows: int, vectors: int) -> str:
    """One block of the result, in registers over all k of a panel."""
    fn = module.function(name, [("ptr", "a"), ("ptr", "b"), ("ptr", "c"), ("i64", "ldc"), ("i64", "k")], "void")
    e, columns = Lanes(fn, _WIDTH), vectors * _WIDTH
    v = e.type(kind.register)
    grid = [(i, j) for i in range(rows) for j in range(vectors)]
    lines = [fn.at("%c", fn.mul(i, "%ldc"), 4) for i in range(rows)]
    place = {(i, j): fn.at(lines[i], j * _WIDTH, 4) for i, j in grid}
    sums = {ij: fn.slot(v, 64) for ij in grid}

    def run(low: Int, high: Int) -> None:
        with fn.loop(low, high) as k:
            row = fn.at("%b", fn.mul(k, columns), 4)
            right = [fn.load(v, fn.at(row, j * _WIDTH, 4), 4) for j in range(vectors)]
            left_at = fn.at("%a", k, 4)
            for i in range(rows):
                left = e.splat(kind.register, fn.load(kind.register, fn.at(left_at, i * DEPTH, 4), 4))
                for j in range(vectors):
                    old = fn.load(v, sums[i, j], 64)
                    if kind.register == "i32":
                        new = e.let("add", "i32", old, e.let("mul", "i32", left, right[j]))
                    else:
                        new = e.fma("float", left, right[j], old)
                    fn.store(v, new, sums[i, j], 64)

    if not kind.chunked:
        for ij in grid:
            fn.store(v, fn.load(v, place[ij], 4), sums[ij], 64)
        run(0, "%k")
        for ij in grid:
            fn.store(v, fn.load(v, sums[ij], 64), place[ij], 4)
    else:
        evens = {ij: fn.slot(v, 64) for ij in grid}
        with fn.loop(0, "%k", CHUNK) as k:
            for half in (0, 1):
                for ij in grid:
                    fn.store(v, "zeroinitializer", sums[ij], 64)
                run(fn.add(k, half * _WIDTH), fn.add(k, (half + 1) * _WIDTH))
                if half == 0:
                    for ij in grid:
                        fn.store(v, fn.load(v, sums[ij], 64), evens[ij], 64)
            for ij in grid:
                both = e.let("fadd", "float", fn.load(v, evens[ij], 64), fn.load(v, sums[ij], 64))
                fn.store(v, e.let("fadd", "float", fn.load(v, place[ij], 4), both), place[ij], 4)
    fn.do("ret void")
    return fn.text()
