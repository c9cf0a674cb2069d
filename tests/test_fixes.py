"""What errors say to write exists."""

import ast
import importlib
import re
from pathlib import Path

import pytest

import pypto

FIXES = [
    (path, part.value)
    for path in sorted(Path(pypto.__file__).parent.rglob("*.py"))
    for node in ast.walk(ast.parse(path.read_text()))
    if isinstance(node, ast.keyword) and node.arg == "fix"
    for part in ast.walk(node.value)
    if isinstance(part, ast.Constant) and isinstance(part.value, str)
]
NAMES = sorted({name for _, text in FIXES for name in re.findall(r"\bpypto\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)", text)})


def found(name):
    value = pypto
    for part in name.split("."):
        value = getattr(value, part, None) or importlib.import_module(f"{value.__name__}.{part}")
    return value


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_the_package_that_a_fix_mentions_is_there(name):
    assert found(name) is not None


def test_fixes_mention_names():
    assert {"vmap", "vjp"} <= set(NAMES)
