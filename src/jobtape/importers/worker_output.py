"""Errors in the output of workers: tracebacks, and whose they are as far as their lines are labelled.

torch prints an uncaught exception of a worker of a process group with ``[rank1]: `` before each line; ``torchrun
--tee`` puts ``[default1]:`` (role and local rank) before every line. What such a line says is a worker's word: kept as
a message, never as an agent's record. A traceback without a label is that of some worker, or of torchrun itself; lines
of others may stand between its lines, and of its message only the first line can be told from what follows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from jobtape.importers.prefixes import Prefix

LONGEST_MESSAGE = 1 << 20
"""Characters of one exception's text that are kept; what a worker prints after it may have no end."""

Key = tuple[int | None, int | None]

_MOST_WORKERS = 1 << 15
"""Workers whose exceptions may be open at the same time."""

_NOBODY: Key = (None, None)
_TRACEBACK = "Traceback (most recent call last):"
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?::| *$)")
_NAMED = re.compile(
    r"(?!(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL)\b)(?:[a-z_]\w*\.)*_?[A-Z]\w*(?:: .*|:? *$)", re.DOTALL
)
"""The last line of a traceback: a class's name, with its message."""
_MOST_BETWEEN = 200
"""Lines of others between the lines of a traceback without a label."""
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")

_LAUNCHER = re.compile(r'  File "[^"]*torch/distributed/(?:launcher/api|run|launch)\.py", line \d+, in ')


@dataclass
class WorkerError:
    """An exception a worker printed: its type and message as printed, and the traceback before it."""

    line: int
    rank: int | None
    local_rank: int | None
    message: list[str] = field(default_factory=list)
    traceback: list[str] = field(default_factory=list)
    size: int = 0
    between: int = 0

    @property
    def by_torchrun(self) -> bool:
        """Whether torchrun itself raised it."""
        frames = [line for line in self.traceback if _LAUNCHER.match(line)]
        return bool(frames) and self.rank is None and self.local_rank is None


class WorkerOutput:
    """Collects the exceptions of several workers whose lines come mixed.

    Args:
        mixed: lines without a label may be of any worker, or of torchrun; else all of them are one worker's.
    """

    def __init__(self, *, mixed: bool = False) -> None:
        self._mixed = mixed
        self._open: dict[Key, WorkerError] = {}

    @property
    def idle(self) -> bool:
        """Whether no exception is open."""
        return not self._open

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
        if self._mixed and key == _NOBODY:
            return self._take_unlabelled(number, current, prefix)
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

    def _take_unlabelled(self, number: int, current: WorkerError, prefix: Prefix) -> tuple[bool, list[WorkerError]]:
        text = prefix.text
        if current.message:
            if not text or text.startswith(_CHAINED):
                current.message.append(text)
                return True, []
            return False, self._close(_NOBODY)
        current.size += len(text)
        current.between += 1
        if text[:1] == " " or not text:
            current.traceback.append(text)
            current.between = 0
        elif len(current.traceback) > 1 and _NAMED.fullmatch(text):
            current.line = number
            current.message.append(text)
        else:
            if current.between > _MOST_BETWEEN or current.size > LONGEST_MESSAGE:
                self._close(_NOBODY)
            return False, []
        return True, []

    def end_of_attempt(self) -> list[WorkerError]:
        """The exceptions whose message is there, when a line of the agent's shows that workers ended."""
        return [error for key in list(self._open) if self._open[key].message for error in self._close(key)]

    def flush(self) -> list[WorkerError]:
        """The exceptions that are open, at the end of the file."""
        return [error for key in list(self._open) for error in self._close(key)]

    def _close(self, key: Key) -> list[WorkerError]:
        error = self._open.pop(key)
        while error.message and not error.message[-1].strip():
            error.message.pop()
        return [error] if error.message else []


def _chains(error: WorkerError) -> bool:
    return any(line.startswith(_CHAINED) for line in error.message[-3:])
