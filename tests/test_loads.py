"""Loads that need no memory disappear, all others stay; and which units a kernel needs."""

import ml_dtypes
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import PyptoError
from tests.exact import same

N = 32


@pl.jit
def created_outside(a: pl.Tensor[[N, N], pl.BF16], b: pl.Tensor[[N, N], pl.BF16], out: pl.Out[pl.Tensor[[N, N], pl.FP32]]):
    acc = pl.create_tensor([N, N], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="product"):
        for kb in pl.pipeline(0, 2, stage=2):
            left = a[:, kb * 16 : kb * 16 + 16]
            right = b[kb * 16 : kb * 16 + 16, :]
            if kb == 0:
                acc = pl.matmul(left, right)
            else:
                acc = pl.matmul_acc(acc, left, right)
        out[:, :] = acc


@pl.jit
def written_before(x: pl.Tensor[[N, N], pl.FP32], out: pl.Out[pl.Tensor[[N, N], pl.FP32]]):
    acc = pl.create_tensor([N, N], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        acc[:, :] = x
    with pl.at(level=pl.Level.CORE_GROUP):
        for _ in pl.range(3):
            acc = pl.add(acc, x)
        out[:, :] = acc


@pl.jit
def written_through_a_view(x: pl.Tensor[[N, N], pl.FP32], out: pl.Out[pl.Tensor[[N, N], pl.FP32]]):
    acc = pl.create_tensor([N, N], dtype=pl.FP32)
    top = acc[0:16, :]
    bottom = acc[16:N, :]
    with pl.at(level=pl.Level.CORE_GROUP):
        top[:, :] = x[0:16, :]
        bottom[:, :] = x[16:N, :]
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, :] = pl.adds(acc, 1.0)


@pl.jit
def never_written(x: pl.Tensor[[N, N], pl.FP32], out: pl.Out[pl.Tensor[[N, N], pl.FP32]]):
    acc = pl.create_tensor([N, N], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, :] = pl.add(acc, x)


def names(program):
    return [e.op.name for j in (program.orchestration, *program.bodies.values()) for e in j.walk()]


def lowered(kernel):
    with pypto.override(verify=True):
        return kernel.lower()


X = np.arange(N * N, dtype=np.float32).reshape(N, N)


def test_a_created_accumulator_that_nothing_writes_is_no_buffer():
    assert "alloc" not in names(lowered(created_outside))


def test_the_turns_of_an_accumulation_do_not_load_the_accumulator():
    assert names(lowered(created_outside)).count("get") == 2  # the operands


def test_a_product_in_a_created_accumulator_has_the_bits_of_one_product():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((N, N)).astype(ml_dtypes.bfloat16) for _ in range(2))
    found = np.zeros((N, N), np.float32)
    created_outside(a, b, found)
    expected = pypto.lax.matmul_acc(pypto.lax.matmul(a[:, :16], b[:16]), a[:, 16:], b[16:])
    assert same(found, expected)


@pytest.mark.parametrize("kernel, expected", [(written_before, X * 4), (written_through_a_view, X + 1)], ids=["carried", "viewed"])
def test_a_created_tensor_that_was_written_is_loaded(kernel, expected):
    found = np.zeros((N, N), np.float32)
    kernel(X, found)
    assert same(found, expected)


@pytest.mark.checked
def test_an_element_of_a_created_tensor_that_nobody_wrote_may_still_not_reach_an_output():
    with pytest.raises(PyptoError) as caught:
        never_written(X, np.zeros((N, N), np.float32))
    assert caught.value.code == "PL306"
    assert caught.value.source.text.strip() == "out[:, :] = pl.add(acc, x)"


def test_index_arithmetic_does_not_make_a_cube_kernel_a_mixed_one():
    assert [k.unit for k in lowered(created_outside).kernels] == ["cube"]


def test_arithmetic_on_tiles_makes_a_vector_kernel():
    assert {k.unit for k in lowered(written_before).kernels} == {"vector"}
