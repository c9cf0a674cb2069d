"""Windows, gather, scatter, sort, padding and subscripts of whole arrays, against JAX and NumPy."""

import itertools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import pypto
from pypto import Array, lax
from pypto.errors import PyptoError
from pypto.interpreters.reference import eval_jaxpr
from tests.bits import identical

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
I = np.array([2, 0, -1, 7], np.int32)
J = np.array([[1], [3]], np.int32)


def same(found, want):
    assert identical(np.asarray(found), np.asarray(want)), (found, want)


def code_of(call, *args, **options):
    with pytest.raises(PyptoError) as caught:
        call(*args, **options)
    assert caught.value.fix
    return caught.value.code


def traced(f, *args):
    return eval_jaxpr(pypto.make_jaxpr(f)(*args), *args)


# Windows.


@pytest.mark.parametrize("start", [(0, 0, 0), (1, 2, 3), (9, -1, 2), (-1, -9, 40)], ids=str)
def test_a_dynamic_window_is_clamped_and_counts_negative_starts_from_the_end(start):
    starts = tuple(np.int32(s) for s in start)
    same(lax.dynamic_slice(X, starts, (2, 1, 3)), jax.lax.dynamic_slice(X, starts, (2, 1, 3)))
    update = -X[:2, :1, :3]
    same(lax.dynamic_update_slice(X, update, starts), jax.lax.dynamic_update_slice(X, update, starts))
    (found,) = traced(lambda x, s: lax.dynamic_slice(x, s, (2, 1, 3)), X, np.array(start, np.int32))
    same(found, lax.dynamic_slice(X, starts, (2, 1, 3)))


def test_negative_starts_may_be_taken_as_they_are():
    same(lax.dynamic_slice(X, (-1, 0, 0), (1, 4, 5), allow_negative_indices=False), X[:1])
    same(lax.dynamic_slice(X, (-1, 0, 0), (1, 4, 5), allow_negative_indices=(True, False, False)), X[2:])


def test_one_axis_at_a_time():
    same(lax.dynamic_slice_in_dim(X, 2, 3, axis=1), jax.lax.dynamic_slice_in_dim(X, 2, 3, axis=1))
    same(lax.dynamic_index_in_dim(X, -1, axis=2, keepdims=False), X[:, :, 4])
    same(lax.dynamic_update_index_in_dim(X, X[:, 0] * 0, 3, axis=1), jax.lax.dynamic_update_index_in_dim(X, X[:, 0] * 0, 3, axis=1))
    same(lax.slice(X, (0, 1, 0), (3, 4, 5), (2, 1, 3)), jax.lax.slice(X, (0, 1, 0), (3, 4, 5), (2, 1, 3)))
    same(lax.slice_in_dim(X, -3, None, 2, axis=-1), jax.lax.slice_in_dim(X, -3, None, 2, axis=-1))
    same(lax.index_in_dim(X, -1, 1), jax.lax.index_in_dim(X, -1, 1))


def test_a_static_window_must_lie_inside():
    assert code_of(lax.slice, X, (0, 0, 0), (3, 4, 6)) == "PL303"
    assert code_of(lax.dynamic_slice, X, (0, 0), (1, 1, 1)) == "PL301"
    assert code_of(lax.dynamic_slice, X, (0, 0, 0), (4, 1, 1)) == "PL301"
    assert code_of(lax.dynamic_slice, X, (0, 0, 0.5), (1, 1, 1)) == "PL302"


# Padding, reversal, shapes.

EDGES = [-2, 0, 3]


@pytest.mark.parametrize("config", list(itertools.product(EDGES, EDGES, [0, 2])), ids=str)
def test_padding_puts_in_and_takes_away(config):
    other = (1, -1, 1)
    same(lax.pad(X[0], -1.0, [config, other]), jax.lax.pad(X[0], np.float32(-1), [config, other]))


def test_padding_of_an_empty_axis_and_of_too_little():
    same(lax.pad(X[:0, 0], 1.0, [(1, 2, 3), (0, 0, 0)]), jax.lax.pad(X[:0, 0], np.float32(1), [(1, 2, 3), (0, 0, 0)]))
    assert code_of(lax.pad, X[0], 0.0, [(-3, -3, 0), (0, 0, 0)]) == "PL301"
    assert code_of(lax.pad, X[0], 0.0, [(0, 0, -1), (0, 0, 0)]) == "PL308"
    assert code_of(lax.pad, X[0], np.int32(0), [(0, 0, 0), (0, 0, 0)]) == "PL302"


def test_axes_come_and_go():
    same(lax.rev(X, (0, -1)), jax.lax.rev(X, (0, 2)))
    same(lax.squeeze(X[:1], (0,)), X[0])
    same(lax.expand_dims(X, (0, -1)), jax.lax.expand_dims(X, (0, -1)))
    same(lax.broadcast_in_dim(X[0, :1], (2, 3, 5), (1, 2)), jax.lax.broadcast_in_dim(X[0, :1], (2, 3, 5), (1, 2)))
    assert code_of(lax.squeeze, X, (0,)) == "PL301"
    assert code_of(lax.broadcast_in_dim, X[0], (4, 6), (0, 1)) == "PL301"


