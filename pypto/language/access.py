"""Subscripts, windows, loads and stores: what a slice of a tensor or a tile means where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pypto import dtypes, lax
from pypto.core.avals import TENSOR, RefAval, scalar, show_shape
from pypto.core.index import Dim, Index, dim
from pypto.core.ir import Literal
from pypto.dtypes import DType
from pypto.errors import ShapeError, TaskError
from pypto.language.front import undeclared
from pypto.language.recovery import Broken
from pypto.language.types import Symbol
from pypto.language.values import RefValue, ScalarValue, TileValue, Unusable, index_of
from pypto.lax.memory import dropped
from pypto.lax.shape import check_window, known
from pypto.platform import Space
from pypto.source import user_frame

if TYPE_CHECKING:
    from pypto.language.trace import PlTrace

Offset = int | ScalarValue


@dataclass(frozen=True)
class Window:
    """Offset and size per axis; axes in `drop` were given by an integer and vanish from the result."""

    starts: tuple[Offset, ...]
    sizes: tuple[Offset, ...]
    drop: tuple[int, ...] = ()

    @property
    def is_element(self) -> bool:
        return len(self.drop) == len(self.starts)


def called(x: Any) -> str:
    """How an error names a value."""
    return f"`{x.var.name}`" if getattr(x, "var", None) is not None and x.var.name else f"a value of shape [{show_shape(x.shape)}]"


def offset(trace: PlTrace, x: Any, what: str = "an offset") -> Offset:
    """An integer operand: a Python int, a symbol, or an integer scalar (a plain int when its polynomial is constant)."""
    if isinstance(x, Unusable):
        raise x.error()
    if isinstance(x, Symbol):
        return trace.symbol(x)
    if isinstance(x, ScalarValue):
        if not x.dtype.is_integer:
            raise ShapeError("PL302", f"{what} is {x.aval}, not an integer", fix="pl.cast(x, pl.INT32) if it holds a whole number")
        return x
    if isinstance(x, Index):
        raise ShapeError("PL304", f"{what} is `{x}`, an extent known only at run time", fix="pl.tensor.dim(x, axis) gives it as a scalar")
    if isinstance(x, bool) or not hasattr(x, "__index__") or isinstance(x, RefValue | TileValue):
        raise ShapeError("PL302", f"{what} is {x!r}, not an integer", fix="an int, a loop index, or pl.read(...) of an integer tensor")
    return int(x)


def static_extent(trace: PlTrace, x: Any, what: str) -> int:
    """An extent that must be a number.

    Errors:
      PL304 naming what it depends on.
    """
    value = offset(trace, x, what)
    if isinstance(value, int):
        return value
    polynomial = value.index
    if polynomial is not None and polynomial.value is not None:
        return polynomial.value
    raise ShapeError(
        "PL304",
        f"{what} is `{polynomial}`, known only at run time; tiles have static shapes",
        fix="use a constant TILE with valid_shape=[pl.min(TILE, n - start), ...] inside a loop",
    )


def extent(trace: PlTrace, x: Any, axis: int) -> Offset:
    """The extent of one axis of a tensor or tile, as an operand."""
    d = x.shape[axis]
    return d if isinstance(d, int) else trace.dimension(x, axis)


def parse(trace: PlTrace, x: Any, index: Any) -> Window:
    """A subscript as a window. Missing axes are whole; an integer takes one element of its axis and drops it."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis in [p for p in parts if p is Ellipsis]:
        at = next(i for i, p in enumerate(parts) if p is Ellipsis)
        parts[at : at + 1] = [slice(None)] * (x.ndim - len(parts) + 1)
    if len(parts) > x.ndim:
        raise ShapeError("PL301", f"{len(parts)} subscripts for {called(x)} with {x.ndim} axes", fix="one per axis")
    parts += [slice(None)] * (x.ndim - len(parts))
    starts, sizes, drop = [], [], []
    for axis, part in enumerate(parts):
        if isinstance(part, slice):
            start, size = _range(trace, x, axis, part)
        else:
            start, size = _wrapped(x.shape[axis], offset(trace, part, "a subscript")), 1
            drop.append(axis)
        starts.append(start)
        sizes.append(size)
    return Window(tuple(starts), tuple(sizes), tuple(drop))


def _wrapped(d: Dim, x: Offset) -> Offset:
    return x + d if isinstance(x, int) and x < 0 and isinstance(d, int) else x


