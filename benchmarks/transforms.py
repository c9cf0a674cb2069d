"""What tracing and transforming costs: the transformer block of docs/examples/nn, forward and backward, beside the same in JAX.

python -m benchmarks.transforms
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pypto
from benchmarks.trace import median
from benchmarks.workloads import COMPILED

ROUNDS = 7


def new(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function as another object: whoever keeps programs by function traces it again."""

    def again(params: Any, tokens: Any) -> Any:
        return function(params, tokens)

    return again


def seconds(run: Callable[[], Any]) -> dict[str, float]:
    """The first time in this process, and the median of later ones: of wall time, and of the process's CPU time."""
    start = time.perf_counter()
    run()
    first = time.perf_counter() - start
    return {"first": first, "again": median(run, ROUNDS), "again, CPU": median(run, ROUNDS, time.process_time)}


def steps(loss: Callable[..., Any], jax_loss: Callable[..., Any], inputs: tuple[Any, Any]) -> dict[str, dict[str, float]]:
    """Seconds of each step, of both libraries in turn.

    `make_jaxpr` is tracing and transforming; `jit` is that and what `jit` does before it compiles or runs: the key, and here the
    program without what nobody needs, there a module for the compiler.
    """
    import jax

    found = {
        "pypto.make_jaxpr": seconds(lambda: pypto.make_jaxpr(pypto.value_and_grad(new(loss)))(*inputs)),
        "jax.make_jaxpr": seconds(lambda: jax.make_jaxpr(jax.value_and_grad(new(jax_loss)))(*inputs)),
        "pypto.jit": seconds(lambda: pypto.jit(pypto.value_and_grad(new(loss))).lower(*inputs).compile()),
        "jax.jit": seconds(lambda: jax.jit(jax.value_and_grad(new(jax_loss))).lower(*inputs)),
    }
    run = pypto.jit(pypto.value_and_grad(loss))
    other = jax.jit(jax.value_and_grad(jax_loss)).lower(*inputs).compile()
    found["pypto, a call"] = seconds(lambda: run(*inputs))
    found["jax, a call"] = seconds(lambda: jax.block_until_ready(other(*inputs)))
    return found


def main() -> dict[str, Any]:
    """Print the tables."""
    sys.path.append(str(Path(__file__).parent.parent / "docs" / "examples" / "nn"))
    import flash_block
    import transformer

    params, tokens = (spec.make() for spec in transformer.specs()[:2])
    inputs = (transformer.unpacked(params), tokens)
    rows = {}
    with pypto.override(**COMPILED):
        for name, loss in (("attention over lax", transformer.loss), ("flash kernels", flash_block.loss)):
            print(f"transformer block, {name}, value and gradient; ms: first, again, again in CPU time")
            found = steps(loss, transformer.golden_loss, inputs)
            rows[name] = {"equations": pypto.make_jaxpr(pypto.value_and_grad(loss))(*inputs).count(), "seconds": found}
            for step, times in rows[name]["seconds"].items():
                print(f"  {step:18}" + "".join(f"{s * 1e3:10.1f}" for s in times.values()), flush=True)
            print(f"  equations: {rows[name]['equations']}", flush=True)
    return rows


if __name__ == "__main__":
    main()
