"""Families of ops: what the members share, said once. Each decorator turns a documented function into an `Op`.

A family derives the abstract rule, the axes, the valid region, the samples and the preparation of operands;
the member states its meaning, its dtypes, its numerics and its manual page.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pypto import dtypes, numerics
from pypto.core.avals import TENSOR, TILE, ArrayAval, Aval, ScalarAval, TileAval, Valid, scalar
from pypto.core.index import Dim
from pypto.core.op import OPS, Exact, Labels, Moves, Native, No, Op, Pointwise, Ulp
from pypto.core.trace import aval_of, current_trace
from pypto.dtypes import DType
from pypto.errors import ShapeError
from pypto.interpreters.batching import per_example, pointwise
from pypto.interpreters.rules import NO_FLOATS, NOT_LINEAR

FLOATS = frozenset({dtypes.FP32, dtypes.FP16, dtypes.BF16})
SIGNED = frozenset({dtypes.INT8, dtypes.INT16, dtypes.INT32, dtypes.INT64})
UNSIGNED = frozenset({dtypes.UINT8, dtypes.UINT16, dtypes.UINT32, dtypes.UINT64})
INTEGERS = SIGNED | UNSIGNED | {dtypes.INDEX}
NUMBERS = FLOATS | INTEGERS

A3_ARITHMETIC = frozenset({dtypes.INT16, dtypes.INT32, dtypes.FP16, dtypes.FP32})
"""What the a2a3 vector unit computes with."""
NATIVE_FLOATS = frozenset({dtypes.FP16, dtypes.FP32})
A5_ALL = (INTEGERS - {dtypes.INDEX}) | FLOATS
A5_WIDE = A5_ALL - {dtypes.INT8, dtypes.UINT8}


def chips(a2a3: frozenset[DType], a5: frozenset[DType]) -> dict[str, frozenset[DType]]:
    """The dtypes an instruction takes on each chip family."""
    return {"a2a3": a2a3, "a5": a5}


Sample = tuple[tuple[Any, ...], dict[str, Any]]


def sample_values(dtype: DType, shape: tuple[int, ...], seed: int = 0, domain: tuple[float, float] = (-4, 4)) -> np.ndarray:
    """Reproducible test data of a dtype; integers take another domain than the usual one as it is, for divisors and counts."""
    rng = np.random.default_rng(seed)
    if dtype.is_float:
        values = rng.uniform(*domain, shape).astype(np.float32)
        return numerics.convert(values, dtypes.FP32, dtype, "rint") if dtype is dtypes.HF8 else values.astype(dtype.storage)
    if dtype is dtypes.BOOL:
        return rng.integers(0, 2, shape).astype(np.bool_)
    low, high = (-100, 100) if domain == (-4, 4) else (int(domain[0]), int(domain[1]))
    return rng.integers(max(low, 0) if dtype in UNSIGNED else low, high, shape).astype(dtype.storage)


def sample_indices(shape: tuple[int, ...], extent: int, seed: int = 0) -> np.ndarray:
    """INT32 positions along an axis, in no order and some of them twice; made without a generator, so they are the same for ever."""
    k = np.arange(int(np.prod(shape)), dtype=np.int64) + seed
    return ((k * k * 5 + 3 * k) % extent).astype(np.int32).reshape(shape)


# ---- shapes, dtypes and valid regions of elementwise ops ---------------------------------------------------------


def broadcast_shapes(name: str, shapes: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...]:
    """NumPy's rule: right-aligned, unit extents stretch.

    Errors:
      PL301 naming the shapes.
    """
    first = shapes[0]
    if all(s == first or s == () for s in shapes[1:]):
        return first if first or len(shapes) == 1 else max(shapes, key=len)
    rank = max(map(len, shapes))
    result: list[Dim] = []
    for axis in range(rank):
        extents = [s[axis - rank + len(s)] for s in shapes if axis - rank + len(s) >= 0]
        wide = [e for e in extents if e != 1]
        if any(e != wide[0] for e in wide[1:]):
            text = " and ".join(str(list(s)) for s in shapes if s)
            raise ShapeError("PL301", f"{name}: shapes {text} do not match", fix="slice, reshape or row/col_expand one side to the other")
        result.append(wide[0] if wide else 1)
    return tuple(result)


def broadcast_valid(*valids: Any, shapes: Sequence[tuple[Dim, ...]] | None = None, **_: Any) -> Valid:
    """The first operand that spans an axis decides its valid extent, as the vector unit does.

    An operand spans an axis when its extent in `shapes` is not 1, however little of it is valid; without `shapes` all is.
    """
    shaped = [(v, s) for v, s in zip(valids, shapes or valids, strict=True) if isinstance(v, tuple)]
    rank = max((len(v) for v, _ in shaped), default=0)
    result: list[int | None] = []
    for axis in range(rank):
        extents = [(v[axis - rank + len(v)], s[axis - rank + len(v)]) for v, s in shaped if axis - rank + len(v) >= 0]
        result.append(next((v for v, s in extents if s != 1), extents[0][0]))
    return tuple(result)


def result_aval(name: str, operands: Sequence[Aval], shape: tuple[Dim, ...], dtype: DType, valid: Valid | None = None) -> Aval:
    """The abstract result: a tile if any operand is one, else an array, else a scalar."""
    tiles = [a for a in operands if isinstance(a, TileAval)]
    if tiles:
        level = TENSOR if all(t.level == TENSOR for t in tiles) else TILE
        whole = valid is None or valid == shape
        return TileAval(shape, dtype, level, None, None if whole else valid)
    if any(isinstance(a, ArrayAval) for a in operands):
        return ArrayAval(shape, dtype)
    return scalar(dtype, weak=all(isinstance(a, ScalarAval) and a.weak for a in operands))


def elementwise_aval(name: str, operands: Sequence[Aval], dtype: DType | None = None) -> Aval:
    """Shapes broadcast, dtypes agree; the valid region is the first operand's."""
    kinds = {a.dtype for a in operands}
    if len(kinds) > 1:
        found = ", ".join(str(a.dtype) for a in operands)
        raise ShapeError("PL302", f"{name}: operands are {found}", fix=_cast_fix(operands))
    shape = broadcast_shapes(name, [a.shape for a in operands])
    valid = None
    if any(isinstance(a, TileAval) and a.valid is not None for a in operands):
        valids = [a.valid_shape if isinstance(a, TileAval) else a.shape for a in operands]
        valid = broadcast_valid(*valids, shapes=[a.shape for a in operands])
    return result_aval(name, operands, shape, dtype or operands[0].dtype, valid)


