"""Running reductions along one axis: every prefix is an output, so there is one order, element after element."""

from __future__ import annotations

from typing import Any

import numpy as np

from pypto.dtypes import FP32, dtype_of
from pypto.numerics.functions import add, exp, log, maximum, mul, sub
from pypto.numerics.rounding import convert

Array = np.ndarray[Any, np.dtype[Any]]


def cumsum(x: Array, axis: int) -> Array:
    """Sums of the elements up to each one, along an axis.

    Args:
      x: any shape; FP32, FP16, BF16 or integers.
    Numerics:
      FP32, one rounding per addition in ascending order, from the first element on; FP16 and BF16 are widened first and each
      output is rounded once from the running FP32 value. Integers wrap.
    """
    return _accumulated(np.add, x, axis)


def cumprod(x: Array, axis: int) -> Array:
    """Products of the elements up to each one; as `cumsum`."""
    return _accumulated(np.multiply, x, axis)


def _accumulated(function: np.ufunc, x: Array, axis: int) -> Array:
    dtype = dtype_of(x)
    with np.errstate(all="ignore"):
        if not dtype.is_float:
            return np.asarray(function.accumulate(x, axis=axis, dtype=x.dtype))
        # An accumulation keeps every partial result, which leaves NumPy no choice of order.
        wide = np.asarray(function.accumulate(x.astype(np.float32), axis=axis, dtype=np.float32))
        return convert(wide, FP32, dtype, "rint", "ieee")


def cummax(x: Array, axis: int) -> Array:
    """The largest element so far; NaN from the first NaN on; +0 is larger than -0. Exact in every dtype."""
    return _running(np.maximum, x, axis)


def cummin(x: Array, axis: int) -> Array:
    """The smallest element so far; NaN from the first NaN on; -0 is smaller than +0."""
    return _running(np.minimum, x, axis)


def _running(function: np.ufunc, x: Array, axis: int) -> Array:
    if not dtype_of(x).is_float:
        return np.asarray(function.accumulate(x, axis=axis))
    wide = x.astype(np.float32)
    # Integers in the order of the floats: -inf ... -0 +0 ... inf, with every NaN beyond the end that is looked for.
    keys = _ordered(wide.view(np.int32))
    keys[np.isnan(wide)] = np.iinfo(np.int32).max if function is np.maximum else np.iinfo(np.int32).min
    with np.errstate(all="ignore"):
        return _ordered(np.asarray(function.accumulate(keys, axis=axis))).view(np.float32).astype(x.dtype)


def _ordered(bits: Array) -> Array:
    """FP32 bit patterns as integers of the same order; its own inverse."""
    return bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))


def cumlogsumexp(x: Array, axis: int) -> Array:
    """Logarithms of the sums of exponentials up to each element, along an axis: log(exp(x[0]) + ... + exp(x[i])).

    Numerics:
      In FP32, with the running maximum m and the sum s of exp(x - m): for each element m' = max(m, x),
      s' = s * exp(m - m') + exp(x - m'), output m' + log(s'); an infinite m' is not subtracted. FP16 and BF16 widen first and
      round each output once.
    """
    wide = np.moveaxis(x.astype(np.float32), axis, 0)
    out = np.empty_like(wide)
    with np.errstate(all="ignore"):
        total = np.zeros(wide.shape[1:], np.float32)
        largest = np.full(wide.shape[1:], -np.inf, np.float32)
        for i, value in enumerate(wide):
            now = maximum(largest, value)
            shift = np.where(np.isfinite(now), now, np.float32(0))
            # Nothing was summed while the largest is -inf, and -inf - -inf would be NaN.
            carried = np.where(np.isneginf(largest), np.float32(0), mul(total, exp(sub(largest, shift))))
            total, largest = add(carried, exp(sub(value, shift))), now
            out[i] = add(shift, log(total))
    return convert(np.ascontiguousarray(np.moveaxis(out, 0, axis)), FP32, dtype_of(x), "rint", "ieee")
