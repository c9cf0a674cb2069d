"""What a kernel body may not contain: each refusal has its code, points at the construct, and says what to write."""

from __future__ import annotations

import linecache
from typing import Any

import pytest

from pypto.errors import BodyError
from pypto.language.rewrite import rewrite
from tests.toy_runtime import function


def refused(code: str, source: str) -> BodyError:
    with pytest.raises(BodyError) as caught:
        rewrite(function(source))
    assert caught.value.code == code
    assert caught.value.fix
    return caught.value


@pytest.mark.parametrize(
    ("code", "body", "marked"),
    [
        ("PL101", "for i in x:\n        pass\n    else:\n        y = 1", "y = 1"),
        ("PL101", "def f(): pass", "def f(): pass"),
        ("PL101", "class C: pass", "class C: pass"),
        ("PL101", "try:\n        y = 1\n    finally:\n        pass", "try:"),
        ("PL101", "raise ValueError", "raise ValueError"),
        ("PL101", "import math", "import math"),
        ("PL101", "from math import pi", "from math import pi"),
        ("PL101", "global g", "global g"),
        ("PL101", "del x", "del x"),
        ("PL101", "match x:\n        case 1:\n            pass", "match x:"),
        ("PL102", "x.y = 1", "x.y"),
        ("PL102", "x.y += 1", "x.y"),
        ("PL102", "for i, j in x:\n        pass", "i, j"),
        ("PL102", "for i, (a, a) in x:\n        pass", "a"),
        ("PL102", "for x[0] in x:\n        pass", "x[0]"),
        ("PL102", "with x as (a, b):\n        pass", "(a, b)"),
        ("PL102", "_pypto_rt = 1", "_pypto_rt"),
        ("PL107", "for i in x:\n        return i", "return i"),
        ("PL107", "return x\n    y = 1", "return x"),
        ("PL107", "if x:\n        return x", "if x:"),
        ("PL107", "if x:\n        if x:\n            return 1\n    x = 2\n    return x", "return 1"),
        ("PL107", "if x:\n        return 1\n    else:\n        return 2\n    x = 3", "x = 3"),
        ("PL108", "y = (z := x)", "z := x"),
        ("PL108", "y = yield x", "yield x"),
        ("PL108", "f(key=lambda: 1)", "lambda: 1"),
        ("PL108", "a, *b = x", "*b"),
    ],
)
def test_what_a_body_may_not_contain(code: str, body: str, marked: str):
    error = refused(code, f"def kernel(x):\n    {body}\n")
    assert error.source is not None
    span = slice(error.source.column, error.source.end_column or None)
    assert error.source.text[span] == marked


def test_parameter_lists_have_a_fixed_length():
    assert "`*rest`" in refused("PL102", "def kernel(x, *rest):\n    pass\n").message
    assert "`**more`" in refused("PL102", "def kernel(x, **more):\n    pass\n").message


def test_async_kernels_and_lambdas_are_refused():
    refused("PL101", "async def kernel(x):\n    pass\n")
    refused("PL109", "kernel = lambda x: x\n")


def test_unreadable_or_changed_source_is_refused():
    names: dict[str, Any] = {}
    exec("def kernel(x):\n    return x\n", names)
    with pytest.raises(BodyError) as caught:
        rewrite(names["kernel"])
    assert caught.value.code == "PL109"
    fn = function("def kernel(x):\n    return x\n", file="<changed>")
    linecache.cache["<changed>"] = (1, None, ["def other(x):\n", "    return x\n"], "<changed>")
    with pytest.raises(BodyError, match="no longer the function"):
        rewrite(fn)


def test_a_body_nested_beyond_what_python_compiles_is_refused():
    arms = "".join(f"    {'el' if i else ''}if x == {i}:\n        y = {i}\n" for i in range(2000))
    assert "nests too deeply" in refused("PL101", f"def kernel(x):\n{arms}    return x\n").message
