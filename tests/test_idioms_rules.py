"""The eight rules of the value model, on small kernels, traced and eager.

Rows of the table that need task ids, `deps=`, `syncall`, `submit`, resident tensors or C++ sources have no test here: those
come with the language and run-time issues, and their keywords are refused until then.
"""

from typing import Any

import numpy as np
import pytest

import pypto.language as pl
from tests.refusals import refused

V = pl.Tensor[[4, 16], pl.FP32]
X = np.arange(64, dtype=np.float32).reshape(4, 16)


def both(kernel: Any, *arrays: Any) -> np.ndarray:
    """What a kernel gives, which must be the same eagerly."""
    result = np.asarray(kernel(*arrays))
    eager = np.asarray(kernel.eager(*arrays))
    assert result.tobytes() == eager.tobytes()
    return result


# R1: slices of GM tensors


@pl.jit
def running_maximum(part: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[2, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        m = part[0:2, :]  # a load: the carry is a tile throughout
        for s in pl.pipeline(1, 4, stage=2):
            new = pl.maximum(m, part[s * 2 : s * 2 + 2, :])
            m = new
        out[:] = m


def test_r1_a_slice_inside_a_region_is_a_tile_and_can_be_carried() -> None:
    part = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)
    assert np.array_equal(both(running_maximum, part), part.reshape(4, 2, 16).max(0))


@pl.jit
def write_through_a_view(x: V, out: pl.Out[V]):
    for r in pl.range(0, 4, 2):
        rows = out[r : r + 2]  # outside: a view
        left = rows[:, 0:8]  # a view of a view
        with pl.at(level=pl.Level.CORE_GROUP):
            left[:, :] = x[r : r + 2, 0:8] + 1.0
            rows[:, 8:16] = x[r : r + 2, 8:16]


def test_r1_writing_through_a_view_made_outside_reaches_the_buffer() -> None:
    want = X.copy()
    want[:, :8] += 1
    assert np.array_equal(both(write_through_a_view, X), want)


@pl.jit
def view_loads_at_each_use(x: pl.InOut[V], out: pl.Out[V]):
    seen = x[0:2]
    with pl.at(level=pl.Level.CORE_GROUP):
        before = seen + 0.0
        x[0:2, :] = before * 2.0
        out[0:2, :] = before
        out[2:4, :] = seen + 0.0  # loaded here, after the store


def test_r1_a_view_used_as_a_value_is_loaded_at_each_use() -> None:
    x = X.copy()
    out = np.zeros_like(X)
    view_loads_at_each_use(x, out)
    assert np.array_equal(out, np.concatenate([X[:2], X[:2] * 2]))


@pl.jit
def lost_write(x: V, out: pl.Out[V]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x[:, :]
        out[:] = t
        t[0:1, :] = x[1:2, :]  # refused


def test_r1_a_tile_written_in_place_and_never_read_again_is_a_lost_write() -> None:
    refused("PL205", lost_write, X, at="t[0:1, :]")


# R2: tiles are cells


@pl.jit.inline
def mark(cell, n):
    for w in pl.range(n):
        if w > 1:
            pl.write(cell, [0, w], w * 10)


@pl.jit
def table_of_slots(slot: pl.Tensor[[8], pl.INT32], table: pl.Out[pl.Tensor[[1, 16], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pos = pl.full([1, 16], dtype=pl.INT32, value=-1)
        seen = 0
        for w in pl.range(8):
            if pl.read(slot, [w]) >= 0:
                pl.write(pos, [0, seen], w)
                seen = seen + 1
        mark(pos, 4)
        table[0:1, :] = pos


def test_r2_a_cell_is_updated_under_loops_and_branches_and_by_inline_calls() -> None:
    got = both(table_of_slots, np.array([1, -1, 2, 3, -5, 7, -1, 1], np.int32))
    assert got[0, :6].tolist() == [0, 2, 20, 30, 7, -1]


@pl.jit
def two_names_of_one_tile(x: V, out: pl.Out[V]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x + 1.0
        u = t
        t[0:2, :] = x[2:4, :]
        out[:] = u


def test_r2_an_update_is_seen_under_every_name_of_the_tile() -> None:
    want = X + 1
    want[:2] = X[2:]
    assert np.array_equal(both(two_names_of_one_tile, X), want)


@pl.jit.inline
def assembled(p, x):
    p = pl.assemble(p, x, [0, 0])
    return p


@pl.jit
def assemble_into_the_callers_tile(x: V, out: pl.Out[V]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.full([4, 16], pl.FP32, 5.0)
        assembled(t, x[0:1, :])
        out[:] = t


def test_r2_assigning_an_assembled_parameter_updates_the_callers_tile() -> None:
    want = np.full_like(X, 5)
    want[0] = X[0]
    assert np.array_equal(both(assemble_into_the_callers_tile, X), want)


# R3: a carried name may be a handle


@pl.jit
def ping_pong(x: V, out: pl.Out[V]):
    cur = x
    prev = x
    for i in pl.range(3):
        nxt = pl.create_tensor([4, 16], dtype=pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP):
            nxt[:, :] = cur[:, :] + prev[:, :]
        prev = cur
        cur = nxt
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = cur


def test_r3_buffers_that_swap_roles_are_carried_as_handles() -> None:
    assert np.array_equal(both(ping_pong, X), X * 5)  # 2, 3, 5
    assert "ref f32[4,16] = loop" in ping_pong.lower().as_ir()


@pl.jit
def carried_output(x: V, out: pl.Out[V]):
    for i, (o,) in pl.range(4, init_values=(out,)):
        with pl.at(level=pl.Level.CORE_GROUP):
            o = pl.assemble(o, x[i : i + 1, :] * 2.0, [i, 0])


def test_r3_an_output_given_as_an_initial_value_is_the_same_buffer() -> None:
    assert np.array_equal(both(carried_output, X), X * 2)


@pl.jit
def chosen_buffer(x: V, y: V, flag: pl.Scalar[pl.INT32], out: pl.Out[V]):
    if flag > 0:
        source = x
    else:
        source = y
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = source + 0.0


@pytest.mark.parametrize("flag", [0, 1])
def test_r3_a_branch_may_choose_a_buffer(flag: int) -> None:
    assert np.array_equal(both(chosen_buffer, X, -X, flag), X if flag else -X)


# R5: reading what nobody wrote is legal while nobody sees it


@pl.jit
def masked_rows(x: V, n: pl.Scalar[pl.INT32], out: pl.Out[V]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 16], valid_shape=[n, 16])
        twice = t + t  # the padding is computed too
        out[:] = pl.fillpad(twice, pl.PadValue.zero)


def test_r5_padding_may_be_computed_with_and_dropped() -> None:
    want = X * 2
    want[3:] = 0
    assert np.array_equal(both(masked_rows, X, 3), want)


@pl.jit
def padding_in_the_output(x: V, out: pl.Out[V]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 16], valid_shape=[3, 16])
        out[:] = pl.set_validshape(t, 4, 16)  # refused


@pytest.mark.checked
def test_r5_padding_that_reaches_an_output_is_refused() -> None:
    refused("PL306", padding_in_the_output, X, at="out[:]")


# R6: levels


@pl.jit
def compare_tensors(x: V, out: pl.Out[V]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.cmp(x[:, :], 31.0, pl.CmpType.GT) * 3.0  # numbers


@pl.jit
def compare_tiles(x: V, out: pl.Out[V]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [4, 16])
        out[:] = pl.sel(pl.cmp(t, 31.0, pl.CmpType.GT), 3.0, t * 0.0)  # a mask


def test_r6_a_comparison_is_numbers_at_tensor_level_and_a_mask_at_tile_level() -> None:
    want = np.where(X > 31, 3, 0).astype(np.float32)
    assert np.array_equal(both(compare_tensors, X), want)
    assert np.array_equal(both(compare_tiles, X), want)


# R7: scalars


@pl.jit
def reserve(ctr: pl.InOut[pl.Tensor[[4], pl.INT32]], x: V, out: pl.Out[V]):
    for i in pl.range(4):
        with pl.at(level=pl.Level.CORE_GROUP):
            slot = pl.read(ctr, [0])
            pl.write(ctr, [0], slot + 1)
            row = slot + 0
            out[row : row + 1, :] = x[i : i + 1, :]


def test_r7_a_read_keeps_its_value_after_the_element_changes() -> None:
    out = np.zeros_like(X)
    ctr = np.zeros(4, np.int32)
    reserve(ctr, X, out)
    assert np.array_equal(out, X) and ctr[0] == 4


@pl.jit
def folded_blocks(x: pl.Tensor[[8, 32], pl.FP32], out: pl.Out[pl.Tensor[[8, 32], pl.FP32]]):
    rows = pl.tensor.dim(x, 0)
    for block in pl.spmd(rows * 2, name_hint="folded"):
        r = block // 2
        c = (block % 2) * 16
        again = (block // 2) * 1
        out[r : again + 1, c : c + 16] = x[r : r + 1, c : c + 16] + 1.0


def test_r7_quotients_of_equal_operands_are_equal_so_extents_are_static() -> None:
    x = np.arange(256, dtype=np.float32).reshape(8, 32)
    assert np.array_equal(both(folded_blocks, x), x + 1)


@pl.jit
def typed_maximum(n: pl.Tensor[[4], pl.INT32], out: pl.Out[pl.Tensor[[2], pl.INT64]]):
    best: pl.Scalar[pl.INT64] = 0
    worst = 100
    for b in pl.range(4):
        best = pl.max(best, pl.read(n, [b]))
        worst = pl.min(worst, pl.read(n, [b]))
    pl.write(out, [0], best)
    pl.write(out, [1], worst)


def test_r7_an_annotation_fixes_a_scalars_dtype_and_a_number_takes_the_other_sides() -> None:
    assert both(typed_maximum, np.array([3, 9, 2, 5], np.int32)).tolist() == [9, 2]


# R8: placement is judged where the call stands


@pl.jit.inline
def pipelined_sum(x, out):
    acc = x[0:1, :]
    for r in pl.pipeline(1, 4, stage=2):
        acc = acc + x[r : r + 1, :]
    out[:] = acc
    return out


@pl.jit
def inline_in_a_region(x: V, out: pl.Out[pl.Tensor[[1, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pipelined_sum(x, out)


def test_r8_an_inline_without_a_region_of_its_own_is_legal_inside_one() -> None:
    assert np.array_equal(both(inline_in_a_region, X)[0], X.sum(0))
