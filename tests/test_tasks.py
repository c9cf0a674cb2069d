"""Tasks: their ids, what they wait for, what they are asked, and how they are recorded."""

from __future__ import annotations

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import config
from pypto.errors import PyptoError
from pypto.interpreters.dispatch import Task
from tests.everywhere import launches, same_everywhere, tasks_of
from tests.refusals import refused

Rows = pl.Tensor[[32, 64], pl.FP32]
X = np.random.default_rng(0).random((32, 64), np.float32)


# Ids and dependencies


@pl.jit
def two_stages(x: Rows, out: pl.Out[Rows]):
    scratch = pl.create_tensor([32, 64], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="double") as first:
        scratch[:] = pl.add(x, x)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="square", deps=[first]) as second:
        out[:] = pl.mul(scratch, scratch)


def test_a_task_waits_for_the_ids_in_its_deps() -> None:
    same_everywhere(two_stages, X, want=[(X + X) * (X + X)])
    assert tasks_of(two_stages, X) == [Task(1, "double", ()), Task(2, "square", (1,))]


def test_the_program_shows_ids_and_dependencies() -> None:
    assert launches(two_stages) == [
        "first = pl.submit(self.double, x, scratch)",
        "second = pl.submit(self.square, scratch, out, deps=[first])",
    ]


@pl.jit
def fan_in(x: Rows, out: pl.Out[Rows]):
    scratch = pl.create_tensor([32, 64], dtype=pl.FP32)
    tids = pl.array.create(4, pl.TASK_ID)
    for i in pl.range(4):
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="part") as tid:
            scratch[i * 8 : i * 8 + 8, :] = pl.mul(x[i * 8 : i * 8 + 8, :], 2.0)
        tids[i] = tid
    ready = pl.system.task_dummy(deps=[tids])
    with pl.spmd(2, name_hint="all", deps=[ready, [tids[i] for i in range(2)], None]) as last:
        block = pl.tile.get_block_idx()
        out[block * 16 : block * 16 + 16, :] = pl.adds(scratch[block * 16 : block * 16 + 16, :], 1.0)


def test_an_array_of_ids_names_every_task_of_a_loop_and_lists_are_taken_apart() -> None:
    same_everywhere(fan_in, X, want=[X * 2 + 1])
    *parts, dummy, last = tasks_of(fan_in, X)
    assert [t.id for t in parts] == [1, 2, 3, 4] and dummy == Task(5, "dummy", (1, 2, 3, 4)) and last == Task(6, "all", (5, 1, 2), 2)


@pl.jit.inline
def noted(tids: pl.Array[2, pl.TASK_ID], x: pl.Tensor, out: pl.Tensor, after: pl.Scalar[pl.TASK_ID]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="inner", deps=[after]) as tid:
        out[:] = pl.mul(x, 3.0)
    tids[0] = tid
    return tid


@pl.jit
def through_inlines(x: Rows, out: pl.Out[Rows]):
    mid = pl.create_tensor([32, 64], dtype=pl.FP32)
    tids = pl.array.create(2, pl.TASK_ID)
    start = pl.system.task_dummy(deps=[])
    tid = noted(tids, x, mid, start)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="outer", deps=[tids, tid]) as end:
        out[:] = pl.mul(mid, 2.0)


def test_inlines_take_ids_and_arrays_of_them_write_the_caller_s_array_and_return_ids() -> None:
    same_everywhere(through_inlines, X, want=[X * 3 * 2])
    assert [(t.name, t.deps) for t in tasks_of(through_inlines, X)] == [("dummy", ()), ("inner", (1,)), ("outer", (2,))]


@pl.jit
def chain(x: Rows, out: pl.InOut[Rows]):
    last = pl.system.task_invalid()
    for i in pl.range(3):
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="step", deps=[last]) as tid:
            out[:] = pl.add(out, x)
        last = tid


def test_an_id_is_carried_round_a_loop_and_no_task_is_waited_for_at_first() -> None:
    out = np.zeros_like(X)
    assert [t.deps for t in tasks_of(chain, X, out)] == [(), (1,), (2,)]
    assert np.array_equal(chain(X, out), X + X + X)


