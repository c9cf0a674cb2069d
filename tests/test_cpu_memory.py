"""Nothing is left behind: memory stays where it is over many launches and many compilations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CASES = [("launches", 200, 10_000, 256), ("extents", 6000, 10_000, 256), ("compilations", 60, 200, 1100)]


@pytest.mark.skipif(sys.platform != "linux", reason="reads the size of the process from /proc")
@pytest.mark.parametrize(("what", "warm", "count", "kilobytes"), CASES)
def test_memory_does_not_grow(what, warm, count, kilobytes):
    # the heap finds its size in the first dozens; later Python's allocator may take one more mebibyte, in which objects of all ages lie,
    # so that compilations may cost that once: the machine code and the module of one are tens of kilobytes, the arrays of a launch four
    command = [sys.executable, "-m", "tests.growth", what, str(warm), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=Path(__file__).parent.parent)
    assert done.returncode == 0, done.stderr
    before, after = map(int, done.stdout.split())
    assert after - before < kilobytes
