"""Making values that are more than one number repeated: triangles, random bits, ramps along any axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pypto import dtypes, numerics
from pypto.core.avals import ArrayAval, Aval, TileAval
from pypto.core.op import Exact, Native, No, Whole
from pypto.core.whole import wholes
from pypto.dtypes import DType, dtype_of
from pypto.errors import ShapeError
from pypto.interpreters.cpu.rules import Tilewise
from pypto.interpreters.rules import NOT_LINEAR
from pypto.lax.families import FLOATS, computed, literal
from pypto.lax.reduction import normal_axis
from pypto.lax.shape import broadcast, ramp, reshape

Known = tuple[int | None, ...] | None
"""A valid shape as an op has it: None where an operand says it at run time, None as a whole where everything is valid."""


def made_aval(name: str, shape: tuple[int, ...], dtype: DType, accepts: frozenset[DType], level: str | None, valid: Known) -> Aval:
    """The abstract value of something that is made: a tile where a level is given.

    Errors:
      PL305 for a dtype that is not made, PL303 for a valid shape past the shape, PL307 for one without a tile.
    """
    if dtype not in accepts:
        raise ShapeError("PL305", f"{name} does not make {dtype.name}", fix=f"one of {', '.join(sorted(d.name for d in accepts))}")
    if valid is not None and level is None:
        raise ShapeError("PL307", f"{name}: only a tile has a valid shape", fix="make the smaller array")
    if valid is not None and (
        len(valid) != len(shape) or any(v is not None and not 0 <= v <= d for v, d in zip(valid, shape, strict=True))
    ):
        raise ShapeError("PL303", f"{name}: a valid shape {list(valid)} in {list(shape)}", fix="one extent per axis, at most the tile's")
    if level is None:
        return ArrayAval(shape, dtype)
    return TileAval(shape, dtype, level, None, None if valid == shape else valid)


def _valid_now(shape: tuple[int, ...], valid: Known, extents: Sequence[Any]) -> tuple[int, ...]:
    """The valid shape of what is made, with its run-time extents filled in."""
    if valid is None:
        return shape
    given = iter(extents)
    now = tuple(int(next(given)) if v is None else v for v in valid)
    if any(not 0 <= v <= d for v, d in zip(now, shape, strict=True)):
        raise ShapeError("PL303", f"a valid shape {list(now)} in a tile {list(shape)}", fix="between 0 and the tile's extents")
    return now


def _outside(shape: tuple[int, ...], valid: tuple[int, ...]) -> np.ndarray:
    """What is not written: everything outside the valid region."""
    taint = np.ones(shape, np.bool_)
    taint[tuple(slice(0, v) for v in valid)] = False
    return taint


# ---- triangles ---------------------------------------------------------------------------------------------------

TRI_DTYPES = frozenset({dtypes.INT16, dtypes.UINT16, dtypes.INT32, dtypes.UINT32}) | FLOATS


def _tri_aval(
    diagonal: Aval, *extents: Aval, shape: tuple[int, ...], dtype: DType, upper: bool, level: str | None = None, valid: Known = None
) -> Aval:
    if len(shape) < 2:
        raise ShapeError("PL301", f"tri makes rows and columns, not {list(shape)}", fix="shape [rows, cols]")
    return made_aval("tri", shape, dtype, TRI_DTYPES, level, valid)


def _tri_samples() -> list[Any]:
    return [
        ((np.int32(d),), {"shape": s, "dtype": kind, "upper": u, "level": None, "valid": None})
        for kind in sorted(TRI_DTYPES, key=lambda k: k.name)
        for s in ((1, 8), (8, 1), (1, 1), (3, 5))
        for d, u in ((0, False), (-1, True))
    ]


@computed(
    jvp=No("it is made from integers"),
    transpose=NOT_LINEAR,
    cpu=Tilewise("making.TRI"),
    samples=_tri_samples,
    abstract=_tri_aval,
    axes=Whole(),
    valid=lambda diagonal, *extents, shape, valid=None, **_: _valid_now(shape, valid, extents),
    taint=lambda taints, arrays, params: _outside(params["shape"], _valid_now(params["shape"], params["valid"], arrays[1:])),
    index=tuple(range(9)),
    accepts=TRI_DTYPES,
    exact=Exact("movement"),
    pto=Native("pto.ttri"),
    golden="jax.numpy.tri",
)
def tri(*operands: Any, shape: Sequence[int], dtype: Any = dtypes.INT32, upper: bool = False, level: Any = None, valid: Any = None) -> Any:
    """A triangle of ones in a matrix of zeros.

    Operands:
      diagonal: an integer scalar, which diagonal the triangle ends at: 0 the main one, 1 the one above it.
      Then one run-time extent for each None in `valid`.
    Args:
      shape: [..., rows, cols]; leading axes repeat the matrix.
      dtype: INT16, UINT16, INT32, UINT32, FP16, BF16 or FP32.
      upper: ones where column >= row + diagonal; otherwise where column <= row + diagonal.
      valid: of a tile, the region that is written; the rest stays unwritten.
    Errors:
      PL305 for another dtype, PL303 for a valid shape that does not lie in the shape.

    >>> from pypto import lax
    >>> lax.tri(0, shape=(2, 3))
    Array([[1, 0, 0],
           [1, 1, 0]], dtype=INT32)
    """
    diagonal, *extents = operands
    rows, columns = np.arange(shape[-2])[:, None], np.arange(shape[-1])[None, :]
    inside = columns >= rows + int(diagonal) if upper else columns <= rows + int(diagonal)
    result = np.zeros(tuple(shape), dtype_of(dtype).storage)
    box = tuple(slice(0, v) for v in _valid_now(tuple(shape), valid, extents))
    result[box] = np.broadcast_to(inside, result.shape)[box]
    return result


# ---- random bits -------------------------------------------------------------------------------------------------

RANDOM_DTYPES = frozenset({dtypes.INT32, dtypes.UINT32})
_WORDS = 6


def _random_aval(*operands: Aval, shape: tuple[int, ...], dtype: DType, rounds: int, level: str | None = None, valid: Known = None) -> Aval:
    if rounds not in numerics.ROUNDS:
        raise ShapeError("PL308", f"random: {rounds} rounds", fix=f"one of {', '.join(map(str, numerics.ROUNDS))}")
    if not shape:
        raise ShapeError("PL301", "random: a shape without axes", fix="shape [rows, cols]")
    return made_aval("random", shape, dtype, RANDOM_DTYPES, level, valid)


def _random_samples() -> list[Any]:
    words = tuple(np.uint32(w) for w in (1, 2, 0xFFFFFFF0, 4, 5, 6))
    return [
        (words, {"shape": s, "dtype": d, "rounds": r, "level": None, "valid": None})
        for s in ((1, 8), (8, 1), (1, 1), (3, 5), (2, 300), (2, 256))
        for d in (dtypes.INT32, dtypes.UINT32)
        for r in numerics.ROUNDS
    ]


@computed(
    jvp=No("it is made from integers"),
    transpose=NOT_LINEAR,
    cpu=Tilewise("making.RANDOM"),
    samples=_random_samples,
    abstract=_random_aval,
    axes=Whole(),
    valid=lambda *operands, shape, valid=None, **_: _valid_now(shape, valid, operands[_WORDS:]),
    taint=lambda taints, arrays, params: _outside(params["shape"], _valid_now(params["shape"], params["valid"], arrays[_WORDS:])),
    index=tuple(range(_WORDS + 8)),
    accepts=RANDOM_DTYPES,
    on={"a2a3": frozenset(), "a5": RANDOM_DTYPES},
    exact=Exact("random bits"),
    pto=Native("pto.trandom"),
)
def random_bits(
    *operands: Any, shape: Sequence[int], dtype: Any = dtypes.UINT32, rounds: int = 10, level: Any = None, valid: Any = None
) -> Any:
    """Uniform random 32-bit words from a key and a counter (Philox-4x32); the same arguments always give the same bits.

    Operands:
      key0, key1: the key, UINT32 scalars; counter0 ... counter3: the counter, its least significant word first.
      Then one run-time extent for each None in `valid`.
    Args:
      shape: [..., cols].
      dtype: UINT32, or INT32 with the same bits.
      rounds: 10, or 7 for speed.
      valid: of a tile, the region that is written; the rest stays unwritten.
    Numerics:
      `numerics.random_rows`: columns come in groups of 256, of which lane l of 0..63 writes the four words of
      Philox(counter + l) to columns l, 64 + l, 128 + l, 192 + l; after each group the counter grows by a quarter of the tile's
      width and goes on from row to row. Make tiles 256 columns wide: narrower ones use some words twice. (The instruction's own
      document also speaks of ChaCha; this is what the vendor's simulator computes.)
    Errors:
      PL305 for another dtype, PL308 for another number of rounds.

    >>> from pypto import lax
    >>> lax.random_bits(0, 0, 0, 0, 0, 0, shape=(1, 2))
    Array([[1713891541, 3095448469]], dtype=UINT32)
    """
    whole = tuple(shape)
    words = [int(w) for w in operands[:_WORDS]]
    now = _valid_now(whole, valid, operands[_WORDS:])
    result = np.zeros(whole, np.uint32)
    rows = math.prod(now[:-1])
    bits = numerics.random_rows(words[:2], words[2:], rows, now[-1], whole[-1], rounds)
    result[tuple(slice(0, v) for v in now)] = bits.reshape(now)
    return result.view(dtype_of(dtype).storage)


# ---- ramps -------------------------------------------------------------------------------------------------------


def broadcasted_iota(dtype: Any, shape: Sequence[int], dimension: int) -> Any:
    """0, 1, 2, ... along one axis, repeated along the others.

    >>> broadcasted_iota("INT32", (2, 3), 0)
    Array([[0, 0, 0],
           [1, 1, 1]], dtype=INT32)
    """
    kind, extents = dtype_of(dtype), wholes("broadcasted_iota: shape", shape)
    axis = normal_axis("broadcasted_iota", len(extents), dimension)
    line = ramp(literal(0, kind), shape=(extents[axis],), dtype=kind)
    column = reshape(line, shape=tuple(d if i == axis else 1 for i, d in enumerate(extents)))
    return broadcast(column, shape=extents)
