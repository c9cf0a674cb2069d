"""Stores that are made early: a value that will soon be stored as a whole is computed where it goes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from pypto.core.avals import TileAval
from pypto.core.ir import Eqn, Literal, Var
from pypto.dtypes import DType
from pypto.interpreters.cpu.needs import meet, offset
from pypto.interpreters.cpu.values import Memory, Ref, Tile

if TYPE_CHECKING:
    from pypto.interpreters.cpu.writer import Writer

_AHEAD = 16  # equations that are looked through for the store


def destination(w: Writer, v: Var | None, dtype: DType, shape: tuple[int, ...]) -> Memory | None:
    """Where in a buffer a value about to be computed will be stored as a whole soon, so that it can be computed there right away.

    Only if nothing in between looks at a buffer, and nothing still to come needs what the window holds now. The store is done then.
    """
    eqns, at = w.walk[-1]
    if eqns[at].op.writes:
        return None  # it writes what may lie in the same place, and in which order the two are written would matter
    for e in itertools.islice(eqns, at + 1, at + 1 + _AHEAD):
        if e.op.name == "set" and e.ins[1] is v:
            return _early(w, e, dtype, shape)
        if e.op.reads or e.op.writes or any(True for _ in e.bodies()) or e.op.name in ("call", "syncall"):
            return None
    return None


def _early(w: Writer, e: Eqn, dtype: DType, shape: tuple[int, ...]) -> Memory | None:
    value, target = e.ins[1].aval, w.env.get(e.ins[0]) if isinstance(e.ins[0], Var) else None
    ready = all(isinstance(a, Literal) or a in w.env for a in e.ins[2:])
    kept = [n for i, n in enumerate(e.params["sizes"]) if i not in e.params["drop"]]
    plain = isinstance(value, TileAval) and value.valid is None and value.dtype is dtype and tuple(kept) == shape
    if not isinstance(target, Ref) or not ready or not plain or target.mask is not None or id(e) not in w.module.facts.inside:
        return None
    if any(meet(m.roots, target.roots) for m in w.views):
        return None
    starts = [w.index(w.read(a)) for a in e.ins[2:]]
    pointer = w.fn.at(target.pointer, offset(w, target.strides, starts), dtype.itemsize)
    strides = tuple(s for i, s in enumerate(target.strides) if i not in e.params["drop"])
    w.done.add(id(e))
    return w.seen_through(target, pointer, strides, (target.pointer, tuple(starts), strides))


def name_of(w: Writer, t: Tile) -> Var | None:
    """The variable that holds a tile; None where there is none, or more than one."""
    found = [v for v, x in w.env.items() if x is t]
    return found[0] if len(found) == 1 else None
