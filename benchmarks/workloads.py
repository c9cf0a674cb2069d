"""W1 to W7: pypto compiled, pypto's reference executor, a NumPy tile loop and jax.jit, interleaved in one run.

`python -m benchmarks.workloads [W1 ...] [--reference] [--rounds N]` prints medians in ms, and the ratio of the best peer to the compiled
kernel. Results are checked in the same run: bits against the reference executor with `--reference`, values against jax always.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import pypto
import pypto.language as pl

BF16 = ml_dtypes.bfloat16
INFINITY = float("inf")


# ---- W1: row softmax ---------------------------------------------------------------------------------------------


@pl.jit
def softmax(x: pl.Tensor[[4096, 4096], pl.FP32], out: pl.Out[pl.Tensor[[4096, 4096], pl.FP32]]):
    for r in pl.parallel(0, 4096, 16):
        with pl.at(level=pl.Level.CORE_GROUP):
            peak = pl.full([16, 1], dtype=pl.FP32, value=-INFINITY)
            for c in pl.range(0, 4096, 1024):
                peak = pl.maximum(peak, pl.row_max(x[r : r + 16, c : c + 1024]))
            total = pl.full([16, 1], dtype=pl.FP32, value=0.0)
            for c in pl.range(0, 4096, 1024):
                e = pl.exp(pl.row_expand_sub(x[r : r + 16, c : c + 1024], peak))
                total = pl.add(total, pl.row_sum(e))
                out[r : r + 16, c : c + 1024] = e
            for c in pl.range(0, 4096, 1024):
                out[r : r + 16, c : c + 1024] = pl.row_expand_div(out[r : r + 16, c : c + 1024], total)


def softmax_tiles(x: Any, out: Any) -> None:
    for r in range(0, 4096, 16):
        t = x[r : r + 16]
        e = np.exp(t - t.max(1, keepdims=True))
        out[r : r + 16] = e / e.sum(1, keepdims=True)


def softmax_jax(jnp: Any, x: Any) -> Any:
    e = jnp.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


# ---- W2: RMSNorm, projection, SwiGLU -----------------------------------------------------------------------------


@pl.jit
def swiglu(
    x: pl.Tensor[[128, 4096], pl.FP32],
    gain: pl.Tensor[[1, 4096], pl.FP32],
    w: pl.Tensor[[4096, 11008], pl.BF16],
    out: pl.Out[pl.Tensor[[128, 5504], pl.BF16]],
):
    h = pl.create_tensor([128, 4096], dtype=pl.BF16)
    for r in pl.parallel(0, 128, 16):
        with pl.at(level=pl.Level.CORE_GROUP):
            squares = pl.full([16, 1], dtype=pl.FP32, value=0.0)
            for c in pl.range(0, 4096, 512):
                t = x[r : r + 16, c : c + 512]
                squares = pl.add(squares, pl.row_sum(pl.mul(t, t)))
            scale = pl.rsqrt(pl.adds(pl.muls(squares, 1.0 / 4096.0), 1e-6))
            for c in pl.range(0, 4096, 512):
                t = pl.row_expand_mul(x[r : r + 16, c : c + 512], scale)
                h[r : r + 16, c : c + 512] = pl.cast(pl.col_expand_mul(t, gain[:, c : c + 512]), pl.BF16, mode="rint")
    for n in pl.parallel(0, 5504, 128):
        gate = pl.create_tensor([128, 128], dtype=pl.FP32)
        up = pl.create_tensor([128, 128], dtype=pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP):
            for k in pl.range(0, 4096, 512):
                a = h[:, k : k + 512]
                if k == 0:
                    gate = pl.matmul(a, w[k : k + 512, n : n + 128])
                    up = pl.matmul(a, w[k : k + 512, 5504 + n : 5504 + n + 128])
                else:
                    gate = pl.matmul_acc(gate, a, w[k : k + 512, n : n + 128])
                    up = pl.matmul_acc(up, a, w[k : k + 512, 5504 + n : 5504 + n + 128])
            y = pl.mul(pl.div(gate, pl.adds(pl.exp(pl.neg(gate)), 1.0)), up)
            out[:, n : n + 128] = pl.cast(y, pl.BF16, mode="rint")


def swiglu_tiles(x: Any, gain: Any, w: Any, out: Any) -> None:
    h = (x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * gain).astype(BF16)
    for n in range(0, 5504, 128):
        gate = up = 0.0
        for k in range(0, 4096, 512):
            a = h[:, k : k + 512].astype(np.float32)
            gate = gate + a @ w[k : k + 512, n : n + 128].astype(np.float32)
            up = up + a @ w[k : k + 512, 5504 + n : 5504 + n + 128].astype(np.float32)
        out[:, n : n + 128] = (gate / (1 + np.exp(-gate)) * up).astype(BF16)


def swiglu_jax(jnp: Any, x: Any, gain: Any, w: Any) -> Any:
    h = (x / jnp.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * gain).astype(jnp.bfloat16)
    y = jnp.matmul(h, w, preferred_element_type=jnp.float32)
    gate, up = y[:, :5504], y[:, 5504:]
    return (gate / (1 + jnp.exp(-gate)) * up).astype(jnp.bfloat16)


# ---- W3: matmul --------------------------------------------------------------------------------------------------


@pl.jit
def matmul(a: pl.Tensor[[1024, 1024], pl.BF16], b: pl.Tensor[[1024, 1024], pl.BF16], out: pl.Out[pl.Tensor[[1024, 1024], pl.FP32]]):
    for m in pl.parallel(0, 1024, 128):
        for n in pl.parallel(0, 1024, 128):
            acc = pl.create_tensor([128, 128], dtype=pl.FP32)
            with pl.at(level=pl.Level.CORE_GROUP):
                for k in pl.range(0, 1024, 64):
                    if k == 0:
                        acc = pl.matmul(a[m : m + 128, k : k + 64], b[k : k + 64, n : n + 128])
                    else:
                        acc = pl.matmul_acc(acc, a[m : m + 128, k : k + 64], b[k : k + 64, n : n + 128])
                out[m : m + 128, n : n + 128] = acc


def matmul_tiles(a: Any, b: Any, out: Any) -> None:
    for m in range(0, 1024, 128):
        for n in range(0, 1024, 128):
            acc = np.zeros((128, 128), np.float32)
            for k in range(0, 1024, 64):
                acc += a[m : m + 128, k : k + 64].astype(np.float32) @ b[k : k + 64, n : n + 128].astype(np.float32)
            out[m : m + 128, n : n + 128] = acc


def matmul_jax(jnp: Any, a: Any, b: Any) -> Any:
    return jnp.matmul(a, b, preferred_element_type=jnp.float32)


# ---- W4: flash attention -----------------------------------------------------------------------------------------


@pl.jit
def attention(
    q: pl.Tensor[[8, 2048, 128], pl.BF16],
    k: pl.Tensor[[8, 2048, 128], pl.BF16],
    v: pl.Tensor[[8, 2048, 128], pl.BF16],
    out: pl.Out[pl.Tensor[[8, 2048, 128], pl.BF16]],
):
    for block in pl.spmd(8 * 32):
        head = block // 32
        q0 = block % 32 * 64
        tile_q = q[head, q0 : q0 + 64, :]
        peak = pl.full([64, 1], dtype=pl.FP32, value=-INFINITY)
        total = pl.full([64, 1], dtype=pl.FP32, value=0.0)
        mixed = pl.full([64, 128], dtype=pl.FP32, value=0.0)
        for s in pl.range(0, 2048, 128):
            scores = pl.muls(pl.matmul(tile_q, k[head, s : s + 128, :], b_trans=True), 0.08838834764831845)
            now = pl.maximum(peak, pl.row_max(scores))
            decay = pl.exp(pl.sub(peak, now))
            weights = pl.exp(pl.row_expand_sub(scores, now))
            total = pl.add(pl.mul(total, decay), pl.row_sum(weights))
            part = pl.matmul(pl.cast(weights, pl.BF16, mode="rint"), v[head, s : s + 128, :])
            mixed = pl.add(pl.row_expand_mul(mixed, decay), part)
            peak = now
        out[head, q0 : q0 + 64, :] = pl.cast(pl.row_expand_div(mixed, total), pl.BF16, mode="rint")


def attention_tiles(q: Any, k: Any, v: Any, out: Any) -> None:
    for h in range(8):
        for q0 in range(0, 2048, 64):
            t = q[h, q0 : q0 + 64].astype(np.float32)
            peak, total, mixed = np.full((64, 1), -np.inf, np.float32), np.zeros((64, 1), np.float32), np.zeros((64, 128), np.float32)
            for s in range(0, 2048, 128):
                scores = t @ k[h, s : s + 128].astype(np.float32).T * np.float32(128**-0.5)
                now = np.maximum(peak, scores.max(1, keepdims=True))
                decay, weights = np.exp(peak - now), np.exp(scores - now)
                total = total * decay + weights.sum(1, keepdims=True)
                mixed = mixed * decay + weights.astype(BF16).astype(np.float32) @ v[h, s : s + 128].astype(np.float32)
                peak = now
            out[h, q0 : q0 + 64] = (mixed / total).astype(BF16)


def attention_jax(jnp: Any, q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("hqd,hkd->hqk", q, k, preferred_element_type=jnp.float32) * np.float32(128**-0.5)
    e = jnp.exp(scores - scores.max(2, keepdims=True))
    mixed = jnp.einsum("hqk,hkd->hqd", e.astype(jnp.bfloat16), v, preferred_element_type=jnp.float32)
    return (mixed / e.sum(2, keepdims=True)).astype(jnp.bfloat16)


# ---- W5: quantised matmul ----------------------------------------------------------------------------------------


@pl.jit
def quantised(
    x: pl.Tensor[[1024, 1024], pl.FP32],
    w: pl.Tensor[[1024, 1024], pl.INT8],
    scale: pl.Tensor[[1, 1024], pl.FP32],
    out: pl.Out[pl.Tensor[[1024, 1024], pl.FP32]],
):
    codes = pl.create_tensor([1024, 1024], dtype=pl.INT8)
    steps = pl.create_tensor([1024, 1], dtype=pl.FP32)
    for r in pl.parallel(0, 1024, 16):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = x[r : r + 16, :]
            step = pl.muls(pl.row_max(pl.abs(t)), 1.0 / 127.0)
            near = pl.cast(pl.row_expand_div(t, step), pl.INT32, mode="rint")
            codes[r : r + 16, :] = pl.cast(pl.cast(near, pl.FP16, mode="rint"), pl.INT8, mode="rint")
            steps[r : r + 16, :] = step
    for m in pl.parallel(0, 1024, 128):
        for n in pl.parallel(0, 1024, 128):
            acc = pl.create_tensor([128, 128], dtype=pl.INT32)
            with pl.at(level=pl.Level.CORE_GROUP):
                for k in pl.range(0, 1024, 128):
                    if k == 0:
                        acc = pl.matmul(codes[m : m + 128, k : k + 128], w[k : k + 128, n : n + 128], out_dtype=pl.INT32)
                    else:
                        acc = pl.matmul_acc(acc, codes[m : m + 128, k : k + 128], w[k : k + 128, n : n + 128])
                y = pl.row_expand_mul(pl.cast(acc, pl.FP32, mode="rint"), steps[m : m + 128, :])
                out[m : m + 128, n : n + 128] = pl.col_expand_mul(y, scale[:, n : n + 128])


def quantised_tiles(x: Any, w: Any, scale: Any, out: Any) -> None:
    step = np.abs(x).max(1, keepdims=True) * np.float32(1 / 127)
    codes = np.rint(x / step).astype(np.int8)
    for m in range(0, 1024, 128):
        for n in range(0, 1024, 128):
            acc = 0.0
            for k in range(0, 1024, 128):  # exact in FP32: 128 products below 2**14
                acc = acc + codes[m : m + 128, k : k + 128].astype(np.float32) @ w[k : k + 128, n : n + 128].astype(np.float32)
            out[m : m + 128, n : n + 128] = acc * step[m : m + 128] * scale[:, n : n + 128]


def quantised_jax(jnp: Any, x: Any, w: Any, scale: Any) -> Any:
    step = jnp.abs(x).max(1, keepdims=True) * np.float32(1 / 127)
    codes = jnp.rint(x / step).astype(jnp.int8)
    return jnp.matmul(codes, w, preferred_element_type=jnp.int32).astype(jnp.float32) * step * scale


# ---- W7: launch --------------------------------------------------------------------------------------------------


@pl.jit
def small(a: pl.Tensor[[16, 16], pl.FP32], b: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, :] = pl.add(a[:, :], b[:, :])


def small_tiles(a: Any, b: Any, out: Any) -> None:
    np.add(a, b, out=out)


def small_jax(jnp: Any, a: Any, b: Any) -> Any:
    return a + b


# ---- running -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Workload:
    """A kernel, its peers and its data. `repeat` calls are one measurement."""

    kernel: Any
    tiles: Callable[..., None]
    jax: Callable[..., Any]
    inputs: Callable[[np.random.Generator], list[np.ndarray]]
    out: tuple[tuple[int, ...], Any]
    tolerance: float
    repeat: int = 1


def _normal(*shapes: Any) -> Callable[[np.random.Generator], list[np.ndarray]]:
    def make(rng: np.random.Generator) -> list[np.ndarray]:
        found = []
        for shape, dtype in shapes:
            x = rng.integers(-127, 128, shape) if dtype is np.int8 else rng.normal(size=shape).astype(np.float32)
            found.append(x.astype(dtype))
        return found

    return make


F32, I8 = np.float32, np.int8
SQUARE = (1024, 1024)
_PROJECTION = _normal(((128, 4096), F32), ((1, 4096), F32), ((4096, 11008), BF16))
WORKLOADS = {
    "W1": Workload(softmax, softmax_tiles, softmax_jax, _normal(((4096, 4096), F32)), ((4096, 4096), F32), 1e-5),
    "W2": Workload(
        swiglu,
        swiglu_tiles,
        swiglu_jax,
        lambda rng: [x * x.dtype.type(2**-6 if x.dtype == BF16 else 1) for x in _PROJECTION(rng)],
        ((128, 5504), BF16),
        2e-2,
    ),
    "W3": Workload(matmul, matmul_tiles, matmul_jax, _normal((SQUARE, BF16), (SQUARE, BF16)), (SQUARE, F32), 1e-4),
    "W4": Workload(attention, attention_tiles, attention_jax, _normal(*[((8, 2048, 128), BF16)] * 3), ((8, 2048, 128), BF16), 2e-2),
    "W5": Workload(quantised, quantised_tiles, quantised_jax, _normal((SQUARE, F32), (SQUARE, I8), ((1, 1024), F32)), (SQUARE, F32), 2e-3),
    "W7": Workload(small, small_tiles, small_jax, _normal(((16, 16), F32), ((16, 16), F32)), ((16, 16), F32), 0.0, 2000),
}  # fmt: skip


def runners(work: Workload, *, reference: bool) -> tuple[dict[str, Callable[[], Any]], dict[str, np.ndarray]]:
    """Every competitor as a function that runs it once, and the array each leaves its result in."""
    import jax
    import jax.numpy as jnp

    inputs = work.inputs(np.random.default_rng(0))
    results = {name: np.zeros(work.out[0], work.out[1]) for name in ("pypto cpu", "pypto reference", "numpy tiles")}
    on_device = [jnp.asarray(x) for x in inputs]
    compiled = jax.jit(lambda *xs: work.jax(jnp, *xs))

    def ours() -> None:
        work.kernel(*inputs, results["pypto cpu"])

    def meaning() -> None:
        with pypto.override(executor="reference"):
            work.kernel(*inputs, results["pypto reference"])

    found: dict[str, Callable[[], Any]] = {
        "pypto cpu": ours,
        "numpy tiles": lambda: work.tiles(*inputs, results["numpy tiles"]),
        "jax.jit": lambda: compiled(*on_device).block_until_ready(),
    }
    if reference:
        found["pypto reference"] = meaning
    results["jax.jit"] = np.asarray(compiled(*on_device))
    return found, results


def measure(name: str, *, rounds: int, reference: bool) -> dict[str, Any]:
    """Medians of one workload, interleaved, and whether the results agree."""
    work = WORKLOADS[name]
    with pypto.override(check=False, executor="cpu"):
        compiled = work.kernel.lower().compiled
        todo, results = runners(work, reference=reference)
        times: dict[str, list[float]] = {k: [] for k in todo}
        for turn in range(rounds + 1):
            for competitor, run in todo.items():
                slow = competitor == "pypto reference"
                if slow and turn > 1:
                    continue
                repeat = 20 if slow and work.repeat > 1 else work.repeat
                start = time.perf_counter()
                for _ in range(repeat):
                    run()
                if turn or slow:
                    times[competitor].append((time.perf_counter() - start) / repeat)
    got, want = (results[k].astype(np.float64) for k in ("pypto cpu", "jax.jit"))
    error = float(np.abs(got - want).max() / max(1e-30, np.abs(want).max()))
    if error > work.tolerance:
        raise SystemExit(f"{name}: the compiled result is {error:.2e} from jax's")
    row: dict[str, Any] = {k: statistics.median(v) * 1e3 for k, v in times.items()}
    if reference:
        row["bits"] = results["pypto cpu"].tobytes() == results["pypto reference"].tobytes()
    row["executor"] = compiled.executor + (f" ({compiled.reason})" if compiled.reason else "")
    peers = ("numpy tiles", "jax.jit") if work.repeat == 1 else ("jax.jit",)  # a bare ufunc launches no program
    row["ratio"] = min(row[k] for k in peers) / row["pypto cpu"]
    return row


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--reference", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    for name in arguments.names or WORKLOADS:
        row = measure(name, rounds=arguments.rounds, reference=arguments.reference)
        cells = [f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()]
        print(f"{name}: {' | '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
