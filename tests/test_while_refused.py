"""Loops that cannot be left, that never end, and that are no `while` are refused at their line."""

import pytest

import pypto.language as pl
from tests.refusals import refused

One = pl.Tensor[[1], pl.INT32]
M = pl.Tensor[[4, 8], pl.FP32]


# What cannot be left, and what never ends.


@pl.jit
def leaves_a_parallel_loop(x: M, out: pl.Out[M]):
    for r in pl.parallel(4):  # refused
        if pl.read(x, [r, 0]) > 8.0:
            break


@pl.jit
def leaves_a_pipeline(x: M, out: pl.Out[M]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for r in pl.pipeline(4, stage=2):  # refused
            if r > 1:
                break


@pl.jit
def leaves_blocks(x: M, out: pl.Out[M]):
    for r in pl.spmd(4):  # refused
        if r > 1:
            break


@pytest.mark.parametrize(
    ("kernel", "at"),
    [(leaves_a_parallel_loop, "pl.parallel(4)"), (leaves_a_pipeline, "pl.pipeline(4, stage=2)"), (leaves_blocks, "pl.spmd(4)")],
)
def test_a_loop_whose_turns_are_not_one_after_the_other_is_not_left(kernel, at):
    refused("PL105", kernel.trace, at=at)


GOES_ON = True


@pl.jit
def ends_by_nothing(out: pl.Out[One]):
    with pl.at(level=pl.Level.CORE_GROUP):
        n = 0
        while GOES_ON:  # refused
            n = n + 1
        out[0] = n


def test_a_loop_that_nothing_ends_is_refused():
    refused("PL101", ends_by_nothing.trace, at="GOES_ON")


@pl.jit
def without_initial_values(out: pl.Out[One]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for (x,) in pl.while_(init_values=()):  # refused
            pl.cond(x < 3)
            x = x + 1


@pl.jit
def condition_elsewhere(out: pl.Out[One]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.cond(True)  # refused


@pl.jit
def too_few_values(out: pl.Out[One]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for a, b in pl.while_(init_values=(0, 1, 2)):  # refused
            pl.cond(a < 3)
            a = a + 1
        out[0] = a


def test_a_while_without_initial_values_is_refused():
    refused("PL601", without_initial_values.trace, at="pl.while_(init_values=())")


def test_a_condition_stands_first_in_a_while_body():
    refused("PL102", condition_elsewhere.trace, at="pl.cond(True)")


def test_a_while_has_one_name_per_initial_value():
    refused("PL102", too_few_values.trace, at="pl.while_(init_values=(0, 1, 2))")


def no_condition():
    @pl.jit
    def k(out: pl.Out[One]):
        for (x,) in pl.while_(init_values=(0,)):
            x = x + 1  # refused


def no_tuple():
    @pl.jit
    def k(out: pl.Out[One]):
        for x in pl.while_(init_values=(0,)):  # refused
            pl.cond(x < 3)


def yields_too_few():
    @pl.jit
    def k(out: pl.Out[One]):
        for a, b in pl.while_(init_values=(0, 1)):
            pl.cond(a < 3)
            c = pl.yield_(a)  # refused


def never_ends():
    @pl.jit
    def k(out: pl.Out[One]):
        while True:  # refused
            pass


def with_else():
    @pl.jit
    def k(n: pl.Scalar[pl.INT32], out: pl.Out[One]):
        while n < 3:
            break
        else:
            n = 1  # refused


def returns_in_a_while():
    @pl.jit
    def k(n: pl.Scalar[pl.INT32], out: pl.Out[One]):
        while n < 3:
            return  # refused


def returns_in_an_else():
    @pl.jit
    def k(n: pl.Scalar[pl.INT32], out: pl.Out[One]):
        for i in pl.range(4):
            if i > n:
                break
        else:
            return  # refused


@pytest.mark.parametrize(
    ("make", "code", "at"),
    [
        (returns_in_a_while, "PL107", "return"),
        (returns_in_an_else, "PL107", "return"),
        (no_condition, "PL101", "x = x + 1"),
        (no_tuple, "PL102", "x"),
        (yields_too_few, "PL102", "c = pl.yield_(a)"),
        (never_ends, "PL101", "while True:"),
        (with_else, "PL101", "n = 1"),
    ],
)
def test_a_while_that_is_not_one_is_refused_at_decoration(make, code, at):
    refused(code, make, at=at)
