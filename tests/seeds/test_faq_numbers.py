"""The FAQ, Numbers: one test for each row, named after it."""

import numpy as np

import pypto
import pypto.language as pl
from pypto import lax
from pypto.runtime import RunConfig, TensorSpec, run

PARTS, ROWS, COLUMNS = 4, 16, 32


@pl.jit
def split_k(
    a: pl.Tensor[[ROWS, 64 * PARTS], pl.FP32],
    b: pl.Tensor[[64 * PARTS, COLUMNS], pl.FP32],
    out: pl.InOut[pl.Tensor[[ROWS, COLUMNS], pl.FP32]],
):
    for part in pl.spmd(PARTS, name_hint="part"):
        partial = pl.matmul(a[:, part * 64 : part * 64 + 64], b[part * 64 : part * 64 + 64, :])
        pl.assemble(out, partial, [0, 0], atomic=pl.AtomicType.Add)


def test_split_k_results_differ_between_runs():
    """On a device the order across cores is not fixed. Here blocks add in block order, so runs repeat, on both executors; against another
    order of the same sums, last places still differ."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((ROWS, 64 * PARTS), (64 * PARTS, COLUMNS)))
    found = set()
    for executor in ("reference", "cpu", "reference", "cpu"):
        with pypto.override(executor=executor, check=False):
            out = np.zeros((ROWS, COLUMNS), np.float32)
            split_k(a, b, out)
        found.add(out.tobytes())
    assert len(found) == 1
    parts = [a[:, k : k + 64] @ b[k : k + 64] for k in range(0, 64 * PARTS, 64)]
    backwards = sum(reversed(parts[1:]), parts[0])
    assert out.tobytes() != backwards.tobytes()
    # what is left is rounding: a few units of the last place of sums of 256 products of unit variance
    assert np.allclose(out, backwards, rtol=1e-4, atol=1e-4)


@pl.jit
def half(x: pl.Tensor[[16, 16], pl.FP16], out: pl.Out[pl.Tensor[[16, 16], pl.FP16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mul(x, x)


def test_a_correct_fp16_kernel_fails_allclose():
    """rtol=1e-5 is wrong for FP16: the report says so, and the default is the dtype's own."""
    specs = [TensorSpec("x", [16, 16], pl.FP16, init=1.1), TensorSpec("out", [16, 16], pl.FP16, is_output=True)]

    def golden(x):
        return np.full((16, 16), 1.1 * 1.1)

    assert run(half, specs, golden).passed
    failed = run(half, specs, golden, RunConfig(rtol=1e-5, atol=1e-5))
    assert not failed.passed
    assert "about three decimal digits" in failed.error and "1 ulp = 2^-10" in failed.error


@pl.jit
def to_fp16(x: pl.Tensor[[16, 128], pl.INT32], out: pl.Out[pl.Tensor[[16, 128], pl.FP16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.cast(x, pl.FP16, mode="rint")


def test_is_the_multi_hop_cast_lossy():
    """No: INT32 -> FP32 -> FP16 has the bits of one conversion, on both chips, at the overflow too, which begins at 65520."""
    edges = [0, 1, 2048, 2049, 2051, 65504, 65505, 65519, 65520, 70000, 1 << 20, 1 << 24, (1 << 24) + 1, 1 << 25, 2**31 - 1]
    numbers = np.random.default_rng(0).integers(-70000, 70000, (16, 128)).astype(np.int32)
    numbers[0, : len(edges)] = edges
    numbers[1, : len(edges)] = [-n for n in edges]
    with np.errstate(over="ignore"):
        direct = numbers.astype(np.float64).astype(np.float16)  # exact, then rounded once
    for platform in ("a2a3sim", "a5sim"):
        out = np.zeros((16, 128), np.float16)
        to_fp16(numbers, out, config=RunConfig(platform=platform))
        assert out.tobytes() == direct.tobytes()
        with pypto.override(platform=platform):
            casts = [e.outs[0].aval.dtype for e in to_fp16.lower().kernels[0].jaxpr.walk() if e.op is lax.convert]
        assert casts == ([pl.FP16] if platform == "a2a3sim" else [pl.FP32, pl.FP16])
