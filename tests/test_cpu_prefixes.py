"""Sorting makes only what is read: whoever reads the first pairs gets the reference's bits, and whoever reads more gets more."""

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import lax
from pypto.core.op import OPS
from pypto.interpreters.cpu.launch import Compiled, compile_program
from tests.both import differs
from tests.executors import difference
from tests.fuzz import TARGETS

LESSER = ["AVX2", "SSE4.2"]
INF, NAN = np.inf, np.nan


def hard_rows(n, storage=np.float32):
    """Rows with ties, zeros of both signs, infinities and NaN everywhere a selection could stumble over them."""
    rng = np.random.default_rng(n)
    rows = [rng.normal(size=n) for _ in range(4)]
    rows += [np.arange(n), -np.arange(n), np.zeros(n), np.full(n, -INF), np.full(n, NAN), np.full(n, INF)]
    rows += [rng.integers(-2, 3, n), rng.choice([0.0, -0.0, 1.0], n), rng.choice([-INF, INF, NAN, -0.0, 0.0, 3.0], n)]
    few = np.full(n, NAN)
    few[rng.integers(0, n, 3)] = 1.0
    low = np.full(n, -INF)
    low[n // 3 :: n // 3] = -3e38
    behind = np.where(np.arange(n) < n - 20, NAN, rng.normal(size=n))
    one_lane = np.where(np.arange(n) % 16 == 5, 9.0 + np.arange(n), rng.normal(size=n))
    with np.errstate(over="ignore"):
        return np.stack([*rows, few, low, behind, one_lane, rng.permutation(n) * 1e-40, np.repeat([5.0, -0.0], n // 2)]).astype(storage)


def same_bits(kernel, *args, targets=("this CPU",)):
    """Whether the compiled kernel does what the reference does."""
    with pypto.override(platform="cpu"):
        call = kernel._bind(args, {})
        program = kernel._program(call)
        for name in targets:
            compiled = compile_program(program.orchestration, program.bodies, TARGETS[name])
            assert isinstance(compiled, Compiled), compiled.reason
            assert difference(kernel, program, call, compiled) == "", name
    return compiled


def selects(compiled):
    return "@select_" in compiled.text


ROWS = len(hard_rows(128))


def first(n, positions, dtype=pl.FP32, steps=2, start=0):
    """The first positions of each row's sorted pairs."""

    @pl.jit
    def first(x: pl.Tensor[[ROWS, n], dtype], out: pl.Out[pl.Tensor[[ROWS, positions], dtype]]):
        for r in pl.range(ROWS):
            with pl.at(level=pl.Level.CORE_GROUP):
                s = pl.sort32(x[r : r + 1, :], pl.arange(start, [1, n], dtype=pl.UINT32))
                s = pl.mrgsort(s, block_len=64)
                if steps == 2:
                    s = pl.mrgsort(s, block_len=256)
                out[r : r + 1, :] = s[:, 0:positions]

    return first


def of_first(n, positions, dtype=pl.FP32, **options):
    storage = np.float16 if dtype is pl.FP16 else np.float32
    return first(n, positions, dtype, **options), hard_rows(n, storage), np.zeros((ROWS, positions), storage)


@pytest.mark.parametrize("pairs", [*range(1, 34), 64, 128, 511, 512])
def test_the_first_pairs_of_a_sorted_row_are_those_of_the_reference(pairs):
    compiled = same_bits(*of_first(512, 2 * pairs))
    assert selects(compiled) == (pairs <= 16)


@pytest.mark.parametrize("target", LESSER)
@pytest.mark.parametrize("pairs", [1, 8, 9, 16, 17])
def test_a_lesser_cpu_selects_the_same_pairs(pairs, target):
    same_bits(*of_first(512, 2 * pairs), targets=[target])


@pytest.mark.parametrize("pairs", [1, 3, 8, 15, 40])
def test_halves_of_pairs_are_read_like_whole_ones(pairs):
    same_bits(*of_first(512, 2 * pairs - 1))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("pairs", [5, 12, 20])
def test_fp16_pairs_are_selected_with_16_bits_of_their_index(pairs, target):
    same_bits(*of_first(512, 2 * pairs, pl.FP16, start=65000), targets=[target])


@pytest.mark.parametrize("n", [128, 256, 1024])
def test_groups_of_runs_are_selected_each_on_its_own(n):
    compiled = same_bits(*of_first(n, 2 * n, steps=1))
    assert not selects(compiled)

    @pl.jit
    def of_each(x: pl.Tensor[[ROWS, n], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, 20], pl.FP32]]):
        for r in pl.range(ROWS):
            with pl.at(level=pl.Level.CORE_GROUP):
                s = pl.sort32(x[r : r + 1, :], pl.arange(0, [1, n], dtype=pl.UINT32))
                out[r : r + 1, :] = pl.mrgsort(s, block_len=64)[:, 0:20]

    assert selects(same_bits(of_each, hard_rows(n), np.zeros((ROWS, 20), np.float32)))


def test_merges_of_lists_make_what_is_read():
    @pl.jit
    def lists(x: pl.Tensor[[ROWS, 256], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, 24], pl.FP32]], n: pl.Out[pl.Tensor[[ROWS, 4], pl.UINT16]]):
        for r in pl.range(ROWS):
            with pl.at(level=pl.Level.CORE_GROUP):
                i = pl.arange(0, [1, 128], dtype=pl.UINT32)
                a = pl.mrgsort(pl.sort32(x[r : r + 1, 0:128], i), block_len=64)
                b = pl.mrgsort(pl.sort32(x[r : r + 1, 128:256], i), block_len=64)
                s, counts = lax.mrgsort_lists(a, b, exhausted=False)
                out[r : r + 1, :] = s[:, 0:24]
                n[r : r + 1, :] = counts

    compiled = same_bits(lists, hard_rows(256), np.zeros((ROWS, 24), np.float32), np.zeros((ROWS, 4), np.uint16))
    assert selects(compiled)


