"""Index scalars as polynomials over atoms, so that `x[r : r + 8]` has the static extent 8.

An atom stands for one run-time integer: a loop index, a block index, a symbolic extent, one scalar read (every read
is a new atom), or the floor quotient, remainder, minimum or maximum of two polynomials. Structural atoms of equal
operands are equal; what grows too large becomes an opaque atom, which is safe: it is equal only to itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_fresh = itertools.count()
_MAX_TERMS = 64
_MAX_DEGREE = 16
_MAX_KEY = 400


@dataclass(frozen=True, order=True)
class Atom:
    """One unknown integer; equal when the keys are.

    `parts` are the symbol and the two operands of a structural atom, None for an unknown of its own.
    """

    key: str
    name: str = field(compare=False)
    parts: tuple[str, Index, Index] | None = field(default=None, compare=False, repr=False)

    @property
    def serial(self) -> int:
        """When an unknown was made, counted from 0."""
        assert self.parts is None, self
        return int(self.key[1:], 16)

    def __str__(self) -> str:
        return self.name


Monomial = tuple[Atom, ...]


@dataclass(frozen=True)
class Index:
    """A polynomial with integer coefficients: sorted (monomial, coefficient) pairs; the empty monomial is the constant."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    @staticmethod
    def constant(value: int) -> Index:
        return Index((((), value),)) if value else Index()

    @staticmethod
    def of(x: Index | int) -> Index:
        return x if isinstance(x, Index) else Index.constant(int(x))

    @staticmethod
    def fresh(name: str) -> Index:
        """A new unknown, equal to nothing but itself."""
        # one width, so that keys sort in the order the unknowns were made in, whatever was traced before in this process
        return Index((((Atom(f"a{next(_fresh):06x}", name),), 1),))

    @property
    def value(self) -> int | None:
        """The constant this is, or None."""
        if not self.terms:
            return 0
        (monomial, coefficient), *rest = self.terms
        return coefficient if not rest and monomial == () else None

    @property
    def key(self) -> str:
        return "+".join(f"{c}*{'*'.join(a.key for a in m)}" for m, c in self.terms)

    @property
    def degree(self) -> int:
        """How many atoms the longest product has."""
        return max((len(m) for m, _ in self.terms), default=0)

    def atoms(self) -> set[Atom]:
        return {a for m, _ in self.terms for a in m}

    def unknowns(self) -> set[Atom]:
        """The atoms this depends on, those inside structural atoms included."""
        found: set[Atom] = set()
        for a in self.atoms():
            found |= {a} if a.parts is None else a.parts[1].unknowns() | a.parts[2].unknowns()
        return found

    def __add__(self, other: Index | int) -> Index:
        other = Index.of(other)
        sums = dict(self.terms)
        for monomial, c in other.terms:
            sums[monomial] = sums.get(monomial, 0) + c
        return _collect(sums)

    def __neg__(self) -> Index:
        return Index(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Index | int) -> Index:
        return self + (-Index.of(other))

    def __rsub__(self, other: int) -> Index:
        return Index.of(other) - self

    def __mul__(self, other: Index | int) -> Index:
        other = Index.of(other)
        if self.degree + other.degree > _MAX_DEGREE:
            return Index.fresh("(…)")
        sums: dict[Monomial, int] = {}
        for m, c in self.terms:
            for n, d in other.terms:
                product = tuple(sorted(m + n))
                sums[product] = sums.get(product, 0) + c * d
        return _collect(sums)

    __radd__ = __add__
    __rmul__ = __mul__

    def __floordiv__(self, other: Index | int) -> Index:
        return self._quotient("//", Index.of(other))

    def __mod__(self, other: Index | int) -> Index:
        return self._quotient("%", Index.of(other))

    def _quotient(self, symbol: str, by: Index) -> Index:
        a, k = self.value, by.value
        if a is not None and k:
            return Index.constant(a // k if symbol == "//" else a % k)
        if k is None or k == 0:
            return structural(symbol, self, by)
        # floor((k*q + r) / k) = q + floor(r / k), so whatever k divides leaves the quotient and the remainder
        whole = Index(tuple((m, c // k) for m, c in self.terms if c % k == 0))
        rest = Index(tuple((m, c) for m, c in self.terms if c % k))
        if symbol == "//":
            return whole + (rest._quotient(symbol, by) if rest.value is not None else structural("//", rest, by))
        return Index.constant(rest.value % k) if rest.value is not None else structural("%", rest, by)

    def evaluate(self, values: Mapping[Atom, int]) -> int:
        """The integer this is when the unknowns have these values; structural atoms follow from their operands."""
        total = 0
        for monomial, c in self.terms:
            for atom in monomial:
                c *= values[atom] if atom.parts is None else _value(*atom.parts, values)
            total += c
        return total

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        parts = []
        for monomial, c in self.terms:
            names = "*".join(str(a) for a in monomial)
            parts.append(str(c) if not names else names if c == 1 else f"-{names}" if c == -1 else f"{c}*{names}")
        return " + ".join(parts).replace("+ -", "- ")


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "//": lambda a, b: a // b if b else 0,  # what unchecked runs give
    "%": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
}


def _value(symbol: str, a: Index, b: Index, values: Mapping[Atom, int]) -> int:
    return _OPERATIONS[symbol](a.evaluate(values), b.evaluate(values))


def _collect(sums: dict[Monomial, int]) -> Index:
    terms = tuple(sorted((m, c) for m, c in sums.items() if c))
    if len(terms) > _MAX_TERMS:
        return Index.fresh("(…)")
    return Index(terms)


def structural(symbol: str, a: Index, b: Index) -> Index:
    """The atom for `a symbol b`; equal operands give equal atoms."""
    key = f"({a.key} {symbol} {b.key})"
    if len(key) > _MAX_KEY:
        return Index.fresh("(…)")
    return Index((((Atom(key, f"({a} {symbol} {b})", (symbol, a, b)),), 1),))


def extreme(symbol: str, a: Index, b: Index) -> Index:
    """`min` or `max` of two polynomials; of constants, and of operands whose difference is constant, it is one of them."""
    difference = (a - b).value
    if difference is not None:
        return a if (difference <= 0) == (symbol == "min") else b
    first, second = sorted((a, b), key=lambda p: p.key)
    return structural(symbol, first, second)


Dim = int | Index
"""An extent: a number, or a polynomial when it is known only at run time."""


def dim(x: Index | int | Any) -> Dim:
    """An extent in its simplest form: constants become ints."""
    if isinstance(x, Index):
        return x if x.value is None else x.value
    return int(x)


def is_static(shape: Iterable[Dim]) -> bool:
    """Whether every extent is a number."""
    return all(isinstance(d, int) for d in shape)
