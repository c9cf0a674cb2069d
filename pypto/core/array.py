"""`Array`: an immutable concrete value backed by NumPy, and the operators every array-like value shares."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from pypto.core.avals import ArrayAval, Aval
from pypto.core.op import OPS
from pypto.dtypes import DType, dtype_of
from pypto.errors import ShapeError


def _binary(name: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        return OPS[name](self, other) if _is_operand(other) else NotImplemented

    return method


def _reflected(name: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        return OPS[name](other, self) if _is_operand(other) else NotImplemented

    return method


def _unary(name: str) -> Callable[[Any], Any]:
    return lambda self: OPS[name](self)


def _is_operand(x: Any) -> bool:
    return isinstance(x, Operators | np.ndarray | np.generic | bool | int | float)


class Operators:
    """Arithmetic and comparison by the ops of these names; what an op call becomes is up to the current trace."""

    __array_priority__ = 1000  # NumPy arrays on the left leave the operation to us
    __array_ufunc__ = None

    __add__, __radd__ = _binary("add"), _reflected("add")
    __sub__, __rsub__ = _binary("sub"), _reflected("sub")
    __mul__, __rmul__ = _binary("mul"), _reflected("mul")
    __truediv__, __rtruediv__ = _binary("div"), _reflected("div")
    __floordiv__, __rfloordiv__ = _binary("floor_div"), _reflected("floor_div")
    __mod__, __rmod__ = _binary("floor_mod"), _reflected("floor_mod")
    __neg__, __abs__ = _unary("neg"), _unary("abs")
    __lt__, __le__, __gt__, __ge__ = _binary("lt"), _binary("le"), _binary("gt"), _binary("ge")
    __eq__ = _binary("eq")  # type: ignore[assignment]
    __ne__ = _binary("ne")  # type: ignore[assignment]
    __hash__ = object.__hash__

    def __matmul__(self, other: Any) -> Any:
        return OPS["matmul"](self, other)

    def __pos__(self) -> Any:
        return self


class Array(Operators):
    """An immutable array of one of the dtypes of `pypto.dtypes.DTYPES`.

    Reads NumPy, JAX and torch arrays (anything with `__array__` or `__dlpack__`) and is read by them.

    >>> Array(np.arange(3, dtype=np.float32)) + 1.0
    Array([1., 2., 3.], dtype=FP32)
    """

    __slots__ = ("_data", "aval")

    def __init__(self, data: Any, dtype: DType | None = None) -> None:
        raw = to_numpy(data)
        kind = dtype or dtype_of(raw.dtype)
        stored = np.array(raw, dtype=kind.storage, order="C", copy=True)
        stored.flags.writeable = False
        self._data: np.ndarray = stored
        self.aval: Aval = ArrayAval(stored.shape, kind)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._data.shape

    @property
    def ndim(self) -> int:
        return self._data.ndim

    @property
    def size(self) -> int:
        return self._data.size

    @property
    def dtype(self) -> DType:
        return self.aval.dtype

    @property
    def T(self) -> Any:  # the name NumPy and JAX users know
        """The array with its axes reversed."""
        return OPS["transpose"](self, permutation=tuple(range(self.ndim))[::-1])

    def astype(self, dtype: Any) -> Any:
        """Convert as `lax.convert` does: to floats to nearest even, to integers toward zero."""
        return OPS["convert"](self, dtype=dtype_of(dtype))

    def reshape(self, *shape: Any) -> Any:
        """The same elements in row-major order under another shape; one extent may be -1."""
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        return OPS["reshape"](self, shape=resolve_shape(tuple(wanted), self.size))

    def __getitem__(self, index: Any) -> Array:
        return Array(self._data[index], self.dtype)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a 0-d array has no length")
        return self.shape[0]

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if dtype is not None and np.dtype(dtype) != self._data.dtype:
            return self._data.astype(dtype)
        return self._data.copy() if copy else self._data

    def __dlpack__(self, **kwargs: Any) -> Any:
        # NumPy refuses to export read-only memory below DLPack 1.0, so the consumer gets its own copy
        return self._data.copy().__dlpack__(**{k: v for k, v in kwargs.items() if k != "copy"})

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__()

    def item(self) -> Any:
        """The only element, as a Python number."""
        return self._data.item()

    def tolist(self) -> Any:
        return self._data.tolist()

    def __bool__(self) -> bool:
        return bool(self._data)

    def __int__(self) -> int:
        return int(self._data)

    def __float__(self) -> float:
        return float(self._data)

    def __index__(self) -> int:
        return operator.index(self._data.item())

    def __repr__(self) -> str:
        shown = self._data.astype(np.float32) if self.dtype.is_float else self._data
        text = np.array2string(shown, separator=", ", prefix="Array(")
        return f"Array({text}, dtype={self.dtype.name})"


def resolve_shape(shape: tuple[Any, ...], size: int) -> tuple[int, ...]:
    """A shape in which one -1 stands for whatever is left.

    Errors:
      PL301 when the sizes do not fit.
    """
    wanted = tuple(int(d) for d in shape)
    known = math.prod(d for d in wanted if d != -1)
    if wanted.count(-1) == 1 and known and size % known == 0:
        wanted = tuple(size // known if d == -1 else d for d in wanted)
    if math.prod(wanted) != size or any(d < 0 for d in wanted):
        raise ShapeError("PL301", f"{size} elements do not make a shape {list(shape)}", fix="give a shape with as many elements")
    return wanted


def to_numpy(x: Any) -> np.ndarray:
    """The NumPy view of an array-like value, without importing the library it comes from.

    Python numbers become BOOL, INT32 (INT64 if they do not fit) or FP32; torch BF16 goes through its bits.
    """
    if isinstance(x, np.ndarray):
        return x
    if isinstance(x, Array):
        return x._data
    if isinstance(x, bool):
        return np.asarray(x)
    if isinstance(x, int):
        return np.asarray(x, np.int32 if -(2**31) <= x < 2**31 else np.int64)
    if isinstance(x, float):
        return np.asarray(x, np.float32)
    if type(x).__module__.split(".")[0] == "torch":
        return _from_torch(x)
    if isinstance(x, list | tuple):
        plain = np.asarray(x)
        narrow = {"float64": np.float32, "int64": np.int32}.get(plain.dtype.name)
        return plain.astype(narrow) if narrow else plain
    return np.asarray(x)


def _from_torch(x: Any) -> np.ndarray:
    host = x.detach().cpu()
    if str(host.dtype) == "torch.bfloat16":
        torch = sys.modules["torch"]  # loaded: the value came from it
        return host.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return host.numpy()
