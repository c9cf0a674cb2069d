"""What a rewritten kernel body asks of its runtime: the whole interface between the rewriter and a tracer.

Another object with these methods gives the same body another meaning: tracing, eager execution, a test's checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Thunk = Callable[[], Any]
Names = tuple[str, ...]


class Runtime(Protocol):
    """What a rewritten body calls. A thunk reads a name when called, and raises NameError if the name is unset.

    The functions given as `body`, `then` and `orelse` must be called before the method returns.
    """

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
        """A loop. `body(index, *state, *carried)` returns `(*state, *carried)`, and so does this method.

        `thunks` belong to `carried`; state names start from the loop's own `init_values=`. `exits` is one of `carried`: before
        a turn in which it is false the loop ends.
        """
        ...

    def forever(self) -> Any:
        """What a `while` statement stands over: turns until it is left."""
        ...

    def if_(
        self, test: Any, then: Callable[..., tuple], orelse: Callable[..., tuple], merged: Names, passed: Names, thunks: tuple[Thunk, ...]
    ) -> tuple:
        """A branch. Both arms take `*passed` (read by `thunks`) and return `merged`, and so does this method.

        `merged` is a subset of `passed`: an arm that leaves a merged name alone returns what it was given.
        """
        ...

    def with_(
        self, context: Any, body: Callable[..., tuple], target: str | None, escaping: Names, passed: Names, thunks: tuple[Thunk, ...]
    ) -> tuple:
        """A scope. `body(*[value of the target, if any], *passed)` returns `escaping`, and so does this method."""
        ...

    def assign(self, name: str, value: Any) -> Any:
        """The value to store in `name`; called for every store to a name, in order."""
        ...

    def annotate(self, name: str, annotation: Thunk, value: Any) -> Any:
        """The value of `name: annotation = value`; `assign` is called with the result."""
        ...

    def assert_(self, condition: Any, message: Thunk) -> None:
        """An `assert` statement; `message` gives its message, None if it has none."""
        ...

    def and_(self, first: Any, *rest: Thunk) -> Any: ...

    def or_(self, first: Any, *rest: Thunk) -> Any: ...

    def not_(self, value: Any) -> Any: ...

    def compare(self, first: Any, operators: Names, *rest: Thunk) -> Any:
        """A chained comparison; `operators` are spelled as in Python, one per thunk. Call each thunk at most once."""
        ...

    def choose(self, test: Any, then: Thunk, orelse: Thunk) -> Any: ...

    def return_(self, value: Any) -> Any:
        """Called once, last; its value is the result of the rewritten function."""
        ...