def _range(trace: PlTrace, x: Any, axis: int, part: slice) -> tuple[Offset, Offset]:
    if part.step not in (None, 1):
        raise ShapeError("PL308", f"a slice with step {part.step}", fix="windows are dense; use pl.gather for strided lanes")
    whole = x.shape[axis]
    start = 0 if part.start is None else _wrapped(whole, offset(trace, part.start, "a slice start"))
    stop = extent(trace, x, axis) if part.stop is None else _wrapped(whole, offset(trace, part.stop, "a slice stop"))
    first, last = index_of(start), index_of(stop)
    width = None if first is None or last is None else dim(last - first)
    if isinstance(width, int):
        if width < 0 and isinstance(start, int):
            raise ShapeError("PL303", f"a slice {start}:{stop} runs backwards", fix="start must not be past stop")
        return start, width
    return start, stop - start


def operand(trace: PlTrace, x: Offset) -> Any:
    """An offset as an operand of an equation."""
    return Literal(dtypes.INDEX.storage.type(x), scalar(dtypes.INDEX)) if isinstance(x, int) else x


def _static_sizes(trace: PlTrace, sizes: Sequence[Offset], what: str) -> tuple[int, ...]:
    return tuple(static_extent(trace, s, what) for s in sizes)


def _starts_for_check(starts: Sequence[Offset]) -> list[Any]:
    return [s if isinstance(s, int) else known(s) for s in starts]


# ---- reading -----------------------------------------------------------------------------------------------------


def subscript(trace: PlTrace, x: Any, index: Any) -> Any:
    window = parse(trace, x, index)
    if window.is_element:
        return read(trace, x, window.starts)
    if isinstance(x, TileValue):
        return slice_tile(trace, x, window)
    return load(trace, x, window) if trace.in_region else view(trace, x, window)


def read(trace: PlTrace, x: Any, starts: Sequence[Offset]) -> ScalarValue:
    """One element, as a scalar. Every read is a fresh unknown."""
    check_window("read", called(x), x.shape, [1] * len(starts), _starts_for_check(starts))
    return trace.process(lax.read, [x, *(operand(trace, s) for s in starts)], {})


def view(trace: PlTrace, x: RefValue, window: Window) -> RefValue:
    """A window that shares the buffer's memory."""
    known_sizes = [s if isinstance(s, int) else None for s in window.sizes]
    check_window("a slice", called(x), x.shape, known_sizes, _starts_for_check(window.starts))
    if not window.drop and all(isinstance(s, int) and s == 0 for s in window.starts) and _same_extents(x.shape, window.sizes):
        return x  # the whole buffer is the buffer itself
    shape = dropped(tuple(dim(index_of(s)) if not isinstance(s, int) else s for s in window.sizes), window.drop)
    ins = [x, *(operand(trace, s) for s in window.starts), *(s for s in window.sizes if not isinstance(s, int))]
    sizes = tuple(s if isinstance(s, int) else None for s in window.sizes)
    return trace.derive(x, lax.view, ins, {"sizes": sizes, "drop": window.drop}, shape)


def _same_extents(shape: tuple[Dim, ...], sizes: Sequence[Offset]) -> bool:
    return all(Index.of(d) == index_of(s) for d, s in zip(shape, sizes, strict=True))


def load(
    trace: PlTrace,
    x: RefValue,
    window: Window,
    valid: Sequence[Offset] | None = None,
    level: str = TENSOR,
    space: Space | None = None,
    shares: bool = False,
) -> TileValue:
    """A window of a buffer as a tile. With `valid`, bounds apply to the valid part only and the rest is padding."""
    if not trace.in_region:
        raise outside(f"a load of {called(x)}")
    sizes = _static_sizes(trace, window.sizes, f"the extent of a slice of {called(x)}")
    bounded: list[int | None] = list(sizes)
    if valid is not None:
        bounded = [v if isinstance(v, int) else None for v in valid]
        for axis, (v, s) in enumerate(zip(bounded, sizes, strict=True)):
            if v is not None and not 0 <= v <= s:
                raise ShapeError("PL303", f"valid extent {v} of axis {axis} in a window of {s}", fix="the valid part lies in the window")
    check_window("load", called(x), x.shape, bounded, _starts_for_check(window.starts))
    extra = [] if valid is None else [v for v in valid if not isinstance(v, int)]
    params = {
        "sizes": sizes,
        "drop": window.drop,
        "valid": None if valid is None else tuple(v if isinstance(v, int) else None for v in valid),
        "level": level,
        "space": space,
        **({"shares": True} if shares else {}),
    }
    return trace.process(lax.get, [x, *(operand(trace, s) for s in window.starts), *extra], params)


