"""The error family: every error has a code, the user's line with a caret, what was found, and a fix."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import ClassVar

from pypto.source import Frame, Source, resolve, user_source

CODES: dict[str, str] = {
    # PL1xx: what a body may contain
    "PL101": "a statement that a kernel body may not contain",
    "PL102": "a loop target, assignment target or parameter list that cannot be traced",
    "PL103": "a plain `range` in a `for` statement",
    "PL104": "a `for` or `with` statement over something that is neither a pl loop nor a pl scope",
    "PL105": "a loop or scope placed where it may not stand",
    "PL106": "a traced value used where Python needs a plain one",
    "PL107": "a `return` that is not the last thing its body does",
    "PL108": "an expression that a kernel body may not contain",
    "PL109": "a function whose source cannot be read",
    "PL110": "a value that outlived the loop, branch or region that made it",
    "PL111": "a name that is unset on some path",
    "PL112": "a kernel or kernel operation called where it cannot run",
    "PL113": "a captured Python value that cannot be part of a program's key",
    "PL114": "a name given a second value under strict_ssa",
    "PL115": "a function of one form that calls a function of the other",
    "PL116": "a direction on a parameter of an inline function",
    "PL117": "a static assertion that does not hold",
    # PL2xx: outputs and directions
    "PL201": "an output parameter's name given to another value",
    "PL202": "an output that is never written",
    "PL203": "a store into a parameter that was not declared an output",
    "PL204": "an output that was only partly written",
    "PL205": "a tile that is written in place and never read again",
    "PL206": "a carried or merged name that changes type",
    "PL207": "an in-place update through a name that another name still shares",
    "PL208": "the initial value of a carry, read after its loop",
    "PL209": "the result of a function that returns nothing",
    "PL210": "an output that is read before anything is written to it",
    "PL211": "a buffer that is used once, under a name like another one's",
    # PL3xx: shapes, dtypes, valid regions
    "PL301": "shapes that do not match",
    "PL302": "dtypes that do not match",
    "PL303": "a window past the extent of what it looks into",
    "PL304": "an extent that must be known when the kernel is traced",
    "PL305": "a dtype that the operation does not take",
    "PL306": "elements outside the valid region, or never written, that reach an output",
    "PL307": "an operation or keyword of the other level",
    "PL308": "an argument value that the operation does not take",
    "PL309": "an axis whose extent each call decides",
    # PL4xx: memory and placement
    "PL401": "a memory space that cannot hold or exchange this value",
    "PL402": "a tile whose rows are no whole blocks of the platform",
    "PL403": "an operand of a matrix product that is no whole number of fractals",
    "PL404": "a tile that is larger than its memory space",
    "PL405": "more rows, columns or blocks than one instruction of the platform takes",
    "PL406": "an operation or cast that the platform does not have for a dtype",
    "PL407": "a buffer for which this machine has no memory",
    # PL5xx: tasks
    "PL501": "an operation on data outside a region, in an orchestration body",
    "PL502": "an spmd body that neither reads its block index nor dispatches a kernel",
    "PL503": "a dependency that names no task",
    "PL504": "something asked of a task that cannot be had where it stands",
    "PL505": "a barrier that not every block or core would reach",
    "PL506": "a runtime scope or cluster where it may not stand",
    "PL507": "a value or an operation on the wrong side of the edge between the cube and the vector lanes",
    "PL508": "more blocks that must start together than there are cores",
    "PL509": "a scope that holds more tasks or buffers than its ring may keep",
    # PL6xx: calls, cache, config
    "PL601": "a call with the wrong arguments",
    "PL602": "an argument whose dtype or shape is not the declared one",
    "PL603": "an in/out argument that was left out",
    "PL604": "an output array that cannot be written",
    "PL605": "arguments that share memory",
    "PL606": "a configuration value that does not exist",
    "PL607": "a run option that cannot be honoured here",
    "PL608": "a saved program that cannot be written or loaded",
    "PL609": "a worker or device tensor used after its end, or by another worker",
    "PL610": "a program dispatched on another platform than it was compiled for",
    "PL620": "a static argument that cannot be part of a program's key",
    "PL621": "an array that was given away",
    "PL622": "axes of a map that do not fit its arguments or results",
    # PL7xx: numerics and comparison
    "PL701": "results that differ from the golden",
    "PL702": "a golden or a specification that cannot be used",
    "PL703": "a rule that an operation does not have",
    "PL704": "an integer operation without a result: a division by zero, a shift by a count out of range",
    "PL705": "a compiler pass that changed results",
    "PL706": "a cast whose exact ties go away from zero",
    "PL720": "a derivative with respect to something that has none, or of something that is no number",
    "PL721": "a tangent or cotangent of another type than its value",
    # PL9xx: internal
    "PL901": "a broken invariant: this is a bug in pypto",
}
"""THE code table: what each code is about, in one line. `docs/errors.md` has a lesson for each."""


class PyptoError(Exception):
    """Base of all errors of this library.

    Attributes:
      code: a key of `CODES`.
      message: what was found, with values and shapes.
      fix: what to write instead.
      source: the user's place, or None when there is none.
      placed: whether that place was stated with the error; otherwise it is where the user's code called in.
      others: further, independent errors of the same body or call, in the order of its lines; each is an error like this one.
    """

    family: ClassVar[str] = ""

    def __init__(self, code: str, message: str, *, fix: str = "", at: Frame | Source | None = None) -> None:
        if code not in CODES or not code.startswith(self.family):
            raise AssertionError(f"{code} is not a code of {type(self).__name__}")
        self.code = code
        self.message = message
        self.fix = fix
        self.placed = at is not None
        self.source: Source | None = resolve(at) if at is not None else user_source()
        self.others: tuple[PyptoError, ...] = ()
        super().__init__(message)

    def at(self, where: Frame | Source | None) -> PyptoError:
        """This error at the place of the innermost equation it happened in: one that has a place keeps it."""
        if self.placed or where is None:
            return self
        return type(self)(self.code, self.message, fix=self.fix, at=where)

    def __str__(self) -> str:
        return self.render()

    def render(self) -> str:
        """The whole message: code, sentence, snippet with caret, fix."""
        parts = [f"{self.code}: {self.message}"]
        if self.source is not None:
            parts.append(self.source.snippet())
        if self.fix:
            parts.append(f"  fix: {self.fix}")
        if self.others:
            parts.append(f"\nand {len(self.others)} more:")
            parts += [f"\n{other.render()}" for other in self.others[:_MOST_SHOWN]]
        if len(self.others) > _MOST_SHOWN:
            parts.append(f"\n... and {len(self.others) - _MOST_SHOWN} more, in `error.others`")
        return "\n".join(parts)


_MOST_SHOWN = 9
"""How many further errors the text of one shows."""


def together(errors: Sequence[PyptoError]) -> PyptoError:
    """Several independent errors as one: the first, with the others listed.

    >>> error = together([BodyError("PL101", "a `while` loop", fix="pl.range"), BodyError("PL108", "a lambda", fix="a def")])
    >>> error.code, [other.code for other in error.others]
    ('PL101', ['PL108'])
    """
    first, *rest = [part for error in errors for part in (error, *error.others)]
    for part in rest:
        part.others = ()
    first.others = tuple(rest)
    return first


class BodyError(PyptoError):
    """A kernel body contains something that cannot be traced."""

    family = "PL1"


class MemberError(BodyError, AttributeError):
    """A program has no function or constant of this name."""


class OutputError(PyptoError):
    """A write is lost, missing, or goes where it may not."""

    family = "PL2"


class ShapeError(PyptoError):
    """Shapes, dtypes or valid regions do not fit."""

    family = "PL3"


class LevelError(ShapeError, TypeError):
    """A keyword was given to an operation at the level that does not have it."""


class MemorySpaceError(PyptoError):
    """A memory space cannot hold or exchange a value."""

    family = "PL4"


class OutOfMemoryError(MemorySpaceError, MemoryError):
    """This machine has no memory for a buffer of a run."""


class TaskError(PyptoError):
    """Work is placed or ordered in a way that cannot run."""

    family = "PL5"


class CallError(PyptoError, TypeError):
    """A kernel was called with arguments it cannot take."""

    family = "PL6"


class NumericsError(PyptoError):
    """A comparison failed, or a numeric rule does not exist."""

    family = "PL7"


class InternalError(PyptoError):
    """An invariant of pypto itself is broken."""

    family = "PL9"


def family_of(code: str) -> type[PyptoError]:
    """The class of the errors with a code, for a code that is data."""
    return next(
        kind
        for kind in (BodyError, OutputError, ShapeError, MemorySpaceError, TaskError, CallError, NumericsError)
        if code.startswith(kind.family)
    )


class PyptoWarning(UserWarning):
    """Something legal that is probably a mistake; carries a code like an error does."""


class PyptoDeprecationWarning(PyptoWarning, DeprecationWarning):
    """A spelling that still works and says nothing any more."""


_shown: dict[str | tuple[str, type[Warning], int], int] = {}
"""What the `warnings` module keeps to show a warning once per place, as in `__warningregistry__`."""


def warn(code: str, message: str, *, fix: str = "", at: Frame | Source | None = None, category: type[PyptoWarning] = PyptoWarning) -> None:
    """Issue a warning at the user's line; its text has the form of an error, and the usual filters apply to it.

    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("PL208", "`init` was carried", fix="read `total`", at=Source("k.py", 2))
    >>> caught[0].lineno, str(caught[0].message).splitlines()[0]
    (2, 'PL208: `init` was carried')
    """
    if code not in CODES:
        raise AssertionError(f"{code} is not in the code table")
    source = resolve(at) if at is not None else user_source()
    text = "\n".join([f"{code}: {message}", *([source.snippet()] if source else []), *([f"  fix: {fix}"] if fix else [])])
    file, line = (source.file, source.line) if source else ("<unknown>", 1)
    warnings.warn_explicit(text, category, file, line, registry=_shown)
