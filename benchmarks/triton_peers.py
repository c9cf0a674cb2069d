"""The workloads as Triton kernels, for its interpreter, where Triton is installed: the same tiles, run by NumPy.

The interpreter asks for tensors, of which it uses an address and the name of a dtype: `_On` is that much of one. Its BF16 products are
not rounded as the chip's are, and some are plainly wrong: the table says which.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it when a kernel is decorated

import triton
import triton.language as tl

from benchmarks.kernels import HEAD, LARGEST, WIDTH

VERSION = triton.__version__


class _On:
    """An array as what the interpreter takes for a tensor in the memory of this machine."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.dtype = array, str(array.dtype)

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def untyped_storage(self) -> _On:
        return self

    def cpu(self) -> _On:
        return self

    def new_empty(self, *_: Any, **__: Any) -> _On:
        return _On(self.array)

    def set_(self, *_: Any) -> None:
        """It is where it is."""

    copy_ = set_

    def storage_offset(self) -> int:
        return 0

    size = stride = storage_offset


def _run(kernel: Any, grid: tuple[int, ...], *arrays: np.ndarray, **constants: Any) -> None:
    kernel[grid](*map(_On, arrays), **constants)


@triton.jit
def _softmax(x, out, M: tl.constexpr):
    at = (tl.program_id(0) * 16 + tl.arange(0, 16))[:, None] * M + tl.arange(0, M)[None, :]
    t = tl.load(x + at)
    e = tl.exp(t - tl.max(t, 1)[:, None])
    tl.store(out + at, e / tl.sum(e, 1)[:, None])


