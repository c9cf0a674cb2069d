"""Barriers of an spmd body: phases, and what may not stand around one."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.errors import PyptoError
from tests.everywhere import same_everywhere, traced_error

Rows = pl.Tensor[[32, 64], pl.FP32]
X = np.random.default_rng(2).integers(-8, 8, (32, 64)).astype(np.float32)  # sums of which are exact in any order
TOTAL = X.reshape(4, 8, 64).sum(1)


@pl.jit
def phases(x: Rows, out: pl.Out[Rows]):
    partial = pl.create_tensor([4, 64], dtype=pl.FP32)
    for i in pl.spmd(4, name_hint="phases"):
        mine = x[i * 8 : i * 8 + 8, :]
        twice = i * 2
        partial[i : i + 1, :] = pl.col_sum(mine)
        pl.system.syncall(core_type="aiv_only", mode=pl.SyncAllMode.SOFT)
        other = 3 - i
        out[i * 8 : i * 8 + 8, :] = pl.col_expand_mul(mine, partial[other : other + 1, :])


def test_every_block_finishes_a_phase_before_any_starts_the_next_and_keeps_its_values() -> None:
    want = (X.reshape(4, 8, 64) * TOTAL[::-1][:, None]).reshape(32, 64)
    same_everywhere(phases, X, want=[want], eager=False)


@pl.jit
def rounds(x: Rows, n: pl.Scalar[pl.INT32], out: pl.Out[Rows]):
    ring = pl.create_tensor([8, 64], dtype=pl.FP32)
    for i in pl.spmd(4, name_hint="rounds"):
        value = pl.col_sum(x[i * 8 : i * 8 + 8, :])
        ring[i : i + 1, :] = value
        for r in pl.range(n):
            pl.system.syncall(core_type="aiv_only", mode="soft")
            source = (r % 2) * 4 + (i + 1) % 4
            target = (1 - r % 2) * 4 + i
            value = pl.add(ring[source : source + 1, :], 1.0)
            ring[target : target + 1, :] = value
        out[i * 8 : i * 8 + 8, :] = pl.col_expand_mul(pl.full([8, 64], dtype=pl.FP32, value=1.0), value)


@pytest.mark.parametrize("n", [0, 1, 3, 4])
def test_a_barrier_in_a_loop_of_as_many_turns_for_every_block_is_a_phase_per_turn(n: int) -> None:
    want = np.repeat(np.roll(TOTAL, -n, 0) + n, 8, 0)
    same_everywhere(rounds, X, n, want=[want], eager=False)


@pl.jit
def exchanges(start: Rows, rows: pl.InOut[Rows]):
    for i in pl.spmd(4, name_hint="exchanges"):
        mine = rows[i * 8 : i * 8 + 8, :]
        kept = pl.add(start[i * 8 : i * 8 + 8, :], 1.0)
        pl.system.syncall(core_type="aiv_only", mode="soft")
        other = (i + 1) % 4
        rows[other * 8 : other * 8 + 8, :] = pl.mul(mine, kept)


def test_what_was_loaded_before_a_barrier_is_what_was_there_then() -> None:
    parts = X.reshape(4, 8, 64)
    want = np.roll((parts + 3) * (parts + 1), 1, 0).reshape(32, 64)
    same_everywhere(exchanges, X, X + 3, want=[want], eager=False)


@pl.jit
def products(a: pl.Tensor[[64, 64], pl.BF16], rows: pl.InOut[pl.Tensor[[64, 64], pl.BF16]], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
    for i in pl.spmd(4, name_hint="products"):
        total = pl.matmul(rows[i * 16 : i * 16 + 16, :], a, out_dtype=pl.FP32)
        for k in pl.range(2):
            pl.system.syncall(core_type="mix", mode="soft")
            other = (i + 1 + k) % 4
            half = pl.cast(pl.mul(total, 0.125), pl.BF16)
            rows[other * 16 : other * 16 + 16, :] = half
            pl.system.syncall(core_type="mix", mode="soft")
            total = pl.matmul_acc(total, rows[i * 16 : i * 16 + 16, :], a)
        out[i * 16 : i * 16 + 16, :] = total


def test_accumulators_survive_barriers() -> None:
    draw = np.random.default_rng(3).integers(-4, 4, (2, 64, 64)).astype(ml_dtypes.bfloat16)
    with pypto.override(check=False, executor="reference"):
        rows = draw[1].copy()
        want = np.asarray(products(draw[0], rows))
    same_everywhere(products, draw[0], draw[1], want=[want], eager=False)
    assert products.lower().compiled.executor == "cpu" and (rows != draw[1]).any()


@pl.jit
def fails_in_the_second_phase(x: Rows, n: pl.Tensor[[1, 4], pl.INT32], out: pl.Out[Rows]):
    for i in pl.spmd(4):
        row = pl.read(n, [0, i])
        out[i * 8 : i * 8 + 8, :] = x[i * 8 : i * 8 + 8, :]
        pl.system.syncall(core_type="aiv_only", mode="soft")
        out[i * 8 : i * 8 + 8, :] = x[row : row + 8, :]  # refused


@pytest.mark.parametrize("bad", [[0, 99, 99, 0], [0, 0, 0, 30]], ids=str)
def test_an_error_between_barriers_is_that_of_the_first_block_and_leaves_outputs_alone(bad) -> None:
    out, rows = np.full_like(X, -7), np.int32([bad])
    for executor in ("cpu", "reference", "cpu"):
        with pypto.override(check=False, executor=executor), pytest.raises(PyptoError) as caught:
            fails_in_the_second_phase(X, rows, out)
        assert caught.value.code == "PL303" and caught.value.source.text.endswith("# refused") and str(max(bad)) in caught.value.message
        assert (out == -7).all()


@pl.jit
def many_blocks(x: pl.Tensor[[1, 64], pl.FP32], n: pl.Scalar[pl.INT32], out: pl.InOut[pl.Tensor[[1, 64], pl.FP32]]):
    for i in pl.spmd(n):
        mine = pl.mul(x, 0.5)
        for r in pl.range(3):
            pl.system.syncall(core_type="aiv_only", mode="soft")
            pl.assemble(out, mine, [0, 0], atomic=pl.AtomicType.Add)


@pytest.mark.parametrize("n", [0, 1, 2, 300])
def test_any_number_of_blocks_may_wait_for_each_other(n: int) -> None:
    x = np.arange(64, dtype=np.float32)[None]
    same_everywhere(many_blocks, x, n, np.zeros_like(x), want=[x * 0.5 * 3 * n], eager=False)


def test_more_blocks_than_there_is_memory_for_cannot_wait_for_each_other() -> None:
    with pypto.override(check=False, executor="cpu"), pytest.raises(MemoryError) as caught:
        many_blocks(np.ones((1, 64), np.float32), 2**31 - 1, np.zeros((1, 64), np.float32))
    assert isinstance(caught.value, PyptoError) and caught.value.code == "PL407"


def test_barriers_are_compiled() -> None:
    for kernel in (phases, rounds, shared_test, exchanges, products, many_blocks):
        assert kernel.lower().compiled.executor == "cpu", kernel.lower().compiled.reason


@pl.jit
def shared_test(x: Rows, n: pl.Scalar[pl.INT32], out: pl.Out[Rows]):
    partial = pl.create_tensor([4, 64], dtype=pl.FP32, init_value=0.0)
    for i in pl.spmd(4):
        partial[i : i + 1, :] = x[i : i + 1, :]
        if n > 0:
            pl.system.syncall(core_type="aiv_only", mode="soft")
            partial[i : i + 1, :] = pl.mul(x[i : i + 1, :], 2.0)
        out[i * 8 : i * 8 + 8, :] = pl.col_expand_mul(pl.full([8, 64], dtype=pl.FP32, value=1.0), partial[i : i + 1, :])


@pytest.mark.parametrize("n", [0, 1])
def test_a_branch_that_all_blocks_take_alike_may_hold_a_barrier(n: int) -> None:
    same_everywhere(shared_test, X, n, want=[np.repeat(X[:4] * (1 + n), 8, 0)], eager=False)


def by_block(x: Rows, out: pl.Out[Rows]):
    for i in pl.spmd(4):
        if i < 2:
            pl.system.syncall(core_type="aiv_only", mode="soft")  # refused
        out[i * 8 : i * 8 + 8, :] = x[i * 8 : i * 8 + 8, :]


def turns_by_block(x: Rows, out: pl.Out[Rows]):
    for i in pl.spmd(4):
        for r in pl.range(i):
            pl.system.syncall(core_type="aiv_only", mode="soft")  # refused
        out[i * 8 : i * 8 + 8, :] = x[i * 8 : i * 8 + 8, :]


def by_memory(x: Rows, n: pl.InOut[pl.Tensor[[4], pl.INT32]], out: pl.Out[Rows]):
    for i in pl.spmd(4):
        pl.write(n, [i], i)
        if pl.read(n, [0]) > 0:
            pl.system.syncall(core_type="aiv_only", mode="soft")  # refused
        out[i * 8 : i * 8 + 8, :] = x[i * 8 : i * 8 + 8, :]


def by_a_carried_value(x: Rows, out: pl.Out[Rows]):
    for i in pl.spmd(4):
        seen = 0
        for r in pl.range(3):
            if seen > 1:
                pl.system.syncall(core_type="aiv_only", mode="soft")  # refused
            seen = seen + i
        out[i * 8 : i * 8 + 8, :] = x[i * 8 : i * 8 + 8, :]


def by_a_tile(x: Rows, out: pl.Out[Rows]):
    for i in pl.spmd(4):
        flag = pl.full([1, 8], dtype=pl.INT32, value=0)
        pl.write(flag, [0, 0], i)
        if pl.read(flag, [0, 0]) == 1:
            pl.system.syncall(core_type="aiv_only", mode="soft")  # refused
        out[i * 8 : i * 8 + 8, :] = x[i * 8 : i * 8 + 8, :]


@pytest.mark.parametrize("fn", [by_block, turns_by_block, by_memory, by_a_carried_value, by_a_tile], ids=lambda f: f.__name__)
def test_a_barrier_that_blocks_may_reach_differently_often_is_refused(fn) -> None:
    traced_error("PL505", fn, pl.jit, lambda k: k.trace())


@pl.jit
def unwritten_by_the_body(x: Rows, n: pl.Tensor[[1], pl.INT32], out: pl.Out[Rows]):
    for i in pl.spmd(4):
        for r in pl.range(pl.read(n, [0])):
            pl.system.syncall(core_type="aiv_only", mode="soft")
        out[i * 8 : i * 8 + 8, :] = x[i * 8 : i * 8 + 8, :]


def test_memory_that_the_body_does_not_write_is_the_same_for_every_block() -> None:
    same_everywhere(unwritten_by_the_body, X, np.int32([2]), want=[X], eager=False)


def outside(x: Rows, out: pl.Out[Rows]):
    pl.system.syncall()  # refused


def test_a_barrier_outside_a_region_is_refused() -> None:
    traced_error("PL105", outside, pl.jit, lambda k: k.trace())


# Hard barriers need every core


def vector_kernel(blocks: int, together: bool = True, core_type: str = "aiv_only"):
    @pl.jit
    def k(x: pl.Tensor[[48, 64], pl.FP32], out: pl.Out[pl.Tensor[[48, 64], pl.FP32]]):
        for i in pl.spmd(blocks, sync_start=together):
            out[i : i + 1, :] = x[i : i + 1, :]
            pl.system.syncall(core_type=core_type)  # refused

    return k


def test_a_hard_barrier_that_fills_the_device_runs() -> None:
    x = np.ones((48, 64), np.float32)
    assert np.array_equal(vector_kernel(48)(x), x)


@pytest.mark.parametrize(
    "kernel",
    [vector_kernel(4), vector_kernel(24), vector_kernel(48, False), vector_kernel(48, True, "mix"), vector_kernel(24, True, "aic_only")],
)
def test_a_hard_barrier_at_partial_occupancy_is_refused_with_the_soft_one(kernel) -> None:
    with pytest.raises(PyptoError) as caught:
        kernel.lower()
    assert caught.value.code == "PL505" and caught.value.source.text.endswith("# refused")
    assert "mode=pl.SyncAllMode.SOFT" in caught.value.fix


def test_how_many_cores_there_are_is_the_platform_s() -> None:
    @pl.jit
    def k(x: pl.Tensor[[72, 64], pl.FP32], out: pl.Out[pl.Tensor[[72, 64], pl.FP32]]):
        for i in pl.spmd(pl.system.available_aiv_count(), sync_start=True):
            for row in pl.range(i, 72, pl.system.available_aiv_count()):
                out[row : row + 1, :] = x[row : row + 1, :]
            pl.system.syncall(core_type="aiv_only")

    x = np.random.default_rng(0).random((72, 64), np.float32)
    for platform, blocks in (("a2a3sim", 48), ("a5sim", 72)):
        with pypto.override(platform=platform):
            assert f"core_num={blocks}" in str(k.lower())
            assert np.array_equal(k(x), x)


@pl.jit
def cube_and_vector(x: pl.Tensor[[32, 32], pl.FP32], out: pl.Out[pl.Tensor[[32, 32], pl.FP32]]):
    with pl.spmd(pl.system.available_cluster_count(), sync_start=True) as tid:
        block = pl.tile.get_block_idx()
        if block == 0:
            out[:] = pl.exp(pl.matmul(x, x))
        pl.system.syncall(core_type="mix")


def test_a_mixed_kernel_fills_the_device_by_clusters() -> None:
    assert cube_and_vector.lower().kernels[0].unit == "mixed"


def in_a_single_block(x: Rows, out: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        pl.system.syncall(core_type="aiv_only")  # refused


def with_blocks_known_at_run_time(x: Rows, n: pl.Scalar[pl.INT32], out: pl.Out[Rows]):
    for i in pl.spmd(n, sync_start=True):
        out[i * 8 : i * 8 + 8, :] = x[i * 8 : i * 8 + 8, :]
        pl.system.syncall(core_type="aiv_only")  # refused


def waits_for_too_many(x: Rows, out: pl.Out[Rows]):
    for i in pl.spmd(4):
        out[i * 8 : i * 8 + 8, :] = x[i * 8 : i * 8 + 8, :]
        pl.system.syncall(core_type="aiv_only", mode="soft", used_cores=8)  # refused


@pytest.mark.parametrize("fn", [in_a_single_block, with_blocks_known_at_run_time, waits_for_too_many], ids=lambda f: f.__name__)
def test_a_barrier_for_cores_that_never_arrive_is_refused(fn) -> None:
    traced_error("PL505", fn, pl.jit, lambda k: k.lower())


def test_on_the_cpu_platform_nothing_is_counted() -> None:
    x = np.ones((48, 64), np.float32)
    with pypto.override(platform="cpu"):
        assert vector_kernel(4, False).lower() is not None
        assert np.array_equal(vector_kernel(48, False)(x), x)


# Operands of a soft one


@pl.jit
def polls(x: Rows, workspace: pl.Tensor[[16], pl.INT32], out: pl.Out[Rows]):
    for i in pl.spmd(4):
        out[i * 8 : i * 8 + 8, :] = x[i * 8 : i * 8 + 8, :]
        pl.system.syncall(core_type="aiv_only", mode="soft", gm_workspace=workspace, used_cores=4)


def test_a_soft_barrier_takes_a_workspace_and_the_number_of_cores() -> None:
    same_everywhere(polls, X, np.zeros(16, np.int32), want=[X], eager=False)
    assert "pl.system.syncall(core_type='aiv_only', mode='soft', gm_workspace=workspace, used_cores=4)" in str(polls.lower())


BARRIERS = {
    "another core type": ("PL601", lambda x, w: pl.system.syncall(core_type="all")),
    "another mode": ("PL601", lambda x, w: pl.system.syncall(mode="firm")),
    "a number of cores of a hard one": ("PL601", lambda x, w: pl.system.syncall(used_cores=4)),
    "a workspace of another dtype": ("PL505", lambda x, w: pl.system.syncall(mode="soft", gm_workspace=x)),
    "a workspace that is too small": ("PL505", lambda x, w: pl.system.syncall(mode="soft", gm_workspace=w)),
}


@pytest.mark.parametrize("case", BARRIERS)
def test_bad_barriers_are_refused(case: str) -> None:
    code, barrier = BARRIERS[case]

    @pl.jit
    def k(x: Rows, w: pl.Tensor[[4], pl.INT32], out: pl.Out[Rows]):
        for i in pl.spmd(4):
            out[i * 8 : i * 8 + 8, :] = x[i * 8 : i * 8 + 8, :]
            barrier(x, w)

    with pytest.raises(PyptoError) as caught:
        k.trace()
    assert caught.value.code == code


def test_an_eager_run_refuses_a_barrier_between_blocks() -> None:
    with pytest.raises(PyptoError) as caught:
        phases.eager(X)
    assert caught.value.code == "PL505"


# Blocks that start together


def too_many(x: Rows, out: pl.Out[Rows]):
    for i in pl.spmd(49, sync_start=True):  # refused
        out[0:1, :] = x[i - i : i - i + 1, :]


def test_more_blocks_than_cores_cannot_start_together() -> None:
    traced_error("PL508", too_many, pl.jit, lambda k: k.lower())


@pl.jit
def as_many_as_asked(x: pl.Tensor[[64, 64], pl.FP32], n: pl.Scalar[pl.INT32], out: pl.InOut[pl.Tensor[[64, 64], pl.FP32]]):
    for i in pl.spmd(n, sync_start=True):  # refused
        out[i : i + 1, :] = x[i : i + 1, :]


@pytest.mark.parametrize("executor", ["reference", "cpu"])
def test_a_number_of_blocks_known_at_run_time_is_held_against_the_cores_then(executor: str) -> None:
    x, out = np.ones((64, 64), np.float32), np.zeros((64, 64), np.float32)
    with pypto.override(executor=executor, check=executor == "reference"):
        as_many_as_asked(x, 48, out)
        assert out[:48].all() and not out[48:].any()
        with pytest.raises(PyptoError) as caught:
            as_many_as_asked(x, 49, out)
    assert caught.value.code == "PL508" and caught.value.source.text.endswith("# refused")


def test_blocks_that_need_not_start_together_come_in_waves() -> None:
    @pl.jit
    def k(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
        for i in pl.spmd(64):
            out[i : i + 1, :] = x[i : i + 1, :]

    x = np.random.default_rng(0).random((64, 64), np.float32)
    same_everywhere(k, x, want=[x])
