"""Matrix products in the language's spelling: plain, accumulating, with a bias, batched, and of one row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pypto import lax
from pypto.core.avals import TENSOR
from pypto.core.ir import Jaxpr
from pypto.core.trace import aval_of, current_trace
from pypto.dtypes import BOOL, dtype_of
from pypto.errors import ShapeError
from pypto.language.levels import by_level, only_at
from pypto.language.spelled import as_tile
from pypto.language.trace import PlTrace
from pypto.language.values import ScalarValue, TileValue
from pypto.lax import control
from pypto.lax.contraction import CONTRACT, accumulator

_TURN = "turn the operand: pl.tile.transpose_view(x)"


def _natural(result: Any) -> Any:
    """A product of its natural dtype: a created tensor whose name it takes may still say another one."""
    if isinstance(result, TileValue):
        result.trace.defaulted.add(result.var)
    return result


@by_level
def matmul(
    lhs: Any,
    rhs: Any,
    out_dtype: Any = None,
    a_trans: bool = False,
    b_trans: bool = False,
    c_matrix_nz: bool = False,
    *,
    numerics: str = CONTRACT,
) -> Any:
    """Multiply matrices on the cube unit: [..., m, k] @ [..., k, n], accumulated in FP32 (INT32 for INT8).

    Args:
      lhs, rhs: tiles of one dtype. With more than two axes the leading ones are a batch, which broadcasts; a value of one
        axis is a row on the left and a column on the right.
      out_dtype: rounds the result once; by default the accumulator's dtype, or that of the created tensor whose name the result
        takes. (Where the original's documents differ, that is the coding style's rule.)
      a_trans, b_trans: take that operand with its last two axes exchanged; tensor level only.
      c_matrix_nz: must be False: results are row-major.
      numerics: the order, see `lax.matmul`.
    Errors:
      PL301 for extents that do not match, PL302 for two dtypes, PL305 for a dtype the unit does not take, PL307 for a flag at
      tile level, PL308 for a flag on a vector.

    >>> import numpy as np
    >>> matmul(np.float16([[1, 2]]), np.float16([[3, 4]]), b_trans=True)
    Array([[11.]], dtype=FP32)
    """
    if c_matrix_nz:
        raise ShapeError("PL308", "pl.matmul: c_matrix_nz=True: results are row-major here", fix="leave c_matrix_nz out")
    a, b = as_tile(lhs, "matmul"), as_tile(rhs, "matmul")
    only_at(TENSOR, "matmul", (a, b), _TURN, a_trans=bool(a_trans), b_trans=bool(b_trans))
    out = None if out_dtype is None else dtype_of(out_dtype)
    narrow = out is not None and out is not accumulator(aval_of(a).dtype)
    only_at(TENSOR, "matmul", (a, b), "convert the result: pl.cast(acc, dtype)", out_dtype=narrow)
    result = lax.matmul(a, b, out_dtype=out, a_trans=bool(a_trans), b_trans=bool(b_trans), numerics=numerics)
    return result if out is not None else _natural(result)


@by_level
def matmul_acc(
    acc: Any, lhs: Any, rhs: Any, a_trans: bool = False, b_trans: bool = False, init_cond: Any = None, *, numerics: str = CONTRACT
) -> Any:
    """acc + lhs @ rhs, accumulated on chip: the chain of additions starts from `acc`. See `lax.matmul_acc`.

    Args:
      acc: FP32, or INT32 for INT8 operands, of the product's shape.
      a_trans, b_trans: as in `matmul`.
      init_cond: a truth value: where it holds, the result is lhs @ rhs, and `acc` is not read. Of a run-time condition this
        becomes a branch. Operands of two axes only.
    Errors:
      PL301 and PL302 for an accumulator that does not fit, PL307 for a flag at tile level.
    """
    a, b = as_tile(lhs, "matmul_acc"), as_tile(rhs, "matmul_acc")
    only_at(TENSOR, "matmul_acc", (a, b), _TURN, a_trans=bool(a_trans), b_trans=bool(b_trans))
    flags = {"a_trans": bool(a_trans), "b_trans": bool(b_trans), "numerics": numerics}
    if init_cond is None:
        return lax.matmul_acc(acc, a, b, **flags)
    if aval_of(a).rank != 2 or aval_of(b).rank != 2:
        raise ShapeError("PL301", f"pl.matmul_acc: init_cond with {aval_of(a)} times {aval_of(b)}", fix="operands of two axes")
    # an accumulator must fit, also where it is not read
    lax.matmul_acc.abstract_eval([aval_of(acc), aval_of(a), aval_of(b)], flags)
    return _either(init_cond, lambda: lax.matmul(a, b, **flags), lambda: lax.matmul_acc(acc, a, b, **flags))


def _either(condition: Any, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    """One of two values, by a condition that may be known only at run time."""
    trace = current_trace()
    if not isinstance(condition, ScalarValue) or not isinstance(trace, PlTrace) or trace.concrete:
        return then() if bool(condition) else orelse()
    if condition.dtype is not BOOL:
        raise ShapeError("PL302", f"init_cond is {condition.aval}, not a truth value", fix="compare: init_cond=(k == 0)")
    arms = []
    for arm in (then, orelse):
        with trace.inside("cond") as scope:
            value = trace.atom(arm())
        arms.append(Jaxpr((), tuple(scope.eqns), (value,)))
    return trace.process(control.cond, [condition], {"then": arms[0], "orelse": arms[1]})


def matmul_bias(lhs: Any, rhs: Any, bias: Any) -> Any:
    """lhs @ rhs + bias, a row [1, n] that is added to every row after the accumulation. See `lax.matmul_bias`.

    Args:
      bias: FP32, or INT32 for INT8 operands.
    Errors:
      PL302 for a bias of another dtype, PL301 for one of another shape.

    >>> import numpy as np
    >>> matmul_bias(np.int8([[1, 2]]), np.int8([[3], [4]]), np.int32([[100]]))
    Array([[111]], dtype=INT32)
    """
    return _natural(lax.matmul_bias(lhs, rhs, bias))


def _check_batch(name: str, lhs: Any, rhs: Any) -> None:
    a, b = aval_of(lhs), aval_of(rhs)
    if max(a.rank, b.rank) < 3:
        raise ShapeError("PL301", f"pl.{name}: {a} times {b} is no batch", fix=f"pl.{name.removeprefix('batch_')} multiplies two matrices")


def batch_matmul(lhs: Any, rhs: Any) -> Any:
    """[..., m, k] @ [..., k, n] for every element of a batch; batch extents of 1 stretch. See `lax.matmul`.

    Errors:
      PL301 for two plain matrices, or batch extents that differ.
    """
    a, b = as_tile(lhs, "batch_matmul"), as_tile(rhs, "batch_matmul")
    _check_batch("batch_matmul", a, b)
    return _natural(lax.matmul(a, b))


def batch_matmul_acc(acc: Any, lhs: Any, rhs: Any) -> Any:
    """acc + lhs @ rhs for every element of a batch; the accumulator has the whole batch, it does not stretch.

    Errors:
      PL301 for two plain matrices, or an accumulator of another shape; PL302 for one of another dtype.
    """
    a, b = as_tile(lhs, "batch_matmul_acc"), as_tile(rhs, "batch_matmul_acc")
    _check_batch("batch_matmul_acc", a, b)
    return lax.matmul_acc(acc, a, b)


def gemv(lhs: Any, rhs: Any, acc_phase: str = "unspecified") -> Any:
    """One row times a matrix: [1, k] @ [k, n]. See `lax.gemv`.

    Args:
      acc_phase: unspecified, partial or final; a hint that changes no value.
    Errors:
      PL301 for more than one row, PL308 for another phase.

    >>> import numpy as np
    >>> gemv(np.float32([[1, 2]]), np.float32([[3], [4]]), acc_phase="final")
    Array([[11.]], dtype=FP32)
    """
    return _natural(lax.gemv(lhs, rhs, acc_phase=acc_phase))


def gemv_acc(acc: Any, lhs: Any, rhs: Any, acc_phase: str = "unspecified") -> Any:
    """acc + one row times a matrix. See `lax.gemv_acc`; errors as `gemv` and `matmul_acc`."""
    return lax.gemv_acc(acc, lhs, rhs, acc_phase=acc_phase)


def gemv_bias(lhs: Any, rhs: Any, bias: Any, acc_phase: str = "unspecified") -> Any:
    """One row times a matrix, + bias. See `lax.gemv_bias`; errors as `gemv` and `matmul_bias`."""
    return _natural(lax.gemv_bias(lhs, rhs, bias, acc_phase=acc_phase))
