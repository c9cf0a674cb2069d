"""Windows past the extent: refused when traced if they are known, and when run otherwise, with their numbers."""

import pytest

import pypto
import pypto.language as pl
from tests.refusals import f32, refused, sevens, untouched

M24 = pl.Tensor[[2, 4], pl.FP32]
X = f32([1, 2, 3, 4], [5, 6, 7, 8])

# Windows past the extent.


@pl.jit
def starts_before_zero(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        out[0:1, :] = pl.load(x, [-1, 0], [1, 4])  # refused


@pl.jit
def reads_past_the_end(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        out[0, 0] = pl.read(x, [2, 0])  # refused


@pl.jit
def assembles_past_the_end(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out = pl.assemble(out, x, [1, 0])  # refused


@pl.jit
def slices_a_tile_past_the_end(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x + 1.0
        out[:] = t[1:3, :]  # refused


@pl.jit
def slices_backwards(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x[2:0, :]  # refused


@pl.jit
def marks_more_valid_than_there_is(x: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.load(x, [0, 0], [2, 4], valid_shape=[3, 4])  # refused


@pytest.mark.parametrize(
    ("kernel", "at"),
    [
        (starts_before_zero, "pl.load(x, [-1, 0], [1, 4])"),
        (reads_past_the_end, "pl.read(x, [2, 0])"),
        (assembles_past_the_end, "pl.assemble(out, x, [1, 0])"),
        (slices_a_tile_past_the_end, "t[1:3, :]"),
        (slices_backwards, "x[2:0, :]"),
        (marks_more_valid_than_there_is, "pl.load(x, [0, 0], [2, 4], valid_shape=[3, 4])"),
    ],
)
def test_a_window_that_is_known_to_lie_outside_is_refused_when_traced(kernel, at):
    untouched("PL303", kernel, X.copy(), sevens(2, 4), at=at)
    refused("PL303", kernel.trace, at=at)
    untouched("PL303", kernel.eager, X.copy(), sevens(2, 4), at=at)


@pl.jit
def reads_at(x: M24, r: pl.Scalar[pl.INT32], c: pl.Scalar[pl.INT32], out: pl.Out[M24]):
    out[:] = x
    out[0, 0] = pl.read(x, [r, c])  # refused


@pl.jit
def slices_a_tile_at(x: M24, r: pl.Scalar[pl.INT32], c: pl.Scalar[pl.INT32], out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x + 1.0
        out[:] = x
        out[0:1, 0:2] = t[r : r + 1, c : c + 2]  # refused


@pl.jit
def stores_at(x: M24, r: pl.Scalar[pl.INT32], c: pl.Scalar[pl.INT32], out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        out = pl.assemble(out, x[0:1, 0:2], [r, c])  # refused


@pl.jit
def views_at(x: M24, r: pl.Scalar[pl.INT32], c: pl.Scalar[pl.INT32], out: pl.Out[M24]):
    out[:] = x
    part = x[r : r + 1, c : c + 2]  # refused
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:1, 0:2] = part


@pl.jit
def loads_valid_at(x: M24, r: pl.Scalar[pl.INT32], c: pl.Scalar[pl.INT32], out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        t = pl.load(x, [r, c], [1, 4], valid_shape=[1, 2])  # refused
        out[0:1, 0:4] = t


@pytest.mark.parametrize(
    ("kernel", "at", "name"),
    [
        (reads_at, "pl.read(x, [r, c])", "x"),
        (slices_a_tile_at, "t[r : r + 1, c : c + 2]", "t"),
        (stores_at, "pl.assemble(out, x[0:1, 0:2], [r, c])", "out"),
        (views_at, "x[r : r + 1, c : c + 2]", "x"),
        (loads_valid_at, "pl.load(x, [r, c], [1, 4], valid_shape=[1, 2])", "x"),
    ],
)
@pytest.mark.parametrize(("r", "c", "number"), [(2, 0, "2"), (0, 4, "4"), (-1, 0, "-1"), (0, -3, "-3"), (1000, 0, "1000")])
def test_a_window_that_lies_outside_at_run_time_is_refused_with_its_numbers(kernel, at, name, r, c, number):
    kernel(X, 1, 2, sevens(2, 4))
    error = untouched("PL303", kernel, X.copy(), r, c, sevens(2, 4), at=at)
    extent = 2 if c == 0 else 4
    assert number in error.message and f"extent {extent}" in error.message and f"`{name}`" in error.message
    assert untouched("PL303", kernel.eager, X.copy(), r, c, sevens(2, 4), at=at).message == error.message
    with pypto.override(check=False):
        assert untouched("PL303", kernel, X.copy(), r, c, sevens(2, 4), at=at).message == error.message


@pl.jit
def loads_from(x: M24, start: pl.Scalar[pl.INT32], out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x[start : start + 2, :]  # refused


@pytest.mark.parametrize("check", [True, False])
def test_the_fix_offers_a_valid_shape_only_where_some_of_the_window_is_inside(check):
    with pypto.override(check=check):
        found = [refused("PL303", loads_from, X, start, at="x[start : start + 2, :]").fix for start in (1, 2, -1)]
    assert "valid_shape= with at most 1" in found[0] and not any("valid_shape" in fix for fix in found[1:])
