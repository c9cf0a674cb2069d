"""What is checked where nobody says: golden tests, eager runs and the run command; plain calls are not, unless they ask."""

from __future__ import annotations

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.__main__ import main
from pypto.config import Config
from pypto.errors import PyptoError
from pypto.runtime import ChipWorker, RunConfig, benchmark, run
from pypto.testing import TensorSpec, check

Row = pl.Tensor[[1, 8], pl.INT32]
X = np.full((1, 8), 12, np.int32)
ZERO = np.arange(8, dtype=np.int32)[None]
QUOTIENTS = [[0, 12, 6, 4, 3, 2, 2, 1]]


@pl.jit
def shares(x: Row, n: Row, out: pl.Out[Row]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.div(x, n)  # refused


SPECS = [
    TensorSpec("x", [1, 8], pl.INT32, init=X),
    TensorSpec("n", [1, 8], pl.INT32, init=ZERO),
    TensorSpec("out", [1, 8], pl.INT32, output=True),
]


def golden(x, n):
    return np.int32(QUOTIENTS)


@pytest.fixture(autouse=True)
def _defaults():
    """These tests are about what a user gets, whatever --executor says."""
    with pypto.override(check=Config().check, executor=Config().executor):
        yield


def fault(action) -> tuple[str, str]:
    """The code of the error, and the end of its line."""
    with pytest.raises(PyptoError) as caught:
        action()
    assert caught.value.source is not None
    return caught.value.code, caught.value.source.text[-len("# refused") :]


FAULT = ("PL704", "# refused")
COMPILED = shares.compile()

PLAIN = {
    "a call": lambda: shares(X, ZERO),
    "a call of a compiled program": lambda: COMPILED(X, ZERO),
    "a worker": lambda: _on_a_worker(None),
    "a run on tensors": lambda: run(shares, X, ZERO, np.zeros_like(X)),
    "a measurement": lambda: benchmark(COMPILED, [X, ZERO, np.zeros_like(X)], rounds=1, warmup=0),
    "a golden run for the compiled executor": lambda: run(shares, SPECS, golden, RunConfig(executor="cpu")),
}

ASKED = {
    "a call": lambda: shares(X, ZERO, config=RunConfig(check=True)),
    "a call of a compiled program": lambda: COMPILED(X, ZERO, config=RunConfig(check=True)),
    "a worker": lambda: _on_a_worker(RunConfig(check=True)),
    "a run on tensors": lambda: run(shares, X, ZERO, np.zeros_like(X), config=RunConfig(check=True)),
}

TESTS = {
    "a test against a golden": lambda: check(shares, golden, SPECS),
    "a golden run": lambda: run(shares, SPECS, golden),
    "a run on specs without a golden": lambda: run(shares, SPECS),
    "an eager run": lambda: shares.eager(X, ZERO),
}


def _on_a_worker(config):
    with ChipWorker(config=config) as worker:
        return worker.run(COMPILED, X, ZERO)


@pytest.mark.parametrize("what", PLAIN)
def test_what_runs_a_kernel_for_its_result_does_not_check(what):
    assert PLAIN[what]() is not None


def test_an_unchecked_result_is_what_the_contract_says():
    assert np.asarray(shares(X, ZERO)).tolist() == QUOTIENTS


@pytest.mark.parametrize("what", ASKED)
def test_what_is_asked_to_check_does(what):
    assert fault(ASKED[what]) == FAULT


@pytest.mark.parametrize("what", sorted({*PLAIN, *TESTS} - {"a measurement", "a golden run for the compiled executor"}))
def test_with_checks_in_force_everything_is_checked(what):
    with pypto.override(check=True):
        assert fault({**PLAIN, **TESTS}[what]) == FAULT


@pytest.mark.parametrize("what", TESTS)
def test_what_looks_for_faults_checks_unless_told_otherwise(what):
    assert fault(TESTS[what]) == FAULT
    with pypto.override(check=False):
        assert TESTS[what]() is not None


FILE = """
import numpy as np
import pypto.language as pl
from pypto.testing import TensorSpec

@pl.jit
def shares(x: pl.Tensor[[1, 8], pl.INT32], n: pl.Tensor[[1, 8], pl.INT32], out: pl.Out[pl.Tensor[[1, 8], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.div(x, n)

SPECS = [
    TensorSpec("x", [1, 8], pl.INT32, init=np.full((1, 8), 12, np.int32)),
    TensorSpec("n", [1, 8], pl.INT32, init=np.zeros((1, 8), np.int32)),
    TensorSpec("out", [1, 8], pl.INT32, output=True),
]

def golden(x, n):
    return np.zeros((1, 8), np.int32)
"""


def test_the_run_command_checks_unless_it_is_to_be_fast(tmp_path, capsys):
    file = tmp_path / "divides.py"
    file.write_text(FILE)
    assert main(["run", str(file), "--fast"]) == 0
    capsys.readouterr()
    assert main(["run", str(file)]) != 0
    assert "PL704" in capsys.readouterr().err
