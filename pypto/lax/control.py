"""Control: loops, branches, regions, and calls of outlined kernels. Bodies are nested jaxprs in the params."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pypto.core.avals import Aval, join
from pypto.core.ir import Jaxpr
from pypto.core.op import Native, No
from pypto.lax.memory import structural
from pypto.lax.tasks import DIRECT, Launch, show_launch


def _show_loop(e: Any, name: Callable[[Any], str]) -> str:
    p = e.params
    bounds = [*map(name, e.ins[:3]), *(f"{key}={p[key]}" for key in ("stage", "chunk") if p.get(key) is not None)]
    carried = f" from {', '.join(map(name, e.ins[3:]))}" if e.ins[3:] else ""
    carried += " while the first is true" if p.get("exits") else ""
    return f"loop {p['kind']}({', '.join(bounds)}){carried}"


def _show_region(e: Any, name: Callable[[Any], str]) -> str:
    p = e.params
    parts = p["launch"].divide(e.ins, blocks=p["kind"] == "spmd")
    asked = [*([name(parts.blocks)] if parts.blocks is not None else []), *show_launch(p["launch"], parts, name)]
    asking = f"({', '.join(asked)})" if asked else ""
    options = "".join(f" {key}={value}" for key, value in p["options"])
    return f"region {p['kind']}{asking}{' ' + p['name'] if p['name'] else ''}{options}"


def _show_call(e: Any, name: Callable[[Any], str]) -> str:
    parts = e.params["launch"].divide(e.ins, blocks=e.params["blocks"])
    size = f"[{name(parts.blocks)} blocks]" if parts.blocks is not None else ""
    asked = show_launch(e.params["launch"], parts, name)
    return f"call {e.params['kernel']}{size}({', '.join([*map(name, parts.operands), *asked])})"


@structural(
    abstract=lambda start, stop, step, *inits, body, kind, stage, chunk=None, exits=False: tuple(
        join(v.aval, o.aval) for v, o in zip(body.invars[1:], body.outs, strict=True)
    ),
    index=(0, 1, 2),
    pto=Native("scf.for"),
    show=_show_loop,
)
def loop(
    start: Any,
    stop: Any,
    step: Any,
    *inits: Any,
    body: Jaxpr,
    kind: str,
    stage: int | None,
    chunk: int | None = None,
    exits: bool = False,
) -> Any:
    """Run a body for start, start + step, ... before stop, carrying values from turn to turn.

    The body takes the index and the carried values, and returns the next carried values. `kind` is range, parallel,
    pipeline or while; the order of execution is ascending for all of them. A handle among the carried values is passed as a pointer.
    With `exits`, the first carried value is a BOOL, and the loop also ends before a turn in which it is false.
    """


@structural(
    abstract=lambda test, *, then, orelse: tuple(join(a.aval, b.aval) for a, b in zip(then.outs, orelse.outs, strict=True)),
    index=(0,),
    pto=Native("scf.if"),
)
def cond(test: Any, *, then: Jaxpr, orelse: Jaxpr) -> Any:
    """Run one of two bodies, chosen by a BOOL scalar; the other one has no effect."""


@structural(
    abstract=lambda *operands, body, kind, name, options, launch: launch.outs,
    index=(0,),
    keep=True,
    pto=No("it is outlined into a kernel"),
    show=_show_region,
)
def region(*operands: Any, body: Jaxpr, kind: str, name: str, options: tuple[tuple[str, Any], ...], launch: Launch = DIRECT) -> Any:
    """A piece of work for one core (kind `at`), or for each block of an spmd dispatch: a task.

    Operands are the dispatch's own, as `launch` says. Values reach it by being used in its body, and leave it through buffers only.
    """


@structural(
    abstract=lambda *operands, kernel, blocks, launch: launch.outs,
    keep=True,
    pto=No("orchestration launches it"),
    show=_show_call,
)
def call(*operands: Any, kernel: str, blocks: bool, launch: Launch = DIRECT) -> Any:
    """Launch an outlined kernel on buffers and scalars: a task. With `blocks`, the first operand is the number of blocks."""


@structural(abstract=lambda *, aval: aval, pto=No("it is no value at all"))
def unset(*, aval: Aval) -> Any:
    """Stands for a name that has no value on this path; using what it reaches is the error."""
