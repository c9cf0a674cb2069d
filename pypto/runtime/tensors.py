"""`DeviceTensor`: memory of a worker. Data moves only by explicit copies; programs use it where it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto.core.allocation import zeros
from pypto.core.array import to_numpy
from pypto.dtypes import DType, dtype_of
from pypto.errors import CallError

if TYPE_CHECKING:
    from pypto.runtime.worker import ChipWorker


class DeviceTensor:
    """A tensor that lives on a worker; made by `ChipWorker.alloc_tensor`.

    Attributes:
      shape, dtype: of its elements.
    """

    __slots__ = ("_memory", "_worker", "dtype", "shape")

    # kernels look for this name: they do not know this class
    __pypto_resident__ = True

    def __init__(self, worker: ChipWorker, shape: Sequence[int], dtype: Any) -> None:
        self.shape = tuple(int(n) for n in shape)
        self.dtype: DType = dtype_of(dtype)
        if any(n < 0 for n in self.shape):
            raise CallError("PL602", f"{list(self.shape)} is no shape", fix="extents of 0 and more")
        self._worker: ChipWorker = worker
        self._memory: np.ndarray | None = zeros(f"a tensor of worker {worker.name}", self.dtype, self.shape)

    def __repr__(self) -> str:
        state = "" if self._memory is not None else ", freed"
        return f"<DeviceTensor {self.dtype}[{','.join(map(str, self.shape))}] of worker {self._worker.name}{state}>"

    @property
    def memory(self) -> np.ndarray:
        """Its elements where they are. For the runtime: programs and copies go through the worker.

        Errors:
          PL609 after it was freed.
        """
        if self._memory is None:
            raise CallError("PL609", f"{self!r} was freed, or its worker closed", fix="allocate another one; free it after its last use")
        return self._memory

    @property
    def worker(self) -> ChipWorker:
        """The worker whose memory it is."""
        return self._worker

    @property
    def data_ptr(self) -> int:
        """The address of its first element; only its worker's copies take it."""
        return self.memory.ctypes.data

    @property
    def nbytes(self) -> int:
        """Its size."""
        return math.prod(self.shape) * self.dtype.storage.itemsize

    def copy_from(self, host: Any) -> None:
        """Copy a host array of the same shape and dtype to the device.

        Errors:
          PL602 for another shape or dtype, PL609 after it was freed.
        """
        data = to_numpy(host)
        if data.shape != self.shape or data.dtype != self.dtype.storage:
            raise CallError(
                "PL602", f"{data.dtype}{list(data.shape)} does not fit {self!r}", fix=f"pass {self.dtype.storage}{list(self.shape)}"
            )
        with self._worker.exclusive():
            self.memory[...] = data

    def copy_to(self, host: Any) -> None:
        """Copy its elements to a host array of the same shape and dtype, a NumPy or torch one.

        Errors:
          PL602 for another shape or dtype, PL604 for an array that cannot be written, PL609 after it was freed.
        """
        data = to_numpy(host)
        if data.shape != self.shape or data.dtype != self.dtype.storage:
            raise CallError(
                "PL602", f"{self!r} does not fit {data.dtype}{list(data.shape)}", fix=f"pass {self.dtype.storage}{list(self.shape)}"
            )
        with self._worker.exclusive():
            written_in_place(host)[...] = self.memory

    def numpy(self) -> np.ndarray:
        """A copy of its elements on the host.

        Errors:
          PL609 after it was freed.
        """
        with self._worker.exclusive():
            return self.memory.copy()

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise CallError("PL609", f"{self!r} is on the device: it is never copied by accident", fix="t.numpy() copies it")

    def release(self) -> None:
        """Give the memory back. For the worker: `ChipWorker.free_tensor` is the way to free one."""
        self._memory = None


def written_in_place(host: Any) -> np.ndarray:
    """A host array as NumPy writes it: the memory of a NumPy or torch one.

    Errors:
      PL604 for anything else, and for a read-only array.
    """
    data = to_numpy(host)
    is_memory = isinstance(host, np.ndarray) or type(host).__module__.split(".")[0] == "torch"
    if not is_memory or not data.flags.writeable:
        raise CallError("PL604", f"a {type(host).__name__} cannot be written in place", fix="t.numpy() gives a copy")
    return data
