"""Kernels that tests compile, save, load and dispatch."""

import pypto.language as pl

ROWS = pl.dynamic("ROWS")


@pl.jit
def scaled_sum(
    a: pl.Tensor[[ROWS, 16], pl.FP32],
    b: pl.Tensor[[ROWS, 16], pl.FP32],
    s: pl.Scalar[pl.FP32],
    out: pl.Out[pl.Tensor[[ROWS, 16], pl.FP32]],
):
    for i in pl.parallel(pl.tensor.dim(a, 0) // 8):
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="rows"):
            t = pl.muls(a[i * 8 : i * 8 + 8], s)
            out[i * 8 : i * 8 + 8] = pl.add(pl.add(t, b[i * 8 : i * 8 + 8]), a[i * 8 : i * 8 + 8])
    return out


@pl.jit
def softmax_rows(x: pl.Tensor[[16, 64], pl.FP32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.exp(pl.row_expand_sub(x, pl.row_max(x)))
        shifted = pl.add(pl.add(e, x), 0.1)
        out[:] = pl.row_expand_div(pl.sub(shifted, pl.add(x, 0.1)), pl.row_sum(e))


@pl.jit
def product_and_bias(
    a: pl.Tensor[[16, 64], pl.BF16],
    b: pl.Tensor[[64, 32], pl.BF16],
    bias: pl.Tensor[[1, 32], pl.FP32],
    total: pl.InOut[pl.Tensor[[16, 32], pl.FP32]],
    low: pl.Out[pl.Tensor[[16, 32], pl.BF16]],
):
    acc = pl.create_tensor([16, 32], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="product"):
        for k in pl.pipeline(2, stage=2):
            left, right = a[:, k * 32 : k * 32 + 32], b[k * 32 : k * 32 + 32, :]
            if k == 0:
                acc = pl.matmul(left, right)
            else:
                acc = pl.matmul_acc(acc, left, right)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="epilogue"):
        y = pl.add(pl.add(acc, pl.col_expand(total, bias)), total)
        total[:] = y
        low[:] = pl.cast(y, pl.BF16, mode="rint")


@pl.jit
def updates_a_cache(x: pl.Tensor[[8, 16], pl.FP32], cache: pl.Tensor[[32, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        new = pl.add(x, cache[0:8])
        cache[8:16] = new
        out[:] = new


@pl.jit
def doubled(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(x, x)


@pl.jit
def repeated(x: pl.Tensor[[8, 16], pl.FP32], times, out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x
        for _ in pl.unroll(times):
            t = pl.add(t, x)
        out[:] = t
