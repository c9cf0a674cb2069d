"""Inputs that are the same for ever: made from Philox words and from the bit patterns rules are about, by no generator of NumPy's.

Also the hash of results, for which all NaNs are one.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pypto import numerics
from pypto.dtypes import BOOL, FP32, HF8, DType, dtype_of

# Zeros, ones, halves and ties; the ends of FP16, BF16 and the integers; subnormals; numbers next to a power of two.
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 65504.0, 65519.0, 65520.0, 3.3895314e38]
NUMBERS += [1e-45, -1e-45, 1.17549435e-38, 1.1754942e-38, 6e-8, 2.9e-8, 1.00390625, 1.01953125, 2049.0, 127.5, 128.0, -128.5, 255.5]
NUMBERS += [32767.5, 2.0**31, -(2.0**31), 2.0**63, 8388609.0, 88.72284, -103.97208, 0.99999994, 1.0000001, 3.4028235e38]


def words(count: int, seed: int = 0) -> np.ndarray:
    """UINT32 words of Philox-4x32-10 with the key (seed, 0)."""
    counters = np.zeros((-(-count // 4), 4), np.uint32)
    counters[:, 0] = np.arange(len(counters))
    return numerics.philox(counters, (seed, 0)).reshape(-1)[:count]


def wild(dtype: DType, shape: Sequence[int], seed: int = 0) -> np.ndarray:
    """Any bits at all, with the special numbers in front."""
    count = int(np.prod(shape))
    if dtype is BOOL:
        return (words(count, seed) & 1).astype(np.bool_).reshape(shape)
    per = -(-count * dtype.itemsize // 4)
    raw = words(per, seed).view(np.uint8)[: count * dtype.itemsize].view(_carrier(dtype)).copy()
    if dtype.bits < 8:
        raw &= (1 << dtype.bits) - 1
    values = raw.view(dtype.storage) if dtype.bits >= 8 else _narrow(raw, dtype)
    special = specials(dtype)
    start = seed % len(special) if count < len(special) else 0
    front = np.concatenate([special[start:], special[:start]])[:count]
    values[: len(front)] = front
    return values.reshape(shape)


def _carrier(dtype: DType) -> Any:
    return np.dtype(f"u{dtype.itemsize}")


def _narrow(raw: np.ndarray, dtype: DType) -> np.ndarray:
    return (raw.astype(np.int16) - (8 if dtype.is_signed else 0)).astype(np.int8).astype(dtype.storage)


def narrowed(x: np.ndarray, dtype: DType) -> np.ndarray:
    """FP32 numbers in a float dtype; NumPy itself does not cast to HF8."""
    return numerics.convert(x, FP32, HF8, "round", "ieee") if dtype is HF8 else x.astype(dtype.storage)


def specials(dtype: DType) -> np.ndarray:
    """The values of a dtype that rules are about."""
    if dtype.is_float:
        with np.errstate(all="ignore"):
            return narrowed(np.array(NUMBERS, np.float32), dtype)
    low, high = int(dtype.min_value), int(dtype.max_value)
    chosen = [0, 1, high, low, high - 1, low + 1, 2, 7, *((-1, -2, -7) if dtype.is_signed else ())]
    return np.array(chosen, np.uint64 if dtype.bits == 64 and not dtype.is_signed else np.int64).astype(dtype.storage)


def tame(dtype: DType, shape: Sequence[int], seed: int = 0) -> np.ndarray:
    """Numbers of both signs between 2**-6 and 2**6 with full fractions, so that every order of additions gives another sum."""
    if not dtype.is_float:
        return wild(dtype, shape, seed)
    raw = words(int(np.prod(shape)), seed)
    exponent = (raw >> 8) % np.uint32(12) + np.uint32(127 - 6)
    made = ((raw & np.uint32(0x80000000)) | (exponent << np.uint32(23)) | (raw * np.uint32(2654435761) >> np.uint32(9))).view(np.float32)
    return narrowed(made, dtype).reshape(shape)


def patterns(dtype: DType) -> np.ndarray:
    """Every bit pattern of a dtype of 16 bits or fewer; a wide sample of the others."""
    if dtype.is_float and dtype.bits <= 16:
        return np.arange(1 << dtype.bits).astype(_carrier(dtype)).view(dtype.storage)
    return np.concatenate([wild(dtype, (3072,)), tame(dtype, (1024,), 1)])


def pairs(dtype: DType, arity: int) -> list[np.ndarray]:
    """Operands that meet every special value with every other one, and wild and tame numbers."""
    special = specials(dtype) if dtype is not BOOL else np.array([False, True])
    some = special[: 40 if arity == 2 else 12]
    met = list(zip(*itertools.product(some, repeat=arity)))
    return [
        np.concatenate([np.array(m, dtype.storage), wild(dtype, (1024,), 7 + i), tame(dtype, (1024,), 11 + i)]) for i, m in enumerate(met)
    ]


def canonical(x: Any) -> bytes:
    """Dtype, shape and bits, every NaN the same one."""
    array = np.ascontiguousarray(x)
    head = f"{array.dtype.name}{list(array.shape)}".encode()
    if array.dtype.kind in "biu" or "int" in array.dtype.name:
        return head + array.tobytes()
    nan = np.isnan(numerics.widened(array))
    bits = array.view(f"u{array.dtype.itemsize}")
    return head + np.where(nan, bits.dtype.type(0), bits).tobytes() + nan.tobytes()


def digest(results: Iterable[Any]) -> str:
    """One short hash of results in order."""
    total = hashlib.sha256()
    for x in results:
        total.update(canonical(x))
    return total.hexdigest()[:16]


def hardened(a: Any, seed: int, make: Any) -> np.ndarray:
    """An operand of the same dtype and shape with hard values."""
    array = np.asarray(a)
    return make(dtype_of(array.dtype), array.shape, seed)
