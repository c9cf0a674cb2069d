"""What a region asked for, read from the options its equation and its kernel keep."""

from __future__ import annotations

from typing import Any

Options = tuple[tuple[str, Any], ...]


def asked(options: Options, name: str) -> Any:
    """One option, None if it was not given. What the scope says comes before what `pl.func_attr` says of the function."""
    return next((value for key, value in options if key == name), None)


def split_of(options: Options) -> str | None:
    """The `split(...)` that halves a region between the cube and the vector unit; None without one, and for split(NONE).

    >>> split_of((("optimizations", ("split(UP_DOWN)", "cross_core_slot(2)")),))
    'split(UP_DOWN)'
    """
    optimizations = asked(options, "optimizations")
    if not isinstance(optimizations, tuple):  # a text is an attribute that happens to have this name
        return None
    return next((o for o in optimizations if o.startswith("split(") and not o.startswith("split(NONE")), None)
