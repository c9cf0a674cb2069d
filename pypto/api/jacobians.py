"""Whole Jacobians, column by column (`jacfwd`) or row by row (`jacrev`), and Hessians."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto import tree
from pypto.api.differentiating import as_array, shown_tangents, vjp
from pypto.api.flat import Flattened, chosen, name_of, named_after, of_chosen
from pypto.core.array import Array
from pypto.core.avals import Aval
from pypto.core.op import OPS
from pypto.core.trace import aval_of
from pypto.interpreters import ad
from pypto.interpreters.batching import batch, moved_axis, repeated
from pypto.interpreters.tangents import Zero, differentiable, instantiate, plain


def _basis(aval: Aval) -> Array:
    """Every unit vector of a type, along a leading axis."""
    size = math.prod(aval.static_shape)
    return Array(np.eye(size, dtype=np.float32).reshape(size, *aval.static_shape), aval.dtype)


def jacfwd(fun: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """The Jacobian by forward mode, as `jax.jacfwd`: for each result and argument an array [*result, *argument].

    Errors:
      PL720 for an argument without a derivative.

    >>> import numpy as np
    >>> jacfwd(lambda x: x * x)(np.float32([1, 2]))
    Array([[2., 0.],
           [0., 4.]], dtype=FP32)
    """

    def made(*args: Any, **kwargs: Any) -> Any:
        positions = chosen(fun, argnums, args)
        given = [args[i] for i in positions]
        flat = Flattened(of_chosen(fun, positions, args, kwargs), given, {}, lambda i: False)
        avals = [plain(aval_of(x)) for x in flat.leaves]
        columns: list[list[Any]] = []
        for k, aval in enumerate(avals):

            def push(direction: Any, k: int = k) -> list[Any]:
                tangents = [direction if i == k else Zero(a) for i, a in enumerate(avals)]
                outs, found = ad.jvp(flat, flat.leaves, tangents, name_of(fun))
                return shown_tangents(outs, found)

            basis = _basis(aval)
            found, batched = batch(lambda d, push=push: push(d), basis.shape[0], [basis], [True], name_of(fun))
            found = [x if b else repeated(x, basis.shape[0]) for x, b in zip(found, batched, strict=True)]
            columns.append([_last(x, aval.static_shape) for x in found])
        return _tree(argnums, flat.structure, flat.inputs.children[0], list(zip(*columns, strict=True)))

    return named_after(fun, made)


def _last(x: Any, shape: tuple[int, ...]) -> Any:
    """[size, *result] as [*result, *shape]."""
    turned = moved_axis(x, 0, aval_of(x).rank - 1)
    return as_array(OPS["reshape"](turned, shape=(*aval_of(turned).static_shape[:-1], *shape)))


def _tree(argnums: Any, outs: tree.Structure, ins: tree.Structure, rows: Sequence[Sequence[Any]]) -> Any:
    """A tree like the results of trees like the arguments."""
    leaves = []
    for row in rows:
        value = tree.unflatten(ins, list(row))
        leaves.append(value[0] if isinstance(argnums, int) else value)
    return tree.unflatten(outs, leaves)


def jacrev(fun: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """The Jacobian by reverse mode, as `jax.jacrev`: for each result and argument an array [*result, *argument].

    Errors:
      PL720 for an argument without a derivative, PL703 naming an op without a way back.

    >>> import numpy as np
    >>> jacrev(lambda x: x[0] * x[1])(np.float32([3, 5]))
    Array([5., 3.], dtype=FP32)
    """

    def made(*args: Any, **kwargs: Any) -> Any:
        positions = chosen(fun, argnums, args)
        given = [args[i] for i in positions]
        value, pull = vjp(of_chosen(fun, positions, args, kwargs), *given)
        outs, structure = tree.flatten(value)
        _, ins = tree.flatten(tuple(given))
        rows = []
        for k, out in enumerate(outs):
            aval = aval_of(out)

            def back(cotangent: Any, k: int = k) -> list[Any]:
                zeros = [None if not differentiable(aval_of(o)) else instantiate(Zero(plain(aval_of(o)))) for o in outs]
                zeros[k] = cotangent
                return tree.flatten(pull(tree.unflatten(structure, zeros)))[0]

            basis = _basis(aval)
            found, batched = batch(lambda ct, back=back: back(ct), basis.shape[0], [basis], [True], name_of(fun))
            found = [x if b else repeated(x, basis.shape[0]) for x, b in zip(found, batched, strict=True)]
            rows.append([as_array(OPS["reshape"](x, shape=(*aval.static_shape, *aval_of(x).static_shape[1:]))) for x in found])
        return _tree(argnums, structure, ins, rows)

    return named_after(fun, made)


def hessian(fun: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """The second derivatives, as `jax.hessian`: forward mode over reverse mode.

    >>> import numpy as np
    >>> hessian(lambda x: x[0] * x[0] * x[1])(np.float32([1, 3]))
    Array([[6., 2.],
           [2., 0.]], dtype=FP32)
    """
    return jacfwd(jacrev(fun, argnums), argnums)
