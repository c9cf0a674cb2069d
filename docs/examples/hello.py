"""Hello: add a number to every element of a matrix, one strip of rows per core.

Shows the smallest whole kernel: an entry with its annotations, an spmd loop whose blocks each load, compute and store.
"""

from __future__ import annotations

import pypto.language as pl
from pypto.testing import CheckResult, ScalarSpec, TensorSpec, Tolerance, check

ROWS = 1024
COLS = 512
ROW_TILE = 32

# One FP32 addition per element, rounded to nearest even on both sides: there is nothing to allow for.
TOLERANCE = Tolerance()


@pl.jit
def hello(
    x: pl.Tensor[[ROWS, COLS], pl.FP32],
    amount: pl.Scalar[pl.FP32],
    out: pl.Out[pl.Tensor[[ROWS, COLS], pl.FP32]],
):
    for block in pl.spmd(ROWS // ROW_TILE, name_hint="add_scalar"):
        r0 = block * ROW_TILE
        out[r0 : r0 + ROW_TILE, :] = pl.adds(x[r0 : r0 + ROW_TILE, :], amount)
    return out


def golden(x, amount):
    import jax.numpy as jnp

    return jnp.asarray(x) + jnp.float32(amount)


def specs() -> list[TensorSpec | ScalarSpec]:
    return [
        TensorSpec("x", [ROWS, COLS], pl.FP32),
        ScalarSpec("amount", pl.FP32, 1.1),
        TensorSpec("out", [ROWS, COLS], pl.FP32, output=True),
    ]


def check_example(*, raises: bool = True) -> CheckResult:
    return check(hello, golden, specs(), tolerance=TOLERANCE, raises=raises)


def main() -> None:
    print(check_example().report())


if __name__ == "__main__":
    main()
