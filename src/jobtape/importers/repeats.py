"""Lines that a file holds more than once: a log rotated or shipped twice."""

from __future__ import annotations

SHORTEST_REPEAT = 40
"""Bytes: no record that carries its own time is shorter."""
REMEMBERED_LINES = 500_000


class Repeats:
    """Which long lines were met before; of the older ones some are forgotten, so that memory stays bounded."""

    def __init__(self) -> None:
        self._newer: set[int] = set()
        self._older: set[int] = set()

    def see(self, raw: bytes) -> bool:
        """Whether the line was met before."""
        if len(raw) < SHORTEST_REPEAT:
            return False
        key = hash(raw)
        if key in self._newer or key in self._older:
            return True
        if len(self._newer) >= REMEMBERED_LINES:
            self._older, self._newer = self._newer, set()
        self._newer.add(key)
        return False
