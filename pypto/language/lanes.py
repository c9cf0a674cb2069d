"""The two vector lanes of a core group: `pl.split_aiv`, and the values that cross the edge between the cube and the lanes.

A body is traced once per lane, each from what was there before: a lane has values of its own, and what both give one name is kept
for each. Only what is brought in by `pl.aiv_shard` and taken out by `pl.aic_gather` crosses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pypto import lax, tree
from pypto.core.avals import TileAval
from pypto.core.ir import Eqn, Jaxpr, Var
from pypto.errors import TaskError
from pypto.language.optimizations import SplitMode
from pypto.language.protocol import Names
from pypto.language.scopes import Loop
from pypto.language.spelled import as_tile, trace_here
from pypto.language.trace import PlTrace
from pypto.language.values import TileValue, Unset, Unusable, Value

_REGION = "for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):"


@dataclass(eq=False)
class Lanes(Unusable):
    """A name whose value is another one on each lane. Loops and branches carry both."""

    name: str
    first: Any
    second: Any
    __pypto_tree__ = True

    def on(self, lane: int) -> Any:
        """The value on one lane."""
        return (self.first, self.second)[lane]

    def error(self) -> TaskError:
        return TaskError(
            "PL507",
            f"`{self.name}` is made on the vector lanes, in a pl.split_aiv body, and read outside of it",
            fix=f"take it out at the end of that body: {self.name} = pl.aic_gather({self.name})",
        )


class Gathered(Unset):
    """What a lane hands to the cube; it exists once both lanes have ended."""

    held = True

    def __init__(self, value: TileValue) -> None:
        super().__init__(value.var.name or "a gathered value")
        self.value = value

    def error(self) -> TaskError:  # type: ignore[override]
        return TaskError(
            "PL507",
            f"`{self.name}` is handed to the cube by pl.aic_gather and read on a vector lane",
            fix="read the value it was gathered from",
        )


def run_lanes(trace: PlTrace, loop: Loop, body: Callable[..., tuple], names: Names, values: Sequence[Any]) -> tuple:
    """Trace a `pl.split_aiv` body for both lanes; returns what its names stand for after it.

    Errors:
      PL507 inside another one.
    """
    if trace.lane is not None:
        raise TaskError("PL507", "pl.split_aiv inside another one", fix="one body per vector phase, side by side")
    results = []
    for lane in range(2):
        trace.lane = (lane, loop.mode)
        _edge(trace, "open", lane, loop.mode)
        try:
            with _names_on(body, lane):
                results.append(body(lane, *(v.on(lane) if isinstance(v, Lanes) else v for v in values)))
        finally:
            trace.lane = None
        _edge(trace, "close", lane, loop.mode)
    return tuple(_joined(trace, loop.mode, name, a, b) for name, a, b in zip(names, *results, strict=True))


@contextmanager
def _names_on(body: Callable[..., tuple], lane: int) -> Iterator[None]:
    """Names that the body only reads stand for their value on this lane while it is traced."""
    held = [(c, c.cell_contents) for c in getattr(body, "__closure__", None) or () if _holds_lanes(c)]
    for cell, value in held:
        cell.cell_contents = value.on(lane)
    try:
        yield
    finally:
        for cell, value in held:
            cell.cell_contents = value


def _holds_lanes(cell: Any) -> bool:
    try:
        return isinstance(cell.cell_contents, Lanes)
    except ValueError:  # a name without a value
        return False


def _edge(trace: PlTrace, edge: str, lane: int, mode: SplitMode) -> None:
    trace.emit(lax.scope, [], {"edge": edge, "kind": "lane", "name": str(lane), "options": (("mode", mode.name),)})


def _joined(trace: PlTrace, mode: SplitMode, name: str, a: Any, b: Any) -> Any:
    """One name after both lanes."""
    if isinstance(a, Gathered) and isinstance(b, Gathered):
        out = lax.aic_gather(a.value, b.value, mode=mode.name)
        out.var.name = name
        return out
    left, structure = tree.flatten(a)
    right, other = tree.flatten(b)
    if structure == other and all(_same(trace, x, y) for x, y in zip(left, right, strict=True)):
        return a
    return Lanes(name, a, b)


def _same(trace: PlTrace, x: Any, y: Any) -> bool:
    if isinstance(x, Value) or isinstance(y, Value):
        return isinstance(x, Value) and isinstance(y, Value) and trace.resolved(x.var) is trace.resolved(y.var)
    return x is y or (type(x) is type(y) and not isinstance(x, Unset) and bool(x == y))


def _crossing(what: str, x: Any) -> tuple[Any, TileValue, int, SplitMode]:
    trace = trace_here(what)
    if trace.lane is None:
        raise TaskError("PL507", f"pl.{what} outside a pl.split_aiv body", fix=f"use it under `{_REGION}`")
    value = as_tile(x, what)
    if not isinstance(value, TileValue):
        raise TaskError("PL507", f"pl.{what} of {value!r}", fix="tiles cross the edge; scalars and tensors are there on both sides")
    return trace, value, *trace.lane


def aiv_shard(x: Any) -> Any:
    """Bring a cube result onto this vector lane: all of it (mode NONE), or this lane's half of its rows or columns.

    Errors:
      PL507 outside `pl.split_aiv`, or for an odd extent along the axis that is halved.
    """
    _, value, lane, mode = _crossing("aiv_shard", x)
    return lax.aiv_shard(value, lane=lane, mode=mode.name)


def aic_gather(x: Any) -> Any:
    """Hand a vector result to the cube: what is read after the `pl.split_aiv` body.

    The lanes' halves are joined along the axis of the mode. In mode NONE both lanes must hold the same value: the cube gets one of
    the two, and a checked run refuses lanes that differ.

    Errors:
      PL507 outside `pl.split_aiv`; when it runs, for lanes that differ.
    """
    _, value, _, _ = _crossing("aic_gather", x)
    return Gathered(value)


# ---- what stands on which side -----------------------------------------------------------------------------------


@dataclass
class _Side:
    """Where a tile was computed: by which unit, and on the lanes or outside of them."""

    unit: str
    lane: bool
    eqn: Eqn


def check_lanes(body: Jaxpr) -> None:
    """In a region with `pl.split_aiv`: vector work on the lanes, cube work outside, and no tile that crosses unnamed.

    Errors:
      PL507 at the operation on the wrong side.
    """
    if any(e.op.name == "scope" and e.params["kind"] == "lane" for e in body.walk()):
        sides: dict[Var, _Side] = {}
        lane = False
        for e in body.walk():
            if e.op.name == "scope" and e.params["kind"] == "lane":
                lane = e.params["edge"] == "open"
            elif e.op.name == "syncall" and lane:
                raise _wrong("a barrier on the vector lanes: pl.system.syncall inside pl.split_aiv", "put it between two such bodies", e)
            else:
                _check_side(e, lane, sides)


def _check_side(e: Eqn, lane: bool, sides: dict[Var, _Side]) -> None:
    tiles = [a for a in e.ins if isinstance(a, Var) and isinstance(a.aval, TileAval)]
    makes = any(isinstance(v.aval, TileAval) for v in e.outs)
    unit = e.op.unit if makes else "move"
    if unit == "cube" and lane:
        raise _wrong(f"`{e.op.name}` is cube work, inside a pl.split_aiv body", "move it out of that body", e)
    if unit == "vector" and tiles and not lane:
        raise _wrong(f"`{e.op.name}` is vector work outside every pl.split_aiv body of this region", f"put that phase under `{_REGION}`", e)
    crossing = e.op.name in ("aiv_shard", "aic_gather")
    if unit in ("cube", "vector") and not crossing:
        for a in tiles:
            side = sides.get(a)
            if side is not None and side.unit == "cube" and lane and not side.lane:
                name = a.name or "a cube result"
                raise _wrong(f"`{name}` is made on the cube and read on a vector lane", f"read it as pl.aiv_shard({name})", e)
    for v in e.outs:
        if unit in ("cube", "vector") or crossing:
            sides[v] = _Side("vector" if crossing else unit, lane, e)
        elif tiles and tiles[0] in sides:  # moved, not computed with
            sides[v] = sides[tiles[0]]


def _wrong(found: str, fix: str, e: Eqn) -> TaskError:
    return TaskError("PL507", found, fix=fix, at=e.source)
