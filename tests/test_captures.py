"""A changed captured value changes the snapshot; an unchanged one does not, and the difference can be named."""

from __future__ import annotations

import array
import enum
import functools
import math
import types
from collections import namedtuple
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from pypto.captures import captures, chains
from pypto.errors import BodyError
from pypto.language.rewrite import rewrite
from tests.toy_runtime import function


def kernel_of(body: str, **names: Any) -> tuple[Any, dict[str, Any]]:
    """A guard of `kernel`, whose body is one expression, and the globals it reads."""
    fn = function(f"def kernel():\n    return {body}\n", file="<captured>", **names)
    return captures(fn), fn.__globals__


def changes(body: str, before: dict[str, Any], after: dict[str, Any]) -> str:
    """What `explain` says after the globals change; empty if the snapshot did not."""
    guard, names = kernel_of(body, **before)
    old = guard.snapshot()
    assert guard.snapshot() == old
    assert hash(guard.snapshot()) == hash(old)
    names.update(after)
    new = guard.snapshot()
    text = guard.explain(old, new)
    assert (old == new) == (text == "")
    return text


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass
class Config:
    tile: int = 16
    names: list[str] = field(default_factory=list)

    def rows(self) -> int:
        return self.tile * 2


class Box:
    shared = 1

    def __init__(self, size: int) -> None:
        self.size = size

    def area(self) -> int:
        return self.size * self.shared


class Slotted:
    __slots__ = ("__hidden",)

    def __init__(self, hidden: int) -> None:
        self.__hidden = hidden

    def change(self, hidden: int) -> None:
        self.__hidden = hidden


Pair = namedtuple("Pair", "low high")


def test_chains_are_read_from_bytecode_with_their_attributes():
    cell = types.SimpleNamespace(a=1)

    def kernel():
        first = math.pi + cell.a
        return [getattr(Color, "RED").value + k + TILE + first for k in range(3)]  # noqa: B009

    assert set(chains(kernel.__code__)) >= {("global", "math", "pi"), ("deref", "cell", "a"), ("global", "TILE"), ("global", "range")}
    assert ("global", "Color", "RED") in chains(kernel.__code__)


TILE = 4


def test_a_local_cell_is_not_a_capture():
    def kernel():
        inside = 3
        return [(lambda: inside + k)() for k in (1, 2)]

    assert chains(kernel.__code__) == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (1, 2),
        (1, 1.0),
        (1, True),
        (0.0, -0.0),
        (0, 0.0),
        (1j, complex(-0.0, 1)),
        ("a", b"a"),
        (None, 0),
        (Color.RED, Color.BLUE),
        ((1, 2), [1, 2]),
        ([1, 2], [1, 3]),
        ([1], [True]),
        ({"a": 1}, {"a": 2}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({1}, {2}),
        (Pair(1, 2), Pair(1, 3)),
        (Pair(1, 2), (1, 2)),
        (Config(1), Config(2)),
        (np.float32(1), np.float64(1)),
        (np.dtype("f4"), np.dtype("f8")),
        (slice(1), slice(2)),
        (range(3), range(4)),
        (len, max),
        (int, float),
        (bytearray(b"a"), bytearray(b"b")),
        (array.array("f", [1]), array.array("f", [2])),
        (array.array("i", [1]), array.array("I", [1])),
        (memoryview(b"a"), memoryview(b"b")),
        (memoryview(b"abcd"), memoryview(b"abcd").cast("i")),
        (functools.partial(max, 1), functools.partial(max, 2)),
        (types.SimpleNamespace(a=1), types.SimpleNamespace(a=2)),
    ],
)
def test_values_that_differ_have_different_keys(before: Any, after: Any):
    text = changes("VALUE", {"VALUE": before}, {"VALUE": after})
    assert text.startswith("`VALUE")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (10**20, 10**20 + 0),
        (math.nan, float("nan")),
        ([1, [2]], [1, [2]]),
        ({"a": (1, 2)}, {"a": (1, 2)}),
        (Config(3), Config(3)),
        (Pair(1, 2), Pair(1, 2)),
        ({3, 1}, {1, 3}),
        (np.float32(1), np.float32(1)),
        (array.array("f", [1, 2]), array.array("f", [1, 2])),
        (memoryview(b"ab"), memoryview(bytearray(b"ab"))),
        (types.SimpleNamespace(a=1), types.SimpleNamespace(a=1)),
        (functools.partial(max, 1), functools.partial(max, 1)),
    ],
)
def test_equal_values_have_equal_keys(before: Any, after: Any):
    assert changes("VALUE", {"VALUE": before}, {"VALUE": after}) == ""


def test_changes_in_place_are_seen():
    values: list[Any] = [1]
    values.append(values)
    config, box, slotted, packed = Config(), Box(3), Slotted(1), array.array("f", [1, 2])
    for body, change in [
        ("V[0]", lambda: values.__setitem__(0, 2)),
        ("V.tile", lambda: setattr(config, "tile", 17)),
        ("f(V)", lambda: config.names.append("n")),
        ("V.size", lambda: setattr(box, "size", 4)),
        ("V.area()", lambda: setattr(box, "size", 5)),
        ("getattr(V, V2)", lambda: setattr(box, "size", 6)),
        ("V", lambda: slotted.change(2)),
        ("P", lambda: packed.__setitem__(0, 3)),
        ("W", lambda: packed.__setitem__(0, 4)),
    ]:
        value = values if "[" in body else config if body in ("V.tile", "f(V)") else slotted if body == "V" else box
        guard, _ = kernel_of(body, V=value, V2="size", f=len, P=packed, W=memoryview(packed))
        old = guard.snapshot()
        assert guard.snapshot() == old, body
        change()
        assert guard.explain(old, guard.snapshot()), body


