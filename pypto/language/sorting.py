"""Sort and top-k: `sort32` and `mrgsort`."""

from __future__ import annotations

import functools
import operator
from typing import Any

from pypto import dtypes, lax
from pypto.core.avals import TILE
from pypto.core.trace import aval_of
from pypto.errors import ShapeError
from pypto.language import access
from pypto.language.gathering import named_tile
from pypto.language.levels import by_level, only_at
from pypto.language.padding import set_validshape
from pypto.language.spelled import trace_here
from pypto.language.values import index_of


def sort32(src: Any, idx: Any) -> Any:
    """Sort each run of 32 elements of a row, descending, with their indices: [.., n] to [.., 2n], value and index side by side.

    See `lax.sort32`. The rows of a top-k, for rows of 512 elements:

    ```python
    s = pl.sort32(row, pl.arange(0, [1, 512], dtype=pl.UINT32))
    s = pl.mrgsort(s, block_len=64)
    s = pl.mrgsort(s, block_len=256)
    pairs = s[:, 0 : 2 * K]
    values = pl.gather(pairs, mask_pattern=pl.tile.MaskPattern.P0101)
    indices = pl.gather(pairs, mask_pattern=pl.tile.MaskPattern.P1010, output_dtype=pl.INT32)
    ```
    """
    return lax.sort32(named_tile(src, "sort32"), named_tile(idx, "sort32"))


@by_level
def mrgsort(
    src0: Any,
    src1: Any = None,
    src2: Any = None,
    src3: Any = None,
    tmp: Any = None,
    exhausted: bool = False,
    *,
    block_len: Any = None,
) -> Any:
    """Merge sorted pairs of one row: the runs of one list, or two to four lists.

    | call | result |
    |---|---|
    | `mrgsort(s, block_len=b)` | runs of b positions merged four at a time; the same shape. See `lax.mrgsort_runs` |
    | `mrgsort(s0, s1[, s2[, s3]])` | one row with the pairs of all. See `lax.mrgsort_lists` |

    Args:
      block_len: a positive multiple of 64; a scalar is checked when the program runs.
      tmp: scratch of the instruction, at tile level; changes nothing.
      exhausted: stop when one list is empty; the result is valid as far as it was merged.
    Errors:
      PL301 for several rows; PL308 for both forms at once, another block_len, an incomplete last group of runs, and in checked runs
      for what is not sorted; PL302, PL305, PL307.
    """
    lists = [x for x in (src0, src1, src2, src3) if x is not None]
    only_at(TILE, "mrgsort", lists, "leave it out: the compiler makes the scratch of a tensor-level merge", tmp=tmp is not None)
    if block_len is not None:
        if len(lists) > 1 or tmp is not None or exhausted:
            raise ShapeError("PL308", "mrgsort: block_len= is for the runs of one list", fix="mrgsort(s, block_len=64), or mrgsort(s0, s1)")
        row, static = named_tile(src0, "mrgsort"), index_of(block_len)
        size = block_len if isinstance(block_len, int) else None if static is None else static.value
        if size is not None:
            return lax.mrgsort_runs(row, block_len=size)
        return lax.mrgsort_runs(row, block_len, block_len=None)
    if len(lists) < 2:
        raise ShapeError("PL308", "mrgsort of one list needs block_len", fix="block_len=64 after sort32")
    merged, counts = lax.mrgsort_lists(*(named_tile(x, "mrgsort") for x in lists), exhausted=bool(exhausted))
    if not exhausted:
        return merged
    trace = trace_here("mrgsort")
    taken = [trace.scalar_for(access.read(trace, counts, (0, i)), dtypes.INDEX, "a count of mrgsort") for i in range(len(lists))]
    return set_validshape(merged, [*aval_of(merged).shape[:-1], functools.reduce(operator.add, taken) * 2])