def load_whole(trace: PlTrace, x: RefValue, *, shares: bool = False) -> TileValue:
    """A buffer used as a value inside a region: all of it, loaded here. `shares`: to have one name with a tile."""
    return load(trace, x, Window((0,) * x.ndim, tuple(extent(trace, x, a) for a in range(x.ndim))), shares=shares)


def slice_tile(trace: PlTrace, x: TileValue, window: Window) -> TileValue:
    """A window of a tile, as a value of its own: `t[:]` is a copy, too."""
    sizes = _static_sizes(trace, window.sizes, f"the extent of a slice of {called(x)}")
    check_window("a slice", called(x), x.shape, sizes, _starts_for_check(window.starts))
    part = trace.process(lax.slice_, [x, *(operand(trace, s) for s in window.starts)], {"sizes": sizes})
    shape = dropped(sizes, window.drop)
    return part if shape == sizes else lax.reshape.bind(part, shape=shape)


# ---- writing -----------------------------------------------------------------------------------------------------


def store_subscript(trace: PlTrace, x: Any, index: Any, value: Any) -> None:
    store(trace, x, parse(trace, x, index), value)


def store(trace: PlTrace, target: Any, window: Window, value: Any, combine: str | None = None) -> None:
    """Write a value into a window of a buffer or a tile; with `combine`, atomically combine it with what a buffer holds there.

    Errors:
      PL203 for a parameter that is no output; for an atomic store PL307 into a tile, PL501 outside a region.
    """
    if isinstance(value, Broken):
        return None
    if isinstance(value, Unusable):
        raise value.error()
    if target.dtype is dtypes.TASK_ID:
        value = trace.scalar_for(value, target.dtype, f"a store into {called(target)}")
    if isinstance(target, RefValue):
        check_direction(trace, target)
    if combine is not None and not isinstance(target, RefValue):
        raise ShapeError("PL307", f"an atomic store into {called(target)}, which is on chip", fix="combine tiles with pl.add or pl.maximum")
    if combine is not None and not trace.in_region:
        raise outside(f"an atomic store into {called(target)}")
    if not trace.in_region and isinstance(target, RefValue):
        return _store_outside(trace, target, window, value)
    sizes = _static_sizes(trace, window.sizes, f"the extent of a store into {called(target)}")
    if isinstance(value, TileValue) and len(sizes) == value.ndim and value.aval.valid == sizes:
        sizes = value.aval.static_shape  # the window is the valid part, which is all that is written
    value, drop = _fitted(trace, target, value, sizes, window.drop)
    check_window("a store", called(target), target.shape, _written(value, sizes, drop), _starts_for_check(window.starts))
    ins = [target, value, *(operand(trace, s) for s in window.starts)]
    if combine is None:
        trace.process(lax.set_, ins, {"sizes": sizes, "drop": drop})
    else:
        trace.process(lax.accumulate, ins, {"sizes": sizes, "drop": drop, "combine": combine})
    return None


