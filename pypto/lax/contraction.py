"""Matrix products on the cube unit, in the order the contract fixes per dtype."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from pypto import dtypes, numerics
from pypto.core.avals import TENSOR, TILE, ArrayAval, Aval, TileAval, Valid
from pypto.core.op import Exact, Labels, Native, Op
from pypto.dtypes import DType, dtype_of
from pypto.errors import ShapeError
from pypto.interpreters.cpu.rules import Tilewise
from pypto.interpreters.rules import NOT_LINEAR
from pypto.lax.contraction_rules import batching_of, jvp_of, transpose_product
from pypto.lax.families import FLOATS, check_accepts, letters, sample_values, unify

A2A3 = FLOATS | {dtypes.INT8}
ACCEPTS = A2A3 | {dtypes.FP8E4M3FN, dtypes.FP8E5M2, dtypes.HF8}
ACCUMULATORS = frozenset({dtypes.FP32, dtypes.INT32})
CONTRACT, SEQUENTIAL = "contract", "sequential"
PHASES = ("unspecified", "partial", "final")


def accumulator(dtype: DType) -> DType:
    """The dtype a product of this dtype is accumulated in."""
    return dtypes.INT32 if dtype is dtypes.INT8 else dtypes.FP32


# ---- shapes ------------------------------------------------------------------------------------------------------


def _oriented(shape: tuple[Any, ...], transposed: bool) -> tuple[Any, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if transposed else shape


def _sides(a: tuple[Any, ...], b: tuple[Any, ...], a_trans: bool, b_trans: bool) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Both operands as [..., m, k] and [..., k, n]; a vector is one row on the left, one column on the right."""
    left = (1, *a) if len(a) == 1 else _oriented(a, a_trans)
    right = (*b, 1) if len(b) == 1 else _oriented(b, b_trans)
    return left, right


def _joined(batch: tuple[Any, ...], a: tuple[Any, ...], b: tuple[Any, ...], m: Any, n: Any) -> tuple[Any, ...]:
    """The product's extents: a vector operand has no axis there."""
    return (*batch, *([] if len(a) == 1 else [m]), *([] if len(b) == 1 else [n]))


def _product(name: str, a: Aval, b: Aval, a_trans: bool, b_trans: bool) -> tuple[tuple[int, ...], Valid | None]:
    """Shape and valid region of the product."""
    check_accepts(name, ACCEPTS, [a, b])
    if a.dtype is not b.dtype:
        raise ShapeError("PL302", f"{name}: {a} times {b}", fix="both operands have one dtype: cast one side")
    for operand, flag, given in ((a, "a_trans", a_trans), (b, "b_trans", b_trans)):
        if not operand.rank:
            raise ShapeError("PL301", f"{name}: {operand} is a scalar", fix="multiply by it with mul")
        if given and operand.rank == 1:
            raise ShapeError("PL308", f"{name}: {flag} on {operand}, which has one axis", fix=f"leave {flag} out")
    left, right = _sides(a.static_shape, b.static_shape, a_trans, b_trans)
    if left[-1] != right[-2]:
        flags = f" (a_trans={a_trans}, b_trans={b_trans})" if a_trans or b_trans else ""
        raise ShapeError(
            "PL301",
            f"{name}: {list(left)} times {list(right)}{flags}: inner extents {left[-1]} and {right[-2]} differ",
            fix="slice along k to one extent, or set a_trans / b_trans",
        )
    try:
        batch = np.broadcast_shapes(left[:-2], right[:-2])
    except ValueError:
        raise ShapeError("PL301", f"{name}: batch extents {list(left[:-2])} and {list(right[:-2])} differ", fix="make them equal") from None
    shape = _joined(batch, a.shape, b.shape, left[-2], right[-1])
    if not any(isinstance(x, TileAval) for x in (a, b)):
        return shape, None
    if not shape:
        raise ShapeError("PL301", f"{name}: a dot product of two vectors is no tile", fix="reshape one of them to one row")
    valid_a, valid_b = (x.valid_shape if isinstance(x, TileAval) else x.static_shape for x in (a, b))
    return shape, _product_valid(valid_a, valid_b, a_trans, b_trans, name)


def _product_valid(a: Valid, b: Valid, a_trans: bool, b_trans: bool, name: str = "matmul") -> Valid:
    """m is the left operand's, n the right one's, k the left one's, of which the right one must have as many."""
    left, right = _sides(a, b, a_trans, b_trans)
    if left[-1] is not None and right[-2] is not None and left[-1] > right[-2]:
        raise ShapeError(
            "PL301",
            f"{name}: {left[-1]} valid columns on the left meet {right[-2]} valid rows on the right",
            fix="give both the same valid extent along k, or fill the right one with pl.fillpad",
        )
    rank = max(len(left), len(right)) - 2
    batches = [(1,) * (rank + 2 - len(side)) + side[:-2] for side in (left, right)]
    batch = tuple(y if x == 1 else x for x, y in zip(*batches, strict=True))
    return _joined(batch, a, b, left[-2], right[-1])