@pl.jit
def chosen(x: Rows, n: pl.Scalar[pl.INT32], out: pl.InOut[Rows]):
    tids = pl.array.create(1, pl.TASK_ID)
    if n > 0:
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="maybe") as tid:
            out[:] = pl.add(out, x)
        tids[0] = tid
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="then", deps=[tids]) as end:
        out[:] = pl.mul(out, 2.0)


@pytest.mark.parametrize("n, deps", [(1, (1,)), (0, ())])
def test_an_element_of_an_array_that_nobody_wrote_is_the_id_of_no_task(n: int, deps: tuple[int, ...]) -> None:
    assert tasks_of(chosen, X, n, np.zeros_like(X))[-1].deps == deps


@pl.jit
def valid_ids(out: pl.Out[pl.Tensor[[2], pl.INT32]]):
    tids = pl.array.create(2, pl.TASK_ID)
    tids[0] = pl.system.task_dummy(deps=[])
    tids[1] = None
    for i in pl.range(2):
        if pl.system.task_is_valid(tids[i]):
            out[i] = 1
        else:
            out[i] = 0


def test_an_id_is_valid_if_it_names_a_task_and_none_is_the_id_of_no_task() -> None:
    same_everywhere(valid_ids, want=[np.int32([1, 0])])


@pl.jit
def dead_results(x: Rows, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP) as never_read:
        out[:] = x
    unused = pl.system.task_dummy(deps=[never_read])


def test_a_task_whose_id_nobody_reads_stays() -> None:
    assert [t.name for t in tasks_of(dead_results, X)] == ["dead_results_incore", "dummy"]


# What names no task


def in_a_list(x: Rows, out: pl.Out[Rows]):
    tids = []
    for i in pl.range(2):
        with pl.at(level=pl.Level.CORE_GROUP) as tid:
            out[i * 16 : i * 16 + 16, :] = x[i * 16 : i * 16 + 16, :]
        tids.append(tid)
    done = pl.system.task_dummy(deps=tids)  # refused


def test_collecting_ids_in_a_python_list_is_refused_with_the_array_to_use_instead() -> None:
    error = refused("PL110", pl.jit(in_a_list).trace, at="pl.system.task_dummy(deps=tids)")
    assert "pl.array.create(n, pl.TASK_ID)" in error.fix and "tids[i] = tid" in error.fix


@pl.jit
def unrolled_list(x: Rows, out: pl.Out[Rows]):
    tids = []
    for i in pl.unroll(2):
        with pl.at(level=pl.Level.CORE_GROUP) as tid:
            out[i * 16 : i * 16 + 16, :] = x[i * 16 : i * 16 + 16, :]
        tids.append(tid)
    done = pl.system.task_dummy(deps=tids)


def test_a_list_of_an_unrolled_loop_is_a_list_of_ids() -> None:
    assert tasks_of(unrolled_list, X)[-1].deps == (1, 2)


def a_tensor(x: Rows, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP, deps=[x]) as tid:  # refused
        out[:] = x


def a_number(x: Rows, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP, deps=[1]) as tid:  # refused
        out[:] = x


def no_list(x: Rows, out: pl.Out[Rows]):
    start = pl.system.task_dummy(deps=[])
    with pl.at(level=pl.Level.CORE_GROUP, deps=start) as tid:  # refused
        out[:] = x


def a_number_in_an_array(x: Rows, out: pl.Out[Rows]):
    tids = pl.array.create(1, pl.TASK_ID)
    tids[0] = 3  # refused
    with pl.at(level=pl.Level.CORE_GROUP, deps=[tids]) as tid:
        out[:] = x


def a_count(x: Rows, out: pl.Out[Rows]):
    counts = pl.array.create(4, pl.INT32)
    done = pl.system.task_dummy(deps=[counts])  # refused
    with pl.at(level=pl.Level.CORE_GROUP, deps=[done]) as tid:
        out[:] = x


