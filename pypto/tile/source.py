"""Programs as text that reads like the language: what a person would have written, with every name, type and dispatch spelled out.

The text is Python that parses; nothing reads it back. It depends on the program only, so tests may compare it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pypto.core.avals import RefAval, ScalarAval, TileAval
from pypto.core.ir import Eqn, Jaxpr, Literal, Var
from pypto.platform import Space
from pypto.source import resolve
from pypto.tile import spelling
from pypto.tile.outputs import written
from pypto.tile.spelling import ATOM, Text

_PAD = "    "


def function_text(jaxpr: Jaxpr, *, lines: bool = False, method: str | None = None, per_block: bool = False, depth: int = 0) -> str:
    """One function: an entry as traced, or with `method` (the decorator's arguments) one of a program.

    Args:
      lines: append the user's file and line to every statement.
      per_block: its first input is the block index.
      depth: levels of indentation to start from.
    """
    return "\n".join(_Source(lines).function(jaxpr, method, per_block, depth))


class _Source:
    """Writes one function."""

    def __init__(self, lines: bool) -> None:
        self.lines = lines
        self.names: dict[Var, Text] = {}
        self.used = {"pl", "self", "float"}
        self.counts: dict[str, int] = {}

    # ---- names and values ----

    def define(self, v: Var) -> str:
        candidate = v.name
        while not candidate or candidate in self.used:
            # a user's first name is kept bare; values without one are numbered from v0
            count = self.counts[v.name] = self.counts.get(v.name, 0 if v.name else -1) + 1
            candidate = f"{v.name}_{count}" if v.name else f"v{count}"
        self.used.add(candidate)
        self.names[v] = (candidate, ATOM)
        return candidate

    def text(self, a: Any) -> Text:
        if isinstance(a, Literal):
            return spelling.constant(a)
        return self.names[a] if a in self.names else (self.define(a), ATOM)

    def name(self, a: Any) -> str:
        return self.text(a)[0]

    def listed(self, atoms: Sequence[Any]) -> str:
        return f"[{', '.join(map(self.name, atoms))}]"

    # ---- functions and blocks ----

    def function(self, j: Jaxpr, method: str | None, per_block: bool, depth: int) -> list[str]:
        pad = _PAD * depth
        inputs = j.invars[1:] if per_block else j.invars
        directions = _directions(j) if method is not None and "InCore" in method else {}
        parameters = [f"{self.define(v)}: {spelling.type_of(v.aval, directions.get(v))}" for v in inputs]
        head = [f"{pad}@pl.function({method})" if method is not None else f"{pad}@pl.jit"]
        own = ["self"] if method is not None else []
        head += _signature(pad, j.name or "function", own + parameters)
        first = [f"{pad}{_PAD}{self.define(j.invars[0])} = pl.tile.get_block_idx()"] if per_block else []
        body = self.block(j, depth + 1)
        if first and body[-1].strip() == "pass":
            body = body[:-1]
        return [*head, *first, *body]

    def block(self, j: Jaxpr, depth: int, result: str | None = None) -> list[str]:
        """The statements of a body. `result`: how its outputs leave it."""
        out: list[str] = []
        opened: list[int] = []
        for e in j.eqns:
            if e.op.name == "scope":
                depth = self._scope(e, depth, out, opened)
            else:
                out += self.statement(e, depth)
        if result is not None:
            out.append(f"{_PAD * depth}{result.format(', '.join(map(self.name, j.outs)))}")
        elif j.outs:
            out.append(f"{_PAD * depth}return {', '.join(map(self.name, j.outs))}")
        return out or [f"{_PAD * depth}pass"]

    def _scope(self, e: Eqn, depth: int, out: list[str], opened: list[int]) -> int:
        """The edge of a scope; returns the indentation after it."""
        if e.params["edge"] == "close":
            if opened.pop() == len(out):
                out.append(f"{_PAD * depth}pass")
            return depth - 1
        kind, name = e.params["kind"], e.params["name"]
        given = [f"name_hint={name!r}"] if name and kind != "lane" else []
        given += [f"{k}={_chosen(k, v)}" for k, v in e.params["options"]]
        spelled = {
            "auto": "pl.scope",
            "manual": "pl.manual_scope",
            "cluster": "pl.cluster",
            "part": "pl.at",
            "lane": "pl.split_aiv",
        }[kind]
        if kind == "part":
            given.insert(0, "level=pl.Level.CORE_GROUP")
        if kind == "lane":
            given.insert(0, f"lane={name}")
        out.append(f"{_PAD * depth}with {spelled}({', '.join(given)}):{self.where(e)}")
        opened.append(len(out))
        return depth + 1

    def where(self, e: Eqn) -> str:
        place = resolve(e.source) if self.lines else None
        return f"  # {place}" if place else ""

    # ---- statements ----

    def statement(self, e: Eqn, depth: int) -> list[str]:
        """One equation; none for a number that is spelled where it is used."""
        pad = _PAD * depth
        if spelling.is_scalar_expression(e):
            found = spelling.expression(e, self.text)
            if not e.outs[0].name:
                self.names[e.outs[0]] = found
                return []
            return [f"{pad}{self.define(e.outs[0])} = {found[0]}{self.where(e)}"]
        handler = getattr(self, f"_{e.op.name}", None)
        if handler is not None:
            return handler(e, depth)
        return [f"{pad}{self.given(e)}{self.where(e)}"]

    def given(self, e: Eqn) -> str:
        """An application, with what its results are called and their types."""
        written_as = self.application(e)
        if not e.outs:
            return written_as
        if len(e.outs) > 1:
            return f"{', '.join(map(self.define, e.outs))} = {written_as}"
        return self.assigned(e, written_as)

    def assigned(self, e: Eqn, value: str) -> str:
        out = e.outs[0]
        if isinstance(out.aval, TileAval):
            kind, _, note = spelling.type_of(out.aval).partition("  # ")
            return f"{self.define(out)}: {kind} = {value}{f'  # {note}' if note else ''}"
        return f"{self.define(out)} = {value}"

    def application(self, e: Eqn) -> str:
        spelled = e.op.source
        if callable(spelled):
            return spelled(e, self.name)
        arguments = [*map(self.name, e.ins), *spelling.options(e)]
        return f"{spelled or f'lax.{e.op.name}'}({', '.join(arguments)})"

    # ---- memory ----

    def _line(self, e: Eqn, depth: int, text: str) -> list[str]:
        return [f"{_PAD * depth}{text}{self.where(e)}"]

    def _assign(self, e: Eqn, depth: int, value: str) -> list[str]:
        return self._line(e, depth, self.assigned(e, value))

    def _alloc(self, e: Eqn, depth: int) -> list[str]:
        p, aval = e.params, e.outs[0].aval
        if p["space"] is Space.STACK:
            return self._assign(e, depth, f"pl.array.create({p['shape'][0]}, {spelling.dtype(p['dtype'])})")
        rest = iter(e.ins)
        extents = f"[{', '.join(self.name(next(rest)) if d is None else str(d) for d in p['shape'])}]"
        given = [extents, f"dtype={spelling.dtype(p['dtype'])}"]
        if p["space"] is not Space.DDR:
            given.append(f"target_memory={spelling.option(p['space'])}")
        if p["init"] is not None:
            given.append(f"init_value={spelling.constant(Literal(p['init'], ScalarAval((), p['dtype'])))[0]}")
        if p.get("manual_dep"):
            given.append("manual_dep=True")
        maker = "pl.create_tensor" if p["space"] is Space.DDR else "pl.create_tile"
        assert isinstance(aval, RefAval)
        return self._assign(e, depth, f"{maker}({', '.join(given)})")

    def _view(self, e: Eqn, depth: int) -> list[str]:
        ref, *rest = e.ins
        sizes = e.params["sizes"]
        extra = iter(rest[len(sizes) :])
        shown = f"[{', '.join(self.name(next(extra)) if n is None else str(n) for n in sizes)}]"
        dropped = f", drop={list(e.params['drop'])}" if e.params["drop"] else ""
        return self._assign(e, depth, f"pl.slice({self.name(ref)}, {shown}, {self.listed(rest[: len(sizes)])}{dropped})")

    def _reshape_view(self, e: Eqn, depth: int) -> list[str]:
        rest = iter(e.ins[1:])
        extents = ", ".join(self.name(next(rest)) if d is None else str(d) for d in e.params["shape"])
        return self._assign(e, depth, f"pl.reshape({self.name(e.ins[0])}, [{extents}])")

    def _transpose_view(self, e: Eqn, depth: int) -> list[str]:
        return self._assign(e, depth, f"pl.transpose({self.name(e.ins[0])}, {list(e.params['permutation'])})")

    def _bits_view(self, e: Eqn, depth: int) -> list[str]:
        return self._assign(e, depth, f"pl.reinterpret_view({self.name(e.ins[0])}, {spelling.dtype(e.params['dtype'])})")

    def _valid_view(self, e: Eqn, depth: int) -> list[str]:
        rest = iter(e.ins[1:])
        extents = [self.name(next(rest)) if v is None else str(v) for v in e.params["known"]]
        return self._assign(e, depth, f"pl.set_validshape({', '.join([self.name(e.ins[0]), *extents])})")

    def _get(self, e: Eqn, depth: int) -> list[str]:
        ref, *rest = e.ins
        p = e.params
        rank = len(p["sizes"])
        given = [self.name(ref), self.listed(rest[:rank]), str(list(p["sizes"]))]
        if p["valid"] is not None:
            extra = iter(rest[rank:])
            given.append(f"valid_shape=[{', '.join(self.name(next(extra)) if v is None else str(v) for v in p['valid'])}]")
        if p["drop"]:
            given.append(f"drop={list(p['drop'])}")
        if p["space"] is not None:
            given.append(f"target_memory={spelling.option(p['space'])}")
        return self._assign(e, depth, f"pl.load({', '.join(given)})")

    def _read(self, e: Eqn, depth: int) -> list[str]:
        ref, *at = e.ins
        if isinstance(ref.aval, RefAval) and ref.aval.space is Space.STACK:
            return self._assign(e, depth, f"{self.name(ref)}[{self.name(at[0])}]")
        return self._assign(e, depth, f"pl.read({self.name(ref)}, {self.listed(at)})")

    def _set(self, e: Eqn, depth: int) -> list[str]:
        target, value, *starts = e.ins
        sizes, drop = list(e.params["sizes"]), list(e.params["drop"])
        if isinstance(target.aval, RefAval) and target.aval.space is Space.STACK and sizes == [1]:
            return self._line(e, depth, f"{self.name(target)}[{self.name(starts[0])}] = {self.name(value)}")
        if isinstance(value.aval, ScalarAval) and all(n == 1 for n in sizes):
            return self._line(e, depth, f"pl.write({self.name(target)}, {self.listed(starts)}, {self.name(value)})")
        extra = f", sizes={sizes}" if isinstance(value.aval, ScalarAval) else f", drop={drop}" if drop else ""
        if isinstance(target.aval, TileAval):
            return self._line(e, depth, f"pl.assemble({self.name(target)}, {self.name(value)}, {self.listed(starts)}{extra})")
        return self._line(e, depth, f"pl.store({self.name(value)}, {self.listed(starts)}, {self.name(target)}{extra})")

    def _accumulate(self, e: Eqn, depth: int) -> list[str]:
        target, value, *starts = e.ins
        kind = str(e.params["combine"]).capitalize()
        given = f"{self.name(value)}, {self.listed(starts)}, {self.name(target)}, atomic=pl.AtomicType.{kind}"
        return self._line(e, depth, f"pl.store({given})")

    def _copy(self, e: Eqn, depth: int) -> list[str]:
        return self._line(e, depth, f"{self.name(e.ins[0])}[:] = {self.name(e.ins[1])}")

    def _dim(self, e: Eqn, depth: int) -> list[str]:
        return self._assign(e, depth, f"pl.tensor.dim({self.name(e.ins[0])}, {e.params['axis']})")

    # ---- control ----

    def _loop(self, e: Eqn, depth: int) -> list[str]:
        body, p = e.params["body"], e.params
        start, stop, step = e.ins[:3]
        bounds = [self.name(a) for a in (start, stop, step)]
        if _is(step, 1):
            bounds = bounds[1:2] if _is(start, 0) else bounds[:2]
        bounds += [f"{key}={p[key]}" for key in ("stage", "chunk") if p.get(key) is not None]
        inits = [self.name(a) for a in e.ins[3:]]
        index = self.define(body.invars[0])
        inside = [self.define(v) for v in body.invars[1:]]
        result = None
        if inits:
            bounds.append(f"init_values=({', '.join(inits)},)")
            index = f"{index}, ({', '.join(inside)},)"
        first: list[str] = []
        if p["kind"] == "while":
            index, bounds = f"({', '.join(inside)},)", bounds[-1:]
            first = [f"{_PAD * (depth + 1)}pl.cond({inside[0]})"]
        elif p.get("exits"):
            first = [f"{_PAD * (depth + 1)}if not {inside[0]}:", f"{_PAD * (depth + 2)}break"]
        kind = "while_" if p["kind"] == "while" else p["kind"]
        loop = f"{_PAD * depth}for {index} in pl.{kind}({', '.join(bounds)}):{self.where(e)}"
        if inits:
            names = [self._result(v) for v in e.outs]
            result = f"{', '.join(names)} = pl.yield_({{}})"
        return [loop, *first, *self.block(body, depth + 1, result)]

    def _result(self, v: Var) -> str:
        return self.define(v)

    def _cond(self, e: Eqn, depth: int) -> list[str]:
        pad = _PAD * depth
        names = [self._result(v) for v in e.outs]
        result = f"{', '.join(names)} = pl.yield_({{}})" if names else None
        then = self.block(e.params["then"], depth + 1, result)
        orelse = self.block(e.params["orelse"], depth + 1, result)
        other = [] if not names and not e.params["orelse"].eqns else [f"{pad}else:", *orelse]
        return [f"{pad}if {self.name(e.ins[0])}:{self.where(e)}", *then, *other]

    def _unset(self, e: Eqn, depth: int) -> list[str]:
        return self._assign(e, depth, "None")

    # ---- tasks ----

    def asked(self, launch: Any, parts: Any) -> list[str]:
        """What a dispatch asks for, as keywords."""
        shown = [f"{k}={self.listed(v)}" for k, v in (("deps", parts.deps), ("no_dep_args", parts.no_dep), ("dumps", parts.dumps)) if v]
        shown += [f"predicate=({self.name(parts.predicate)})"] if parts.predicate is not None else []
        shown += ["sync_start=True"] if launch.together else []
        return shown + (["allow_early_resolve=True"] if launch.early else [])

    def _region(self, e: Eqn, depth: int) -> list[str]:
        p, pad = e.params, _PAD * depth
        blocks = p["kind"] == "spmd"
        parts = p["launch"].divide(e.ins, blocks=blocks)
        given = [self.name(parts.blocks)] if blocks else ["level=pl.Level.CORE_GROUP"]
        given += [f"name_hint={p['name']!r}"] if p["name"] else []
        given += [f"{k}={_chosen(k, v)}" for k, v in p["options"] if k not in ("level", "sync_start")] + self.asked(p["launch"], parts)
        if not blocks:
            given[0] = f"level=pl.Level.{dict(p['options']).get('level', 'CORE_GROUP')}"
        named = f" as {self.define(e.outs[0])}" if e.outs else ""
        head = f"{pad}with pl.{'spmd' if blocks else 'at'}({', '.join(given)}){named}:{self.where(e)}"
        index = [f"{pad}{_PAD}{self.define(p['body'].invars[0])} = pl.tile.get_block_idx()"] if blocks else []
        return [head, *index, *self.block(p["body"], depth + 1)]

    def _call(self, e: Eqn, depth: int) -> list[str]:
        p = e.params
        parts = p["launch"].divide(e.ins, blocks=p["blocks"])
        given = [f"self.{p['kernel']}", *map(self.name, parts.operands)]
        given += [f"core_num={self.name(parts.blocks)}"] if p["blocks"] else []
        given += self.asked(p["launch"], parts)
        call = f"pl.{'spmd_submit' if p['blocks'] else 'submit'}({', '.join(given)})"
        return self._line(e, depth, f"{self.define(e.outs[0])} = {call}" if e.outs else call)


def _signature(pad: str, name: str, parameters: list[str]) -> list[str]:
    """A `def` line, or one line per parameter where that is too long."""
    line = f"{pad}def {name}({', '.join(parameters)}):"
    if len(line) <= 120:
        return [line]
    return [f"{pad}def {name}(", *(f"{pad}{_PAD}{p}," for p in parameters), f"{pad}):"]


def _is(a: Any, number: int) -> bool:
    return isinstance(a, Literal) and int(a.value) == number


def _chosen(key: str, value: Any) -> str:
    """An option of a scope: optimizations are calls, modes members, the rest as it is."""
    if key == "optimizations" and isinstance(value, tuple):  # a text is an attribute of this name
        return f"[{', '.join(f'pl.{v}' for v in value)}]"
    return f"pl.SplitMode.{value}" if key == "mode" else f"pl.Level.{value}" if key == "level" else spelling.option(value)


def _directions(j: Jaxpr) -> dict[Var, str]:
    """What a kernel does to each of its buffers: in, out or inout."""
    hit = written(j)
    back: set[Any] = set()
    for e in j.walk():
        back.update(e.ins[i] for i in e.op.reads)
    found = {}
    for v in j.invars:
        if isinstance(v.aval, RefAval):
            found[v] = "in" if v not in hit else "inout" if v.aval.direction == "inout" or v in back else "out"
    return found
