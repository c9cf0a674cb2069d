"""Random words from a key and a counter: Threefry-2x32 with 20 rounds (Salmon et al., 2011)."""

from __future__ import annotations

from typing import Any

import numpy as np

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA


def threefry(key0: Any, key1: Any, x0: Any, x1: Any) -> tuple[np.ndarray, np.ndarray]:
    """Encrypt pairs of UINT32 words.

    Args:
      key0, key1, x0, x1: UINT32 arrays that broadcast against each other.
    Returns:
      The two words of each result.

    >>> [f"{int(w):08x}" for w in threefry(*(np.uint32(w) for w in (0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3)))]
    ['c4923a9c', '483df7a0']
    """
    keys = [np.asarray(key0, np.uint32), np.asarray(key1, np.uint32)]
    keys.append(keys[0] ^ keys[1] ^ np.uint32(PARITY))
    shape = np.broadcast_shapes(*(np.shape(a) for a in (key0, key1, x0, x1)))
    with np.errstate(over="ignore"):
        a = np.array(np.broadcast_to(np.asarray(x0, np.uint32) + keys[0], shape))
        b = np.array(np.broadcast_to(np.asarray(x1, np.uint32) + keys[1], shape))
        for group in range(5):
            for r in ROTATIONS[group % 2]:
                a += b
                b = (b << np.uint32(r)) | (b >> np.uint32(32 - r))
                b ^= a
            a += keys[(group + 1) % 3]
            b += keys[(group + 2) % 3] + np.uint32(group + 1)
    return a, b
