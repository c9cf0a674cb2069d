"""Blocks and parallel turns on the worker threads: the same bits and the same errors as one after the other, and no thread left behind."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.errors import PyptoError
from pypto.interpreters.cpu.native import native, processors

Big = pl.Tensor[[256, 1024], pl.FP32]
X = np.random.default_rng(0).normal(size=(256, 1024)).astype(np.float32)


def cpu(kernel: Any, *arguments: Any, threads: int | None = 4) -> Any:
    with pypto.override(check=False, executor="cpu", threads=threads):
        assert kernel.lower(*arguments).compiled.executor == "cpu"
        return kernel(*arguments)


def reference(kernel: Any, *arguments: Any) -> Any:
    with pypto.override(check=False, executor="reference"):
        return kernel(*arguments)


@pl.jit
def exponentials(x: Big, out: pl.Out[Big]):
    for r in pl.parallel(0, 256, 4):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[r : r + 4, :] = pl.exp(x[r : r + 4, :] * 0.5)


@pl.jit
def blocks(x: Big, out: pl.Out[Big]):
    for b in pl.spmd(64):
        out[b * 4 : b * 4 + 4, :] = pl.exp(x[b * 4 : b * 4 + 4, :] * 0.5)


@pl.jit
def with_buffers(x: Big, out: pl.Out[Big]):
    for r in pl.parallel(0, 256, 4):
        scratch = pl.create_tensor([4, 1024], dtype=pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP):
            scratch[:, :] = pl.exp(x[r : r + 4, :])
        with pl.at(level=pl.Level.CORE_GROUP):
            out[r : r + 4, :] = pl.exp(scratch[:, :] * -1.0)


@pl.jit
def nested(x: Big, out: pl.Out[Big]):
    for r in pl.parallel(0, 256, 64):
        for c in pl.parallel(0, 1024, 128):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[r : r + 64, c : c + 128] = pl.exp(x[r : r + 64, c : c + 128])


@pytest.mark.parametrize("kernel", [exponentials, blocks, with_buffers, nested], ids=lambda k: k.fn.__name__)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_number_of_threads_changes_no_bit(kernel, threads):
    assert np.asarray(cpu(kernel, X, threads=threads)).tobytes() == np.asarray(reference(kernel, X)).tobytes()


def test_a_large_launch_has_as_many_workers_as_it_may_use():
    native().stop()
    cpu(blocks, X, threads=4)
    assert native().workers() == 3


def test_by_default_there_is_one_thread_per_processor():
    native().stop()
    cpu(blocks, X, threads=None)
    assert native().workers() == processors() - 1


def test_a_single_thread_needs_no_workers():
    native().stop()
    cpu(blocks, X, threads=1)
    assert native().workers() == 0


@pl.jit
def few(x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
    for b in pl.spmd(4):
        out[b : b + 1, :] = x[b : b + 1, :] + 1.0


def test_a_small_launch_stays_on_its_callers_thread():
    native().stop()
    cpu(few, np.ones((4, 8), np.float32))
    assert native().workers() == 0


@pytest.mark.parametrize("threads", [0, -1, 257, 2.0, True, "all"])
def test_a_number_of_threads_that_cannot_be_is_refused(threads):
    with pytest.raises(PyptoError) as caught, pypto.override(threads=threads):
        pass
    assert caught.value.code == "PL606"


# ---- order and errors --------------------------------------------------------------------------------------------


@pl.jit
def split_sum(x: Big, out: pl.InOut[pl.Tensor[[1, 1024], pl.FP32]]):
    for b in pl.spmd(64):
        part = pl.exp(x[b * 4 : b * 4 + 1, :])
        for i in pl.range(1, 4):
            part = part + pl.exp(x[b * 4 + i : b * 4 + i + 1, :])
        pl.assemble(out, part, [0, 0], atomic=pl.AtomicType.Add)


def test_float_updates_are_made_in_the_order_of_the_blocks_in_every_run():
    start = np.full((1, 1024), 1e5, np.float32)
    want = start.copy()
    reference(split_sum, X, want)
    for _ in range(5):
        out = start.copy()
        cpu(split_sum, X, out)
        assert out.tobytes() == want.tobytes()


@pl.jit
def picks(x: Big, rows: pl.Tensor[[1, 64], pl.INT32], out: pl.Out[Big]):
    for b in pl.spmd(64):
        r = pl.read(rows, [0, b])
        out[b * 4 : b * 4 + 4, :] = pl.exp(x[r : r + 4, :])


def outcome(run: Any) -> Any:
    with pytest.raises(PyptoError) as caught:
        run()
    return caught.value.code, caught.value.message, caught.value.source and caught.value.source.line


@pytest.mark.parametrize("bad", [[0], [3, 4, 5], [63], [17, 40], list(range(64))], ids=str)
def test_the_error_is_that_of_the_first_block_that_fails(bad):
    rows = np.zeros((1, 64), np.int32)
    rows[0, bad] = 300 + np.arange(len(bad))
    out = np.full((256, 1024), -7, np.float32)
    want = outcome(lambda: reference(picks, X, rows, np.zeros_like(X)))
    for _ in range(3):
        assert outcome(lambda: cpu(picks, X, rows, out)) == want
    assert (out == -7).all()


def test_a_launch_after_a_failed_one_is_as_any_other():
    rows = np.zeros((1, 64), np.int32)
    want = np.asarray(reference(picks, X, rows))
    rows[0, 5] = 300
    outcome(lambda: cpu(picks, X, rows))
    rows[0, 5] = 0
    assert np.asarray(cpu(picks, X, rows)).tobytes() == want.tobytes()


@pl.jit
def updates_then_fails(x: Big, rows: pl.Tensor[[1, 64], pl.INT32], out: pl.InOut[pl.Tensor[[1, 1024], pl.FP32]]):
    for b in pl.spmd(64):
        r = pl.read(rows, [0, b])
        pl.assemble(out, pl.exp(x[r : r + 1, :]), [0, 0], atomic=pl.AtomicType.Add)


def test_blocks_that_wait_for_their_turn_end_when_one_before_them_fails():
    rows = np.zeros((1, 64), np.int32)
    rows[0, 20] = 999
    out = np.zeros((1, 1024), np.float32)
    want = outcome(lambda: reference(updates_then_fails, X, rows, np.zeros_like(out)))
    for _ in range(5):
        assert outcome(lambda: cpu(updates_then_fails, X, rows, out)) == want
    assert not out.any()


def test_callers_on_several_threads_do_not_disturb_each_other():
    want, wrong = np.asarray(reference(exponentials, X)).tobytes(), []

    def caller() -> None:
        for _ in range(5):
            if np.asarray(cpu(exponentials, X)).tobytes() != want:
                wrong.append(1)

    callers = [threading.Thread(target=caller) for _ in range(4)]
    for t in callers:
        t.start()
    for t in callers:
        t.join(60)
    assert not wrong and not any(t.is_alive() for t in callers)
