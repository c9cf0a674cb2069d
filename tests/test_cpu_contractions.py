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


@pl.jit
def one_side_stays(x: pl.Tensor[[256, 64], pl.BF16], y: pl.Tensor[[256, 64], pl.BF16], out: pl.Out[Square]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x[64:128, :]
        acc = pl.full([64, 64], dtype=pl.FP32, value=0.0)
        for k in pl.range(4):
            acc = pl.matmul_acc(acc, t, y[k * 64 : k * 64 + 64, :])
        out[:] = acc


@pl.jit
def buffers_that_swap(x: pl.Tensor[[256, 64], pl.BF16], y: pl.Tensor[[256, 64], pl.BF16], n: pl.Scalar[pl.INT32], out: pl.Out[Square]):
    u, v = (pl.create_tensor([256, 64], dtype=pl.BF16) for _ in range(2))
    with pl.at(level=pl.Level.CORE_GROUP):
        u[:] = x[:]
    with pl.at(level=pl.Level.CORE_GROUP):
        v[:] = y[:]
    for _ in pl.range(n):
        with pl.at(level=pl.Level.CORE_GROUP):
            acc = pl.full([64, 64], dtype=pl.FP32, value=0.0)
            for k in pl.range(4):
                acc = pl.matmul_acc(acc, u[k * 64 : k * 64 + 64, :], v[k * 64 : k * 64 + 64, :])
            out[:] = acc
        u, v = v, u


@pytest.mark.parametrize(
    ("kernel", "arrays"),
    [(one_side_stays, (A, B)), (buffers_that_swap, (A, B, 1)), (buffers_that_swap, (A, B, 2))],
    ids=["one side stays", "one swap", "two swaps"],
)
def test_products_of_what_cannot_be_packed_in_the_loop_are_made_turn_by_turn(kernel, arrays):
    assert outs(kernel, *arrays, executor="cpu") == outs(kernel, *arrays, executor="reference")
