"""What compiled code takes for granted: accesses that are always inside, outputs that are always complete, turns that are independent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.errors import PyptoError
from pypto.interpreters.cpu.facts import Facts, facts

Square = pl.Tensor[[64, 64], pl.FP32]


def found(kernel: Any) -> Facts:
    program = kernel.lower()
    return facts(program.orchestration, program.bodies)


def independent(kernel: Any) -> list[bool]:
    return list(found(kernel).independent.values())


def sites(kernel: Any) -> list[str]:
    return [s.kind for s in kernel.lower().compiled.sites]


@pl.jit
def row_blocks(x: Square, out: pl.Out[Square]):
    for r in pl.parallel(0, 64, 16):
        with pl.at(level=pl.Level.CORE_GROUP):
            for c in pl.range(0, 64, 32):
                out[r : r + 16, c : c + 32] = x[r : r + 16, c : c + 32] * 2.0


def test_windows_in_counted_loops_need_no_check_at_run_time():
    assert sites(row_blocks) == []


def test_an_output_whose_tiles_are_all_stored_is_complete():
    assert {v.name for v in found(row_blocks).full} == {"out"}


def test_turns_that_write_their_own_rows_are_independent():
    assert independent(row_blocks) == [False]


@pl.jit
def checkered(x: Square, out: pl.Out[Square]):
    for b in pl.spmd(16):
        r, c = b // 4 * 16, b % 4 * 16
        out[r : r + 16, c : c + 16] = x[r : r + 16, c : c + 16] + 1.0


def test_blocks_that_write_tiles_of_a_grid_are_independent():
    assert independent(checkered) == [False]
    assert {v.name for v in found(checkered).full} == {"out"}


@pl.jit
def overlapping(x: Square, out: pl.Out[Square]):
    for r in pl.parallel(0, 48, 8):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[r : r + 16, :] = x[r : r + 16, :] + 1.0


def test_turns_that_write_the_same_rows_run_one_after_the_other():
    assert independent(overlapping) == []


@pl.jit
def reads_a_neighbour(x: Square, out: pl.Out[Square]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, :] = x[:, :]
    for r in pl.parallel(0, 48, 16):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[r : r + 16, :] = out[r + 16 : r + 32, :] + 1.0


def test_turns_that_read_what_another_writes_run_one_after_the_other():
    assert independent(reads_a_neighbour) == []


@pl.jit
def own_scratch(x: Square, out: pl.Out[Square]):
    for r in pl.parallel(0, 64, 16):
        scratch = pl.create_tensor([16, 64], dtype=pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP):
            scratch[:, :] = x[r : r + 16, :] + 1.0
        with pl.at(level=pl.Level.CORE_GROUP):
            out[r : r + 16, :] = scratch[:, :] * 2.0


def test_a_buffer_that_every_turn_makes_for_itself_is_no_conflict():
    assert independent(own_scratch) == [False]


@pl.jit
def shared_scratch(x: Square, out: pl.Out[Square]):
    scratch = pl.create_tensor([16, 64], dtype=pl.FP32)
    for r in pl.parallel(0, 64, 16):
        with pl.at(level=pl.Level.CORE_GROUP):
            scratch[:, :] = x[r : r + 16, :] + 1.0
        with pl.at(level=pl.Level.CORE_GROUP):
            out[r : r + 16, :] = scratch[:, :] * 2.0


def test_a_buffer_that_all_turns_share_is_a_conflict():
    assert independent(shared_scratch) == []


@pl.jit
def sums_rows(x: Square, out: pl.InOut[pl.Tensor[[1, 64], pl.FP32]]):
    for b in pl.spmd(64):
        pl.assemble(out, x[b : b + 1, :], [0, 0], atomic=pl.AtomicType.Add)


def test_updates_of_the_same_elements_are_made_in_the_order_of_the_blocks():
    assert independent(sums_rows) == [True]


@pl.jit
def through_views(x: Square, out: pl.Out[Square]):
    turned = pl.transpose(out, 0, 1)
    for r in pl.parallel(0, 64, 16):
        rows = turned[:, r : r + 16]
        with pl.at(level=pl.Level.CORE_GROUP):
            rows[:, :] = x[:, r : r + 16] + 1.0


def test_writes_are_followed_through_views():
    assert independent(through_views) == [False]


@pl.jit
def scattered(x: Square, where: pl.Tensor[[1, 64], pl.INT32], out: pl.Out[Square]):
    for b in pl.spmd(64):
        r = pl.read(where, [0, b])
        out[r : r + 1, :] = x[b : b + 1, :] + 1.0


def test_a_store_at_an_offset_that_is_data_is_checked_and_may_conflict():
    assert independent(scattered) == []
    assert "window" in sites(scattered)


@pl.jit
def ragged(x: pl.Tensor[[60, 64], pl.FP32], out: pl.Out[pl.Tensor[[60, 64], pl.FP32]]):
    for r in pl.parallel(0, 60, 16):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [r, 0], [16, 64], valid_shape=[pl.min(16, 60 - r), 64])
            out = pl.store(t + 1.0, [r, 0], out)


def test_a_ragged_tail_is_right_whatever_is_known_of_it():
    x = np.arange(60 * 64, dtype=np.float32).reshape(60, 64)
    with pypto.override(check=False, executor="cpu"):
        assert np.array_equal(ragged(x), x + 1)


@pl.jit
def one_too_far(x: Square, out: pl.Out[Square]):
    for r in pl.parallel(0, 64, 16):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[r : r + 16, :] = x[r + 8 : r + 24, :] + 1.0


def test_a_window_that_leaves_its_buffer_in_one_turn_keeps_its_check():
    assert "window" in sites(one_too_far)
    with pypto.override(check=False, executor="cpu"), pytest.raises(PyptoError) as caught:
        one_too_far(np.ones((64, 64), np.float32))
    assert caught.value.code == "PL303"