NO_TASKS = {
    a_tensor: "pl.at(level=pl.Level.CORE_GROUP, deps=[x])",
    a_number: "pl.at(level=pl.Level.CORE_GROUP, deps=[1])",
    no_list: "pl.at(level=pl.Level.CORE_GROUP, deps=start)",
    a_number_in_an_array: "tids[0]",
    a_count: "pl.system.task_dummy(deps=[counts])",
}


@pytest.mark.parametrize("body", NO_TASKS, ids=lambda f: f.__name__)
def test_a_dependency_that_names_no_task_is_refused(body) -> None:
    refused("PL503", pl.jit(body).trace, at=NO_TASKS[body])


@pl.jit
def later(x: Rows, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP, deps=[second]) as first:  # noqa: F821  # refused
        out[:] = x
    with pl.at(level=pl.Level.CORE_GROUP) as second:
        out[:] = x


def test_a_dependency_on_a_later_task_is_a_name_without_a_value() -> None:
    refused("PL111", later.trace, at="second")


def itself(x: Rows, out: pl.Out[Rows]):
    with pl.spmd(2) as tid:
        block = pl.tile.get_block_idx()
        out[block * 16 : block * 16 + 16, :] = pl.adds(x[block * 16 : block * 16 + 16, :], tid)  # refused


def test_a_task_has_no_id_inside_its_own_body() -> None:
    with pytest.raises(PyptoError) as caught:
        pl.jit(itself).trace()
    assert caught.value.code == "PL111" and caught.value.source.text.endswith("# refused")


def computed(x: Rows, out: pl.Out[Rows]):
    tid = pl.system.task_dummy(deps=[])
    out[0, 0] = tid + 1  # refused


def test_ids_are_no_numbers() -> None:
    with pytest.raises(PyptoError) as caught:
        pl.jit(computed).trace()
    assert caught.value.code == "PL305" and caught.value.source.text.endswith("# refused")


# What a task is asked


@pl.jit
def gated(gate: pl.Tensor[[2], pl.INT32], x: Rows, out: pl.InOut[Rows]):
    for e in pl.range(2):
        with pl.spmd(2, name_hint="half", predicate=(gate[e] > 0)) as tid:
            block = pl.tile.get_block_idx()
            row = e * 16 + block * 8
            out[row : row + 8, :] = pl.add(out[row : row + 8, :], x[row : row + 8, :])


@pytest.mark.parametrize("gate", [[0, 1], [1, 0], [1, 1], [0, 0], [-1, 5]])
def test_a_task_with_a_false_predicate_is_skipped(gate: list[int]) -> None:
    runs = np.repeat(np.array(gate) > 0, 16)[:, None]
    want = np.where(runs, X + X, X)
    same_everywhere(gated, np.int32(gate), X, X.copy(), want=[want])
    assert [t.skipped for t in tasks_of(gated, np.int32(gate), X, X.copy())] == [g <= 0 for g in gate]


def arithmetic(gate: pl.Tensor[[2], pl.INT32], x: Rows, out: pl.Out[Rows]):
    for i in pl.spmd(2, predicate=(gate[0] + 1 > 0)):  # refused
        out[i * 16 : i * 16 + 16, :] = x[i * 16 : i * 16 + 16, :]


def two_tests(gate: pl.Tensor[[2], pl.INT32], x: Rows, out: pl.Out[Rows]):
    for i in pl.spmd(2, predicate=(gate[0] > 0 and gate[1] > 0)):  # refused
        out[i * 16 : i * 16 + 16, :] = x[i * 16 : i * 16 + 16, :]


def python_value(gate: pl.Tensor[[2], pl.INT32], x: Rows, out: pl.Out[Rows]):
    for i in pl.spmd(2, predicate=True):  # refused
        out[i * 16 : i * 16 + 16, :] = x[i * 16 : i * 16 + 16, :]


def between_elements(gate: pl.Tensor[[2], pl.INT32], x: Rows, out: pl.Out[Rows]):
    for i in pl.spmd(2, predicate=(gate[0] > gate[1])):  # refused
        out[i * 16 : i * 16 + 16, :] = x[i * 16 : i * 16 + 16, :]


