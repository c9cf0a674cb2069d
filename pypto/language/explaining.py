"""Why a call compiles anew: which argument, symbol, dtype or captured value differs from the programs that are there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto import config
from pypto.captures.freezing import show
from pypto.core.avals import Aval, RefAval, show_shape
from pypto.core.reports import CacheReport, Retrace
from pypto.platform import platform_of

if TYPE_CHECKING:
    from pypto.language.calls import Call
    from pypto.language.kernel import Kernel


def explain(kernel: Kernel, call: Call, programs: dict[Any, Any]) -> str:
    """One sentence about a call that is not made: whether a program is there for it, and if not, what is new."""
    name = kernel.fn.__name__
    key = (call.key, kernel.snapshot(), platform_of(config.current().platform))
    if key in programs:
        return f"{name}: this call runs a program that is there already"
    if not programs:
        return f"{name}: nothing is compiled yet"
    reasons = _reasons(kernel, next(reversed(programs)), key)
    known = f"; {len(programs)} programs are there" if len(programs) > 1 else ""
    return f"{name}: this call compiles a new program: {', and '.join(reasons)}{known}"


def report(kernel: Kernel, programs: dict[Any, Any]) -> CacheReport:
    """Every program of a kernel, with what made it differ from the most similar one before it."""
    keys, entries = list(programs), []
    for position, key in enumerate(keys):
        candidates = [_reasons(kernel, before, key) for before in reversed(keys[:position])]
        entries.append(Retrace(tuple(min(candidates, key=len)) if candidates else ()))
    return CacheReport(kernel.fn.__name__, tuple(entries))


def _reasons(kernel: Kernel, before: Any, after: Any) -> list[str]:
    (old_arguments, old_captured, old_platform), (arguments, captured, platform) = before, after
    parameters = kernel.signature.parameters
    reasons = [_argument(p.name, old, new) for p, old, new in zip(parameters, old_arguments, arguments, strict=True) if old != new]
    if captured != old_captured:
        guard = kernel.guard if kernel.owner is None else kernel.owner
        reasons.append(guard.explain(old_captured, captured))
    if platform != old_platform:
        same = platform.name == old_platform.name
        reasons.append(f"the platform is {'another ' if same else ''}{platform.name}, was {old_platform.name}")
    return reasons


def _argument(name: str, old: Any, new: Any) -> str:
    text = f"`{name}` is {_shown(new)}, was {_shown(old)}"
    if (
        isinstance(old, RefAval)
        and isinstance(new, RefAval)
        and new.direction == "in"
        and old.dtype is new.dtype
        and len(old.shape) == len(new.shape)
    ):
        axes = [str(axis) for axis, (a, b) in enumerate(zip(old.shape, new.shape, strict=True)) if a != b]
        text += f" (a pl.dynamic symbol for axis {' and '.join(axes)} serves every extent)"
    return text


def _shown(part: Any) -> str:
    if not isinstance(part, Aval):
        return show(part)
    return f"{part.dtype}[{show_shape(part.shape)}]" if isinstance(part, RefAval) else str(part)
