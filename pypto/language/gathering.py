"""Gather: by index, by lane pattern, by comparison, by blocks; rows and elements of a tensor; pages of a pool."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from pypto import dtypes, lax
from pypto.core.avals import TENSOR, TILE
from pypto.core.trace import aval_of
from pypto.dtypes import dtype_of
from pypto.errors import MemorySpaceError, ShapeError
from pypto.language import access
from pypto.language.access import Window
from pypto.language.levels import by_level, only_at
from pypto.language.padding import narrowed
from pypto.language.spelled import CmpType, as_tile, trace_here
from pypto.language.trace import PlTrace
from pypto.language.values import RefValue, TileValue
from pypto.lax.addressed import COALESCE, POLICIES
from pypto.lax.families import as_dtype
from pypto.lax.placing import check_space
from pypto.lax.reduction import normal_axis
from pypto.platform import Space


class MaskPattern(enum.IntEnum):
    """Which columns of each row a mask form takes; the name is read from the right: P0101 takes columns 0, 2, 4, ..."""

    P0101 = 1
    P1010 = 2
    P0001 = 3
    P0010 = 4
    P0100 = 5
    P1000 = 6
    P1111 = 7


_FLAT = "pl.tile.gather(src, indices, tmp) takes flat positions, pl.tensor.gather(x, dim, index) indices along an axis"


def named_tile(x: Any, what: str) -> Any:
    """An operand as a value that errors can name: a loaded handle keeps the handle's name."""
    value = as_tile(x, what)
    if isinstance(x, RefValue) and not value.var.name:
        value.var.name = x.var.name
    return value


@by_level
def gather(
    x: Any,
    dim: Any = None,
    index: Any = None,
    tmp: Any = None,
    *,
    indices: Any = None,
    mask_pattern: Any = None,
    output_dtype: Any = None,
    kvalue: Any = None,
    cmp_mode: Any = "eq",
    out_cols: int | None = None,
    offset: int = 0,
    count_dtype: Any = None,
) -> Any:
    """Gather elements of a tile, in one of four forms.

    | call | result |
    |---|---|
    | `gather(x, dim, index)` | x[i, index[i, j]] for the last axis, as `torch.gather`; any axis, index a tensor or a tile |
    | `tile.gather(x, indices, tmp)` | x.flat[indices[i, j]], positions over the physical columns; `tmp` is scratch |
    | `gather(x, mask_pattern=p, output_dtype=d)` | every second or fourth column, packed; `d` copies the bits into another dtype |
    | `gather(x, kvalue=k, cmp_mode=m, out_cols=n)` | (columns that compare true per row, how many) |

    Numerics, dtypes and errors as `lax.gather_along`, `lax.gather_flat`, `lax.gather_mask` and `lax.gather_compare`.

    Errors:
      PL303 for an index outside its extent, in checked runs; PL307 for an argument of the other level; PL308 for two forms at once.
    """
    if isinstance(dim, TileValue | RefValue) or (dim is not None and aval_of(dim).shape != ()):  # tile.gather(src, indices, tmp)
        dim, indices, tmp = None, dim, index if index is not None else tmp
        index = None
    by_flat, by_index = indices is not None, dim is not None or index is not None
    forms = {"index": by_index, "flat": by_flat, "mask": mask_pattern is not None, "compare": kvalue is not None}
    given = [name for name, used in forms.items() if used]
    if len(given) != 1:
        raise ShapeError(
            "PL308",
            f"gather: {len(given)} forms at once ({', '.join(given) or 'none'})",
            fix="(x, dim, index), or mask_pattern=, or kvalue=",
        )
    _only_with("mask_pattern", given == ["mask"], output_dtype=output_dtype is not None)
    _only_with(
        "kvalue",
        given == ["compare"],
        cmp_mode=cmp_mode != "eq",
        out_cols=out_cols is not None,
        offset=offset != 0,
        count_dtype=count_dtype is not None,
    )
    only_at(TENSOR, "gather", (), _FLAT, dim=dim is not None, index=index is not None)
    only_at(TILE, "gather", (x, indices), _FLAT, indices=by_flat, tmp=tmp is not None)
    if mask_pattern is not None:
        return gather_mask(x, mask_pattern, output_dtype=output_dtype)
    if kvalue is not None:
        return gather_compare(x, kvalue, tmp, cmp_mode=cmp_mode, offset=offset, out_cols=out_cols, count_dtype=count_dtype)
    value = named_tile(x, "gather")
    if by_flat:
        return lax.gather_flat(value, named_tile(indices, "gather"))
    if dim is None or index is None:
        raise ShapeError("PL308", "gather: dim and index belong together", fix="pl.gather(x, dim=-1, index=idx)")
    return lax.gather_along(value, named_tile(index, "gather"), axis=normal_axis("gather", aval_of(value).rank, int(dim)))


