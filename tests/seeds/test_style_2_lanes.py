"""Section 2 of the coding style: sorting, and what picks lanes. One test per statement."""

import numpy as np
import pytest

import pypto.language as pl
from tests.refusals import refused

pytestmark = pytest.mark.limits
CORE = pl.Level.CORE_GROUP
ROWS, COLS = 16, 64
M = pl.Tensor[[ROWS, COLS], pl.FP32]
RNG = np.random.default_rng(0)
A = RNG.uniform(0.5, 4, (ROWS, COLS)).astype(np.float32)
B = RNG.uniform(0.5, 4, (ROWS, COLS)).astype(np.float32)


def same(got, want):
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape and (got == want).all()


def top_k(n, k):
    @pl.jit
    def kernel(scores: pl.Tensor[[1, n], pl.FP32], idxs: pl.Out[pl.Tensor[[1, k], pl.INT32]]):
        with pl.at(level=CORE):
            idx_init = pl.arange(0, [1, n], dtype=pl.UINT32)
            s = pl.sort32(scores[0:1, :], idx_init)
            s = pl.mrgsort(s, block_len=64)
            s = pl.mrgsort(s, block_len=256)
            if n == 2048:
                s = pl.mrgsort(s, block_len=1024)
            topk_pairs = s[:, 0 : 2 * k]
            idxs[:] = pl.gather(topk_pairs, mask_pattern=pl.tile.MaskPattern.P1010, output_dtype=pl.INT32)

    return kernel


@pl.jit
def sorts_runs(x: pl.Tensor[[1, 64], pl.FP32], pairs: pl.Out[pl.Tensor[[1, 128], pl.FP32]]):
    with pl.at(level=CORE):
        pairs[:] = pl.sort32(x[0:1, :], pl.arange(0, [1, 64], dtype=pl.UINT32))


def test_sort32_sorts_runs_of_32_and_carries_indices():
    """2. Sort: pl.sort32(values, idx) sorts each 32-element run in descending order; the result is [1, 2N] of (value, index) pairs."""
    x = RNG.permutation(64).astype(np.float32)[None]
    pairs = np.asarray(sorts_runs(x)).reshape(64, 2)
    for run in (0, 32):
        assert (pairs[run : run + 32, 0] == np.sort(x[0, run : run + 32])[::-1]).all()
    columns = pairs[:, 1].copy().view(np.uint32)
    assert (x[0, columns] == pairs[:, 0]).all()


@pytest.mark.parametrize("n", [512, 2048])
def test_mrgsort_grows_runs_by_four(n):
    """2. Sort: block_len counts interleaved positions and steps x4 per stage: 64, 256 sorts 512 elements, 64, 256, 1024 sorts 2048."""
    x = RNG.standard_normal((1, n)).astype(np.float32)
    same(top_k(n, 16)(x), np.argsort(-x, axis=1, kind="stable")[:, :16].astype(np.int32))


def test_top_k_of_several_rows_loops_over_them():
    """2. Sort: Both require row count == 1; for a multi-row tile, loop the rows with pl.range."""

    @pl.jit
    def kernel(x: pl.Tensor[[2, 64], pl.FP32], out: pl.Out[pl.Tensor[[2, 128], pl.FP32]]):
        with pl.at(level=CORE):
            for t in pl.range(2):
                s = pl.sort32(x[t : t + 1, :], pl.arange(0, [1, 64], dtype=pl.UINT32))
                out[t : t + 1, :] = s

    x = RNG.standard_normal((2, 64)).astype(np.float32)
    same(kernel(x), np.concatenate([np.asarray(sorts_runs(x[:1])), np.asarray(sorts_runs(x[1:]))]))


def test_mrgsort_of_two_rows_is_refused():
    """2. Sort: Row count == 1 is an ISA constraint on mrgsort."""

    @pl.jit
    def kernel(x: pl.Tensor[[2, 512], pl.FP32], out: pl.Out[pl.Tensor[[2, 512], pl.FP32]]):
        with pl.at(level=CORE):
            out[:] = pl.mrgsort(x[:, :], block_len=64)  # refused

    refused("PL301", kernel.lower, at="pl.mrgsort(x[:, :], block_len=64)")


