"""How tangents, cotangents and examples go through matrix products. The order of accumulation is an option and stays what it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pypto.core.op import OPS, Op
from pypto.core.trace import aval_of
from pypto.interpreters.batching import Batched, example_shape, repeated, reshaped
from pypto.interpreters.rules import Pair
from pypto.interpreters.tangents import Undefined, Zero, added, apply, fit, unbroadcast


def _flags(params: dict[str, Any]) -> dict[str, Any]:
    return {"a_trans": params.get("a_trans", False), "b_trans": params.get("b_trans", False), "numerics": params["numerics"]}


def _product(a: Any, b: Any, params: dict[str, Any], dtype: Any) -> Any:
    """The product in the result's dtype."""
    wide = None if dtype is OPS["matmul"].abstract_eval([aval_of(a), aval_of(b)], {**_flags(params), "out_dtype": None})[0].dtype else dtype
    return OPS["matmul"](a, b, out_dtype=wide, **_flags(params))


def jvp_of(accumulates: bool, biased: bool) -> Callable[..., Pair]:
    """The jvp rule of a product; accumulator and bias pass their tangents on."""
    first = 1 if accumulates else 0

    def jvp(op: Op, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Pair:
        (y,) = apply(op, primals, params)
        (a, b), (da, db) = primals[first : first + 2], tangents[first : first + 2]
        dtype = aval_of(y).dtype
        parts = [
            _product(da, b, params, dtype) if not isinstance(da, Zero) else da,
            _product(a, db, params, dtype) if not isinstance(db, Zero) else db,
        ]
        parts += [tangents[0]] if accumulates else [_as(tangents[-1], dtype)] if biased else []
        total: Any = Zero(aval_of(y))
        for part in parts:
            total = total if isinstance(part, Zero) else added(total, fit(part, aval_of(y).static_shape))
        return [y], [total]

    return jvp


def _as(t: Any, dtype: Any) -> Any:
    return t if isinstance(t, Zero) or aval_of(t).dtype is dtype else OPS["convert"](t, dtype=dtype)


def _matrix(x: Any, flipped: bool, row: bool) -> Any:
    """An operand as [.., rows, columns], without its flag: a vector is a row on the left, a column on the right."""
    shape = aval_of(x).static_shape
    if len(shape) == 1:
        return OPS["reshape"](x, shape=(1, *shape) if row else (*shape, 1))
    return _flipped(x) if flipped else x


def _flipped(x: Any) -> Any:
    rank = aval_of(x).rank
    return OPS["transpose"](x, permutation=(*range(rank - 2), rank - 1, rank - 2))


def transpose_product(op: Op, cotangents: Sequence[Any], operands: Sequence[Any], params: dict[str, Any]) -> Sequence[Any]:
    """Of `matmul`: the cotangent times the other operand, turned; in the wider of their dtypes, rounded once to the operand's."""
    a, b = operands
    flags = _flags(params)
    (ct,) = cotangents
    left = len(a.shape) == 1, flags["a_trans"]
    right = len(b.shape) == 1, flags["b_trans"]
    shape = list(aval_of(ct).static_shape)
    if right[0]:
        shape.append(1)
    if left[0]:
        shape.insert(len(shape) - 1, 1)
    ct = reshaped(ct, tuple(shape))
    if isinstance(a, Undefined):
        found = OPS["matmul"](ct, _flipped(_matrix(b, right[1], False)), numerics=flags["numerics"])
        return [_back(found, a, *left), None]
    found = OPS["matmul"](_flipped(_matrix(a, left[1], True)), ct, numerics=flags["numerics"])
    return [None, _back(found, b, *right)]


def _back(found: Any, x: Undefined, vector: bool, flipped: bool) -> Any:
    """A cotangent [.., rows, columns] as the operand it belongs to."""
    made = _flipped(found) if flipped and not vector else found
    if vector:
        shape = aval_of(made).static_shape
        made = reshaped(made, (*shape[:-2], shape[-2] * shape[-1]))
    return _as(unbroadcast(made, x.aval), x.dtype)


def batching_of(accumulates: bool, biased: bool) -> Callable[..., Batched]:
    """The batching rule of a product: one more batch axis in front of both operands."""
    first = 1 if accumulates else 0

    def batching(op: Op, size: int, operands: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Batched:
        pairs = list(zip(operands, batched, strict=True))
        (a, a_own), (b, b_own) = pairs[first : first + 2]
        vectors = [len(example_shape(x, own)) == 1 for x, own in ((a, a_own), (b, b_own))]
        rank = max(2, len(example_shape(a, a_own)), len(example_shape(b, b_own)))
        left, right = _lined(a, a_own, rank, size, row=True), _lined(b, b_own, rank, size, row=False)
        if accumulates:
            acc = operands[0] if batched[0] else repeated(operands[0], size)
            left = left if a_own or b_own else repeated(_lined(a, False, rank, size, row=True), size)
            return apply(op, [acc, left, right], params), [True]
        if biased and batched[-1]:
            return _with_own_bias(op, size, [left, right, operands[-1]], params), [True]
        (made,) = apply(op, [left, right, *operands[first + 2 :]], params)
        shape = aval_of(made).static_shape
        gone = [len(shape) - 2] * vectors[0] + [len(shape) - 1] * vectors[1]
        return [reshaped(made, tuple(d for i, d in enumerate(shape) if i not in gone))], [True]

    return batching


def _lined(x: Any, own: bool, rank: int, size: int, *, row: bool) -> Any:
    """An operand of which the examples are the first of `rank + 1` axes; a vector becomes a row or a column."""
    shape = example_shape(x, own)
    if len(shape) == 1:
        shape = (1, *shape) if row else (*shape, 1)
    return reshaped(x, (size, *(1 for _ in range(rank - len(shape))), *shape) if own else shape)


def _with_own_bias(op: Op, size: int, operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """A bias per example: the product in its accumulator, one addition, one rounding, as the op itself does it."""
    a, b, bias = operands
    product = OPS["matmul"](a, b, **_flags(params))
    rank = aval_of(product).rank
    shape = aval_of(bias).static_shape
    total = product + reshaped(bias, (size, *(1 for _ in range(rank - len(shape))), *shape[1:]))
    if aval_of(total).rank < rank:
        total = repeated(total, size)
    wanted = params.get("out_dtype")
    return [total if wanted is None else _as(total, wanted)]
