"""Elements nobody wrote, or outside the valid region: reported where they become visible, and only there (checked runs)."""

import numpy as np
import pytest

import pypto
import pypto.language as pl
from tests.refusals import f32, refused, reports, sevens, untouched

pytestmark = pytest.mark.checked

V4 = pl.Tensor[[4], pl.FP32]
M24 = pl.Tensor[[2, 4], pl.FP32]
I4 = pl.Tensor[[4], pl.INT32]
X = f32(1, 2, 3, 4)
XX = f32([1, 2, 3, 4], [5, 6, 7, 8])

# Where an unwritten element becomes visible.


@pl.jit
def stores_a_created_tile(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.create_tensor([4], dtype=pl.FP32)
        out[:] = t  # refused


@pl.jit
def stores_what_a_created_tile_gave(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.create_tensor([4], dtype=pl.FP32)
        t[0:3] = x[0:3]
        out[:] = t * 0.0 + x  # refused


@pl.jit
def stores_an_unwritten_buffer(x: V4, out: pl.Out[V4]):
    buffer = pl.create_tensor([4], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        buffer[0:3] = x[0:3]
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = buffer  # refused


@pl.jit
def copies_an_unwritten_buffer(x: V4, out: pl.Out[V4]):
    buffer = pl.create_tensor([4], dtype=pl.FP32)
    out[:] = buffer  # refused


@pl.jit
def sums_an_unwritten_lane(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.create_tensor([1, 4], dtype=pl.FP32)
        t[:, 0:3] = pl.reshape(x[0:3], [1, 3])
        out[:] = x
        out[0] = pl.read(pl.row_sum(t), [0, 0])  # refused


@pl.jit
def multiplies_an_unwritten_row(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.create_tensor([2, 4], dtype=pl.FP32)
        t[0:1, :] = pl.reshape(x[:], [1, 4])
        product = pl.matmul(t, t, b_trans=True)
        out[:] = x
        out[0:2] = product[0, :]  # refused


@pl.jit
def stores_an_unwritten_scalar(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.create_tensor([4], dtype=pl.FP32)
        out[:] = x
        out[1] = pl.read(t, [2]) + 1.0  # refused


@pl.jit
def selects_the_unwritten_side(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.create_tensor([4], dtype=pl.FP32)
        v = pl.load(x, [0], [4])
        out[:] = pl.sel(pl.cmp(v, v, pl.CmpType.EQ), t, v)  # refused


@pl.jit
def selects_by_an_unwritten_mask(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.create_tensor([4], dtype=pl.FP32)
        v = pl.load(x, [0], [4])
        out[:] = pl.sel(pl.cmp(t, v, pl.CmpType.EQ), v, v)  # refused


@pytest.mark.parametrize(
    ("kernel", "at"),
    [
        (stores_a_created_tile, "out[:]"),
        (stores_what_a_created_tile_gave, "out[:]"),
        (stores_an_unwritten_buffer, "out[:]"),
        (copies_an_unwritten_buffer, "out[:]"),
        (sums_an_unwritten_lane, "out[0]"),
        (multiplies_an_unwritten_row, "out[0:2]"),
        (stores_an_unwritten_scalar, "out[1]"),
        (selects_the_unwritten_side, "out[:]"),
        (selects_by_an_unwritten_mask, "out[:]"),
    ],
)
def test_an_element_nobody_wrote_may_not_reach_an_output(kernel, at):
    error = untouched("PL306", kernel, X.copy(), sevens(4), at=at)
    assert "`out`" in error.message
    untouched("PL306", kernel.eager, X.copy(), sevens(4), at=at)


def test_the_first_element_that_is_not_written_is_named():
    assert "[3]" in refused("PL306", stores_an_unwritten_buffer, X, sevens(4), at="out[:]").message


@pl.jit
def stores_an_invalid_lane(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0], [4], valid_shape=[3])
        out[:] = x
        out[3] = pl.read(t, [3])  # refused


@pl.jit
def widens_the_valid_region(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0], [4], valid_shape=[3])
        out[:] = pl.set_validshape(t, 4)  # refused


@pl.jit
def stores_an_invalid_lane_into_an_inout(x: V4, out: pl.InOut[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0], [4], valid_shape=[3])
        out[3] = pl.read(t, [3])  # refused


@pytest.mark.parametrize(
    ("kernel", "at"),
    [(stores_an_invalid_lane, "out[3]"), (widens_the_valid_region, "out[:]"), (stores_an_invalid_lane_into_an_inout, "out[3]")],
)
def test_a_lane_outside_the_valid_region_may_not_reach_an_output(kernel, at):
    untouched("PL306", kernel, X.copy(), sevens(4), at=at)


# An index, a bound, a branch.


@pl.jit
def indexes_with_an_unwritten_element(n: I4, out: pl.Out[I4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.create_tensor([4], dtype=pl.INT32)
        out[:] = n
        out[0] = pl.read(n, [pl.read(t, [0])])  # refused


@pl.jit
def loops_to_an_unwritten_bound(n: I4, out: pl.Out[I4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.create_tensor([4], dtype=pl.INT32)
        out[:] = n
        for i in pl.range(pl.read(t, [0])):  # refused
            out[i] = 0


@pl.jit
def branches_on_an_unwritten_element(n: I4, out: pl.Out[I4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.create_tensor([4], dtype=pl.INT32)
        out[:] = n
        if pl.read(t, [0]) > 0:  # refused
            out[0] = 0


@pl.jit
def offsets_by_an_unwritten_element(n: I4, out: pl.Out[I4]):
    counts = pl.create_tensor([1], dtype=pl.INT32)
    with pl.at(level=pl.Level.CORE_GROUP):
        r = pl.read(counts, [0])
        out[:] = n
        out[r : r + 2] = n[0:2]  # refused


@pl.jit
def launches_an_unwritten_number_of_blocks(n: I4, out: pl.Out[I4]):
    counts = pl.create_tensor([1], dtype=pl.INT32)
    blocks = pl.read(counts, [0])
    out[:] = n
    for i in pl.spmd(blocks):  # refused
        out[i] = 0


@pl.jit
def creates_a_buffer_of_unwritten_size(n: I4, out: pl.Out[I4]):
    counts = pl.create_tensor([1], dtype=pl.INT32)
    buffer = pl.create_tensor([pl.read(counts, [0])], dtype=pl.INT32)  # refused
    out[:] = n
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(pl.tensor.dim(buffer, 0)):
            buffer[i] = 0


@pytest.mark.parametrize(
    ("kernel", "at"),
    [
        (creates_a_buffer_of_unwritten_size, "pl.create_tensor([pl.read(counts, [0])], dtype=pl.INT32)"),
        (indexes_with_an_unwritten_element, "pl.read(n, [pl.read(t, [0])])"),
        (loops_to_an_unwritten_bound, "pl.range(pl.read(t, [0]))"),
        (branches_on_an_unwritten_element, "pl.read(t, [0]) > 0"),
        (offsets_by_an_unwritten_element, "out[r : r + 2]"),
        (launches_an_unwritten_number_of_blocks, "pl.spmd(blocks)"),
    ],
)
def test_an_element_nobody_wrote_may_not_decide_what_runs(kernel, at):
    untouched("PL306", kernel, np.arange(4, dtype=np.int32), sevens(4, dtype=np.int32), at=at)


def test_unchecked_runs_read_what_nobody_wrote_as_zero():
    with pypto.override(check=False):
        assert stores_a_created_tile(X).tolist() == [0, 0, 0, 0]
        assert stores_an_unwritten_buffer(X).tolist() == [1, 2, 3, 0]
        assert indexes_with_an_unwritten_element(np.array([5, 6, 7, 8], np.int32)).tolist() == [5, 6, 7, 8]
        assert branches_on_an_unwritten_element(np.array([5, 6, 7, 8], np.int32)).tolist() == [5, 6, 7, 8]


# Legal: nobody can see it.


@pl.jit
def masks_the_rows_it_did_not_write(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.create_tensor([4, 4], dtype=pl.FP32)
        t[0:2, :] = x
        t = t * 2.0 + 1.0
        out[:] = t[0:2, :]


@pl.jit
def anchors_on_what_it_did_not_write(x: M24, out: pl.Out[M24]):
    buffer = pl.create_tensor([2, 4], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        anchor = pl.read(buffer, [0, 0]) * 0.0
        t = pl.create_tensor([2, 4], dtype=pl.FP32)
        t[:] = x
        unused = t * anchor
        out[:] = x


@pl.jit
def fills_the_padding(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.fillpad(pl.load(x, [0, 0], [2, 4], valid_shape=[1, 3]), pad_value=pl.PadValue.zero)
        out[:] = t


@pl.jit
def selects_the_written_side(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.create_tensor([2, 4], dtype=pl.FP32)
        t[0:1, :] = x[0:1, :]
        mask = pl.cmp(pl.load(x, [0, 0], [2, 4]), 4.5, pl.CmpType.LT)
        out[:] = pl.sel(mask, t, x)


@pl.jit
def narrows_the_valid_region(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.create_tensor([2, 4], dtype=pl.FP32)
        t[0:1, :] = x[0:1, :]
        out[:] = x
        out[:] = pl.set_validshape(t, 1, 4)


@pl.jit
def overwrites_what_it_did_not_write(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.create_tensor([2, 4], dtype=pl.FP32)
        t = t + 1.0
        t[:] = x
        out[:] = t


@pl.jit
def reduces_the_valid_part(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [2, 8], valid_shape=[2, 4])
        out[:] = pl.row_expand_mul(x * 0.0 + 1.0, pl.row_max(t))


@pl.jit
def reads_its_output_after_writing(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        out[:] = out + out


@pl.jit
def keeps_unwritten_rows_in_a_buffer(x: M24, out: pl.Out[M24]):
    padded = pl.create_tensor([4, 4], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        padded[0:2, :] = x
    doubled = pl.create_tensor([4, 4], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        doubled[:] = padded + padded
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = doubled[0:2, :]


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (masks_the_rows_it_did_not_write, XX * 2 + 1),
        (anchors_on_what_it_did_not_write, XX),
        (fills_the_padding, f32([1, 2, 3, 0], [0, 0, 0, 0])),
        (selects_the_written_side, XX),
        (narrows_the_valid_region, XX),
        (overwrites_what_it_did_not_write, XX),
        (reduces_the_valid_part, f32([4] * 4, [8] * 4)),
        (reads_its_output_after_writing, XX * 2),
        (keeps_unwritten_rows_in_a_buffer, XX * 2),
    ],
)
def test_what_nobody_can_see_is_not_reported(kernel, expected):
    with reports():
        assert kernel(XX, sevens(2, 4)).tolist() == expected.tolist()
        assert kernel.eager(XX, sevens(2, 4)).tolist() == expected.tolist()


# Where such an element came from.


@pl.jit
def through_a_loop_and_a_branch(x: V4, n: pl.Scalar[pl.INT32], out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        hole = pl.create_tensor([4], dtype=pl.FP32)
        t = x + 0.0
        for i in pl.range(n):
            if i > 0:
                t = t + hole
        out[:] = t  # refused


def test_the_created_tile_behind_a_store_is_named_with_its_line():
    error = refused("PL306", through_a_loop_and_a_branch, X, 2, sevens(4), at="out[:]")
    assert f"`hole` was created at line {through_a_loop_and_a_branch.staged.source.line + 2}" in error.message
    assert through_a_loop_and_a_branch(X, 1).tolist() == [1, 2, 3, 4]
