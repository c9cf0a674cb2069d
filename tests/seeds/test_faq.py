"""The FAQ: what happens here, one test per question and per known limitation."""

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import lax
from pypto.errors import PyptoError
from pypto.runtime import ChipWorker, RunConfig
from pypto.testing import Tolerance, compare
from tests.refusals import refused, untouched

pytestmark = pytest.mark.limits
CORE = pl.Level.CORE_GROUP
ROWS = pl.Tensor[[4, 8], pl.FP32]
X = np.arange(32, dtype=np.float32).reshape(4, 8)


@pl.jit
def writes_nothing(a: ROWS, b: ROWS, out: pl.Out[ROWS]):
    with pl.at(level=CORE):
        out = pl.add(a, b)  # refused


def test_a_kernel_that_would_write_nothing_does_not_run():
    """FAQ: Why did my kernel run and write nothing? It does not run: the rebinding is an error that names both spellings that write."""
    error = untouched("PL201", writes_nothing, X.copy(), X.copy(), np.zeros((4, 8), np.float32), at="out = pl.add(a, b)")
    assert "out[:] = ..." in error.fix


@pl.jit
def plain_range(x: ROWS, out: pl.Out[ROWS]):
    with pl.at(level=CORE):
        for i in range(4):  # refused
            out[i : i + 1, :] = x[i : i + 1, :]


def test_a_plain_range_is_refused_with_the_loops_there_are():
    """FAQ: Why is a plain range rejected? A for statement must say what kind of loop it is."""
    error = refused("PL103", plain_range.lower, at="range(4)")
    assert all(loop in error.fix for loop in ("pl.range", "pl.unroll", "pl.parallel", "pl.spmd"))


N = pl.dynamic("N")


@pl.jit
def any_rows(x: pl.Tensor[[N, 8], pl.FP32], out: pl.Out[pl.Tensor[[N, 8], pl.FP32]]):
    x.bind_dynamic(0, N)
    for r in pl.range(pl.tensor.dim(x, 0)):
        with pl.at(level=CORE):
            out[r : r + 1, :] = pl.muls(x[r : r + 1, :], 2.0)


def test_a_symbol_in_the_annotation_of_an_entry_works():
    """FAQ: Why does pl.dynamic fail on my @pl.jit entry? It does not here: one program serves every extent."""
    for rows in (1, 3, 4):
        assert (np.asarray(any_rows(X[:rows])) == 2 * X[:rows]).all()


@pl.jit
def doubled(x: ROWS, out: pl.Out[ROWS]):
    with pl.at(level=CORE):
        out[:] = pl.muls(x, 2.0)


def test_a_compile_option_among_the_arguments_is_a_type_error_that_names_it():
    """FAQ: TypeError: got an unexpected keyword argument from compile(). The arguments are the kernel's; options go into config=."""
    with pytest.raises(TypeError) as caught:
        doubled.compile(X, skip_ptoas=True)
    error = caught.value
    assert isinstance(error, PyptoError) and error.code == "PL601" and "skip_ptoas" in error.message
    assert doubled.compile(X, config=RunConfig(platform="a5sim")).platform == "a5sim"


def test_a_worker_of_another_platform_refuses_a_program():
    """FAQ: The worker rejects my compiled program. The platforms must match; the error names both."""
    compiled = doubled.compile(X, config=RunConfig(platform="a5sim"))
    with ChipWorker(config=RunConfig(platform="a2a3sim")) as worker, pytest.raises(PyptoError) as caught:
        worker.run(compiled, X, np.zeros_like(X))
    assert caught.value.code == "PL610" and "a5sim" in caught.value.message and "a2a3sim" in caught.value.message


def test_compiling_needs_no_assembler(monkeypatch):
    """FAQ: ptoas compilation failed with an empty message. No ptoas, compiler or device is called."""
    import subprocess

    def refuse(*_, **__):
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setenv("PTOAS_ROOT", "/nowhere")
    compiled = doubled.compile(X)
    out = np.zeros_like(X)
    compiled(X, out)
    assert (out == 2 * X).all()


def test_the_times_of_kernel_and_golden_are_told_apart():
    """FAQ: Why is run()'s time so much larger than the kernel? What is timed is said: kernel and golden apart."""
    import time

    def golden(x):
        time.sleep(0.2)
        return 2 * x

    specs = [pypto.testing.TensorSpec("x", [4, 8], pl.FP32), pypto.testing.TensorSpec("out", [4, 8], pl.FP32, output=True)]
    doubled(X)
    found = pypto.testing.check(doubled, golden, specs)
    assert found.golden_seconds > 0.19 > found.kernel_seconds


