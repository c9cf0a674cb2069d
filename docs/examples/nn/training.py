"""Fifty steps of Adam on the transformer of `transformer.py`, beside the same in JAX, and the loss curves as a picture.

Shows an optimiser over trees of parameters, and a step of training that is one program: value, gradient and update. The sequences
count round a circle by 1, 2 or 3; to say what comes next, attention has to look back.

`python docs/examples/nn/training.py` draws `training.svg` again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import flash_block
import numpy as np
import transformer
from chart import Line, line_chart
from transformer import BATCH, SEQ, Params

import pypto
from pypto import lax, tree
from pypto.testing import CheckResult, TensorSpec, Tolerance, check

STEPS = 50
RATE, FIRST, SECOND, TINY = 0.003, 0.9, 0.99, 1e-8
PICTURE = Path(__file__).with_name("training.svg")

# Gradients of the two sides differ by some 2**-8 of their size (transformer.py). Adam divides them by their own size, so each step
# moves the parameters up to 2**-8 * RATE apart, at random; 50 of them moved the loss by up to 0.0017. A rate that is two percent off
# moves it by 0.02: a wrong gradient or a wrong Adam is outside.
TOLERANCE = Tolerance(atol=2.0**-8)

State = tuple[Any, Params, Params]
"""Of Adam: how often it stepped, the averages of the gradients, and those of their squares."""


def adam_start(params: Params) -> State:
    zeros = tree.map(lambda p: np.zeros(p.shape, np.float32), params)
    return np.int32(0), zeros, zeros


def adam(params: Params, gradients: Params, state: State) -> tuple[Params, State]:
    """One step, in FP32: the parameters and the state after it."""
    count, mean, square = state
    count = count + 1
    mean = tree.map(lambda m, g: FIRST * m + (1 - FIRST) * g, mean, gradients)
    square = tree.map(lambda v, g: SECOND * v + (1 - SECOND) * (g * g), square, gradients)
    # The averages start from zero: what is missing in them after `count` steps is put back.
    steps = transformer.fp32(count)
    short, long = (1.0 - lax.pow(np.float32(decay), steps) for decay in (FIRST, SECOND))
    moved = tree.map(lambda p, m, v: p - RATE * (m / short) / (lax.sqrt(v / long) + TINY), params, mean, square)
    return moved, (count, mean, square)


def train(loss: Callable[[Params, Any], Any], params: Params, batches: np.ndarray) -> tuple[np.ndarray, Params]:
    """The loss before each step, and the parameters after the last one."""

    @pypto.jit(donate_argnums=(0, 1))
    def step(params: Params, state: State, tokens: Any) -> Any:
        value, gradients = pypto.value_and_grad(loss)(params, tokens)
        return value, *adam(params, gradients, state)

    losses, state = [], adam_start(params)
    for tokens in batches:
        value, params, state = step(params, state, tokens)
        losses.append(float(value))
    return np.float32(losses), params


def curve(params: np.ndarray, batches: np.ndarray) -> np.ndarray:
    return train(transformer.loss, transformer.unpacked(params), batches)[0]


def flash_curve(params: np.ndarray, batches: np.ndarray) -> np.ndarray:
    """With the kernels of `flash_block.py` as its attention."""
    return train(flash_block.loss, transformer.unpacked(params), batches)[0]


# ---- the same in JAX ---------------------------------------------------------------------------------------------


def golden(params: np.ndarray, batches: np.ndarray) -> np.ndarray:
    import jax
    import jax.numpy as jnp

    def update(p: Any, m: Any, v: Any, count: Any) -> Any:
        return p - RATE * m / (1 - FIRST**count) / (jnp.sqrt(v / (1 - SECOND**count)) + TINY)

    @jax.jit
    def adam(p: Any, found: Any, mean: Any, square: Any, count: Any) -> Any:
        mean = jax.tree.map(lambda m, g: FIRST * m + (1 - FIRST) * g, mean, found)
        square = jax.tree.map(lambda v, g: SECOND * v + (1 - SECOND) * g * g, square, found)
        return jax.tree.map(lambda p, m, v: update(p, m, v, count), p, mean, square), mean, square

    p = transformer.unpacked(params)
    mean = square = jax.tree.map(jnp.zeros_like, p)
    losses = []
    for count, tokens in enumerate(batches, 1):
        value, found = transformer.jax_value_and_grad()(p, tokens)
        p, mean, square = adam(p, found, mean, square, jnp.float32(count))
        losses.append(float(value))
    return np.float32(losses)


# ---- the check ---------------------------------------------------------------------------------------------------


def specs() -> list[TensorSpec]:
    params, *_ = transformer.specs()
    return [
        params,
        TensorSpec("batches", [STEPS, BATCH, SEQ + 1], np.int32, init=transformer.counting),
        TensorSpec("losses", [STEPS], np.float32, output=True),
    ]


def check_example(*, raises: bool = True) -> CheckResult:
    return check(curve, golden, specs(), tolerance=TOLERANCE, raises=raises, returns=True)


def picture(ours: np.ndarray, flash: np.ndarray, jax: np.ndarray) -> str:
    lines = [Line("pypto", ours.tolist()), Line("pypto, flash kernels", flash.tolist()), Line("JAX", jax.tolist())]
    return line_chart(lines, title="A transformer block learns to count", x_label="step", y_label="cross-entropy")


def main() -> None:
    found = check_example()
    print(found.report())
    flash = flash_curve(*(spec.make() for spec in specs()[:2]))
    PICTURE.write_text(picture(found.actual["losses"], flash, found.expected["losses"]))
    print(f"loss {found.actual['losses'][0]:.3f} -> {found.actual['losses'][-1]:.3f}; drawn in {PICTURE.name}")


if __name__ == "__main__":
    main()
