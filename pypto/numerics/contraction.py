"""Matrix products: the order of every addition is part of the result, and the same on every CPU.

NumPy has no fused multiply-add. A product of two BF16, FP16, FP8 or HF8 values has at most 22 bits, so it is exact in FP64, and an FP64
addition rounded to FP32 equals the fused result: when the FP64 sum is inexact, one term is at least 2**29 times the other, and
the larger one, having at most 24 bits, lies far from every rounding boundary of FP32. FP32 products have 48 bits, so there the
FP64 sum may fall onto such a boundary; `_fused_f32` repairs those. Where the exponents of narrow operands allow it, their products
are FP32 numbers already, and everything is computed in FP32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from pypto.dtypes import DType, dtype_of
from pypto.errors import ShapeError
from pypto.numerics.rounding import widened

Array = np.ndarray[Any, np.dtype[Any]]

CHUNK = 32
"""k values per step of the BF16 order."""

_SMALLEST_NORMAL = 2.0**-126
# Below this an FP32 result is tiny *after* rounding: it is the midpoint between 2**-126 and the 24-bit number under it.
_TINY_BELOW = 2.0**-126 - 2.0**-151
# FP64 elements of one working array: four of them stay in a 2 MB second-level cache.
_BLOCK = 1 << 14


def matmul(a: Array, b: Array, acc: Array | None = None, *, order: str = "") -> Array:
    """Multiply matrices: `acc + a @ b`.

    Args:
      a: [..., m, k], BF16, FP16, FP32, FP8E4M3FN, FP8E5M2, HF8 or an integer type of at most 32 bits.
      b: [..., k, n] of the same dtype; leading axes broadcast against those of `a`.
      acc: [..., m, n], FP32 (INT32 for integers); None starts from +0.
      order: "chunk32" or "chain"; by default "chunk32" for BF16 and "chain" for the other floats. Integers have no order.
    Returns:
      [..., m, n], FP32 or INT32.
    Numerics:
      chain: one FMA chain per output over ascending k, starting from the accumulator; subnormals kept.
      chunk32 (BF16 only): per 32 k-values an FMA chain over the even k and one over the odd k, both from +0, then
      `acc + (even + odd)`; k is padded with zeros; subnormal inputs and results become zeros of their sign.
      Integers: exact, wrapping in two's complement.
    Errors:
      PL301 for shapes that do not fit, PL302 for mixed dtypes, PL305 for a dtype without a matrix product, PL308 for an order
      that the dtype does not have.
    """
    dtype = dtype_of(a)
    order = _checked_order(dtype, dtype_of(b), order)
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-2]:
        raise ShapeError("PL301", f"matmul: {list(a.shape)} @ {list(b.shape)} do not fit", fix="a is [m, k] and b is [k, n]")
    rows, inner, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    leads = [a.shape[:-2], b.shape[:-2], *([] if acc is None else [acc.shape[:-2]])]
    try:
        lead = np.broadcast_shapes(*leads)
    except ValueError:
        raise ShapeError("PL301", f"matmul: leading axes {leads} do not broadcast", fix="use equal leading axes, or 1") from None
    if acc is not None and acc.shape[-2:] != (rows, columns):
        raise ShapeError("PL301", f"matmul: accumulator is {list(acc.shape)}, expected [{rows}, {columns}]", fix="reshape it")
    result_type = np.dtype(np.int32 if dtype.is_integer else np.float32)
    if acc is not None and acc.dtype != result_type:
        raise ShapeError("PL302", f"matmul: accumulator is {acc.dtype}, expected {result_type}", fix="accumulate in that dtype")

    out = np.zeros((*lead, rows, columns), result_type)
    if acc is not None:
        out[...] = acc
    count = math.prod(lead)
    left = np.broadcast_to(a, (*lead, rows, inner)).reshape(count, rows, inner)
    right = np.broadcast_to(b, (*lead, inner, columns)).reshape(count, inner, columns)
    if math.prod(b.shape[:-2]) == 1:  # every matrix on the left meets the same one: it is one tall product
        left, right, count, rows = left.reshape(1, count * rows, inner), right[:1], min(count, 1), count * rows
    wide = widened if dtype.is_float else lambda x: x.astype(result_type)
    with np.errstate(all="ignore"):
        for x, y, z in _groups(left, right, out.reshape(count, rows, columns)):
            _product(wide(x), wide(y), z, order, narrow=dtype.bits <= 16)
    return out


def _groups(*stacks: Array) -> Iterator[tuple[Array, ...]]:
    """As many matrices at a time as one working array holds; an output does not depend on its neighbours."""
    count, rows, columns = stacks[-1].shape
    step = max(1, _BLOCK // max(1, rows * columns))
    for start in range(0, count, step):
        yield tuple(x[start : start + step] for x in stacks)


def _checked_order(dtype: DType, other: DType, order: str) -> str:
    if dtype is not other:
        raise ShapeError("PL302", f"matmul: operands are {dtype.name} and {other.name}", fix="cast one of them")
    if (dtype.is_integer and dtype.bits > 32) or not (dtype.is_integer or dtype.accumulates_in):
        raise ShapeError("PL305", f"matmul does not take {dtype.name}", fix="cast the operands to BF16, FP16, FP32 or INT8")
    default = "chunk32" if dtype.name == "BF16" else "chain"
    order = order or default
    if order not in ("chain", default):
        raise ShapeError("PL308", f"matmul of {dtype.name} has no order {order!r}", fix=f"use order={default!r}")
    return order


def _product(a: Array, b: Array, out: Array, order: str, *, narrow: bool) -> None:
    """Add products [count, m, k] @ [count, k, n] to `out`, block by block of rows and columns so that working arrays stay in cache."""
    if not a.size or not b.size:
        return
    if a.dtype == np.int32:
        # Integer sums are exact modulo 2**32 in any order, and NumPy hands no integer to a BLAS.
        out += np.matmul(a, b)
        return
    columns = min(b.shape[2], 512)
    rows = max(1, _BLOCK // (columns * a.shape[0]))
    for j in range(0, b.shape[2], columns):
        for i in range(0, a.shape[1], rows):
            x, y, z = a[:, i : i + rows], b[:, :, j : j + columns], out[:, i : i + rows, j : j + columns]
            if order == "chunk32":
                _chunk32(x, y, z)
            else:
                _chain(x, y, z, narrow=narrow)


def _smallest_bit(x: Array) -> float:
    """A power of two that divides every finite element of an FP32 array; infinity if all are zero."""
    magnitude = np.abs(x[(x != 0) & np.isfinite(x)])
    if not magnitude.size:
        return np.inf
    _, exponent = np.frexp(magnitude.min().astype(np.float64))
    return float(np.ldexp(1.0, max(int(exponent) - 24, -149)))


def _flush(x: Array) -> None:
    """Turn the subnormals of an FP32 array into zeros of their sign, in place."""
    x[np.abs(x) < _SMALLEST_NORMAL] *= np.float32(0.0)


def _exact_in_fp32(a: Array, b: Array) -> bool:
    """Whether every product of two narrow elements is an FP32 number: they have at most 22 bits, so only exponents can leave the range.

    A fused multiply-add is then a multiplication and an addition in FP32.
    """
    finite = [float(np.max(np.abs(x), where=np.isfinite(x), initial=0.0)) for x in (a, b)]
    return _smallest_bit(a) * _smallest_bit(b) >= 2.0**-149 and finite[0] * finite[1] <= float(np.finfo(np.float32).max)


def _chain(a: Array, b: Array, out: Array, *, narrow: bool) -> None:
    """out = fma(a[:, :, k], b[:, k], out) for ascending k, one rounding to FP32 each."""
    plain = narrow and _exact_in_fp32(a, b)
    working = np.float32 if plain else np.float64
    rising = np.ascontiguousarray(np.moveaxis(a, 2, 0), working)
    across = np.ascontiguousarray(np.moveaxis(b, 1, 0), working)
    total = out.astype(working)
    exact, rounded = np.empty_like(total), np.empty(out.shape, np.float32)
    # Every sum is a multiple of `bit`; from 2**-126 on no result can be subnormal, which allows the cheaper boundary test.
    normal = not narrow and min(_smallest_bit(a) * _smallest_bit(b), _smallest_bit(out)) >= _SMALLEST_NORMAL
    for column, row in zip(rising[..., None], across[:, :, None, :], strict=True):
        np.multiply(column, row, out=exact)
        if plain:
            np.add(exact, total, out=total)
            continue
        if narrow:
            np.add(exact, total, out=exact)
        else:
            _fused_f32(exact, total, normal=normal)
        rounded[...] = exact
        total[...] = rounded
    out[...] = total


def _fused_f32(product: Array, total: Array, *, normal: bool) -> None:
    """product += total in FP64, such that rounding the result to FP32 rounds the exact sum once.

    Where the FP64 sum lost something, it is rounded to odd instead: an odd last bit of 53 is never a boundary of FP32, and stays
    on the exact value's side of it. Only a sum that lies on a boundary can go wrong, and for normal results those are
    the ones whose 29 bits below FP32's last are 1000...0: then only those are repaired.
    """
    sums = product + total
    bits = sums.view(np.int64)
    if normal:
        suspects = np.bitwise_and(bits, (1 << 29) - 1) == 1 << 28
        if not suspects.any():
            product[...] = sums
            return
        where = np.nonzero(suspects)
        p, t, s, word = product[where], total[where], sums[where], bits[where]
    else:
        where, p, t, s, word = ..., product, total, sums, bits
    # TwoSum: sum + error == p + t exactly.
    back = s - p
    error = (p - (s - back)) + (t - back)
    lost = ((error > 0) | (error < 0)) & (word & 1 == 0)
    step = np.where((error > 0) == (s > 0), 1, -1)
    bits[where] = word + np.where(lost, step, 0)
    product[...] = sums


def _chunk32(a: Array, b: Array, out: Array) -> None:
    """The BF16 order: for every 32 k-values, out += (chain over even k) + (chain over odd k)."""
    count, rows, inner = a.shape
    chunks = -(-inner // CHUNK)
    # [parity, k, ...]: both chains of a chunk advance in the same NumPy calls.
    rising = np.zeros((chunks * CHUNK, count, rows), np.float32)
    rising[:inner] = np.moveaxis(a, 2, 0)
    across = np.zeros((chunks * CHUNK, count, b.shape[2]), np.float32)
    across[:inner] = np.moveaxis(b, 1, 0)
    _flush(rising)
    _flush(across)
    _flush(out)
    # Every partial result is a multiple of `bit` (BF16 has 16 zero bits at the end, which only makes this safer): if it is
    # at least 2**-126, no result inside the chains, nor their sum, can be subnormal, and the flushes can be skipped.
    bit = _smallest_bit(rising) * _smallest_bit(across)
    chains_normal = bit >= _SMALLEST_NORMAL
    sums_normal = chains_normal and _smallest_bit(out) >= _SMALLEST_NORMAL

    plain = chains_normal and _exact_in_fp32(rising, across)
    working = np.float32 if plain else np.float64
    left = rising.astype(working).reshape(-1, 2, count, rows, 1)
    right = across.astype(working).reshape(-1, 2, count, 1, b.shape[2])
    total = np.zeros((2, *out.shape), working)
    exact, rounded = np.empty_like(total), np.zeros(total.shape, np.float32)
    for step in range(chunks * CHUNK // 2):
        if step % (CHUNK // 2) == 0:
            total[...] = 0.0
        np.multiply(left[step], right[step], out=exact)
        if plain:
            np.add(exact, total, out=total)
        else:
            np.add(exact, total, out=exact)
            rounded[...] = exact
            if not chains_normal:
                rounded[np.abs(exact) < _TINY_BELOW] *= np.float32(0.0)
            total[...] = rounded
        if step % (CHUNK // 2) < CHUNK // 2 - 1:
            continue
        # Sums of two FP32 numbers are exact where they are subnormal, so these are flushed after the fact.
        both = total[0].astype(np.float32) + total[1].astype(np.float32)
        if not chains_normal:
            _flush(both)
        out += both
        if not sums_normal:
            _flush(out)
