"""What the library tells about its work: lines of Python's `logging`, under the name "pypto", at levels users know."""

from __future__ import annotations

import enum
import logging

from pypto.errors import CallError

LOGGER = logging.getLogger("pypto")
"""Where the library's lines go. INFO: what is compiled; DEBUG: each pass with its time."""


class LogLevel(enum.IntEnum):
    """How much is told, from nothing to everything."""

    NONE = logging.CRITICAL + 10
    FATAL = logging.CRITICAL
    ERROR = logging.ERROR
    WARN = logging.WARNING
    INFO = logging.INFO
    EVENT = logging.INFO - 5
    DEBUG = logging.DEBUG


def set_log_level(level: LogLevel | str) -> None:
    """Choose how much is told, on the error stream unless `logging` is set up otherwise. A level, or its name.

    >>> set_log_level("warn")
    >>> get_log_level()
    <LogLevel.WARN: 30>

    Errors:
      PL606 for a level that does not exist.
    """
    if isinstance(level, str):
        if level.upper() not in LogLevel.__members__:
            raise CallError("PL606", f"there is no log level {level!r}", fix=f"one of {', '.join(LogLevel.__members__)}")
        level = LogLevel[level.upper()]
    if not isinstance(level, LogLevel):
        raise CallError("PL606", f"{level!r} is no log level", fix="pypto.LogLevel.INFO, or its name")
    LOGGER.setLevel(level)
    if not LOGGER.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("pypto %(levelname)s %(message)s"))
        LOGGER.addHandler(handler)


def get_log_level() -> LogLevel:
    """What is told now: the nearest level at or above the logger's own."""
    chosen = LOGGER.getEffectiveLevel()
    return min((level for level in LogLevel if level >= chosen), default=LogLevel.NONE)
