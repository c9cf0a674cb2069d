"""Gradients at infinities and zeros: the limit where there is one, never a NaN that the function itself does not have."""

import math

import numpy as np
import pytest

import pypto
from pypto import lax

INF = math.inf


@pytest.mark.parametrize("dtype", ["FP32", "FP16", "BF16"])
@pytest.mark.parametrize(
    ("x", "y", "dx", "dy"),
    [(INF, 0, 1, 0), (0, INF, 0, 1), (-INF, 0, 0, 1), (INF, -INF, 1, 0), (-INF, INF, 0, 1), (INF, INF, 1, 1), (-INF, -INF, 1, 1)],
)
def test_an_infinite_sum_of_exponentials_is_its_infinite_operands(x, y, dx, dy, dtype):
    found = pypto.grad(lax.logaddexp, (0, 1))(pypto.Array(x, dtype), pypto.Array(y, dtype))
    assert tuple(map(float, found)) == (dx, dy)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([-INF, 0, 0], [0, 0.5, 0.5]),
        ([-INF, -INF, 1], [0, 0, 1]),
        ([0, -INF, 0], [0.5, 0, 0.5]),
        ([0, INF, 1], [0, 1, 0]),
        ([INF, 0, -INF], [1, 0, 0]),
    ],
)
def test_running_sums_of_exponentials_have_gradients_at_infinities(x, expected, reverse):
    x, expected = (np.float32(v[::-1] if reverse else v) for v in (x, expected))
    last = 0 if reverse else -1
    found = pypto.grad(lambda v: lax.cumlogsumexp(v, reverse=reverse)[last])(x)
    assert np.array_equal(np.isfinite(found), [True] * 3)
    assert np.allclose(found, expected, rtol=1e-6)  # log and exp of each step are rounded


def test_a_nan_stays_a_nan_in_the_gradient():
    assert np.isnan(np.asarray(pypto.grad(lambda v: lax.cumlogsumexp(v)[-1])(np.float32([0, math.nan, 1])))).all()
    assert math.isnan(pypto.grad(lax.logaddexp)(math.nan, 0.0))


@pytest.mark.parametrize("dtype", ["FP32", "FP16", "BF16"])
@pytest.mark.parametrize(("x", "expected"), [(INF, 0), (-INF, 0), (0.0, INF), (-0.0, INF), (8.0, 1 / 12), (-8.0, 1 / 12)])
def test_the_slope_of_the_cube_root_at_its_limits(x, expected, dtype):
    found = pypto.grad(lax.cbrt)(pypto.Array(x, dtype))
    assert np.isclose(float(found), expected, rtol={"FP32": 1e-6, "FP16": 2e-3, "BF16": 1e-2}[dtype])  # a rounding per operation


def _slopes(rows, w):
    """Logarithms of what is positive, quotients by it; the other branch is taken where both are infinite."""
    return pypto.vmap(lambda v: lax.cond(v > 0, lambda a: lax.log(a) + w / a, lambda a: a * w, v))(rows)


@pytest.mark.parametrize("within", [lambda f: f, pypto.jit, pypto.checkpoint], ids=["alone", "jit", "checkpoint"])
def test_a_branch_that_an_example_does_not_take_leaves_its_gradient_alone(within):
    rows = np.float32([4, 0, -2])
    by_row, by_w = pypto.grad(within(lambda v, w: _slopes(v, w).sum()), (0, 1))(rows, np.float32(2))
    assert np.array_equal(by_row, np.float32([1 / 4 - 2 / 16, 2, 2]))
    assert by_w == 1 / 4 + 0 - 2
    alone = [pypto.grad(lambda v: lax.cond(v > 0, lambda a: lax.log(a) + 2.0 / a, lambda a: a * 2.0, v))(v) for v in rows]
    assert np.array_equal(by_row, np.stack(list(map(np.asarray, alone))))


def test_a_branch_chosen_in_each_turn_of_a_scan_of_examples_leaves_the_gradient_alone():
    turns = np.float32([[4, 0, -2], [0, 1, 2]])
    total = lambda w: lax.scan(lambda c, x: (c + _slopes(x, w).sum(), None), np.float32(0), turns)[0]  # noqa: E731 - one expression
    assert pypto.grad(total)(np.float32(2)) == 1 / 4 - 2 + 1 + 1 / 2


def test_branches_that_nobody_differentiates_are_not_guarded():
    names = [
        e.op.name
        for e in pypto.make_jaxpr(pypto.vmap(lambda v: lax.cond(v > 0, lax.log, lambda a: a * 0.0, v)))(np.ones(3, np.float32)).walk()
    ]
    assert "stop" not in names and names.count("select") == 1
