"""`python -m pypto show`: kernels from files as text."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from pypto import __main__ as command
from pypto.tools.show import Sample, sample

pytestmark = pytest.mark.limits

SOFTMAX = str(Path(__file__).parent.parent / "docs" / "examples" / "softmax.py")
BARE = """
import pypto.language as pl


@pl.jit
def scaled(x: pl.Tensor, out: pl.Out[pl.Tensor], times: int = 2):
    for i in pl.parallel(4):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[i * 16 : i * 16 + 16, :] = pl.mul(x[i * 16 : i * 16 + 16, :], 1.0 * times)


@pl.jit
def other(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x


@pl.program
class Both:
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.exp(x)
"""


@pytest.fixture
def bare(tmp_path: Path) -> str:
    file = tmp_path / "bare_kernels.py"
    file.write_text(BARE)
    return str(file)


def shown(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert command.main(["show", *args]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def refusal(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert command.main(["show", *args]) == 1
    return capsys.readouterr().err


def test_a_kernel_of_a_file_is_shown_as_a_program(capsys) -> None:
    text = shown(capsys, f"{SOFTMAX}:softmax")
    ast.parse(text)
    assert "@pl.program" in text and "pl.FunctionType.InCore" in text


def test_the_stage_before_has_the_regions_in_place(capsys) -> None:
    text = shown(capsys, SOFTMAX, "--stage", "ref")
    ast.parse(text)
    assert text.startswith("@pl.jit\ndef softmax(") and "with pl." in text and "submit" not in text


def test_shapes_that_no_annotation_gives_are_options(capsys, bare: str) -> None:
    text = shown(capsys, f"{bare}:scaled", "--arg", "x=64x32:FP16", "--arg", "out=64x32:FP16", "--arg", "times=3")
    assert "pl.Tensor[[64, 32], pl.FP16]" in text and "3.0" in text
    assert "PL601" in refusal(capsys, f"{bare}:scaled")


def test_a_program_of_a_class_and_its_functions_are_kernels_too(capsys, bare: str) -> None:
    assert "pl.exp" in shown(capsys, f"{bare}:Both") and "pl.exp" in shown(capsys, f"{bare}:Both.main")


def test_lines_and_the_platform_are_options(capsys) -> None:
    assert "softmax.py:" in shown(capsys, SOFTMAX, "--lines") and "# for a5" in shown(capsys, SOFTMAX, "--platform", "a5")


@pytest.mark.parametrize(
    "args, code",
    [
        ((SOFTMAX, "--stage", "placed"), "PL606"),
        ((SOFTMAX, "--stage", "last"), "PL606"),
        (("nowhere.py:k",), "PL601"),
        ((f"{SOFTMAX}:nothing",), "PL601"),
        ((SOFTMAX, "--arg", "x"), "PL601"),
        ((SOFTMAX, "--arg", "x=4x4:FP33"), "PL601"),
        ((SOFTMAX, "--arg", "nobody=4x4:FP32"), "PL601"),
    ],
)
def test_what_cannot_be_shown_is_refused_by_name(capsys, args: tuple[str, ...], code: str) -> None:
    assert refusal(capsys, *args).startswith(code)


def test_a_file_with_several_entries_needs_a_name(capsys, bare: str) -> None:
    assert "scaled, other, Both" in refusal(capsys, bare)


def test_an_argument_is_a_shape_with_a_dtype_or_a_python_value() -> None:
    name, value = sample("x=4x8:int32")
    assert name == "x" and isinstance(value, Sample) and value.shape == (4, 8) and value.dtype.name == "INT32"
    assert sample("mode='decode'") == ("mode", "decode") and sample("n=-3") == ("n", -3)
