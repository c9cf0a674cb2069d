"""What the helpers that compute references need: they stay below 1 GiB, JAX included."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LIMIT = 1 << 30
# On Linux from /proc: the maximum that getrusage gives begins at that of the process that started this one.
PEAK = """
if sys.platform == "linux":
    print(next(1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")))
else:
    import resource
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024))
"""


def peak(program):
    """The peak resident bytes of a process that runs a program."""
    done = subprocess.run([sys.executable, "-c", f"import sys\n{program}\n{PEAK}"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


@pytest.mark.parametrize("name", ["exp", "rsqrt"])
def test_a_chunk_of_the_exhaustive_check_fits(name):
    program = f"from pypto.testing.exhaustive import mismatches\nassert mismatches({name!r}, 0x3F000000 - 0x3F000000 % (1 << 22)) == []"
    assert peak(program) < LIMIT


@pytest.mark.parametrize("name", ["softmax", "flash_attention"])
def test_the_golden_of_an_example_fits(name):
    program = f"sys.path.insert(0, 'docs/examples')\nimport {name}\nassert {name}.check_example().passed"
    assert peak(program) < LIMIT
