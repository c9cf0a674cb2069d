"""The tile program: outlined in-core kernels, and an orchestration that launches them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pypto.core.ir import Jaxpr
from pypto.core.printer import show
from pypto.platform import platform_of

if TYPE_CHECKING:
    from pypto.interpreters.cpu.launch import Compiled, Fallback


@dataclass(frozen=True)
class KernelBody:
    """One in-core kernel.

    Attributes:
      name: unique in its program.
      jaxpr: closed; its inputs are the buffers and scalars it uses, after the block index if it has blocks.
      blocks: whether it is launched once per block.
      unit: vector, cube or mixed.
      options: what its scope asked for.
    """

    name: str
    jaxpr: Jaxpr
    blocks: bool
    unit: str
    options: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Program:
    """A lowered kernel.

    Attributes:
      name: the entry's name.
      orchestration: a jaxpr over buffers and scalars; every piece of work is a `call` or a `copy`.
      kernels: the in-core kernels, in the order of their first launch.
      platform: what it was lowered for.
      traced: the program it was lowered from, at the ref level; None where that is not known.
    """

    name: str
    orchestration: Jaxpr
    kernels: tuple[KernelBody, ...]
    platform: str
    traced: Jaxpr | None = field(default=None, compare=False, repr=False)

    @cached_property
    def bodies(self) -> dict[str, Jaxpr]:
        """The kernels' jaxprs by name, as executors take them."""
        return {k.name: k.jaxpr for k in self.kernels}

    @cached_property
    def compiled(self) -> Compiled | Fallback:
        """The program as machine code for this CPU, or the reason why the reference executor runs it. Compiled at first use."""
        from pypto.interpreters.cpu.launch import compile_program

        return compile_program(self.orchestration, self.bodies)

    @property
    def limits_checked(self) -> bool:
        """Whether the program was held to the limits of a chip; for `platform="cpu"` it was not."""
        return platform_of(self.platform).checked

    def as_text(self, *, lines: bool = False) -> str:
        """The program as text: the orchestration, then each kernel; with the user's lines on request."""
        unchecked = "" if self.limits_checked else ", no limits checked"
        parts = [f"program {self.name} for {self.platform}{unchecked}", "", show(self.orchestration, lines=lines)]
        for k in self.kernels:
            marks = [k.unit, *(["per block"] if k.blocks else []), *(f"{name}={value}" for name, value in k.options)]
            parts += ["", f"# {', '.join(marks)}", show(k.jaxpr, lines=lines)]
        return "\n".join(parts)

    __str__ = as_text
