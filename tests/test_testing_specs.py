"""Specs make repeatable inputs: their values, their dtypes, and what they refuse."""

import numpy as np
import pytest

from pypto.dtypes import BF16, BOOL, DTYPES, FP4, FP16, FP32, INT8, INT32, UINT64
from pypto.errors import NumericsError
from pypto.numerics import widened
from pypto.testing import ScalarSpec, TensorSpec, round_to

X = TensorSpec("x", [4, 8], FP32)
STORED = [row for row in DTYPES.values() if row.name not in ("HF4", "MASK", "TASK_ID")]


def refused(code, function, *args, **kwargs):
    with pytest.raises(NumericsError) as caught:
        function(*args, **kwargs)
    assert caught.value.code == code
    return caught.value


def test_another_spec_does_not_change_the_values_of_this_one():
    alone, later = X.make(3), TensorSpec("x", [4, 8], FP32).make(3)
    assert alone.tobytes() == later.tobytes()
    assert alone.tobytes() != TensorSpec("y", [4, 8], FP32).make(3).tobytes()
    assert alone.tobytes() != X.make(4).tobytes()


@pytest.mark.parametrize("dtype", STORED, ids=repr)
def test_every_dtype_has_inputs_and_a_recognisable_fill(dtype):
    values, fill = TensorSpec("x", [64], dtype).make(), TensorSpec("x", [64], dtype, output=True).make()
    assert values.dtype == fill.dtype == dtype.storage
    assert dtype.name == "FP8E8M0" or len(set(values.tolist())) > 1
    assert len(set(fill.tobytes())) <= dtype.itemsize
    assert np.isnan(widened(fill)).all() if dtype.is_float and dtype is not FP4 else (fill.astype(np.float64) != 0).all()


@pytest.mark.parametrize(
    ("init", "expected"),
    [("ones", [1, 1, 1]), ("zeros", [0, 0, 0]), ("arange", [0, 1, 2]), (0, [0, 0, 0]), (-0.0, [0, 0, 0]), ([5, 6, 7], [5, 6, 7])],
)
@pytest.mark.parametrize("dtype", [FP32, BF16, INT8])
def test_named_numbers_and_arrays_as_init(init, expected, dtype):
    start = np.array(init) if isinstance(init, list) else init
    assert TensorSpec("x", [3], dtype, init=start).make().tolist() == expected


def test_a_callable_init_gets_a_generator_and_the_shape():
    spec = TensorSpec("x", [2, 3], FP16, init=lambda rng, shape: rng.integers(0, 9, shape))
    assert spec.make(1).shape == (2, 3)
    assert spec.make(1).tobytes() == spec.make(1).tobytes()


def test_an_init_array_is_copied():
    start = np.zeros(3, np.float32)
    TensorSpec("x", [3], FP32, init=start).make()[:] = 1
    assert not start.any()


def test_the_spellings_of_the_original_mean_the_same():
    assert TensorSpec("o", [2], FP32, is_output=True).output
    both = TensorSpec("o", [2], FP32, is_output=True, init_value=0)
    assert both.inout and not both.output
    assert both.make().tolist() == [0, 0]
    refused("PL702", TensorSpec, "o", [2], FP32, init=1, init_value=1)


@pytest.mark.parametrize("spec", [("nrmal", FP32), ("normal", INT8), (300, INT8), (0.5, INT32), (-1, UINT64), (np.zeros(4), FP32)])
def test_an_impossible_init_is_refused(spec):
    refused("PL702", lambda: TensorSpec("x", [3], spec[1], init=spec[0]).make())


def test_floats_are_rounded_once():
    above_midpoint = 1 + 2.0**-8 + 2.0**-40
    assert float(round_to(above_midpoint, BF16)) == 1 + 2.0**-7
    assert float(round_to(-above_midpoint, BF16)) == -(1 + 2.0**-7)
    assert float(round_to(2**60 + 2**52 + 2**8, BF16)) == 2.0**60 + 2.0**53
    assert float(round_to(1e-300, FP16)) == 0
    assert float(round_to(65520.0, FP16)) == float("inf")
    assert float(round_to(1e300, FP32)) == float("inf")


def test_scalars_are_python_numbers_rounded_to_their_dtype():
    assert ScalarSpec("s", BF16, 1.01953125).make() == 1.015625
    assert type(ScalarSpec("s", INT8, 3).make()) is int
    assert ScalarSpec("s", BOOL, True).make() is True
    refused("PL702", ScalarSpec("s", INT8, 128).make)
