"""The package is in layers that import downwards only, is light to import, and has files one can read."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "pypto"

# From the bottom up. Names on one line may not import each other; inside one package everything goes.
LAYERS = [
    ["source", "version"],
    ["errors"],
    ["logs", "noted", "hifloat"],
    ["dtypes"],
    ["numerics"],
    ["platform"],
    ["tree"],
    ["config", "captures"],
    ["core"],
    ["interpreters"],
    ["tile"],
    ["lax"],
    ["random"],
    ["stages"],
    ["api"],
    ["language"],
    ["testing"],
    ["runtime"],
    ["backend", "ir", "tools"],
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
# They only re-export. The namespace of the language also loads the run surface, which gives kernels their `compile`.
EXEMPT = {"__init__.py", "__main__.py", "language/__init__.py"}

LINE_LIMIT = 400
LONG_FILES: set[str] = set()  # files that may pass the limit for now, as "pypto/core/ir.py"

FILES = sorted(PACKAGE.rglob("*.py"))


def relative(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


def imported_modules(file: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything a file imports, at any depth of nesting."""
    package = ["pypto", *file.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            if origin == "pypto":  # `from pypto import lax` imports pypto.lax; a public name needs the whole package
                yield from ((node.lineno, f"pypto.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, origin
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("import_module", "__import__"):
                yield node.lineno, node.args[0].value


def own_layer(file: Path) -> str:
    return relative(file).split("/")[0].removesuffix(".py")


def upward(file: Path) -> Iterator[str]:
    here = own_layer(file)
    for line, name in imported_modules(file):
        if name.split(".")[0] != "pypto":
            continue
        there = name.removeprefix("pypto").removeprefix(".").split(".")[0]
        if there == here:
            continue
        if there not in RANK:
            yield f"{relative(file)}:{line} imports {name}, which is in no layer (the package itself re-exports from all of them)"
        elif RANK[there] >= RANK[here]:
            yield f"{relative(file)}:{line} imports {name}, which is not below {here}"


def test_every_file_is_in_a_layer():
    unknown = sorted({own_layer(file) for file in FILES if relative(file) not in EXEMPT} - set(RANK))
    assert not unknown, f"give {unknown} a place in LAYERS"


def test_imports_go_downwards_only():
    found = [text for file in FILES if relative(file) not in EXEMPT and own_layer(file) in RANK for text in upward(file)]
    assert not found, "\n".join(["imports that do not go downwards:", *found])


def test_the_check_sees_every_way_to_import(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    (tmp_path / "core").mkdir()
    file = tmp_path / "core" / "ir.py"
    file.write_text(
        "import pypto.lax\nfrom pypto import jit\nfrom ..api import x\nfrom .. import tile\n"
        "from . import op\nfrom pypto.dtypes import FP32\n"
        "def f():\n    import pypto.runtime.launch\n    import_module('pypto.tools')\n    import numpy\n"
    )
    assert [text.split()[0] for text in upward(file)] == [f"core/ir.py:{line}" for line in (1, 2, 3, 4, 8, 9)]


def test_jax_is_named_by_the_goldens_only_and_torch_by_nobody():
    found = [
        f"{relative(file)}:{line} imports {name}"
        for file in FILES
        for line, name in imported_modules(file)
        if name.split(".")[0] in ("jax", "jaxlib", "torch", "pytest", "hypothesis") and relative(file) != "testing/goldens.py"
    ]
    assert not found, "\n".join(found)


# bytecode is kept, as it is for users: the first import would compile every file
DROPPED = ("PYTHONPATH", "PYTHONWARNINGS", "PYTHONDONTWRITEBYTECODE")


def run(program: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in DROPPED}
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("module", ["pypto", "pypto.testing"])
def test_import_loads_no_golden_and_no_test_library(module):
    assert run(f"import sys, {module}; print(*sorted({{'jax', 'jaxlib', 'torch', 'pytest'}} & set(sys.modules)))") == "\n"


def test_no_file_is_too_long():
    others = [file for folder in ("tests", "docs", "benchmarks") for file in (ROOT / folder).rglob("*.py")]
    lengths = {file.relative_to(ROOT).as_posix(): len(file.read_text().splitlines()) for file in (*FILES, *others)}
    found = [f"{name} has {length} lines" for name, length in lengths.items() if length > LINE_LIMIT and name not in LONG_FILES]
    assert not found, "\n".join([f"files longer than {LINE_LIMIT} lines are asking for a second room:", *found])
    assert {name for name in LONG_FILES if lengths.get(name, 0) <= LINE_LIMIT} == set(), "LONG_FILES names files that are short by now"


def does_nothing(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(statement, (ast.Pass, ast.Continue)) or isinstance(value, ast.Constant)


def swallowed(tree: ast.AST) -> Iterator[int]:
    """Lines of the handlers that catch everything and do nothing."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            broad = node.type is None or (isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException"))
            idle = all(
                isinstance(statement, (ast.Pass, ast.Continue))
                or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
                for statement in node.body
            )
            if broad and idle:
                yield node.lineno


def test_no_exception_is_swallowed():
    assert list(swallowed(ast.parse("try:\n    f()\nexcept Exception:\n    pass"))) == [3]
    found = [f"{relative(file)}:{line}" for file in FILES for line in swallowed(ast.parse(file.read_text()))]
    assert not found, "\n".join(["handlers that catch everything and do nothing:", *found])


def test_every_module_opens_with_a_sentence():
    found = [relative(file) for file in FILES if file.read_text().strip() and not ast.get_docstring(ast.parse(file.read_text()))]
    assert not found, "\n".join(["modules without a docstring:", *found])
