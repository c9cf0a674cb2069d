"""Annotations: `pl.Tensor[[..], dtype]`, `pl.Tile`, `pl.Scalar`, `pl.Array`, `pl.Tuple`, `pl.Out`, `pl.InOut`, `pl.dynamic`.

They are ordinary objects: a module-level alias of one is as good as the spelling itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import GenericAlias
from typing import Any

from pypto.core.index import Dim, Index
from pypto.dtypes import TASK_ID, DType, dtype_of
from pypto.errors import CallError, ShapeError
from pypto.language.layouts import TensorLayout, TensorView

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
    view: TensorView | None = None

    def __repr__(self) -> str:
        parts = [repr(list(self.shape or ())), f"pl.{self.dtype.name if self.dtype else '?'}", *([repr(self.view)] if self.view else [])]
        kind = "pl.Tile" if isinstance(self, TileType) else "pl.Tensor"
        inner = kind if self.shape is None else f"{kind}[{', '.join(parts)}]"
        return {IN: inner, OUT: f"pl.Out[{inner}]", INOUT: f"pl.InOut[{inner}]"}[self.direction]

    @property
    def dims(self) -> tuple[Dim, ...] | None:
        """The shape as the IR has it."""
        return None if self.shape is None else tuple(d.index if isinstance(d, Symbol) else d for d in self.shape)


@dataclass(frozen=True, repr=False)
class TileType(TensorType):
    """The type of an on-chip parameter of an inline or in-core function."""


@dataclass(frozen=True)
class ScalarType:
    """The type of a scalar parameter."""

    dtype: DType

    def __repr__(self) -> str:
        return f"pl.Scalar[pl.{self.dtype.name}]"


@dataclass(frozen=True)
class ArrayType:
    """The type of an on-core array: a fixed number of elements that are read and written one by one."""

    extent: int
    dtype: DType

    def __repr__(self) -> str:
        return f"pl.Array[{self.extent}, pl.{self.dtype.name}]"


@dataclass(frozen=True)
class TupleType:
    """The type of several results. A part is None where its annotation says nothing about tracing."""

    parts: tuple[Any, ...]

    def __repr__(self) -> str:
        return f"pl.Tuple[{', '.join('...' if p is None else repr(p) for p in self.parts)}]"


Annotation = TensorType | ScalarType | ArrayType | TupleType


def _shaped(cls: type[TensorType], spec: Any) -> TensorType:
    if not isinstance(spec, tuple) or len(spec) not in (2, 3):
        raise CallError("PL602", f"an annotation {spec!r} is not a shape and a dtype", fix="pl.Tensor[[rows, cols], pl.FP32]")
    shape, dtype = spec[0], spec[1]
    if not isinstance(shape, Sequence) or isinstance(shape, str):
        raise CallError("PL602", f"{shape!r} is no shape", fix="pl.Tensor[[rows, cols], pl.FP32]")
    extents = tuple(_extent(d) for d in shape)
    return cls(extents, dtype_of(dtype), view=_view(cls, extents, spec[2]) if len(spec) == 3 else None)


def _view(cls: type[TensorType], shape: tuple[Extent, ...], spec: Any) -> TensorView | None:
    """The third part of an annotation: a layout, or a view with strides."""
    if cls is TileType:
        raise CallError(
            "PL602",
            f"a tile annotation with {spec!r}: it gives a shape and a dtype",
            fix="pl.load(..., target_memory=) and pl.move(x, target_memory) say where a tile is",
        )
    if spec is TensorLayout.ND:
        return None
    if isinstance(spec, TensorLayout):
        fix = "a_trans= or b_trans= of pl.matmul, or pl.transpose(x, -2, -1) where it is used"
        raise CallError("PL602", f"a tensor annotation with the layout {spec.name}: tensors are row-major", fix=fix)
    if not isinstance(spec, TensorView):
        raise CallError("PL602", f"{spec!r} is no layout of a tensor", fix="leave it out, or pl.TensorView(stride=[...], layout=pl.ND)")
    for name, extents in (("stride", spec.stride), ("valid_shape", spec.valid_shape)):
        if extents is not None and len(extents) != len(shape):
            raise CallError("PL602", f"{spec!r}: {name} has {len(extents)} parts for {len(shape)} axes", fix="one part per axis")
    return spec


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


class Array(metaclass=_Subscripted):
    """An on-core array of a fixed number of elements, made by `pl.array.create`: the type of a parameter of an inline function.

    >>> Array[16, "INT32"]
    pl.Array[16, pl.INT32]
    """

    @staticmethod
    def make(spec: Any) -> ArrayType:
        if not isinstance(spec, tuple) or len(spec) != 2:
            raise CallError("PL602", f"pl.Array[{spec!r}] is not an extent and a dtype", fix="pl.Array[16, pl.INT32]")
        extent = _extent(spec[0][0] if isinstance(spec[0], list | tuple) and len(spec[0]) == 1 else spec[0])
        if isinstance(extent, Symbol):
            raise CallError("PL602", f"pl.Array[{extent!r}, ...]: an on-core array has a constant extent", fix="a non-negative integer")
        return ArrayType(extent, dtype_of(spec[1]))


class Tuple(metaclass=_Subscripted):
    """Several results: a return annotation, as Python's own `tuple[...]`.

    >>> Tuple[Tensor[[8], "FP32"], Scalar["INT32"]]
    pl.Tuple[pl.Tensor[[8], pl.FP32], pl.Scalar[pl.INT32]]
    """

    @staticmethod
    def make(spec: Any) -> TupleType:
        return TupleType(tuple(annotation_of(part) for part in (spec if isinstance(spec, tuple) else (spec,))))


TaskId = ScalarType(TASK_ID)


def _tensor(spec: Any, name: str) -> TensorType:
    if spec is Tensor:
        return TensorType()
    if isinstance(spec, TensorType):
        return spec
    raise CallError("PL602", f"pl.{name}[{spec!r}]: only tensors have a direction", fix=f"pl.{name}[pl.Tensor[[..], dtype]]")


def annotation_of(a: Any) -> Annotation | None:
    """What an annotation object says; None when it says nothing about tracing (a plain Python parameter).

    Errors:
      PL602 for a type of the language without what it needs, such as a bare `pl.Scalar`.
    """
    if isinstance(a, Annotation):
        return a
    if isinstance(a, DType):
        return ScalarType(a)
    if a is Tensor or a is Tile:
        return TensorType() if a is Tensor else TileType()
    if a is Out or a is InOut:
        return TensorType(direction=OUT if a is Out else INOUT)
    if a is Scalar or a is Array or a is Tuple:
        full = {Scalar: "pl.Scalar[pl.INT32]", Array: "pl.Array[16, pl.INT32]", Tuple: "pl.Tuple[pl.Tensor, pl.Tensor]"}[a]
        raise CallError("PL602", f"a bare pl.{a.__name__} does not say of what", fix=full)
    if isinstance(a, GenericAlias) and a.__origin__ is tuple and not any(part is Ellipsis for part in a.__args__):
        parts = tuple(annotation_of(part) for part in a.__args__)
        return TupleType(parts) if any(part is not None for part in parts) else None
    return None


def differ(declared: tuple[Dim, ...], given: tuple[Dim, ...]) -> bool:
    """Whether a shape is not the declared one; the symbols of a declaration stand for whatever extents it is given."""
    known = [(a, b) for a, b in zip(declared, given, strict=False) if isinstance(a, int) and isinstance(b, int)]
    return len(declared) != len(given) or any(a != b for a, b in known)
