"""What may go wrong while compiled code runs, each as a process of its own: `python -m tests.faults NAME` prints what it saw."""

from __future__ import annotations

import contextvars
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import pypto
import pypto.language as pl
from pypto.interpreters.cpu.native import native

Rows = pl.Tensor[[256, 1024], pl.FP32]
X = np.random.default_rng(0).normal(size=(256, 1024)).astype(np.float32)


@pl.jit
def blocks(x: Rows, out: pl.Out[Rows]):
    for b in pl.spmd(64):
        out[b * 4 : b * 4 + 4, :] = pl.exp(x[b * 4 : b * 4 + 4, :] * 0.5)


@pl.jit
def long_kernel(x: pl.Tensor[[16, 1024], pl.FP32], n: pl.Scalar[pl.INT64], out: pl.Out[pl.Tensor[[16, 1024], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x[:, :]
        for i in pl.range(n):
            t = pl.exp(t * 0.001)
        out[:, :] = t


@pl.jit
def long_blocks(x: pl.Tensor[[16, 1024], pl.FP32], n: pl.Scalar[pl.INT64], out: pl.Out[pl.Tensor[[16, 1024], pl.FP32]]):
    for b in pl.spmd(16):
        t = x[b : b + 1, :]
        for i in pl.range(n):
            t = pl.exp(t * 0.001)
        out[b : b + 1, :] = t


@pl.jit
def long_phases(x: pl.Tensor[[16, 1024], pl.FP32], n: pl.Scalar[pl.INT64], out: pl.Out[pl.Tensor[[16, 1024], pl.FP32]]):
    for b in pl.spmd(16):
        t = x[b : b + 1, :]
        for i in pl.range(n):
            t = pl.exp(t * 0.001)
            pl.system.syncall(core_type="aiv_only", mode="soft")
        out[b : b + 1, :] = t


@pl.jit
def long_orchestration(x: pl.Tensor[[16, 1024], pl.FP32], n: pl.Scalar[pl.INT64], out: pl.Out[pl.Tensor[[16, 1024], pl.FP32]]):
    for i in pl.range(n):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:, :] = x[:, :] + 1.0


@pl.jit
def large_buffer(x: pl.Tensor[[16, 16], pl.FP32], n: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
    scratch = pl.create_tensor([n, 16], dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        scratch[0:16, :] = x[:, :] * 2.0
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, :] = scratch[0:16, :]


def right() -> bool:
    return np.asarray(blocks(X)).tobytes() == WANTED


def interrupted(kernel: Any) -> str:
    """Send Ctrl-C half a second into a launch that would take hours."""
    kernel(X[:16], 1)
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    start = time.perf_counter()
    try:
        kernel(X[:16], 1 << 40)
    except KeyboardInterrupt:
        late = time.perf_counter() - start - 0.5
        return f"interrupted {'at once' if late < 3 else f'after {late:.1f} s'}, {'right' if right() else 'wrong'} afterwards"
    return "ended"


def handler_returns(kernel: Any) -> str:
    """A signal handler that does not raise, and calls a kernel itself."""
    right()  # what a first call imports is not half there in the handler
    seen = []
    signal.signal(signal.SIGALRM, lambda *_: seen.append(right()))
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    start = time.perf_counter()
    turns = 1000
    while time.perf_counter() - start < 2 and not seen:
        kernel(X[:16], turns)
        turns *= 2
    return f"handler saw {seen}"


def other_threads_run() -> str:
    """Python goes on while a kernel runs on another thread."""
    long_kernel(X[:16], 1)
    kernel = threading.Thread(target=lambda: _cpu(long_kernel, X[:16], 30_000))
    kernel.start()
    ticks = 0
    while kernel.is_alive():
        ticks += 1
        time.sleep(0.005)
    return "went on" if ticks > 10 else f"stood still: {ticks}"


def _cpu(kernel: Any, *arguments: Any) -> Any:
    with pypto.override(**ON):
        return kernel(*arguments)


def forked(before: Any = None) -> str:
    """A child made by fork has no workers of its own parent: it starts its own."""
    right()
    had = native().workers()
    child = os.fork()
    if child == 0:
        os._exit(0 if right() and native().workers() == had else 3)
    _, status = os.waitpid(child, 0)
    return f"child {os.waitstatus_to_exitcode(status)}, parent {'right' if right() else 'wrong'}, workers {had}"


def forked_while_running() -> str:
    """Fork in one thread while another is in the middle of a launch."""
    right()
    stop = []
    other = threading.Thread(target=lambda: [_cpu(blocks, X) for _ in iter(lambda: not stop, False)])
    other.start()
    codes = []
    for _ in range(5):
        child = os.fork()
        if child == 0:
            os._exit(0 if right() and right() else 3)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    stop.append(1)
    other.join(20)
    return f"children {codes}, parent {'right' if right() else 'wrong'}"


def forked_while_compiling() -> str:
    """Fork in one thread while another compiles; the child compiles, too."""

    def scaled(by: float) -> Any:
        @pl.jit
        def kernel(x: Rows, out: pl.Out[Rows]):
            for b in pl.spmd(64):
                t = x[b * 4 : b * 4 + 4, :]
                for _ in pl.unroll(4):
                    t = pl.exp(t * by)
                out[b * 4 : b * 4 + 4, :] = t

        return kernel

    def compiles(by: float) -> bool:
        return _cpu(scaled(by), X).shape == X.shape

    compiles(0.5)
    stop, made, codes = [], [], []

    def keeps_compiling() -> None:
        while not stop:
            made.append(compiles(0.25 / (len(made) + 1)))

    with pypto.override(cache=False):
        other = threading.Thread(target=contextvars.copy_context().run, args=(keeps_compiling,))
        other.start()
        for n in range(5):
            time.sleep(0.05)
            child = os.fork()
            if child == 0:
                os._exit(0 if compiles(0.125 / (n + 1)) else 3)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        stop.append(1)
        other.join(60)
    return f"children {codes}, the other compiled: {all(made) and len(made) > 1}, parent {'right' if right() else 'wrong'}"


def no_memory_for_a_buffer() -> str:
    x = np.ones((16, 16), np.float32)
    large_buffer(x, 16)
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    try:
        large_buffer(x, 1 << 32)
    except MemoryError as error:
        sized = "274,877,906,944 bytes" in str(error)
        well = right() and np.array_equal(large_buffer(x, 16), 2 * x)
        return f"{getattr(error, 'code', error)}{' with its size' if sized else ''}, {'right' if well else 'wrong'} afterwards"
    return "ended"


def no_more_threads() -> str:
    """The system starts no thread: the launch goes on with those there are."""
    with pypto.override(threads=1):
        right()
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + (6 << 20)  # a new thread reserves 8 MB
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return f"{'right' if right() else 'wrong'} with {native().workers()} workers"


def caller_raises() -> str:
    """A launch on a thread whose function raises later leaves nothing behind."""
    threading.excepthook = lambda _: None

    def body() -> None:
        _cpu(blocks, X)
        raise RuntimeError("on purpose")

    for _ in range(20):
        t = threading.Thread(target=body)
        t.start()
        t.join(20)
    return "right" if right() else "wrong"


def exits_while_a_daemon_runs() -> str:
    """The interpreter ends while a daemon thread is in a kernel."""
    threading.Thread(target=lambda: _cpu(long_blocks, X[:16], 1 << 40), daemon=True).start()
    time.sleep(0.3)
    return "ended"


CASES = {
    "interrupt in a kernel": lambda: interrupted(long_kernel),
    "interrupt in blocks": lambda: interrupted(long_blocks),
    "interrupt in phases": lambda: interrupted(long_phases),
    "interrupt in an orchestration": lambda: interrupted(long_orchestration),
    "handler that returns": lambda: handler_returns(long_kernel),
    "handler that returns, in phases": lambda: handler_returns(long_phases),
    "other threads": other_threads_run,
    "fork": forked,
    "fork while running": forked_while_running,
    "fork while compiling": forked_while_compiling,
    "no memory for a buffer": no_memory_for_a_buffer,
    "no more threads": no_more_threads,
    "caller raises": caller_raises,
    "exit while a daemon runs": exits_while_a_daemon_runs,
}
ON = {"check": False, "executor": "cpu", "threads": 3}

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what starts tests in the background has them ignore Ctrl-C
    with pypto.override(check=False, executor="reference"):
        WANTED = np.asarray(blocks(X)).tobytes()
    with pypto.override(**ON):
        print(CASES[sys.argv[1]](), flush=True)
