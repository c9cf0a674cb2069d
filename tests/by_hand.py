"""Reductions by hand: loops over Python numbers, one NumPy scalar operation at a time; nothing here uses the library's numerics."""

from __future__ import annotations

import numpy as np

from pypto import dtypes

FLOATS = ("FP32", "FP16", "BF16")
INTEGERS = ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
STORAGE = {name: getattr(dtypes, name).storage for name in (*FLOATS, *INTEGERS)}
f = np.float32


def numbers(name, shape, seed=0):
    """Numbers of a dtype: floats with full fractions, some of them special in one row of the larger shapes."""
    rng = np.random.default_rng(seed)
    if name in INTEGERS:
        limits = np.iinfo(STORAGE[name])
        return rng.integers(limits.min, limits.max, shape, dtype=STORAGE[name], endpoint=True)
    x = rng.uniform(-2, 2, shape).astype(f)
    if shape[0] > 2 and shape[1] > 2:
        x[1, 7], x[2, 3], x[2, 5] = np.nan, -0.0, 0.0
        x[2, 6:] = -np.abs(x[2, 6:])
    return x.astype(STORAGE[name])


# ---- the formulas: Python loops, one NumPy scalar operation at a time ------------------------------------------------


def lanes(values, combine, identity):
    """64 partial results in ascending order, then halves."""
    partial = [f(identity)] * 64
    for j, v in enumerate(values):
        partial[j % 64] = combine(partial[j % 64], f(v))
    while len(partial) > 1:
        half = len(partial) // 2
        partial = [combine(a, b) for a, b in zip(partial[:half], partial[half:], strict=True)]
    return partial[0]


def ascending(values, combine, identity):
    total = f(identity)
    for v in values:
        total = combine(total, f(v))
    return total


def modular(values, combine, start, storage):
    total = start
    for v in values:
        total = combine(total, int(v))
    return np.array([total % (1 << 8 * storage.itemsize)], np.uint64).astype(f"u{storage.itemsize}").view(storage)[0]


def key(v):
    """Floats in order, -0 below +0."""
    return (float(v), 0 if np.signbit(f(v)) else 1) if f(v) == 0 else (float(v), 0)


def largest(values, sign=1):
    if any(v != v for v in values):
        return f("nan")
    return max(values, key=lambda v: tuple(sign * k for k in key(v)))


def first(values, sign=1):
    """The position of the extremum: the first NaN, or else the first of the equal largest."""
    best = None
    for j, v in enumerate(values):
        if v != v:
            return j
        if best is None or sign * v > sign * values[best]:
            best = j
    return best


def plain(values, dtype):
    return [int(v) for v in values] if dtype in INTEGERS else [f(v) for v in values]


def expected(name, dtype, values, order):
    storage = STORAGE[dtype]
    exact = plain(values, dtype)
    if name in ("argmax", "argmin"):
        return first(exact, 1 if name == "argmax" else -1)
    if name in ("max", "min"):
        return np.array([largest(exact, 1 if name == "max" else -1)]).astype(storage)[0]
    add, start = (lambda a, b: a + b, 0) if name == "sum" else (lambda a, b: a * b, 1)
    if dtype in INTEGERS:
        return modular(values, add, start, storage)
    fold = lanes if order == "rows" else ascending
    return np.array([fold(exact, add, -0.0 if name == "sum" else 1.0)], f).astype(storage)[0]


def by_hand(name, dtype, x, order):
    kept = x if order == "rows" else x.T
    out = np.array([expected(name, dtype, list(row), order) for row in kept])
    out = out.astype(np.int32 if name.startswith("arg") else STORAGE[dtype])
    return out[:, None] if order == "rows" else out[None, :]
