"""Loops and launches whose end is known at run time only: their turns run at once where each has its own part, whatever the end."""

from typing import Any

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.interpreters.cpu.facts import facts
from pypto.interpreters.cpu.independence import Access, conflict
from pypto.interpreters.cpu.machine import unsupported

pytestmark = pytest.mark.skipif(bool(unsupported()), reason=unsupported() or "-")
N = pl.dynamic("N")
Rows = pl.Tensor[[N, 64], pl.FP32]


def independent(kernel: Any) -> list[bool]:
    program = kernel.lower()
    return list(facts(program.orchestration, program.bodies).independent.values())


def agree(kernel: Any, rows: int) -> None:
    x = np.random.default_rng(rows).normal(size=(rows, 64)).astype(np.float32)
    results = []
    for executor in ("reference", "cpu"):
        out = np.full((rows, 64), 7.0, np.float32)
        with pypto.override(check=False, executor=executor, threads=2, cache=False):
            kernel(x, out)
        results.append(out)
    assert results[0].tobytes() == results[1].tobytes()


@pl.jit
def row_blocks(x: Rows, out: pl.Out[Rows]):
    for r in pl.parallel(0, pl.tensor.dim(x, 0), 8):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[r : r + 8, :] = pl.exp(x[r : r + 8, :])


@pl.jit
def blocks_of_a_launch(x: Rows, out: pl.Out[Rows]):
    for b in pl.spmd(pl.tensor.dim(x, 0) // 8):
        out[b * 8 : b * 8 + 8, :] = pl.muls(x[b * 8 : b * 8 + 8, :], 3.0)


@pl.jit
def tails(x: Rows, out: pl.Out[Rows]):
    n = pl.tensor.dim(x, 0)
    for r in pl.parallel(0, n, 8):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [r, 0], [8, 64], valid_shape=[pl.min(n - r, 8), 64])
            pl.store(pl.adds(t, 1.0), [r, 0], out)


@pl.jit
def halves_of_rows(x: Rows, out: pl.Out[Rows]):
    for r in pl.parallel(0, pl.tensor.dim(x, 0), 8):
        for c in pl.parallel(0, 64, 32):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[r : r + 8, c : c + 32] = pl.neg(x[r : r + 8, c : c + 32])


@pytest.mark.parametrize("kernel", [row_blocks, blocks_of_a_launch, tails, halves_of_rows])
def test_turns_that_move_along_an_axis_are_independent_however_many_there_are(kernel):
    assert independent(kernel) and set(independent(kernel)) == {False}


@pytest.mark.parametrize("rows", [0, 8, 16, 128, 1024])
@pytest.mark.parametrize("kernel", [row_blocks, blocks_of_a_launch, tails, halves_of_rows])
def test_any_number_of_turns_has_the_bits_of_the_reference(kernel, rows):
    agree(kernel, rows)


@pytest.mark.parametrize("rows", [1, 7, 9, 1021])
def test_a_last_block_that_is_not_whole_has_the_bits_of_the_reference(rows):
    agree(tails, rows)


@pl.jit
def overlapping(x: Rows, out: pl.Out[Rows]):
    for r in pl.parallel(0, pl.tensor.dim(x, 0) - 8, 4):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[r : r + 8, :] = x[r : r + 8, :]


