"""The front end's three oracles: plain CPython, the eager runtime, and the traced program, on the same random bodies.

CPython runs the text with NumPy values. The eager runtime executes the rewritten body on the reference machine. The
traced program is run twice: as traced, with tiles updated in place, and lowered to a tile program. All bits are equal.

A body may also be refused. PL111 is a name that some path leaves unset; CPython may have been lucky and not taken that
path. PL206 is a carried name that changes type; the generator makes none on purpose.
"""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

import pypto.language as pl
from pypto.core.ir import check
from pypto.errors import PyptoError, PyptoWarning
from pypto.interpreters.reference import Machine
from pypto.interpreters.values import Buffer, Ref
from pypto.language.liveness import Liveness
from tests.nests import Value, random_kernel
from tests.test_nests import no_back_edge, nothing_after, nothing_following, one_arm_only
from tests.toy_runtime import PlainLanguage, function

ROWS, COLUMNS = 2, 8
TYPED = f"""def kernel(
    x: pl.Tensor[[{ROWS}, {COLUMNS}], pl.FP32], out: pl.Out[pl.Tensor[[{ROWS}, {COLUMNS}], pl.FP32]]
):"""
INPUT = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS) * 0.25 - 1
UNSET = "unset"
REFUSALS = {"PL111"}


def by_cpython(text: str, file: str) -> Any:
    out = Value(np.full(INPUT.shape, np.nan, np.float32))
    try:
        function(text.replace(TYPED, "def kernel(x, out):"), file=file, pl=PlainLanguage())(Value(INPUT.copy()), out)
    except NameError:
        return UNSET
    return bits(out.array)


def bits(a: Any) -> bytes:
    return np.nan_to_num(np.asarray(a), nan=-1.0).tobytes()


def as_traced(kernel: Any) -> bytes:
    """The ref-level program, in which tiles are cells."""
    jaxpr = kernel.trace()
    check(jaxpr)
    out = Buffer(np.zeros(INPUT.shape, np.float32), np.zeros(INPUT.shape, np.bool_), np.zeros(INPUT.shape, np.bool_), "out", visible=True)
    Machine().run(jaxpr, [Ref.whole(Buffer(INPUT.copy(), name="x")), Ref.whole(out)])
    return bits(out.data)


def outcome(seed: int) -> str:
    """`agree`, `unset` (CPython found a name unset, and so did we), a refusal's code, or what disagreed."""
    text, file = random_kernel(seed, scopes=seed % 2 == 0, header=TYPED), f"<fuzz {seed % 64}>"
    expected = by_cpython(text, file)
    kernel = pl.jit(function(text, file=file, pl=pl))
    results: dict[str, Any] = {}
    ways = {"eager": lambda: bits(kernel.eager(INPUT)), "traced": lambda: as_traced(kernel), "lowered": lambda: bits(kernel(INPUT))}
    for name, run in ways.items():
        try:
            results[name] = run()
        except PyptoError as error:
            results[name] = error.code
        except NameError:  # only a broken liveness leads here
            results[name] = "NameError"
    if expected == UNSET:
        return UNSET if set(results.values()) <= {"PL111"} else f"seed {seed}: {results} where CPython finds a name unset"
    if results["eager"] != expected:
        return f"seed {seed}: eager differs ({results['eager'] if isinstance(results['eager'], str) else 'bits'})"
    if results["traced"] in REFUSALS and results["lowered"] == results["traced"]:
        return str(results["traced"])
    wrong = [name for name, got in results.items() if got != expected]
    return f"seed {seed}: {wrong} differ: {[r for r in results.values() if isinstance(r, str)]}" if wrong else "agree"


@pytest.fixture
def quiet() -> Any:
    # reading a carry's initial value after its loop is legal, and the generator does it; the warning has tests of its own
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", PyptoWarning)
        yield


@pytest.mark.usefixtures("quiet")
def test_2000_random_bodies_mean_the_same_to_cpython_eager_and_traced() -> None:
    outcomes = Counter(outcome(seed) for seed in range(2000))
    assert set(outcomes) <= {"agree", UNSET, *REFUSALS}, [o for o in outcomes if o.startswith("seed")][:10]
    assert outcomes["agree"] > 1200, outcomes  # the others read, or might read, an unset name


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    ("method", "bug"),
    [("_next_iteration", lambda _: no_back_edge), ("_carried", nothing_after), ("_carried", nothing_following), ("_branch", one_arm_only)],
)
def test_the_three_way_comparison_catches_a_planted_liveness_bug(monkeypatch: pytest.MonkeyPatch, method: str, bug: Any) -> None:
    monkeypatch.setattr(Liveness, method, bug(getattr(Liveness, method)))
    assert any(outcome(seed).startswith("seed") for seed in range(300))
