"""Reported faults about tracing (cases C59, C61, C68, C69): static arguments, leaks, two spellings of one carry."""

import dataclasses

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.errors import CallError, PyptoError
from tests.refusals import refused
from tests.ways import every_way

V = pl.Tensor[[8], pl.FP32]
M = pl.Tensor[[4, 8], pl.FP32]
X = np.arange(8, dtype=np.float32)

# C68: a plain Python argument that cannot be part of a key, or that changes after it was.


@pl.jit
def takes_a_plain_argument(x: V, sizes, out: pl.Out[V]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.muls(x, float(sizes[0]))


@dataclasses.dataclass(eq=False)
class Sizes:
    values: list

    def __getitem__(self, i):
        return self.values[i]


def test_an_unhashable_plain_argument_is_an_error_that_names_it_and_its_type():  # C68
    with pytest.raises(CallError) as caught:
        takes_a_plain_argument(X, [2])
    assert caught.value.code == "PL602" and "`sizes`" in caught.value.message and "list" in caught.value.message


def test_a_plain_argument_that_changed_never_runs_a_stale_program():  # C68
    sizes = Sizes([2])
    assert (np.asarray(takes_a_plain_argument(X, sizes)) == 2 * X).all()
    sizes.values[0] = 3
    assert (np.asarray(takes_a_plain_argument(X, sizes)) == 3 * X).all()
    sizes.values[0] = 2
    assert (np.asarray(takes_a_plain_argument(X, sizes)) == 2 * X).all()


# C69: a traced value that leaks out of its trace.

KEPT: list = []


def keeps(value):
    KEPT.append(value)
    return value


@pl.jit
def leaks(x: V, out: pl.Out[V]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = keeps(pl.adds(x, 1.0))
        out[:] = t


@pl.jit
def uses_what_leaked(x: V, out: pl.Out[V]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(x, KEPT[0])  # refused


@pytest.fixture
def kept():
    KEPT.clear()
    yield KEPT
    KEPT.clear()


def test_a_leaked_value_is_refused_with_what_it_was_outside_a_kernel(kept):  # C69
    leaks.trace()
    with pytest.raises(PyptoError) as caught:
        kept[0] + 1.0
    assert caught.value.code == "PL110" and "f32[8]" in caught.value.message


def test_a_leaked_value_is_refused_in_another_kernel(kept):  # C69
    leaks.trace()
    refused("PL110", uses_what_leaked.trace, at="pl.add(x, KEPT[0])")


STATE = {"by": 2.0}


def reads_state():
    return STATE["by"]


@pl.jit
def reads_changed_state(x: V, out: pl.Out[V]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.muls(x, reads_state())


def test_a_trace_that_read_python_state_is_not_used_once_it_changed():  # C69
    assert (np.asarray(reads_changed_state(X)) == 2 * X).all()
    STATE["by"] = 3.0
    try:
        assert (np.asarray(reads_changed_state(X)) == 3 * X).all()
    finally:
        STATE["by"] = 2.0
    assert (np.asarray(reads_changed_state(X)) == 2 * X).all()


# C61: the explicit carry and the implicit one.


def rows(kind):
    @pl.jit
    def implicit(x: M, out: pl.Out[pl.Tensor[[1, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            acc = pl.full([1, 8], dtype=pl.FP32, value=0.0)
            for i in pl.range(4):
                acc = pl.add(acc, x[i : i + 1, :])
            out[:] = acc

    @pl.jit
    def explicit(x: M, out: pl.Out[pl.Tensor[[1, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            zero = pl.full([1, 8], dtype=pl.FP32, value=0.0)
            for i, (acc,) in pl.range(4, init_values=(zero,)):
                total = pl.yield_(pl.add(acc, x[i : i + 1, :]))
            out[:] = total

    return {"implicit": implicit, "explicit": explicit}[kind]


@pytest.mark.parametrize("kind", ["implicit", "explicit"])
def test_the_explicit_carry_is_the_implicit_one(kind):  # C61
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    assert (every_way(rows(kind), x) == x.sum(0, keepdims=True)).all()


# C59: an extent that is not frozen, and symbols told apart by what they are.

N = pl.dynamic("N")


@pl.jit
def adds_rows(x: pl.Tensor[[N, 8], pl.FP32], y: pl.Tensor[[N, 8], pl.FP32], out: pl.Out[pl.Tensor[[N, 8], pl.FP32]]):
    for r in pl.range(pl.tensor.dim(x, 0)):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[r : r + 1, :] = pl.add(x[r : r + 1, :], y[r : r + 1, :])


def test_a_dynamic_extent_is_not_frozen_to_that_of_the_first_call():  # C59
    for n in (2, 3, 2):
        x = np.full((n, 8), n, np.float32)
        assert (np.asarray(adds_rows(x, x)) == 2 * n).all()
    assert len(pypto.explain_cache(adds_rows).programs) == 1
    with pytest.raises(CallError) as caught:
        adds_rows(np.zeros((2, 8), np.float32), np.zeros((3, 8), np.float32))
    assert caught.value.code == "PL602" and "2 (from `x`)" in caught.value.message and "3 (axis 0 of `y`)" in caught.value.message