@pl.jit
def coming_back(x: Rows, out: pl.Out[Rows]):
    """Far apart for the first hundred turns; then the same rows again."""
    for b in pl.parallel(pl.tensor.dim(x, 0) // 8):
        with pl.at(level=pl.Level.CORE_GROUP):
            r = b % 100 * 8
            out[r : r + 8, :] = x[b * 8 : b * 8 + 8, :]


@pl.jit
def into_itself(x: Rows, out: pl.InOut[Rows]):
    for b in pl.parallel(1, pl.tensor.dim(x, 0) // 8):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[b * 8 : b * 8 + 8, :] = pl.add(x[b * 8 : b * 8 + 8, :], out[b * 8 - 8 : b * 8, :])


@pl.jit
def drifting(x: Rows, out: pl.InOut[Rows]):
    """What is read falls behind what is written by a row a turn: the sixteenth turn reads what the next one writes."""
    for b in pl.parallel(pl.tensor.dim(x, 0) // 32):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[b * 21 : b * 21 + 5, :] = pl.adds(out[b * 20 : b * 20 + 5, :], 1.0)


@pl.jit
def meeting_later(x: Rows, out: pl.InOut[Rows]):
    """The two turns inside touch the same row in the fiftieth turn around them."""
    for r in pl.parallel(pl.tensor.dim(x, 0) // 8):
        for c in pl.parallel(2):
            with pl.at(level=pl.Level.CORE_GROUP):
                row = (r - 50) * c + 60
                out[row : row + 1, :] = pl.adds(out[row : row + 1, :], 1.0)


@pytest.mark.parametrize("kernel", [overlapping, coming_back, into_itself, drifting, meeting_later])
def test_turns_that_may_meet_run_one_after_the_other(kernel):
    with pypto.override(check=False):
        assert independent(kernel) == []


def test_an_access_that_only_the_first_turns_keep_inside_is_checked():
    with pypto.override(check=False, executor="cpu", cache=False), pytest.raises(pypto.PyptoError) as failed:
        row_blocks(np.zeros((12, 64), np.float32), np.zeros((12, 64), np.float32))
    assert failed.value.code == "PL303"


@pl.jit
def less_every_turn(x: Rows, whole: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[Rows]):
    for r in pl.parallel(0, pl.tensor.dim(x, 0), 1):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[r : r + 1, :] = pl.col_sum(pl.load(whole, [0, 0], [64, 64], valid_shape=[64 - r, 64]))


@pl.jit
def more_every_turn(x: Rows, whole: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[Rows]):
    for r in pl.parallel(0, pl.tensor.dim(x, 0), 1):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[r : r + 1, :] = pl.col_sum(pl.load(whole, [0, 0], [64, 64], valid_shape=[1 + r, 64]))


@pytest.mark.parametrize("kernel", [less_every_turn, more_every_turn])
def test_a_valid_extent_that_only_the_first_turns_keep_inside_is_checked(kernel):
    arrays = (np.zeros(shape, np.float32) for shape in ((66, 64), (64, 64), (66, 64)))
    with pypto.override(check=False, executor="cpu", cache=False), pytest.raises(pypto.PyptoError) as failed:
        kernel(*arrays)
    assert failed.value.code == "PL303"


@pl.jit
def first_rows_then_all(x: Rows, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for r in pl.range(0, 64, 8):
            out[r : r + 8, :] = x[r : r + 8, :]
    for r in pl.parallel(0, pl.tensor.dim(x, 0), 8):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[r : r + 8, :] = pl.adds(out[r : r + 8, :], 1.0)


def test_what_lies_behind_the_turns_that_were_looked_at_still_reads_as_zero():
    """Eight turns read what was written before; the ninth does not."""
    agree(first_rows_then_all, 128)


def windows_of_turns(rng, turns):
    """Random accesses of one buffer by a loop without a known end and one of two turns inside: for so many turns, boxes [turns, 2, 4]."""
    t, c = np.arange(turns)[:, None], np.arange(2)[None, :]
    found = []
    for _ in range(rng.integers(1, 4)):
        step, begin = rng.choice([16, 16, 15, 17, 0, -16]), rng.choice([0, 8, 64, 4000])
        row = t * step + begin + c * rng.choice([0, 0, 8, 64]) + (t - 20) * c * rng.choice([0, 0, 0, 1])
        column = t * 0 + c * rng.choice([0, 32]) + rng.choice([0, 32])
        found.append((str(rng.choice(["read", "write"])), row, int(rng.choice([1, 4])), column, int(rng.choice([32, 64]))))
    return found


def meet(a, b):
    """Whether two turns, or parts of them, touch an element that one of them writes."""
    return any(
        "write" in (p[0], q[0]) and p[1] < q[1] + q[2] and q[1] < p[1] + p[2] and p[3] < q[3] + q[4] and q[3] < p[3] + p[4]
        for p in a
        for q in b
    )


@pytest.mark.parametrize("axis", [0, 1], ids=["the endless loop", "the loop inside"])
def test_turns_that_are_called_independent_never_meet(axis):
    rng, proven = np.random.default_rng(axis), 0
    for _ in range(400):
        state = rng.bit_generator.state
        few = windows_of_turns(rng, 8)
        rng.bit_generator.state = state
        many = windows_of_turns(rng, 100)
        buffer: Any = object()
        accesses = [Access(kind, buffer, (row.T, column.T), (m, n), None, (8, 2), frozenset({0})) for kind, row, m, column, n in few]
        if conflict(accesses, frozenset(), axis, (8, 2)[axis]) is None:
            continue
        proven += 1
        part = {(t, c): [(k, r[t, c], m, s[t, c], n) for k, r, m, s, n in many] for t in range(100) for c in range(2)}
        if axis:
            assert not any(meet(part[t, 0], part[t, 1]) for t in range(100)), few
        else:
            whole = [part[t, 0] + part[t, 1] for t in range(100)]
            assert not any(meet(a, b) for i, a in enumerate(whole) for b in whole[i + 1 : i + 40]), few
    assert proven > 20
