"""The routed experts of a mixture: INT8 tokens through each expert's gate, up and down projections, as many tokens as it was sent.

Shows work that depends on counts read from a tensor, experts in parallel, INT8 products that are scaled back row by row and column by
column, and activations that are quantised again, a scale per token, between the two products.
"""

from __future__ import annotations

import numpy as np

import pypto.language as pl
from pypto.testing import CheckResult, TensorSpec, Tolerance, check

EXPERTS = 4
SLOTS = 48  # tokens an expert can be sent
DIM = 128
INNER = 128
TILE = 16

# Activations are quantised to 127 steps per token. Where one lies next to the middle of two steps the two sides may choose
# differently, since their exponentials differ in the last bit: that moves an output by one step of its row times one weight, at
# most 2**-7 of an activation near 1 times 1. Then both sides round to BF16.
TOLERANCE = Tolerance(ulp=1, atol=2.0**-6)


@pl.jit.inline
def scaled_product(x: pl.Tensor, row_scale: pl.Tensor, w: pl.Tensor, column_scale: pl.Tensor):
    """INT8 @ INT8, exact in INT32, then FP32: a scale per row of `x` and one per column of `w`."""
    exact = pl.cast(pl.matmul(x, w, out_dtype=pl.INT32), target_type=pl.FP32, mode="rint")
    return pl.col_expand_mul(pl.row_expand_mul(exact, row_scale), column_scale)


@pl.jit
def routed_experts(
    x: pl.Tensor[[EXPERTS, SLOTS, DIM], pl.INT8],
    x_scale: pl.Tensor[[EXPERTS, SLOTS], pl.FP32],
    counts: pl.Tensor[[EXPERTS], pl.INT32],
    gate: pl.Tensor[[EXPERTS, DIM, INNER], pl.INT8],
    gate_scale: pl.Tensor[[EXPERTS, INNER], pl.FP32],
    up: pl.Tensor[[EXPERTS, DIM, INNER], pl.INT8],
    up_scale: pl.Tensor[[EXPERTS, INNER], pl.FP32],
    down: pl.Tensor[[EXPERTS, INNER, DIM], pl.INT8],
    down_scale: pl.Tensor[[EXPERTS, DIM], pl.FP32],
    y: pl.InOut[pl.Tensor[[EXPERTS, SLOTS, DIM], pl.BF16]],
):
    for e in pl.parallel(EXPERTS):
        count = pl.read(counts, [e])
        for t0 in pl.parallel(0, count, TILE):
            with pl.at(level=pl.Level.CORE_GROUP, name_hint="expert"):
                tokens = x[e, t0 : t0 + TILE, :]
                scale = pl.reshape(x_scale[e : e + 1, t0 : t0 + TILE], [TILE, 1])
                gated = scaled_product(tokens, scale, gate[e, :, :], gate_scale[e : e + 1, :])
                lifted = scaled_product(tokens, scale, up[e, :, :], up_scale[e : e + 1, :])
                hidden = pl.mul(pl.mul(gated, pl.recip(pl.adds(pl.exp(pl.neg(gated)), 1.0))), lifted)
                steps = pl.muls(pl.maxs(pl.row_max(pl.abs(hidden)), 1.0e-6), 1.0 / 127.0)
                codes = pl.cast(pl.row_expand_div(hidden, steps), target_type=pl.INT32, mode="rint")
                narrow = pl.cast(pl.cast(codes, target_type=pl.FP16, mode="rint"), target_type=pl.INT8, mode="rint")
                result = scaled_product(narrow, steps, down[e, :, :], down_scale[e : e + 1, :])
                rows = pl.min(TILE, count - t0)
                y[e, t0 : t0 + TILE, :] = pl.set_validshape(pl.cast(result, target_type=pl.BF16, mode="rint"), rows, DIM)
    return y


def golden(x, x_scale, counts, gate, gate_scale, up, up_scale, down, down_scale, y):
    import jax
    import jax.numpy as jnp

    def product(a, a_scale, w, w_scale):
        exact = jnp.einsum("esd,edn->esn", a.astype(jnp.int32), w.astype(jnp.int32)).astype(jnp.float32)
        return exact * a_scale[:, :, None] * w_scale[:, None, :]

    gated = product(x, x_scale, gate, gate_scale)
    hidden = jax.nn.silu(gated) * product(x, x_scale, up, up_scale)
    steps = jnp.maximum(jnp.abs(hidden).max(axis=-1), 1.0e-6) / 127.0
    codes = jnp.round(hidden / steps[:, :, None]).astype(jnp.int32)
    result = product(codes, steps, down, down_scale).astype(jnp.bfloat16)
    sent = jnp.arange(SLOTS)[None, :] < jnp.asarray(counts)[:, None]
    return jnp.where(sent[:, :, None], result, jnp.asarray(y))


def codes(rng, shape):
    return rng.integers(-127, 128, shape).astype(np.int8)


def scales(rng, shape):
    return rng.uniform(0.5, 1.5, shape).astype(np.float32) / 127 / 8


def specs() -> list[TensorSpec]:
    return [
        TensorSpec("x", [EXPERTS, SLOTS, DIM], pl.INT8, init=codes),
        TensorSpec("x_scale", [EXPERTS, SLOTS], pl.FP32, init=lambda rng, shape: scales(rng, shape) * 8),
        TensorSpec("counts", [EXPERTS], pl.INT32, init=lambda rng, shape: np.int32([17, 0, 48, 5])),
        TensorSpec("gate", [EXPERTS, DIM, INNER], pl.INT8, init=codes),
        TensorSpec("gate_scale", [EXPERTS, INNER], pl.FP32, init=scales),
        TensorSpec("up", [EXPERTS, DIM, INNER], pl.INT8, init=codes),
        TensorSpec("up_scale", [EXPERTS, INNER], pl.FP32, init=scales),
        TensorSpec("down", [EXPERTS, INNER, DIM], pl.INT8, init=codes),
        TensorSpec("down_scale", [EXPERTS, DIM], pl.FP32, init=scales),
        TensorSpec("y", [EXPERTS, SLOTS, DIM], pl.BF16, output=True, init=lambda rng, shape: np.zeros(shape, np.float32)),
    ]


def check_example(*, raises: bool = True) -> CheckResult:
    return check(routed_experts, golden, specs(), tolerance=TOLERANCE, raises=raises)


def main() -> None:
    print(check_example().report())


if __name__ == "__main__":
    main()
