"""The bridges' way onto the tape: the durable part of a destination, opened with this process's role and run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from jobtape import events
from jobtape.events.notices import warn_once


def durable_part(destination: str) -> str | None:
    """The part of a destination that is a tape; the bridges write nothing to a console nobody asked them to fill.

    >>> durable_part("console,tape")
    'tape'
    >>> durable_part("console") is None
    True
    """
    for name in destination.split(","):
        if name.strip() == "tape" or name.strip().startswith("file://"):
            return name.strip()
    return None


class Tape:
    """One process's way onto its tape.

    Args:
        destination: ``tape`` or ``file:///dir``.
    """

    def __init__(self, destination: str) -> None:
        self.destination = destination
        self.handler: Any = events.get_logging_handler(destination)

    @property
    def path(self) -> Path | None:
        """The file written to, once there is one."""
        path: Path | None = self.handler.path
        return path

    def open(self, *, role: str, run_id: str | None = None, run_name: str | None = None) -> bool:
        """Make the file now; False when that failed (said once on stderr by the handler)."""
        run_id = run_id if run_id is not None else os.environ.get("JOBTAPE_RUN_ID")
        run_name = run_name if run_name is not None else os.environ.get("JOBTAPE_RUN")
        return bool(self.handler.open(run_id, run_name, role))

    def record(self, source: str, name: str, /, *, sync: bool = False, **metadata: Any) -> None:
        """Put one event of jobtape's own on the tape; never raises."""
        event = events.Event(name, events.EventSource(source), metadata=metadata)
        self.handler.write_event(event, sync=sync)

    def failed(self, error: BaseException) -> None:
        """Say once that something of ours went wrong."""
        warn_once(f"this process is recorded in part only: {type(error).__name__}: {error}", key="capture")

    def close(self, reason: str) -> None:
        """Write the closing record and sync it to the disk."""
        self.handler.close_tape(reason)
