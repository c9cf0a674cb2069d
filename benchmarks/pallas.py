"""The workloads as Pallas kernels, for `interpret=True`: the same tiles, run by its interpreter under jax.jit."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.kernels import LARGEST


def _call(pl: Any, jax: Any, body: Any, grid: Any, ins: Any, outs: Any, shapes: Any) -> Any:
    many = isinstance(shapes, list)
    made = [jax.ShapeDtypeStruct(s, d) for s, d in (shapes if many else [shapes])]
    specs = [pl.BlockSpec(block, index) for block, index in (outs if many else [outs])]
    return pl.pallas_call(
        body,
        grid=grid,
        in_specs=[pl.BlockSpec(block, index) for block, index in ins],
        out_specs=specs if many else specs[0],
        out_shape=made if many else made[0],
        interpret=True,
    )


def softmax(jax: Any, pl: Any, x: Any) -> Any:
    n, m = x.shape

    def body(x: Any, out: Any) -> None:
        e = jax.numpy.exp(x[...] - x[...].max(1, keepdims=True))
        out[...] = e / e.sum(1, keepdims=True)

    rows = ((16, m), lambda i: (i, 0))
    return _call(pl, jax, body, (n // 16,), [rows], rows, ((n, m), np.float32))(x)


def swiglu(jax: Any, pl: Any, x: Any, gain: Any, w: Any) -> Any:
    jnp = jax.numpy
    depth, n = w.shape[0], w.shape[1] // 2

    def norm(x: Any, gain: Any, h: Any) -> None:
        t = x[...]
        h[...] = (t * jax.lax.rsqrt((t * t).mean(1, keepdims=True) + 1e-6) * gain[...]).astype(jnp.bfloat16)

    def product(h: Any, gate_w: Any, up_w: Any, out: Any) -> None:
        def step(c: Any, carry: Any) -> Any:
            a = h[:, pl.ds(c * 512, 512)]
            parts = (jnp.dot(a, w[pl.ds(c * 512, 512), :], preferred_element_type=jnp.float32) for w in (gate_w, up_w))
            return tuple(acc + part for acc, part in zip(carry, parts, strict=True))

        zero = jnp.zeros((128, 128), jnp.float32)
        gate, up = jax.lax.fori_loop(0, depth // 512, step, (zero, zero))
        out[...] = (gate / (1 + jnp.exp(-gate)) * up).astype(jnp.bfloat16)

    rows, whole = ((16, depth), lambda i: (i, 0)), ((1, depth), lambda i: (0, 0))
    h = _call(pl, jax, norm, (8,), [rows, whole], rows, ((128, depth), jnp.bfloat16))(x, gain)
    columns, half = ((depth, 128), lambda j: (0, j)), n // 128
    ins = [((128, depth), lambda j: (0, 0)), columns, ((depth, 128), lambda j: (0, half + j))]
    return _call(pl, jax, product, (half,), ins, ((128, 128), lambda j: (0, j)), ((128, n), jnp.bfloat16))(h, w, w)


def matmul(jax: Any, pl: Any, a: Any, b: Any) -> Any:
    jnp, n = jax.numpy, a.shape[0]

    def body(a: Any, b: Any, out: Any) -> None:
        part = jnp.dot(a[...], b[...], preferred_element_type=jnp.float32)
        out[...] = jnp.where(pl.program_id(2) == 0, part, out[...] + part)

    ins = [((128, 64), lambda i, j, k: (i, k)), ((64, 128), lambda i, j, k: (k, j))]
    out = ((128, 128), lambda i, j, k: (i, j))
    return _call(pl, jax, body, (n // 128, n // 128, n // 64), ins, out, ((n, n), jnp.float32))(a, b)


def attention(jax: Any, pl: Any, q: Any, k: Any, v: Any) -> Any:
    jnp = jax.numpy
    heads, n, width = q.shape

    def body(q: Any, k: Any, v: Any, out: Any) -> None:
        def step(s: Any, carry: Any) -> Any:
            peak, total, mixed = carry
            scores = jnp.dot(q[0], k[0, pl.ds(s * 128, 128), :].T, preferred_element_type=jnp.float32) * np.float32(128**-0.5)
            now = jnp.maximum(peak, scores.max(1, keepdims=True))
            decay, weights = jnp.exp(peak - now), jnp.exp(scores - now)
            part = jnp.dot(weights.astype(jnp.bfloat16), v[0, pl.ds(s * 128, 128), :], preferred_element_type=jnp.float32)
            return now, total * decay + weights.sum(1, keepdims=True), mixed * decay + part

        start = (jnp.full((64, 1), -np.inf), jnp.zeros((64, 1)), jnp.zeros((64, width)))
        _, total, mixed = jax.lax.fori_loop(0, n // 128, step, start)
        out[0] = (mixed / total).astype(jnp.bfloat16)

    rows, all_rows = ((1, 64, width), lambda h, i: (h, i, 0)), ((1, n, width), lambda h, i: (h, 0, 0))
    return _call(pl, jax, body, (heads, n // 64), [rows, all_rows, all_rows], rows, (q.shape, jnp.bfloat16))(q, k, v)


def quantised(jax: Any, pl: Any, x: Any, w: Any, scale: Any) -> Any:
    jnp, n = jax.numpy, x.shape[0]

    def codes(x: Any, q: Any, step: Any) -> None:
        step[...] = jnp.abs(x[...]).max(1, keepdims=True) * np.float32(1 / 127)
        q[...] = jnp.rint(x[...] / step[...]).astype(jnp.int8)

    def product(q: Any, w: Any, step: Any, scale: Any, out: Any) -> None:
        acc = jnp.dot(q[...], w[...], preferred_element_type=jnp.int32)
        out[...] = acc.astype(jnp.float32) * step[...] * scale[...]

    rows, column = ((16, n), lambda i: (i, 0)), ((16, 1), lambda i: (i, 0))
    q, step = _call(pl, jax, codes, (n // 16,), [rows], [rows, column], [((n, n), jnp.int8), ((n, 1), jnp.float32)])(x)
    ins = [
        ((128, n), lambda i, j: (i, 0)),
        ((n, 128), lambda i, j: (0, j)),
        ((128, 1), lambda i, j: (i, 0)),
        ((1, 128), lambda i, j: (0, j)),
    ]
    return _call(pl, jax, product, (n // 128, n // 128), ins, ((128, 128), lambda i, j: (i, j)), ((n, n), jnp.float32))(q, w, step, scale)


def top(jax: Any, pl: Any, x: Any) -> Any:
    n, width = x.shape

    def body(x: Any, values: Any, columns: Any) -> None:
        values[...], columns[...] = jax.lax.top_k(x[...], LARGEST)

    out = ((64, LARGEST), lambda i: (i, 0))
    shapes = [((n, LARGEST), np.float32), ((n, LARGEST), np.int32)]
    return _call(pl, jax, body, (n // 64,), [((64, width), lambda i: (i, 0))], [out, out], shapes)(x)


def small(jax: Any, pl: Any, a: Any, b: Any) -> Any:
    def body(a: Any, b: Any, out: Any) -> None:
        out[...] = a[...] + b[...]

    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(a.shape, a.dtype), interpret=True)(a, b)
