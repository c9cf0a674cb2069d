"""Philox-4x32: random numbers from a counter and a key, without state, the same everywhere.

The generator of Salmon, Moraes, Dror and Shaw ("Parallel random numbers: as easy as 1, 2, 3", 2011).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

ROUNDS = (7, 10)
"""The numbers of rounds the instruction has."""

LANES = 64
"""Blocks that one step of the instruction makes: their first words come first, then their second ones, and so on."""

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
BUMPS = (0x9E3779B9, 0xBB67AE85)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_WORD = 0xFFFFFFFF


def philox(counter: Array, key: Sequence[int], rounds: int = 10) -> Array:
    """Four random words for each counter.

    Args:
      counter: [..., 4] UINT32, the least significant word first.
      key: two 32-bit words.
      rounds: how often the words are mixed; after each, the key's words grow by constants.
    Returns:
      [..., 4] UINT32.

    >>> [hex(w) for w in philox(np.zeros(4, np.uint32), (0, 0)).tolist()]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    c0, c1, c2, c3 = (counter[..., i].astype(np.uint64) for i in range(4))
    k0, k1 = (int(word) & _WORD for word in key)
    for _ in range(rounds):
        product0, product1 = c0 * np.uint64(MULTIPLIERS[0]), c2 * np.uint64(MULTIPLIERS[1])  # of two 32-bit words: exact in 64 bits
        c0, c2 = (product1 >> _HALF) ^ c1 ^ np.uint64(k0), (product0 >> _HALF) ^ c3 ^ np.uint64(k1)
        c1, c3 = product1 & _LOW, product0 & _LOW
        k0, k1 = (k0 + BUMPS[0]) & _WORD, (k1 + BUMPS[1]) & _WORD
    return np.stack([c0, c1, c2, c3], axis=-1).astype(np.uint32)


def counters(start: Sequence[int], offsets: Array) -> Array:
    """Counters that lie `offsets` (UINT64, any shape) past a 128-bit counter of four words: [..., 4] UINT32, wrapping."""
    value = sum((int(word) & _WORD) << (32 * i) for i, word in enumerate(start))
    low, high = np.uint64(value & (2**64 - 1)), np.uint64(value >> 64)
    with np.errstate(over="ignore"):
        lows = low + offsets
        highs = high + (lows < low).astype(np.uint64)
    words = [lows & _LOW, lows >> _HALF, highs & _LOW, highs >> _HALF]
    return np.stack(words, axis=-1).astype(np.uint32)


def random_rows(key: Sequence[int], counter: Sequence[int], rows: int, columns: int, stride: int, rounds: int) -> Array:
    """The random words of a tile: [rows, columns] UINT32.

    Args:
      stride: columns of the whole tile, of which `columns` are made.
    Numerics:
      Columns come in groups of 256: lane l of 0..63 writes the four words of Philox(counter + l) to columns l, 64 + l,
      128 + l and 192 + l of the group. After each group the counter grows by stride / 4, and goes on from row to row. Tiles
      whose width is no multiple of 256 therefore use some counters twice or not at all.
    """
    groups = -(-columns // (4 * LANES))
    steps = np.arange(rows * groups, dtype=np.uint64) * np.uint64(stride // 4)
    offsets = steps[:, None] + np.arange(LANES, dtype=np.uint64)
    words = philox(counters(counter, offsets), key, rounds)
    return np.swapaxes(words, 1, 2).reshape(rows, groups * 4 * LANES)[:, :columns].copy()
