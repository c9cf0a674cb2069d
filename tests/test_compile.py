"""Compiling: samples or annotations in, a program with its call surface out; every option acts or is refused."""

import dataclasses
import json

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import ir
from pypto.errors import CallError, PyptoError
from pypto.runtime import (
    BackendType,
    CompiledProgram,
    DistributedConfig,
    MemoryPlanner,
    PassDumpLevel,
    RunConfig,
    RuntimeKind,
    VerificationLevel,
    load,
)
from tests.kernels import runs
from tests.refusals import sevens
from tests.run_inputs import THREE, arguments, bits, normal

X = normal(8, 16)


def refused(code, call, *args, **kwargs):
    with pytest.raises(CallError) as caught:
        call(*args, **kwargs)
    assert caught.value.code == code, caught.value
    return caught.value


# What comes out.


def test_annotations_alone_are_enough_to_compile():
    compiled = runs.scaled_sum.compile()
    assert isinstance(compiled, CompiledProgram)
    assert compiled.param_names == ["a", "b", "s", "out"]
    assert compiled.output_indices == [3]
    assert compiled.has_return
    assert compiled.platform == "a2a3sim" and compiled.backend_type is BackendType.Ascend910B


def test_an_inout_is_an_output_that_cannot_be_left_out():
    compiled = runs.product_and_bias.compile()
    assert compiled.output_indices == [3, 4]
    refused("PL603", compiled, normal(16, 64).astype(pl.BF16.storage), normal(64, 32).astype(pl.BF16.storage), normal(1, 32))


@pytest.mark.parametrize("kernel", THREE, ids=lambda k: k.__name__)
def test_a_compiled_program_gives_the_bits_of_a_call(kernel):
    assert bits(kernel.compile()(**arguments(kernel))) == bits(kernel(**arguments(kernel)))


def test_one_compiled_program_serves_every_extent_of_a_symbol():
    compiled = runs.scaled_sum.compile()
    for rows in (8, 40):
        x = normal(rows, 16)
        assert bits(compiled(x, x, 1.0)) == bits(runs.scaled_sum(x, x, 1.0))


def test_extents_that_one_symbol_cannot_have_are_refused():
    refused("PL602", runs.scaled_sum.compile(), normal(8, 16), normal(16, 16), 1.0)


def test_samples_are_read_for_shape_and_dtype_only():
    class Sample:
        shape, dtype = (8, 16), np.dtype(np.float32)

    compiled = runs.doubled.compile(Sample(), Sample())
    assert np.array_equal(compiled(X, sevens(8, 16)), X + X)


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16", "int8"])
def test_jax_arrays_are_samples_and_inputs(name):
    jnp = pytest.importorskip("jax.numpy", reason="JAX is a test dependency that this environment lacks")
    x = jnp.arange(128).reshape(8, 16).astype(name)
    compiled = moved.compile(x, x)
    out = np.zeros((8, 16), np.asarray(x).dtype)
    assert compiled(x, out) is out and out.tobytes() == np.asarray(x).tobytes()
    refused("PL604", compiled, x, x)


