"""The sort unit: `sort32` sorts runs of 32 elements with their indices, `mrgsort` merges sorted runs and lists of such pairs.

A pair is two neighbouring elements of the tile's dtype: the value, and the bits of its index. Pairs travel as bit patterns.
Order: descending; +0 and -0 are equal; every NaN comes last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pypto import dtypes
from pypto.core.avals import Aval, TileAval, Valid
from pypto.core.op import Exact, Fault, Native, No, Whole, outside
from pypto.errors import ShapeError
from pypto.interpreters.cpu.rules import Tilewise
from pypto.lax.families import Sample, check_accepts, computed, result_aval, sample_values
from pypto.lax.gathering import valid_of

SORTED = frozenset({dtypes.FP32, dtypes.FP16})
RUN = 32
"""Elements `sort32` sorts together."""
_ORDER = Exact("sort32, mrgsort")
_PAIRS = No("pairs hold the bits of an index beside a value; lax.sort and lax.top_k have derivatives")
_BITS = {4: np.dtype(np.uint32), 2: np.dtype(np.uint16)}


def _values(pairs: np.ndarray) -> np.ndarray:
    """The values of pairs, as FP32."""
    return pairs[..., 0::2].astype(np.float32)


# ---- sort32 ------------------------------------------------------------------------------------------------------


def _sort32_aval(x: Aval, index: Aval) -> Aval:
    check_accepts("sort32", SORTED, [x])
    if index.dtype not in (dtypes.UINT32, dtypes.INT32):
        raise ShapeError("PL305", f"sort32: an index of dtype {index.dtype.name}", fix="idx = pl.arange(0, [1, N], dtype=pl.UINT32)")
    if index.shape != x.shape or not x.shape:
        raise ShapeError("PL301", f"sort32: an index {index} for {x}", fix="one index per element: the same shape")
    valid = valid_of(x)
    return result_aval("sort32", [x, index], (*x.shape[:-1], 2 * x.static_shape[-1]), x.dtype, None if valid is None else _doubled(valid))


def _doubled(x: Valid, *_: Any) -> Valid:
    return (*x[:-1], None if x[-1] is None else 2 * x[-1])


def _sort32_order(x: np.ndarray, index: np.ndarray) -> np.ndarray:
    """For each place of the sorted runs, the column its element comes from."""
    values, ties = -x.astype(np.float32), index.astype(np.uint32)
    order = np.zeros(x.shape, np.int64)
    whole = x.shape[-1] // RUN * RUN
    for start, stop, width in ((0, whole, RUN), (whole, x.shape[-1], x.shape[-1] - whole)):
        if stop > start:
            shape = (*x.shape[:-1], -1, width)
            keys = (ties[..., start:stop].reshape(shape), values[..., start:stop].reshape(shape))
            first = np.arange(start, stop, width)[:, None]
            order[..., start:stop] = (np.lexsort(keys, axis=-1) + first).reshape(*x.shape[:-1], stop - start)
    return order


def _sort32_taint(taints: Sequence[Any], arrays: Sequence[np.ndarray], params: dict[str, Any]) -> Any:
    """A tainted element may belong anywhere in its run."""
    if all(t is None for t in taints):
        return None
    taint = np.zeros(arrays[0].shape, np.bool_)
    for t in taints:
        taint |= False if t is None else t
    for start in range(0, arrays[0].shape[-1], RUN):
        run = taint[..., start : start + RUN]
        run[...] = run.any(axis=-1, keepdims=True)
    return np.repeat(taint, 2, axis=-1)


def _sort32_faults(x: np.ndarray, index: np.ndarray) -> Fault | None:
    if x.dtype.itemsize == 4:
        return None
    return outside(1, index.astype(np.uint32) >= 1 << 16, 1 << 16, "the 16 bits an index has beside an FP16 value")


def _sort32_samples() -> list[Sample]:
    made: list[Sample] = []
    for d in (dtypes.FP32, dtypes.FP16):
        for i, s in enumerate(((1, 64), (8, 1), (1, 1), (3, 40))):
            x = sample_values(d, s, seed=i)
            np.ravel(x)[::3] = np.ravel(x)[0]
            made.append(((x, np.broadcast_to(np.arange(s[1], dtype=np.uint32), s).copy()), {}))
    return made


@computed(
    jvp=_PAIRS,
    cpu=Tilewise("pairs.SORT32", weight=20.0, orders=True),
    samples=_sort32_samples,
    abstract=_sort32_aval,
    axes=Whole(),
    exact=_ORDER,
    valid=_doubled,
    crops=True,
    taint=_sort32_taint,
    faults=_sort32_faults,
    accepts=SORTED,
    pto=Native("pto.tsort32"),
)
def sort32(x: Any, index: Any) -> Any:
    """Sort each run of 32 elements of a row, descending, and take the indices along.

    Args:
      x: FP32 or FP16 [rows, cols]; of a partly valid tile the valid columns only. A last run may be shorter.
      index: UINT32 (or INT32, as the same bits), the shape of x; usually 0, 1, 2, ...
    Returns:
      [rows, 2 * cols] in the dtype of x: value, index, value, index, ... An index has as many bits as a value: beside FP16 its low
      16 bits, at [.., 1::2]. (The instruction set itself spreads an FP16 pair over four elements; the language says two.)
    Numerics:
      Equal values by ascending index; NaN last; +0 equals -0. Values and indices keep their bits.
    Errors:
      PL305 for another dtype, PL301 for an index of another shape; PL303 in checked runs for an index of more than 16 bits with FP16.

    >>> import numpy as np
    >>> from pypto import lax
    >>> pairs = lax.sort32(np.float32([[1, 3, 3]]), np.uint32([[0, 1, 2]]))
    >>> lax.gather_mask(pairs, pattern=2, dtype="INT32")
    Array([[1, 2, 0]], dtype=INT32)
    """
    if index.shape != x.shape:
        raise ShapeError("PL301", f"sort32: {list(index.shape)} valid indices for {list(x.shape)} values", fix="the same valid shape")
    order, bits = _sort32_order(x, index), _BITS[x.dtype.itemsize]
    pairs = np.empty((*x.shape, 2), bits)
    pairs[..., 0] = np.take_along_axis(np.ascontiguousarray(x).view(bits), order, -1)
    pairs[..., 1] = np.take_along_axis(index.astype(np.uint32), order, -1).astype(bits)
    return pairs.reshape(*x.shape[:-1], -1).view(x.dtype)


# ---- mrgsort -----------------------------------------------------------------------------------------------------


def _check_row(x: Aval) -> None:
    check_accepts("mrgsort", SORTED, [x])
    if any(d != 1 for d in x.static_shape[:-1]) or x.static_shape[-1] % 2:
        raise ShapeError("PL301", f"mrgsort: {x} is no row of pairs", fix="one row [1, 2n]; loop over the rows with pl.range")


def _check_pairs(*xs: np.ndarray) -> None:
    """PL301 where a valid region ends between a value and its index."""
    for x in xs:
        if x.shape[-1] % 2:
            raise ShapeError("PL301", f"mrgsort: {x.shape[-1]} valid positions are no whole pairs", fix="an even number: pl.set_validshape")


def _merged(lists: Sequence[np.ndarray]) -> np.ndarray:
    """The order in which the heads of lists leave them, as positions in their concatenation.

    A larger head leaves first; of equal heads, that of the first list. An element that follows a smaller one leaves right after it,
    so the least value up to an element is what decides; NaN is less than everything.
    """
    keys = np.concatenate([np.minimum.accumulate(v) for v in lists]) if lists else np.zeros(0, np.float32)
    return np.argsort(-keys, kind="stable")


def _in_pairs(x: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Pairs of a row in another order, bits kept."""
    bits = np.ascontiguousarray(x).view(_BITS[x.dtype.itemsize]).reshape(-1, 2)
    return bits[order].reshape(1, -1).view(x.dtype)


