"""Softmax over the rows of a matrix.

Shows the row reductions, and the broadcasts that spread a [rows, 1] column over a tile again.
"""

from __future__ import annotations

import pypto.language as pl
from pypto.testing import CheckResult, TensorSpec, Tolerance, check

ROWS = 1024
COLS = 512
ROW_TILE = 16

# The sum of 512 positive terms in another order, an exp that is not correctly rounded in JAX, one division: a few
# roundings each. Nothing cancels, so the bound is relative everywhere and no absolute one is needed.
TOLERANCE = Tolerance(ulp=16)


@pl.jit
def softmax(
    x: pl.Tensor[[ROWS, COLS], pl.FP32],
    out: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]],
):
    for block in pl.spmd(ROWS // ROW_TILE, name_hint="softmax"):
        r0 = block * ROW_TILE
        tile = x[r0 : r0 + ROW_TILE, :]
        weights = pl.exp(pl.row_expand_sub(tile, pl.row_max(tile)))
        out[r0 : r0 + ROW_TILE, :] = pl.row_expand_div(weights, pl.row_sum(weights))
    return out


def golden(x):
    import jax

    return jax.nn.softmax(x, axis=-1)


def specs() -> list[TensorSpec]:
    return [
        TensorSpec("x", [ROWS, COLS], pl.FP32),
        TensorSpec("out", [ROWS, COLS], pl.FP32, output=True),
    ]


def check_example(*, raises: bool = True) -> CheckResult:
    return check(softmax, golden, specs(), tolerance=TOLERANCE, raises=raises)


def main() -> None:
    print(check_example().report())


if __name__ == "__main__":
    main()
