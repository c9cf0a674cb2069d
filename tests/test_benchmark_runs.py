"""The measurements run, and check what they measure: small sizes, one round, no time asserted."""

import importlib
import pkgutil

import numpy as np
import pytest

import benchmarks
import pypto
from benchmarks import curves, workloads
from benchmarks.workloads import COMPILED, WORKLOADS, measure, table


@pytest.mark.parametrize("name", [m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name not in ("__main__", "triton_peers")])
def test_every_module_of_the_measurements_is_imported(name):
    importlib.import_module(f"benchmarks.{name}")


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_is_measured_and_its_results_are_those_of_its_peers(name):
    row = measure(WORKLOADS[name], rounds=1, others=False, size=WORKLOADS[name].sizes[0])
    assert row["executor"] == "cpu" and row["wrong"] == []
    assert {"pypto", "jax.jit", "numpy tiles"} <= row["ms"].keys()


def test_a_wrong_result_ends_the_measurement(monkeypatch):
    work = WORKLOADS["W7"]
    monkeypatch.setattr(workloads, "distance", lambda *_: 1.0)
    with pytest.raises(SystemExit, match="from jax"):
        measure(work, rounds=1, others=False, size=16)


def test_a_table_says_who_took_no_part(monkeypatch):
    monkeypatch.setattr(workloads, "triton", lambda: None)
    row = {"workload": "W1", "ms": {"pypto": 1.0, "jax.jit": 2.0}, "wrong": [], "ratio": 2.0, "best peer": "jax.jit", "target": 2}
    assert "Triton is not installed" in table([row])
    there = table([{**row, "ms": {**row["ms"], workloads.TRITON: 3.0}, "wrong": [workloads.TRITON]}])
    assert "took no part" not in there and "3, wrong numbers" in there


def test_curves_check_what_they_measure():
    with pypto.override(**COMPILED):
        assert [row["operations"] for row in curves.operations((4, 20))] == [4, 20]
        assert [row["tasks"] for row in curves.tasks((3, 10))] == [3, 10]


def test_every_workload_has_four_sizes():
    assert all(len(set(w.sizes)) == 4 and w.sizes == tuple(sorted(w.sizes)) for w in WORKLOADS.values())
    assert all(np.prod(shape) > 0 for w in WORKLOADS.values() for shape, _ in w.outputs(w.sizes[0]))
