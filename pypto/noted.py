"""Notes: what is worth knowing of a run and wrong with nothing; collected where somebody asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from pypto.errors import CODES
from pypto.source import Frame, Source, resolve, user_source


@dataclass(frozen=True)
class Note:
    """One note; it has the parts and the form of an error.

    Attributes:
      code: a key of the code table.
      message: what was found, with values.
      fix: what to write where that is not wanted.
      source: the user's place.
    """

    code: str
    message: str
    fix: str = ""
    source: Source | None = None

    def __str__(self) -> str:
        snippet = [self.source.snippet()] if self.source is not None else []
        return "\n".join([f"{self.code}: {self.message}", *snippet, *([f"  fix: {self.fix}"] if self.fix else [])])


_collector: ContextVar[list[Note] | None] = ContextVar("pypto_notes", default=None)


def collecting() -> bool:
    """Whether anybody asked for notes, so that what only makes notes need not run otherwise."""
    return _collector.get() is not None


def note(code: str, message: str, *, fix: str = "", at: Frame | Source | None = None) -> None:
    """Add a note for whoever collects them."""
    if code not in CODES:
        raise AssertionError(f"{code} is not in the code table")
    found = _collector.get()
    made = Note(code, message, fix, resolve(at) if at is not None else user_source())
    if found is not None and made not in found:
        found.append(made)


@contextmanager
def notes() -> Iterator[list[Note]]:
    """Collect the notes of everything that is traced and run inside.

    >>> with notes() as found:
    ...     note("PL309", "axis 0 of `x` is N", at=Source("k.py", 3))
    >>> [n.code for n in found]
    ['PL309']
    """
    found: list[Note] = []
    token = _collector.set(found)
    try:
        yield found
    finally:
        _collector.reset(token)
