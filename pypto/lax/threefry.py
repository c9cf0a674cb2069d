"""Random words from a key and a counter, for whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from pypto import dtypes, numerics
from pypto.core.avals import Aval
from pypto.core.op import Exact, No, Pointwise
from pypto.errors import ShapeError
from pypto.interpreters.batching import pointwise
from pypto.interpreters.cpu.rules import Tilewise
from pypto.interpreters.rules import NO_FLOATS
from pypto.lax.families import Sample, broadcast_valid, computed, elementwise_aval


def _abstract(*words: Aval) -> tuple[Aval, Aval]:
    for w in words:
        if w.dtype is not dtypes.UINT32:
            raise ShapeError("PL305", f"threefry2x32: a word of dtype {w.dtype.name}", fix="UINT32")
    out = elementwise_aval("threefry2x32", words)
    return out, out


def _samples() -> list[Sample]:
    words = np.random.default_rng(1).integers(0, 2**32, (4, 24), np.uint32)
    return [(tuple(w.reshape(s) for w in words), {}) for s in ((1, 24), (24, 1), (4, 6), (2, 3, 4))] + [
        (tuple(w[:1, None] for w in words), {})
    ]


@computed(
    cpu=Tilewise("making.THREEFRY"),
    samples=_samples,
    abstract=_abstract,
    axes=Pointwise(),
    exact=Exact("random keys"),
    jvp=NO_FLOATS,
    transpose=NO_FLOATS,
    batching=pointwise,
    valid=lambda *words, shapes: (broadcast_valid(*words, shapes=shapes),) * 2,
    accepts=frozenset({dtypes.UINT32}),
    pto=No("the chip's generator is Philox: pl.random"),
)
def threefry2x32(key0: Any, key1: Any, x0: Any, x1: Any) -> Any:
    """Encrypt pairs of words with a key: Threefry-2x32, 20 rounds. `pypto.random` is built on it.

    Args:
      key0, key1: the key, UINT32.
      x0, x1: the words, UINT32. All four broadcast against each other.
    Returns:
      Two UINT32 arrays.
    Errors:
      PL305 for another dtype.

    >>> import numpy as np
    >>> from pypto import lax
    >>> lax.threefry2x32(*map(np.uint32, (0, 0, 0, 0)))
    (Array(1797259609, dtype=UINT32), Array(2579123966, dtype=UINT32))
    """
    return numerics.threefry(key0, key1, x0, x1)
