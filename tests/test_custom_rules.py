"""Functions with rules of their own, stops and checkpoints: the rule is what is used, under every transformation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pypto
from pypto import lax
from pypto.errors import PyptoError
from tests.bits import identical

X = np.array([-1.5, 0.25, 3.0], np.float32)


@pypto.custom_jvp
def tripled(x, y):
    return lax.sin(x) * y


@tripled.defjvp
def _(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    return tripled(x, y), 3.0 * (lax.cos(x) * y * dx + lax.sin(x) * dy)  # three times too large, so that it shows


def test_a_custom_jvp_rule_is_used_in_both_modes_and_under_every_transformation():
    alone = np.stack([np.asarray(pypto.grad(tripled)(x, 2.0)) for x in X])
    assert np.allclose(alone, 6 * np.cos(X), rtol=1e-6)  # cos is within a few ulp
    assert identical(pypto.jvp(tripled, (X[0], 2.0), (1.0, 0.0))[1], alone[0])
    assert identical(pypto.jit(pypto.grad(tripled))(X[0], 2.0), alone[0])
    assert identical(pypto.grad(pypto.jit(tripled))(X[0], 2.0), alone[0])
    assert identical(pypto.vmap(pypto.grad(tripled), (0, None))(X, 2.0), alone)
    assert identical(pypto.grad(lambda xs: pypto.vmap(tripled, (0, None))(xs, 2.0).sum())(X), alone)
    in_scan = lambda xs: lax.scan(lambda c, x: (c + tripled(x, 2.0), None), 0.0, xs)[0]  # noqa: E731 - one expression
    assert identical(pypto.grad(in_scan)(X), alone)


def test_rules_per_argument_add_up():
    @pypto.custom_jvp
    def f(x, y):
        return x * y

    f.defjvps(lambda t, out, x, y: 10.0 * t, None)
    assert pypto.value_and_grad(f, (0, 1))(2.0, 3.0) == (6.0, (10.0, 0.0))


@pypto.custom_vjp
def clipped(x):
    return x * x


clipped.defvjp(lambda x: (x * x, x), lambda x, ct: (lax.clamp(-1.0, 2.0 * x * ct, 1.0),))


def test_a_custom_vjp_rule_is_used_under_every_transformation():
    alone = np.stack([np.asarray(pypto.grad(clipped)(x)) for x in X])
    assert np.array_equal(alone, np.clip(2 * X, -1, 1))
    assert identical(pypto.vmap(pypto.grad(clipped))(X), alone)
    assert identical(pypto.grad(lambda xs: pypto.vmap(clipped)(xs).sum())(X), alone)
    assert identical(pypto.jit(pypto.grad(lambda xs: pypto.jit(pypto.vmap(clipped))(xs).sum()))(X), alone)
    assert identical(pypto.grad(lambda xs: lax.scan(lambda c, x: (c + clipped(x), None), 0.0, xs)[0])(X), alone)
    assert identical(pypto.grad(lambda x: lax.cond(x > 0.0, clipped, lambda v: v, x))(X[2]), alone[2])


def test_arguments_that_are_not_differentiated_reach_the_rule_as_they_are():
    @pypto.custom_vjp
    def power(x, n):
        return x**n

    rule = pypto.custom_vjp(lambda n, x: x**n, nondiff_argnums=(0,))
    rule.defvjp(lambda n, x: (x**n, x), lambda n, x, ct: (100.0 * n * ct,))
    assert float(pypto.grad(lambda x: rule(3, x))(2.0)) == 300.0
    assert float(power.fun(2.0, 3)) == 8.0
    with pytest.raises(PyptoError) as caught:
        power(2.0, 3)  # it has no rule yet
    assert caught.value.code == "PL601"


def test_an_argument_shared_by_all_examples_gets_the_sum():
    @pypto.custom_vjp
    def scaled(x, s):
        return x * s

    scaled.defvjp(lambda x, s: (x * s, (x, s)), lambda kept, ct: (kept[1] * ct, kept[0] * ct))
    got = pypto.grad(lambda s: pypto.vmap(scaled, (0, None))(X, s).sum())(2.0)
    assert float(got) == float(np.float32(X.sum()))


def test_nothing_flows_through_a_stop():
    assert float(pypto.grad(lambda x: x * lax.stop_gradient(x))(3.0)) == 3.0
    tree = lax.stop_gradient({"a": X, "b": (np.int32(1),)})
    assert identical(tree["a"], X)
    assert identical(pypto.vmap(pypto.grad(lambda x: lax.stop_gradient(x) * x))(X), X)


def test_a_checkpoint_computes_again_and_keeps_every_bit():
    f = lambda x: lax.exp(lax.sin(x)) * x  # noqa: E731 - one expression
    kept = pypto.checkpoint(f)
    sines = lambda g: [e.op.name for e in pypto.make_jaxpr(pypto.grad(g))(1.0).eqns].count("sin")  # noqa: E731
    assert sines(f) == 1 and sines(lambda x: kept(x)) == 1
    names = [e.op.name for e in pypto.make_jaxpr(pypto.grad(lambda x: kept(x)))(1.0).walk()]
    assert "remat" in names and names.count("sin") == 2
    second, each = lambda g: pypto.grad(pypto.grad(g)), lambda g: pypto.vmap(pypto.grad(g))
    for transform, at in ((pypto.grad, X[1]), (second, X[1]), (each, X), (pypto.jacfwd, X[1])):
        assert identical(transform(lambda x: kept(x))(at), transform(f)(at))


def test_narrow_floats_are_differentiated_in_their_own_dtype():
    x = pypto.Array([0.5, 1.5, -2.0], "BF16")
    found = pypto.grad(lambda v: lax.reduce_sum(lax.tanh(v) * v))(x)
    assert found.dtype is x.dtype
    wanted = jax.grad(lambda v: jnp.sum(jnp.tanh(v) * v))(jnp.asarray(np.asarray(x), jnp.bfloat16))
    # JAX computes each step in BF16 as well, its tanh and sums by other code: within two units of 8 bits
    assert np.max(np.abs(np.asarray(found, np.float32) - np.asarray(wanted, np.float32))) <= 2 * 2.0**-7


def test_products_of_narrow_matrices_have_gradients_of_their_dtype():
    a = pypto.Array(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4), "BF16")
    b = pypto.Array(np.linspace(0, 1, 8, dtype=np.float32).reshape(4, 2), "BF16")
    value, (da, db) = pypto.value_and_grad(lambda a, b: lax.matmul(a, b).sum(), (0, 1))(a, b)
    assert value.dtype.name == "FP32" and da.dtype is a.dtype and db.dtype is b.dtype
    wide = np.asarray(b, np.float32).sum(1)
    assert np.array_equal(np.asarray(da, np.float32), np.asarray(pypto.Array(np.tile(wide, (3, 1)), "BF16"), np.float32))
