"""What every test of an error or a warning looks at: the code, the user's line, the text under the caret, the fix.

A faulty line of a test carries the comment `# refused`, so that a test says once which line an error must point to.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import pypto
from pypto.errors import PyptoError, PyptoWarning

MARK = "# refused"

CHECKED = {"PL306", "PL704"}
"""Codes that only checked runs report."""


def refused(code: str, call: Callable[..., Any], *args: Any, at: str, mark: str = MARK) -> PyptoError:
    """The error that `call(*args)` raises, checked.

    Args:
      at: the text under the caret, exactly.
      mark: the comment of the line it must stand on.
    """
    with pytest.raises(PyptoError) as caught, pypto.override(**({"check": True} if code in CHECKED else {})):
        call(*args)
    error = caught.value
    assert error.code == code, error.render()
    assert error.source is not None, error.render()
    assert error.source.text.endswith(mark), f"points at {error.source.text!r}"
    assert under_caret(error) == at, error.render()
    assert error.fix, error.render()
    assert error.source.text in str(error) and f":{error.source.line}:" in str(error)
    return error


def under_caret(error: PyptoError) -> str:
    """The part of the user's line that the caret underlines; without an end column, the rest of the line without its comment."""
    assert error.source is not None
    text, start, end = error.source.text, error.source.column, error.source.end_column
    return text[start:end] if end > start else re.split(r"\s+#", text[start:])[0]


def untouched(code: str, call: Callable[..., Any], *arrays: Any, at: str, mark: str = MARK) -> PyptoError:
    """As `refused`, on arrays of which none may change a bit."""
    before = [np.array(a) for a in arrays if isinstance(a, np.ndarray)]
    error = refused(code, call, *arrays, at=at, mark=mark)
    for array, kept in zip((a for a in arrays if isinstance(a, np.ndarray)), before, strict=True):
        assert array.tobytes() == kept.tobytes(), "a refused call changed its caller's array"
    return error


@contextmanager
def reports(*codes: str) -> Iterator[list[str]]:
    """The texts of the warnings given inside, which must have exactly these codes, in order."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield found
    found += [str(w.message) for w in caught]
    assert all(issubclass(w.category, PyptoWarning) for w in caught), found
    assert [text[:5] for text in found] == list(codes), found


def f32(*values: Any) -> np.ndarray:
    """Rows of numbers as FP32."""
    return np.array(values if len(values) > 1 else values[0], np.float32)


def sevens(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """What an output holds before a call: -7 everywhere, so that an element nobody wrote shows."""
    return np.full(shape, -7, dtype)
