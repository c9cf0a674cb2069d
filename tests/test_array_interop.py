"""`Array` into and out of other libraries: NumPy, JAX, torch, and whatever speaks DLPack."""

import sys
import types

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from pypto import Array, dtypes
from pypto.errors import ShapeError
from tests.bits import identical

BF16 = ml_dtypes.bfloat16
BF16 = ml_dtypes.bfloat16
X = np.array([[1.5, -2.0, 3.25], [0.0, -0.0, np.inf]], np.float32)
KINDS = [dtypes.FP32, dtypes.FP16, dtypes.BF16, dtypes.INT8, dtypes.INT32, dtypes.UINT16, dtypes.BOOL]


def values(dtype):
    return np.array([[0, 1, 2], [3, 4, 100]]).astype(dtype.storage)


@pytest.mark.parametrize("dtype", KINDS, ids=repr)
def test_numpy_arrays_come_and_go_unchanged(dtype):
    source = values(dtype)
    array = Array(source)
    assert array.dtype is dtype and array.shape == (2, 3) and array.ndim == 2 and array.size == 6
    assert np.asarray(array).dtype == dtype.storage and np.asarray(array).tobytes() == source.tobytes()


@pytest.mark.parametrize("dtype", KINDS, ids=repr)
def test_jax_arrays_come_and_go_unchanged(dtype):
    source = jnp.asarray(values(dtype))
    array = Array(source)
    assert array.dtype is dtype
    back = jnp.asarray(array)
    assert back.dtype == source.dtype and np.asarray(back).tobytes() == np.asarray(source).tobytes()


@pytest.mark.parametrize("dtype", [k for k in KINDS if k is not dtypes.BF16], ids=repr)
def test_dlpack_takes_the_elements_out(dtype):
    source = values(dtype)
    assert np.from_dlpack(Array(source)).tobytes() == source.tobytes()
    assert np.asarray(jax.dlpack.from_dlpack(Array(source))).tobytes() == source.tobytes()


def test_numpy_cannot_pack_bf16_and_says_so_with_the_protocols_error():
    with pytest.raises(BufferError):
        np.from_dlpack(Array(values(dtypes.BF16)))


class Packed:
    """An array of another library that only speaks DLPack."""

    def __init__(self, data):
        self.data = data

    def __dlpack__(self, **options):
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.data.__dlpack_device__()


def test_an_array_is_made_of_anything_that_speaks_dlpack():
    assert identical(Array(Packed(X.copy())), X)


class TorchLike:
    """What the library touches of a torch tensor; torch itself is not needed to test it."""

    def __init__(self, data, dtype, steps=()):
        self._data, self.dtype, self.steps = data, dtype, steps

    def detach(self):
        return TorchLike(self._data, self.dtype, (*self.steps, "detach"))

    def cpu(self):
        return TorchLike(self._data, self.dtype, (*self.steps, "cpu"))

    def view(self, dtype):
        return TorchLike(self._data.view(dtype), "torch.int16", self.steps)

    def numpy(self):
        assert self.steps == ("detach", "cpu"), "a tensor may need a gradient, or be on a device"
        if str(self.dtype) == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self._data


@pytest.fixture
def torch(monkeypatch):
    module = types.ModuleType("torch")
    module.int16 = np.int16  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", module)
    monkeypatch.setattr(TorchLike, "__module__", "torch")
    return module


def test_torch_tensors_are_read_detached_and_on_the_host(torch):
    assert identical(Array(TorchLike(X, "torch.float32")), X)


def test_torch_bf16_comes_by_its_bits(torch):
    array = Array(TorchLike(X.astype(BF16), "torch.bfloat16"))
    assert array.dtype is dtypes.BF16 and identical(array, X.astype(BF16))


def test_numpy_may_ask_for_another_dtype_or_for_a_copy():
    array = Array(X)
    assert np.asarray(array, np.float64).dtype == np.float64
    copied = np.array(array)
    copied[0, 0] = 9
    assert identical(array, X)


def test_double_precision_is_refused_and_named():
    with pytest.raises(ShapeError) as caught:
        Array(np.zeros(3))
    assert caught.value.code == "PL305" and "float64" in caught.value.message
