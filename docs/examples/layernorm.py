"""LayerNorm: (x - mean) / sqrt(var + eps) * gamma + beta over the rows of a matrix.

Shows two reductions of one tile, and a column and two rows that spread over it.
"""

from __future__ import annotations

import pypto.language as pl
from pypto.testing import CheckResult, TensorSpec, Tolerance, check

ROWS = 512
HIDDEN = 512
ROW_TILE = 8

HIDDEN_INV = 1.0 / HIDDEN
EPS = 1e-5

# The mean and the variance are sums of 512 terms in another order, a few roundings apart. Where x is near the mean, or the scaled
# value near -beta, the difference cancels: what is left of the roundings is absolute, some steps of numbers near 4.
TOLERANCE = Tolerance(ulp=8, atol=2.0**-19)


@pl.jit
def layernorm(
    x: pl.Tensor[[ROWS, HIDDEN], pl.FP32],
    gamma: pl.Tensor[[1, HIDDEN], pl.FP32],
    beta: pl.Tensor[[1, HIDDEN], pl.FP32],
    out: pl.Out[pl.Tensor[[ROWS, HIDDEN], pl.FP32]],
):
    for block in pl.spmd(ROWS // ROW_TILE, name_hint="layernorm"):
        r0 = block * ROW_TILE
        tile = x[r0 : r0 + ROW_TILE, :]
        mean = pl.muls(pl.row_sum(tile), HIDDEN_INV)
        centred = pl.row_expand_sub(tile, mean)
        variance = pl.muls(pl.row_sum(pl.mul(centred, centred)), HIDDEN_INV)
        normed = pl.row_expand_mul(centred, pl.rsqrt(pl.adds(variance, EPS)))
        out[r0 : r0 + ROW_TILE, :] = pl.add(pl.col_expand_mul(normed, gamma), pl.col_expand(tile, beta))
    return out


def golden(x, gamma, beta):
    import jax
    import jax.numpy as jnp

    x = jnp.asarray(x)
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(centred), axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt(variance + EPS) * gamma + beta


def specs() -> list[TensorSpec]:
    return [
        TensorSpec("x", [ROWS, HIDDEN], pl.FP32),
        TensorSpec("gamma", [1, HIDDEN], pl.FP32),
        TensorSpec("beta", [1, HIDDEN], pl.FP32),
        TensorSpec("out", [ROWS, HIDDEN], pl.FP32, output=True),
    ]


def check_example(*, raises: bool = True) -> CheckResult:
    return check(layernorm, golden, specs(), tolerance=TOLERANCE, raises=raises)


def main() -> None:
    print(check_example().report())


if __name__ == "__main__":
    main()
