"""Count the elements whose cast would differ had its ties gone to the even neighbour, as JAX rounds: a note of checked runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pypto import numerics
from pypto.core.ir import Eqn
from pypto.interpreters.reference import Machine
from pypto.interpreters.values import Value
from pypto.noted import note
from pypto.source import Frame, Source


class TieCounter(Machine):
    """The reference executor, counting ties that casts round away from zero."""

    ties: dict[Frame | Source | None, tuple[int, int]]

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.ties = {}

    def compute(self, eqn: Eqn, ins: Sequence[Value]) -> Sequence[Value]:
        results = super().compute(eqn, ins)
        if eqn.op.name == "convert" and eqn.params["mode"] == "round":
            source, made = ins[0], results[0]
            inside = tuple(slice(0, n) for n in made.valid)
            even = numerics.convert(source.data[inside], eqn.ins[0].aval.dtype, eqn.params["dtype"], "rint", eqn.params["overflow"])
            differ = int(np.count_nonzero(_differ(np.asarray(even), made.data[inside])))
            count, total = self.ties.get(eqn.source, (0, 0))
            self.ties[eqn.source] = count + differ, total + int(even.size)
        return results

    def report(self) -> None:
        """Note every cast that rounded a tie another way than JAX would."""
        for at, (count, total) in self.ties.items():
            if count:
                note(
                    "PL706",
                    f"{count} of {total} elements of this cast are exact ties and went away from zero; JAX and torch round them to even",
                    fix='mode="rint" rounds as they do',
                    at=at,
                )


def _differ(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where two arrays of one dtype have other bits."""
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    return np.ascontiguousarray(a).view(unsigned) != np.ascontiguousarray(b).view(unsigned)
