"""The arrays of a call as run-time values, and what a run wrote back into the caller's arrays, or nothing if it failed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from pypto.core.allocation import zeros
from pypto.core.array import Array
from pypto.core.avals import ArrayAval, RefAval
from pypto.interpreters.values import Buffer, Ref, Value
from pypto.language.calls import OMITTED, Argument, Call, Signature
from pypto.language.types import IN, INOUT, OUT, TensorType
from pypto.language.unwritten import check_written


def to_values(call: Call, *, check: bool, undeclared_writes: bool) -> list[Any]:
    """Fresh run-time values of the traced arguments: outputs and whatever may be written are copies."""
    values: list[Any] = []
    for a in call.arguments:
        if a.aval is None:
            continue
        assert a.array is not None
        if not isinstance(a.aval, RefAval):
            values.append(Value(a.array, ()))
            continue
        values.append(Ref.whole(_buffer(a, check, undeclared_writes)))
    return values


def to_compiled_values(
    call: Call, parameters: Sequence[Any], *, may_fail: bool, undeclared_writes: bool, in_place: Collection[str] = ()
) -> list[Any]:
    """As `to_values` without checks, for compiled code: an output that every run writes completely is written where it is.

    Unless the run may fail: a failed call leaves the caller's arrays alone, so its outputs are copied once it is over.

    Args:
      in_place: in/out parameters that are written where they are, too, in a run that cannot fail.
    """
    values: list[Any] = []
    traced = (a for a in call.arguments if a.aval is not None)
    for a, p in zip(traced, parameters, strict=True):
        assert a.array is not None and a.aval is not None
        flags = a.array.flags
        if not isinstance(a.aval, RefAval):
            values.append(Value(a.array, ()))
        elif a.aval.direction == OUT and p.full:
            there = flags.carray and a.array.dtype == a.aval.dtype.storage
            if a.given is not OMITTED and (may_fail or not there):
                values.append(Ref.whole(Buffer(_zeros(a), None, None, a.parameter.name)))
                continue
            if p.read and a.given is not OMITTED:  # memory that is not written yet reads as zero
                a.array.fill(0)
            values.append(Ref.whole(Buffer(a.array, None, None, a.parameter.name)))
        elif a.parameter.name in in_place and a.aval.direction == INOUT and not may_fail and flags.carray:
            values.append(Ref.whole(Buffer(a.array, None, None, a.parameter.name, visible=True)))
        else:
            values.append(Ref.whole(_buffer(a, False, undeclared_writes)))
    return values


def _buffer(a: Argument, check: bool, undeclared_writes: bool) -> Buffer:
    assert a.array is not None and a.aval is not None
    name, storage = a.parameter.name, a.aval.dtype.storage
    direction = a.parameter.type.direction if isinstance(a.parameter.type, TensorType) else IN
    if direction == OUT:
        shape = a.array.shape
        tainted = np.zeros(shape, np.bool_) if check else None
        return Buffer(_zeros(a), np.zeros(shape, np.bool_), tainted, name, visible=True)
    writes = direction == INOUT or undeclared_writes
    data = np.array(a.array, storage, order="C") if writes else np.ascontiguousarray(a.array.astype(storage, copy=False))
    data = data.reshape(a.array.shape)  # ascontiguousarray gives 0-d arrays an axis
    return Buffer(data, None, np.zeros(data.shape, np.bool_) if check and writes else None, name, visible=direction == INOUT)


def _zeros(a: Argument) -> np.ndarray:
    assert a.array is not None and a.aval is not None
    return zeros(f"the output `{a.parameter.name}`", a.aval.dtype, a.array.shape)


def write_back(signature: Signature, call: Call, values: Sequence[Any]) -> Any:
    """Copy what was written to the caller's arrays, and return the outputs.

    Errors:
      PL202 when an output has no element written. A partly written one is a warning, PL204, with the region left out.
    """
    buffers = {v.buffer.name: v.buffer for v in values if isinstance(v, Ref)}
    for a in call.arguments:
        if a.parameter.is_output:
            check_written(signature.name, signature.source, buffers[a.parameter.name])
    results, omitted = [], []
    for a in call.arguments:
        if not a.parameter.is_output:
            continue
        buffer = buffers[a.parameter.name]
        assert a.array is not None and a.aval is not None
        if a.given is OMITTED:
            omitted.append(Array.adopt(buffer.data, ArrayAval(buffer.data.shape, a.aval.dtype)))
            continue
        if buffer.data is a.array:  # written in place
            results.append(a.given)
            continue
        if buffer.written is None or buffer.written.all():
            np.copyto(a.array, buffer.data)
        else:
            a.array[buffer.written] = buffer.data[buffer.written]
        results.append(a.given)
    chosen = omitted or results
    return chosen[0] if len(chosen) == 1 else tuple(chosen) if chosen else None
