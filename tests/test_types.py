"""Annotations: what they say, what they refuse, and that they hold for parameters, local names and results."""

import numpy as np
import pytest

import pypto.language as pl
from pypto.errors import CallError
from tests.refusals import f32, refused
from tests.ways import every_way

M = pl.Tensor[[4, 8], pl.FP32]
T = pl.Tile[[4, 8], pl.FP32]
Row = pl.Tensor[[1, 8], pl.FP32]
X = np.arange(32, dtype=np.float32).reshape(4, 8)


@pytest.mark.parametrize(
    ("annotation", "shown"),
    [
        (pl.Tensor[[16, 64], pl.BF16], "pl.Tensor[[16, 64], pl.BF16]"),
        (pl.Tensor[(16,), pl.INT32], "pl.Tensor[[16], pl.INT32]"),
        (pl.Tensor[[16, 64], pl.BF16, pl.ND], "pl.Tensor[[16, 64], pl.BF16]"),
        (pl.Tensor[[pl.dynamic("B"), 64], pl.BF16], "pl.Tensor[[pl.dynamic('B'), 64], pl.BF16]"),
        (pl.Tile[[16, 64], pl.FP16], "pl.Tile[[16, 64], pl.FP16]"),
        (pl.Out[pl.Tensor[[16], pl.INT8]], "pl.Out[pl.Tensor[[16], pl.INT8]]"),
        (pl.InOut[pl.Tensor], "pl.InOut[pl.Tensor]"),
        (pl.Scalar[pl.INT64], "pl.Scalar[pl.INT64]"),
        (pl.TaskId, "pl.Scalar[pl.TASK_ID]"),
        (pl.Array[16, pl.TASK_ID], "pl.Array[16, pl.TASK_ID]"),
        (pl.Tuple[pl.Tensor, pl.Scalar[pl.FP32]], "pl.Tuple[pl.Tensor, pl.Scalar[pl.FP32]]"),
    ],
)
def test_an_annotation_is_a_value_that_shows_as_it_is_written(annotation, shown):
    assert repr(annotation) == shown
    assert annotation == annotation and hash(annotation) == hash(annotation)


@pytest.mark.parametrize(
    "make",
    [
        lambda: pl.Tensor[16],
        lambda: pl.Tensor[[16]],
        lambda: pl.Tensor["16", pl.FP32],
        lambda: pl.Tensor[[16.0], pl.FP32],
        lambda: pl.Tensor[[-1], pl.FP32],
        lambda: pl.Tensor[[True], pl.FP32],
        lambda: pl.Tensor[[16], pl.FP32, pl.DN],
        lambda: pl.Tensor[[16], pl.FP32, pl.NZ],
        lambda: pl.Tensor[[16], pl.FP32, "ND"],
        lambda: pl.Tensor[[16], pl.FP32, pl.TensorView(stride=[4, 1], layout=pl.ND)],
        lambda: pl.Tile[[16], pl.FP32, pl.MemorySpace.VEC],
        lambda: pl.TensorView(stride=[4, 1]),
        lambda: pl.TensorView(layout=pl.NZ),
        lambda: pl.TensorView(layout=pl.ND, pad=0.0),
        lambda: pl.TensorView(layout=pl.ND, stride=4),
        lambda: pl.TensorView(layout=pl.ND, valid_shape=[-1]),
        lambda: pl.Array[16],
        lambda: pl.Array[pl.dynamic("N"), pl.INT32],
        lambda: pl.Out[pl.Scalar[pl.FP32]],
        lambda: pl.InOut[pl.Array[4, pl.INT32]],
        lambda: pl.Tuple[pl.Scalar],
    ],
)
def test_an_annotation_that_says_nothing_is_refused(make):
    with pytest.raises(CallError) as caught:
        make()
    assert caught.value.code == "PL602" and caught.value.fix


def test_a_bare_scalar_parameter_is_refused_where_it_is_written():
    @pl.jit
    def k(
        n: pl.Scalar,  # refused
        out: pl.Out[M],
    ):
        pass

    refused("PL602", k.trace, at="n: pl.Scalar")


def test_a_parameter_is_not_several_values():
    @pl.jit
    def k(
        n: pl.Tuple[M, M],  # refused
    ):
        pass

    refused("PL602", k.trace, at="n: pl.Tuple[M, M]")


# Aliases are ordinary objects.

Doubling = pl.Out[M]


@pl.jit
def by_alias(x: M, out: Doubling):
    with pl.at(level=pl.Level.CORE_GROUP):
        t: T = pl.load(x, [0, 0], [4, 8])
        out[:] = pl.add(t, t)


