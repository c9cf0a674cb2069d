"""Where a thing was written: file, line and columns of the user's code, resolved only when shown."""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from types import CodeType, FrameType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_WITH = contextlib.__file__
"""The frame that runs the first half of a generator in a `with` statement: nobody's own code."""

T = TypeVar("T")


def of_code(find: Callable[[CodeType], T]) -> Callable[[CodeType], T]:
    """Remember what a function finds of a code object, as long as that lives."""
    known: WeakKeyDictionary[CodeType, T] = WeakKeyDictionary()

    @wraps(find)
    def remembered(code: CodeType) -> T:
        found = known.get(code)
        if found is None:
            known[code] = found = find(code)
        return found

    return remembered


@of_code
def _positions(code: CodeType) -> tuple[tuple[int | None, int | None, int | None, int | None], ...]:
    return tuple(code.co_positions())


def _characters(line: str, byte_column: int) -> int:
    """CPython counts columns in UTF-8 bytes; carets are placed in characters."""
    return len(line.encode()[:byte_column].decode(errors="ignore"))


def _is_wide(character: str) -> bool:
    """Whether a terminal gives a character two columns, as it does for Chinese."""
    return unicodedata.east_asian_width(character) in "WF"


def _blank(text: str) -> str:
    """Spaces as wide as a text, however wide its tabs are shown."""
    return "".join("\t" if c == "\t" else "  " if _is_wide(c) else " " for c in text)


@dataclass(frozen=True)
class Source:
    """One place in a user's file.

    Columns are 0-based characters; `end_column` is exclusive and only meaningful on a single line.
    """

    file: str
    line: int
    column: int = 0
    end_column: int = 0

    @property
    def text(self) -> str:
        """The source line, without its newline; empty if the file is gone."""
        return linecache.getline(self.file, self.line).rstrip("\n")

    def snippet(self) -> str:
        """File, line and column, the line itself, and carets under the span.

        >>> Source("nowhere.py", 3, 4, 9).snippet()
        '  --> nowhere.py:3:5'
        """
        shown = self.file if self.file.startswith("<") else os.path.relpath(self.file) if _below_here(self.file) else self.file
        head = f"  --> {shown}:{self.line}:{self.column + 1}"
        text = self.text
        if not text:
            return head
        end = self.end_column if self.end_column > self.column else len(text.rstrip())
        width = max(1, sum(2 if _is_wide(c) else 1 for c in text[self.column : end]))
        number = str(self.line)
        bar = " " * len(number)
        return f"{head}\n {number} | {text}\n {bar} | {_blank(text[: self.column])}{'^' * width}"

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"


@dataclass(frozen=True)
class Frame:
    """An instruction of a code object: cheap to record for every equation, resolved to a `Source` on demand."""

    code: CodeType
    instruction: int

    def resolve(self) -> Source:
        first, last, column, end = _positions(self.code)[self.instruction // 2]
        file, line = self.code.co_filename, first or self.code.co_firstlineno
        text = linecache.getline(file, line)
        start = _characters(text, column or 0)
        stop = _characters(text, end) if end is not None and first == last else 0
        return Source(file, line, start, stop)


def _below_here(file: str) -> bool:
    try:
        return os.path.abspath(file).startswith(os.getcwd() + os.sep)
    except OSError:  # the working directory is gone: show the path as it is
        return False


def _is_ours(frame: FrameType) -> bool:
    if frame.f_code.co_filename.startswith(PACKAGE) or frame.f_code.co_filename == _WITH:
        return True
    return frame.f_code.co_filename == "<string>" and frame.f_globals.get("__name__", "").startswith("pypto.")  # made by @dataclass


def _outside(depth: int) -> FrameType | None:
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    return frame


_pinned: ContextVar[Frame | Source | None] = ContextVar("pypto_place", default=None)


@contextlib.contextmanager
def placed(where: Frame | Source | None) -> Iterator[None]:
    """What happens inside the `with` block was written at `where`: a program that is run again has its lines from the first time."""
    token = _pinned.set(where if where is not None else _pinned.get())
    try:
        yield
    finally:
        _pinned.reset(token)


def user_frame(depth: int = 1) -> Frame | Source | None:
    """The innermost frame outside this package, or None at the top of an interactive embedding; inside `placed`, that place."""
    pinned = _pinned.get()
    if pinned is not None:
        return pinned
    frame = _outside(depth + 1)
    return None if frame is None else Frame(frame.f_code, frame.f_lasti)


def user_locals(depth: int = 1) -> dict[str, Any]:
    """A copy of the local variables of the innermost frame outside this package."""
    frame = _outside(depth + 1)
    return {} if frame is None else dict(frame.f_locals)


def user_source(depth: int = 1) -> Source | None:
    """`user_frame`, resolved to file, line and columns."""
    return resolve(user_frame(depth + 1))


def resolve(where: Frame | Source | None) -> Source | None:
    """A recorded place as a `Source`."""
    return where.resolve() if isinstance(where, Frame) else where
