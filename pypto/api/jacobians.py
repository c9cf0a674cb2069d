"""Whole Jacobians, column by column (`jacfwd`) or row by row (`jacrev`), and Hessians."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto import tree
from pypto.api.differentiating import WithAux, as_array, no_complex, shown_tangents, vjp
from pypto.api.flat import Flattened, chosen, name_of, named_after, of_chosen
from pypto.core.array import Array
from pypto.core.avals import Aval
from pypto.core.op import OPS
from pypto.core.trace import aval_of
from pypto.errors import CallError, NumericsError
from pypto.interpreters import ad
from pypto.interpreters.batching import batch, moved_axis, repeated
from pypto.interpreters.tangents import Zero, differentiable, instantiate, plain


def _basis(aval: Aval) -> Array:
    """Every unit vector of a type, along a leading axis."""
    size = math.prod(aval.static_shape)
    return Array(np.eye(size, dtype=np.float32).reshape(size, *aval.static_shape), aval.dtype)


def jacfwd(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The Jacobian by forward mode, as `jax.jacfwd`: for each result and argument an array [*result, *argument].

    Args:
      argnums: which positional arguments, one or several.
      has_aux: `fun` returns a pair, of which the second part is passed on: the result is (jacobian, aux).
      holomorphic: must be False; there are no complex numbers.
    Returns:
      A tree like the results of trees like the arguments. An integer result has the Jacobian None.
    Errors:
      PL720 for an argument without a derivative.

    >>> import numpy as np
    >>> jacfwd(lambda x: x * x)(np.float32([1, 2]))
    Array([[2., 0.],
           [0., 4.]], dtype=FP32)
    """
    no_complex("jacfwd", holomorphic)

    def made(*args: Any, **kwargs: Any) -> Any:
        positions = chosen(fun, argnums, args)
        given = [args[i] for i in positions]
        inner = of_chosen(fun, positions, args, kwargs)
        flat = Flattened(WithAux(inner) if has_aux else inner, given, {}, lambda i: False)
        avals = [plain(aval_of(x)) for x in flat.leaves]
        columns: list[list[Any]] = []
        aux: list[Any] = []
        moves: list[bool] = []
        for k, aval in enumerate(avals):

            def push(direction: Any, k: int = k) -> list[Any]:
                tangents = [direction if i == k else Zero(a) for i, a in enumerate(avals)]
                outs, found = ad.jvp(flat, flat.leaves, tangents, name_of(fun))
                count = flat.structure.children[0].leaves if has_aux else len(outs)
                aux[:], moves[:] = outs[count:], [differentiable(aval_of(o)) for o in outs[:count]]  # whatever the direction
                return [t for t in shown_tangents(outs[:count], found[:count]) if t is not None]

            basis = _basis(aval)
            found, batched = batch(push, basis.shape[0], [basis], [True], name_of(fun))
            found = [x if b else repeated(x, basis.shape[0]) for x, b in zip(found, batched, strict=True)]
            columns.append([_last(x, aval.static_shape) for x in found])
        if not columns:
            raise CallError("PL601", f"jacfwd of `{name_of(fun)}`: the chosen arguments hold no arrays", fix="argnums of arrays")
        rows = iter(zip(*columns, strict=True))
        value = flat.structure.children[0] if has_aux else flat.structure
        jacobian = _tree(argnums, value, flat.inputs.children[0], [next(rows) if m else None for m in moves])
        return (jacobian, tree.unflatten(flat.structure.children[1], [as_array(x) for x in aux])) if has_aux else jacobian

    return named_after(fun, made)


def _last(x: Any, shape: tuple[int, ...]) -> Any:
    """[size, *result] as [*result, *shape]."""
    turned = moved_axis(x, 0, aval_of(x).rank - 1)
    return as_array(OPS["reshape"](turned, shape=(*aval_of(turned).static_shape[:-1], *shape)))


def _tree(argnums: Any, outs: tree.Structure, ins: tree.Structure, rows: Sequence[Sequence[Any] | None]) -> Any:
    """A tree like the results of trees like the arguments; None for a result without derivative."""
    leaves: list[Any] = []
    for row in rows:
        value = None if row is None else tree.unflatten(ins, list(row))
        leaves.append(value[0] if isinstance(argnums, int) and value is not None else value)
    return tree.unflatten(outs, leaves)


def jacrev(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """The Jacobian by reverse mode, as `jax.jacrev`: for each result and argument an array [*result, *argument].

    Args:
      argnums, has_aux, holomorphic: as `jacfwd`.
      allow_int: integers in those arguments get the Jacobian None instead of an error.
    Errors:
      PL720 for an argument or a result without a derivative, PL703 naming an op without a way back.

    >>> import numpy as np
    >>> jacrev(lambda x: x[0] * x[1])(np.float32([3, 5]))
    Array([5., 3.], dtype=FP32)
    """
    no_complex("jacrev", holomorphic)

    def made(*args: Any, **kwargs: Any) -> Any:
        positions = chosen(fun, argnums, args, allow_int)
        given = [args[i] for i in positions]
        value, pull, *aux = vjp(of_chosen(fun, positions, args, kwargs), *given, has_aux=has_aux)
        outs, structure = tree.flatten(value)
        leaves, ins = tree.flatten(tuple(given))
        moves = [differentiable(aval_of(x)) for x in leaves]
        for aval in map(aval_of, outs):
            if not differentiable(aval):
                raise NumericsError(
                    "PL720", f"a result of `{name_of(fun)}` is {aval}, which has no derivative", fix="has_aux=True for it; or jacfwd"
                )
        rows = []
        for k, out in enumerate(outs):
            aval = aval_of(out)

            def back(cotangent: Any, k: int = k) -> list[Any]:
                zeros = [cotangent if i == k else instantiate(Zero(plain(aval_of(o)))) for i, o in enumerate(outs)]
                return [ct for ct in tree.flatten_like(ins, pull(tree.unflatten(structure, zeros))) if ct is not None]

            basis = _basis(aval)
            found, batched = batch(back, basis.shape[0], [basis], [True], name_of(fun))
            found = [x if b else repeated(x, basis.shape[0]) for x, b in zip(found, batched, strict=True)]
            shaped = iter(as_array(OPS["reshape"](x, shape=(*aval.static_shape, *aval_of(x).static_shape[1:]))) for x in found)
            rows.append([next(shaped) if m else None for m in moves])
        jacobian = _tree(argnums, structure, ins, rows)
        return (jacobian, *aux) if has_aux else jacobian

    return named_after(fun, made)


def hessian(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The second derivatives, as `jax.hessian`: forward mode over reverse mode. Arguments as `jacfwd`.

    >>> import numpy as np
    >>> hessian(lambda x: x[0] * x[0] * x[1])(np.float32([1, 3]))
    Array([[6., 2.],
           [2., 0.]], dtype=FP32)
    """
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)
