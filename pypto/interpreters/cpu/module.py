"""One LLVM module per program: its orchestration, its kernels, and what they need, as text; then as machine code."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pypto.core.avals import RefAval, ScalarAval
from pypto.core.ir import Eqn, Jaxpr
from pypto.interpreters.cpu.blocks import Loose
from pypto.interpreters.cpu.costs import Costs
from pypto.interpreters.cpu.facts import Facts, facts
from pypto.interpreters.cpu.lanes import memory_kind, register_kind
from pypto.interpreters.cpu.native import NUMBERS
from pypto.interpreters.cpu.operands import arguments_of, key_of, received
from pypto.interpreters.cpu.packed import Uses
from pypto.interpreters.cpu.pieces import LONG, MANY, cut, shared
from pypto.interpreters.cpu.prefixes import wanted
from pypto.interpreters.cpu.rules import Unsupported
from pypto.interpreters.cpu.sharing import shares
from pypto.interpreters.cpu.text import Function, Int
from pypto.interpreters.cpu.values import Ref, Root, Scalar, Value, contiguous
from pypto.interpreters.cpu.writer import Writer

_RUNTIME = """
declare ptr @pypto_new(ptr, i64)
declare ptr @pypto_raw(ptr, i64)
declare void @pypto_free(ptr, ptr)
declare i64 @pypto_parallel(ptr, ptr, i64, i64, i64, ptr, ptr, i64)
declare i64 @pypto_turn(ptr)
declare i64 @pypto_poll(ptr)
declare i64 @pypto_barrier(ptr, i64)
declare i64 @pypto_phases(ptr, ptr, i64, ptr, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""
"""What `native` provides: memory of the orchestration in a list, threads, order, signals."""


@dataclass(frozen=True)
class Site:
    """A check that can fail: its equation, what it checks, how many numbers it records, and what was known while writing."""

    eqn: Eqn
    kind: str
    count: int
    known: dict[str, Any]


@dataclass(frozen=True)
class Parameter:
    """One traced argument of the entry: which slots of the argument record it takes.

    Attributes:
      dynamic: axes whose extents are passed.
      full: every run writes all of it.
      read: something may read it.
    """

    aval: RefAval | ScalarAval
    name: str
    dynamic: tuple[int, ...] = ()
    full: bool = False
    read: bool = True

    @property
    def slots(self) -> int:
        """How many slots of the argument record it takes."""
        return 1 + self.tracked + len(self.dynamic)

    @property
    def tracked(self) -> bool:
        """Whether writes to it are recorded."""
        return isinstance(self.aval, RefAval) and self.aval.direction == "out" and not self.full


class Module:
    """Writes a program. `loose` are the loops for which less is taken for granted."""

    def __init__(self, orchestration: Jaxpr, kernels: Mapping[str, Jaxpr], features: frozenset[str], loose: set[int], known: Facts) -> None:
        self.facts = known
        self.orchestration, self.kernels, self.features, self.loose = orchestration, kernels, features, loose
        self.sites: list[Site] = []
        self.room = 64
        self.functions: dict[str, str] = {}
        self.declares = {f"@llvm.s{m}.i64": f"declare i64 @llvm.s{m}.i64(i64, i64)" for m in ("min", "max")}
        self.parameters: list[Parameter] = []
        self.costs, self.wanted = Costs(kernels), wanted((orchestration, *kernels.values()))
        self._written: dict[Any, tuple[str, list[str]]] = {}
        self.pieces: dict[str, str] = {}
        self._lines = 0  # of all kernels so far
        self.shares = shares(orchestration, kernels, features, known)
        self.shared = ["ptr %shared"] if self.shares.room else []

    def text(self) -> str:
        """The module without target attributes."""
        self._main()
        return "\n".join([_RUNTIME, f"@room = internal constant i64 {self.room}", *self.declares.values(), *self.functions.values()])

    def site(self, eqn: Eqn, kind: str, count: int, known: dict[str, Any]) -> int:
        """The status a failing check returns: one more than its position."""
        assert count <= NUMBERS, f"{kind} records {count} numbers"
        self.sites.append(Site(eqn, kind, count, known))
        return len(self.sites)

    def need(self, name: str, make: Callable[[Module], str]) -> str:
        """A helper function, written once."""
        if name not in self.functions:
            self.functions[name] = ""  # it may need itself
            self.functions[name] = make(self)
        return name

    def bytes(self, raw: bytes) -> str:
        """The name of a constant of these bytes."""
        name = f"@bytes_{hashlib.sha256(raw).hexdigest()[:24]}"
        text = "".join(f"\\{b:02X}" for b in raw)
        self.declares.setdefault(name, f'{name} = private constant [{len(raw)} x i8] c"{text}", align 64')
        return name

    def function(self, name: str, parameters: list[tuple[str, str]], result: str = "i64") -> Function:
        return Function(name, parameters, result, declares=self.declares, features=self.features)

    # ---- the orchestration ----

    def _main(self) -> None:
        fn = self.function("main", [("ptr", "arena"), ("ptr", "err"), ("ptr", "heap"), ("ptr", "args")])
        w = Writer(self, fn, orchestration=True)
        place = 0
        if self.shared:
            fn.do(f"%shared = getelementptr i8, ptr %arena, i64 {fn.load('i64', '@room', 8)}")

        def slot(kind: str) -> str:
            nonlocal place
            place += 1
            return fn.load(kind, fn.at("%args", 8 * (place - 1)), 8)

        for v in self.orchestration.invars:
            aval = v.aval
            if isinstance(aval, ScalarAval):
                self.parameters.append(Parameter(aval, v.name))
                kind = register_kind(aval.dtype)
                raw = slot("i8" if kind == "i1" else kind)
                w.env[v] = Scalar(aval.dtype, fn.let(f"icmp ne i8 {raw}, 0") if kind == "i1" else raw)
                continue
            if not isinstance(aval, RefAval):
                raise Unsupported(f"an argument {aval}")
            memory_kind(aval.dtype)
            dynamic = tuple(i for i, d in enumerate(aval.shape) if not isinstance(d, int))
            parameter = Parameter(aval, v.name, dynamic, v in self.facts.full, v in self.facts.read)
            self.parameters.append(parameter)
            pointer = slot("ptr")
            mask = slot("ptr") if parameter.tracked else None
            shape: tuple[Int, ...] = tuple(d if isinstance(d, int) else slot("i64") for d in aval.shape)
            strides = contiguous(shape, fn.mul)
            w.env[v] = Ref(aval.dtype, pointer, shape, strides, frozenset([Root(v.name)]), None, mask, dense=True)
        w.block(self.orchestration)
        fn.do("ret i64 0")
        self.functions["main"] = cut(self, fn, exported=True) if len(fn.lines) > LONG else fn.text(exported=True)

    # ---- kernels ----

    def kernel(self, name: str, operands: Sequence[Value], packed: Uses, *, blocks: bool) -> tuple[str, list[str]]:
        """The function of a kernel for operands laid out like these, and the arguments of a call."""
        roots: dict[Root, int] = {}
        for x in operands:
            for r in sorted(x.roots or (), key=lambda r: r.name) if isinstance(x, Ref) else ():
                roots.setdefault(r, len(roots))
        forms = frozenset(id(p) for e in self.kernels[name].walk() for p in packed.get(id(e), ()))
        key = (name, tuple(key_of(x, roots) for x in operands), tuple(r.name for r in roots), forms)
        arguments = [a for x in operands for a in arguments_of(x)]
        if key not in self._written:
            self._written[key] = self._kernel(f"k{len(self._written)}", name, operands, list(roots), packed, blocks)
        function, constants = self._written[key]
        return function, arguments + constants

    def _kernel(
        self, function: str, name: str, operands: Sequence[Value], roots: list[Root], packed: Uses, blocks: bool
    ) -> tuple[str, list[str]]:
        """Write a kernel; the name of its function, and what else that is called with."""
        jaxpr = self.kernels[name]
        parameters = [
            ("ptr", "arena"),
            ("ptr", "err"),
            *([("ptr", "shared")] if self.shared else []),
            *([("i64", "block")] if blocks else []),
        ]
        first = len(parameters)
        parameters += [(a.split(" ")[0], f"p{i}") for i, a in enumerate(a for x in operands for a in arguments_of(x))]
        fn = self.function(function, parameters)
        w = Writer(self, fn, orchestration=False)
        w.packed = packed
        names = iter(f"%{n}" for _, n in parameters[first:])
        fresh = {r: Root(r.name) for r in roots}
        invars = list(jaxpr.invars)
        if blocks:
            w.env[invars[0]] = Scalar(invars[0].aval.dtype, "%block")
            invars = invars[1:]
        for v, x in zip(invars, operands, strict=True):
            w.env[v] = received(x, names, fresh)
        w.block(jaxpr)
        fn.do("ret i64 0")
        self._lines += len(fn.lines)
        if self._lines > MANY and len(fn.lines) <= LONG:
            return shared(self, fn)
        self.functions[function] = cut(self, fn) if len(fn.lines) > LONG else fn.text()
        return function, []


def written(orchestration: Jaxpr, kernels: Mapping[str, Jaxpr], features: frozenset[str]) -> tuple[Module, str]:
    """A program's module as text; written again where a loop carries handles of different layouts."""
    loose: set[int] = set()
    known = facts(orchestration, kernels)
    while True:
        module = Module(orchestration, kernels, features, loose, known)
        try:
            return module, module.text()
        except Loose as found:
            loose.add(id(found.eqn))
