"""Matrix multiplication on the cube unit, in the order the contract fixes per dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from pypto import dtypes, numerics
from pypto.core.avals import ArrayAval, Aval, TileAval, Valid
from pypto.core.op import Exact, Labels, Native
from pypto.dtypes import DType, dtype_of
from pypto.errors import ShapeError
from pypto.lax.families import computed, letters, sample_values

ACCEPTS = frozenset({dtypes.FP32, dtypes.FP16, dtypes.BF16, dtypes.INT8})
CONTRACT, SEQUENTIAL = "contract", "sequential"


def accumulator(dtype: DType) -> DType:
    """The dtype a product of this dtype is accumulated in."""
    return dtypes.INT32 if dtype is dtypes.INT8 else dtypes.FP32


def _oriented(shape: tuple[Any, ...], transposed: bool) -> tuple[Any, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if transposed else shape


def _product(name: str, a: Aval, b: Aval, a_trans: bool, b_trans: bool) -> tuple[tuple[int, ...], Valid | None]:
    """Shape and valid region of the product."""
    if a.dtype is not b.dtype:
        raise ShapeError("PL302", f"{name}: {a} times {b}", fix="both operands have one dtype: cast one side")
    if a.dtype not in ACCEPTS:
        raise ShapeError("PL305", f"{name} does not take {a.dtype.name}", fix=f"one of {', '.join(sorted(d.name for d in ACCEPTS))}")
    if a.rank < 2 or b.rank < 2:
        raise ShapeError("PL301", f"{name}: {a} times {b}", fix="operands have two axes; reshape a vector to one row or one column")
    left, right = _oriented(a.static_shape, a_trans), _oriented(b.static_shape, b_trans)
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
    valid = None
    if isinstance(a, TileAval) and isinstance(b, TileAval) and (a.valid or b.valid):
        valid = _product_valid(a.valid_shape, b.valid_shape, a_trans, b_trans)
    return (*batch, left[-2], right[-1]), valid


def _product_valid(a: Valid, b: Valid, a_trans: bool, b_trans: bool) -> Valid:
    left, right = _oriented(a, a_trans), _oriented(b, b_trans)
    batch = left[:-2] if len(left) >= len(right) else right[:-2]
    if len(left) == len(right):
        batch = tuple(y if x == 1 else x for x, y in zip(left[:-2], right[:-2], strict=True))
    return (*batch, left[-2], right[-1])


def _out(a: Aval, b: Aval, shape: tuple[int, ...], valid: Valid | None, dtype: DType) -> Aval:
    if isinstance(a, TileAval) or isinstance(b, TileAval):
        level = "tile" if any(isinstance(x, TileAval) and x.level == "tile" for x in (a, b)) else "tensor"
        return TileAval(shape, dtype, level, None, None if valid == shape else valid)
    return ArrayAval(shape, dtype)


def _check_out(name: str, source: DType, out: DType | None) -> DType:
    natural = accumulator(source)
    if out is None:
        return natural
    if out.is_float != natural.is_float or (not natural.is_float and out is not natural):
        raise ShapeError("PL305", f"{name}: {source.name} operands give {natural.name}, not {out.name}", fix=f"out_dtype=pl.{natural.name}")
    return out


def _matmul_aval(a: Aval, b: Aval, *, a_trans: bool, b_trans: bool, out_dtype: DType | None, numerics: str = CONTRACT) -> Aval:
    _check_order("matmul", numerics)
    shape, valid = _product("matmul", a, b, a_trans, b_trans)
    return _out(a, b, shape, valid, _check_out("matmul", a.dtype, out_dtype))


def _check_order(name: str, order: str) -> None:
    if order not in (CONTRACT, SEQUENTIAL):
        raise ShapeError("PL308", f"{name}: numerics={order!r}", fix=f"one of {CONTRACT}, {SEQUENTIAL}")


def _acc_aval(acc: Aval, a: Aval, b: Aval, *, a_trans: bool, b_trans: bool, numerics: str = CONTRACT) -> Aval:
    _check_order("matmul_acc", numerics)
    shape, _ = _product("matmul_acc", a, b, a_trans, b_trans)
    want = accumulator(a.dtype)
    if acc.dtype is not want:
        raise ShapeError(
            "PL302", f"matmul_acc: the accumulator is {acc}, {a.dtype.name} operands accumulate in {want.name}", fix="match it"
        )
    if acc.shape != shape:
        raise ShapeError("PL301", f"matmul_acc: the accumulator is {list(acc.shape)}, the product {list(shape)}", fix="make them equal")
    return acc


def _labels(rank_a: int, rank_b: int, a_trans: bool, b_trans: bool) -> tuple[str, str, str]:
    batch = letters(max(rank_a, rank_b) - 2)
    left, right = ("km" if a_trans else "mk"), ("nk" if b_trans else "kn")
    return batch[len(batch) - rank_a + 2 :] + left, batch[len(batch) - rank_b + 2 :] + right, batch + "mn"


def _matmul_axes(a: Aval, b: Aval, *, a_trans: bool, b_trans: bool, **_: Any) -> Labels:
    left, right, out = _labels(a.rank, b.rank, a_trans, b_trans)
    return Labels((left, right), out)


def _acc_axes(acc: Aval, a: Aval, b: Aval, *, a_trans: bool, b_trans: bool, **_: Any) -> Labels:
    left, right, out = _labels(a.rank, b.rank, a_trans, b_trans)
    return Labels((out, left, right), out)


def _order(dtype: np.dtype[Any], rule: str) -> str:
    return "chain" if rule == SEQUENTIAL and dtype == dtypes.BF16.storage else ""


def _turn(x: np.ndarray, transposed: bool) -> np.ndarray:
    return np.swapaxes(x, -1, -2) if transposed else x


def _samples() -> list[Any]:
    flags = {"a_trans": False, "b_trans": False}
    return [
        ((sample_values(d, (m, k), seed=1), sample_values(d, (k, n), seed=2)), {**flags, "out_dtype": None, "numerics": CONTRACT})
        for d in sorted(ACCEPTS, key=lambda d: d.name)
        for m, k, n in ((1, 5, 3), (4, 1, 1), (3, 70, 5))
    ]


def _acc_samples() -> list[Any]:
    return [
        (
            (sample_values(accumulator(dtype_of(a.dtype)), (a.shape[0], b.shape[1]), seed=9), a, b),
            {k: p[k] for k in ("a_trans", "b_trans", "numerics")},
        )
        for (a, b), p in _samples()
    ]


@computed(
    samples=_samples,
    abstract=_matmul_aval,
    axes=_matmul_axes,
    exact=Exact("matmul"),
    valid=lambda a, b, *, a_trans, b_trans, **_: _product_valid(a, b, a_trans, b_trans),
    crops=True,
    unit="cube",
    pto=Native("pto.tmatmul"),
    golden="jax.numpy.matmul",
)
def matmul(a: Any, b: Any, *, out_dtype: Any = None, a_trans: bool = False, b_trans: bool = False, numerics: str = CONTRACT) -> Any:
    """Multiply matrices: [m, k] @ [k, n].

    Args:
      a, b: one dtype of FP32, FP16, BF16, INT8; leading batch axes broadcast.
      out_dtype: the result's dtype; by default the accumulator's (FP32, or INT32 for INT8).
      a_trans, b_trans: take that operand transposed.
      numerics: `contract`, or `sequential` for BF16 in the order of the vendor's CPU simulator.
    Numerics:
      FP16 and FP32: one fused multiply-add chain over ascending k. BF16: chunks of 32 k, see `numerics.CONTRACT`.
      INT8: exact in INT32. Then one rounding to `out_dtype`.
    Errors:
      PL301 for extents that do not match, PL302 for two dtypes.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.matmul(np.int8([[1, 2]]), np.int8([[3], [4]]))
    Array([[11]], dtype=INT32)
    """
    from pypto import numerics as contract

    product = contract.matmul(_turn(a, a_trans), _turn(b, b_trans), order=_order(a.dtype, numerics))
    return _rounded(product, out_dtype)


def _rounded(x: np.ndarray, out_dtype: Any) -> np.ndarray:
    if out_dtype is None or dtype_of(out_dtype).storage == x.dtype:
        return x
    return numerics.convert(x, dtype_of(x.dtype), dtype_of(out_dtype), "rint")


@computed(
    samples=_acc_samples,
    abstract=_acc_aval,
    axes=_acc_axes,
    exact=Exact("matmul"),
    valid=lambda acc, a, b, **_: acc,
    crops=True,
    unit="cube",
    pto=Native("pto.tmatmul.acc"),
)
def matmul_acc(acc: Any, a: Any, b: Any, *, a_trans: bool = False, b_trans: bool = False, numerics: str = CONTRACT) -> Any:
    """acc + a @ b, accumulated where the product is: for FP16 and FP32 the chain starts from `acc`.

    Splitting k into several calls therefore never changes a bit in FP16, FP32 and INT8, nor in BF16 when every piece but
    the last is a multiple of 32.
    """
    from pypto import numerics as contract

    left, right = _turn(a, a_trans), _turn(b, b_trans)
    m, n = left.shape[-2], right.shape[-1]
    result = np.array(acc)
    result[..., :m, :n] = contract.matmul(left, right, acc[..., :m, :n], order=_order(a.dtype, numerics))
    return result
