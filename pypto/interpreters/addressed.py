"""Run-time parts of ops that go through a handle to computed places, or that update what is there; and checks of indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto import numerics
from pypto.core.ir import Eqn, Var
from pypto.errors import ShapeError, family_of
from pypto.interpreters.shadow import either, outside
from pypto.interpreters.values import Ref, Value

if TYPE_CHECKING:
    from pypto.interpreters.reference import Machine


def name_of(eqn: Eqn, i: int) -> str:
    """How an error calls operand i."""
    atom = eqn.ins[i]
    return f"`{atom.name}`" if isinstance(atom, Var) and atom.name else f"operand {i}"


def check_faults(eqn: Eqn, ins: Sequence[Any]) -> None:
    """An op's operands must be what it can do with, where they are valid and were written.

    Errors:
      The code of the fault, PL303 for an index outside its extent, with the element and its position.
    """
    found = None if eqn.op.faults is None else eqn.op.faults(*(v.data for v in ins), **eqn.params)
    if found is None:
        return
    operand: Value = ins[found.operand]
    marked = Value(found.mask, operand.valid, operand.taint).cropped()
    bad = marked.data if marked.taint is None else marked.data & ~marked.taint
    if np.any(bad):
        where = tuple(int(i[0]) for i in np.nonzero(bad)) if np.ndim(bad) else ()
        names = {"name": name_of(eqn, found.operand), "first": name_of(eqn, 0)}
        text = found.text.format(value=operand.data[where], where=list(where), **names)
        raise family_of(found.code)(found.code, f"{eqn.op.name}: {text}", fix=found.fix, at=eqn.source)


def addressed(machine: Machine, eqn: Eqn, ins: Sequence[Any]) -> Sequence[Any]:
    """Read from, or write to, the places in a buffer that an op's `addresses` names."""
    op, target = eqn.op, ins[0]
    assert op.addresses is not None and isinstance(target, Ref)
    if machine.check:
        check_faults(eqn, ins)
    crops = op.crops if isinstance(op.crops, tuple) else ()
    seen = [v.cropped() if i in crops else v for i, v in enumerate(ins)]
    places = np.asarray(op.addresses(*(v.data for v in seen), **eqn.params), np.int64)
    there = places >= 0
    at = np.unravel_index(places[there], target.data.shape)
    if op.writes:
        value: Value = seen[1]
        taint = None if value.taint is None else value.taint.reshape(places.shape)[there]
        machine.write(eqn, target, at, value.data.reshape(places.shape)[there], taint)
        return ()
    data = np.zeros(places.shape, target.data.dtype)
    data[there] = target.data[at]
    valid = machine.valids(op, ins, eqn.params, [places.shape])[0]
    shadow = outside(places.shape, valid) if machine.check else None
    unseen = machine.unseen(target, at)
    if unseen is not None:
        scattered = np.zeros(places.shape, np.bool_)
        scattered[there] = unseen
        shadow = either(shadow, scattered)
    return (Value(data, valid, shadow),)


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {"add": numerics.add, "max": numerics.maximum, "min": numerics.minimum}


def accumulate(machine: Machine, eqn: Eqn, ins: Sequence[Any]) -> Sequence[Any]:
    """Combine a value with what a window of a buffer holds, and store the result there."""
    target: Ref = ins[0]
    window, data, taint = machine.placed(eqn, ins)
    combine = eqn.params["combine"]
    unseen = machine.unseen(target, window)
    if unseen is not None:
        where = [int(i[0]) for i in np.nonzero(unseen)]
        raise ShapeError(
            "PL306",
            f"an atomic {combine} reads element {where} of its window of `{target.buffer.name}`, which nobody wrote",
            fix=f"fill `{target.buffer.name}` before the first update (with zeros for a sum), or declare it pl.InOut",
            at=eqn.source,
        )
    if taint is not None and np.any(taint):
        where = [int(i[0]) for i in np.nonzero(taint)]
        raise ShapeError(
            "PL306",
            f"element {where} of what is added atomically to `{target.buffer.name}` comes from an element nobody wrote, or not valid",
            fix="store the valid part only, or fill the rest with pl.fillpad",
            at=eqn.source,
        )
    machine.write(eqn, target, window, numerics.elementwise(_COMBINE[combine], target.data[window], np.asarray(data)), None)
    return ()
