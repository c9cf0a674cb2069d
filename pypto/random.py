"""Random numbers from keys: `import pypto.random`. There is no state; the same key always gives the same numbers.

The generator is Threefry-2x32 with 20 rounds. Element i of a result, counted in row-major order, is made from the counter i alone, so
that parts can be made anywhere, and raw bits are those of `jax.random` with its default generator (`threefry2x32`, partitionable).
It was taken rather than the chip's Philox, which `pl.random` is, because JAX is the golden of this library: equal bits make random
programs comparable. What is made of the bits is written in operations of the numerics contract, and is the same on every machine.

A key is a UINT32 array [2]. Use a key once; `split` makes new ones.

>>> from pypto import random
>>> random.key(7)
Array([0, 7], dtype=UINT32)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pypto import dtypes, lax
from pypto.core.allocation import no_memory
from pypto.core.array import Array
from pypto.core.trace import Tracer, aval_of
from pypto.dtypes import DType, dtype_of
from pypto.errors import ShapeError
from pypto.lax.reduction import normal_axis

Shape = Sequence[int]
_UNSIGNED = {8: dtypes.UINT8, 16: dtypes.UINT16, 32: dtypes.UINT32, 64: dtypes.UINT64}


def key(seed: Any) -> Any:
    """A key for an integer.

    Args:
      seed: from -2**31 to 2**32 - 1 the low word is the seed and the high one 0; other Python integers fill both words. Or an
        INT32 or UINT32 scalar, which may be traced.
    Errors:
      PL308 for a Python integer of more than 64 bits, PL302 for anything that is no integer.

    >>> key(-1)
    Array([         0, 4294967295], dtype=UINT32)
    """
    if isinstance(seed, int) and not isinstance(seed, bool):
        if not -(2**63) <= seed < 2**64:
            raise ShapeError("PL308", f"a seed of {seed.bit_length()} bits", fix="at most 64")
        high = 0 if -(2**31) <= seed < 2**32 else (seed >> 32) & 0xFFFFFFFF
        return Array(np.array([high, seed & 0xFFFFFFFF], np.uint32))
    aval = aval_of(seed)
    if aval.dtype not in (dtypes.INT32, dtypes.UINT32) or aval.shape != ():
        raise ShapeError("PL302", f"a seed {aval}", fix="an integer, or an INT32 or UINT32 scalar")
    low = lax.reshape(lax.convert_element_type(seed, dtypes.UINT32), shape=(1,))
    return lax.concatenate([np.zeros(1, np.uint32), low], 0)


def _words(k: Any) -> tuple[Any, Any]:
    aval = aval_of(k)
    if aval.shape != (2,) or aval.dtype is not dtypes.UINT32:
        raise ShapeError("PL302", f"{aval} is no key", fix="random.key(seed), or one element of random.split(key)")
    if isinstance(k, Tracer):
        return tuple(lax.reshape(lax.index_in_dim(k, i), shape=()) for i in (0, 1))  # type: ignore[return-value]
    high, low = np.asarray(k)
    return high, low


def _encrypt(k: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Two words per element of a shape, from its row-major position."""
    try:
        count = np.arange(math.prod(shape), dtype=np.uint64).reshape(shape)
    except (MemoryError, ValueError):
        raise no_memory("the counters of random bits", dtypes.UINT64, shape) from None
    high, low = (count >> np.uint64(32)).astype(np.uint32), count.astype(np.uint32)
    return lax.threefry2x32(*_words(k), high, low)


def _shape(shape: Any) -> tuple[int, ...]:
    return (int(shape),) if isinstance(shape, int) else tuple(int(d) for d in shape)


def split(key: Any, num: int | Shape = 2) -> Any:
    """New keys from one.

    Args:
      num: how many, or the shape of an array of them.
    Returns:
      UINT32 [num, 2]; iterate over it, or index it.

    >>> first, second = split(key(0))
    >>> first
    Array([1797259609, 2579123966], dtype=UINT32)
    """
    shape = _shape(num)
    words = [lax.expand_dims(w, (len(shape),)) for w in _encrypt(key, shape)]
    return lax.concatenate(words, len(shape))


