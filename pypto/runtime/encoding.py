"""Programs as plain JSON values and back: numbers, strings and lists only, so that reading one never runs anything.

Variables, abstract values, source places and bodies are numbered tables; an equation names its op and refers to them. A
body refers to bodies before it only, so nesting costs no recursion. Floats are written as hexadecimal, constants as bytes.
"""

from __future__ import annotations

import base64
import enum
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from pypto.core.avals import ArrayAval, Aval, RefAval, ScalarAval, TileAval
from pypto.core.index import Atom as IndexAtom
from pypto.core.index import Dim, Index, extreme, structural
from pypto.core.ir import Atom, Eqn, Jaxpr, Literal, Var
from pypto.core.op import OPS
from pypto.dtypes import DTYPES, DType, dtype_of
from pypto.errors import CallError
from pypto.lax.tasks import Launch
from pypto.platform import Space
from pypto.source import Source, resolve
from pypto.tile import KernelBody, Program

SCHEMA = 1
"""The version of this form. Another one is refused when it is read."""

_AVALS: dict[str, type[Aval]] = {"array": ArrayAval, "tile": TileAval, "ref": RefAval, "scalar": ScalarAval}
_KIND = {cls: name for name, cls in _AVALS.items()}
_ENUMS: dict[str, type[enum.Enum]] = {"Space": Space}
_DEEPEST = 100
"""How deep options may be nested in one another; those of real programs are two or three deep."""


class Unreadable(Exception):
    """What is read is no program of this form; the text says where."""


# ---- writing ------------------------------------------------------------------------------------------------------


class _Writer:
    def __init__(self) -> None:
        self.vars: dict[Var, int] = {}
        self.var_rows: list[Any] = []
        self.avals: dict[Aval, int] = {}
        self.aval_rows: list[Any] = []
        self.sources: dict[Source, int] = {}
        self.unknowns: dict[str, IndexAtom] = {}
        self.bodies: list[Any] = []

    def var(self, v: Var) -> int:
        if v not in self.vars:
            row = [self.aval(v.aval), v.name]
            self.vars[v] = len(self.var_rows)
            self.var_rows.append(row)
        return self.vars[v]

    def aval(self, a: Aval) -> int:
        if a not in self.avals:
            row: dict[str, Any] = {"is": _KIND[type(a)], "shape": [self.dim(d) for d in a.shape], "dtype": a.dtype.name}
            if isinstance(a, RefAval | TileAval):
                row["space"] = None if a.space is None else a.space.name
                row["valid"] = None if a.valid is None else list(a.valid)
            if isinstance(a, TileAval):
                row["level"] = a.level
            elif isinstance(a, RefAval):
                row["direction"] = a.direction
            elif isinstance(a, ScalarAval):
                row["weak"] = a.weak
            self.avals[a] = len(self.aval_rows)
            self.aval_rows.append(row)
        return self.avals[a]

    def dim(self, d: Dim) -> Any:
        return d if isinstance(d, int) else self.index(d)

    def index(self, p: Index) -> Any:
        return [[[self.index_atom(a) for a in monomial], c] for monomial, c in p.terms]

    def index_atom(self, a: IndexAtom) -> Any:
        if a.parts is None:
            self.unknowns[a.key] = a
            return a.key
        symbol, first, second = a.parts
        return [symbol, self.index(first), self.index(second)]

    def atom(self, a: Atom) -> Any:
        return self.var(a) if isinstance(a, Var) else {"value": self.value(a.value, "a literal"), "aval": self.aval(a.aval)}

    def source(self, where: Any) -> int | None:
        place = resolve(where)
        return None if place is None else self.sources.setdefault(place, len(self.sources))

    def body(self, j: Jaxpr) -> int:
        eqns = []
        for e in j.eqns:
            params = {name: self.value(value, f"{e.op.name}[{name}]") for name, value in e.params.items()}
            eqns.append([e.op.name, [self.atom(a) for a in e.ins], [self.var(v) for v in e.outs], params, self.source(e.source)])
        row = {"name": j.name, "in": [self.var(v) for v in j.invars], "eqns": eqns, "out": [self.atom(a) for a in j.outs]}
        self.bodies.append({**row, "facts": sorted(j.facts)})
        return len(self.bodies) - 1

    def value(self, x: Any, where: str) -> Any:
        if x is None or type(x) in (bool, int, str):
            return x
        if type(x) is float:
            return {"float": x.hex()}
        if type(x) is tuple:
            return {"tuple": [self.value(item, where) for item in x]}
        if isinstance(x, DType):
            return {"dtype": x.name}
        if isinstance(x, Jaxpr):
            return {"body": self.body(x)}
        if isinstance(x, Aval):
            return {"aval": self.aval(x)}
        if isinstance(x, Index):
            return {"index": self.index(x)}
        if type(x).__name__ in _ENUMS and isinstance(x, _ENUMS[type(x).__name__]):
            return {"enum": [type(x).__name__, x.name]}
        if isinstance(x, Launch):
            return {"launch": asdict(x)}
        if isinstance(x, np.ndarray | np.generic):
            return self.array(np.asarray(x))
        raise CallError("PL608", f"{where} holds a {type(x).__name__}, which has no written form", fix="keep the program in this process")

    @staticmethod
    def array(x: np.ndarray) -> Any:
        data = base64.b64encode(np.ascontiguousarray(x).tobytes()).decode()
        return {"array": [dtype_of(x.dtype).name, list(x.shape), data]}


