"""Small kernels with cells, carries, branches, launches and composites: what passes have to keep."""

import pypto.language as pl
from pypto import lax

N = pl.dynamic("N")


@pl.jit
def three_regions(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
    part = pl.create_tensor([16, 16], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="step"):
        part[:] = pl.adds(x, 1.0)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="step"):
        part[0:8] = pl.muls(part[0:8], 2.0)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = part


@pl.jit
def launched_everywhere(
    x: pl.Tensor[[N, 16], pl.FP32], n: pl.Scalar[pl.INT32], s: pl.Scalar[pl.FP32], out: pl.Out[pl.Tensor[[N, 16], pl.FP32]]
):
    rows = pl.tensor.dim(x, 0)
    for r in pl.parallel(0, rows, 8):
        if n > 0:
            with pl.at(level=pl.Level.CORE_GROUP, name_hint="scale"):
                out[r : r + 8] = pl.muls(x[r : r + 8], s)
        else:
            with pl.at(level=pl.Level.CORE_GROUP, name_hint="shift"):
                out[r : r + 8] = pl.adds(x[r : r + 8], s)
    with pl.spmd(rows // 8, name_hint="round"):
        b = pl.tile.get_block_idx()
        old = out[b * 8 : b * 8 + 8]
        if pl.read(x, [b * 8, 0]) > 100.0:
            out[b * 8 : b * 8 + 8] = pl.neg(old)


@pl.jit
def straight_cells(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.full([8, 16], dtype=pl.FP32, value=0.5)
        t[0:4] = x[0:4]
        u = pl.muls(t, 2.0)
        t[2:6, 0:8] = u[2:6, 0:8]
        pl.write(t, [7, 15], 9.0)
        out[:] = pl.add(t, u)


@pl.jit
def looped_cells(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.full([8, 16], dtype=pl.FP32, value=0.5)
        for r in pl.range(0, 8, 2):
            if pl.read(x, [r, 0]) > 20.0:
                t[r : r + 2] = x[r : r + 2]
            else:
                pl.write(t, [r, 3], 7.0)
            if r == 4:
                t[0:1] = pl.muls(t[3:4], 3.0)
        out[:] = t


@pl.jit
def carried(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = pl.full([1, 16], dtype=pl.FP32, value=0.0)
        last = x[0:1]
        for r in pl.range(8):
            row = x[r : r + 1]
            if r % 2 == 0:
                total = pl.add(total, row)
            else:
                total = pl.sub(total, last)
            last = row
            out[r : r + 1] = total


@pl.jit
def composed(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        unused = pl.exp(x)
        t = lax.tanh(pl.muls(x, 0.01))
        unused = pl.adds(unused, 1.0)
        out[:] = pl.div(t, pl.adds(pl.abs(t), 1.0))


@pl.jit
def partly_valid(x: pl.Tensor[[8, 16], pl.FP32], n: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.slice(x, [8, 16], [0, 0], valid_shape=[n, 16])
        for i in pl.range(3):
            t[i : i + 1] = pl.full([1, 16], dtype=pl.FP32, value=2.0)
        filled = pl.fillpad(t, pad_value=pl.PadValue.zero)
        filled[7:8] = pl.row_expand(filled[7:8], pl.row_max(t)[0:1])
        out[:] = filled
