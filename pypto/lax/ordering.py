"""Sort and top-k of whole arrays, with JAX's rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pypto import dtypes
from pypto.core.avals import Aval, Valid
from pypto.core.op import OPS, Exact, No, Op, Whole
from pypto.core.trace import aval_of
from pypto.errors import ShapeError
from pypto.interpreters.batching import axis_option
from pypto.interpreters.cpu.rules import Tilewise
from pypto.interpreters.rules import Pair
from pypto.interpreters.tangents import Zero, apply
from pypto.lax.axes import shape_of
from pypto.lax.creation import broadcasted_iota
from pypto.lax.families import FLOATS, INTEGERS, Sample, check_accepts, computed, result_aval, sample_values
from pypto.lax.gathering import valid_of
from pypto.lax.numbering import GatherDimensionNumbers
from pypto.lax.reduction import normal_axis

ORDERED = FLOATS | INTEGERS | {dtypes.BOOL}
_PTO = No("whole arrays are sorted by kernels of sort32 and mrgsort")


def _key(x: np.ndarray) -> np.ndarray:
    """Numbers NumPy orders as they should be: floats as FP32, which keeps their order, INDEX and BOOL as they are."""
    return x.astype(np.float32) if x.dtype.kind not in "iub" else x


def _sort_aval(*xs: Aval, dimension: int, is_stable: bool, num_keys: int) -> tuple[Aval, ...]:
    if not xs or any(x.shape != xs[0].shape for x in xs):
        raise ShapeError("PL301", f"sort: {', '.join(map(str, xs)) or 'nothing'}", fix="arrays of one shape")
    if not 1 <= num_keys <= len(xs):
        raise ShapeError("PL308", f"sort: {num_keys} keys among {len(xs)} arrays", fix=f"num_keys from 1 to {len(xs)}")
    check_accepts("sort", ORDERED, xs[:num_keys])
    if any(valid_of(x) != valid_of(xs[0]) for x in xs):
        raise ShapeError("PL301", f"sort: {', '.join(map(str, xs))}", fix="one valid shape: pl.set_validshape")
    return tuple(result_aval("sort", [x], x.shape, x.dtype, valid_of(x)) for x in xs)


def _sort_samples() -> list[Sample]:
    made: list[Sample] = []
    for i, d in enumerate(sorted(ORDERED - {dtypes.INDEX}, key=lambda d: d.name)):
        x = sample_values(d, (3, 40), seed=i)
        x[:, ::3] = x[:, :1]
        numbers = np.arange(120, dtype=np.int32).reshape(3, 40)
        made += [((x,), {"dimension": 1, "is_stable": True, "num_keys": 1})]
        made += [((x, numbers), {"dimension": a, "is_stable": True, "num_keys": n}) for a in (0, 1) for n in (1, 2)]
    return made


def along(x: Any, order: Any, axis: int) -> Any:
    """x[.., order[i], ..]: elements in another order along one axis."""
    rank = len(shape_of(x))
    others = tuple(i for i in range(rank) if i != axis)
    numbers = GatherDimensionNumbers((), (axis,), (axis,), others, others)
    index = OPS["reshape"](order, shape=(*shape_of(order), 1))
    return OPS["gather"](x, index, dimension_numbers=numbers, slice_sizes=(1,) * rank, mode="clip")


def _sort_jvp(op: Op, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Pair:
    """Tangents move with their elements: the permutation comes from numbers that are sorted along."""
    axis = params["dimension"]
    shape = shape_of(primals[0])
    *outs, order = apply(op, [*primals, broadcasted_iota(dtypes.INT32, shape, axis)], params)
    return outs, [t if isinstance(t, Zero) else along(t, order, axis) for t in tangents]


@computed(
    jvp=_sort_jvp,
    batching=axis_option("dimension"),
    cpu=Tilewise("sorting.SORT", weight=20.0),
    samples=_sort_samples,
    abstract=_sort_aval,
    axes=lambda *xs, dimension, **_: Whole((dimension,)),
    valid=lambda x, *more, **_: (x, *more) if more else x,
    crops=True,
    exact=Exact("comparison"),
    pto=_PTO,
    accepts=ORDERED,
    golden="jax.lax.sort",
)
def sort_(*xs: Any, dimension: int, is_stable: bool, num_keys: int) -> Any:
    """Sort along an axis by the first `num_keys` operands; `lax.sort` is the spelling for users."""
    order = np.lexsort([_key(x) for x in reversed(xs[:num_keys])], axis=dimension)
    made = tuple(np.take_along_axis(x, order, dimension) for x in xs)
    return made[0] if len(made) == 1 else made


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Sort along an axis, ascending, as `jax.lax.sort`.

    Args:
      operand: an array, or a tuple of arrays of one shape, which are permuted together.
      is_stable: accepted; the order of equal elements is always kept.
      num_keys: how many of the arrays, from the first, are compared, one after the other.
    Returns:
      An array, or a tuple.
    Numerics:
      -0 equals +0; NaN comes last, and all NaNs are equal. Bits are kept.
    Errors:
      PL301 for arrays of different shapes, PL305, PL308.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.sort((np.float32([2, np.nan, 1, 2]), np.int32([0, 1, 2, 3])))[1]
    Array([2, 0, 3, 1], dtype=INT32)
    """
    xs = list(operand) if isinstance(operand, tuple | list) else [operand]
    axis = normal_axis("sort", len(shape_of(xs[0])), dimension) if xs else 0
    made = sort_(*xs, dimension=axis, is_stable=bool(is_stable), num_keys=int(num_keys))
    if not isinstance(operand, tuple | list):
        return made
    return made if isinstance(made, tuple) else (made,)


