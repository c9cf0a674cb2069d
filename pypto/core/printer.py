"""The one printer: any jaxpr as text, named after the user's variables, with source lines on request."""

from __future__ import annotations

from typing import Any

from pypto.core.ir import Eqn, Jaxpr, Literal, Var
from pypto.source import resolve


def show(jaxpr: Jaxpr, *, lines: bool = False, indent: int = 0) -> str:
    """A jaxpr as text.

    Args:
      lines: append the user's file and line to every equation.
      indent: levels of two spaces to start from.
    """
    return "\n".join(_Printer(lines).function(jaxpr, indent))


class _Printer:
    def __init__(self, lines: bool) -> None:
        self.lines = lines
        self.names: dict[Var, str] = {}
        self.counts: dict[str, int] = {}
        self.used: set[str] = set()

    def name(self, v: Var) -> str:
        if v not in self.names:
            # a user's first name is kept bare; values without one are numbered from v0
            candidate = v.name
            while not candidate or candidate in self.used:
                count = self.counts[v.name] = self.counts.get(v.name, -1 if not v.name else 0) + 1
                candidate = f"{v.name}_{count}" if v.name else f"v{count}"
            self.used.add(candidate)
            self.names[v] = candidate
        return self.names[v]

    def atom(self, a: Var | Literal) -> str:
        if isinstance(a, Var):
            return self.name(a)
        value = a.value
        if getattr(value, "ndim", 0):
            return f"const {a.aval}"
        text = str(value.item() if hasattr(value, "item") else value)
        return text if a.aval.dtype.name in ("INDEX", "BOOL", "FP32") else f"{text}:{a.aval.dtype}"

    def typed(self, v: Var) -> str:
        return f"{self.name(v)}: {v.aval}"

    def function(self, j: Jaxpr, indent: int) -> list[str]:
        pad = "  " * indent
        head = f"{pad}{j.name or 'jaxpr'}({', '.join(self.typed(v) for v in j.invars)}):"
        return [head, *self.block(j, indent + 1)]

    def block(self, j: Jaxpr, indent: int) -> list[str]:
        out = [line for e in j.eqns for line in self.eqn(e, indent)]
        if j.outs:
            out.append(f"{'  ' * indent}return {', '.join(self.atom(a) for a in j.outs)}")
        return out or [f"{'  ' * indent}pass"]

    def eqn(self, e: Eqn, indent: int) -> list[str]:
        pad = "  " * indent
        text = e.op.show(e, self.atom) if e.op.show else self.application(e)
        outs = ", ".join(self.typed(v) for v in e.outs)
        where = resolve(e.source) if self.lines else None
        first = f"{pad}{outs + ' = ' if outs else ''}{text}{f'  # {where}' if where else ''}"
        result = [first]
        for key, body in _bodies(e):
            heads = ", ".join(self.typed(v) for v in body.invars)
            result.append(f"{pad}  {key}({heads}):" if heads else f"{pad}  {key}:")
            result += self.block(body, indent + 2)
        return result

    def application(self, e: Eqn) -> str:
        """Name, options, operands."""
        options = ", ".join(f"{k}={_option(v)}" for k, v in e.params.items() if not _has_body(v) and v is not None)
        ins = " ".join(self.atom(a) for a in e.ins)
        return f"{e.op.name}{f'[{options}]' if options else ''} {ins}".rstrip()


def _has_body(value: Any) -> bool:
    return isinstance(value, Jaxpr) or (isinstance(value, tuple) and any(isinstance(v, Jaxpr) for v in value))


def _bodies(e: Eqn) -> list[tuple[str, Jaxpr]]:
    """Nested bodies with their names; those of a tuple are numbered."""
    named: list[tuple[str, Jaxpr]] = []
    for key, value in e.params.items():
        parts = value if isinstance(value, tuple) else (value,)
        many = isinstance(value, tuple)
        named += [(f"{key}[{i}]" if many else key, v) for i, v in enumerate(parts) if isinstance(v, Jaxpr)]
    return named


def _option(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(_option(v) for v in value) + ("," if len(value) == 1 else "") + ")"
    return getattr(value, "name", None) or str(value)
