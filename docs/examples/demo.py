"""The demonstration: run every example, check each against JAX, and print a table. The exit code is 1 if one disagrees."""

from __future__ import annotations

import importlib
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pypto.interpreters.cpu.cache import convention
from pypto.testing import CheckResult, ScalarSpec, TensorSpec

EXAMPLES = (
    "hello",
    "softmax",
    "rmsnorm",
    "layernorm",
    "rope",
    "topk",
    "matmul",
    "gemm_residual",
    "int8_linear",
    "swiglu_mlp",
    "flash_attention",
    "paged_attention",
    "routed_experts",
    "layer_loop",
    "decode_prefill",
    "nn/transformer",
    "nn/flash_block",
    "nn/heads",
    "nn/int8_block",
)
"""What runs, in this order; `nn/training` takes seconds and is left to the tests."""
NUMBERS = (2, 3, 5, 6, 7)  # columns of numbers, to the right
HEADER = ("example", "shapes", "worst ULP", "worst error", "bits", "checked ms", "first ms", "again ms")
NOTES = """\
worst ULP, worst error: the largest distance from JAX, in units in the last place and absolute. Where many terms cancel an
  output is near zero, and a small error is many ULPs; TOLERANCE in each example says what is allowed, and why.
checked ms: one checked call, which the reference executor runs, tracing included. It runs NumPy one operation at a time: it
  defines the bits, and reports what only shows in the elements. first ms, again ms: a plain call, which compiled code runs, with
  the same bits; the first one compiles, or finds on disk what an earlier process compiled."""


@dataclass(frozen=True)
class Row:
    """One line of the table, and whether the example agrees with JAX."""

    cells: tuple[str, ...]
    agrees: bool


def shapes(specs: Sequence[TensorSpec | ScalarSpec]) -> str:
    """The parameters in short, inputs -> outputs; a dtype is named where it changes."""
    words, dtype = [], None
    arrow = False
    for spec in sorted(specs, key=lambda spec: isinstance(spec, TensorSpec) and spec.output):
        if isinstance(spec, TensorSpec) and spec.output and not arrow:
            arrow = True
            words.append("->")
        if isinstance(spec, TensorSpec) and spec.dtype is not dtype:
            dtype = spec.dtype
            words.append(dtype.name)
        words.append(f"[{','.join(map(str, spec.shape))}]" if isinstance(spec, TensorSpec) else "scalar")
    return " ".join(words)


def worst_error(result: CheckResult) -> float:
    """The largest absolute difference in any output."""
    pairs = [(result.actual[name].astype(np.float64), result.expected[name].astype(np.float64)) for name in result.outputs]
    return max(float(np.abs(actual - expected).max(initial=0.0)) for actual, expected in pairs)


def in_place(function: Callable[..., Any], specs: Sequence[TensorSpec | ScalarSpec]) -> Callable[..., None]:
    """An array function as a kernel: it is given its outputs too, and writes them."""

    def run(*arguments: Any) -> None:
        given = [(a, isinstance(spec, TensorSpec) and spec.output) for a, spec in zip(arguments, specs, strict=True)]
        made = function(*(a for a, output in given if not output))
        for (a, _), result in zip((g for g in given if g[1]), made if isinstance(made, tuple) else (made,), strict=True):
            a[...] = np.asarray(result)

    return run


def compiled(kernel: Callable[..., object], specs: Sequence[TensorSpec | ScalarSpec], result: CheckResult) -> tuple[float, float]:
    """Seconds of a first plain call and of the fastest of up to three more; each must have the bits of the checked one."""
    seconds: list[float] = []
    made = {spec.name: spec.make(result.seed) for spec in specs}
    while len(seconds) < 2 or (len(seconds) < 4 and sum(seconds) < 0.2):
        arguments = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in made.items()}
        started = time.perf_counter()
        kernel(*arguments.values())
        seconds.append(time.perf_counter() - started)
        for output, wanted in result.actual.items():
            if np.asarray(arguments[output]).tobytes() != wanted.tobytes():
                raise AssertionError(f"{output}: compiled code has other bits than the reference executor")
    return seconds[0], min(seconds[1:])


def run(name: str) -> Row:
    """Check one example. Whatever it raises is printed, and counts as a disagreement."""
    try:
        folder, _, stem = name.rpartition("/")
        module = importlib.import_module(stem)
        result: CheckResult = module.check_example(raises=False)
        kernel = in_place(module.program, module.specs()) if folder else getattr(module, stem)
        first, again = compiled(kernel, module.specs(), result)
    except Exception:
        print("FAILED", flush=True)
        traceback.print_exc()
        return Row((name, "", "", "", "FAILED", "", "", ""), False)
    bits = "equal" if result.equal_bits else "differ"
    if result.passed:
        print(f"agrees, {again * 1e3:.2f} ms", flush=True)
    else:
        bits = "DISAGREES"
        print(f"DISAGREES\n{result.report()}", flush=True)
    ulp = max(found.max_ulp for found in result.outputs.values())
    times = (f"{result.kernel_seconds * 1e3:.0f}", f"{first * 1e3:.0f}", f"{again * 1e3:.2f}")
    cells = (name, shapes(module.specs()), f"{ulp:.0f}", f"{worst_error(result):.1e}", bits, *times)
    return Row(cells, result.passed)


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The rows under a header; numbers to the right."""
    lines = [HEADER, *(row.cells for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
    for place, line in enumerate(lines):
        cells = [cell.rjust(width) if column in NUMBERS else cell.ljust(width) for column, (cell, width) in enumerate(zip(line, widths))]
        yield "  ".join(cells).rstrip()
        if place == 0:
            yield "  ".join("-" * width for width in widths)


def keep_what_jax_compiles() -> None:
    """JAX compiles its side anew in every process, which takes longer than all else here, unless it is told where to keep it."""
    import jax

    directory = convention()
    if directory is not None:
        jax.config.update("jax_compilation_cache_dir", str(directory / "jax"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def main() -> int:
    """Run the demonstration; returns the exit code."""
    started = time.perf_counter()
    keep_what_jax_compiles()
    sys.path.append(str(Path(__file__).with_name("nn")))
    rows = []
    for number, name in enumerate(EXAMPLES, 1):
        print(f"[{number}/{len(EXAMPLES)}] {name} ... ", end="", flush=True)
        rows.append(run(name))
    print()
    print("\n".join(table(rows)))
    print()
    print(NOTES)
    agreeing = sum(row.agrees for row in rows)
    seconds = time.perf_counter() - started
    print(f"\n{agreeing} of {len(rows)} examples agree with JAX; {seconds:.1f} s in all, importing and compiling JAX's side included")
    return 0 if agreeing == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
