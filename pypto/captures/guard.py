"""Which outside Python values a kernel depends on, so that changing one never runs a stale program.

A kernel's bytecode says which globals and closed-over variables it reads, and which attributes of them: `cfg.N` is one
chain. `captures` collects the chains once; `Guard.snapshot` looks them up at every call and turns what it finds into a
key (see `freezing`). Plain helper functions are followed: what they read is part of the key of whoever calls them.
"""

from __future__ import annotations

import builtins
import dis
import threading
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType, ModuleType
from typing import Any

from pypto.captures.freezing import ATOMS, UNSET, Freezer, Key, Labelled, difference, is_pypto, only_identity
from pypto.source import of_code

Chain = tuple[str, ...]
"""("global" or "deref", name, attribute, ...)"""

_GLOBAL = {"LOAD_GLOBAL", "LOAD_NAME"}
_DEREF = {"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"}
_ATTRIBUTE = {"LOAD_ATTR", "LOAD_METHOD"}
_SILENT = {"EXTENDED_ARG", "PUSH_NULL", "PRECALL", "CACHE", "NOP", "RESUME"}


@of_code
def chains(code: CodeType) -> tuple[Chain, ...]:
    """The chains read by `code` and the code nested in it, in the order first read."""
    found: dict[Chain, None] = {}
    _collect(code, frozenset(code.co_freevars), found)
    return tuple(found)


def _collect(code: CodeType, outside: frozenset[str], found: dict[Chain, None]) -> None:
    """Add the chains of `code`; `outside` holds its free variables that come from outside the whole function."""
    chain: Chain | None = None
    before: Chain | None = None  # the chain loaded just before, when that was the function `getattr`
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name in _SILENT:
            continue
        if name in _ATTRIBUTE and chain is not None:
            chain = (*chain, instruction.argval)
            continue
        if name == "LOAD_CONST" and chain is not None and before == ("global", "getattr") and isinstance(instruction.argval, str):
            chain = (*chain, instruction.argval)  # getattr(cfg, "N") reads cfg.N
        if chain is not None:
            found.setdefault(chain)
        before = chain
        chain = None
        if name in _GLOBAL:
            chain = ("global", instruction.argval)
        elif name in _DEREF and instruction.argval in outside:
            chain = ("deref", instruction.argval)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            _collect(const, outside & frozenset(const.co_freevars) - frozenset(code.co_cellvars), found)


class _Place:
    """One variable, the attribute paths read from it, and the keys that cannot change while the objects are the same."""

    __slots__ = ("kind", "known", "name", "paths")

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        self.paths: list[Chain] = []
        self.known: list[tuple[object, Key] | None] = []


class _Scope:
    """Where a function finds its global and closed-over variables."""

    def __init__(self, fn: FunctionType) -> None:
        self._globals = fn.__globals__
        found = fn.__globals__.get("__builtins__", builtins)
        self._builtins = found.__dict__ if isinstance(found, ModuleType) else found
        self._cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or ()))

    def value(self, kind: str, name: str) -> Any:
        if kind == "deref":
            try:
                return self._cells[name].cell_contents
            except ValueError:  # an empty cell
                return UNSET
        value = self._globals.get(name, UNSET)
        return self._builtins.get(name, UNSET) if value is UNSET else value

    def expression(self, kind: str, name: str) -> tuple[str, dict[str, Any]]:
        """As `value`, as the text of an expression and what its names stand for; `{n}` makes the names different ones."""
        if kind == "deref":
            found = self.value(kind, name)
            return ("cell{n}.cell_contents", {"cell": self._cells[name]}) if found is not UNSET else ("None", {})
        if name in self._globals or name not in self._builtins:
            return f"names{{n}}.get({name!r}, unset{{n}})", {"names": self._globals, "unset": UNSET}
        return f"names{{n}}.get({name!r}, builtins{{n}}.get({name!r}))", {"names": self._globals, "builtins": self._builtins}


