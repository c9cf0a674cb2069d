"""Section 3 of the coding style: matrix products. One test per statement."""

import ml_dtypes
import numpy as np
import pytest

import pypto.language as pl

pytestmark = pytest.mark.limits
CORE = pl.Level.CORE_GROUP
SIZE, K, K_STEP = 32, 64, 16
RNG = np.random.default_rng(1)
# Small integers: every product and sum is exact, so any order of additions gives these bits.
A = RNG.integers(-4, 5, (SIZE, K)).astype(np.float32)
B = RNG.integers(-4, 5, (K, SIZE)).astype(np.float32)
LEFT, RIGHT = pl.Tensor[[SIZE, K], pl.BF16], pl.Tensor[[K, SIZE], pl.BF16]
OUT = pl.Tensor[[SIZE, SIZE], pl.FP32]


def bf16(x):
    return x.astype(ml_dtypes.bfloat16)


def same(got, want):
    got = np.asarray(got)
    assert got.shape == want.shape and (got.astype(np.float32) == want).all()


@pl.jit
def plain(a: LEFT, b: RIGHT, out: pl.Out[OUT]):
    with pl.at(level=CORE):
        tile_a, tile_b = a[:, :], b[:, :]
        out[:] = pl.matmul(tile_a, tile_b)


def test_a_product_is_fp32_by_default_and_runs_on_the_cube_unit():
    """3. Cube: Matrix products run on the cube unit, inside an InCore region, and produce FP32 results by default."""
    same(plain(bf16(A), bf16(B)), A @ B)
    (kernel,) = plain.lower().kernels
    assert kernel.unit == "cube"


def test_out_dtype_overrides_the_result():
    """3. Cube: pl.matmul: out_dtype overrides the default FP32 when set."""

    @pl.jit
    def kernel(a: LEFT, b: RIGHT, out: pl.Out[pl.Tensor[[SIZE, SIZE], pl.BF16]]):
        with pl.at(level=CORE):
            out[:] = pl.matmul(a, b, out_dtype=pl.BF16)

    same(kernel(bf16(A), bf16(B)), bf16(A @ B).astype(np.float32))


@pytest.mark.parametrize(("a_trans", "b_trans"), [(True, False), (False, True), (True, True)])
def test_the_flags_transpose_operands(a_trans, b_trans):
    """3. Cube: pl.matmul: a_trans / b_trans transpose the corresponding operand without a separate pl.transpose."""
    left = pl.Tensor[[K, SIZE] if a_trans else [SIZE, K], pl.BF16]
    right = pl.Tensor[[SIZE, K] if b_trans else [K, SIZE], pl.BF16]

    @pl.jit
    def kernel(a: left, b: right, out: pl.Out[OUT]):
        with pl.at(level=CORE):
            out[:] = pl.matmul(a, b, out_dtype=pl.FP32, a_trans=a_trans, b_trans=b_trans)

    same(kernel(bf16(A.T.copy() if a_trans else A), bf16(B.T.copy() if b_trans else B)), A @ B)


def test_a_k_loop_starts_with_matmul_and_goes_on_with_matmul_acc():
    """3. Cube: pl.matmul_acc: acc += lhs @ rhs; first iteration pl.matmul, then pl.matmul_acc; acc is allocated outside pl.at."""

    @pl.jit
    def kernel(a: LEFT, b: RIGHT, out: pl.Out[OUT]):
        acc = pl.create_tensor([SIZE, SIZE], dtype=pl.FP32)
        with pl.at(level=CORE, name_hint="kproj"):
            for kb in pl.pipeline(0, K // K_STEP, stage=2):
                k0 = kb * K_STEP
                tile_a = pl.slice(a, [SIZE, K_STEP], [0, k0])
                tile_b = pl.slice(b, [K_STEP, SIZE], [k0, 0])
                if kb == 0:
                    acc = pl.matmul(tile_a, tile_b)
                else:
                    acc = pl.matmul_acc(acc, tile_a, tile_b)
            out[:] = acc

    same(kernel(bf16(A), bf16(B)), A @ B)
    assert kernel.lower().kernels[0].name == "kproj"


def test_matmul_acc_takes_the_flags():
    """3. Cube: pl.matmul_acc(acc, lhs, rhs, *, a_trans=False, b_trans=False)."""

    @pl.jit
    def kernel(a: LEFT, b: pl.Tensor[[SIZE, K], pl.BF16], out: pl.Out[OUT]):
        with pl.at(level=CORE):
            acc = pl.matmul(a, b, b_trans=True)
            out[:] = pl.matmul_acc(acc, a, b, b_trans=True)

    same(kernel(bf16(A), bf16(B.T.copy())), 2 * (A @ B))


def test_a_bias_is_added_to_every_row():
    """3. Cube: pl.matmul_bias(lhs, rhs, bias): lhs @ rhs + bias, broadcast over the M axis."""

    @pl.jit
    def kernel(a: LEFT, b: RIGHT, bias: pl.Tensor[[1, SIZE], pl.FP32], out: pl.Out[OUT]):
        with pl.at(level=CORE):
            out[:] = pl.matmul_bias(a, b, bias)

    bias = np.arange(SIZE, dtype=np.float32)[None]
    same(kernel(bf16(A), bf16(B), bias), A @ B + bias)


def test_batches_are_multiplied_one_by_one():
    """3. Cube: pl.batch_matmul, pl.batch_matmul_acc: [B, M, K] @ [B, K, N], same arguments as the plain forms."""

    @pl.jit
    def kernel(a: pl.Tensor[[2, SIZE, K], pl.BF16], b: pl.Tensor[[2, K, SIZE], pl.BF16], out: pl.Out[pl.Tensor[[2, SIZE, SIZE], pl.FP32]]):
        with pl.at(level=CORE):
            acc = pl.batch_matmul(a, b)
            out[:] = pl.batch_matmul_acc(acc, a, b)

    a, b = np.stack([A, A + 1]), np.stack([B, B - 1])
    same(kernel(bf16(a), bf16(b)), 2 * (a @ b))


def test_one_row_times_a_matrix_has_its_own_operations():
    """3. Cube: pl.gemv, pl.gemv_acc, pl.gemv_bias: vector-matrix specializations (1-row left operand)."""

    @pl.jit
    def kernel(a: pl.Tensor[[1, K], pl.BF16], b: RIGHT, bias: pl.Tensor[[1, SIZE], pl.FP32], out: pl.Out[pl.Tensor[[2, SIZE], pl.FP32]]):
        with pl.at(level=CORE):
            acc = pl.gemv(a, b)
            out[0:1, :] = pl.gemv_acc(acc, a, b)
            out[1:2, :] = pl.gemv_bias(a, b, bias)

    bias = np.ones((1, SIZE), np.float32)
    same(kernel(bf16(A[:1]), bf16(B), bias), np.concatenate([2 * (A[:1] @ B), A[:1] @ B + bias]))
