"""Rule R8 of the value model: placement by context."""

from __future__ import annotations

import numpy as np
import pytest

import pypto.language as pl
from tests.refusals import refused, reports
from tests.ways import every_way

CORE = pl.Level.CORE_GROUP
T = pl.Tensor[[4, 8], pl.FP32]
X = np.arange(32, dtype=np.float32).reshape(4, 8)


@pl.jit.inline
def halved(t, n):
    for _ in pl.pipeline(n, stage=2):
        t = pl.muls(t, 0.5)
    return t


@pl.jit
def an_inline_inside_a_region(x: T, out: pl.Out[T]):
    with pl.at(level=CORE):
        out[:, :] = halved(x[:, :], 3)


@pl.jit
def an_inline_outside_a_region(x: T, out: pl.Out[T]):
    with pl.at(level=CORE):
        out[:, :] = x
    halved(x, 3)


def test_an_inline_without_a_region_of_its_own_may_stand_inside_one_and_its_loops_are_region_loops():
    assert (every_way(an_inline_inside_a_region, X) == X / 8).all()
    with pytest.raises(Exception, match="PL105") as caught:
        an_inline_outside_a_region(X)
    assert caught.value.source.text == "    for _ in pl.pipeline(n, stage=2):"


@pl.jit.inline
def stage(x, y):
    with pl.at(level=CORE):
        y[:, :] = pl.adds(x, 1.0)


@pl.jit
def inlines_with_regions_in_a_loop(x: T, out: pl.Out[T]):
    part = pl.create_tensor([4, 8], dtype=pl.FP32)
    stage(x, part)
    for _ in pl.range(2):
        stage(part, out)
        stage(out, part)


def test_an_inline_with_regions_of_its_own_stands_outside():
    assert (every_way(inlines_with_regions_in_a_loop, X) == X + 4).all()


@pl.jit
def parallel_inside_a_region(x: T, out: pl.Out[T]):
    with pl.at(level=CORE):
        for r in pl.parallel(4):  # refused
            out[r : r + 1, :] = x[r : r + 1, :]


@pl.jit.incore
def parallel_in_an_incore_function(x: T, out: pl.Out[T]):
    for r in pl.parallel(4):
        out[r : r + 1, :] = pl.neg(x[r : r + 1, :])


@pl.jit
def calls_an_incore_function(x: T, out: pl.Out[T]):
    parallel_in_an_incore_function(x, out)


def test_pl_parallel_inside_pl_at_is_refused_while_an_incore_function_may_use_it():
    refused("PL105", parallel_inside_a_region, X, at="pl.parallel(4)")
    assert (every_way(calls_an_incore_function, X) == -X).all()
    assert (np.asarray(parallel_in_an_incore_function(X)) == -X).all()


def test_a_value_used_in_orchestration_is_refused_at_its_line():
    refused("PL501", arithmetic_outside_a_region, X, at="pl.adds(x, 1.0)")


@pl.jit
def arithmetic_outside_a_region(x: T, out: pl.Out[T]):
    y = pl.adds(x, 1.0)  # refused
    with pl.at(level=CORE):
        out[:, :] = y


@pl.jit
def a_stale_initial_value(x: T, out: pl.Out[T]):
    with pl.at(level=CORE):
        first = x[:, :]
        for _, (acc,) in pl.range(3, init_values=(first,)):
            acc = pl.adds(acc, 1.0)
        out[:, :] = first


def test_reading_the_initial_value_after_its_loop_is_reported():
    with reports("PL208"):
        assert (np.asarray(a_stale_initial_value(X)) == X).all()
