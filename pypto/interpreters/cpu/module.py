"""One LLVM module per program: its orchestration, its kernels, and what they need, as text; then as machine code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pypto.core.avals import RefAval, ScalarAval
from pypto.core.ir import Eqn, Jaxpr
from pypto.interpreters.cpu.blocks import Loose
from pypto.interpreters.cpu.coverage import coverage
from pypto.interpreters.cpu.lanes import memory_kind, register_kind
from pypto.interpreters.cpu.rules import Unsupported
from pypto.interpreters.cpu.text import Function, Int
from pypto.interpreters.cpu.values import Ref, Root, Scalar, Value, contiguous
from pypto.interpreters.cpu.writer import Writer

_RUNTIME = """
declare ptr @calloc(i64, i64)
declare void @free(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

define internal ptr @pypto_new(ptr %heap, i64 %size) #0 {
  %n = add i64 %size, 64
  %p = call ptr @calloc(i64 1, i64 %n)
  %none = icmp eq ptr %p, null
  br i1 %none, label %fail, label %ok
fail:
  ret ptr null
ok:
  %head = load ptr, ptr %heap, align 8
  store ptr %head, ptr %p, align 8
  store ptr %p, ptr %heap, align 8
  %data = getelementptr i8, ptr %p, i64 64
  ret ptr %data
}

define internal void @pypto_free(ptr %heap, ptr %until) #0 {
  br label %head
head:
  %p = load ptr, ptr %heap, align 8
  %done = icmp eq ptr %p, %until
  br i1 %done, label %out, label %one
one:
  %next = load ptr, ptr %p, align 8
  store ptr %next, ptr %heap, align 8
  call void @free(ptr %p)
  br label %head
out:
  ret void
}

