"""The passes from the ref level to a tile program, in order, each with what it requires and provides."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from pypto import config
from pypto.core.ir import Jaxpr
from pypto.errors import InternalError
from pypto.logs import LOGGER
from pypto.platform import platform_of
from pypto.tile.ir import Program


@dataclass(frozen=True)
class Pass:
    """A function from jaxpr to jaxpr with a contract: valid in, valid out."""

    name: str
    run: Callable[[Jaxpr], Jaxpr]
    requires: frozenset[str]
    provides: frozenset[str]

    def __call__(self, jaxpr: Jaxpr) -> Jaxpr:
        missing = self.requires - jaxpr.facts
        if missing:
            raise InternalError("PL901", f"pass {self.name} needs {', '.join(sorted(missing))}")
        result = self.run(jaxpr)
        return result.replace(facts=jaxpr.facts | self.provides)


def tile_pass(*, requires: set[str] | None = None, provides: set[str] | None = None) -> Callable[[Callable[[Jaxpr], Jaxpr]], Pass]:
    """Declare a pass.

    Facts: `SSA` (no tile is updated in place), `INSTRUCTIONS` (no composites are left), `NO_DEAD_CODE`.
    """

    def decorate(run: Callable[[Jaxpr], Jaxpr]) -> Pass:
        return Pass(run.__name__, run, frozenset(requires or ()), frozenset(provides or ()))

    return decorate


def _passes() -> tuple[Pass, ...]:
    from pypto.tile.passes.cells import promote_cells
    from pypto.tile.passes.dce import dead_code
    from pypto.tile.passes.expand import expand_composites
    from pypto.tile.passes.loads import needless_loads

    return (promote_cells, needless_loads, expand_composites, dead_code)


def stages(jaxpr: Jaxpr, platform: str, passes: Sequence[Pass] | None = None) -> Iterator[tuple[str, Jaxpr | Program]]:
    """The program after each pass, with the pass's name, starting with `traced`, the program as given. The last is the tile program.

    Args:
      passes: in place of the usual ones between tracing and legalisation.
    """
    from pypto.tile.passes.legal import legalise
    from pypto.tile.passes.occupancy import check_occupancy
    from pypto.tile.passes.outline import outline

    yield "traced", jaxpr
    for p in _passes() if passes is None else passes:
        jaxpr = p(jaxpr)
        yield p.name, jaxpr
    jaxpr = legalise(jaxpr, platform_of(platform))
    yield "legalise", jaxpr
    yield "outline", check_occupancy(outline(jaxpr, platform), platform_of(platform))


def lower_program(jaxpr: Jaxpr, platform: str) -> Program:
    """Run the passes and outline the regions; with `config.verify` the verifier runs around each of them."""
    from pypto.tile.verify import verify, verify_jaxpr

    checked = config.current().verify
    stage: Jaxpr | Program = jaxpr
    began = time.perf_counter()
    for name, stage in stages(jaxpr, platform):
        now = time.perf_counter()
        LOGGER.debug("%s: %s, %.3f ms", jaxpr.name, name, (now - began) * 1e3)
        began = now
        if checked and isinstance(stage, Jaxpr):
            verify_jaxpr(stage)
        elif checked and isinstance(stage, Program):
            verify(stage)
    assert isinstance(stage, Program)
    LOGGER.info("%s: lowered for %s, %d kernels", jaxpr.name, platform, len(stage.kernels))
    return replace(stage, traced=jaxpr)
