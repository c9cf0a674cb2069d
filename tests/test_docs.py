"""Every Python block of the pages runs and prints what the page says; every docstring example is true.

`pytest tests/test_docs.py --update-golden` writes what the blocks of the pages print now into the pages.
"""

import contextlib
import doctest
import importlib
import io
import itertools
import linecache
import re
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import pypto
from pypto.config import Config
from pypto.errors import PyptoError

pytestmark = pytest.mark.limits

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "language").glob("*.md"))]
MODULES = sorted(
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for file in (ROOT / "pypto").rglob("*.py")
    if file.name != "__main__.py"
)
FENCE = re.compile(r"^(?P<indent> *)```(?P<label>[^`\n]*)\n(?P<body>.*?)^(?P=indent)```[ \t]*$", re.MULTILINE | re.DOTALL)
RAISES = re.compile(r"# raises: (PL\d{3})\b")
OUTPUT = ("text", "console")


@dataclass(frozen=True)
class Block:
    """A Python block: its line in the page, its code, the code of the error it must raise, what it must print, and where that stands."""

    line: int
    code: str
    raises: str | None
    output: str | None
    span: tuple[int, int] = field(default=(0, 0), compare=False)


def blocks_of(page: str) -> list[Block]:
    """The Python blocks of a page. An output block belongs to the Python block that only blank lines separate it from."""
    fences = list(FENCE.finditer(page))
    found = []
    for fence, after in itertools.zip_longest(fences, fences[1:]):
        if fence["label"].strip() != "python":
            continue
        code = _unindented(fence)
        expects = after is not None and after["label"].strip() in OUTPUT and not page[fence.end() : after.start()].strip()
        raises = RAISES.match(code)
        line = page.count("\n", 0, fence.start()) + 2
        output = _unindented(after) if expects and after else None
        found.append(Block(line, code, raises and raises[1], output, after.span("body") if expects and after else (0, 0)))
    return found


def _unindented(fence: re.Match[str]) -> str:
    width = len(fence["indent"])
    return "".join(line[width:] if line[:width].isspace() else line for line in fence["body"].splitlines(keepends=True))


def matches(want: str, got: str) -> bool:
    """Equal but for whitespace at the ends of lines; `...` stands for anything, as in doctest."""
    plain = ["".join(line.rstrip() + "\n" for line in text.rstrip().splitlines()) for text in (want, got)]
    return doctest.OutputChecker().check_output(plain[0], plain[1], doctest.ELLIPSIS)


def run_page(name: str, text: str, folder: Path) -> None:
    """Run a page's blocks and compare what they do with what the page says."""
    for block, raised, printed in outcomes(name, text, folder):
        place = f"{name}:{block.line}"
        assert raised == block.raises, f"{place}: the page says it raises {block.raises}, it raised {raised}\n{printed}"
        if block.output is not None and not matches(block.output, printed):
            pytest.fail(f"{place}: the page says\n{block.output}\nbut it printed\n{printed}", pytrace=False)


def outcomes(name: str, text: str, folder: Path) -> Iterator[tuple[Block, str | None, str]]:
    """Run a page's blocks in order and in one namespace, each from a real file, since kernels read their own source.

    Gives for each block the code of the error it raised, if any, and what it printed.
    """
    module = types.ModuleType(re.sub(r"\W", "_", name))
    sys.modules[module.__name__] = module  # dataclasses and pickling look a class's module up
    try:
        for number, block in enumerate(blocks_of(text), 1):
            file = folder / f"{module.__name__}_{number}.py"
            file.write_text(block.code)
            linecache.checkcache(str(file))
            module.__file__ = str(file)
            printed, raised = io.StringIO(), None
            with contextlib.redirect_stdout(printed):
                try:
                    exec(compile(block.code, str(file), "exec", dont_inherit=True), module.__dict__)
                except PyptoError as error:
                    raised = error.code
                    print(error)
            yield block, raised, printed.getvalue()
    finally:
        del sys.modules[module.__name__]


