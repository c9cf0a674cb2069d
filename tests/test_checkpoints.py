"""What `pypto.checkpoint` keeps and computes again: bits never change, work and memory do as its policy says."""

import tracemalloc

import numpy as np
import pytest

import pypto
from pypto import lax
from pypto.errors import PyptoError
from tests.bits import identical

RNG = np.random.default_rng(9)
X = RNG.uniform(-0.5, 0.5, (4, 8)).astype(np.float32)
W = RNG.uniform(-0.5, 0.5, (8, 8)).astype(np.float32)
KEEP = pypto.checkpoint_policies


def block(x, w):
    h = pypto.checkpoint_name(lax.tanh(lax.matmul(x, w)), "h")
    return lax.sin(h) * lax.exp(lax.matmul(h, w))


POLICIES = {
    "the arguments only": (None, {"matmul": 8, "tanh": 2, "sin": 2, "exp": 2}),
    "nothing": (KEEP.nothing_saveable, {"matmul": 8, "tanh": 2, "sin": 2, "exp": 2}),
    "everything": (KEEP.everything_saveable, {"matmul": 6, "tanh": 1, "sin": 1, "exp": 1}),
    "products": (KEEP.dots_saveable, {"matmul": 6, "tanh": 2, "sin": 2, "exp": 2}),
    "products without batches": (KEEP.dots_with_no_batch_dims_saveable, {"matmul": 6, "tanh": 2, "sin": 2, "exp": 2}),
    "what is named": (KEEP.save_only_these_names("h"), {"matmul": 7, "tanh": 1, "sin": 2, "exp": 2}),
    "what is named otherwise": (KEEP.save_any_names_but_these("h"), {"matmul": 8, "tanh": 2, "sin": 2, "exp": 2}),
    "all but what is named": (KEEP.save_anything_except_these_names("other"), {"matmul": 6, "tanh": 1, "sin": 1, "exp": 1}),
    "products and names": (
        KEEP.save_from_both_policies(KEEP.dots_saveable, KEEP.save_only_these_names("h")),
        {"matmul": 6, "tanh": 1, "sin": 2, "exp": 2},
    ),
    "what a function of the user's says": (lambda op, *avals, **_: op.name == "exp", {"matmul": 7, "tanh": 2, "sin": 2, "exp": 1}),
}


def loss(f):
    return lambda x, w: lax.reduce_sum(f(x, w))


@pytest.mark.parametrize(("policy", "counts"), POLICIES.values(), ids=POLICIES)
def test_a_policy_decides_what_is_computed_again_and_changes_no_bit(policy, counts):
    kept = loss(pypto.checkpoint(block, policy=policy))
    gradient = pypto.grad(kept, (0, 1))
    names = [e.op.name for e in pypto.make_jaxpr(gradient)(X, W).walk()]
    assert {name: names.count(name) for name in counts} == counts
    wanted = pypto.grad(loss(block), (0, 1))(X, W)
    for made in (gradient(X, W), pypto.jit(gradient)(X, W)):
        assert all(identical(a, b) for a, b in zip(made, wanted, strict=True))
    many = np.stack([X, -X])
    alone = np.stack([np.asarray(pypto.grad(loss(block))(x, W)) for x in many])
    assert identical(pypto.vmap(pypto.grad(kept), (0, None))(many, W), alone)
    assert identical(pypto.grad(lambda xs: pypto.vmap(kept, (0, None))(xs, W).sum())(many), alone)
    second = lambda f: pypto.jvp(lambda x: pypto.grad(f)(x, W), (X,), (X,))[1]  # noqa: E731 - one expression
    assert identical(second(kept), second(loss(block)))


