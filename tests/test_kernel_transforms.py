"""Kernels inside array programs: one equation, the bits they have alone, a loop over examples under vmap, and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import lax
from pypto.errors import PyptoError
from tests.bits import identical

Rows = pl.Tensor[[8, 16], pl.FP32]
RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (8, 16)).astype(np.float32)
MANY = RNG.uniform(-1, 1, (3, 8, 16)).astype(np.float32)


@pl.jit
def softmax(x: Rows, y: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        e = pl.exp(pl.row_expand_sub(x, pl.row_max(x)))
        y[:] = pl.row_expand_div(e, pl.row_sum(e))


@pl.jit
def layer(x: pl.Tensor[[32, 32], pl.FP32], w: pl.Tensor[[32, 16], pl.FP32], s: pl.Scalar[pl.FP32], y: pl.Out[pl.Tensor[[32, 16], pl.FP32]]):
    for r in pl.range(0, 32, 16):
        with pl.at(level=pl.Level.CORE_GROUP):
            acc = pl.create_tensor([16, 16], dtype=pl.FP32)
            for k in pl.range(2):
                a = x[r : r + 16, k * 16 : k * 16 + 16]
                b = w[k * 16 : k * 16 + 16, :]
                if k == 0:
                    acc = pl.matmul(a, b)
                else:
                    acc = pl.matmul_acc(acc, a, b)
            y[r : r + 16, :] = pl.mul(pl.maximum(acc, 0.0), s)


@pl.jit
def add_in_place(x: Rows, total: pl.InOut[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        total[:] = pl.add(total, pl.mul(x, x))


@pl.jit
def blocks(x: Rows, y: pl.Out[Rows]):
    with pl.spmd(2):
        i = pl.tile.get_block_idx()
        t = x[:, i * 8 : i * 8 + 8]
        y[:, i * 8 : i * 8 + 8] = pl.mul(t, t)


@pl.jit
def triangle(x: Rows, y: pl.Out[Rows]):
    for i in pl.range(1, 3):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.full([8, 8], dtype=pl.FP32, value=0.0)
            for j in pl.range(0, i):
                t = pl.add(t, x[:, j * 8 : j * 8 + 8])
            y[:, i * 8 - 8 : i * 8] = pl.exp(t)


def stacked(f, *args):
    return np.stack([np.asarray(f(*row)) for row in zip(*args, strict=True)])


def close(found, wanted, bound=2e-5):
    wanted = np.asarray(wanted)
    assert np.max(np.abs(np.asarray(found) - wanted)) <= bound * max(1.0, np.max(np.abs(wanted)))  # FP32 sums in another order


W = RNG.uniform(-1, 1, (32, 16)).astype(np.float32)
A = RNG.uniform(-1, 1, (32, 32)).astype(np.float32)


def test_a_kernel_is_one_equation_of_an_array_program_and_has_its_bits():
    jaxpr = pypto.make_jaxpr(lambda x: softmax(x) * 2.0)(X)
    assert [e.op.name for e in jaxpr.eqns] == ["kernel", "mul"]
    assert identical(pypto.jit(lambda x: softmax(x) * 2.0)(X), np.asarray(softmax(X)) * 2)
    assert identical(pypto.jit(layer)(A, W, 0.5), layer(A, W, 0.5))


def test_an_in_out_tensor_is_an_operand_and_a_result_and_the_callers_array_stays():
    total = np.ones_like(X)
    found = pypto.jit(lambda x, t: add_in_place(x, t))(X, total)
    assert np.array_equal(total, np.ones_like(X))
    add_in_place(X, total)
    assert identical(found, total)


def test_an_output_that_is_passed_in_is_refused_in_an_array_program():
    with pytest.raises(PyptoError) as caught:
        pypto.jit(lambda x, y: softmax(x, y))(X, X)
    assert caught.value.code == "PL604"


@pytest.mark.parametrize("kernel", [softmax, blocks, triangle])
def test_a_batch_of_a_kernel_is_one_kernel_and_each_example_has_its_bits(kernel):
    assert [e.op.name for e in pypto.make_jaxpr(pypto.vmap(kernel))(MANY).eqns] == ["kernel"]
    assert identical(pypto.vmap(kernel)(MANY), stacked(kernel, MANY))
    twice = np.stack([MANY, -MANY])
    assert identical(pypto.vmap(pypto.vmap(kernel))(twice), np.stack([stacked(kernel, m) for m in twice]))


def test_what_all_examples_share_is_passed_once_and_scalars_batch():
    many = np.stack([A, -A])
    scales = np.array([0.5, 2.0], np.float32)
    mapped = pypto.vmap(layer, (0, None, 0))
    assert identical(mapped(many, W, scales), stacked(lambda a, s: layer(a, W, float(s)), many, scales))
    (eqn,) = [e for e in pypto.make_jaxpr(mapped)(many, W, scales).eqns if e.op.name == "kernel"]
    assert [v.aval.shape for v in eqn.ins] == [(2, 32, 32), (32, 16), (2,)]
    text = str(eqn.params["launch"].program())
    assert "pl.parallel(2)" in text


def test_stores_of_one_example_do_not_reach_another():
    totals = np.zeros_like(MANY)
    found = pypto.vmap(add_in_place, (0, 0))(MANY, totals)
    assert identical(found, stacked(lambda x: pypto.jit(add_in_place)(x, np.zeros_like(x)), MANY))


def test_the_value_under_grad_is_the_kernels_own():
    for kernel in (softmax, blocks, triangle):
        value, _ = pypto.vjp(kernel, X)
        assert identical(value, kernel(X))
    value, _ = pypto.vjp(lambda a, w: layer(a, w, 0.5), A, W)
    assert identical(value, layer(A, W, 0.5))


def test_gradients_of_kernels_are_those_of_jax():
    close(pypto.grad(lambda x: (softmax(x) * x).sum())(X), jax.grad(lambda x: jnp.sum(jax.nn.softmax(x, -1) * x))(X))
    close(pypto.grad(lambda x: (blocks(x) * x).sum())(X), 3 * X * X)
    ours = pypto.grad(lambda a, w: (layer(a, w, 0.5) * layer(a, w, 0.5)).sum(), (0, 1))(A, W)
    theirs = jax.grad(lambda a, w: jnp.sum((0.5 * jnp.maximum(a @ w, 0)) ** 2), (0, 1))(A, W)
    for a, b in zip(ours, theirs, strict=True):
        close(a, b)

    def by_hand(x):
        first, second = x[:, :8], x[:, :8] + x[:, 8:]
        return jnp.sum(jnp.exp(first)) + jnp.sum(jnp.exp(second))

    close(pypto.grad(lambda x: triangle(x).sum())(X), jax.grad(by_hand)(X))


def test_kernels_compose_with_every_transformation():
    f = lambda x: (softmax(x) * x).sum()  # noqa: E731 - one expression
    alone = stacked(pypto.grad(f), MANY)
    assert identical(pypto.vmap(pypto.grad(f))(MANY), alone)
    assert identical(pypto.jit(pypto.vmap(pypto.grad(f)))(MANY), alone)
    # a batch is a loop, which sums the cotangents of its own uses of x before it adds those outside: another order
    close(pypto.grad(lambda xs: pypto.vmap(f)(xs).sum())(MANY), alone, 1e-6)
    close(pypto.jvp(pypto.grad(f), (X,), (X,))[1], jax.jvp(jax.grad(lambda x: jnp.sum(jax.nn.softmax(x, -1) * x)), (X,), (X,))[1])
    assert identical(pypto.grad(pypto.checkpoint(f))(X), pypto.grad(f)(X))


def test_a_custom_way_back_of_a_kernel_is_used():
    @pypto.custom_vjp
    def fast(x):
        return softmax(x)

    def forward(x):
        y = softmax(x)
        return y, y

    fast.defvjp(forward, lambda y, ct: ((ct - lax.reduce_sum(ct * y, 1, keepdims=True)) * y,))
    close(pypto.grad(lambda x: (fast(x) * x).sum())(X), np.asarray(pypto.grad(lambda x: (softmax(x) * x).sum())(X)))
    assert [e.op.name for e in pypto.make_jaxpr(pypto.grad(lambda x: fast(x).sum()))(X).eqns].count("kernel") == 1


@pl.jit
def data_dependent(x: Rows, n: pl.Tensor[[1], pl.INT32], y: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = x
        for i in pl.range(pl.read(n, [0])):  # how often is data
            y[:] = pl.mul(y, 2.0)


def test_c73_what_has_no_derivative_is_named_with_kernel_op_and_line():
    with pytest.raises(PyptoError) as caught:
        pypto.jit(pypto.grad(lambda x, n: data_dependent(x, n).sum()))(X, np.array([2], np.int32))
    assert caught.value.code == "PL703" and "data_dependent" in caught.value.message
    assert "how often is data" in caught.value.source.text
    assert "custom_vjp" in caught.value.fix


def test_c67_a_batched_loop_with_stores_runs_as_often_as_each_example_says():
    counts = np.array([[0], [1], [3]], np.int32)
    found = pypto.vmap(data_dependent)(MANY, counts)
    assert identical(found, stacked(data_dependent, MANY, counts))


def test_a_changed_captured_value_reaches_array_programs():
    scale = 2.0

    @pl.jit
    def scaled(x: Rows, y: pl.Out[Rows]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y[:] = pl.mul(x, scale)

    f = pypto.jit(lambda x: scaled(x))
    assert identical(f(X), X * np.float32(2))
    scale = 3.0
    assert identical(f(X), X * np.float32(3))


@pl.jit
def ragged(x: Rows, y: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.slice(x, [8, 16], [0, 0], valid_shape=[8, 11])
        e = pl.exp(t)
        y[:] = pl.fillpad(pl.row_expand_div(e, pl.row_sum(e)))


def test_a_partly_valid_tile_is_the_array_of_its_valid_part():
    def by_hand(x):
        return jnp.pad(jax.nn.softmax(x[:, :11], -1), ((0, 0), (0, 5)))

    value, _ = pypto.vjp(ragged, X)
    assert identical(value, ragged(X))
    close(pypto.grad(lambda x: (ragged(x) * x).sum())(X), jax.grad(lambda x: jnp.sum(by_hand(x) * x))(X))
    assert identical(pypto.vmap(ragged)(MANY), stacked(ragged, MANY))


@pl.jit
def chosen(x: Rows, which: pl.Scalar[pl.INT32], y: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        if which > 0:
            t = pl.exp(x[:, 0:8])
        else:
            t = pl.mul(x[:, 0:8], 3.0)
        y[:, 0:8] = t
        y[:, 8:16] = x[:, 8:16]


@pytest.mark.parametrize("which", [0, 1])
def test_a_branch_of_a_kernel_that_data_choose_has_a_derivative(which):
    wanted = np.concatenate([np.exp(X[:, :8]) if which else np.full((8, 8), 3, np.float32), np.ones((8, 8), np.float32)], 1)
    close(pypto.grad(lambda x: chosen(x, which).sum())(X), wanted)
    close(pypto.jit(pypto.grad(lambda x, n: chosen(x, n).sum()))(X, np.int32(which)), wanted)
    each = pypto.vmap(chosen, (0, 0))(MANY, np.array([0, 1, 1], np.int32))
    assert identical(each, stacked(lambda x, n: chosen(x, int(n)), MANY, np.array([0, 1, 1])))


@pl.jit
def doubled_with_marks(x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
    flat = pl.reshape(x, [32])
    pl.dump_tag(x)
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.prefetch.async_prefetch(flat, pl.prefetch.make_context())
        pl.system.cacheinvalid()
        pl.system.cacheinvalid(x, [1, 8], [0, 0])
        out[:] = pl.mul(x, 2.0)


def test_marks_are_passed_over_on_the_way_back():
    x = np.ones((4, 8), np.float32)
    assert np.asarray(pypto.grad(lambda x: doubled_with_marks(x).sum())(x)).tolist() == np.full((4, 8), 2).tolist()


@pl.jit
def first_columns(x: Rows, n: pl.Scalar[pl.INT32], y: pl.Out[Rows]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(n):
            y[:, 0:8] = x[:, 0:8]


def test_an_output_that_may_stay_unwritten_runs_compiled_in_array_programs():
    kept = np.concatenate([X[:, :8], np.zeros((8, 8), np.float32)], 1)
    with pypto.override(executor="cpu", check=False):
        with pytest.warns(pypto.PyptoWarning, match="PL204"):
            assert identical(pypto.jit(first_columns)(X, 1), kept)
        with pytest.warns(pypto.PyptoWarning, match="PL204"):
            found = pypto.vmap(first_columns, (0, None))(MANY, 2)
        assert identical(found, stacked(lambda x: np.concatenate([x[:, :8], np.zeros((8, 8), np.float32)], 1), MANY))
        with pytest.raises(PyptoError) as refused:
            pypto.jit(first_columns)(X, 0)
    assert refused.value.code == "PL202" and refused.value.source.text.startswith("def first_columns(")


@pl.jit
def vector_cores(x: pl.Tensor[[8], pl.FP32], y: pl.Out[pl.Tensor[[8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.add(x, float(pl.system.available_aiv_count()))


def test_array_programs_hold_the_kernel_of_the_platform_they_run_for():
    x, jitted, mapped = np.zeros(8, np.float32), pypto.jit(lambda x: vector_cores(x)), pypto.vmap(vector_cores)
    for platform, count in (("a2a3sim", 48), ("a5sim", 72), ("a2a3sim", 48)):
        with pypto.override(platform=platform):
            for found in (vector_cores(x), jitted(x), mapped(x[None])[0]):
                assert np.asarray(found).tolist() == [count] * 8
    assert jitted.cache_size() == 2 and "a5sim" in jitted.explain()


def chained(x):
    for _ in range(3):
        x = softmax(x) * 2.0
    return x


def in_a_scan(x):
    return lax.scan(lambda c, _: (softmax(c) * 2.0, None), x, None, length=3)[0]


def in_a_loop(x):
    return lax.fori_loop(0, 3, lambda _, c: softmax(c) * 2.0, x)


def under_checkpoints(x):
    for _ in range(3):
        x = pypto.checkpoint(lambda c: softmax(c) * 2.0)(x)
    return x


def in_a_branch(x):
    return lax.cond(x[0, 0] < 2.0, chained, lambda c: c, x)


@pytest.mark.parametrize("form", [in_a_scan, in_a_loop, under_checkpoints, in_a_branch])
def test_a_kernel_in_a_body_has_the_bits_and_the_gradients_of_the_calls_in_line(form):
    assert identical(pypto.jit(form)(X), chained(X))
    assert identical(pypto.vmap(form)(MANY), stacked(chained, MANY))
    ours, wanted = (pypto.grad(lambda x, f=f: (f(x) * X).sum())(X) for f in (form, chained))
    assert identical(ours, wanted)
