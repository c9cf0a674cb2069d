"""Loops that only sum matrix products, compiled as one packed product, and loops whose turns run at once: the bits of the reference."""

import ml_dtypes
import numpy as np
import pytest

import pypto
import pypto.language as pl

BF16 = ml_dtypes.bfloat16
Square = pl.Tensor[[64, 64], pl.FP32]
A, B = (np.random.default_rng(seed).standard_normal((256, 64)).astype(BF16) for seed in (1, 2))


@pl.jit
def product_with_itself(x: pl.Tensor[[256, 64], pl.BF16], out: pl.Out[Square]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tensor([64, 64], dtype=pl.FP32)
        for k in pl.range(4):
            t = x[k * 64 : k * 64 + 64, :]
            if k == 0:
                acc = pl.matmul(t, t)
            else:
                acc = pl.matmul_acc(acc, t, t)
        out[:] = acc


@pl.jit
def both_ways_round(x: pl.Tensor[[256, 64], pl.BF16], y: pl.Tensor[[256, 64], pl.BF16], first: pl.Out[Square], second: pl.Out[Square]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tensor([64, 64], dtype=pl.FP32)
        bcc = pl.create_tensor([64, 64], dtype=pl.FP32)
        for k in pl.range(4):
            t, u = x[k * 64 : k * 64 + 64, :], y[k * 64 : k * 64 + 64, :]
            if k == 0:
                acc = pl.matmul(t, u)
                bcc = pl.matmul(u, t)
            else:
                acc = pl.matmul_acc(acc, t, u)
                bcc = pl.matmul_acc(bcc, u, t)
        first[:] = acc
        second[:] = bcc


@pl.jit
def a_loop_without_turns(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[Square]):
    for r in pl.parallel(0, 64, 16):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[r : r + 16, :] = x[r : r + 16, :]
            for c in pl.range(0, 0, 16):
                out[r : r + 16, c : c + 16] = x[r : r + 16, 0:16]


def outs(kernel, *arrays, **options):
    with pypto.override(check=False, cache=False, **options):
        made = kernel(*arrays)
    return [np.asarray(x).tobytes() for x in (made if isinstance(made, tuple) else (made,))]


@pytest.mark.parametrize(("kernel", "arrays"), [(product_with_itself, (A,)), (both_ways_round, (A, B))], ids=["itself", "both ways"])
def test_a_matrix_on_both_sides_of_products_is_packed_for_each(kernel, arrays):
    assert outs(kernel, *arrays, executor="cpu") == outs(kernel, *arrays, executor="reference")


def test_turns_with_a_loop_inside_that_never_turns_run_at_once():
    x = np.arange(4096, dtype=np.float32).reshape(64, 64)
    assert outs(a_loop_without_turns, x, executor="cpu", threads=2) == outs(a_loop_without_turns, x, executor="reference") == [x.tobytes()]