def test_one_of_several_arrays_is_chosen_per_element():
    which = np.array([0, 2, 1, 2], np.int32)
    cases = [X[i, :, 0] for i in range(3)]
    same(lax.select_n(which, *cases), jax.lax.select_n(which, *cases))
    same(lax.select_n(which > 1, *cases[:2]), jax.lax.select_n(which > 1, *cases[:2]))
    same(lax.select_n(np.int32(1), *cases), cases[1])
    assert code_of(lax.select_n, which, X[0], X[1]) == "PL301"


CASTS = [("float32", "uint32"), ("float32", "bfloat16"), ("uint8", "int32"), ("int16", "uint8"), ("bfloat16", "float16")]


@pytest.mark.parametrize("pair", CASTS, ids=str)
def test_bits_are_read_as_another_dtype(pair):
    source, target = (np.dtype(getattr(ml_dtypes, n, n)) for n in pair)
    x = np.random.default_rng(1).integers(0, 255, (3, 4 * source.itemsize), np.uint8).view(source)
    if target.itemsize > source.itemsize:
        x = x.reshape(3, -1, target.itemsize // source.itemsize)
    same(lax.bitcast_convert_type(x, target), jax.lax.bitcast_convert_type(x, target))


# Gather and scatter.

NAMES = ("scatter", "scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max")


@pytest.mark.parametrize("mode", ["clip", "fill", "promise_in_bounds", None])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int8, np.uint16])
def test_windows_are_gathered_as_in_jax(mode, dtype):
    x = X.astype(dtype)
    for dn, sizes, shape in (((0, 2), (1,), (2, 0)), (1, 1, 3), (5, 2)), (((2,), (0, 1), (0, 1)), (1, 1, 5), (2, 3, 2)):
        at = np.random.default_rng(3).integers(-2, 5, shape).astype(np.int32)
        found = lax.gather(x, at, lax.GatherDimensionNumbers(*dn), sizes, mode=mode)
        same(found, jax.lax.gather(x, at, jax.lax.GatherDimensionNumbers(*dn), sizes, mode=mode))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", ["clip", "fill", None])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.uint32])
def test_windows_are_scattered_as_in_jax_one_after_the_other(name, mode, dtype):
    rng = np.random.default_rng(4)
    x, updates = (rng.integers(1, 9, s).astype(dtype) for s in ((4, 6), (9, 3)))
    at = rng.integers(-1, 6, (9, 2)).astype(np.int32)
    dn = ((1,), (0,), (0, 1))
    found = getattr(lax, name)(x, at, updates, lax.ScatterDimensionNumbers(*dn), mode=mode)
    same(found, getattr(jax.lax, name)(x, at, updates, jax.lax.ScatterDimensionNumbers(*dn), mode=mode))


def test_many_updates_of_one_element_round_one_by_one():
    ones = np.ones(300, ml_dtypes.bfloat16)
    dn = lax.ScatterDimensionNumbers((), (0,), (0,))
    found = lax.scatter_add(np.zeros(1, ml_dtypes.bfloat16), np.zeros((300, 1), np.int32), ones, dn)
    assert found.tolist() == [256]  # 256 + 1 is 256 in BF16: the sum is one of BF16 additions, as stated


def test_out_of_range_modes_are_jaxs():  # C56
    x, at = np.float32([10, 20, 30]), np.array([0, 5], np.int32)
    assert Array(x)[at].tolist() == [10, 30]
    found = lax.take(x, at)
    assert found[0].item() == 10 and np.isnan(found[1].item())
    assert Array(x).at[at].set(7.0).tolist() == [7, 20, 30]
    assert Array(x)[np.array([-1], np.int32)].tolist() == [30]


def test_a_masked_window_past_the_end_is_not_shifted():  # C55
    x = np.arange(5, dtype=np.int32)
    window = np.arange(3, 8, dtype=np.int32)
    assert lax.take(x, window, mode="fill", fill_value=-1).tolist() == [3, 4, -1, -1, -1]
    assert lax.dynamic_slice(x, (3,), (5,)).tolist() == [0, 1, 2, 3, 4]  # clamped, as in JAX


def test_dimension_numbers_that_do_not_fit_are_refused():
    at = np.zeros((2, 1), np.int32)
    numbers = lax.GatherDimensionNumbers
    assert code_of(lax.gather, X, at, numbers((0, 1), (0,), (0,)), (2, 4, 5)) == "PL301"  # a collapsed axis of extent 2
    assert code_of(lax.gather, X, at, numbers((0,), (0,), (0,)), (1, 4, 5)) == "PL301"  # one window axis too few
    assert code_of(lax.gather, X, at, numbers((0, 1), (0,), (0, 1)), (1, 4, 5)) == "PL301"  # two starts in vectors of one
    assert code_of(lax.gather, X, at.astype(np.float32), numbers((0, 1), (0,), (0,)), (1, 4, 5)) == "PL302"
    assert code_of(lax.gather, X, at, numbers((1, 2), (0,), (0,)), (1, 4, 5), mode="wrap") == "PL308"
    places = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    assert code_of(lax.scatter, X[0], at, X[0, :3], places) == "PL301"  # three updates at two places
    assert code_of(lax.scatter_add, X[0], at, X[0, :2].astype(np.int32), places) == "PL302"


