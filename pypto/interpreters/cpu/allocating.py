"""New buffers: in an orchestration from the heap, in a kernel from the thread's on-chip memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pypto.core.allocation import MOST_BYTES
from pypto.core.ir import Eqn
from pypto.interpreters.cpu.memory import _write, filled
from pypto.interpreters.cpu.rules import Unsupported
from pypto.interpreters.cpu.text import Int
from pypto.interpreters.cpu.values import Ref, Root, Value, contiguous

if TYPE_CHECKING:
    from pypto.interpreters.cpu.writer import Writer


def alloc(w: Writer, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
    """A new buffer of zeros, or of the initial value."""
    sizes = iter(ins)
    shape = tuple(w.index(next(sizes)) if d is None else d for d in eqn.params["shape"])
    dtype, init = eqn.params["dtype"], eqn.params["init"]
    root = Root(eqn.params["name"] or eqn.outs[0].name, local=not w.orchestration)
    strides = contiguous(shape, w.fn.mul)
    total = w.fn.mul(w.fn.product(shape), dtype.itemsize)
    if w.orchestration:
        _check_extents(w, eqn, shape, dtype.itemsize)
        known = w.module.facts
        zeros = eqn.outs[0] not in known.fresh & known.full
        pointer = w.fn.let(f"call ptr @pypto_{'new' if zeros else 'raw'}(ptr %heap, i64 {total})")
        w.check(w.fn.let(f"icmp ne ptr {pointer}, null"), eqn, "memory", shape)
    else:
        if not isinstance(total, int):
            raise Unsupported("an on-chip buffer whose size is known only at run time")
        slot = w.arena.take(total)
        w.module.room = max(w.module.room, w.arena.end)
        w.pinned.append(slot)
        pointer = w.arena_pointer(slot)
        if init is None:
            w.fn.zero(pointer, total)
    ref = Ref(dtype, pointer, shape, strides, frozenset([root]), dense=True)
    if init is not None:
        value = filled(dtype, (1,) * len(shape), w.literal(np.asarray(init).astype(dtype.storage), dtype))
        _write(w, value, shape, shape, pointer, ref.strides, None)
    return [ref]


def _check_extents(w: Writer, eqn: Eqn, shape: Sequence[Int], itemsize: int) -> None:
    """Extents known at run time are not negative, and their product is a number of bytes that can be."""
    fn, known = w.fn, itemsize
    for d in shape:
        known *= max(d, 1) if isinstance(d, int) else 1
    most: Int = MOST_BYTES // known
    for d in shape:
        if not isinstance(d, int):
            w.check(fn.compare("sge", d, 0), eqn, "extents", shape)
            w.check(fn.compare("sle", d, most), eqn, "memory", shape)
            most = fn.let(f"udiv i64 {most}, {fn.most(d, 1)}")
    if isinstance(most, int):
        w.check(most > 0, eqn, "memory", shape)
