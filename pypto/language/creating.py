"""Making tensors and tiles: filled, ramps, triangles, random bits, and memory that nobody has written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pypto import dtypes, lax, numerics
from pypto.core.avals import TENSOR, TILE, RefAval
from pypto.core.index import dim
from pypto.core.trace import aval_of
from pypto.dtypes import DType, dtype_of
from pypto.errors import ShapeError, TaskError
from pypto.language import access
from pypto.language.levels import by_level, level_of
from pypto.language.spelled import as_tile, trace_here
from pypto.language.trace import PlTrace
from pypto.language.values import RefValue, ScalarValue, index_of
from pypto.lax.families import literal
from pypto.lax.placing import check_space
from pypto.platform import Space

RAMPS = (dtypes.INT16, dtypes.INT32, dtypes.UINT32)


def static_shape(trace: PlTrace, shape: Sequence[Any], what: str) -> tuple[int, ...]:
    """Extents that must be constants."""
    return tuple(access.static_extent(trace, d, f"an extent of {what}") for d in shape)


@by_level
def full(shape: Sequence[Any], dtype: Any = dtypes.FP32, value: Any = 0) -> Any:
    """A tile of one value.

    Args:
      shape: constant extents.
      dtype: FP32 if left out.
      value: a number, rounded once to the dtype, or a scalar; 0 if left out.
    Returns:
      A tensor-level value; `pl.tile.full` gives a tile-level one.
    Errors:
      PL304 for a run-time extent, PL302 for a float in an integer tile, PL308 for a number the dtype does not hold.
    """
    trace = trace_here("full")
    kind = dtype_of(dtype)
    filled = trace.scalar_for(value, kind, "pl.full")
    return lax.fill(filled, shape=static_shape(trace, shape, "pl.full"), dtype=kind, level=level_of())


@by_level
def arange(start: Any, shape: Sequence[Any], dtype: Any = dtypes.INT32, descending: bool = False) -> Any:
    """start, start + 1, ... in one row [1, n]; with `descending`, start, start - 1, ... Also spelled `ci`.

    Args:
      start: a number, or an integer scalar.
      shape: constant extents, all 1 but the last.
      dtype: INT16, INT32 or UINT32, in which the steps wrap. (The original's op page leaves UINT32 out; its coding style has it.)
    Errors:
      PL305 for another dtype, PL308 for several rows.
    """
    trace = trace_here("arange")
    kind = dtype_of(dtype)
    extents = static_shape(trace, shape, "pl.arange")
    if kind not in RAMPS:
        raise ShapeError("PL305", f"pl.arange does not make {kind.name}", fix="INT16, INT32 or UINT32; pl.cast the result to another dtype")
    if not extents or any(d != 1 for d in extents[:-1]):
        raise ShapeError("PL308", f"pl.arange makes one row, not {list(extents)}", fix="shape [1, n]")
    first = trace.scalar_for(start, kind, "pl.arange")
    return lax.ramp(first, shape=extents, dtype=kind, descending=bool(descending), level=level_of())


ci = arange


def _part(trace: PlTrace, what: str, shape: tuple[int, ...], valid_shape: Sequence[Any] | None) -> tuple[list[Any], Any]:
    """A valid shape as the making ops have it: the run-time extents, and all of them with None for those."""
    if valid_shape is None:
        return [], None
    if len(valid_shape) != len(shape):
        raise ShapeError("PL301", f"{what}: {len(valid_shape)} valid extents for {len(shape)} axes", fix="one per axis")
    wanted = [access.offset(trace, v, "a valid extent") for v in valid_shape]
    known = tuple(w if isinstance(w, int) else None for w in wanted)
    return [w for w in wanted if not isinstance(w, int)], None if known == shape else known


def tri(
    diagonal: Any, shape: Sequence[Any], valid_shape: Sequence[Any] | None = None, dtype: Any = dtypes.INT32, upper: bool = False
) -> Any:
    """A triangle of ones in zeros, at tile level: column <= row + diagonal, or with `upper` column >= row + diagonal.

    Args:
      diagonal: an integer, or an integer scalar.
      shape: constant extents [rows, cols].
      valid_shape: the region that is written; the rest stays unwritten.
      dtype: INT16, UINT16, INT32, UINT32, FP16, BF16 or FP32.
    Errors:
      PL305 for another dtype, PL303 for a valid shape that does not lie in the shape.
    """
    trace = trace_here("tri")
    extents = static_shape(trace, shape, "pl.tri")
    first = access.offset(trace, diagonal, "the diagonal of pl.tri")
    dynamic, valid = _part(trace, "pl.tri", extents, valid_shape)
    return lax.tri(first, *dynamic, shape=extents, dtype=dtype, upper=bool(upper), level=TILE, valid=valid)


@by_level
def random(
    key0: Any,
    key1: Any,
    counter0: Any,
    counter1: Any,
    counter2: Any,
    counter3: Any,
    shape: Sequence[Any],
    valid_shape: Sequence[Any] | None = None,
    dtype: Any = dtypes.UINT32,
    rounds: int = 10,
) -> Any:
    """Random 32-bit words from a key and a counter, the same in every run; see `lax.random_bits` for which word goes where.

    Args:
      key0, key1, counter0 ... counter3: 32-bit numbers or integer scalars; of wider ones the low 32 bits.
      shape: constant extents.
      valid_shape: the region that is written; the result is then a tile-level tile.
      dtype: UINT32 or INT32.
      rounds: 10 or 7.
    Errors:
      PL305 for another dtype, PL308 for other rounds, or a number of more than 32 bits.
    """
    trace = trace_here("random")
    extents = static_shape(trace, shape, "pl.random")
    words = [_word(trace, w) for w in (key0, key1, counter0, counter1, counter2, counter3)]
    dynamic, valid = _part(trace, "pl.random", extents, valid_shape)
    level = level_of() if valid_shape is None else TILE
    return lax.random_bits(*words, *dynamic, shape=extents, dtype=dtype, rounds=rounds, level=level, valid=valid)


def _word(trace: PlTrace, x: Any) -> Any:
    """A number or an integer scalar as UINT32."""
    value = access.offset(trace, x, "a key or counter word")
    if isinstance(value, ScalarValue):
        return value if value.dtype is dtypes.UINT32 else lax.convert.bind(value, dtype=dtypes.UINT32, mode="rint", overflow="wrap")
    return literal(value + (1 << 32) if -(1 << 31) <= value < 0 else value, dtypes.UINT32)


def create_tensor(
    shape: Sequence[Any], dtype: Any = dtypes.FP32, *, init_value: Any = None, layout: Any = None, manual_dep: bool = False
) -> Any:
    """An intermediate tensor. In orchestration a GM buffer; inside a region an on-chip declaration.

    Nobody has written it: a matmul or another value may take over its name, and its elements may not reach an output.
    With `init_value` it is filled.

    With `manual_dep=True` no dependency between tasks is derived from it, as long as it lives: `deps=` orders them.

    Errors:
      PL304 for a run-time extent inside a region, PL308 for a layout other than row-major, PL504 for `manual_dep=True` in a region.
    """
    trace = trace_here("create_tensor")
    kind = dtype_of(dtype)
    if layout is not None and str(layout).upper() not in ("ND", "TENSORLAYOUT.ND"):
        raise ShapeError("PL308", f"create_tensor: layout={layout!r}", fix="buffers are row-major (ND)")
    if manual_dep and trace.in_region:
        raise TaskError("PL504", "create_tensor: manual_dep=True inside a region, where a tensor is on chip", fix="leave it out")
    if trace.in_region:
        extents = static_shape(trace, shape, "a tensor created in a region")
        if init_value is not None:
            return full(extents, kind, init_value)
        return _declared(trace, extents, kind, None)
    dims = [access.offset(trace, d, "an extent of create_tensor") for d in shape]
    extents = tuple(dim(index_of(d) or 0) for d in dims)
    static = tuple(d if isinstance(d, int) else None for d in extents)
    dynamic = [d for d, s in zip(dims, static, strict=True) if s is None]
    init = None if init_value is None else numerics.round_literal(init_value, kind)
    params = {"shape": static, "dtype": kind, "space": Space.DDR, "init": init, "name": "", "manual_dep": bool(manual_dep)}
    (var,) = trace.emit(lax.alloc, [trace.atom(d) for d in dynamic], params, [RefAval(extents, kind)])
    if init is None:
        trace.created.add(var)
    return trace.wrap(var)


def _declared(trace: PlTrace, shape: tuple[int, ...], dtype: DType, space: Space | None) -> Any:
    """An on-chip tensor nobody has written; what replaces it under its name may say its dtype."""
    made = lax.empty(shape=shape, dtype=dtype, level=TENSOR, space=space)
    trace.created.add(made.var)
    return made


def create_l1(shape: Sequence[Any], dtype: Any, transpose: bool = False) -> Any:
    """An on-chip tensor in L1 (the cube unit's staging memory) that nobody has written, inside a region.

    Errors:
      PL308 for `transpose=True`, PL304 for a run-time extent, PL501 outside a region.
    """
    trace = trace_here("create_l1")
    if transpose:
        raise ShapeError("PL308", "create_l1: transpose=True: layouts are chosen by the compiler", fix="matmul(..., b_trans=True)")
    return _declared(trace, static_shape(trace, shape, "pl.create_l1"), dtype_of(dtype), Space.MAT)


def create_tile(
    shape: Sequence[Any], dtype: Any, target_memory: Space = Space.VEC, transpose: bool | None = None, *, flat_layout: bool | None = None
) -> Any:
    """An on-chip tile nobody has written yet, at tile level.

    It reads as zero; elements that nobody has written may not reach an output (PL306).

    Args:
      target_memory: the on-chip space it lives in.
      transpose, flat_layout: must be left out: layouts are chosen by the compiler.
    Errors:
      PL304 for a run-time extent, PL401 for a space that is not on chip, PL308 for a layout.
    """
    trace = trace_here("create_tile")
    if transpose or flat_layout:
        raise ShapeError("PL308", "create_tile: layouts are chosen by the compiler", fix="leave out transpose= and flat_layout=")
    space = check_space("create_tile", target_memory)
    return lax.empty(shape=static_shape(trace, shape, "pl.create_tile"), dtype=dtype_of(dtype), level=TILE, space=space)


def _shape_of(x: Any, what: str) -> tuple[int, ...]:
    """The static extents of something only whose shape counts: it is not loaded."""
    if not isinstance(x, RefValue):
        return aval_of(as_tile(x, what)).static_shape
    return tuple(access.static_extent(x.trace, access.extent(x.trace, x, a), f"an extent of the target of {what}") for a in range(x.ndim))


def expands(target: Any, scalar: Any) -> Any:
    """A scalar in the shape and dtype of a target, of which nothing else counts.

    Errors:
      PL302 for a float in an integer tile.
    """
    trace = trace_here("expands")
    kind = aval_of(target).dtype
    filled = trace.scalar_for(scalar, kind, "pl.expands")
    return lax.fill(filled, shape=_shape_of(target, "expands"), dtype=kind, level=level_of(target))


def expand_clone(src: Any, target: Any) -> Any:
    """A copy of `src` whose unit axes are stretched to the shape of `target`, of which nothing else counts.

    Errors:
      PL301 for another number of axes, or an extent that is neither 1 nor the target's.
    """
    value = as_tile(src, "expand_clone")
    shape = _shape_of(target, "expand_clone")
    if aval_of(value).rank != len(shape):
        raise ShapeError("PL301", f"expand_clone: {aval_of(value)} in the shape {list(shape)}", fix="give both the same number of axes")
    return lax.broadcast_to(value, shape=shape)
