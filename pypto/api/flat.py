"""Functions of trees as functions of flat values, and how arguments are told apart: static ones, differentiated ones."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pypto import tree
from pypto.core.array import Array
from pypto.core.trace import Tracer, aval_of, current_trace
from pypto.errors import BodyError, CallError, PyptoError
from pypto.interpreters.tangents import differentiable
from pypto.lax.flow import name_of

NUMBERS = (bool, int, float)


def static_positions(given: int | Sequence[int] | None) -> frozenset[int]:
    """Positions as a set; one may be given alone.

    Errors:
      PL601 for what is no position.
    """
    each = () if given is None else given if isinstance(given, Iterable) else (given,)
    for p in each:
        if not isinstance(p, int | np.integer) or isinstance(p, bool):
            raise CallError("PL601", f"{p!r} is no position of an argument", fix="whole numbers from 0, or from -1 backwards")
    return frozenset(map(int, each))


def is_static(i: int, positions: frozenset[int], count: int) -> bool:
    return i in positions or i - count in positions


def signature_of(fun: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(fun)
    except (TypeError, ValueError):  # some callables written in C say nothing
        return None


def positions_of(fun: Any, names: str | Sequence[str]) -> frozenset[int]:
    """The positions of parameters, by name.

    Errors:
      PL601 for a name that is no positional parameter.
    """
    signature = signature_of(fun)
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    known = [p.name for p in signature.parameters.values() if p.kind in kinds] if signature else []
    given = (names,) if isinstance(names, str) else tuple(names)
    for name in given:
        if name not in known:
            raise CallError("PL601", f"`{name_of(fun)}` has no positional parameter `{name}`", fix=f"one of {', '.join(known)}")
    return frozenset(map(known.index, given))


def called(fun: Any, i: int) -> str:
    """How an error calls positional argument i."""
    signature = signature_of(fun)
    names = [p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)] if signature else []
    return f"`{names[i]}`" if i < len(names) else f"argument {i}"


class Flattened:
    """A call whose arguments are taken apart: `leaves` are those of the dynamic ones. Calling it gives the flat results.

    Errors:
      PL601 for an argument that is no array, PL112 in a kernel.

    Attributes:
      structure: of what the function returned, once it has been called.
    """

    def __init__(self, fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], static: Callable[[int], bool]) -> None:
        if not callable(fun):
            raise CallError("PL601", f"{type(fun).__name__} cannot be called", fix="give a function")
        if current_trace().strict:
            raise BodyError("PL112", f"`{name_of(fun)}` is an array function, called in a kernel", fix="call lax operations, or an inline")
        self.fun = fun
        self.fixed = {i: a for i, a in enumerate(args) if static(i)}
        self.count = len(args)
        moving = [a for i, a in enumerate(args) if i not in self.fixed]
        self.leaves, self.inputs = tree.flatten((tuple(moving), dict(kwargs)))
        self.structure: tree.Structure = tree.LEAF
        for i, x in enumerate(self.leaves):
            if not is_array(x):
                raise CallError(
                    "PL601",
                    f"{self._owners(moving, kwargs)[i]} of `{name_of(fun)}` is a {type(x).__name__}, which is no array",
                    fix="static_argnums or static_argnames for jit; otherwise functools.partial",
                )

    def _owners(self, moving: Sequence[Any], kwargs: dict[str, Any]) -> list[str]:
        positions = [i for i in range(self.count) if i not in self.fixed]
        owners = [called(self.fun, i) for i, a in zip(positions, moving, strict=True) for _ in tree.flatten(a)[0]]
        return owners + [f"`{k}`" for k in sorted(kwargs) for _ in tree.flatten(kwargs[k])[0]]

    def __call__(self, *leaves: Any) -> list[Any]:
        args, kwargs = tree.unflatten(self.inputs, leaves)
        rest = iter(args)
        result = self.fun(*(self.fixed[i] if i in self.fixed else next(rest) for i in range(self.count)), **kwargs)
        outs, self.structure = tree.flatten(result)
        for x in outs:
            if not is_array(x):
                raise CallError("PL601", f"`{name_of(self.fun)}` returns a {type(x).__name__}, which is no array", fix="return arrays only")
        return [Array(x) if isinstance(x, NUMBERS) else x for x in outs]


def is_array(x: Any) -> bool:
    """Whether an array program can take or give it."""
    if isinstance(x, Tracer | Array | bool | int | float):
        return True
    known = any(hasattr(x, name) for name in ("__array__", "__dlpack__", "dtype"))
    return known and not isinstance(x, str | bytes | type)


def chosen(fun: Any, argnums: int | Sequence[int], args: Sequence[Any], allow_int: bool = False) -> list[int]:
    """The positions of the arguments that are differentiated, counted from 0.

    Errors:
      PL601 for a position that was not given or is there twice, PL720 for an argument without a derivative.
    """
    found = []
    static_positions(argnums)
    for p in (argnums,) if isinstance(argnums, int) else argnums:
        i = p + len(args) if p < 0 else p
        if not 0 <= i < len(args):
            raise CallError("PL601", f"argnums {p} of `{name_of(fun)}`, which got {len(args)} positional arguments", fix="one of them")
        if i in found:
            raise CallError("PL601", f"argnums {argnums} of `{name_of(fun)}` names argument {i} twice", fix="each position once")
        found.append(i)
        if not allow_int:
            for x in tree.flatten(args[i])[0]:
                check_differentiable(fun, called(fun, i), x)
    return found


def of_chosen(fun: Callable[..., Any], positions: Sequence[int], args: Sequence[Any], kwargs: dict[str, Any]) -> Callable[..., Any]:
    """A function of the arguments at these positions, with the others as they were given."""

    def rest_given(*values: Any) -> Any:
        given = dict(zip(positions, values, strict=True))
        return fun(*(given.get(i, a) for i, a in enumerate(args)), **kwargs)

    rest_given.__name__ = name_of(fun)
    return rest_given


def named_after(fun: Callable[..., Any], made: Callable[..., Any]) -> Callable[..., Any]:
    """`made` with the name and documentation of `fun`. It leads to `fun`, so that a program that calls it depends on what `fun` reads."""
    named = functools.wraps(fun)(made)
    named.__name__ = name_of(fun)
    return named


def check_differentiable(fun: Any, what: str, x: Any) -> None:
    """PL720 for an argument that has no derivative."""
    try:
        aval = aval_of(x)
    except PyptoError:  # not even an array
        raise CallError(
            "PL601", f"{what} of `{name_of(fun)}` is a {type(x).__name__}", fix="an array, a number, or a tree of them"
        ) from None
    if not differentiable(aval):
        from pypto.errors import NumericsError

        raise NumericsError(
            "PL720",
            f"{what} of `{name_of(fun)}` is {aval}: only FP32, FP16 and BF16 values have derivatives",
            fix='argnums of the float arguments, x.astype("FP32"), or allow_int=True, which gives None there',
        )


__all__ = [
    "NUMBERS",
    "Flattened",
    "called",
    "check_differentiable",
    "chosen",
    "is_array",
    "is_static",
    "name_of",
    "named_after",
    "of_chosen",
    "positions_of",
    "static_positions",
]
