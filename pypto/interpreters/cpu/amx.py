"""Matrix products on AMX tiles, where this CPU has them: the same bits as `panels`, which takes every shape that does not fit.

A tile is 16 rows of 64 bytes. One block of the result is 2 x 2 tiles. The left operand is read where it is; the right one is packed
so that a tile holds 2 (BF16) or 4 (INT8) k-values of 16 columns side by side: strips of 16 columns, in each one tile behind the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pypto import dtypes
from pypto.interpreters.cpu import panels
from pypto.interpreters.cpu.text import Function

if TYPE_CHECKING:
    from pypto.interpreters.cpu.module import Module

TILE = 1024  # bytes of a tile
DEEP = 64  # tiles along k that are multiplied before the next block: two strips of them fit the first cache

_CONFIG = [0] * 64
_CONFIG[0] = 1
for _i in range(8):
    _CONFIG[16 + 2 * _i], _CONFIG[48 + _i] = 64, 16
_GLOBAL = f"@amx_config = private constant [64 x i8] [{', '.join(f'i8 {b}' for b in _CONFIG)}], align 64"
_DECLARES = (
    _GLOBAL,
    "declare void @llvm.x86.ldtilecfg(ptr)",
    "declare void @llvm.x86.tilerelease()",
    "declare void @llvm.x86.tilezero(i8)",
    "declare void @llvm.x86.tileloadd64(i8, ptr, i64)",
    "declare void @llvm.x86.tilestored64(i8, ptr, i64)",
    "declare void @llvm.x86.tdpbf16ps(i8, i8, i8)",
    "declare void @llvm.x86.tdpbssd(i8, i8, i8)",
)


def suits(kind: panels.Kind, features: frozenset[str]) -> bool:
    """Whether there are tile instructions for this kind of product."""
    wanted = "amx-int8" if kind.dtype is dtypes.INT8 else "amx-bf16"
    return "amx-granted" in features and wanted in features and (kind.chunked or kind.dtype is dtypes.INT8)


def depth(kind: panels.Kind) -> int:
    """k values of one tile."""
    return 64 // kind.dtype.itemsize


def room(n: int, k: int, size: int) -> int:
    """Bytes of scratch for the packed right operand."""
    return (n + 31) // 32 * 32 * ((k + 63) // 64 * 64) * size + 64


def product(module: Module, kind: panels.Kind) -> str:
    """As `panels.product`: shapes of whole tiles go to AMX, all others to the panels."""
    name = f"amx_{kind.name}"
    return module.need(name, lambda m: _dispatch(m, kind, name))


def _dispatch(module: Module, kind: panels.Kind, name: str) -> str:
    other, blocks = panels.product(module, kind), multiply(module, kind)
    packs = {"%bn": pack(module, kind, turned=False), "%bk": pack(module, kind, turned=True)}
    fn = module.function(name, panels.SIGNATURE, "void")
    size = kind.dtype.itemsize
    left = fn.let(f"or i64 {fn.let('and i64 %m, 31')}, {fn.let('and i64 %n, 31')}")
    left = fn.let(f"or i64 {left}, {fn.let(f'and i64 %k, {depth(kind) - 1}')}")
    whole = fn.let(f"icmp eq i64 {left}, 0")
    fits = fn.let(f"and i1 {whole}, {fn.let('icmp eq i64 %ak, 1')}")
    for unit, pack_function in packs.items():
        with fn.when(fn.let(f"and i1 {fits}, {fn.let(f'icmp eq i64 {unit}, 1')}")):
            step = "%bk" if unit == "%bn" else "%bn"
            strip = fn.mul("%k", 16 * size)
            fn.do(f"call void @{pack_function}(ptr %b, i64 {step}, i64 %n, i64 %k, ptr %scratch, i64 {strip})")
            lda = fn.mul("%am", size)
            tiles = fn.let(f"udiv i64 %k, {depth(kind)}")
            rest = f"ptr %c, i64 %ldc, i64 %m, i64 %n, i64 {tiles}, i1 false"
            fn.do(f"call void @{blocks}(ptr %a, i64 {lda}, i64 64, i64 {fn.mul(lda, 16)}, ptr %scratch, i64 {strip}, {rest})")
            fn.do("ret void")
            fn.start(f"never{fn.number()}")
    arguments = ", ".join(f"{t} %{x}" for t, x in panels.SIGNATURE)
    fn.do(f"call void @{other}({arguments})")
    fn.do("ret void")
    return fn.text()


# ---- multiplying -------------------------------------------------------------------------------------------------

_POINTERS = ("a", "b", "c")
_NUMBERS = ("lda", "astep", "arows", "strip", "ldc", "m", "n", "tiles")
_ORDER = ("a", "lda", "astep", "arows", "b", "strip", "c", "ldc", "m", "n", "tiles", "fresh")
_BLOCKS = [("ptr" if x in _POINTERS else "i64" if x in _NUMBERS else "i1", x) for x in _ORDER]
"""The left operand: bytes between the rows of a tile, between tiles along k, between tiles along m. The right one: packed, and bytes of
a strip. Then the result with its stride, how large it is, how many tiles there are along k, and whether it begins with zeros."""


def multiply(module: Module, kind: panels.Kind) -> str:
    """The function that adds a product of whole tiles to a result, or makes it."""
    name = f"amx_{kind.name}_blocks"
    return module.need(name, lambda m: _multiply(m, kind, name))


def _multiply(module: Module, kind: panels.Kind, name: str) -> str:
    for line in _DECLARES:
        module.declares.setdefault(line.split("(")[0].split(" = ")[0], line)
    fn = module.function(name, _BLOCKS, "void")
    fn.do("call void @llvm.x86.ldtilecfg(ptr @amx_config)")
    instruction = "tdpbssd" if kind.dtype is dtypes.INT8 else "tdpbf16ps"
    ldc = fn.mul("%ldc", 4)
    with fn.loop(0, "%tiles", DEEP) as first:
        many = fn.least(fn.sub("%tiles", first), DEEP)
        zero = fn.let(f"and i1 %fresh, {fn.let(f'icmp eq i64 {first}, 0')}")
        a_first, b_first = fn.at("%a", fn.mul(first, "%astep")), fn.at("%b", fn.mul(first, TILE))
        with fn.loop(0, "%n", 32) as j:
            b = fn.at(b_first, fn.mul(fn.let(f"lshr i64 {j}, 4"), "%strip"))
            b_next = fn.at(b, "%strip")
            with fn.loop(0, "%m", 32) as i:
                c = fn.at("%c", fn.add(fn.mul(i, "%ldc"), j), 4)
                a = fn.at(a_first, fn.mul(fn.let(f"lshr i64 {i}, 4"), "%arows"))
                a_next, c_next = fn.at(a, "%arows"), fn.at(c, fn.mul(ldc, 16))
                corners = [c, fn.at(c, 64), c_next, fn.at(c_next, 64)]
                n = fn.number()
                fn.do(f"br i1 {zero}, label %zero{n}, label %load{n}")
                fn.start(f"zero{n}")
                for t in range(4):
                    fn.do(f"call void @llvm.x86.tilezero(i8 {t})")
                fn.do(f"br label %go{n}")
                fn.start(f"load{n}")
                for t, corner in enumerate(corners):
                    fn.do(f"call void @llvm.x86.tileloadd64(i8 {t}, ptr {corner}, i64 {ldc})")
                fn.do(f"br label %go{n}")
                fn.start(f"go{n}")
                with fn.loop(0, many) as k:
                    at_a, at_b = fn.mul(k, "%astep"), fn.mul(k, TILE)
                    for t, pointer, stride in ((4, fn.at(a, at_a), "%lda"), (6, fn.at(b, at_b), 64)):
                        fn.do(f"call void @llvm.x86.tileloadd64(i8 {t}, ptr {pointer}, i64 {stride})")
                    fn.do(f"call void @llvm.x86.{instruction}(i8 0, i8 4, i8 6)")
                    fn.do(f"call void @llvm.x86.tileloadd64(i8 7, ptr {fn.at(b_next, at_b)}, i64 64)")
                    fn.do(f"call void @llvm.x86.{instruction}(i8 1, i8 4, i8 7)")
                    fn.do(f"call void @llvm.x86.tileloadd64(i8 5, ptr {fn.at(a_next, at_a)}, i64 %lda)")
                    fn.do(f"call void @llvm.x86.{instruction}(i8 2, i8 5, i8 6)")
                    fn.do(f"call void @llvm.x86.{instruction}(i8 3, i8 5, i8 7)")
                for t, corner in enumerate(corners):
                    fn.do(f"call void @llvm.x86.tilestored64(i8 {t}, ptr {corner}, i64 {ldc})")
    fn.do("call void @llvm.x86.tilerelease()")
    fn.do("ret void")
    return fn.text()


# ---- packing -----------------------------------------------------------------------------------------------------

_PACK = [("ptr", "b"), ("i64", "step"), ("i64", "n"), ("i64", "k"), ("ptr", "target"), ("i64", "strip")]
"""The operand, elements between its rows (of k; of n where it is turned), its size, where to, and bytes from strip to strip."""


def pack(module: Module, kind: panels.Kind, *, turned: bool) -> str:
    """The function that packs a right operand whose columns (whose k values, where it is turned) lie side by side."""
    name = f"amx_{kind.name}_pack{'_turned' if turned else ''}"
    return module.need(name, lambda m: (_pack_turned if turned else _pack)(m, kind, name))


def _mixed(fn: Function, kind: str, lanes: int, a: str, b: str, order: Sequence[int]) -> str:
    v = f"<{lanes} x {kind}>"
    return fn.let(f"shufflevector {v} {a}, {v} {b}, <{len(order)} x i32> <{', '.join(f'i32 {i}' for i in order)}>")


def _pack(module: Module, kind: panels.Kind, name: str) -> str:
    """Rows of b, contiguous along n: 2 or 4 of them are interleaved, 16 columns at a time."""
    fn = module.function(name, _PACK, "void")
    size = kind.dtype.itemsize
    group = 4 // size
    vector = f"<16 x i{8 * size}>"
    with fn.loop(0, "%k", group) as k:
        row = fn.at("%b", fn.mul(k, "%step"), size)
        within = fn.mul(k, 16 * size)
        with fn.loop(0, "%n", 16) as j:
            target = fn.at("%target", fn.add(fn.mul(fn.let(f"lshr i64 {j}, 4"), "%strip"), within))
            source = fn.at(row, j, size)
            rows = [fn.load(vector, fn.at(source, fn.mul(g, "%step"), size), size) for g in range(group)]
            if group == 2:
                mixed = _mixed(fn, "i16", 16, rows[0], rows[1], [x for i in range(16) for x in (i, i + 16)])
            else:
                low = _mixed(fn, "i8", 16, rows[0], rows[1], range(32))
                high = _mixed(fn, "i8", 16, rows[2], rows[3], range(32))
                mixed = _mixed(fn, "i8", 32, low, high, [x for i in range(16) for x in (i, i + 16, i + 32, i + 48)])
            fn.store(f"<{16 * group} x i{8 * size}>", mixed, target, 64)
    fn.do("ret void")
    return fn.text()


def _pack_turned(module: Module, kind: panels.Kind, name: str) -> str:
    """Columns of b, contiguous along k: 16 x 16 words of 4 bytes are transposed."""
    fn = module.function(name, _PACK, "void")
    size = kind.dtype.itemsize
    with fn.loop(0, "%n", 16) as j:
        target = fn.at("%target", fn.mul(fn.let(f"lshr i64 {j}, 4"), "%strip"))
        with fn.loop(0, "%k", depth(kind)) as k:
            source = fn.at("%b", fn.add(fn.mul(j, "%step"), k), size)
            rows = [fn.load("<16 x i32>", fn.at(source, fn.mul(i, "%step"), size), size) for i in range(16)]
            for step in (1, 2, 4, 8):
                for i in range(16):
                    if i & step:
                        continue
                    a, b = rows[i], rows[i + step]
                    rows[i] = _mixed(fn, "i32", 16, a, b, [p if not p & step else 16 + p - step for p in range(16)])
                    rows[i + step] = _mixed(fn, "i32", 16, a, b, [p + step if not p & step else 16 + p for p in range(16)])
            block = fn.at(target, fn.mul(k, 16 * size))
            for i, row in enumerate(rows):
                fn.store("<16 x i32>", row, fn.at(block, 64 * i), 64)
    fn.do("ret void")
    return fn.text()


def pack_left(module: Module) -> str:
    """The function that copies rows into tiles: (a, bytes between rows, rows, bytes of a row, target, bytes between tiles along m)."""
    return module.need("amx_pack_left", lambda m: _pack_left(m))


def _pack_left(module: Module) -> str:
    names = [("ptr", "a"), ("i64", "lda"), ("i64", "m"), ("i64", "width"), ("ptr", "target"), ("i64", "arows")]
    fn = module.function("amx_pack_left", names, "void")
    with fn.loop(0, "%m") as i:
        source = fn.at("%a", fn.mul(i, "%lda"))
        block = fn.at("%target", fn.mul(fn.let(f"lshr i64 {i}, 4"), "%arows"))
        row = fn.at(block, fn.mul(fn.let(f"and i64 {i}, 15"), 64))
        with fn.loop(0, "%width", 64) as k:
            fn.store("<64 x i8>", fn.load("<64 x i8>", fn.at(source, k), 1), fn.at(row, fn.mul(k, 16)), 64)
    fn.do("ret void")
    return fn.text()
