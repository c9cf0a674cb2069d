"""Random kernels on both executors, until time is up or they differ: `./dev fuzz --minutes N`.

The compiled executor writes code for this CPU, for AVX2 and for SSE4.2, and all of it must have the bits of the reference executor. What
differs is shrunk: lines are taken out as long as it still does, and the smallest kernel is printed.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pypto
from pypto.errors import PyptoError
from pypto.interpreters.cpu.launch import Compiled, compile_program
from tests.executors import difference
from tests.op_kernels import op_kernel
from tests.sort_kernels import sort_kernel
from tests.tile_nests import tile_kernel

TARGETS: dict[str, Any] = {
    "this CPU": None,
    "AVX2": ("haswell", "+avx2,+fma,+f16c,+bmi2,+avx,+sse4.2,+popcnt"),
    "SSE4.2": ("nehalem", "+sse4.2,+sse4.1,+ssse3,+sse3,+popcnt,+cx16"),
}
"""CPUs that code is written for; all of it runs here."""

GENERATORS: dict[str, Callable[[int], str]] = {"ops": op_kernel, "nests": tile_kernel, "sorts": sort_kernel}
_SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 65504.0, 3e38)


def loaded(source: str, folder: Path) -> Any:
    """The kernel of a source text, which has to be a file: tracing reads it."""
    number = next(_numbers)
    file = folder / f"kernel_{number}.py"
    file.write_text(f"import pypto.language as pl\n\n\n{source}")
    spec = importlib.util.spec_from_file_location(f"fuzz_{number}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


_numbers = itertools.count()


def arguments(kernel: Any, seed: int) -> list[Any]:
    """Arrays and numbers for the parameters of a kernel; a few elements are special."""
    rng = np.random.default_rng(seed)
    made: list[Any] = []
    for p in kernel.signature.parameters:
        dims = getattr(p.type, "dims", None)
        if dims is None:
            made.append(int(rng.integers(0, 4)))
            continue
        dtype = p.type.dtype
        if dtype.is_float:
            values = rng.normal(size=dims).astype(np.float32) * 3
            if seed % 3 == 0:
                values.reshape(-1)[rng.integers(0, values.size, len(_SPECIAL))] = _SPECIAL
            made.append(values.astype(dtype.storage))
        else:
            made.append(rng.integers(-1000, 1000, dims).astype(dtype.storage))
    return made


def verdict(source: str, seed: int, targets: Sequence[str], folder: Path) -> str:
    """How the executors differ on a kernel: empty if they do not, or if it is refused before it runs."""
    with pypto.override(platform="cpu"), np.errstate(all="ignore"):
        try:
            kernel = loaded(source, folder)
            call = kernel._bind(tuple(arguments(kernel, seed)), {})
            program = kernel._program(call)
        except (PyptoError, SyntaxError, NameError, AttributeError):
            return ""
        for name in targets:
            compiled = compile_program(program.orchestration, program.bodies, TARGETS[name])
            if not isinstance(compiled, Compiled):
                return f"{name}: {compiled.reason}"
            found = difference(kernel, program, call, compiled)
            if found:
                return f"{name}: {found}"
    return ""


# ---- shrinking ---------------------------------------------------------------------------------------------------


def without(lines: Sequence[str], at: int) -> list[str]:
    """The lines without one of them and what is nested in it."""
    depth = _depth(lines[at])
    end = at + 1
    while end < len(lines) and _depth(lines[end]) > depth:
        end += 1
    return [*lines[:at], *lines[end:]]


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def unwrapped(lines: Sequence[str], at: int) -> list[str]:
    """The lines without one of them; what is nested in it moves out."""
    rest = list(lines)
    depth = _depth(rest.pop(at))
    for i in range(at, len(rest)):
        if _depth(rest[i]) <= depth:
            break
        rest[i] = rest[i][4:]
    return rest


def shrunk(source: str, fails: Callable[[str], bool]) -> str:
    """A kernel that fails and of which no line can go; only the lines of a body are tried."""
    lines = source.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("def kernel"))
    at = len(lines) - 1
    while at > first:
        for smaller in (without(lines, at), unwrapped(lines, at)):
            if len(smaller) > first + 1 and fails("\n".join(smaller) + "\n"):
                lines = smaller
                break
        at = min(at, len(lines)) - 1
    return "\n".join(lines) + "\n"


# ---- running -----------------------------------------------------------------------------------------------------


def dies(source: str, seed: int, targets: Sequence[str], folder: Path) -> bool:
    """Whether a process that runs a kernel is ended by a signal; a copy of this one is quicker than a new one."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            verdict(source, seed, targets, folder)
            code = 0
        finally:
            os._exit(code)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def worker(names: Sequence[str], first: int, count: int, targets: Sequence[str], folder: Path) -> None:
    """Try some seeds; print each before it runs, so that whoever waits knows which one ended the process."""
    for seed in range(first, first + count):
        for name in names:
            print(f"{name} {seed}", flush=True)
            found = verdict(GENERATORS[name](seed), seed, targets, folder)
            if found:
                print(f"DIFFERS {name} {seed} {found}", flush=True)
                return


def report(name: str, seed: int, what: str, targets: Sequence[str], folder: Path) -> None:
    """Print a failure and the smallest kernel that has it."""
    source = GENERATORS[name](seed)
    print(f"{name} {seed}: {what}; looking for the smallest kernel that does this", flush=True)
    if what.startswith("ended"):
        small = shrunk(source, lambda s: dies(s, seed, targets, folder))
    else:
        only = [what.split(":")[0]]
        small = shrunk(source, lambda s: bool(verdict(s, seed, only, folder)))
    print(f"\nimport pypto.language as pl\n\n\n{small}\ninputs: tests.fuzz.arguments(kernel, {seed})", flush=True)


def main() -> int:
    """Run until the time is up; 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=None, help="where to begin; by default the time of day says")
    parser.add_argument("--targets", nargs="*", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--generators", nargs="*", default=list(GENERATORS), choices=list(GENERATORS))
    parser.add_argument("--count", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.count is not None:
            worker(given.generators, given.seed, given.count, given.targets, folder)
            return 0
        return search(given, folder)


def search(given: argparse.Namespace, folder: Path) -> int:
    """Processes of some seeds each, one after the other."""
    end, tried = time.monotonic() + 60 * given.minutes, 0
    seed = given.seed if given.seed is not None else int(time.time()) % 1_000_000 * 100
    while time.monotonic() < end:
        command = [sys.executable, "-m", "tests.fuzz", "--seed", str(seed), "--count", str(_BATCH)]
        command += ["--targets", *given.targets, "--generators", *given.generators]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        tried += sum(not line.startswith("DIFFERS") for line in lines)
        if lines and lines[-1].startswith("DIFFERS"):
            _, name, at, what = lines[-1].split(" ", 3)
            report(name, int(at), what, given.targets, folder)
            return 1
        if done.returncode:
            if done.returncode > 0 or not lines:
                print(done.stderr)
                return 1
            name, at = lines[-1].split(" ")
            report(name, int(at), f"ended the process with signal {-done.returncode}", given.targets, folder)
            return 1
        seed += _BATCH
    print(f"{tried} kernels agree on {', '.join(given.targets)}")
    return 0


_BATCH = 20


if __name__ == "__main__":
    sys.exit(main())
