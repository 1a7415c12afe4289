"""When and where: a moment on the clock of a process, and the record that tells of it."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

EARLIEST_S = 946_684_800.0
"""2000-01-01: a wall time before it is a clock that was not set, or a 0 that means "unknown"."""
LATEST_S = 4_102_444_800.0
"""2100-01-01."""


class Place(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a record stands: its file, its line (0 when `file` says it already) and its sequence number."""

    file: str
    line: int
    seq: int


class Clock(NamedTuple):
    """Whose clock a time is of: a boot of a host (monotonic, exact within the host) or a host's wall clock."""

    kind: str
    """``boot`` or ``wall``."""
    name: str


class Point(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Something that happened: when (on the process's clock), and which record says so."""

    time: float | None
    place: Place
