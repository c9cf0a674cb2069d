"""The verifier: what must hold of a program at each level. Passes may rely on it, tests run it around each pass."""

from __future__ import annotations

from pypto.core.avals import ScalarAval, TileAval, same_type
from pypto.core.ir import Eqn, Jaxpr, check, free_vars
from pypto.errors import InternalError, PyptoError
from pypto.tile.ir import KernelBody, Program


def verify_jaxpr(jaxpr: Jaxpr) -> None:
    """Structure, and every equation's results against its op's abstract rule.

    Errors:
      PL901 naming the equation.
    """
    check(jaxpr)
    for eqn in jaxpr.walk():
        _abstract(eqn)
        if "SSA" in jaxpr.facts and eqn.op.name == "set" and isinstance(eqn.ins[0].aval, TileAval):
            raise InternalError("PL901", f"a tile is updated in place after cells were promoted: {eqn.ins[0]}", at=eqn.source)


def _abstract(eqn: Eqn) -> None:
    try:
        expected = eqn.op.abstract_eval([a.aval for a in eqn.ins], eqn.params)
    except PyptoError as error:  # a program that reached this level had passed every check of its user's
        raise InternalError("PL901", f"{eqn.op.name} does not take its operands: {error.message}", at=eqn.source) from error
    if len(expected) != len(eqn.outs):
        raise InternalError("PL901", f"{eqn.op.name} has {len(eqn.outs)} results, its rule gives {len(expected)}", at=eqn.source)
    for out, aval in zip(eqn.outs, expected, strict=True):
        known = all(isinstance(d, int) for d in (*out.aval.shape, *aval.shape))
        if known and not same_type(out.aval, aval):
            raise InternalError("PL901", f"{eqn.op.name} gives {out.aval}, its rule {aval}", at=eqn.source)


def verify(program: Program) -> None:
    """The tile level: closed kernels on tiles, an orchestration without tiles, calls that fit their kernels."""
    verify_jaxpr(program.orchestration)
    kernels = {k.name: k for k in program.kernels}
    if len(kernels) != len(program.kernels):
        raise InternalError("PL901", f"two kernels of {program.name} have one name: {[k.name for k in program.kernels]}")
    for k in program.kernels:
        if free_vars(k.jaxpr):
            raise InternalError("PL901", f"kernel {k.name} is not closed: {free_vars(k.jaxpr)}")
        verify_jaxpr(k.jaxpr)
    for eqn in program.orchestration.walk():
        if eqn.op.name == "region":
            raise InternalError("PL901", "a region was not outlined", at=eqn.source)
        if any(isinstance(v.aval, TileAval) for v in eqn.outs):
            raise InternalError("PL901", f"{eqn.op.name} makes a tile in the orchestration", at=eqn.source)
        if eqn.op.name == "call":
            _check_call(eqn, kernels)


def _check_call(eqn: Eqn, kernels: dict[str, KernelBody]) -> None:
    """A call names a kernel, launches it per block if it has blocks, and passes what it takes."""
    body = kernels.get(eqn.params["kernel"])
    if body is None:
        raise InternalError("PL901", f"there is no kernel {eqn.params['kernel']}", at=eqn.source)
    if eqn.params["blocks"] != body.blocks:
        raise InternalError("PL901", f"{body.name} has {'' if body.blocks else 'no '}blocks, its call says otherwise", at=eqn.source)
    parts = eqn.params["launch"].divide(eqn.ins, blocks=body.blocks)
    wanted = body.jaxpr.invars[1:] if body.blocks else body.jaxpr.invars  # without the index of the block
    if len(parts.operands) != len(wanted):
        raise InternalError("PL901", f"{body.name} takes {len(wanted)} operands, got {len(parts.operands)}", at=eqn.source)
    if parts.blocks is not None and not (isinstance(parts.blocks.aval, ScalarAval) and parts.blocks.aval.dtype.is_integer):
        raise InternalError("PL901", f"{body.name} is launched in {parts.blocks.aval} blocks", at=eqn.source)
    for a, v in zip(parts.operands, wanted, strict=True):
        if not same_type(a.aval, v.aval):
            raise InternalError("PL901", f"{body.name} takes {v.aval}, is called with {a.aval}", at=eqn.source)
