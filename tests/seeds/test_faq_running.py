"""The FAQ, Running: one test for each row, named after it."""

import json
import time

import numpy as np
import pytest

import pypto.language as pl
from pypto.errors import CallError, TaskError
from pypto.runtime import ChipWorker, RunConfig, TensorSpec, benchmark, run
from tests.kernels import runs
from tests.run_inputs import bits, normal

SPECS = [TensorSpec("x", [16, 64], pl.FP32), TensorSpec("out", [16, 64], pl.FP32, is_output=True)]


def test_why_is_runs_time_so_much_larger_than_the_kernel():
    """execution_time is total wall clock, golden and validation included; benchmark has the device and host split."""

    def slow_golden(x):
        time.sleep(0.2)
        return np.exp(x - x.max(1, keepdims=True)) / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)

    result = run(runs.softmax_rows, SPECS, slow_golden, RunConfig(rtol=1e-3, atol=1e-3))
    assert result.passed, result.error
    assert result.execution_time > 0.2 > result.profile["device"]
    stats = benchmark(result.compiled, [SPECS[0].make(), SPECS[1].make()], rounds=5, warmup=1)
    assert len(stats.device_wall_us) == len(stats.host_wall_us) == 5
    assert stats.device_us_median < 0.2e6


def test_why_does_passing_a_devicetensor_to_a_pl_jit_kernel_fail():
    """Calls of a kernel specialize on host arrays: dispatch a compiled program instead."""
    x = normal(16, 64)
    with ChipWorker() as worker:
        resident = worker.alloc_tensor((16, 64), pl.FP32, init=x)
        with pytest.raises(CallError) as caught:
            runs.softmax_rows(resident)
        assert caught.value.code == "PL602"
        assert "DeviceTensor" in caught.value.message and "dispatch a compiled program instead" in caught.value.fix
        assert bits(worker.run(runs.softmax_rows.compile(), resident)) == bits(runs.softmax_rows(x))


@pl.jit
def nested(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    for a in pl.range(1):
        for b in pl.range(1):
            for c in pl.range(1):
                for d in pl.range(1):
                    for _ in pl.unroll(6):
                        with pl.at(level=pl.Level.CORE_GROUP):
                            out[:] = x


@pl.jit
def flat(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    for _ in pl.unroll(6):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x


def test_a_capacity_error_names_a_ring_i_never_configured(tmp_path):
    """Ring choice follows scope depth, min(scope_depth, 3): a nested kernel fills ring 3, a flat one ring 0."""
    x = normal(8, 16)
    for kernel, ring in ((nested, 3), (flat, 0)):
        with pytest.raises(TaskError) as caught:
            kernel(x, config=RunConfig(ring_task_window=4))
        assert caught.value.code == "PL509" and f"ring {ring} " in caught.value.message
        compiled = kernel.compile()
        compiled.save(tmp_path / kernel.__name__)
        assert np.array_equal(compiled(x, config=RunConfig(enable_scope_stats=True)), x)
        stats = (compiled.output_dir / "dfx_outputs" / "scope_stats" / "scope_stats.jsonl").read_text()
        fullest = max(map(json.loads, stats.splitlines()), key=lambda row: row["tasks"])
        assert (fullest["ring"], fullest["tasks"]) == (ring, 6)
        sizes = [0, 0, 0, 0]
        sizes[ring] = 8
        assert np.array_equal(kernel(x, config=RunConfig(ring_task_window=sizes)), x)
