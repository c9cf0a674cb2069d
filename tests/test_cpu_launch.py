"""Repeated calls: the quick way is taken where nothing changed, and left where anything did."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.errors import PyptoError
from pypto.interpreters.cpu import native
from pypto.language.launching import MISS

Tile = pl.Tensor[[4, 8], pl.FP32]
A = np.arange(32, dtype=np.float32).reshape(4, 8)
ON = {"check": False, "executor": "cpu"}


def fresh_add() -> Any:
    @pl.jit
    def add(a: Tile, b: Tile, out: pl.Out[Tile]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:, :] = a[:, :] + b[:, :]

    return add


def quick(kernel: Any, *args: Any) -> bool:
    """Whether a call goes the quick way."""
    return kernel._launches(args) is not MISS


def test_the_layout_of_arrays_is_the_one_taken_for_granted():
    assert native.layout_known()


def test_the_second_call_with_arrays_of_one_layout_goes_the_quick_way():
    add, out = fresh_add(), np.zeros((4, 8), np.float32)
    with pypto.override(**ON):
        assert not quick(add, A, A, out)
        add(A, A, out)
        assert quick(add, A, 2 * A, out)
        assert np.array_equal(out, 3 * A)
        assert add(A, A, out) is out


def test_an_output_left_out_is_new_memory_in_every_call():
    add = fresh_add()
    with pypto.override(**ON):
        first = add(A, A)
        assert quick(add, A, A)
        second = add(A, 3 * A)
    assert np.array_equal(first, 2 * A) and np.array_equal(second, 4 * A)


class Sub(np.ndarray):
    pass


def changed(what: str) -> tuple[Any, ...]:
    out = np.zeros((4, 8), np.float32)
    wide = np.zeros((4, 16), np.float32)
    swapped = A.astype(A.dtype.newbyteorder())
    unaligned = np.zeros(129, np.uint8)[1:].view(np.float32).reshape(4, 8)
    return {
        "fewer arguments": (A, A, out)[:1],
        "more arguments": (A, A, out, out),
        "another dtype": (A, A.astype(np.float64), out),
        "other extents": (A, A[:2], out),
        "other rank": (A, A.reshape(32), out),
        "strided": (A, wide[:, ::2], out),
        "strided output": (A, A, wide[:, ::2]),
        "transposed": (A, np.asfortranarray(A), out),
        "other byte order": (A, swapped, out),
        "not aligned": (A, unaligned, out),
        "a subclass": (A, A.view(Sub), out),
        "a list": (A, A.tolist(), out),
        "read-only output": (A, A, _locked(out)),
        "the output is an input": (A, out, out),
    }[what]


def _locked(a: np.ndarray) -> np.ndarray:
    a.flags.writeable = False
    return a


KINDS = [
    "fewer arguments", "more arguments", "another dtype", "other extents", "other rank", "strided", "strided output", "transposed",
    "other byte order", "not aligned", "a subclass", "a list", "read-only output", "the output is an input",
]  # fmt: skip


@pytest.mark.parametrize("what", KINDS)
def test_a_call_that_differs_goes_the_long_way(what):
    add = fresh_add()
    with pypto.override(**ON):
        add(A, A, np.zeros((4, 8), np.float32))
        assert not quick(add, *changed(what))


def test_an_output_that_overlaps_an_input_by_some_rows_is_still_refused():
    add, memory = fresh_add(), np.zeros((5, 8), np.float32)
    with pypto.override(**ON):
        add(A, A, np.zeros((4, 8), np.float32))
        with pytest.raises(PyptoError) as caught:
            add(A, memory[0:4], memory[1:5])
    assert caught.value.code == "PL605"


FACTOR = 2.0


@pl.jit
def scaled(a: Tile, out: pl.Out[Tile]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, :] = a[:, :] * FACTOR


def test_a_captured_value_that_changes_changes_the_result(monkeypatch):
    with pypto.override(**ON):
        assert np.array_equal(scaled(A), 2 * A)
        assert quick(scaled, A)
        monkeypatch.setitem(scaled.fn.__globals__, "FACTOR", 3.0)
        assert not quick(scaled, A)
        assert np.array_equal(scaled(A), 3 * A)
        monkeypatch.setitem(scaled.fn.__globals__, "FACTOR", 2.0)
        assert np.array_equal(scaled(A), 2 * A)


def test_an_attribute_that_is_read_and_changes_changes_the_result():
    class Settings:
        factor = 2.0

    @pl.jit
    def k(a: Tile, out: pl.Out[Tile]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:, :] = a[:, :] * Settings.factor

    with pypto.override(**ON):
        k(A)
        k(A)
        Settings.factor = 5.0
        assert np.array_equal(k(A), 5 * A)


def test_a_captured_list_that_changes_in_place_changes_the_result():
    factors = [2.0]

    @pl.jit
    def k(a: Tile, out: pl.Out[Tile]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:, :] = a[:, :] * factors[0]

    with pypto.override(**ON):
        k(A)
        k(A)
        factors[0] = 5.0
        assert np.array_equal(k(A), 5 * A)


def test_an_inlined_kernel_whose_captured_value_changes_changes_the_result():
    factor = 2.0

    @pl.jit.inline
    def part(t):
        return t * factor

    @pl.jit
    def k(a: Tile, out: pl.Out[Tile]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:, :] = part(a[:, :])

    with pypto.override(**ON):
        k(A)
        assert quick(k, A)
        factor = 5.0
        assert np.array_equal(k(A), 5 * A)


def test_a_checked_run_never_goes_the_quick_way():
    add, out = fresh_add(), np.zeros((4, 8), np.float32)
    with pypto.override(**ON):
        add(A, A, out)
    with pypto.override(check=True):
        assert not quick(add, A, A, out)


def test_a_configuration_that_is_equal_but_another_object_takes_the_quick_way():
    add, out = fresh_add(), np.zeros((4, 8), np.float32)
    with pypto.override(**ON):
        add(A, A, out)
    with pypto.override(**ON):
        assert quick(add, A, A, out)


# ---- scalars and static arguments --------------------------------------------------------------------------------


@pl.jit
def axpy(x: Tile, a: pl.Scalar[pl.FP32], n: pl.Scalar[pl.INT8], out: pl.InOut[Tile], twice: bool = False):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x[:, :] * a + out[:, :]
        for i in pl.range(n):
            t = t + 1.0
        if twice:
            t = t * 2.0
        out[:, :] = t


@pytest.mark.parametrize(("a", "n"), [(0.1, 3), (-2.5, 0), (1e-40, 127), (3.4028235e38, 1), (float(np.float32(0.3)), 2)])
def test_numbers_reach_quick_calls_rounded_as_in_any_other(a, n):
    results = []
    for way in range(2):
        out = np.ones((4, 8), np.float32)
        with pypto.override(**ON):
            axpy(A * 0, 1.0, 1, np.zeros((4, 8), np.float32))
            if way:
                assert quick(axpy, A, a, n, out)
            else:
                axpy._launches.known = ()
                with np.errstate(over="ignore"):
                    axpy(A, a, n, out)
        results.append(out.tobytes())
    assert results[0] == results[1]


@pytest.mark.parametrize("arguments", [(1e39, 1), (1.0, 128), (1.0, -129), (1, 1), (1.0, True), (1.0, 1 << 70)], ids=str)
def test_numbers_that_need_a_closer_look_go_the_long_way(arguments):
    out = np.ones((4, 8), np.float32)
    with pypto.override(**ON):
        axpy(A, 1.0, 1, np.zeros((4, 8), np.float32))
        assert not quick(axpy, A, *arguments, out)


def test_a_static_argument_is_part_of_what_is_compared():
    out = np.zeros((4, 8), np.float32)
    with pypto.override(**ON):
        axpy(A, 1.0, 0, out, True)
        assert quick(axpy, A, 1.0, 0, out, True)
        out[:] = 0
        axpy(A, 1.0, 0, out, False)
        assert np.array_equal(out, A)


def test_bfloat16_arrays_go_the_quick_way():
    @pl.jit
    def double(a: pl.Tensor[[4, 16], pl.BF16], out: pl.Out[pl.Tensor[[4, 16], pl.BF16]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:, :] = pl.cast(pl.cast(a[:, :], pl.FP32) * 2.0, pl.BF16, mode="rint")

    x = np.ones((4, 16), ml_dtypes.bfloat16)
    with pypto.override(**ON):
        double(x)
        assert quick(double, x)


def test_an_output_that_is_read_before_it_is_written_reads_as_zero_in_every_call():
    @pl.jit
    def k(a: Tile, out: pl.Out[Tile]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[0:1, :] = a[0:1, :]
            for i in pl.range(1, 4):
                out[i : i + 1, :] = out[(i + 1) % 4 : (i + 1) % 4 + 1, :] + a[i : i + 1, :]

    want = np.stack([A[0], A[1], A[2], A[0] + A[3]])
    out = np.zeros((4, 8), np.float32)
    with pypto.override(**ON):
        for _ in range(3):
            out[:] = 9
            k(A, out)
            assert np.array_equal(out, want)


LAYOUTS = {
    "strided": lambda: np.zeros((4, 16), np.float32)[:, ::2],
    "transposed": lambda: np.zeros((8, 4), np.float32).T,
    "reversed": lambda: np.zeros((4, 8), np.float32)[::-1],
    "unaligned": lambda: np.zeros(129, np.uint8)[1:].view(np.float32).reshape(4, 8),
}


@pytest.mark.parametrize("what", LAYOUTS)
def test_an_output_of_any_layout_is_written(what):
    add, out = fresh_add(), LAYOUTS[what]()
    with pypto.override(**ON):
        for _ in range(2):
            assert add(A, A, out) is out
            assert np.array_equal(out, 2 * A)
            out[:] = 0
