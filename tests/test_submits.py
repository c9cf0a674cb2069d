"""Dispatches written as calls: `pl.submit`, `pl.spmd_submit`, `pl.no_dep`."""

from __future__ import annotations

import numpy as np
import pytest

import pypto.language as pl
from pypto.interpreters.dispatch import Task
from tests.everywhere import launches, same_everywhere, tasks_of, traced_error

Rows = pl.Tensor[[32, 64], pl.FP32]
X = np.random.default_rng(0).random((32, 64), np.float32)


@pl.jit.inline
def plain(x: pl.Tensor, out: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
    return out


@pl.jit.incore
def double(x: pl.Tensor, out: pl.Tensor):
    out[:] = pl.mul(x, 2.0)
    return out


@pl.jit.incore
def shift_rows(x: pl.Tensor, out: pl.Tensor):
    row = pl.tile.get_block_idx() * 8
    out[row : row + 8, :] = pl.adds(x[row : row + 8, :], 1.0)
    return out


@pl.jit.incore
def silent(x: pl.Tensor, out: pl.Tensor):
    out[:] = pl.mul(x, 2.0)


@pl.jit
def submitted(x: Rows, gate: pl.Tensor[[1], pl.INT32], out: pl.Out[Rows]):
    mid = pl.create_tensor([32, 64], dtype=pl.FP32)
    mid, first = pl.submit(double, x, mid, allow_early_resolve=True)
    out, _last = pl.spmd_submit(shift_rows, mid, out, core_num=4, deps=[first], predicate=(gate[0] > 0))


def test_a_submit_gives_the_kernel_s_results_and_the_task_s_id() -> None:
    same_everywhere(submitted, X, np.int32([1]), want=[X * 2 + 1])
    assert launches(submitted) == [
        "first = pl.submit(self.double, x, mid, allow_early_resolve=True)",
        "_last = pl.spmd_submit(self.shift_rows, mid, out, core_num=4, deps=[first], predicate=(v0 > 0))",
    ]
    assert tasks_of(submitted, X, np.int32([1])) == [Task(1, "double", ()), Task(2, "shift_rows", (1,), 4)]


@pl.jit
def left_out(x: Rows, out: pl.Out[Rows]):
    with pl.spmd(4) as tid:
        out = shift_rows(pl.no_dep(x), out)
    _result, _last = pl.submit(double, x, pl.no_dep(out))


def test_an_argument_marked_no_dep_is_left_out_of_the_dependencies_of_its_task() -> None:
    assert launches(left_out) == [
        "tid = pl.spmd_submit(self.left_out_incore, x, out, core_num=4, no_dep_args=[x])",
        "_last = pl.submit(self.double, x, out, no_dep_args=[out])",
    ]
    same_everywhere(left_out, X, want=[X * 2])


def no_kernel(x: Rows, out: pl.Out[Rows]):
    _result, _tid = pl.submit(plain, x, out)  # refused


def in_a_region(x: Rows, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        _result, _tid = pl.submit(double, x, out)  # refused


def no_count(x: Rows, out: pl.Out[Rows]):
    _result, _tid = pl.spmd_submit(shift_rows, x, out)  # refused


def no_result(x: Rows, out: pl.Out[Rows]):
    result, _tid = pl.submit(silent, x, out)  # refused
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.adds(result, 1.0)


def mark_of_an_inline(x: Rows, out: pl.Out[Rows]):
    out = plain(pl.no_dep(x), out)  # refused


MISUSED = {no_kernel: "PL504", in_a_region: "PL105", no_count: "PL601", no_result: "PL209", mark_of_an_inline: "PL504"}


@pytest.mark.parametrize("fn", MISUSED, ids=lambda f: f.__name__)
def test_a_submit_that_is_none_is_refused(fn) -> None:
    traced_error(MISUSED[fn], fn, pl.jit, lambda k: k.trace())


# In the class form


@pl.program
class Pipeline:
    @pl.function(type=pl.FunctionType.InCore)
    def stage1(self, x: Rows, out: pl.Out[Rows]):
        out[:] = pl.mul(x, 2.0)
        return out

    @pl.function(type=pl.FunctionType.InCore)
    def stage2(self, x: Rows, out: pl.Out[Rows]):
        row = pl.tile.get_block_idx() * 8
        out[row : row + 8, :] = pl.adds(x[row : row + 8, :], 1.0)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: Rows, out: pl.Out[Rows]):
        scratch = pl.create_tensor([32, 64], dtype=pl.FP32)
        with pl.manual_scope():
            scratch, tid = pl.submit(self.stage1, x, scratch)
            out, _ = pl.spmd_submit(self.stage2, scratch, out, core_num=4, deps=[tid])
        return out


@pl.program
class Dispatched:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, x: Rows, out: pl.Out[Rows]):
        row = pl.tile.get_block_idx() * 8
        out[row : row + 8, :] = pl.adds(x[row : row + 8, :], 1.0)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: Rows, out: pl.Out[Rows]):
        with pl.spmd(4):
            out = self.kernel(x, out)
        return out


def test_methods_of_a_program_are_submitted_and_dispatched() -> None:
    same_everywhere(Pipeline, X, want=[X * 2 + 1])
    same_everywhere(Dispatched, X, want=[X + 1])
    assert launches(Pipeline) == [
        "tid = pl.submit(self.stage1, x, scratch)",
        "_ = pl.spmd_submit(self.stage2, scratch, out, core_num=4, deps=[tid])",
    ]


@pl.jit.incore(level=pl.Level.AIV)
def says_of_itself(x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
    pl.func_attr({"windowize": True})
    out[:] = pl.adds(x, 1.0)
    return out


@pl.jit
def submits_what_says(x: pl.Tensor[[4, 8], pl.FP32], out: pl.InOut[pl.Tensor[[4, 8], pl.FP32]]):
    out, _one = pl.submit(says_of_itself, x, out)
    out, _all = pl.spmd_submit(says_of_itself, x, out, core_num=4)


@pl.jit
def calls_what_says(x: pl.Tensor[[4, 8], pl.FP32], out: pl.InOut[pl.Tensor[[4, 8], pl.FP32]]):
    says_of_itself(x, out)


def test_a_submitted_kernel_keeps_its_unit_and_what_it_says_of_itself():
    (plain,) = calls_what_says.lower().kernels
    assert dict(plain.options) == {"core": "AIV", "windowize": True}
    assert [k.options for k in submits_what_says.lower().kernels] == [plain.options, plain.options]
