"""The IR: variables, literals, equations and jaxprs. One data structure at every level, frozen once traced.

A nested body (of a loop, a branch, a region) sits in its equation's params and may use the variables of the bodies
around it, as regions do in MLIR; an outlined kernel is closed. A variable of tile type is a *cell* until the pass
`promote_cells` has run: `set` updates it in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto.core.avals import Aval
from pypto.core.index import Atom as IndexAtom
from pypto.core.index import Dim, Index
from pypto.errors import InternalError
from pypto.source import Frame, Source

if TYPE_CHECKING:
    from pypto.core.op import Op


@dataclass(eq=False, slots=True)
class Var:
    """One value of a program. Equal only to itself; `name` is the user's and only for showing."""

    aval: Aval
    name: str = ""

    def __repr__(self) -> str:
        return f"Var({self.name or '_'}: {self.aval})"


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: a scalar, or an array that a traced function closed over."""

    value: Any
    aval: Aval

    def __repr__(self) -> str:
        return f"Literal({self.value}: {self.aval})"


Atom = Var | Literal


@dataclass(frozen=True, eq=False, slots=True)
class Eqn:
    """`outs = op[params](ins)`, written at `source`."""

    op: Op
    ins: tuple[Atom, ...]
    outs: tuple[Var, ...]
    params: dict[str, Any]
    source: Frame | Source | None = None

    def bodies(self) -> Iterator[Jaxpr]:
        """The nested bodies, in the order of the params."""
        for value in self.params.values():
            if isinstance(value, Jaxpr):
                yield value
            elif isinstance(value, tuple):
                yield from (v for v in value if isinstance(v, Jaxpr))

    def replace(self, **changes: Any) -> Eqn:
        return replace(self, **changes)


@dataclass(frozen=True, eq=False)
class Jaxpr:
    """Inputs, equations in order, outputs."""

    invars: tuple[Var, ...]
    eqns: tuple[Eqn, ...]
    outs: tuple[Atom, ...]
    name: str = ""
    facts: frozenset[str] = field(default_factory=frozenset)

    def replace(self, **changes: Any) -> Jaxpr:
        return replace(self, **changes)

    def __str__(self) -> str:
        from pypto.core.printer import show

        return show(self)

    def walk(self) -> Iterator[Eqn]:
        """Every equation, outer before inner, in program order."""
        stack: list[Iterator[Eqn]] = [iter(self.eqns)]
        while stack:
            for eqn in stack[-1]:
                yield eqn
                inner = [e for body in eqn.bodies() for e in body.eqns]
                if inner:
                    stack.append(iter(inner))
                    break
            else:
                stack.pop()

    def count(self) -> int:
        """How many equations there are, nested ones included."""
        return sum(1 for _ in self.walk())


def free_vars(jaxpr: Jaxpr) -> tuple[Var, ...]:
    """Variables a body uses but neither takes nor makes, in order of first use."""
    bound: set[Var] = set()
    free: dict[Var, None] = {}

    def visit(j: Jaxpr) -> None:
        bound.update(j.invars)
        for eqn in j.eqns:
            note(eqn.ins)
            for body in eqn.bodies():
                visit(body)
            bound.update(eqn.outs)
        note(j.outs)

    def note(atoms: Sequence[Atom]) -> None:
        for a in atoms:
            if isinstance(a, Var) and a not in bound:
                free.setdefault(a)

    visit(jaxpr)
    return tuple(free)


def rename(jaxpr: Jaxpr, mapping: dict[Var, Atom], *, copy: bool = False) -> Jaxpr:
    """Replace variables by atoms, in every nested body; with `copy`, give everything made inside a new variable."""
    table: dict[Var, Atom] = dict(mapping)

    def use(a: Atom) -> Atom:
        return table.get(a, a) if isinstance(a, Var) else a

    def define(v: Var) -> Var:
        if copy:
            table[v] = fresh = Var(v.aval, v.name)
            return fresh
        return v

    def param(p: Any) -> Any:
        if isinstance(p, tuple) and any(isinstance(x, Jaxpr) for x in p):
            return tuple(map(param, p))
        return body(p) if isinstance(p, Jaxpr) else p

    def body(j: Jaxpr) -> Jaxpr:
        invars = tuple(define(v) for v in j.invars)
        eqns = []
        for e in j.eqns:
            ins = tuple(use(a) for a in e.ins)
            params = {k: param(p) for k, p in e.params.items()}
            eqns.append(Eqn(e.op, ins, tuple(define(v) for v in e.outs), params, e.source))
        return j.replace(invars=invars, eqns=tuple(eqns), outs=tuple(use(a) for a in j.outs))

    return body(jaxpr)


def alpha_equal(a: Jaxpr, b: Jaxpr) -> bool:
    """Whether two jaxprs are the same program up to the names and identities of their variables and index atoms."""
    left: dict[Var, Var] = {}
    right: dict[Var, Var] = {}
    numbers: tuple[dict[str, int], dict[str, int]] = ({}, {})

    def bind(x: Var, y: Var) -> bool:
        left[x], right[y] = y, x
        return aval(x.aval, y.aval)

    def aval(x: Aval, y: Aval) -> bool:
        return (
            len(x.shape) == len(y.shape)
            and all(_canonical(m, numbers[0]) == _canonical(n, numbers[1]) for m, n in zip(x.shape, y.shape, strict=True))
            and replace(x, shape=()) == replace(y, shape=())  # of different classes they are never equal
        )

    def atom(x: Atom, y: Atom) -> bool:
        if isinstance(x, Var) and isinstance(y, Var):
            return left[x] is y if x in left else x is y and y not in right
        return isinstance(x, Literal) and isinstance(y, Literal) and aval(x.aval, y.aval) and _bits(x.value) == _bits(y.value)

    def param(x: Any, y: Any) -> bool:
        if isinstance(x, Jaxpr) and isinstance(y, Jaxpr):
            return body(x, y)
        if isinstance(x, tuple) and isinstance(y, tuple) and any(isinstance(v, Jaxpr) for v in x):
            return many(x, y, param)
        if isinstance(x, Aval) and isinstance(y, Aval):
            return aval(x, y)
        if isinstance(x, np.ndarray | np.generic) or isinstance(y, np.ndarray | np.generic):
            return type(x) is type(y) and _bits(x) == _bits(y)
        return type(x) is type(y) and x == y

    def many(xs: Sequence[Any], ys: Sequence[Any], same: Any) -> bool:
        return len(xs) == len(ys) and all(same(x, y) for x, y in zip(xs, ys, strict=True))

    def eqn(x: Eqn, y: Eqn) -> bool:
        return (
            x.op is y.op
            and many(x.ins, y.ins, atom)
            and x.params.keys() == y.params.keys()
            and all(param(x.params[k], y.params[k]) for k in x.params)
            and many(x.outs, y.outs, bind)
        )

    def body(x: Jaxpr, y: Jaxpr) -> bool:
        return many(x.invars, y.invars, bind) and many(x.eqns, y.eqns, eqn) and many(x.outs, y.outs, atom)

    return body(a, b)


def _bits(value: Any) -> tuple[Any, ...]:
    raw = np.asarray(value)
    return raw.dtype, raw.shape, raw.tobytes()


def _canonical(extent: Dim, numbers: dict[str, int]) -> Any:
    """An extent with its unknowns numbered by first appearance, so that those of two programs compare.

    Unknowns that appear together for the first time are numbered in the order in which they were made.
    """
    if isinstance(extent, int):
        return extent
    for unknown in sorted(extent.unknowns(), key=lambda u: u.serial):
        numbers.setdefault(unknown.key, len(numbers))

    def atom(a: IndexAtom) -> Any:
        if a.parts is None:
            return ("", numbers[a.key])
        symbol, first, second = a.parts
        operands = (polynomial(first), polynomial(second))
        return (symbol, *(sorted(operands, key=repr) if symbol in ("min", "max") else operands))

    def polynomial(p: Index) -> Any:
        return tuple(sorted(((tuple(sorted(map(atom, m), key=repr)), c) for m, c in p.terms), key=repr))

    return polynomial(extent)


def check(jaxpr: Jaxpr) -> None:
    """Structural check: every variable is made once, before its uses, and every output exists.

    Errors:
      PL901 naming the first equation that breaks this.
    """
    made: set[Var] = set()
    bodies: set[int] = set()

    def define(v: Var, where: str) -> None:
        if v in made:
            raise InternalError("PL901", f"{v} is made twice, again by {where}")
        made.add(v)

    visible: set[Var] = set()

    def use(a: Atom, where: str) -> None:
        if isinstance(a, Var) and a not in visible:
            raise InternalError("PL901", f"{a} is used by {where} before it is made")

    def body(j: Jaxpr) -> None:
        inside: list[Var] = []
        for v in j.invars:
            define(v, f"the inputs of {j.name or 'a body'}")
            inside.append(v)
        visible.update(inside)
        for e in j.eqns:
            for a in e.ins:
                use(a, e.op.name)
            for b in e.bodies():
                if id(b) not in bodies or free_vars(b):  # a program that is closed may be the body of several equations
                    bodies.add(id(b))
                    body(b)
            for v in e.outs:
                define(v, e.op.name)
                visible.add(v)
                inside.append(v)
        for a in j.outs:
            use(a, "the outputs")
        visible.difference_update(inside)

    body(jaxpr)
