"""Extents, axes, positions and counts are whole numbers: a float is never cut off, and what is no number at all has a coded error."""

import jax
import numpy as np
import pytest

import pypto
from pypto import lax
from pypto.errors import PyptoError
from tests.bits import identical

A = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    "action",
    [
        lambda: lax.full((1.5,), 0),
        lambda: lax.full(3, 0),
        lambda: lax.full((-1,), 0),
        lambda: lax.iota("INT32", 1.5),
        lambda: lax.iota("INT32", -1),
        lambda: lax.broadcasted_iota("INT32", 3, 0),
        lambda: lax.reshape(A, 6),
        lambda: lax.reshape(A, (1.5, 4)),
        lambda: lax.broadcast(A, 3),
        lambda: lax.broadcast_to(A, (2.0, 2, 3)),
        lambda: lax.transpose(A, 1),
        lambda: lax.transpose(A, (1.0, 0.0)),
        lambda: lax.reduce_sum(A, (0.5,)),
        lambda: lax.reduce_sum(A, "x"),
        lambda: lax.squeeze(A, 0),
        lambda: lax.expand_dims(A, (0.0,)),
        lambda: lax.split(A, (1.5, 0.5)),
        lambda: lax.tile(A, 2),
        lambda: lax.collapse(A, 0.5),
        lambda: lax.broadcast_shapes((2,), 3),
        lambda: lax.broadcast_to_rank(A, 2.5),
        lambda: lax.slice(A, (0.5, 0), (1, 1)),
        lambda: lax.slice_in_dim(A, 0, 1.5),
        lambda: lax.dynamic_slice(A, (0, 0), (1.5, 1)),
        lambda: lax.pad(A, 0.0, 1),
        lambda: lax.pad(A, 0.0, ((0.5, 0, 0), (0, 0, 0))),
        lambda: lax.pad(A, 0.0, ((1, 0), (0, 0))),
        lambda: lax.rev(A, 0),
        lambda: lax.cumsum(A, 0.5),
        lambda: lax.sort(A, 0.5),
        lambda: lax.argmax(A, 0.5, np.int32),
        lambda: lax.top_k(A, 1.5),
        lambda: lax.concatenate(A, A),  # an array of operands and an axis, as functions of variable length had it once
        lambda: lax.stack(A, A),
        lambda: lax.scan(lambda c, x: (c, x), 0, None, length=1.5),
        lambda: lax.scan(lambda c, x: (c, x), 0, A, unroll=1.5),
        lambda: lax.map(lambda v: v, A, batch_size=1.5),
        lambda: pypto.ShapeDtypeStruct((1.5,), "FP32"),
        lambda: pypto.Array(2**70),
        lambda: pypto.jit(lambda x: x + 1)(2**70),
    ],
)
def test_what_is_no_whole_number_there_is_refused(action):
    with pytest.raises(PyptoError) as caught:
        action()
    assert caught.value.code == "PL308"
    assert caught.value.source is not None and caught.value.source.file == __file__


@pytest.mark.parametrize(
    "action",
    [
        lambda: lax.concatenate(3, 0),
        lambda: lax.full((2,), A),
        lambda: lax.full(0.0, (2,)),
    ],
)
def test_operands_in_the_place_of_options_are_refused(action):
    with pytest.raises(PyptoError) as caught:
        action()
    assert caught.value.code in ("PL301", "PL308")


@pytest.mark.parametrize(
    "action",
    [
        lambda: lax.scan(lambda c, x: (c, x), 0, None, length=-1),
        lambda: pypto.jit(lambda x: x, static_argnums=0.5),
        lambda: pypto.jit(lambda x: x, static_argnums="x"),
        lambda: pypto.jit(lambda x: x, static_argnums=1),
        lambda: pypto.jit(lambda x: x, static_argnums=-2),
        lambda: pypto.jit(lambda x: x, static_argnames=0),
        lambda: pypto.jit(lambda x: x, donate_argnums=1),
        lambda: pypto.jit(lambda x: x, static_argnums=0, donate_argnums=0),
        lambda: pypto.jit(lambda x: x, static_argnums=0, donate_argnames="x"),
        lambda: pypto.grad(lambda x: x, argnums=0.5)(1.0),
        lambda: pypto.grad(lambda x: x, argnums="x")(1.0),
        lambda: pypto.custom_vjp(lambda x: x, nondiff_argnums=0.5),
        lambda: pypto.checkpoint_name(1.0, 3),
        lambda: pypto.checkpoint_policies.save_only_these_names(["a"]),
    ],
)
def test_what_is_no_position_or_name_of_an_argument_is_refused(action):
    with pytest.raises(PyptoError) as caught:
        action()
    assert caught.value.code == "PL601"


def test_positions_of_functions_that_take_any_number_are_free():
    assert pypto.jit(lambda *xs: xs[0] * xs[1], static_argnums=1)(2.0, 3) == 6


def test_whole_numbers_of_numpy_and_of_arrays_are_taken():
    one = pypto.Array(np.int64(1))
    for axis in (np.int64(1), np.array(1), one, [1], np.array([1])):
        assert identical(lax.reduce_sum(A, axis), lax.reduce_sum(A, 1))
    assert lax.reshape(A, np.array([3, 2])).shape == lax.full((np.int8(3), 2), 0).shape == (3, 2)


@pytest.mark.parametrize("value", [2.7, -2.7, 300.5])
def test_a_value_of_a_program_fills_an_integer_array_as_it_converts(value):
    found = pypto.jit(lambda x: lax.full((2,), x, "INT32"))(np.float32(value))
    assert identical(found, np.asarray(jax.jit(lambda x: jax.lax.full((2,), x, np.int32))(np.float32(value))))
