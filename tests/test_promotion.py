"""Array programs promote dtypes as JAX does in its default 32-bit mode, with one exception that keeps every value."""

import itertools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from pypto import dtypes, lax
from pypto.dtypes import dtype_of
from tests.bits import identical

JAX_DTYPES = {
    "BOOL": np.bool_, "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "UINT8": np.uint8, "UINT16": np.uint16,
    "UINT32": np.uint32, "BF16": ml_dtypes.bfloat16, "FP16": np.float16, "FP32": np.float32,
}  # fmt: skip
PAIRS = list(itertools.product(JAX_DTYPES, repeat=2))


def wider_than_jax(a, b):
    """The one exception: UINT32 with a signed integer is INT64 here, which holds every value; JAX wraps it into INT32."""
    return {a, b} & {"INT8", "INT16", "INT32"} != set() and "UINT32" in (a, b)


@pytest.mark.parametrize("a, b", PAIRS, ids=lambda n: n)
def test_arrays_promote_as_in_jax(a, b):
    x, y = (np.ones(2, JAX_DTYPES[n]) for n in (a, b))
    op, reference = (lax.add, jnp.add) if {a, b} != {"BOOL"} else (lax.logical_or, jnp.logical_or)
    found, want = op(x, y), reference(x, y)
    if wider_than_jax(a, b):
        assert found.dtype is dtypes.INT64 and want.dtype == np.int32
    else:
        assert found.dtype is dtype_of(want.dtype) and identical(found, want)


def test_uint32_with_a_signed_integer_keeps_every_value():
    assert lax.add(np.uint32([4294967295]), np.int8([1])).tolist() == [4294967296]


@pytest.mark.parametrize("name", JAX_DTYPES)
@pytest.mark.parametrize("number", [True, 3, 2.5], ids=repr)
def test_python_numbers_adapt_to_arrays_as_in_jax(name, number):
    x = np.ones(2, JAX_DTYPES[name])
    if name == "BOOL" and number is True:
        assert lax.logical_or(x, number).dtype is dtypes.BOOL
        return
    for found, want in ((lax.mul(x, number), jnp.multiply(x, number)), (lax.mul(number, x), jnp.multiply(number, x))):
        assert found.dtype is dtype_of(want.dtype) and identical(found, want)


@pytest.mark.parametrize("a, b", [("INT8", "BF16"), ("FP16", "BF16"), ("UINT8", "INT8"), ("INT32", "FP16")])
def test_comparisons_and_selections_promote_their_values_too(a, b):
    x, y = np.array([1, 2], JAX_DTYPES[a]), np.array([2, 1], JAX_DTYPES[b])
    assert lax.lt(x, y).tolist() == [True, False]
    chosen = lax.select(np.array([True, False]), x, y)
    assert chosen.dtype is lax.add(x, y).dtype and chosen.tolist() == [1.0, 1.0]


def test_numbers_alone_take_jaxs_default_dtypes():
    for a, b in itertools.product([True, 2, 1.5], repeat=2):
        if not isinstance(a, bool) or not isinstance(b, bool):
            assert lax.add(a, b).dtype is dtype_of(jnp.add(a, b).dtype)


def test_a_scalar_array_promotes_as_an_array_and_a_number_does_not():
    x = np.ones(2, ml_dtypes.bfloat16)
    assert lax.add(x, np.float32(1)).dtype is dtypes.FP32 and lax.add(x, 1.0).dtype is dtypes.BF16


def test_jax_was_asked_in_its_default_mode():
    assert not jax.config.jax_enable_x64  # type: ignore[attr-defined]
