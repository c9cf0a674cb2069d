"""The run surface on programs of several functions, written as a class."""

import numpy as np
import pytest

import pypto.language as pl
from pypto import ir
from pypto.errors import CallError
from pypto.runtime import ChipWorker, CompiledProgram, RunConfig, TensorSpec, load, run
from tests.run_inputs import normal

SHAPE = [16, 32]


@pl.program
class AddTwice:
    @pl.function(type=pl.FunctionType.InCore)
    def add(self, a: pl.Tensor[SHAPE, pl.FP32], b: pl.Tensor[SHAPE, pl.FP32], out: pl.Out[pl.Tensor[SHAPE, pl.FP32]]):
        out[:] = pl.add(a, b)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, a: pl.Tensor[SHAPE, pl.FP32], b: pl.Tensor[SHAPE, pl.FP32], out: pl.Out[pl.Tensor[SHAPE, pl.FP32]]):
        t = pl.create_tensor(SHAPE, dtype=pl.FP32)
        t = self.add(a, b, t)
        out = self.add(t, b, out)
        return out


A, B = normal(16, 32), normal(16, 32, seed=1)
WANT = A + B + B
SPECS = [TensorSpec("a", SHAPE, pl.FP32), TensorSpec("b", SHAPE, pl.FP32), TensorSpec("out", SHAPE, pl.FP32, is_output=True)]


def test_a_program_class_compiles_runs_and_validates():
    compiled = ir.compile(AddTwice, platform="a2a3sim")
    assert isinstance(compiled, CompiledProgram) and compiled.param_names == ["a", "b", "out"]
    assert np.array_equal(compiled(A, B), WANT)
    assert compiled.validate_ir([A, B], {"out": WANT}, rtol=0, atol=0)


def test_a_program_class_is_saved_and_loaded(tmp_path):
    assert np.array_equal(load(ir.compile(AddTwice, output_dir=tmp_path / "p").output_dir)(A, B), WANT)


def test_a_program_class_runs_on_a_worker():
    with ChipWorker() as worker:
        resident = worker.alloc_tensor(SHAPE, pl.FP32, init=B)
        assert np.array_equal(worker.register(ir.compile(AddTwice))(A, resident), WANT)


def test_a_program_class_runs_against_a_golden():
    assert run(AddTwice, SPECS, lambda a, b: a + b + b, RunConfig(rtol=0, atol=0)).passed
    assert not run(AddTwice, SPECS, lambda a, b: a + b).passed


def test_a_call_of_a_program_class_takes_config():
    out = np.zeros(SHAPE, np.float32)
    AddTwice(A, B, out, config=RunConfig(platform="a5sim"))
    assert np.array_equal(out, WANT)


def test_a_stray_option_of_its_compile_points_to_config_too():
    with pytest.raises(CallError) as caught:
        AddTwice.compile(skip_ptoas=True)
    assert caught.value.code == "PL601" and "config=" in caught.value.fix