def _cast_fix(operands: Sequence[Aval]) -> str:
    widest = max((a.dtype for a in operands), key=lambda d: (d.is_float, d.bits))
    return f"kernels never promote: write pl.cast(x, pl.{widest.name}) on the other side"


def check_accepts(op_name: str, accepts: frozenset[DType] | None, operands: Iterable[Aval]) -> None:
    """PL305 for a dtype the op does not take."""
    if accepts is None:
        return
    for a in operands:
        if a.dtype not in accepts:
            allowed = ", ".join(sorted(d.name for d in accepts))
            if a.dtype is dtypes.MASK:
                raise ShapeError(
                    "PL305", f"{op_name}: a predicate mask is not a number", fix="use pl.sel(mask, 1.0, 0.0) to make one of it"
                )
            raise ShapeError("PL305", f"{op_name} does not take {a.dtype.name}", fix=f"cast to one of {allowed}")


# ---- preparation: from the arguments of a call to operands of one dtype -------------------------------------------


def unify(op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Bring operands to one dtype: promotion as JAX does it outside kernels, literals and scalars only inside them."""
    avals = [aval_of(a) for a in args]
    first = avals[0]
    if all(a.dtype is first.dtype and not _is_weak(a) for a in avals):
        return args
    if not current_trace().strict:
        target = _promoted(avals)
        return tuple(as_dtype(x, a, target) for x, a in zip(args, avals, strict=True))
    return _strict(op, args, avals)


def _is_weak(a: Aval) -> bool:
    return isinstance(a, ScalarAval) and a.weak


def _promoted(avals: Sequence[Aval]) -> DType:
    strong = [a.dtype for a in avals if not _is_weak(a)]
    weak = [a.dtype for a in avals if _is_weak(a)]
    if not strong:
        return max(weak, key=lambda d: (d.is_float, d.bits))
    target = strong[0]
    for d in strong[1:]:
        target = dtypes.promote(target, d)
    for d in weak:
        target = dtypes.promote_weak(target, float if d.is_float else bool if d is dtypes.BOOL else int)
    return target


def _strict(op: Op, args: tuple[Any, ...], avals: Sequence[Aval]) -> tuple[Any, ...]:
    """Kernels: tiles must agree; numbers take the tile's dtype; scalars promote among themselves."""
    tiles = [a for a in avals if isinstance(a, ArrayAval)]
    target = tiles[0].dtype if tiles else promote_scalars(avals)
    for a in tiles[1:]:
        if a.dtype is not target:
            found = " and ".join(f"{t}" for t in tiles)
            raise ShapeError("PL302", f"{op.name}: {found} have different dtypes", fix=_cast_fix(tiles))
    if tiles and target.is_integer and any(_is_weak(a) and a.dtype.is_float for a in avals):
        target = dtypes.FP32  # a float literal on an integer tile computes in FP32
    if tiles:
        for a in avals:
            if isinstance(a, ScalarAval) and not a.weak:
                _check_scalar_meets_tile(op.name, a, target)
    return tuple(as_dtype(x, a, target) for x, a in zip(args, avals, strict=True))


def _check_scalar_meets_tile(name: str, a: ScalarAval, target: DType) -> None:
    if a.dtype is dtypes.INDEX:
        raise ShapeError("PL302", f"{name}: an index scalar meets a {target.name} tile", fix=f"cast it first: pl.cast(i, pl.{target.name})")
    if a.dtype.is_float and not target.is_float:
        raise ShapeError("PL302", f"{name}: a {a.dtype.name} scalar meets a {target.name} tile", fix="cast the tile to FP32 first")


def promote_scalars(avals: Sequence[Aval]) -> DType:
    """Scalars promote: floats win, INDEX absorbs integers, the wider integer wins, numbers follow the other side."""
    strong = [a.dtype for a in avals if not _is_weak(a)]
    weak = [a.dtype for a in avals if _is_weak(a)]
    if not strong:
        return dtypes.FP32 if any(d.is_float for d in weak) else weak[0] if all(d is dtypes.BOOL for d in weak) else dtypes.INDEX
    floats = [d for d in strong if d.is_float]
    if floats:
        return max(floats, key=lambda d: d.bits) if len(set(floats)) == 1 or dtypes.FP32 in floats else dtypes.FP32
    if any(d.is_float for d in weak):
        return dtypes.FP32
    if dtypes.INDEX in strong:
        return dtypes.INDEX
    widest = max(strong, key=lambda d: (d.bits, d.is_signed))
    return dtypes.INT32 if widest is dtypes.BOOL and any(d is not dtypes.BOOL for d in weak) else widest


def as_dtype(x: Any, aval: Aval, target: DType) -> Any:
    """The operand in another dtype: numbers become literals, values are converted to nearest even."""
    if aval.dtype is target and not _is_weak(aval):
        return x
    if isinstance(x, bool | int | float):
        return literal(x, target)
    if aval.dtype is target:
        return x
    return OPS["convert"].bind(x, dtype=target, mode="rint", overflow="saturate")


def literal(value: bool | int | float, dtype: DType) -> Any:
    """A number as an operand, rounded to the dtype first."""
    from pypto.core.ir import Literal

    return Literal(numerics.round_literal(value, dtype), scalar(dtype))


def zero(x: Any) -> Any:
    """The number 0 in the dtype of a value."""
    return literal(0, aval_of(x).dtype)


# ---- the decorators ----------------------------------------------------------------------------------------------


def arity(signature: inspect.Signature) -> int:
    """How many operands a body takes: its parameters that are not keyword-only."""
    return sum(p.kind is not inspect.Parameter.KEYWORD_ONLY for p in signature.parameters.values())


def elementwise_samples(arity: int, accepts: frozenset[DType], domain: tuple[float, float]) -> Callable[[], list[Sample]]:
    """Samples of an elementwise op: every dtype, one row, one column, one element, and a ragged shape."""

    def make() -> list[Sample]:
        shapes = [(1, 8), (8, 1), (1, 1), (3, 5)]
        return [
            (tuple(sample_values(d, s, seed=i, domain=domain) for i in range(arity)), {})
            for d in sorted(accepts, key=lambda d: d.name)
            if d not in (dtypes.INDEX, dtypes.MASK)
            for s in shapes
        ]

    return make


def flowless(accepts: frozenset[DType], *, truth: bool = False) -> dict[str, Any]:
    """The derivative slots of an op through which nothing flows; empty for one that takes floats and gives floats."""
    if truth:
        return {"jvp": No("a truth value has no derivative"), "transpose": NOT_LINEAR}
    return {} if any(d.is_float for d in accepts) else {"jvp": NO_FLOATS, "transpose": NO_FLOATS}


def elementwise(
    *,
    accepts: frozenset[DType],
    exact: Exact | Ulp,
    pto: Native | No | None = None,
    golden: str | None = None,
    domain: tuple[float, float] = (-4, 4),
    result: DType | None = None,
    mask: bool = False,
    options: Callable[..., None] | None = None,
    samples: Callable[[], list[Sample]] | None = None,
    **slots: Any,
) -> Callable[[Callable[..., Any]], Op]:
    """An op of one result element per operand element. The body sees FP32 for FP16 and BF16 and is rounded once after.

    Keyword-only parameters of the body are the op's options.

    Args:
      accepts: the dtypes of the operands (all the same).
      result: the dtype of the result when it is not the operands'.
      mask: the result is a truth value: MASK on tiles, BOOL elsewhere.
      options: `(name, avals, **options)`: raises for an option the op does not take.
      samples: for ops whose options have no default.
    """

    def decorate(body: Callable[..., Any]) -> Op:
        name = body.__name__.rstrip("_")
        signature = inspect.signature(body)

        def abstract(*avals: Aval, **params: Any) -> Aval:
            check_accepts(name, accepts, avals)
            if options is not None:
                options(name, avals, **params)
            dtype = result
            if mask:
                dtype = dtypes.MASK if any(isinstance(a, TileAval) for a in avals) else dtypes.BOOL
            return elementwise_aval(name, avals, dtype)

        def meaning(*arrays: np.ndarray, **params: Any) -> np.ndarray:
            chosen = functools.partial(body, **params) if params else body
            if mask:
                with np.errstate(all="ignore"):
                    return np.asarray(chosen(*arrays), dtype=np.bool_)
            return numerics.elementwise(chosen, *arrays)

        return Op(
            name=name,
            abstract=abstract,
            meaning=meaning,
            axes=Pointwise(),
            valid=broadcast_valid,
            samples=samples or elementwise_samples(arity(signature), accepts, domain),
            doc=inspect.getdoc(body) or "",
            module=body.__module__,
            signature=signature,
            prepare=unify,
            accepts=accepts,
            exact=exact,
            golden=golden,
            pto=pto or No("it is emitted as its decomposition"),
            **{"batching": pointwise, **flowless(accepts, truth=mask), **slots},
        )

    return decorate


def movement(*, samples: Callable[[], list[Sample]], abstract: Callable[..., Any], **slots: Any) -> Callable[[Callable[..., Any]], Op]:
    """An op that moves elements without computing with them: bits are kept, shadow bits move along."""

    def decorate(body: Callable[..., Any]) -> Op:
        slots.setdefault("axes", Moves())
        slots.setdefault("unit", "move")
        slots.setdefault("batching", per_example)
        return Op(
            name=body.__name__.rstrip("_"),
            abstract=abstract,
            meaning=body,
            samples=samples,
            doc=inspect.getdoc(body) or "",
            module=body.__module__,
            signature=inspect.signature(body),
            exact=Exact("movement"),
            **slots,
        )

    return decorate


def computed(
    *, samples: Callable[[], list[Sample]], abstract: Callable[..., Any], axes: Any, exact: Exact | Ulp, **slots: Any
) -> Callable[[Callable[..., Any]], Op]:
    """An op outside the other families: everything is stated."""

    def decorate(body: Callable[..., Any]) -> Op:
        slots.setdefault("batching", per_example)
        return Op(
            name=body.__name__.rstrip("_"),
            abstract=abstract,
            meaning=body,
            axes=axes,
            samples=samples,
            doc=inspect.getdoc(body) or "",
            module=body.__module__,
            signature=inspect.signature(body),
            exact=exact,
            **slots,
        )

    return decorate


def letters(rank: int) -> str:
    """Axis letters for a rank."""
    return "abcdefghij"[:rank]


__all__ = ["FLOATS", "INTEGERS", "NUMBERS", "Labels", "computed", "elementwise", "movement"]
