"""What loops carry, branches merge and scopes let out, and that finding out is linear."""

from __future__ import annotations

import ast
import textwrap

import pytest

from pypto.language.liveness import Liveness, reads


def analyse(source: str) -> Liveness:
    return Liveness(ast.parse(textwrap.dedent(source)).body)


def loops(source: str) -> list[tuple]:
    """(target, state, carried, stale_inits) of each loop, in source order."""
    found = sorted(analyse(source).loops.items(), key=lambda item: item[0].lineno)
    return [(names.target, names.state, names.carried, names.stale_inits) for _, names in found]


def branch(source: str) -> tuple:
    (names,) = analyse(source).branches.values()
    return names.merged, names.stored, names.passed


@pytest.mark.parametrize(
    ("body", "after", "carried"),
    [
        ("a = a + i", "", ("a",)),  # the back edge
        ("a = i", "", ()),
        ("a = i", "use(a)", ("a",)),
        ("a = i; use(a)", "", ()),
        ("use(a); a = i", "", ("a",)),
        ("a += 1", "", ("a",)),
        ("a[i] = 1", "use(a)", ()),  # a store into a value, not to a name
        ("t = [a for a in x]; use(t)", "use(a)", ()),
        ("t = [a for b in a]; a = t", "", ("a",)),
        ("pass", "use(i)", ("i",)),
        ("i = 3", "", ()),
        ("a, (b, x[0]) = f()", "use(b)", ("b",)),
        ("m: T = 1", "use(m)", ("m",)),
        ("m: T", "use(m)", ()),
    ],
)
def test_carried_names(body: str, after: str, carried: tuple[str, ...]):
    assert loops(f"for i in r:\n    {body}\n{after}\n") == [("i", (), carried, ())]


def test_a_conditional_store_does_not_end_the_life_of_a_name():
    source = """
    for i in r:
        if i:
            a = i
        use(a)
    """
    assert loops(source) == [("i", (), ("a",), ())]
    both = source.replace("        use(a)", "        else:\n            a = 2\n        use(a)")
    assert loops(both) == [("i", (), (), ())]


def test_names_reused_in_sibling_loops_are_not_carried():
    source = """
    for i in r:
        t = f(i); s = t
    for i in r:
        t = g(i); use(t)
    """
    assert loops(source) == [("i", (), (), ()), ("i", (), (), ())]


def test_a_name_carried_by_an_outer_loop_only():
    source = """
    for i in r:
        for j in r:
            a = f(j)
        use(a)
        for k in r:
            use(b)
        b = a
    """
    assert loops(source) == [("i", (), ("a", "b"), ()), ("j", (), ("a",), ()), ("k", (), (), ())]


def test_state_names_come_from_the_head_and_live_after_the_loop():
    source = """
    for k in r:
        for i, (a, b) in pl.range(n, init_values=(x, y)):
            a = a + b
            c = a
        use(a, b)
    """
    assert loops(source) == [("k", (), (), ()), ("i", ("a", "b"), (), ())]


@pytest.mark.parametrize(
    ("after", "stale"),
    [
        ("use(x)", ("x",)),
        ("use(y, x)", ("x", "y")),
        ("x = 0; use(x)", ()),
        ("x += 1", ("x",)),
        ("if c:\n    use(x)", ("x",)),
        ("for j, (b,) in pl.range(n, init_values=(x,)):\n    pass", ()),  # seeding another loop is what inits are for
        ("", ()),
    ],
)
def test_initial_values_read_after_their_loop(after: str, stale: tuple[str, ...]):
    assert loops(f"for i, (a,) in pl.range(n, init_values=(x, y)):\n    pass\n{after}\n".replace("(a,)", "(a, z)"))[0][3] == stale


def test_initial_values_read_by_the_next_turn_of_an_outer_loop_are_not_stale():
    source = """
    for k in r:
        use(x)
        for i, (a,) in pl.range(n, init_values=(x,)):
            pass
    """
    assert [names[3] for names in loops(source)] == [(), ()]


def test_merged_and_passed_names():
    assert branch("if c:\n    a = 1; t = a\nelse:\n    b = b + 1\nuse(a)\n") == (("a",), ("a", "b", "t"), ("a", "b"))
    assert branch("if c:\n    a = 1\na = 2\nuse(a)\n") == ((), ("a",), ())


def test_escaping_names_and_the_target_of_a_scope():
    analysis = analyse("with s as t:\n    a = t; b = b + 1; c = 1\nuse(a, t)\n")
    (names,) = analysis.scopes.values()
    assert (names.target, names.escaping, names.stored, names.passed) == ("t", ("a", "t"), ("a", "b", "c", "t"), ("a", "b"))


def test_reads_scopes_comprehensions():
    assert reads(ast.parse("[a + b for a in a for c in f(a, d) if c > e]")) == {"a", "b", "f", "d", "e"}
    assert reads(ast.parse("{k: v for k, v in z}, k")) == {"z", "k"}


@pytest.mark.parametrize("depth", [1, 7, 20])
def test_every_statement_is_visited_exactly_twice(depth: int):
    lines = []
    for level in range(depth):
        lines += ["    " * level + f"a = b{level}", "    " * level + f"for i{level} in r:"]
    lines += ["    " * depth + "a = a + 1"]
    tree = ast.parse("\n".join(lines))
    statements = sum(isinstance(node, ast.stmt) for node in ast.walk(tree))
    assert Liveness(tree.body).visits == 2 * statements
