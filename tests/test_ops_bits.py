"""Bits that are counted, the next number, fewer bits, the exclusive or, and arrays put together: as JAX's of the same names."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import dtypes, lax
from pypto.errors import ShapeError
from tests.bits import identical
from tests.refusals import sevens

BF16 = ml_dtypes.bfloat16
HALVES = [np.float16, BF16]
WHOLE = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


def patterns(dtype):
    return np.arange(1 << 16, dtype=np.uint16).view(dtype)


def words(count=4000, seed=1):
    return np.random.default_rng(seed).integers(0, 2**32, count, np.uint32).view(np.float32)


def refused(call, code):
    with pytest.raises(ShapeError) as caught:
        call()
    assert caught.value.code == code and caught.value.fix


# Counting


@pytest.mark.parametrize("dtype", WHOLE)
def test_set_bits_and_leading_zeros_are_those_of_the_twos_complement(dtype):
    limits = np.iinfo(dtype)
    x = np.random.default_rng(2).integers(limits.min, limits.max, 200, dtype, endpoint=True)
    x[:4] = [0, 1, limits.max, limits.min]
    width = limits.bits
    unsigned = [int(v) % 2**width for v in x]
    assert identical(lax.population_count(x), np.array([v.bit_count() for v in unsigned], dtype))
    assert identical(lax.clz(x), np.array([width - v.bit_length() for v in unsigned], dtype))


def test_every_8_bit_integer_is_counted():
    x = np.arange(256, dtype=np.uint8)
    assert lax.population_count(x).tolist() == [int(v).bit_count() for v in x]
    assert lax.clz(x.view(np.int8)).tolist() == [8 - int(v).bit_length() for v in x]


def test_floats_have_no_bits_to_count():
    refused(lambda: lax.population_count(np.float32([1])), "PL305")
    refused(lambda: lax.clz(np.array([True])), "PL305")


@pl.jit
def counts(x: pl.Tensor[[1, 8], pl.INT32], out: pl.Out[pl.Tensor[[1, 8], pl.INT32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = lax.population_count(x) * 100 + lax.clz(x)


def test_a_kernel_counts_bits_too():
    x = np.int32([[0, 1, -1, 7, 2**31 - 1, -(2**31), 255, 256]])
    want = [[int(v % 2**32).bit_count() * 100 + 32 - int(v % 2**32).bit_length() for v in map(int, x[0])]]
    for executor in ("reference", "cpu"):
        with pypto.override(platform="a5", check=executor == "reference", executor=executor):
            assert counts(x, sevens(1, 8, dtype=np.int32)).tolist() == want


# The next number


@pytest.mark.parametrize("dtype", HALVES)
def test_the_next_16_bit_float_is_jaxs_for_every_pattern(dtype):
    x, y = patterns(dtype), np.roll(patterns(dtype), 12345)
    assert identical(lax.nextafter(x, y), np.asarray(jax.lax.nextafter(jnp.asarray(x), jnp.asarray(y))))


def test_the_next_fp32_number_is_numpys():
    x, y = words(), words(seed=2)
    with np.errstate(all="ignore"):
        assert identical(lax.nextafter(x, y), np.nextafter(x, y))
        assert identical(lax.nextafter(x[:, None], np.float32([0.0, -np.inf])), np.nextafter(x[:, None], np.float32([0.0, -np.inf])))
    refused(lambda: lax.nextafter(np.int32(1), np.int32(2)), "PL305")


def test_next_to_zero_is_the_smallest_number_of_either_sign():
    x = np.asarray(lax.nextafter(np.float32([0.0, -0.0, 0.0]), np.float32([1, 1, -1])))
    assert x.view(np.uint32).tolist() == [1, 1, 0x80000001]


# Fewer bits


@pytest.mark.parametrize("bits", [(5, 10), (8, 7), (5, 2), (4, 3), (8, 0), (1, 0), (2, 5), (8, 23), (3, 3)])
@pytest.mark.parametrize("dtype", HALVES)
def test_a_reduced_precision_is_jaxs_for_every_16_bit_pattern(dtype, bits):
    x = patterns(dtype)
    assert identical(lax.reduce_precision(x, *bits), np.asarray(jax.lax.reduce_precision(jnp.asarray(x), *bits)))


def test_an_fp32_number_rounded_to_bf16s_bits_is_that_bf16_number():
    x = words()
    with np.errstate(all="ignore"):
        want = x.astype(BF16).astype(np.float32)
    want[np.abs(want) < 2.0**-126] *= 0  # the format's subnormal numbers become zero
    found = np.asarray(lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7))
    usual = np.abs(x) >= 2.0**-126  # a subnormal that rounds up to a normal one is not flushed by either
    assert identical(found[usual], want[usual])


def test_bits_that_no_format_has_are_refused():
    refused(lambda: lax.reduce_precision(np.float32(1), 0, 3), "PL308")
    refused(lambda: lax.reduce_precision(np.float32(1), 3, -1), "PL308")
    refused(lambda: lax.reduce_precision(np.int32(1), 3, 3), "PL305")


# The exclusive or


def test_an_exclusive_or_over_axes():
    x = np.random.default_rng(0).integers(-128, 127, (3, 5, 7), np.int8)
    assert identical(lax.reduce_xor(x, (0, 2)), np.bitwise_xor.reduce(x, (0, 2)))
    assert lax.reduce_xor(np.array([[True, True], [True, False]]), 1).tolist() == [False, True]
    assert lax.reduce_xor(np.zeros((2, 0), np.int32), 1).tolist() == [0, 0]


# Together and apart

X = np.arange(24, dtype=np.int32).reshape(2, 3, 4)


def test_pieces_of_an_axis_are_jaxs():
    for found, want in zip(lax.split(X, (1, 3), axis=-1), jax.lax.split(jnp.asarray(X), (1, 3), axis=2), strict=True):
        assert identical(found, np.asarray(want))
    refused(lambda: lax.split(X, (1, 1), axis=2), "PL301")


@pytest.mark.parametrize("axis", [0, 1, 3, -1])
def test_stacked_arrays_come_apart_again(axis):
    parts = [X, X + 1, X * 2]
    stacked = lax.stack(parts, axis=axis)
    assert identical(stacked, np.stack(parts, axis=axis))
    assert all(identical(a, b) for a, b in zip(lax.unstack(stacked, axis=axis), parts, strict=True))


@pytest.mark.parametrize("axis", [0, 2, -1])
def test_arrays_are_concatenated_as_jax_does_it(axis):
    assert identical(lax.concatenate([X, X * 2], axis), np.concatenate([X, X * 2], axis))
    refused(lambda: lax.concatenate([], 0), "PL301")
    refused(lambda: lax.concatenate([X], X.ndim), "PL308")


def test_broadcast_adds_axes_in_front_and_broadcast_to_gives_a_shape():
    assert identical(lax.broadcast(X, (2, 1)), np.broadcast_to(X, (2, 1, *X.shape)))
    assert identical(lax.broadcast_to(X, (2, 1, *X.shape)), np.broadcast_to(X, (2, 1, *X.shape)))
    assert identical(lax.full((2,), fill_value=3, dtype="INT8"), np.int8([3, 3]))


def test_arrays_of_two_shapes_do_not_stack():
    refused(lambda: lax.stack([X, X[0]]), "PL301")
    refused(lambda: lax.stack([]), "PL301")


@pytest.mark.parametrize("reps", [(2, 1, 3), (1, 1, 1), (0, 2, 1)])
def test_a_tiled_array_is_numpys(reps):
    assert identical(lax.tile(X, reps), np.tile(X, reps))


def test_shapes_alone():
    assert lax.broadcast_shapes((2, 1), (3,), ()) == (2, 3) and lax.broadcast_shapes() == ()
    assert lax.collapse(X, 0, 2).shape == (6, 4) and lax.collapse(X, 1).shape == (2, 12)
    assert lax.broadcast_to_rank(X, 5).shape == (1, 1, 2, 3, 4)
    refused(lambda: lax.broadcast_shapes((2,), (3,)), "PL301")
    refused(lambda: lax.broadcast_to_rank(X, 2), "PL301")
    refused(lambda: lax.tile(X, (2,)), "PL301")


def test_a_filled_array_takes_what_is_not_said_from_another():
    assert identical(lax.full_like(X, 7), np.full_like(X, 7))
    assert lax.full_like(X, 0.5, dtype=dtypes.FP16).dtype is dtypes.FP16
    assert lax.full_like(X, 1, shape=(2,)).shape == (2,)
