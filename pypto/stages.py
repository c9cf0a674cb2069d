"""The stages of a compiled array function: `Traced`, `Lowered`, `Compiled`, as JAX's `jit(f).trace(x).lower().compile()`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto import tree
from pypto.core.array import Array
from pypto.core.avals import Aval
from pypto.core.ir import Jaxpr
from pypto.core.printer import show
from pypto.core.trace import aval_of
from pypto.errors import CallError
from pypto.interpreters.evaluate import evaluate, last_uses
from pypto.interpreters.partial_eval import pruned


@dataclass(frozen=True)
class Compiled:
    """A program that is ready to run.

    Attributes:
      jaxpr: what runs.
      inputs, outputs: the trees of its arguments and results.
    """

    jaxpr: Jaxpr
    inputs: tree.Structure
    outputs: tree.Structure

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on arguments of the types it was traced with.

        Errors:
          PL601 for another tree, PL602 for another shape or dtype.
        """
        leaves, structure = tree.flatten((args, dict(kwargs)))
        if structure != self.inputs:
            raise CallError("PL601", f"{self.jaxpr.name} was compiled for {self.inputs}, got {structure}", fix="arguments of that tree")
        return self.run(leaves)

    def run(self, leaves: Sequence[Any]) -> Any:
        """Run on flat arguments."""
        for i, (x, v) in enumerate(zip(leaves, self.jaxpr.invars, strict=True)):
            found = aval_of(x)
            if found.shape != v.aval.shape or found.dtype is not v.aval.dtype:
                raise CallError("PL602", f"leaf {i} of {self.jaxpr.name} is {found}, it was compiled for {v.aval}", fix="compile it again")
        arrays = [np.asarray(x, v.aval.dtype.storage) for x, v in zip(leaves, self.jaxpr.invars, strict=True)]
        return tree.unflatten(self.outputs, results(self.jaxpr, arrays))

    def as_text(self) -> str:
        """The program that runs."""
        return show(self.jaxpr)


def results(jaxpr: Jaxpr, arrays: list[Any]) -> list[Array]:
    """Run a closed program; its arguments are let go as soon as they are used for the last time."""
    avals: list[Aval] = [o.aval for o in jaxpr.outs]
    return [Array(x, a.dtype) for x, a in zip(evaluate(jaxpr, arrays), avals, strict=True)]


@dataclass(frozen=True)
class Lowered:
    """A program without equations nobody needs, and with the last use of every value known."""

    jaxpr: Jaxpr
    inputs: tree.Structure
    outputs: tree.Structure

    def as_text(self) -> str:
        """The program as text."""
        return show(self.jaxpr)

    def compile(self) -> Compiled:
        """Make it ready to run."""
        last_uses(self.jaxpr)
        return Compiled(self.jaxpr, self.inputs, self.outputs)


@dataclass(frozen=True)
class Traced:
    """What a function does to arguments of some shapes and dtypes.

    Attributes:
      jaxpr: the program.
      inputs, outputs: the trees of its arguments and results.
    """

    jaxpr: Jaxpr
    inputs: tree.Structure
    outputs: tree.Structure
    struct: Callable[[Aval], Any]

    @property
    def out_info(self) -> Any:
        """The tree of results, as shapes and dtypes."""
        return tree.unflatten(self.outputs, [self.struct(o.aval) for o in self.jaxpr.outs])

    def lower(self) -> Lowered:
        """Without what nobody needs."""
        return Lowered(pruned(self.jaxpr), self.inputs, self.outputs)
