"""Snapshots fail when they differ, when they are missing, and when nobody reads them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TESTS = """
import pytest

def test_one(golden):
    golden.check("one")

@pytest.mark.parametrize("n", [1, 2])
def test_many(golden, n):
    golden.check(f"many {n}")
"""


@pytest.fixture
def run(tmp_path):
    """Run the tests above with options; returns whether they passed, and the output."""
    (tmp_path / "test_texts.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def start(*options, file="test_texts.py"):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.snapshots", "--goldens", str(tmp_path / "goldens")]
        command += ["-p", "no:cacheprovider", "-c", str(tmp_path / "pytest.ini"), *options, str(tmp_path / file)]
        environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        return done.returncode == 0, done.stdout + done.stderr

    start.folder = tmp_path / "goldens" / "test_texts"
    return start


def test_snapshots_are_written_compared_and_kept_in_use(run):
    passed, output = run()
    assert not passed and "--update-golden" in output, output
    passed, output = run("--update-golden")
    assert passed, output
    assert {p.name: p.read_text() for p in run.folder.iterdir()} == {
        "one.txt": "one\n", "many-1.txt": "many 1\n", "many-2.txt": "many 2\n",
    }  # fmt: skip
    passed, output = run()
    assert passed, output
    (run.folder / "one.txt").write_text("two\n")
    passed, output = run()
    assert not passed and "-two" in output and "+one" in output, output


def test_a_snapshot_nobody_reads_fails_the_run_unless_only_some_tests_ran(run):
    assert run("--update-golden")[0]
    (run.folder / "many-3.txt").write_text("many 3\n")
    passed, output = run()
    assert not passed and "many-3.txt" in output, output
    assert run("-k", "one")[0]
    assert run(file="test_texts.py::test_one")[0]