def encode(program: Program) -> dict[str, Any]:
    """A program as a JSON value, with everything `decode` needs to give the same bits.

    Errors:
      PL608 for an option that has no written form.
    """
    w = _Writer()
    entry = {
        "name": program.name,
        "platform": program.platform,
        "orchestration": w.body(program.orchestration),
        "kernels": [
            {"name": k.name, "body": w.body(k.jaxpr), "blocks": k.blocks, "unit": k.unit, "options": w.value(k.options, k.name)}
            for k in program.kernels
        ],
        "traced": None if program.traced is None else w.body(program.traced),
    }
    # in the order they were made in, which is what sorts them
    unknowns = sorted(w.unknowns.values(), key=lambda a: a.serial)
    sources = [[s.file, s.line, s.column, s.end_column] for s in w.sources]
    return {
        "schema": SCHEMA,
        "program": entry,
        "unknowns": [[a.key, a.name] for a in unknowns],
        "avals": w.aval_rows,
        "vars": w.var_rows,
        "sources": sources,
        "bodies": w.bodies,
    }


# ---- reading ------------------------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, document: dict[str, Any]) -> None:
        self.unknowns = {key: Index.fresh(_text(name)) for key, name in _list(document["unknowns"])}
        self.avals = [self.aval(row) for row in _list(document["avals"])]
        self.vars = [Var(self.row(self.avals, a), _text(name)) for a, name in _list(document["vars"])]
        self.sources = [Source(_text(f), _number(n), _number(c), _number(e)) for f, n, c, e in _list(document["sources"])]
        self.bodies: list[Jaxpr] = []
        for row in _list(document["bodies"]):
            self.bodies.append(self.body(row))

    @staticmethod
    def row(table: list[Any], number: Any) -> Any:
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < len(table):
            raise Unreadable(f"there is no row {number!r} of {len(table)}")
        return table[number]

    def aval(self, row: dict[str, Any]) -> Aval:
        cls = _AVALS[row["is"]]
        fields: dict[str, Any] = {"shape": tuple(self.dim(d) for d in _list(row["shape"])), "dtype": DTYPES[row["dtype"]]}
        if cls in (RefAval, TileAval):
            valid = row["valid"]
            fields["space"] = None if row["space"] is None else Space[row["space"]]
            fields["valid"] = None if valid is None else tuple(None if v is None else _number(v) for v in _list(valid))
        if cls is TileAval:
            fields["level"] = _text(row["level"])
        elif cls is RefAval:
            fields["direction"] = row["direction"] if row["direction"] in (None, "in", "out", "inout") else _bad(row["direction"])
        elif cls is ScalarAval:
            fields["weak"] = bool(row["weak"])
        return cls(**fields)

    def dim(self, d: Any) -> Dim:
        return self.index(d) if isinstance(d, list) else _number(d)

    def index(self, terms: Any) -> Index:
        total = Index()
        for monomial, c in _list(terms):
            product = Index.constant(_number(c))
            for a in _list(monomial):
                product = product * self.index_atom(a)
            total = total + product
        return total

    def index_atom(self, a: Any) -> Index:
        if isinstance(a, str):
            return self.unknowns[a]
        symbol, first, second = a
        operands = self.index(first), self.index(second)
        if symbol in ("min", "max"):
            return extreme(symbol, *operands)
        return structural(symbol, *operands) if symbol in ("//", "%") else _bad(symbol)

    def atom(self, a: Any) -> Atom:
        if isinstance(a, dict):
            return Literal(self.value(a["value"]), self.row(self.avals, a["aval"]))
        return self.row(self.vars, a)

    def body(self, row: dict[str, Any]) -> Jaxpr:
        eqns = []
        for name, ins, outs, params, source in _list(row["eqns"]):
            if name not in OPS:
                raise Unreadable(f"there is no operation {name!r}")
            known = {_text(k): self.value(v) for k, v in params.items()}
            place = None if source is None else self.row(self.sources, source)
            eqns.append(Eqn(OPS[name], tuple(map(self.atom, ins)), tuple(self.row(self.vars, v) for v in outs), known, place))
        invars = tuple(self.row(self.vars, v) for v in _list(row["in"]))
        facts = frozenset(map(_text, _list(row["facts"])))
        return Jaxpr(invars, tuple(eqns), tuple(map(self.atom, _list(row["out"]))), _text(row["name"]), facts)

    def value(self, x: Any, depth: int = 0) -> Any:
        if x is None or type(x) in (bool, int, str):
            return x
        if not isinstance(x, dict) or len(x) != 1 or depth > _DEEPEST:
            _bad(x)
        ((kind, content),) = x.items()
        readers: dict[str, Callable[[Any], Any]] = {
            "float": lambda c: float.fromhex(_text(c)),
            "tuple": lambda c: tuple(self.value(item, depth + 1) for item in _list(c)),
            "dtype": lambda c: DTYPES[c],
            "body": lambda c: self.row(self.bodies, c),
            "aval": lambda c: self.row(self.avals, c),
            "index": self.index,
            "enum": lambda c: _ENUMS[c[0]][c[1]],
            "launch": _launch,
            "array": _array,
        }
        return readers[kind](content)