def fold_in(key: Any, data: Any) -> Any:
    """A new key from a key and a 32-bit integer, such as a step or a layer number; it may be traced.

    >>> fold_in(key(0), 1)
    Array([ 928981903, 3453687069], dtype=UINT32)
    """
    number = np.uint32(data & 0xFFFFFFFF) if isinstance(data, int) and not isinstance(data, bool) else data
    low = lax.convert_element_type(number, dtypes.UINT32) if not isinstance(number, np.generic) else number
    if aval_of(low).shape != ():
        raise ShapeError("PL301", f"fold_in of {aval_of(data)}", fix="one integer")
    words = lax.threefry2x32(*_words(key), np.uint32(0), low)
    return lax.concatenate([lax.reshape(w, shape=(1,)) for w in words], 0)


def bits(key: Any, shape: int | Shape = (), dtype: Any = dtypes.UINT32) -> Any:
    """Uniform random bits.

    Args:
      dtype: UINT8, UINT16, UINT32 or UINT64.
    Numerics:
      32 bits are the exclusive or of the two words of a counter; narrower ones their low bits; 64 bits both words, the first high.

    >>> bits(key(0), 2)
    Array([4070199207, 4202968722], dtype=UINT32)
    """
    kind = dtype_of(dtype)
    if kind not in _UNSIGNED.values():
        raise ShapeError("PL305", f"random bits of dtype {kind.name}", fix="UINT8, UINT16, UINT32 or UINT64")
    high, low = _encrypt(key, _shape(shape))
    if kind is dtypes.UINT64:
        wide = [lax.convert_element_type(w, dtypes.UINT64) for w in (high, low)]
        return lax.or_(lax.shl(wide[0], np.uint64(32)), wide[1])
    word = lax.xor(high, low)
    return word if kind is dtypes.UINT32 else lax.convert_element_type(word, kind)


def _float(dtype: Any) -> DType:
    kind = dtype_of(dtype)
    if kind not in (dtypes.FP32, dtypes.FP16, dtypes.BF16):
        raise ShapeError("PL305", f"random numbers of dtype {kind.name}", fix="FP32, FP16 or BF16")
    return kind


def uniform(key: Any, shape: int | Shape = (), dtype: Any = dtypes.FP32, minval: Any = 0.0, maxval: Any = 1.0) -> Any:
    """Numbers spread evenly over [minval, maxval).

    Args:
      dtype: FP32, FP16 or BF16.
      minval, maxval: numbers, or arrays of this dtype that broadcast to the shape.
    Numerics:
      As many random bits as the dtype has fraction bits make a multiple of 2**-23 (FP32), 2**-10 or 2**-7 in [0, 1), exactly; then
      one multiplication by maxval - minval and one addition of minval, each rounded; then `maximum` with minval.

    >>> uniform(key(0), 2)
    Array([0.947667 , 0.9785799], dtype=FP32)
    """
    kind, extents = _float(dtype), _shape(shape)
    drawn = 8 if kind.mantissa < 8 else kind.bits
    word = bits(key, extents, _UNSIGNED[drawn])
    if drawn > kind.mantissa:
        word = lax.shr(word, word.dtype.storage.type(drawn - kind.mantissa))
    fraction = lax.mul(lax.convert_element_type(word, kind), kind.storage.type(2.0**-kind.mantissa))
    low, high = (_bound(v, kind) for v in (minval, maxval))
    spread = lax.add(lax.mul(fraction, lax.sub(high, low)), low)
    return lax.maximum(low, spread)


def _bound(value: Any, kind: DType) -> Any:
    if isinstance(value, int | float):
        return kind.storage.type(value)
    return value if aval_of(value).dtype is kind else lax.convert_element_type(value, kind)


