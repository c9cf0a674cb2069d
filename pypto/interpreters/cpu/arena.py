"""Where on-chip values of one function live: offsets into its scratch memory."""

from __future__ import annotations

from pypto.interpreters.cpu.values import Slot


class Arena:
    """Offsets of on-chip values: first fit, free again when the last reference to a slot is gone."""

    def __init__(self) -> None:
        self.free: list[tuple[int, int]] = []
        self.end = 0

    def take(self, size: int) -> Slot:
        size = max(64, (size + 63) // 64 * 64)
        for i, (offset, room) in enumerate(self.free):
            if room >= size:
                self.free[i : i + 1] = [(offset + size, room - size)] if room > size else []
                return Slot(offset, size, self._back)
        offset, self.end = self.end, self.end + size
        return Slot(offset, size, self._back)

    def _back(self, offset: int, size: int) -> None:
        merged: list[tuple[int, int]] = []
        for o, s in sorted([*self.free, (offset, size)]):
            if merged and merged[-1][0] + merged[-1][1] == o:
                merged[-1] = (merged[-1][0], merged[-1][1] + s)
            else:
                merged.append((o, s))
        self.free = merged
