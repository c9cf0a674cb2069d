"""Faults while compiled code runs: a clear error or a clean continuation, never a hang or a crash."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WANTED = {
    "interrupt in a kernel": "interrupted at once, right afterwards",
    "interrupt in blocks": "interrupted at once, right afterwards",
    "interrupt in phases": "interrupted at once, right afterwards",
    "interrupt in an orchestration": "interrupted at once, right afterwards",
    "handler that returns": "handler saw [True]",
    "handler that returns, in phases": "handler saw [True]",
    "other threads": "went on",
    "fork": "child 0, parent right, workers 2",
    "fork while running": "children [0, 0, 0, 0, 0], parent right",
    "fork while compiling": "children [0, 0, 0, 0, 0], the other compiled: True, parent right",
    "no memory for a buffer": "PL407 with its size, right afterwards",
    "no more threads": "right with 0 workers",
    "caller raises": "right",
    "exit while a daemon runs": "ended",
}


@pytest.mark.skipif(sys.platform != "linux", reason="the limits and signals these cases set are Linux's")
@pytest.mark.parametrize("case", WANTED)
def test_a_fault_is_an_error_or_no_matter(case):
    command = [sys.executable, "-W", "error", "-m", "tests.faults", case]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=Path(__file__).parent.parent)
    assert (done.stdout.strip(), done.returncode) == (WANTED[case], 0), done.stderr
