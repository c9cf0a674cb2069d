"""Arguments for the kernels of `tests.kernels.runs`, the same every time."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tests.kernels import runs


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    """Seeded numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def arguments(kernel: Any) -> dict[str, Any]:
    """Fresh arguments of one kernel, by name, its outputs left out."""
    bf16 = ml_dtypes.bfloat16
    found: dict[str, dict[str, Any]] = {
        "scaled_sum": {"a": normal(24, 16), "b": normal(24, 16, seed=1), "s": 0.3},
        "softmax_rows": {"x": normal(16, 64)},
        "product_and_bias": {
            "a": normal(16, 64, dtype=bf16),
            "b": normal(64, 32, seed=1, dtype=bf16),
            "bias": normal(1, 32, seed=2),
            "total": normal(16, 32, seed=3),
        },
    }
    return found[kernel.__name__]


THREE = (runs.scaled_sum, runs.softmax_rows, runs.product_and_bias)
"""Three kernels: elementwise over blocks with a symbol and a scalar, a row softmax, a matmul with an epilogue and an in/out."""


def bits(results: Any) -> list[bytes]:
    """The outputs of a call, bit for bit."""
    many = results if isinstance(results, tuple) else (results,)
    return [np.asarray(r).tobytes() for r in many]