@pytest.mark.parametrize("body", [arithmetic, two_tests, python_value, between_elements], ids=lambda f: f.__name__)
def test_a_predicate_is_one_comparison_of_an_element_with_an_integer(body) -> None:
    with pytest.raises(PyptoError) as caught:
        pl.jit(body).trace()
    assert caught.value.code == "PL504" and caught.value.source.text.endswith("# refused")


@pl.jit
def asks(x: Rows, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="a", no_dep_args=[out], dumps=[x], allow_early_resolve=True) as tid:
        out[:] = x
    with pl.spmd(2, name_hint="b", sync_start=True, allow_early_resolve=True, deps=[tid], no_dep_args=[x, out]) as end:
        block = pl.tile.get_block_idx()
        out[block * 16 : block * 16 + 16, :] = x[block * 16 : block * 16 + 16, :]


def test_what_a_task_is_asked_is_kept_and_shown() -> None:
    assert launches(asks) == [
        "tid = pl.submit(self.a, x, out, no_dep_args=[out], dumps=[x], allow_early_resolve=True)",
        "end = pl.spmd_submit(self.b, x, out, core_num=2, deps=[tid], no_dep_args=[x, out], sync_start=True, allow_early_resolve=True)",
    ]
    same_everywhere(asks, X, want=[X])


def deps_of_a_loop(x: Rows, out: pl.Out[Rows]):
    start = pl.system.task_dummy(deps=[])
    for i in pl.spmd(2, deps=[start]):  # refused
        out[i * 16 : i * 16 + 16, :] = x[i * 16 : i * 16 + 16, :]


def deps_without_a_name(x: Rows, out: pl.Out[Rows]):
    start = pl.system.task_dummy(deps=[])
    with pl.spmd(2, deps=[start]):  # refused
        i = pl.tile.get_block_idx()
        out[i * 16 : i * 16 + 16, :] = x[i * 16 : i * 16 + 16, :]


def predicate_of_a_region(x: Rows, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP, predicate=(x[0, 0] > 0)):  # refused
        out[:] = x


def ids_left_out(x: Rows, out: pl.Out[Rows]):
    start = pl.system.task_dummy(deps=[])
    with pl.at(level=pl.Level.CORE_GROUP, no_dep_args=[start]):  # refused
        out[:] = x


def part_with_deps(x: Rows, out: pl.Out[Rows]):
    start = pl.system.task_dummy(deps=[])
    with pl.at(level=pl.Level.CORE_GROUP), pl.at(level=pl.Level.CORE_GROUP, deps=[start]):  # refused
        out[:] = x


def ids_in_a_region(x: Rows, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        tids = pl.array.create(2, pl.TASK_ID)  # refused
        out[:] = x


@pytest.mark.parametrize(
    "body",
    [deps_of_a_loop, deps_without_a_name, predicate_of_a_region, ids_left_out, part_with_deps, ids_in_a_region],
    ids=lambda f: f.__name__,
)
def test_what_cannot_be_had_where_it_is_asked_for_is_refused(body) -> None:
    with pytest.raises(PyptoError) as caught:
        pl.jit(body).trace()
    assert caught.value.code == "PL504" and caught.value.source.text.endswith("# refused")


# Tensors whose dependencies are the author's


@pl.jit
def manual(x: Rows, out: pl.Out[Rows]):
    mine = pl.create_tensor([32, 64], dtype=pl.FP32, manual_dep=True)
    with pl.at(level=pl.Level.CORE_GROUP) as tid:
        mine[:] = x
    with pl.at(level=pl.Level.CORE_GROUP, deps=[tid]) as end:
        out[:] = mine


def test_a_tensor_without_derived_dependencies_says_so_in_the_program() -> None:
    (alloc,) = [e for e in manual.lower().orchestration.walk() if e.op.name == "alloc"]
    assert alloc.params["manual_dep"] is True and "manual_dep" in str(manual.lower())
    same_everywhere(manual, X, want=[X])


def test_a_kernel_of_tasks_runs_the_same_under_the_verifier() -> None:
    with pypto.override(verify=True):
        assert np.array_equal(fan_in(X), X * 2 + 1)
    assert config.current().verify is False
