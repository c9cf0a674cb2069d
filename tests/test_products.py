"""Products of arrays along any axes: against sums over indices, and JAX's shapes and dtypes."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import pypto
from pypto import dtypes, lax
from pypto.errors import PyptoError
from pypto.interpreters.reference import eval_jaxpr
from tests.bits import identical

BF16 = ml_dtypes.bfloat16

# Left and right shapes, contracting axes, batch axes.
CASES = {
    "matrix": ((3, 4), (4, 5), (((1,), (0,)), ((), ()))),
    "inner axes first": ((4, 3), (4, 5), (((0,), (0,)), ((), ()))),
    "from the end": ((3, 4), (5, 4), (((-1,), (-1,)), ((), ()))),
    "two axes": ((3, 4, 5), (5, 4, 2), (((1, 2), (1, 0)), ((), ()))),
    "all axes": ((3, 4), (3, 4), (((0, 1), (0, 1)), ((), ()))),
    "no axes": ((3, 2), (4,), (((), ()), ((), ()))),
    "a batch": ((2, 3, 4), (2, 4, 5), (((2,), (1,)), ((0,), (0,)))),
    "batches out of order": ((3, 2, 4, 5), (5, 2, 3), (((3,), (0,)), ((1, 0), (1, 2)))),
    "a batch of vectors": ((2, 4), (2, 4), (((1,), (1,)), ((0,), (0,)))),
    "one element": ((1, 1), (1, 1), (((1,), (0,)), ((), ()))),
}


def by_indices(x, y, numbers):
    """The sum over every combination of contracted indices, with Python integers."""
    (ca, cb), (ba, bb) = [[tuple(a % v.ndim for a in axes) for axes, v in zip(pair, (x, y), strict=True)] for pair in numbers]
    fa, fb = ([a for a in range(v.ndim) if a not in (*c, *b)] for v, c, b in ((x, ca, ba), (y, cb, bb)))
    batch, inner = [x.shape[a] for a in ba], [x.shape[a] for a in ca]
    shape = (*batch, *(x.shape[a] for a in fa), *(y.shape[a] for a in fb))
    out = np.zeros(shape, np.int64)
    for where in np.ndindex(shape):
        for k in np.ndindex(*inner):
            i, j = [0] * x.ndim, [0] * y.ndim
            for n, (p, q) in enumerate(zip(ba, bb, strict=True)):
                i[p] = j[q] = where[n]
            for n, (p, q) in enumerate(zip(ca, cb, strict=True)):
                i[p] = j[q] = k[n]
            for n, p in enumerate(fa):
                i[p] = where[len(ba) + n]
            for n, q in enumerate(fb):
                j[q] = where[len(ba) + len(fa) + n]
            out[where] += int(x[tuple(i)]) * int(y[tuple(j)])
    return out


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.float16, BF16], ids=lambda d: np.dtype(d).name)
def test_any_axes_are_contracted_over_any_batch(name, dtype):
    shape_a, shape_b, numbers = CASES[name]
    rng = np.random.default_rng(1)
    x, y = (rng.integers(-4, 5, s).astype(dtype) for s in (shape_a, shape_b))
    # small integers: every sum is exact in every dtype
    want = by_indices(x, y, numbers)
    found = lax.dot_general(x, y, numbers)
    assert found.dtype is (dtypes.INT32 if dtype is np.int8 else dtypes.dtype_of(dtype))
    assert np.array_equal(np.asarray(found).astype(np.int64), want) and found.shape == want.shape
    if dtype is np.float32 and name != "from the end":  # JAX counts from the front only
        assert jax.lax.dot_general(x, y, numbers).shape == found.shape


@pytest.mark.parametrize("name", CASES)
def test_a_traced_product_gives_the_same_bits(name):
    shape_a, shape_b, numbers = CASES[name]
    rng = np.random.default_rng(2)
    x, y = (rng.uniform(-1, 1, s).astype(np.float32) for s in (shape_a, shape_b))
    jaxpr = pypto.make_jaxpr(lambda a, b: lax.dot_general(a, b, numbers))(x, y)
    assert identical(eval_jaxpr(jaxpr, x, y)[0], lax.dot_general(x, y, numbers))
    assert sum(e.op is lax.matmul for e in jaxpr.eqns) == 1


def test_contracted_axes_are_flattened_in_the_order_given():
    x = np.random.default_rng(3).uniform(-1, 1, (4, 5, 6)).astype(np.float32)
    for axes in ((0, 2), (2, 0)):
        found = lax.dot_general(x, x, ((axes, axes), ((), ())))
        rows = np.transpose(x, (1, *axes)).reshape(5, 24)
        assert identical(found, lax.matmul(rows, rows.T.copy()))


def test_the_result_dtype_is_rounded_to_once():
    x = np.random.default_rng(4).uniform(-1, 1, (4, 64)).astype(BF16)
    numbers = (((1,), (1,)), ((), ()))
    wide = np.asarray(lax.dot_general(x, x, numbers, preferred_element_type=np.float32))
    assert wide.dtype == np.float32
    assert identical(lax.dot_general(x, x, numbers), wide.astype(BF16))
    assert lax.dot_general(x, x, numbers, preferred_element_type="FP16").dtype is dtypes.FP16
    assert lax.dot_general(x, x, numbers).dtype.storage == jax.lax.dot_general(jnp.asarray(x), jnp.asarray(x), numbers).dtype


def test_two_dtypes_are_promoted_as_in_jax():
    x, y = np.ones((2, 3), BF16), np.ones((3, 2), np.float32)
    assert lax.dot(x, y).dtype is dtypes.FP32 and lax.matmul(np.ones((2, 3), np.float16), x.T).dtype is dtypes.FP32
    assert lax.dot(np.ones((2, 3), np.int8), x.T.copy()).dtype is dtypes.BF16


@pytest.mark.parametrize(("a", "b"), [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4))])
def test_dot_contracts_the_last_axis_with_the_first(a, b):
    x, y = np.arange(np.prod(a), dtype=np.float32).reshape(a), np.arange(np.prod(b), dtype=np.float32).reshape(b)
    found = lax.dot(x, y)
    assert np.array_equal(found, np.dot(x, y)) and found.shape == jax.lax.dot(x, y).shape


@pytest.mark.parametrize(("a", "b"), [((2, 3, 4), (2, 4, 5)), ((3, 1, 2, 4), (3, 1, 4, 1)), ((2, 3), (3, 2))])
def test_a_batch_of_matrices_has_equal_batch_axes(a, b):
    x, y = np.arange(np.prod(a), dtype=np.float32).reshape(a), np.arange(np.prod(b), dtype=np.float32).reshape(b)
    assert np.array_equal(lax.batch_matmul(x, y), np.matmul(x, y)) and identical(lax.batch_matmul(x, y), lax.matmul(x, y))


def test_matmul_broadcasts_batches_as_jax_does():
    x, y = np.ones((5, 1, 2, 3), np.float32), np.ones((4, 3, 2), np.float32)
    assert lax.matmul(x, y).shape == jnp.matmul(x, y).shape == (5, 4, 2, 2)
    assert (x @ lax.full((3,), 2.0, "FP32")).tolist() == jnp.matmul(x, jnp.full(3, 2.0)).tolist()


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("PL301", lambda x: lax.dot_general(x, x, (((0,), (1,)), ((), ())))),
        ("PL301", lambda x: lax.dot_general(x, x[:1], (((1,), (1,)), ((0,), (0,))))),
        ("PL308", lambda x: lax.dot_general(x, x, (((2,), (0,)), ((), ())))),
        ("PL308", lambda x: lax.dot_general(x, x, (((0,), (0,)), ((0,), (0,))))),
        ("PL308", lambda x: lax.dot_general(x, x, (((1, -1), (1, -1)), ((), ())))),
        ("PL308", lambda x: lax.dot_general(x, x, (((1,), (1,)), ((), ())), numerics="fast")),
        ("PL305", lambda x: lax.dot_general(x, x, (((1,), (1,)), ((), ())), preferred_element_type="INT32")),
        ("PL305", lambda x: lax.dot(x[0].astype(np.int32), x[0].astype(np.int32))),
        ("PL301", lambda x: lax.dot(x[None], x[0])),
        ("PL301", lambda x: lax.dot(1.0, x)),
        ("PL301", lambda x: lax.batch_matmul(x, x[None])),
    ],
)
def test_a_product_that_cannot_be_is_refused(code, call):
    with pytest.raises(PyptoError) as caught:
        call(np.ones((2, 3), np.float32))
    assert caught.value.code == code and caught.value.fix