HALF = pl.Tensor[[ROWS, COLS // 2], pl.FP32]


def test_a_mask_pattern_picks_lanes():
    """2. Gather / scatter: pl.gather(tile, mask_pattern=...) of [H, W] gives [H, W/2]; P0101 picks the even lanes, P1010 the odd."""

    @pl.jit
    def kernel(x: M, even: pl.Out[HALF], odd: pl.Out[HALF]):
        with pl.at(level=CORE):
            even[:] = pl.gather(x[:, :], mask_pattern=pl.tile.MaskPattern.P0101)
            odd[:] = pl.gather(x[:, :], mask_pattern=pl.tile.MaskPattern.P1010)

    even, odd = kernel(A)
    same(even, A[:, 0::2])
    same(odd, A[:, 1::2])


def test_the_rope_idiom():
    """2. Gather / scatter: De-interleave, rotate, and pl.tensor.scatter(src, mask_pattern=..., dst=buf) back: the RoPE idiom."""

    @pl.jit
    def kernel(x: M, cos: pl.Tensor[[1, COLS // 2], pl.FP32], sin: pl.Tensor[[1, COLS // 2], pl.FP32], out: pl.Out[M]):
        with pl.at(level=CORE):
            cos_b, sin_b = cos[:, :], sin[:, :]
            even = pl.gather(x[:, :], mask_pattern=pl.tile.MaskPattern.P0101)
            odd = pl.gather(x[:, :], mask_pattern=pl.tile.MaskPattern.P1010)
            rot_even = pl.sub(pl.col_expand_mul(even, cos_b), pl.col_expand_mul(odd, sin_b))
            rot_odd = pl.add(pl.col_expand_mul(even, sin_b), pl.col_expand_mul(odd, cos_b))
            buf = pl.full([ROWS, COLS], dtype=pl.FP32, value=0.0)
            buf = pl.tensor.scatter(rot_even, mask_pattern=pl.tile.MaskPattern.P0101, dst=buf)
            buf = pl.tensor.scatter(rot_odd, mask_pattern=pl.tile.MaskPattern.P1010, dst=buf)
            out[:] = buf

    cos, sin = B[:1, :32], B[1:2, :32]
    want = np.empty_like(A)
    want[:, 0::2] = A[:, 0::2] * cos - A[:, 1::2] * sin
    want[:, 1::2] = A[:, 0::2] * sin + A[:, 1::2] * cos
    same(kernel(A, cos, sin), want)


def test_output_dtype_of_a_gather_reads_the_lanes_as_another_dtype():
    """2. Gather / scatter: The optional output_dtype= changes the dtype on the way out (the same bits, as the facts have it)."""

    @pl.jit
    def kernel(x: M, out: pl.Out[pl.Tensor[[ROWS, COLS // 2], pl.INT32]]):
        with pl.at(level=CORE):
            out[:] = pl.gather(x[:, :], mask_pattern=pl.tile.MaskPattern.P0101, output_dtype=pl.INT32)

    same(kernel(A), A[:, 0::2].copy().view(np.int32))


@pytest.mark.parametrize("index_is", ["tensor", "created", "tile"])
def test_an_index_gathers_along_the_last_axis(index_is):
    """2. Gather / scatter: pl.gather(src, dim=-1, index=idx): row i picks src[i, idx[i, :]]. (A tile index is accepted here, too.)"""

    @pl.jit
    def kernel(x: M, idx: pl.Tensor[[ROWS, 8], pl.INT32], out: pl.Out[pl.Tensor[[ROWS, 8], pl.FP32]]):
        topk_idx = pl.create_tensor([ROWS, 8], dtype=pl.INT32)
        with pl.at(level=CORE):
            topk_idx[:] = idx
        with pl.at(level=CORE):
            index = {"tensor": idx, "created": topk_idx, "tile": pl.load(idx, [0, 0], [ROWS, 8])}[index_is]
            out[:] = pl.gather(x, dim=-1, index=index)

    idx = RNG.integers(0, COLS, (ROWS, 8)).astype(np.int32)
    same(kernel(A, idx), np.take_along_axis(A, idx, axis=1))
