"""Work across the examples of a batch, along the name of their axis: what JAX gives, under every transformation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pypto
from pypto import lax
from pypto.errors import PyptoError
from tests.bits import identical

RNG = np.random.default_rng(11)
X = RNG.uniform(-1, 1, (5, 3)).astype(np.float32)
Y = RNG.uniform(-1, 1, (2, 3)).astype(np.float32)


def both(f, *args, **options):
    """A function of a namespace of operations, mapped by us and by JAX."""
    ours = pypto.vmap(f(lax), **options)(*args)
    theirs = jax.vmap(f(jax.lax), **options)(*(jnp.asarray(a) for a in args))
    return jax.tree.leaves(ours, is_leaf=lambda v: isinstance(v, pypto.Array)), jax.tree.leaves(theirs)


def close(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        assert np.allclose(np.asarray(a), np.asarray(b), rtol=1e-6, atol=1e-6)  # FP32 sums in another order


@pytest.mark.parametrize("name", ["psum", "pmean", "pmax", "pmin"])
def test_every_example_gets_what_all_of_them_have_together(name):
    found, wanted = both(lambda m: lambda x: getattr(m, name)(x, "i") * x, X, axis_name="i")
    close(found, wanted)


@pytest.mark.parametrize("name", ["psum", "pmean", "pmax", "pmin"])
@pytest.mark.parametrize("values", [np.int32([3, 4, -8]), np.int8([100, 27, 1]), [True, False, True]], ids=["INT32", "INT8", "BOOL"])
def test_integers_and_truth_values_have_the_sums_means_and_extremes_of_jax(name, values):
    found, wanted = both(lambda m: lambda x: getattr(m, name)(x, "i"), np.asarray(values), axis_name="i")
    assert np.asarray(found[0]).dtype == wanted[0].dtype
    close(found, wanted)


def test_no_names_are_one_example():
    found, wanted = both(lambda m: lambda x: x + m.psum(x, ()) + m.axis_index(()) + m.axis_size(()), X, axis_name="i")
    close(found, wanted)


def test_the_sum_across_examples_has_the_bits_of_the_plain_sum():
    found = pypto.vmap(lambda x: lax.psum(x, "i"), axis_name="i")(X)
    assert identical(found, np.stack([np.asarray(lax.reduce_sum(X, 0))] * 5))


def test_numbers_shared_values_and_trees():
    f = lambda m: lambda x: (m.psum(3, "i"), m.psum({"a": x, "b": (x,)}, "i"), m.axis_index("i"), m.axis_size("i"))  # noqa: E731
    close(*both(f, X, axis_name="i"))
    shared = pypto.vmap(lambda x, s: x + lax.psum(s, "i") + lax.pmax(s, "i"), (0, None), axis_name="i")(X, 2.0)
    assert identical(shared, X + np.float32(10) + np.float32(2))


def test_axes_of_several_names_nest_in_either_order():
    f = lambda m: lambda x: (m.psum(x, ("i", "j")), m.axis_index(("i", "j")), m.psum(x, "i") - m.psum(x, "j"))  # noqa: E731
    ours = pypto.vmap(pypto.vmap(f(lax), axis_name="j"), axis_name="i")(Y)
    close(ours, jax.vmap(jax.vmap(f(jax.lax), axis_name="j"), axis_name="i")(jnp.asarray(Y)))
    turned = pypto.vmap(pypto.vmap(f(lax), axis_name="i"), 1, 1, axis_name="j")(Y)
    close(turned, jax.vmap(jax.vmap(f(jax.lax), axis_name="i"), 1, 1, axis_name="j")(jnp.asarray(Y)))


def test_bodies_of_control_flow_checkpoints_and_jitted_functions_work_across_examples():
    def f(m, jit, checkpoint):
        def step(c, i):
            return c * 0.5 + m.pmean(c, "i"), m.axis_index("i") + i

        def run(x):
            v, numbers = m.scan(step, x, jnp.arange(3, dtype=jnp.int32) if m is jax.lax else np.arange(3, dtype=np.int32))
            v = m.fori_loop(0, 2, lambda i, u: u + m.pmean(u, "i"), v)
            v = m.cond(v.sum() > 100.0, lambda u: u, lambda u: u + m.pmean(u * u, "i"), v)
            return jit(checkpoint(lambda u: u * m.psum(u * u, "i")))(v), numbers

        return run

    positive = np.abs(X)  # nothing cancels
    ours = pypto.vmap(f(lax, pypto.jit, pypto.checkpoint), axis_name="i")(positive)
    close(ours, jax.vmap(f(jax.lax, jax.jit, jax.checkpoint), axis_name="i")(jnp.asarray(positive)))


def test_gradients_inside_and_outside_the_mapped_function_are_those_of_jax():
    f = lambda m: lambda x: (m.psum(x * x, "i") * x + m.pmean(x, "i")).sum()  # noqa: E731 - one expression
    inside = pypto.vmap(pypto.grad(f(lax)), axis_name="i")(X)
    close([inside], [jax.vmap(jax.grad(f(jax.lax)), axis_name="i")(jnp.asarray(X))])
    outside = pypto.grad(lambda xs: pypto.vmap(f(lax), axis_name="i")(xs).sum())(X)
    close([outside], [jax.grad(lambda xs: jax.vmap(f(jax.lax), axis_name="i")(xs).sum())(jnp.asarray(X))])
    _, tangent = pypto.jvp(pypto.vmap(f(lax), axis_name="i"), (X,), (X,))
    close([tangent], [jax.jvp(jax.vmap(f(jax.lax), axis_name="i"), (jnp.asarray(X),), (jnp.asarray(X),))[1]])


def test_a_jitted_function_is_traced_for_each_extent_of_the_axis():
    f = pypto.jit(lambda x: x * lax.psum(1.0, "i"))
    assert identical(pypto.vmap(f, axis_name="i")(X), X * np.float32(5))
    assert identical(pypto.vmap(f, axis_name="i")(X[:2]), X[:2] * np.float32(2))
    assert "named axes" in f.explain()


def test_make_jaxpr_takes_names_and_extents():
    jaxpr = pypto.make_jaxpr(lambda x: lax.psum(x, "i") * lax.axis_size("i"), axis_env=[("i", 4)])(1.0)
    assert [e.op.name for e in jaxpr.eqns] == ["psum", "mul"] and "4.0" in str(jaxpr)


@pytest.mark.parametrize(
    "action",
    [
        lambda: lax.psum(X, "i"),
        lambda: pypto.vmap(lambda x: lax.psum(x, "k"), axis_name="i")(X),
        lambda: pypto.jit(lambda x: lax.axis_index("i"))(X),
        lambda: pypto.vmap(lambda x: x, axis_name=3)(X),
        lambda: pypto.vmap(lambda x: lax.psum(x, 3), axis_name="i")(X),
        lambda: pypto.vmap(lambda x: lax.axis_index(("i", 3)), axis_name="i")(X),
    ],
)
def test_a_name_that_no_axis_has_is_refused(action):
    with pytest.raises(PyptoError) as caught:
        action()
    assert caught.value.code == "PL622"


def test_the_extreme_across_examples_has_no_derivative_and_says_so():
    with pytest.raises(PyptoError) as caught:
        pypto.vmap(pypto.grad(lambda x: lax.pmax(x, "i").sum()), axis_name="i")(X)
    assert caught.value.code == "PL703" and "pmax" in caught.value.message