def test_a_device_tensor_in_a_call_is_refused_with_what_to_write():
    """FAQ: Why does passing a DeviceTensor to a @pl.jit kernel fail? Dispatch a compiled program instead."""
    with ChipWorker() as worker:
        t = worker.alloc_tensor([4, 8], pl.FP32, init=X)
        with pytest.raises(PyptoError) as caught:
            doubled(t)
        assert caught.value.code == "PL602" and "worker.run" in caught.value.fix


@pl.jit
def split_k(a: pl.Tensor[[16, 256], pl.FP32], b: pl.Tensor[[256, 16], pl.FP32], out: pl.InOut[pl.Tensor[[16, 16], pl.FP32]]):
    for k in pl.spmd(4):
        part = pl.matmul(a[:, 64 * k : 64 * k + 64], b[64 * k : 64 * k + 64, :])
        pl.assemble(out, part, [0, 0], atomic=pl.AtomicType.Add)


@pytest.mark.parametrize("way", [{}, {"check": False, "executor": "cpu"}], ids=str)
def test_split_k_gives_the_same_bits_in_every_run(way):
    """FAQ: Split-K results differ between runs. Not here: blocks update in ascending order."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((16, 256)).astype(np.float32), rng.standard_normal((256, 16)).astype(np.float32)
    runs = set()
    with pypto.override(**way):
        for _ in range(3):
            out = np.zeros((16, 16), np.float32)
            split_k(a, b, out)
            runs.add(out.tobytes())
    assert len(runs) == 1


def test_the_tolerance_of_fp16_fits_fp16():
    """FAQ: A correct FP16 kernel fails allclose. Tolerances follow the dtype."""
    got, want = np.float16([0.1]) * np.float16([0.1]), np.float16([0.01])
    assert not np.allclose(got, want, rtol=1e-5, atol=0)
    assert compare(got, want, tolerance=Tolerance.of(pl.FP16)).passed


@pytest.mark.parametrize("mode", ["rint", "round", "floor", "ceil", "trunc"])
def test_int32_to_fp16_in_two_hops_is_the_direct_conversion(mode):
    """FAQ: Is the multi-hop cast lossy? No: INT32 -> FP32 -> FP16 has the bits of the direct conversion."""
    values = np.concatenate([np.arange(-70000, 70000), [2**24 + 1, -(2**24) - 1, 2**31 - 1, -(2**31)]]).astype(np.int32)
    direct = np.asarray(lax.convert(values, dtype=pl.FP16, mode=mode))
    hops = np.asarray(lax.convert(lax.convert(values, dtype=pl.FP32, mode=mode), dtype=pl.FP16, mode=mode))
    assert (direct.view(np.uint16) == hops.view(np.uint16)).all()


def test_two_live_slots_cannot_be_asked_for():
    """FAQ: Limitation: two co-live MemRef slots. On-chip memory is not planned yet: an annotation takes no MemRef."""
    assert not hasattr(pl, "MemRef")


def test_a_distributed_program_is_not_here():
    """FAQ: Limitation: ring allreduce is not a one-argument change. pypto.language.distributed comes later."""
    with pytest.raises(ModuleNotFoundError):
        __import__("pypto.language.distributed")


def test_another_planner_is_refused_with_the_reason():
    """FAQ: Limitation: memory_planner=PTOAS and the memory map. There is no map yet, and that planner is refused."""
    from pypto.runtime import MemoryPlanner

    with pytest.raises(PyptoError) as caught:
        RunConfig(memory_planner=MemoryPlanner.PTOAS)
    assert caught.value.code == "PL607"


def test_blocks_of_the_manual_about_a5_run_too():
    """FAQ: Limitation: doc code blocks are backend-specific. Here every block runs, those about a5 on a5sim."""

    @pl.jit
    def adds(x: pl.Tensor[[4, 16], pl.BF16], out: pl.Out[pl.Tensor[[4, 16], pl.BF16]]):
        with pl.at(level=CORE):
            out[:] = pl.adds(x, 1.0)

    with pypto.override(platform="a5sim"):
        assert len(adds.lower().kernels) == 1