def softmax(x: Any, out: Any) -> None:
    _run(_softmax, (len(x) // 16,), x, out, M=x.shape[1])


@triton.jit
def _norm(x, gain, h, K: tl.constexpr):
    columns = tl.arange(0, K)[None, :]
    at = (tl.program_id(0) * 16 + tl.arange(0, 16))[:, None] * K + columns
    t = tl.load(x + at)
    scale = 1.0 / tl.sqrt(tl.sum(t * t, 1)[:, None] / K + 1e-6)
    tl.store(h + at, (t * scale * tl.load(gain + columns)).to(tl.bfloat16))


@triton.jit
def _gated(h, w, out, K: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, 128)[:, None], tl.program_id(0) * 128 + tl.arange(0, 128)[None, :]
    gate, up = tl.zeros((128, 128), tl.float32), tl.zeros((128, 128), tl.float32)
    for c in range(0, K, 512):
        a = tl.load(h + rows * K + c + tl.arange(0, 512)[None, :])
        at = w + (c + tl.arange(0, 512)[:, None]) * (2 * N) + columns
        gate += tl.dot(a, tl.load(at))
        up += tl.dot(a, tl.load(at + N))
    tl.store(out + rows * N + columns, (gate / (1 + tl.exp(-gate)) * up).to(tl.bfloat16))


def swiglu(x: Any, gain: Any, w: Any, out: Any) -> None:
    h, n = np.empty(x.shape, w.dtype), out.shape[1]
    _run(_norm, (8,), x, gain, h, K=x.shape[1])
    _run(_gated, (n // 128,), h, w, out, K=x.shape[1], N=n)


@triton.jit
def _matmul(a, b, out, N: tl.constexpr):
    rows = tl.program_id(0) * 128 + tl.arange(0, 128)[:, None]
    columns = tl.program_id(1) * 128 + tl.arange(0, 128)[None, :]
    acc = tl.zeros((128, 128), tl.float32)
    for k in range(0, N, 64):
        along = k + tl.arange(0, 64)
        acc += tl.dot(tl.load(a + rows * N + along[None, :]), tl.load(b + along[:, None] * N + columns))
    tl.store(out + rows * N + columns, acc)


def matmul(a: Any, b: Any, out: Any) -> None:
    n = len(a)
    _run(_matmul, (n // 128, n // 128), a, b, out, N=n)


@triton.jit
def _attention(q, k, v, out, N: tl.constexpr, D: tl.constexpr):
    head = tl.program_id(0) * N * D
    width = tl.arange(0, D)[None, :]
    rows = head + (tl.program_id(1) * 64 + tl.arange(0, 64))[:, None] * D + width
    tile = tl.load(q + rows)
    peak, total = tl.full((64,), float("-inf"), tl.float32), tl.zeros((64,), tl.float32)
    mixed = tl.zeros((64, D), tl.float32)
    for s in range(0, N, 128):
        at = head + (s + tl.arange(0, 128))[:, None] * D + width
        scores = tl.dot(tile, tl.trans(tl.load(k + at))) * 0.08838834764831845
        now = tl.maximum(peak, tl.max(scores, 1))
        decay, weights = tl.exp(peak - now), tl.exp(scores - now[:, None])
        total = total * decay + tl.sum(weights, 1)
        mixed = mixed * decay[:, None] + tl.dot(weights.to(tl.bfloat16), tl.load(v + at))
        peak = now
    tl.store(out + rows, (mixed / total[:, None]).to(tl.bfloat16))


def attention(q: Any, k: Any, v: Any, out: Any) -> None:
    heads, n, _ = q.shape
    _run(_attention, (heads, n // 64), q, k, v, out, N=n, D=HEAD)


@triton.jit
def _codes(x, q, steps, N: tl.constexpr):
    rows = tl.program_id(0) * 16 + tl.arange(0, 16)
    at = rows[:, None] * N + tl.arange(0, N)[None, :]
    t = tl.load(x + at)
    step = tl.max(tl.abs(t), 1) * (1.0 / 127.0)
    near = tl.floor(t / step[:, None] + 0.5)
    tl.store(q + at, near.to(tl.int8))
    tl.store(steps + rows, step)


@triton.jit
def _scaled(q, w, steps, scale, out, N: tl.constexpr):
    rows = tl.program_id(0) * 128 + tl.arange(0, 128)[:, None]
    columns = tl.program_id(1) * 128 + tl.arange(0, 128)[None, :]
    acc = tl.zeros((128, 128), tl.int32)
    for k in range(0, N, 128):
        along = k + tl.arange(0, 128)
        acc += tl.dot(tl.load(q + rows * N + along[None, :]), tl.load(w + along[:, None] * N + columns), out_dtype=tl.int32)
    tl.store(out + rows * N + columns, acc.to(tl.float32) * tl.load(steps + rows) * tl.load(scale + columns))


def quantised(x: Any, w: Any, scale: Any, out: Any) -> None:
    n = len(x)
    q, steps = np.empty(x.shape, np.int8), np.empty(n, np.float32)
    _run(_codes, (n // 16,), x, q, steps, N=n)
    _run(_scaled, (n // 128, n // 128), q, w, steps, scale, out, N=n)


@triton.jit
def _top(x, values, columns, W: tl.constexpr, K: tl.constexpr):
    rows, along = tl.program_id(0) * 64 + tl.arange(0, 64), tl.arange(0, W)[None, :]
    t = tl.load(x + rows[:, None] * W + along)
    for i in range(K):
        best, where = tl.max(t, 1), tl.argmax(t, 1)
        tl.store(values + rows * K + i, best)
        tl.store(columns + rows * K + i, where)
        t = tl.where(along == where[:, None], float("-inf"), t)


def top(x: Any, values: Any, columns: Any) -> None:
    _run(_top, (len(x) // 64,), x, values, columns, W=WIDTH, K=LARGEST)


@triton.jit
def _small(a, b, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(a + at) + tl.load(b + at))


def small(a: Any, b: Any, out: Any) -> None:
    _run(_small, (1,), a, b, out, N=a.size)


KERNELS = {"W1": softmax, "W2": swiglu, "W3": matmul, "W4": attention, "W5": quantised, "W6": top, "W7": small}
