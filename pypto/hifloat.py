"""HiFloat8 (HF8): THE table of its 256 values, the NumPy dtype that holds it, and the rounding to it.

A code is a sign bit, a prefix code that says how wide the exponent is, the exponent, and a fraction in the bits that are left:
close to 1 there are more of these, far from it the exponent takes them (arXiv 2409.16626).

| prefix | exponent bits | exponents | fraction bits |
|---|---|---|---|
| 11 | 4 | +-8 .. 15 | 1 |
| 10 | 3 | +-4 .. 7 | 2 |
| 01 | 2 | +-2, 3 | 3 |
| 001 | 1 | +-1 | 3 |
| 0001 | 0 | 0 | 3 |
| 0000 | 0 | the three last bits M = 1 .. 7 are the number 2**(M - 23) | 0 |

The exponent is a sign bit and a magnitude whose first bit, always 1, is left out. 0x00 is zero, the only one; 0x80 is the only NaN;
0x6F and 0xEF, which would be +-1.5 * 2**15, are the infinities.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

NAN, INFINITY = 0x80, 0x6F
PREFIXES = ((0b11, 2, 4), (0b10, 2, 3), (0b01, 2, 2), (0b001, 3, 1), (0b0001, 4, 0))
"""Prefix, its length, and the exponent bits that follow it."""


def _magnitude(code: int) -> float:
    """The number of a code without its sign bit."""
    if code == INFINITY:
        return float("inf")
    for prefix, length, width in PREFIXES:
        if code >> (7 - length) == prefix:
            fraction_bits = 7 - length - width
            fraction = code & ((1 << fraction_bits) - 1)
            stored = (code >> fraction_bits) & ((1 << width) - 1)
            exponent = 0
            if width:
                low = (1 << (width - 1)) - 1
                exponent = (low + 1) | (stored & low)
                exponent = -exponent if stored >> (width - 1) else exponent
            return 2.0**exponent * (1 + fraction / 2**fraction_bits)
    return 2.0 ** (code - 23) if code else 0.0


_MAGNITUDES = np.array([_magnitude(code) for code in range(128)])
_signed = np.concatenate([_MAGNITUDES, -_MAGNITUDES]).astype(np.float32)
_signed[NAN] = np.float32("nan")

VALUES: Array = _signed
"""The FP32 number of each of the 256 codes, exactly."""
VALUES.flags.writeable = False

# Codes do not count upward with their numbers, as those of formats of one exponent width do: smaller exponents have larger codes.
CODES: Array = np.argsort(_MAGNITUDES).astype(np.uint8)
"""The 128 codes without a sign, by ascending number: zero first, infinity last."""
RANKS: Array = np.argsort(CODES).astype(np.uint8)
"""The place of each of them in that order."""

_ORDERED = _MAGNITUDES[CODES[:-1]]  # the finite ones
LARGEST = float(_ORDERED[-1])
SMALLEST = float(_ORDERED[1])
EPSILON = 2.0**-3  # around 1, where the fraction is longest
_OVERFLOWS = 1.25 * LARGEST  # half way to what infinity stands in for
# Exact in FP64: neighbours differ by a bit or two of their own precision.
MIDPOINTS: Array = np.append((_ORDERED[:-1] + _ORDERED[1:]) / 2, _OVERFLOWS)
"""From here on, the number of the next higher rank is the nearest one; the last midpoint leads to infinity."""


class HiFloat(np.void):
    """One HF8 element: what indexing an array of `STORAGE` gives. `float(element)` is its number."""

    __slots__ = ()

    def __new__(cls, *_: Any) -> HiFloat:
        raise TypeError("an HF8 element is made by pypto.numerics.round_literal(number, 'HF8')")

    def __float__(self) -> float:
        return float(VALUES[self.tobytes()[0]])

    def __repr__(self) -> str:
        return f"{float(self):g}"

    __str__ = __repr__


def opaque(name: str, scalar: type[np.void]) -> np.dtype[Any]:
    """A one-byte dtype that equals no other and that NumPy neither computes with nor casts to numbers: the empty field sees to that."""
    return np.dtype((scalar, [(name, np.uint8), ("opaque", "V0")]))


STORAGE = opaque("hf8", HiFloat)
"""The NumPy dtype of HF8 arrays. Its codes are `x.view(np.uint8)`."""


def decode(x: Array) -> Array:
    """The FP32 numbers of an array of `STORAGE`: exact."""
    return np.asarray(VALUES[np.asarray(x)["hf8"]])


def encode(x: Array, overflow: str) -> Array:
    """FP64 numbers as an array of `STORAGE`: to nearest, ties away from zero.

    Args:
      x: any shape, taken as exact.
      overflow: of numbers from 1.25 * 2**15 on, "ieee" makes infinities, anything else +-2**15, the largest finite number. An
        infinity stays one.
    Numerics:
      What is below 2**-23, half of the smallest number, becomes zero, which has no sign; NaN becomes 0x80.
    """
    magnitude = np.abs(x)
    rank = np.searchsorted(MIDPOINTS, magnitude, side="right")
    if overflow != "ieee":
        rank = np.where(np.isinf(magnitude), rank, np.minimum(rank, len(MIDPOINTS) - 1))
    codes = CODES[rank]
    codes = np.where(np.signbit(x) & (codes != 0), codes | np.uint8(0x80), codes)
    codes = np.where(np.isnan(x), np.uint8(NAN), codes)
    return np.ascontiguousarray(codes).reshape(np.shape(x)).view(STORAGE)
