"""RMSNorm: x / sqrt(mean(x * x) + eps) * gamma, with rows cut over cores and columns cut into tiles.

Shows a value carried around a loop (the sum of squares), and a column and a row spread over one tile.
"""

from __future__ import annotations

import pypto.language as pl
from pypto.testing import CheckResult, TensorSpec, Tolerance, check

ROWS = 512
HIDDEN = 512
ROW_TILE = 64
COL_TILE = 128

HIDDEN_INV = 1.0 / HIDDEN
EPS = 1e-6

# The sum of 512 squares in another order and the reciprocal root of it: a few roundings, none of which cancels, so the
# bound is relative everywhere.
TOLERANCE = Tolerance(ulp=8)


@pl.jit
def rmsnorm(
    x: pl.Tensor[[ROWS, HIDDEN], pl.FP32],
    gamma: pl.Tensor[[1, HIDDEN], pl.FP32],
    out: pl.Out[pl.Tensor[[ROWS, HIDDEN], pl.FP32]],
):
    for block in pl.spmd(ROWS // ROW_TILE, name_hint="rmsnorm"):
        r0 = block * ROW_TILE
        sq_sum = pl.full([ROW_TILE, 1], dtype=pl.FP32, value=0.0)
        for c0 in pl.range(0, HIDDEN, COL_TILE):
            part = x[r0 : r0 + ROW_TILE, c0 : c0 + COL_TILE]
            sq_sum = pl.add(sq_sum, pl.row_sum(pl.mul(part, part)))
        inv_rms = pl.rsqrt(pl.adds(pl.muls(sq_sum, HIDDEN_INV), EPS))
        for c0 in pl.range(0, HIDDEN, COL_TILE):
            scaled = pl.row_expand_mul(x[r0 : r0 + ROW_TILE, c0 : c0 + COL_TILE], inv_rms)
            out[r0 : r0 + ROW_TILE, c0 : c0 + COL_TILE] = pl.col_expand_mul(scaled, gamma[:, c0 : c0 + COL_TILE])
    return out


def golden(x, gamma):
    import jax.numpy as jnp

    x, gamma = jnp.asarray(x), jnp.asarray(gamma)
    return x / jnp.sqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + EPS) * gamma


def specs() -> list[TensorSpec]:
    return [
        TensorSpec("x", [ROWS, HIDDEN], pl.FP32),
        TensorSpec("gamma", [1, HIDDEN], pl.FP32),
        TensorSpec("out", [ROWS, HIDDEN], pl.FP32, output=True),
    ]


def check_example(*, raises: bool = True) -> CheckResult:
    return check(rmsnorm, golden, specs(), tolerance=TOLERANCE, raises=raises)


def main() -> None:
    print(check_example().report())


if __name__ == "__main__":
    main()
