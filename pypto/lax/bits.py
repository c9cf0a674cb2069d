"""Bits of one dtype as another."""

from __future__ import annotations

from typing import Any

from pypto import dtypes
from pypto.core.trace import aval_of
from pypto.dtypes import dtype_of
from pypto.errors import ShapeError
from pypto.lax.placing import check_bits, reinterpret
from pypto.lax.shape import reshape


def bitcast_convert_type(operand: Any, new_dtype: Any) -> Any:
    """The bits of each element as elements of another dtype, as `jax.lax.bitcast_convert_type`.

    To a narrower dtype a last axis is added, with the low bits first; to a wider one the last axis, which must have the ratio
    of the widths as its extent, is taken away. To the dtype it has it is the operand.

    Errors:
      PL305 for a dtype without whole bytes and for BOOL, PL301 for another last extent.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.bitcast_convert_type(np.float32(1.0), "UINT32"), lax.bitcast_convert_type(np.uint16([0x0102]), "UINT8")
    (Array(1065353216, dtype=UINT32), Array([[2, 1]], dtype=UINT8))
    """
    x, target = aval_of(operand), dtype_of(new_dtype)
    if x.dtype is target:
        return operand
    if dtypes.BOOL in (x.dtype, target):
        raise ShapeError(
            "PL305", f"bitcast_convert_type: {x.dtype.name} to {target.name}: truth values have no bits", fix="convert to UINT8"
        )
    check_bits("bitcast_convert_type", x.dtype, target)
    have, want = x.dtype.itemsize, target.itemsize
    if have >= want:
        parts = reinterpret(reshape(operand, shape=(*x.static_shape, 1)), dtype=target)
        return parts if have > want else reshape(parts, shape=x.static_shape)
    if not x.shape or x.shape[-1] != want // have:
        raise ShapeError("PL301", f"bitcast_convert_type: {x} to {target.name}", fix=f"a last axis of extent {want // have}")
    return reshape(reinterpret(operand, dtype=target), shape=x.static_shape[:-1])
