"""The programs in docs/examples: each runs, lowers, is legal on a2a3, and means the same traced and eager; so does the demo."""

import importlib
import importlib.util
import math
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pypto
from pypto import dtypes
from pypto.core.avals import TileAval
from pypto.platform import Space, platform_of
from pypto.testing import compare

pytestmark = pytest.mark.limits

FOLDER = Path(__file__).parent.parent / "docs" / "examples"
EXAMPLES = sorted(file for file in FOLDER.glob("*.py") if file.name != "demo.py" and not file.name.startswith("_"))
A2A3 = platform_of("a2a3")
MOVES = ("get", "set", "convert", "loop", "cond")


def load(file, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    name = f"example_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=EXAMPLES, ids=lambda file: file.stem)
def example(request, monkeypatch):
    return load(request.param, monkeypatch)


@pytest.fixture
def kernel(example):
    return getattr(example, example.__name__.removeprefix("example_"))


@pytest.fixture
def program(kernel):
    with pypto.override(platform="a2a3", verify=True):
        return kernel.lower()


@pytest.fixture
def demo(monkeypatch):
    return load(FOLDER / "demo.py", monkeypatch)


# ---- every example -----------------------------------------------------------------------------------------------


def test_the_example_runs(example):
    assert callable(getattr(example, "main", None)), f"{example.__name__} has no main()"
    example.main()


def test_the_example_means_the_same_traced_and_eager(example, kernel):
    traced = [spec.make(seed=1) for spec in example.specs()]
    eager = [spec.make(seed=1) for spec in example.specs()]
    kernel(*traced)
    kernel.eager(*eager)
    for spec, a, b in zip(example.specs(), traced, eager, strict=True):
        if isinstance(a, np.ndarray):
            assert compare(a, b, name=spec.name).equal_bits


def test_the_example_lowers_to_a_verified_program(program):
    assert program.kernels


def test_the_example_agrees_on_other_inputs(example, kernel):
    found = pypto.testing.check(kernel, example.golden, example.specs(), seed=7, tolerance=example.TOLERANCE)
    assert found.passed


def test_hello_has_the_bits_of_jax(monkeypatch):
    assert load(FOLDER / "hello.py", monkeypatch).check_example().equal_bits


@pytest.mark.parametrize("mode", ["decode", "prefill"])
def test_one_kernel_serves_decoding_and_prefilling(mode, monkeypatch, capsys):
    example = load(FOLDER / "decode_prefill.py", monkeypatch)
    assert example.check_example(mode=mode).passed
    example.main(["--mode", mode])
    assert f"{mode}:" in capsys.readouterr().out


def test_paged_attention_runs_any_lengths_with_one_program(monkeypatch):
    example = load(FOLDER / "paged_attention.py", monkeypatch)
    kernel = example.paged_attention
    for lengths in ([256, 1, 32, 33], [2, 64, 65, 200]):
        values = [s.make(seed=2) for s in example.specs()]
        values[4] = np.int32(lengths)
        kernel(*values)
        want = np.asarray(example.golden(*values[:5]), np.float32)
        assert np.allclose(values[5].astype(np.float32), want, rtol=2**-7, atol=2**-7)  # BF16 results of BF16 weights
    assert len(kernel._programs) == 1


# ---- legal on a2a3 -----------------------------------------------------------------------------------------------


def tiles(program):
    """Every tile of the kernels: (equation that makes it, its type, how many copies a pipeline keeps)."""

    def visit(jaxpr, stages):
        for eqn in jaxpr.eqns:
            bodies = list(eqn.bodies())
            for body in bodies:
                yield from visit(body, eqn.params.get("stage") or stages)
            for out in eqn.outs if not bodies else ():  # what a loop or branch gives was made in its body
                if isinstance(out.aval, TileAval):
                    yield eqn, out, stages

    for body in program.kernels:
        yield body, list(visit(body.jaxpr, 1))


def products(program):
    """The matrix products of a program, each as (left, right, result)."""
    for eqn in program_eqns(program):
        if eqn.op.name in ("matmul", "matmul_acc"):
            yield *eqn.ins[-2:], eqn.outs[0]


def program_eqns(program):
    for body in program.kernels:
        yield from body.jaxpr.walk()


def nbytes(aval):
    return math.prod(aval.static_shape) * aval.dtype.bits // 8


def row_bytes(aval):
    """The bytes of a row; a [rows, 1] column is stored as one row."""
    *lead, cols = aval.static_shape
    return (cols if cols != 1 else lead[-1]) * aval.dtype.bits // 8


def test_rows_of_tiles_are_aligned(program):
    for _, made in tiles(program):
        for eqn, var, _ in made:
            assert row_bytes(var.aval) % A2A3.row_align == 0, f"{eqn.op.name} makes {var.aval}"


def test_operands_of_products_are_whole_fractals(program):
    for operands in products(program):
        for var in operands:
            assert all(extent % A2A3.fractal == 0 for extent in var.aval.static_shape[-2:]), f"{var.aval}"


def used_bytes(program):
    """An upper bound of what each kernel keeps in each space: nothing is reused, and a pipeline keeps each load once per stage.

    An operand of a product comes to Left or Right by way of Mat. A product accumulates in place in Acc; in a mixed kernel it goes
    through Vec.
    """
    left, right, acc = (set(vars) for vars in zip(*products(program), strict=True)) if list(products(program)) else (set(),) * 3
    for body, made in tiles(program):
        total = Counter()
        for eqn, var, stages in made:
            size = nbytes(var.aval) * (stages if eqn.op.name == "get" or var in acc else 1)
            if var in left | right:
                total[Space.MAT] += size
            total[Space.LEFT] += size * (var in left)
            total[Space.RIGHT] += size * (var in right)
            if var in acc:
                total[Space.ACC] += size * (eqn.op.name == "matmul")
            if var in acc:
                total[Space.VEC] += nbytes(var.aval) * (body.unit == "mixed")
            elif body.unit != "cube" and not (eqn.op.name == "get" and var in left | right):
                total[Space.VEC] += size
        yield body.name, total


def test_tiles_fit_their_spaces(program):
    for name, total in used_bytes(program):
        for space, size in total.items():
            assert size <= A2A3.capacity[space], f"{name}: {size} bytes in {space}"


def test_no_arithmetic_is_in_bf16(program):
    for eqn in program_eqns(program):
        if eqn.op.unit == "vector" and eqn.op.name not in MOVES:
            assert not any(isinstance(a.aval, TileAval) and a.aval.dtype is dtypes.BF16 for a in (*eqn.ins, *eqn.outs)), eqn.op.name


# ---- the demo ----------------------------------------------------------------------------------------------------


def test_the_demo_runs_every_example(demo):
    listed = [name for name in demo.EXAMPLES if "/" not in name]
    assert sorted(listed) == [file.stem for file in EXAMPLES]
    trained = {"nn/training", "nn/chart"}  # one takes seconds, the other is no example
    assert {name for name in demo.EXAMPLES if "/" in name} == {f"nn/{file.stem}" for file in (FOLDER / "nn").glob("*.py")} - trained


def test_the_demo_prints_a_row_per_kernel_and_succeeds(demo, monkeypatch, capsys):
    monkeypatch.setattr(demo, "EXAMPLES", ("hello", "rmsnorm"))
    assert demo.main() == 0
    rows = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    hello = next(row for row in rows if row[0] == "hello")
    assert "FP32 [1024,512] scalar -> [1024,512]" in [cell.strip() for cell in hello]
    assert "equal" in hello
    assert any(row[0] == "rmsnorm" for row in rows)


def test_the_demo_runs_array_programs_too(demo, monkeypatch, capsys):
    monkeypatch.setattr(demo, "EXAMPLES", ("nn/heads",))
    monkeypatch.syspath_prepend(str(FOLDER / "nn"))  # main adds it for good
    assert demo.main() == 0
    assert "BF16 [64,2,3,32] [64,2,32] [64,2,32] -> [64,2,3,32]" in capsys.readouterr().out


def test_the_demo_fails_when_a_kernel_disagrees(demo, monkeypatch, capsys):
    monkeypatch.setattr(demo, "EXAMPLES", ("hello", "softmax"))
    hello = importlib.import_module("hello")
    monkeypatch.setattr(hello, "golden", lambda x, amount: x + np.float32(amount) + np.float32(1))
    assert demo.main() == 1
    printed = capsys.readouterr().out
    assert "1 of 2 examples agree" in printed
    assert any(line.startswith("hello ") and "DISAGREES" in line for line in printed.splitlines())


def test_the_demo_fails_when_an_example_raises(demo, monkeypatch, capsys):
    monkeypatch.setattr(demo, "EXAMPLES", ("hello",))
    hello = importlib.import_module("hello")
    monkeypatch.setattr(hello, "specs", list)
    assert demo.main() == 1
    assert "PL702" in capsys.readouterr().err


def test_the_worst_error_is_the_largest_difference_of_any_output(demo, monkeypatch):
    found = load(FOLDER / "hello.py", monkeypatch).check_example()
    apart = {"out": found.expected["out"] + np.float32(0)}
    apart["out"][3, 5] += 2.0
    assert demo.worst_error(replace(found, actual=apart)) == pytest.approx(2.0, rel=1e-6)  # x + 2 - x rounds in FP32
