"""Work along a named axis of `pypto.vmap`, across its examples, with JAX's names: `psum`, `pmean`, `pmax`, `pmin`, `axis_index`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto import dtypes, tree
from pypto.core.array import Array
from pypto.core.avals import ArrayAval
from pypto.core.op import OPS, Exact, No, Op, Whole
from pypto.core.trace import aval_of, current_trace
from pypto.errors import CallError, InternalError
from pypto.interpreters.batching import Batched, named_axes
from pypto.interpreters.rules import linear, pullback
from pypto.interpreters.tangents import apply
from pypto.lax.families import computed

AxisName = str
_PTO = No("a batch is one program: it is emitted as a reduction over the examples")


def _unbound(name: str, bound: Sequence[str]) -> CallError:
    known = f"; named here: {', '.join(bound)}" if bound else ""
    return CallError("PL622", f"no axis is named {name!r}{known}", fix=f"pypto.vmap(..., axis_name={name!r}) around the function")


def _bound(name: Any) -> int:
    """The extent of a named axis.

    Errors:
      PL622 where there is none of that name.
    """
    axes = named_axes(current_trace())
    if not isinstance(name, str):
        raise CallError("PL622", f"{name!r} is no name of an axis", fix="the string that vmap got as axis_name=, or a tuple of such")
    if name not in axes:
        raise _unbound(name, list(axes))
    return axes[name]


def _each(axis_name: AxisName | Sequence[AxisName]) -> tuple[str, ...]:
    """The names, one or several.

    Errors:
      PL622 for what is no name of an axis here.
    """
    given: Any = axis_name
    names = tuple(given) if isinstance(given, tuple | list) else (given,)
    for name in names:
        _bound(name)
    return names


def _across(along: Callable[[Any], Any], alike: Callable[[Any, int], Any]) -> Callable[..., Batched]:
    """The batching rule of a collective: along its own axis `along` takes all examples together, and `alike` is for a value they share;
    along any other axis it is done for each example."""

    def rule(op: Op, size: int, operands: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Batched:
        (x,), (own,) = operands, batched
        if params["axis_name"] != getattr(size, "name", None):
            return apply(op, operands, params), [own]
        return [along(x) if own else alike(x, int(size))], [False]

    return rule


def _together(reduce: str, of_truths: str | None = None) -> Callable[[Any], Any]:
    return lambda x: OPS[of_truths if of_truths and x.dtype is dtypes.BOOL else reduce](x, axes=(0,))


def collective(**rules: Any) -> Callable[[Callable[..., Any]], Op]:
    """An op of one value and the name of an axis, of the type of the value."""
    return computed(
        samples=list,
        abstract=lambda x, *, axis_name: ArrayAval(x.shape, x.dtype),
        axes=Whole(),
        pto=_PTO,
        unit="scalar",
        **rules,
    )


@collective(
    exact=Exact("row reductions"),
    jvp=linear(0),
    transpose=pullback(lambda ct, x, *, axis_name: OPS["psum"](ct, axis_name=axis_name)),
    batching=_across(_together("reduce_sum"), lambda x, size: x * size),
)
def psum_(x: Any, *, axis_name: str) -> Any:
    """The sum over the examples along a named axis; `lax.psum` is the spelling for users."""
    raise _unbound(axis_name, ())


_NO_PATH = No("which example has the extreme is not kept; write it with lax.psum, or outside the mapped function")


@collective(exact=Exact("max, min"), jvp=_NO_PATH, batching=_across(_together("reduce_max", "reduce_or"), lambda x, size: x))
def pmax_(x: Any, *, axis_name: str) -> Any:
    """The largest over the examples along a named axis; `lax.pmax` is the spelling for users."""
    raise _unbound(axis_name, ())


@collective(exact=Exact("max, min"), jvp=_NO_PATH, batching=_across(_together("reduce_min", "reduce_and"), lambda x, size: x))
def pmin_(x: Any, *, axis_name: str) -> Any:
    """The smallest over the examples along a named axis; `lax.pmin` is the spelling for users."""
    raise _unbound(axis_name, ())


def _numbered(op: Op, size: int, operands: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Batched:
    if params["axis_name"] != getattr(size, "name", None):
        raise InternalError("PL901", "axis_index under an axis of another name")
    return [Array(np.arange(size, dtype=np.int32))], [True]


@computed(
    samples=list,
    abstract=lambda *, axis_name: ArrayAval((), dtypes.INT32),
    axes=Whole(),
    exact=Exact("movement"),
    jvp=No("it takes no values, so it has no derivative"),
    batching=_numbered,
    pto=_PTO,
    unit="scalar",
)
def axis_index_(*, axis_name: str) -> Any:
    """The number of an example along a named axis; `lax.axis_index` is the spelling for users."""
    raise _unbound(axis_name, ())


# ---- spellings for users -----------------------------------------------------------------------------------------


def _mapped(op: str, x: Any, axis_name: AxisName | Sequence[AxisName]) -> Any:
    names = _each(axis_name)

    def one(leaf: Any) -> Any:
        if op == "psum" and aval_of(leaf).dtype is dtypes.BOOL:
            leaf = OPS["convert"](leaf, dtype=dtypes.INT32)
        for name in names:
            leaf = OPS[op](leaf, axis_name=name)
        return leaf

    return tree.tree_map(one, x)


def psum(x: Any, axis_name: AxisName | Sequence[AxisName]) -> Any:
    """The sum over all examples along a named axis of `pypto.vmap`, for each of them, as `jax.lax.psum`.

    Args:
      x: a tree of arrays; of a number the sum is the number times the extent, at once. Truth values are counted, in INT32.
      axis_name: the name given to `pypto.vmap(..., axis_name=)`, or several.
    Numerics:
      As `lax.reduce_sum` over the examples: FP32 in the order lanes64.
    Errors:
      PL622 where no axis has that name.

    >>> import numpy as np, pypto
    >>> pypto.vmap(lambda v: v / psum(v, "rows"), axis_name="rows")(np.float32([1, 3]))
    Array([0.25, 0.75], dtype=FP32)
    """
    if isinstance(x, bool | int | float):
        size = 1
        for name in _each(axis_name):
            size *= _bound(name)
        return x * size
    return _mapped("psum", x, axis_name)


def pmean(x: Any, axis_name: AxisName | Sequence[AxisName]) -> Any:
    """The mean over all examples along a named axis, as `jax.lax.pmean`: `psum` divided by the extent. Arguments as `psum`.

    The mean of floats has their dtype, that of integers and truth values is FP32.

    >>> import numpy as np, pypto
    >>> pypto.vmap(lambda v: v - pmean(v, "rows"), axis_name="rows")(np.float32([1, 3]))
    Array([-1.,  1.], dtype=FP32)
    """
    size = psum(1, axis_name)

    def divided(total: Any) -> Any:
        floating = isinstance(total, float) or aval_of(total).dtype.is_float
        return (total if floating else OPS["convert"](total, dtype=dtypes.FP32)) / size

    return tree.tree_map(divided, psum(x, axis_name))


def pmax(x: Any, axis_name: AxisName | Sequence[AxisName]) -> Any:
    """The largest over all examples along a named axis, as `jax.lax.pmax`. Arguments as `psum`; it has no derivative.

    >>> import numpy as np, pypto
    >>> pypto.vmap(lambda v: pmax(v, "rows"), axis_name="rows")(np.float32([1, 3]))
    Array([3., 3.], dtype=FP32)
    """
    return _mapped("pmax", x, axis_name)


def pmin(x: Any, axis_name: AxisName | Sequence[AxisName]) -> Any:
    """The smallest over all examples along a named axis, as `jax.lax.pmin`; see `pmax`.

    >>> import numpy as np, pypto
    >>> pypto.vmap(lambda v: pmin(v, "rows"), axis_name="rows")(np.float32([1, 3]))
    Array([1., 1.], dtype=FP32)
    """
    return _mapped("pmin", x, axis_name)


def axis_index(axis_name: AxisName | Sequence[AxisName]) -> Any:
    """The number of the example along a named axis, an INT32 scalar, as `jax.lax.axis_index`; of several axes, row-major.

    >>> import numpy as np, pypto
    >>> pypto.vmap(lambda v: v * axis_index("rows"), axis_name="rows")(np.float32([1, 3]))
    Array([0., 3.], dtype=FP32)
    """
    index: Any = None
    for name in _each(axis_name):
        own = OPS["axis_index"](axis_name=name)
        index = own if index is None else index * _bound(name) + own
    return Array(0, dtypes.INT32) if index is None else index


def axis_size(axis_name: AxisName | Sequence[AxisName]) -> int:
    """How many examples there are along a named axis, as `jax.lax.axis_size`.

    >>> import numpy as np, pypto
    >>> pypto.vmap(lambda v: v / axis_size("rows"), axis_name="rows")(np.float32([1, 3]))
    Array([0.5, 1.5], dtype=FP32)
    """
    return psum(1, axis_name)


__all__ = ["axis_index", "axis_size", "pmax", "pmean", "pmin", "psum"]
