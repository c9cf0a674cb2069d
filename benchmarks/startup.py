"""What comes before the first result: import, trace, lowering, machine code made and loaded, against the same steps of jax.jit.

python -m benchmarks.startup [W1 ...]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from typing import Any

import pypto
from benchmarks.trace import median
from benchmarks.workloads import COMPILED, WORKLOADS, Workload, data
from pypto.interpreters.cpu.launch import compile_program

_FIRST = """
import time
import pypto, pypto.language as pl
import numpy as np
from benchmarks import kernels
start = time.perf_counter()
with pypto.override(check=False, executor="cpu", cache_directory={directory!r}):
    x = np.ones((512, 4096), np.float32)
    out = np.empty_like(x)
    kernels.softmax(512)(x, out)
print(time.perf_counter() - start)
"""


def process(program: str) -> float:
    """What a process prints, as a number."""
    return float(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout)


def steps(work: Workload) -> dict[str, float]:
    """Seconds of each step for one workload."""
    import jax

    size = work.sizes[-1]
    kernel, inputs = work.kernel(size), data(work, size)
    found = {"trace": median(kernel.trace)}
    found["lower"] = max(0.0, median(kernel.lower) - found["trace"])
    program = kernel.lower()
    with pypto.override(cache=False):
        found["machine code"] = median(lambda: compile_program(program.orchestration, program.bodies))
    with tempfile.TemporaryDirectory() as directory, pypto.override(cache_directory=directory):
        compile_program(program.orchestration, program.bodies)
        found["machine code from disk"] = median(lambda: compile_program(program.orchestration, program.bodies))
    device = [jax.numpy.asarray(x) for x in inputs]
    found["jax.jit: trace and compile"] = median(lambda: jax.jit(lambda *xs: work.jax(jax, *xs)).lower(*device).compile())
    return found


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Print the tables."""
    timer = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"
    imports = {name: statistics.median(process(timer.format(name)) for _ in range(5)) for name in ("pypto.language", "jax", "numpy")}
    print("import, s: " + ", ".join(f"{name} {s:.3f}" for name, s in imports.items()))
    with tempfile.TemporaryDirectory() as directory:
        program = _FIRST.format(directory=directory)
        cold, *warm = [process(program) for _ in range(4)]
    first = {"without machine code on disk": cold, "with": statistics.median(warm)}
    print(f"first kernel of a process after its imports (softmax [512, 4096]), s: {cold:.3f}, from disk {first['with']:.3f}")
    rows = {}
    with pypto.override(**COMPILED):
        for name in arguments or WORKLOADS:
            rows[name] = steps(WORKLOADS[name])
            print(f"{name}, ms: " + ", ".join(f"{step} {s * 1e3:.1f}" for step, s in rows[name].items()), flush=True)
    return {"import": imports, "first kernel": first, "steps": rows}


if __name__ == "__main__":
    main(sys.argv[1:])