def _rising(values: np.ndarray, width: int) -> np.ndarray:
    """Where a value is larger than the one before it in its run: a run that is not sorted."""
    before, after = values[:-1], values[1:]
    rises = (after > before) | (np.isnan(before) & ~np.isnan(after))
    mask = np.zeros(values.shape, np.bool_)
    mask[1:] = rises & (np.arange(1, len(values)) % width != 0)
    return mask


def _at_values(mask: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A mask of values as a mask of the pairs' elements."""
    wide = np.zeros(mask.size * 2, np.bool_)
    wide[0::2] = mask
    return wide.reshape(shape)


_UNSORTED = "{value} at {where} of {name} is larger than what stands before it in its run of "


def _runs_aval(x: Aval, *length: Aval, block_len: int | None) -> Aval:
    _check_row(x)
    if length:
        return result_aval("mrgsort", [x], x.shape, x.dtype, valid_of(x))
    assert block_len is not None
    _check_runs(x.static_shape[-1], block_len)
    return result_aval("mrgsort", [x], x.shape, x.dtype, valid_of(x))


def _check_runs(positions: int, block_len: int) -> None:
    if block_len < 1 or block_len % 64:
        raise ShapeError("PL308", f"mrgsort: block_len {block_len}", fix="a positive multiple of 64: twice the elements of a sorted run")
    if positions % (4 * block_len):
        raise ShapeError(
            "PL308",
            f"mrgsort: {positions} positions are no whole groups of 4 runs of {block_len}",
            fix=f"merge the last runs as lists: pl.mrgsort(s[:, 0:{block_len}], s[:, {block_len}:{2 * block_len}])",
        )


def _length(lengths: Sequence[Any], block_len: int | None) -> int:
    return int(lengths[0]) if lengths else int(block_len or 0)


def _runs_valid(x: tuple[int, ...], *length: int, block_len: int | None, old: tuple[int, ...]) -> tuple[int, ...]:
    """The valid region. The whole row must be groups of four runs, also where only the run knows their length."""
    _check_runs(old[-1], _length(length, block_len))
    return x


def _runs_faults(x: np.ndarray, *length: np.ndarray, block_len: int | None) -> Fault | None:
    block_len = _length(length, block_len)
    if length:
        _check_runs(x.shape[-1], block_len)
    mask = _at_values(_rising(np.ravel(_values(x)), block_len // 2), x.shape)
    return Fault(
        0,
        mask,
        "PL308",
        f"{_UNSORTED}{block_len} positions",
        "block_len is what the step before left: 64 after sort32, then 4 times as many",
    )


def _group_taint(taints: Sequence[Any], arrays: Sequence[np.ndarray], params: dict[str, Any]) -> Any:
    """A tainted element may go anywhere in its group."""
    if taints[0] is None:
        return None
    taint = np.array(taints[0])
    width = max(4 * _length(arrays[1:], params["block_len"]), 1)
    for start in range(0, taint.shape[-1], width):
        taint[..., start : start + width] = taint[..., start : start + width].any()
    return taint


def _pairs(d: Any, count: int, run: int, seed: int) -> np.ndarray:
    """A row of pairs in sorted runs."""
    values = sample_values(d, (count,), seed=seed)
    values[::4] = values[0]
    order = np.concatenate([s + np.argsort(-values[s : s + run].astype(np.float32), kind="stable") for s in range(0, count, run)])
    pairs = np.empty((count, 2), _BITS[d.itemsize])
    pairs[:, 0] = values[order].view(pairs.dtype)
    pairs[:, 1] = order
    return pairs.reshape(1, -1).view(d.storage)


@computed(
    jvp=_PAIRS,
    cpu=Tilewise("pairs.RUNS", weight=10.0, reads="pairs.READS_OF_RUNS", orders=True),
    samples=lambda: [((_pairs(d, 4 * n, n, seed=n),), {"block_len": 2 * n}) for d in (dtypes.FP32, dtypes.FP16) for n in (32, 64)],
    abstract=_runs_aval,
    axes=Whole(),
    exact=_ORDER,
    valid=_runs_valid,
    crops=True,
    taint=_group_taint,
    faults=_runs_faults,
    index=(1,),
    accepts=SORTED,
    pto=Native("pto.tmrgsort"),
)
def mrgsort_runs(x: Any, *length: Any, block_len: int | None = None) -> Any:
    """Merge neighbouring sorted runs of one row, four at a time, into runs four times as long.

    Args:
      x: FP32 or FP16 [1, n], pairs in sorted runs of `block_len` positions (two for each element); n divides by 4 * block_len.
        Of a partly valid row the valid part is merged; its last run may be shorter.
      block_len: a positive multiple of 64: 64 after `sort32`, then 256, 1024, ...
      length: instead of it, the same as one scalar that is known when the program runs.
    Numerics:
      The largest head of the four runs leaves first; of equal ones that of the first run; NaN last. Bits are kept.
    Errors:
      PL301 for several rows, or a valid region that ends between a value and its index; PL308 for another block_len, for an
      incomplete last group, and in checked runs for a run that is not sorted.
    """
    _check_pairs(x)
    block_len = _length(length, block_len)
    if length:
        # of a partly valid row the last run may be shorter, as it may where the length is known before
        _check_runs(-(-x.shape[-1] // (4 * block_len)) * 4 * block_len if block_len > 0 else 0, block_len)
    values, run = np.ravel(_values(x)), block_len // 2
    order = [np.zeros(0, np.int64)]
    for start in range(0, len(values), 4 * run):
        group = [values[s : s + run] for s in range(start, min(start + 4 * run, len(values)), run)]
        order.append(_merged(group) + start)
    return _in_pairs(x, np.concatenate(order))


def _lists_aval(*xs: Aval, exhausted: bool) -> tuple[Aval, Aval]:
    if not 2 <= len(xs) <= 4:
        raise ShapeError("PL308", f"mrgsort of {len(xs)} lists", fix="two to four lists, or block_len= for the runs of one")
    for x in xs:
        _check_row(x)
        if x.dtype is not xs[0].dtype:
            raise ShapeError("PL302", f"mrgsort: {xs[0]} and {x}", fix="lists of one dtype")
    shape = (*xs[0].shape[:-1], sum(x.static_shape[-1] for x in xs))
    valid: Valid | None = None
    if any(isinstance(x, TileAval) and x.valid is not None for x in xs):
        valid = _joined(*(x.valid_shape if isinstance(x, TileAval) else x.static_shape for x in xs))
    counts = result_aval("mrgsort", xs, (1, 4), dtypes.UINT16)
    return result_aval("mrgsort", xs, shape, xs[0].dtype, valid), counts


def _joined(*xs: Valid) -> Valid:
    last = [x[-1] for x in xs]
    rows = xs[0][:-1]
    return (*rows, None if None in last else sum(n for n in last if n is not None))


def _lists_order(xs: Sequence[np.ndarray], exhausted: bool) -> np.ndarray:
    """The positions, in the concatenation of all pairs, in the order in which they leave."""
    lists = [np.ravel(_values(x)) for x in xs]
    order = _merged(lists)
    if not exhausted:
        return order
    if not all(map(len, lists)):
        return order[:0]
    place = np.argsort(order)
    return order[: place[np.cumsum([len(v) for v in lists]) - 1].min() + 1]


def _lists_taint(taints: Sequence[Any], arrays: Sequence[np.ndarray], params: dict[str, Any]) -> tuple[Any, Any]:
    """One tainted element may go anywhere; nobody writes past the pairs that were merged."""
    total = sum(a.shape[-1] for a in arrays)
    any_taint = any(t is not None and t.any() for t in taints)
    tail = np.arange(total) >= 2 * _lists_order(arrays, params["exhausted"]).size
    return (tail | any_taint).reshape(1, -1), np.full((1, 4), any_taint)


def _lists_faults(*xs: np.ndarray, exhausted: bool) -> Fault | None:
    for i, x in enumerate(xs):
        mask = _at_values(_rising(np.ravel(_values(x)), max(x.size, 1)), x.shape)
        if mask.any():
            return Fault(
                i, mask, "PL308", f"{_UNSORTED}{x.shape[-1]} positions", "sort it first: pl.sort32, then pl.mrgsort(s, block_len=...)"
            )
    return None


@computed(
    jvp=_PAIRS,
    cpu=Tilewise("pairs.LISTS", weight=10.0, reads="pairs.READS_OF_LISTS", orders=True),
    samples=lambda: [
        (tuple(_pairs(d, 8 * (i + 1), 64, seed=i) for i in range(n)), {"exhausted": e})
        for d in (dtypes.FP32, dtypes.FP16)
        for n in (2, 3, 4)
        for e in (False, True)
    ],
    abstract=_lists_aval,
    axes=Whole(),
    exact=_ORDER,
    valid=lambda *xs, exhausted: (_joined(*xs), (1, 4)),
    crops=True,
    taint=_lists_taint,
    faults=_lists_faults,
    accepts=SORTED,
    pto=Native("pto.tmrgsort"),
)
def mrgsort_lists(*xs: Any, exhausted: bool) -> Any:
    """Merge two to four sorted rows of pairs into one.

    Args:
      xs: FP32 or FP16 [1, n_i], one dtype; of a partly valid row the valid part.
      exhausted: stop as soon as one list is empty.
    Returns:
      [1, sum of n_i], and UINT16 [1, 4]: how many pairs each list gave. What lies past the merged pairs nobody has written.
    Numerics:
      As `mrgsort_runs`: of equal heads that of the first list leaves first.
    Errors:
      PL301, also for a valid region that ends between a value and its index; PL302, PL305; PL308 in checked runs for a list that
      is not sorted.
    """
    _check_pairs(*xs)
    order = _lists_order(xs, exhausted)
    row = np.concatenate([np.ravel(x) for x in xs])
    merged = np.zeros((1, row.size), row.dtype)
    merged[:, : 2 * order.size] = _in_pairs(row, order)
    ends = np.cumsum([x.size // 2 for x in xs])
    counts = np.zeros((1, 4), np.uint16)
    counts[0, : len(xs)] = np.bincount(np.searchsorted(ends, order, "right"), minlength=len(xs))[: len(xs)]
    return merged, counts
