"""The code table is complete and used, and an error shows code, place, line, caret and fix in the right columns."""

import ast
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import pypto.language as pl
from pypto import errors
from pypto.errors import CODES, BodyError, CallError, PyptoError, PyptoWarning, ShapeError, warn
from pypto.source import Source
from tests.refusals import f32, sevens, under_caret, untouched

ROOT = Path(__file__).parent
LIBRARY = Path(errors.__file__).parent
CODE = re.compile(r"PL\d\d\d")
V4 = pl.Tensor[[4], pl.FP32]

FAMILIES = {c.family: c for c in PyptoError.__subclasses__()}

UNTESTED = {
    "PL901": "a broken invariant: tests of the passes and the verifier break one on purpose",
}
"""Codes that no test of a user's mistake can raise, and why."""


def codes_in(folder: Path) -> set[str]:
    """The codes that stand alone in a string of some file of a folder."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
                found.add(node.value)
    return found


def raised_in(folder: Path) -> set[str]:
    """As `codes_in`, leaving the table itself out."""
    table = {node.value for node in ast.walk(_table()) if isinstance(node, ast.Constant)}
    assert set(CODES) <= table
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
                found |= {t for t in texts if CODE.fullmatch(t)}
            if isinstance(node, ast.Tuple) and node.elts and isinstance(node.elts[0], ast.Constant):
                found |= {node.elts[0].value} if CODE.fullmatch(str(node.elts[0].value)) else set()
    return found


def _table() -> ast.AST:
    module = ast.parse(Path(errors.__file__).read_text())
    return next(n for n in module.body if isinstance(n, ast.AnnAssign) and getattr(n.target, "id", "") == "CODES")


def test_every_code_of_the_table_is_raised_by_the_library_and_every_raised_one_is_in_it():
    assert raised_in(LIBRARY) == set(CODES)


def test_every_code_is_asserted_by_a_test_or_listed_with_a_reason():
    assert set(CODES) - codes_in(ROOT) <= set(UNTESTED)
    assert all(reason for reason in UNTESTED.values())


def test_every_error_of_the_library_says_what_to_write_instead():
    without = [
        f"{path.relative_to(LIBRARY)}:{node.lineno}"
        for path in LIBRARY.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Error") and node.args
        if isinstance(node.args[0], ast.Constant) and CODE.fullmatch(str(node.args[0].value)) and node.args[0].value not in UNTESTED
        if not any(k.arg == "fix" and not (isinstance(k.value, ast.Constant) and not k.value.value) for k in node.keywords)
    ]
    assert not without


def test_every_code_belongs_to_a_family_and_every_family_has_codes():
    assert {code[:3] for code in CODES} == set(FAMILIES)


def test_the_table_is_in_order_and_says_one_line_each():
    assert list(CODES) == sorted(CODES)
    assert all(text and "\n" not in text and not text.endswith(".") for text in CODES.values())


def test_a_code_of_another_family_cannot_be_raised():
    with pytest.raises(AssertionError):
        BodyError("PL301", "shapes")
    with pytest.raises(AssertionError):
        ShapeError("PL399", "no such code")
    with pytest.raises(AssertionError):
        warn("PL999", "no such code")


def test_a_call_error_is_a_type_error():
    assert isinstance(CallError("PL601", "message"), TypeError)


# What an error looks like.


@pytest.fixture
def line(tmp_path):
    """A function that writes one line into a file and gives its `Source`."""

    def write(text: str, column: int, end: int) -> Source:
        path = tmp_path / f"file_{len(list(tmp_path.iterdir()))}.py"
        path.write_text(f"first = 1\n{text}\n", encoding="utf-8")
        return Source(str(path), 2, column, end)

    return write


def test_an_error_shows_code_message_place_line_caret_and_fix(line):
    at = line("    out = pl.add(a, b)", 10, 22)
    assert str(BodyError("PL106", "what was found", fix="what to write", at=at)).splitlines() == [
        "PL106: what was found",
        f"  --> {at.file}:2:11",
        " 2 |     out = pl.add(a, b)",
        "   |           ^^^^^^^^^^^^",
        "  fix: what to write",
    ]


CARETS = {
    "ascii": ("x = f(yy)", "f(yy)", "    ^^^^^"),
    "a tab": ("\tx = f(yy)", "f(yy)", "\t    ^^^^^"),
    "tabs inside": ("\t\tx =\tf(yy)", "f(yy)", "\t\t   \t^^^^^"),
    "an accent": ("größe = f(yy)", "f(yy)", "        ^^^^^"),
    "wide characters": ('名 = g("漢字", yy)', "yy", "               ^^"),
    "under wide characters": ('x = "漢字" + y', '"漢字"', "    ^^^^^^"),
}


@pytest.mark.parametrize("name", CARETS)
def test_the_caret_stands_under_the_text_it_is_about(line, name):
    text, about, caret = CARETS[name]
    column = text.index(about)
    snippet = line(text, column, column + len(about)).snippet().splitlines()
    assert snippet[1] == f" 2 | {text}"
    assert snippet[2] == f"   | {caret}"


def test_without_an_end_the_caret_goes_to_the_end_of_the_line(line):
    assert line("x = [1,   ", 4, 0).snippet().splitlines()[2] == "   |     ^^^"


def test_a_file_that_is_gone_leaves_the_place():
    text = str(BodyError("PL106", "message", fix="fix", at=Source("/nowhere/kernel.py", 12, 4)))
    assert text.splitlines() == ["PL106: message", "  --> /nowhere/kernel.py:12:5", "  fix: fix"]


@pl.jit
def names_with_accents(größe: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = größe
        out[0:2] = pl.add(größe[0:2], größe[2:9])  # refused


# fmt: off
@pl.jit
def indented_with_tabs(x: V4, out: pl.Out[V4]):
	with pl.at(level=pl.Level.CORE_GROUP):
		out[:] = x
		out[0:2] =	x[2:9]  # refused
# fmt: on


@pl.jit
def over_several_lines(x: V4, out: pl.Out[V4]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(  # refused
            x,
            x[0:2],
        )


def test_columns_of_a_line_with_accents_are_characters():
    error = untouched("PL303", names_with_accents, f32(1, 2, 3, 4), sevens(4), at="größe[2:9]")
    shown, carets = str(error).splitlines()[2:4]
    assert carets.index("^") == shown.index("größe[2:9]")
    assert carets.count("^") == len("größe[2:9]")


def test_columns_of_a_line_with_tabs_are_characters():
    error = untouched("PL303", indented_with_tabs, f32(1, 2, 3, 4), sevens(4), at="x[2:9]")
    shown, carets = str(error).splitlines()[2:4]
    assert carets.index("^") == shown.index("x[2:9]")
    assert carets[: carets.index("^")].count("\t") == 3


def test_an_expression_over_several_lines_is_shown_by_its_first():
    error = untouched("PL301", over_several_lines, f32(1, 2, 3, 4), sevens(4), at="pl.add(")
    assert under_caret(error) == "pl.add("


def test_an_error_at_run_time_shows_the_same_place_as_one_at_trace_time():
    @pl.jit
    def reads_at(x: V4, i: pl.Scalar[pl.INT32], out: pl.Out[V4]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x
            out[0] = pl.read(x, [i])  # refused

    error = untouched("PL303", reads_at, f32(1, 2, 3, 4), 4, sevens(4), at="pl.read(x, [i])")
    assert error.source is not None and Path(error.source.file) == Path(__file__)


# Warnings have the same form.


def test_a_warning_has_the_form_of_an_error_and_the_place_of_the_users_line(line):
    at = line("    total = 0", 4, 9)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn("PL208", "what was found", fix="what to write", at=at)
    assert str(caught[0].message) == str(BodyError("PL106", "what was found", fix="what to write", at=at)).replace("PL106", "PL208")
    assert (caught[0].category, caught[0].filename, caught[0].lineno) == (PyptoWarning, at.file, 2)


def test_a_warning_can_be_made_an_error_that_changes_nothing():
    @pl.jit
    def writes_a_part(x: V4, out: pl.Out[V4]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[0:2] = x[0:2]

    out = sevens(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PyptoWarning)
        with pytest.raises(PyptoWarning, match="PL204"):
            writes_a_part(f32(1, 2, 3, 4), out)
    assert np.array_equal(out, sevens(4))
