"""Hold dispatches to their platform: blocks that start together, barriers that need every core, what a split asks of a kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pypto.core.ir import Eqn, Jaxpr, Literal
from pypto.errors import PyptoError, TaskError
from pypto.interpreters.dispatch import too_many
from pypto.platform import Platform
from pypto.tile.ir import KernelBody, Program
from pypto.tile.options import asked, split_of

_LANES = 2
"""Vector cores of a cluster."""


@dataclass(frozen=True)
class _Cores:
    """The cores that some blocks of a kernel occupy: a vector kernel one vector core each, any other a cluster each."""

    aic: int
    aiv: int

    @staticmethod
    def of(kernel: KernelBody, blocks: int) -> _Cores:
        if kernel.unit == "vector":
            return _Cores(0, blocks)
        return _Cores(blocks, 0 if kernel.unit == "cube" else _LANES * blocks)

    def of_type(self, core_type: str) -> int:
        return {"aic_only": self.aic, "aiv_only": self.aiv, "mix": self.aic + self.aiv}[core_type]


def check_occupancy(program: Program, platform: Platform) -> Program:
    """The program with its run-time block counts bounded where blocks must start together; `cpu` takes it as it is.

    Errors:
      PL507 for a split of a kernel that is not mixed, or a level whose unit the kernel leaves; PL508 for more blocks that start
      together than there are cores; PL505 for a barrier that a core of the device, or of the dispatch, would not reach.
    """
    if not platform.checked:
        return program
    kernels = {k.name: k for k in program.kernels}
    places = {e.params["kernel"]: e for e in program.orchestration.walk() if e.op.name == "call"}
    for k in program.kernels:
        _check_unit(k, places.get(k.name))

    def dispatch(e: Eqn) -> Eqn:
        kernel, launch = kernels[e.params["kernel"]], e.params["launch"]
        parts = launch.divide(e.ins, blocks=e.params["blocks"])
        count = 1 if parts.blocks is None else int(parts.blocks.value) if isinstance(parts.blocks, Literal) else None
        _check_barriers(kernel, count, launch.together, platform)
        if not launch.together or parts.blocks is None:
            return e
        most = platform.vector_cores if kernel.unit == "vector" else platform.cube_cores
        if count is not None and count > most:
            raise too_many(count, most, e)
        return e if count is not None else e.replace(params={**e.params, "launch": replace(launch, most=most)})

    def block(j: Jaxpr) -> Jaxpr:
        eqns = []
        for e in j.eqns:
            if e.op.name == "call":
                e = dispatch(e)
            elif any(True for _ in e.bodies()):
                e = e.replace(params={k: block(p) if isinstance(p, Jaxpr) else p for k, p in e.params.items()})
            eqns.append(e)
        return j.replace(eqns=tuple(eqns))

    return replace(program, orchestration=block(program.orchestration))


def _check_unit(kernel: KernelBody, place: Eqn | None) -> None:
    split, level = split_of(kernel.options), asked(kernel.options, "level")
    at = place.source if place is not None else None
    if split is not None and kernel.unit != "mixed":
        raise TaskError(
            "PL507",
            f"pl.{split} of `{kernel.name}`, which has {kernel.unit} work only: there is nothing to divide between cube and vector",
            fix="leave it out; it is for regions with matmul and vector operations",
            at=at,
        )
    wanted = {"AIC": "cube", "AIV": "vector"}.get(str(level))
    if wanted is not None and kernel.unit != wanted:
        raise TaskError(
            "PL507",
            f"`{kernel.name}` is placed at level {level} and has {'also ' if kernel.unit == 'mixed' else ''}"
            f"{'cube and vector' if kernel.unit == 'mixed' else kernel.unit} work",
            fix="level=pl.Level.CORE_GROUP, or a region of its own for the rest",
            at=at,
        )


def _check_barriers(kernel: KernelBody, count: int | None, together: bool, platform: Platform) -> None:
    for e in kernel.jaxpr.walk():
        if e.op.name == "syncall":
            error = (_hard if e.params["mode"] == "hard" else _soft)(e, kernel, count, together, platform)
            if error is not None:
                raise error


_SOFT_FIX = "mode=pl.SyncAllMode.SOFT, which takes any number of blocks"


def _hard(e: Eqn, kernel: KernelBody, count: int | None, together: bool, platform: Platform) -> PyptoError | None:
    """A hard barrier needs every core of its type, and all of them at once."""
    kind = e.params["core_type"]
    query = "available_aiv_count" if kernel.unit == "vector" else "available_cluster_count"
    fill = f"pl.spmd(pl.system.{query}(), sync_start=True)"
    if count is None:
        found = "a hard pl.system.syncall in a dispatch whose number of blocks is known only at run time"
        return TaskError("PL505", found, fix=f"{fill}, or {_SOFT_FIX}", at=e.source)
    have = _Cores.of(kernel, count)
    full = _Cores(platform.cube_cores, platform.vector_cores)
    if have.of_type(kind) != full.of_type(kind):
        other = ' with core_type="aiv_only"' if kernel.unit == "vector" else ""
        found = (
            f"a hard pl.system.syncall(core_type={kind!r}) in {count} block{'s' if count != 1 else ''} of the {kernel.unit} kernel "
            f"`{kernel.name}`: they hold {have.of_type(kind)} of the {full.of_type(kind)} cores that {platform.name} has of that type, "
            "and the others never arrive"
        )
        return TaskError("PL505", found, fix=f"{_SOFT_FIX}; or fill the device: {fill}{other}", at=e.source)
    if not together:
        found = f"a hard pl.system.syncall in `{kernel.name}`, whose blocks need not start together"
        return TaskError("PL505", found, fix=f"{fill}, or {_SOFT_FIX}", at=e.source)
    return None


def _soft(e: Eqn, kernel: KernelBody, count: int | None, together: bool, platform: Platform) -> PyptoError | None:
    """A soft barrier that is told how many cores wait must be told the right number."""
    told = dict(zip(e.params["given"], e.ins, strict=True)).get("used_cores")
    if not isinstance(told, Literal) or count is None or int(told.value) == 0:
        return None
    have = _Cores.of(kernel, count).of_type(e.params["core_type"])
    if have == int(told.value):
        return None
    found = f"pl.system.syncall waits for used_cores={int(told.value)}, and {count} blocks of `{kernel.name}` hold {have}"
    return TaskError("PL505", found, fix=f"used_cores={have}, or leave it out", at=e.source)
