"""Directives: `pl.static_print`, `pl.static_assert`, `pl.func_attr`. They act while the body is traced and leave no operation."""

from __future__ import annotations

from typing import Any

from pypto.errors import BodyError
from pypto.language.scopes import SplitMode
from pypto.language.spelled import trace_here
from pypto.language.values import ScalarValue, Unset, Value


def _text(x: Any) -> str:
    """A value as a directive shows it: what is known of it while tracing."""
    if isinstance(x, Unset):
        raise x.error()
    if not isinstance(x, Value):
        return str(x)
    polynomial = x.index if isinstance(x, ScalarValue) and x.dtype.is_integer else None
    known = f" = {polynomial}" if polynomial is not None and str(polynomial) != x.var.name else ""
    return f"{x.var.name or 'value'}: {x.aval}{known}"


def static_print(*args: Any) -> None:
    """Print while the body is traced: of tensors, tiles and scalars, the type. It is silent when a cached program runs.

    Errors:
      PL112 outside a kernel.
    """
    trace_here("static_print")
    print(*map(_text, args))


def static_assert(condition: Any, message: str = "") -> None:
    """Check a condition while the body is traced; it leaves nothing in the program.

    Args:
      condition: a Python value, or a comparison of index scalars that is decided whatever the arguments are.
      message: what it means.
    Errors:
      PL117 if it is false, PL106 if it is only known at run time.
    """
    trace_here("static_assert")
    if not isinstance(message, str):
        raise BodyError("PL117", f"the message of pl.static_assert is {message!r}", fix="a string")
    if isinstance(condition, Unset):
        raise condition.error()
    if isinstance(condition, Value) and not condition.trace.concrete:
        raise BodyError(
            "PL106",
            f"pl.static_assert on {condition!r}, which is known only at run time",
            fix="compare Python values and static extents (x.shape[1]); check the values of arguments before the call",
        )
    check_assertion(condition, message)


def check_assertion(condition: Any, message: Any) -> None:
    """Refuse a false condition of `assert` or `pl.static_assert`."""
    if not bool(condition):
        said = f": {message}" if message not in ("", None) else ""
        raise BodyError(
            "PL117", f"a condition that must hold while this is traced is {condition!r}{said}", fix="give it other constants or shapes"
        )


def func_attr(attributes: dict[str, Any]) -> None:
    """Say something of the function as a whole: the first statement of its body. Several calls add up.

    Args:
      attributes: names and values: numbers, strings, `pl.SplitMode`, or a parameter. They are kept on the function and on the
        kernel it becomes, and change no number.
    Errors:
      PL102 for a name given twice, a value of another kind, or other statements before it; PL112 outside a kernel.
    """
    trace = trace_here("func_attr")
    if not isinstance(attributes, dict) or not all(isinstance(name, str) for name in attributes):
        raise BodyError("PL102", f"pl.func_attr({attributes!r})", fix='pl.func_attr({"name": value})')
    for name, value in attributes.items():
        kept = value.var.name if isinstance(value, Value) else value.name if isinstance(value, SplitMode) else value
        if not isinstance(kept, str | int | float | bool):
            raise BodyError("PL102", f"pl.func_attr: {name} is {value!r}", fix="a number, a string, a pl.SplitMode or a parameter")
        if name in trace.attributes[-1]:
            raise BodyError("PL102", f"pl.func_attr: {name} is given twice", fix="once per function")
        trace.attributes[-1][name] = kept
