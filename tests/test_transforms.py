"""Transformations composed in any order, on generated programs: jit changes no bit, vmap is a loop, derivatives are JAX's."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import pypto
from pypto import lax
from pypto.core.trace import EVAL, current_trace
from tests.bits import identical

UNARY = {"sin": jnp.sin, "tanh": jnp.tanh, "exp": jnp.exp, "logistic": jax.nn.sigmoid, "square": jnp.square, "neg": jnp.negative}
BINARY = {"add": jnp.add, "mul": jnp.multiply, "sub": jnp.subtract, "maximum": jnp.maximum}


def program(seed):
    """A function of a vector and a matrix, for our ops and for JAX's: a list of steps that each use values made before."""
    rng = np.random.default_rng(seed)
    steps = []
    for i in range(6):
        kind = rng.integers(0, 7)
        a, b = rng.integers(0, 1 + i, 2)
        if kind < 3:
            steps.append(("unary", str(rng.choice(list(UNARY))), a))
        elif kind < 5:
            steps.append(("binary", str(rng.choice(list(BINARY))), a, b))
        else:
            steps.append((("product", "scan", "cond")[int(rng.integers(0, 3))], "", a))

    def ours(x, w):
        values = [x]
        for kind, name, a, *rest in steps:
            v = values[a]
            if kind == "unary":
                made = getattr(lax, name)(v * 0.5)
            elif kind == "binary":
                made = getattr(lax, name)(v, values[rest[0]])
            elif kind == "product":
                made = lax.matmul(v, w)
            elif kind == "scan":
                made = lax.scan(lambda c, e: (c * 0.5 + e, c * e), lax.reduce_max(v, 0), v)[1]
            else:
                made = lax.cond(lax.reduce_sum(v, 0) > 0.0, lambda u: lax.sin(u), lambda u: u * 0.25, v)
            values.append(made)
        return lax.reduce_sum(values[-1] * values[-2] + x, 0)

    def theirs(x, w):
        values = [x]
        for kind, name, a, *rest in steps:
            v = values[a]
            if kind == "unary":
                made = UNARY[name](v * 0.5)
            elif kind == "binary":
                made = BINARY[name](v, values[rest[0]])
            elif kind == "product":
                made = v @ w
            elif kind == "scan":
                made = jax.lax.scan(lambda c, e: (c * 0.5 + e, c * e), jnp.max(v), v)[1]
            else:
                made = jax.lax.cond(jnp.sum(v) > 0.0, lambda u: jnp.sin(u), lambda u: u * 0.25, v)
            values.append(made)
        return jnp.sum(values[-1] * values[-2] + x)

    return ours, theirs


SEEDS = range(8)
RNG = np.random.default_rng(7)
X = RNG.uniform(-1, 1, (3, 4)).astype(np.float32)
W = RNG.uniform(-0.5, 0.5, (4, 4)).astype(np.float32)
D = RNG.uniform(-1, 1, (3, 4)).astype(np.float32)


def close(found, wanted):
    wanted = np.asarray(wanted, np.float64)
    size = max(1.0, float(np.max(np.abs(wanted), initial=0.0)))
    assert np.max(np.abs(np.float64(np.asarray(found)) - wanted), initial=0.0) <= 5e-5 * size  # FP32 in another order than FP64


def stacked(f, *args):
    return np.stack([np.asarray(f(*row)) for row in zip(*args, strict=True)])


