"""`Array`: an immutable concrete value backed by NumPy, and the operators every array-like value shares."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from pypto import dtypes, numerics
from pypto.core.avals import ArrayAval, Aval
from pypto.core.op import OPS
from pypto.dtypes import DType, dtype_of
from pypto.errors import CallError, ShapeError


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


INDEXING: dict[str, Callable[..., Any]] = {}
"""What subscripts become: `get` is `x[key]`, `at` is `x.at`. Filled in by `pypto.lax`."""


class Operators:
    """Arithmetic, comparison and subscripts by the ops of these names; what an op call becomes is up to the current trace."""

    __slots__ = ()
    __array_priority__ = 1000  # NumPy arrays on the left leave the operation to us

    __add__, __radd__ = _binary("add"), _reflected("add")
    __sub__, __rsub__ = _binary("sub"), _reflected("sub")
    __mul__, __rmul__ = _binary("mul"), _reflected("mul")
    __truediv__, __rtruediv__ = _binary("div"), _reflected("div")
    __floordiv__, __rfloordiv__ = _binary("floor_div"), _reflected("floor_div")
    __mod__, __rmod__ = _binary("floor_mod"), _reflected("floor_mod")
    __and__, __rand__ = _binary("and"), _reflected("and")
    __or__, __ror__ = _binary("or"), _reflected("or")
    __xor__, __rxor__ = _binary("xor"), _reflected("xor")
    __lshift__, __rlshift__ = _binary("shl"), _reflected("shl")
    __rshift__, __rrshift__ = _binary("shr"), _reflected("shr")
    __neg__, __abs__, __invert__ = _unary("neg"), _unary("abs"), _unary("not")
    __rpow__ = _reflected("pow")
    __lt__, __le__, __gt__, __ge__ = _binary("lt"), _binary("le"), _binary("gt"), _binary("ge")
    __eq__ = _binary("eq")  # type: ignore[assignment]
    __ne__ = _binary("ne")  # type: ignore[assignment]
    __hash__ = object.__hash__

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, int) and not isinstance(other, bool):
            return OPS["integer_pow"](self, y=other)
        return OPS["pow"](self, other) if _is_operand(other) else NotImplemented

    __matmul__, __rmatmul__ = _binary("matmul"), _reflected("matmul")

    def __pos__(self) -> Any:
        return self

    def __getitem__(self, index: Any) -> Any:
        return INDEXING["get"](self, index)

    @property
    def at(self) -> Any:
        """Functional updates: `x.at[key].set(v)`, `.add`, `.multiply`, `.min`, `.max`, and `.get`."""
        return INDEXING["at"](self)


class ArrayMethods(Operators):
    """What whole arrays have beside operators, concrete or traced."""

    __slots__ = ()

    if TYPE_CHECKING:  # whoever mixes this in has them

        @property
        def aval(self) -> Aval: ...
        @property
        def shape(self) -> tuple[Any, ...]: ...
        @property
        def ndim(self) -> int: ...
        @property
        def dtype(self) -> DType: ...

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def T(self) -> Any:  # the name NumPy and JAX users know
        """The array with its axes reversed."""
        return OPS["transpose"](self, permutation=tuple(range(self.ndim))[::-1])

    def astype(self, dtype: Any) -> Any:
        """Convert as `lax.convert_element_type` does: to floats to nearest even, to integers toward zero."""
        target = dtype_of(dtype)
        return OPS["convert"](self, dtype=target, **conversion(self.dtype, target))

    def reshape(self, *shape: Any) -> Any:
        """The same elements in row-major order under another shape; one extent may be -1."""
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        return OPS["reshape"](self, shape=resolve_shape(tuple(wanted), self.size))

    def _operand(self, dtype: Any, out: Any) -> Any:
        if out is not None:
            raise CallError("PL601", "an Array is immutable: there is no `out`", fix="use what the method returns")
        return self if dtype is None else self.astype(dtype)

    def sum(self, axis: Any = None, dtype: Any = None, out: None = None, *, keepdims: bool = False) -> Any:
        """`lax.reduce_sum` over an axis, several, or all; with `dtype`, of the elements converted to it."""
        return OPS["reduce_sum"](self._operand(dtype, out), axes=axis, keepdims=keepdims)

    def prod(self, axis: Any = None, dtype: Any = None, out: None = None, *, keepdims: bool = False) -> Any:
        """`lax.reduce_prod` over an axis, several, or all; with `dtype`, of the elements converted to it."""
        return OPS["reduce_prod"](self._operand(dtype, out), axes=axis, keepdims=keepdims)

    def max(self, axis: Any = None, out: None = None, *, keepdims: bool = False) -> Any:
        """`lax.reduce_max` over an axis, several, or all."""
        return OPS["reduce_max"](self._operand(None, out), axes=axis, keepdims=keepdims)

    def min(self, axis: Any = None, out: None = None, *, keepdims: bool = False) -> Any:
        """`lax.reduce_min` over an axis, several, or all."""
        return OPS["reduce_min"](self._operand(None, out), axes=axis, keepdims=keepdims)

    def mean(self, axis: Any = None, dtype: Any = None, out: None = None, *, keepdims: bool = False) -> Any:
        """The average over an axis, several, or all.

        Sum and count are FP32: neither overflows or is rounded to a narrow dtype. Their quotient is rounded once to `dtype`,
        by default the elements' own, or FP32 for those that are no floats.
        """
        own = self.dtype if self.dtype.is_float else dtypes.FP32
        result = own if dtype is None else dtype_of(dtype)
        total = self.sum(axis, None if self.dtype is dtypes.FP32 else dtypes.FP32, out, keepdims=keepdims)
        average = total / float(self.size // max(1, math.prod(total.shape)))
        return average if result is dtypes.FP32 else average.astype(result)


class _Gone:
    """The data of an array that was given away."""

    def __init__(self, aval: Aval) -> None:
        self._aval = aval

    def __getattr__(self, name: str) -> Any:
        raise CallError("PL621", f"this array, {self._aval}, was donated to a function and is gone", fix="use what the function returned")


class Array(ArrayMethods):
    """An immutable array of one of the dtypes of `pypto.dtypes.DTYPES`.

    Reads NumPy, JAX and torch arrays (anything with `__array__` or `__dlpack__`), numbers and nested lists, and is read by
    those libraries. Nobody can write to it: what they get is a read-only view, or a copy.

    Args:
      data: what it holds, copied.
      dtype: its dtype. Numbers and lists are rounded to it once; arrays are converted as `lax.convert_element_type` does.
        By default an array keeps its dtype, and numbers become BOOL, INT32 (INT64 if one does not fit) or FP32.
    Errors:
      PL305 for data without a row in the dtype table (float64), PL308 for a number the dtype does not hold.

    >>> Array(np.arange(3, dtype=np.float32)) + 1.0
    Array([1., 2., 3.], dtype=FP32)
    """

    __slots__ = ("_aval", "_data")

    def __init__(self, data: Any, dtype: Any = None) -> None:
        kind = None if dtype is None else dtype_of(dtype)
        raw = to_numpy(data) if kind is None else _converted(data, kind)
        kind = kind or dtype_of(raw.dtype)
        stored = np.array(raw, dtype=kind.storage, order="C", copy=True)
        stored.flags.writeable = False
        self._data: np.ndarray = stored
        self._aval: Aval = ArrayAval(stored.shape, kind)

    @property
    def aval(self) -> Aval:
        return self._aval

    @classmethod
    def adopt(cls, data: np.ndarray, aval: Aval) -> Array:
        """An array that takes over memory nobody else writes to, of the shape and storage `aval` says: nothing is copied."""
        made = cls.__new__(cls)
        data.flags.writeable = False
        made._data, made._aval = data, aval
        return made

    @property
    def shape(self) -> tuple[int, ...]:
        return self._aval.shape  # type: ignore[return-value]

    @property
    def ndim(self) -> int:
        return len(self._aval.shape)

    @property
    def dtype(self) -> DType:
        return self.aval.dtype

    def delete(self) -> None:
        """Let go of the data: whoever uses the array from now on gets PL621. `jit` does it to donated arguments."""
        self._data = _Gone(self._aval)  # type: ignore[assignment]

    def is_deleted(self) -> bool:
        """Whether its data were let go."""
        return isinstance(self._data, _Gone)

    def __getitem__(self, index: Any) -> Any:
        parts = index if isinstance(index, tuple) else (index,)
        if all(p is None or p is Ellipsis or isinstance(p, slice | int | np.integer) for p in parts):
            return Array(self._data[index], self.dtype)
        return super().__getitem__(index)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a 0-d array has no length")
        return self.shape[0]

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if dtype is not None and np.dtype(dtype) != self._data.dtype:
            return numerics.numbers(self._data).astype(dtype)
        return self._data.copy() if copy else self._data.view()  # whoever owns memory can make it writable again

    def __dlpack__(self, **kwargs: Any) -> Any:
        # NumPy refuses to export read-only memory below DLPack 1.0, so the consumer gets its own copy; BF16 it cannot export
        return self._data.copy().__dlpack__(**{k: v for k, v in kwargs.items() if k != "copy"})

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__()

    def item(self) -> Any:
        """The only element, as a Python number."""
        return numerics.numbers(self._data).item()

    def tolist(self) -> Any:
        return numerics.numbers(self._data).tolist()

    def __bool__(self) -> bool:
        return bool(numerics.numbers(self._data))

    def __int__(self) -> int:
        return int(numerics.numbers(self._data))

    def __float__(self) -> float:
        return float(numerics.numbers(self._data))

    def __index__(self) -> int:
        if self.shape or not self.dtype.is_integer:
            raise TypeError(f"{self.aval} is no index: an integer without axes is")
        return operator.index(self._data.item())

    def __repr__(self) -> str:
        shown = numerics.widened(self._data) if self.dtype.is_float else self._data
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
        return np.asarray(x, np.int32) if -(2**31) <= x < 2**31 else np.asarray(numerics.round_literal(x, dtypes.INT64))
    if isinstance(x, float):
        return np.asarray(numerics.round_literal(x, dtypes.FP32))
    if type(x).__module__.split(".")[0] == "torch":
        return _from_torch(x)
    if isinstance(x, list | tuple):
        return _natural(np.asarray(x))
    if not hasattr(x, "__array__") and hasattr(x, "__dlpack__"):
        return np.from_dlpack(x)
    return np.asarray(x)


def _natural(numbers: np.ndarray) -> np.ndarray:
    """Python numbers in the dtype they have by default."""
    if numbers.dtype == np.float64:
        return _rounded(numbers, dtypes.FP32)
    if numbers.dtype == np.int64 and np.all(numbers == numbers.astype(np.int32)):
        return numbers.astype(np.int32)
    return numbers


def _rounded(numbers: np.ndarray, dtype: DType) -> np.ndarray:
    """Python numbers, each rounded once to a dtype."""
    elements = [numerics.round_literal(x, dtype) for x in numbers.ravel().tolist()]
    return np.array(elements, dtype.storage).reshape(numbers.shape)


def _converted(data: Any, dtype: DType) -> np.ndarray:
    """Data in the storage type of a dtype."""
    if isinstance(data, bool | int | float | list | tuple):
        plain = np.asarray(data)
        if plain.dtype in (np.float64, np.int64, np.uint64, np.bool_):
            return _rounded(plain, dtype)
    raw = to_numpy(data)
    if raw.dtype == dtype.storage:
        return raw
    source = dtype_of(raw.dtype)
    return numerics.convert(raw, source, dtype, **conversion(source, dtype))


def conversion(source: DType, target: DType) -> dict[str, str]:
    """Rounding mode and overflow rule with which JAX converts: integers keep the low bits, floats truncate to integers."""
    return {"mode": "trunc" if source.is_float and target.is_integer else "rint", "overflow": "saturate" if source.is_float else "wrap"}


def _from_torch(x: Any) -> np.ndarray:
    """The memory of a torch tensor; dtypes that NumPy cannot name by their bits."""
    host = x.detach().cpu()
    own = _TORCH_ONLY.get(str(host.dtype))
    if own is not None:
        torch = sys.modules["torch"]  # loaded: the value came from it
        return host.view(torch.int16 if own.itemsize == 2 else torch.uint8).numpy().view(own)
    return host.numpy()


_TORCH_ONLY = {
    f"torch.{dtype.name}": dtype
    for dtype in map(np.dtype, (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e8m0fnu))
}
