"""A SwiGLU block: silu(x @ w_gate) * (x @ w_up), rounded to BF16, times w_down.

Shows two accumulators in one mixed region, an activation between two products, and a buffer that parallel tiles fill.
"""

from __future__ import annotations

import pypto.language as pl
from pypto.testing import CheckResult, TensorSpec, Tolerance, check

TOKENS = 16
HIDDEN = 256
INTER = 512
INTER_TILE = 128
OUT_TILE = 128
K_TILE = 64

# The two sides add in another order and JAX's logistic is another one, so an element of the BF16 activation that lies next to a
# midpoint may be a step apart, 2**-8 of itself. An output adds 512 of them, most below 1 and weighted by some 2**-4: a handful of
# such steps in one row stays below 2**-9, and then the result is rounded to BF16.
TOLERANCE = Tolerance(ulp=1, atol=2.0**-9)


@pl.jit
def swiglu_mlp(
    x: pl.Tensor[[TOKENS, HIDDEN], pl.BF16],
    w_gate: pl.Tensor[[HIDDEN, INTER], pl.BF16],
    w_up: pl.Tensor[[HIDDEN, INTER], pl.BF16],
    w_down: pl.Tensor[[INTER, HIDDEN], pl.BF16],
    out: pl.Out[pl.Tensor[[TOKENS, HIDDEN], pl.BF16]],
):
    act = pl.create_tensor([TOKENS, INTER], dtype=pl.BF16)
    for n0 in pl.parallel(0, INTER, INTER_TILE):
        gate = pl.create_tensor([TOKENS, INTER_TILE], dtype=pl.FP32)
        up = pl.create_tensor([TOKENS, INTER_TILE], dtype=pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="gate_up"):
            for k0 in pl.pipeline(0, HIDDEN, K_TILE, stage=2):
                x_tile = x[:, k0 : k0 + K_TILE]
                gate_tile = w_gate[k0 : k0 + K_TILE, n0 : n0 + INTER_TILE]
                up_tile = w_up[k0 : k0 + K_TILE, n0 : n0 + INTER_TILE]
                if k0 == 0:
                    gate = pl.matmul(x_tile, gate_tile)
                    up = pl.matmul(x_tile, up_tile)
                else:
                    gate = pl.matmul_acc(gate, x_tile, gate_tile)
                    up = pl.matmul_acc(up, x_tile, up_tile)
            silu = pl.mul(gate, pl.recip(pl.adds(pl.exp(pl.neg(gate)), 1.0)))
            act[:, n0 : n0 + INTER_TILE] = pl.cast(pl.mul(silu, up), pl.BF16, mode="rint")
    for n0 in pl.parallel(0, HIDDEN, OUT_TILE):
        acc = pl.create_tensor([TOKENS, OUT_TILE], dtype=pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="down"):
            for k0 in pl.pipeline(0, INTER, K_TILE, stage=2):
                act_tile = act[:, k0 : k0 + K_TILE]
                down_tile = w_down[k0 : k0 + K_TILE, n0 : n0 + OUT_TILE]
                if k0 == 0:
                    acc = pl.matmul(act_tile, down_tile)
                else:
                    acc = pl.matmul_acc(acc, act_tile, down_tile)
            out[:, n0 : n0 + OUT_TILE] = pl.cast(acc, pl.BF16, mode="rint")
    return out


def golden(x, w_gate, w_up, w_down):
    import jax
    import jax.numpy as jnp

    def product(a, b):
        return jnp.matmul(a, b, preferred_element_type=jnp.float32)

    act = (jax.nn.silu(product(x, w_gate)) * product(x, w_up)).astype(jnp.bfloat16)
    return product(act, w_down).astype(jnp.bfloat16)


def specs() -> list[TensorSpec]:
    return [
        TensorSpec("x", [TOKENS, HIDDEN], pl.BF16),
        TensorSpec("w_gate", [HIDDEN, INTER], pl.BF16, init=lambda rng, shape: rng.standard_normal(shape) / HIDDEN**0.5),
        TensorSpec("w_up", [HIDDEN, INTER], pl.BF16, init=lambda rng, shape: rng.standard_normal(shape) / HIDDEN**0.5),
        TensorSpec("w_down", [INTER, HIDDEN], pl.BF16, init=lambda rng, shape: rng.standard_normal(shape) / INTER**0.5),
        TensorSpec("out", [TOKENS, HIDDEN], pl.BF16, output=True),
    ]


def check_example(*, raises: bool = True) -> CheckResult:
    return check(swiglu_mlp, golden, specs(), tolerance=TOLERANCE, raises=raises)


def main() -> None:
    print(check_example().report())


if __name__ == "__main__":
    main()
