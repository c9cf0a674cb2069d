"""pypto.runtime.run: specs and a golden in, a verdict out; saved data; rules for outputs that need their own."""

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
from pypto.runtime import CompiledProgram, RunConfig, RunResult, ScalarSpec, TensorSpec, load, run, run_jit, write_golden
from pypto.testing import Closeness, compare, error_distribution, measure, ratio_allclose, ratio_reldiff, topk_pair_compare
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


# Tolerances


def test_the_default_tolerance_is_the_dtypes():  # C90
    result = run(half, HALF, lambda x: np.full((8, 16), 0.01, np.float64))
    assert result.passed, result.error


def test_a_right_fp16_kernel_at_1e_5_fails_with_the_explanation():  # C90
    result = run(half, HALF, lambda x: np.full((8, 16), 0.01, np.float64), RunConfig(rtol=1e-5, atol=0.0))
    assert not result.passed
    assert "expected for FP16: 1 ulp = 2^-10 relative, about three decimal digits" in result.error


def test_rtol_and_atol_are_those_of_the_config():
    def golden(x, s):
        return (x * np.float64(s) * 1.001).astype(np.float32)

    assert not run(scaled, SPECS, golden).passed
    assert run(scaled, SPECS, golden, RunConfig(rtol=2e-3)).passed
    assert run(scaled, SPECS, golden, RunConfig(rtol=0.0, atol=0.1)).passed


@pytest.mark.parametrize("dtype", [pl.FP32, pl.FP16, pl.BF16, pl.FP8E4M3FN, pl.FP8E5M2], ids=repr)
def test_one_unit_in_the_last_place_is_close_and_a_tenth_is_not(dtype):
    one = np.array([1.0]).astype(dtype.storage)
    above = (one.view(f"u{one.dtype.itemsize}") + 1).astype(f"u{one.dtype.itemsize}").view(one.dtype)
    assert measure(above, one).passed
    assert not measure(np.array([4.0]).astype(dtype.storage), one).passed


def test_integers_compare_exactly():
    big = np.array([2**62], np.int64)
    assert measure(big, big).passed
    assert not measure(big + 1, big, Closeness(1.0, 1e30)).passed


def test_nan_and_infinity_are_close_to_themselves_only():
    values = np.float32([np.nan, np.inf, -np.inf])
    assert measure(values, values).passed
    for other in (np.float32([0, np.inf, -np.inf]), np.float32([np.nan, -np.inf, -np.inf]), np.float32([np.nan, 3e38, -np.inf])):
        assert not measure(other, values, Closeness(1e9, 1e30)).passed


def test_equal_bits_tell_zeros_apart():
    zero = np.float32([0.0])
    assert measure(-zero, zero).passed and not measure(-zero, zero, bits=True).passed


def test_the_error_distribution_gives_the_quantiles():
    got = np.float32([1.0] * 9 + [2.0])
    assert error_distribution(got, np.ones(10, np.float32), (0.9, 1.0)) == {0.9: 0.0, 1.0: 1.0}
    assert error_distribution(np.float32([np.nan]), np.float32([1.0]), (1.0,)) == {1.0: float("inf")}
    assert error_distribution(np.zeros(0, np.float32), np.zeros(0, np.float32)) == {0.5: 0.0, 0.9: 0.0, 0.99: 0.0, 1.0: 0.0}
    refused("PL702", error_distribution, got, got[:3])


# Rules of their own


def with_rule(rule, golden=lambda x, s: x * np.float32(s) + 1):
    return run(scaled, SPECS, golden, compare={"out": rule})


def test_a_rule_may_return_a_bool_a_text_or_a_comparison():
    assert with_rule(lambda actual, expected: np.allclose(actual + 1, expected)).passed
    assert not with_rule(lambda actual, expected: False).passed
    assert "half of it" in with_rule(lambda actual, expected: (False, "half of it")).error
    assert not with_rule(compare).passed and not with_rule(measure).passed
    assert with_rule(lambda a, b: measure(a, b, Closeness(0.0, 2.0))).passed


def test_a_rule_is_given_what_it_asks_for():
    def rule(actual, expected, *, inputs, actual_outputs, rtol):
        assert np.array_equal(inputs["x"] * 3, actual) and actual_outputs["out"] is not None and rtol is None and inputs["s"] == 3.0
        return True

    assert with_rule(rule).passed


def test_a_rule_for_what_is_no_output_is_refused():
    refused("PL702", run, scaled, SPECS, lambda x, s: x, compare={"x": measure})


def test_a_share_of_outliers_may_be_allowed():
    want = np.ones(1000, np.float32)
    got = want.copy()
    got[:4] = 2
    assert ratio_allclose(max_error_ratio=0.005)(got, want)[0]
    got[:6] = 2
    passed, text = ratio_allclose(max_error_ratio=0.005)(got, want)
    assert not passed and "6 of 1000" in text
    got = want.copy()
    got[0] = np.nan
    assert not ratio_allclose(max_error_ratio=0.5)(got, want)[0], "a NaN is no outlier"


def test_the_share_above_a_relative_error_may_be_bounded():
    want = np.full(100, 10.0, np.float32)
    got = want.copy()
    got[:5] = 11
    assert ratio_reldiff(0.01, 0.05)(got, want)[0]
    assert not ratio_reldiff(0.01, 0.04)(got, want)[0]
    assert not ratio_reldiff(0.01, 0.05, max_diff_hd=0.05)(got, want)[0]


# Top-k with ties: row of scores, k = 3

SCORES = np.float32([[5, 9, 7, 9, 7, 7, 1, 0]])


def topk(indices, **changes):
    want = np.int32([[1, 3, 2]])
    values = np.take_along_axis(SCORES, np.int32(indices), 1)
    rule = topk_pair_compare("values", scores_name="scores")
    known = {"actual_outputs": {"values": values}, "expected_outputs": {"values": np.float32([[9, 9, 7]])}, "inputs": {"scores": SCORES}}
    return rule(np.int32(indices), want, **{**known, **changes})[0]


@pytest.mark.parametrize("indices", [[[1, 3, 2]], [[3, 1, 2]], [[1, 3, 4]], [[3, 1, 5]]])
def test_equal_values_may_change_places_and_the_last_may_be_another_of_its_value(indices):
    assert topk(indices)


@pytest.mark.parametrize("indices", [[[1, 1, 2]], [[1, 2, 3]], [[1, 3, 0]], [[1, 3, 3]]])
def test_a_repeated_index_another_order_and_a_smaller_value_are_wrong(indices):
    assert not topk(indices)


def test_an_index_that_does_not_have_its_value_is_wrong():
    values = np.float32([[9, 9, 7]])
    assert not topk([[1, 3, 6]], actual_outputs={"values": values})
    rule = topk_pair_compare("values", scores_name="scores")
    known = {"actual_outputs": {"values": values}, "expected_outputs": {"values": values}, "inputs": {"scores": SCORES}}
    assert not rule(np.int32([[1, 3, 100]]), np.int32([[1, 3, 2]]), **known)[0]


def test_a_top_k_rule_names_a_missing_output():
    refused("PL702", topk_pair_compare("vals"), SCORES, SCORES, actual_outputs={"v": 1}, expected_outputs={})


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


@pytest.mark.parametrize(
    "specs", [[*SPECS[:2], TensorSpec("y", [8, 16], pl.FP32, output=True)], SPECS[1:], [*SPECS, SPECS[0]], SPECS[:2]], ids=len
)
def test_specs_that_are_not_the_parameters_are_refused(specs):
    with pytest.raises((NumericsError, CallError)):
        run(scaled, specs, lambda *a: a[0])


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