def _fitted(trace: PlTrace, target: Any, value: Any, sizes: tuple[int, ...], drop: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    """The value as a store takes it, and the axes of the window it does not have."""
    if isinstance(value, bool | int | float | ScalarValue):
        return trace.scalar_for(value, target.dtype, f"a store into {called(target)}"), ()
    if isinstance(value, RefValue):
        value = load_whole(trace, value)
    if not isinstance(value, TileValue):
        raise ShapeError("PL302", f"a store of {type(value).__name__} into {called(target)}", fix="store a tile, a tensor or a number")
    for candidate in (drop, ()):
        if value.shape == dropped(sizes, candidate):
            return value, candidate
    if [d for d in value.shape if d != 1] == [d for d in sizes if d != 1]:
        return lax.reshape.bind(value, shape=sizes), ()
    return value, drop  # the abstract rule of the store says what does not fit


def _written(value: Any, sizes: tuple[int, ...], drop: tuple[int, ...]) -> Sequence[int | None]:
    """How far a store reaches along each axis: over the valid part of the value only; None where that is known at run time."""
    if not isinstance(value, TileValue) or value.aval.valid is None or value.shape != dropped(sizes, drop):
        return sizes
    valid = iter(value.aval.valid)
    return [1 if axis in drop else next(valid) for axis in range(len(sizes))]


def _store_outside(trace: PlTrace, target: RefValue, window: Window, value: Any) -> None:
    """Outside a region: one element, or an implicit copy between buffers."""
    if isinstance(value, RefValue):
        destination = view(trace, target, window)
        if _differ(destination.shape, value.shape):
            raise ShapeError(
                "PL301", f"a copy of [{show_shape(value.shape)}] into [{show_shape(destination.shape)}]", fix="slice one of them"
            )
        trace.process(lax.copy, [destination, value], {})
    elif window.is_element and isinstance(value, bool | int | float | ScalarValue):
        element = trace.scalar_for(value, target.dtype, f"a store into {called(target)}")
        check_window("a store", called(target), target.shape, [1] * len(window.starts), _starts_for_check(window.starts))
        ins = [target, element, *(operand(trace, s) for s in window.starts)]
        trace.process(lax.set_, ins, {"sizes": (1,) * len(window.starts), "drop": ()})
    else:
        raise outside(f"a store into {called(target)}")


def _differ(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    """Whether two shapes are known to differ; extents of which one is known only at run time are compared then."""
    return len(a) != len(b) or any((Index.of(x) - Index.of(y)).value not in (None, 0) for x, y in zip(a, b, strict=True))


def outside(what: str) -> TaskError:
    return TaskError(
        "PL501",
        f"{what} stands outside a region; an orchestration body only moves buffers and emits tasks",
        fix="put it under `with pl.at(level=pl.Level.CORE_GROUP):`",
    )


def check_direction(trace: PlTrace, target: RefValue, through: str = "") -> None:
    """A store must reach something that was declared an output.

    Args:
      through: the function and parameter that will write it, where this is a call.

    Errors:
      PL203 naming the parameter.
    """
    parameter = trace.parameter_of(target)
    if parameter is not None and isinstance(parameter.aval, RefAval) and parameter.aval.direction == "in":
        if not trace.undeclared_writes:
            raise undeclared(parameter.name, through=through)
        trace.device_writes.setdefault(parameter.name, user_frame())


# ---- other views -------------------------------------------------------------------------------------------------


def reshape_ref(trace: PlTrace, x: RefValue, shape: Sequence[Any]) -> RefValue:
    """The same buffer under another shape."""
    dims = [offset(trace, d, "an extent") for d in shape]
    polynomials = [index_of(d) for d in dims]
    have, want = _product([Index.of(d) for d in x.shape]), _product([p for p in polynomials if p is not None])
    if (have - want).value not in (None, 0):
        raise ShapeError(
            "PL301", f"reshape: {called(x)} has {have} elements, {[str(p) for p in polynomials]} has {want}", fix="keep the number"
        )
    resolved = tuple(dim(p) if p is not None else Index.fresh("?") for p in polynomials)
    if resolved == x.shape:
        return x
    static = tuple(d if isinstance(d, int) else None for d in resolved)
    dynamic = [d for d, s in zip(dims, static, strict=True) if s is None]
    return trace.derive(x, lax.reshape_view, [x, *dynamic], {"shape": static}, resolved)


def _product(factors: Sequence[Index]) -> Index:
    total = Index.constant(1)
    for f in factors:
        total = total * f
    return total


def transpose_ref(trace: PlTrace, x: RefValue, permutation: tuple[int, ...]) -> RefValue:
    shape = tuple(x.shape[a] for a in permutation)
    return trace.derive(x, lax.transpose_view, [x], {"permutation": permutation}, shape)


def retyped(trace: PlTrace, x: RefValue, dtype: DType) -> RefValue:
    """The same buffer, read as another dtype of the same width."""
    return trace.derive(x, lax.bits_view, [x], {"dtype": dtype}, x.shape)


def marked(trace: PlTrace, x: RefValue, extents: Sequence[Offset]) -> RefValue:
    """The same buffer, of which only these leading extents hold data."""
    known = tuple(e if isinstance(e, int) else None for e in extents)
    for have, want in zip(x.shape, known, strict=True):
        if want is not None and (want < 0 or (isinstance(have, int) and want > have)):
            raise ShapeError("PL303", f"valid extents {list(known)} of {called(x)}", fix="between 0 and the extents")
    return trace.derive(x, lax.valid_view, [x, *(e for e in extents if not isinstance(e, int))], {"known": known}, x.shape)


def bind_dynamic(x: RefValue, axis: int, symbol: Any) -> None:
    """The axis must be the symbol its annotation names.

    Errors:
      PL304 when the annotation says something else.
    """
    named = x.trace.symbols.get(symbol) if isinstance(symbol, Symbol) else None  # in an inline: the extent it was given
    if named is None or (Index.of(x.shape[axis]) - Index.of(named[0].shape[named[1]])).value != 0:
        raise ShapeError(
            "PL304",
            f"axis {axis} of {called(x)} is {x.shape[axis]}, not {symbol!r}",
            fix="write the symbol into the annotation: pl.Tensor[[M, ...], dtype]",
        )
