"""What a kernel may hold and still be a function of values: gathers at computed places, barriers, predicates, loops that data end."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.errors import PyptoError
from tests.bits import identical

RNG = np.random.default_rng(17)
Rows = pl.Tensor[[8, 16], pl.FP32]
X = RNG.uniform(-1, 1, (8, 16)).astype(np.float32)
W = RNG.uniform(-1, 1, (8, 16)).astype(np.float32)


def close(found, wanted):
    assert np.allclose(np.asarray(found), np.asarray(wanted), rtol=2e-5, atol=1e-6)  # FP32 sums in another order


def as_a_function(kernel, theirs, x, *rest):
    """The value under grad is the kernel's own, derivatives of both modes are JAX's, a batch has the bits of its examples."""
    ours = lambda v: kernel(v, *rest)  # noqa: E731 - one expression
    value, pull = pypto.vjp(ours, x)
    assert identical(value, ours(x))
    w = RNG.uniform(-1, 1, value.shape).astype(np.float32)
    wanted, their_pull = jax.vjp(lambda v: theirs(v, *rest), jnp.asarray(x))
    close(value, wanted)
    close(pull(w)[0], their_pull(jnp.asarray(w))[0])
    d = RNG.uniform(-1, 1, x.shape).astype(np.float32)
    close(pypto.jvp(ours, (x,), (d,))[1], jax.jvp(lambda v: theirs(v, *rest), (jnp.asarray(x),), (jnp.asarray(d),))[1])
    loss = lambda v: (ours(v) * w).sum()  # noqa: E731 - one expression
    many = np.stack([x, -x, x * np.float32(0.5)])
    alone = np.stack([np.asarray(pypto.grad(loss)(v)) for v in many])
    assert identical(pypto.jit(pypto.vmap(pypto.grad(loss)))(many), alone)


# ---- at computed places ------------------------------------------------------------------------------------------


@pl.jit
def rows_at(x: Rows, i: pl.Tensor[[1, 8], pl.INT32], y: pl.Out[Rows], policy: str = "undefined"):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(pl.mgather(x, i, "row", gather_oob=policy), 2.0)


@pl.jit
def elements_at(x: Rows, i: pl.Tensor[[2, 8], pl.INT32], y: pl.Out[pl.Tensor[[2, 8], pl.FP32]], policy: str = "undefined"):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.mgather(x, i, "elem", gather_oob=policy)
        y[:] = pl.mul(t, t)


INSIDE = np.array([[7, 0, 0, 3, 3, 3, 5, 1]], np.int32)
OUTSIDE = np.array([[7, -1, 9, 3, 3, -9, 5, 100]], np.int32)
POLICIES = {"undefined": lambda i, n: i, "clamp": lambda i, n: np.clip(i, 0, n - 1), "wrap": lambda i, n: i % n}


@pytest.mark.parametrize("policy", [*POLICIES, "zero"])
def test_gathered_rows_and_elements_have_gradients_that_add_up(policy):
    place = POLICIES.get(policy, lambda i, n: np.where((i < 0) | (i >= n), n, i))
    places = INSIDE if policy == "undefined" else OUTSIDE
    as_a_function(
        lambda v, i: rows_at(v, i, policy=policy),
        lambda v, i: v.at[place(i[0], 8)].get(mode="fill", fill_value=0) * 2.0,
        X,
        places,
    )
    spread = np.concatenate([places * 16 + 3, places])
    as_a_function(
        lambda v, i: elements_at(v, i, policy=policy),
        lambda v, i: v.reshape(-1).at[place(i, 128)].get(mode="fill", fill_value=0) ** 2,
        X,
        spread,
    )


@pl.jit
def pages_of(x: Rows, i: pl.Tensor[[4], pl.INT32], table: pl.Tensor[[4], pl.INT32], y: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(pl.paged_gather(x, i, table, 2, 8, 4, space=pl.MemorySpace.Vec, col_off=4), 3.0)


def test_pages_have_gradients():
    i, table = np.array([5, 0, 0, 2], np.int32), np.array([2, 0, 3, 1], np.int32)
    rows = table[i // 2] * 2 + i % 2
    as_a_function(pages_of, lambda v, i, table: v[rows][:, 4:12] * 3.0, X, i, table)


@pl.jit
def elements_put(x: pl.Tensor[[2, 8], pl.FP32], i: pl.Tensor[[2, 8], pl.INT32], y: pl.InOut[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.mscatter(pl.mul(x, x), i, y)


@pl.jit
def rows_put(x: pl.Tensor[[4, 16], pl.FP32], i: pl.Tensor[[1, 4], pl.INT32], y: pl.InOut[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.scatter_update(y, -2, i, pl.mul(x, x))


def test_of_several_updates_of_one_place_the_last_has_the_gradient():
    flat = np.array([[3, 3, 100, 7, 7, 7, 127, 0], [3, 50, 51, 52, 0, 9, 10, 11]], np.int32)
    places = {int(p): k for k, p in enumerate(flat.reshape(-1))}  # the last of each
    order, sources = np.array(list(places)), np.array(list(places.values()))
    as_a_function(
        lambda v, i: elements_put(v, i, W.copy()),
        lambda v, i: jnp.asarray(W).reshape(-1).at[order].set((v * v).reshape(-1)[sources]).reshape(8, 16),
        X[:2, :8],
        flat,
    )
    rows = np.array([[5, 2, 5, 0]], np.int32)
    as_a_function(
        lambda v, i: rows_put(v, i, W.copy()),
        lambda v, i: jnp.asarray(W).at[np.array([5, 2, 0])].set((v * v)[np.array([2, 1, 3])]),
        X[:4],
        rows,
    )
    left = pypto.grad(lambda y: rows_put(X[:4], rows, y).sum())(W)
    assert np.array_equal(np.asarray(left)[:, 0], [0, 1, 0, 1, 1, 0, 1, 1])  # what was replaced has none


# ---- blocks that wait --------------------------------------------------------------------------------------------


@pl.jit
def phases(x: Rows, y: pl.Out[Rows]):
    partial = pl.create_tensor([2, 16], dtype=pl.FP32)
    for i in pl.spmd(2):
        mine = x[i * 4 : i * 4 + 4, :]
        partial[i : i + 1, :] = pl.col_sum(mine)
        pl.system.syncall(core_type="aiv_only", mode="soft")
        y[i * 4 : i * 4 + 4, :] = pl.col_expand_mul(mine, partial[1 - i : 2 - i, :])


def test_blocks_that_wait_for_each_other_run_phase_by_phase():
    def by_hand(v):
        sums = jnp.stack([v[4:].sum(0), v[:4].sum(0)])
        return (v.reshape(2, 4, 16) * sums[:, None]).reshape(8, 16)

    as_a_function(phases, by_hand, X)


@pl.jit
def barrier_in_a_loop(x: Rows, y: pl.Out[Rows]):
    for i in pl.spmd(2):
        for _ in pl.range(2):  # they wait in here
            pl.system.syncall(core_type="aiv_only", mode="soft")
        y[i * 4 : i * 4 + 4, :] = pl.mul(x[i * 4 : i * 4 + 4, :], 2.0)


def test_blocks_that_wait_inside_a_loop_are_refused_at_its_line():
    error = refused(lambda: pypto.grad(lambda v: barrier_in_a_loop(v).sum())(X))
    assert "barrier_in_a_loop" in error.message and "they wait in here" in error.source.text


def refused(action):
    with pytest.raises(PyptoError) as caught:
        action()
    assert caught.value.code == "PL703", caught.value
    return caught.value


# ---- what data decide --------------------------------------------------------------------------------------------


@pl.jit
def gated(x: Rows, gate: pl.Tensor[[1], pl.INT32], y: pl.InOut[Rows]):
    for i in pl.spmd(2, predicate=(gate[0] > 0)):
        t = x[i * 4 : i * 4 + 4, :]
        y[i * 4 : i * 4 + 4, :] = pl.mul(t, t)


@pytest.mark.parametrize("gate", [0, 1])
def test_a_task_that_is_skipped_has_the_gradient_of_what_stays(gate):
    chosen = np.array([gate], np.int32)
    dx, dy = pypto.jit(pypto.grad(lambda x, y: gated(x, chosen, y).sum(), (0, 1)))(X, W)
    wanted = 2 * X if gate else np.zeros_like(X)
    assert identical(dx, wanted) and identical(dy, np.full_like(W, 1 - gate))
    traced = pypto.jit(pypto.grad(lambda x, g: gated(x, g, W).sum()))(X, chosen)
    assert identical(traced, wanted)


@pl.jit
def squared_often(x: Rows, n: pl.Tensor[[1], pl.INT32], y: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.adds(x, 0.0)
        for i in pl.range(pl.read(n, [0])):  # how often is data
            t = pl.mul(pl.mul(t, t), 0.5)
        y[:] = t


@pl.jit
def squared_until(x: Rows, n: pl.Tensor[[1], pl.INT32], y: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.adds(x, 0.0)
        turn = 0
        while turn < pl.read(n, [0]):
            y[:] = pl.mul(pl.mul(y, y), 0.5)
            turn = turn + 1


@pytest.mark.parametrize("kernel", [squared_often, squared_until])
def test_a_loop_that_data_end_has_forward_mode(kernel):
    def theirs(v, n):
        return jax.lax.fori_loop(0, n[0], lambda i, t: t * t * 0.5, v)

    run = lambda v, k: pypto.jvp(lambda u: kernel(u, k), (v,), (W,))  # noqa: E731 - one expression
    for count in (np.array([n], np.int32) for n in (0, 1, 3)):
        wanted = jax.jvp(functools.partial(theirs, n=count), (jnp.asarray(X),), (jnp.asarray(W),))[1]
        at, push = pypto.linearize(functools.partial(kernel, n=count), X)
        for value, tangent in (run(X, count), pypto.jit(run)(X, count), (at, push(W))):
            assert identical(value, kernel(X, count))
            close(tangent, wanted)
    counts = np.array([[0], [1], [3]], np.int32)
    many = np.stack([X, W, -X])
    each = lambda v, k: pypto.jvp(lambda u: kernel(u, k), (v,), (W,))[1]  # noqa: E731 - one expression
    assert identical(pypto.vmap(each)(many, counts), np.stack([np.asarray(each(v, k)) for v, k in zip(many, counts, strict=True)]))


def test_the_way_back_through_it_is_refused_with_the_kernel_and_the_line():
    count = np.array([2], np.int32)
    error = refused(lambda: pypto.jit(pypto.grad(lambda v, n: squared_often(v, n).sum()))(X, count))
    assert "squared_often" in error.message and "how often is data" in error.source.text and "custom_vjp" in error.fix


def test_a_trip_count_that_is_known_when_it_is_differentiated_has_both_modes():
    count = np.array([2], np.int32)
    found = pypto.grad(lambda v: squared_often(v, count).sum())(X)
    close(found, jax.grad(lambda v: jnp.sum((v * v * 0.5) ** 2 * 0.5))(jnp.asarray(X)))


# ---- kept between calls ------------------------------------------------------------------------------------------


def test_a_batch_of_a_kernel_is_lowered_once():
    launches = set()
    for _ in range(3):
        jaxpr = pypto.make_jaxpr(pypto.vmap(phases))(np.stack([X, W]))
        launches |= {id(e.params["launch"]) for e in jaxpr.eqns}
    assert len(launches) == 1
