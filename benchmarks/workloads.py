"""W1 to W7 against their peers, interleaved in one run: medians in ms, and the ratio of the best peer to pypto.

`python -m benchmarks.workloads [W1 ...] [--rounds N] [--quick] [--reference] [--json FILE]`. Peers: jax.jit of the straight array
program, NumPy tile loops, Pallas under `interpret=True`, Triton's interpreter where it is installed. Every result is compared with
jax's in the same run, and with `--reference` the bits with those of the reference executor. Figures of different runs do not compare.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import pypto
from benchmarks import kernels, pallas, peers
from benchmarks.peers import BF16

F32, I8, I32 = np.float32, np.int8, np.int32
COMPILED = {"check": False, "executor": "cpu"}
TRITON = "triton interpret"
SLOW = ("pallas interpret", TRITON, "pypto reference")
"""Competitors that are measured in the first rounds only."""


@dataclass(frozen=True)
class Workload:
    """A kernel, its peers and its data, for a size.

    Attributes:
      inputs, outputs: shapes and dtypes for a size.
      sizes: those of the growth curve; the last is the workload's own.
      target: the ratio it is meant to reach.
      tolerance: how far from jax's result, relative to its largest element: JAX sums in another order and its exp is not rounded
        correctly; W6 and W7 are exact.
      repeat: calls in one measurement.
    """

    name: str
    what: str
    kernel: Callable[[int], Any]
    jax: Callable[..., Any]
    tiles: Callable[..., None]
    pallas: Callable[..., Any]
    inputs: Callable[[int], list[tuple[tuple[int, ...], Any]]]
    outputs: Callable[[int], list[tuple[tuple[int, ...], Any]]]
    sizes: tuple[int, ...]
    target: float
    tolerance: float
    repeat: int = 1


def _square(*dtypes: Any) -> Callable[[int], list[Any]]:
    return lambda n: [((n, n), d) for d in dtypes]


WORKLOADS = {
    w.name: w
    for w in (
        Workload(
            "W1", "row softmax, [4096, 4096] FP32", kernels.softmax, peers.softmax_jax, peers.softmax_tiles, pallas.softmax,
            lambda n: [((n, 4096), F32)], lambda n: [((n, 4096), F32)], (512, 1024, 2048, 4096), 2, 1e-5,
        ),
        Workload(
            "W2", "RMSNorm + BF16 matmul + SwiGLU, 128 x 4096 x 11008", kernels.swiglu, peers.swiglu_jax, peers.swiglu_tiles,
            pallas.swiglu, lambda n: [((128, 4096), F32), ((1, 4096), F32), ((4096, 2 * n), BF16)], lambda n: [((128, n), BF16)],
            (640, 1408, 2816, 5504), 1.5, 2e-2,
        ),
        Workload(
            "W3", "matmul 1024^3, BF16 to FP32", kernels.matmul, peers.matmul_jax, peers.matmul_tiles, pallas.matmul,
            _square(BF16, BF16), _square(F32), (128, 256, 512, 1024), 1, 1e-4,
        ),
        Workload(
            "W4", "flash attention, 2048 x 128, 8 heads, BF16", kernels.attention, peers.attention_jax, peers.attention_tiles,
            pallas.attention, lambda n: [((8, n, 128), BF16)] * 3, lambda n: [((8, n, 128), BF16)], (256, 512, 1024, 2048), 2.5, 2e-2,
        ),
        Workload(
            "W5", "INT8 quantise, matmul, dequantise, 1024^3", kernels.quantised, peers.quantised_jax, peers.quantised_tiles,
            pallas.quantised, lambda n: [((n, n), F32), ((n, n), I8), ((1, n), F32)], _square(F32), (128, 256, 512, 1024), 1.2, 2e-3,
        ),
        Workload(
            "W6", "top-8 of 512, 4096 rows", kernels.top, peers.top_jax, peers.top_tiles, pallas.top, lambda n: [((n, 512), F32)],
            lambda n: [((n, 8), F32), ((n, 8), I32)], (512, 1024, 2048, 4096), 6, 0.0,
        ),
        Workload(
            "W7", "launch: one [16, 16] addition", kernels.small, peers.small_jax, peers.small_tiles, pallas.small, _square(F32, F32),
            _square(F32), (16, 32, 64, 128), 4, 0.0, 2000,
        ),
    )
}  # fmt: skip


def data(work: Workload, size: int) -> list[np.ndarray]:
    """The arguments, the same ones in every run."""
    rng = np.random.default_rng(0)
    made = []
    for shape, dtype in work.inputs(size):
        if dtype is I8:
            made.append(rng.integers(-127, 128, shape).astype(np.int8))
            continue
        scale = 2.0**-6 if work.name == "W2" and dtype is BF16 else 1.0
        made.append((rng.normal(size=shape).astype(np.float32) * np.float32(scale)).astype(dtype))
    return made


@dataclass
class Competitors:
    """What runs: functions by name, and where each leaves its results."""

    run: dict[str, Callable[[], Any]]
    results: dict[str, Callable[[], list[np.ndarray]]]
    compiled: Any


def competitors(work: Workload, size: int, *, others: bool = True, reference: bool = False) -> Competitors:
    """Everybody who takes part; with `others`, also those that take long."""
    import jax
    from jax.experimental import pallas as jax_pallas

    inputs, kernel = data(work, size), work.kernel(size)
    outs = {name: [np.zeros(s, d) for s, d in work.outputs(size)] for name in ("pypto", "numpy tiles", "pypto reference")}
    device = [jax.numpy.asarray(x) for x in inputs]
    run: dict[str, Callable[[], Any]] = {"pypto": lambda: kernel(*inputs, *outs["pypto"])}
    results: dict[str, Callable[[], list[np.ndarray]]] = {name: lambda name=name: outs[name] for name in outs}

    def compiled(name: str, function: Callable[..., Any]) -> None:
        jitted, kept = jax.jit(function), []

        def go() -> None:
            kept[:] = [jax.block_until_ready(jitted(*device))]

        run[name] = go
        results[name] = lambda: [np.asarray(x) for x in (kept[0] if isinstance(kept[0], tuple | list) else kept)]

    compiled("jax.jit", lambda *xs: work.jax(jax, *xs))
    run["numpy tiles"] = lambda: work.tiles(*inputs, *outs["numpy tiles"])
    if others:
        compiled("pallas interpret", lambda *xs: work.pallas(jax, jax_pallas, *xs))
        if (kernels_of_triton := triton()) is not None:
            outs[TRITON] = [np.zeros(s, d) for s, d in work.outputs(size)]
            results[TRITON] = lambda: outs[TRITON]
            run[TRITON] = lambda: kernels_of_triton.KERNELS[work.name](*inputs, *outs[TRITON])
    if reference:

        def meaning() -> None:
            with pypto.override(executor="reference"):
                kernel(*inputs, *outs["pypto reference"])

        run["pypto reference"] = meaning
    return Competitors(run, results, kernel.lower().compiled)


def triton() -> Any:
    """The workloads for Triton's interpreter; None where it is not installed."""
    if importlib.util.find_spec("triton") is None:
        return None
    return importlib.import_module("benchmarks.triton_peers")


