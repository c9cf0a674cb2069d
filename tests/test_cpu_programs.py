"""Whole programs on the compiled executor: examples, random nests, run-time extents, errors, and what falls back."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.core.op import OPS, No
from pypto.errors import CallError, PyptoError
from tests.both import same
from tests.nests import random_kernel

FOLDER = Path(__file__).parent.parent / "docs" / "examples"
EXAMPLES = sorted(file for file in FOLDER.glob("*.py") if file.name != "demo.py" and not file.name.startswith("_"))
HEADER = "import pypto.language as pl\n@pl.jit\ndef kernel(x: pl.Tensor[[4, 64], pl.FP32], out: pl.Out[pl.Tensor[[4, 64], pl.FP32]]):"
M, N = pl.dynamic("M"), pl.dynamic("N")


def load(file, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location(f"cpu_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    spec.loader.exec_module(module)
    return module


def random(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda f: f.stem)
def test_an_example_compiles_and_has_the_bits_of_the_reference(file, monkeypatch):
    module = load(file, monkeypatch)
    kernel = getattr(module, file.stem)
    assert kernel.lower().compiled.executor == "cpu", kernel.lower().compiled.reason
    assert same(kernel, lambda: [spec.make(seed=3) for spec in module.specs()])


def nest(seed, folder, monkeypatch):
    """Whether both executors agree on a random nest; None where tracing refuses it."""
    file = folder / f"nest_{seed}.py"
    file.write_text(random_kernel(seed, header=HEADER))
    module = load(file, monkeypatch)
    try:
        compiled = module.kernel.lower().compiled
    except PyptoError:
        return None
    x = np.arange(256, dtype=np.float32).reshape(4, 64) / 7 - 3
    return compiled.executor == "cpu" and same(module.kernel, lambda: [x, np.full((4, 64), np.nan, np.float32)])


@pytest.mark.filterwarnings("ignore::pypto.errors.PyptoWarning")
def test_random_nests_have_the_bits_of_the_reference(tmp_path, monkeypatch):
    outcomes = {seed: nest(seed, tmp_path, monkeypatch) for seed in [*range(120), 643]}
    assert [seed for seed, agrees in outcomes.items() if agrees is False] == []
    assert sum(agrees is True for agrees in outcomes.values()) > 80


@pl.jit
def scaled(x: pl.Tensor[[M, N], pl.FP32], factor: pl.Scalar[pl.FP32], out: pl.Out[pl.Tensor[[M, N], pl.FP32]]):
    rows = pl.tensor.dim(x, 0)
    columns = pl.tensor.dim(x, 1)
    for r in pl.range(0, rows, 8):
        for c in pl.range(0, columns, 32):
            with pl.at(level=pl.Level.CORE_GROUP):
                valid = [pl.min(8, rows - r), pl.min(32, columns - c)]
                t = pl.load(x, [r, c], [8, 32], valid_shape=valid)
                out = pl.store(pl.muls(t, factor), [r, c], out)
    return out


@pytest.mark.parametrize("shape", [(8, 32), (1, 1), (17, 70), (3, 100)])
def test_one_compiled_program_serves_every_extent(shape):
    assert scaled.lower().compiled.executor == "cpu"
    assert same(scaled, lambda: [random(*shape), 1.5, np.zeros(shape, np.float32)])


@pl.jit
def shifted(x: pl.Tensor[[64, 64], pl.FP32], start: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        rows = x[start : start + 16, :]
        out[:, :] = rows


@pytest.mark.parametrize("start", [0, 48, 49, -1, 1 << 40])
def test_a_window_past_the_extent_is_the_same_error_at_the_same_place(start):
    assert shifted.lower().compiled.executor == "cpu"
    assert same(shifted, lambda: [random(64, 64), start, np.zeros((16, 64), np.float32)])
    if start in (49, -1):
        with pypto.override(check=False, executor="cpu"), pytest.raises(PyptoError) as found:
            shifted(random(64, 64), start, np.zeros((16, 64), np.float32))
        assert found.value.code == "PL303" and found.value.source.text.strip() == "rows = x[start : start + 16, :]"


@pl.jit
def stepped(x: pl.Tensor[[16, 64], pl.FP32], step: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total = x[:, :]
        for i in pl.range(0, 4, step):
            total = pl.add(total, x[:, :])
        out[:, :] = total


@pytest.mark.parametrize("step", [1, 3, 0, -1])
def test_a_step_known_at_run_time_runs_and_fails_alike(step):
    assert same(stepped, lambda: [random(16, 64), step, np.zeros((16, 64), np.float32)])


@pl.jit
def upper_half(x: pl.Tensor[[16, 64], pl.FP32], rows: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for r in pl.range(rows):
            out[r : r + 1, :] = x[r : r + 1, :]


@pytest.mark.filterwarnings("ignore::pypto.errors.PyptoWarning")
@pytest.mark.parametrize("rows", [16, 5, 0])
def test_what_is_not_written_stays_the_callers_and_is_reported_alike(rows):
    assert same(upper_half, lambda: [random(16, 64), rows, np.full((16, 64), 7, np.float32)])


@pl.jit
def in_place(x: pl.InOut[pl.Tensor[[32, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x[0:16, :]
        x[1:17, :] = pl.adds(t, 1.0)
        x[0:16, :] = pl.mul(x[0:16, :], t)


def test_loads_are_taken_before_the_stores_that_would_change_them():
    assert in_place.lower().compiled.executor == "cpu"
    assert same(in_place, lambda: [random(32, 64)])


@pl.jit
def sorted_rows(x: pl.Tensor[[1, 32], pl.FP32], index: pl.Tensor[[1, 32], pl.UINT32], out: pl.Out[pl.Tensor[[1, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, :] = pl.sort32(x[:, :], index[:, :])


def test_a_program_with_an_op_that_is_not_compiled_runs_on_the_reference_and_says_why(monkeypatch):
    monkeypatch.setattr(OPS["sort32"], "cpu", No("this test took it away"))
    compiled = sorted_rows.lower().compiled
    assert compiled.executor == "reference" and "sort32" in compiled.reason
    assert same(sorted_rows, lambda: [random(1, 32), np.arange(32, dtype=np.uint32)[None], np.zeros((1, 64), np.float32)])


@pl.jit
def unwritten(x: pl.Tensor[[4, 64], pl.FP32], out: pl.Out[pl.Tensor[[4, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.create_tile([4, 64], dtype=pl.FP32)
        out[:, :] = pl.add(x[:, :], t)


def test_checks_are_never_skipped_by_asking_for_the_compiled_executor():
    arguments = [random(4, 64), np.zeros((4, 64), np.float32)]
    with pypto.override(executor="cpu", check=True), pytest.raises(PyptoError) as found:
        unwritten(*arguments)
    assert found.value.code == "PL306"


def test_an_executor_that_does_not_exist_is_refused():
    with pytest.raises(CallError) as found, pypto.override(executor="gpu"):
        pass
    assert found.value.code == "PL606"


def test_a_program_is_compiled_to_the_same_text_every_time():
    assert scaled.lower().compiled.text == scaled.lower().compiled.text


def test_importing_the_language_does_not_load_llvmlite():
    program = "import sys, pypto.language; print('llvmlite' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip() == "False"


Corner = pl.Tensor[[16, 16], pl.FP32]


@pl.jit
def turned_in_a_loop(x: Corner, out: pl.Out[Corner]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.transpose(x[:], 0, 1)
        for _ in pl.range(3):
            t = pl.transpose(t, 0, 1)
        out[:] = t


@pl.jit
def turned_in_a_branch(x: Corner, out: pl.Out[Corner]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.adds(x[:], 1.0)
        for i in pl.range(3):
            if i < 2:
                t = pl.transpose(t, 0, 1)
            else:
                t = pl.muls(t, 2.0)
        out[:] = t


@pl.jit
def turned_and_changed_places(x: Corner, out: pl.Out[Corner]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t, u = pl.adds(x[:], 1.0), pl.muls(x[:], 3.0)
        for _ in pl.range(3):
            t, u = pl.transpose(u, 0, 1), t
        out[:] = pl.sub(t, u)


@pl.jit
def turned_before_it_is_added_to(x: Corner, out: pl.Out[Corner]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.adds(x[:], 1.0)
        for _ in pl.range(3):
            t = pl.matmul_acc(pl.transpose(t, 0, 1), x[:], x[:])
        out[:] = t


@pl.jit
def turned_and_then_changed_in_part(x: Corner, out: pl.Out[Corner]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.adds(x[:], 1.0)
        for _ in pl.range(3):
            t = pl.transpose(t, 0, 1)
            t = pl.assemble(t, x[0:8, 0:16], [8, 0])
        out[:] = t


TURNED = [turned_in_a_loop, turned_in_a_branch, turned_and_changed_places, turned_before_it_is_added_to, turned_and_then_changed_in_part]


@pytest.mark.parametrize("kernel", TURNED)
def test_a_carried_tile_that_is_turned_in_place_is_not_taken_for_the_one_that_was_there(kernel):
    x, results = np.arange(256, dtype=np.float32).reshape(16, 16), []
    for executor in ("reference", "cpu"):
        with pypto.override(check=False, executor=executor, platform="cpu", cache=False):
            results.append(np.asarray(kernel(x)).tobytes())
    assert results[0] == results[1]
