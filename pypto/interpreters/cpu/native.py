"""The native side of every launch: worker threads, on-chip memory, signals, and the quick way in from Python.

It is written in LLVM's language (`pool.ll`, `launch.ll`, `phases.ll`), compiled once per process, and called by compiled programs by
name. A running thread has a record of 64 numbers:

| word | what it holds |
|---|---|
| 0..47 | the numbers of the check that failed |
| 48 | nanoseconds of work, as estimated, until signals are looked at again |
| 49 | Python's thread state while the lock is released, else 0 |
| 50 | 0 in the thread that called, 1 in a worker |
| 51 | the block, where updates have to be made in the order of blocks; else -1 |
| 52 | whether a signal handler raised |
| 53 | how many threads the launch may use |
| 54 | whether this is the thread that handles Python's signals |
| 55 | of a launch whose blocks wait for each other, the block that runs, else 0 |
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import threading
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

NUMBERS = 48
"""How many numbers a failing check records at most."""

_FOR_PROGRAMS = ("pypto_new", "pypto_raw", "pypto_free", "pypto_parallel", "pypto_turn", "pypto_poll", "pypto_barrier", "pypto_phases")
_OF_PYTHON = (
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyErr_CheckSignals",
    "PyTuple_Size",
    "PyTuple_GetItem",
    "PyFloat_AsDouble",
    "PyLong_AsLongLongAndOverflow",
)


def processors() -> int:
    """How many CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


class Native:
    """The compiled runtime, of which there is one per process.

    Attributes:
      run: `(main, arguments, numbers, room, threads, cost) -> status`.
      quick: `(argument tuple, table) -> status`.
    """

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        from pypto.interpreters.cpu.machine import Code, host

        for name in _OF_PYTHON:
            llvm.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
        text = "".join(Path(__file__).with_name(f"{part}.ll").read_text() for part in ("pool", "launch", "phases"))
        self.code = Code(text, host())
        self.code.keep()
        for name in _FOR_PROGRAMS:
            llvm.add_symbol(name, self.code.address(name))
        i64, pointer = ctypes.c_int64, ctypes.c_void_p
        # These keep Python's lock: the runtime gives it up itself, once a launch turns out to take long.
        self.run: Any = ctypes.PYFUNCTYPE(i64, pointer, pointer, pointer, i64, i64, i64)(self.code.address("pypto_run"))
        self.quick: Any = ctypes.PYFUNCTYPE(i64, ctypes.py_object, pointer)(self.code.address("pypto_quick"))
        self._stop = ctypes.CFUNCTYPE(i64)(self.code.address("pypto_stop"))
        self._reset, self._seats = (ctypes.PYFUNCTYPE(None)(self.code.address(name)) for name in ("pypto_reset", "pypto_seats"))
        self._workers = ctypes.PYFUNCTYPE(i64)(self.code.address("pypto_workers"))
        self._global("sigblock", ctypes.c_int32).value = getattr(signal, "SIG_BLOCK", 0)
        self._global("sigset", ctypes.c_int32).value = getattr(signal, "SIG_SETMASK", 2)
        self._reset()
        self._settle()
        atexit.register(self._stop)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._stop, after_in_child=self._in_child)

    def _global(self, name: str, kind: Any) -> Any:
        return kind.from_address(self.code.address(name))

    def _settle(self) -> None:
        self._global("wanted", ctypes.c_int64).value = processors()
        self._global("main_thread", ctypes.c_int64).value = threading.main_thread().ident or 0

    def _in_child(self) -> None:
        """The workers of the parent are not in the child: it starts its own when it needs them."""
        self._reset()
        self._seats()
        self._settle()

    def workers(self) -> int:
        """How many worker threads there are."""
        return self._workers()

    def stop(self) -> bool:
        """End the worker threads, unless a launch is using them; the next launch that wants some starts new ones."""
        return bool(self._stop())


@cache
def native() -> Native:
    """The runtime, compiled at first use."""
    return Native()


# ---- where an array keeps what the quick way looks at ------------------------------------------------------------

FIELDS = object.__basicsize__
"""Where the fields of an array begin: NumPy's binary interface puts them, in a fixed order, behind what every object begins with."""

TYPE = object.__basicsize__ - 8
"""Where an object keeps its type."""

ALIGNED, CONTIGUOUS, WRITABLE = 0x100, 0x1, 0x400
"""Flags of an array in NumPy's binary interface."""


@cache
def layout_known() -> bool:
    """Whether this Python and this NumPy lay out objects as the quick way takes for granted; looked at on a few arrays."""
    samples = (np.zeros((3, 5), np.float32), np.zeros((2, 3, 4), np.int8)[:, ::2], np.broadcast_to(np.float64(1), (7,)))
    return ctypes.sizeof(ctypes.c_void_p) == 8 and all(map(_as_expected, samples))


def _as_expected(a: np.ndarray) -> bool:
    def word(offset: int) -> int:
        return ctypes.c_int64.from_address(id(a) + offset).value

    flags = ctypes.c_int32.from_address(id(a) + FIELDS + 48).value
    shape = tuple(ctypes.c_int64.from_address(word(FIELDS + 16) + 8 * i).value for i in range(a.ndim))
    return (
        word(TYPE) == id(np.ndarray)
        and word(FIELDS) == a.ctypes.data
        and ctypes.c_int32.from_address(id(a) + FIELDS + 8).value == a.ndim
        and shape == a.shape
        and word(FIELDS + 40) == id(a.dtype)
        and bool(flags & CONTIGUOUS) == a.flags.c_contiguous
        and bool(flags & WRITABLE) == a.flags.writeable
        and bool(flags & ALIGNED) == a.flags.aligned
    )
