"""Going on after an error: what a faulty statement would have made is a `Broken` value, and everything made from it is broken too.

So one run tells everything a body does wrong that is not a consequence of something told already. Only errors about one operation or
store are gone on from (PL2xx, PL3xx, PL4xx, PL5xx); one about the form of the body ends the trace. Eager runs stop at the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pypto.errors import BodyError, PyptoError, together
from pypto.language.values import COMPUTING, Unset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pypto.language.trace import PlTrace

_ABOUT_ONE_STATEMENT = ("PL2", "PL3", "PL4", "PL5")
_MAY_FOLLOW = ("PL110", "PL111", "PL206", "PL202")
"""Codes that an earlier error of the same body may be the reason of."""


class Consequence(BodyError):
    """A broken value was needed where tracing cannot go on. Never shown: the error that broke the value is."""


class Broken(Unset):
    """What a faulty operation would have made."""

    def __init__(self, cause: PyptoError) -> None:
        super().__init__("a value that was not made")
        self.cause = cause

    def error(self) -> BodyError:
        return Consequence("PL111", f"a consequence of {self.cause.code}", fix=self.cause.fix)


def _stays_broken(name: str) -> None:
    setattr(Broken, f"__{name}__", lambda self, *_: self)


for _name in COMPUTING:
    _stays_broken(_name)


def broken_among(operands: Sequence[Any]) -> Broken | None:
    return next((x for x in operands if isinstance(x, Broken)), None)


def recover(trace: PlTrace, attempt: Callable[[], Any]) -> Any:
    """What `attempt` gives; after an error about one statement, which is kept, a broken value."""
    try:
        return attempt()
    except PyptoError as error:
        if trace.concrete or isinstance(error, Consequence) or not error.code.startswith(_ABOUT_ONE_STATEMENT):
            raise
        trace.errors.append(error)
        return Broken(error)


@contextmanager
def reporting(trace: PlTrace) -> Iterator[None]:
    """Raise everything that was kept while tracing, with what ended it."""
    try:
        yield
    except PyptoError as error:
        if not trace.errors:
            raise
        kept = trace.errors if isinstance(error, Consequence) or error.code in _MAY_FOLLOW else [*trace.errors, error]
        raise together(kept) from None
    except Exception as error:  # the user's own code may have stumbled over a broken value
        if not trace.errors:
            raise
        raise together(trace.errors) from error
    if trace.errors:
        raise together(trace.errors)
