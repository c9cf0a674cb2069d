"""`vmap`: a function of one example as a function of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pypto import tree
from pypto.api.differentiating import as_array
from pypto.api.flat import Flattened, called, name_of, named_after
from pypto.core.trace import aval_of
from pypto.errors import CallError
from pypto.interpreters.batching import Examples, batch, moved_axis, repeated


def vmap(
    fun: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, axis_name: str | None = None, axis_size: int | None = None
) -> Callable[..., Any]:
    """A function that applies `fun` to every example along an axis, all at once, as `jax.vmap`. Each gets the bits it gets alone.

    Args:
      in_axes: which axis of an argument holds the examples, None for an argument all examples share; for all arguments, or a tuple
        with an entry, or a tree of entries, for each. Keyword arguments are mapped along axis 0.
      out_axes: where the axis goes in results; None for one that is the same for all examples.
      axis_name: a name for the axis, for `lax.psum` and the others that work across examples.
      axis_size: how many examples there are, where no argument says it.
    Errors:
      PL622 for axes that do not exist, sizes that differ, or a result that is not the same for all.

    >>> import numpy as np
    >>> from pypto import lax
    >>> vmap(lambda x, s: lax.reduce_sum(x) * s, (1, None))(np.float32([[1, 2], [3, 4]]), 10.0)
    Array([40., 60.], dtype=FP32)
    """

    if axis_name is not None and not isinstance(axis_name, str):
        raise CallError("PL622", f"vmap of `{name_of(fun)}`: axis_name={axis_name!r}", fix="a string; sizes are axis_size=")

    def made(*args: Any, **kwargs: Any) -> Any:
        flat = Flattened(fun, args, kwargs, lambda i: False)
        axes = _axes_of(fun, in_axes, args, kwargs)
        placed = [_placed(x, a, lambda: name_of(fun)) for x, a in zip(flat.leaves, axes, strict=True)]
        size = _size(fun, flat, axes, placed, axis_size, args, kwargs)
        values = [x if a is None else moved_axis(x, a, 0) for x, a in zip(flat.leaves, placed, strict=True)]
        outs, batched = batch(flat, Examples.along(size, axis_name), values, [a is not None for a in placed], name_of(fun))
        wanted = tree.prefix_leaves(out_axes, flat.structure, f"out_axes of `{name_of(fun)}`")
        results = [_result(fun, x, b, a, size) for x, b, a in zip(outs, batched, wanted, strict=True)]
        return tree.unflatten(flat.structure, results)

    return named_after(fun, made)


def _axes_of(fun: Any, in_axes: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int | None]:
    if isinstance(in_axes, bool) or not (in_axes is None or isinstance(in_axes, int | tuple | list)):
        raise CallError("PL622", f"in_axes of `{name_of(fun)}` is {in_axes!r}", fix="a number, None, or a tuple with an entry per argument")
    if isinstance(in_axes, tuple | list) and len(in_axes) != len(args):
        raise CallError("PL622", f"in_axes of `{name_of(fun)}` has {len(in_axes)} entries for {len(args)} arguments", fix="one for each")
    each = list(in_axes) if isinstance(in_axes, tuple | list) else [in_axes] * len(args)
    found: list[int | None] = []
    for i, (a, x) in enumerate(zip(each, args, strict=True)):
        structure = tree.flatten(x)[1]
        alike = a is None or isinstance(a, int)
        found += [a] * structure.leaves if alike else tree.prefix_leaves(a, structure, f"in_axes of {called(fun, i)} of `{name_of(fun)}`")
    return found + [0 for _ in tree.flatten(dict(kwargs))[0]]


def _placed(x: Any, axis: int | None, name: Callable[[], str]) -> int | None:
    if axis is None:
        return None
    rank = aval_of(x).rank
    if not -rank <= axis < rank:
        raise CallError("PL622", f"vmap of `{name()}`: axis {axis} of {aval_of(x)}", fix="an axis it has, or None to share it")
    return axis + rank if axis < 0 else axis


def _size(fun: Any, flat: Flattened, axes: Sequence[Any], placed: Sequence[int | None], given: int | None, args: Any, kwargs: Any) -> int:
    sizes = {aval_of(x).static_shape[a] for x, a in zip(flat.leaves, placed, strict=True) if a is not None}
    if given is not None:
        sizes.add(int(given))
    if len(sizes) != 1:
        each = [f"{aval_of(x)} along {a}" for x, a in zip(flat.leaves, placed, strict=True) if a is not None]
        found = f"examples differ in number: {', '.join(each)}" + (f", axis_size={given}" if given is not None else "")
        text = found if sizes else "no argument has examples"
        raise CallError("PL622", f"vmap of `{name_of(fun)}`: {text}", fix="one extent for all mapped axes" if sizes else "axis_size=")
    return sizes.pop()


def _result(fun: Any, x: Any, batched: bool, axis: Any, size: int) -> Any:
    if axis is None:
        if batched:
            raise CallError("PL622", f"vmap of `{name_of(fun)}`: out_axes is None for a result that differs by example", fix="an axis")
        return as_array(x)
    whole = x if batched else repeated(x, size)
    rank = aval_of(whole).rank
    if not -rank <= axis < rank:
        raise CallError("PL622", f"vmap of `{name_of(fun)}`: out_axes {axis} of a result {aval_of(whole)}", fix="an axis it has")
    return as_array(moved_axis(whole, 0, axis + rank if axis < 0 else axis))
