"""benchmark: how long a compiled program takes, inside and around, launch by launch."""

import pytest

from pypto.errors import CallError
from pypto.runtime import BenchmarkStats, ChipWorker, RunConfig, benchmark
from tests.kernels import runs
from tests.refusals import sevens
from tests.run_inputs import bits, normal

X, Y = normal(64, 16), normal(64, 16, seed=1)
COMPILED = runs.scaled_sum.compile()


def measured(**options):
    return benchmark(COMPILED, [X, Y, 2.0, sevens(64, 16)], **options)


def refused(code, call, *args, **kwargs):
    with pytest.raises(CallError) as caught:
        call(*args, **kwargs)
    assert caught.value.code == code


def test_every_measured_launch_has_a_device_and_a_host_time():
    stats = measured(rounds=7, warmup=2)
    assert isinstance(stats, BenchmarkStats)
    assert (stats.rounds, stats.warmup, len(stats.invocations)) == (7, 2, 7)
    assert len(stats.device_wall_us) == len(stats.host_wall_us) == 7
    assert all(0 < device < host for device, host in zip(stats.device_wall_us, stats.host_wall_us, strict=True))
    assert not stats.all_zero_device


def test_the_time_of_the_device_is_labelled_as_this_cpus():
    stats = measured(rounds=2)
    assert "CPU" in stats.device
    assert stats.device in str(stats) and stats.device in stats.format_tree(0)


def test_the_statistics_are_those_of_the_samples():
    stats = BenchmarkStats(device_wall_us=[1.0, 2.0, 6.0], host_wall_us=[2.0, 3.0, 7.0], rounds=3)
    assert (stats.device_us_min, stats.device_us_median, stats.device_us_mean, stats.device_us_max) == (1, 2, 3, 6)
    assert stats.device_us_stdev == pytest.approx(7**0.5)  # a square root in FP64: not one rounding of ours
    assert stats.device_wall_us_median == stats.device_us_median and stats.samples == stats.device_wall_us
    assert stats.per_round("host") == [2.0, 3.0, 7.0] and stats.per_round() == [1.0, 2.0, 6.0]
    for series in (stats.per_round, stats.per_rank, stats.per_dispatch):
        refused("PL606", series, "union")


def test_what_belongs_to_programs_of_several_ranks_is_refused():
    stats = BenchmarkStats(device_wall_us=[1.0], host_wall_us=[2.0], rounds=1)
    for series in (stats.per_rank, stats.per_dispatch, stats.dispatch_groups, stats.dispatch_tasks):
        refused("PL607", series)


def test_trees_show_the_parts_of_a_launch():
    stats = measured(rounds=3)
    for text in (stats.format_tree(0), stats.format_mean_tree("both")):
        for part in ("chip.run", "bind", "device_wall [dev]", "copy_back"):
            assert part in text
    assert stats.format_tree().count("chip.run") == 3
    assert "±" in stats.format_mean_tree() and "±" not in stats.format_mean_tree("none")
    refused("PL606", stats.format_mean_tree, "all")


def test_the_parts_of_a_launch_add_up_to_it():
    for one in measured(rounds=3).invocations:
        parts = one.by_name()
        assert sum(s.dur_us for name, s in parts.items() if name != "chip.run") == pytest.approx(parts["chip.run"].dur_us)


def test_the_results_of_a_launch_are_those_of_a_call():
    out = sevens(64, 16)
    benchmark(COMPILED, [X, Y, 2.0, out], rounds=1, warmup=0)
    assert bits(out) == bits(runs.scaled_sum(X, Y, 2.0))


def test_the_compiled_executor_runs_unless_the_config_says_otherwise():
    expected = COMPILED.program.compiled.executor
    assert measured(rounds=1).executor.split(":")[0] == expected
    assert measured(rounds=1, config=RunConfig(executor="reference")).executor == "reference"
    assert measured(rounds=1, config=RunConfig(check=True)).executor == "reference"


@pytest.mark.parametrize("options", [{"executor": "cpu"}, {"check": False}, {"executor": "cpu", "check": False}], ids=str)
def test_the_compiled_executor_is_measured_whichever_half_of_it_the_config_names(options):
    assert COMPILED.program.compiled.executor == "cpu"
    assert measured(rounds=1, config=RunConfig(**options)).executor == "cpu"


@pytest.mark.parametrize("options", [{"check": True}, {"ring_task_window": 16384}], ids=str)
def test_what_the_compiled_executor_cannot_do_is_named_beside_the_one_that_ran(options):
    found = measured(rounds=1, config=RunConfig(executor="cpu", **options)).executor
    assert found.startswith("reference: ")


def test_resident_tensors_are_measured_on_their_worker():
    with ChipWorker() as worker:
        resident, out = worker.alloc_tensor(X.shape, "FP32", init=X), worker.alloc_tensor(X.shape, "FP32")
        stats = benchmark(COMPILED, [resident, Y, 2.0, out], rounds=3)
        assert len(stats.samples) == 3 and bits(out.numpy()) == bits(runs.scaled_sum(X, Y, 2.0))
        assert worker.initialized, "the worker is the caller's to close"


def test_a_benchmark_of_nothing_and_of_no_program_is_refused():
    refused("PL601", measured, rounds=0)
    refused("PL601", measured, warmup=-1)
    refused("PL601", benchmark, runs.scaled_sum, [])


def test_a_benchmark_on_another_platform_is_refused():
    refused("PL610", measured, platform="a5sim")
    refused("PL606", measured, platform="a5sim", config=RunConfig())
