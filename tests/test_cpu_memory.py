"""Nothing is left behind: memory stays where it is over many launches and many compilations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import gc, linecache, sys
from pathlib import Path
import numpy as np
import pypto
from benchmarks.trace import kernel

def pages():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1])

x = np.ones((16, 64), np.float32)
what, warm, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
one = kernel("        t = t + 1.0", "one")
with pypto.override(check=False, executor="cpu", cache=False):
    def turn(i):
        if what == "launches":
            one(x + i, x.copy()) if i % 2 else one(x + i)
        else:
            kernel(f"        t = t + {i}.0", f"made{i}")(x)
            linecache.cache.clear()
    for i in range(warm):
        turn(i)
    before = pages()
    for i in range(warm, warm + count):
        turn(i)
    print((pages() - before) * 4)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the size of the process from /proc")
@pytest.mark.parametrize(("what", "warm", "count", "kilobytes"), [("launches", 200, 10_000, 256), ("compilations", 160, 100, 1000)])
def test_memory_does_not_grow(what, warm, count, kilobytes):
    # the heap finds its size in the first hundred and more; then a compilation may keep some kilobytes of bookkeeping in Python (what code
    # objects read is remembered); its machine code goes
    command = [sys.executable, "-c", SCRIPT, what, str(warm), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=Path(__file__).parent.parent)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < kilobytes
