"""Derivatives: `grad`, `value_and_grad`, `jvp`, `vjp`, `linearize`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto import tree
from pypto.api.flat import NUMBERS, Flattened, chosen, name_of, named_after, of_chosen
from pypto.core.array import Array
from pypto.core.avals import Aval
from pypto.core.trace import Tracer, aval_of
from pypto.errors import CallError, NumericsError
from pypto.interpreters import ad, linear
from pypto.interpreters.tangents import Zero, differentiable, instantiate, plain
from pypto.lax.families import literal


def as_array(x: Any) -> Any:
    """A result for users: numbers become arrays."""
    return x if isinstance(x, Tracer | Array) else Array(x)


class WithAux:
    """A function that returns a pair, of which the second part is only passed on."""

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun = fun
        functools.update_wrapper(self, fun, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        pair = self.fun(*args, **kwargs)
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise CallError("PL601", f"has_aux: `{name_of(self.fun)}` returns no pair", fix="return (value, aux)")
        return pair


def no_complex(what: str, holomorphic: bool) -> None:
    """PL601 for `holomorphic=True`."""
    if holomorphic:
        raise CallError("PL601", f"{what}: holomorphic=True, and there are no complex numbers", fix="real and imaginary parts as arrays")


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that gives the value and the gradient of `fun`, as `jax.value_and_grad`.

    Args:
      fun: returns one float without axes; with `has_aux` a pair, of which the second part is passed on.
      argnums: which positional arguments to differentiate with respect to: one, or several, which then give a tuple.
      holomorphic: must be False; there are no complex numbers.
      allow_int: integers in those arguments get the gradient None instead of an error.
    Errors:
      PL720 for an argument without a derivative, or a result that is no float scalar; PL703 naming an op without a rule;
      PL601 for a position that was not given or is given twice.

    >>> value_and_grad(lambda x, y: x * x * y)(3.0, 2.0)
    (Array(18., dtype=FP32), Array(12., dtype=FP32))
    """
    no_complex("value_and_grad", holomorphic)

    def made(*args: Any, **kwargs: Any) -> Any:
        positions = chosen(fun, argnums, args, allow_int)
        value, pull, *aux = vjp(of_chosen(fun, positions, args, kwargs), *(args[i] for i in positions), has_aux=has_aux)
        cotangents = pull(_one(fun, value))
        gradient = cotangents[0] if isinstance(argnums, int) else cotangents
        return ((value, *aux), gradient) if has_aux else (value, gradient)

    return named_after(fun, made)


def _one(fun: Any, value: Any) -> Any:
    """The cotangent 1 of a scalar result."""
    leaves, structure = tree.flatten(value)
    if structure != tree.LEAF:
        raise NumericsError("PL720", f"`{name_of(fun)}` returns {structure}, not one number", fix="return a scalar; has_aux=True for more")
    aval = aval_of(leaves[0])
    if aval.shape != () or not differentiable(aval):
        raise NumericsError(
            "PL720", f"`{name_of(fun)}` returns {aval}: a gradient is of one float without axes", fix="sum it; or pypto.vjp, jacrev, jacfwd"
        )
    return Array(literal(1, aval.dtype).value, aval.dtype)


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that gives the gradient of `fun`, as `jax.grad`; with `has_aux`, a pair of gradient and aux.

    Args and errors as `value_and_grad`.

    >>> grad(lambda x: x ** 3)(2.0)
    Array(12., dtype=FP32)
    """
    no_complex("grad", holomorphic)
    both = value_and_grad(fun, argnums, has_aux, allow_int=allow_int)

    def made(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return named_after(fun, made)


def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of `fun`, and a function that takes a cotangent of it to cotangents of the arguments, as `jax.vjp`.

    Returns:
      The value and the function; with `has_aux` the aux as well. Integers have the cotangent None.
    Errors:
      PL721 for a cotangent of another type than the value.

    >>> value, pull = vjp(lambda x, y: x * y, 3.0, 4.0)
    >>> pull(1.0)
    (Array(4., dtype=FP32), Array(3., dtype=FP32))
    """
    wrapped = WithAux(fun) if has_aux else fun
    flat = Flattened(wrapped, primals, {}, lambda i: False)
    outs, derivative = linear.linearize(flat, flat.leaves, name=name_of(fun))
    value, aux, count, structure = _without_aux(outs, flat.structure, has_aux)

    def pull(cotangent: Any) -> Any:
        given = _cotangents(fun, structure, cotangent, derivative.outs[:count])
        found = derivative.pull([*given, *(Zero(a) for a in derivative.outs[count:])])
        results = [instantiate(ct) if differentiable(a) else None for ct, a in zip(found, derivative.ins, strict=True)]
        return tree.unflatten(flat.inputs, results)[0]

    return (value, pull, aux) if has_aux else (value, pull)