def timed(found: Competitors, rounds: int, repeat: int) -> dict[str, float]:
    """Median seconds of a call of each, in turn; slow ones take part in two rounds."""
    times: dict[str, list[float]] = {name: [] for name in found.run}
    for turn in range(rounds + 1):
        for name, run in found.run.items():
            if name in SLOW and turn > 2:
                continue
            calls = max(1, repeat // 100) if name in SLOW else repeat
            start = time.perf_counter()
            for _ in range(calls):
                run()
            if turn:  # the first round compiles
                times[name].append((time.perf_counter() - start) / calls)
    return {name: statistics.median(t) for name, t in times.items()}


def distance(work: Workload, got: list[np.ndarray], want: list[np.ndarray]) -> float:
    """The largest error of any output, relative to its largest element."""
    pairs = [(g.astype(np.float64), w.astype(np.float64)) for g, w in zip(got, want, strict=True)]
    return max(float(np.abs(g - w).max() / max(1e-30, np.abs(w).max())) for g, w in pairs)


def measure(work: Workload, *, rounds: int, others: bool = True, reference: bool = False, size: int | None = None) -> dict[str, Any]:
    """One row of the table.

    Errors:
      SystemExit if a result is not jax's, within the tolerance, or with `reference` not the reference executor's bits.
    """
    with pypto.override(**COMPILED):
        found = competitors(work, size or work.sizes[-1], others=others, reference=reference)
        seconds = timed(found, rounds, work.repeat)
    want = found.results["jax.jit"]()
    error = distance(work, found.results["pypto"](), want)
    wrong = []
    for name in seconds:
        if not (far := distance(work, found.results[name](), want)) <= work.tolerance:  # NaN is no result
            if name != TRITON:
                raise SystemExit(f"{work.name}: {name} is {far:.2e} from jax")
            wrong.append(name)  # as it is known for: the table says so, and it is no peer
    # a bare ufunc call launches no program: it is no peer of a launch
    rivals = [n for n in seconds if n not in ("pypto", "pypto reference", *wrong) and not (work.name == "W7" and n == "numpy tiles")]
    best = min(rivals, key=lambda n: seconds[n])
    row: dict[str, Any] = {"workload": work.name, "what": work.what, "size": size or work.sizes[-1]}
    row["ms"], row["wrong"] = {name: s * 1e3 for name, s in seconds.items()}, wrong
    row |= {"best peer": best, "ratio": seconds[best] / seconds["pypto"], "target": work.target, "error": error}
    row["executor"] = found.compiled.executor + (f" ({found.compiled.reason})" if found.compiled.reason else "")
    if reference:
        pairs = zip(found.results["pypto"](), found.results["pypto reference"](), strict=True)
        if not all(a.tobytes() == b.tobytes() for a, b in pairs):
            raise SystemExit(f"{work.name}: not the bits of the reference executor")
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as a Markdown table, in ms (W7 in us), and under it who took no part."""
    names = list(dict.fromkeys(n for r in rows for n in r["ms"]))
    lines = [f"| | {' | '.join(names)} | best peer / pypto | wanted |", f"|---|{'---:|' * (len(names) + 2)}"]
    for r in rows:
        unit, name = (1e3, " (us)") if r["workload"] == "W7" else (1, "")
        cells = [f"{r['ms'][n] * unit:.3g}{', wrong numbers' * (n in r['wrong'])}" if n in r["ms"] else "" for n in names]
        lines.append(f"| {r['workload']}{name} | {' | '.join(cells)} | {r['ratio']:.2f} ({r['best peer']}) | {r['target']} |")
    if TRITON not in names:
        lines.append(
            "\nTriton's interpreter took no part: " + ("it takes seconds." if triton() is not None else "Triton is not installed.")
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> list[dict[str, Any]]:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.workloads", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="W", help=f"of {', '.join(WORKLOADS)}; all by default")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="without the peers that take seconds")
    parser.add_argument("--reference", action="store_true", help="compare bits with the reference executor, too")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments or [])
    if unknown := set(given.names) - WORKLOADS.keys():
        parser.error(f"no workload {sorted(unknown)[0]}; there are {', '.join(WORKLOADS)}")
    rows = []
    for name in given.names or WORKLOADS:
        rows.append(measure(WORKLOADS[name], rounds=given.rounds, others=not given.quick, reference=given.reference))
        print(f"{name}: {', '.join(f'{n} {ms:.4g} ms' for n, ms in rows[-1]['ms'].items())}; ratio {rows[-1]['ratio']:.2f}", flush=True)
    print("\n" + table(rows))
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))
    return rows


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
