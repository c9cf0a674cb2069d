"""Reductions along one axis: for floats the order of the additions is part of the result.

NumPy's own reductions choose their order by CPU and memory layout, so they serve only where no order matters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pypto.dtypes import FP32, dtype_of
from pypto.numerics.rounding import convert

Array = np.ndarray[Any, np.dtype[Any]]

LANES = 64
"""Partial results of the *lanes64* order."""


def sum_last(x: Array, lanes: int = LANES) -> Array:
    """Sum along the last axis in the *lanes64* order.

    Args:
      x: [..., n]; FP32, FP16, BF16 or integers.
      lanes: how many partial sums, a power of two; the contract's number is 64.
    Returns:
      [..., 1], the dtype of x; +0 if n is 0.
    Numerics:
      Element j is added to partial j mod 64, in ascending j; partials without elements are -0.0, which changes no sum; then the upper
      half is added to the lower, 64 -> 32 -> ... -> 1. FP16 and BF16 are widened to FP32 first and rounded once, at the
      end. Integers wrap in two's complement.
    """
    return _ordered(x, -1, np.add, -0.0, lanes)


def prod_last(x: Array, lanes: int = LANES) -> Array:
    """Product along the last axis: [..., n] -> [..., 1], in the order of `sum_last`; partials without elements are 1."""
    return _ordered(x, -1, np.multiply, 1.0, lanes)


def sum_first(x: Array) -> Array:
    """Sum of the rows, in the *ascending* order.

    Args:
      x: [..., m, n]; FP32, FP16, BF16 or integers.
    Returns:
      [..., 1, n], the dtype of x; +0 if m is 0.
    Numerics:
      FP32, rows in order, one rounding per addition; FP16 and BF16 are widened first and rounded once at the end; integers wrap.
    """
    return _ordered(x, -2, np.add, -0.0, 1)


def prod_first(x: Array) -> Array:
    """Product of the rows: [..., m, n] -> [..., 1, n], in the order of `sum_first`; 1 if m is 0."""
    return _ordered(x, -2, np.multiply, 1.0, 1)


def _ordered(x: Array, axis: int, function: np.ufunc, identity: float, lanes: int) -> Array:
    dtype = dtype_of(x)
    with np.errstate(all="ignore"):
        if not dtype.is_float:
            # Exact modulo 2**bits in any order.
            return np.asarray(function.reduce(x, axis=axis, dtype=x.dtype, keepdims=True))
        wide = x.astype(np.float32)
        if x.shape[axis] == 0:
            total = np.sum(wide, axis=axis, keepdims=True) if function is np.add else np.prod(wide, axis=axis, keepdims=True)
        else:
            total = np.swapaxes(_lanes(np.swapaxes(wide, axis, -1), function, identity, lanes), axis, -1)
        return convert(np.ascontiguousarray(total), FP32, dtype, "rint", "ieee")


def _lanes(x: Array, function: np.ufunc, identity: float, lanes: int) -> Array:
    """[..., n] -> [..., 1]: `lanes` partials in ascending order, then halves."""
    lanes = min(lanes, 1 << (x.shape[-1] - 1).bit_length())  # further ones would hold the identity only, which changes no result
    partials = np.full((*x.shape[:-1], lanes), identity, np.float32)
    for start in range(0, x.shape[-1], lanes):
        part = x[..., start : start + lanes]
        target = partials[..., : part.shape[-1]]
        function(target, part, out=target)
    while partials.shape[-1] > 1:
        half = partials.shape[-1] // 2
        partials = function(partials[..., :half], partials[..., half:])
    return partials


def max_last(x: Array) -> Array:
    """Largest element along the last axis: [..., n] -> [..., 1].

    NaN if any element is NaN; +0 is larger than -0; -inf (the least integer) if n is 0. Exact in every dtype.
    """
    return _extreme(x, -1, np.maximum)


def min_last(x: Array) -> Array:
    """Smallest element along the last axis: [..., n] -> [..., 1]; NaN propagates, -0 is smaller than +0; inf if n is 0."""
    return _extreme(x, -1, np.minimum)


def max_first(x: Array) -> Array:
    """Largest element of each column: [..., m, n] -> [..., 1, n]; as `max_last`."""
    return _extreme(x, -2, np.maximum)


def min_first(x: Array) -> Array:
    """Smallest element of each column: [..., m, n] -> [..., 1, n]; as `min_last`."""
    return _extreme(x, -2, np.minimum)


def _extreme(x: Array, axis: int, function: np.ufunc) -> Array:
    dtype = dtype_of(x)
    identity = dtype.pad("min" if function is np.maximum else "max")
    with np.errstate(all="ignore"):
        if not dtype.is_float:
            return np.asarray(function.reduce(x, axis=axis, keepdims=True, initial=identity))
        wide = x.astype(np.float32)
        result = function.reduce(wide, axis=axis, keepdims=True, initial=np.float32(identity))
        # NumPy takes either zero: the maximum is -0 only if every zero is, the minimum +0 likewise.
        zero, sign = wide == 0, np.signbit(wide)
        if function is np.maximum:
            zeros = np.where(np.any(zero & ~sign, axis=axis, keepdims=True), np.float32(0.0), np.float32(-0.0))
        else:
            zeros = np.where(np.any(zero & sign, axis=axis, keepdims=True), np.float32(-0.0), np.float32(0.0))
        return np.where(result == 0, zeros, result).astype(x.dtype)


def argmax_last(x: Array) -> Array:
    """Index of the largest element along the last axis: [..., n] -> INT32 [..., 1].

    The first of equal elements; the first NaN if there is one; the zeros are equal here. n is at least 1.
    """
    return _position(x, -1, np.argmax)


def argmin_last(x: Array) -> Array:
    """Index of the smallest element along the last axis: [..., n] -> INT32 [..., 1]; as `argmax_last`, the first NaN wins too."""
    return _position(x, -1, np.argmin)


def argmax_first(x: Array) -> Array:
    """Row of the largest element of each column: [..., m, n] -> INT32 [..., 1, n]; as `argmax_last`."""
    return _position(x, -2, np.argmax)


def argmin_first(x: Array) -> Array:
    """Row of the smallest element of each column: [..., m, n] -> INT32 [..., 1, n]; as `argmin_last`."""
    return _position(x, -2, np.argmin)


def _position(x: Array, axis: int, find: Callable[..., Any]) -> Array:
    # Widened, because NumPy's search does not know the NaNs of every small float.
    wide = x.astype(np.float32) if dtype_of(x).is_float else x
    return np.asarray(find(wide, axis=axis, keepdims=True)).astype(np.int32)
