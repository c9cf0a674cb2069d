"""Repeated calls find their program by one look-up, and what a layout does not say is looked at every time."""

import weakref

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.errors import CallError
from tests.refusals import f32

FACTOR = 2.0
Row = pl.Tensor[[8], pl.FP32]
N = pl.dynamic("N")


def made():
    @pl.jit
    def scaled(x: Row, n: pl.Scalar[pl.INT8], by, out: pl.Out[Row]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(pl.muls(x, FACTOR * by), pl.cast(pl.cast(n, pl.INT32), pl.FP32))

    return scaled


X = np.arange(8, dtype=np.float32)


def bound(kernel, monkeypatch):
    """How often arguments are checked in full from here on."""
    counts = []
    original = kernel._bind
    monkeypatch.setattr(kernel, "_bind", lambda *a: counts.append(1) or original(*a))
    return counts


def test_the_second_call_of_a_layout_is_not_checked_again(monkeypatch):
    kernel = made()
    kernel(X, 1, 1.0)
    counts = bound(kernel, monkeypatch)
    for n in (1, 2, 3):
        assert (np.asarray(kernel(X + n, n, 1.0)) == 2 * (X + n) + n).all()
    assert counts == []


def test_outputs_left_out_are_new_arrays_each_time():
    kernel = made()
    first, second, third = (np.asarray(kernel(X, n, 1.0)) for n in (1, 2, 3))
    assert first[0] == 1 and second[0] == 2 and third[0] == 3


@pytest.mark.parametrize("executor", ["cpu", "reference"])
def test_no_array_of_a_call_is_kept(executor):
    kernel, x, out = made(), X.copy(), np.zeros_like(X)
    kept = [weakref.ref(x), weakref.ref(out)]
    with pypto.override(check=False, executor=executor):
        kernel(x, 1, 1.0, out)
    del x, out
    assert [r() for r in kept] == [None, None]


def test_outputs_given_are_written():
    kernel = made()
    for n in (1, 2, 3):
        out = np.zeros_like(X)
        assert kernel(X, n, 1.0, out) is out and out[0] == n


@pytest.mark.parametrize(
    "change", [lambda: (X.astype(np.float64), 1, 1.0), lambda: (X[::2], 1, 1.0), lambda: (X, 300, 1.0), lambda: (X, 1.5, 1.0)]
)
def test_another_dtype_extent_or_number_is_still_refused(change):
    kernel = made()
    kernel(X, 1, 1.0)
    kernel(X, 1, 1.0)
    with pytest.raises(CallError) as caught:
        kernel(*change())
    assert caught.value.code == "PL602"


def test_an_output_that_shares_memory_is_still_refused():
    kernel = made()
    for _ in range(2):
        kernel(X, 1, 1.0, np.zeros_like(X))
    both = np.zeros(12, np.float32)
    with pytest.raises(CallError) as caught:
        kernel(both[:8], 1, 1.0, both[4:])
    assert caught.value.code == "PL605"


def test_a_read_only_output_is_still_refused():
    kernel = made()
    for _ in range(2):
        kernel(X, 1, 1.0, np.zeros_like(X))
    out = np.zeros_like(X)
    out.flags.writeable = False
    with pytest.raises(CallError) as caught:
        kernel(X, 1, 1.0, out)
    assert caught.value.code == "PL604"


def test_a_changed_python_value_runs_another_program(monkeypatch):
    kernel = made()
    assert kernel(X, 0, 1.0)[1] == 2
    assert kernel(X, 0, 3.0)[1] == 6 and kernel(X, 0, 1.0)[1] == 2 and kernel(X, 0, 3.0)[1] == 6
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    assert kernel(X, 0, 1.0)[1] == 5 and kernel(X, 0, 3.0)[1] == 15


def test_zero_and_minus_zero_are_two_values():
    kernel = made()
    signs = [np.signbit(np.asarray(kernel(X, 0, by))[1]) for by in (0.0, -0.0, 0.0)]
    assert [bool(s) for s in signs] == [False, False, False]  # plus zero from the addition; the programs differ
    assert len(pypto.explain_cache(kernel).programs) == 2


def test_another_platform_runs_another_program():
    kernel = made()
    kernel(X, 1, 1.0)
    kernel(X, 1, 1.0)
    with pypto.override(platform="a5sim"):
        kernel(X, 1, 1.0)
    assert len(pypto.explain_cache(kernel).programs) == 2


def test_extents_of_a_symbol_share_a_program():
    @pl.jit
    def any_rows(x: pl.Tensor[[N, 8], pl.FP32], out: pl.Out[pl.Tensor[[N, 8], pl.FP32]]):
        for r in pl.range(pl.tensor.dim(x, 0)):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[r : r + 1, :] = pl.adds(x[r : r + 1, :], 1.0)

    for rows in (1, 3, 1, 3):
        assert np.asarray(any_rows(np.zeros((rows, 8), np.float32))).shape == (rows, 8)
    assert len(pypto.explain_cache(any_rows).programs) == 1


def test_a_list_is_converted_every_time():
    kernel = made()
    for first in (1.0, 2.0):
        assert kernel(f32([first, *range(1, 8)]), 0, 1.0)[0] == 2 * first
