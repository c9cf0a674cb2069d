"""After a call: outputs of which nothing, or not everything, was written."""

from __future__ import annotations

import itertools

import numpy as np

from pypto.errors import OutputError, warn
from pypto.interpreters.values import Buffer, boxes
from pypto.source import Source


def check_written(name: str, source: Source, buffer: Buffer) -> None:
    """Report what a call left out of an output.

    Errors:
      PL202 when nothing was written; PL204, a warning, with the region that was not.
    """
    if buffer.written is None or buffer.written.all() or buffer.written.size == 0:
        return
    if not buffer.written.any():
        raise OutputError(
            "PL202",
            f"no element of output `{buffer.name}` of {name}() was written in this call",
            fix="check the bounds of the loops around its stores",
            at=source,
        )
    missing = ~buffer.written
    warn(
        "PL204",
        f"{_regions(buffer.name, missing)} never written by {name}() ({int(missing.sum())} of {missing.size} elements)",
        fix="cover the tail: a loop over range(n // T) leaves n % T; the caller's array keeps what it had there",
        at=source,
    )


def _regions(name: str, missing: np.ndarray, most: int = 4) -> str:
    """The first few boxes of a region, as the subject of a sentence."""
    found = [f"`{name}{box}`" for box in itertools.islice(boxes(missing), most + 1)]
    return f"{', '.join(found[:most])}{' and more' if len(found) > most else ''} {'was' if len(found) == 1 else 'were'}"