@pytest.mark.parametrize("seed", SEEDS)
def test_jit_changes_no_bit_of_values_and_of_derivatives(seed):
    f, _ = program(seed)
    assert identical(pypto.jit(f)(X[0], W), f(X[0], W))
    eager = pypto.grad(f, (0, 1))(X[0], W)
    for jitted in (pypto.jit(pypto.grad(f, (0, 1))), pypto.grad(pypto.jit(f), (0, 1)), pypto.jit(pypto.grad(pypto.jit(f), (0, 1)))):
        assert all(identical(a, b) for a, b in zip(jitted(X[0], W), eager, strict=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_vmap_of_grad_and_grad_of_vmap_are_loops_bit_for_bit(seed):
    f, _ = program(seed)
    alone = stacked(lambda x: pypto.grad(f)(x, W), X)
    assert identical(pypto.vmap(pypto.grad(f), (0, None))(X, W), alone)
    assert identical(pypto.jit(pypto.vmap(pypto.grad(f), (0, None)))(X, W), alone)
    assert identical(pypto.grad(lambda xs: pypto.vmap(f, (0, None))(xs, W).sum())(X), alone)


@pytest.mark.parametrize("seed", SEEDS)
def test_first_and_second_derivatives_are_those_of_jax_in_fp64(seed):
    f, theirs = program(seed)
    with jax.enable_x64(True):
        x, w, d = (jnp.asarray(np.float64(a)) for a in (X[0], W, D[0]))
        value, grads = jax.value_and_grad(theirs, (0, 1))(x, w)
        second = jax.jvp(lambda v: jax.grad(theirs)(v, w), (x,), (d,))[1]
    found, ours = pypto.value_and_grad(f, (0, 1))(X[0], W)
    close(found, value)
    for a, b in zip(ours, grads, strict=True):
        close(a, b)
    close(pypto.jvp(lambda v: pypto.grad(f)(v, W), (X[0],), (D[0],))[1], second)  # forward over reverse
    close(pypto.grad(lambda v: lax.reduce_sum(pypto.jvp(lambda u: f(u, W), (v,), (D[0],))[1]))(X[0]), second)  # reverse over forward
    close(pypto.grad(lambda v: lax.reduce_sum(pypto.grad(f)(v, W) * D[0], 0))(X[0]), second)  # reverse over reverse


@pytest.mark.parametrize("seed", list(SEEDS)[:3])
def test_second_derivatives_batch(seed):
    f, _ = program(seed)
    second = lambda x, d: pypto.jvp(lambda v: pypto.grad(f)(v, W), (x,), (d,))[1]  # noqa: E731 - one expression
    assert identical(pypto.vmap(second)(X, D), stacked(second, X, D))


@pytest.mark.parametrize("seed", list(SEEDS)[:4])
def test_linearize_checkpoint_and_jvp_agree_bit_for_bit(seed):
    f, _ = program(seed)
    value, push = pypto.linearize(lambda x: f(x, W), X[0])
    value_too, tangent = pypto.jvp(lambda x: f(x, W), (X[0],), (D[0],))
    assert identical(value, value_too) and identical(push(D[0]), tangent)
    kept = pypto.grad(pypto.checkpoint(lambda x: f(x, W)))
    assert identical(kept(X[0]), pypto.grad(lambda x: f(x, W))(X[0]))
    assert identical(pypto.vmap(kept)(X), stacked(kept, X))


def test_jacobians_by_both_modes_and_the_hessian_agree():
    f = lambda x: lax.tanh(lax.matmul(x, W)) * x  # noqa: E731 - one expression
    forward, reverse = pypto.jacfwd(f)(X[0]), pypto.jacrev(f)(X[0])
    close(forward, np.asarray(reverse))
    hessian = pypto.hessian(lambda x: f(x).sum())(X[0])
    close(hessian, np.asarray(hessian).T)


def test_trees_go_through_every_transformation():
    params = {"w": W, "b": (X[0], 0.5)}

    def loss(p, x):
        return {"loss": lax.reduce_sum(lax.matmul(x, p["w"]) + p["b"][0] * p["b"][1])}["loss"]

    grads = pypto.jit(pypto.grad(loss))(params, X)
    assert grads.keys() == params.keys() and grads["w"].shape == W.shape and isinstance(grads["b"], tuple)
    each = pypto.vmap(pypto.grad(loss), ({"w": None, "b": None}, 0))(params, X)
    assert each["w"].shape == (3, 4, 4) and each["b"][1].shape == (3,)


def test_a_trace_ends_with_its_transformation_even_after_an_error():
    with pytest.raises(ZeroDivisionError):
        pypto.grad(lambda x: x / 0 if x is None else 1 // 0)(1.0)
    assert current_trace() is EVAL


def test_peak_memory_of_a_checkpointed_chain_is_that_of_two_layers_not_of_all():
    import tracemalloc

    wide = np.zeros((256, 256), np.float32)

    def chain(layer):
        def f(x):
            for _ in range(24):
                x = layer(x)
            return lax.reduce_sum(x)

        return pypto.jit(pypto.grad(f))

    layer = lambda x: ((x * x + x) * x + x) * x * 0.5  # noqa: E731 - one expression
    peaks = []
    for f in (chain(layer), chain(pypto.checkpoint(layer))):
        f(wide)
        tracemalloc.start()
        f(wide)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 0.45 * peaks[0], peaks


@pytest.mark.parametrize("name", ["log1p", "asinh", "atan", "acos"])
def test_forward_mode_takes_low_precision_arrays_of_numpy(name):
    op = getattr(lax, name)
    x = np.linspace(-0.5, 0.5, 7, dtype=np.float32).astype(ml_dtypes.bfloat16)
    found = pypto.jvp(op, (x,), (x,))
    assert all(identical(a, b) for a, b in zip(found, pypto.jvp(op, (pypto.Array(x),), (pypto.Array(x),)), strict=True))
