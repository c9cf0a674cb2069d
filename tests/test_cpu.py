"""The compiled executor gives the bits of the reference executor, or says why it has no code for a program."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.errors import PyptoError
from pypto.interpreters.cpu.launch import Compiled
from tests.nests import random_kernel
from tests.test_examples import EXAMPLES, load
from tests.toy_runtime import function

TYPED = "def kernel(x: pl.Tensor[[2, 8], pl.FP32], out: pl.Out[pl.Tensor[[2, 8], pl.FP32]]):"
INPUT = np.arange(16, dtype=np.float32).reshape(2, 8) * 0.25 - 1


def same_bits(a: Any, b: Any) -> bool:
    left, right = np.asarray(a), np.asarray(b)
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


def reference(kernel: Any, *arrays: Any) -> Any:
    with pypto.override(check=True):
        return kernel(*arrays)


def compiled(kernel: Any, *arrays: Any) -> Any:
    with pypto.override(check=False, executor="cpu"):
        assert isinstance(kernel.lower().compiled, Compiled), kernel.lower().compiled.reason
        return kernel(*arrays)


def results(x: Any) -> tuple[Any, ...]:
    return () if x is None else x if isinstance(x, tuple) else (x,)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_an_example_gives_the_bits_of_the_reference(path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(path, monkeypatch)
    kernel = next(v for v in vars(module).values() if isinstance(v, pl.Kernel) and v.kind == "jit")
    inputs, copies = ([s.make(3) for s in module.specs() if not getattr(s, "output", False)] for _ in range(2))
    assert isinstance(kernel.lower().compiled, Compiled)
    with pypto.override(check=False, executor="cpu"):
        made = kernel(*inputs)
    expected = reference(kernel, *copies)
    pairs = [*zip(results(expected), results(made), strict=True), *zip(copies, inputs, strict=True)]  # also what is written in place
    assert all(same_bits(a, b) for a, b in pairs)


def test_random_nests_give_the_bits_of_the_reference() -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(150):
        kernel = pl.jit(function(random_kernel(seed, state=False, header=TYPED), file=f"<cpu nest {seed}>", pl=pl))
        with np.errstate(all="ignore"):
            try:
                expected = reference(kernel, INPUT)
            except PyptoError as error:
                outcomes[error.code] += 1
                continue
            outcomes["same" if same_bits(expected, compiled(kernel, INPUT)) else f"seed {seed} differs"] += 1
    assert set(outcomes) <= {"same", "PL111"}, outcomes
    assert outcomes["same"] > 90


@pl.jit
def window_from(x: pl.Tensor[[8, 16], pl.FP32], r: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[2, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x[r : r + 2, :] + 1.0


def test_a_window_past_the_extent_is_the_same_error_and_touches_nothing() -> None:
    x, out = np.ones((8, 16), np.float32), np.full((2, 16), -7, np.float32)
    errors = []
    for settings in ({"executor": "reference"}, {"check": False, "executor": "cpu"}):
        with pypto.override(**settings), pytest.raises(PyptoError) as caught:
            window_from(x, 7, out)
        errors.append((caught.value.code, caught.value.message, caught.value.source))
    assert errors[0] == errors[1]
    assert errors[0][0] == "PL303" and (out == -7).all()


def test_checked_runs_use_the_reference_executor_whatever_is_asked_for() -> None:
    @pl.jit
    def reads_unwritten(x: pl.Tensor[[1, 8], pl.FP32], out: pl.Out[pl.Tensor[[1, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.create_tile([1, 8], pl.FP32) + x

    with pypto.override(executor="cpu", check=True), pytest.raises(PyptoError) as caught:
        reads_unwritten(np.ones((1, 8), np.float32))
    assert caught.value.code == "PL306"


@pytest.mark.parametrize(("machine", "system"), [("aarch64", "posix"), ("AMD64", "nt")])
def test_where_there_is_no_machine_code_the_reference_executor_runs(machine: str, system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    @pl.jit
    def adds(x: pl.Tensor[[2, 8], pl.FP32], out: pl.Out[pl.Tensor[[2, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x[:] + 1.0

    monkeypatch.setattr("pypto.interpreters.cpu.machine.platform.machine", lambda: machine)
    monkeypatch.setattr("pypto.interpreters.cpu.machine.os", type("system", (), {"name": system}))
    with pypto.override(check=False, executor="cpu"):
        assert adds.lower().compiled.executor == "reference"
        assert np.array_equal(adds(INPUT), INPUT + 1)
