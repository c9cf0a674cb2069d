"""Operations on tiles of different valid regions: where both are valid they are combined, where one is, it is copied."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto import dtypes, numerics
from pypto.core.avals import Aval, TileAval, Valid
from pypto.core.op import Exact, Native, Op, Pointwise
from pypto.errors import ShapeError
from pypto.interpreters.batching import with_params
from pypto.interpreters.cpu.rules import Tilewise
from pypto.interpreters.rules import Pair
from pypto.lax.elementwise import add, maximum, minimum, mul
from pypto.lax.families import (
    A3_ARITHMETIC,
    A5_ALL,
    NUMBERS,
    check_accepts,
    chips,
    elementwise_aval,
    elementwise_samples,
    result_aval,
    unify,
)

_ACCEPTS = NUMBERS - {dtypes.INDEX}


def _union(x: Valid, y: Valid, **_: Any) -> Valid:
    """The smallest box from the origin that holds both regions."""
    return tuple(None if a is None or b is None else max(a, b) for a, b in zip(x, y, strict=True))


def _corner(array: np.ndarray) -> tuple[slice, ...]:
    return tuple(slice(0, d) for d in array.shape)


def _taint(taints: Sequence[Any], arrays: Sequence[np.ndarray], params: dict[str, Any]) -> Any:
    """An element is as good as the valid elements it was made of; where neither is valid it is a 0."""
    result = np.zeros(tuple(map(max, arrays[0].shape, arrays[1].shape)), np.bool_)
    for taint, array in zip(taints, arrays, strict=True):
        if taint is not None:
            result[_corner(array)] |= taint
    return result


def _like(whole: Op) -> Callable[..., Pair]:
    """The jvp rule: of arrays every element is valid, and there the op is another one."""

    def jvp(op: Op, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Pair:
        return whole.jvp(whole, primals, tangents, params)

    return jvp


def _part(mnemonic: str, combine: Callable[[np.ndarray, np.ndarray], np.ndarray], jvp: Any) -> Callable[[Callable[..., Any]], Op]:
    """An op on the union of two valid regions. The meaning sees each operand cropped to its own."""

    def decorate(body: Callable[..., Any]) -> Op:
        name = body.__name__

        def abstract(x: Aval, y: Aval) -> Aval:
            check_accepts(name, _ACCEPTS, [x, y])
            if x.shape != y.shape:
                raise ShapeError("PL301", f"{name}: {x} and {y} have different shapes", fix="give both one shape; valid regions may differ")
            whole = elementwise_aval(name, [x, y])
            valid = _union(*(a.valid_shape if isinstance(a, TileAval) else a.static_shape for a in (x, y)))
            return result_aval(name, [x, y], x.shape, whole.dtype, valid)

        def meaning(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            result = np.zeros(tuple(map(max, zip(x.shape, y.shape, strict=True))), x.dtype)
            both = tuple(slice(0, min(a, b)) for a, b in zip(x.shape, y.shape, strict=True))
            result[_corner(x)] = x
            result[_corner(y)] = y
            result[both] = numerics.elementwise(combine, x[both], y[both])
            return result

        return Op(
            name=name,
            abstract=abstract,
            meaning=meaning,
            axes=Pointwise(),
            valid=_union,
            samples=elementwise_samples(2, _ACCEPTS, (-4, 4)),
            doc=inspect.getdoc(body) or "",
            module=body.__module__,
            signature=inspect.signature(body),
            prepare=unify,
            jvp=jvp,
            batching=with_params(lambda rank, **_: {}),
            crops=True,
            taint=_taint,
            accepts=_ACCEPTS,
            exact=Exact("partly valid tiles"),
            pto=Native(mnemonic),
            cpu=Tilewise(f"making.{name.upper()}"),
            on=chips(A3_ARITHMETIC, A5_ALL if combine is not numerics.mul else A5_ALL - {dtypes.INT64, dtypes.UINT64}),
        )

    return decorate


@_part("pto.tpartadd", numerics.add, _like(add))
def part_add(x: Any, y: Any) -> Any:
    """Add where both tiles are valid, copy where one is.

    Args:
      x, y: tiles of one dtype and shape, each with its own valid region.
    Returns:
      That shape; valid is the smallest box that holds both regions, and what neither covers in it is 0.
    Numerics:
      As `add`; copied elements keep their bits.
    Errors:
      PL301 for different shapes, PL302 for different dtypes.

    >>> from pypto import lax
    >>> lax.part_add(1.5, 2.0)  # outside kernels everything is valid
    Array(3.5, dtype=FP32)
    """


@_part("pto.tpartmul", numerics.mul, _like(mul))
def part_mul(x: Any, y: Any) -> Any:
    """Multiply where both tiles are valid, copy where one is.

    Args:
      x, y: tiles of one dtype and shape, each with its own valid region.
    Returns:
      That shape; valid as `part_add`'s result.
    Numerics:
      As `mul`; copied elements keep their bits.
    Errors:
      PL301, PL302 as `part_add`.

    >>> from pypto import lax
    >>> lax.part_mul(1.5, 2.0)
    Array(3., dtype=FP32)
    """


@_part("pto.tpartmax", numerics.maximum, _like(maximum))
def part_max(x: Any, y: Any) -> Any:
    """The larger one where both tiles are valid, a copy where one is.

    Args:
      x, y: tiles of one dtype and shape, each with its own valid region.
    Returns:
      That shape; valid as `part_add`'s result.
    Numerics:
      As `maximum`: NaN propagates; copied elements keep their bits.
    Errors:
      PL301, PL302 as `part_add`.

    >>> from pypto import lax
    >>> lax.part_max(1.5, 2.0)
    Array(2., dtype=FP32)
    """


@_part("pto.tpartmin", numerics.minimum, _like(minimum))
def part_min(x: Any, y: Any) -> Any:
    """The smaller one where both tiles are valid, a copy where one is.

    Args:
      x, y: tiles of one dtype and shape, each with its own valid region.
    Returns:
      That shape; valid as `part_add`'s result.
    Numerics:
      As `minimum`: NaN propagates; copied elements keep their bits.
    Errors:
      PL301, PL302 as `part_add`.

    >>> from pypto import lax
    >>> lax.part_min(1.5, 2.0)
    Array(1.5, dtype=FP32)
    """
