"""A stack of residual layers: a loop that hands each layer's output to the next, in buffers that take turns.

Shows a name that stands for another buffer in every turn of an orchestration loop, a layer as an inline function, and weights of all
layers in one tensor.
"""

from __future__ import annotations

import pypto.language as pl
from pypto.testing import CheckResult, TensorSpec, Tolerance, check

LAYERS = 4
TOKENS = 32
DIM = 128
TILE = 16
EPS = 1.0e-5

# Each layer rounds its normalised rows and its result to BF16, as JAX does here. Sums of 128 products differ by their order, so a
# rounding may fall the other way and the next layer starts from a step more or less: within a BF16 step or two of values near 4.
TOLERANCE = Tolerance(ulp=2, atol=2.0**-5)


@pl.jit.inline
def layer(x: pl.Tensor, norm: pl.Tensor, weights: pl.Tensor, index: pl.Scalar[pl.INDEX], y: pl.Tensor):
    """y = x + relu(rmsnorm(x) @ weights[index])"""
    for t0 in pl.parallel(0, TOKENS, TILE):
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="layer"):
            rows = pl.cast(x[t0 : t0 + TILE, :], target_type=pl.FP32)
            mean = pl.muls(pl.row_sum(pl.mul(rows, rows)), 1.0 / DIM)
            scaled = pl.row_expand_mul(rows, pl.rsqrt(pl.adds(mean, EPS)))
            normed = pl.cast(pl.col_expand_mul(scaled, norm[index : index + 1, :]), target_type=pl.BF16, mode="rint")
            added = pl.relu(pl.matmul(normed, weights[index, :, :]))
            y[t0 : t0 + TILE, :] = pl.cast(pl.add(rows, added), target_type=pl.BF16, mode="rint")
    return y


@pl.jit
def layer_loop(
    x: pl.Tensor[[TOKENS, DIM], pl.BF16],
    norm: pl.Tensor[[LAYERS, DIM], pl.FP32],
    weights: pl.Tensor[[LAYERS, DIM, DIM], pl.BF16],
    out: pl.Out[pl.Tensor[[TOKENS, DIM], pl.BF16]],
):
    current = x
    for index in pl.range(LAYERS - 1):
        following = pl.create_tensor([TOKENS, DIM], dtype=pl.BF16)
        current = layer(current, norm, weights, index, following)
    out = layer(current, norm, weights, LAYERS - 1, out)
    return out


def golden(x, norm, weights):
    import jax.numpy as jnp

    x = jnp.asarray(x)
    for scale, w in zip(norm, weights, strict=True):
        rows = x.astype(jnp.float32)
        normed = rows / jnp.sqrt(jnp.mean(rows * rows, axis=-1, keepdims=True) + EPS) * scale
        product = jnp.matmul(normed.astype(jnp.bfloat16), w, preferred_element_type=jnp.float32)
        x = (rows + jnp.maximum(product, 0.0)).astype(jnp.bfloat16)
    return x


def specs() -> list[TensorSpec]:
    return [
        TensorSpec("x", [TOKENS, DIM], pl.BF16),
        TensorSpec("norm", [LAYERS, DIM], pl.FP32, init=lambda rng, shape: rng.uniform(0.5, 1.5, shape)),
        TensorSpec("weights", [LAYERS, DIM, DIM], pl.BF16, init=lambda rng, shape: rng.standard_normal(shape) / DIM**0.5),
        TensorSpec("out", [TOKENS, DIM], pl.BF16, output=True),
    ]


def check_example(*, raises: bool = True) -> CheckResult:
    return check(layer_loop, golden, specs(), tolerance=TOLERANCE, raises=raises)


def main() -> None:
    print(check_example().report())


if __name__ == "__main__":
    main()