def _without_aux(outs: Sequence[Any], structure: tree.Structure, has_aux: bool) -> tuple[Any, Any, int, tree.Structure]:
    """The value of a function, its aux, how many flat results the value has, and its structure."""
    results = [as_array(o) for o in outs]
    if not has_aux:
        return tree.unflatten(structure, results), None, len(results), structure
    first, second = structure.children
    return tree.unflatten(first, results[: first.leaves]), tree.unflatten(second, results[first.leaves :]), first.leaves, first


def _cotangents(fun: Any, structure: tree.Structure, cotangent: Any, avals: Sequence[Aval]) -> list[Any]:
    given = tree.flatten_like(structure, cotangent, f"the cotangent of `{name_of(fun)}`")
    return [typed_tangent("cotangent", f"the result of `{name_of(fun)}`", ct, a) for ct, a in zip(given, avals, strict=True)]


def typed_tangent(kind: str, of: str, t: Any, aval: Aval) -> Any:
    """A user's tangent or cotangent as the interpreters have it: of an integer it is None, a `Zero` inside.

    Errors:
      PL721 for one of another type.
    """
    if t is None or is_float0(t):
        if differentiable(aval) and t is not None:
            raise NumericsError("PL721", f"the {kind} of {of}, which is {aval}, is a float0 zero", fix=f"zeros of type {aval}, or None")
        return Zero(plain(aval))
    if not differentiable(aval):
        raise NumericsError("PL721", f"a {kind} is given for {of}, which is {aval} and has none", fix="give None there")
    found = aval_of(t)
    weak = isinstance(t, NUMBERS) and not isinstance(t, bool)
    if found.shape != aval.shape or (found.dtype is not aval.dtype and not weak):
        raise NumericsError("PL721", f"the {kind} of {of}, which is {aval}, is {found}", fix="give it the value's shape and dtype")
    return Array(t, aval.dtype) if weak else as_array(t)


def is_float0(x: Any) -> bool:
    """Whether it is JAX's zero of an integer: an array of the dtype without bytes."""
    return isinstance(x, np.ndarray) and x.dtype.itemsize == 0


def jvp(fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """The value of `fun` and its tangent in a direction, as `jax.jvp`; with `has_aux` the aux as well.

    Args:
      primals, tangents: tuples or lists of trees, one entry per argument. A tangent has the shape and dtype of its value; of
        integers it is None, and None anywhere stands for zero.
    Errors:
      PL721 for a tangent of another type than its value.

    >>> jvp(lambda x: x * x, (3.0,), (1.0,))
    (Array(9., dtype=FP32), Array(6., dtype=FP32))
    """
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list) or len(primals) != len(tangents):
        raise CallError("PL601", "jvp: primals and tangents are two tuples of one length", fix="jvp(f, (x, y), (dx, dy))")
    flat = Flattened(WithAux(fun) if has_aux else fun, primals, {}, lambda i: False)
    avals = [plain(aval_of(x)) for x in flat.leaves]
    given = tree.flatten_like(flat.inputs.children[0], tuple(tangents), "jvp: the tangents")
    typed = [typed_tangent("tangent", f"an argument of `{name_of(fun)}`", t, a) for t, a in zip(given, avals, strict=True)]
    outs, made = ad.jvp(flat, flat.leaves, typed, name_of(fun))
    value, aux, count, structure = _without_aux(outs, flat.structure, has_aux)
    tangent = tree.unflatten(structure, shown_tangents(outs[:count], made[:count]))
    return (value, tangent, aux) if has_aux else (value, tangent)


def shown_tangents(outs: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """Tangents as users see them: zeros have data, integers have None."""
    return [as_array(instantiate(t)) if differentiable(aval_of(o)) else None for o, t in zip(outs, tangents, strict=True)]


def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of `fun`, and its derivative there as a function of tangents, as `jax.linearize`: values are not computed again.

    >>> value, push = linearize(lambda x: x * x, 3.0)
    >>> push(1.0), push(0.5)
    (Array(6., dtype=FP32), Array(3., dtype=FP32))
    """
    flat = Flattened(WithAux(fun) if has_aux else fun, primals, {}, lambda i: False)
    outs, derivative = linear.linearize(flat, flat.leaves, name=name_of(fun))
    value, aux, count, structure = _without_aux(outs, flat.structure, has_aux)

    def push(*tangents: Any) -> Any:
        given = tree.flatten_like(flat.inputs.children[0], tuple(tangents), "the tangents")
        what = f"an argument of `{name_of(fun)}`"
        typed = [typed_tangent("tangent", what, t, a) for t, a in zip(given, derivative.ins, strict=True)]
        made = derivative.push([instantiate(t) for t, m in zip(typed, derivative.moving_in, strict=True) if m])
        return tree.unflatten(structure, shown_tangents(outs[:count], made[:count]))

    return (value, push, aux) if has_aux else (value, push)
