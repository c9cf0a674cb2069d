"""What a kernel is called with: one spec per parameter, from which seeded values are made."""

from __future__ import annotations

import hashlib
import inspect
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto import hifloat, numerics
from pypto.core.array import to_numpy as of_torch
from pypto.dtypes import HF8, DType, dtype_of
from pypto.errors import NumericsError

Array = np.ndarray[Any, Any]
Init = Callable[[np.random.Generator, tuple[int, ...]], Any] | Array | float | str
"""How a tensor starts: a function of (rng, shape), an array, a number, or a name out of `NAMED`."""

NAMED = ("normal", "uniform", "ones", "zeros", "arange")


def to_numpy(value: Any) -> Array:
    """A NumPy array of anything array-like, without importing the library it comes from; memory is shared where it can be."""
    if type(value).__module__.split(".")[0] == "torch":  # which may require a gradient, or be of a dtype that NumPy cannot name
        return of_torch(value)
    try:
        return np.asarray(value)
    except (TypeError, RuntimeError):  # what behaves as a torch tensor does
        if not hasattr(value, "detach"):
            raise
    plain = value.detach()
    try:
        return np.asarray(plain)
    except TypeError:
        return np.asarray(plain.float())


def round_to(values: Any, dtype: Any) -> Array:
    """The values in `dtype`, each rounded once to nearest even (to HF8, ties away from zero); integers must fit exactly.

    >>> round_to([1 + 2.0**-8 + 2.0**-40], "bf16").astype(float)  # above the midpoint; by way of FP32 it would be a tie
    array([1.0078125])
    """
    kind = dtype_of(dtype)
    source = to_numpy(values)
    if source.dtype == kind.storage:
        return source.copy()
    if source.dtype == HF8.storage:
        source = numerics.numbers(source)
    with np.errstate(all="ignore"):
        if kind is HF8:
            return hifloat.encode(source.astype(np.float64), "ieee")
        if not kind.is_float:
            return _exact_integers(source, kind)
        if kind.mantissa < 23 and source.dtype.kind in "iuf" and source.dtype.itemsize == 8:
            source = _to_odd(source.astype(np.float64))
        return source.astype(kind.storage)


def _exact_integers(source: Array, kind: DType) -> Array:
    result = source.astype(kind.storage)
    if not np.array_equal(result.astype(source.dtype), source) or not np.array_equal(result.astype(np.float64) < 0, source < 0):
        found = f"{source.dtype} between {source.min()} and {source.max()}"
        raise NumericsError("PL702", f"values that {kind.name} cannot hold exactly: {found}", fix="round and clip them first")
    return result


def _to_odd(values: Array) -> Array:
    """FP64 → FP32, inexact results made odd: a second rounding, to fewer bits, then equals one rounding of the FP64 value."""
    near = values.reshape(-1).astype(np.float32)
    back, exactly = near.astype(np.float64), values.reshape(-1)
    inexact = (back != exactly) & np.isfinite(back)
    bits = near.view(np.int32)
    bits -= inexact & (np.abs(back) > np.abs(exactly))  # toward zero, then the last bit says that there was more
    bits |= inexact
    return near.reshape(values.shape)


def _rng(seed: int, name: str) -> np.random.Generator:
    """A stream of its own for every name, so that another spec does not change this one's values."""
    digest = hashlib.sha256(name.encode()).digest()
    return np.random.default_rng([seed, int.from_bytes(digest[:8], "little")])


