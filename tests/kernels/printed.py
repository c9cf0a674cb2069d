"""Kernels whose programs are shown at every level."""

import pypto.language as pl

T = pl.dynamic("T")


@pl.jit
def scaled(x: pl.Tensor[[T, 64], pl.FP32], s: pl.Scalar[pl.FP32], out: pl.Out[pl.Tensor[[T, 64], pl.FP32]]):
    n = pl.tensor.dim(x, 0)
    for r in pl.parallel(0, n, 16):
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="rows"):
            rows = pl.slice(x, [16, 64], [r, 0], valid_shape=[pl.min(16, n - r), 64])
            rows = pl.muls(rows, s)
            if r == 0:
                rows = pl.adds(rows, 1.0)
            out = pl.assemble(out, rows, [r, 0])


@pl.jit
def accumulated(x: pl.Tensor[[64, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]], state: pl.InOut[pl.Tensor[[16, 16], pl.FP32]]):
    with pl.spmd(2, name_hint="halves"):
        block = pl.tile.get_block_idx()
        total = pl.full([8, 16], dtype=pl.FP32, value=0.0)
        seen = pl.full([1, 8], dtype=pl.INT32, value=-1)
        for k in pl.pipeline(4, stage=2):
            total = total + x[k * 16 + block * 8 : k * 16 + block * 8 + 8, :]
            if pl.read(x, [k, 0]) > 0.0:
                pl.write(seen, [0, k], k)
        old = state[block * 8 : block * 8 + 8]
        state[block * 8 : block * 8 + 8] = old + pl.cast(pl.reshape(seen, [8, 1]), pl.FP32)
        out[block * 8 : block * 8 + 8] = total


@pl.jit
def moved(x: pl.Tensor[[T, 64], pl.FP32], at: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[T, 64], pl.FP32]]):
    n = pl.tensor.dim(x, 0)
    scratch = pl.create_tensor([n, 64], dtype=pl.FP32, init_value=1.0)
    scratch[0 : n - at, :] = x[at:n, :]
    row = scratch[at]
    turned = pl.transpose(pl.reshape(row, [8, 8]), 0, 1)
    for r in pl.range(n):
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="scale"):
            tile = pl.load(turned, [0, 0], [8, 8], valid_shape=[at, 8])
            out[r, 0:8] = tile[0]
            out[r, 8:64] = scratch[r, 8:64]