define i64 @entry(ptr %arena, ptr %err, ptr %args) #0 {
  %heap = alloca ptr, align 8
  %was = alloca i32, align 4
  %now = alloca i32, align 4
  call void @llvm.x86.sse.stmxcsr(ptr %was)
  store i32 8064, ptr %now, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %now)
  store ptr null, ptr %heap, align 8
  %status = call i64 @main(ptr %arena, ptr %err, ptr %heap, ptr %args)
  call void @pypto_free(ptr %heap, ptr null)
  call void @llvm.x86.sse.ldmxcsr(ptr %was)
  ret i64 %status
}
"""
"""Memory of the orchestration in a list, and the entry: round to nearest, subnormals kept, exceptions masked; all of it put back."""


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
    def tracked(self) -> bool:
        """Whether writes to it are recorded."""
        return isinstance(self.aval, RefAval) and self.aval.direction == "out" and not self.full


class Module:
    """Writes a program. `loose` are the loops for which less is taken for granted."""

    def __init__(self, orchestration: Jaxpr, kernels: Mapping[str, Jaxpr], features: frozenset[str], loose: set[int]) -> None:
        self.orchestration, self.kernels, self.features, self.loose = orchestration, kernels, features, loose
        self.sites: list[Site] = []
        self.room = 64
        self.functions: dict[str, str] = {}
        self.declares = {f"@llvm.s{m}.i64": f"declare i64 @llvm.s{m}.i64(i64, i64)" for m in ("min", "max")}
        self.parameters: list[Parameter] = []
        self._written: dict[Any, str] = {}

    def text(self) -> str:
        """The module without target attributes."""
        self._main()
        return "\n".join([_RUNTIME, *self.declares.values(), *self.functions.values()])

    def site(self, eqn: Eqn, kind: str, count: int, known: dict[str, Any]) -> int:
        """The status a failing check returns: one more than its position."""
        self.sites.append(Site(eqn, kind, count, known))
        return len(self.sites)

    def need(self, name: str, make: Callable[[Module], str]) -> str:
        """A helper function, written once."""
        if name not in self.functions:
            self.functions[name] = ""  # it may need itself
            self.functions[name] = make(self)
        return name

    def function(self, name: str, parameters: list[tuple[str, str]], result: str = "i64") -> Function:
        return Function(name, parameters, result, declares=self.declares)

    # ---- the orchestration ----

    def _main(self) -> None:
        fn = self.function("main", [("ptr", "arena"), ("ptr", "err"), ("ptr", "heap"), ("ptr", "args")])
        w = Writer(self, fn, orchestration=True)
        place = 0
        full, read = coverage(self.orchestration, self.kernels)

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
            parameter = Parameter(aval, v.name, dynamic, v in full, v in read)
            self.parameters.append(parameter)
            pointer = slot("ptr")
            mask = slot("ptr") if parameter.tracked else None
            shape: tuple[Int, ...] = tuple(d if isinstance(d, int) else slot("i64") for d in aval.shape)
            strides = contiguous(shape, fn.mul)
            w.env[v] = Ref(aval.dtype, pointer, shape, strides, frozenset([Root(v.name)]), None, mask, dense=True)
        w.block(self.orchestration)
        fn.do("ret i64 0")
        self.functions["main"] = fn.text()

    # ---- kernels ----

    def kernel(self, name: str, operands: Sequence[Value], *, blocks: bool) -> tuple[str, list[str]]:
        """The function of a kernel for operands laid out like these, and the arguments of a call."""
        roots: dict[Root, int] = {}
        for x in operands:
            for r in sorted(x.roots or (), key=lambda r: r.name) if isinstance(x, Ref) else ():
                roots.setdefault(r, len(roots))
        key = (name, tuple(_key(x, roots) for x in operands), tuple(r.name for r in roots))
        arguments = [a for x in operands for a in _arguments(x)]
        if key not in self._written:
            function = f"k{len(self._written)}"
            self._written[key] = function
            self._kernel(function, name, operands, list(roots), blocks)
        return self._written[key], arguments

    def _kernel(self, function: str, name: str, operands: Sequence[Value], roots: list[Root], blocks: bool) -> None:
        jaxpr = self.kernels[name]
        parameters = [("ptr", "arena"), ("ptr", "err"), *([("i64", "block")] if blocks else [])]
        first = len(parameters)
        parameters += [(a.split(" ")[0], f"p{i}") for i, a in enumerate(a for x in operands for a in _arguments(x))]
        fn = self.function(function, parameters)
        w = Writer(self, fn, orchestration=False)
        names = iter(f"%{n}" for _, n in parameters[first:])
        fresh = {r: Root(r.name) for r in roots}
        invars = list(jaxpr.invars)
        if blocks:
            w.env[invars[0]] = Scalar(invars[0].aval.dtype, "%block")
            invars = invars[1:]
        for v, x in zip(invars, operands, strict=True):
            w.env[v] = _received(x, names, fresh)
        w.block(jaxpr)
        fn.do("ret i64 0")
        self.functions[function] = fn.text()


def _key(x: Value, roots: dict[Root, int]) -> Any:
    if isinstance(x, Scalar):
        return (x.dtype, x.known)
    assert isinstance(x, Ref)
    layout = tuple(d if isinstance(d, int) else None for d in (*x.shape, *x.strides, *(x.valid or ())))
    classes = None if x.roots is None else tuple(sorted(roots[r] for r in x.roots))
    return (x.dtype, len(x.shape), layout, classes, x.mask is not None, x.certain, x.dense)


def _arguments(x: Value) -> list[str]:
    """What is passed for an operand, each with its type: what is not known while writing."""
    if isinstance(x, Scalar):
        return [] if x.known is not None else [f"{register_kind(x.dtype)} {x.register}"]
    assert isinstance(x, Ref)
    dynamic = [f"i64 {d}" for d in (*x.shape, *x.strides, *(x.valid or ())) if not isinstance(d, int)]
    return [f"ptr {x.pointer}", *([f"ptr {x.mask}"] if x.mask is not None else []), *dynamic]


def _received(x: Value, names: Any, fresh: dict[Root, Root]) -> Value:
    if isinstance(x, Scalar):
        return x if x.known is not None else Scalar(x.dtype, next(names))
    assert isinstance(x, Ref)
    pointer = next(names)
    mask = next(names) if x.mask is not None else None

    def take(values: Sequence[Int]) -> tuple[Int, ...]:
        return tuple(d if isinstance(d, int) else next(names) for d in values)

    shape, strides = take(x.shape), take(x.strides)
    valid = None if x.valid is None else take(x.valid)
    roots = None if x.roots is None else frozenset(fresh[r] for r in x.roots)
    return Ref(x.dtype, pointer, shape, strides, roots, valid, mask, x.dense, x.certain)


def written(orchestration: Jaxpr, kernels: Mapping[str, Jaxpr], features: frozenset[str]) -> tuple[Module, str]:
    """A program's module as text; written again where a loop carries handles of different layouts."""
    loose: set[int] = set()
    while True:
        module = Module(orchestration, kernels, features, loose)
        try:
            return module, module.text()
        except Loose as found:
            loose.add(id(found.eqn))
