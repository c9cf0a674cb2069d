"""Why a call compiles anew: which argument or captured value differs from the program that was used last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto import config
from pypto.captures.freezing import show
from pypto.core.avals import Aval
from pypto.platform import platform_of

if TYPE_CHECKING:
    from pypto.language.calls import Call
    from pypto.language.kernel import Kernel


def explain(kernel: Kernel, call: Call, programs: dict[Any, Any]) -> str:
    """One sentence about a call that is not made: whether a program is there for it, and if not, what is new."""
    name = kernel.fn.__name__
    arguments, captured, platform = key = (call.key, kernel.snapshot(), platform_of(config.current().platform))
    if key in programs:
        return f"{name}: this call runs a program that is there already"
    if not programs:
        return f"{name}: nothing is compiled yet"
    before, before_captured, before_platform = next(reversed(programs))
    reasons = [
        f"`{p.name}` is {_shown(new)}, was {_shown(old)}"
        for p, old, new in zip(kernel.signature.parameters, before, arguments, strict=True)
        if old != new
    ]
    if captured != before_captured:
        reasons.append(
            kernel.guard.explain(before_captured, captured) if kernel.owner is None else "a value that the program reads changed"
        )
    if platform != before_platform:
        reasons.append(f"the platform is {platform.name}, was {before_platform.name}")
    known = f"; {len(programs)} programs are there" if len(programs) > 1 else ""
    return f"{name}: this call compiles a new program: {', and '.join(reasons)}{known}"


def _shown(part: Any) -> str:
    return str(part).removeprefix("in ").replace("ref ", "") if isinstance(part, Aval) else show(part)
