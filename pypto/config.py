"""The frozen configuration of a call, held in a context variable and changed only by `with override(...)`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Any

from pypto.errors import CallError
from pypto.platform import platform_of

EXECUTORS = ("reference", "cpu")
MOST_THREADS = 256


@dataclass(frozen=True)
class Config:
    """What a run may choose. No field changes a number that a program computes.

    Attributes:
      platform: a row of the platform table; what a kernel is lowered for.
      check: whether runs track elements that were never written or are not valid, and report hazards of operations. The reference
        executor runs them, whatever `executor` says: compiled code has no shadow bits. None, the default, leaves it to what is
        done: calls are not checked; what is there to find faults is (see `finds_faults`).
      verify: whether the verifier runs between passes.
      executor: "cpu" for compiled code, or "reference" for the definitions, one operation at a time: the same bits. A program that there
        is no code for runs on the reference executor; `Program.compiled` tells, with the reason.
      cache: whether machine code is kept on disk for later processes.
      cache_directory: where; None for the place the system provides for such files.
      cache_megabytes: how much may be there; what was not used for longest goes first.
      threads: how many threads a call of compiled code may use, its caller's included; None for one per processor. Results are the same.
    """

    platform: str = "a2a3sim"
    check: bool | None = None
    verify: bool = False
    executor: str = "cpu"
    threads: int | None = None
    cache: bool = True
    cache_directory: str | os.PathLike[str] | None = None
    cache_megabytes: int = 256

    def __post_init__(self) -> None:
        platform_of(self.platform)
        if self.check is not None and type(self.check) is not bool:
            raise CallError("PL606", f"check={self.check!r}", fix="True, False, or None")
        if self.executor not in EXECUTORS:
            raise CallError("PL606", f"there is no executor {self.executor!r}", fix=f"one of {', '.join(EXECUTORS)}")
        if self.threads is not None and (type(self.threads) is not int or not 1 <= self.threads <= MOST_THREADS):
            raise CallError("PL606", f"threads={self.threads!r}", fix=f"a number from 1 to {MOST_THREADS}, or None")
        if type(self.cache) is not bool:
            raise CallError("PL606", f"cache={self.cache!r}", fix="True or False; cache_directory= says where")
        if type(self.cache_megabytes) is not int or self.cache_megabytes < 0:
            raise CallError("PL606", f"cache_megabytes={self.cache_megabytes!r}", fix="a number from 0 on")
        if self.cache_directory is not None and not isinstance(self.cache_directory, str | os.PathLike):
            raise CallError("PL606", f"cache_directory={self.cache_directory!r}", fix="a path, or None")

    @property
    def finds_faults(self) -> bool:
        """Whether golden tests, `python -m pypto run` and `kernel.eager` are checked: unless `check=False` says otherwise."""
        return self.check is not False


_current: ContextVar[Config] = ContextVar("pypto_config", default=Config())  # noqa: B039 - Config is frozen


def current() -> Config:
    """The configuration in force."""
    return _current.get()


def override(**changes: Any) -> AbstractContextManager[Config]:
    """Change fields for the length of a `with` block.

    >>> with override(platform="a5sim") as config:
    ...     current().platform
    'a5sim'

    Errors:
      PL606 for a field or a platform that does not exist.
    """
    known = {f.name for f in fields(Config)}
    for name in changes:
        if name not in known:
            raise CallError("PL606", f"there is no configuration field {name!r}", fix=f"one of {', '.join(sorted(known))}")
    if "platform" in changes:
        platform_of(changes["platform"])
    return _changed(changes)


def install(**changes: Any) -> None:
    """Change fields until this context (thread or task) ends; `override` is the form that ends by itself.

    Errors:
      PL606 for a field or a platform that does not exist.
    """
    with override(**changes) as changed:
        pass
    _current.set(changed)


def in_force(options: Any) -> AbstractContextManager[Any]:
    """The `with` block under which a call given `config=options` runs; what options are is up to them (see `pypto.runtime.RunConfig`).

    Errors:
      PL601 for something that is no configuration of a run.
    """
    if not hasattr(options, "in_force"):
        raise CallError("PL601", f"config= takes a RunConfig, got {type(options).__name__}", fix="config=RunConfig(platform=...)")
    return options.in_force()


@contextmanager
def _changed(changes: dict[str, Any]) -> Iterator[Config]:
    token = _current.set(replace(_current.get(), **changes))
    try:
        yield _current.get()
    finally:
        _current.reset(token)