@dataclass(frozen=True, init=False, eq=False)
class TensorSpec:
    """One tensor parameter.

    Args:
      name: the parameter's name; it also seeds its values.
      shape: its extents.
      dtype: a pypto dtype, or anything that names one.
      init: how it starts. A function of (rng, shape), or of nothing, a factory of torch such as torch.randn, an array of that shape,
        a number, or one of "normal", "uniform" (floats in
        [0, 1); integers in -128..127 as far as the dtype goes; booleans by coin), "ones", "zeros", "arange". Default: "normal"
        for floats, "uniform" otherwise. Floats are made in FP64 and rounded once.
      output: the kernel only writes it. Given together with `init`, it is an inout, as in PyPTO's golden tests.
      inout: the kernel reads it and writes it.
      is_output, init_value: the original's spelling of `output` and `init`.

    Attributes:
      library: whose dtype it was given, "torch", "jax" or "numpy": goldens and comparisons of a test run get such arrays.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    init: Init | None
    output: bool
    inout: bool
    library: str

    def __init__(
        self,
        name: str,
        shape: Sequence[int],
        dtype: Any,
        *,
        init: Init | None = None,
        output: bool = False,
        inout: bool = False,
        is_output: bool = False,
        init_value: Init | None = None,
    ) -> None:
        if init is not None and init_value is not None:
            raise NumericsError("PL702", f"{name}: both init and init_value are given", fix="keep one; they mean the same")
        start = init if init is not None else init_value
        if isinstance(start, str) and start not in NAMED:
            raise NumericsError("PL702", f"{name}: there is no init named {start!r}", fix=f"use one of {', '.join(NAMED)}")
        both = inout or ((output or is_output) and start is not None)
        fields = {
            "name": name,
            "shape": tuple(int(n) for n in shape),
            "dtype": dtype_of(dtype),
            "init": start,
            "library": library_of(dtype),
        }
        for field, value in {**fields, "output": (output or is_output) and not both, "inout": both}.items():
            object.__setattr__(self, field, value)

    @property
    def written(self) -> bool:
        """Whether the kernel writes it."""
        return self.output or self.inout

    def make(self, seed: int = 0) -> Array:
        """A new array with this tensor's starting values; pure outputs hold `poison`."""
        if self.output:
            return np.full(self.shape, poison(self.dtype), dtype=self.dtype.storage)
        values = self._values(_rng(seed, self.name))
        if values.shape not in ((), self.shape):
            raise NumericsError(
                "PL702", f"{self.name}: init has shape {list(values.shape)}, the spec says {list(self.shape)}", fix="make them agree"
            )
        return np.broadcast_to(round_to(values, self.dtype), self.shape).copy()

    def _values(self, rng: np.random.Generator) -> Array:
        init = self.init
        if init is None:
            init = "normal" if self.dtype.is_float else "uniform"
        if callable(init):
            return to_numpy(_called(init, rng, self.shape))
        if not isinstance(init, str):
            return to_numpy(init)
        if init in ("ones", "zeros"):
            return np.full(self.shape, float(init == "ones"))
        if init == "arange":
            return np.arange(math.prod(self.shape)).reshape(self.shape)
        if self.dtype.is_float:
            return rng.standard_normal(self.shape) if init == "normal" else rng.random(self.shape)
        if init == "normal":
            raise NumericsError("PL702", f"{self.name}: init 'normal' is for floats, not {self.dtype.name}", fix="use 'uniform'")
        low, high = int(self.dtype.min_value), int(self.dtype.max_value)
        return rng.integers(max(low, -128), min(high, 127 if low < 0 else 255), self.shape, endpoint=True)


def library_of(dtype: Any) -> str:
    """The library a dtype is of: "torch", "jax", or "numpy" for NumPy's and this library's own.

    >>> library_of(np.float32)
    'numpy'
    """
    for owner in (dtype, type(dtype)):
        name = str(getattr(owner, "__module__", "")).split(".")[0]
        if name in ("torch", "jax"):
            return name
    return "numpy"


def as_library(array: Array, library: str) -> Any:
    """An array as one of a library that is loaded already; of torch and NumPy, in the same memory.

    >>> as_library(np.float32([1, 2]), "numpy")
    array([1., 2.], dtype=float32)
    """
    if library == "numpy":
        return array
    module = sys.modules[library]  # loaded: a dtype of it was given
    if library == "jax":
        return module.numpy.asarray(array.copy())
    if array.dtype.isbuiltin == 1:
        return module.from_numpy(array)
    same_bits = module.from_numpy(array.view(f"i{array.dtype.itemsize}") if array.dtype.itemsize > 1 else array.view(np.uint8))
    return same_bits.view(getattr(module, array.dtype.name))


def _called(init: Any, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """What a function makes: a factory of torch gets the shape and a seeded generator, a function without parameters nothing."""
    torch = sys.modules.get("torch")
    if torch is not None and any(init is getattr(torch, name) for name in ("randn", "rand", "zeros", "ones")):
        if init in (torch.zeros, torch.ones):
            return init(shape)
        return init(shape, generator=torch.Generator().manual_seed(int(rng.integers(2**62))))
    try:
        parameters = inspect.signature(init).parameters.values()
    except ValueError:  # built in, without a signature
        return init(rng, shape)
    required = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return init(rng, shape) if required or any(p.kind is p.VAR_POSITIONAL for p in parameters) else init()


@dataclass(frozen=True)
class ScalarSpec:
    """One scalar parameter: the kernel and the golden get `value`, rounded to `dtype`, as a Python number."""

    name: str
    dtype: Any
    value: float

    def make(self, seed: int = 0) -> bool | int | float:
        """The Python number; `seed` is there because tensors have it."""
        kind = dtype_of(self.dtype)
        rounded = round_to(self.value, kind)
        if rounded.ndim:
            raise NumericsError("PL702", f"{self.name}: a scalar has one value, not shape {list(rounded.shape)}", fix="use TensorSpec")
        if kind.is_float:
            return float(numerics.numbers(rounded))
        return bool(rounded) if kind.storage == np.bool_ else int(rounded)


def poison(dtype: DType) -> Any:
    """What an output holds before the kernel writes it: NaN where there is one, otherwise the value furthest from zero."""
    if dtype.is_float:
        value = round_to(np.nan, dtype)
        if np.isnan(numerics.widened(value)):
            return value[()]
    return np.array(dtype.min_value or dtype.max_value).astype(dtype.storage)[()]
