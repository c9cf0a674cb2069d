"""Random kernels mean the same under CPython, run eagerly, traced and lowered: bits equal, or a refusal that is written here.

Two families: `tests.nests` varies what names do under control flow, `tests.tile_nests` what names stand for (tiles updated
in place under several names, buffers carried and swapped, values that outlive a region, partly valid tiles). CPython runs
the source with a model of `pl`; the eager runtime must agree with it always, errors included. A traced program may be
refused where the trace cannot know what one run does:

| code | a program may be refused although this run is fine, because |
|---|---|
| PL111 | a name is unset on another path: in a loop that may not run, or in the other arm of a branch |
| PL205 | a tile is updated and never read again: Python has nothing against a write that is lost |
| PL206 | a carried name is a buffer first and a tile afterwards; or a tile that a region let out whole becomes partly valid |
| PL207 | a loop or branch gives a tile a second name, and an update in place would have to be seen under the other one |
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto.language as pl
from pypto.errors import PyptoWarning
from pypto.language import carry
from pypto.language.liveness import Liveness
from pypto.language.regions import Regions
from pypto.language.validity import Weakening
from pypto.tile.passes import cells
from tests.nests import Value, random_kernel
from tests.test_nests import no_back_edge, nothing_after, nothing_following, one_arm_only
from tests.tile_model import TileLanguage, Unseen
from tests.tile_nests import tile_kernel
from tests.toy_runtime import PlainLanguage
from tests.ways import Outcome, bits, outcome, traced_and_lowered

HEADER = "@pl.jit\ndef kernel(x: pl.Tensor[[4, 64], pl.FP32], out: pl.Out[pl.Tensor[[4, 64], pl.FP32]]):"
X = ((np.arange(256) * 7) % 11 - 4).astype(np.float32).reshape(4, 64)
NAMES, TILES, JUMPS = 2000, 1000, 600
REFUSALS = frozenset({"PL111", "PL205", "PL206", "PL207"})


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Overflow is data here, and a stale initial value (PL208) or a half-written output is not what is tested."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", PyptoWarning)
        yield


def load(folder: Path, name: str, source: str, language: Any) -> Any:
    """The function `kernel` of a file written into `folder`."""
    file = folder / f"{name}.py"
    file.write_text(source)
    names: dict[str, Any] = {"pl": language}
    exec(compile(source, str(file), "exec", dont_inherit=True), names)
    return names["kernel"]


def named(seed: int, folder: Path) -> tuple[Outcome, Outcome, Outcome, Outcome]:
    """One kernel of the first family: what CPython gives, the eager runtime, the trace, and the program."""
    plain = load(folder, f"plain_{seed}", random_kernel(seed), PlainLanguage())
    out = Value(np.full(X.shape, np.nan, np.float32))
    try:
        plain(Value(X.copy()), out)
        expected: Outcome = bits(out.array)
    except NameError:
        expected = "PL111"
    kernel = load(folder, f"kernel_{seed}", random_kernel(seed, header=HEADER), pl)
    return expected, outcome(kernel.eager, X), *traced_and_lowered(kernel, X)


def modelled(seed: int, folder: Path) -> tuple[Outcome, Outcome, Outcome, Outcome]:
    """One kernel of the second family."""
    language, flag = TileLanguage(), seed % 3
    plain = load(folder, f"model_{seed}", tile_kernel(seed), language)
    out = np.zeros_like(X)
    try:
        plain(language.tensor(X.copy()), flag, language.tensor(out, output=True))
        expected: Outcome = bits(out)
    except NameError:
        expected = "PL111"
    except Unseen:
        expected = "PL306"
    kernel = load(folder, f"tiles_{seed}", tile_kernel(seed), pl)
    return expected, outcome(kernel.eager, X, flag), *traced_and_lowered(kernel, X, flag)


def jumping(seed: int, folder: Path) -> tuple[Outcome, Outcome, Outcome, Outcome]:
    """One kernel of the first family that also leaves its loops early."""
    plain = load(folder, f"plain_{seed}", random_kernel(seed, jumps=True), PlainLanguage())
    out = Value(np.full(X.shape, np.nan, np.float32))
    try:
        plain(Value(X.copy()), out)
        expected: Outcome = bits(out.array)
    except NameError:
        expected = "PL111"
    kernel = load(folder, f"kernel_{seed}", random_kernel(seed, jumps=True, header=HEADER), pl)
    return expected, outcome(kernel.eager, X), *traced_and_lowered(kernel, X)


Family = Callable[[int, Path], tuple[Outcome, Outcome, Outcome, Outcome]]


def verdict(family: Family, seed: int, folder: Path, refusals: frozenset[str]) -> str:
    """ "equal", the code of a refusal that is allowed, or what is wrong."""
    try:
        expected, eager, traced, program = family(seed, folder)
    except Exception as error:  # a claim that does not hold, or whatever a broken front end raises
        return f"wrong: {type(error).__name__}: {error}"
    if eager != expected:
        return "wrong: the eager runtime"
    if program == expected:
        return "equal" if traced == program else "wrong: the trace"
    return program if isinstance(program, str) and program in refusals and traced in (None, program) else "wrong: the program"


def verdicts(family: Family, seeds: range, folder: Path, refusals: frozenset[str]) -> Counter[str]:
    found = {seed: verdict(family, seed, folder, refusals) for seed in seeds}
    assert {seed: text for seed, text in found.items() if text.startswith("wrong")} == {}
    return Counter(found.values())


def test_random_nests_mean_the_same_in_every_way(tmp_path: Path):
    found = verdicts(named, range(NAMES), tmp_path, frozenset({"PL111"}))
    assert found["equal"] > 1850
    assert found["PL111"] < 120  # names that only this run sets


def test_random_nests_with_jumps_mean_the_same_in_every_way(tmp_path: Path):
    found = verdicts(jumping, range(JUMPS), tmp_path, frozenset({"PL111"}))
    assert found["equal"] > 0.85 * JUMPS


def test_random_kernels_of_tiles_and_buffers_mean_the_same_in_every_way(tmp_path: Path):
    found = verdicts(modelled, range(TILES), tmp_path, REFUSALS)
    assert found["equal"] > 0.48 * TILES
    assert min(found[code] for code in REFUSALS) > 0  # each reason does occur
    assert found["PL206"] < 0.05 * TILES


def caught(family: Family, seeds: int, folder: Path, refusals: frozenset[str] = REFUSALS) -> bool:
    return any(verdict(family, seed, folder, refusals).startswith("wrong") for seed in range(seeds))


@pytest.mark.parametrize(
    ("method", "bug"),
    [
        ("_next_iteration", lambda _: no_back_edge),
        ("_carried", nothing_after),
        ("_carried", nothing_following),
        ("_branch", one_arm_only),
    ],
)
def test_a_planted_liveness_bug_is_caught(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, method: str, bug: Any):
    monkeypatch.setattr(Liveness, method, bug(getattr(Liveness, method)))
    assert caught(named, 100, tmp_path)


def all_straight(original: Any) -> Any:
    def find(jaxpr: Any) -> Any:
        found = original(jaxpr)
        for cell in found.values():
            cell.straight = True
        return found

    return find


def one_buffer_per_name(original: Any) -> Any:
    def escape(self: Any, scope: Any, names: Any, values: Any) -> Any:
        return [original(self, scope, (name,), (value,))[0] for name, value in zip(names, values, strict=True)]

    return escape


PLANTED: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "no check for tiles with two names": (cells, "check_shared", lambda _: lambda jaxpr: None),
    "every update is straight-line": (cells, "_find", all_straight),
    "claims are not weakened": (Weakening, "carries", lambda _: lambda self, eqns, inside, after: None),
    "two names of a tile leave a region as two buffers": (Regions, "_escape", one_buffer_per_name),
    "a handle becomes a tile however it is used": (carry, "only_used_as_tile", lambda _: lambda trace, eqns, var: True),
    "numbers keep the type of their first value": (carry, "only_converted", lambda _: lambda trace, eqns, var, dtype: True),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_value_bug_is_caught(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bug: str):
    owner, name, plant = PLANTED[bug]
    monkeypatch.setattr(owner, name, plant(getattr(owner, name)))
    assert caught(modelled, 200, tmp_path)
