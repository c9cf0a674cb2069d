"""pypto.runtime.run: specs and a golden in, a verdict out; saved data; both conventions."""

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import pypto.language as pl
from pypto.errors import CallError, NumericsError
from pypto.runtime import ChipWorker, CompiledProgram, RunConfig, RunResult, ScalarSpec, TensorSpec, load, run, run_jit, write_golden
from pypto.testing import ratio_allclose
from tests.kernels import runs
from tests.refusals import reports, sevens
from tests.run_inputs import normal

BF16 = ml_dtypes.bfloat16


@pl.jit
def scaled(x: pl.Tensor[[8, 16], pl.FP32], s: pl.Scalar[pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.muls(x, s)


@pl.jit
def accumulated(x: pl.Tensor[[8, 16], pl.FP32], total: pl.InOut[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total[:] = pl.add(total, x)


@pl.jit
def half(x: pl.Tensor[[8, 16], pl.FP16], out: pl.Out[pl.Tensor[[8, 16], pl.FP16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mul(x, x)


@pl.jit
def moved(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x


SPECS = [TensorSpec("x", [8, 16], pl.FP32), ScalarSpec("s", pl.FP32, 3.0), TensorSpec("out", [8, 16], pl.FP32, output=True)]
ADDED = [TensorSpec("x", [8, 16], pl.FP32), TensorSpec("total", [8, 16], pl.FP32, inout=True)]
HALF = [TensorSpec("x", [8, 16], pl.FP16, init=0.1), TensorSpec("out", [8, 16], pl.FP16, output=True)]


def refused(code, call, *args, **kwargs):
    with pytest.raises((NumericsError, CallError)) as caught:
        call(*args, **kwargs)
    assert caught.value.code == code, caught.value
    return caught.value


# The verdict


def test_a_right_kernel_passes_and_says_where_the_time_went():
    result = run(scaled, SPECS, lambda x, s: x * np.float32(s), RunConfig(executor="reference", check=True))
    assert isinstance(result, RunResult) and result.passed and result.error is None and result.checked
    assert result.execution_time >= sum(result.profile[part] for part in ("compile", "golden", "run", "compare"))
    assert result.profile["device"] <= result.profile["run"] and result.profile["executor"] == "reference"
    assert "all 128 elements" in result.reports["out"]
    assert str(result).startswith("PASS")


def test_a_wrong_golden_fails_with_the_report():  # C85
    result = run(scaled, SPECS, lambda x, s: x * np.float32(s) + 2, test_name="off by two")
    assert not result.passed
    assert "128 of 128 elements differ (100.000%)" in result.error
    assert str(result).startswith("FAIL off by two")


def test_an_inout_starts_from_its_input_and_the_golden_gets_it():
    assert run(accumulated, ADDED, lambda x, total: total + x).passed
    assert not run(accumulated, ADDED, lambda x, total: x).passed


def test_a_golden_that_changes_what_it_was_given_changes_nothing_else():
    def golden(x, s):
        x *= np.float32(s)
        return x

    assert run(scaled, SPECS, golden).passed


def test_a_golden_that_returns_memory_of_the_inputs_is_refused():
    kept = []

    def init(rng, shape):
        kept.append(np.zeros(shape, np.float32))
        return kept[0]

    specs = [TensorSpec("x", [8, 16], pl.FP32, init=np.zeros((8, 16), np.float32)), *SPECS[1:]]
    assert run(scaled, specs, lambda x, s: x).passed  # its own copy: fine


def test_without_a_golden_nothing_is_compared_and_the_result_says_so():
    result = run(scaled, SPECS)
    assert result.passed and not result.checked and "not compared" in str(result)
    assert np.array_equal(result.actual["out"], SPECS[0].make() * 3)


@pytest.mark.parametrize("executor", ["reference", "cpu"])
def test_both_executors_pass(executor):
    result = run(scaled, SPECS, lambda x, s: x * np.float32(s), RunConfig(executor=executor, check=executor == "reference"))
    assert result.passed and result.profile["executor"] == executor


def test_a_golden_may_be_named_by_its_jax_name():
    specs = [TensorSpec("x", [16, 64], pl.FP32), TensorSpec("out", [16, 64], pl.FP32, output=True)]
    assert run(exponential, specs, "jax.numpy.exp").passed


@pl.jit
def exponential(x: pl.Tensor[[16, 64], pl.FP32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.exp(x)


def test_compiled_and_lowered_programs_run_too():
    for program in (scaled.compile(), scaled.lower()):
        assert run(program, SPECS, lambda x, s: x * np.float32(s)).passed


def test_tensors_in_place_of_specs_run_once_and_give_the_program():
    x, out = normal(8, 16), sevens(8, 16)
    compiled = run(scaled, x, 2.0, out, config=RunConfig())
    assert isinstance(compiled, CompiledProgram)
    assert np.array_equal(out, x * 2)


def test_codegen_only_stops_before_the_run():
    result = run(scaled, SPECS, lambda x, s: 1 / 0, RunConfig(codegen_only=True))
    assert result.passed and not result.checked and result.compiled.name == "scaled" and not result.actual


# Saved inputs and goldens


def golden_in_place(values):
    values["out"][:] = values["x"] * np.float32(values["s"])


def test_data_is_saved_by_the_first_run_and_used_by_the_next(tmp_path):
    config = RunConfig(golden_data_dir=tmp_path / "data")
    first = run(scaled, SPECS, lambda x, s: x * np.float32(s), config)
    assert first.profile["data"] == "saved"
    second = run(scaled, SPECS, lambda x, s: 1 / 0, config, seed=9)
    assert second.passed and second.profile["data"] == "found"
    assert np.array_equal(second.actual["out"], first.actual["out"])


def test_write_golden_records_a_reference_for_later_runs(tmp_path):
    where = write_golden([SPECS[0], SPECS[2]], golden_in_place, tmp_path / "golden.py", scalar_specs=[SPECS[1]], rtol=1e-6)
    assert where == tmp_path / "data" and json.loads((where / "data.json").read_text())["rtol"] == 1e-6
    assert run(scaled, SPECS, config=RunConfig(golden_data_dir=where)).checked
    assert write_golden([SPECS[0], SPECS[2]], golden_in_place, tmp_path / "elsewhere", scalar_specs=[SPECS[1]]) == tmp_path / "elsewhere"


@pytest.mark.parametrize("dtype", [pl.BF16, pl.FP16, pl.FP8E4M3FN, pl.INT8], ids=repr)
def test_every_dtype_is_saved_bit_for_bit(dtype, tmp_path):
    specs = [TensorSpec("x", [8, 16], dtype), TensorSpec("y", [8, 16], dtype, output=True)]
    where = write_golden(specs, lambda values: np.copyto(values["y"], values["x"]), tmp_path)
    from pypto.runtime import saved

    data = saved.read(where, specs)
    assert data.inputs["x"].dtype == dtype.storage
    assert data.expected["y"].tobytes() == data.inputs["x"].tobytes() == specs[0].make().tobytes()


DAMAGES = {
    "no index": lambda d: (d / "data.json").write_text("{"),
    "another format": lambda d: (d / "data.json").write_text('{"format": "x"}'),
    "a truncated array": lambda d: (d / "in/x.npy").write_bytes((d / "in/x.npy").read_bytes()[:-4]),
    "a missing array": lambda d: (d / "out/out.npy").unlink(),
    "a changed element": lambda d: (d / "out/out.npy").write_bytes((d / "out/out.npy").read_bytes()[:-1] + b"\x7f"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_data_is_refused_by_name(damage, tmp_path):
    write_golden([SPECS[0], SPECS[2]], golden_in_place, tmp_path, scalar_specs=[SPECS[1]])
    DAMAGES[damage](tmp_path)
    assert str(tmp_path) in refused("PL702", run, scaled, SPECS, config=RunConfig(golden_data_dir=tmp_path)).message


def test_data_of_other_specs_is_refused(tmp_path):
    write_golden([SPECS[0], SPECS[2]], golden_in_place, tmp_path, scalar_specs=[SPECS[1]])
    refused("PL702", run, half, HALF, config=RunConfig(golden_data_dir=tmp_path))
    refused("PL702", run, accumulated, ADDED, config=RunConfig(golden_data_dir=tmp_path))


def test_what_is_kept_can_be_loaded(tmp_path):
    kept = RunConfig(save_kernels=True, save_kernels_dir=tmp_path / "kept", dump_passes=True)
    result = run(scaled, SPECS, lambda x, s: x * np.float32(s), kept)
    assert result.work_dir == tmp_path / "kept" and (result.work_dir / "passes_dump").is_dir()
    assert np.array_equal(load(result.work_dir)(SPECS[0].make(), 3.0), result.actual["out"])


def test_the_dumps_of_a_run_are_kept_with_its_program(tmp_path):
    kept = RunConfig(save_kernels=True, save_kernels_dir=tmp_path / "kept", enable_dump_args=2, enable_scope_stats=True)
    for _ in range(2):
        result = run(scaled, SPECS, lambda x, s: x * np.float32(s), kept)
        assert list((result.work_dir / "dfx_outputs" / "args_dump").rglob("*.npy"))
        assert (result.work_dir / "dfx_outputs" / "scope_stats" / "scope_stats.jsonl").is_file()


@pytest.mark.parametrize(
    "call",
    [
        lambda: run(scaled, SPECS, golden_fn=golden_in_place, config=RunConfig(save_kernels=True, rtol=1e-6)),
        lambda: run_jit(scaled, SPECS, golden_in_place, save_data=True, rtol=1e-6),
    ],
    ids=["save_kernels", "save_data"],
)
def test_inputs_and_goldens_are_kept_with_the_program(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = call()
    again = run(scaled, SPECS, config=RunConfig(golden_data_dir=result.work_dir))
    assert again.passed and again.checked and again.profile["data"] == "found"
    assert json.loads((result.work_dir / "data.json").read_text())["rtol"] == 1e-6
    assert np.array_equal(again.expected["out"], SPECS[0].make() * 3)


def test_nothing_is_written_unless_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(scaled, SPECS, lambda x, s: x * np.float32(s))
    assert not list(tmp_path.iterdir())


# The other convention, and the keywords of the original's kernel library


def test_the_dict_convention_fills_outputs_in_place():
    result = run_jit(
        fn=scaled,
        specs=SPECS,
        golden_fn=golden_in_place,
        runtime_cfg={"platform": "a2a3sim", "device_id": 1},
        compile_cfg={"dump_passes": False},
        rtol=1e-5,
        atol=1e-5,
        compare_fn={"out": ratio_allclose(max_error_ratio=0.0)},
    )
    assert result.passed, result.error
    assert not run_jit(scaled, SPECS, lambda values: None).passed


def test_the_dict_convention_with_two_parameters_gets_an_empty_second_one():
    assert run(scaled, SPECS, golden_fn=lambda tensors, params: golden_in_place(tensors)).passed


@pytest.mark.parametrize(
    "call",
    [
        lambda: run(scaled, SPECS, golden=len, golden_fn=len),
        lambda: run(scaled, SPECS, None, None, None),
        lambda: run(scaled, SPECS, golden_fun=len),
        lambda: run(scaled, SPECS, compare={}, compare_fn={}),
        lambda: run(scaled, SPECS, config=RunConfig(), rtol=1e-3),
        lambda: run_jit(scaled, SPECS, runtime_cfg={"no_such_field": 1}),
    ],
)
def test_options_that_contradict_or_do_not_exist_are_refused(call):
    refused("PL601", call)


@pytest.mark.parametrize("specs", [SPECS[1:], [*SPECS, SPECS[0]], SPECS[:2]], ids=len)
def test_specs_that_are_not_the_parameters_are_refused(specs):
    refused("PL702", run, scaled, specs, lambda *a: a[0])


def test_a_spec_of_no_parameter_is_refused_by_its_name():
    assert "`y`" in refused("PL601", run, scaled, [*SPECS[:2], TensorSpec("y", [8, 16], pl.FP32, output=True)], lambda *a: a[0]).message


def test_a_spec_that_calls_an_input_an_output_is_refused():
    with pytest.raises(NumericsError) as caught:
        run(scaled.compile(), [TensorSpec("x", [8, 16], pl.FP32, inout=True), *SPECS[1:]], lambda x, s: (x, x))
    assert caught.value.code == "PL702" and "x" in caught.value.message


def test_elements_nobody_wrote_are_named():
    @pl.jit
    def writes_half(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[0:4] = x[0:4]

    with reports("PL204"):
        result = run(writes_half, [SPECS[0], SPECS[2]], lambda x: x)
    assert not result.passed and "64 elements still hold the nan" in result.error


# What a golden costs


def test_the_peak_of_the_golden_is_reported():  # C92
    experts, rows, columns = 12, 64, 256
    codes = np.random.default_rng(0).integers(-128, 128, (experts, rows, columns)).astype(np.int8)

    def at_once(x):
        return (codes.astype(np.float32) * np.float32(0.5)).sum(0)[:8, :16] + x

    def one_by_one(x):
        total = np.zeros((rows, columns), np.float32)
        for expert in codes:
            total += expert.astype(np.float32) * np.float32(0.5)
        return total[:8, :16] + x

    specs = [SPECS[0], TensorSpec("out", [8, 16], pl.FP32, output=True)]
    peaks = {}
    for golden in (at_once, one_by_one):
        result = run(runs.doubled, specs, golden)
        peaks[golden.__name__] = result.profile["golden_peak_bytes"]
    whole = experts * rows * columns * 4
    assert peaks["at_once"] >= whole
    assert rows * columns * 4 <= peaks["one_by_one"] < whole / 2
    assert not tracemalloc.is_tracing()


# What cannot be meant.


@pytest.mark.parametrize(
    "option",
    [{"golden": lambda x, s: x}, {"golden_fn": lambda t: t}, {"compare": ratio_allclose()}, {"seed": 3}, {"test_name": "t"}],
    ids="-".join,
)
def test_what_needs_specs_is_refused_with_tensors(option):
    out = sevens(8, 16)
    error = refused("PL601", run, scaled, normal(8, 16), 2.0, out, **option)
    assert next(iter(option)) in error.message and (out == -7).all()


@pytest.mark.parametrize(("golden", "config"), [(lambda x, s: x, None), (None, RunConfig())], ids=["golden", "config"])
def test_what_is_given_in_its_place_and_by_name_is_refused(golden, config):
    refused("PL601", run, scaled, SPECS, lambda x, s: x, RunConfig(), golden=golden, config=config)


def test_a_program_runs_as_what_it_was_lowered_for():
    compiled = scaled.compile(config=RunConfig(platform="a5sim"))
    for program in (compiled, compiled.program):
        result = run(program, SPECS, lambda x, s: x * np.float32(s))
        assert result.passed and result.compiled.platform == "a5sim"
        assert run(program, normal(8, 16), 2.0, sevens(8, 16)).platform == "a5sim"


def test_a_compiled_program_is_not_run_as_another_platform_s():
    compiled, out = scaled.compile(config=RunConfig(platform="a5sim")), sevens(8, 16)
    refused("PL610", run, compiled, SPECS, lambda x, s: 1 / 0, RunConfig(platform="a2a3sim"))
    refused("PL610", run, compiled, normal(8, 16), 2.0, out, config=RunConfig(platform="a2a3sim"))
    with ChipWorker(platform="a5sim") as w:
        refused("PL610", w.run, compiled, normal(8, 16), 2.0, out, config=RunConfig(platform="a2a3sim"))
    assert (out == -7).all()


@pytest.mark.parametrize(("value", "same"), [(3.0, True), (2.0, False), (float("nan"), False)])
def test_data_saved_for_another_scalar_is_refused(tmp_path, value, same):
    config = RunConfig(golden_data_dir=tmp_path / "data")
    assert run(scaled, SPECS, lambda x, s: x * np.float32(s), config).passed
    specs = [SPECS[0], ScalarSpec("s", pl.FP32, value), SPECS[2]]
    if same:
        assert run(scaled, specs, lambda x, s: 1 / 0, config).passed
    else:
        refused("PL702", run, scaled, specs, lambda x, s: 1 / 0, config)


# Torch and JAX dtypes: specs given in a library's dtypes hand its arrays to goldens and rules.


def test_jax_dtypes_give_jax_arrays_to_the_golden():
    jnp = pytest.importorskip("jax.numpy", reason="JAX is a test dependency that this environment lacks")
    specs = [TensorSpec("x", [8, 16], jnp.bfloat16), TensorSpec("out", [8, 16], jnp.bfloat16, output=True)]

    def golden(x):
        assert isinstance(x, jnp.ndarray) and x.dtype == jnp.bfloat16
        return x

    assert run(moved, specs, golden).passed


def test_run_needs_neither_torch_nor_jax():
    program = """
import sys
import pypto.language as pl
from pypto.runtime import TensorSpec, run
from tests.kernels import runs
specs = [TensorSpec("x", [8, 16], pl.FP32), TensorSpec("out", [8, 16], pl.FP32, output=True)]
assert run(runs.doubled, specs, lambda x: x + x).passed
print(*sorted({"jax", "torch"} & set(sys.modules)))
"""
    root = Path(__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, env={"PYTHONPATH": str(root)})
    assert done.stdout == "\n", done.stderr
