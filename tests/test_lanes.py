"""The two vector lanes of a core group: who runs what, what crosses, and what is refused."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.errors import PyptoError
from tests.everywhere import same_everywhere, traced_error

Square = pl.Tensor[[32, 32], pl.FP32]
A = np.random.default_rng(3).integers(-3, 4, (32, 32)).astype(np.float32)
B = np.random.default_rng(4).integers(-3, 4, (32, 32)).astype(np.float32)
AB = A @ B  # exact: small integers


@pl.jit
def divided(a: Square, b: Square, out: pl.Out[Square]):
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="divided"):
        product = pl.matmul(a, b)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
            whole = pl.adds(pl.aiv_shard(product), 1.0)
            row = lane * 16
            out[row : row + 16, :] = whole[row : row + 16, :]


def test_without_a_split_both_lanes_have_all_of_a_value_and_divide_the_work_by_their_index() -> None:
    same_everywhere(divided, A, B, want=[AB + 1])
    assert divided.lower().kernels[0].unit == "mixed"


@pl.jit
def halves(a: Square, b: Square, rows: pl.Out[Square], columns: pl.Out[Square]):
    with pl.at(level=pl.Level.CORE_GROUP):
        product = pl.matmul(a, b)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            rows[lane * 16 : lane * 16 + 16, :] = pl.muls(pl.aiv_shard(product), 2.0)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.LEFT_RIGHT):
            columns[:, lane * 16 : lane * 16 + 16] = pl.muls(pl.aiv_shard(product), 3.0)


def test_a_split_gives_each_lane_half_of_the_rows_or_columns() -> None:
    same_everywhere(halves, A, B, want=[AB * 2, AB * 3])


@pl.jit
def there_and_back(a: Square, b: Square, out: pl.Out[Square], up: pl.Out[Square]):
    with pl.at(level=pl.Level.CORE_GROUP):
        product = pl.matmul(a, b)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.LEFT_RIGHT):
            half = pl.adds(pl.aiv_shard(product), 1.0)
            joined = pl.aic_gather(half)
        out[:] = pl.matmul(joined, b)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            joined = pl.aic_gather(pl.adds(pl.aiv_shard(product), 2.0))
        up[:] = pl.matmul(joined, b)


def test_what_the_lanes_hand_to_the_cube_is_joined() -> None:
    same_everywhere(there_and_back, A, B, want=[(AB + 1) @ B, (AB + 2) @ B])


@pl.jit
def alike(a: Square, b: Square, out: pl.Out[Square]):
    with pl.at(level=pl.Level.CORE_GROUP):
        product = pl.matmul(a, b)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
            same = pl.adds(pl.aiv_shard(product), 1.0)
            same = pl.aic_gather(same)
        out[:] = pl.matmul(same, b)


@pl.jit
def unlike(a: Square, b: Square, out: pl.Out[Square]):
    with pl.at(level=pl.Level.CORE_GROUP):
        product = pl.matmul(a, b)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
            own = pl.adds(pl.aiv_shard(product), 1.0 + lane)
            own = pl.aic_gather(own)
        out[:] = pl.matmul(own, b)


def test_without_a_split_both_lanes_must_hand_over_the_same_value() -> None:
    same_everywhere(alike, A, B, want=[(AB + 1) @ B])
    with pypto.override(check=True), pytest.raises(PyptoError) as caught:
        unlike(A, B)
    assert caught.value.code == "PL507"
    with pypto.override(check=False, executor="reference"):
        first = np.asarray(unlike(A, B))
    with pypto.override(check=False, executor="cpu"):
        assert np.array_equal(np.asarray(unlike(A, B)), first)


@pl.jit
def values_of_their_own(a: Square, b: Square, out: pl.Out[Square]):
    with pl.at(level=pl.Level.CORE_GROUP):
        product = pl.matmul(a, b)
        total = pl.create_tensor([16, 32], dtype=pl.FP32)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            kept = pl.adds(pl.aiv_shard(product), 5.0)
            number = lane * 16
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            out[number : number + 16, :] = pl.muls(kept, 2.0)


def test_a_lane_keeps_its_values_from_one_body_to_the_next() -> None:
    same_everywhere(values_of_their_own, A, B, want=[(AB + 5) * 2])


@pl.jit
def each_from_before(a: Square, b: Square, out: pl.Out[Square]):
    with pl.at(level=pl.Level.CORE_GROUP):
        product = pl.matmul(a, b)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
            shift = pl.full([16, 32], dtype=pl.FP32, value=1.0)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
            shift = pl.adds(shift, 1.0)
            out[lane * 16 : lane * 16 + 16, :] = pl.add(pl.aiv_shard(product)[lane * 16 : lane * 16 + 16, :], shift)


@pl.jit
def carried(a: Square, b: Square, n: pl.Scalar[pl.INT32], out: pl.Out[Square]):
    with pl.at(level=pl.Level.CORE_GROUP):
        product = pl.matmul(a, b)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            total = pl.full([16, 32], dtype=pl.FP32, value=0.0)
        for r in pl.range(n):
            for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
                total = pl.add(total, pl.adds(pl.aiv_shard(product), lane))
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            out[lane * 16 : lane * 16 + 16, :] = total


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_loop_around_the_lanes_carries_the_values_of_both(n: int) -> None:
    own = np.repeat(np.float32([0, 1]), 16)[:, None]
    want = np.zeros((32, 32), np.float32)
    for _ in range(n):
        want += AB + own
    same_everywhere(carried, A, B, n, want=[want])


def test_each_lane_starts_from_what_was_there_before_not_from_what_the_other_made() -> None:
    same_everywhere(each_from_before, A, B, want=[AB + 2])


@pl.jit
def in_a_loop(a: Square, b: Square, out: pl.Out[Square]):
    with pl.spmd(2, name_hint="both") as tid:
        block = pl.tile.get_block_idx()
        for r in pl.range(2):
            row = block * 16
            product = pl.matmul(a[row : row + 16, :], b[:, r * 16 : r * 16 + 16])
            for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
                if lane == r:
                    out[row : row + 16, r * 16 : r * 16 + 16] = pl.adds(pl.aiv_shard(product), 1.0)


def test_lanes_stand_in_loops_and_under_dispatches() -> None:
    same_everywhere(in_a_loop, A, B, want=[AB + 1])


@pl.jit
def alone(a: Square, out: pl.Out[Square]):
    for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
        out[lane * 16 : lane * 16 + 16, :] = pl.adds(a[lane * 16 : lane * 16 + 16, :], 1.0)


def test_lanes_outside_a_region_open_one() -> None:
    same_everywhere(alone, A, want=[A + 1])
    assert len(alone.lower().kernels) == 1


@pl.jit
def by_query(a: Square, out: pl.Out[Square]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for _ in pl.split_aiv(2, mode=pl.SplitMode.NONE):
            row = pl.tile.get_subblock_idx() * 16
            out[row : row + 16, :] = pl.adds(a[row : row + 16, :], 1.0)


def test_the_lane_is_also_the_subblock_index() -> None:
    same_everywhere(by_query, A, want=[A + 1])


def test_lanes_are_marked_in_the_program() -> None:
    text = str(halves.lower())
    assert text.count("UP_DOWN") == 2 and text.count("LEFT_RIGHT") == 2


# Partly valid tiles


@pl.jit
def partly(a: pl.Tensor[[32, 32], pl.BF16], b: pl.Tensor[[32, 32], pl.BF16], n: pl.Scalar[pl.INT32], out: pl.InOut[Square]):
    with pl.at(level=pl.Level.CORE_GROUP):
        some = pl.slice(a, [32, 32], [0, 0], valid_shape=[n, 32])
        product = pl.matmul(some, b, out_dtype=pl.FP32)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            out[lane * 16 : lane * 16 + 16, :] = pl.adds(pl.aiv_shard(product), 1.0)


@pytest.mark.parametrize("n", [1, 16, 20, 32])
def test_the_valid_rows_of_a_half_are_those_that_lie_in_it(n: int) -> None:
    half = ml_dtypes.bfloat16
    want = np.zeros((32, 32), np.float32)
    want[:n] = (AB + 1)[:n]
    same_everywhere(partly, A.astype(half), B.astype(half), n, np.zeros((32, 32), np.float32), want=[want])


# What is refused


def vector_outside(a: Square, b: Square, out: pl.Out[Square]):
    with pl.at(level=pl.Level.CORE_GROUP):
        product = pl.matmul(a, b)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
            out[lane : lane + 1, :] = pl.aiv_shard(product)[lane : lane + 1, :]
        out[:] = pl.exp(product)  # refused


def cube_inside(a: Square, b: Square, out: pl.Out[Square]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
            out[:] = pl.matmul(a, b)  # refused


def unnamed_in(a: Square, b: Square, out: pl.Out[Square]):
    with pl.at(level=pl.Level.CORE_GROUP):
        product = pl.matmul(a, b)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
            out[:] = pl.exp(product)  # refused


def unnamed_out(a: Square, b: Square, out: pl.Out[Square]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
            shifted = pl.adds(a[lane * 16 : lane * 16 + 16, :], 1.0)
        out[0:16, :] = pl.matmul(shifted, b)  # refused


def shard_outside(a: Square, b: Square, out: pl.Out[Square]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.aiv_shard(pl.matmul(a, b))  # refused


def gather_outside(a: Square, b: Square, out: pl.Out[Square]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.aic_gather(pl.exp(a))  # refused


def read_back(a: Square, b: Square, out: pl.Out[Square]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
            given = pl.aic_gather(pl.adds(a, 1.0))
            out[:] = pl.exp(given)  # refused


def nested(a: Square, b: Square, out: pl.Out[Square]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
            for other in pl.split_aiv(2, mode=pl.SplitMode.NONE):  # refused
                out[:] = pl.exp(a)


def barrier_inside(a: Square, b: Square, out: pl.Out[Square]):
    for i in pl.spmd(2):
        for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
            out[lane : lane + 1, :] = a[lane : lane + 1, :]
            pl.system.syncall(mode="soft")  # refused


def no_half(a: Square, b: Square, out: pl.Out[Square]):
    with pl.at(level=pl.Level.CORE_GROUP):
        product = pl.matmul(a[0:16, :], b)[0:15, :]
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            out[0:7, :] = pl.aiv_shard(product)[0:7, :]  # refused


def of_a_number(a: Square, b: Square, out: pl.Out[Square]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
            out[:] = pl.adds(a, pl.aiv_shard(3))  # refused


REFUSED = [
    vector_outside,
    cube_inside,
    unnamed_in,
    unnamed_out,
    shard_outside,
    gather_outside,
    read_back,
    nested,
    barrier_inside,
    no_half,
    of_a_number,
]


@pytest.mark.parametrize("fn", REFUSED, ids=lambda f: f.__name__)
def test_what_stands_on_the_wrong_side_is_refused(fn) -> None:
    traced_error("PL507", fn, pl.jit, lambda k: k.trace())


@pytest.mark.parametrize("make", [lambda: pl.split_aiv(3, mode=pl.SplitMode.NONE), lambda: pl.split_aiv(2, mode="NONE")])
def test_a_core_group_has_two_lanes_and_three_modes(make) -> None:
    with pytest.raises(PyptoError) as caught:
        make()
    assert caught.value.code == "PL601"


def test_the_lane_exists_inside_a_body_only() -> None:
    @pl.jit
    def k(a: Square, out: pl.Out[Square]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.adds(a, pl.tile.get_subblock_idx())

    with pytest.raises(PyptoError) as caught:
        k.trace()
    assert caught.value.code == "PL105"