@pl.jit
def by_dtype(n: pl.INT32, out: pl.Out[Row]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.full([1, 8], dtype=pl.FP32, value=1.0) * pl.cast(n, pl.FP32)


def test_an_alias_of_an_annotation_is_as_good_as_the_annotation():
    assert (every_way(by_alias, X) == X * 2).all()


def test_a_dtype_as_annotation_is_a_scalar_of_it():
    assert (every_way(by_dtype, 3) == 3).all()


# Annotations of local names.


@pl.jit
def wrong_shape(x: M, out: pl.Out[M]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t: pl.Tile[[2, 8], pl.FP32] = pl.load(x, [0, 0], [4, 8])  # refused
        out[:] = t


@pl.jit
def wrong_dtype(x: M, out: pl.Out[M]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t: pl.Tile[[4, 8], pl.FP16] = pl.load(x, [0, 0], [4, 8])  # refused
        out[:] = t


@pl.jit
def wrong_kind(n: pl.Scalar[pl.INT32], out: pl.Out[M]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t: T = n  # refused
        out[:] = t


@pytest.mark.parametrize(("kernel", "code"), [(wrong_shape, "PL301"), (wrong_dtype, "PL302"), (wrong_kind, "PL302")])
def test_an_annotation_of_a_name_must_be_what_its_value_is(kernel, code):
    error = refused(code, kernel.trace, at=kernel_line(kernel))
    assert "annotated" in error.message


def kernel_line(kernel):
    with open(__file__) as file:
        lines = file.read().splitlines()
    first = kernel.staged.source.line
    line = next(text for text in lines[first:] if text.endswith("# refused"))
    return line.strip().removesuffix("  # refused")


@pl.jit.inline
def both(t) -> pl.Tuple[T, T]:
    return pl.adds(t, 1.0), pl.muls(t, 2.0)


@pl.jit.inline
def both_in_python(t) -> tuple[T, pl.Scalar[pl.INT32]]:
    return pl.adds(t, 1.0), 3


@pl.jit
def takes_both(x: M, out: pl.Out[M]):
    with pl.at(level=pl.Level.CORE_GROUP):
        p, q = both(pl.load(x, [0, 0], [4, 8]))
        r, n = both_in_python(p)
        out[:] = pl.add(pl.add(q, r), pl.cast(n, pl.FP32))


@pl.jit.inline
def returns_too_few(t) -> pl.Tuple[T, T]:
    return (t,)  # refused


@pl.jit.inline
def returns_another_shape(t) -> T:
    return t[0:2, :]  # refused


@pl.jit.inline
def returns_nothing(t) -> T:
    pl.adds(t, 1.0)
    return  # refused


def calling(helper):
    @pl.jit
    def caller(x: M, out: pl.Out[M]):
        with pl.at(level=pl.Level.CORE_GROUP):
            helper(pl.load(x, [0, 0], [4, 8]))
            out[:] = x

    return caller


def test_a_return_annotation_says_what_comes_back():
    assert (every_way(takes_both, X) == X * 2 + (X + 2) + 3).all()


@pytest.mark.parametrize(
    ("helper", "code", "at"),
    [
        (returns_too_few, "PL301", "return (t,)"),
        (returns_another_shape, "PL301", "return t[0:2, :]"),
        (returns_nothing, "PL209", "return"),
    ],
)
def test_a_result_that_is_not_what_is_annotated_is_refused(helper, code, at):
    refused(code, calling(helper).trace, at=at)


# Views with strides.


@pl.jit
def strided(x: pl.Tensor[[4, 8], pl.FP32, pl.TensorView(stride=[16, 1], layout=pl.TensorLayout.ND)], out: pl.Out[M]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.adds(x, 1.0)


@pl.jit
def partly_valid(x: pl.Tensor[[4, 8], pl.FP32, pl.TensorView(layout=pl.ND, valid_shape=[4, 3])], out: pl.Out[pl.Tensor[[4, 1], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.row_sum(x)


def test_a_view_with_strides_takes_an_array_that_has_them():
    wide = np.arange(64, dtype=np.float32).reshape(4, 16)
    assert (np.asarray(strided(wide[:, 2:10])) == wide[:, 2:10] + 1).all()


def test_an_array_of_other_strides_is_refused():
    with pytest.raises(CallError) as caught:
        strided(X)
    assert caught.value.code == "PL602" and "`x`" in caught.value.message


def test_the_valid_shape_of_a_view_holds_inside():
    assert np.asarray(partly_valid(X)).ravel().tolist() == X[:, :3].sum(1).tolist()


Partly = pl.Tensor[[4, 8], pl.FP32, pl.TensorView(layout=pl.ND, valid_shape=[4, 3])]
Wide = pl.Tensor[[4, 8], pl.FP32, pl.TensorView(stride=[16, 1], layout=pl.ND)]
Sums = pl.Tensor[[4, 1], pl.FP32]


@pl.jit.incore
def partly_summed(x: Partly, out: pl.Out[Sums]):
    out[:] = pl.row_sum(x)
    return out


@pl.jit.inline
def partly_summed_inline(x: Partly):
    return pl.row_sum(x)


@pl.jit
def calls_partly_valid(x: M, out: pl.Out[Sums], also: pl.Out[Sums], third: pl.Out[Sums]):
    partly_summed(x, out)
    with pl.at(level=pl.Level.CORE_GROUP):
        also[:] = partly_summed_inline(x)
        t = pl.adds(x, 1.0)
        also[:] = pl.subs(partly_summed_inline(t), 3.0)
        part: Partly = x
        third[:] = pl.row_sum(part)


def test_the_valid_shape_of_a_callee_and_of_a_name_holds_as_well():
    for run in (calls_partly_valid, calls_partly_valid.eager):
        for found in run(X):
            assert np.asarray(found).ravel().tolist() == X[:, :3].sum(1).tolist()


@pl.jit
def shrinks_twice(x: pl.Tensor[[4, 8], pl.FP32, pl.TensorView(layout=pl.ND, valid_shape=[4, 2])], out: pl.Out[Sums]):
    partly_summed(x, out)  # refused


def test_a_view_claims_no_more_data_than_there_is():
    refused("PL303", shrinks_twice.trace, at="partly_summed(x, out)")


@pl.jit.incore
def takes_wide(x: Wide, out: pl.Out[M]):
    out[:] = pl.adds(x, 1.0)
    return out


@pl.jit
def passes_windows(wide: pl.Tensor[[4, 16], pl.FP32], x: Wide, out: pl.Out[M], other: pl.Out[M]):
    takes_wide(wide[:, 2:10], out)
    takes_wide(x, other)


@pl.jit
def passes_row_major(x: M, out: pl.Out[M]):
    takes_wide(x, out)  # refused


@pl.jit
def annotates_row_major(x: M, out: pl.Out[M]):
    with pl.at(level=pl.Level.CORE_GROUP):
        w: Wide = x  # refused
        out[:] = pl.adds(w, 1.0)


@pl.jit
def annotates_a_tile(x: M, out: pl.Out[M]):
    with pl.at(level=pl.Level.CORE_GROUP):
        w: Wide = pl.adds(x, 1.0)  # refused
        out[:] = w


@pl.jit
def passes_a_turned_window(wide: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[M]):
    takes_wide(pl.transpose(wide[:, 0:4], 0, 1), out)  # refused


def test_a_window_with_the_strides_of_a_callee_is_its_argument():
    wide = np.arange(64, dtype=np.float32).reshape(4, 16)
    for run in (passes_windows, passes_windows.eager):
        out, other = run(wide, wide[:, 0:8])
        assert (np.asarray(out) == wide[:, 2:10] + 1).all() and (np.asarray(other) == wide[:, :8] + 1).all()


@pytest.mark.parametrize(
    ("kernel", "at"),
    [
        (passes_row_major, "takes_wide(x, out)"),
        (annotates_row_major, "w: Wide = x"),
        (annotates_a_tile, "w: Wide = pl.adds(x, 1.0)"),
        (passes_a_turned_window, "takes_wide(pl.transpose(wide[:, 0:4], 0, 1), out)"),
    ],
)
def test_strides_that_do_not_hold_are_refused_in_a_body(kernel, at):
    refused("PL302", kernel.trace, at=at)


# Arrays do not cross into a kernel.


@pl.jit
def takes_an_array(ids: pl.Array[4, pl.INT32], out: pl.Out[M]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.full([4, 8], dtype=pl.FP32, value=0.0)


def test_an_on_core_array_is_no_argument_of_an_entry():
    with pytest.raises(CallError) as caught:
        takes_an_array(f32([1, 2, 3, 4]))
    assert caught.value.code == "PL602" and "`ids`" in caught.value.message


# One symbol has one extent inside, too.

N = pl.dynamic("N")


@pl.jit.inline
def adds_rows(x: pl.Tensor[[N, 8], pl.FP32], y: pl.Tensor[[N, 8], pl.FP32], out: pl.Tensor[[N, 8], pl.FP32]):
    for r in pl.range(pl.tensor.dim(x, 0)):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[r : r + 1, :] = pl.add(x[r : r + 1, :], y[r : r + 1, :])


@pl.jit
def rows_that_differ(x: M, y: pl.Tensor[[2, 8], pl.FP32], out: pl.Out[M]):
    adds_rows(x, y, out)  # refused


@pl.jit
def rows_that_agree(x: M, y: M, out: pl.Out[M]):
    adds_rows(x, y, out)


def test_one_symbol_has_one_extent_in_a_call_inside_a_kernel():
    assert (every_way(rows_that_agree, X, X) == X * 2).all()
    error = refused("PL602", rows_that_differ.trace, at="adds_rows(x, y, out)")
    assert "4 (axis 0 of `x`)" in error.message and "2 (axis 0 of `y`)" in error.message
