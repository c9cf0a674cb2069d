"""`python -m pypto run FILE.py:KERNEL`: a kernel file's specs and golden from the command line."""

import subprocess
import sys
from pathlib import Path

import pytest

from pypto.__main__ import main

ROOT = Path(__file__).parent.parent
FILE = str(ROOT / "tests" / "kernels" / "modes.py")


@pytest.fixture(autouse=True)
def _loaded_files_leave(monkeypatch):
    """Files that were run stay neither on the path nor among the modules."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "modes", raising=False)


def shown(capsys, *arguments):
    code = main(["run", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_every_mode_runs_and_passes(capsys):
    code, out, _ = shown(capsys, f"{FILE}:scale_tokens")
    assert code == 0
    assert "PASS scale_tokens decode" in out and "PASS scale_tokens prefill" in out
    assert "out: FP32[16, 32]: all 512 elements" in out and "out: FP32[64, 32]" in out


def test_the_only_entry_needs_no_name_and_one_mode_may_be_chosen(capsys):
    code, out, _ = shown(capsys, FILE, "--mode", "prefill", "--fast", "--seed", "3")
    assert code == 0 and "prefill" in out and "decode" not in out


def test_a_wrong_golden_ends_with_1_and_the_report(capsys):
    code, out, _ = shown(capsys, FILE, "--mode", "decode", "--golden", "golden_wrong")
    assert code == 1 and "FAIL scale_tokens decode" in out and "elements differ" in out


def test_tolerances_come_from_the_command_line(capsys):
    assert shown(capsys, FILE, "--mode", "decode", "--golden", "golden_wrong", "--atol", "1000")[0] == 0


def test_the_program_and_the_data_are_kept(capsys, tmp_path):
    kept, data = tmp_path / "kept", tmp_path / "data"
    assert shown(capsys, FILE, "--mode", "decode", "--save", str(kept), "--dump-passes", "--data", str(data))[0] == 0
    assert (kept / "manifest.json").is_file() and (kept / "passes_dump").is_dir() and (data / "data.json").is_file()


def test_compiling_alone_says_that_nothing_was_compared(capsys):
    code, out, _ = shown(capsys, FILE, "--compile-only")
    assert code == 0 and out.count("not compared") == 2


def test_a_benchmark_follows_the_check(capsys):
    code, out, _ = shown(capsys, FILE, "--mode", "decode", "--benchmark", "3")
    assert code == 0 and "mean of 3 launches" in out and "CPU" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.py:k"], "no file"),
        (["nothing"], "no file"),
        (["tests"], "no file"),
        ([f"{FILE}:missing"], "scale_tokens"),
        ([FILE, "--mode", "train"], "decode"),
        ([FILE, "--golden", "missing"], "missing"),
        ([FILE, "--specs", "missing"], "missing"),
        ([FILE, "--specs", "MODES"], "specs"),
    ],
)
def test_what_does_not_exist_is_one_clear_line_and_ends_with_1(capsys, arguments, said):
    code, _, err = shown(capsys, *arguments)
    assert code == 1 and said in err and err.startswith("PL")


def test_a_program_class_is_an_entry_too(capsys, tmp_path):
    file = tmp_path / "classes.py"
    file.write_text(
        "import pypto.language as pl\nfrom pypto.testing import TensorSpec\n"
        "SPECS = [TensorSpec('x', [8, 16], pl.FP32), TensorSpec('out', [8, 16], pl.FP32, output=True)]\n"
        "@pl.program\nclass Twice:\n    @pl.function(type=pl.FunctionType.Opaque)\n"
        "    def main(self, x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):\n"
        "        with pl.at(level=pl.Level.CORE_GROUP):\n            out[:] = pl.add(x, x)\n        return out\n"
        "def golden_Twice(x):\n    return x + x\n"
    )
    code, out, err = shown(capsys, str(file))
    assert code == 0 and "PASS Twice" in out, err


def test_an_error_of_the_kernel_shows_its_line(capsys, tmp_path):
    file = tmp_path / "bad.py"
    file.write_text(
        "import pypto.language as pl\nfrom pypto.testing import TensorSpec\n"
        "SPECS = [TensorSpec('x', [8, 8], pl.FP32), TensorSpec('out', [8, 8], pl.FP32, output=True)]\n"
        "@pl.jit\ndef bad(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):\n"
        "    with pl.at(level=pl.Level.CORE_GROUP):\n        out = pl.add(x, x)\n"
    )
    code, _, err = shown(capsys, str(file))
    assert code == 1 and "PL201" in err and "bad.py:7" in err


def test_the_command_works_from_a_shell():
    done = subprocess.run(
        [sys.executable, "-m", "pypto", "run", f"{FILE}:scale_tokens", "--mode", "decode"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0 and "PASS" in done.stdout, done.stderr
