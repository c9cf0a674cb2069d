"""How windows of an array are named: JAX's dimension numbers and out-of-range modes, and where the windows lie."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto.core.avals import Aval
from pypto.core.whole import wholes
from pypto.errors import ShapeError


class GatherScatterMode(enum.Enum):
    """What happens to a window that does not lie inside the array.

    `CLIP` moves it inside. `FILL_OR_DROP` reads a fill value, and drops an update. `PROMISE_IN_BOUNDS` says that there is none; if
    there is, a gather clips and a scatter drops.
    """

    CLIP = "clip"
    FILL_OR_DROP = "fill"
    PROMISE_IN_BOUNDS = "promise_in_bounds"

    @staticmethod
    def from_any(mode: Any) -> GatherScatterMode:
        """The mode for a member, a name (clip, fill, drop, promise_in_bounds), or None, which is `FILL_OR_DROP`.

        Errors:
          PL308 for anything else.
        """
        if mode is None or mode == "drop":
            return GatherScatterMode.FILL_OR_DROP
        name = getattr(mode, "name", mode)  # also the enumeration of JAX
        for member in GatherScatterMode:
            if name in (member.name, member.value):
                return member
        raise ShapeError("PL308", f"there is no gather or scatter mode {mode!r}", fix="clip, fill (drop) or promise_in_bounds")


@dataclass(frozen=True)
class GatherDimensionNumbers:
    """How the axes of a gather belong together.

    Attributes:
      offset_dims: axes of the output that run inside a window.
      collapsed_slice_dims: axes of the operand that windows span with extent 1 and that the output does not have.
      start_index_map: for each entry of an index vector (the last axis of the indices), the axis of the operand it is a start of.
      operand_batching_dims, start_indices_batching_dims: axes that operand and indices go through together.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()

    def window_axes(self, rank: int) -> list[int]:
        """The axes of an operand of this rank that windows have and the output keeps."""
        return [d for d in range(rank) if d not in self.collapsed_slice_dims and d not in self.operand_batching_dims]


@dataclass(frozen=True)
class ScatterDimensionNumbers:
    """How the axes of a scatter belong together.

    Attributes:
      update_window_dims: axes of the updates that run inside a window.
      inserted_window_dims: axes of the operand that windows span with extent 1 and that the updates do not have.
      scatter_dims_to_operand_dims: for each entry of an index vector, the axis of the operand it is a start of.
      operand_batching_dims, scatter_indices_batching_dims: axes that operand and indices go through together.
    """

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()

    @property
    def as_gather(self) -> GatherDimensionNumbers:
        """The gather that reads the windows the updates go to."""
        return GatherDimensionNumbers(
            self.update_window_dims,
            self.inserted_window_dims,
            self.scatter_dims_to_operand_dims,
            self.operand_batching_dims,
            self.scatter_indices_batching_dims,
        )


def numbers(cls: type, given: Any) -> Any:
    """Dimension numbers with tuples of plain ints; also taken from JAX's class of the same name."""
    return cls(*(wholes(name, getattr(given, name)) for name in cls.__dataclass_fields__))  # type: ignore[attr-defined]


def check_numbers(name: str, operand: Aval, indices: Aval, dn: GatherDimensionNumbers, sizes: Sequence[int], rank: int) -> None:
    """The rules the dimension numbers obey, for an output (or updates) of `rank` axes.

    Errors:
      PL301 naming the rule that is broken, PL302 for indices that are no integers.
    """
    if not indices.dtype.is_integer:
        raise ShapeError("PL302", f"{name}: indices {indices}", fix="integers")
    batches = len(dn.operand_batching_dims)
    rules = {
        "indices have a last axis, the index vector": indices.rank >= 1,
        "one start per entry of the index vector": indices.rank >= 1 and len(dn.start_index_map) == indices.shape[-1],
        "starts of different axes of the operand": _distinct(dn.start_index_map, operand.rank),
        "windows of at most the operand's extents, one per axis": len(sizes) == operand.rank
        and all(0 <= s <= d for s, d in zip(sizes, operand.static_shape, strict=False)),
        "window axes ascending and in the output": _distinct(dn.offset_dims, rank) and list(dn.offset_dims) == sorted(dn.offset_dims),
        "collapsed axes ascending": _distinct(dn.collapsed_slice_dims, operand.rank)
        and list(dn.collapsed_slice_dims) == sorted(dn.collapsed_slice_dims),
        "batching axes of operand and indices in pairs": _distinct(dn.operand_batching_dims, operand.rank)
        and batches == len(dn.start_indices_batching_dims)
        and _distinct(dn.start_indices_batching_dims, indices.rank - 1),
        "no axis both batching and collapsed or started": not set(dn.operand_batching_dims)
        & {*dn.collapsed_slice_dims, *dn.start_index_map},
    }
    broken = next((text for text, holds in rules.items() if not holds), None)
    if broken is None and any(sizes[d] != 1 for d in (*dn.collapsed_slice_dims, *dn.operand_batching_dims)):
        broken = "windows have extent 1 along collapsed and batching axes"
    if broken is None and len(dn.offset_dims) != len(dn.window_axes(operand.rank)):
        broken = "one window axis of the output for each axis of the operand that is kept"
    if broken is not None:
        raise ShapeError("PL301", f"{name}: {operand} at {indices} with {dn} and windows {list(sizes)}", fix=broken)


def _distinct(axes: Sequence[int], rank: int) -> bool:
    return len(set(axes)) == len(axes) and all(0 <= a < rank for a in axes)


def places(
    shape: Sequence[int], indices: np.ndarray, dn: GatherDimensionNumbers, sizes: Sequence[int], clip: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Where windows lie: row-major positions [*batch, *window], and per batch whether the window lies inside without clipping."""
    strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    batch = indices.shape[:-1]
    flat, inside = np.zeros(batch, np.int64), np.ones(batch, np.bool_)
    for k, d in enumerate(dn.start_index_map):
        start, last = indices[..., k].astype(np.int64), shape[d] - sizes[d]
        if indices.dtype == np.uint64:
            start = np.where(indices[..., k] > np.uint64(2**62), 2**62, start)
        inside &= (start >= 0) & (start <= last)
        flat += np.clip(start, 0, last) * strides[d]
    for d, b in zip(dn.operand_batching_dims, dn.start_indices_batching_dims, strict=True):
        flat += np.arange(batch[b]).reshape([-1 if i == b else 1 for i in range(len(batch))]) * strides[d]
    window = np.zeros((), np.int64)
    for d in dn.window_axes(len(shape)):
        window = window[..., None] + np.arange(sizes[d]) * strides[d]
    return flat.reshape((*batch, *(1 for _ in window.shape))) + window, np.ones_like(inside) if clip else inside


def output_order(dn: GatherDimensionNumbers, batch_rank: int) -> list[int]:
    """For each axis of the output, its place in [*batch, *window]."""
    batch = iter(range(batch_rank))
    return [batch_rank + dn.offset_dims.index(i) if i in dn.offset_dims else next(batch) for i in range(batch_rank + len(dn.offset_dims))]
