"""Rotary position embedding on interleaved lanes: each pair (x[2i], x[2i + 1]) is turned by its row's angle i.

Shows lanes taken apart with a mask pattern and put together again: even lanes, odd lanes, and back.
"""

from __future__ import annotations

import numpy as np

import pypto.language as pl
from pypto.testing import CheckResult, TensorSpec, Tolerance, check

TOKENS = 256
HEAD_DIM = 128
ROW_TILE = 32
PAIRS = HEAD_DIM // 2
BASE = 10000.0

EVEN, ODD = pl.tile.MaskPattern.P0101, pl.tile.MaskPattern.P1010

# Two products and one sum, which JAX's compiler may contract into one rounding less. Where the products cancel, that rounding is
# what is left: half a step of a product below 8.
TOLERANCE = Tolerance(ulp=2, atol=2.0**-21)


@pl.jit
def rope(
    x: pl.Tensor[[TOKENS, HEAD_DIM], pl.FP32],
    cos: pl.Tensor[[TOKENS, PAIRS], pl.FP32],
    sin: pl.Tensor[[TOKENS, PAIRS], pl.FP32],
    out: pl.Out[pl.Tensor[[TOKENS, HEAD_DIM], pl.FP32]],
):
    for block in pl.spmd(TOKENS // ROW_TILE, name_hint="rope"):
        r0 = block * ROW_TILE
        tile = x[r0 : r0 + ROW_TILE, :]
        c, s = cos[r0 : r0 + ROW_TILE, :], sin[r0 : r0 + ROW_TILE, :]
        even, odd = pl.gather(tile, mask_pattern=EVEN), pl.gather(tile, mask_pattern=ODD)
        turned = pl.full([ROW_TILE, HEAD_DIM], dtype=pl.FP32, value=0.0)
        turned = pl.scatter(pl.sub(pl.mul(even, c), pl.mul(odd, s)), mask_pattern=EVEN, dst=turned)
        turned = pl.scatter(pl.add(pl.mul(even, s), pl.mul(odd, c)), mask_pattern=ODD, dst=turned)
        out[r0 : r0 + ROW_TILE, :] = turned
    return out


def golden(x, cos, sin):
    import jax.numpy as jnp

    even, odd = x[:, 0::2], x[:, 1::2]
    return jnp.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1).reshape(TOKENS, HEAD_DIM)


def angles() -> np.ndarray:
    return np.outer(np.arange(TOKENS), BASE ** (-np.arange(PAIRS) / PAIRS))


def specs() -> list[TensorSpec]:
    return [
        TensorSpec("x", [TOKENS, HEAD_DIM], pl.FP32),
        TensorSpec("cos", [TOKENS, PAIRS], pl.FP32, init=np.cos(angles()).astype(np.float32)),
        TensorSpec("sin", [TOKENS, PAIRS], pl.FP32, init=np.sin(angles()).astype(np.float32)),
        TensorSpec("out", [TOKENS, HEAD_DIM], pl.FP32, output=True),
    ]


def check_example(*, raises: bool = True) -> CheckResult:
    return check(rope, golden, specs(), tolerance=TOLERANCE, raises=raises)


def main() -> None:
    print(check_example().report())


if __name__ == "__main__":
    main()