def _out(operands: tuple[Aval, ...], shape: tuple[int, ...], valid: Valid | None, dtype: DType) -> Aval:
    tiles = [x for x in operands if isinstance(x, TileAval)]
    if not tiles:
        return ArrayAval(shape, dtype)
    return TileAval(shape, dtype, TILE if any(x.level == TILE for x in tiles) else TENSOR, None, None if valid == shape else valid)


def _out_dtype(name: str, source: DType, out: DType | None) -> DType:
    natural = accumulator(source)
    if out is None or out is natural:
        return natural
    if not natural.is_float or out not in FLOATS:
        raise ShapeError("PL305", f"{name}: {source.name} operands give {natural.name}, not {out.name}", fix=f"out_dtype=pl.{natural.name}")
    return out


def _check_order(name: str, order: str) -> None:
    if order not in (CONTRACT, SEQUENTIAL):
        raise ShapeError("PL308", f"{name}: numerics={order!r}", fix=f"one of {CONTRACT}, {SEQUENTIAL}")


def _labels(a: Aval, b: Aval, a_trans: bool, b_trans: bool) -> tuple[str, str, str]:
    batch = letters(max(a.rank, b.rank, 2) - 2)
    left = "k" if a.rank == 1 else batch[len(batch) - a.rank + 2 :] + ("km" if a_trans else "mk")
    right = "k" if b.rank == 1 else batch[len(batch) - b.rank + 2 :] + ("nk" if b_trans else "kn")
    return left, right, batch + ("" if a.rank == 1 else "m") + ("" if b.rank == 1 else "n")


# ---- the decorator -----------------------------------------------------------------------------------------------


def _multiplied(a: np.ndarray, b: np.ndarray, acc: np.ndarray | None = None, *, a_trans: bool, b_trans: bool, order: str) -> np.ndarray:
    """The product in its accumulator, of the k values the left operand has."""
    left = a[None, :] if a.ndim == 1 else np.swapaxes(a, -1, -2) if a_trans else a
    right = b[:, None] if b.ndim == 1 else np.swapaxes(b, -1, -2) if b_trans else b
    chain = "chain" if order == SEQUENTIAL and a.dtype == dtypes.BF16.storage else ""
    product = numerics.matmul(left, right[..., : left.shape[-1], :], acc, order=chain)
    gone = ([-2] if a.ndim == 1 else []) + ([-1] if b.ndim == 1 else [])
    return np.squeeze(product, axis=tuple(gone)) if gone else product


def _rounded(x: np.ndarray, out_dtype: Any) -> np.ndarray:
    if out_dtype is None or dtype_of(out_dtype).storage == x.dtype:
        return x
    return numerics.convert(x, dtype_of(x.dtype), dtype_of(out_dtype), "rint")


