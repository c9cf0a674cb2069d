"""Reported faults about bounds (cases C51, C54): windows past the extent, tails nobody covers."""

import numpy as np
import pytest

import pypto
import pypto.language as pl
from tests.refusals import f32, refused, reports, sevens, untouched

M24 = pl.Tensor[[2, 4], pl.FP32]

# C51: a window past the extent is an error with the numbers; the valid part can be asked for.

X34 = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
M34 = pl.Tensor[[3, 4], pl.FP32]


@pl.jit
def loads_past_the_end(x: M34, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.load(x, [2, 0], [2, 4])  # refused


@pl.jit
def slices_past_the_end(x: M34, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x[2:4, :]  # refused


@pl.jit
def views_past_the_end(x: M34, out: pl.Out[M24]):
    rows = x[2:4, :]  # refused
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = rows


@pl.jit
def loads_past_the_end_at_run_time(x: M34, r: pl.Scalar[pl.INT32], out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.load(x, [r, 0], [2, 4])  # refused


@pl.jit
def views_past_the_end_at_run_time(x: M34, r: pl.Scalar[pl.INT32], out: pl.Out[M24]):
    rows = x[r : r + 2, :]  # refused
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = rows


@pl.jit
def loads_the_valid_row(x: M34, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.load(x, [2, 0], [2, 4], valid_shape=[1, 4])


@pl.jit
def covers_whole_tiles_only(x: M34, out: pl.Out[M34]):
    for r in pl.range(3 // 2):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[r * 2 : r * 2 + 2, :] = x[r * 2 : r * 2 + 2, :]


@pl.jit
def covers_the_tail_too(x: M34, out: pl.Out[M34]):
    for r in pl.range(0, 3, 2):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [r, 0], [2, 4], valid_shape=[pl.min(2, 3 - r), 4])
            pl.store(t, [r, 0], out)


@pytest.mark.parametrize(
    ("kernel", "at"),
    [(loads_past_the_end, "pl.load(x, [2, 0], [2, 4])"), (slices_past_the_end, "x[2:4, :]"), (views_past_the_end, "x[2:4, :]")],
)
def test_a_window_past_the_extent_is_refused_when_it_is_traced(kernel, at):  # C51 (a)
    error = untouched("PL303", kernel, X34.copy(), sevens(2, 4), at=at)
    for part in ("rows 2:4", "extent 3", "`x`"):
        assert part in error.message
    assert "valid_shape=" in error.fix and "1" in error.fix
    refused("PL303", kernel.trace, at=at)


@pytest.mark.parametrize(
    ("kernel", "at"),
    [(loads_past_the_end_at_run_time, "pl.load(x, [r, 0], [2, 4])"), (views_past_the_end_at_run_time, "x[r : r + 2, :]")],
)
def test_a_window_past_the_extent_at_run_time_is_refused_with_its_numbers(kernel, at):  # C51 (a)
    out = sevens(2, 4)
    kernel(X34, 1, out)
    assert out.tolist() == X34[1:3].tolist()
    error = untouched("PL303", kernel, X34.copy(), 2, sevens(2, 4), at=at)
    for part in ("rows 2:4", "extent 3", "`x`"):
        assert part in error.message
    untouched("PL303", kernel, X34.copy(), -1, sevens(2, 4), at=at)


def test_with_a_valid_shape_only_the_valid_row_is_used():  # C51 (a)
    out = sevens(2, 4)
    with reports("PL204") as found:
        loads_the_valid_row(X34, out)
    assert "`out[1, 0:4]`" in found[0]
    assert out.tolist() == [[9, 10, 11, 12], [-7] * 4]


def test_a_tail_dropped_by_floor_division_is_reported():  # C51 (b)
    out = sevens(3, 4)
    with reports("PL204") as found:
        covers_whole_tiles_only(X34, out)
    assert "`out[2, 0:4]`" in found[0]
    assert out.tolist() == [*X34[:2].tolist(), [-7] * 4]


def test_a_tail_with_a_valid_shape_covers_everything():  # C51 (b)
    out = sevens(3, 4)
    covers_the_tail_too(X34, out)
    assert out.tolist() == X34.tolist()


# C54: start and size are checked together.

V8 = pl.Tensor[[8], pl.FP32]


@pl.jit
def fills_past_the_end(out: pl.Out[V8]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.full([8], dtype=pl.FP32, value=0)
        t[6:12] = 7  # refused
        out[:] = t


@pl.jit
def fills_past_the_end_at_run_time(r: pl.Scalar[pl.INT32], out: pl.Out[V8]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.full([8], dtype=pl.FP32, value=0)
        t[r : r + 6] = 7  # refused
        out[:] = t


@pl.jit
def stores_past_the_end(x: V8, out: pl.Out[V8]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        out[6:12] = x[0:6]  # refused


@pl.jit
def stores_past_the_end_at_run_time(x: V8, r: pl.Scalar[pl.INT32], out: pl.Out[V8]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        out[r : r + 6] = x[0:6]  # refused


@pl.jit
def writes_one_element_past_the_end(x: V8, r: pl.Scalar[pl.INT32], out: pl.Out[V8]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        pl.write(out, [r], 1.0)  # refused


def test_a_store_past_the_end_of_a_tile_is_refused_when_it_is_traced():  # C54
    error = untouched("PL303", fills_past_the_end, sevens(8), at="t[6:12]")
    assert "6:12" in error.message and "extent 8" in error.message and "`t`" in error.message
    error = untouched("PL303", stores_past_the_end, f32(*range(8)), sevens(8), at="out[6:12]")
    assert "6:12" in error.message and "extent 8" in error.message and "`out`" in error.message


def test_a_store_past_the_end_at_a_run_time_offset_is_refused_with_its_value():  # C54
    assert fills_past_the_end_at_run_time(2).tolist() == [0, 0, 7, 7, 7, 7, 7, 7]
    for start in (3, 6, -1):
        error = untouched("PL303", fills_past_the_end_at_run_time, start, sevens(8), at="t[r : r + 6]")
        assert f"{start}:{start + 6}" in error.message and "extent 8" in error.message and "`t`" in error.message
        error = untouched("PL303", stores_past_the_end_at_run_time, f32(*range(8)), start, sevens(8), at="out[r : r + 6]")
        assert f"{start}:{start + 6}" in error.message and "`out`" in error.message
        with pypto.override(check=False):
            untouched("PL303", fills_past_the_end_at_run_time, start, sevens(8), at="t[r : r + 6]")
            untouched("PL303", stores_past_the_end_at_run_time, f32(*range(8)), start, sevens(8), at="out[r : r + 6]")


@pytest.mark.parametrize("r", [8, 100, -1])
def test_a_scalar_write_past_the_end_is_refused_with_its_index(r):  # C54
    error = untouched("PL303", writes_one_element_past_the_end, f32(*range(8)), r, sevens(8), at="pl.write(out, [r], 1.0)")
    assert f"{r}" in error.message and "extent 8" in error.message
