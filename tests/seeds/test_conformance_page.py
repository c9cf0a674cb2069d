"""docs/conformance.md lists every statement of the coding style and of the FAQ with its test: it is made from their docstrings.

`pytest tests/seeds --update-golden` writes the page.
"""

import ast
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent
PAGE = ROOT / "docs" / "conformance.md"
STATEMENT = re.compile(r"^(?P<part>\d+\. [^:]+|FAQ): (?P<text>.+)$", re.DOTALL)
HEAD = """# Conformance

Every statement of the language's coding style, sections 1 to 8, and every question of its FAQ, each with the test that shows it holds
here. A statement that does not hold as it stands there says how it is here. Made from the tests: `pytest tests/seeds --update-golden`.
"""


def stated() -> list[tuple[str, str, str]]:
    """(file, name, docstring) of every test of the folder, in the order of files and lines."""
    found = []
    for file in sorted(FOLDER.glob("test_*.py")):
        if file.name == Path(__file__).name:
            continue
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                doc = " ".join((ast.get_docstring(node) or "").split())
                if file.name.startswith("test_faq_") and doc and not STATEMENT.match(doc):
                    # named after the question; what is stated is the answer
                    doc = f"FAQ: {node.name.removeprefix('test_').replace('_', ' ').capitalize()}? {doc}"
                found.append((file.name, node.name, doc))
    return found


def page() -> str:
    parts: dict[str, list[str]] = {}
    for file, name, doc in stated():
        match = STATEMENT.match(doc)
        assert match is not None, f"{file}: {name} states nothing"
        text = match["text"].replace("|", "\\|")
        parts.setdefault(match["part"], []).append(f"| {text} | [`{name}`](../tests/seeds/{file}) |")
    order = sorted(parts, key=lambda part: (part == "FAQ", int(part.split(".")[0]) if part != "FAQ" else 0, list(parts).index(part)))
    tables = [f"\n## {part}\n\n| statement | test |\n|---|---|\n" + "\n".join(parts[part]) + "\n" for part in order]
    return HEAD + "".join(tables)


def test_the_page_is_what_the_tests_state(pytestconfig):
    if pytestconfig.getoption("--update-golden"):
        PAGE.write_text(page())
    assert PAGE.read_text() == page()


@pytest.mark.parametrize(("file", "name", "doc"), [pytest.param(*test, id=test[1]) for test in stated()])
def test_every_test_states_something(file, name, doc):
    match = STATEMENT.match(doc)
    assert match is not None and len(match["text"].split()) >= 4, f"{file}: {name}: {doc!r}"


def test_no_two_tests_have_one_name():
    names = [name for _, name, _ in stated()]
    assert len(names) == len(set(names))
