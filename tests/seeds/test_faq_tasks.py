"""The FAQ's rows about tasks and their limitations, one test each, named after what the row states."""

from __future__ import annotations

import numpy as np
import pytest

import pypto.language as pl
from tests.everywhere import same_everywhere, tasks_of, traced_error

pytestmark = pytest.mark.limits

Rows = pl.Tensor[[32, 64], pl.FP32]
X = np.random.default_rng(0).random((32, 64), np.float32)


def in_a_python_list(x: Rows, out: pl.Out[Rows]):
    tids = []
    for i in pl.range(4):
        with pl.at(level=pl.Level.CORE_GROUP) as tid:
            out[i * 8 : i * 8 + 8, :] = x[i * 8 : i * 8 + 8, :]
        tids.append(tid)
    done = pl.system.task_dummy(deps=tids)  # refused


@pl.jit
def in_an_array(x: Rows, out: pl.Out[Rows]):
    tids = pl.array.create(4, pl.TASK_ID)
    for i in pl.range(4):
        with pl.at(level=pl.Level.CORE_GROUP) as tid:
            out[i * 8 : i * 8 + 8, :] = x[i * 8 : i * 8 + 8, :]
        tids[i] = tid
    done = pl.system.task_dummy(deps=[tids])


def test_task_ids_cannot_be_collected_in_a_python_list_and_the_fix_is_an_array() -> None:
    """FAQ: Why can't I collect TaskIds in a Python list? Use `pl.array.create(n, pl.TASK_ID)`: the error's fix."""
    error = traced_error("PL110", in_a_python_list, pl.jit, lambda k: k.trace())
    assert "pl.array.create(n, pl.TASK_ID)" in error.fix and "tids[i] = tid" in error.fix
    same_everywhere(in_an_array, X, want=[X])
    assert tasks_of(in_an_array, X)[-1].deps == (1, 2, 3, 4)


def hard_at_partial_occupancy(x: Rows, out: pl.Out[Rows]):
    for i in pl.spmd(4, sync_start=True):
        out[i * 8 : i * 8 + 8, :] = x[i * 8 : i * 8 + 8, :]
        pl.system.syncall(core_type="aiv_only")  # refused


@pl.jit
def soft_at_partial_occupancy(x: Rows, out: pl.Out[Rows]):
    halves = pl.create_tensor([32, 64], dtype=pl.FP32)
    for i in pl.spmd(4):
        halves[i * 8 : i * 8 + 8, :] = pl.mul(x[i * 8 : i * 8 + 8, :], 0.5)
        pl.system.syncall(core_type="aiv_only", mode=pl.SyncAllMode.SOFT)
        other = 24 - i * 8
        out[i * 8 : i * 8 + 8, :] = halves[other : other + 8, :]


def test_a_hard_syncall_needs_full_occupancy_and_the_soft_one_is_the_remedy() -> None:
    """FAQ: Hard `syncall` needs full occupancy: refused when lowered, with `mode=pl.SyncAllMode.SOFT` as the remedy."""
    error = traced_error("PL505", hard_at_partial_occupancy, pl.jit, lambda k: k.lower())
    assert "mode=pl.SyncAllMode.SOFT" in error.fix
    want = (X * np.float32(0.5)).reshape(4, 8, 64)[::-1].reshape(32, 64)
    same_everywhere(soft_at_partial_occupancy, X, want=[want], eager=False)


@pl.jit
def split_k(a: pl.Tensor[[16, 128], pl.FP32], b: pl.Tensor[[128, 16], pl.FP32], out: pl.InOut[pl.Tensor[[16, 16], pl.FP32]]):
    for part in pl.spmd(4):
        k0 = part * 32
        product = pl.matmul(a[:, k0 : k0 + 32], b[k0 : k0 + 32, :])
        out = pl.assemble(out, product, [0, 0], atomic=pl.AtomicType.Add)


def test_split_k_results_repeat_here_because_blocks_add_in_their_order() -> None:
    """FAQ: Split-K results differ between runs. Here they repeat: blocks add in their order."""
    a, b = X[:16].repeat(2, 1), X[:, :16].repeat(4, 0)
    runs = [np.asarray(split_k(a, b, np.zeros((16, 16), np.float32))).tobytes() for _ in range(3)]
    assert len(set(runs)) == 1
    want = np.zeros((16, 16), np.float32)
    for k0 in range(0, 128, 32):
        part = np.zeros((16, 16), np.float32)
        split = np.asarray(split_k(np.where((np.arange(128) // 32) == k0 // 32, a, 0), b, part))
        want = want + split
    assert np.asarray(split_k(a, b, np.zeros((16, 16), np.float32))).tobytes() == want.tobytes()
