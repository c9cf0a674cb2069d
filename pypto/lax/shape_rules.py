"""How examples and cotangents go through the ops that make and move arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pypto.core.avals import ArrayAval
from pypto.core.op import OPS, Op
from pypto.core.trace import aval_of
from pypto.interpreters.batching import Batched, per_example, repeated, reshaped
from pypto.interpreters.tangents import apply, zeros


def fill_batching(op: Op, size: int, operands: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Batched:
    """One value per example, repeated."""
    shape = params["shape"]
    lined = reshaped(operands[0], (size, *(1 for _ in shape)))
    return apply(OPS["broadcast"], [lined], {"shape": (size, *shape)}), [True]


def broadcast_batching(op: Op, size: int, operands: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Batched:
    (x,), shape = operands, params["shape"]
    own = aval_of(x).static_shape[1:]
    lined = reshaped(x, (size, *(1 for _ in shape[len(own) :]), *own))
    return apply(op, [lined], {"shape": (size, *shape)}), [True]


def slice_batching(op: Op, size: int, operands: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Batched:
    """The same window of all examples; windows at places of their own are taken one by one."""
    if any(batched[1:]):
        return per_example(op, size, operands, batched, params)
    x, *starts = operands
    return apply(op, [x, np.int32(0), *starts], {"sizes": (size, *params["sizes"])}), [True]


def update_batching(op: Op, size: int, operands: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Batched:
    x, value, *starts = operands
    if any(batched[2:]) or (batched[1] and aval_of(value).rank == 1 and params["sizes"]):  # a number of its own for each
        return per_example(op, size, operands, batched, params)
    whole = x if batched[0] else repeated(x, size)
    own = value if batched[1] or not aval_of(value).rank else repeated(value, size)
    return apply(op, [whole, own, np.int32(0), *starts], {"sizes": (size, *params["sizes"])}), [True]


def update_transpose(ct: Any, x: Any, value: Any, *starts: Any, sizes: tuple[int, ...]) -> tuple[Any, ...]:
    window = OPS["slice"](ct, *starts, sizes=sizes)
    own = (
        window if aval_of(value).shape == sizes else OPS["reshape"](window.sum() if not aval_of(value).shape else window, shape=value.shape)
    )
    return OPS["update"](ct, zeros(ArrayAval(sizes, ct.dtype)), *starts, sizes=sizes), own
