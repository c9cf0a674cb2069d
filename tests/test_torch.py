"""Torch arrays, wherever NumPy ones go: calls, compiled programs, workers, specs and goldens. BF16 included."""

import numpy as np
import pytest

import pypto.language as pl
from pypto.core.array import to_numpy
from pypto.dtypes import dtype_of
from pypto.errors import CallError
from pypto.runtime import ChipWorker, RunConfig, ScalarSpec, TensorSpec, run, run_jit, write_golden
from pypto.testing import as_library, library_of, measure
from tests.kernels import runs

torch = pytest.importorskip("torch", reason="torch is not installed here; `./dev torch` installs its CPU build, as .ci/run does")

DTYPES = {
    "float32": pl.FP32,
    "float16": pl.FP16,
    "bfloat16": pl.BF16,
    "int32": pl.INT32,
    "int8": pl.INT8,
    "float8_e4m3fn": pl.FP8E4M3FN,
    "float8_e5m2": pl.FP8E5M2,
}


@pl.jit
def moved(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x


@pl.jit
def widened(x: pl.Tensor[[16, 32], pl.BF16], s: pl.Scalar[pl.FP32], out: pl.Out[pl.Tensor[[16, 32], pl.BF16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.cast(pl.muls(pl.cast(x, pl.FP32), s), pl.BF16, mode="rint")


def seeded(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(dtype)


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_goes_through_a_kernel_bit_for_bit_and_in_place(name):
    x = seeded(16, 32).mul(3).to(getattr(torch, name))
    out = torch.zeros(16, 32).to(x.dtype)
    assert moved(x, out) is out
    assert torch.equal(out.view(torch.uint8), x.view(torch.uint8))


@pytest.mark.parametrize("name", DTYPES)
def test_a_torch_tensor_and_its_array_share_memory(name):
    x = torch.zeros(4).to(getattr(torch, name))
    array = to_numpy(x)
    assert dtype_of(array.dtype) is DTYPES[name] is dtype_of(x.dtype)
    array[1] = 1
    assert x[1].to(torch.float32) == 1
    again = as_library(array, "torch")
    assert again.dtype == x.dtype and again.data_ptr() == x.data_ptr()


def test_bf16_results_are_torchs():
    x = seeded(16, 32, dtype=torch.bfloat16)
    out = torch.zeros_like(x)
    widened(x, 0.3, out)
    assert torch.equal(out, (x.float() * 0.3).to(torch.bfloat16))


@pytest.mark.parametrize("executor", ["reference", "cpu"])
def test_compiled_programs_and_workers_take_torch(executor):
    config = RunConfig(executor=executor, check=executor == "reference")
    a, b = seeded(24, 16), seeded(24, 16) + 1
    want = a * 0.5 + b + a
    compiled = runs.scaled_sum.compile(a, b, s=0.5)
    with ChipWorker(config=config) as w:
        resident, out = w.alloc_tensor((24, 16), torch.float32, init=b), torch.zeros(24, 16)
        assert w.run(compiled, a, resident, 0.5, out) is out
        host = torch.zeros(24, 16)
        w.copy_from(host.data_ptr(), resident.data_ptr, resident.nbytes)
        assert torch.equal(host, b)
        resident.copy_from(a)
        resident.copy_to(host)
    assert torch.equal(out, want) and torch.equal(host, a)


def test_a_sample_may_be_an_empty_or_a_meta_tensor():
    compiled = moved.compile(torch.empty(8, 16), torch.empty(8, 16, device="meta"))
    assert compiled.entry.signature.parameters[0].type.shape == (8, 16)


def test_a_tensor_that_requires_a_gradient_is_an_input_like_any_other():
    x = seeded(8, 16).requires_grad_()
    assert np.array_equal(moved.compile(x, x.detach())(x, torch.zeros(8, 16)), x.detach())


def test_a_strided_tensor_is_read_and_written_where_it_is():
    base = seeded(16, 8)
    x, out = base.T, torch.zeros(16, 8).T
    moved(x, out)
    assert torch.equal(out, x) and not out.is_contiguous()


def test_an_expanded_output_is_refused():
    with pytest.raises(CallError) as caught:
        moved(seeded(8, 16), torch.zeros(1, 16).expand(8, 16))
    assert caught.value.code == "PL604"


# Goldens


def specs(dtype):
    return [
        TensorSpec("x", [16, 32], dtype, init_value=torch.randn),
        ScalarSpec("s", torch.float32, 0.3),
        TensorSpec("out", [16, 32], dtype, is_output=True),
    ]


def golden_in_place(values):
    assert all(isinstance(values[name], torch.Tensor) for name in ("x", "out"))
    values["out"][:] = (values["x"].float() * values["s"]).to(torch.bfloat16)


def test_a_golden_of_torch_gets_and_fills_torch_tensors():
    result = run_jit(
        fn=widened, specs=specs(torch.bfloat16), golden_fn=golden_in_place, runtime_cfg={"platform": "a2a3sim"}, rtol=0, atol=0
    )
    assert result.passed, result.error
    assert run(widened, specs(torch.bfloat16), lambda x, s: (x.float() * s).to(torch.bfloat16)).passed


def test_a_wrong_golden_of_torch_fails():
    assert not run(widened, specs(torch.bfloat16), lambda x, s: x).passed


def test_rules_get_torch_tensors_too():
    def rule(actual, expected, *, inputs):
        return torch.equal(actual, expected) and isinstance(inputs["x"], torch.Tensor)

    assert run(widened, specs(torch.bfloat16), golden_fn=golden_in_place, compare={"out": rule}).passed


def test_factories_and_functions_of_nothing_make_inputs_that_repeat():
    before = torch.random.get_rng_state()
    for init in (torch.randn, torch.rand):
        spec = TensorSpec("x", [4, 8], torch.float32, init_value=init)
        assert spec.make(1).tobytes() == spec.make(1).tobytes() != spec.make(2).tobytes()
    assert torch.equal(before, torch.random.get_rng_state()), "the user's own stream is left alone"
    assert TensorSpec("x", [4], torch.float32, init_value=lambda: torch.arange(4)).make().tolist() == [0, 1, 2, 3]
    assert TensorSpec("x", [4], torch.float32, init_value=torch.ones).make().tolist() == [1, 1, 1, 1]
    assert TensorSpec("x", [4], torch.bfloat16, init_value=torch.full([4], 1.5)).make().tolist() == [1.5] * 4


def test_write_golden_takes_specs_of_torch(tmp_path):
    x, s, out = specs(torch.bfloat16)
    where = write_golden([x, out], golden_in_place, tmp_path / "golden.py", scalar_specs=[s])
    assert run(widened, [x, s, out], config=RunConfig(golden_data_dir=where)).passed


def test_the_library_of_a_dtype_is_known_without_importing_it():
    assert library_of(torch.bfloat16) == "torch" and library_of(pl.BF16) == "numpy" and library_of("bf16") == "numpy"


def test_torch_agrees_that_the_results_are_close():
    x = seeded(16, 64)
    out = torch.zeros(16, 64)
    moved(x, out)
    torch.testing.assert_close(out, x)
    assert measure(out, x).passed
