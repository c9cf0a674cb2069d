"""LLVM functions as text: names, blocks, loops, and index arithmetic that folds what is known."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

Int = int | str
"""An i64: a number known while the code is written, or the name of a register."""


def float_bits(value: float) -> str:
    """An FP32 constant, as LLVM writes it: the bits of the FP64 number of the same value."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(np.float32(value))))[0]:016X}"


def double_bits(value: float) -> str:
    """An FP64 constant."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"


def constant(kind: str, value: bool | int | float) -> str:
    """A constant of a scalar LLVM type."""
    if kind == "float":
        return float_bits(float(value))
    if kind == "double":
        return double_bits(float(value))
    if kind == "i1":
        return "true" if value else "false"
    return str(int(value))


class Function:
    """One function: its lines, its stack slots (all in the entry block, so that SROA finds them), and its current block."""

    def __init__(
        self,
        name: str,
        parameters: list[tuple[str, str]],
        result: str = "i64",
        attributes: str = "#0",
        declares: dict[str, str] | None = None,
        features: frozenset[str] = frozenset(),
    ) -> None:
        self.features = features
        self.name, self.parameters, self.result, self.attributes = name, parameters, result, attributes
        self.declares = {} if declares is None else declares
        self.lines: list[str] = []
        self.slots: list[str] = []
        self.cold: list[str] = []
        self.marks: list[tuple[int, int]] = []  # where an equation begins or ends, and in which body: see pieces.py
        self._numbers = itertools.count()

    def number(self) -> int:
        return next(self._numbers)

    def let(self, text: str) -> str:
        """A new register holding the result of an instruction."""
        name = f"%v{next(self._numbers)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """An instruction without a result."""
        self.lines.append(f"  {text}")

    def slot(self, kind: str, align: int = 8) -> str:
        """A place on the stack."""
        name = f"%s{next(self._numbers)}"
        self.slots.append(f"  {name} = alloca {kind}, align {align}")
        return name

    def start(self, label: str) -> None:
        """Begin a block; the one before must have ended."""
        self.lines.append(f"{label}:")

    def text(self, *, exported: bool = False) -> str:
        """The function; other modules and Python see it only if it is exported."""
        parameters = ", ".join(f"{kind} %{name}" for kind, name in self.parameters)
        body = "\n".join([*self.slots, *self.lines, *self.cold])
        return (
            f"define {'' if exported else 'internal '}{self.result} @{self.name}({parameters}) {self.attributes} {{\nentry:\n{body}\n}}\n"
        )

    # ---- i64 arithmetic ----

    def add(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        return b if a == 0 else a if b == 0 else self.let(f"add i64 {a}, {b}")

    def sub(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if b == 0 else self.let(f"sub i64 {a}, {b}")

    def mul(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 0 or b == 0:
            return 0
        return b if a == 1 else a if b == 1 else self.let(f"mul i64 {a}, {b}")

    def product(self, extents: tuple[Int, ...] | list[Int]) -> Int:
        total: Int = 1
        for d in extents:
            total = self.mul(total, d)
        return total

    def least(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return a if a == b else self.let(f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})")

    def most(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return a if a == b else self.let(f"call i64 @llvm.smax.i64(i64 {a}, i64 {b})")

    def compare(self, how: str, a: Int, b: Int) -> bool | str:
        """A signed comparison, decided here when both sides are known."""
        if isinstance(a, int) and isinstance(b, int):
            return {"slt": a < b, "sle": a <= b, "sgt": a > b, "sge": a >= b, "eq": a == b, "ne": a != b}[how]
        return self.let(f"icmp {how} i64 {a}, {b}")

    def pick(self, test: bool | str, a: Int, b: Int) -> Int:
        if isinstance(test, bool):
            return a if test else b
        return self.let(f"select i1 {test}, i64 {a}, i64 {b}")

    # ---- memory ----

    def at(self, pointer: str, offset: Int, size: int = 1) -> str:
        """A pointer `offset` elements of `size` bytes further."""
        if offset == 0:
            return pointer
        if isinstance(offset, int):
            return self.let(f"getelementptr i8, ptr {pointer}, i64 {offset * size}")
        return self.let(f"getelementptr i{8 * size}, ptr {pointer}, i64 {offset}")

    def load(self, kind: str, pointer: str, align: int) -> str:
        return self.let(f"load {kind}, ptr {pointer}, align {align}")

    def store(self, kind: str, value: Int, pointer: str, align: int) -> None:
        self.do(f"store {kind} {value}, ptr {pointer}, align {align}")

    def ask(self, pointer: str, *, writes: bool = False, near: bool = True) -> None:
        """Have a cache line brought nearer, wherever that is: the first cache, or the second."""
        name = "@llvm.prefetch.p0"
        self.declares.setdefault(name, f"declare void {name}(ptr, i32, i32, i32)")
        self.do(f"call void {name}(ptr {pointer}, i32 {int(writes)}, i32 {3 if near else 2}, i32 1)")

    def zero(self, pointer: str, size: Int) -> None:
        self.do(f"call void @llvm.memset.p0.i64(ptr {pointer}, i8 0, i64 {size}, i1 false)")

    # ---- control ----

    @contextmanager
    def loop(self, low: Int, high: Int, step: Int = 1) -> Iterator[str]:
        """Run a block for low, low + step, ... while below high; step is positive."""
        n = self.number()
        self.do(f"br label %pre{n}")
        self.start(f"pre{n}")
        self.do(f"br label %head{n}")
        self.start(f"head{n}")
        index = f"%i{n}"
        self.do(f"{index} = phi i64 [ {low}, %pre{n} ], [ %next{n}, %latch{n} ]")
        self.do(f"%more{n} = icmp slt i64 {index}, {high}")
        self.do(f"br i1 %more{n}, label %body{n}, label %done{n}")
        self.start(f"body{n}")
        yield index
        self.do(f"br label %latch{n}")
        self.start(f"latch{n}")
        self.do(f"%next{n} = add nsw i64 {index}, {step}")
        self.do(f"br label %head{n}")
        self.start(f"done{n}")

    @contextmanager
    def turns(self, test: Callable[[], str]) -> Iterator[None]:
        """Run a block while an i1 is true; `test` writes the code that computes it."""
        n = self.number()
        self.do(f"br label %test{n}")
        self.start(f"test{n}")
        self.do(f"br i1 {test()}, label %turn{n}, label %end{n}")
        self.start(f"turn{n}")
        yield
        self.do(f"br label %test{n}")
        self.start(f"end{n}")

    @contextmanager
    def when(self, test: str) -> Iterator[None]:
        """Run a block if an i1 is true."""
        n = self.number()
        self.do(f"br i1 {test}, label %then{n}, label %after{n}")
        self.start(f"then{n}")
        yield
        self.do(f"br label %after{n}")
        self.start(f"after{n}")
