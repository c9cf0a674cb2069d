"""Kernels in a file whose annotations are strings."""

from __future__ import annotations

import pypto.language as pl

ROWS = 2
Rows = pl.Tensor[[ROWS, 4], pl.FP32]


@pl.jit
def doubles(x: pl.Tensor[[ROWS, 4], pl.FP32], by: pl.Scalar[pl.FP32], out: pl.Out[Rows]):
    """Multiply by a scalar."""
    with pl.at(level=pl.Level.CORE_GROUP):
        total: pl.Scalar[pl.FP32] = 0
        out[:] = x * (by + total)


@pl.jit
def accumulates(x: Rows, out: pl.InOut[Rows]):
    """Add to what is there."""
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = out + x


@pl.jit
def rebinds(x: Rows, out: pl.Out[Rows]):
    """A mistake in a file with string annotations."""
    with pl.at(level=pl.Level.CORE_GROUP):
        out = x + 1.0  # refused


def factory(rows, dtype):
    """A kernel whose annotations name the factory's variables."""
    extent = pl.dynamic("extent")

    @pl.jit
    def negates(x: pl.Tensor[[extent, rows], dtype], out: pl.Out[pl.Tensor[[extent, rows], dtype]]):
        for i in pl.range(pl.tensor.dim(x, 0)):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[i : i + 1, :] = pl.neg(x[i : i + 1, :])

    return negates


@pl.jit
def misspells(x: pl.Tensr[[ROWS, 4], pl.FP32], out: pl.Out[Rows]):
    """An annotation that names nothing."""
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