def test_lists_that_end_are_merged_whole():
    @pl.jit
    def ends(x: pl.Tensor[[ROWS, 64], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, 8], pl.FP32]], n: pl.Out[pl.Tensor[[ROWS, 4], pl.UINT16]]):
        for r in pl.range(ROWS):
            with pl.at(level=pl.Level.CORE_GROUP):
                i = pl.arange(0, [1, 32], dtype=pl.UINT32)
                a, b = pl.sort32(x[r : r + 1, 0:32], i), pl.sort32(x[r : r + 1, 32:64], i)
                s, counts = lax.mrgsort_lists(a, b, exhausted=True)
                out[r : r + 1, :] = s[:, 0:8]
                n[r : r + 1, :] = counts

    same_bits(ends, hard_rows(128)[:, :64].copy(), np.zeros((ROWS, 8), np.float32), np.zeros((ROWS, 4), np.uint16))


# ---- readers -----------------------------------------------------------------------------------------------------


def test_of_several_readers_the_furthest_counts():
    @pl.jit
    def several(x: pl.Tensor[[1, 512], pl.FP32], a: pl.Out[pl.Tensor[[1, 8], pl.FP32]], b: pl.Out[pl.Tensor[[1, 100], pl.INT32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            s = pl.sort32(x[:, :], pl.arange(0, [1, 512], dtype=pl.UINT32))
            s = pl.mrgsort(pl.mrgsort(s, block_len=64), block_len=256)
            a[:, :] = pl.gather(s[:, 0:16], mask_pattern=pl.tile.MaskPattern.P0101)
            b[:, :] = pl.gather(s[:, 0:200], mask_pattern=pl.tile.MaskPattern.P1010, output_dtype=pl.INT32)

    for row in hard_rows(512)[::3]:
        assert not selects(same_bits(several, row[None], np.zeros((1, 8), np.float32), np.zeros((1, 100), np.int32)))


def test_a_reader_of_what_is_between_two_merges_gets_it():
    @pl.jit
    def between(x: pl.Tensor[[1, 512], pl.FP32], a: pl.Out[pl.Tensor[[1, 8], pl.FP32]], b: pl.Out[pl.Tensor[[1, 1024], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            s = pl.mrgsort(pl.sort32(x[:, :], pl.arange(0, [1, 512], dtype=pl.UINT32)), block_len=64)
            b[:, :] = s
            a[:, :] = pl.mrgsort(s, block_len=256)[:, 0:8]

    for row in hard_rows(512)[::3]:
        same_bits(between, row[None], np.zeros((1, 8), np.float32), np.zeros((1, 1024), np.float32))


@pytest.mark.parametrize("start", [0, 8, 1000])
def test_a_reader_in_a_branch_or_a_loop_counts(start):
    @pl.jit
    def inside(x: pl.Tensor[[1, 512], pl.FP32], n: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[1, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            s = pl.sort32(x[:, :], pl.arange(0, [1, 512], dtype=pl.UINT32))
            s = pl.mrgsort(pl.mrgsort(s, block_len=64), block_len=256)
            if n > 0:
                out[:, :] = s[:, start : start + 16]
            else:
                for i in pl.range(2):
                    out[:, 8 * i : 8 * i + 8] = s[:, 8 * i : 8 * i + 8]

    for row in hard_rows(512)[::3]:
        for n in (0, 1):
            same_bits(inside, row[None], n, np.zeros((1, 16), np.float32))


def test_pairs_that_a_loop_carries_are_whole():
    @pl.jit
    def carried(x: pl.Tensor[[2, 128], pl.FP32], out: pl.Out[pl.Tensor[[1, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            i = pl.arange(0, [1, 128], dtype=pl.UINT32)
            s = pl.mrgsort(pl.sort32(x[0:1, :], i), block_len=64)
            for k in pl.range(2):
                out[:, :] = pl.add(s[:, 0:16], s[:, 240:256])
                s = pl.mrgsort(pl.sort32(x[k : k + 1, :], i), block_len=64)

    for row in hard_rows(128)[:6]:
        same_bits(carried, np.stack([row, -row]), np.zeros((1, 16), np.float32))


def test_a_window_at_a_place_the_run_decides_may_be_anywhere():
    @pl.jit
    def anywhere(x: pl.Tensor[[1, 512], pl.FP32], at: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[1, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            s = pl.sort32(x[:, :], pl.arange(0, [1, 512], dtype=pl.UINT32))
            s = pl.mrgsort(pl.mrgsort(s, block_len=64), block_len=256)
            out[:, :] = pl.slice(s, [1, 16], [0, at])

    for at in (0, 8, 1008):
        same_bits(anywhere, hard_rows(512)[12:13], at, np.zeros((1, 16), np.float32))


# ---- what is sorted ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 31, 64, 100, 128, 129, 500, 511, 512])
@pytest.mark.parametrize("known", [True, False])
def test_of_a_partly_valid_row_the_first_valid_pairs_are_selected(n, known):
    @pl.jit
    def valid(x: pl.Tensor[[1, 512], pl.FP32], m: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[1, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            extent = n if known else m
            t = pl.set_validshape(x[:, :], 1, extent)
            s = pl.sort32(t, pl.set_validshape(pl.arange(0, [1, 512], dtype=pl.UINT32), 1, extent))
            s = pl.mrgsort(pl.mrgsort(s, block_len=64), block_len=256)
            out[:, :] = s[:, 0:16]

    for row in hard_rows(512)[::4]:
        same_bits(valid, row[None], n, np.zeros((1, 16), np.float32))


def test_indices_that_do_not_count_columns_decide_ties_in_their_run():
    @pl.jit
    def indices(x: pl.Tensor[[1, 512], pl.FP32], i: pl.Tensor[[1, 512], pl.UINT32], out: pl.Out[pl.Tensor[[1, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            s = pl.sort32(x[:, :], i[:, :])
            out[:, :] = pl.mrgsort(pl.mrgsort(s, block_len=64), block_len=256)[:, 0:16]

    order = np.random.default_rng(4).permutation(512).astype(np.uint32)[None]
    for row in hard_rows(512):
        for index in (order, order[:, ::-1].copy(), order // 7):
            same_bits(indices, row[None], index, np.zeros((1, 16), np.float32))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n, dtype", [(32, pl.FP32), (96, pl.FP16), (40, pl.FP32), (512, pl.FP32), (2048, pl.FP16)], ids=str)
def test_whole_rows_are_sorted_as_the_reference_sorts_them(n, dtype, target):
    @pl.jit
    def whole(x: pl.Tensor[[ROWS, n], dtype], out: pl.Out[pl.Tensor[[ROWS, 2 * n], dtype]]):
        for r in pl.range(ROWS):
            with pl.at(level=pl.Level.CORE_GROUP):
                s = pl.sort32(x[r : r + 1, :], pl.arange(3, [1, n], dtype=pl.UINT32))
                if n >= 128:
                    s = pl.mrgsort(s, block_len=64)
                if n >= 512:
                    s = pl.mrgsort(s, block_len=256)
                if n >= 2048:
                    s = pl.mrgsort(s, block_len=1024)
                out[r : r + 1, :] = s

    x = hard_rows(max(n, 64), dtype.storage)[:, :n].copy()
    same_bits(whole, x, np.zeros((ROWS, 2 * n), dtype.storage), targets=[target])


def test_what_is_too_long_for_one_network_is_merged_from_what_is_not():
    @pl.jit
    def long(x: pl.Tensor[[1, 16384], pl.FP32], out: pl.Out[pl.Tensor[[1, 32768], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            s = pl.sort32(x[:, :], pl.arange(0, [1, 16384], dtype=pl.UINT32))
            s = pl.mrgsort(pl.mrgsort(pl.mrgsort(s, block_len=64), block_len=256), block_len=1024)
            out[:, :] = pl.mrgsort(s, block_len=4096)

    for row in hard_rows(16384)[::5]:
        same_bits(long, row[None], np.zeros((1, 32768), np.float32))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", [64, 96, 100])
def test_rows_with_and_without_rising_indices_share_a_kernel(n, target):
    @pl.jit
    def rows(x: pl.Tensor[[ROWS, n], pl.FP16], i: pl.Tensor[[ROWS, n], pl.UINT32], out: pl.Out[pl.Tensor[[ROWS, 2 * n], pl.FP16]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:, :] = pl.sort32(x[:, :], i[:, :])

    index = np.broadcast_to(np.arange(n, dtype=np.uint32), (ROWS, n)).copy()
    index[::3, n - 1] = 0
    index[1::3, :2] = [5, 5]
    index[2::6] += 60000
    same_bits(rows, hard_rows(n, np.float16), index, np.zeros((ROWS, 2 * n), np.float16), targets=[target])


def test_a_merge_that_is_made_twice_reads_whole_runs():
    @pl.jit
    def twice(x: pl.Tensor[[1, 2048], pl.FP32], i: pl.Tensor[[1, 2048], pl.UINT32], out: pl.Out[pl.Tensor[[1, 40], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            s = pl.mrgsort(pl.mrgsort(pl.sort32(x[:, :], i[:, :]), block_len=64), block_len=256)
            s = pl.mrgsort(pl.mrgsort(s, block_len=256), block_len=1024)
            out[:, :] = s[:, 0:40]

    order = np.random.default_rng(4).permutation(2048).astype(np.uint32)[None]
    # of a merge that made too little, memory nobody has written follows: zeros, which are larger than everything here
    below = np.random.default_rng(5).uniform(-2, -1, (1, 2048)).astype(np.float32)
    for row in (below, *(r[None] for r in hard_rows(2048)[:6])):
        same_bits(twice, row, order, np.zeros((1, 40), np.float32))


def test_a_store_behind_the_sort_does_not_change_what_was_sorted():
    @pl.jit
    def stores(x: pl.InOut[pl.Tensor[[1, 128], pl.FP32]], out: pl.Out[pl.Tensor[[1, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            s = pl.sort32(x[:, :], pl.arange(0, [1, 128], dtype=pl.UINT32))
            x[:, :] = pl.full([1, 128], dtype=pl.FP32, value=7.0)
            out[:, :] = pl.mrgsort(s, block_len=64)[:, 0:16]

    for row in hard_rows(128):
        same_bits(stores, row[None].copy(), np.zeros((1, 16), np.float32))


# ---- top_k -------------------------------------------------------------------------------------------------------

INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("k, n", [(1, 64), (8, 100), (9, 128), (16, 512), (16, 200), (16, 100)])
def test_top_k_selects_what_the_reference_finds(k, n, target):
    x = hard_rows(n - n % 2)
    for storage in (np.float32, np.float16, pl.BF16.storage):
        with np.errstate(over="ignore"):
            narrow = x.astype(storage)
        assert differs(OPS["top_k"], [narrow], {"k": k, "axis": 1}, target=TARGETS[target]) == ""
    rng = np.random.default_rng(k)
    for storage in INTEGERS:
        info = np.iinfo(storage)
        rows = [rng.integers(info.min, info.max, n, endpoint=True), rng.integers(0, 3, n), np.full(n, info.min), np.arange(n) % 100]
        assert differs(OPS["top_k"], [np.stack(rows).astype(storage)], {"k": k, "axis": 1}, target=TARGETS[target]) == ""
