"""The workloads as kernels, for any size: each function makes the kernel of one. They are legal on the chip: tiles fit its memories.

| | what |
|---|---|
| W1 | row softmax in three passes over column chunks, as a kernel that fits the vector memory must be written |
| W2 | RMSNorm, a BF16 projection, SwiGLU |
| W3 | BF16 matrix product, looped over k |
| W4 | flash attention, 8 heads of 128 |
| W5 | INT8 quantisation per row, product, dequantisation |
| W6 | the 8 largest of each row of 512, with their columns |
| W7 | one addition of two small tiles: what a launch costs |
"""

from __future__ import annotations

from typing import Any

import pypto.language as pl

INFINITY = float("inf")
HEADS, HEAD = 8, 128
WIDTH, LARGEST = 512, 8  # W6


def softmax(n: int, m: int = 4096) -> Any:
    """[n, m] FP32."""

    @pl.jit
    def softmax(x: pl.Tensor[[n, m], pl.FP32], out: pl.Out[pl.Tensor[[n, m], pl.FP32]]):
        for r in pl.parallel(0, n, 16):
            with pl.at(level=pl.Level.CORE_GROUP):
                peak = pl.full([16, 1], dtype=pl.FP32, value=-INFINITY)
                for c in pl.range(0, m, 1024):
                    peak = pl.maximum(peak, pl.row_max(x[r : r + 16, c : c + 1024]))
                total = pl.full([16, 1], dtype=pl.FP32, value=0.0)
                for c in pl.range(0, m, 1024):
                    e = pl.exp(pl.row_expand_sub(x[r : r + 16, c : c + 1024], peak))
                    total = pl.add(total, pl.row_sum(e))
                    out[r : r + 16, c : c + 1024] = e
                for c in pl.range(0, m, 1024):
                    out[r : r + 16, c : c + 1024] = pl.row_expand_div(out[r : r + 16, c : c + 1024], total)

    return softmax


def swiglu(n: int, k: int = 4096) -> Any:
    """x [128, k] FP32, W [k, 2n] BF16: gate and up halves of n columns."""

    @pl.jit
    def swiglu(
        x: pl.Tensor[[128, k], pl.FP32],
        gain: pl.Tensor[[1, k], pl.FP32],
        w: pl.Tensor[[k, 2 * n], pl.BF16],
        out: pl.Out[pl.Tensor[[128, n], pl.BF16]],
    ):
        h = pl.create_tensor([128, k], dtype=pl.BF16)
        for r in pl.parallel(0, 128, 16):
            with pl.at(level=pl.Level.CORE_GROUP):
                squares = pl.full([16, 1], dtype=pl.FP32, value=0.0)
                for c in pl.range(0, k, 512):
                    t = x[r : r + 16, c : c + 512]
                    squares = pl.add(squares, pl.row_sum(pl.mul(t, t)))
                scale = pl.rsqrt(pl.adds(pl.muls(squares, 1.0 / k), 1e-6))
                for c in pl.range(0, k, 512):
                    t = pl.row_expand_mul(x[r : r + 16, c : c + 512], scale)
                    h[r : r + 16, c : c + 512] = pl.cast(pl.col_expand_mul(t, gain[:, c : c + 512]), pl.BF16, mode="rint")
        for j in pl.parallel(0, n, 128):
            gate = pl.create_tensor([128, 128], dtype=pl.FP32)
            up = pl.create_tensor([128, 128], dtype=pl.FP32)
            with pl.at(level=pl.Level.CORE_GROUP):
                for c in pl.range(0, k, 512):
                    a = h[:, c : c + 512]
                    if c == 0:
                        gate = pl.matmul(a, w[c : c + 512, j : j + 128])
                        up = pl.matmul(a, w[c : c + 512, n + j : n + j + 128])
                    else:
                        gate = pl.matmul_acc(gate, a, w[c : c + 512, j : j + 128])
                        up = pl.matmul_acc(up, a, w[c : c + 512, n + j : n + j + 128])
                y = pl.mul(pl.div(gate, pl.adds(pl.exp(pl.neg(gate)), 1.0)), up)
                out[:, j : j + 128] = pl.cast(y, pl.BF16, mode="rint")

    return swiglu


def matmul(n: int) -> Any:
    """[n, n] @ [n, n] BF16 -> FP32."""

    @pl.jit
    def matmul(a: pl.Tensor[[n, n], pl.BF16], b: pl.Tensor[[n, n], pl.BF16], out: pl.Out[pl.Tensor[[n, n], pl.FP32]]):
        for i in pl.parallel(0, n, 128):
            for j in pl.parallel(0, n, 128):
                acc = pl.create_tensor([128, 128], dtype=pl.FP32)
                with pl.at(level=pl.Level.CORE_GROUP):
                    for k in pl.range(0, n, 64):
                        if k == 0:
                            acc = pl.matmul(a[i : i + 128, k : k + 64], b[k : k + 64, j : j + 128])
                        else:
                            acc = pl.matmul_acc(acc, a[i : i + 128, k : k + 64], b[k : k + 64, j : j + 128])
                    out[i : i + 128, j : j + 128] = acc

    return matmul


