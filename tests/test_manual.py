"""The manual pages of `docs/ops` are what the op objects say today, and the command line finds them."""

from pathlib import Path

import pytest

from pypto import __main__ as command
from pypto.core.op import OPS
from pypto.tools import manual, ops

FOLDER = Path(__file__).parent.parent / "docs" / "ops"


def test_the_pages_are_up_to_date() -> None:
    made = manual.pages()
    kept = {p.name: p.read_text() for p in FOLDER.glob("*.md")}
    stale = sorted(name for name in made.keys() | kept.keys() if made.get(name) != kept.get(name))
    assert not stale, "write them again with `python -m pypto ops --write docs/ops`"


def test_every_op_of_the_library_has_a_section() -> None:
    text = "\n".join(p.read_text() for p in FOLDER.glob("*.md"))
    missing = [name for name, op in OPS.items() if op.module.startswith("pypto.") and f"## {name}\n" not in text]
    assert not missing


def test_only_families_of_later_versions_are_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["ops", "--missing"]) == 0
    assert "not built" not in capsys.readouterr().out
    assert {family for family, _, _ in ops.missing()} == {"cross-core", "caches and dumps", "distributed", "MX formats"}


def test_a_page_is_found_by_a_spelling_and_an_unknown_name_suggests_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["ops", "row_max"]) == 0
    assert "Largest element of each row" in capsys.readouterr().out
    assert command.main(["ops", "row_mx"]) == 1
    assert "row_max" in capsys.readouterr().err


def test_search_finds_by_what_a_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["ops", "--search", "row_expand"]) == 0
    assert "row_expand_mul" in capsys.readouterr().out.split()


def test_explain_says_what_a_code_is_about(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["explain", "PL201"]) == 0
    assert "output parameter" in capsys.readouterr().out
    assert command.main(["explain", "PL000"]) == 1
