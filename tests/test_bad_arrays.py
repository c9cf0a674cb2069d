"""Arrays of a call: outputs that cannot be written, memory that is shared, layouts whose memory gets exactly the result."""

import jax.numpy as jnp
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.errors import CallError
from tests.refusals import f32, refused, sevens, untouched

M24 = pl.Tensor[[2, 4], pl.FP32]
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


# Outputs that cannot be written, and memory that is shared.


def test_a_read_only_output_is_refused():
    out = sevens(2, 4)
    out.flags.writeable = False
    error = untouched("PL604", lambda x, by, out: scale(x, by, out), X.copy(), 2.0, out, at="scale(x, by, out)")  # refused
    assert "`out`" in error.message


@pytest.mark.parametrize("make", [jnp.asarray, pypto.Array, np.ndarray.tolist], ids=["jax", "pypto", "list"])
def test_an_output_that_cannot_be_written_in_place_is_refused(make):
    out = make(sevens(2, 4))
    error = untouched("PL604", lambda x, by: scale(x, by, out), X.copy(), 2.0, at="scale(x, by, out)")  # refused
    assert "`out`" in error.message


def test_an_output_whose_elements_share_memory_is_refused():
    one = np.full(4, -7, np.float32)
    out = np.lib.stride_tricks.as_strided(one, (2, 4), (0, 4))
    error = refused("PL604", lambda: scale(X, 2.0, out), at="scale(X, 2.0, out)")  # refused
    assert "`out`" in error.message
    assert (one == -7).all()


def test_a_read_only_input_is_fine():
    x = X.copy()
    x.flags.writeable = False
    assert scale(x, 1.0).tolist() == X.tolist()


@pytest.mark.parametrize("make", [jnp.asarray, pypto.Array, np.ndarray.tolist], ids=["jax", "pypto", "list"])
def test_arrays_of_other_libraries_and_lists_are_inputs(make):
    out = sevens(2, 4)
    scale(make(X), 2.0, out)
    assert out.tolist() == (X * 2).tolist()


OVERLAPS = {
    "the same array": lambda a: (a[0:2], a[0:2]),
    "a shifted view": lambda a: (a[0:2], a[1:3]),
    "the transposed view": lambda a: (a[0:2], np.flip(a[0:2])),
}


@pytest.mark.parametrize("name", OVERLAPS)
def test_an_output_that_shares_memory_with_an_input_is_refused(name):
    memory = np.arange(12, dtype=np.float32).reshape(3, 4)
    x, out = OVERLAPS[name](memory)
    before = memory.copy()
    error = refused("PL605", lambda: scale(x, 2.0, out), at="scale(x, 2.0, out)")  # refused
    assert "`out`" in error.message and "`x`" in error.message
    assert (memory == before).all()


def test_two_outputs_that_share_memory_are_refused():
    total = f32([0, 0, 0, 0], [0, 0, 0, 0])
    refused("PL605", lambda: accumulate(X, total, total), at="accumulate(X, total, total)")  # refused
    assert (total == 0).all()


@pl.jit
def adds(x: M24, y: M24, out: pl.Out[M24]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x + y


def test_two_inputs_may_be_the_same_array():
    assert adds(X, X).tolist() == (X + X).tolist()


def test_an_input_and_an_output_may_be_disjoint_windows_of_one_array():
    memory = np.arange(16, dtype=np.float32).reshape(2, 8)
    scale(memory[:, :4], 2.0, memory[:, 4:])
    assert memory.tolist() == [[0, 1, 2, 3, 0, 2, 4, 6], [8, 9, 10, 11, 16, 18, 20, 22]]


# Memory layouts: results land in the caller's memory, exactly.

LAYOUTS = {
    "every other row": lambda: np.full((4, 4), -7, np.float32)[::2],
    "every other column": lambda: np.full((2, 8), -7, np.float32)[:, ::2],
    "transposed": lambda: np.full((4, 2), -7, np.float32).T,
    "Fortran order": lambda: np.full((2, 4), -7, np.float32, order="F"),
    "reversed": lambda: np.full((2, 4), -7, np.float32)[::-1, ::-1],
    "a window": lambda: np.full((5, 9), -7, np.float32)[2:4, 3:7],
    "unaligned": lambda: np.full(33, 0, np.uint8)[1:].view(np.float32).reshape(2, 4),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_results_land_in_the_callers_memory_whatever_its_layout(name):
    out, total = LAYOUTS[name](), LAYOUTS[name]()
    base = out.base if out.base is not None else out
    total[:] = 1
    outside = base.size - out.size if base.dtype == out.dtype else 0
    accumulate(X, total, out)
    assert total.tolist() == (X + 1).tolist()
    assert out.tolist() == (X + 1).tolist()
    if outside:
        assert int((base == -7).sum()) == outside, "an element outside the given window changed"


@pytest.mark.parametrize("name", LAYOUTS)
def test_inputs_of_any_layout_are_read_as_they_look(name):
    x = LAYOUTS[name]()
    x[:] = X
    assert scale(x, 2.0).tolist() == (X * 2).tolist()


def test_big_endian_arrays_are_refused():
    x, out = X.astype(">f4"), sevens(2, 4)
    for call in (lambda: scale(x, 1.0), lambda: scale(x, 1.0, out)):
        with pytest.raises(CallError) as caught:
            call()
        assert caught.value.code == "PL602" and ">f4" in caught.value.message
    assert (out == -7).all() and x.tolist() == X.tolist()


def test_a_call_returns_the_arrays_it_was_given():
    total, out = sevens(2, 4), sevens(2, 4)
    returned = accumulate(X, total, out)
    assert returned[0] is total and returned[1] is out
    assert scale(X, 2.0, out) is out
