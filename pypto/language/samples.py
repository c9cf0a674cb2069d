"""What a kernel is traced for when it is not called: samples, of which only shape and dtype are read, and annotations."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from pypto.core.array import to_numpy
from pypto.core.avals import RefAval, scalar
from pypto.dtypes import dtype_of
from pypto.errors import CallError
from pypto.language.calls import OMITTED, Parameter, Signature, check_plain
from pypto.language.types import RUNTIME, ScalarType, TensorType


def named(signature: Signature, args: tuple[Any, ...], kwargs: dict[str, Any], verb: str) -> dict[str, Any]:
    """The samples by parameter; what is missing is taken from the annotations later. `verb`: the method they are given to."""
    in_order = [p.name for p in signature.parameters if not p.by_name]
    if len(args) > len(in_order):
        raise CallError(
            "PL601", f"{signature.name}() takes {len(in_order)} arguments in order, got {len(args)}", fix=_usage(signature, verb)
        )
    given = dict(zip(in_order, args, strict=False))
    for key, value in kwargs.items():
        if key not in {p.name for p in signature.parameters}:
            raise CallError(
                "PL601",
                f"`{signature.name}` got an unexpected keyword argument `{key}`: its arguments are the kernel's own",
                fix=_usage(signature, verb),
            )
        if key in given:
            raise CallError("PL601", f"`{key}` is given twice to {signature.name}", fix=_usage(signature, verb))
        given[key] = value
    return given


def _usage(signature: Signature, verb: str) -> str:
    names = ", ".join(p.name for p in signature.parameters)
    if verb == "compile":
        return f"{signature.name}.compile({names}, config=RunConfig(...)): compile options go in config="
    return f"{signature.name}.{verb}({names})"


def avals(signature: Signature, known: dict[str, Any], verb: str) -> list[Any]:
    """Abstract values (or plain Python ones) of the parameters: of the samples that are known, of the annotations otherwise.

    Errors:
      PL601 where neither says what a parameter is, PL602 for a sample that is not what the annotation says.
    """
    missing = inspect.Parameter.empty
    return [_sample(signature, verb, p, known.get(p.name, OMITTED if p.default is missing else p.default)) for p in signature.parameters]


def _sample(signature: Signature, verb: str, p: Parameter, value: Any) -> Any:
    where = f"`{p.name}` of {signature.name}()"
    if isinstance(p.type, ScalarType):
        if not (value is OMITTED or value is RUNTIME or np.shape(value) == ()):
            raise CallError(
                "PL602", f"{where} is one {p.type.dtype.name}, got {type(value).__name__}", fix="pass one number, or leave it out"
            )
        return scalar(p.type.dtype)
    if not isinstance(p.type, TensorType):
        if value is OMITTED:
            raise CallError("PL601", f"{where} is a plain Python value: {verb}() needs it", fix=_usage(signature, verb))
        check_plain(signature, p, value)
        return value
    if value is OMITTED:
        if p.type.dims is None or p.type.dtype is None:
            raise CallError(
                "PL601",
                f"{where} has no shape and dtype in its annotation",
                fix=f"{_usage(signature, verb)}, or pl.Tensor[[..], dtype] as annotation",
            )
        return RefAval(p.type.dims, p.type.dtype, direction=p.type.direction)
    return _tensor_sample(p, p.type, value, where)


def _tensor_sample(p: Parameter, kind: TensorType, value: Any, where: str) -> RefAval:
    if not (hasattr(value, "shape") and hasattr(value, "dtype")):
        if not isinstance(value, list | tuple | int | float):
            raise CallError("PL602", f"{where} is a tensor, got {type(value).__name__}", fix="pass an array, whose contents are not read")
        value = to_numpy(value)
    shape, dtype = tuple(int(n) for n in value.shape), dtype_of(value.dtype)
    if kind.dtype is not None:
        if dtype.storage != kind.dtype.storage:
            raise CallError("PL602", f"{where} is {dtype.name}, declared {kind.dtype.name}", fix=f"a sample of {kind.dtype.storage}")
        dtype = kind.dtype
    if kind.shape is not None:
        fits = len(kind.shape) == len(shape) and all(not isinstance(d, int) or d == n for d, n in zip(kind.shape, shape, strict=True))
        if not fits:
            raise CallError("PL602", f"{where} has shape {list(shape)}, declared {list(kind.shape)}", fix="a sample of the declared shape")
    return RefAval(kind.dims if kind.dims is not None else shape, dtype, direction=kind.direction)
