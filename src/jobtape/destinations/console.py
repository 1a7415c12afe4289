"""torch's ``console``: each event as a line of JSON on stderr."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from jobtape.events.notices import warn_once


class ConsoleHandler(logging.StreamHandler):  # type: ignore[type-arg]  # no generic at run time before 3.11
    """Writes to what ``sys.stderr`` is at the time, unless it is given a stream with ``setStream``.

    ``LOGLEVEL`` above INFO silences it; it is read for each event, as it may be set after the import.
    """

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self._stream: Any = None

    @property
    def stream(self) -> Any:
        """Where it writes to; None when the process has no stderr."""
        return self._stream if self._stream is not None else sys.stderr

    @stream.setter
    def stream(self, stream: Any) -> None:
        self._stream = stream

    def filter(self, record: logging.LogRecord) -> Any:
        """As in `logging`, and LOGLEVEL."""
        return record.levelno >= printing_level() and super().filter(record)

    def flush(self) -> None:
        """Flush the stream, if it can be."""
        try:
            super().flush()
        except (OSError, ValueError):  # closed, or nobody reads it
            pass


def printing_level() -> int:
    """The level below which nothing is printed: ``LOGLEVEL``, a name or number of Python's logging, else INFO."""
    text = os.environ.get("LOGLEVEL", "").strip()
    if not text or text == "INFO":
        return logging.INFO
    level = int(text) if text.isascii() and text.isdigit() else logging.getLevelName(text.upper())
    if isinstance(level, int):
        return level
    warn_once(f"LOGLEVEL={text} is no level of Python's logging (DEBUG, INFO, WARNING, …); events are printed")
    return logging.INFO
