"""The smaller idioms of real kernels: one small kernel per row, traced and eager."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pypto.language as pl
from pypto.errors import PyptoError
from tests.refusals import refused
from tests.test_idioms_rules import X, both

V = pl.Tensor[[4, 16], pl.FP32]
BF16 = ml_dtypes.bfloat16
A = (np.arange(16 * 32).reshape(16, 32) % 7 - 3).astype(BF16)
B = (np.arange(32 * 16).reshape(32, 16) % 5 - 2).astype(BF16)


def loop_product(dtype: Any) -> Any:
    @pl.jit
    def product(a: pl.Tensor[[16, 32], pl.BF16], b: pl.Tensor[[32, 16], pl.BF16], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        acc = pl.create_tensor([16, 16], dtype=dtype)
        with pl.at(level=pl.Level.CORE_GROUP):
            for k in pl.range(2):
                if k == 0:
                    acc = pl.matmul(a[:, 0:16], b[0:16, :])
                else:
                    acc = pl.matmul_acc(acc, a[:, k * 16 : k * 16 + 16], b[k * 16 : k * 16 + 16, :])
            out[:] = acc

    return product


def test_a_created_tensor_takes_the_type_of_the_products_that_replace_it() -> None:
    want = A.astype(np.float32) @ B.astype(np.float32)
    assert np.array_equal(both(loop_product(pl.FP32), A, B), want)


@pl.jit
def declared_dtype(a: pl.Tensor[[16, 32], pl.BF16], b: pl.Tensor[[32, 16], pl.BF16], out: pl.Out[pl.Tensor[[16, 16], pl.BF16]]):
    acc = pl.create_tensor([16, 16], dtype=pl.BF16)
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(a, b)
        out[:] = acc


def test_the_dtype_of_a_created_tensor_is_the_default_out_dtype() -> None:
    assert np.array_equal(both(declared_dtype, A, B), (A.astype(np.float32) @ B.astype(np.float32)).astype(BF16))


@pl.jit
def batched(a: pl.Tensor[[16, 32], pl.BF16], w: pl.Tensor[[1, 16, 32], pl.BF16], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.matmul(a, w[:, :, :], b_trans=True)
        out[:] = pl.reshape(acc, [16, 16])


def test_a_three_axis_weight_gives_a_three_axis_product() -> None:
    w = np.ascontiguousarray(B.T)[None]
    assert np.array_equal(both(batched, A, w), A.astype(np.float32) @ B.astype(np.float32))


@pl.jit
def copies(x: V, out: pl.Out[V]):
    out[0:2] = x[2:4]
    out = pl.assemble(out, x[0:2], [2, 0])


def test_a_copy_between_buffers_outside_a_region_is_a_task_of_its_own() -> None:
    assert np.array_equal(both(copies, X), np.concatenate([X[2:], X[:2]]))
    assert copies.lower().as_ir().count("copy") >= 2


@pl.jit
def comprehension(x: V, out: pl.Out[V]):
    with pl.at(level=pl.Level.CORE_GROUP):
        rows = [x[i : i + 1, :] * float(i) for i in range(4)]
        for i in pl.unroll(4):
            out[i : i + 1, :] = rows[3 - i]


def test_a_comprehension_over_a_static_range_is_plain_python() -> None:
    assert np.array_equal(both(comprehension, X), np.stack([X[3 - i] * np.float32(3 - i) for i in range(4)]))


@pl.jit
def two_regions(x: V, out: pl.Out[V]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.slice(x, [4, 16], [0, 0], valid_shape=[3, 16]) + 1.0
        total = pl.read(x, [0, 3])
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.fillpad(t, pl.PadValue.zero) + total


def test_values_made_in_one_region_are_used_in_another_with_their_valid_shape() -> None:
    want = np.zeros_like(X)
    want[:3] = X[:3] + 1
    assert np.array_equal(both(two_regions, X), want + 3)


@pl.jit
def count_then_loop(n: pl.Tensor[[1], pl.INT32], x: V, out: pl.Out[V]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
    stop = pl.read(n, [0])
    for r in pl.parallel(stop):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[r : r + 1, :] = x[r : r + 1, :] * 2.0


def test_a_parallel_loop_may_run_to_a_count_read_at_run_time() -> None:
    want = X.copy()
    want[:3] *= 2
    assert np.array_equal(both(count_then_loop, np.array([3], np.int32), X), want)


@pl.jit
def yields(x: V, n: pl.Scalar[pl.INT32], out: pl.Out[V]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = x[:, :]
        b = a * 0.0
        for i, (p, q) in pl.range(n, init_values=(a, b)):
            a0, a1 = pl.yield_(q + 1.0, p)
        out[:] = a0 - a1


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_the_targets_of_a_yield_name_the_loops_results(turns: int) -> None:
    p, q = X, X * 0
    for _ in range(turns):
        p, q = q + 1, p
    # an eager loop that never runs has not seen its yield, so only the traced program knows what the targets name
    run = both if turns else lambda kernel, *arrays: np.asarray(kernel(*arrays))
    assert np.array_equal(run(yields, X, turns), p - q)


@pl.jit
def subscripts(x: pl.Tensor[[2, 4, 16], pl.FP32], out: pl.Out[V]):
    for i in pl.range(2):
        with pl.at(level=pl.Level.CORE_GROUP):
            half = x[i, 0:2, :]
            out[i * 2 : i * 2 + 2, :] = half + x[i, 3, 5]


def test_an_integer_among_slices_drops_its_axis_and_all_integers_read_one_element() -> None:
    x = np.arange(128, dtype=np.float32).reshape(2, 4, 16)
    assert np.array_equal(both(subscripts, x), np.concatenate([x[0, :2] + x[0, 3, 5], x[1, :2] + x[1, 3, 5]]))


@pl.jit
def any_shape(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.neg(x)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_a_bare_annotation_takes_the_callers_shape_and_dtype(dtype: Any) -> None:
    out = np.zeros((2, 16), dtype)
    any_shape(X[:2].astype(dtype), out)
    assert np.array_equal(out, -X[:2].astype(dtype))


@pl.jit
def valid_per_turn(x: V, out: pl.Out[pl.Tensor[[4, 1], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x[0:1, :]
        for i in pl.range(4):
            out[i : i + 1, :] = pl.row_sum(t)
            t = pl.set_validshape(x[0:1, :], 1, 4 * i + 4)


def test_a_carry_may_have_another_valid_shape_each_turn() -> None:
    assert both(valid_per_turn, X)[:, 0].tolist() == [X[0].sum(), X[0, :4].sum(), X[0, :8].sum(), X[0, :12].sum()]


@pl.jit
def tail_window(x: V, out: pl.Out[V]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.slice(x, [4, 16], [2, 0], valid_shape=[2, 16])
        out[:] = pl.fillpad(t, pl.PadValue.zero)


def test_bounds_of_a_window_apply_to_its_valid_part() -> None:
    assert np.array_equal(both(tail_window, X), np.concatenate([X[2:], X[:2] * 0]))


@pl.jit.inline
def returns_nothing(x, out):
    out[:] = x + 1.0


@pl.jit
def statement_call(x: V, out: pl.Out[V]):
    with pl.at(level=pl.Level.CORE_GROUP):
        returns_nothing(x, out)


@pl.jit
def uses_nothing(x: V, out: pl.Out[V]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = returns_nothing(x, out)
        out[:] = y  # refused


def test_an_inline_without_a_return_is_a_statement_and_using_its_result_is_the_error() -> None:
    assert np.array_equal(both(statement_call, X), X + 1)
    with pytest.raises(PyptoError) as caught:
        uses_nothing(X)
    assert caught.value.code == "PL209"


@pl.jit
def anchors(x: V, out: pl.Out[V]):
    with pl.at(level=pl.Level.CORE_GROUP):
        scratch = pl.create_tile([4, 16], pl.FP32)
        pl.read(x, [0, 0])  # a read whose value is unused
        out[:] = x * (1 + 0 * 2)
        keep = scratch * 0.0 + 1.0
        keep = x[:, :]


def test_dependency_anchors_are_legal_and_dead_reads_stay() -> None:
    assert np.array_equal(both(anchors, X), X)
    assert "read" in str(anchors.lower())


@pl.jit
def parallel_inside(x: V, out: pl.Out[V]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.parallel(4):  # refused
            out[i : i + 1, :] = x[i : i + 1, :]


@pl.jit.incore
def parallel_in_core(x: V, out: pl.Out[V]):
    for i in pl.parallel(4):
        out[i : i + 1, :] = x[i : i + 1, :]


def test_pl_parallel_inside_a_region_is_refused_and_an_in_core_function_may_use_it() -> None:
    refused("PL105", parallel_inside, X, at="pl.parallel(4)")
    assert np.array_equal(both(parallel_in_core, X), X)


def test_the_omitted_outputs_come_back_in_order() -> None:
    @pl.jit
    def two(x: V, first: pl.Out[V], second: pl.Out[pl.Tensor[[1, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            second[:] = x[0:1, :]
            first[:] = x
        return second

    first, second = two(X)
    assert np.array_equal(first, X) and np.array_equal(second, X[:1])
