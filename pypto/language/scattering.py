"""Scatter: by index, by lane pattern, by row, and into tensors. What is scattered into is updated in place."""

from __future__ import annotations

from typing import Any

from pypto import lax
from pypto.core.avals import TENSOR, TILE
from pypto.core.trace import aval_of
from pypto.errors import ShapeError
from pypto.language import access
from pypto.language.access import Window
from pypto.language.gathering import memory, named_tile
from pypto.language.levels import by_level, only_at
from pypto.language.spelled import trace_here
from pypto.language.trace import PlTrace
from pypto.language.values import RefValue, TileValue
from pypto.lax.reduction import normal_axis

_FORMS = "pl.tile.scatter(dst, src, indexes) takes flat positions, pl.tensor.scatter(x, dim, index, src) indices along an axis"


@by_level
def scatter(
    x: Any,
    dim: Any = None,
    index: Any = None,
    src: Any = None,
    *,
    indexes: Any = None,
    mask_pattern: Any = None,
    dst: Any = None,
) -> Any:
    """Scatter elements into a tile or tensor, in one of three forms; several elements for one place: the last stays.

    | call | effect |
    |---|---|
    | `scatter(x, dim, index, src)` | x[i, index[i, j]] = src[i, j] for the last axis, as `torch.scatter_`; any axis |
    | `tile.scatter(dst, src, indexes)` | dst.flat[indexes[i, j]] = src[i, j], positions over the physical columns |
    | `scatter(src, mask_pattern=p, dst=dst)` | the columns of src go to the lanes of a pattern; the other lanes are kept |

    A tile is updated for every name it has, a tensor that may be written in memory; the result is that tile or tensor. An input
    is not written: the result is then a copy of it, as a new tile.

    Errors:
      PL303 for an index outside its extent, in checked runs; PL307 for an argument of the other level; PL308 for two forms at
      once; PL301, PL302, PL305.
    """
    trace = trace_here("scatter")
    if dim is not None and not isinstance(dim, int):  # tile.scatter(dst, src, indexes)
        if src is not None:
            raise ShapeError("PL308", f"scatter: dim is {dim!r}", fix=_FORMS)
        dim, src, indexes = None, dim, index if index is not None else indexes
        index = None
    given = [
        n
        for n, used in (("index", dim is not None or index is not None), ("flat", indexes is not None), ("mask", mask_pattern is not None))
        if used
    ]
    if len(given) != 1:
        raise ShapeError(
            "PL308",
            f"scatter: {len(given)} forms at once ({', '.join(given) or 'none'})",
            fix="(x, dim, index, src), or mask_pattern= with dst=",
        )
    only_at(TENSOR, "scatter", (), _FORMS, dim=dim is not None, index=index is not None)
    only_at(TILE, "scatter", (x, src), _FORMS, indexes=indexes is not None)
    if given == ["mask"]:
        if dst is None or src is not None:
            raise ShapeError("PL308", "scatter with mask_pattern= goes into dst=", fix="pl.scatter(src, mask_pattern=p, dst=buffer)")
        return scatter_mask(dst, x, mask_pattern)
    if dst is not None or src is None or (given == ["index"] and (dim is None or index is None)):
        raise ShapeError("PL308", "scatter: an argument is missing", fix=_FORMS)
    target, source = named_tile(x, "scatter"), named_tile(src, "scatter")
    if given == ["flat"]:
        return _updated(trace, x, lax.scatter_flat(target, source, named_tile(indexes, "scatter")))
    axis = normal_axis("scatter", aval_of(target).rank, 0 if dim is None else int(dim))
    return _updated(trace, x, lax.scatter_along(target, named_tile(index, "scatter"), source, axis=axis))


def _updated(trace: PlTrace, target: Any, value: Any) -> Any:
    """Make a new content the content of a tile, or of a tensor that may be written."""
    if isinstance(target, RefValue):
        parameter = trace.parameter_of(target)
        if parameter is not None and parameter.aval.direction == "in" and not trace.undeclared_writes:  # type: ignore[attr-defined]
            return value
    access.store(trace, target, Window((0,) * target.ndim, tuple(target.shape)), value)
    return target


def scatter_mask(dst: Any, src: Any, mask_pattern: Any) -> Any:
    """Spread the columns of `src` over the lanes a pattern selects in `dst`, whose other lanes are kept. See `lax.scatter_mask`."""
    trace = trace_here("scatter_mask")
    code = int(mask_pattern) if isinstance(mask_pattern, int) and not isinstance(mask_pattern, bool) else mask_pattern
    return _updated(trace, dst, lax.scatter_mask(named_tile(dst, "scatter_mask"), named_tile(src, "scatter_mask"), pattern=code))


def scatter_update(input: Any, *operands: Any, dim: Any = None, index: Any = None, src: Any = None) -> Any:
    """Replace whole rows: `scatter_update(input, -2, index, src)` or `scatter_update(input, index, src)`; returns `input`.

    Row index[i, j] of `input` becomes row i*s + j of `src`, in that order.

    Args:
      input: a tensor or tile [rows, d], or paged [blocks, size, 1, d].
      dim: -2, the only axis there is a row along.
      index: integers [b, s].
      src: [b*s, d], or [b, s, 1, d].
    Errors:
      PL203 for a tensor that is no output, PL303 for a row that does not exist, in checked runs; PL301, PL302, PL305, PL308.
    """
    trace = trace_here("scatter_update")
    rest = list(operands)
    if rest and isinstance(rest[0], int):
        if dim is not None:
            raise ShapeError("PL308", "scatter_update: dim is given twice", fix="scatter_update(input, -2, index, src)")
        dim = rest.pop(0)
    if rest and index is None:
        index = rest.pop(0)
    if rest and src is None:
        src = rest.pop(0)
    if rest or index is None or src is None or dim not in (None, -2):
        raise ShapeError("PL308", f"scatter_update: dim={dim}, {len(operands)} operands", fix="scatter_update(input, -2, index, src)")
    ins = [named_tile(src, "scatter_update"), named_tile(index, "scatter_update")]
    if isinstance(input, TileValue):
        return _updated(trace, input, lax.scatter_rows(input, *ins))
    access.check_direction(trace, memory("scatter_update", input))
    trace.process(lax.scatter_update, [input, *ins], {})
    return input


def mscatter(src: Any, idx: Any, tensor: Any) -> Any:
    """Store the elements of a tile at flat positions of a tensor, tensor.flat[idx[i, j]] = src[i, j]; returns the tensor.

    Of several elements for one place the last one in row-major order of the tile stays: what a loop over rows and columns would leave.
    That is the order here, in every run; on the chip it is not defined, so a kernel that is to run there has each place at most once.

    See `lax.mscatter`. PL203 for a tensor that is no output.
    """
    trace = trace_here("mscatter")
    ins = [named_tile(src, "mscatter"), named_tile(idx, "mscatter")]
    access.check_direction(trace, memory("mscatter", tensor))
    trace.process(lax.mscatter, [tensor, *ins], {})
    return tensor
