"""The op `kernel`: a kernel of the language in an array program. It takes whole arrays and gives whole arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from pypto.core.avals import Aval
from pypto.core.op import Exact, No, Op, Whole
from pypto.core.trace import aval_of
from pypto.errors import NumericsError
from pypto.interpreters.ad import jvp
from pypto.interpreters.batching import Batched, repeated
from pypto.interpreters.discharge import discharge
from pypto.interpreters.rules import Pair
from pypto.interpreters.tangents import apply
from pypto.lax.families import computed


class Launch(Protocol):
    """What an equation needs to know of a kernel that is called with arguments of some types."""

    @property
    def name(self) -> str: ...
    @property
    def results(self) -> tuple[Aval, ...]: ...

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The results, by whatever executor the configuration names."""
        ...

    def values(self) -> tuple[Any, list[int], list[int], list[Aval]]:
        """The ref-level program without in-place updates of tiles; which parameters are operands, which are results; all their types."""
        ...

    def batched(self, size: int, which: Sequence[bool]) -> Launch:
        """The kernel for all examples of a batch: a loop over them in its orchestration."""
        ...

    def keeps(self) -> Sequence[bool]:
        """Which operands are results as well: every example has its own."""
        ...


def _by_values(launch: Launch, operands: Sequence[Any]) -> list[Any]:
    from pypto.interpreters.tangents import zeros

    jaxpr, inputs, outputs, avals = launch.values()
    given = dict(zip(inputs, operands, strict=True))
    args = [given[i] if i in given else zeros(a) for i, a in enumerate(avals)]
    return discharge(jaxpr, args, outputs)


def _jvp(op: Op, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Pair:
    """The kernel as a function of values, differentiated op by op."""
    launch = params["launch"]
    try:
        return jvp(lambda *xs: _by_values(launch, xs), primals, tangents, launch.name)
    except NumericsError as error:
        if error.code != "PL703":
            raise
        message = f"kernel `{launch.name}` has no derivative: {error.message}"
        fix = "attach one: pypto.custom_vjp on a function that calls it"
        raise NumericsError("PL703", message, fix=fix, at=error.source) from None


def _batching(op: Op, size: int, operands: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Batched:
    """One more loop in the orchestration; what every example shares is passed once."""
    launch = params["launch"]
    own = [b or k for b, k in zip(batched, launch.keeps(), strict=True)]
    given = [repeated(x, size) if o and not b else x for x, o, b in zip(operands, own, batched, strict=True)]
    made = apply(op, given, {"launch": launch.batched(size, own)})
    return made, [True] * len(made)


@computed(
    samples=list,
    abstract=lambda *operands, launch: launch.results,
    axes=Whole(),
    exact=Exact("movement"),
    jvp=_jvp,
    batching=_batching,
    pto=No("it is a program of its own: kernel.lower() shows it"),
    unit="scalar",
    show=lambda e, name: f"kernel {e.params['launch'].name}({', '.join(map(name, e.ins))})",
)
def kernel(*operands: Any, launch: Launch) -> Any:
    """Run a kernel on arrays. Operands are its inputs, scalars and in/out tensors; results are its outputs and in/out tensors.

    Nothing is written in place: an in/out tensor is an operand and, as it is afterwards, a result. Under `vmap` it is one kernel with a
    loop over the examples in its orchestration; under `grad` it is what it computes, op by op.
    """
    results = tuple(launch.run([np.asarray(x) for x in operands]))
    return results[0] if len(results) == 1 else results


__all__ = ["Launch", "aval_of", "kernel"]
