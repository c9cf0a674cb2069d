"""Hold a program to its platform: the dtypes each instruction takes, the limits of its tiles, and the casts the chip has."""

from __future__ import annotations

from collections.abc import Iterator

from pypto.core.avals import TileAval
from pypto.core.ir import Eqn, Jaxpr
from pypto.dtypes import FP32, DType
from pypto.errors import MemorySpaceError, PyptoError, together
from pypto.platform import Platform
from pypto.tile.passes.casts import check_casts, legalise_casts
from pypto.tile.passes.limits import check_limits


def legalise(jaxpr: Jaxpr, platform: Platform) -> Jaxpr:
    """The program as the platform can run it; `cpu` takes it as it is.

    Errors:
      PL401 to PL406, all that the program breaks in one error, in the order of the user's lines.
    """
    if not platform.checked:
        return jaxpr
    found = _distinct([*_dtypes(jaxpr, platform), *check_limits(jaxpr, platform)])
    if found:
        raise together(found)
    return legalise_casts(jaxpr, platform)


def _distinct(errors: list[PyptoError]) -> list[PyptoError]:
    """One error per code and line: an operation that was taken apart breaks a limit once for its author."""
    seen: dict[object, PyptoError] = {}
    for e in errors:
        seen.setdefault((e.code, e.source and (e.source.file, e.source.line, e.source.column)), e)
    return sorted(seen.values(), key=lambda e: (e.source.line, e.source.column) if e.source else (0, 0))


def _dtypes(jaxpr: Jaxpr, platform: Platform) -> Iterator[PyptoError]:
    for eqn in jaxpr.walk():
        yield from check_dtypes(eqn, platform)
        yield from check_casts(eqn, platform)


def check_dtypes(eqn: Eqn, platform: Platform) -> Iterator[PyptoError]:
    """Every tile operand of an instruction must have a dtype the chip's unit takes; of one without, the tile it makes.

    Gives: PL406 for an operation the chip does not have for a dtype, naming the cast to write, or not with an option.
    """
    for option, chips in eqn.op.options_on.items():
        if eqn.params.get(option) and platform.family not in chips:
            yield MemorySpaceError(
                "PL406",
                f"{platform.name} has no {eqn.op.name} with {option}={eqn.params[option]!r}",
                fix=f'leave {option} out, which changes no bit here, or lower for another chip: platform="{min(chips)}"',
                at=eqn.source,
            )
    table, form = eqn.op.form([a.aval for a in eqn.ins], eqn.params)
    name = f"{form} form of {eqn.op.name}" if form else eqn.op.name
    native = table.get(platform.family)
    if native is None:
        return
    tiles = [a.aval for a in eqn.ins if isinstance(a.aval, TileAval)] or [v.aval for v in eqn.outs if isinstance(v.aval, TileAval)]
    if not native and tiles:
        others = [chip for chip, kinds in table.items() if kinds]
        yield MemorySpaceError(
            "PL406",
            f"{platform.name} has no {name} at all",
            fix=f'lower for another chip: platform="{others[0]}"' if others else "compute it from other operations",
            at=eqn.source,
        )
        return
    for aval in tiles:
        if aval.dtype not in native and (aval.dtype.arithmetic or aval.dtype.is_float):
            others = [chip for chip, kinds in table.items() if aval.dtype in kinds]
            if aval.dtype.arithmetic or not others:
                fix = f"compute in another dtype: pl.cast(x, pl.{_wider(aval.dtype, native).name}) before, and cast the result back"
            else:
                fix = f'lower for another chip: platform="{others[0]}"'
            yield MemorySpaceError(
                "PL406",
                f"{platform.name} has no {name} for {aval.dtype.name}",
                fix=fix,
                at=eqn.source,
            )
            return


def _wider(dtype: DType, native: frozenset[DType]) -> DType:
    """The narrowest dtype of the same kind that the chip takes and that holds every value; the widest where none does."""
    if not dtype.arithmetic:  # a format that is only stored: FP32 holds them all
        return FP32
    same = [d for d in native if d.is_float == dtype.is_float]
    wide = [d for d in same if d.bits >= dtype.bits and d is not dtype]
    holding = [d for d in wide if not d.is_float or (d.mantissa >= dtype.mantissa and d.min_exponent <= dtype.min_exponent)]
    if not holding:
        return max(same or native, key=lambda d: (d.bits, d.name))
    return min(holding, key=lambda d: (d.bits, d.name))
