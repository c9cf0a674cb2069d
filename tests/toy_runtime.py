"""The smallest complete runtime of rewritten bodies: it executes them at once, over plain Python values.

It doubles as the executable statement of the protocol: `pypto.language.protocol.Runtime` says what is called, this says
what each call must amount to when nothing is traced.
"""

from __future__ import annotations

import contextlib
import linecache
import operator
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from pypto.language.protocol import Names, Thunk
from pypto.language.rewrite import rewrite

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "is": operator.is_,
    "is not": operator.is_not,
    "in": lambda a, b: a in b,
    "not in": lambda a, b: a not in b,
}


class Unset(NameError):
    """A name was used that no path had set."""


class Poison:
    """Stands for a name without a value: it can be carried and merged, and nothing else."""

    def __init__(self, name: str) -> None:
        self.name = name

    def _use(self, *_: Any) -> Any:
        raise Unset(self.name)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _use
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __getitem__ = __setitem__ = __call__ = __index__ = _use
    __eq__ = __ne__ = _use
    __hash__ = None  # pyright: ignore[reportAssignmentType]


def _used(values: tuple) -> tuple:
    for value in values:
        if isinstance(value, Poison):
            value._use()
    return values


class Loop:
    """What `pl.range` and `pl.unroll` return under the toy runtime."""

    def __init__(self, bounds: tuple[int, ...], init_values: tuple | None) -> None:
        self.values = range(*bounds)
        self.init_values = init_values


class ToyRuntime:
    """Executes. `calls` records each protocol call, for tests of the protocol itself."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []
        self.yielded: list[tuple | None] = []

    def fetch(self, name: str, thunk: Thunk) -> Any:
        try:
            return thunk()
        except NameError:
            return Poison(name)

    def _fetch(self, names: Names, thunks: tuple[Thunk, ...]) -> tuple:
        return tuple(self.fetch(name, thunk) for name, thunk in zip(names, thunks, strict=True))

    def for_(
        self,
        iterator: Any,
        body: Callable[..., tuple],
        target: str,
        carried: Names,
        thunks: tuple[Thunk, ...],
        state: Names,
        stale_inits: Names,
        exits: str | None,
    ) -> tuple:
        self.calls.append(("for", target, carried, state, stale_inits))
        if not isinstance(iterator, Loop):
            raise TypeError(f"not a pl loop: {iterator!r}")
        values = (*(iterator.init_values or ()), *self._fetch(carried, thunks))
        assert len(iterator.init_values or ()) == len(state)
        names = (*state, *carried)
        for index in iterator.values:
            if exits is not None and not values[names.index(exits)]:
                break
            self.yielded.append(None)
            values = body(index, *values)
            fed = self.yielded.pop()
            assert len(values) == len(state) + len(carried)
            if fed is not None:  # pl.yield_ says what the next iteration starts from
                values = (*fed, *values[len(state) :])
        return values

    def forever(self) -> Loop:
        return Loop((10**6,), None)

    def assert_(self, condition: Any, message: Thunk) -> None:
        assert condition, message()

    def if_(
        self, test: Any, then: Callable[..., tuple], orelse: Callable[..., tuple], merged: Names, passed: Names, thunks: tuple[Thunk, ...]
    ) -> tuple:
        self.calls.append(("if", merged, passed))
        assert set(merged) <= set(passed)
        values = (then if test else orelse)(*self._fetch(passed, thunks))
        assert len(values) == len(merged)
        return values

    def with_(
        self, context: Any, body: Callable[..., tuple], target: str | None, escaping: Names, passed: Names, thunks: tuple[Thunk, ...]
    ) -> tuple:
        self.calls.append(("with", target, escaping, passed))
        values = self._fetch(passed, thunks)
        with context as entered:
            values = body(*([] if target is None else [entered]), *values)
        assert len(values) == len(escaping)
        return values

    def assign(self, name: str, value: Any) -> Any:
        self.calls.append(("assign", name))
        return value._use() if isinstance(value, Poison) else value

    def annotate(self, name: str, annotation: Thunk, value: Any) -> Any:
        self.calls.append(("annotate", name, annotation()))
        return value

    def and_(self, first: Any, *rest: Thunk) -> Any:
        for thunk in rest:
            if not first:
                break
            first = thunk()
        return first

    def or_(self, first: Any, *rest: Thunk) -> Any:
        for thunk in rest:
            if first:
                break
            first = thunk()
        return first

    def not_(self, value: Any) -> Any:
        return not value

    def compare(self, first: Any, operators: Names, *rest: Thunk) -> Any:
        result: Any = True
        for spelled, thunk in zip(operators, rest, strict=True):
            second = thunk()
            result = OPERATORS[spelled](first, second)
            if not result:
                break
            first = second
        return result

    def choose(self, test: Any, then: Thunk, orelse: Thunk) -> Any:
        return (then if test else orelse)()

    def return_(self, value: Any) -> Any:
        self.calls.append(("return",))
        return value


class Level:
    CORE_GROUP = "core group"


class ToyLanguage:
    """The name `pl` of a rewritten body under a `ToyRuntime`."""

    Level = Level

    def __init__(self, runtime: ToyRuntime) -> None:
        self._runtime = runtime

    def range(self, *bounds: int, init_values: tuple | None = None) -> Loop:
        return Loop(bounds, None if init_values is None else _used(init_values))

    unroll = range

    def at(self, level: str | None = None) -> contextlib.AbstractContextManager:
        return contextlib.nullcontext(level)

    def yield_(self, *values: Any) -> Any:
        self._runtime.yielded[-1] = _used(values)
        return values if len(values) != 1 else values[0]


class PlainLanguage:
    """The name `pl` when CPython runs the original source."""

    Level = Level

    def __init__(self) -> None:
        self._yielded: list[tuple] = []

    def range(self, *bounds: int, init_values: tuple | None = None) -> Any:
        return range(*bounds) if init_values is None else self._stateful(range(*bounds), init_values)

    unroll = range

    def _stateful(self, values: range, state: tuple) -> Iterator[tuple]:
        for index in values:
            self._yielded.append(state)
            yield index, state
            state = self._yielded.pop()

    def at(self, level: str | None = None) -> contextlib.AbstractContextManager:
        return contextlib.nullcontext(level)

    def yield_(self, *values: Any) -> Any:
        self._yielded[-1] = values
        return values if len(values) != 1 else values[0]


def function(source: str, name: str = "kernel", file: str = "<kernel>", **names: Any) -> FunctionType:
    """Define `source` so that its text can be read back, and return its function `name`."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec", dont_inherit=True), names)
    return names[name]


def run(source: str, *arguments: Any, runtime: ToyRuntime | None = None, **names: Any) -> Any:
    """The result of the rewritten `kernel` under a toy runtime."""
    runtime = runtime or ToyRuntime()
    fn = function(source, pl=ToyLanguage(runtime), **names)
    return rewrite(fn).function(runtime, *arguments)


def agree(source: str, *arguments: Any, **names: Any) -> Any:
    """Run `source` under CPython and rewritten; the results must be equal."""
    expected = function(source, pl=PlainLanguage(), **names)(*arguments)
    assert run(source, *arguments, **names) == expected
    return expected
