"""The k largest scores of each row, with their columns: runs of 32 are sorted, then merged four at a time.

Shows sort32 and mrgsort, whose results are (value, index) pairs side by side, and lanes that are read as another dtype.
"""

from __future__ import annotations

import pypto.language as pl
from pypto.testing import CheckResult, TensorSpec, Tolerance, check

TOKENS = 32
SCORES = 512
TOP_K = 16

# Nothing is computed: values and columns are moved, and equal values come in the order of their columns on both sides.
TOLERANCE = Tolerance()

EVEN, ODD = pl.tile.MaskPattern.P0101, pl.tile.MaskPattern.P1010


@pl.jit
def topk(
    scores: pl.Tensor[[TOKENS, SCORES], pl.FP32],
    values: pl.Out[pl.Tensor[[TOKENS, TOP_K], pl.FP32]],
    columns: pl.Out[pl.Tensor[[TOKENS, TOP_K], pl.INT32]],
):
    for t in pl.spmd(TOKENS, name_hint="topk"):
        ramp = pl.arange(0, [1, SCORES], dtype=pl.UINT32)
        pairs = pl.sort32(scores[t : t + 1, :], ramp)
        pairs = pl.mrgsort(pairs, block_len=64)
        pairs = pl.mrgsort(pairs, block_len=256)
        best = pairs[:, 0 : 2 * TOP_K]
        values[t : t + 1, :] = pl.gather(best, mask_pattern=EVEN)
        columns[t : t + 1, :] = pl.gather(best, mask_pattern=ODD, output_dtype=pl.INT32)
    return values, columns


def golden(scores):
    import jax

    return jax.lax.top_k(scores, TOP_K)


def specs() -> list[TensorSpec]:
    return [
        TensorSpec("scores", [TOKENS, SCORES], pl.FP32),
        TensorSpec("values", [TOKENS, TOP_K], pl.FP32, output=True),
        TensorSpec("columns", [TOKENS, TOP_K], pl.INT32, output=True),
    ]


def check_example(*, raises: bool = True) -> CheckResult:
    return check(topk, golden, specs(), tolerance=TOLERANCE, raises=raises)


def main() -> None:
    print(check_example().report())


if __name__ == "__main__":
    main()
