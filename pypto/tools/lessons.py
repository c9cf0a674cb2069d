"""The lesson of an error code, from the page of errors that comes with the sources and with an installed copy."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

from pypto.errors import CODES, CallError
from pypto.source import PACKAGE

PAGE = "docs/errors.md"


def page() -> str:
    """The text of the page of lessons.

    Errors:
      PL601 if this copy of pypto came without it.
    """
    beside = Path(PACKAGE).parent / PAGE
    if beside.exists():
        return beside.read_text(encoding="utf-8")
    try:
        files = importlib.metadata.files("pypto") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.as_posix().endswith("share/doc/pypto/errors.md"):
            return Path(str(file.locate())).read_text(encoding="utf-8")
    raise CallError("PL601", "this copy of pypto came without its page of lessons", fix=f"read {PAGE} in the sources")


def lesson(code: str) -> str:
    """One lesson, without the marks that only make the page run.

    >>> print(lesson("PL103").splitlines()[0])
    PL103: a plain `range` in a `for` statement

    Errors:
      PL601 for a code that does not exist.
    """
    if code not in CODES:
        raise CallError("PL601", f"there is no code {code}", fix=f"one of {', '.join(CODES)}")
    found = re.search(rf"^## {code}\n(.*?)(?=^## |\Z)", page(), re.MULTILINE | re.DOTALL)
    body = found[1] if found else ""
    shown = re.sub(r"^# raises: PL\d{3}\n", "", body.replace("--> ...:", "--> line "), flags=re.MULTILINE)
    return f"{code}: {CODES[code]}\n\n{shown.strip()}\n"