def _only_with(keyword: str, used: bool, **given: bool) -> None:
    for name, is_given in given.items():
        if is_given and not used:
            raise ShapeError(
                "PL308", f"gather: `{name}` belongs to the form with `{keyword}`", fix=f"give `{keyword}` too, or leave `{name}` out"
            )


def gather_mask(src: Any, mask_pattern: Any, *, output_dtype: Any = None) -> Any:
    """The columns a pattern selects, packed: `gather(src, mask_pattern=...)` at tile level. See `lax.gather_mask`."""
    value = named_tile(src, "gather_mask")
    kind = aval_of(value).dtype if output_dtype is None else dtype_of(output_dtype)
    return lax.gather_mask(value, pattern=_pattern(mask_pattern), dtype=kind)


def _pattern(code: Any) -> Any:
    return int(code) if isinstance(code, int) and not isinstance(code, bool) else code


def gather_compare(
    src: Any,
    kvalue: Any,
    tmp: Any = None,
    *,
    cmp_mode: Any = "eq",
    offset: int = 0,
    out_cols: int | None = None,
    count_dtype: Any = None,
) -> tuple[Any, Any]:
    """Per row, the columns whose element compares true with `kvalue`, and their number. See `lax.gather_compare`.

    Args:
      kvalue: a number, or a scalar of the dtype of `src`.
      tmp: scratch of the instruction; changes nothing.
      cmp_mode: eq, ne, lt, le, gt, ge, a `CmpType`, or its code.
      out_cols: columns of the list of a row.
      offset: added to every column found.
      count_dtype: INT32 (the default) or UINT32.
    Returns:
      INT32 [rows, out_cols] and `count_dtype` [1, rows].
    """
    value = named_tile(src, "gather")
    dtype = aval_of(value).dtype
    if isinstance(kvalue, float) and not dtype.is_float:
        raise ShapeError("PL302", f"gather: kvalue {kvalue!r} for {dtype.name} data", fix="an integer")
    if out_cols is None:
        raise ShapeError("PL308", "gather by comparison needs out_cols", fix="out_cols=n: how many columns of a row are listed")
    number = as_dtype(kvalue, aval_of(kvalue), dtype) if isinstance(kvalue, bool | int | float) else kvalue
    counted = dtypes.INT32 if count_dtype is None else dtype_of(count_dtype)
    return lax.gather_compare(value, number, mode=_comparison(cmp_mode), offset=int(offset), out_cols=int(out_cols), count_dtype=counted)


def _comparison(mode: Any) -> int:
    if isinstance(mode, str) and mode.upper() in CmpType.__members__:
        return int(CmpType[mode.upper()])
    if isinstance(mode, int) and not isinstance(mode, bool):
        return int(mode)
    raise ShapeError("PL308", f"gather: there is no comparison {mode!r}", fix="one of eq, ne, lt, le, gt, ge, or 0..5")


def gatherb(src: Any, offset: Any, *, output_dtype: Any = None) -> Any:
    """Fetch blocks of 32 bytes at UINT32 byte offsets. See `lax.gatherb`."""
    value = named_tile(src, "gatherb")
    kind = aval_of(value).dtype if output_dtype is None else dtype_of(output_dtype)
    return lax.gatherb(value, named_tile(offset, "gatherb"), dtype=kind)


# ---- from tensors ------------------------------------------------------------------------------------------------


