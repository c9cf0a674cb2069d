"""A small transformer in BF16 with FP32 accumulation, its loss and its gradients: an array program over `pypto.lax`.

Shows RMSNorm, causal attention with rotary positions, and SwiGLU written for one sequence; `vmap` over heads and over a batch;
`value_and_grad` of a tree of parameters. `training.py` trains it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import pypto
from pypto import dtypes, lax
from pypto.testing import CheckResult, TensorSpec, Tolerance, check

VOCAB = 16
BATCH = 4
SEQ = 32
DIM = 64
HEADS = 4
HEAD_DIM = DIM // HEADS
HIDDEN = 128
BASE = 10000.0
EPS = 1e-6

# A gradient is a sum of products of BF16 factors, each with a rounding error of up to 2**-9 of itself, which the two sides make in
# different places where their sums, added in another order, lie next to a midpoint. The largest gradients are near 0.2 and their
# errors partly cancel: 2**-9 bounds what was seen, twice over. The loss is a mean of 128 logarithms, where errors average out.
TOLERANCE = {"loss": Tolerance(atol=2.0**-9), "gradient": Tolerance(atol=2.0**-9)}

Params = dict[str, Any]

# Parameters are FP32, and rounded to BF16 where they meet activations: in a matrix product, and where an embedding is looked up.
SHAPES = {
    "embed": (VOCAB, DIM),
    "norm_attention": (DIM,),
    "wq": (DIM, DIM),
    "wk": (DIM, DIM),
    "wv": (DIM, DIM),
    "wo": (DIM, DIM),
    "norm_mlp": (DIM,),
    "w_gate": (DIM, HIDDEN),
    "w_up": (DIM, HIDDEN),
    "w_down": (HIDDEN, DIM),
    "norm_out": (DIM,),
    "head": (DIM, VOCAB),
}
SIZE = sum(int(np.prod(shape)) for shape in SHAPES.values())


def start(rng: np.random.Generator) -> Params:
    """Parameters to start from: gains of one, embeddings of variance one, matrices that keep the variance."""

    def values(name: str, shape: tuple[int, ...]) -> np.ndarray:
        return rng.standard_normal(shape) * (1.0 if name == "embed" else shape[0] ** -0.5)

    return {n: (np.ones(s) if n.startswith("norm") else values(n, s)).astype(np.float32) for n, s in SHAPES.items()}


def packed(p: Params) -> np.ndarray:
    """All parameters in one vector."""
    return np.concatenate([np.ravel(np.asarray(p[name])) for name in SHAPES])


def unpacked(vector: np.ndarray) -> Params:
    ends = np.cumsum([int(np.prod(shape)) for shape in SHAPES.values()])
    return {n: part.reshape(s) for (n, s), part in zip(SHAPES.items(), np.split(vector, ends[:-1]), strict=True)}


def angles() -> np.ndarray:
    """Of position and pair, [SEQ, HEAD_DIM / 2]."""
    pairs = HEAD_DIM // 2
    return np.outer(np.arange(SEQ), BASE ** (-np.arange(pairs) / pairs))


COS, SIN = np.cos(angles()).astype(np.float32), np.sin(angles()).astype(np.float32)
CAUSAL = np.where(np.tri(SEQ, dtype=bool), 0.0, -np.inf).astype(np.float32)


# ---- the block ---------------------------------------------------------------------------------------------------


def bf16(x: Any) -> Any:
    return lax.convert_element_type(x, dtypes.BF16)


def fp32(x: Any) -> Any:
    return lax.convert_element_type(x, dtypes.FP32)


def linear(x: Any, w: Any) -> Any:
    """x @ w in BF16, accumulated in FP32 and rounded to BF16: so are the cotangents that meet the weights on the way back."""
    return lax.matmul(x, bf16(w), out_dtype=dtypes.BF16)


def rms_norm(x: Any, gain: Any) -> Any:
    """Rows of length one on average, times the gain: FP32 inside, BF16 in and out."""
    wide = fp32(x)
    return bf16(wide * lax.rsqrt(lax.square(wide).mean(-1, keepdims=True) + EPS) * gain)


def rope(x: Any) -> Any:
    """The halves of a head [SEQ, HEAD_DIM] turned by the angle of the position: FP32 inside, BF16 in and out."""
    first, second = fp32(x[:, : HEAD_DIM // 2]), fp32(x[:, HEAD_DIM // 2 :])
    return bf16(lax.concatenate([first * COS - second * SIN, second * COS + first * SIN], 1))


def attend(q: Any, k: Any, v: Any) -> Any:
    """Causal attention of one head: FP32 weights, rounded to BF16 for their product with v."""
    scores = lax.matmul(q, k, b_trans=True) * HEAD_DIM**-0.5 + CAUSAL
    weights = lax.exp(scores - scores.max(-1, keepdims=True))
    mixed = lax.matmul(bf16(weights), v)
    return bf16(mixed / weights.sum(-1, keepdims=True))


@dataclass(frozen=True)
class Parts:
    """What other examples put other functions for.

    Attributes:
      linear: activations [..., n] BF16 and a matrix of the parameters to [..., m] BF16.
      attend: q, k, v of one head, each [SEQ, HEAD_DIM] BF16, to [SEQ, HEAD_DIM] BF16.
    """

    linear: Callable[[Any, Any], Any] = linear
    attend: Callable[[Any, Any, Any], Any] = attend


PLAIN = Parts()


def heads(x: Any) -> Any:
    """[SEQ, DIM] as [HEADS, SEQ, HEAD_DIM]."""
    return lax.transpose(x.reshape(SEQ, HEADS, HEAD_DIM), (1, 0, 2))


def attention(p: Params, x: Any, parts: Parts) -> Any:
    q, k, v = (heads(parts.linear(x, p[w])) for w in ("wq", "wk", "wv"))
    mixed = pypto.vmap(parts.attend)(pypto.vmap(rope)(q), pypto.vmap(rope)(k), v)
    return parts.linear(lax.transpose(mixed, (1, 0, 2)).reshape(SEQ, DIM), p["wo"])


def swiglu(p: Params, x: Any, parts: Parts) -> Any:
    gate, up = (fp32(parts.linear(x, p[w])) for w in ("w_gate", "w_up"))
    return parts.linear(bf16(gate * lax.logistic(gate) * up), p["w_down"])


def block(p: Params, x: Any, parts: Parts = PLAIN) -> Any:
    """[SEQ, DIM] to [SEQ, DIM], BF16."""
    x = x + attention(p, rms_norm(x, p["norm_attention"]), parts)
    return x + swiglu(p, rms_norm(x, p["norm_mlp"]), parts)


def logits(p: Params, tokens: Any, parts: Parts = PLAIN) -> Any:
    """Of the token after each of [SEQ]: [SEQ, VOCAB], FP32."""
    x = block(p, bf16(lax.take(p["embed"], tokens, 0)), parts)
    return lax.matmul(rms_norm(x, p["norm_out"]), bf16(p["head"]))


def loss(p: Params, tokens: Any, parts: Parts = PLAIN) -> Any:
    """The mean cross-entropy of sequences [BATCH, SEQ + 1]: what each token says about the next one."""
    found = pypto.vmap(lambda row: logits(p, row, parts))(tokens[:, :-1])
    peak = found.max(-1, keepdims=True)
    total = lax.log(lax.exp(found - peak).sum(-1, keepdims=True)) + peak
    return (total - lax.take_along_axis(found, tokens[:, 1:, None])).mean()


value_and_grad = pypto.jit(pypto.value_and_grad(loss))


def gradient(params: np.ndarray, tokens: np.ndarray) -> tuple[Any, np.ndarray]:
    """The loss and its gradient, with the parameters in one vector."""
    value, found = value_and_grad(unpacked(params), tokens)
    return value, packed(found)


# ---- the same in JAX ---------------------------------------------------------------------------------------------


def golden_linear(x: Any, w: Any) -> Any:
    import jax.numpy as jnp

    return jnp.matmul(x, w.astype(jnp.bfloat16), preferred_element_type=jnp.float32).astype(jnp.bfloat16)


def golden_logits(p: Params, tokens: Any, linear: Callable[[Any, Any], Any] = golden_linear) -> Any:
    """The logits as one would write them in JAX, for a whole batch [BATCH, SEQ]."""
    import jax
    import jax.numpy as jnp

    def norm(x: Any, gain: Any) -> Any:
        x = x.astype(jnp.float32)
        return (x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + EPS) * gain).astype(jnp.bfloat16)

    def turned(x: Any) -> Any:
        x = x.astype(jnp.float32).reshape(BATCH, SEQ, HEADS, 2, HEAD_DIM // 2)
        a, b, cos, sin = x[..., 0, :], x[..., 1, :], COS[:, None], SIN[:, None]
        return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(jnp.bfloat16)

    x = p["embed"][tokens].astype(jnp.bfloat16)
    h = norm(x, p["norm_attention"])
    q, k = turned(linear(h, p["wq"])), turned(linear(h, p["wk"]))
    v = linear(h, p["wv"]).reshape(BATCH, SEQ, HEADS, HEAD_DIM)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32) / np.float32(HEAD_DIM**0.5)
    weights = jax.nn.softmax(jnp.where(np.tri(SEQ, dtype=bool), scores, -jnp.inf), -1)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights.astype(jnp.bfloat16), v, preferred_element_type=jnp.float32)
    x = x + linear(mixed.astype(jnp.bfloat16).reshape(BATCH, SEQ, DIM), p["wo"])
    h = norm(x, p["norm_mlp"])
    act = jax.nn.silu(linear(h, p["w_gate"]).astype(jnp.float32)) * linear(h, p["w_up"]).astype(jnp.float32)
    x = x + linear(act.astype(jnp.bfloat16), p["w_down"])
    return jnp.matmul(norm(x, p["norm_out"]), p["head"].astype(jnp.bfloat16), preferred_element_type=jnp.float32)


def golden_loss(p: Params, tokens: Any) -> Any:
    import jax
    import jax.numpy as jnp

    found = jax.nn.log_softmax(golden_logits(p, tokens[:, :-1]), -1)
    return -jnp.mean(jnp.take_along_axis(found, tokens[:, 1:, None], -1))


def jitted(fun: Callable[..., Any]) -> Any:
    """`jax.jit` of a golden: it runs once or a few times, so that less is spent on making its code fast."""
    import jax

    return jax.jit(fun, compiler_options={"xla_backend_optimization_level": 0})


@functools.cache
def jax_value_and_grad() -> Any:
    import jax

    return jitted(jax.value_and_grad(golden_loss))


def golden(params: np.ndarray, tokens: np.ndarray) -> tuple[Any, np.ndarray]:
    value, found = jax_value_and_grad()(unpacked(params), tokens)
    return value, packed(found)


# ---- the check ---------------------------------------------------------------------------------------------------


def counting(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Sequences [..., n] that count round a circle of VOCAB tokens by 1, 2 or 3: to go on, one has to look back."""
    first, by = rng.integers(0, VOCAB, (*shape[:-1], 1)), rng.integers(1, 4, (*shape[:-1], 1))
    return (first + by * np.arange(shape[-1])) % VOCAB


def specs() -> list[TensorSpec]:
    return [
        TensorSpec("params", [SIZE], dtypes.FP32, init=lambda rng, shape: packed(start(rng))),
        TensorSpec("tokens", [BATCH, SEQ + 1], dtypes.INT32, init=counting),
        TensorSpec("loss", [], dtypes.FP32, output=True),
        TensorSpec("gradient", [SIZE], dtypes.FP32, output=True),
    ]


program = gradient


def check_example(*, seed: int = 0, raises: bool = True) -> CheckResult:
    return check(program, golden, specs(), seed=seed, tolerance=TOLERANCE, raises=raises, returns=True)


def main() -> None:
    print(check_example().report())


if __name__ == "__main__":
    main()
