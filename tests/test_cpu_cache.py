"""Machine code on disk: used by the next process, bounded, and never believed when anything about it is wrong."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.interpreters.cpu import cache, machine
from pypto.interpreters.cpu.launch import Compiled, compile_program

X = np.arange(32, dtype=np.float32).reshape(4, 8)


@pl.jit
def doubled(x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, :] = x[:, :] + x[:, :]


def compiled(directory: Path, **settings: Any) -> Compiled:
    with pypto.override(cache_directory=directory, **settings):
        program = doubled.lower()
        made = compile_program(program.orchestration, program.bodies)
    assert isinstance(made, Compiled)
    return made


def entries(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.code"))


def test_a_program_that_was_compiled_before_is_loaded(tmp_path):
    assert compiled(tmp_path).origin == "compiled"
    assert compiled(tmp_path).origin == "disk"


def test_another_process_loads_what_this_one_compiled_and_gets_the_same_bits(tmp_path):
    compiled(tmp_path)
    script = f"""
import numpy as np, pypto
from tests.test_cpu_cache import X, doubled
with pypto.override(check=False, executor="cpu", cache_directory={str(tmp_path)!r}):
    print(doubled.lower().compiled.origin, np.array_equal(doubled(X), X + X))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, cwd=Path(__file__).parent.parent)
    assert done.stdout.split() == ["disk", "True"], done.stderr


