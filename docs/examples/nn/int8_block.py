"""The transformer of `transformer.py` for inference in INT8: a scale per row of activations and per column of weights.

Shows quantisation in array functions, products INT8 x INT8 -> INT32, which are exact, and a tree of parameters in which a matrix has
become its codes and scales.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import transformer
from transformer import BATCH, SEQ, SIZE, VOCAB, Params, Parts, bf16, fp32

import pypto
from pypto import dtypes, lax
from pypto.testing import CheckResult, TensorSpec, Tolerance, check

MATRICES = ("wq", "wk", "wv", "wo", "w_gate", "w_up", "w_down")
LARGEST = 127.0

# A code is the activation in steps of 1/127 of the largest one of its row. Where the two sides differ by an ULP of BF16 (2**-8), which
# their other orders of addition cause now and then, so does the code by one or two, and a logit, near 1, by some 2**-7 of itself for
# each of the few such elements that count; two layers of them stay below 2**-4.
TOLERANCE = Tolerance(atol=2.0**-4)


def quantised(x: Any, axis: int) -> tuple[Any, Any]:
    """INT8 codes and FP32 scales along an axis, so that x is about codes * scales; a slice of zeros has codes of zero."""
    wide = fp32(x)
    scale = lax.maximum(lax.abs(wide).max(axis, keepdims=True) / LARGEST, np.float32(2.0**-100))
    codes = lax.round(wide / scale, lax.RoundingMethod.TO_NEAREST_EVEN)
    return lax.convert_element_type(codes, dtypes.INT8), scale


@pypto.jit
def quantise(p: Params) -> Params:
    """Parameters for `INT8`: matrices of layers are codes and a scale per column, made of what the BF16 version multiplies."""
    return {name: quantised(bf16(w), 0) if name in MATRICES else w for name, w in p.items()}


def linear(x: Any, w: Any) -> Any:
    """x @ w in INT8: rows of x are quantised, the product is exact, and both scales come back in FP32; BF16 in and out."""
    codes, scale = quantised(x, -1)
    matrix, columns = w
    return bf16(fp32(lax.matmul(codes, matrix)) * scale * columns)


INT8 = Parts(linear=linear)


@pypto.jit
def logits(p: Params, tokens: Any) -> Any:
    """Of a batch [BATCH, SEQ], for quantised parameters: [BATCH, SEQ, VOCAB]."""
    return pypto.vmap(lambda row: transformer.logits(p, row, INT8))(tokens)


plain_logits = pypto.jit(lambda p, tokens: pypto.vmap(lambda row: transformer.logits(p, row))(tokens))


def inference(params: np.ndarray, tokens: np.ndarray) -> Any:
    return logits(quantise(transformer.unpacked(params)), tokens)


def error(params: Params, tokens: np.ndarray) -> tuple[float, float]:
    """Against BF16: the error of the logits relative to their size (root mean squares), and how often the likeliest token is another."""
    ours, plain = np.asarray(logits(quantise(params), tokens)), np.asarray(plain_logits(params, tokens))
    size = float(np.sqrt(np.mean((ours - plain) ** 2) / np.mean(plain**2)))
    return size, float(np.mean(ours.argmax(-1) != plain.argmax(-1)))


def golden(params: np.ndarray, tokens: np.ndarray) -> Any:
    import jax.numpy as jnp

    def codes(x: Any, axis: int) -> Any:
        x = x.astype(jnp.float32)
        scale = jnp.max(jnp.abs(x), axis, keepdims=True) / jnp.float32(LARGEST)
        return jnp.round(x / scale).astype(jnp.int8), scale

    def product(x: Any, w: Any) -> Any:
        (a, rows), (b, columns) = codes(x, -1), codes(w.astype(jnp.bfloat16), 0)
        return (jnp.matmul(a, b, preferred_element_type=jnp.int32).astype(jnp.float32) * rows * columns).astype(jnp.bfloat16)

    return transformer.jitted(lambda p, t: transformer.golden_logits(p, t, product))(transformer.unpacked(params), tokens)


def specs() -> list[TensorSpec]:
    return [
        transformer.specs()[0],
        TensorSpec("tokens", [BATCH, SEQ], dtypes.INT32, init=transformer.counting),
        TensorSpec("logits", [BATCH, SEQ, VOCAB], dtypes.FP32, output=True),
    ]


program = inference


def check_example(*, seed: int = 0, raises: bool = True) -> CheckResult:
    return check(program, golden, specs(), seed=seed, tolerance=TOLERANCE, raises=raises, returns=True)


def main() -> None:
    print(check_example().report())
    params, tokens = (spec.make() for spec in specs()[:2])
    size, other = error(transformer.unpacked(params), tokens)
    print(f"against BF16: logits {size:.2%} off, another likeliest token for {other:.1%}; {SIZE} parameters")


if __name__ == "__main__":
    main()
