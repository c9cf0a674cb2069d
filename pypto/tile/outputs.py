"""Which parameters a kernel writes: outputs must be, inputs must not. Handles are followed through views and carries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pypto.core.avals import RefAval
from pypto.core.ir import Eqn, Jaxpr, Var
from pypto.errors import OutputError, PyptoError, together, warn
from pypto.source import Frame, Source

VIEWS = ("view", "reshape_view", "transpose_view", "valid_view", "bits_view")


def handle_edges(jaxpr: Jaxpr) -> dict[Var, list[Var]]:
    """For each handle, the handles it may be the same buffer as, one step back. Linear; no fixpoint is needed."""
    back: dict[Var, list[Var]] = {}

    def link(to: Any, of: Any) -> None:
        if isinstance(to, Var) and isinstance(of, Var) and isinstance(to.aval, RefAval):
            back.setdefault(to, []).append(of)

    for e in jaxpr.walk():
        if e.op.name in VIEWS:
            link(e.outs[0], e.ins[0])
        elif e.op.name == "loop":
            body: Jaxpr = e.params["body"]
            for init, inside, after, out in zip(e.ins[3:], body.invars[1:], body.outs, e.outs, strict=True):
                for to in (inside, out):
                    link(to, init)
                    link(to, after)
        elif e.op.name == "cond":
            for a, b, out in zip(e.params["then"].outs, e.params["orelse"].outs, e.outs, strict=True):
                link(out, a)
                link(out, b)
    return back


def written(jaxpr: Jaxpr, kernels: Mapping[str, Jaxpr] | None = None) -> dict[Var, Eqn]:
    """Every handle something may be written through, with one equation that does; `kernels` are the bodies that calls launch."""
    back = handle_edges(jaxpr)
    found: dict[Var, Eqn] = {}
    work = [(e.ins[i], e) for e in jaxpr.walk() for i in e.op.writes]
    inside = {name: [i for i, v in enumerate(k.invars) if v in written(k)] for name, k in (kernels or {}).items()}
    work += [(e.ins[i], e) for e in jaxpr.walk() if e.op.name == "call" for i in inside.get(e.params["kernel"], ())]
    while work:
        var, eqn = work.pop()
        if isinstance(var, Var) and var not in found:
            found[var] = eqn
            work.extend((v, eqn) for v in back.get(var, ()))
    return found


def check_outputs(jaxpr: Jaxpr, source: Source, *, undeclared_writes: bool) -> dict[str, Frame | Source | None]:
    """Every Out is written somewhere, no input is, unless undeclared writes are allowed.

    Returns:
      The inputs that undeclared writes reach, by name, each with the place of one of them.
    Errors:
      PL202 for an output that nothing writes (an InOut: a warning), PL203 for a store that reaches an input, PL210 for an output that
      is read before it is written; all of them as one error.
    """
    from pypto.tile.first_reads import first_reads  # it follows handles with what stands above

    hit = written(jaxpr)
    undeclared: dict[str, Frame | Source | None] = {}
    errors: list[PyptoError] = []
    for v in jaxpr.invars:
        direction = v.aval.direction if isinstance(v.aval, RefAval) else None
        if direction == "in" and v in hit:
            undeclared[v.name] = hit[v].source
            if not undeclared_writes:
                errors.append(_reaches_an_input(v, hit[v]))
        if direction == "out" and v not in hit:
            errors.append(
                OutputError(
                    "PL202",
                    f"output `{v.name}` is never written",
                    fix=f"`{v.name}[:] = ...`, or pl.assemble({v.name}, value, [0, 0])",
                    at=source,
                )
            )
        if direction == "inout" and v not in hit:
            warn(
                "PL202",
                f"`{v.name}` is declared InOut and never written: the caller's array keeps its content",
                fix=f"`{v.name}[:] = ...`",
                at=source,
            )
    errors += [_read_first(v, e) for v, e in first_reads(jaxpr).items() if v in hit]
    if errors:
        raise together(errors)
    return undeclared


def _reaches_an_input(v: Var, store: Eqn) -> OutputError:
    return OutputError(
        "PL203",
        f"a store may reach `{v.name}`, which is declared an input: it would never reach the caller",
        fix=f"annotate `{v.name}` with pl.Out[...] or pl.InOut[...]",
        at=store.source,
    )


def _read_first(v: Var, read: Eqn) -> OutputError:
    return OutputError(
        "PL210",
        f"`{v.name}` is declared Out, and read here before anything is written to it: what the caller passes is not copied in",
        fix=f"annotate `{v.name}` with pl.InOut[...] if its content matters, or write it first",
        at=read.source,
    )
