"""Buffers: allocate, window, reshape and permute a handle, read and write through it.

These ops exist in kernels only. The executors know them by name; what stands here is their manual page, their
abstract rule and their effects.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pypto import dtypes
from pypto.core.avals import TILE, Aval, RefAval, ScalarAval, TileAval, Valid
from pypto.core.index import Dim, Index
from pypto.core.op import Exact, Native, No, Op, Structural
from pypto.dtypes import DType
from pypto.errors import InternalError, ShapeError
from pypto.lax.shape import reshape_valid
from pypto.platform import Space

DISCHARGED = No("kernels become array programs before they are differentiated, and loops over examples when they are batched")


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
            module=body.__module__,
            signature=inspect.signature(body),
            unit=unit,
            exact=Exact("movement"),
            **{"jvp": DISCHARGED, "transpose": DISCHARGED, "batching": DISCHARGED, **slots},
        )

    return decorate


def extents(sizes: tuple[int | None, ...]) -> tuple[Dim, ...]:
    """Static sizes as they are; a run-time size is some unknown."""
    return tuple(Index.fresh("?") if s is None else s for s in sizes)


def dropped(sizes: tuple[Any, ...], drop: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(s for i, s in enumerate(sizes) if i not in drop)


# ---- how they print ----------------------------------------------------------------------------------------------

Namer = Callable[[Any], str]


def _listed(extents: Sequence[int | None], operands: Iterator[Any], name: Namer) -> list[str]:
    """Extents as text; where one is None, the next operand is it."""
    return [name(next(operands)) if d is None else str(d) for d in extents]


def window_text(ref: Any, starts: Sequence[Any], sizes: Sequence[str], drop: Sequence[int], name: Namer) -> str:
    """A window as a subscript: `x[r:+4, 0:+16]`; an axis that vanishes shows its index only."""
    parts = [name(s) if i in drop else f"{name(s)}:+{n}" for i, (s, n) in enumerate(zip(starts, sizes, strict=True))]
    return f"{name(ref)}[{', '.join(parts)}]"


def _show_alloc(e: Any, name: Namer) -> str:
    operands = ", ".join(name(a) for a in e.ins)
    init = e.params["init"]
    manual = " manual_dep" if e.params.get("manual_dep") else ""
    return f"alloc{f' {operands}' if operands else ''}{'' if init is None else f' filled {init}'}{manual}"


def _show_view(e: Any, name: Namer) -> str:
    ref, *rest = e.ins
    sizes = e.params["sizes"]
    return f"view {window_text(ref, rest[: len(sizes)], _listed(sizes, iter(rest[len(sizes) :]), name), e.params['drop'], name)}"


def _show_get(e: Any, name: Namer) -> str:
    ref, *rest = e.ins
    p = e.params
    rank = len(p["sizes"])
    text = f"load {window_text(ref, rest[:rank], list(map(str, p['sizes'])), p['drop'], name)}"
    valid = f" valid [{', '.join(_listed(p['valid'], iter(rest[rank:]), name))}]" if p["valid"] is not None else ""
    return f"{text}{valid}{' at tile level' if p['level'] == TILE else ''}"


def _show_set(e: Any, name: Namer) -> str:
    target, value, *starts = e.ins
    # of a scalar value `drop` says nothing: it fills the whole window
    window = window_text(target, starts, list(map(str, e.params["sizes"])), e.params["drop"], name)
    return f"{'update in place' if isinstance(target.aval, TileAval) else 'store'} {window} <- {name(value)}"


def _show_read(e: Any, name: Namer) -> str:
    return f"read {name(e.ins[0])}[{', '.join(map(name, e.ins[1:]))}]"


# ---- the ops -----------------------------------------------------------------------------------------------------


def _alloc_aval(
    *dynamic: Aval, shape: tuple[int | None, ...], dtype: DType, space: Space, init: Any, name: str, manual_dep: bool = False
) -> Aval:
    return RefAval(extents(shape), dtype, space)


@structural(abstract=_alloc_aval, index=tuple(range(16)), pto=No("the runtime allocates"), show=_show_alloc)
def alloc(
    *dynamic: Any,
    shape: tuple[int | None, ...],
    dtype: DType,
    space: Space,
    init: Any = None,
    name: str = "",
    manual_dep: bool = False,
) -> Any:
    """A new buffer. Extents that are None in `shape` are the operands, in order. It reads as zero until written.

    With `manual_dep` no dependency between tasks is derived from it.
    """


def _view_aval(ref: Aval, *offsets: Aval, sizes: tuple[int | None, ...], drop: tuple[int, ...]) -> Aval:
    if not isinstance(ref, RefAval):
        raise InternalError("PL901", f"view of {ref}")
    return RefAval(dropped(extents(sizes), drop), ref.dtype, ref.space, None, _window_valid(ref, sizes, drop))


def _window_valid(ref: RefAval | TileAval, sizes: tuple[int | None, ...], drop: tuple[int, ...]) -> Valid | None:
    """What is known of the valid region of a window: all of an axis that is valid to its end, or that is taken whole."""
    if ref.valid is None:
        return None
    clipped = [s if v == d else v if s == d else None for v, s, d in zip(ref.valid, sizes, ref.shape, strict=True)]
    kept = dropped(tuple(clipped), drop)
    if any(clipped[i] is None for i in drop):  # the one element taken of that axis may lie outside: then nothing is valid
        kept = (None, *kept[1:])
    return None if kept == dropped(sizes, drop) else kept


def _window_valid_now(valid: tuple[int, ...], *operands: int, sizes: tuple[int | None, ...], drop: tuple[int, ...]) -> tuple[int, ...]:
    starts, extra = operands[: len(sizes)], iter(operands[len(sizes) :])
    extents = [next(extra) if n is None else n for n in sizes]
    clipped = [min(max(v - s, 0), n) for v, s, n in zip(valid, starts, extents, strict=True)]
    kept = tuple(v for i, v in enumerate(clipped) if i not in drop)
    return (0, *kept[1:]) if any(clipped[i] == 0 for i in drop) else kept


@structural(
    abstract=_view_aval,
    refs=(0,),
    index=tuple(range(1, 17)),
    valid=_window_valid_now,
    pto=Native("pto.partition_view"),
    show=_show_view,
)
def view(ref: Any, *offsets: Any, sizes: tuple[int | None, ...], drop: tuple[int, ...] = ()) -> Any:
    """A window of a buffer that shares its memory. Operands after the offsets are the run-time sizes, in order.

    Axes in `drop` have one element and vanish from the result.

    Errors:
      PL303 for a window past the extent.
    """


def _reshape_view_aval(ref: Aval, *dynamic: Aval, shape: tuple[int | None, ...]) -> Aval:
    assert isinstance(ref, RefAval)
    if ref.valid is None:
        return RefAval(extents(shape), ref.dtype, ref.space)
    fixed = tuple(d for d in shape if d is not None)
    if fixed != shape:
        raise ShapeError("PL304", f"reshape of the partly valid {ref} to an extent known only at run time", fix="reshape to constants")
    valid = reshape_valid(ref.static_shape, ref.valid, fixed)
    return RefAval(fixed, ref.dtype, ref.space, None, None if valid == fixed else valid)


@structural(
    abstract=_reshape_view_aval,
    refs=(0,),
    valid=lambda x, *dynamic, shape, old: reshape_valid(old, x, shape),
    index=tuple(range(1, 17)),
    pto=Native("pto.make_tensor_view"),
)
def reshape_view(ref: Any, *dynamic: Any, shape: tuple[int | None, ...]) -> Any:
    """The same buffer under another shape, row-major.

    Errors:
      PL301 for another number of elements, or a window with gaps.
    """


def _transpose_view_aval(ref: Aval, *, permutation: tuple[int, ...]) -> Aval:
    assert isinstance(ref, RefAval)
    valid = None if ref.valid is None else tuple(ref.valid[a] for a in permutation)
    return RefAval(tuple(ref.shape[a] for a in permutation), ref.dtype, ref.space, None, valid)


@structural(
    abstract=_transpose_view_aval,
    refs=(0,),
    valid=lambda x, *, permutation: tuple(x[a] for a in permutation),
    pto=Native("pto.make_tensor_view"),
)
def transpose_view(ref: Any, *, permutation: tuple[int, ...]) -> Any:
    """The same buffer with its axes in another order."""


@structural(
    abstract=lambda ref, *extents, known: replace(ref, direction=None, valid=None if known == ref.shape else known),
    refs=(0,),
    index=tuple(range(1, 17)),
    pto=Native("pto.set_validshape"),
)
def valid_view(ref: Any, *extents: Any, known: tuple[int | None, ...]) -> Any:
    """The same buffer, of which only the leading extents of each axis hold data: loads through it see that part.

    Operands: one run-time extent per None in `known`. A partly valid tile that leaves its region becomes such a handle.
    """


@structural(
    abstract=lambda ref, *, dtype: replace(ref, dtype=dtype, direction=None),
    refs=(0,),
    valid=lambda x, *, dtype: x,
    pto=Native("pto.make_tensor_view"),
)
def bits_view(ref: Any, *, dtype: DType) -> Any:
    """The same buffer, its bits read as another dtype of the same width."""


def _get_aval(
    ref: Aval,
    *operands: Aval,
    sizes: tuple[int, ...],
    drop: tuple[int, ...],
    valid: tuple[int | None, ...] | None,
    level: str,
    space: Any,
    shares: bool = False,
) -> Aval:
    shape = dropped(sizes, drop)
    known = None if valid is None else dropped(valid, drop)
    if valid is None and isinstance(ref, RefAval | TileAval):
        known = _window_valid(ref, sizes, drop)
    return TileAval(shape, ref.dtype, level, space, None if known == shape else known)


@structural(abstract=_get_aval, refs=(0,), reads=(0,), index=tuple(range(1, 17)), unit="move", pto=Native("pto.tload"), show=_show_get)
def get(
    ref: Any,
    *operands: Any,
    sizes: tuple[int, ...],
    drop: tuple[int, ...] = (),
    valid: tuple[int | None, ...] | None = None,
    level: str = "tensor",
    space: Any = None,
    shares: bool = False,
) -> Any:
    """Load a window of a buffer into a tile.

    Operands: one offset per axis, then one run-time valid extent per None in `valid`. With `valid` only that part of
    the window must lie inside the buffer; the rest of the tile is padding. Without it, the tile is valid where the handle is.
    `shares`: the author wrote no load; a loop or branch gives one name to this buffer and to a tile.
    """


@structural(
    abstract=lambda x, *indices: ScalarAval((), x.dtype), refs=(0,), reads=(0,), index=tuple(range(1, 17)), unit="scalar", show=_show_read
)
def read(x: Any, *indices: Any) -> Any:
    """One element of a buffer or a tile, as a scalar. No two reads are assumed to give the same number.

    Errors:
      PL303 for an index outside the extent, when the kernel is traced or when it runs.
    """


def _set_aval(
    target: Aval, value: Aval, *offsets: Aval, sizes: tuple[int, ...], drop: tuple[int, ...], shares: bool = False
) -> tuple[Aval, ...]:
    want = dropped(sizes, drop)
    if value.dtype is not target.dtype:
        raise ShapeError(
            "PL302", f"a store of {value} into {target}", fix=f"pl.cast(value, pl.{target.dtype.name}) first: nothing converts on the way"
        )
    if not isinstance(value, ScalarAval) and value.shape != want:
        raise ShapeError("PL301", f"a store of shape {list(value.shape)} into a window {list(want)}", fix="reshape or slice the value")
    return ()


@structural(abstract=_set_aval, refs=(0,), writes=(0,), index=tuple(range(2, 18)), unit="move", pto=Native("pto.tstore"), show=_show_set)
def set_(target: Any, value: Any, *offsets: Any, sizes: tuple[int, ...], drop: tuple[int, ...] = (), shares: bool = False) -> Any:
    """Store a value into a window of a buffer, or update a tile in place. Only the valid region is written.

    A scalar value fills the window. `shares`: the author wrote no store; the tile leaves its region as this buffer.
    """


def _copy_aval(target: Aval, source: Aval) -> tuple[Aval, ...]:
    if source.dtype is not target.dtype:
        raise ShapeError("PL302", f"a copy of {source} into {target}", fix="buffers of one dtype; cast inside a region")
    return ()


@structural(
    abstract=_copy_aval,
    refs=(0, 1),
    reads=(1,),
    writes=(0,),
    unit="move",
    pto=Native("pto.tstore"),
    show=lambda e, name: f"copy {name(e.ins[0])} <- {name(e.ins[1])}",
)
def copy(target: Any, source: Any) -> Any:
    """Copy one buffer into another of the same shape and dtype: an orchestration-level task of its own. Bits are kept.

    Errors:
      PL301 and PL302 for another shape or dtype.
    """


@structural(abstract=lambda ref, *, axis: ScalarAval((), dtypes.INDEX), refs=(0,), unit="scalar", pto=Native("pto.get_tensor_view_dim"))
def dim(ref: Any, *, axis: int) -> Any:
    """The extent of one axis of a buffer, as an index scalar; `pl.tensor.dim` is the spelling for users."""


@structural(abstract=lambda x, *, axis: ScalarAval((), dtypes.INDEX), unit="scalar")
def valid_extent(x: Any, *, axis: int) -> Any:
    """The valid extent of one axis of a tile, as an index scalar: how many leading elements hold data."""
