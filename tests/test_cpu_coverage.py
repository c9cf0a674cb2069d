"""What is read after it was written needs no zeros before: told apart, and the bits of the reference where an array had something else."""

from typing import Any

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.interpreters.cpu.coverage import Written, comes_before
from pypto.interpreters.cpu.facts import Facts, facts
from pypto.interpreters.cpu.machine import unsupported

pytestmark = pytest.mark.skipif(bool(unsupported()), reason=unsupported() or "-")
Square = pl.Tensor[[64, 64], pl.FP32]
X = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)


def found(kernel: Any) -> Facts:
    with pypto.override(platform="cpu"):
        program = kernel.lower()
    return facts(program.orchestration, program.bodies)


def read(kernel: Any) -> set[str]:
    return {v.name for v in found(kernel).read}


def agree(kernel: Any) -> None:
    """Into an array that holds something, on both executors."""
    results = []
    for executor in ("reference", "cpu"):
        out = np.full((64, 64), 7.0, np.float32)
        with pypto.override(check=False, executor=executor, platform="cpu", cache=False):
            kernel(X, out)
        results.append(out)
    assert results[0].tobytes() == results[1].tobytes()


@pl.jit
def two_passes(x: Square, out: pl.Out[Square]):
    for r in pl.parallel(0, 64, 16):
        with pl.at(level=pl.Level.CORE_GROUP):
            for c in pl.range(0, 64, 32):
                out[r : r + 16, c : c + 32] = pl.exp(x[r : r + 16, c : c + 32])
            for c in pl.range(0, 64, 16):
                out[r : r + 16, c : c + 16] = pl.muls(out[r : r + 16, c : c + 16], 2.0)


@pl.jit
def half_of_it(x: Square, out: pl.Out[Square]):
    for r in pl.range(0, 64, 16):
        with pl.at(level=pl.Level.CORE_GROUP):
            for c in pl.range(0, 32, 16):
                out[r : r + 16, c : c + 16] = x[r : r + 16, c : c + 16]
            for c in pl.range(0, 64, 16):
                out[r : r + 16, c : c + 16] = pl.adds(out[r : r + 16, c : c + 16], 1.0)


@pl.jit
def the_next_turns_part(x: Square, out: pl.Out[Square]):
    for r in pl.range(0, 48, 16):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[r : r + 16, :] = x[r : r + 16, :]
            out[r : r + 16, :] = pl.add(out[r : r + 16, :], out[r + 16 : r + 32, :])
    with pl.at(level=pl.Level.CORE_GROUP):
        out[48:64, :] = x[48:64, :]


@pl.jit
def by_another_launch(x: Square, out: pl.Out[Square]):
    for r in pl.parallel(0, 64, 16):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[r : r + 16, :] = pl.neg(x[r : r + 16, :])
    for c in pl.parallel(0, 64, 32):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:, c : c + 32] = pl.adds(out[:, c : c + 32], 1.0)


@pl.jit
def only_where_something_holds(x: Square, out: pl.Out[Square]):
    for r in pl.range(0, 64, 16):
        with pl.at(level=pl.Level.CORE_GROUP):
            if r > 16:
                out[r : r + 16, :] = x[r : r + 16, :]
            out[r : r + 16, :] = pl.adds(out[r : r + 16, :], 1.0)


@pytest.mark.parametrize("kernel", [two_passes, by_another_launch])
def test_what_is_read_after_it_was_written_needs_no_zeros(kernel):
    assert read(kernel) == {"x"}
    agree(kernel)


@pytest.mark.parametrize("kernel", [half_of_it, the_next_turns_part, only_where_something_holds])
def test_what_may_be_read_before_it_is_written_reads_as_zero(kernel):
    assert read(kernel) == {"x", "out"}
    agree(kernel)


@pl.jit
def on_the_way(x: Square, out: pl.Out[Square]):
    t = pl.create_tensor([64, 64], dtype=pl.FP32)
    u = pl.create_tensor([64, 64], dtype=pl.FP32)
    for r in pl.parallel(0, 64, 16):
        with pl.at(level=pl.Level.CORE_GROUP):
            t[r : r + 16, :] = pl.neg(x[r : r + 16, :])
            u[r : r + 16, 0:32] = x[r : r + 16, 0:32]
    for r in pl.parallel(0, 64, 16):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[r : r + 16, :] = pl.add(t[r : r + 16, :], u[r : r + 16, :])


def test_a_buffer_on_the_way_is_cleared_only_if_that_can_be_seen():
    assert {v.name for v in found(on_the_way).fresh} == {"t"}
    with pypto.override(check=False, executor="cpu", platform="cpu"):
        text = on_the_way.lower().compiled.text
    assert text.count("call ptr @pypto_raw") == text.count("call ptr @pypto_new") == 1
    agree(on_the_way)


def test_boxes_that_leave_a_gap_cover_nothing():
    """Of four places, three were written: in the same turn of the loop around both (its only one)."""
    columns = np.array([0, 16, 48]).reshape(3, 1)
    w = Written((np.zeros((1,), np.int64), columns), (16, 16), (1, 2))
    assert not comes_before(w, (np.zeros((), np.int64), np.zeros((), np.int64)), (16, 64), (1,))
    assert not comes_before(w, (np.zeros((), np.int64), np.zeros((), np.int64)), (16, 16), (1,))


def test_a_loop_that_has_not_ended_covers_its_present_turn_only():
    rows = np.array([0, 16, 32, 48])
    w = Written((rows, np.zeros((), np.int64)), (16, 64), (1,))
    whole = (np.zeros((), np.int64), np.zeros((), np.int64))
    assert comes_before(w, (rows, np.zeros((), np.int64)), (16, 64), (1,))
    assert not comes_before(w, whole, (64, 64), (1,))
    assert comes_before(w, whole, (64, 64), (2,))
