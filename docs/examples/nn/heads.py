"""A kernel of one head, and `vmap` over the heads: the kernel is written in two axes, and no head sees another.

Shows `vmap` of a kernel with an axis per argument, nested for groups of queries that share keys and values, and that every head keeps
the bits it has when the kernel is called for it alone.
"""

from __future__ import annotations

import numpy as np

import pypto
import pypto.language as pl
from pypto.testing import CheckResult, TensorSpec, Tolerance, check

GROUPS = 2
SHARE = 3
SEQ = 64
DIM = 32
SCALE = DIM**-0.5

# The weights are rounded to BF16 before they multiply v, each by up to 2**-9 of itself; JAX keeps them in FP32. A weighted mean of 64
# values near 1 moves by a small part of 2**-9, and then both sides round to BF16.
TOLERANCE = Tolerance(ulp=1, atol=2.0**-9)

Head = pl.Tensor[[SEQ, DIM], pl.BF16]


@pl.jit
def attention(q: Head, k: Head, v: Head, out: pl.Out[Head]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="attention"):
        scores = pl.muls(pl.matmul(q[:, :], k[:, :], b_trans=True), SCALE)
        weights = pl.exp(pl.row_expand_sub(scores, pl.row_max(scores)))
        mixed = pl.matmul(pl.cast(weights, pl.BF16, mode="rint"), v[:, :])
        out[:, :] = pl.cast(pl.row_expand_div(mixed, pl.row_sum(weights)), pl.BF16, mode="rint")
    return out


# q is [SEQ, GROUPS, SHARE, DIM]; k and v are [SEQ, GROUPS, DIM]. The inner one maps the queries of a group, who share k and v.
of_group = pypto.vmap(attention, in_axes=(1, None, None), out_axes=1)
heads = pypto.jit(pypto.vmap(of_group, in_axes=1, out_axes=1))


def one_by_one(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The same by calling the kernel for each head."""
    out = np.empty_like(q)
    for group in range(GROUPS):
        for i in range(SHARE):
            out[:, group, i] = np.asarray(attention(*(np.ascontiguousarray(x) for x in (q[:, group, i], k[:, group], v[:, group]))))
    return out


def golden(q, k, v):
    import jax
    import jax.numpy as jnp

    q, k, v = (jnp.asarray(x).astype(jnp.float32) for x in (q, k, v))
    weights = jax.nn.softmax(jnp.einsum("qgid,kgd->giqk", q, k) * SCALE, axis=-1)
    return jnp.einsum("giqk,kgd->qgid", weights, v)


def specs() -> list[TensorSpec]:
    return [
        TensorSpec("q", [SEQ, GROUPS, SHARE, DIM], pl.BF16),
        TensorSpec("k", [SEQ, GROUPS, DIM], pl.BF16),
        TensorSpec("v", [SEQ, GROUPS, DIM], pl.BF16),
        TensorSpec("out", [SEQ, GROUPS, SHARE, DIM], pl.BF16, output=True),
    ]


program = heads


def check_example(*, seed: int = 0, raises: bool = True) -> CheckResult:
    return check(program, golden, specs(), seed=seed, tolerance=TOLERANCE, raises=raises, returns=True)


def main() -> None:
    print(check_example().report())
    inputs = [spec.make() for spec in specs()[:3]]
    alone = check(heads, one_by_one, specs(), returns=True)  # no tolerance
    print(f"bits of each head called alone: {'equal' if alone.equal_bits else 'differ'}")
    print(pypto.make_jaxpr(heads)(*inputs))


if __name__ == "__main__":
    main()
