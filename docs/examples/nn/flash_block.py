"""Causal flash attention as three kernels with a way back of their own, in the transformer of `transformer.py`.

Shows `custom_vjp` around kernels of one head: the forward one keeps the logarithm of each row's sum, from which two others make the
weights again, block by block, on the way back. `vmap` over heads and batch makes one kernel of each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import transformer
from transformer import HEAD_DIM, SEQ, Parts, fp32

import pypto
import pypto.language as pl
from pypto import lax
from pypto.testing import CheckResult, TensorSpec, check

TILE = 16
SCALE = HEAD_DIM**-0.5

# As in transformer.py, and weights are rounded before they are divided by their sum.
TOLERANCE = transformer.TOLERANCE

Head = pl.Tensor[[SEQ, HEAD_DIM], pl.BF16]
Column = pl.Tensor[[SEQ, 1], pl.FP32]
Mask = pl.Tensor[[TILE, TILE], pl.FP32]

# Added to the scores of a block on the diagonal: a token does not see those after it.
DIAGONAL = np.where(np.tri(TILE, dtype=bool), 0.0, -np.inf).astype(np.float32)


# ---- the kernels -------------------------------------------------------------------------------------------------


@pl.jit
def forward(q: Head, k: Head, v: Head, mask: Mask, out: pl.Out[Head], log_sum: pl.Out[Column]):
    for block in pl.spmd(SEQ // TILE, name_hint="forward"):
        q0 = block * TILE
        tile_q = q[q0 : q0 + TILE, :]
        peak = pl.full([TILE, 1], dtype=pl.FP32, value=float("-inf"))
        total = pl.full([TILE, 1], dtype=pl.FP32, value=0.0)
        mixed = pl.full([TILE, HEAD_DIM], dtype=pl.FP32, value=0.0)
        for s0 in pl.range(0, q0 + TILE, TILE):
            scores = pl.muls(pl.matmul(tile_q, k[s0 : s0 + TILE, :], b_trans=True), SCALE)
            if s0 == q0:
                scores = pl.add(scores, mask)
            new_peak = pl.maximum(peak, pl.row_max(scores))
            decay = pl.exp(pl.sub(peak, new_peak))
            weights = pl.exp(pl.row_expand_sub(scores, new_peak))
            total = pl.add(pl.mul(total, decay), pl.row_sum(weights))
            part = pl.matmul(pl.cast(weights, pl.BF16, mode="rint"), v[s0 : s0 + TILE, :])
            mixed = pl.add(pl.row_expand_mul(mixed, decay), part)
            peak = new_peak
        out[q0 : q0 + TILE, :] = pl.cast(pl.row_expand_div(mixed, total), pl.BF16, mode="rint")
        log_sum[q0 : q0 + TILE, :] = pl.add(peak, pl.log(total))
    return out, log_sum


@pl.jit
def backward_q(q: Head, k: Head, v: Head, ct: Head, log_sum: Column, inner: Column, mask: Mask, dq: pl.Out[Head]):
    for block in pl.spmd(SEQ // TILE, name_hint="backward_q"):
        q0 = block * TILE
        total = pl.full([TILE, HEAD_DIM], dtype=pl.FP32, value=0.0)
        for s0 in pl.range(0, q0 + TILE, TILE):
            scores = pl.muls(pl.matmul(q[q0 : q0 + TILE, :], k[s0 : s0 + TILE, :], b_trans=True), SCALE)
            if s0 == q0:
                scores = pl.add(scores, mask)
            weights = pl.exp(pl.row_expand_sub(scores, log_sum[q0 : q0 + TILE, :]))
            pulled = pl.matmul(ct[q0 : q0 + TILE, :], v[s0 : s0 + TILE, :], b_trans=True)
            d_scores = pl.muls(pl.mul(weights, pl.row_expand_sub(pulled, inner[q0 : q0 + TILE, :])), SCALE)
            total = pl.add(total, pl.matmul(pl.cast(d_scores, pl.BF16, mode="rint"), k[s0 : s0 + TILE, :]))
        dq[q0 : q0 + TILE, :] = pl.cast(total, pl.BF16, mode="rint")
    return dq


@pl.jit
def backward_kv(q: Head, k: Head, v: Head, ct: Head, log_sum: Column, inner: Column, mask: Mask, dk: pl.Out[Head], dv: pl.Out[Head]):
    for block in pl.spmd(SEQ // TILE, name_hint="backward_kv"):
        s0 = block * TILE
        total_k = pl.full([TILE, HEAD_DIM], dtype=pl.FP32, value=0.0)
        total_v = pl.full([TILE, HEAD_DIM], dtype=pl.FP32, value=0.0)
        for q0 in pl.range(s0, SEQ, TILE):
            scores = pl.muls(pl.matmul(q[q0 : q0 + TILE, :], k[s0 : s0 + TILE, :], b_trans=True), SCALE)
            if q0 == s0:
                scores = pl.add(scores, mask)
            weights = pl.exp(pl.row_expand_sub(scores, log_sum[q0 : q0 + TILE, :]))
            pulled = pl.matmul(ct[q0 : q0 + TILE, :], v[s0 : s0 + TILE, :], b_trans=True)
            d_scores = pl.muls(pl.mul(weights, pl.row_expand_sub(pulled, inner[q0 : q0 + TILE, :])), SCALE)
            part_v = pl.matmul(pl.cast(weights, pl.BF16, mode="rint"), ct[q0 : q0 + TILE, :], a_trans=True)
            part_k = pl.matmul(pl.cast(d_scores, pl.BF16, mode="rint"), q[q0 : q0 + TILE, :], a_trans=True)
            total_v = pl.add(total_v, part_v)
            total_k = pl.add(total_k, part_k)
        dk[s0 : s0 + TILE, :] = pl.cast(total_k, pl.BF16, mode="rint")
        dv[s0 : s0 + TILE, :] = pl.cast(total_v, pl.BF16, mode="rint")
    return dk, dv


# ---- the function ------------------------------------------------------------------------------------------------


@pypto.custom_vjp
def flash(q: Any, k: Any, v: Any) -> Any:
    """Causal attention of one head: q, k, v and the result are [SEQ, HEAD_DIM] BF16."""
    return forward(q, k, v, DIAGONAL)[0]


def _forward(q: Any, k: Any, v: Any) -> tuple[Any, Any]:
    out, log_sum = forward(q, k, v, DIAGONAL)
    return out, (q, k, v, out, log_sum)


def _backward(kept: Any, ct: Any) -> tuple[Any, Any, Any]:
    q, k, v, out, log_sum = kept
    inner = lax.reduce_sum(fp32(ct) * fp32(out), 1, keepdims=True)
    dq = backward_q(q, k, v, ct, log_sum, inner, DIAGONAL)
    dk, dv = backward_kv(q, k, v, ct, log_sum, inner, DIAGONAL)
    return dq, dk, dv


flash.defvjp(_forward, _backward)
FLASH = Parts(attend=flash)


def loss(p: transformer.Params, tokens: Any) -> Any:
    return transformer.loss(p, tokens, FLASH)


value_and_grad = pypto.jit(pypto.value_and_grad(loss))


# ---- the check ---------------------------------------------------------------------------------------------------


def gradient(params: np.ndarray, tokens: np.ndarray) -> tuple[Any, np.ndarray]:
    value, found = value_and_grad(transformer.unpacked(params), tokens)
    return value, transformer.packed(found)


golden = transformer.golden


def specs() -> list[TensorSpec]:
    return transformer.specs()


program = gradient


def check_example(*, seed: int = 0, raises: bool = True) -> CheckResult:
    return check(program, golden, specs(), seed=seed, tolerance=TOLERANCE, raises=raises, returns=True)


def main() -> None:
    print(check_example().report())
    plain = check(gradient, transformer.gradient, specs(), tolerance=TOLERANCE, returns=True)
    print("\nagainst the attention over lax:")
    print(plain.report())


if __name__ == "__main__":
    main()