class Guard:
    """The compiled chains of one function. `snapshot` gives the part of a cache key that they stand for."""

    def __init__(self, fn: FunctionType) -> None:
        self.name = fn.__name__
        self._scope = _Scope(fn)
        places: dict[tuple[str, str], _Place] = {}
        for kind, name, *path in chains(fn.__code__):
            place = places.setdefault((kind, name), _Place(kind, name))
            place.paths.append(tuple(path))
            place.known.append(None)
        self._places = tuple(places.values())
        self._arrays: dict[int, tuple[Any, int]] = {}
        self._running = threading.local()

    @property
    def chains(self) -> tuple[Chain, ...]:
        """What is looked up, in the order of a snapshot."""
        return tuple((place.kind, place.name, *path) for place in self._places for path in place.paths)

    def snapshot(self) -> tuple[Key, ...]:
        """A hashable that is equal for two calls exactly when every captured value is.

        It keeps the captured objects alive, so an identity in it is never reused. Captured arrays become read-only.

        Errors:
          PL113 for a value that changes by being read, such as a generator.
        """
        if getattr(self._running, "now", False):
            return (("recursive", self.name),)  # kernels that call each other: the one asked first holds the rest
        self._running.now = True
        freezer = Freezer(self._arrays, function_reads)
        out: list[Key] = []
        try:
            for place in self._places:
                value = self._scope.value(place.kind, place.name)
                for position, path in enumerate(place.paths):
                    found = _follow(value, path) if path else value
                    known = place.known[position]
                    if known is not None and known[0] is found:
                        out.append(known[1])
                        continue
                    key = freezer.key(found)
                    out.append(key)
                    place.known[position] = (found, key) if type(found) in ATOMS or only_identity(found) else None
        finally:
            self._running.now = False
        return tuple(out)

    def watch(self) -> Callable[[], bool]:
        """A quick test of whether `snapshot` would give what it gives now.

        It compares identities. Where a captured object can change and stay the same object, it takes the snapshot itself.
        """
        if getattr(self._running, "watched", False):
            return lambda: True  # kernels that call each other: the one asked first holds the rest
        self._running.watched = True
        try:
            tests = [self._test(place, path) for place in self._places for path in place.paths]
        finally:
            self._running.watched = False
        if None in tests:
            now = self.snapshot()
            return lambda: self.snapshot() == now
        names, parts = {}, {}
        for n, test in enumerate(t for t in tests if t is not None):
            text, values = test
            key = (text, *map(id, values.values()))
            if key not in parts:
                parts[key] = text.format(n=n)
                names.update((f"{name}{n}", value) for name, value in values.items())
        return eval(f"lambda: {' and '.join(parts.values()) or 'True'}", names)  # written here, from fixed pieces

    def _test(self, place: _Place, path: Chain) -> tuple[str, dict[str, Any]] | None:
        """An expression that is true while a chain leads to the object it leads to now; None if that is not enough."""
        root = self._scope.value(place.kind, place.name)
        value = _follow(root, path)
        fixed = type(value) in ATOMS or only_identity(value)
        inner = getattr(type(value), "__pypto_watch__", None)
        if not fixed and inner is None:
            return None
        text, values = self._scope.expression(place.kind, place.name)
        if not is_pypto(root) and path:
            text, values = f"follow{{n}}({text}, path{{n}})", {**values, "follow": _follow, "path": path}
        text, values = f"{text} is value{{n}}", {**values, "value": value}
        return (text, values) if fixed or inner is None else (f"{text} and inner{{n}}()", {**values, "inner": inner(value)})

    def key(self, value: object) -> Key:
        """The key of a value given to the function rather than captured by it: of an object, what it holds."""
        return Freezer(self._arrays, function_reads).key(value)

    def explain(self, old: tuple[Key, ...], new: tuple[Key, ...]) -> str:
        """Which captured value differs between two snapshots of this guard, with both values.

        Empty if the snapshots are equal.
        """
        names = self.chains
        for position, (before, after) in enumerate(zip(old, new)):
            if before != after:
                label = ".".join(names[position][1:]) if position < len(names) else self.name
                return difference(label, before, after)
        return ""


def captures(fn: FunctionType) -> Guard:
    """Compile the guard of `fn`.

    For a kernel, give the rewritten function: its bytecode also holds the annotations of local names, which CPython
    leaves out of the original.
    """
    return Guard(fn)


def function_reads(fn: FunctionType, freezer: Freezer) -> Labelled:
    """What a helper function reads from outside, as labelled keys."""
    scope = _Scope(fn)
    return tuple(
        (".".join((name, *path)), freezer.key(_follow(scope.value(kind, name), path))) for kind, name, *path in chains(fn.__code__)
    )


def _follow(value: Any, path: Iterable[str]) -> Any:
    for name in path:
        if value is UNSET or is_pypto(value):
            return value  # this library does not change under a kernel: its module stands for everything in it
        try:
            value = getattr(value, name)
        except Exception:  # a property may raise anything; it will raise again when the kernel is traced
            return UNSET
    return value
