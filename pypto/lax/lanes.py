"""The lanes of a mask pattern: pack every second or fourth column of a tile, or spread columns over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pypto.core.avals import Aval, Valid
from pypto.core.op import OPS, Native, Op
from pypto.core.trace import aval_of
from pypto.dtypes import DType
from pypto.errors import ShapeError
from pypto.interpreters.batching import with_params
from pypto.interpreters.cpu.rules import Tilewise
from pypto.interpreters.rules import Pair, linear, pullback, refuse
from pypto.interpreters.tangents import apply, zeros
from pypto.lax.families import Sample, check_accepts, movement, result_aval, sample_values
from pypto.lax.gathering import GATHERED, valid_of
from pypto.lax.scattering import SCATTERED, check_source

PATTERNS = {1: (0, 2), 2: (1, 2), 3: (0, 4), 4: (1, 4), 5: (2, 4), 6: (3, 4), 7: (0, 1)}
"""First column and stride of each mask pattern, P0101 to P1111; pattern text is read from the right."""


def lanes(name: str, pattern: int) -> tuple[int, int]:
    """First column and stride of a mask pattern.

    Errors:
      PL308 for a code that is none.
    """
    if pattern not in PATTERNS:
        raise ShapeError("PL308", f"{name}: there is no mask pattern {pattern!r}", fix="one of pl.tile.MaskPattern, or its code 1 to 7")
    return PATTERNS[pattern]


def taken(n: int, first: int, stride: int) -> int:
    """How many of n leading columns a pattern selects."""
    return max(0, -(-(n - first) // stride))


def _gather_jvp(op: Op, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Pair:
    outs = apply(op, primals, params)
    if params["dtype"] is not aval_of(tangents[0]).dtype:
        raise refuse(op, "x", "bits of one dtype read as another have no derivative")
    return outs, apply(op, tangents, params)


def _gather_transpose(ct: Any, x: Any, *, pattern: int, dtype: DType) -> Any:
    return scatter_mask(zeros(x.aval), ct, pattern=pattern)


def _scatter_transpose(ct: Any, x: Any, source: Any, *, pattern: int) -> tuple[Any, Any]:
    first, stride = PATTERNS[pattern]
    shape = aval_of(ct).static_shape
    starts = (*(0 for _ in shape[:-1]), first)
    lanes = OPS["strided_slice"](ct, start_indices=starts, limit_indices=shape, strides=(*(1 for _ in shape[:-1]), stride))
    return scatter_mask(ct, zeros(aval_of(lanes)), pattern=pattern), lanes


def _gather_mask_aval(x: Aval, *, pattern: int, dtype: DType) -> Aval:
    check_accepts("gather", GATHERED, [x])
    _, stride = lanes("gather", pattern)
    if dtype.bits != x.dtype.bits or not (dtype.is_float or dtype.is_integer):
        raise ShapeError(
            "PL305", f"gather: output_dtype {dtype.name} for {x.dtype.name}: bits are copied", fix="a number dtype of the same width"
        )
    columns = x.static_shape[-1]
    if columns % stride:
        raise ShapeError(
            "PL301", f"gather: {columns} columns do not divide by {stride}", fix=f"a tile whose columns are a multiple of {stride}"
        )
    valid = valid_of(x)
    if valid is not None:
        valid = _packed_valid(valid, pattern=pattern)
    return result_aval("gather", [x], (*x.shape[:-1], columns // stride), dtype, valid)


def _packed_valid(x: Valid, *, pattern: int, **_: Any) -> Valid:
    return (*x[:-1], None if x[-1] is None else taken(x[-1], *PATTERNS[pattern]))


def _gather_samples() -> list[Sample]:
    return [
        ((sample_values(d, s, seed=p),), {"pattern": p, "dtype": d})
        for d in sorted(GATHERED, key=lambda d: d.name)
        for s in ((1, 8), (8, 4), (1, 4), (3, 12))
        for p in PATTERNS
    ]


@movement(
    jvp=_gather_jvp,
    transpose=pullback(_gather_transpose),
    batching=with_params(lambda rank, **_: {}),
    cpu=Tilewise("gathering.PACKED", uses=PATTERNS, reads="prefixes.LANES"),
    samples=_gather_samples,
    abstract=_gather_mask_aval,
    valid=_packed_valid,
    accepts=GATHERED,
    pto=Native("pto.tgather"),
    unit="vector",
)
def gather_mask(x: Any, *, pattern: int, dtype: DType) -> Any:
    """The columns a pattern selects, packed: [.., n] to [.., n/2], [.., n/4] or, for P1111, [.., n].

    Args:
      x: FP16, FP32, INT16 or INT32; the columns divide by the stride of the pattern.
      pattern: 1 P0101 (columns 0, 2, ..), 2 P1010 (1, 3, ..), 3 P0001 (0, 4, ..), 4 P0010, 5 P0100, 6 P1000, 7 P1111 (all).
      dtype: of the result, as wide as x's: bits are copied, nothing is converted.
    Errors:
      PL301, PL305, PL308.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.gather_mask(np.int32([[1, 2, 3, 4]]), pattern=2, dtype="UINT32")
    Array([[2, 4]], dtype=UINT32)
    """
    first, stride = PATTERNS[pattern]
    return np.array(x[..., first::stride], order="C").view(dtype.storage)


def _scatter_mask_aval(x: Aval, source: Aval, *, pattern: int) -> Aval:
    check_source("scatter", x, source)
    _, stride = lanes("scatter", pattern)
    want = (*source.static_shape[:-1], source.static_shape[-1] * stride)
    if x.shape != want:
        raise ShapeError(
            "PL301",
            f"scatter: the lanes of {source} need a destination {list(want)}, not {x}",
            fix="the same rows; columns times the stride",
        )
    return x


def _scatter_samples() -> list[Sample]:
    return [
        ((sample_values(d, (rows, n * PATTERNS[p][1]), seed=p), sample_values(d, (rows, n), seed=p + 9)), {"pattern": p})
        for d in sorted(SCATTERED, key=lambda d: d.name)
        for rows, n in ((1, 8), (8, 1), (1, 1), (3, 5))
        for p in PATTERNS
    ]


@movement(
    jvp=linear(0, 1),
    transpose=pullback(_scatter_transpose),
    batching=with_params(lambda rank, **_: {}),
    cpu=Tilewise("gathering.SPREAD", uses=PATTERNS),
    samples=_scatter_samples,
    abstract=_scatter_mask_aval,
    valid=lambda x, *_, **__: x,
    crops=(1,),
    accepts=SCATTERED,
    pto=Native("pto.tscatter"),
    unit="vector",
)
def scatter_mask(x: Any, source: Any, *, pattern: int) -> Any:
    """Spread columns over the lanes a pattern selects; the other lanes keep what they hold.

    The sources of the language disagree on the other lanes (the instruction set writes 0); they are kept.

    Args:
      x: FP32, FP16, BF16, INT32, INT16 or INT8; the rows of the source and its columns times the stride of the pattern.
      source: the dtype of x. Only its valid region is written.
      pattern: as `gather_mask`.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.scatter_mask(np.int32([[9, 9, 9, 9]]), np.int32([[1, 2]]), pattern=2)
    Array([[9, 1, 9, 2]], dtype=INT32)
    """
    first, stride = PATTERNS[pattern]
    result = np.array(x)
    rows = tuple(slice(0, n) for n in source.shape[:-1])
    result[(*rows, slice(first, first + stride * source.shape[-1], stride))] = source
    return result
