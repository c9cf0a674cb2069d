"""Matrix products on AMX tiles, where this CPU has them: the same bits as `panels`, which takes every shape that does not fit.

A tile is 16 rows of 64 bytes. One block of the result is 2 x 2 tiles; the left operand is read where it is, the right one is packed
so that a tile holds 2 (BF16) or 4 (INT8) k-values of 16 columns side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pypto import dtypes
from pypto.interpreters.cpu import panels
from pypto.interpreters.cpu.text import Function, Int

if TYPE_CHECKING:
    from pypto.interpreters.cpu.module import Module

_CONFIG = [0] * 64
_CONFIG[0] = 1
for _i in range(8):
    _CONFIG[16 + 2 * _i], _CONFIG[48 + _i] = 64, 16
_GLOBAL = f"@amx_config = private constant [64 x i8] [{', '.join(f'i8 {b}' for b in _CONFIG)}], align 64"
_DECLARES = (
    _GLOBAL,
    "declare void @llvm.x86.ldtilecfg(ptr)",
    "declare void @llvm.x86.tilerelease()",
    "declare void @llvm.x86.tileloadd64(i8, ptr, i64)",
    "declare void @llvm.x86.tilestored64(i8, ptr, i64)",
    "declare void @llvm.x86.tdpbf16ps(i8, i8, i8)",
    "declare void @llvm.x86.tdpbssd(i8, i8, i8)",
)


def suits(kind: panels.Kind, features: frozenset[str]) -> bool:
    """Whether there are tile instructions for this kind of product."""
    wanted = "amx-int8" if kind.dtype is dtypes.INT8 else "amx-bf16"
    return "amx-granted" in features and wanted in features and (kind.chunked or kind.dtype is dtypes.INT8)


def room(n: int, k: int, size: int) -> int:
    """Bytes of scratch for the packed right operand."""
    return (n + 31) // 32 * 32 * ((k + 63) // 64 * 64) * size + 64


def product(module: Module, kind: panels.Kind) -> str:
    """As `panels.product`: shapes of whole tiles go to AMX, all others to the panels."""
    name = f"amx_{kind.name}"
    return module.need(name, lambda m: _dispatch(m, kind, name))


def _dispatch(module: Module, kind: panels.Kind, name: str) -> str:
    for line in _DECLARES:
        module.declares.setdefault(line.split("(")[0].split(" = ")[0], line)
    other = panels.product(module, kind)
    depth = 64 // kind.dtype.itemsize
    fn = module.function(name, panels.SIGNATURE, "void")
    inner = {
        label: module.need(f"{name}_{label}", lambda m, label=label: _product(m, kind, f"{name}_{label}", label == "turned"))
        for label in ("plain", "turned")
    }
    left = fn.let(f"or i64 {fn.let('and i64 %m, 31')}, {fn.let('and i64 %n, 31')}")
    left = fn.let(f"or i64 {left}, {fn.let(f'and i64 %k, {depth - 1}')}")
    whole = fn.let(f"icmp eq i64 {left}, 0")
    fits = fn.let(f"and i1 {whole}, {fn.let('icmp eq i64 %ak, 1')}")
    arguments = ", ".join(f"{t} %{x}" for t, x in panels.SIGNATURE)
    for label, test in (("plain", "%bn"), ("turned", "%bk")):
        with fn.when(fn.let(f"and i1 {fits}, {fn.let(f'icmp eq i64 {test}, 1')}")):
            fn.do(f"call void @{inner[label]}({arguments})")
            fn.do("ret void")
            fn.start(f"never{fn.number()}")
    fn.do(f"call void @{other}({arguments})")
    fn.do("ret void")
    return fn.text()


def _product(module: Module, kind: panels.Kind, name: str, turned: bool) -> str:
    fn = module.function(name, panels.SIGNATURE, "void")
    size = kind.dtype.itemsize
    depth = 64 // size
    strip = fn.mul("%k", 16 * size)  # bytes of 16 packed columns
    (_pack_turned if turned else _pack)(fn, size, depth, strip)
    fn.do("call void @llvm.x86.ldtilecfg(ptr @amx_config)")
    multiply = "tdpbssd" if kind.dtype is dtypes.INT8 else "tdpbf16ps"
    lda, ldc = fn.mul("%am", size), fn.mul("%ldc", 4)
    with fn.loop(0, "%n", 32) as j:
        b = fn.at("%scratch", fn.mul(fn.let(f"lshr i64 {j}, 4"), strip))
        b_next = fn.at(b, strip)
        with fn.loop(0, "%m", 32) as i:
            c = fn.at("%c", fn.add(fn.mul(i, "%ldc"), j), 4)
            a = fn.at("%a", fn.mul(i, "%am"), size)
            a_next, c_next = fn.at(a, fn.mul(lda, 16)), fn.at(c, fn.mul(ldc, 16))
            corners = [c, fn.at(c, 64), c_next, fn.at(c_next, 64)]
            for t, corner in enumerate(corners):
                fn.do(f"call void @llvm.x86.tileloadd64(i8 {t}, ptr {corner}, i64 {ldc})")
            with fn.loop(0, "%k", depth) as k:
                at_a, at_b = fn.mul(k, size), fn.mul(k, 16 * size)
                for t, pointer, stride in (
                    (4, fn.at(a, at_a), lda),
                    (6, fn.at(b, at_b), 64),
                    (7, fn.at(b_next, at_b), 64),
                    (5, fn.at(a_next, at_a), lda),
                ):
                    fn.do(f"call void @llvm.x86.tileloadd64(i8 {t}, ptr {pointer}, i64 {stride})")
                for t, (x, y) in enumerate(((4, 6), (4, 7), (5, 6), (5, 7))):
                    fn.do(f"call void @llvm.x86.{multiply}(i8 {t}, i8 {x}, i8 {y})")
            for t, corner in enumerate(corners):
                fn.do(f"call void @llvm.x86.tilestored64(i8 {t}, ptr {corner}, i64 {ldc})")
    fn.do("call void @llvm.x86.tilerelease()")
    fn.do("ret void")
    return fn.text()


def _mixed(fn: Function, kind: str, lanes: int, a: str, b: str, order: Sequence[int]) -> str:
    v = f"<{lanes} x {kind}>"
    return fn.let(f"shufflevector {v} {a}, {v} {b}, <{len(order)} x i32> <{', '.join(f'i32 {i}' for i in order)}>")


def _pack(fn: Function, size: int, depth: int, strip: Int) -> None:
    """Rows of b, contiguous along n: 2 or 4 of them are interleaved, 16 columns at a time."""
    group = 4 // size
    vector = f"<16 x i{8 * size}>"
    with fn.loop(0, "%n", 16) as j:
        target = fn.at("%scratch", fn.mul(fn.let(f"lshr i64 {j}, 4"), strip))
        with fn.loop(0, "%k", group) as k:
            source = fn.at("%b", fn.add(fn.mul(k, "%bk"), j), size)
            rows = [fn.load(vector, fn.at(source, fn.mul(g, "%bk"), size), size) for g in range(group)]
            if group == 2:
                mixed = _mixed(fn, "i16", 16, rows[0], rows[1], [x for i in range(16) for x in (i, i + 16)])
            else:
                low = _mixed(fn, "i8", 16, rows[0], rows[1], range(32))
                high = _mixed(fn, "i8", 16, rows[2], rows[3], range(32))
                mixed = _mixed(fn, "i8", 32, low, high, [x for i in range(16) for x in (i, i + 16, i + 32, i + 48)])
            fn.store(f"<{16 * group} x i{8 * size}>", mixed, fn.at(target, fn.mul(k, 16 * size)), 64)


def _pack_turned(fn: Function, size: int, depth: int, strip: Int) -> None:
    """Columns of b, contiguous along k: 16 x 16 words of 4 bytes are transposed."""
    with fn.loop(0, "%n", 16) as j:
        target = fn.at("%scratch", fn.mul(fn.let(f"lshr i64 {j}, 4"), strip))
        with fn.loop(0, "%k", depth) as k:
            source = fn.at("%b", fn.add(fn.mul(j, "%bn"), k), size)
            rows = [fn.load("<16 x i32>", fn.at(source, fn.mul(i, "%bn"), size), size) for i in range(16)]
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
