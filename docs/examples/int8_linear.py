"""A linear layer in INT8: quantise each row, multiply exactly in INT32, and scale the result back.

Shows a scale per row and one per column, casts whose every hop is written, and a buffer between two kernels.
"""

from __future__ import annotations

import pypto.language as pl
from pypto.testing import CheckResult, TensorSpec, Tolerance, check

TOKENS = 32
HIDDEN = 512
OUT_DIM = 256
OUT_TILE = 128
K_TILE = 128

ROW_TILE = 8

INT8_MAX = 127.0

# The integers are exact, their FP32 value is (they stay below 2**24), and every other operation is rounded once on both sides.
TOLERANCE = Tolerance()


@pl.jit
def int8_linear(
    x: pl.Tensor[[TOKENS, HIDDEN], pl.FP32],
    w: pl.Tensor[[HIDDEN, OUT_DIM], pl.INT8],
    w_scale: pl.Tensor[[1, OUT_DIM], pl.FP32],
    out: pl.Out[pl.Tensor[[TOKENS, OUT_DIM], pl.FP32]],
):
    x_i8 = pl.create_tensor([TOKENS, HIDDEN], dtype=pl.INT8)
    x_scale = pl.create_tensor([TOKENS, 1], dtype=pl.FP32)
    for block in pl.spmd(TOKENS // ROW_TILE, name_hint="quantise"):
        r0 = block * ROW_TILE
        rows = x[r0 : r0 + ROW_TILE, :]
        scale = pl.divs(pl.row_max(pl.abs(rows)), INT8_MAX)
        codes = pl.cast(pl.row_expand_div(rows, scale), pl.INT32, mode="rint")
        x_i8[r0 : r0 + ROW_TILE, :] = pl.cast(pl.cast(codes, pl.FP16, mode="rint"), pl.INT8, mode="rint")
        x_scale[r0 : r0 + ROW_TILE, :] = scale
    for n0 in pl.parallel(0, OUT_DIM, OUT_TILE):
        acc = pl.create_tensor([TOKENS, OUT_TILE], dtype=pl.INT32)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="int8_linear"):
            for k0 in pl.pipeline(0, HIDDEN, K_TILE, stage=2):
                x_tile = x_i8[:, k0 : k0 + K_TILE]
                w_tile = w[k0 : k0 + K_TILE, n0 : n0 + OUT_TILE]
                if k0 == 0:
                    acc = pl.matmul(x_tile, w_tile)
                else:
                    acc = pl.matmul_acc(acc, x_tile, w_tile)
            summed = pl.cast(acc, pl.FP32, mode="rint")
            scaled = pl.col_expand_mul(pl.row_expand_mul(summed, x_scale), w_scale[:, n0 : n0 + OUT_TILE])
            out[:, n0 : n0 + OUT_TILE] = scaled
    return out


def golden(x, w, w_scale):
    import jax
    import jax.numpy as jnp

    largest = jnp.max(jnp.abs(x), axis=-1, keepdims=True)
    scale = jax.lax.div(largest, jnp.full_like(largest, INT8_MAX))  # by a constant, XLA would multiply with its reciprocal
    codes = jnp.round(x / scale).astype(jnp.int8)
    return jnp.matmul(codes, w, preferred_element_type=jnp.int32).astype(jnp.float32) * scale * w_scale


def specs() -> list[TensorSpec]:
    return [
        TensorSpec("x", [TOKENS, HIDDEN], pl.FP32),
        TensorSpec("w", [HIDDEN, OUT_DIM], pl.INT8, init=lambda rng, shape: rng.integers(-127, 128, shape)),
        TensorSpec("w_scale", [1, OUT_DIM], pl.FP32, init=lambda rng, shape: rng.uniform(0.5, 1.5, shape) / 4096),
        TensorSpec("out", [TOKENS, OUT_DIM], pl.FP32, output=True),
    ]


def check_example(*, raises: bool = True) -> CheckResult:
    return check(int8_linear, golden, specs(), tolerance=TOLERANCE, raises=raises)


def main() -> None:
    print(check_example().report())


if __name__ == "__main__":
    main()
