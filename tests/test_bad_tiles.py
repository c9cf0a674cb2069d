"""Tiles whose update would be lost, and results of functions that return nothing: refused at the line."""

import numpy as np
import pytest

import pypto.language as pl
from tests.refusals import f32, sevens, untouched

V4 = pl.Tensor[[4], pl.FP32]
X = f32(1, 2, 3, 4)

# Tiles that are written and never read.


@pl.jit
def updates_a_tile_last(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x + 1.0
        out[:] = t
        t[0:2] = 0.0  # refused


@pl.jit
def writes_an_element_of_a_tile_last(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x + 1.0
        out[:] = t
        pl.write(t, [0], 0.0)  # refused


@pl.jit
def updates_a_loaded_slice(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        part = out[0:2]
        part[:] = x[2:4]  # refused


@pl.jit
def updates_a_tile_in_a_loop(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        t = x + 1.0
        for i in pl.range(4):
            t[i : i + 1] = 0.0  # refused


@pl.jit
def updates_a_slice_of_a_slice(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x
        out[0:2][0:1] = x[3:4]  # refused


@pytest.mark.parametrize(
    ("kernel", "at"),
    [
        (updates_a_tile_last, "t[0:2]"),
        (writes_an_element_of_a_tile_last, "pl.write(t, [0], 0.0)"),
        (updates_a_loaded_slice, "part[:]"),
        (updates_a_tile_in_a_loop, "t[i : i + 1]"),
        (updates_a_slice_of_a_slice, "out[0:2][0:1]"),
    ],
)
def test_a_tile_updated_and_never_read_is_refused_at_the_update(kernel, at):
    untouched("PL205", kernel, X.copy(), sevens(4), at=at)


@pl.jit
def updates_then_reads(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x + 1.0
        t[0:2] = 0.0
        for i in pl.range(2):
            out[:] = t
            t[3:4] = 9.0
            t[2:3] = t[3:4]


def test_a_tile_updated_and_read_in_the_next_turn_is_not_refused():
    assert updates_then_reads(X).tolist() == [0, 0, 9, 9]


@pl.jit
def updates_a_carried_copy(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x + 1.0
        u = t
        for i in pl.range(2):
            u[0:1] = 0.0  # refused
            u = u + 1.0
        out[:] = t + u


def test_a_tile_that_another_name_still_shares_is_not_updated_through_a_carry():
    error = untouched("PL207", updates_a_carried_copy, X.copy(), sevens(4), at="u[0:1]")
    assert "`u`" in error.message and "`t`" in error.message


# The result of a function that returns nothing.


@pl.jit.inline
def returns_nothing(x, y):
    y[:] = x


@pl.jit
def uses_the_result_of_nothing(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = returns_nothing(x, out)  # refused
        out[:] = t


@pl.jit
def adds_to_the_result_of_nothing(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = returns_nothing(x, out) + 1.0  # refused


@pl.jit
def calls_it_as_a_statement(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        returns_nothing(x, out)


@pytest.mark.parametrize(
    ("kernel", "at"),
    [(uses_the_result_of_nothing, "t = returns_nothing(x, out)"), (adds_to_the_result_of_nothing, "returns_nothing(x, out) + 1.0")],
)
def test_using_the_result_of_a_function_that_returns_nothing_is_refused(kernel, at):
    error = untouched("PL209", kernel, X.copy(), sevens(4), at=at)
    assert "`returns_nothing`" in error.message


def test_calling_it_as_a_statement_is_fine():
    assert np.array_equal(calls_it_as_a_statement(X), X)
