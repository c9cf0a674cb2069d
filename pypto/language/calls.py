"""Calling a kernel from Python: arguments in, checked against the declared types; outputs back, or nothing changed."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto import numerics
from pypto.core.allocation import zeros
from pypto.core.array import Array, to_numpy
from pypto.core.avals import Aval, RefAval, scalar
from pypto.dtypes import HF8, DType, dtype_of
from pypto.errors import CallError, PyptoError, together
from pypto.language.front import resident
from pypto.language.types import IN, INOUT, OUT, Annotation, ArrayType, ScalarType, Symbol, TensorType
from pypto.source import Source


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel: its name and what its annotation says, None for a plain Python value; `by_name` stands after `*`."""

    name: str
    type: Annotation | None
    default: Any = inspect.Parameter.empty
    by_name: bool = False

    @property
    def is_output(self) -> bool:
        return isinstance(self.type, TensorType) and self.type.direction != IN


@dataclass(frozen=True)
class Signature:
    """A kernel's parameters and results, and the `def` line that errors about them point to."""

    name: str
    parameters: tuple[Parameter, ...]
    source: Source
    returns: Annotation | None = None

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """One value per parameter; `OMITTED` for outputs left out.

        Errors:
          PL601 for too many, unknown or missing arguments, PL603 for a missing InOut.
        """
        names = [p.name for p in self.parameters]
        in_order = [p.name for p in self.parameters if not p.by_name]
        if len(args) > len(in_order):
            raise CallError("PL601", f"{self.name}() takes {len(in_order)} arguments in order, got {len(args)}", fix=self._usage())
        given = dict(zip(in_order, args, strict=False))
        for key, value in kwargs.items():
            if key not in names:
                raise CallError(
                    "PL601", f"`{key}` is not a parameter of kernel `{self.name}`", fix=f"{self._usage()}; compile options go in config="
                )
            if key in given:
                raise CallError("PL601", f"`{key}` is given twice to {self.name}()", fix=self._usage())
            given[key] = value
        return [given.get(p.name, self._missing(p) if p.name not in given else None) for p in self.parameters]

    @property
    def names(self) -> list[str]:
        """The parameters' names, in order."""
        return [p.name for p in self.parameters]

    def has(self, name: str) -> bool:
        """Whether a parameter is called that."""
        return any(p.name == name for p in self.parameters)

    def _missing(self, p: Parameter) -> Any:
        if p.default is not inspect.Parameter.empty:
            return p.default
        if isinstance(p.type, TensorType) and p.type.direction == OUT:
            return OMITTED
        if isinstance(p.type, TensorType) and p.type.direction == INOUT:
            raise CallError(
                "PL603", f"`{p.name}` of {self.name}() is read and written: it needs a value", fix=f"pass an array for `{p.name}`"
            )
        raise CallError("PL601", f"{self.name}() misses `{p.name}`", fix=self._usage())

    def _usage(self) -> str:
        parts = [f"{p.name}=" if p.by_name else p.name for p in self.parameters]
        return f"{self.name}({', '.join(parts)})"


class _Omitted:
    def __repr__(self) -> str:
        return "OMITTED"


OMITTED = _Omitted()


@dataclass
class Argument:
    """One argument of a call: the value as given, its NumPy view, and where results go."""

    parameter: Parameter
    given: Any
    array: np.ndarray | None
    aval: Aval | None
    static: Any = None


@dataclass
class Call:
    """A bound call: arguments, the key of the program it needs, and the values of the symbols."""

    arguments: list[Argument]
    key: tuple[Any, ...]
    extents: dict[Symbol, int]


def prepare(signature: Signature, values: Sequence[Any], freeze: Callable[[Any], Hashable]) -> Call:
    """Check every argument against its annotation, without touching any.

    Args:
      freeze: the key of a plain Python argument; an object that changed has another one.
    Errors:
      PL602 for a dtype, rank or extent that is not the declared one; PL604 for an output that cannot be written.
    """
    extents: dict[Symbol, tuple[int, str]] = {}
    arguments = _each(lambda pair: _argument(signature, *pair), list(zip(signature.parameters, values, strict=True)))
    tensors = [a for a in arguments if a.array is not None and isinstance(a.parameter.type, TensorType)]
    _each(lambda a: _bind_extents(signature, a, extents), tensors)
    for a in arguments:
        if a.given is OMITTED:
            _allocate(signature, a, {s: v for s, (v, _) in extents.items()})
    check_overlap(signature, arguments)
    key = tuple(a.aval if a.aval is not None else freeze(a.static) for a in arguments)
    return Call(arguments, key, {s: v for s, (v, _) in extents.items()})


