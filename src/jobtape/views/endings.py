"""Attempts that ended the same way, one after the other, told once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobtape.diagnose.model import Attempt

VARYING = re.compile(r"0x[0-9a-fA-F]+|[0-9]+")
"""What differs in messages that say the same: addresses, process ids, ports, steps."""


@dataclass(frozen=True)
class Ending:
    """Consecutive attempts that ended alike."""

    attempts: Sequence[Attempt]

    @property
    def example(self) -> Attempt:
        """The one to show: the last."""
        return self.attempts[-1]


def endings(attempts: Sequence[Attempt]) -> list[Ending]:
    """Consecutive attempts with the same ending put together."""
    return [Ending(list(alike)) for _, alike in groupby(attempts, likeness)]


def likeness(attempt: Attempt) -> tuple[object, ...]:
    """What two attempts must share to have ended the same way."""
    cause = attempt.cause
    if cause is None:
        return (attempt.outcome, len(attempt.ranks) > 0)
    said = VARYING.sub("#", (cause.message or "")[:500])
    return (
        attempt.outcome, cause.kind, cause.rank, cause.host, cause.exit_code, cause.signal, cause.error_type,
        cause.location, cause.confidence, said,
    )  # fmt: skip
