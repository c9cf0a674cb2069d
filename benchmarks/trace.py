"""How long it takes to import, trace, lower and call: against the number of operations and the depth of the nest.

python -m benchmarks.trace
"""

from __future__ import annotations

import linecache
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import pypto
import pypto.language as pl


def kernel(body: str, name: str) -> Any:
    """A kernel over one [16, 64] FP32 tile `t`, with this body inside one region."""
    text = f"""def {name}(x: pl.Tensor[[16, 64], pl.FP32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x[:, :]
{body}
        out[:, :] = t
"""
    file = f"<benchmark {name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"pl": pl}
    exec(compile(text, file, "exec"), names)
    return pl.jit(names[name])


def straight(count: int) -> str:
    """`count` tile operations, one after the other."""
    return "\n".join(f"        t = pl.add(t, {i % 7}.0)" if i % 2 else "        t = pl.mul(t, x[:, :])" for i in range(count // 3 * 2))


def nest(depth: int) -> str:
    """Loops inside each other; every level carries `t` and does the same work before and after the inner loop."""
    lines = []
    for d in range(depth):
        lines.append("        " + "    " * d + f"for i{d} in pl.range(2):")
        lines.append("        " + "    " * (d + 1) + "t = t + 1.0")
    for d in reversed(range(depth)):
        lines.append("        " + "    " * (d + 1) + "t = t * 0.5")
    return "\n".join(lines)


def median(run: Callable[[], Any], rounds: int = 5, clock: Callable[[], float] = time.perf_counter) -> float:
    """Median seconds of a few runs, on this clock."""
    times = []
    for _ in range(rounds):
        start = clock()
        run()
        times.append(clock() - start)
    return statistics.median(times)


def main() -> None:
    """Print the tables; those of tracing in seconds of CPU time, which a busy machine changes least."""
    cpu = time.process_time
    print("equations   rewrite s     trace s     lower s     print s     total s   trace us/eqn")
    for count in (250, 500, 1000, 2000, 3000):
        start = cpu()
        k = kernel(straight(count), f"ops{count}")
        rewrite = cpu() - start
        size = k.trace().count()
        trace, lower, show = median(k.trace, 3, cpu), median(k.lower, 3, cpu), median(k.lower().as_text, 1, cpu)
        total = rewrite + lower + show
        print(f"{size:9} {rewrite:11.3f} {trace:11.3f} {lower - trace:11.3f} {show:11.3f} {total:11.3f} {trace / size * 1e6:14.1f}")
    print("\ndepth  equations     trace s   us/eqn")
    for depth in range(1, 8):
        k = kernel(nest(depth), f"nest{depth}")
        size, trace = k.trace().count(), median(k.trace, clock=cpu)
        print(f"{depth:5} {size:10} {trace:11.4f} {trace / size * 1e6:8.1f}")
    k = kernel("        t = t + 1.0", "tiny")
    x, out = np.ones((16, 64), np.float32), np.zeros((16, 64), np.float32)
    with pypto.override(executor="reference"):
        k(x, out)
        print(f"\na cached call of one small kernel: {median(lambda: k(x, out), 200) * 1e6:.0f} us (reference executor)")
    known, first = median(lambda: k._repeats((x, out)), 2000), median(lambda: k._program(k._bind((x, out), {})), 200)
    print(f"  of it before anything runs: {known * 1e6:.1f} us, and {first * 1e6:.0f} us for the first call of a layout")
    with pypto.override(check=False):
        k(x, out)
        print(f"a cached call of the compiled kernel, its execution included: {median(lambda: k(x, out), 2000) * 1e6:.1f} us")
    command = [sys.executable, "-c", "import pypto.language"]
    print(f"a process that imports pypto.language: {median(lambda: subprocess.run(command, check=True)):.2f} s")


if __name__ == "__main__":
    main()
