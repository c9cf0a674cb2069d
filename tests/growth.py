"""How much memory a process holds as it goes on: `python -m tests.growth WHAT WARM COUNT [POINTS]` prints kilobytes at each point."""

from __future__ import annotations

import gc
import linecache
import sys
from pathlib import Path

import numpy as np

import pypto
import pypto.language as pl
from benchmarks.trace import kernel

X = np.ones((16, 64), np.float32)
N = pl.dynamic("N")
one = kernel("        t = t + 1.0", "one")


@pl.jit
def rows(x: pl.Tensor[[N, 64], pl.FP32], by: pl.Scalar[pl.FP32], out: pl.Out[pl.Tensor[[N, 64], pl.FP32]]):
    for r in pl.range(pl.tensor.dim(x, 0)):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[r : r + 1, :] = pl.adds(x[r : r + 1, :], by)


def launches(i: int) -> None:
    """Other data, with an output and without."""
    if i % 2:
        one(X + i, X.copy())
    else:
        one(X + i)


def extents(i: int) -> None:
    """Other extents, and another number."""
    x = np.ones((1 + i * 7919 % 10_007 % 499, 64), np.float32)
    rows(x, float(i), np.empty_like(x))


def compilations(i: int) -> None:
    """Another kernel, which nobody keeps."""
    kernel(f"        t = pl.exp(t + {i}.0)", f"made{i}")(X)
    linecache.cache.clear()


def held() -> int:
    """Kilobytes of the process in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4


def main(what: str, warm: int, count: int, points: int = 2) -> list[int]:
    """Kilobytes after `warm` turns, and at the rest of the points up to `count` turns more."""
    turn = {"launches": launches, "extents": extents, "compilations": compilations}[what]
    found = []
    with pypto.override(check=False, executor="cpu", cache=False):
        for i in range(warm + count + 1):
            if i >= warm and (i - warm) % (count // (points - 1)) == 0:
                found.append(held())
            turn(i)
    return found


if __name__ == "__main__":
    print(*main(sys.argv[1], *map(int, sys.argv[2:])))
