"""Reported faults about loops (cases C60, C62, C63): chains, initial values, steps."""

import numpy as np
import pytest

import pypto.language as pl
from tests.refusals import f32, refused, reports, sevens, untouched

V2, V4, V8, V16 = (pl.Tensor[[n], pl.FP32] for n in (2, 4, 8, 16))

# C60: a rebound tensor chains from turn to turn.


def chaining(loop):
    @pl.jit
    def chains_buffers(x: V2, out: pl.Out[V2]):
        cur = x
        for i in loop:
            nxt = pl.create_tensor([2], dtype=pl.FP32)
            with pl.at(level=pl.Level.CORE_GROUP):
                nxt[:] = cur + 1.0
            cur = nxt
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = cur

    return chains_buffers


def chaining_inside(loop):
    @pl.jit
    def chains_tiles(x: V2, out: pl.Out[V2]):
        with pl.at(level=pl.Level.CORE_GROUP):
            cur = x
            for i in loop:
                nxt = pl.create_tensor([2], dtype=pl.FP32)
                nxt[:] = cur + 1.0
                cur = nxt
            out[:] = cur

    return chains_tiles


@pl.jit
def chains_a_run_time_number_of_times(x: V2, n: pl.Scalar[pl.INT32], out: pl.Out[V2]):
    cur = x
    for i in pl.range(n):
        nxt = pl.create_tensor([2], dtype=pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP):
            nxt[:] = cur + 1.0
        cur = nxt
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = cur


@pytest.mark.parametrize("make", [chaining, chaining_inside])
@pytest.mark.parametrize(
    ("loop", "expected"), [(pl.range(3), [4, 5]), (pl.unroll(3), [4, 5]), (pl.range(0), [1, 2]), (pl.unroll(0), [1, 2])], ids=str
)
def test_a_tensor_rebound_in_a_loop_starts_the_next_turn(make, loop, expected):  # C60
    kernel = make(loop)
    assert kernel(f32(1, 2)).tolist() == expected
    assert kernel.eager(f32(1, 2)).tolist() == expected


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_tensor_rebound_a_run_time_number_of_times(n):  # C60
    assert chains_a_run_time_number_of_times(f32(1, 2), n).tolist() == [1 + n, 2 + n]


# C62: the initial value of a carry, read after its loop.


@pl.jit
def stores_the_initial_value(out: pl.Out[V2]):
    with pl.at(level=pl.Level.CORE_GROUP):
        init = pl.full([2], dtype=pl.FP32, value=0)
        for i, (total,) in pl.range(4, init_values=(init,)):  # the loop the warning names
            total = total + 1.0
        pl.store(init, [0], out)


@pl.jit
def stores_the_result(out: pl.Out[V2]):
    with pl.at(level=pl.Level.CORE_GROUP):
        init = pl.full([2], dtype=pl.FP32, value=0)
        for i, (total,) in pl.range(4, init_values=(init,)):
            total = total + 1.0
        pl.store(total, [0], out)


@pl.jit
def stores_both_names_bound_to_the_result(out: pl.Out[V2]):
    with pl.at(level=pl.Level.CORE_GROUP):
        init = pl.full([2], dtype=pl.FP32, value=0)
        for i, (total,) in pl.range(4, init_values=(init,)):
            total = total + 1.0
        init = total
        pl.store(init, [0], out)


def test_reading_the_initial_value_after_its_loop_is_legal_and_reported():  # C62
    with reports("PL208") as found:
        result = stores_the_initial_value()
    assert result.tolist() == [0, 0]
    assert "`init`" in found[0] and "`total`" in found[0]
    assert "# the loop the warning names" in found[0]


@pytest.mark.parametrize("kernel", [stores_the_result, stores_both_names_bound_to_the_result])
def test_reading_the_result_of_a_carry_is_not_reported(kernel):  # C62
    assert kernel().tolist() == [4, 4]


# C63: loops may count down; a step of zero is an error.


@pl.jit
def sums_indices(start: pl.Scalar[pl.INT32], stop: pl.Scalar[pl.INT32], step: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[1], pl.INT32]]):
    s = 0
    for i in pl.range(start, stop, step):  # refused
        s = s + i
    out[0] = s


def summing(loop):
    @pl.jit
    def sums_constant_indices(out: pl.Out[pl.Tensor[[1], pl.INT32]]):
        s = 0
        for i in loop:
            s += i
        out[0] = s

    return sums_constant_indices


@pl.jit
def sums_down_in_a_pipeline(out: pl.Out[pl.Tensor[[1], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        s = 0
        for i in pl.pipeline(4, 0, -1, stage=2):
            s = s + i
        out[0] = s


@pytest.mark.parametrize("loop", [pl.range(4, 0, -1), pl.unroll(4, 0, -1), pl.parallel(4, 0, -1)], ids=str)
def test_a_descending_loop_runs(loop):  # C63
    assert summing(loop)().tolist() == [10]


def test_a_descending_pipeline_runs():  # C63
    assert sums_down_in_a_pipeline().tolist() == [10]


@pytest.mark.parametrize(("start", "stop", "step"), [(4, 0, -1), (5, 0, -2), (0, 5, 2), (0, 4, -1), (4, 0, 1), (-3, 3, 3), (7, 7, -1)])
def test_run_time_bounds_count_as_pythons_range(start, stop, step):  # C63
    assert sums_indices(start, stop, step).tolist() == [sum(range(start, stop, step))]
    assert sums_indices.eager(start, stop, step).tolist() == [sum(range(start, stop, step))]


def test_a_step_of_zero_is_refused():  # C63
    refused("PL601", lambda: pl.range(0, 4, 0), at="pl.range(0, 4, 0)")  # refused


def test_a_step_that_is_zero_at_run_time_is_refused():  # C63
    untouched("PL308", sums_indices, 0, 4, 0, sevens(1, dtype=np.int32), at="pl.range(start, stop, step)")
    untouched("PL308", sums_indices.eager, 0, 4, 0, sevens(1, dtype=np.int32), at="pl.range(start, stop, step)")