def attention(n: int) -> Any:
    """q, k, v [8, n, 128] BF16."""
    blocks = n // 64

    @pl.jit
    def attention(
        q: pl.Tensor[[HEADS, n, HEAD], pl.BF16],
        k: pl.Tensor[[HEADS, n, HEAD], pl.BF16],
        v: pl.Tensor[[HEADS, n, HEAD], pl.BF16],
        out: pl.Out[pl.Tensor[[HEADS, n, HEAD], pl.BF16]],
    ):
        for block in pl.spmd(HEADS * blocks):
            head = block // blocks
            q0 = block % blocks * 64
            tile_q = q[head, q0 : q0 + 64, :]
            peak = pl.full([64, 1], dtype=pl.FP32, value=-INFINITY)
            total = pl.full([64, 1], dtype=pl.FP32, value=0.0)
            mixed = pl.full([64, HEAD], dtype=pl.FP32, value=0.0)
            for s in pl.range(0, n, 128):
                scores = pl.muls(pl.matmul(tile_q, k[head, s : s + 128, :], b_trans=True), 0.08838834764831845)
                now = pl.maximum(peak, pl.row_max(scores))
                decay = pl.exp(pl.sub(peak, now))
                weights = pl.exp(pl.row_expand_sub(scores, now))
                total = pl.add(pl.mul(total, decay), pl.row_sum(weights))
                part = pl.matmul(pl.cast(weights, pl.BF16, mode="rint"), v[head, s : s + 128, :])
                mixed = pl.add(pl.row_expand_mul(mixed, decay), part)
                peak = now
            out[head, q0 : q0 + 64, :] = pl.cast(pl.row_expand_div(mixed, total), pl.BF16, mode="rint")

    return attention


def quantised(n: int) -> Any:
    """x [n, n] FP32, w [n, n] INT8, one scale per column."""

    @pl.jit
    def quantised(
        x: pl.Tensor[[n, n], pl.FP32],
        w: pl.Tensor[[n, n], pl.INT8],
        scale: pl.Tensor[[1, n], pl.FP32],
        out: pl.Out[pl.Tensor[[n, n], pl.FP32]],
    ):
        codes = pl.create_tensor([n, n], dtype=pl.INT8)
        steps = pl.create_tensor([n, 1], dtype=pl.FP32)
        for r in pl.parallel(0, n, 16):
            with pl.at(level=pl.Level.CORE_GROUP):
                t = x[r : r + 16, :]
                step = pl.muls(pl.row_max(pl.abs(t)), 1.0 / 127.0)
                near = pl.cast(pl.row_expand_div(t, step), pl.INT32, mode="rint")
                codes[r : r + 16, :] = pl.cast(pl.cast(near, pl.FP16, mode="rint"), pl.INT8, mode="rint")
                steps[r : r + 16, :] = step
        for i in pl.parallel(0, n, 128):
            for j in pl.parallel(0, n, 128):
                acc = pl.create_tensor([128, 128], dtype=pl.INT32)
                with pl.at(level=pl.Level.CORE_GROUP):
                    for k in pl.range(0, n, 128):
                        if k == 0:
                            acc = pl.matmul(codes[i : i + 128, k : k + 128], w[k : k + 128, j : j + 128], out_dtype=pl.INT32)
                        else:
                            acc = pl.matmul_acc(acc, codes[i : i + 128, k : k + 128], w[k : k + 128, j : j + 128])
                    y = pl.row_expand_mul(pl.cast(acc, pl.FP32, mode="rint"), steps[i : i + 128, :])
                    out[i : i + 128, j : j + 128] = pl.col_expand_mul(y, scale[:, j : j + 128])

    return quantised


def top(n: int) -> Any:
    """The 8 largest of each of n rows of 512 FP32, descending, and their columns."""

    @pl.jit
    def top(
        x: pl.Tensor[[n, WIDTH], pl.FP32],
        values: pl.Out[pl.Tensor[[n, LARGEST], pl.FP32]],
        columns: pl.Out[pl.Tensor[[n, LARGEST], pl.INT32]],
    ):
        for b in pl.spmd(n // 64):
            for i in pl.range(64):
                r = b * 64 + i
                s = pl.sort32(x[r : r + 1, :], pl.arange(0, [1, WIDTH], dtype=pl.UINT32))
                s = pl.mrgsort(s, block_len=64)
                s = pl.mrgsort(s, block_len=256)
                pairs = s[:, 0 : 2 * LARGEST]
                values[r : r + 1, :] = pl.gather(pairs, mask_pattern=pl.tile.MaskPattern.P0101)
                columns[r : r + 1, :] = pl.gather(pairs, mask_pattern=pl.tile.MaskPattern.P1010, output_dtype=pl.INT32)

    return top


def small(n: int) -> Any:
    """[n, n] + [n, n] FP32."""

    @pl.jit
    def small(a: pl.Tensor[[n, n], pl.FP32], b: pl.Tensor[[n, n], pl.FP32], out: pl.Out[pl.Tensor[[n, n], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:, :] = pl.add(a[:, :], b[:, :])

    return small


def tasks(count: int) -> Any:
    """`count` small tasks, one after the other: rows of [count, 16] FP32."""

    @pl.jit
    def tasks(x: pl.Tensor[[count, 16], pl.FP32], out: pl.Out[pl.Tensor[[count, 16], pl.FP32]]):
        for r in pl.range(count):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[r : r + 1, :] = pl.adds(x[r : r + 1, :], 1.0)

    return tasks