def cube(*, mnemonic: str, accumulates: bool = False, biased: bool = False, one_row: bool = False, golden: str | None = None) -> Any:
    """An op of the cube unit. The body's keywords say which options it has; its meaning follows from the flags.

    Args:
      accumulates: the first operand is the accumulator.
      biased: the last operand is a row that is added to every row of the result.
      one_row: the left operand is one row.
    """

    def decorate(body: Callable[..., Any]) -> Op:
        name = body.__name__
        signature = inspect.signature(body)
        has = {p.name for p in signature.parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY}
        first = 1 if accumulates else 0

        def flags(params: dict[str, Any]) -> tuple[bool, bool]:
            return params.get("a_trans", False), params.get("b_trans", False)

        def abstract(*operands: Aval, **params: Any) -> Aval:
            a, b = operands[first : first + 2]
            _check_order(name, params["numerics"])
            if params.get("acc_phase", PHASES[0]) not in PHASES:
                raise ShapeError("PL308", f"{name}: acc_phase={params['acc_phase']!r}", fix=f"one of {', '.join(PHASES)}")
            shape, valid = _product(name, a, b, *flags(params))
            if one_row and (a.rank < 2 or a.shape[-2] != 1):
                raise ShapeError("PL301", f"{name}: the left operand is {a}, not one row", fix="reshape it to [1, k], or use pl.matmul")
            if (accumulates or biased) and min(a.rank, b.rank) < 2:
                raise ShapeError("PL301", f"{name}: {a} times {b}", fix="operands have two axes: reshape a vector to a row or a column")
            want = accumulator(a.dtype)
            if biased:
                _check_bias(name, operands[-1], shape[-1], want, a.dtype)
            if accumulates:
                return _check_acc(name, operands[0], shape, valid, want, a.dtype)
            return _out(operands, shape, valid, _out_dtype(name, a.dtype, params.get("out_dtype")))

        def meaning(*arrays: np.ndarray, **params: Any) -> np.ndarray:
            a, b = arrays[first : first + 2]
            a_trans, b_trans = flags(params)
            given = {"a_trans": a_trans, "b_trans": b_trans, "order": params.get("numerics", CONTRACT)}
            if accumulates:
                m, n = a.shape[-1 if a_trans else -2], b.shape[-2 if b_trans else -1]
                result = np.array(arrays[0])
                result[..., :m, :n] = _multiplied(a, b, arrays[0][..., :m, :n], **given)
                return result
            product = _multiplied(a, b, **given)
            if biased:
                product = numerics.add(product, np.broadcast_to(arrays[-1][..., : product.shape[-1]], product.shape))
            return _rounded(product, params.get("out_dtype"))

        def axes(*operands: Aval, **params: Any) -> Labels:
            a, b = operands[first : first + 2]
            left, right, out = _labels(a, b, *flags(params))
            bias = ["1" * (operands[-1].rank - 1) + "n"] if biased else []
            return Labels((*([out] if accumulates else []), left, right, *bias), out)

        def prepare(op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
            return (*args[:first], *unify(op, args[first : first + 2]), *args[first + 2 :])

        def valid(*operands: Any, **params: Any) -> Any:
            a, b = operands[first : first + 2]
            product = _product_valid(a, b, *flags(params))
            return operands[0] if accumulates else product

        return Op(
            name=name,
            abstract=abstract,
            meaning=meaning,
            axes=axes,
            valid=valid,
            prepare=prepare,
            jvp=jvp_of(accumulates, biased),
            transpose=NOT_LINEAR if accumulates or biased or one_row else transpose_product,
            batching=batching_of(accumulates, biased),
            samples=lambda: _samples(accumulates, biased, one_row, has),
            doc=inspect.getdoc(body) or "",
            module=body.__module__,
            signature=signature,
            crops=True,
            cpu=Tilewise(f"products.{'ACCUMULATED' if accumulates else 'BIASED' if biased else 'PLAIN'}"),
            unit="cube",
            accepts=ACCEPTS,
            on={"a2a3": A2A3 | ACCUMULATORS, "a5": ACCEPTS | ACCUMULATORS},
            exact=Exact("matmul"),
            pto=Native(mnemonic),
            golden=golden,
        )

    return decorate


def _check_acc(name: str, acc: Aval, shape: tuple[int, ...], valid: Valid | None, want: DType, source: DType) -> Aval:
    if acc.dtype is not want:
        raise ShapeError("PL302", f"{name}: the accumulator is {acc}, {source.name} operands accumulate in {want.name}", fix="match it")
    if acc.shape != shape:
        raise ShapeError("PL301", f"{name}: the accumulator is {list(acc.shape)}, the product {list(shape)}", fix="make them equal")
    if isinstance(acc, TileAval) and acc.valid is not None and valid is not None:
        if any(have is not None and need is not None and have < need for have, need in zip(acc.valid, valid, strict=True)):
            raise ShapeError(
                "PL301",
                f"{name}: the accumulator is valid in {list(acc.valid)}, the product in {list(valid)}",
                fix="an accumulator covers the product: pl.set_validshape(acc, ...)",
            )
    return acc


def _check_bias(name: str, bias: Aval, columns: int, want: DType, source: DType) -> None:
    if bias.dtype is not want:
        raise ShapeError("PL302", f"{name}: the bias is {bias}, {source.name} operands accumulate in {want.name}", fix="cast the bias")
    if bias.rank < 2 or bias.shape[-2:] != (1, columns) or any(d != 1 for d in bias.shape[:-1]):
        raise ShapeError("PL301", f"{name}: the bias is {list(bias.shape)}, expected [1, {columns}]", fix=f"reshape it to [1, {columns}]")


def _samples(accumulates: bool, biased: bool, one_row: bool, has: set[str]) -> list[Any]:
    options = {k: v for k, v in {"a_trans": False, "b_trans": False, "out_dtype": None, "numerics": CONTRACT}.items() if k in has}
    if "acc_phase" in has:
        options["acc_phase"] = PHASES[0]
    found = []
    # frozen results go by a sample's place: what was added to the list of dtypes comes last
    for d in (*sorted(ACCEPTS - {dtypes.HF8}, key=lambda d: d.name), dtypes.HF8):
        for m, k, n in ((1, 5, 3), (1, 70, 5)) if one_row else ((1, 5, 3), (4, 1, 1), (3, 70, 5)):
            operands = [sample_values(d, (m, k), seed=1), sample_values(d, (k, n), seed=2)]
            if accumulates:
                operands.insert(0, sample_values(accumulator(d), (m, n), seed=9))
            if biased:
                operands.append(sample_values(accumulator(d), (1, n), seed=8))
            found.append((tuple(operands), dict(options)))
    return found


# ---- the ops -----------------------------------------------------------------------------------------------------


@cube(mnemonic="pto.tmatmul", golden="jax.numpy.matmul")
def matmul(a: Any, b: Any, *, out_dtype: Any = None, a_trans: bool = False, b_trans: bool = False, numerics: str = CONTRACT) -> Any:
    """Multiply matrices: [..., m, k] @ [..., k, n].

    Args:
      a, b: one dtype of FP32, FP16, BF16, INT8 (on a5 also FP8E4M3FN, FP8E5M2 and HF8); leading batch axes broadcast. An operand of
        one axis is a row on the left, a column on the right, and the result has no axis there.
      out_dtype: the result's dtype; by default the accumulator's: FP32, or INT32 for INT8 (where JAX keeps the operands').
      a_trans, b_trans: take that operand with its last two axes exchanged.
      numerics: `contract`, or `sequential` for BF16 in the order of the vendor's CPU simulator.
    Numerics:
      FP16, FP32, FP8 and HF8: one fused multiply-add chain over ascending k. BF16: chunks of 32 k, see `numerics.CONTRACT`.
      INT8: exact in INT32. Then one rounding to `out_dtype`. Of partly valid tiles: the valid rows of a, the valid columns of b,
      and as many k as a has valid.
    Errors:
      PL301 for extents that do not match, PL302 for two dtypes, PL305 for another dtype, PL308 for a flag on a vector.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.matmul(np.int8([[1, 2]]), np.int8([[3], [4]]))
    Array([[11]], dtype=INT32)
    """


@cube(mnemonic="pto.tmatmul.acc", accumulates=True)
def matmul_acc(acc: Any, a: Any, b: Any, *, a_trans: bool = False, b_trans: bool = False, numerics: str = CONTRACT) -> Any:
    """acc + a @ b, accumulated where the product is: for FP16 and FP32 the chain starts from `acc`.

    Args:
      acc: FP32 (INT32 for INT8), the shape of the product; batch axes of it do not stretch. Where it is valid beyond the
        product, it is kept.
      a, b, a_trans, b_trans, numerics: as in `matmul`, with two axes or more.
    Numerics:
      Splitting k into several calls never changes a bit in FP16, FP32 and INT8, nor in BF16 when every piece but the last is a
      multiple of 32.
    Errors:
      PL302 for an accumulator of another dtype, PL301 for one of another shape or with too small a valid region.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.matmul_acc(np.float32([[100.0]]), np.float32([[1, 2]]), np.float32([[3], [4]]))
    Array([[111.]], dtype=FP32)
    """


@cube(mnemonic="pto.tmatmul.bias", biased=True)
def matmul_bias(
    a: Any, b: Any, bias: Any, *, out_dtype: Any = None, a_trans: bool = False, b_trans: bool = False, numerics: str = CONTRACT
) -> Any:
    """a @ b + bias, a row that is added to every row of the product.

    Args:
      bias: [1, n] in the accumulator's dtype: FP32, or INT32 for INT8.
      a, b, out_dtype, a_trans, b_trans, numerics: as in `matmul`, with two axes or more.
    Numerics:
      The whole product first, then one addition in the accumulator's dtype, then one rounding to `out_dtype`.
    Errors:
      PL302 for a bias of another dtype, PL301 for one of another shape.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.matmul_bias(np.int8([[1, 2]]), np.int8([[3], [4]]), np.int32([[100]]))
    Array([[111]], dtype=INT32)
    """


@cube(mnemonic="pto.tgemv", one_row=True)
def gemv(a: Any, b: Any, *, acc_phase: str = PHASES[0], numerics: str = CONTRACT) -> Any:
    """One row times a matrix: [1, k] @ [k, n], scheduled better than `matmul` is for one row; the bits are the same.

    Args:
      acc_phase: `unspecified`, `partial` or `final`: what the accumulator's consumer may assume; it changes no value.
    Errors:
      PL301 for more than one row, otherwise as `matmul`.
    """


@cube(mnemonic="pto.tgemv.acc", accumulates=True, one_row=True)
def gemv_acc(acc: Any, a: Any, b: Any, *, acc_phase: str = PHASES[0], numerics: str = CONTRACT) -> Any:
    """acc + one row times a matrix: `matmul_acc` for [1, k] @ [k, n], with `acc_phase` as in `gemv`."""


@cube(mnemonic="pto.tgemv.bias", biased=True, one_row=True)
def gemv_bias(a: Any, b: Any, bias: Any, *, acc_phase: str = PHASES[0], numerics: str = CONTRACT) -> Any:
    """One row times a matrix, + bias: `matmul_bias` for [1, k] @ [k, n], with `acc_phase` as in `gemv`."""
