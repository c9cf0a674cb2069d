"""Gather from tensors in memory: rows, elements, windows and pages, with the rules for an index outside."""

import ml_dtypes
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.errors import PyptoError
from tests.refusals import refused, reports, sevens
from tests.test_ops_gathering import both, indices, numbers

# From tensors.


@pl.jit
def rows_of_memory(x: pl.Tensor, i: pl.Tensor, out: pl.Out[pl.Tensor], policy: str = "undefined"):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mgather(x, i, "row", gather_oob=policy)


@pl.jit
def elements_of_memory(x: pl.Tensor, i: pl.Tensor, out: pl.Out[pl.Tensor], policy: str = "undefined"):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.tile.mgather(x, i, coalesce=1, gather_oob=policy)


WRONG = np.array([[1, -1, 7, 2]], np.int32)
WANT = {"clamp": [1, 0, 4, 2], "wrap": [1, 4, 2, 2]}


@pytest.mark.parametrize("shape", [(1, 4), (4, 1)], ids=str)
def test_rows_of_a_tensor_are_gathered_whole(shape):
    x, i = numbers("FP32", (5, 3)), indices(shape, 5)
    assert np.array_equal(both(rows_of_memory, x, i, np.zeros((4, 3), np.float32)), x[np.ravel(i)])


def test_rows_of_a_tensor_of_more_axes_are_counted_through():
    x, i = numbers("INT32", (2, 3, 4)), np.array([[5, 0]], np.int32)
    assert np.array_equal(both(rows_of_memory, x, i, np.zeros((2, 4), np.int32)), x.reshape(6, 4)[[5, 0]])


@pytest.mark.parametrize("policy", WANT)
def test_an_index_outside_clamps_or_wraps_as_python_counts(policy):
    x, out = numbers("FP32", (5, 3)), np.zeros((4, 3), np.float32)
    assert np.array_equal(_run(rows_of_memory, x, WRONG, out, policy), x[WANT[policy]])
    y, flat_out = numbers("FP32", (1, 5)), np.zeros((1, 4), np.float32)
    assert np.array_equal(_run(elements_of_memory, y, WRONG, flat_out, policy), y[:, WANT[policy]])


def _run(kernel, x, i, out, policy):
    kernel(x, i, out, policy)
    return out


def test_an_index_outside_reads_zero_under_the_policy_zero():
    x, out = numbers("FP32", (5, 3)), np.ones((4, 3), np.float32)
    _run(rows_of_memory, x, WRONG, out, "zero")
    assert np.array_equal(out, [x[1], [0] * 3, [0] * 3, x[2]])


@pytest.mark.parametrize("kernel, out", [(rows_of_memory, (4, 3)), (elements_of_memory, (1, 4))], ids=["rows", "elements"])
@pytest.mark.checked
def test_an_index_outside_is_an_error_when_nothing_is_said(kernel, out):
    wrong = np.array([[1, 2, 99, 0]], np.int32)
    with pytest.raises(PyptoError) as caught:
        kernel(numbers("FP32", (5, 3)), wrong, np.zeros(out, np.float32))
    assert caught.value.code == "PL303" and "99" in caught.value.message and "[0, 2]" in caught.value.message


@pytest.mark.checked
def test_rows_nobody_wrote_may_not_reach_an_output():
    @pl.jit
    def gathers_unwritten_rows(i: pl.Tensor[[1, 2], pl.INT32], out: pl.Out[pl.Tensor[[2, 4], pl.FP32]]):
        pool = pl.create_tensor([3, 4], dtype=pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP):
            pool[0:1, :] = pl.full([1, 4], dtype=pl.FP32, value=1.0)
            out[:] = pl.mgather(pool, i)  # refused

    out = np.zeros((2, 4), np.float32)
    gathers_unwritten_rows(np.array([[0, 0]], np.int32), out)
    assert (out == 1).all()
    refused("PL306", gathers_unwritten_rows, np.array([[0, 2]], np.int32), out, at="out[:]")


@pl.jit
def fills_a_tile_row_by_row(
    x: pl.Tensor[[6, 16], pl.BF16], i: pl.Tensor[[4], pl.INT32], rows: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[6, 16], pl.BF16]]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.create_tile([6, 16], dtype=pl.BF16)
        alias = t
        for r in pl.range(4):
            t = pl.gather_row(t, x, [r, 0], [pl.read(i, [r]), 0], [1, 16])
        pl.gather_row(alias, x, [4, 0], [0, 0], [4, 16], valid_shape=[rows, 16])
        out[:] = t


def test_rows_go_straight_into_a_tile_for_every_name_it_has():
    x = np.random.default_rng(0).normal(size=(6, 16)).astype(ml_dtypes.bfloat16)
    i = np.array([5, 0, 3, 3], np.int32)
    out = both(fills_a_tile_row_by_row, x, i, 2, np.zeros((6, 16), ml_dtypes.bfloat16))
    assert np.array_equal(out, x[[5, 0, 3, 3, 0, 1]])


@pl.jit
def a_row_becomes_a_column(x: pl.Tensor[[4, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 2], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.create_l1([16, 2], pl.FP32)
        for r in pl.range(2):
            t = pl.tensor.gather_row(t, x, [0, r], [3 - r, 0], [1, 16], transpose=True)
        out[:] = t


def test_a_row_may_be_written_as_a_column_of_l1():
    x, out = numbers("FP32", (4, 16)), np.zeros((16, 2), np.float32)
    with pypto.override(platform="cpu"):
        a_row_becomes_a_column(x, out)
    assert np.array_equal(out, x[[3, 2]].T)


@pl.jit
def pages(
    x: pl.Tensor[[12, 8], pl.FP32], i: pl.Tensor[[1, 3], pl.INT32], table: pl.Tensor[[2], pl.INT32], out: pl.Out[pl.Tensor[[4, 5], pl.FP32]]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.paged_gather(x, i, table, 4, 5, 4, space=pl.MemorySpace.Vec, col_off=2)  # refused


def test_rows_of_a_pool_are_found_through_the_block_table():
    x, out = numbers("FP32", (12, 8)), sevens(4, 5)
    with reports("PL204"):
        pages(x, np.array([[5, 0, 7]], np.int32), np.array([2, 0], np.int32), out)
    assert np.array_equal(out[:3], x[[1, 8, 3], 2:7]) and (out[3] == -7).all()


@pytest.mark.parametrize("index, page", [([8, 0, 0], [2, 0]), ([0, 4, 0], [2, 3]), ([-1, 0, 0], [0, 1])])
@pytest.mark.checked
def test_a_page_or_row_that_does_not_exist_is_an_error(index, page):
    refused(
        "PL303", pages, numbers("FP32", (12, 8)), np.array([index], np.int32), np.array(page, np.int32), sevens(4, 5),
        at="pl.paged_gather(x, i, table, 4, 5, 4, space=pl.MemorySpace.Vec, col_off=2)",
    )  # fmt: skip


@pl.jit
def a_window_past_the_end(x: pl.Tensor[[1, 5], pl.INT32], out: pl.Out[pl.Tensor[[1, 5], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.full([1, 5], dtype=pl.INT32, value=-1)
        t[:, :] = pl.slice(x, [1, 5], [0, 3], valid_shape=[1, 2])
        out[:] = t


def test_a_masked_window_past_the_end_is_not_shifted():  # C55
    x = np.arange(5, dtype=np.int32)[None]
    assert both(a_window_past_the_end, x, sevens(1, 5, dtype=np.int32)).tolist() == [[3, 4, -1, -1, -1]]