def test_only_the_attributes_that_are_read_matter():
    config = Config()
    guard, _ = kernel_of("cfg.tile", cfg=config)
    old = guard.snapshot()
    config.names.append("unread")
    assert guard.snapshot() == old


def test_an_unset_global_is_a_value_of_its_own():
    assert "changed from unset to 1" in changes("VALUE", {}, {"VALUE": 1})


def test_what_helpers_read_is_followed_through_calls_defaults_and_cycles():
    source = """
def outer(n, k=[1]):
    return inner(n) + k[0]

def inner(n):
    return outer(n - 1) if n else DEEP

def kernel():
    return outer(3)
"""
    fn = function(source, file="<helpers>", DEEP=1)
    guard, names = captures(fn), fn.__globals__
    old = guard.snapshot()
    assert guard.snapshot() == old
    names["DEEP"] = 2
    middle = guard.snapshot()
    assert guard.explain(old, middle) == "`DEEP (read by inner (read by outer))` changed from 1 to 2"
    names["outer"].__defaults__[0][0] = 5
    assert "changed from 1 to 5" in guard.explain(middle, guard.snapshot())


def test_wrapped_and_bound_and_cached_helpers_are_followed():
    source = """
import functools
def plain(n):
    return n + DEEP
cached = functools.lru_cache(plain)
@functools.wraps(plain)
def decorated(n):
    return plain(n)
bound = functools.partial(plain, 1)
table = {"f": plain}
"""
    for name in ("cached", "decorated", "bound", "table"):
        fn = function(source + f"def kernel():\n    return {name}\n", file="<wrapped>", DEEP=1)
        guard = captures(fn)
        old = guard.snapshot()
        fn.__globals__["DEEP"] = 2
        assert "changed from 1 to 2" in guard.explain(old, guard.snapshot()), name


def test_a_class_of_the_user_stands_for_what_its_methods_read(monkeypatch: pytest.MonkeyPatch):
    guard, _ = kernel_of("Box(2).area()", Box=Box)
    old = guard.snapshot()
    monkeypatch.setattr(Box, "shared", 2)
    assert guard.explain(old, guard.snapshot()) == "`Box.shared` changed from 1 to 2"


def test_annotations_of_local_names_are_captured_through_the_rewritten_function():
    fn = function("def kernel(x):\n    m: DTYPE = x\n    return m\n", file="<annotated>", DTYPE="f32")
    guard = captures(rewrite(fn).function)
    assert guard.chains == (("global", "DTYPE"),)
    old = guard.snapshot()
    fn.__globals__["DTYPE"] = "f16"
    assert guard.explain(old, guard.snapshot()) == "`DTYPE` changed from 'f32' to 'f16'"


def test_closures_are_read_when_asked():
    size = 1

    def kernel() -> int:
        return size

    assert isinstance(kernel, types.FunctionType)
    guard = captures(kernel)
    old = guard.snapshot()
    size = 2
    assert guard.explain(old, guard.snapshot()) == "`size` changed from 1 to 2"


def test_arrays_are_captured_by_identity_and_frozen():
    base = np.zeros((2, 3))
    guard, names = kernel_of("TABLE", TABLE=base[:1])
    old = guard.snapshot()
    assert guard.snapshot() == old
    with pytest.raises(ValueError, match="read-only"):
        base[0] = 1
    base.flags.writeable = True
    names["TABLE"].flags.writeable = True
    changed = guard.snapshot()
    assert changed != old
    names["TABLE"] = names["TABLE"].copy()
    assert "another array float64[1, 3]" in guard.explain(changed, guard.snapshot())


def test_methods_of_arrays_do_not_change_by_being_looked_up():
    guard, _ = kernel_of("TABLE.sum()", TABLE=np.zeros(3))
    assert guard.snapshot() == guard.snapshot()


def test_modules_stand_for_themselves_and_their_attributes_for_their_values():
    module = types.ModuleType("settings")
    module.__dict__["N"] = 1
    guard, _ = kernel_of("settings.N", settings=module)
    old = guard.snapshot()
    module.__dict__["M"] = 1
    assert guard.snapshot() == old
    module.__dict__["N"] = 2
    assert guard.explain(old, guard.snapshot()) == "`settings.N` changed from 1 to 2"


def test_the_guard_protocol_is_asked_and_may_be_recursive():
    class Kernel:
        def __init__(self) -> None:
            self.guard: Any = None

        def __pypto_guard__(self) -> Any:
            return self.guard.snapshot()

    first, second = Kernel(), Kernel()
    first.guard, names = kernel_of("second, N", second=second, N=1)
    second.guard, _ = kernel_of("first", first=first)
    old = second.guard.snapshot()
    assert second.guard.snapshot() == old
    names["N"] = 2
    assert second.guard.snapshot() != old


def test_a_value_that_changes_by_being_read_is_refused():
    guard, _ = kernel_of("next(V)", V=iter([1, 2]))
    with pytest.raises(BodyError) as caught:
        guard.snapshot()
    assert caught.value.code == "PL113"