def _code(name: str, names: tuple[str, ...], value: Any) -> str:
    """A policy by name, or by its code."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(names):
        return names[value]
    if value in names:
        return value
    raise ShapeError("PL308", f"{name}={value!r}", fix=f"one of {', '.join(names)}")


def memory(name: str, x: Any) -> RefValue:
    """An argument that must be a GM tensor.

    Errors:
      PL307 for a tile.
    """
    if not isinstance(x, RefValue):
        raise ShapeError("PL307", f"{name} goes to global memory, and {aval_of(x)} is on chip", fix="give it the tensor")
    return x


def mgather(
    mem: Any,
    idx: Any,
    coalesce: Any = "row",
    *,
    gather_oob: Any = "undefined",
    target_memory: Space = Space.VEC,
    scratch: Any = None,
    valid_shape: Sequence[int] | None = None,
) -> Any:
    """Load rows or single elements of a tensor at the places an index names. See `lax.mgather`.

    Args:
      coalesce: `row` (0) or `elem` (1).
      gather_oob: `undefined` (0), `clamp` (1), `wrap` (2) or `zero` (3).
      target_memory: VEC; or MAT, with rows a multiple of 16 and columns of 32 bytes.
      scratch: a GM tensor of the same dtype that elements to MAT need; it changes nothing.
      valid_shape: of a result in MAT; in VEC the index says it.
    Errors:
      PL303 for an index outside, `undefined` and checked; PL307, PL308, PL401.
    """
    trace = trace_here("mgather")
    space = check_space("mgather", target_memory, (Space.VEC, Space.MAT))
    by = _code("coalesce", COALESCE, coalesce)
    if (scratch is not None) != (space is Space.MAT and by == "elem"):
        raise ShapeError(
            "PL308", "mgather: scratch is for elements to MAT, which need it", fix="a GM tensor of the dtype of mem, there only"
        )
    if valid_shape is not None and space is not Space.MAT:
        raise ShapeError("PL308", "mgather: in VEC the index gives the valid shape", fix="pl.set_validshape on the index")
    policy = _code("gather_oob", POLICIES, gather_oob)
    params = {"coalesce": by, "gather_oob": policy, "space": space}
    result = trace.process(lax.mgather, [memory("mgather", mem), named_tile(idx, "mgather")], params)
    if space is Space.MAT:
        rows, columns = result.shape
        if rows % 16 or columns * result.dtype.itemsize % 32:
            raise MemorySpaceError("PL401", f"mgather to MAT of {result.aval}", fix="rows a multiple of 16, columns of 32 bytes")
    return result if valid_shape is None else narrowed(trace, result, tuple(valid_shape))


def gather_row(
    dst: Any,
    src: Any,
    dst_offset: Sequence[Any],
    src_offset: Sequence[Any],
    shapes: Sequence[Any],
    transpose: bool = False,
    *,
    valid_shape: Sequence[Any] | None = None,
) -> Any:
    """Load a window of a tensor straight into a part of an on-chip tile, for every name the tile has; returns the tile.

    Args:
      dst: a tile; `pl.create_l1` or `pl.create_tile` make one.
      src: a GM tensor.
      dst_offset, src_offset: where the window begins on either side; integers or integer scalars.
      shapes: its constant extents.
      transpose: write it with rows and columns exchanged; only into MAT, and not with `valid_shape`.
      valid_shape: how much of the window moves; bounds apply to that part only. May be known at run time only.
    Errors:
      PL303 for a window past either extent, PL307 for the wrong kind of operand, PL308, PL401.
    """
    trace = trace_here("gather_row")
    source = memory("gather_row", src)
    if not isinstance(dst, TileValue):
        raise ShapeError(
            "PL307", f"gather_row writes an on-chip tile, not {access.called(dst)}", fix="pl.create_l1 or pl.create_tile makes one"
        )
    if transpose and valid_shape is not None:
        raise ShapeError("PL308", "gather_row: transpose=True with valid_shape=", fix="one of them")
    if transpose and dst.aval.space is not Space.MAT:
        raise MemorySpaceError("PL401", "gather_row: transpose=True outside MAT", fix="dst = pl.create_l1(...)")
    sizes = tuple(access.static_extent(trace, d, "the shape of gather_row") for d in shapes)
    valid = None if valid_shape is None else _listed(trace, valid_shape, "valid_shape")
    part = access.load(trace, source, Window(_listed(trace, src_offset, "src_offset"), sizes), valid)
    if transpose:
        part, sizes = lax.transpose(part, permutation=(1, 0)), sizes[::-1]
    access.store(trace, dst, Window(_listed(trace, dst_offset, "dst_offset"), sizes), part)
    return dst


def _listed(trace: PlTrace, values: Sequence[Any], what: str) -> tuple[Any, ...]:
    return tuple(access.offset(trace, v, what) for v in values)


def paged_gather(
    src: Any,
    indices: Any,
    block_table: Any,
    block_size: int,
    size: int,
    max_indices: int,
    *,
    space: Space = Space.MAT,
    col_off: int = 0,
    is_trans: bool = False,
    is_b_matrix: bool = False,
) -> Any:
    """Load rows of a paged pool through its block table: `pl.tensor.paged_gather`. See `lax.paged_gather`.

    Args:
      src: the pool, a GM tensor [rows, columns].
      indices: INT32 [n] or [1, n], logical rows.
      block_table: INT32, the physical page of each logical one.
      size, col_off: elements of a row, and the column they begin at.
      max_indices: rows of the result; those past n are not valid.
      is_trans: the result has rows and columns exchanged; only in MAT.
      is_b_matrix: a hint for the compiler; changes nothing.
    Errors:
      PL303 for a row or page that does not exist, in checked runs; PL301, PL305, PL401.
    """
    trace = trace_here("paged_gather")
    place = check_space("paged_gather", space, (Space.VEC, Space.MAT))
    if is_trans and place is not Space.MAT:
        raise MemorySpaceError("PL401", "paged_gather: is_trans=True outside MAT", fix="space=pl.MemorySpace.MAT")
    numbers = {"block_size": block_size, "size": size, "rows": max_indices, "column": col_off}
    params = {k: access.static_extent(trace, v, f"{k} of paged_gather") for k, v in numbers.items()}
    ins = [memory("paged_gather", src), named_tile(indices, "paged_gather"), named_tile(block_table, "paged_gather")]
    return trace.process(lax.paged_gather, ins, {**params, "trans": bool(is_trans), "level": TENSOR, "space": place})
