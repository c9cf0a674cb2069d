"""The pages leave nothing out: every error code, every rule of the contract, every slot of an op, every public name, every link."""

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest

import pypto
import pypto.language as pl
from pypto import lax
from pypto.core.op import Op
from pypto.dtypes import DType
from pypto.errors import CODES
from pypto.numerics import CONTRACT

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
ROW = re.compile(r"^\| (.+?) \| (.+) \|$", re.MULTILINE)


def text_of(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def prose(page: Path) -> str:
    """A page without its code blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchor(heading: str) -> str:
    """What a link calls a heading: lower case, without punctuation, words joined by hyphens."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_every_error_code_has_its_lesson_and_every_lesson_a_code_in_the_order_of_the_table():
    assert re.findall(r"^## (PL\d{3})$", text_of("errors.md"), re.MULTILINE) == list(CODES)


# These have no example that a page could run.
WITHOUT_EXAMPLE = ("PL701", "PL901")


@pytest.mark.parametrize("code", [code for code in CODES if code not in WITHOUT_EXAMPLE])
def test_a_lesson_shows_its_error(code):
    lesson = text_of("errors.md").split(f"## {code}\n")[1].split("\n## ")[0]
    shown = re.findall(r"^```text\n(PL\d{3}):", lesson, re.MULTILINE)
    assert code in shown


def test_the_contract_on_the_page_is_the_contract(pytestconfig):
    page = ROOT / "docs" / "numerics.md"
    table = "".join(f"| {subject} | {rule} |\n" for subject, rule in CONTRACT.items())
    before, shown, after = re.split(r"(?<=\| subject \| rule \|\n\|---\|---\|\n)((?:\|.*\n)*)", page.read_text(), maxsplit=1)
    if pytestconfig.getoption("--update-golden"):
        page.write_text(before + table + after)
        shown = table
    assert shown == table


def test_every_slot_of_an_op_is_explained():
    table = text_of("adding-an-op.md").split("## The slots")[1].split("\n## ")[0]
    explained = [name for cell, _ in ROW.findall(table) for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(explained) == sorted(field.name for field in fields(Op))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings_that_exist(page):
    for target in LINK.findall(prose(page)):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, fragment = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name} links to {target}"
        if fragment:
            assert fragment in map(anchor, HEADING.findall(file.read_text())), f"{page.name} links to {target}"


def test_the_readme_leads_to_every_page():
    linked = {(ROOT / target.partition("#")[0]).resolve() for target in LINK.findall(prose(ROOT / "README.md"))}
    assert {page.resolve() for page in (ROOT / "docs").glob("*.md")} <= linked


def public(module: object) -> list[tuple[str, object]]:
    """The functions, classes and ops of a namespace that are its own; dtypes and modules say enough by their names."""
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    things = [(name, getattr(module, name)) for name in names]
    return [(n, t) for n, t in things if (callable(t) or isinstance(t, Op)) and not isinstance(t, DType) and not inspect.ismodule(t)]


@pytest.mark.parametrize(
    ("name", "thing"),
    [
        pytest.param(f"{space}.{name}", thing, id=f"{space}.{name}")
        for space, module in (("pypto", pypto), ("lax", lax), ("pl", pl), ("pl.tensor", pl.tensor), ("pl.tile", pl.tile))
        for name, thing in public(module)
    ],
)
def test_a_public_name_has_a_docstring(name, thing):
    text = inspect.getdoc(thing) or ""
    assert len(text.split()) >= 3, f"{name} says only {text!r}"