def _launch(content: Any) -> Launch:
    known = {f.name: f.default for f in fields(Launch)}
    for name, value in content.items():
        if name not in known or type(value) not in (type(known[name]), *((int,) if known[name] is None else ())):
            raise Unreadable(f"a launch with {name}={value!r}")
    return Launch(**content)


def _array(content: Any) -> Any:
    name, shape, data = content
    raw = np.frombuffer(base64.b64decode(_text(data), validate=True), DTYPES[name].storage)
    array = raw.reshape([_number(n) for n in _list(shape)])  # a view of bytes: read-only
    return array[()] if not array.ndim else array


def _list(x: Any) -> list[Any]:
    return x if isinstance(x, list) else _bad(x)


def _text(x: Any) -> str:
    return x if isinstance(x, str) else _bad(x)


def _number(x: Any) -> int:
    return x if isinstance(x, int) and not isinstance(x, bool) else _bad(x)


def _bad(x: Any) -> Any:
    shown = repr(x)
    raise Unreadable(f"{shown if len(shown) <= 60 else shown[:57] + '...'} is not what belongs there")


def decode(document: Any) -> Program:
    """The program of a JSON value that `encode` made.

    Errors:
      Unreadable, for anything else.
    """
    try:
        if document["schema"] != SCHEMA:
            raise Unreadable(f"it has schema {document['schema']!r}, this version reads {SCHEMA}")
        r, entry = _Reader(document), document["program"]
        kernels = tuple(
            KernelBody(_text(k["name"]), r.row(r.bodies, k["body"]), bool(k["blocks"]), _text(k["unit"]), r.value(k["options"]))
            for k in _list(entry["kernels"])
        )
        traced = None if entry["traced"] is None else r.row(r.bodies, entry["traced"])
        orchestration = r.row(r.bodies, entry["orchestration"])
        return Program(_text(entry["name"]), orchestration, kernels, _text(entry["platform"]), traced)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error
