"""Arrays for which no machine has memory: each of them is PL407, at the user's line, wherever it would have been made."""

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto import lax
from pypto.runtime import ChipWorker
from tests.refusals import refused

X = np.float32([[1, 2, 3, 4]])


@pl.jit
def has_an_output_of_petabytes(x: pl.Tensor[[1, 4], pl.FP32], out: pl.Out[pl.Tensor[[1 << 45, 16], pl.FP32]]):
    for i in pl.range(pl.tensor.dim(x, 0)):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[i : i + 1, 0:4] = x[i : i + 1, :]


@pytest.mark.parametrize("check", [True, False])
def test_an_output_that_is_left_out_is_named(check):
    with pypto.override(check=check):
        error = refused("PL407", lambda: has_an_output_of_petabytes(X), at="has_an_output_of_petabytes(X)", mark="")
    assert isinstance(error, MemoryError) and "`out`, FP32 [35184372088832, 16]: 2,251,799,813,685,248 bytes" in error.message


def test_an_output_in_an_array_program_is_named():
    array = pypto.jit(lambda x: has_an_output_of_petabytes(x))
    with pytest.raises(MemoryError) as caught:
        array(X)
    assert getattr(caught.value, "code", "") == "PL407" and "`out`" in str(caught.value)


@pytest.mark.parametrize("rows", [1 << 50, 1 << 62])
def test_the_result_of_an_operation_is_named_in_a_plain_call_and_in_a_jitted_one(rows):
    plain = refused("PL407", lambda: lax.full((rows, 16), 0.0), at="lax.full((rows, 16), 0.0)", mark="")
    jitted = pypto.jit(lambda x: lax.full((rows, 16), x))
    caught = refused("PL407", lambda: jitted(X[0, 0]), at="lax.full((rows, 16), x)", mark="")
    assert f"the result of fill, FP32 [{rows}, 16]" in plain.message and f"FP32 [{rows}, 16]" in caught.message


def test_random_numbers_have_their_shape_in_the_error():
    key = pypto.random.key(0)
    error = refused("PL407", lambda: pypto.random.normal(key, (1 << 48,)), at="pypto.random.normal(key, (1 << 48,))", mark="")
    assert "[281474976710656]" in error.message


def test_memory_of_a_worker_is_refused_and_the_worker_goes_on():
    with ChipWorker() as worker:
        refused("PL407", lambda: worker.alloc_tensor((1 << 50, 16), pl.FP32), at="worker.alloc_tensor((1 << 50, 16), pl.FP32)", mark="")
        refused("PL407", lambda: worker.malloc(1 << 60), at="worker.malloc(1 << 60)", mark="")
        assert worker.alloc_tensor((2, 2), pl.FP32).numpy().tolist() == np.zeros((2, 2)).tolist()


def test_an_error_of_values_is_not_taken_for_one_of_memory():
    with pytest.raises(pypto.PyptoError) as caught:
        lax.broadcast_to(X, (3, 5))
    assert caught.value.code == "PL301"
