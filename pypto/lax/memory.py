"""Buffers: allocate, window, reshape and permute a handle, read and write through it.

These ops exist in kernels only. The executors know them by name; what stands here is their manual page, their
abstract rule and their effects.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from pypto import dtypes
from pypto.core.avals import Aval, RefAval, ScalarAval, TileAval
from pypto.core.index import Dim, Index
from pypto.core.op import Exact, Native, No, Op, Structural
from pypto.dtypes import DType
from pypto.errors import InternalError, ShapeError
from pypto.platform import Space


def structural(*, abstract: Callable[..., Any], unit: str = "control", **slots: Any) -> Callable[[Callable[..., Any]], Op]:
    """An op the executors know by name."""

    def decorate(body: Callable[..., Any]) -> Op:
        name = body.__name__.rstrip("_")

        def meaning(*_: Any, **__: Any) -> Any:
            raise InternalError("PL901", f"{name} has no meaning on arrays; the executors run it")

        return Op(
            name=name,
            abstract=abstract,
            meaning=meaning,
            axes=Structural(),
            samples=list,
            doc=inspect.getdoc(body) or "",
            signature=inspect.signature(body),
            unit=unit,
            exact=Exact("movement"),
            **slots,
        )

    return decorate


def extents(sizes: tuple[int | None, ...]) -> tuple[Dim, ...]:
    """Static sizes as they are; a run-time size is some unknown."""
    return tuple(Index.fresh("?") if s is None else s for s in sizes)


def dropped(sizes: tuple[Any, ...], drop: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(s for i, s in enumerate(sizes) if i not in drop)


def _alloc_aval(*dynamic: Aval, shape: tuple[int | None, ...], dtype: DType, space: Space, init: Any, name: str) -> Aval:
    return RefAval(extents(shape), dtype, space)


@structural(abstract=_alloc_aval, pto=No("the runtime allocates"))
def alloc(*dynamic: Any, shape: tuple[int | None, ...], dtype: DType, space: Space, init: Any = None, name: str = "") -> Any:
    """A new buffer. Extents that are None in `shape` are the operands, in order. It reads as zero until written."""


def _view_aval(ref: Aval, *offsets: Aval, sizes: tuple[int | None, ...], drop: tuple[int, ...]) -> Aval:
    if not isinstance(ref, RefAval):
        raise InternalError("PL901", f"view of {ref}")
    return RefAval(dropped(extents(sizes), drop), ref.dtype, ref.space)


@structural(abstract=_view_aval, refs=(0,), index=tuple(range(1, 17)), pto=Native("pto.partition_view"))
def view(ref: Any, *offsets: Any, sizes: tuple[int | None, ...], drop: tuple[int, ...] = ()) -> Any:
    """A window of a buffer that shares its memory. Operands after the offsets are the run-time sizes, in order."""


@structural(
    abstract=lambda ref, *dynamic, shape: RefAval(extents(shape), ref.dtype, ref.space), refs=(0,), pto=Native("pto.make_tensor_view")
)
def reshape_view(ref: Any, *dynamic: Any, shape: tuple[int | None, ...]) -> Any:
    """The same buffer under another shape, row-major. A window with gaps cannot be reshaped."""


@structural(
    abstract=lambda ref, *, permutation: RefAval(tuple(ref.shape[a] for a in permutation), ref.dtype, ref.space),
    refs=(0,),
    pto=Native("pto.make_tensor_view"),
)
def transpose_view(ref: Any, *, permutation: tuple[int, ...]) -> Any:
    """The same buffer with its axes in another order."""


def _get_aval(
    ref: Aval, *operands: Aval, sizes: tuple[int, ...], drop: tuple[int, ...], valid: tuple[int | None, ...] | None, level: str, space: Any
) -> Aval:
    shape = dropped(sizes, drop)
    known = None if valid is None else dropped(valid, drop)
    return TileAval(shape, ref.dtype, level, space, None if known == shape else known)


@structural(abstract=_get_aval, refs=(0,), reads=(0,), index=tuple(range(1, 17)), unit="move", pto=Native("pto.tload"))
def get(
    ref: Any,
    *operands: Any,
    sizes: tuple[int, ...],
    drop: tuple[int, ...] = (),
    valid: tuple[int | None, ...] | None = None,
    level: str = "tensor",
    space: Any = None,
) -> Any:
    """Load a window of a buffer into a tile.

    Operands: one offset per axis, then one run-time valid extent per None in `valid`. With `valid` only that part of
    the window must lie inside the buffer; the rest of the tile is padding.
    """


@structural(abstract=lambda x, *indices: ScalarAval((), x.dtype), refs=(0,), reads=(0,), index=tuple(range(1, 17)), unit="scalar")
def read(x: Any, *indices: Any) -> Any:
    """One element of a buffer or a tile, as a scalar."""


def _set_aval(target: Aval, value: Aval, *offsets: Aval, sizes: tuple[int, ...], drop: tuple[int, ...]) -> tuple[Aval, ...]:
    want = dropped(sizes, drop)
    if value.dtype is not target.dtype:
        raise ShapeError(
            "PL302", f"a store of {value} into {target}", fix=f"pl.cast(value, pl.{target.dtype.name}) first: nothing converts on the way"
        )
    if not isinstance(value, ScalarAval) and value.shape != want:
        raise ShapeError("PL301", f"a store of shape {list(value.shape)} into a window {list(want)}", fix="reshape or slice the value")
    return ()


@structural(abstract=_set_aval, refs=(0,), writes=(0,), index=tuple(range(2, 18)), unit="move", pto=Native("pto.tstore"))
def set_(target: Any, value: Any, *offsets: Any, sizes: tuple[int, ...], drop: tuple[int, ...] = ()) -> Any:
    """Store a value into a window of a buffer, or update a tile in place. Only the valid region is written.

    A scalar value fills the window.
    """


def _copy_aval(target: Aval, source: Aval) -> tuple[Aval, ...]:
    if source.dtype is not target.dtype:
        raise ShapeError("PL302", f"a copy of {source} into {target}", fix="buffers of one dtype; cast inside a region")
    return ()


@structural(abstract=_copy_aval, refs=(0, 1), reads=(1,), writes=(0,), unit="move", pto=Native("pto.tstore"))
def copy(target: Any, source: Any) -> Any:
    """Copy one buffer into another of the same shape and dtype: an orchestration-level task of its own."""


@structural(abstract=lambda ref, *, axis: ScalarAval((), dtypes.INDEX), refs=(0,), unit="scalar", pto=Native("pto.get_tensor_view_dim"))
def dim(ref: Any, *, axis: int) -> Any:
    """The run-time extent of one axis of a buffer."""


@structural(abstract=lambda x, *, axis: ScalarAval((), dtypes.INDEX), unit="scalar")
def valid_extent(x: Any, *, axis: int) -> Any:
    """The run-time valid extent of one axis of a tile."""


def view_ops() -> Iterator[Op]:
    """The ops whose result shares the memory of operand 0."""
    yield from (view, reshape_view, transpose_view)


def unplaced(x: TileAval) -> TileAval:
    """A tile type without its space."""
    return replace(x, space=None)