def sort_key_val(keys: Any, values: Any, dimension: int = -1, is_stable: bool = True) -> tuple[Any, Any]:
    """Sort keys, and values along with them."""
    return sort((keys, values), dimension, is_stable)


def argsort(operand: Any, dimension: int = -1) -> Any:
    """The indices, INT32, that sort an axis; equal elements in their order.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.argsort(np.float32([3, 1, 2]))
    Array([1, 2, 0], dtype=INT32)
    """
    shape = shape_of(operand)
    return sort((operand, broadcasted_iota(dtypes.INT32, shape, dimension)), dimension)[1]


# ---- top-k -------------------------------------------------------------------------------------------------------


def _top_aval(x: Aval, *, k: int, axis: int) -> tuple[Aval, Aval]:
    check_accepts("top_k", ORDERED - {dtypes.BOOL}, [x])
    if not 0 <= k <= x.static_shape[axis]:
        raise ShapeError("PL308", f"top_k: {k} of {x}", fix=f"at most {x.shape[axis]}")
    shape = tuple(k if i == axis else d for i, d in enumerate(x.static_shape))
    known = valid_of(x)
    valid = None if known is None else _top_valid(known, k=k, axis=axis)[0]
    return result_aval("top_k", [x], shape, x.dtype, valid), result_aval("top_k", [x], shape, dtypes.INT32, valid)


def _top_valid(x: Valid, *, k: int, axis: int) -> tuple[Valid, Valid]:
    """As many as there are, at most k."""
    valid = tuple(n if i != axis else None if n is None else min(n, k) for i, n in enumerate(x))
    return valid, valid


def _total(x: np.ndarray) -> np.ndarray:
    """Integers in the order of the numbers: -0 before +0, every NaN last."""
    if x.dtype.kind in "iu":
        return x
    wide = x.astype(np.float32)
    bits = np.where(np.isnan(wide), np.float32(np.nan), wide).view(np.int32)
    return np.where(np.isnan(wide), np.int32(0x7FFFFFFF), bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF)))


def _top_samples() -> list[Sample]:
    made: list[Sample] = []
    for i, d in enumerate(sorted(ORDERED - {dtypes.INDEX, dtypes.BOOL}, key=lambda d: d.name)):
        x = sample_values(d, (3, 40), seed=i)
        x[:, ::3] = x[:, :1]
        made += [((x,), {"k": k, "axis": a}) for k, a in ((1, 1), (8, 1), (1, 0))]
    return made


def _top_jvp(op: Op, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Pair:
    values, order = apply(op, primals, params)
    return [values, order], [along(tangents[0], order, params["axis"]), Zero(aval_of(order))]


@computed(
    jvp=_top_jvp,
    batching=axis_option("axis"),
    cpu=Tilewise("sorting.TOP_K", weight=20.0),
    samples=_top_samples,
    abstract=_top_aval,
    normal=lambda x, *, k, axis=-1: {"k": int(k), "axis": normal_axis("top_k", x.rank, axis)},
    axes=lambda x, *, k, axis: Whole((axis,)),
    valid=_top_valid,
    crops=True,
    exact=Exact("comparison"),
    pto=_PTO,
    accepts=ORDERED - {dtypes.BOOL},
    golden="jax.lax.top_k",
)
def top_k(operand: Any, *, k: int, axis: int = -1) -> Any:
    """The k largest elements along an axis, descending, and their INT32 indices; of equal ones the lower index first.

    Numerics:
      NaN, whatever its sign bit, is larger than everything, and +0 is larger than -0, as for `maximum`. (JAX looks at the sign of a
      NaN, which is not part of the contract.)
    Errors:
      PL308 when there are fewer than k elements, PL305 for BOOL.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.top_k(np.float32([3, 3, 1, 3]), 2)
    (Array([3., 3.], dtype=FP32), Array([0, 1], dtype=INT32))
    """
    key = np.flip(_total(operand), axis)
    # ascending and stable from the back is descending with the lower index first
    order = operand.shape[axis] - 1 - np.flip(np.argsort(key, axis=axis, kind="stable"), axis)
    order = np.take(order, np.arange(min(k, operand.shape[axis])), axis=axis)
    return np.take_along_axis(operand, order, axis), order.astype(np.int32)
