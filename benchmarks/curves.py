"""How time grows: with the size of each workload, with the number of operations of a kernel, with the number of tasks.

python -m benchmarks.curves [sizes] [operations] [tasks]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import pypto
from benchmarks import kernels
from benchmarks.trace import kernel, median
from benchmarks.workloads import COMPILED, WORKLOADS, measure
from pypto.interpreters.cpu.launch import compile_program


def sizes() -> list[dict[str, Any]]:
    """Every workload at four sizes, with its fast peers."""
    rows = []
    for work in WORKLOADS.values():
        for size in work.sizes:
            rows.append(measure(work, rounds=3, others=False, size=size))
            print(f"{work.name} {size:5}: " + ", ".join(f"{n} {ms:.4g} ms" for n, ms in rows[-1]["ms"].items()), flush=True)
    return rows


def unfused(count: int) -> str:
    """Operations of which none fuses with the next: a reduction ends every chain."""
    return "\n".join("        t = pl.row_expand_sub(t, pl.row_max(t))" for _ in range(count // 2))


def operations(counts: Sequence[int] = (100, 500, 1500, 3000)) -> list[dict[str, Any]]:
    """Trace, lowering and compilation against the number of operations; the results are the reference executor's, bit for bit."""
    rows, x = [], np.random.default_rng(0).normal(size=(16, 64)).astype(np.float32)
    for count in counts:
        k = kernel(unfused(count), f"unfused{count}")
        start = time.perf_counter()
        k.trace()
        traced = time.perf_counter()
        program = k.lower()
        lowered = time.perf_counter()
        with pypto.override(cache=False):
            made = compile_program(program.orchestration, program.bodies)
        row = {"operations": count, "trace": traced - start, "lower": lowered - traced, "machine code": time.perf_counter() - lowered}
        rows.append({**row, "executor": made.executor})
        got = np.asarray(k(x))
        with pypto.override(executor="reference"):
            assert got.tobytes() == np.asarray(k(x)).tobytes(), f"{count} operations: not the bits of the reference executor"
        print(f"{count:5} operations, s: " + ", ".join(f"{n} {s:.3f}" for n, s in row.items() if n != "operations"), flush=True)
    return rows


def tasks(counts: Sequence[int] = (10, 100, 1000, 10_000)) -> list[dict[str, Any]]:
    """Microseconds of a small task against their number."""
    rows = []
    for count in counts:
        k, x = kernels.tasks(count), np.ones((count, 16), np.float32)
        out = np.zeros_like(x)
        k(x, out)
        took = median(lambda k=k, x=x, out=out: k(x, out), 9)
        assert np.array_equal(out, x + 1)
        rows.append({"tasks": count, "us": took * 1e6, "us per task": took * 1e6 / count})
        print(f"{count:6} tasks: {took * 1e6:.1f} us, {took * 1e6 / count:.3f} us each", flush=True)
    return rows


CURVES = {"sizes": sizes, "operations": operations, "tasks": tasks}


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Print the curves."""
    with pypto.override(**COMPILED):
        return {name: CURVES[name]() for name in arguments or CURVES}


if __name__ == "__main__":
    main(sys.argv[1:])
