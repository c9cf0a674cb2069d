"""Runs that are watched: rings with limits, statistics of scopes, dumps of arguments. Results stay the same."""

import json

import numpy as np
import pytest

import pypto.language as pl
from pypto.errors import CallError, TaskError
from pypto.runtime import ChipWorker, RunConfig
from tests.kernels import runs
from tests.refusals import sevens
from tests.run_inputs import THREE, arguments, bits, normal

X = normal(8, 16)


@pl.jit
def nested(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    t = pl.create_tensor([8, 16], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="first"):
        t[:] = x
    for i in pl.range(2):
        for j in pl.range(5):
            with pl.at(level=pl.Level.CORE_GROUP, name_hint="add"):
                t[:] = pl.adds(t, 1.0)
            with pl.at(level=pl.Level.CORE_GROUP, name_hint="sub"):
                t[:] = pl.subs(t, 1.0)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="last"):
        out[:] = t


@pl.jit
def flat(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    t = pl.create_tensor([8, 16], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        t[:] = x
    for _ in pl.unroll(6):
        with pl.at(level=pl.Level.CORE_GROUP):
            t[:] = pl.adds(t, 1.0)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = t


def filled(kernel, **limits):
    with pytest.raises(TaskError) as caught:
        kernel(X, sevens(8, 16), config=RunConfig(**limits))
    assert caught.value.code == "PL509"
    return caught.value


@pytest.mark.parametrize("kernel", THREE, ids=lambda k: k.__name__)
def test_watching_changes_no_bit(kernel, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = RunConfig(ring_task_window=16384, enable_scope_stats=True, enable_dump_args=2)
    assert bits(kernel(**arguments(kernel), config=config)) == bits(kernel(**arguments(kernel)))


def test_a_flat_kernel_fills_ring_0_and_the_error_names_it():
    error = filled(flat, ring_task_window=4)
    assert "ring 0 keeps at most 4 tasks (ring_task_window)" in error.message and "hold 5" in error.message
    assert error.source.file == __file__ and "pl.at" in error.source.text
    assert np.array_equal(np.asarray(flat(X, config=RunConfig(ring_task_window=8))), np.asarray(flat(X)))


def test_a_ring_is_free_again_when_a_scope_closes():
    nested(X, sevens(8, 16), config=RunConfig(ring_task_window=4))  # 22 tasks in all, 2 in each turn


@pytest.mark.parametrize("ring", range(4))
def test_the_ring_of_a_scope_is_its_depth_up_to_3(ring):
    @pl.jit
    def deep(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        for a in pl.range(1):
            for b in pl.range(1):
                for c in pl.range(1):
                    for d in pl.range(1):
                        with pl.at(level=pl.Level.CORE_GROUP):
                            out[:] = x
                        for _ in pl.unroll(7):
                            with pl.at(level=pl.Level.CORE_GROUP):
                                out[:] = pl.adds(x, 1.0)

    limits = [0, 0, 0, 0]
    limits[ring] = 4
    if ring == 3:
        assert "ring 3" in filled(deep, ring_task_window=limits).message
    else:
        deep(X, sevens(8, 16), config=RunConfig(ring_task_window=limits))


def test_buffers_fill_the_heap_of_their_ring():
    @pl.jit
    def two_buffers(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        for i in pl.range(3):
            a = pl.create_tensor([8, 16], dtype=pl.FP32)
            b = pl.create_tensor([8, 32], dtype=pl.FP32)
            with pl.at(level=pl.Level.CORE_GROUP):
                a[:] = x
                b[:, 0:16] = x
            with pl.at(level=pl.Level.CORE_GROUP):
                out[:] = pl.add(a, b[:, 0:16])

    error = filled(two_buffers, ring_heap=1024)
    assert "ring 1 keeps at most 1024 bytes" in error.message and "hold 1536" in error.message
    two_buffers(X, sevens(8, 16), config=RunConfig(ring_heap=2048))


def test_a_filled_ring_leaves_the_callers_array_alone():
    out = sevens(8, 16)
    with pytest.raises(TaskError):
        flat(X, out, config=RunConfig(ring_task_window=4))
    assert (out == -7).all()


def test_scope_statistics_say_what_each_scope_held(tmp_path):
    compiled = nested.compile()
    compiled.save(tmp_path / "program")
    with ChipWorker(config=RunConfig(enable_scope_stats=True)) as worker:
        worker.run(compiled, X)
    lines = (tmp_path / "program" / "dfx_outputs" / "scope_stats" / "scope_stats.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [(r["depth"], r["ring"], r["tasks"]) for r in rows] == [*[(2, 2, 2)] * 5, (1, 1, 0), *[(2, 2, 2)] * 5, (1, 1, 0), (0, 0, 2)]
    assert rows[-1]["bytes"] == 8 * 16 * 4 and rows[-1]["scope"] == "nested"
    assert all("test_observed.py:" in r["at"] for r in rows)


@pl.jit(auto_scope=False)
def by_hand(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    for i in pl.range(5):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x
        with pl.scope():
            for j in pl.unroll(2):
                with pl.at(level=pl.Level.CORE_GROUP):
                    out[:] = pl.adds(x, 1.0)
            with pl.manual_scope(), pl.at(level=pl.Level.CORE_GROUP):
                out[:] = pl.adds(x, 2.0)


def test_scopes_placed_by_hand_are_the_only_ones(tmp_path):
    compiled = by_hand.compile()
    compiled.save(tmp_path / "program")
    with ChipWorker(config=RunConfig(enable_scope_stats=True)) as worker:
        worker.run(compiled, X)
    lines = (tmp_path / "program" / "dfx_outputs" / "scope_stats" / "scope_stats.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [(r["scope"], r["depth"], r["tasks"]) for r in rows] == [*[("manual", 2, 1), ("auto", 1, 2)] * 5, ("by_hand", 0, 5)]
    assert "ring 0 keeps at most 4 tasks" in filled(by_hand, ring_task_window=[4, 0, 0, 0]).message


def test_arguments_of_every_launch_are_dumped_before_and_after(tmp_path):
    compiled = runs.product_and_bias.compile()
    compiled.save(tmp_path / "program")
    given = arguments(runs.product_and_bias)
    compiled(**{k: np.array(v) for k, v in given.items()}, config=RunConfig(enable_dump_args=2))
    folders = sorted((tmp_path / "program" / "dfx_outputs" / "args_dump").iterdir())
    assert [f.name for f in folders] == ["00000_product", "00001_epilogue"]
    before, after = (np.load(folders[1] / f"total_{when}.npy") for when in ("before", "after"))
    assert np.array_equal(before, given["total"])
    fresh = np.array(given["total"])
    runs.product_and_bias(**{**given, "total": fresh})
    assert np.array_equal(after, fresh)
    assert np.load(folders[0] / "a_before.npy").tobytes() == given["a"].tobytes()


@pl.jit
def marks_a_tensor(x: pl.Tensor[[8, 16], pl.FP32], y: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    t = pl.create_tensor([8, 16], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="first") as first:
        t[:] = pl.add(x, y)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="second", deps=[first], dumps=[t]) as second:
        out[:] = pl.muls(t, 2.0)


@pytest.mark.parametrize("level", [1, True])
def test_level_1_dumps_what_a_launch_names(level, tmp_path):
    compiled = marks_a_tensor.compile()
    compiled.save(tmp_path / "program")
    x, y = normal(8, 16), normal(8, 16, seed=1)
    assert np.array_equal(compiled(x, y, config=RunConfig(enable_dump_args=level)), (x + y) * 2)
    dumped = tmp_path / "program" / "dfx_outputs" / "args_dump"
    assert sorted(f.relative_to(dumped).as_posix() for f in dumped.rglob("*.npy")) == [
        "00001_second/t_after.npy",
        "00001_second/t_before.npy",
    ]
    assert np.array_equal(np.load(dumped / "00001_second" / "t_before.npy"), x + y)


def test_a_launch_with_dependencies_is_dumped_whole_at_level_2(tmp_path):
    compiled = marks_a_tensor.compile()
    compiled.save(tmp_path / "program")
    compiled(normal(8, 16), normal(8, 16), config=RunConfig(enable_dump_args=2))
    folder = tmp_path / "program" / "dfx_outputs" / "args_dump" / "00001_second"
    assert sorted(f.name for f in folder.iterdir()) == ["out_after.npy", "out_before.npy", "t_after.npy", "t_before.npy"]


@pytest.mark.parametrize("value", [3, -1, "all"])
def test_another_level_of_dumps_does_not_exist(value):
    with pytest.raises(CallError) as caught:
        RunConfig(enable_dump_args=value)
    assert caught.value.code == "PL606"
