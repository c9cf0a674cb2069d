"""Decode attention over a paged cache: each request has its own length, and its keys and values lie in pages that a table names.

Shows loop bounds and addresses that are read from tensors, a tail that is masked by its valid shape, and one program for any lengths.
"""

from __future__ import annotations

import numpy as np

import pypto.language as pl
from pypto.testing import CheckResult, TensorSpec, Tolerance, check

BATCH = 4
KV_HEADS = 2
GROUP = 16  # query heads that share a head of keys and values: the rows of one tile
DIM = 64
PAGE = 32  # tokens of a page
PAGES = 8  # of a request at most
CACHE = 40  # pages in all

SCALE = DIM**-0.5

# Weights are rounded to BF16 before they multiply v, each by up to 2**-9 of itself; an output, a weighted mean of values near 1,
# moves by a part of that whatever its own size, hence the absolute bound. Then both sides round to BF16.
TOLERANCE = Tolerance(ulp=1, atol=2.0**-7)


@pl.jit
def paged_attention(
    q: pl.Tensor[[BATCH, KV_HEADS * GROUP, DIM], pl.BF16],
    k_cache: pl.Tensor[[CACHE, KV_HEADS, PAGE, DIM], pl.BF16],
    v_cache: pl.Tensor[[CACHE, KV_HEADS, PAGE, DIM], pl.BF16],
    block_table: pl.Tensor[[BATCH, PAGES], pl.INT32],
    lengths: pl.Tensor[[BATCH], pl.INT32],
    out: pl.Out[pl.Tensor[[BATCH, KV_HEADS * GROUP, DIM], pl.BF16]],
):
    for block in pl.spmd(BATCH * KV_HEADS, name_hint="paged_attention"):
        request = block // KV_HEADS
        head = block % KV_HEADS
        length = pl.read(lengths, [request])
        tile_q = q[request, head * GROUP : head * GROUP + GROUP, :]
        peak = pl.full([GROUP, 1], dtype=pl.FP32, value=float("-inf"))
        total = pl.full([GROUP, 1], dtype=pl.FP32, value=0.0)
        mixed = pl.full([GROUP, DIM], dtype=pl.FP32, value=0.0)
        for j in pl.pipeline((length + PAGE - 1) // PAGE, stage=2):
            page = pl.read(block_table, [request, j])
            tile_k = k_cache[page, head, :, :]
            tile_v = v_cache[page, head, :, :]
            held = pl.min(PAGE, length - j * PAGE)
            products = pl.muls(pl.matmul(tile_q, tile_k, b_trans=True), SCALE)
            scores = pl.fillpad(pl.set_validshape(products, GROUP, held), pad_value=pl.PadValue.min)
            new_peak = pl.maximum(peak, pl.row_max(scores))
            decay = pl.exp(pl.sub(peak, new_peak))
            weights = pl.exp(pl.row_expand_sub(scores, new_peak))
            total = pl.add(pl.mul(total, decay), pl.row_sum(weights))
            part = pl.matmul(pl.cast(weights, target_type=pl.BF16, mode="rint"), tile_v)
            mixed = pl.add(pl.row_expand_mul(mixed, decay), part)
            peak = new_peak
        result = pl.row_expand_div(mixed, total)
        out[request, head * GROUP : head * GROUP + GROUP, :] = pl.cast(result, target_type=pl.BF16, mode="rint")
    return out


def golden(q, k_cache, v_cache, block_table, lengths):
    import jax
    import jax.numpy as jnp

    q, k_cache, v_cache = (jnp.asarray(x).astype(jnp.float32) for x in (q, k_cache, v_cache))
    tokens = jnp.arange(PAGES * PAGE)

    def attend(rows, pages, length):
        """One request: its pages side by side, the tokens past its length left out."""
        keys = k_cache[pages].transpose(1, 0, 2, 3).reshape(KV_HEADS, -1, DIM)
        values = v_cache[pages].transpose(1, 0, 2, 3).reshape(KV_HEADS, -1, DIM)
        scores = jnp.einsum("hgd,htd->hgt", rows.reshape(KV_HEADS, GROUP, DIM), keys) * SCALE
        weights = jax.nn.softmax(jnp.where(tokens < length, scores, -jnp.inf), axis=-1)
        return jnp.einsum("hgt,htd->hgd", weights, values).reshape(KV_HEADS * GROUP, DIM)

    return jax.vmap(attend)(q, jnp.asarray(block_table), jnp.asarray(lengths))


def tables(rng, shape):
    """Pages in no order; no page belongs to two requests."""
    return rng.permutation(CACHE)[: shape[0] * shape[1]].reshape(shape).astype(np.int32)


def specs() -> list[TensorSpec]:
    return [
        TensorSpec("q", [BATCH, KV_HEADS * GROUP, DIM], pl.BF16),
        TensorSpec("k_cache", [CACHE, KV_HEADS, PAGE, DIM], pl.BF16),
        TensorSpec("v_cache", [CACHE, KV_HEADS, PAGE, DIM], pl.BF16),
        TensorSpec("block_table", [BATCH, PAGES], pl.INT32, init=tables),
        TensorSpec("lengths", [BATCH], pl.INT32, init=lambda rng, shape: np.int32([1, 37, 128, 250])),
        TensorSpec("out", [BATCH, KV_HEADS * GROUP, DIM], pl.BF16, output=True),
    ]


def check_example(*, raises: bool = True) -> CheckResult:
    return check(paged_attention, golden, specs(), tolerance=TOLERANCE, raises=raises)


def main() -> None:
    print(check_example().report())


if __name__ == "__main__":
    main()
