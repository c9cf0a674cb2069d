"""One kernel for decoding and for prefilling: RMSNorm and a projection of [batch, tokens, dim], whatever batch and tokens are.

Shows extents known only when the kernel is called, a flat token axis that both modes share, a tail of rows by its valid shape, and an
example that runs by mode: `python docs/examples/decode_prefill.py --mode decode`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import pypto.language as pl
from pypto.testing import CheckResult, TensorSpec, Tolerance, check

B = pl.dynamic("B")
S = pl.dynamic("S")
T = pl.dynamic("T")
DIM = 128
OUT = 128
ROWS = 16
COLUMNS = 64
EPS = 1.0e-5

MODES = {"decode": (5, 1), "prefill": (2, 37)}
"""Batch and tokens per request of each mode."""

# Both sides round the normalised rows to BF16 and the FP32 sums once more. The sums differ by the order of 128 additions, and a
# normalised element next to the middle of two BF16 values may be rounded the other way: 2**-9 of it, times a weight near 1/11.
TOLERANCE = Tolerance(ulp=1, atol=2.0**-8)


@pl.jit.inline
def project(x: pl.Tensor[[T, DIM], pl.BF16], w: pl.Tensor[[DIM, OUT], pl.BF16], y: pl.Tensor[[T, OUT], pl.BF16]):
    """Rows of tokens, 16 by 64 outputs per block; the last block of rows may hold fewer."""
    tokens = pl.tensor.dim(x, 0)
    for block in pl.spmd((tokens + ROWS - 1) // ROWS * (OUT // COLUMNS), name_hint="project"):
        t0 = block // (OUT // COLUMNS) * ROWS
        n0 = block % (OUT // COLUMNS) * COLUMNS
        held = pl.min(ROWS, tokens - t0)
        loaded = pl.slice(x, [ROWS, DIM], [t0, 0], valid_shape=[held, DIM])
        rows = pl.fillpad(pl.cast(loaded, target_type=pl.FP32), pad_value=pl.PadValue.zero)
        mean = pl.muls(pl.row_sum(pl.mul(rows, rows)), 1.0 / DIM)
        normed = pl.cast(pl.row_expand_mul(rows, pl.rsqrt(pl.adds(mean, EPS))), target_type=pl.BF16, mode="rint")
        product = pl.matmul(normed, w[:, n0 : n0 + COLUMNS])
        result = pl.set_validshape(pl.cast(product, target_type=pl.BF16, mode="rint"), held, COLUMNS)
        y = pl.assemble(y, result, [t0, n0])
    return y


@pl.jit
def decode_prefill(
    x: pl.Tensor[[B, S, DIM], pl.BF16],
    w: pl.Tensor[[DIM, OUT], pl.BF16],
    y: pl.Out[pl.Tensor[[B, S, OUT], pl.BF16]],
):
    x.bind_dynamic(0, B)
    x.bind_dynamic(1, S)
    batch = pl.tensor.dim(x, 0)
    length = pl.tensor.dim(x, 1)
    tokens = batch * length
    project(pl.reshape(x, [tokens, DIM]), w, pl.reshape(y, [tokens, OUT]))
    return y


def golden(x, w):
    import jax.numpy as jnp

    rows = jnp.asarray(x).astype(jnp.float32)
    normed = (rows / jnp.sqrt(jnp.mean(rows * rows, axis=-1, keepdims=True) + EPS)).astype(jnp.bfloat16)
    return jnp.matmul(normed, w, preferred_element_type=jnp.float32).astype(jnp.bfloat16)


def specs(mode: str = "prefill") -> list[TensorSpec]:
    batch, length = MODES[mode]
    return [
        TensorSpec("x", [batch, length, DIM], pl.BF16),
        TensorSpec("w", [DIM, OUT], pl.BF16, init=lambda rng, shape: rng.standard_normal(shape) / DIM**0.5),
        TensorSpec("y", [batch, length, OUT], pl.BF16, output=True),
    ]


def check_example(*, raises: bool = True, mode: str = "prefill") -> CheckResult:
    return check(decode_prefill, golden, specs(mode), tolerance=TOLERANCE, raises=raises)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description="Check the kernel against JAX.")
    parser.add_argument("--mode", choices=[*MODES, "all"], default="all")
    chosen = parser.parse_args(list(arguments)).mode
    for mode in MODES if chosen == "all" else (chosen,):
        print(f"{mode}:")
        print(check_example(mode=mode).report())


if __name__ == "__main__":
    main(sys.argv[1:])
