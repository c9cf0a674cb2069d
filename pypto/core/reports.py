"""Why something was traced or compiled as often as it was: what `pypto.explain_cache` gives, for kernels and for functions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Retrace:
    """One program. `reasons` say what was new about the call that made it; there are none for the first."""

    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return ", and ".join(self.reasons) or "the first call"


@dataclass(frozen=True)
class CacheReport:
    """The programs of a kernel or a jitted function, in the order they were made, each with why.

    Attributes:
      kernel: its name.
      programs: one entry per program. A call that found its program leaves none.
    """

    kernel: str
    programs: tuple[Retrace, ...]

    def __str__(self) -> str:
        lines = [f"  {number}. {entry}" for number, entry in enumerate(self.programs, 1)]
        return "\n".join([f"{self.kernel}: {len(lines)} program{'' if len(lines) == 1 else 's'}", *lines])
