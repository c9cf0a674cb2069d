"""Matrix product: BF16 operands, FP32 result, one output tile per core and a pipelined loop over K.

Shows the cube unit's idiom: a created accumulator that the first turn overwrites and the others add to.
"""

from __future__ import annotations

import pypto.language as pl
from pypto.testing import CheckResult, TensorSpec, Tolerance, check

M = 512
K = 512
N = 512
M_TILE = 128
N_TILE = 128
K_TILE = 64

# Products of BF16 numbers are exact in FP32, so the two sides differ only in the order of 512 additions. Each rounds by at most
# 2**-24 of a partial sum, mostly under 2**6, and 512 errors of random sign add up like sqrt(512): 2**-13.5. A sum near zero has
# that error too, so it is stated in absolute terms.
TOLERANCE = Tolerance(ulp=16, atol=2.0**-13)


@pl.jit
def matmul(
    a: pl.Tensor[[M, K], pl.BF16],
    b: pl.Tensor[[K, N], pl.BF16],
    out: pl.Out[pl.Tensor[[M, N], pl.FP32]],
):
    for m0 in pl.parallel(0, M, M_TILE):
        for n0 in pl.parallel(0, N, N_TILE):
            acc = pl.create_tensor([M_TILE, N_TILE], dtype=pl.FP32)
            with pl.at(level=pl.Level.CORE_GROUP, name_hint="matmul"):
                for kb in pl.pipeline(0, K // K_TILE, stage=2):
                    k0 = kb * K_TILE
                    tile_a = a[m0 : m0 + M_TILE, k0 : k0 + K_TILE]
                    tile_b = b[k0 : k0 + K_TILE, n0 : n0 + N_TILE]
                    if kb == 0:
                        acc = pl.matmul(tile_a, tile_b)
                    else:
                        acc = pl.matmul_acc(acc, tile_a, tile_b)
                out = pl.assemble(out, acc, [m0, n0])
    return out


def golden(a, b):
    import jax.numpy as jnp

    return jnp.matmul(a, b, preferred_element_type=jnp.float32)


def specs() -> list[TensorSpec]:
    return [
        TensorSpec("a", [M, K], pl.BF16),
        TensorSpec("b", [K, N], pl.BF16),
        TensorSpec("out", [M, N], pl.FP32, output=True),
    ]


def check_example(*, raises: bool = True) -> CheckResult:
    return check(matmul, golden, specs(), tolerance=TOLERANCE, raises=raises)


def main() -> None:
    print(check_example().report())


if __name__ == "__main__":
    main()
