"""Integers and truth values have no tangents: users see None, on every way in and out, and nothing else; JAX's float0 is understood."""

import jax
import numpy as np
import pytest

import pypto
from pypto import lax, tree
from pypto.core.array import Array
from tests.bits import identical

X = np.array([1, 2, 3], np.float32)
FLOAT0 = np.zeros((), jax.dtypes.float0)


def mixed(x, n):
    return {"y": x * n, "n": n + 1, "m": x > 1.0}


def only_arrays(value):
    """The leaves are arrays or nothing: no zero of the interpreters is among them."""
    return all(type(leaf) is Array for leaf in tree.flatten(value)[0])


WAYS = {
    "jvp": lambda f: pypto.jvp(f, (X, 2), (X, None))[1],
    "jvp with float0": lambda f: pypto.jvp(f, (X, 2), (X, FLOAT0))[1],
    "linearize": lambda f: pypto.linearize(f, X, 2)[1](X, None),
    "jitted": lambda f: pypto.jit(lambda x: pypto.jvp(f, (x, 2), (x, None))[1])(X),
    "checkpointed": lambda f: pypto.jvp(pypto.checkpoint(f), (X, 2), (X, None))[1],
    "batched": lambda f: pypto.vmap(lambda x: pypto.jvp(f, (x, 2), (x, None))[1])(X),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_tangents_of_integers_and_masks_are_none(way):
    tangent = way(mixed)
    assert tangent["n"] is None and tangent["m"] is None and identical(tangent["y"], 2 * X) and only_arrays(tangent)


@pytest.mark.parametrize("zero", [None, FLOAT0])
def test_cotangents_of_integers_are_none_or_float0_and_come_back_as_none(zero):
    mask = zero if zero is None else np.zeros(3, jax.dtypes.float0)
    dx, dn = pypto.vjp(mixed, X, 2)[1]({"y": X, "n": zero, "m": mask})
    assert identical(dx, 2 * X) and dn is None


def test_integers_that_are_carried_have_none():
    f = lambda x: lax.scan(lambda c, a: ((c[0] * a, c[1] + 1), c[1]), (1.0, 0), x)  # noqa: E731 - one expression
    ((product, count), counts) = pypto.jvp(f, (X,), (X,))[1]
    assert float(product) == 18.0 and count is None and counts is None


def test_a_rule_of_the_users_gets_and_gives_none():
    seen = []

    @pypto.custom_vjp
    def squared(x, i):
        return x * x, i + 1

    def back(x, ct):
        seen.append(ct[1])
        return 2.0 * x * ct[0], None

    squared.defvjp(lambda x, i: (squared(x, i), x), back)
    dx, di = pypto.grad(lambda x, i: squared(x, i)[0].sum(), (0, 1), allow_int=True)(X, 3)
    assert seen == [None] and di is None and identical(dx, 2 * X)


def test_integers_inside_a_tree_have_none_where_that_is_allowed():
    loss = lambda t: (t["x"] * t["n"]).sum()  # noqa: E731 - one expression
    for grad in (pypto.grad(loss, allow_int=True), pypto.jit(pypto.grad(loss, allow_int=True))):
        found = grad({"x": X, "n": np.int32(2)})
        assert found["n"] is None and identical(found["x"], np.full(3, 2, np.float32))
