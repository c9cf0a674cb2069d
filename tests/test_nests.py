"""Random nests mean the same under CPython and rewritten, and the comparison is sharp enough to catch planted bugs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pypto.language.liveness import Liveness
from pypto.language.rewrite import rewrite
from tests.nests import Value, random_kernel
from tests.toy_runtime import PlainLanguage, ToyLanguage, ToyRuntime, function


def nest_outcome(fn: Callable[..., Any], *first: Any) -> bytes | None:
    """What a random kernel leaves in `out`; None if it read an unset name."""
    rows = np.arange(8, dtype=np.float32).reshape(2, 4)
    out = Value(np.full((2, 4), np.nan, np.float32))
    try:
        fn(*first, Value(rows), out)
    except NameError:
        return None
    return np.nan_to_num(out.array, nan=-1.0).tobytes()


def nest_agrees(seed: int, jumps: bool = False) -> bool | None:
    """Whether CPython and the rewritten body agree on one seed; None if they agree that a name is unset."""
    fn = function(random_kernel(seed, scopes=True, jumps=jumps), file=f"<nest {seed % 64}>", pl=PlainLanguage())
    expected = nest_outcome(fn)
    runtime = ToyRuntime()
    fn.__globals__["pl"] = ToyLanguage(runtime)
    got = nest_outcome(rewrite(fn).function, runtime)
    return None if expected is None and got is None else expected == got


@pytest.fixture
def quiet():
    with np.errstate(all="ignore"):
        yield


@pytest.mark.usefixtures("quiet")
def test_random_nests_mean_the_same_rewritten_as_under_cpython():
    outcomes = [nest_agrees(seed) for seed in range(2000)]
    assert [seed for seed, outcome in enumerate(outcomes) if outcome is False] == []
    assert outcomes.count(True) > 1400  # the rest read an unset name, in both


@pytest.mark.usefixtures("quiet")
def test_random_nests_with_jumps_mean_the_same_rewritten_as_under_cpython():
    outcomes = [nest_agrees(seed, jumps=True) for seed in range(2000)]
    assert [seed for seed, outcome in enumerate(outcomes) if outcome is False] == []
    assert outcomes.count(True) > 1300


def no_back_edge(self: Liveness, loop: Any) -> set[str]:
    return set()


def nothing_after(original: Any):
    def carried(self: Liveness, inside: set[str], target: str, following: set[str], live: set[str]) -> set[str]:
        return original(self, inside, target, following, set())

    return carried


def nothing_following(original: Any):
    def carried(self: Liveness, inside: set[str], target: str, following: set[str], live: set[str]) -> set[str]:
        return original(self, inside, target, set(), live)

    return carried


def one_arm_only(original: Any):
    def branch(self: Liveness, node: Any, summary: Any, live: set[str]) -> None:
        summary.stored = set(self._summaries[id(node.body)].stored)
        original(self, node, summary, live)

    return branch


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    ("method", "bug"),
    [
        ("_next_iteration", lambda _: no_back_edge),
        ("_carried", nothing_after),
        ("_carried", nothing_following),
        ("_branch", one_arm_only),
    ],
)
def test_the_fuzz_catches_a_planted_bug(monkeypatch: pytest.MonkeyPatch, method: str, bug: Any):
    monkeypatch.setattr(Liveness, method, bug(getattr(Liveness, method)))
    assert any(nest_agrees(seed) is False for seed in range(300))
