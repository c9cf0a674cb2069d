"""The manual pages of `docs/ops` are what the op objects say today, and the command line finds them."""

import os
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from pypto import __main__ as command
from pypto.core.op import OPS
from pypto.errors import CODES, PyptoError
from pypto.tools import lessons, manual, ops

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
    assert {family for family, _, _ in ops.missing()} == {"cross-core", "distributed", "MX formats"}


def test_operations_are_missed_at_the_level_they_belong_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ops.language.tile, "move")
    monkeypatch.delattr(ops.language.tensor, "row_max")
    assert {name for _, name, why in ops.missing() if why == "not built"} == {"tile.move", "tensor.row_max"}


def test_a_page_is_found_by_a_spelling_and_an_unknown_name_suggests_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["ops", "row_max"]) == 0
    assert "Largest element of each row" in capsys.readouterr().out
    assert command.main(["ops", "row_mx"]) == 1
    assert "row_max" in capsys.readouterr().err


def test_search_finds_by_what_a_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["ops", "--search", "row_expand"]) == 0
    assert "row_expand_mul" in capsys.readouterr().out.split()


@pytest.mark.parametrize("code", CODES)
def test_explain_prints_the_lesson_of_a_code(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["explain", code]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{code}: {CODES[code]}\n\n**") and len(printed.split()) > 30
    assert "## " not in printed and "# raises" not in printed


def test_explain_takes_lower_case_and_refuses_what_is_no_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["explain", "pl201"]) == 0
    assert "output parameter" in capsys.readouterr().out
    assert command.main(["explain", "PL000"]) == 1
    assert "PL101" in capsys.readouterr().err


def test_an_installed_copy_finds_its_page_of_lessons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "share" / "doc" / "pypto" / "errors.md"
    installed.parent.mkdir(parents=True)
    installed.write_text("## PL103\n\nthe lesson\n")

    class File(PurePosixPath):
        def locate(self) -> Path:
            return installed

    monkeypatch.setattr(lessons, "PAGE", "docs/no_such_page.md")
    monkeypatch.setattr(lessons.importlib.metadata, "files", lambda _: [File("../../share/doc/pypto/errors.md")])
    assert lessons.lesson("PL103").splitlines()[2] == "the lesson"
    monkeypatch.setattr(lessons.importlib.metadata, "files", lambda _: [])
    with pytest.raises(PyptoError) as caught:
        lessons.lesson("PL103")
    assert caught.value.code == "PL601"


def test_a_reader_that_has_enough_ends_the_command_without_a_traceback():
    reading, writing = os.pipe()
    os.close(reading)  # nobody reads
    with os.fdopen(writing, "w") as full:
        done = subprocess.run([sys.executable, "-m", "pypto", "ops"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1 and not done.stderr
