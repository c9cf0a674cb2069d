"""Machine code on disk: what one process has compiled, the next one loads.

An entry is named by a hash of everything its content depends on, and says so inside, with a hash of the content. Entries appear by being
renamed into place, so another process sees all of one or nothing. Whatever cannot be read, written or believed is as if it were not there.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pypto import config

_MAGIC = b"pypto machine code 1\n"
_SUFFIX = ".code"
_UNFINISHED = ".part"
_ABANDONED = 3600  # seconds after which an unfinished file is nobody's


def convention(platform: str = sys.platform, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where programs of this user keep what can be made again; None for a user without a home, as in some containers.

    >>> convention("linux", {"HOME": "/home/kim", "XDG_CACHE_HOME": "/var/kim"}).as_posix()
    '/var/kim/pypto'
    >>> convention("darwin", {"HOME": "/Users/kim"}).as_posix()
    '/Users/kim/Library/Caches/pypto'
    """
    home = Path(environment.get("HOME") or environment.get("USERPROFILE") or os.path.expanduser("~"))
    if platform == "win32":
        base = environment.get("LOCALAPPDATA")
        found = (Path(base) if base else home / "AppData" / "Local") / "pypto" / "Cache"
    elif platform == "darwin":
        found = home / "Library" / "Caches" / "pypto"
    else:
        base = environment.get("XDG_CACHE_HOME", "")
        found = (Path(base) if os.path.isabs(base) else home / ".cache") / "pypto"  # relative paths are invalid there
    return found if found.is_absolute() else None  # otherwise every directory that a process starts in would get one


class Disk:
    """The entries in one directory.

    Args:
      limit: bytes that the entries may take together. When they take more, those that were not used for longest go.
    """

    def __init__(self, directory: Path, limit: int) -> None:
        self.directory, self.limit = directory, limit

    def load(self, key: str) -> bytes | None:
        """The content of an entry; None if there is none, or none that can be believed."""
        path = self.directory / f"{key}{_SUFFIX}"
        try:
            if not self._private():
                return None
            if not stat.S_ISREG(path.stat().st_mode):  # a pipe would keep us waiting
                return None
            raw = path.read_bytes()
        except OSError:
            return None
        head = len(_MAGIC) + 64
        content = raw[head:]
        if raw[:head] != _head(key, content):
            return None
        with suppress(OSError):  # it only says which entries are in use
            os.utime(path)
        return content

    def store(self, key: str, content: bytes) -> bool:
        """Keep an entry; whether that worked."""
        if len(content) > self.limit:
            return False
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._private():
                return False
            handle, unfinished = tempfile.mkstemp(suffix=_UNFINISHED, dir=self.directory)
        except OSError:
            return False
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_head(key, content) + content)
            os.replace(unfinished, self.directory / f"{key}{_SUFFIX}")
        except OSError:
            with suppress(OSError):
                os.unlink(unfinished)
            return False
        self._trim()
        return True

    def _private(self) -> bool:
        """Whether nobody else can put code there that this user would run."""
        if os.name != "posix":
            return True
        found = os.stat(self.directory)
        return found.st_uid == os.geteuid() and not found.st_mode & 0o022

    def _entries(self) -> Iterator[tuple[float, int, str]]:
        """When each file was last used, its size, its path."""
        with os.scandir(self.directory) as files:
            for file in files:
                if file.name.endswith((_SUFFIX, _UNFINISHED)):
                    with suppress(FileNotFoundError):  # another process was faster
                        found = file.stat()
                        yield found.st_mtime, found.st_size, file.path

    def _trim(self) -> None:
        with suppress(OSError):
            entries = sorted(self._entries())
            total = sum(size for _, size, _ in entries)
            wanted = self.limit * 3 // 4 if total > self.limit else total
            for used, size, path in entries:
                abandoned = path.endswith(_UNFINISHED) and used < time.time() - _ABANDONED
                if abandoned or (total > wanted and path.endswith(_SUFFIX)):
                    with suppress(FileNotFoundError):
                        os.unlink(path)
                    total -= size


def _head(key: str, content: bytes) -> bytes:
    return _MAGIC + bytes.fromhex(key) + hashlib.sha256(content).digest()


def key_of(parts: Sequence[str]) -> str:
    """The name of an entry that depends on these texts and on nothing else."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode()
        digest.update(b"%d\n" % len(raw))
        digest.update(raw)
    return digest.hexdigest()


def chosen() -> Disk | None:
    """The cache that the configuration in force says; None if it says none."""
    now = config.current()
    if not now.cache:
        return None
    directory = Path(now.cache_directory) if now.cache_directory is not None else convention()
    return None if directory is None else Disk(directory, now.cache_megabytes << 20)