# Subscripts.

KEYS = {
    "1": np.s_[1], "-1, ..., 2": np.s_[-1, ..., 2], ":, 1:3, ::2": np.s_[:, 1:3, ::2], "::-1, None, :, 3": np.s_[::-1, None, :, 3],
    "i": np.s_[I], ":, i": np.s_[:, I], "i, :, i": np.s_[I, :, I], "..., i": np.s_[..., I], "1, i": np.s_[1, I], "i, 1": np.s_[I, 1],
    "1, :, i": np.s_[1, :, I], "j, i": np.s_[J, I], ":, j, i": np.s_[:, J, I], "None, i, None": np.s_[None, I, None],
    "mask": np.s_[X[:, 0, 0] > 10], ":, mask": np.s_[:, np.array([True, False, True, True])], "()": np.s_[()], "back": np.s_[::-2, ::-1],
}  # fmt: skip


@pytest.mark.parametrize("key", list(KEYS.values()), ids=list(KEYS))
def test_subscripts_are_jaxs(key):
    want = jnp.asarray(X)[key]
    same(Array(X)[key], want)
    same(traced(lambda x: x[key], X)[0], want)


@pytest.mark.parametrize("method", ["set", "add", "multiply", "min", "max"])
@pytest.mark.parametrize("key", list(KEYS.values()), ids=list(KEYS))
def test_updates_at_subscripts_are_jaxs(method, key):
    want = getattr(jnp.asarray(X).at[key], method)(np.float32(7.5))
    same(getattr(Array(X).at[key], method)(7.5), want)
    same(traced(lambda x: getattr(x.at[key], method)(7.5), X)[0], want)


def test_subscripts_may_be_traced():
    (found,) = traced(lambda x, i: x[:, i], X, I)
    same(found, jnp.asarray(X)[:, I])
    assert all(identical(a, b) for a, b in zip(traced(tuple, X), X, strict=True))
    (found,) = traced(lambda x, i: x.at[i, 0].add(x[0, 0]), X, I)
    same(found, jnp.asarray(X).at[I, 0].add(X[0, 0]))
    assert code_of(lambda: pypto.make_jaxpr(lambda x, m: x[m])(X, X > 3)) == "PL304"
    assert code_of(lambda: pypto.make_jaxpr(lambda x: x[3])(X)) == "PL303"


@pytest.mark.parametrize("mode", [None, "clip", "wrap"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_take_is_numpys_as_jax_has_it(mode, axis):
    same(lax.take(X, I, axis, mode), jnp.take(X, I, axis, mode=mode))


def test_take_along_an_axis_broadcasts():
    at = np.array([[[0], [3], [-1], [9]]], np.int32)
    same(lax.take_along_axis(X, at, 2), jnp.take_along_axis(X, at, 2))
    same(lax.take_along_axis(X, at[:, :1], 1, mode="clip"), jnp.take_along_axis(X, at[:, :1], 1, mode="clip"))


# Sort and top-k.


def keyed(dtype):
    x = np.random.default_rng(6).integers(-3, 3, (4, 25)).astype(dtype)
    if x.dtype.kind not in "iub":
        x[:, ::5], x[:, 1::6] = np.nan, -0.0
    return x


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.uint32, np.bool_])
@pytest.mark.parametrize("axis", [0, -1])
def test_sorting_is_stable_and_puts_nan_last(dtype, axis):
    x, number = keyed(dtype), np.arange(100, dtype=np.int32).reshape(4, 25)
    found, want = lax.sort((x, number), axis), jax.lax.sort((x, number), axis)
    for a, b in zip(found, want, strict=True):
        same(a, b)
    same(lax.sort(x, axis), jax.lax.sort(x, axis))


def test_several_keys_are_compared_one_after_the_other():
    a, b, c = keyed(np.float32), keyed(np.int8)[:, ::-1], np.arange(100, dtype=np.int32).reshape(4, 25)
    for found, want in zip(lax.sort([a, b, c], num_keys=2), jax.lax.sort((a, b, c), num_keys=2), strict=True):
        same(found, want)
    same(lax.argsort(a), jnp.argsort(a, axis=-1))
    assert code_of(lax.sort, (a, b), num_keys=3) == "PL308" and code_of(lax.sort, (a, b[:2])) == "PL301"


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int8, np.uint32])
@pytest.mark.parametrize("k", [0, 1, 7, 25])
def test_the_largest_elements_and_where_they_are(dtype, k):
    for found, want in zip(lax.top_k(keyed(dtype), k), jax.lax.top_k(keyed(dtype), k), strict=True):
        same(found, want)


def test_a_nan_of_either_sign_is_the_largest():
    x = np.array([1, np.nan, np.inf, -np.nan], np.float32)
    assert lax.top_k(x, 3)[1].tolist() == [1, 3, 2]  # JAX puts the negative NaN last: the sign of a NaN is no part of the contract
    assert code_of(lax.top_k, x, 5) == "PL308"
