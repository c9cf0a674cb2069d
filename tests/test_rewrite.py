"""Rewritten bodies mean what the source means, point where the source points, and refuse the rest."""

from __future__ import annotations

import sys
import traceback
from types import FunctionType
from typing import Any

import pytest

from pypto.language.rewrite import RUNTIME, rewrite
from pypto.source import Frame
from tests.toy_runtime import Poison, ToyRuntime, Unset, agree, function, run

TILE = 5


# Meaning, one fact at a time.


def test_a_rebound_name_is_carried_through_a_loop():
    assert agree("def kernel(x):\n    for i in pl.range(4, 0, -1):\n        x = x + i\n    return x\n", 0) == 10


def test_a_loop_that_never_runs_leaves_names_alone():
    assert agree("def kernel(x):\n    for i in pl.range(0):\n        x = x + 1\n    return x\n", 7) == 7


def test_the_index_of_a_loop_is_visible_after_it():
    assert agree("def kernel():\n    i = 9\n    for i in pl.range(3):\n        pass\n    return i\n") == 2
    assert agree("def kernel():\n    i = 9\n    for i in pl.range(0):\n        pass\n    return i\n") == 9


def test_state_names_are_the_results_of_their_loop():
    source = """def kernel(x, y):
    for i, (a, b) in pl.range(3, init_values=(x, y)):
        a = a + b
        b = b + i
    return a, b
"""
    assert run(source, 1, 10) == (1 + 10 + 10 + 11, 10 + 0 + 1 + 2)


def test_yield_decides_what_the_next_iteration_starts_from():
    source = """def kernel():
    for i, (a, b) in pl.range(4, init_values=(0, 1)):
        u, v = pl.yield_(b, a + b)
    return u, v
"""
    assert agree(source) == (3, 5)


def test_swaps_and_nested_tuples_are_taken_apart_before_anything_is_stored():
    source = """def kernel(x):
    p, (q, x[0]), r = 1, (2, 3), 4
    p, q = q, p
    a = b, c = p, r
    return p, q, r, x, a, b, c
"""
    assert agree(source, [0]) == (2, 1, 4, [3], (2, 4), 2, 4)


def test_augmented_assignment_rebinds_and_never_mutates():
    runtime = ToyRuntime()
    first = [1]
    assert run("def kernel(x):\n    y = x\n    y += [2]\n    return y\n", first, runtime=runtime) == [1, 2]
    assert first == [1]
    assert [call for call in runtime.calls if call[0] == "assign"] == [("assign", "y"), ("assign", "y")]


def test_an_augmented_subscript_evaluates_its_parts_once():
    source = """def kernel(x, seen):
    x[seen.append("i") or 0] += 5
    x[seen.append("low") or 0 : 2, ...] += 1
    return seen
"""

    class Cells(dict):
        def __getitem__(self, index: Any) -> Any:
            return self.get(str(index), 1)

        def __setitem__(self, index: Any, value: Any) -> None:
            super().__setitem__(str(index), value)

    cells = Cells()
    assert run(source, cells, []) == ["i", "low"]
    assert dict(cells) == {"0": 6, "(slice(0, 2, None), Ellipsis)": 2}


def test_logic_is_lazy_and_gives_operands_and_chains_evaluate_each_once():
    source = """def kernel(f):
    a = f(0) or f(2) or f(3)
    b = f(1) and f(0) and f(4)
    c = f(1) < f(2) < f(1) < f(9)
    d = f(5) if not f(0) else f(6)
    return [a, b, c, d, [v for v in (1, 2, 3) if v > 1 and not v == 3], f"{a and b}"]
"""
    calls: list[list[int]] = [[], []]

    def recorder(which: int):
        return lambda value: calls[which].append(value) or value

    plain = function(source, pl=None)(recorder(0))
    assert run(source, recorder(1)) == plain == [2, 0, False, 5, [2], "0"]
    assert calls[0] == calls[1]


def test_a_name_set_on_one_path_only_is_merged_as_poison():
    source = "def kernel(c):\n    if c:\n        t = 1\n    return t\n"
    assert run(source, True) == 1
    assert isinstance(run(source, False), Poison)
    with pytest.raises(Unset):
        run("def kernel(c):\n    if c:\n        t = 1\n    return t + 1\n", False)


def test_an_unset_local_is_never_taken_from_a_global_of_the_same_name():
    source = "def kernel(c):\n    y = t\n    if c:\n        t = 1\n        y = t\n    return y\n"
    with pytest.raises(NameError):
        run(source, False, t="the global")


def test_comprehension_variables_are_not_names_of_the_body():
    runtime = ToyRuntime()
    source = "def kernel():\n    t = 7\n    for i in pl.range(2):\n        s = [t * 2 for t in (1, 2)]\n    return t\n"
    assert run(source, runtime=runtime) == 7
    assert ("for", "i", (), (), ()) in runtime.calls


def test_annotations_are_handed_over_unevaluated_and_bare_ones_dropped():
    runtime = ToyRuntime()
    source = "def kernel(x):\n    m: T and 1 = x\n    n: nothing\n    x[0]: nothing = 3\n    return m\n"
    assert run(source, [5], runtime=runtime, T=0) == [3]
    assert runtime.calls == [("annotate", "m", 0), ("assign", "m"), ("return",)]


