"""RunConfig: every field acts or is refused, and what each does."""

import dataclasses

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import backend, ir
from pypto.errors import CallError, PyptoWarning
from pypto.runtime import (
    BackendType,
    DiagnosticPhase,
    DistributedConfig,
    MemoryPlanner,
    RunConfig,
)
from tests.kernels import runs
from tests.refusals import f32, reports, sevens
from tests.run_inputs import normal

X = normal(8, 16)


def refused(code, call, *args, **kwargs):
    with pytest.raises(CallError) as caught:
        call(*args, **kwargs)
    assert caught.value.code == code, caught.value
    return caught.value


ACTS = {
    "platform": "a5sim",
    "device_id": 3,
    "rtol": 0.1,
    "atol": 0.1,
    "strategy": ir.OptimizationStrategy.Default,
    "backend_type": BackendType.Ascend910B,
    "dump_passes": True,
    "save_kernels": True,
    "save_kernels_dir": "kept",
    "codegen_only": True,
    "compile_profiling": True,
    "diagnostic_phase": DiagnosticPhase.NONE,
    "disabled_diagnostics": {"PL204"},
    "golden_data_dir": "data",
    "enable_dump_args": 2,
    "enable_scope_stats": True,
    "ring_task_window": [16, 0, 16, 16],
    "ring_heap": 1024,
    "analyze_auto_scopes_for_deps": True,
    "memory_planner": MemoryPlanner.PYPTO,
    "check": False,
    "executor": "cpu",
    "verify": True,
}
CANNOT = {
    "enable_chip_swimlane": (1, 4, True),
    "enable_pmu": (2,),
    "enable_dep_gen": (True,),
    "aicpu_thread_num": (2,),
    "ring_dep_pool": (5, [5, 5, 5, 5]),
    "distributed_config": (DistributedConfig(),),
    "dump_ptoas_passes": (True,),
}


def test_every_field_acts_or_is_refused():
    assert {f.name for f in dataclasses.fields(RunConfig)} == set(ACTS) | set(CANNOT)


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in CANNOT.items() for value in values])
def test_a_field_that_cannot_act_is_refused_with_the_reason(field, value):
    error = refused("PL607", RunConfig, **{field: value})
    assert field in error.message and ": " in error.message


@pytest.mark.parametrize("field", ACTS)
def test_a_field_that_acts_is_accepted(field):
    extra = {"save_kernels": True} if field == "save_kernels_dir" else {}
    RunConfig(**{field: ACTS[field]}, **extra)


@pytest.mark.parametrize(
    "fields",
    [
        {"platform": "a9"},
        {"device_id": -1},
        {"device_id": True},
        {"rtol": -1e-5},
        {"atol": float("nan")},
        {"strategy": "Default"},
        {"backend_type": "Ascend910B"},
        {"platform": "a5sim", "backend_type": BackendType.Ascend910B},
        {"dump_passes": "all"},
        {"disabled_diagnostics": {"PL999"}},
        {"executor": "gpu"},
        {"save_kernels_dir": "kept"},
        {"ring_task_window": 15},
        {"ring_task_window": [16, 16]},
        {"ring_heap": 1000},
        {"ring_dep_pool": 2**31},
    ],
    ids=str,
)
def test_a_value_that_does_not_exist_is_refused(fields):
    refused("PL606", RunConfig, **fields)


def test_an_unknown_field_is_a_type_error():
    with pytest.raises(TypeError):
        RunConfig(plattform="a5")  # type: ignore[call-arg]


def test_the_platform_in_force_is_the_default_and_the_back_end_follows():
    assert RunConfig().platform == "a2a3sim"
    with pypto.override(platform="a5"):
        assert RunConfig().platform == "a5"
    assert RunConfig(backend_type=BackendType.Ascend950).platform == "a5sim"


def test_set_backend_type_is_the_default_of_its_context_only():
    assert not backend.is_backend_configured()
    backend.set_backend_type(BackendType.Ascend950)
    try:
        assert backend.get_backend_type() is BackendType.Ascend950
        assert runs.softmax_rows.compile().platform == "a5sim"
    finally:
        backend.reset_for_testing()
    assert runs.softmax_rows.compile().platform == "a2a3sim"
    refused("PL606", backend.set_backend_type, "Ascend950")


@pl.jit
def writes_half(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:4] = x[0:4]


def test_a_silenced_diagnostic_is_silent_and_others_are_not():
    with reports("PL204"):
        writes_half(X, sevens(8, 16), config=RunConfig(disabled_diagnostics={"PL203"}))
    with reports():
        writes_half(X, sevens(8, 16), config=RunConfig(disabled_diagnostics={"PL204"}))
        writes_half(X, sevens(8, 16), config=RunConfig(diagnostic_phase=DiagnosticPhase.NONE))


def test_a_warning_stays_a_warning_of_the_users_line():
    with pytest.warns(PyptoWarning) as caught:
        ir.compile(writes_half)(X, sevens(8, 16))
    assert caught[0].filename == __file__


def test_check_and_executor_are_those_of_the_config():
    with reports("PL204"):
        out = sevens(8, 16)
        writes_half(X, out, config=RunConfig(check=False, executor="cpu"))
    assert np.array_equal(out[:4], X[:4]) and (out[4:] == -7).all()


def test_a_config_that_names_another_platform_does_not_run_the_program():
    error = refused("PL610", runs.softmax_rows.compile(), f32(X), config=RunConfig(platform="a5sim"))
    assert "a2a3sim" in error.message and "a5sim" in error.message
