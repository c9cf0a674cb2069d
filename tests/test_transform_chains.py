"""Chains of transformations in every order, on functions that hold control flow, rules of their own, checkpoints and kernels.

Every transformation here takes a scalar function of a matrix to another one, so that they chain in any order; JAX runs the same chain in
FP64. Jitted the result has the bits it has at once, and a batch has those of its examples.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import lax
from tests.bits import identical

RNG = np.random.default_rng(21)
SHAPE = (4, 16)
X, D, C = (RNG.uniform(-1, 1, SHAPE).astype(np.float32) for _ in range(3))
W = (RNG.uniform(-1, 1, (16, 16)) / 4).astype(np.float32)
Tile = pl.Tensor[[4, 16], pl.FP32]


class Ours:
    lib, lax = pypto, lax
    tanh, sin = staticmethod(lax.tanh), staticmethod(lax.sin)
    matmul, stack = staticmethod(lax.matmul), staticmethod(lax.stack)
    stop, total = staticmethod(lax.stop_gradient), staticmethod(lax.reduce_sum)


class Theirs:
    lib, lax = jax, jax.lax
    tanh, sin = staticmethod(jnp.tanh), staticmethod(jnp.sin)
    matmul, stack = staticmethod(jnp.matmul), staticmethod(jnp.stack)
    stop, total = staticmethod(jax.lax.stop_gradient), staticmethod(jnp.sum)


@pl.jit
def gate(x: Tile, y: pl.Out[Tile]):
    for r in pl.range(0, 4, 2):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = x[r : r + 2, :]
            for _ in pl.range(2):
                t = pl.mul(pl.recip(pl.adds(pl.exp(pl.neg(t)), 1.0)), 1.5)
            y[r : r + 2, :] = pl.mul(t, x[r : r + 2, :])


# ---- functions ---------------------------------------------------------------------------------------------------


def product(m):
    return lambda x: m.total(m.tanh(m.matmul(x, m.w)) * x)


def scanned(m):
    def f(x):
        carry, ys = m.lax.scan(lambda c, row: (c * 0.5 + m.sin(row), c * row), x[0], x)
        return m.total(ys) + m.total(carry)

    return f


def branched(m):
    def f(x):
        y = m.lax.cond(m.total(x) > 0.0, lambda v: m.sin(v) * v, lambda v: v * v * 0.5, x)
        return m.total(m.lax.switch(1, [m.sin, m.tanh], y))

    return f


def looped(m):
    return lambda x: m.total(m.lax.fori_loop(0, 3, lambda i, v: m.tanh(v) + v * 0.25 * (i + 1), x))


def forward_rule(m):
    @m.lib.custom_jvp
    def g(x, y):
        return m.sin(x) * y

    @g.defjvp
    def _(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        return g(x, y), 2.0 * (m.sin(x) * dy + m.tanh(x) * y * dx)

    return lambda x: m.total(g(x, x * 0.5) * x)


def kept(m):
    inner = m.lib.checkpoint(lambda x: m.sin(m.tanh(x) * x))
    return lambda x: m.total(inner(x) * m.lib.jit(m.tanh)(x))


def stopped(m):
    return lambda x: m.total(m.sin(x) * m.stop(m.tanh(x)))


def mapped(m):
    return lambda x: m.total(m.lib.vmap(lambda row: m.total(m.sin(row) * row) * row, out_axes=1)(x))


def in_kernel(m):
    if m is Ours or getattr(m, "lib", None) is pypto:
        return lambda x: m.total(gate(m.sin(x)))

    def f(x):
        v = t = m.sin(x)
        for _ in range(2):
            t = 1.5 / (jnp.exp(-t) + 1.0)
        return m.total(t * v)

    return f


def backward_rule(m):
    @m.lib.custom_vjp
    def g(x):
        return m.sin(x) * x

    g.defvjp(lambda x: (m.sin(x) * x, x), lambda x, ct: (ct * m.tanh(x) * 2.0,))
    return lambda x: m.total(g(x) * x)


FUNCTIONS = [product, scanned, branched, looped, forward_rule, kept, stopped, mapped, in_kernel]


# ---- transformations ---------------------------------------------------------------------------------------------


def gradient(m, f):
    return lambda x: m.total(m.lib.grad(f)(x) * m.c)


def tangent(m, f):
    return lambda x: m.lib.jvp(f, (x,), (m.d,))[1]


def pulled(m, f):
    return lambda x: m.total(m.lib.vjp(f, x)[1](f(x))[0] * m.d)


def pushed(m, f):
    return lambda x: m.lib.linearize(f, x)[1](m.c)


def batched(m, f):
    return lambda x: m.total(m.lib.vmap(f)(m.stack([x, x * 0.5])) * 0.5)


def jitted(m, f):
    return m.lib.jit(f)


def checkpointed(m, f):
    return m.lib.checkpoint(f)


CHAINS = [
    *itertools.product([gradient, tangent, pulled, pushed, batched, jitted, checkpointed], repeat=2),
    (gradient, jitted, batched, tangent),
    (tangent, checkpointed, gradient, batched),
    (batched, gradient, batched, jitted),
    (jitted, pulled, checkpointed, pushed),
    (checkpointed, batched, jitted, gradient),
]
BACKWARD = [c for c in CHAINS if not {tangent, pushed} & set(c)]
CASES = [(FUNCTIONS[i % len(FUNCTIONS)], chain) for i, chain in enumerate(CHAINS)]
CASES += [(backward_rule, chain) for chain in BACKWARD[::4]] + [(in_kernel, chain) for chain in CHAINS[-5:]]


def applied(chain, m, f):
    return functools.reduce(lambda g, transform: transform(m, g), chain, f(m))


def named(case):
    function, chain = case
    return "-".join([function.__name__, *(t.__name__ for t in chain)])


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_chain_gives_what_jax_gives_and_its_bits_stay_under_jit_and_vmap(case):
    function, chain = case
    Ours.w, Ours.c, Ours.d = W, C, D
    run = applied(chain, Ours, function)
    found = run(X)
    with jax.enable_x64(True):
        Theirs.w, Theirs.c, Theirs.d = (jnp.asarray(np.float64(v)) for v in (W, C, D))
        wanted = float(applied(chain, Theirs, function)(jnp.asarray(np.float64(X))))
    assert abs(float(found) - wanted) <= 2e-5 * max(1.0, abs(wanted), SIZE)  # sums of FP32 terms of this size
    assert identical(pypto.jit(run)(X), found)
    many = np.stack([X, X * np.float32(0.5), -X])
    assert identical(pypto.vmap(run)(many), np.stack([np.asarray(run(x)) for x in many]))


SIZE = 16.0