def _each(check: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """`check` of every item; the errors of all of them as one."""
    results, errors = [], []
    for item in items:
        try:
            results.append(check(item))
        except PyptoError as error:
            errors.append(error)
    if errors:
        raise together(errors)
    return results


def _argument(signature: Signature, p: Parameter, given: Any) -> Argument:
    if isinstance(p.type, ScalarType):
        return Argument(p, given, number(signature, p, given, p.type.dtype), scalar(p.type.dtype))
    if isinstance(p.type, ArrayType):
        raise CallError(
            "PL602",
            f"`{p.name}` of {signature.name}() is {p.type!r}, an on-core array, which does not cross into a kernel",
            fix="pl.array.create(n, dtype) in the body, or pass a tensor",
        )
    if not isinstance(p.type, TensorType):
        check_plain(signature, p, given)
        return Argument(p, given, None, None, given)
    if given is OMITTED:
        return Argument(p, given, None, None)
    array = _tensor(signature, p, given)
    aval = RefAval(p.type.dims if p.type.dims is not None else array.shape, dtype_of(array.dtype), direction=p.type.direction)
    return Argument(p, given, array, aval)


def check_plain(signature: Signature, p: Parameter, given: Any) -> None:
    """A parameter without an annotation takes plain Python values that can be part of a key.

    Errors:
      PL602 for an array, and for a value without a hash.
    """
    if is_array(given):
        raise CallError(
            "PL602",
            f"`{p.name}` of {signature.name}() has no annotation but got an array",
            fix=f"{p.name}: pl.Tensor, or pl.Tensor[[..], dtype]",
        )
    try:
        hash(given)
    except TypeError:
        raise CallError(
            "PL602",
            f"`{p.name}` of {signature.name}() is a {type(given).__name__}, which cannot be part of the program's key",
            fix="pass a tuple or a frozen dataclass",
        ) from None


def is_array(x: Any) -> bool:
    return isinstance(x, np.ndarray | Array) or (hasattr(x, "__array__") and hasattr(x, "shape") and not isinstance(x, np.generic))


def number(signature: Signature, p: Parameter, given: Any, dtype: DType) -> np.ndarray:
    """The argument of a scalar parameter, rounded to its dtype.

    Errors:
      PL602 for anything but one number that the dtype holds.
    """
    where = f"`{p.name}` of {signature.name}()"
    raw = given if isinstance(given, bool | int | float) else _element(given)
    if raw is None:
        found = getattr(given, "shape", None)
        shape = f" of shape {list(found)}" if found is not None else ""
        raise CallError("PL602", f"{where} is one {dtype.name}, got {type(given).__name__}{shape}", fix="pass one number")
    if isinstance(raw, float) and dtype.is_integer and math.isfinite(raw) and raw == int(raw):
        raw = int(raw)
    try:
        return np.asarray(numerics.round_literal(raw, dtype))
    except PyptoError as error:
        raise CallError("PL602", f"{where}: {error.message}", fix=error.fix) from None


def _element(given: Any) -> bool | int | float | None:
    """The number in an array without axes or a NumPy scalar; None if it is anything else."""
    raw = to_numpy(given) if is_array(given) or isinstance(given, np.generic) or hasattr(given, "__array__") else None
    value = raw.item() if raw is not None and raw.shape == () else None
    return value if isinstance(value, bool | int | float) else None


def _tensor(signature: Signature, p: Parameter, given: Any) -> np.ndarray:
    assert isinstance(p.type, TensorType)
    where = f"`{p.name}` of {signature.name}()"
    if getattr(given, "__pypto_resident__", False):
        raise resident(given, where)
    if not is_array(given) and not isinstance(given, list | tuple | np.generic | int | float):
        raise CallError("PL602", f"{where} is a tensor, got {type(given).__name__}", fix="pass a NumPy, JAX or torch array")
    if isinstance(given, np.ma.MaskedArray):
        raise CallError("PL602", f"{where} is a masked array, whose mask would be lost", fix=f"{p.name}.filled(value) before the call")
    try:
        array = np.asarray(to_numpy(given))
    except ValueError as error:  # lists of different lengths
        raise CallError("PL602", f"{where} is a {type(given).__name__} that makes no array: {error}", fix="pass a NumPy array") from None
    try:
        dtype = dtype_of(array.dtype)
    except PyptoError:
        want = p.type.dtype.storage if p.type.dtype is not None else np.dtype(np.float32)
        raise CallError(
            "PL602", f"{where} is {array.dtype}", fix=f'{p.name}.astype("{want}") before the call: nothing is converted silently'
        ) from None
    if p.type.dtype is not None and dtype is not p.type.dtype and p.type.dtype.storage != array.dtype:
        fix = f"convert it to {p.type.dtype.storage} before the call"
        if p.type.dtype is HF8:
            codes = dtype.storage == np.uint8
            fix = f"numerics.hf8_from_bits({p.name}) makes HF8 of codes" if codes else f'pypto.Array({p.name}, "HF8") rounds it to HF8'
        raise CallError("PL602", f"{where} is {dtype.name}, declared {p.type.dtype.name}", fix=fix)
    stride = p.type.view.stride if p.type.view is not None else None
    if stride is not None and tuple(n // array.itemsize for n in array.strides) != stride:
        raise CallError(
            "PL602",
            f"{where} has strides {[n // array.itemsize for n in array.strides]}, declared {list(stride)}",
            fix="pass the window of the larger array, or drop stride= from the annotation",
        )
    if p.is_output and (not isinstance(given, np.ndarray) and type(given).__module__.split(".")[0] != "torch"):
        raise CallError(
            "PL604",
            f"{where} is an output, and a {type(given).__name__} cannot be written in place",
            fix="pass a NumPy array, or leave it out and take the result",
        )
    if p.is_output and array.size and any(step == 0 and n > 1 for step, n in zip(array.strides, array.shape, strict=True)):
        raise CallError("PL604", f"{where} is an output, and elements of the array share memory", fix="pass an array of its own memory")
    if p.is_output and not array.flags.writeable:
        raise CallError(
            "PL604", f"{where} is an output, and the array is read-only", fix="pass a writable array, or leave it out and take the result"
        )
    return array


def _bind_extents(signature: Signature, a: Argument, extents: dict[Symbol, tuple[int, str]]) -> None:
    assert isinstance(a.parameter.type, TensorType) and a.array is not None
    declared = a.parameter.type.shape
    if declared is None:
        return
    where = f"`{a.parameter.name}` of {signature.name}()"
    if len(declared) != a.array.ndim:
        raise CallError("PL602", f"{where} has shape {list(a.array.shape)}, declared {list(declared)}", fix=f"give it {len(declared)} axes")
    for axis, (want, have) in enumerate(zip(declared, a.array.shape, strict=True)):
        if isinstance(want, Symbol):
            known = extents.setdefault(want, (have, a.parameter.name))
            if known[0] != have:
                raise CallError(
                    "PL602",
                    f"{want.name} is {known[0]} (from `{known[1]}`) and {have} (axis {axis} of `{a.parameter.name}`)",
                    fix="one symbol has one extent in a call",
                )
        elif want != have:
            raise CallError("PL602", f"{where} has shape {list(a.array.shape)}, declared {list(declared)}", fix=f"axis {axis} is {want}")


def _allocate(signature: Signature, a: Argument, extents: dict[Symbol, int]) -> None:
    """An output the caller left out."""
    kind = a.parameter.type
    assert isinstance(kind, TensorType)
    if kind.shape is None or kind.dtype is None:
        raise CallError(
            "PL601",
            f"{signature.name}() cannot allocate `{a.parameter.name}`: its annotation gives no shape and dtype",
            fix="pass an array for it, or annotate pl.Out[pl.Tensor[[..], dtype]]",
        )
    shape = []
    for d in kind.shape:
        if isinstance(d, Symbol) and d not in extents:
            raise CallError(
                "PL601",
                f"{signature.name}() cannot allocate `{a.parameter.name}`: no argument says what {d.name} is",
                fix="pass an array for it",
            )
        shape.append(extents[d] if isinstance(d, Symbol) else d)
    a.array = zeros(f"the output `{a.parameter.name}`", kind.dtype, shape)
    assert kind.dims is not None
    a.aval = RefAval(kind.dims, kind.dtype, direction=OUT)


def check_overlap(signature: Signature, arguments: Sequence[Argument]) -> None:
    """An output has memory of its own.

    Errors:
      PL605 for one that another argument shares.
    """
    outputs = [a for a in arguments if a.parameter.is_output and a.given is not OMITTED]
    for out in outputs:
        for other in arguments:
            if other is out or other.array is None or out.array is None or not isinstance(other.parameter.type, TensorType):
                continue
            if np.may_share_memory(out.array, other.array) and np.shares_memory(out.array, other.array):
                raise CallError(
                    "PL605",
                    f"`{out.parameter.name}` and `{other.parameter.name}` of {signature.name}() share memory",
                    fix="pass separate arrays; for in-place updates use one pl.InOut parameter",
                )