DAMAGE = {
    "one bit of the code is different": lambda raw: raw[:-9] + bytes([raw[-9] ^ 1]) + raw[-8:],
    "the end is missing": lambda raw: raw[: len(raw) // 2],
    "it is empty": lambda raw: b"",
    "it is something else": lambda raw: b"hello",
    "it is an object file without a head": lambda raw: raw[raw.index(b"\x7fELF") :],
    "it is the entry of another program": lambda raw: raw[:21] + bytes(32) + raw[53:],
}


@pytest.mark.parametrize("what", DAMAGE)
def test_an_entry_that_cannot_be_believed_is_made_again(tmp_path, what):
    compiled(tmp_path)
    (entry,) = entries(tmp_path)
    whole = entry.read_bytes()
    entry.write_bytes(DAMAGE[what](whole))
    assert compiled(tmp_path).origin == "compiled"
    assert entry.read_bytes() == whole
    assert compiled(tmp_path).origin == "disk"


def test_files_of_others_in_the_directory_are_left_alone(tmp_path):
    for name in ("notes.txt", "x.code.bak", "data"):
        (tmp_path / name).write_bytes(b"x" * 100_000)
    disk = cache.Disk(tmp_path, 1000)
    for i in range(20):
        disk.store(cache.key_of([str(i)]), b"y" * 400)
    assert {p.name for p in tmp_path.iterdir() if p.suffix != ".code"} == {"notes.txt", "x.code.bak", "data"}


def test_switched_off_nothing_is_written(tmp_path):
    assert compiled(tmp_path, cache=False).origin == "compiled"
    assert list(tmp_path.iterdir()) == []


def test_switched_off_nothing_is_read(tmp_path):
    compiled(tmp_path)
    assert compiled(tmp_path, cache=False).origin == "compiled"


def test_a_directory_that_cannot_be_made_costs_only_time(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert compiled(tmp_path / "file" / "below").origin == "compiled"


def fails(number: int) -> Any:
    def failing(*args: Any, **kwargs: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return failing


@pytest.mark.parametrize("step", ["mkstemp", "write", "replace", "scandir"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_a_disk_that_is_full_or_read_only_costs_only_time(tmp_path, monkeypatch, step, number):
    class Full:
        """A file that takes nothing."""

        def __init__(self, handle: int, mode: str) -> None:
            self.handle = handle

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            os.close(self.handle)

        write = staticmethod(fails(number))

    (tmp_path / "cache").mkdir(mode=0o700)
    module, name, with_ = {
        "mkstemp": (tempfile, "mkstemp", fails(number)),
        "write": (cache.os, "fdopen", Full),
        "replace": (cache.os, "replace", fails(number)),
        "scandir": (cache.os, "scandir", fails(number)),
    }[step]
    with monkeypatch.context() as broken:
        broken.setattr(module, name, with_)
        made = compiled(tmp_path / "cache")
        assert made.origin == "compiled"
    assert list((tmp_path / "cache").glob("*.part")) == []
    assert compiled(tmp_path / "cache").origin == ("disk" if step == "scandir" else "compiled")


@pytest.mark.skipif(os.name != "posix", reason="pipes in directories are a matter of POSIX")
@pytest.mark.parametrize("kind", ["directory", "pipe", "link to nothing"])
def test_an_entry_that_is_no_file_is_not_read(tmp_path, kind):
    compiled(tmp_path)
    (entry,) = entries(tmp_path)
    entry.unlink()
    {"directory": entry.mkdir, "pipe": lambda: os.mkfifo(entry), "link to nothing": lambda: entry.symlink_to("nothing")}[kind]()
    assert compiled(tmp_path).origin == "compiled"
    assert compiled(tmp_path).origin == ("compiled" if kind == "directory" else "disk")


def test_a_user_without_a_home_has_no_cache_and_the_working_directory_stays_clean(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "USERPROFILE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # what it does for a user nobody knows
    assert cache.convention("linux") is None
    with pypto.override(cache_directory=None):
        assert cache.chosen() is None
        program = doubled.lower()
        assert compile_program(program.orchestration, program.bodies).executor == "cpu"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="permissions of directories are a matter of POSIX")
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o703])
def test_a_directory_that_others_may_write_to_is_not_used(tmp_path, mode):
    compiled(tmp_path)
    os.chmod(tmp_path, mode)
    assert compiled(tmp_path).origin == "compiled"


@pytest.mark.skipif(os.name != "posix", reason="permissions of directories are a matter of POSIX")
def test_the_directory_is_made_for_this_user_alone(tmp_path):
    compiled(tmp_path / "new" / "cache")
    assert (tmp_path / "new" / "cache").stat().st_mode & 0o777 == 0o700


def test_the_entries_together_stay_below_the_limit_and_what_is_used_stays(tmp_path):
    disk = cache.Disk(tmp_path, 10_000)
    keys = [cache.key_of([str(i)]) for i in range(40)]
    for i, key in enumerate(keys):
        disk.store(key, bytes(900))
        os.utime(tmp_path / f"{key}.code", (i, i))
        assert disk.load(keys[0]) is not None
        assert sum(p.stat().st_size for p in entries(tmp_path)) <= 10_000
    assert disk.load(keys[-1]) is not None
    assert disk.load(keys[1]) is None


def test_an_entry_larger_than_the_limit_is_not_kept(tmp_path):
    assert not cache.Disk(tmp_path, 100).store(cache.key_of(["a"]), bytes(101))
    assert list(tmp_path.iterdir()) == []


def test_unfinished_files_that_nobody_finishes_are_removed_and_fresh_ones_are_not(tmp_path):
    old, fresh = tmp_path / "old.part", tmp_path / "fresh.part"
    old.write_bytes(b"x")
    fresh.write_bytes(b"x")
    os.utime(old, (1, 1))
    cache.Disk(tmp_path, 1000).store(cache.key_of(["a"]), b"code")
    assert not old.exists() and fresh.exists()


def test_writers_of_one_entry_do_not_disturb_each_other_or_its_readers(tmp_path):
    disk, key, content, wrong = cache.Disk(tmp_path, 1 << 20), cache.key_of(["a"]), bytes(range(256)) * 200, []
    disk.store(key, content)

    def writer() -> None:
        for _ in range(30):
            disk.store(key, content)

    def reader() -> None:
        for _ in range(200):
            if disk.load(key) != content:
                wrong.append(1)

    crowd = [threading.Thread(target=t) for t in (writer, writer, reader, reader)]
    for t in crowd:
        t.start()
    for t in crowd:
        t.join()
    assert not wrong and [p.name for p in tmp_path.iterdir()] == [f"{key}.code"]


# ---- what an entry depends on ------------------------------------------------------------------------------------


def code(text: str = "define i64 @main() {\n ret i64 7\n}\n", target: Any = None, runtime: str = "") -> machine.Code:
    return machine.Code(text, target or machine.host(), runtime=runtime)


def test_another_text_cpu_feature_runtime_or_version_is_another_entry(tmp_path, monkeypatch):
    cpu, features = machine.host()
    with pypto.override(cache_directory=tmp_path):
        keys = [code().key, code("define i64 @main() {\n ret i64 8\n}\n").key, code(runtime="b").key]
        keys += [code(target=("x86-64", features)).key, code(target=(cpu, "")).key]
        monkeypatch.setattr(machine, "VERSION", "9.9.9")
        keys.append(code().key)
        monkeypatch.setattr(machine, "PASSES", ("sroa",))
        keys.append(code().key)
        monkeypatch.setattr("llvmlite.__version__", "9.9")
        keys.append(code().key)
    assert len(set(keys)) == len(keys)


def test_parts_of_a_key_do_not_run_into_each_other():
    assert cache.key_of(["ab", "c"]) != cache.key_of(["a", "bc"])


@pytest.mark.parametrize(
    ("platform", "environment", "where"),
    [
        ("linux", {"HOME": "/h"}, "/h/.cache/pypto"),
        ("linux", {"HOME": "/h", "XDG_CACHE_HOME": "/c"}, "/c/pypto"),
        ("linux", {"HOME": "/h", "XDG_CACHE_HOME": "relative"}, "/h/.cache/pypto"),
        ("linux", {"HOME": "/h", "XDG_CACHE_HOME": ""}, "/h/.cache/pypto"),
        ("darwin", {"HOME": "/h"}, "/h/Library/Caches/pypto"),
        ("win32", {"USERPROFILE": "/h", "LOCALAPPDATA": "/h/L"}, "/h/L/pypto/Cache"),
        ("win32", {"USERPROFILE": "/h"}, "/h/AppData/Local/pypto/Cache"),
        ("linux", {"XDG_CACHE_HOME": "/c"}, "/c/pypto"),
    ],
)
def test_the_directory_follows_the_convention_of_the_system(platform, environment, where):
    assert cache.convention(platform, environment).as_posix() == where
