"""Random numbers: raw bits against the published vectors and JAX, the rest against JAX where its compiler rounds alike."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import pypto
from pypto import lax, numerics, random
from pypto.errors import PyptoError
from pypto.interpreters.reference import eval_jaxpr
from tests.bits import identical
from tests.op_runs import ulps

KEY, JAX_KEY = random.key(42), jax.random.key(42)


def same(found, want):
    assert identical(np.asarray(found), np.asarray(want)), (found, want)


def code_of(call, *args, **options):
    with pytest.raises(PyptoError) as caught:
        call(*args, **options)
    return caught.value.code


# Vectors of the authors' library (Random123) for threefry2x32 with 20 rounds: key, counter, result.
VECTORS = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize("key, counter, want", VECTORS)
def test_the_generator_gives_the_published_words(key, counter, want):
    words = [np.uint32(w) for w in (*key, *counter)]
    assert tuple(int(w) for w in numerics.threefry(*words)) == want
    assert tuple(w.item() for w in lax.threefry2x32(*words)) == want


@pytest.mark.parametrize("seed", [0, 1, -1, 2**31, 2**32 - 1])
def test_keys_are_jaxs(seed):
    same(random.key(seed), jax.random.key_data(jax.random.key(seed)))


def test_a_seed_of_64_bits_fills_both_words():
    assert random.key(2**40 + 5).tolist() == [256, 5] and random.key(-(2**40)).tolist() == [0xFFFFFF00, 0]
    assert code_of(random.key, 2**64) == "PL308" and code_of(random.key, 0.5) == "PL302"


@pytest.mark.parametrize("num", [1, 2, 5, (2, 3)], ids=str)
def test_new_keys_are_jaxs(num):
    same(random.split(KEY, num), jax.random.key_data(jax.random.split(JAX_KEY, num)))


@pytest.mark.parametrize("data", [0, 7, -1, 2**32 - 1])
def test_a_number_folded_into_a_key_gives_jaxs_key(data):
    same(random.fold_in(KEY, data), jax.random.key_data(jax.random.fold_in(JAX_KEY, np.uint32(data & 0xFFFFFFFF))))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32"])
@pytest.mark.parametrize("shape", [(), (1,), (5, 7), (0, 3)], ids=str)
def test_raw_bits_are_jaxs(dtype, shape):
    same(random.bits(KEY, shape, dtype), jax.random.bits(JAX_KEY, shape, dtype))


def test_64_bits_are_both_words_of_a_counter():
    high, low = numerics.threefry(np.uint32(0), np.uint32(42), np.zeros(3, np.uint32), np.arange(3, dtype=np.uint32))
    assert random.bits(KEY, 3, "UINT64").tolist() == [(int(h) << 32) | int(w) for h, w in zip(high, low, strict=True)]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_uniform_numbers_are_jaxs_and_lie_below_one(dtype):
    found = random.uniform(KEY, (2000,), dtype)
    same(found, jax.random.uniform(JAX_KEY, (2000,), dtype))
    wide = np.asarray(found).astype(np.float64)
    assert wide.min() >= 0 and wide.max() < 1 and abs(wide.mean() - 0.5) < 0.03


def test_uniform_numbers_in_a_range_are_scaled_with_two_roundings():
    fraction = np.asarray(random.uniform(KEY, (2000,)))
    want = np.maximum(np.float32(-3), fraction * np.float32(8.5) + np.float32(-3))
    same(random.uniform(KEY, (2000,), minval=-3.0, maxval=5.5), want)  # JAX's compiler fuses the two, so its bits differ


def test_normal_numbers_are_jaxs_but_for_the_last_bits():
    found = np.asarray(random.normal(KEY, (20000,)))
    want = np.asarray(jax.random.normal(JAX_KEY, (20000,)))
    # both are sqrt(2) * erf_inv(u) of the same u; JAX's erf_inv rounds u * u first, which costs it digits where u is near 1
    assert np.abs(found - want).max() < 4e-5 and (found == want).mean() > 0.5 and np.abs(found - want)[np.abs(want) < 3].max() < 3e-6
    assert abs(found.mean()) < 0.02 and abs(found.std() - 1) < 0.02 and np.abs(found).max() < 6
    same(random.normal(KEY, (20,), "bfloat16"), found[:20].astype(ml_dtypes.bfloat16))


def test_the_inverse_error_function_is_within_the_bound_it_states():
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.uniform(-1, 1, 60000), 1 - 2.0 ** -rng.uniform(1, 24, 30000), 2.0 ** -rng.uniform(0, 140, 10000)]).astype(
        np.float32
    )
    x = x[np.abs(x) < 1]
    with jax.enable_x64(True):
        want = np.asarray(jax.lax.erf_inv(x.astype(np.float64)))
    assert ulps(np.asarray(lax.erf_inv(x)), want).max() <= lax.erf_inv.exact.bound
    edges = np.asarray(lax.erf_inv(np.float32([1, -1, 0, -0.0, 2])))
    assert edges[:4].tolist() == [np.inf, -np.inf, 0, 0] and np.signbit(edges[3]) and np.isnan(edges[4])


RANGES = [
    ("int32", 0, 10), ("int32", -5, 7), ("int32", -(2**31), 2**31 - 1), ("int32", 3, 3), ("int32", 5, -5), ("uint32", 5, 2**31 - 1),
    ("int8", -128, 128), ("int8", -7, 9), ("uint8", 0, 256), ("uint8", 3, 200), ("int16", -300, 300), ("uint16", 0, 1),
]  # fmt: skip


@pytest.mark.parametrize("dtype, low, high", RANGES)
def test_integers_are_jaxs_and_lie_in_their_range(dtype, low, high):
    found = random.randint(KEY, (500,), low, high, dtype)
    same(found, jax.random.randint(JAX_KEY, (500,), low, high, dtype))
    assert np.asarray(found).min() >= low and np.asarray(found).max() < max(high, low + 1)


def test_all_integers_of_a_dtype_and_bounds_that_are_arrays():
    same(random.randint(KEY, (9,), -(2**31), 2**31), random.bits(random.split(KEY)[1], 9).astype("int32") + np.int32(-(2**31)))
    low, high = np.array([0, -4, 9], np.int32), np.array([10, 4, 9], np.int32)
    same(random.randint(KEY, (3,), low, high), jax.random.randint(JAX_KEY, (3,), low, high))
    assert code_of(random.randint, KEY, (3,), np.float32([0, 0, 0]), high) == "PL302"


@pytest.mark.parametrize("size", [1, 2, 100])
def test_permutations_are_jaxs(size):
    found = random.permutation(KEY, size)
    same(found, jax.random.permutation(JAX_KEY, size))
    assert sorted(found.tolist()) == list(range(size))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("independent", [False, True])
def test_axes_are_permuted_together_or_each_row_on_its_own(axis, independent):
    x = np.arange(60, dtype=np.float32).reshape(5, 12)
    same(random.permutation(KEY, x, axis, independent), jax.random.permutation(JAX_KEY, x, axis, independent=independent))


def test_truth_values_and_categories_are_jaxs():
    same(random.bernoulli(KEY, 0.3, (100,)), jax.random.bernoulli(JAX_KEY, 0.3, (100,)))
    p = np.float32([0.0, 0.2, 1.0])
    same(random.bernoulli(KEY, p), jax.random.bernoulli(JAX_KEY, p))
    logits = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    for axis, shape in ((-1, None), (0, None), (-1, (50, 4))):
        same(random.categorical(KEY, logits, axis, shape), jax.random.categorical(JAX_KEY, logits, axis, shape))
    assert code_of(random.categorical, KEY, logits, -1, (5,)) == "PL301"


def test_keys_may_be_traced():
    def f(key, step):
        return random.normal(random.fold_in(key, step), (3,)), random.randint(random.split(key)[1], (4,), 0, 9)

    found = eval_jaxpr(pypto.make_jaxpr(f)(np.asarray(KEY), np.int32(3)), np.asarray(KEY), np.int32(3))
    for a, b in zip(found, f(KEY, 3), strict=True):
        same(a, b)


def test_what_is_no_key_is_refused():
    for wrong in (np.zeros(2, np.int32), np.zeros(3, np.uint32), np.uint32(1)):
        assert code_of(random.bits, wrong) == "PL302"
    assert code_of(random.bits, KEY, 3, "int32") == "PL305" and code_of(random.uniform, KEY, 3, "int32") == "PL305"


def test_the_numbers_of_jax_come_from_its_default_generator():
    assert str(jax.random.key_impl(JAX_KEY)) == "threefry2x32"
    assert jnp.zeros(()).dtype == np.float32