_LEAST = float(np.nextafter(np.float32(-1), np.float32(0)))


def normal(key: Any, shape: int | Shape = (), dtype: Any = dtypes.FP32) -> Any:
    """Numbers with mean 0 and variance 1, normally distributed.

    Numerics:
      sqrt(2) * erf_inv(u) in FP32, u uniform in (-1, 1); rounded once for FP16 and BF16. Close to, but not the bits of `jax.random`,
      whose `erf_inv` is the compiler's.

    >>> normal(key(0), 2)
    Array([1.622642 , 2.0252647], dtype=FP32)
    """
    kind = _float(dtype)
    value = lax.mul(np.float32(math.sqrt(2)), lax.erf_inv(uniform(key, shape, dtypes.FP32, _LEAST, 1.0)))
    return value if kind is dtypes.FP32 else lax.convert_element_type(value, kind)


def randint(key: Any, shape: int | Shape, minval: Any, maxval: Any, dtype: Any = dtypes.INT32) -> Any:
    """Integers from minval to maxval - 1.

    Args:
      minval, maxval: Python integers, or arrays of this dtype that broadcast to the shape. maxval may be one more than the dtype's
        largest number. Where maxval <= minval the result is minval.
      dtype: an integer dtype of 8 to 64 bits.
    Numerics:
      Twice as many bits as the dtype has (of a narrow one, as INT32 or UINT32 has), modulo the span: the bias is at most
      span / 2**(2 * width).

    >>> randint(key(0), 4, 0, 10)
    Array([9, 0, 2, 3], dtype=INT32)
    """
    kind, extents = dtype_of(dtype), _shape(shape)
    if not kind.is_integer or kind.bits not in _UNSIGNED:
        raise ShapeError("PL305", f"randint of dtype {kind.name}", fix="an integer dtype of 8 to 64 bits")
    if kind.bits < 32:
        wide = dtypes.INT32 if kind.is_signed else dtypes.UINT32
        low, high = (v if isinstance(v, int) else lax.convert_element_type(_integer(v, kind), wide) for v in (minval, maxval))
        low, high = (min(max(v, int(kind.min_value)), int(kind.max_value) + 1) if isinstance(v, int) else v for v in (low, high))
        return lax.convert_element_type(randint(key, extents, low, high, wide), kind)
    unsigned = _UNSIGNED[kind.bits]
    first, second = split(key)
    high, low = bits(first, extents, unsigned), bits(second, extents, unsigned)
    least, span, whole = _span(minval, maxval, kind, unsigned)
    if whole:
        offset = low
    else:
        # (high * 2**width + low) % span, in pieces that fit: 2**width % span is the square of 2**(width / 2) % span
        half = lax.floor_mod(unsigned.storage.type(1 << (kind.bits // 2)), span)
        scale = lax.floor_mod(lax.mul(half, half), span)
        offset = lax.floor_mod(lax.add(lax.mul(lax.floor_mod(high, span), scale), lax.floor_mod(low, span)), span)
    return lax.add(least, lax.convert(offset, dtype=kind, mode="rint", overflow="wrap") if unsigned is not kind else offset)


def _span(minval: Any, maxval: Any, kind: DType, unsigned: DType) -> tuple[Any, Any, bool]:
    """The least number, how many there are, and whether these are all numbers of the dtype."""
    if isinstance(minval, int) and isinstance(maxval, int):
        least = min(max(minval, int(kind.min_value)), int(kind.max_value))
        count = max(1, min(max(maxval, int(kind.min_value)), int(kind.max_value) + 1) - least)
        return kind.storage.type(least), unsigned.storage.type(count % (1 << kind.bits)), count == 1 << kind.bits
    low, high = (_integer(v, kind) for v in (minval, maxval))
    count = lax.convert(lax.sub(high, low), dtype=unsigned, mode="rint", overflow="wrap") if unsigned is not kind else lax.sub(high, low)
    return low, lax.select(lax.le(high, low), unsigned.storage.type(1), count), False


def _integer(value: Any, kind: DType) -> Any:
    if isinstance(value, int):
        return kind.storage.type(min(max(value, int(kind.min_value)), int(kind.max_value)))
    aval = aval_of(value)
    if aval.dtype is not kind:
        raise ShapeError("PL302", f"randint: a bound {aval} for {kind.name}", fix=f"lax.convert_element_type(bound, {kind.name!r})")
    return value


def bernoulli(key: Any, p: Any = 0.5, shape: int | Shape | None = None) -> Any:
    """True with probability p: where `uniform` is below it.

    Args:
      p: a number, or an FP32, FP16 or BF16 array.
      shape: by default p's.

    >>> bernoulli(key(0), 0.5, 4)
    Array([False, False,  True,  True], dtype=BOOL)
    """
    chance = np.float32(p) if isinstance(p, int | float) else p
    aval = aval_of(chance)
    return lax.lt(uniform(key, aval.static_shape if shape is None else shape, _float(aval.dtype)), chance)


def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Any:
    """A random order of the elements of an axis.

    Args:
      x: an array, or a Python integer n for 0, ..., n - 1 (INT32).
      independent: every row of the other axes gets an order of its own; otherwise all get the same one.
    Numerics:
      Sorted by random words, often enough that no two elements ever get the same words.

    >>> permutation(key(0), 5)
    Array([0, 1, 4, 3, 2], dtype=INT32)
    """
    if isinstance(x, int):
        return _shuffled(key, lax.iota(dtypes.INT32, x), 0)
    shape = aval_of(x).static_shape
    at = normal_axis("permutation", len(shape), axis)
    if independent or len(shape) == 1:
        return _shuffled(key, x, at)
    return lax.take(x, _shuffled(key, lax.iota(dtypes.INT32, shape[at]), 0), at, mode="clip")


def _shuffled(k: Any, x: Any, axis: int) -> Any:
    shape = aval_of(x).static_shape
    rounds = math.ceil(3 * math.log(max(1, math.prod(shape))) / math.log(2**32 - 1))
    for _ in range(rounds):
        k, now = split(k)
        _, x = lax.sort_key_val(bits(now, shape), x, axis)
    return x


def gumbel(key: Any, shape: int | Shape = (), dtype: Any = dtypes.FP32) -> Any:
    """-log(-log(u)), u uniform in (0, 1): what, added to logits, makes the largest one a sample."""
    kind = _float(dtype)
    u = uniform(key, shape, kind, 2.0**kind.min_exponent, 1.0)
    return lax.neg(lax.log(lax.neg(lax.log(u))))


def categorical(key: Any, logits: Any, axis: int = -1, shape: int | Shape | None = None) -> Any:
    """Indices, INT32, drawn with the probabilities softmax(logits) along an axis.

    Args:
      logits: FP32, FP16 or BF16; -inf for what never comes.
      shape: of the result: the shape of the logits without the axis, or that after further axes. By default no further axes.
    Numerics:
      The first index of the largest of logits + `gumbel`.

    >>> import numpy as np
    >>> categorical(key(0), np.float32([0.0, -np.inf]), shape=(3,))
    Array([0, 0, 0], dtype=INT32)
    """
    aval = aval_of(logits)
    at = normal_axis("categorical", aval.rank, axis)
    batch = tuple(d for i, d in enumerate(aval.static_shape) if i != at)
    wanted = batch if shape is None else _shape(shape)
    if wanted[len(wanted) - len(batch) :] != batch:
        raise ShapeError("PL301", f"categorical: shape {list(wanted)} for {aval}", fix=f"it ends with {list(batch)}")
    extra = wanted[: len(wanted) - len(batch)]
    noise = gumbel(key, (*extra, *aval.static_shape), aval.dtype)
    return lax.argmax(lax.add(noise, logits), axis=len(extra) + at, index_dtype=dtypes.INT32)
