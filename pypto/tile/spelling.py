"""How the parts of a program are spelled in the language: types, constants, options, scalar expressions."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from pypto import numerics
from pypto.core.avals import Aval, RefAval, ScalarAval, TileAval
from pypto.core.ir import Eqn, Jaxpr, Literal
from pypto.dtypes import DType
from pypto.platform import Space

Text = tuple[str, int]
"""An expression and how tightly it binds: the number of the loosest operator in it."""

ATOM = 9
_BINARY = {
    "logical_or": ("or", 1),
    "logical_and": ("and", 2),
    "eq": ("==", 4),
    "ne": ("!=", 4),
    "lt": ("<", 4),
    "le": ("<=", 4),
    "gt": (">", 4),
    "ge": (">=", 4),
    "add": ("+", 5),
    "sub": ("-", 5),
    "mul": ("*", 6),
    "div": ("/", 6),
    "floor_div": ("//", 6),
    "floor_mod": ("%", 6),
}
"""What scalars are written with. Spellings of the language's grammar, as `_CALLS`; an op says nothing about them."""
_CALLS = {"minimum": "pl.min", "maximum": "pl.max"}


def extent(d: Any) -> str:
    """An extent of a type; unknown ones have names, which may hold what no name may."""
    return str(d) if isinstance(d, int) else re.sub(r"[^\w+\-*/%(), ]", "_", str(d))


def shape(dims: tuple[Any, ...]) -> str:
    return f"[{', '.join('_' if d is None else extent(d) for d in dims)}]"


def dtype(d: DType) -> str:
    return f"pl.{d.name}"


def type_of(aval: Aval, direction: str | None = None) -> str:
    """A type as an annotation."""
    if isinstance(aval, ScalarAval):
        return f"pl.Scalar[{dtype(aval.dtype)}]"
    if isinstance(aval, RefAval):
        if aval.space is Space.STACK:
            return f"pl.Array[{extent(aval.shape[0])}, {dtype(aval.dtype)}]"
        inner = f"pl.Tensor[{shape(aval.shape)}, {dtype(aval.dtype)}]"
        wrapper = {"out": "pl.Out", "inout": "pl.InOut"}.get(direction or aval.direction or "in")
        return f"{wrapper}[{inner}]" if wrapper else inner
    if isinstance(aval, TileAval):
        valid = f", valid_shape={shape(aval.valid)}" if aval.valid is not None else ""
        return f"pl.Tile[{shape(aval.shape)}, {dtype(aval.dtype)}]{f'  # {valid[2:]}' if valid else ''}"
    return f"pl.Tensor[{shape(aval.shape)}, {dtype(aval.dtype)}]"


def constant(a: Literal) -> Text:
    """A constant, in as few digits as give its bits back."""
    value = np.asarray(a.value)
    if value.ndim:
        return f"pl.const_array({shape(value.shape)}, {dtype(a.aval.dtype)})", ATOM
    number = numerics.numbers(value).item()
    if not isinstance(number, float):
        return repr(number), ATOM if not isinstance(number, int) or number >= 0 else 7
    if not np.isfinite(number):
        return f'float("{number}")', ATOM
    text = str(np.float32(number)) if a.aval.dtype.bits <= 32 else repr(number)
    return text, 7 if text.startswith("-") else ATOM


def option(value: Any) -> str:
    """The value of an option."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(option, value))}]"
    if isinstance(value, DType):
        return dtype(value)
    if isinstance(value, Space):
        return f"pl.MemorySpace.{value.name}"
    if isinstance(value, enum.Enum):
        return f"pl.{type(value).__name__}.{value.name}"
    return repr(value)


def options(e: Eqn) -> list[str]:
    """The options of an equation that differ from the op's own defaults, as keywords."""
    given = ((k, v) for k, v in e.params.items() if not isinstance(v, Jaxpr))
    return [f"{k}={option(v)}" for k, v in given if v is not None and not (k in e.op.defaults and e.op.defaults[k] == v)]


def is_scalar_expression(e: Eqn) -> bool:
    """Whether an equation only computes with numbers."""
    if len(e.outs) != 1 or not isinstance(e.outs[0].aval, ScalarAval) or any(not isinstance(a.aval, ScalarAval) for a in e.ins):
        return False
    return e.op.name in _BINARY or e.op.name in _CALLS or e.op.name in ("logical_not", "neg", "convert")


def expression(e: Eqn, text: Callable[[Any], Text]) -> Text:
    """A scalar expression."""
    name = e.op.name
    if name in _BINARY:
        symbol, level = _BINARY[name]
        left, right = text(e.ins[0]), text(e.ins[1])
        loose = 1 if level == 4 else 0  # comparisons do not chain
        first = left[0] if left[1] >= level + loose else f"({left[0]})"
        second = right[0] if right[1] > level else f"({right[0]})"
        return f"{first} {symbol} {second}", level
    if name in _CALLS:
        return f"{_CALLS[name]}({', '.join(text(a)[0] for a in e.ins)})", ATOM
    operand = text(e.ins[0])
    if name == "convert":
        return operand if e.params["dtype"].name == "INDEX" else (f"pl.cast({operand[0]}, {dtype(e.params['dtype'])})", ATOM)
    inner = operand[0] if operand[1] >= 7 else f"({operand[0]})"
    return (f"not {inner}", 3) if name == "logical_not" else (f"-{inner}", 7)
