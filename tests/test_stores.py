"""What a store writes, where the value is not quite the window."""

import ml_dtypes
import numpy as np
import pytest

import pypto.language as pl
from pypto.errors import PyptoError


@pl.jit
def three_axes(x: pl.Tensor[[1, 16, 16], pl.FP32], out: pl.Out[pl.Tensor[[32, 16], pl.FP32]]):
    out = pl.assemble(out, pl.reshape(x, [16, 16]), [16, 0])
    with pl.at(level=pl.Level.CORE_GROUP):
        out = pl.assemble(out, pl.mul(x, 2.0), [0, 0])


def test_assemble_drops_leading_axes_of_one_element():
    x = np.random.default_rng(0).random((1, 16, 16), np.float32)
    assert np.array_equal(three_axes(x), np.concatenate([x[0] * 2, x[0]]))


@pl.jit
def leading_part(x: pl.Tensor[[16, 16], pl.FP32], out: pl.InOut[pl.Tensor[[16, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        tile = pl.mul(x, 2.0)
        out = pl.store(tile, [4, 0], out, shapes=[2, 16])
        narrow = pl.set_validshape(tile, 1, 8)
        out = pl.store(narrow, [8, 0], out, shapes=[1, 8])
        out[0:1, 0:4] = pl.set_validshape(tile, 1, 4)


def test_a_store_writes_the_leading_part_it_is_given_and_a_window_may_be_the_valid_part():
    x = np.random.default_rng(1).random((16, 16), np.float32)
    want = np.zeros((16, 16), np.float32)
    want[4:6], want[8, :8], want[0, :4] = x[:2] * 2, x[0, :8] * 2, x[0, :4] * 2
    assert np.array_equal(leading_part(x, np.zeros((16, 16), np.float32)), want)


@pytest.mark.parametrize("shapes", [[32, 16], [16]])
def test_the_part_a_store_writes_is_not_larger_than_the_tile(shapes):
    @pl.jit
    def k(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[32, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out = pl.store(pl.mul(x, 2.0), [0, 0], out, shapes=shapes)

    with pytest.raises(PyptoError) as caught:
        k.trace()
    assert caught.value.code == "PL301"


# What the limits of a chip leave alone


@pl.jit
def staged_rows(
    x: pl.Tensor[[64, 32], pl.BF16],
    w: pl.Tensor[[32, 32], pl.BF16],
    rows: pl.Tensor[[16], pl.INT32],
    out: pl.Out[pl.Tensor[[16, 32], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        chosen = pl.create_l1([16, 32], pl.BF16)
        for r in pl.range(16):
            row = pl.read(rows, [r])
            if row >= 0:
                chosen[r : r + 1, :] = x[row : row + 1, :]
        out[:] = pl.matmul(chosen, w)


@pytest.mark.limits
def test_a_tile_in_l1_may_be_filled_row_by_row():
    rng = np.random.default_rng(2)
    x, w = rng.integers(-3, 4, (64, 32)).astype(ml_dtypes.bfloat16), rng.integers(-3, 4, (32, 32)).astype(ml_dtypes.bfloat16)
    rows = rng.permutation(64)[:16].astype(np.int32)
    want = x[rows].astype(np.float32) @ w.astype(np.float32)
    assert np.array_equal(staged_rows(x, w, rows), want)


@pytest.mark.limits
def test_a_count_beside_a_result_that_nobody_reads_needs_no_row():
    @pl.jit
    def k(x: pl.Tensor[[1, 64], pl.FP32], out: pl.Out[pl.Tensor[[1, 128], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pairs = pl.sort32(x, pl.arange(0, [1, 64], dtype=pl.UINT32))
            out[:] = pl.mrgsort(pairs[:, 0:64], pairs[:, 64:128])

    x = np.random.default_rng(3).random((1, 64), np.float32)
    assert np.array_equal(np.asarray(k(x))[0, ::2], np.sort(x[0])[::-1])


@pl.jit
def more_axes(x: pl.Tensor[[16, 16], pl.FP32], v: pl.Tensor[[16, 1], pl.FP32], out: pl.Out[pl.Tensor[[2, 1, 16, 16], pl.FP32]]):
    out = pl.assemble(out, x, [1, 0, 0, 0])
    with pl.at(level=pl.Level.CORE_GROUP):
        out = pl.assemble(out, pl.mul(x, 2.0), [0, 0, 0, 0])
        out[0:1, :, :, :] = pl.row_expand_mul(pl.reshape(pl.mul(x, 2.0), [1, 1, 16, 16]), v)


def test_assemble_adds_leading_axes_of_one_element_and_a_column_spreads_over_such_a_tile():
    rng = np.random.default_rng(0)
    x, v = rng.random((16, 16), np.float32), rng.random((16, 1), np.float32)
    assert np.array_equal(more_axes(x, v), np.stack([(x * 2 * v)[None], x[None]]))
