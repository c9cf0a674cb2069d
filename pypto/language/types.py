"""Annotations of kernel parameters: `pl.Tensor[[..], dtype]`, `pl.Out`, `pl.InOut`, `pl.Scalar`, `pl.dynamic`.

They are ordinary objects: a module-level alias of one is as good as the spelling itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pypto.core.index import Dim, Index
from pypto.dtypes import DType, dtype_of
from pypto.errors import CallError, ShapeError

IN, OUT, INOUT = "in", "out", "inout"


@dataclass(frozen=True, eq=False)
class Symbol:
    """A run-time extent. Two symbols are different even when they have the same name: reuse one object."""

    name: str
    index: Index = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", Index.fresh(self.name))

    def __repr__(self) -> str:
        return f"pl.dynamic({self.name!r})"

    def __pypto_guard__(self) -> Any:
        return self.index

    def _no_arithmetic(self, *_: Any) -> Any:
        raise ShapeError(
            "PL304",
            f"{self!r} names an axis; it cannot be computed with",
            fix="pl.tensor.dim(x, axis) in a body, a symbol of its own in an annotation",
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = __mod__ = __neg__ = _no_arithmetic


def dynamic(name: str) -> Symbol:
    """A symbol for an extent that is known only when the kernel is called; use it in annotations.

    >>> dynamic("M")
    pl.dynamic('M')
    """
    return Symbol(name)


Extent = int | Symbol


@dataclass(frozen=True)
class TensorType:
    """The type of a tensor parameter. `shape` and `dtype` are None where the caller's are taken."""

    shape: tuple[Extent, ...] | None = None
    dtype: DType | None = None
    direction: str = IN

    def __repr__(self) -> str:
        inner = "pl.Tensor" if self.shape is None else f"pl.Tensor[{list(self.shape)}, pl.{self.dtype.name if self.dtype else '?'}]"
        return {IN: inner, OUT: f"pl.Out[{inner}]", INOUT: f"pl.InOut[{inner}]"}[self.direction]

    @property
    def dims(self) -> tuple[Dim, ...] | None:
        """The shape as the IR has it."""
        return None if self.shape is None else tuple(d.index if isinstance(d, Symbol) else d for d in self.shape)


@dataclass(frozen=True)
class TileType(TensorType):
    """The type of an on-chip parameter of an inline or in-core function."""


@dataclass(frozen=True)
class ScalarType:
    """The type of a scalar parameter."""

    dtype: DType

    def __repr__(self) -> str:
        return f"pl.Scalar[pl.{self.dtype.name}]"


def _shaped(cls: type[TensorType], spec: Any) -> TensorType:
    if not isinstance(spec, tuple) or len(spec) != 2:
        raise CallError("PL602", f"an annotation {spec!r} is not a shape and a dtype", fix="pl.Tensor[[rows, cols], pl.FP32]")
    shape, dtype = spec[0], spec[1]
    if not isinstance(shape, Sequence) or isinstance(shape, str):
        raise CallError("PL602", f"{shape!r} is no shape", fix="pl.Tensor[[rows, cols], pl.FP32]")
    return cls(tuple(_extent(d) for d in shape), dtype_of(dtype))


def _extent(d: Any) -> Extent:
    if isinstance(d, Symbol):
        return d
    if isinstance(d, bool) or not hasattr(d, "__index__") or int(d) < 0:
        raise CallError("PL602", f"{d!r} is no extent of an annotation", fix='a non-negative integer, or one pl.dynamic("NAME") symbol')
    return int(d)


class _RunTime:
    def __repr__(self) -> str:
        return "pl.RUNTIME"


RUNTIME = _RunTime()
"""In place of a scalar's value where a kernel is compiled: it comes with each dispatch. All scalars do; this says so."""


class _Subscripted(type):
    """Makes `pl.Tensor[[..], dtype]` a value, while bare `pl.Tensor` stays a class."""

    def __getitem__(cls, spec: Any) -> Any:
        return cls.make(spec)  # type: ignore[attr-defined]


class Tensor(metaclass=_Subscripted):
    """A tensor in global memory; bare, it takes the caller's shape and dtype.

    >>> Tensor[[16, 64], "BF16"]
    pl.Tensor[[16, 64], pl.BF16]
    """

    @staticmethod
    def make(spec: Any) -> TensorType:
        return _shaped(TensorType, spec)


class Tile(metaclass=_Subscripted):
    """An on-chip tile: the type of a parameter of an inline or in-core function.

    >>> Tile[[16, 64], "FP32"].shape
    (16, 64)
    """

    @staticmethod
    def make(spec: Any) -> TileType:
        result = _shaped(TileType, spec)
        assert isinstance(result, TileType)
        return result


class Out(metaclass=_Subscripted):
    """An output: written by the kernel, its old content not read. A call may leave it out, and gets it as the result.

    >>> Out[Tensor[[16, 64], "BF16"]]
    pl.Out[pl.Tensor[[16, 64], pl.BF16]]
    """

    @staticmethod
    def make(spec: Any) -> TensorType:
        return replace(_tensor(spec, "Out"), direction=OUT)


class InOut(metaclass=_Subscripted):
    """A tensor that is read and written in place; a call always passes it.

    >>> InOut[Tensor[[8], "INT32"]]
    pl.InOut[pl.Tensor[[8], pl.INT32]]
    """

    @staticmethod
    def make(spec: Any) -> TensorType:
        return replace(_tensor(spec, "InOut"), direction=INOUT)


class Scalar(metaclass=_Subscripted):
    """A number given at run time; as an annotation of a local name it fixes the dtype: `m: pl.Scalar[pl.INT64] = 0`.

    >>> Scalar["INT32"]
    pl.Scalar[pl.INT32]
    """

    @staticmethod
    def make(spec: Any) -> ScalarType:
        return ScalarType(dtype_of(spec))


def _tensor(spec: Any, name: str) -> TensorType:
    if spec is Tensor:
        return TensorType()
    if isinstance(spec, TensorType):
        return spec
    raise CallError("PL602", f"pl.{name}[{spec!r}]: only tensors have a direction", fix=f"pl.{name}[pl.Tensor[[..], dtype]]")


def annotation_of(a: Any) -> TensorType | ScalarType | None:
    """What an annotation object says; None when it says nothing about tracing (a plain Python parameter)."""
    if isinstance(a, TensorType | ScalarType):
        return a
    if a is Tensor or a is Tile:
        return TensorType()
    if a in (Out, InOut):
        return TensorType(direction=OUT if a is Out else INOUT)
    return None
