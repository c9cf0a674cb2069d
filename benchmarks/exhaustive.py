"""Compare compiled exp, log and rsqrt with the contract over every FP32 number: `python -m benchmarks.exhaustive [name ...]`.

Takes some minutes per function. Prints how many results differ (NaNs count as equal), and the first few arguments.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from pypto import dtypes, lax, numerics
from pypto.core.avals import TILE, RefAval, TileAval, scalar
from pypto.core.ir import Eqn, Jaxpr, Literal, Var
from pypto.core.op import OPS, Op
from pypto.interpreters.cpu.launch import Compiled, compile_program
from pypto.interpreters.values import Buffer, Ref
from pypto.lax.tasks import DIRECT

BLOCK = 1 << 20
NAMES = ("rsqrt", "exp", "log")


def program(op: Op) -> tuple[Jaxpr, dict[str, Jaxpr]]:
    """One kernel that applies an op to BLOCK numbers."""
    zero = Literal(np.int64(0), scalar(dtypes.INDEX))
    x, out = (Var(RefAval((BLOCK,), dtypes.FP32, direction=d), d) for d in ("in", "inout"))
    t, y = (Var(TileAval((BLOCK,), dtypes.FP32, TILE)) for _ in range(2))
    get = {"sizes": (BLOCK,), "drop": (), "valid": None, "level": TILE, "space": None}
    params = dict.fromkeys(op.options)
    eqns = (
        Eqn(OPS["get"], (x, zero), (t,), get),
        Eqn(op, (t,), (y,), params),
        Eqn(OPS["set"], (out, y, zero), (), {"sizes": (BLOCK,), "drop": ()}),
    )
    outer = [Var(v.aval, v.name) for v in (x, out)]
    call = Eqn(OPS["call"], tuple(outer), (), {"kernel": "kernel", "blocks": False, "launch": DIRECT})
    return Jaxpr(tuple(outer), (call,), (), "program"), {"kernel": Jaxpr((x, out), eqns, (), "kernel")}


def compare(name: str) -> int:
    """The number of arguments for which compiled code and contract differ."""
    compiled = compile_program(*program(getattr(lax, name)))
    assert isinstance(compiled, Compiled), compiled.reason
    contract = getattr(numerics, name)
    wrong, start = 0, time.time()
    out = np.zeros(BLOCK, np.float32)
    for first in range(0, 1 << 32, BLOCK):
        x = np.arange(first, first + BLOCK, dtype=np.uint64).astype(np.uint32).view(np.float32)
        compiled.run([Ref.whole(Buffer(a)) for a in (x, out)], lambda: None)
        want = contract(x)
        bad = (want.view(np.uint32) != out.view(np.uint32)) & ~(np.isnan(want) & np.isnan(out))
        for i in np.nonzero(bad)[0][:4]:
            print(f"{name}({x[i]!r}) bits {x.view(np.uint32)[i]:#x}: compiled {out[i]!r}, contract {want[i]!r}", flush=True)
        wrong += int(bad.sum())
        if first % (BLOCK << 9) == 0:
            print(f"{name}: {first / 2**32:.0%} after {time.time() - start:.0f} s, {wrong} differ", flush=True)
    print(f"{name}: {wrong} of 2**32 differ", flush=True)
    return wrong


def main() -> int:
    """The exit status: 1 if anything differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exhaustive", description=(__doc__ or "").replace("`", ""))
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(NAMES) + "; all of them if none is given")
    names = parser.parse_args().names or NAMES
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"no such function: {', '.join(unknown)}")
    return int(sum(map(compare, names)) > 0)


if __name__ == "__main__":
    sys.exit(main())
