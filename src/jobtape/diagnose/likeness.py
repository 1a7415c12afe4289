"""What two failures must share to be called the same, whatever differs in numbers, addresses and ids.

Where a failure happened (its rank, its host) is no part of it: a job that fails in the same way on another rank each
time has one problem and not many.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from jobtape.diagnose.model import Attempt, Cause

COMPARED = 500
"""Characters of a message that are compared; what follows is mostly data."""

VARYING = re.compile(
    r"0x[0-9a-fA-F]+"
    r"|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"  # a UUID
    r"|\[[0-9a-fA-F]*:[0-9a-fA-F:.]*(?:%\w+)?\]"  # an IPv6 address
    r"|\b(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,}\b"  # a hash, an id
    r"|\btmp[a-z0-9_]{8}\b"  # a name that Python's tempfile made
    r"|[0-9]+(?:[.,:][0-9]+)*(?:[eE][-+]?[0-9]+)?(?: ?[KMGT]i?B\b)?"
)
"""What differs in messages that say the same: addresses, process ids, ports, steps, sizes, times."""


class Failure(msgspec.Struct, frozen=True):
    """A failure without what differs from one time to the next.

    Attributes:
        said: the message, with what varies masked.
        place: the file it happened in, without its folders; with the line where there is no message to go by.
    """

    kind: str
    error_type: str | None = None
    said: str = ""
    place: str = ""
    signal: str | None = None
    exit_code: int | None = None

    @property
    def is_known(self) -> bool:
        """Whether there is enough of it to be compared: of two unknown failures nobody can say that they are one."""
        return self.kind != "unknown" or bool(self.error_type or self.said or self.signal)


def masked(text: str) -> str:
    """The beginning of a message with what varies replaced by ``#``.

    >>> masked("port 29500 at [10.0.0.7]:23811 is busy, 1.50 GiB free")
    'port # at [#]:# is busy, # free'
    """
    return _masked(text[:COMPARED].strip())


@lru_cache(maxsize=4096)
def _masked(text: str) -> str:
    return VARYING.sub("#", text)


def failure_of(cause: Cause) -> Failure:
    """What a cause has in common with others of its kind."""
    said = masked(cause.message or "")
    file, colon, line = (cause.location or "").rpartition(":")
    name = re.split(r"[/\\]", file if colon else line)[-1]
    return Failure(
        kind=cause.kind,
        error_type=cause.error_type,
        said=said,
        place=name if said or not colon else f"{name}:{line}",
        # torch's error file makes a 1 of any exception, and an agent that was faster makes a signal of it.
        signal=None if cause.kind == "exception" else cause.signal,
        exit_code=None if cause.kind == "exception" else cause.exit_code,
    )


def ending_of(attempt: Attempt) -> tuple[object, ...]:
    """What two attempts of a run must share to have ended the same way."""
    cause = attempt.cause
    if cause is None:
        return attempt.outcome, len(attempt.ranks) > 0
    return attempt.outcome, failure_of(cause), cause.confidence, cause.rank is None, len(cause.ranks) > 1
