"""`pl.prefetch`: hints that bring a tensor near before it is needed. They change no number, and order nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pypto import lax
from pypto.core.avals import RefAval
from pypto.errors import ShapeError
from pypto.language.spelled import trace_here
from pypto.language.values import RefValue
from pypto.platform import Space


@dataclass(frozen=True, eq=False)
class PrefetchContext:
    """What prefetches of one place share; made by `pl.prefetch.make_context()`."""


@dataclass(frozen=True, eq=False)
class PrefetchEvent:
    """One prefetch under way."""

    context: PrefetchContext


@dataclass(frozen=True, eq=False)
class PrefetchSession:
    """What waits for prefetches of one context."""

    context: PrefetchContext


def make_context() -> PrefetchContext:
    """A context for `async_prefetch`."""
    trace_here("prefetch.make_context")
    return PrefetchContext()


def async_prefetch(src: Any, ctx: Any) -> PrefetchEvent:
    """Start to bring a tensor into the cache nearest to the cores. It is kept in the program, and printed.

    Args:
      src: a tensor in global memory with one axis longer than 1: a flat view.
      ctx: from `make_context`.
    Returns:
      An event for `wait`; nothing has to wait for it.
    Errors:
      PL308 for anything else.
    """
    trace = trace_here("prefetch.async_prefetch")
    _checked("async_prefetch", ctx, PrefetchContext)
    fix = "flat = pl.reshape(x, [rows * columns]) in orchestration"
    if not isinstance(src, RefValue) or src.aval.space is not Space.DDR:
        found = f"{src.aval}" if isinstance(getattr(src, "aval", None), RefAval) else repr(src)
        raise ShapeError("PL308", f"pl.prefetch.async_prefetch of {found}, which is no tensor in global memory", fix=fix)
    if sum(d != 1 for d in src.shape) > 1:
        raise ShapeError("PL308", f"pl.prefetch.async_prefetch of {src.aval}, which has several axes", fix=fix)
    trace.emit(lax.prefetch, [trace.atom(src)], {})
    return PrefetchEvent(ctx)


def session(ctx: Any) -> PrefetchSession:
    """What `wait` needs, for the events of one context.

    Errors:
      PL308 for anything but a context.
    """
    trace_here("prefetch.session")
    _checked("session", ctx, PrefetchContext)
    return PrefetchSession(ctx)


def wait(event: Any, session: Any) -> None:
    """Wait until a prefetch is there. What is read is the same with or without it.

    Errors:
      PL308 for anything but an event and a session, of one context.
    """
    trace_here("prefetch.wait")
    _checked("wait", event, PrefetchEvent)
    _checked("wait", session, PrefetchSession)
    if event.context is not session.context:
        raise ShapeError("PL308", "pl.prefetch.wait: the event belongs to another context than the session", fix="session(ctx) of its ctx")


def _checked(what: str, x: Any, kind: type) -> None:
    if not isinstance(x, kind):
        made = {PrefetchContext: "make_context()", PrefetchEvent: "async_prefetch(tensor, ctx)", PrefetchSession: "session(ctx)"}[kind]
        raise ShapeError("PL308", f"pl.prefetch.{what} got {x!r}", fix=f"what pl.prefetch.{made} gives")
