"""Arrays of zeros; where this machine has no memory for an array, the error says which one it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pypto.core.avals import Aval
from pypto.dtypes import DType
from pypto.errors import OutOfMemoryError, PyptoError

MOST_BYTES = 1 << 47
"""No array has more: that is what a process can address."""


def no_memory(what: str, dtype: DType, shape: Sequence[int], at: Any = None) -> OutOfMemoryError:
    """The error of an array of this shape."""
    size = _bytes(dtype, shape)
    return OutOfMemoryError("PL407", f"no memory for {what}, {dtype.name} {list(shape)}: {size:,} bytes", fix="a smaller one", at=at)


def zeros(what: str, dtype: DType, shape: Sequence[int], at: Any = None) -> np.ndarray:
    """An array of zeros. `what` it is, the error says.

    Errors:
      PL407 for more than there is.
    """
    try:
        return np.zeros(shape, dtype.storage)
    except (MemoryError, ValueError):  # more than there is, or than an array can have
        raise no_memory(what, dtype, shape, at) from None


def explain_memory(error: MemoryError | ValueError, op: str, results: Sequence[Aval], at: Any = None) -> None:
    """Of a failed operation: raise PL407 if its results are what there is no memory for. Any other error is the caller's to raise.

    NumPy reports what no array can have as a ValueError, so the size decides there.
    """
    if isinstance(error, PyptoError):
        return
    sizes = [_bytes(r.dtype, r.static_shape) for r in results]
    largest = sizes.index(max(sizes))
    if isinstance(error, MemoryError) or sizes[largest] > MOST_BYTES:
        raise no_memory(f"the result of {op}", results[largest].dtype, results[largest].static_shape, at) from None


def _bytes(dtype: DType, shape: Sequence[int]) -> int:
    size = dtype.itemsize
    for n in shape:
        size *= int(n)
    return size
