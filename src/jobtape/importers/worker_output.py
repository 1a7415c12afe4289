"""Errors in the output of workers, as far as its lines are labelled with a rank.

torch prints an uncaught exception of a worker of a process group with ``[rank1]: `` before each line; ``torchrun
--tee`` puts ``[default1]:`` (role and local rank) before every line. What such a line says is a worker's word: kept as
a message, never as an agent's record.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from jobtape.importers.prefixes import Prefix

LONGEST_MESSAGE = 1 << 20
"""Characters of one exception's text that are kept; what a worker prints after it may have no end."""

_MOST_WORKERS = 1 << 15
"""Workers whose exceptions may be open at the same time."""

_TRACEBACK = "Traceback (most recent call last):"
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?::| *$)")
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")

Key = tuple[int | None, int | None]


@dataclass
class WorkerError:
    """An exception a worker printed: its type and message as printed, and the traceback before it."""

    line: int
    rank: int | None
    local_rank: int | None
    message: list[str] = field(default_factory=list)
    traceback: list[str] = field(default_factory=list)
    size: int = 0


class WorkerOutput:
    """Collects the exceptions of several workers whose lines come mixed."""

    def __init__(self) -> None:
        self._open: dict[Key, WorkerError] = {}

    def take(self, number: int, prefix: Prefix) -> tuple[bool, list[WorkerError]]:
        """Whether a labelled line belongs to an exception, and the exceptions that are complete now."""
        key = prefix.rank, prefix.local_rank
        text = prefix.text
        current = self._open.get(key)
        if text.startswith(_TRACEBACK):
            if current is not None and _chains(current):
                current.traceback += [*current.message, text]
                current.message = []
                return True, []
            done = self._close(key) if current is not None else []
            if len(self._open) >= _MOST_WORKERS:
                done += self.flush()
            self._open[key] = WorkerError(number, *key, traceback=[text])
            return True, done
        if current is None:
            return False, []
        current.size += len(text)
        if current.size > LONGEST_MESSAGE:
            return False, self._close(key)
        if not current.message and (not text or text[0].isspace() or not _RAISED.match(text)):
            current.traceback.append(text)
        else:
            if not current.message:
                current.line = number
            current.message.append(text)
        return True, []

    def flush(self) -> list[WorkerError]:
        """The exceptions that are open, when a line that is no worker's shows that they ended."""
        return [error for key in list(self._open) for error in self._close(key)]

    def _close(self, key: Key) -> list[WorkerError]:
        error = self._open.pop(key)
        while error.message and not error.message[-1].strip():
            error.message.pop()
        return [error] if error.message else []


def _chains(error: WorkerError) -> bool:
    return any(line.startswith(_CHAINED) for line in error.message[-3:])
