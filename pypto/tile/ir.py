"""The tile program: outlined in-core kernels, and an orchestration that launches them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pypto.core.ir import Jaxpr
from pypto.core.once import once
from pypto.core.printer import show
from pypto.platform import platform_of
from pypto.tile.source import function_text

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

    @once
    def bodies(self) -> dict[str, Jaxpr]:
        """The kernels' jaxprs by name, as executors take them."""
        return {k.name: k.jaxpr for k in self.kernels}

    @once
    def compiled(self) -> Compiled | Fallback:
        """The program as machine code for this CPU, or the reason why the reference executor runs it. Compiled at first use."""
        from pypto.interpreters.cpu.launch import compile_program

        return compile_program(self.orchestration, self.bodies)

    @property
    def limits_checked(self) -> bool:
        """Whether the program was held to the limits of a chip; for `platform="cpu"` it was not."""
        return platform_of(self.platform).checked

    def as_text(self, *, lines: bool = False) -> str:
        """The program as text that reads like the language: the orchestration, then each kernel.

        Args:
          lines: append the user's file and line to every statement.
        """
        taken = self.name in self.bodies  # a kernel of that name is what the orchestration calls
        main = self.orchestration.replace(name=f"{self.name}_main") if taken else self.orchestration
        orchestration = function_text(main, lines=lines, method="type=pl.FunctionType.Orchestration", depth=1)
        unchecked = "" if self.limits_checked else ", no limits checked"
        parts = [f"# for {self.platform}{unchecked}\n@pl.program\nclass {self.name}:", orchestration]
        for k in self.kernels:
            marks = [k.unit, *(["per block"] if k.blocks else []), *(f"{name}={_shown(value)}" for name, value in k.options)]
            text = function_text(k.jaxpr, lines=lines, method="type=pl.FunctionType.InCore", per_block=k.blocks, depth=1)
            parts += ["", f"    # {', '.join(marks)}", text]
        return "\n".join(parts)

    __str__ = as_text

    def as_python(self) -> str:
        """`as_text`, under the name that users of the original know."""
        return self.as_text()

    def as_ir(self, *, lines: bool = False) -> str:
        """The program's jaxprs, one equation a line: what passes see."""
        parts = [f"program {self.name} for {self.platform}", "", show(self.orchestration, lines=lines)]
        for k in self.kernels:
            marks = [k.unit, *(["per block"] if k.blocks else []), *(f"{name}={value}" for name, value in k.options)]
            parts += ["", f"# {', '.join(marks)}", show(k.jaxpr, lines=lines)]
        return "\n".join(parts)


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
