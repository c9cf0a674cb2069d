"""Atomic updates of tensors: order, rounding, dtypes, what may not be updated; and that no mode outlives its store."""

import ml_dtypes
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.errors import PyptoError
from tests.refusals import f32, refused, sevens, untouched
from tests.test_ops_gathering import both

STORAGE = {
    "FP32": np.float32, "FP16": np.float16, "BF16": ml_dtypes.bfloat16, "INT32": np.int32, "INT16": np.int16, "INT8": np.int8,
}  # fmt: skip


@pl.jit
def adds_blocks(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    for b in pl.spmd(4):
        pl.assemble(out, x[b : b + 1, :], [0, 0], atomic=pl.AtomicType.Add)


@pl.jit
def keeps_the_largest(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    for b in pl.spmd(4):
        out = pl.store(x[b : b + 1, :], [0, 0], out, atomic=pl.AtomicType.Max)


@pl.jit
def keeps_the_smallest(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    for b in pl.spmd(4):
        out = pl.tile.store(x[b : b + 1, :], [0, 0], out, atomic=pl.AtomicType.Min)


@pl.jit
def only_stores(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    for b in pl.spmd(4):
        pl.assemble(out, x[b : b + 1, :], [0, 0], atomic=pl.AtomicType.None_)


@pytest.mark.parametrize("name", STORAGE)
def test_blocks_add_in_ascending_order_and_each_update_rounds_once(name):
    x = np.random.default_rng(1).normal(size=(4, 8)) * 40
    x, start = x.astype(STORAGE[name]), np.full((1, 8), 3).astype(STORAGE[name])
    want = np.array(start)
    for row in x:
        if name in ("FP16", "BF16"):
            want = (want.astype(np.float32) + row.astype(np.float32)).astype(STORAGE[name])
        else:
            want = want + row
    with np.errstate(over="ignore"):
        assert both(adds_blocks, x, np.array(start)).tobytes() == want.tobytes()


def test_the_order_of_the_blocks_shows_in_the_sum():  # C42: sequential, the buffer's content first
    out = both(adds_blocks, f32([1e8], [1], [-1e8], [1]), f32([[0]]))
    assert out.tolist() == [[1.0]]


@pytest.mark.parametrize("kernel, choose", [(keeps_the_largest, np.max), (keeps_the_smallest, np.min)], ids=["max", "min"])
@pytest.mark.parametrize("name", STORAGE)
def test_the_largest_and_the_smallest_stay(name, kernel, choose):
    x = np.random.default_rng(2).integers(-90, 90, (4, 8)).astype(STORAGE[name])
    start = np.zeros((1, 8), STORAGE[name])
    want = choose(np.concatenate([x, start]).astype(np.float32), axis=0).astype(STORAGE[name])
    assert np.array_equal(both(kernel, x, start)[0], want)


def test_a_nan_stays_and_plus_zero_is_the_larger_zero():
    x = f32([np.nan, -0.0], [1, -0.0], [2, 0.0], [3, -0.0])
    out = both(keeps_the_largest, x, f32([[0, -0.0]]))
    assert np.isnan(out[0, 0]) and not np.signbit(out[0, 1])


@pl.jit
def a_number_into_fp16(out: pl.InOut[pl.Tensor[[1, 16], pl.FP16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.assemble(out, pl.full([1, 16], dtype=pl.FP16, value=42.0), [0, 0], atomic=pl.AtomicType.Max)


def test_a_number_reaches_an_fp16_buffer_as_that_number():  # C30
    out = both(a_number_into_fp16, np.zeros((1, 16), np.float16))
    assert (out == 42).all() and (out.view(np.uint16) == 0x5140).all()


def test_no_atomic_is_a_plain_store():
    x = f32([1], [2], [3], [4])
    assert both(only_stores, x, f32([[100]])).tolist() == [[4]]


@pl.jit
def stores_five(out: pl.Out[pl.Tensor[[1, 1], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.full([1, 1], dtype=pl.FP32, value=5.0)


def test_a_store_after_an_atomic_kernel_stores():  # C11
    out = f32([[100]])
    for _ in range(2):
        adds_blocks(f32([1], [1], [1], [1]), out)
        stores_five(out)
        assert out.tolist() == [[5]]


@pl.jit
def splits_k(x: pl.Tensor[[16, 64], pl.FP32], w: pl.Tensor[[64, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.full([16, 16], dtype=pl.FP32, value=0.0)
    for k in pl.spmd(4):
        part = pl.matmul(x[:, k * 16 : k * 16 + 16], w[k * 16 : k * 16 + 16, :])
        out = pl.assemble(out, part, [0, 0], atomic=pl.AtomicType.Add)


def test_a_split_matmul_sums_its_parts():
    rng = np.random.default_rng(3)
    x, w = (rng.integers(-8, 8, s).astype(np.float32) for s in ((16, 64), (64, 16)))  # small integers: exact in any order
    assert np.array_equal(both(splits_k, x, w, sevens(16, 16)), x @ w)


@pl.jit
def adds_to_a_part(x: pl.Tensor[[2, 8], pl.FP32], n: pl.Scalar[pl.INT32], out: pl.InOut[pl.Tensor[[4, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [2, 8], valid_shape=[n, 8])
        pl.assemble(out, t, [n, 0], atomic=pl.AtomicType.Add)


def test_only_the_valid_part_is_added():
    x, out = np.ones((2, 8), np.float32), np.full((4, 8), 3, np.float32)
    both(adds_to_a_part, x, 1, out)
    assert out[:, 0].tolist() == [3, 4, 3, 3]


# What is refused.


@pl.jit
def outside_a_region(x: pl.Tensor[[1, 4], pl.FP32], out: pl.InOut[pl.Tensor[[1, 4], pl.FP32]]):
    for _ in pl.range(3):
        out = pl.assemble(out, x, [0, 0], atomic=pl.AtomicType.Add)  # refused


def test_an_atomic_store_outside_a_region_is_an_error():  # C10, S22
    at = "pl.assemble(out, x, [0, 0], atomic=pl.AtomicType.Add)"
    untouched("PL501", outside_a_region, f32([[1, 1, 1, 1]]), f32([[0, 0, 0, 0]]), at=at)


@pl.jit
def into_what_nobody_wrote(x: pl.Tensor[[1, 4], pl.FP32], out: pl.Out[pl.Tensor[[1, 4], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.assemble(out, x, [0, 0], atomic=pl.AtomicType.Add)  # refused


@pytest.mark.checked
def test_an_atomic_update_reads_what_is_there():
    at = "pl.assemble(out, x, [0, 0], atomic=pl.AtomicType.Add)"
    refused("PL306", into_what_nobody_wrote, f32([[1, 2, 3, 4]]), sevens(1, 4), at=at)


def test_without_checks_what_nobody_wrote_is_zero():
    out = sevens(1, 4)
    with pypto.override(check=False):
        into_what_nobody_wrote(f32([[1, 2, 3, 4]]), out)
    assert out.tolist() == [[1, 2, 3, 4]]


@pl.jit
def what_nobody_wrote(out: pl.InOut[pl.Tensor[[1, 4], pl.FP32]]):
    scratch = pl.create_tensor([1, 4], dtype=pl.FP32, init_value=0.0)
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.create_tile([1, 4], dtype=pl.FP32)
        pl.store(t, [0, 0], scratch, atomic=pl.AtomicType.Add)  # refused
        out[:] = scratch


@pytest.mark.checked
def test_an_unwritten_element_may_not_be_added_even_to_a_scratch_buffer():
    refused("PL306", what_nobody_wrote, f32([[1, 2, 3, 4]]), at="pl.store(t, [0, 0], scratch, atomic=pl.AtomicType.Add)")


@pl.jit
def into_a_tile(x: pl.Tensor[[1, 4], pl.FP32], out: pl.Out[pl.Tensor[[1, 4], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.full([1, 4], dtype=pl.FP32, value=0.0)
        pl.assemble(t, x, [0, 0], atomic=pl.AtomicType.Add)  # refused
        out[:] = t


def test_a_tile_has_no_atomic_store():
    refused("PL307", into_a_tile, f32([[1, 2, 3, 4]]), sevens(1, 4), at="pl.assemble(t, x, [0, 0], atomic=pl.AtomicType.Add)")


@pl.jit
def into_an_input(x: pl.Tensor[[1, 4], pl.FP32], y: pl.Tensor[[1, 4], pl.FP32], out: pl.Out[pl.Tensor[[1, 4], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        pl.assemble(y, x, [0, 0], atomic=pl.AtomicType.Add)  # refused


def test_an_input_is_not_updated():
    at = "pl.assemble(y, x, [0, 0], atomic=pl.AtomicType.Add)"
    refused("PL203", into_an_input, f32([[1, 2, 3, 4]]), f32([[1, 2, 3, 4]]), sevens(1, 4), at=at)


@pl.jit
def by_name(x: pl.Tensor[[1, 4], pl.FP32], out: pl.InOut[pl.Tensor[[1, 4], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.assemble(out, x, [0, 0], atomic="add")  # refused


def test_a_combination_is_an_atomic_type():
    refused("PL308", by_name, f32([[1, 2, 3, 4]]), f32([[1, 2, 3, 4]]), at='pl.assemble(out, x, [0, 0], atomic="add")')


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.uint32])
def test_other_dtypes_have_no_atomic_store(dtype):
    with pytest.raises(PyptoError) as caught:
        adds_blocks(np.ones((4, 8), dtype), np.zeros((1, 8), dtype))
    assert caught.value.code == "PL305" and caught.value.source is not None and "atomic" in caught.value.source.text


def test_bf16_is_added_on_a2a3_and_not_on_a5():
    x, out = np.ones((4, 16), ml_dtypes.bfloat16), np.zeros((1, 16), ml_dtypes.bfloat16)
    with pypto.override(platform="a2a3"):
        adds_blocks(x, out)
    assert (out == 4).all()
    with pypto.override(platform="a5"), pytest.raises(PyptoError) as caught:
        adds_blocks(x, out)
    assert caught.value.code == "PL406"
