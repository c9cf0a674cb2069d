"""Nothing is left behind: memory stays where it is over many launches and many compilations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CASES = [("launches", 200, 10_000, 256), ("extents", 400, 10_000, 256), ("compilations", 60, 200, 256)]


@pytest.mark.skipif(sys.platform != "linux", reason="reads the size of the process from /proc")
@pytest.mark.parametrize(("what", "warm", "count", "kilobytes"), CASES)
def test_memory_does_not_grow(what, warm, count, kilobytes):
    # the heap finds its size in the first dozens, and may move by some pages later, since the system counts in pages and decides which
    # ones a process holds; the machine code and the module of one compilation are tens of kilobytes, the arrays of a launch are four
    command = [sys.executable, "-m", "tests.growth", what, str(warm), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=Path(__file__).parent.parent)
    assert done.returncode == 0, done.stderr
    before, after = map(int, done.stdout.split())
    assert after - before < kilobytes
