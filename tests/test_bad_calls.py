"""Calls that do not fit the declaration: refused before anything runs, at the caller's line, with every array as it was."""

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.errors import CallError
from tests.refusals import f32, refused, sevens, untouched

M24 = pl.Tensor[[2, 4], pl.FP32]
N, M = pl.dynamic("N"), pl.dynamic("M")
X = f32([1, 2, 3, 4], [5, 6, 7, 8])


@pl.jit
def scale(x: M24, by: pl.Scalar[pl.FP32], out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * by


@pl.jit
def accumulate(x: M24, total: pl.InOut[M24], out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total[:] = total + x
        out[:] = total


# The wrong arguments.


def test_too_many_arguments_are_refused():
    error = refused("PL601", lambda: scale(X, 2.0, sevens(2, 4), X), at="scale(X, 2.0, sevens(2, 4), X)")  # refused
    assert isinstance(error, TypeError) and "scale(x, by, out)" in error.fix


def test_a_missing_argument_is_refused_by_name():
    error = refused("PL601", lambda: scale(X), at="scale(X)")  # refused
    assert "`by`" in error.message


def test_an_unknown_keyword_is_refused_by_name():
    error = refused("PL601", lambda: scale(X, 2.0, skip_ptoas=True), at="scale(X, 2.0, skip_ptoas=True)")  # refused
    assert "`skip_ptoas`" in error.message and "config=" in error.fix


def test_an_argument_given_twice_is_refused_by_name():
    error = refused("PL601", lambda: scale(X, 2.0, x=X), at="scale(X, 2.0, x=X)")  # refused
    assert "`x`" in error.message


def test_arguments_may_be_given_by_name_in_any_order():
    out = sevens(2, 4)
    scale(out=out, by=2, x=X)
    assert out.tolist() == (X * 2).tolist()


def test_an_inout_that_is_left_out_is_refused():
    error = refused("PL603", lambda: accumulate(X), at="accumulate(X)")  # refused
    assert "`total`" in error.message


@pl.jit
def needs_a_shape(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x


@pl.jit
def needs_an_extent(x: M24, out: pl.Out[pl.Tensor[[N, 4], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:2, :] = x


def test_an_output_of_unknown_shape_cannot_be_left_out():
    refused("PL601", lambda: needs_a_shape(X), at="needs_a_shape(X)")  # refused
    refused("PL601", lambda: needs_an_extent(X), at="needs_an_extent(X)")  # refused


@pl.jit
def has_arguments_by_name(x: M24, /, out: pl.Out[M24], *, by: pl.Scalar[pl.FP32] = 2.0, times=1):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * by * float(times)


def test_arguments_after_a_star_are_given_by_name():
    assert has_arguments_by_name(X).tolist() == (X * 2).tolist()
    assert has_arguments_by_name(X, times=3, by=1.0).tolist() == (X * 3).tolist()
    call = lambda: has_arguments_by_name(X, sevens(2, 4), 3.0)  # noqa: E731 # refused
    refused("PL601", call, at="has_arguments_by_name(X, sevens(2, 4), 3.0)")


# The wrong dtype, rank or extent.

WRONG = {
    "float64": (X.astype(np.float64), "float64"),
    "bf16": (X.astype(ml_dtypes.bfloat16), "BF16"),
    "int32": (X.astype(np.int32), "INT32"),
    "complex": (X.astype(np.complex64), "complex64"),
    "strings": (np.array([["a"] * 4] * 2), "U1"),
    "objects": (X.astype(object), "object"),
    "other extent": (X[:, :3].copy(), "[2, 3]"),
    "other rank": (X.reshape(8), "[8]"),
    "more axes": (X.reshape(1, 2, 4), "[1, 2, 4]"),
    "0-d": (np.array(1, np.float32), "[]"),
    "None": (None, "NoneType"),
    "a string": ("x", "str"),
    "a dict": ({}, "dict"),
    "a number": (1.0, "[]"),
    "lists of different lengths": ([[1.0, 2.0], [3.0]], "list"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_argument_that_is_not_as_declared_is_refused(name):
    given, found = WRONG[name]
    error = untouched("PL602", lambda x, by, out: scale(x, by, out), given, 2.0, sevens(2, 4), at="scale(x, by, out)")  # refused
    assert "`x`" in error.message and found in error.message


@pytest.mark.parametrize("name", ["float64", "bf16", "int32", "other extent", "other rank", "0-d"])
def test_an_output_that_is_not_as_declared_is_refused(name):
    given, found = WRONG[name]
    out = np.full_like(given, -7)
    error = untouched("PL602", lambda x, by, out: scale(x, by, out), X.copy(), 2.0, out, at="scale(x, by, out)")  # refused
    assert "`out`" in error.message and found in error.message


def test_a_masked_array_is_refused_because_its_mask_would_be_lost():
    masked = np.ma.array(X, mask=X > 2)
    refused("PL602", lambda: scale(masked, 2.0), at="scale(masked, 2.0)")  # refused


def test_float64_says_how_to_convert():
    error = refused("PL602", lambda: scale(X.astype(np.float64), 2.0), at="scale(X.astype(np.float64), 2.0)")  # refused
    assert 'x.astype("float32")' in error.fix


@pl.jit
def shares_a_symbol(x: pl.Tensor[[N, 4], pl.FP32], y: pl.Tensor[[N, M], pl.FP32], out: pl.Out[pl.Tensor[[N, 4], pl.FP32]]):
    for i in pl.range(pl.tensor.dim(x, 0)):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[i : i + 1, :] = x[i : i + 1, :]


def test_one_symbol_has_one_extent_in_a_call():
    call = lambda: shares_a_symbol(X, np.zeros((3, 5), np.float32))  # noqa: E731 # refused
    error = refused("PL602", call, at="shares_a_symbol(X, np.zeros((3, 5), np.float32))")
    for part in ("N is 2", "`x`", "3", "`y`"):
        assert part in error.message


def test_the_extent_of_a_symbol_may_differ_from_call_to_call():
    assert shares_a_symbol(X, np.zeros((2, 5), np.float32)).tolist() == X.tolist()
    assert shares_a_symbol(X[:1].copy(), np.zeros((1, 1), np.float32)).tolist() == X[:1].tolist()
    assert len(shares_a_symbol._programs) == 1


ANNOTATIONS = {
    "no dtype": lambda: pl.Tensor[[2, 4]],  # refused
    "no shape": lambda: pl.Tensor[pl.FP32],  # refused
    "a number for a shape": lambda: pl.Tensor[2, pl.FP32],  # refused
    "a string for an extent": lambda: pl.Tensor[["M"], pl.FP32],  # refused
    "a negative extent": lambda: pl.Tensor[[-1], pl.FP32],  # refused
    "a fraction": lambda: pl.Tensor[[2.5], pl.FP32],  # refused
    "a truth value": lambda: pl.Tensor[[True], pl.FP32],  # refused
    "one thing too many": lambda: pl.Tensor[[2], pl.FP32, "ND"],  # refused
    "an output of a scalar": lambda: pl.Out[pl.Scalar[pl.FP32]],  # refused
    "an in/out number": lambda: pl.InOut[3],  # refused
}


@pytest.mark.parametrize("name", ANNOTATIONS)
def test_an_annotation_that_says_nothing_is_refused_where_it_is_written(name):
    with pytest.raises(CallError) as caught:
        ANNOTATIONS[name]()
    error = caught.value
    assert error.code == "PL602" and error.fix
    assert error.source is not None and error.source.text.endswith("# refused")
    assert error.source.text[error.source.column : error.source.end_column].startswith("pl.")


# Extents of 0 and arrays without axes.


@pl.jit
def copies_rows(x: pl.Tensor[[N, 4], pl.FP32], out: pl.Out[pl.Tensor[[N, 4], pl.FP32]]):
    for i in pl.range(pl.tensor.dim(x, 0)):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[i : i + 1, :] = x[i : i + 1, :]


@pl.jit
def copies_one_number(x: pl.Tensor[[], pl.FP32], out: pl.Out[pl.Tensor[[], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[...] = x


@pl.jit
def copies_nothing(x: pl.Tensor[[0, 4], pl.FP32], out: pl.Out[pl.Tensor[[0, 4], pl.FP32]]):
    out[:] = x


def test_arrays_without_rows_run_and_report_nothing():
    out = np.zeros((0, 4), np.float32)
    assert copies_rows(np.zeros((0, 4), np.float32), out) is out
    assert copies_rows(np.zeros((0, 4), np.float32)).shape == (0, 4)
    assert copies_nothing(np.zeros((0, 4), np.float32)).shape == (0, 4)


def test_an_array_without_axes_is_read_and_written():
    for x in (np.array(3, np.float32), np.float32(3), jnp.float32(3), 3.0):
        out = np.array(-7, np.float32)
        copies_one_number(x, out)
        assert out.tolist() == 3


# Scalars.


@pl.jit
def stores_an_int32(n: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[1], pl.INT32]]):
    out[0] = n


@pl.jit
def stores_an_int8(n: pl.Scalar[pl.INT8], out: pl.Out[pl.Tensor[[1], pl.INT8]]):
    out[0] = n


@pl.jit
def stores_a_bf16(n: pl.Scalar[pl.BF16], out: pl.Out[pl.Tensor[[1], pl.BF16]]):
    out[0] = n


@pytest.mark.parametrize("given", [5, 5.0, np.int64(5), np.uint8(5), np.float32(5), np.array(5), jnp.int32(5), pypto.Array(np.int32(5))])
def test_every_kind_of_number_with_the_value_5_is_an_int32_scalar(given):
    assert stores_an_int32(given).tolist() == [5]


@pytest.mark.parametrize(("given", "expected"), [(True, 1), (False, 0), (np.True_, 1), (-(2**31), -(2**31)), (2**31 - 1, 2**31 - 1)])
def test_truth_values_and_the_ends_of_the_range_are_int32_scalars(given, expected):
    assert stores_an_int32(given).tolist() == [expected]


@pytest.mark.parametrize("given", [1.5, np.float32(0.5), float("nan"), float("inf"), 2**31, -(2**31) - 1, 2.0**31, np.uint32(2**31)])
def test_a_number_that_an_int32_does_not_hold_is_refused(given):
    error = refused("PL602", lambda: stores_an_int32(given), at="stores_an_int32(given)")  # refused
    assert "`n`" in error.message


@pytest.mark.parametrize("given", ["5", None, [5], (5,), np.zeros(1, np.int32), X, 5j, object(), {}], ids=lambda g: type(g).__name__)
def test_what_is_not_one_number_is_refused_for_a_scalar(given):
    error = refused("PL602", lambda: stores_an_int32(given), at="stores_an_int32(given)")  # refused
    assert "`n`" in error.message


def test_an_int8_scalar_is_checked_and_never_wrapped():
    assert stores_an_int8(-128).tolist() == [-128]
    refused("PL602", lambda: stores_an_int8(128), at="stores_an_int8(128)")  # refused


def test_a_float_scalar_is_rounded_once():
    assert float(np.asarray(stores_a_bf16(1 + 2**-8 + 2**-40))[0]) == 1.0078125
    assert np.isnan(np.asarray(stores_a_bf16(float("nan"))).astype(np.float32)[0])


# Static arguments.


@pl.jit
def has_a_static_argument(x: M24, out: pl.Out[M24], options):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x * float(len(options))


@pytest.mark.parametrize("given", [[1], {"a": 1}, {1}, bytearray(b"a")], ids=lambda g: type(g).__name__)
def test_an_unhashable_static_argument_is_refused_by_name_and_type(given):
    call = lambda: has_a_static_argument(X, sevens(2, 4), given)  # noqa: E731 # refused
    error = refused("PL602", call, at="has_a_static_argument(X, sevens(2, 4), given)")
    assert "`options`" in error.message and type(given).__name__ in error.message


def test_an_array_for_an_argument_without_annotation_is_refused():
    call = lambda: has_a_static_argument(X, sevens(2, 4), X)  # noqa: E731 # refused
    error = refused("PL602", call, at="has_a_static_argument(X, sevens(2, 4), X)")
    assert "`options`" in error.message and "pl.Tensor" in error.fix


def test_static_arguments_of_equal_value_but_other_type_are_different_programs():
    @pl.jit
    def chooses(x: M24, out: pl.Out[M24], flag):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x * (2.0 if isinstance(flag, bool) else 3.0)

    assert chooses(X, sevens(2, 4), 1).tolist() == (X * 3).tolist()
    assert chooses(X, sevens(2, 4), True).tolist() == (X * 2).tolist()
    assert chooses(X, sevens(2, 4), 1).tolist() == (X * 3).tolist()
    assert chooses(X, sevens(2, 4), 1.0).tolist() == (X * 3).tolist()
    assert len(chooses._programs) == 3


# A call that fails in the middle changes nothing.


@pl.jit
def fails_in_the_third_turn(x: M24, total: pl.InOut[M24], out: pl.Out[M24]):
    for i in pl.range(4):
        with pl.at(level=pl.Level.CORE_GROUP):
            total[0:1, :] = total[0:1, :] + 1.0
            out[i : i + 1, :] = x[i : i + 1, :]  # refused


@pytest.mark.parametrize("check", [True, False])
def test_a_call_that_fails_in_the_middle_changes_nothing(check):
    with pypto.override(check=check):
        error = untouched("PL303", fails_in_the_third_turn, X.copy(), X.copy(), sevens(2, 4), at="x[i : i + 1, :]")
        assert "2:3" in error.message
        untouched("PL303", fails_in_the_third_turn.eager, X.copy(), X.copy(), sevens(2, 4), at="x[i : i + 1, :]")


def test_a_kernel_can_be_called_again_after_a_failed_call():
    @pl.jit
    def reads_at(x: M24, r: pl.Scalar[pl.INT32], out: pl.Out[M24]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[0:1, :] = x[r : r + 1, :]  # refused
            out[1:2, :] = x[0:1, :]

    untouched("PL303", reads_at, X.copy(), 2, sevens(2, 4), at="x[r : r + 1, :]")
    assert reads_at(X, 1).tolist() == [[5, 6, 7, 8], [1, 2, 3, 4]]


def test_a_kernel_can_be_called_again_after_a_refused_trace():
    flags = {"fail": True}

    @pl.jit
    def fails_once(x: M24, out: pl.Out[M24]):
        with pl.at(level=pl.Level.CORE_GROUP):
            if flags["fail"]:
                out = x + 1.0  # refused
            out[:] = x

    untouched("PL201", fails_once, X.copy(), sevens(2, 4), at="out = x + 1.0")
    flags["fail"] = False
    assert fails_once(X).tolist() == X.tolist()
