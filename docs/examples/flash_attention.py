"""Flash attention: softmax(q @ k.T / sqrt(d)) @ v, one strip of queries per block and an online softmax over the keys.

Shows a loop that carries three tiles (running maximum, running sum, output so far), both matmul operands made on chip and
loaded, and a three-dimensional tensor whose head axis an integer subscript drops.
"""

from __future__ import annotations

import pypto.language as pl
from pypto.testing import CheckResult, TensorSpec, Tolerance, check

HEADS = 4
SEQ = 512
DIM = 64
Q_TILE = 64
KV_TILE = 64

SCALE = DIM**-0.5

# The weights are rounded to FP16 before they multiply v, each by up to 2**-11 of itself and independently of the others; JAX
# keeps them in FP32. An output, a weighted mean of v, moves by a small part of 2**-11 whatever its own size, hence the
# absolute bound; then both sides round to FP16 once more.
TOLERANCE = Tolerance(ulp=2, atol=2.0**-13)


@pl.jit
def flash_attention(
    q: pl.Tensor[[HEADS, SEQ, DIM], pl.FP16],
    k: pl.Tensor[[HEADS, SEQ, DIM], pl.FP16],
    v: pl.Tensor[[HEADS, SEQ, DIM], pl.FP16],
    out: pl.Out[pl.Tensor[[HEADS, SEQ, DIM], pl.FP16]],
):
    for block in pl.spmd(HEADS * (SEQ // Q_TILE), name_hint="flash_attention"):
        head = block // (SEQ // Q_TILE)
        q0 = block % (SEQ // Q_TILE) * Q_TILE
        tile_q = q[head, q0 : q0 + Q_TILE, :]
        peak = pl.full([Q_TILE, 1], dtype=pl.FP32, value=float("-inf"))
        total = pl.full([Q_TILE, 1], dtype=pl.FP32, value=0.0)
        mixed = pl.full([Q_TILE, DIM], dtype=pl.FP32, value=0.0)
        for s0 in pl.pipeline(0, SEQ, KV_TILE, stage=2):
            tile_k = k[head, s0 : s0 + KV_TILE, :]
            tile_v = v[head, s0 : s0 + KV_TILE, :]
            scores = pl.muls(pl.matmul(tile_q, tile_k, b_trans=True), SCALE)
            new_peak = pl.maximum(peak, pl.row_max(scores))
            decay = pl.exp(pl.sub(peak, new_peak))
            weights = pl.exp(pl.row_expand_sub(scores, new_peak))
            total = pl.add(pl.mul(total, decay), pl.row_sum(weights))
            part = pl.matmul(pl.cast(weights, target_type=pl.FP16), tile_v)
            mixed = pl.add(pl.row_expand_mul(mixed, decay), part)
            peak = new_peak
        result = pl.row_expand_div(mixed, total)
        out[head, q0 : q0 + Q_TILE, :] = pl.cast(result, target_type=pl.FP16)
    return out


def golden(q, k, v):
    import jax
    import jax.numpy as jnp

    q, k, v = (jnp.asarray(x).astype(jnp.float32) for x in (q, k, v))
    scores = jnp.einsum("hqd,hkd->hqk", q, k) / jnp.sqrt(jnp.float32(DIM))
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores, axis=-1), v)


def specs() -> list[TensorSpec]:
    return [
        TensorSpec("q", [HEADS, SEQ, DIM], pl.FP16),
        TensorSpec("k", [HEADS, SEQ, DIM], pl.FP16),
        TensorSpec("v", [HEADS, SEQ, DIM], pl.FP16),
        TensorSpec("out", [HEADS, SEQ, DIM], pl.FP16, output=True),
    ]


def check_example(*, raises: bool = True) -> CheckResult:
    return check(flash_attention, golden, specs(), tolerance=TOLERANCE, raises=raises)


def main() -> None:
    print(check_example().report())


if __name__ == "__main__":
    main()
