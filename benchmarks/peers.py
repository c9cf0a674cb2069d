"""The workloads as others would write them: straight array programs for jax.jit, tile loops in NumPy with ml_dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.kernels import LARGEST

BF16 = ml_dtypes.bfloat16


# ---- whole arrays ------------------------------------------------------------------------------------------------


def softmax_jax(jax: Any, x: Any) -> Any:
    e = jax.numpy.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def swiglu_jax(jax: Any, x: Any, gain: Any, w: Any) -> Any:
    jnp = jax.numpy
    h = (x / jnp.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * gain).astype(jnp.bfloat16)
    y = jnp.matmul(h, w, preferred_element_type=jnp.float32)
    gate, up = y[:, : w.shape[1] // 2], y[:, w.shape[1] // 2 :]
    return (gate / (1 + jnp.exp(-gate)) * up).astype(jnp.bfloat16)


def matmul_jax(jax: Any, a: Any, b: Any) -> Any:
    return jax.numpy.matmul(a, b, preferred_element_type=jax.numpy.float32)


def attention_jax(jax: Any, q: Any, k: Any, v: Any) -> Any:
    jnp = jax.numpy
    scores = jnp.einsum("hqd,hkd->hqk", q, k, preferred_element_type=jnp.float32) * np.float32(128**-0.5)
    e = jnp.exp(scores - scores.max(2, keepdims=True))
    mixed = jnp.einsum("hqk,hkd->hqd", e.astype(jnp.bfloat16), v, preferred_element_type=jnp.float32)
    return (mixed / e.sum(2, keepdims=True)).astype(jnp.bfloat16)


def quantised_jax(jax: Any, x: Any, w: Any, scale: Any) -> Any:
    jnp = jax.numpy
    step = jnp.abs(x).max(1, keepdims=True) * np.float32(1 / 127)
    codes = jnp.rint(x / step).astype(jnp.int8)
    return jnp.matmul(codes, w, preferred_element_type=jnp.int32).astype(jnp.float32) * step * scale


def top_jax(jax: Any, x: Any) -> Any:
    return jax.lax.top_k(x, LARGEST)


def small_jax(jax: Any, a: Any, b: Any) -> Any:
    return a + b


# ---- tile loops --------------------------------------------------------------------------------------------------


def softmax_tiles(x: Any, out: Any) -> None:
    for r in range(0, len(x), 16):
        t = x[r : r + 16]
        e = np.exp(t - t.max(1, keepdims=True))
        out[r : r + 16] = e / e.sum(1, keepdims=True)


def swiglu_tiles(x: Any, gain: Any, w: Any, out: Any) -> None:
    depth, n = w.shape[0], w.shape[1] // 2
    h = (x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * gain).astype(BF16)
    for j in range(0, n, 128):
        gate = up = 0.0
        for k in range(0, depth, 512):
            a = h[:, k : k + 512].astype(np.float32)
            gate = gate + a @ w[k : k + 512, j : j + 128].astype(np.float32)
            up = up + a @ w[k : k + 512, n + j : n + j + 128].astype(np.float32)
        out[:, j : j + 128] = (gate / (1 + np.exp(-gate)) * up).astype(BF16)


def matmul_tiles(a: Any, b: Any, out: Any) -> None:
    n = len(a)
    for i in range(0, n, 128):
        for j in range(0, n, 128):
            acc = np.zeros((128, 128), np.float32)
            for k in range(0, n, 64):
                acc += a[i : i + 128, k : k + 64].astype(np.float32) @ b[k : k + 64, j : j + 128].astype(np.float32)
            out[i : i + 128, j : j + 128] = acc


def attention_tiles(q: Any, k: Any, v: Any, out: Any) -> None:
    heads, n, _ = q.shape
    for h in range(heads):
        for q0 in range(0, n, 64):
            t = q[h, q0 : q0 + 64].astype(np.float32)
            peak, total, mixed = np.full((64, 1), -np.inf, np.float32), np.zeros((64, 1), np.float32), np.zeros((64, 128), np.float32)
            for s in range(0, n, 128):
                scores = t @ k[h, s : s + 128].astype(np.float32).T * np.float32(128**-0.5)
                now = np.maximum(peak, scores.max(1, keepdims=True))
                decay, weights = np.exp(peak - now), np.exp(scores - now)
                total = total * decay + weights.sum(1, keepdims=True)
                mixed = mixed * decay + weights.astype(BF16).astype(np.float32) @ v[h, s : s + 128].astype(np.float32)
                peak = now
            out[h, q0 : q0 + 64] = (mixed / total).astype(BF16)


def quantised_tiles(x: Any, w: Any, scale: Any, out: Any) -> None:
    n = len(x)
    step = np.abs(x).max(1, keepdims=True) * np.float32(1 / 127)
    codes = np.rint(x / step).astype(np.int8)
    for i in range(0, n, 128):
        for j in range(0, n, 128):
            acc = 0.0
            for k in range(0, n, 128):  # exact in FP32: 128 products below 2**14
                acc = acc + codes[i : i + 128, k : k + 128].astype(np.float32) @ w[k : k + 128, j : j + 128].astype(np.float32)
            out[i : i + 128, j : j + 128] = acc * step[i : i + 128] * scale[:, j : j + 128]


def top_tiles(x: Any, values: Any, columns: Any) -> None:
    for r in range(0, len(x), 64):
        t = x[r : r + 64]
        few = np.argpartition(-t, LARGEST, axis=1)[:, :LARGEST]
        order = np.argsort(-np.take_along_axis(t, few, 1), axis=1, kind="stable")
        columns[r : r + 64] = np.take_along_axis(few, order, 1)
        values[r : r + 64] = np.take_along_axis(t, columns[r : r + 64], 1)


def small_tiles(a: Any, b: Any, out: Any) -> None:
    np.add(a, b, out=out)
