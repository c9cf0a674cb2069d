"""A decode projection: x @ w + residual for 16 tokens, BF16 in and out.

Shows a mixed region: the cube unit accumulates over K in FP32, the vector unit adds the residual and rounds once.
"""

from __future__ import annotations

import pypto.language as pl
from pypto.testing import CheckResult, TensorSpec, Tolerance, check

BATCH = 16
HIDDEN = 2048
OUT_TILE = 128
K_TILE = 128

# The FP32 sums of the two sides differ by the order of 2048 additions, each off by at most 2**-24 of a partial sum near 1: some
# sqrt(2048) times that, 2**-18.5, at the worst. A BF16 step is wider than that, so results differ by one step where the sum lies
# next to a midpoint, except next to zero, where the difference of the sums is the bound.
TOLERANCE = Tolerance(ulp=1, atol=2.0**-17)


@pl.jit
def gemm_residual(
    x: pl.Tensor[[BATCH, HIDDEN], pl.BF16],
    w: pl.Tensor[[HIDDEN, HIDDEN], pl.BF16],
    residual: pl.Tensor[[BATCH, HIDDEN], pl.BF16],
    out: pl.Out[pl.Tensor[[BATCH, HIDDEN], pl.BF16]],
):
    for n0 in pl.parallel(0, HIDDEN, OUT_TILE):
        acc = pl.create_tensor([BATCH, OUT_TILE], dtype=pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="gemm_residual"):
            for kb in pl.pipeline(0, HIDDEN // K_TILE, stage=2):
                k0 = kb * K_TILE
                tile_x = x[:, k0 : k0 + K_TILE]
                tile_w = w[k0 : k0 + K_TILE, n0 : n0 + OUT_TILE]
                if kb == 0:
                    acc = pl.matmul(tile_x, tile_w)
                else:
                    acc = pl.matmul_acc(acc, tile_x, tile_w)
            skip = pl.cast(residual[:, n0 : n0 + OUT_TILE], target_type=pl.FP32)
            summed = pl.cast(pl.add(acc, skip), target_type=pl.BF16, mode="rint")
            out = pl.assemble(out, summed, [0, n0])
    return out


def golden(x, w, residual):
    import jax.numpy as jnp

    product = jnp.matmul(x, w, preferred_element_type=jnp.float32)
    return (product + residual.astype(jnp.float32)).astype(jnp.bfloat16)


def specs() -> list[TensorSpec]:
    return [
        TensorSpec("x", [BATCH, HIDDEN], pl.BF16),
        TensorSpec("w", [HIDDEN, HIDDEN], pl.BF16, init=lambda rng, shape: rng.standard_normal(shape) / HIDDEN**0.5),
        TensorSpec("residual", [BATCH, HIDDEN], pl.BF16),
        TensorSpec("out", [BATCH, HIDDEN], pl.BF16, output=True),
    ]


def check_example(*, raises: bool = True) -> CheckResult:
    return check(gemm_residual, golden, specs(), tolerance=TOLERANCE, raises=raises)


def main() -> None:
    print(check_example().report())


if __name__ == "__main__":
    main()
