"""Outline regions into in-core kernels; the orchestration launches them by name."""

from __future__ import annotations

from pypto.core.avals import TileAval
from pypto.core.ir import Eqn, Jaxpr, Var, free_vars, rename
from pypto.core.op import OPS
from pypto.tile.ir import KernelBody, Program


def unit_of(jaxpr: Jaxpr) -> str:
    """Which units a kernel needs: cube for matrix products, vector for arithmetic on tiles and for kernels that only move."""
    units = {e.op.unit for e in jaxpr.walk() if any(isinstance(v.aval, TileAval) for v in e.outs)}
    return "mixed" if {"cube", "vector"} <= units else "cube" if "cube" in units else "vector"


def outline(jaxpr: Jaxpr, platform: str) -> Program:
    """The tile program of a traced kernel. One walk over the orchestration, one over each region."""
    kernels: list[KernelBody] = []
    names: dict[str, int] = {}

    def unique(wanted: str) -> str:
        base = wanted or f"{jaxpr.name}_incore"
        count = names[base] = names.get(base, -1) + 1
        name = base if count == 0 else f"{base}_{count}"
        if count and name in names:
            return unique(base)
        names.setdefault(name, 0)
        return name

    def region(eqn: Eqn) -> Eqn:
        body: Jaxpr = eqn.params["body"]
        outer = free_vars(body)
        blocks = eqn.params["kind"] == "spmd"
        inner = {v: Var(v.aval, v.name) for v in outer}
        closed = rename(body, dict(inner))
        name = unique(eqn.params["name"])
        closed = closed.replace(invars=(*body.invars, *inner.values()), name=name, facts=jaxpr.facts)
        kernels.append(KernelBody(name, closed, blocks, unit_of(closed), eqn.params["options"]))
        params = {"kernel": name, "blocks": blocks, "launch": eqn.params["launch"]}
        return Eqn(OPS["call"], (*eqn.ins, *outer), eqn.outs, params, eqn.source)

    def block(j: Jaxpr) -> Jaxpr:
        eqns = []
        for e in j.eqns:
            if e.op.name == "region":
                eqns.append(region(e))
            elif any(True for _ in e.bodies()):
                eqns.append(e.replace(params={k: block(p) if isinstance(p, Jaxpr) else p for k, p in e.params.items()}))
            else:
                eqns.append(e)
        return j.replace(eqns=tuple(eqns))

    return Program(jaxpr.name, block(jaxpr), tuple(kernels), platform)