@pl.jit
def moved(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x


def test_a_bare_tensor_without_a_sample_is_refused():
    assert "doubled.compile(" in refused("PL601", runs.doubled.compile).fix


def test_the_fix_of_a_missing_sample_names_the_method_that_was_called():
    for method in ("trace", "lower"):
        assert f"doubled.{method}(" in refused("PL601", getattr(runs.doubled, method)).fix


@pytest.mark.parametrize("sample", [normal(8, 17), normal(8, 16).astype(np.float16), normal(16)])
def test_a_sample_that_is_not_the_declared_one_is_refused(sample):
    refused("PL602", runs.scaled_sum.compile, sample)


def test_a_number_given_for_a_scalar_may_be_left_out_of_a_dispatch():
    compiled = runs.scaled_sum.compile(s=2.0)
    assert bits(compiled(X, X)) == bits(runs.scaled_sum(X, X, 2.0))
    assert bits(compiled(X, X, 5.0)) == bits(runs.scaled_sum(X, X, 5.0))


def test_a_scalar_left_to_run_time_must_come_with_the_dispatch():
    compiled = runs.scaled_sum.compile(s=pl.RUNTIME)
    refused("PL601", compiled, X, X)
    assert bits(compiled(X, X, 5.0)) == bits(runs.scaled_sum(X, X, 5.0))


def test_a_plain_python_argument_is_part_of_the_program():
    compiled = runs.repeated.compile(times=2)
    assert np.array_equal(compiled(X), X + X + X)
    assert np.array_equal(compiled(X, 2), X + X + X)
    assert "times=3" in refused("PL602", compiled, X, 3).fix


def test_the_same_samples_give_the_same_program_and_others_another():
    first = runs.doubled.compile(X, X)
    assert runs.doubled.compile(normal(8, 16, seed=5), X) is first
    assert runs.doubled.compile(normal(16, 16), normal(16, 16)) is not first
    assert runs.doubled.compile(X, X, config=RunConfig(platform="a5sim")) is not first


@pl.jit
def times_a_number(x: pl.Tensor[[8, 16], pl.FP32], factor, out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.muls(x, factor)


def test_zero_and_minus_zero_are_two_numbers_to_leave_out_of_a_dispatch():
    found = [runs.scaled_sum.compile(s=s).entry.defaults["s"] for s in (0.0, -0.0)]
    assert bits(np.float64(found[0])) != bits(np.float64(found[1]))
    nan = float("nan")
    assert runs.scaled_sum.compile(s=nan) is runs.scaled_sum.compile(s=float("nan"))


def test_a_plain_python_zero_and_minus_zero_are_two_programs_and_a_nan_is_one(tmp_path):
    for factor, other in ((0.0, -0.0), (-0.0, 0.0)):
        compiled = times_a_number.compile(factor=factor)
        for program in (compiled, load(compiled.save(tmp_path / f"{factor}"))):
            assert bits(program(X, factor)) == bits(X * np.float32(factor))
            refused("PL602", program, X, other)
    compiled = times_a_number.compile(factor=float("nan"))
    assert np.isnan(compiled(X, float("nan"))).all()


def test_a_tuple_with_minus_zero_is_another_value():
    @pl.jit
    def times_first(x: pl.Tensor[[8, 16], pl.FP32], factors, out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.muls(x, factors[0])

    compiled = times_first.compile(factors=(0.0,))
    assert bits(compiled(X, (0.0,))) == bits(X * np.float32(0))
    refused("PL602", compiled, X, (-0.0,))


FACTOR = 2.0


@pl.jit
def times_a_global(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.muls(x, FACTOR)


def test_a_changed_global_is_compiled_anew(monkeypatch):
    before = times_a_global.compile()
    monkeypatch.setitem(globals(), "FACTOR", 4.0)
    assert np.array_equal(times_a_global.compile()(X), X * 4)
    assert np.array_equal(before(X), X * 2)


# Where options go.


def test_a_stray_option_is_a_type_error_that_points_to_config():
    error = refused("PL601", runs.scaled_sum.compile, skip_ptoas=True)
    assert isinstance(error, TypeError)
    assert "unexpected keyword argument" in str(error) and "config=RunConfig(...)" in error.fix


def test_too_many_arguments_and_one_given_twice_are_refused():
    refused("PL601", runs.doubled.compile, X, X, X)
    refused("PL601", runs.doubled.compile, X, x=X)


def test_config_must_be_a_run_config():
    refused("PL601", runs.scaled_sum.compile, config={"platform": "a5sim"})
    refused("PL601", runs.doubled, X, config={"platform": "a5sim"})


def test_a_call_and_a_lowering_take_config():
    assert runs.scaled_sum.lower(config=RunConfig(platform="a5sim")).platform == "a5sim"
    out = sevens(8, 16)
    runs.doubled(X, out, config=RunConfig())
    assert np.array_equal(out, X + X)


def test_a_call_that_wants_files_writes_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = sevens(8, 16)
    runs.scaled_sum(X, X, 1.0, out, config=RunConfig(save_kernels=True, save_kernels_dir="kept", dump_passes=True, compile_profiling=True))
    assert bits(out) == bits(runs.scaled_sum(X, X, 1.0))
    assert bits(load("kept")(X, X, 1.0)) == bits(out)
    assert (tmp_path / "kept" / "passes_dump").is_dir() and (tmp_path / "kept" / "report").is_dir()
    assert np.array_equal(runs.doubled(X, sevens(8, 16), config=RunConfig(dump_passes=True)), X + X)
    assert len(list((tmp_path / "build_output").iterdir())) == 1


def test_a_call_that_may_not_run_is_refused():
    out = sevens(8, 16)
    config = RunConfig(codegen_only=True)
    refused("PL607", runs.scaled_sum, X, X, 1.0, out, config=config)
    refused("PL607", runs.scaled_sum.compile(config=config), X, X, 1.0, out, config=config)
    assert (out == -7).all()


@pl.jit
def configures_inside(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    runs.doubled(x, out, config=INSIDE)  # refused


INSIDE = RunConfig()


def test_config_in_the_body_of_a_kernel_is_refused_at_its_line():
    with pytest.raises(PyptoError) as caught:
        configures_inside(X, sevens(8, 16))
    assert caught.value.code == "PL112" and caught.value.source.text.endswith("# refused")


@pl.jit
def has_a_parameter_called_config(x: pl.Tensor[[8, 16], pl.FP32], config: pl.Scalar[pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.muls(x, config)


def test_a_parameter_called_config_is_the_kernels():
    assert np.array_equal(has_a_parameter_called_config(X, config=2.0), X * 2)


# ir.compile


@pytest.mark.parametrize("kernel", THREE, ids=lambda k: k.__name__)
def test_ir_compile_takes_a_kernel_or_its_lowered_program(kernel):
    want = bits(kernel(**arguments(kernel)))
    assert bits(ir.compile(kernel)(**arguments(kernel))) == want
    assert bits(ir.compile(kernel.lower(), platform="a2a3sim")(**arguments(kernel))) == want


def test_a_lowered_program_is_lowered_again_for_another_platform():
    assert ir.compile(runs.softmax_rows.lower(), platform="a5sim").platform == "a5sim"
    bare = dataclasses.replace(runs.softmax_rows.lower(), traced=None)
    refused("PL610", ir.compile, bare, platform="a5sim")


def test_what_is_no_program_is_refused():
    refused("PL601", ir.compile, object())


def test_ir_compile_writes_to_the_directory_it_is_given(tmp_path):
    compiled = ir.compile(runs.softmax_rows, output_dir=tmp_path / "out", profiling=True)
    assert compiled.output_dir == tmp_path / "out"
    passes = [p.name for p in sorted((tmp_path / "out" / "passes_dump").iterdir())]
    assert passes[0] == "00_after_traced.txt" and passes[-1].endswith("_after_outline.txt")
    assert [int(name[:2]) for name in passes] == list(range(len(passes)))
    seconds = json.loads((tmp_path / "out" / "report" / "pipeline_profile.json").read_text())
    assert list(seconds) == [name[len("00_after_") : -len(".txt")] for name in passes]
    assert all(s >= 0 for s in seconds.values())


def test_an_explicit_dump_names_the_users_lines(tmp_path):
    ir.compile(runs.softmax_rows, output_dir=tmp_path / "a", dump_passes=PassDumpLevel.EXPLICIT)
    ir.compile(runs.softmax_rows, output_dir=tmp_path / "b", dump_passes=PassDumpLevel.CONCISE)
    ir.compile(runs.softmax_rows, output_dir=tmp_path / "c", dump_passes=False)
    assert "runs.py:" in (tmp_path / "a" / "passes_dump" / "00_after_traced.txt").read_text()
    assert "runs.py:" not in (tmp_path / "b" / "passes_dump" / "00_after_traced.txt").read_text()
    assert not (tmp_path / "c" / "passes_dump").exists()


def test_the_output_directory_is_made_when_it_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    compiled = ir.compile(runs.doubled.lower(X, X))
    assert not list(tmp_path.iterdir())
    assert compiled.output_dir.is_dir() and compiled.output_dir.parent.name == "build_output"
    assert (compiled.output_dir / "passes_dump").is_dir()


@pytest.mark.parametrize(
    "option",
    [
        {"enable_pypto_l0c_double_buffer": True},
        {"emit_source_loc": False},
        {"runtime": RuntimeKind.HOST_BUILD_GRAPH},
        {"dump_ptoas_passes": True},
        {"memory_planner": MemoryPlanner.PTOAS},
        {"distributed_config": DistributedConfig()},
    ],
    ids=lambda option: next(iter(option)),
)
def test_an_option_of_ir_compile_that_cannot_act_is_refused(option):
    refused("PL607", ir.compile, runs.softmax_rows, **option)


@pytest.mark.parametrize("level", VerificationLevel)
def test_every_verification_level_compiles(level):
    compiled = ir.compile(runs.softmax_rows.lower(), verification_level=level)
    assert bits(compiled(**arguments(runs.softmax_rows))) == bits(runs.softmax_rows(**arguments(runs.softmax_rows)))


def test_parts_of_the_device_runtime_say_that_they_are_not_here():
    with pytest.raises(AttributeError, match="ChipWorker"):
        _ = runs.softmax_rows.compile().build_orch_args


def test_a_program_reads_as_a_class_of_the_language():
    text = runs.softmax_rows.compile().program.as_python()
    assert text == str(runs.softmax_rows.lower())
    assert "@pl.program" in text and "pl.at" not in text
    compile(text, "program.py", "exec")


# Logs


def test_the_log_level_is_set_by_level_or_name():
    before = pypto.get_log_level()
    try:
        pypto.set_log_level(pypto.LogLevel.DEBUG)
        assert pypto.get_log_level() is pypto.LogLevel.DEBUG
        pypto.set_log_level("error")
        assert pypto.get_log_level() is pypto.LogLevel.ERROR
        for wrong in ("loud", 17):
            refused("PL606", pypto.set_log_level, wrong)
    finally:
        pypto.set_log_level(before)


def test_compiling_tells_each_pass_at_debug(caplog):
    with caplog.at_level("DEBUG", logger="pypto"):
        ir.compile(runs.softmax_rows.lower(), platform="a5sim")
    assert any("outline" in line for line in caplog.messages)
