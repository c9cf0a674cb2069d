"""Reported faults about memory and order (cases C10, C11, C77, C79, C83): what a task wrote is what is read, in every executor."""

import ml_dtypes
import numpy as np
import pytest

import pypto
import pypto.language as pl
from tests.refusals import f32, refused

CORE = pl.Level.CORE_GROUP
V4 = pl.Tensor[[4], pl.FP32]
ROW = pl.Tensor[[1, 4], pl.FP32]
SMALL = pl.Tensor[[2, 2], pl.BF16]
WAYS = [{}, {"check": False}, {"check": False, "executor": "cpu"}]


@pytest.fixture(params=WAYS, ids=str)
def way(request):
    with pypto.override(**request.param):
        yield


@pl.jit
def counts_by_a_task(x: V4, turns: pl.Out[pl.Tensor[[1], pl.INT32]], out: pl.Out[V4]):
    count = pl.create_tensor([1], dtype=pl.INT32)
    with pl.at(level=CORE):
        count[:] = pl.full([1], dtype=pl.INT32, value=3)
    n = pl.read(count, [0])
    s = 0
    for _ in pl.range(n):
        s = s + 1
    turns[0] = s
    with pl.at(level=CORE):
        total = pl.load(x, [0], [4])
        for _ in pl.range(n):
            total = pl.adds(total, 1.0)
        out[:] = total


@pl.jit
def counts_in_the_block_before(x: V4, out: pl.Out[V4]):
    count = pl.create_tensor([2], dtype=pl.INT32)
    for i in pl.range(2):
        with pl.at(level=CORE):
            pl.write(count, [i], i + 1)
        n = pl.read(count, [i])
        for _ in pl.range(n):
            with pl.at(level=CORE):
                out[2 * i : 2 * i + 2] = x[2 * i : 2 * i + 2] + 1.0


def test_a_bound_that_a_task_wrote_is_read_after_it(way):  # C79
    turns, out = counts_by_a_task(f32(1, 2, 3, 4))
    assert np.asarray(turns).tolist() == [3]
    assert np.asarray(out).tolist() == [4, 5, 6, 7]


def test_a_bound_that_each_turn_writes_is_read_in_that_turn(way):  # C79
    assert np.asarray(counts_in_the_block_before(f32(1, 2, 3, 4))).tolist() == [2, 3, 4, 5]


@pl.jit
def bulk_then_scalar(out: pl.Out[ROW]):
    with pl.at(level=CORE):
        out[:] = pl.full([1, 4], dtype=pl.FP32, value=1)
        pl.write(out, [0, 0], 9.0)


@pl.jit
def scalar_then_bulk(out: pl.Out[ROW]):
    with pl.at(level=CORE):
        pl.write(out, [0, 0], 9.0)
        out[:] = pl.full([1, 4], dtype=pl.FP32, value=1)


@pl.jit
def scalar_between_regions(out: pl.InOut[ROW]):
    with pl.at(level=CORE):
        out[:] = pl.full([1, 4], dtype=pl.FP32, value=1)
    pl.write(out, [0, 0], 9.0)
    with pl.at(level=CORE):
        t = pl.load(out, [0, 0], [1, 4])
        pl.store(pl.muls(t, 2.0), [0, 0], out)


@pytest.mark.parametrize(
    ("kernel", "expected"), [(bulk_then_scalar, [9, 1, 1, 1]), (scalar_then_bulk, [1, 1, 1, 1]), (scalar_between_regions, [18, 2, 2, 2])]
)
def test_a_bulk_store_and_a_scalar_write_keep_their_order(kernel, expected, way):  # C83
    out = np.full((1, 4), -7, np.float32)
    kernel(out)
    assert out.tolist() == [expected]


@pl.jit
def adds_atomically(x: ROW, out: pl.InOut[ROW]):
    with pl.at(level=CORE):
        pl.assemble(out, x, [0, 0], atomic=pl.AtomicType.Add)


@pl.jit
def stores_five(out: pl.InOut[ROW]):
    with pl.at(level=CORE):
        out[:] = pl.full([1, 4], dtype=pl.FP32, value=5)


def test_a_plain_store_after_an_atomic_kernel_stores(way):  # C11
    adds_atomically(f32([[1, 2, 3, 4]]), np.zeros((1, 4), np.float32))
    for _ in range(2):
        out = np.full((1, 4), 100, np.float32)
        stores_five(out)
        assert out.tolist() == [[5, 5, 5, 5]]


@pl.jit
def chained(a: SMALL, w: SMALL, w2: SMALL, out: pl.Out[pl.Tensor[[2, 2], pl.FP32]]):
    with pl.at(level=CORE):
        hidden = pl.cast(pl.matmul(a, w), pl.BF16, mode="rint")
        out[:] = pl.matmul(hidden, w2)


def test_chained_products_do_not_share_an_accumulator(way):  # C77
    a, w, w2 = (np.array(m, ml_dtypes.bfloat16) for m in ([[1, 2], [3, 4]], [[1, 0], [0, 2]], [[1, 1], [0, 1]]))
    assert np.asarray(chained(a, w, w2)).tolist() == [[1, 5], [3, 11]]


@pl.jit
def stores_a_number(x: pl.Tensor[[1, 8], pl.FP32], out: pl.InOut[pl.Tensor[[4, 1], pl.FP32]]):
    with pl.at(level=CORE):
        t = pl.set_validshape(pl.muls(pl.load(x, [0, 0], [1, 8]), 2.0), 1, 1)
        pl.tile.store(t, [2, 0], out, shapes=[1, 1])


def test_the_valid_part_of_a_tile_is_stored_into_its_window(way):
    out = np.full((4, 1), -7, np.float32)
    stores_a_number(np.arange(1, 9, dtype=np.float32)[None], out)
    assert out.ravel().tolist() == [-7, -7, 2, -7]


@pl.jit
def writes_by_rebinding(x: ROW, out: pl.Out[ROW]):
    with pl.at(level=CORE):
        t = pl.muls(pl.load(x, [0, 0], [1, 4]), 2.0)
        out = pl.store(t, offsets=[0, 0], output_tensor=out)
        out = pl.write(out, [0, 3], 9.0)


def test_store_and_write_give_the_tensor_back(way):
    out = np.full((1, 4), -7, np.float32)
    writes_by_rebinding(f32([[1, 2, 3, 4]]), out)
    assert out.tolist() == [[2, 4, 6, 9]]


@pl.jit
def stores_nowhere(x: ROW, out: pl.Out[ROW]):
    with pl.at(level=CORE):
        out[:] = x
        pl.store(pl.load(x, [0, 0], [1, 4]), [0, 0])  # refused


def test_a_store_needs_one_tensor():
    refused("PL601", stores_nowhere.lower, at="pl.store(pl.load(x, [0, 0], [1, 4]), [0, 0])")
