"""Handles of a kernel as functions of whole arrays: what a view reads of its buffer, and the buffer after a store through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pypto.core.op import OPS
from pypto.core.trace import aval_of
from pypto.interpreters.batching import reshaped
from pypto.interpreters.tangents import apply


@dataclass(frozen=True)
class Window:
    """A window of an array; axes in `drop` vanish."""

    starts: tuple[Any, ...]
    sizes: tuple[int, ...]
    drop: tuple[int, ...] = ()

    def read(self, whole: Any) -> Any:
        if self.sizes == aval_of(whole).shape and all(isinstance(s, int) and not s for s in self.starts):
            part = whole
        else:
            part = apply(OPS["slice"], [whole, *self.starts], {"sizes": self.sizes})[0]
        return reshaped(part, tuple(n for i, n in enumerate(self.sizes) if i not in self.drop))

    def written(self, whole: Any, part: Any) -> Any:
        if aval_of(part).rank:
            part = reshaped(part, self.sizes)
        if self.sizes == aval_of(whole).shape and aval_of(part).shape == self.sizes:
            return part
        return apply(OPS["update"], [whole, part, *self.starts], {"sizes": self.sizes})[0]


@dataclass(frozen=True)
class Reshaped:
    """The same elements under another shape."""

    shape: tuple[int, ...]

    def read(self, whole: Any) -> Any:
        return reshaped(whole, self.shape)

    def written(self, whole: Any, part: Any) -> Any:
        return reshaped(part, aval_of(whole).static_shape)


@dataclass(frozen=True)
class Permuted:
    """The same elements with the axes in another order."""

    permutation: tuple[int, ...]

    def read(self, whole: Any) -> Any:
        return apply(OPS["transpose"], [whole], {"permutation": self.permutation})[0]

    def written(self, whole: Any, part: Any) -> Any:
        back = tuple(self.permutation.index(i) for i in range(len(self.permutation)))
        return apply(OPS["transpose"], [part], {"permutation": back})[0]


Step = Window | Reshaped | Permuted


@dataclass(frozen=True)
class View:
    """A handle: a buffer, by its number, and the steps from it to what the handle shows."""

    buffer: int
    shape: tuple[int, ...]
    steps: tuple[Step, ...] = ()

    def through(self, step: Step, shape: Sequence[int]) -> View:
        return View(self.buffer, tuple(shape), (*self.steps, step))

    def read(self, whole: Any) -> Any:
        """What it shows of its buffer."""
        for step in self.steps:
            whole = step.read(whole)
        return whole

    def written(self, whole: Any, part: Any) -> Any:
        """Its buffer, after what it shows became `part`."""
        if not self.steps:
            return part
        stages = [whole]
        for step in self.steps[:-1]:
            stages.append(step.read(stages[-1]))
        for step, stage in zip(reversed(self.steps), reversed(stages), strict=True):
            part = step.written(stage, part)
        return part