def test_scopes_bind_their_target_and_let_names_out():
    source = """def kernel(x):
    with pl.at("one") as first, pl.at("two") as second:
        x = (x, first)
        y = second
    return x, y, first
"""
    assert agree(source, 1) == ((1, "one"), "two", "one")


@pytest.mark.parametrize("x", [-2, 0, 1, 3])
def test_early_returns_in_branches_and_scopes(x: int):
    source = """def kernel(x):
    with pl.at():
        if x < 0:
            return "negative"
        if x == 0:
            return "zero"
        elif x == 1:
            y = "one"
        else:
            return "many"
        y = y + "!"
        return y
"""
    assert agree(source, x) == {-2: "negative", 0: "zero", 1: "one!", 3: "many"}[x]


def test_a_bare_return_guards_the_rest():
    source = "def kernel(x, c):\n    if c:\n        return\n    x[0] = 1\n"
    for flag, left in ((True, 0), (False, 1)):
        cells = [0]
        assert run(source, cells, flag) is None
        assert cells == [left]


def test_the_original_defaults_globals_and_cells_are_used():
    def factory():
        size, marker = 3, object()

        def kernel(x, /, y=marker, *, z=marker):
            return x + size + TILE, y is marker and z is marker

        def grow():
            nonlocal size
            size = 100

        return kernel, grow

    kernel, grow = factory()
    assert isinstance(kernel, FunctionType)
    staged = rewrite(kernel)
    assert staged.parameters == ("x", "y", "z")
    assert staged.function.__code__.co_varnames[0] == RUNTIME
    assert staged.function.__globals__ is kernel.__globals__
    assert staged.function(ToyRuntime(), 1) == (9, True)
    grow()
    assert staged.function(ToyRuntime(), 1) == (106, True)


class Holder:
    _Holder__secret = 4

    @staticmethod
    def method(self_like: Any, text: str) -> str:
        """A docstring."""
        words = f"""{text}
    kept as written: {self_like.__secret}"""
        return words


def test_methods_keep_private_names_and_multi_line_strings():
    assert rewrite(Holder.method).function(ToyRuntime(), Holder(), "a") == "a\n    kept as written: 4"


def test_decorators_are_removed():
    source = """def twice(*_, key=None):
    return lambda fn: fn

@twice(
    key=lambda x: x,
)
@twice()
def kernel(x): return x + 1
"""
    staged = rewrite(function(source))
    assert staged.function(ToyRuntime(), 1) == 2
    assert (staged.source.line, staged.source.column) == (8, 0)


def test_carets_point_at_the_expression_inside_nested_blocks():
    source = """def kernel(x):
    é = 1
    for i in pl.range(2):
        if i:
            with pl.at():
                y = é + (x / (i - 1)) + 2
    return y
"""
    with pytest.raises(ZeroDivisionError) as caught:
        run(source, 1)
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__) if frame.f_code.co_filename == "<kernel>"]
    lasti = [entry.tb_lasti for entry in _entries(caught.value.__traceback__) if entry.tb_frame is frames[-1]]
    place = Frame(frames[-1].f_code, lasti[0]).resolve()
    assert place.line == 6
    assert place.text[place.column : place.end_column] == "x / (i - 1)"


def _entries(entry: Any) -> list[Any]:
    return [] if entry is None else [entry, *_entries(entry.tb_next)]


@pytest.mark.parametrize(
    ("method", "line", "span"),
    [
        ("for_", 2, "pl.range(3)"),
        ("if_", 3, "i < x"),
        ("with_", 5, "pl.at()"),
        ("assign", 4, "y = x"),
        ("and_", 6, "x and y"),
        ("return_", 7, "return z"),
    ],
)
def test_protocol_calls_carry_the_place_of_what_they_stand_for(method: str, line: int, span: str):
    source = """def kernel(x):
    for i in pl.range(3):
        if i < x:
            y = x
    with pl.at():
        z = [x and y]
    return z
"""
    places = []

    class Watching(ToyRuntime):
        pass

    def watch(self: ToyRuntime, *arguments: Any) -> Any:
        frame = sys._getframe(1)
        places.append(Frame(frame.f_code, frame.f_lasti).resolve())
        return getattr(ToyRuntime, method)(self, *arguments)

    setattr(Watching, method, watch)
    run(source, 1, runtime=Watching())
    assert (places[0].line, places[0].text[places[0].column : places[0].end_column]) == (line, span)


# Cost.


def test_the_rewritten_code_grows_linearly_with_the_body():
    def size(statements: int) -> int:
        group = "    t = x + 1\n    for i in pl.range(2):\n        if i < t:\n            x = x + t\n        u = x and t\n"
        code = rewrite(function("def kernel(x):\n" + group * (statements // 5) + "    return x\n")).function.__code__

        def count(c: Any) -> int:
            return len(c.co_code) + sum(count(inner) for inner in c.co_consts if hasattr(inner, "co_code"))

        return count(code)

    assert size(3000) < 11 * size(300)


@pytest.mark.parametrize("depth", [7, 20])
def test_deep_nests_rewrite_and_run(depth: int):
    lines = ["def kernel(x):"]
    for level in range(depth):
        pad = "    " * (level + 1)
        lines.append(f"{pad}for i{level} in pl.range(1):" if level < 15 else f"{pad}if x >= 0:")
    lines += ["    " * (depth + 1) + "x = x + 1", "    return x"]
    assert agree("\n".join(lines) + "\n", 1) == 2