@pytest.mark.parametrize("policy", [None, KEEP.everything_saveable])
def test_cotangents_from_inside_and_outside_add_up_in_the_order_they_have_without_a_checkpoint(policy):
    inner = lambda x: lax.sin(x) * lax.exp(x)  # noqa: E731 - one expression
    twice = lambda x: (y := inner(x), y, x)  # noqa: E731 - one expression
    kept, pair = pypto.checkpoint(inner, policy=policy), pypto.checkpoint(twice, policy=policy)

    def around(f, g):
        def total(x):
            a, b, c = g(x)
            return (lax.cos(x) * x * f(x) * lax.tanh(x) + a * lax.exp(b) * lax.sin(a) * c).sum()

        return pypto.grad(total)

    x = RNG.uniform(-1, 1, (64,)).astype(np.float32)
    wanted = around(inner, twice)(x)
    nested = pypto.checkpoint(kept, policy=policy)
    for made in (around(kept, pair)(x), pypto.jit(around(kept, pair))(x), around(nested, pypto.checkpoint(pair))(x)):
        assert identical(made, wanted)


def test_a_result_of_a_checkpoint_that_nobody_uses_does_not_reach_the_gradient():
    kept = pypto.checkpoint(lambda x: (x * 2.0, lax.log(x)))
    assert pypto.grad(lambda x: kept(x)[0])(0.0) == 2  # zero times the infinite derivative of the logarithm would be NaN
    assert identical(pypto.grad(lambda x: pypto.vmap(kept)(x)[0].sum())(np.float32([0, 1])), np.float32([2, 2]))


def test_products_over_a_batch_are_computed_again_where_the_policy_says_so():
    f = lambda x: lax.sin(lax.matmul(x, x))  # noqa: E731 - one expression
    batch = np.stack([W, W.T])

    def products(policy):
        kept = pypto.checkpoint(f, policy=policy)
        return [e.op.name for e in pypto.make_jaxpr(pypto.grad(lambda x: kept(x).sum()))(batch).walk()].count("matmul")

    assert products(KEEP.dots_saveable) + 1 == products(KEEP.dots_with_no_batch_dims_saveable) == products(None)


def test_static_arguments_may_be_named_and_remat_is_another_name():
    assert pypto.remat is pypto.checkpoint
    f = pypto.checkpoint(lambda x, mode: x * x if mode == "square" else x, static_argnames="mode")
    assert float(pypto.grad(f)(3.0, "square")) == float(pypto.grad(f)(3.0, mode="square")) == 6.0
    assert float(pypto.grad(f)(3.0, mode="plain")) == 1.0
    decorated = pypto.checkpoint(policy=KEEP.dots_saveable)(lambda x: x * x)
    assert float(pypto.grad(decorated)(3.0)) == 6.0


@pytest.mark.parametrize(
    "action",
    [lambda: pypto.checkpoint(block, policy="dots"), lambda: pypto.checkpoint(block, static_argnames="mode")],
)
def test_what_is_no_policy_or_no_parameter_is_refused(action):
    with pytest.raises(PyptoError) as caught:
        action()
    assert caught.value.code == "PL601"


def peak(layers, wrap):
    """Peak memory of a jitted gradient through a chain of layers, in arrays of one activation."""
    wide = np.zeros((128, 128), np.float32)
    layer = wrap(lambda x: ((x * x + x) * x + x) * x * 0.5)

    def chain(x):
        for _ in range(layers):
            x = layer(x)
        return lax.reduce_sum(x)

    f = pypto.jit(pypto.grad(chain))
    f(wide)
    tracemalloc.start()
    try:
        f(wide)
        return tracemalloc.get_traced_memory()[1] / wide.nbytes
    finally:
        tracemalloc.stop()


def test_memory_grows_by_one_activation_a_layer_with_checkpoints_and_by_three_without():
    plain = [peak(n, lambda f: f) for n in (12, 24)]
    kept = [peak(n, pypto.checkpoint) for n in (12, 24)]
    assert 2.9 < (plain[1] - plain[0]) / 12 < 3.1  # three values of each layer are needed on the way back
    assert 0.9 < (kept[1] - kept[0]) / 12 < 1.1  # its argument only
    assert kept[1] < 29 and plain[1] > 72  # the figures of docs/transformations.md


def test_a_policy_that_keeps_everything_uses_the_memory_of_no_checkpoint():
    assert peak(12, lambda f: pypto.checkpoint(f, policy=KEEP.everything_saveable)) > 0.9 * peak(12, lambda f: f)