def updated(name: str, text: str, folder: Path) -> str:
    """The page with what its blocks print now; names of files and addresses become `...`."""
    for block, _, printed in reversed(list(outcomes(name, text, folder))):
        if block.output is not None and not matches(block.output, printed):
            shown = re.sub(r"[^\s(]*_md_\d+\.py|(?<=0x)[0-9a-f]{9,}", "...", printed)
            start, end = block.span
            text = text[:start] + "".join(line.rstrip() + "\n" for line in shown.rstrip().splitlines()) + text[end:]
    return text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_is_true(page, tmp_path, monkeypatch, pytestconfig):
    monkeypatch.chdir(tmp_path)  # errors then name the block's file without a folder
    with pypto.override(check=Config().check, executor=Config().executor):  # what readers get, whatever --executor says
        if pytestconfig.getoption("--update-golden"):
            page.write_text(updated(page.name, page.read_text(), tmp_path))
        run_page(page.name, page.read_text(), tmp_path)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_are_true(name):
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    report = io.StringIO()
    for example in docstrings(module):
        runner.run(example, out=report.write)
    assert runner.summarize(verbose=False).failed == 0, report.getvalue()


def docstrings(module: types.ModuleType) -> list[doctest.DocTest]:
    """What doctest finds, and the docstrings of objects that are neither functions nor classes: operations, for one."""
    found = doctest.DocTestFinder(exclude_empty=True).find(module)
    seen = {test.name for test in found}
    for name, thing in vars(module).items():
        text = getattr(thing, "__doc__", None)
        own = getattr(thing, "__module__", None) == module.__name__ and not isinstance(thing, type)
        if own and isinstance(text, str) and ">>>" in text and text != type(thing).__doc__ and f"{module.__name__}.{name}" not in seen:
            title = f"{module.__name__}.{name}"
            found.append(doctest.DocTestParser().get_doctest(text, dict(vars(module)), title, module.__file__, 0))
    return found


# The checker itself


def page(*blocks: tuple[str, str]) -> str:
    return "\n".join(f"{'words' * (label == 'python')}\n\n```{label}\n{body}\n```\n" for label, body in blocks)


@pytest.mark.parametrize(
    "blocks",
    [
        [("python", "x = 2"), ("python", "print(x)"), ("text", "2")],
        [("python", "print('a  ')\nprint('line', 12)"), ("console", "a\nline ...")],
        [("sh", "exit 1"), ("text", "not an output"), ("python", "print(1)")],
        [
            ("python", "import inspect\ndef f():\n    return 7"),
            ("python", "print(inspect.getsource(f))"),
            ("text", "def f():\n    return 7"),
        ],
        [
            ("python", "# raises: PL308\nfrom pypto.dtypes import FP32\nFP32.pad('most')"),
            ("text", "PL308: ...\n  --> true_md_1.py:3:1\n..."),
        ],
    ],
)
def test_a_true_page_passes(blocks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page("true.md", page(*blocks), tmp_path)


@pytest.mark.parametrize(
    "blocks",
    [
        [("python", "print(1)"), ("text", "2")],
        [("python", "print(1)\nprint(2)"), ("text", "1")],
        [("python", "# raises: PL308\nprint(1)")],
        [("python", "# raises: PL301\nfrom pypto.dtypes import FP32\nFP32.pad('most')")],
        [("python", "from pypto.dtypes import FP32\nFP32.pad('most')")],
    ],
)
def test_a_false_page_fails(blocks, tmp_path):
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run_page("false.md", page(*blocks), tmp_path)


def test_line_numbers_and_indented_blocks_are_found():
    text = "# title\n\n- item\n\n  ```python\n  if True:\n      print(1)\n  ```\n\n  ```text\n  1\n  ```\n"
    assert blocks_of(text) == [Block(6, "if True:\n    print(1)\n", None, "1\n")]


def test_a_page_can_be_brought_up_to_date(tmp_path):
    before = page(("python", "print(__file__)\nprint('new')"), ("text", "old"), ("python", "print('kept: 1')"), ("text", "kept: ..."))
    assert updated("new.md", before, tmp_path) == before.replace("\nold\n", "\n...\nnew\n")
