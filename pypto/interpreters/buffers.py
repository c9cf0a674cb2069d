"""Buffers that a run creates: their extents are checked, and where this machine has no memory for one the error says which."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pypto.core import allocation
from pypto.core.ir import Eqn
from pypto.errors import OutOfMemoryError, ShapeError
from pypto.interpreters.values import Buffer, Ref


def created(eqn: Eqn, shape: tuple[int, ...], *, check: bool) -> Ref:
    """What an `alloc` creates: zeros, or its initial value; with shadow bits in checked runs.

    Errors:
      PL303 for an extent below 0, PL407 for more than there is.
    """
    if any(n < 0 for n in shape):
        raise ShapeError("PL303", f"a buffer of extents {list(shape)}", fix="extents of 0 and more", at=eqn.source)
    dtype, init = eqn.params["dtype"], eqn.params["init"]
    try:
        data = np.zeros(shape, dtype.storage)
        if init is not None:
            data[...] = init
        written = None if init is not None or not check else np.zeros(shape, np.bool_)
        tainted = np.zeros(shape, np.bool_) if check else None
    except (MemoryError, ValueError):  # more than there is, or than an array can have
        raise no_memory(eqn, shape) from None
    return Ref.whole(Buffer(data, written, tainted, eqn.params["name"] or eqn.outs[0].name))


def no_memory(eqn: Eqn, shape: Sequence[int]) -> OutOfMemoryError:
    """The error of an equation that needs a buffer of this shape."""
    aval = eqn.outs[0].aval if eqn.outs else eqn.ins[0].aval
    dtype, what = getattr(aval, "dtype"), eqn.params.get("name") or (eqn.outs[0].name if eqn.outs else "a copy")  # noqa: B009
    return allocation.no_memory(f"`{what}`", dtype, shape, eqn.source)
