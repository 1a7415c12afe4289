"""Attempts that ended the same way told once: those that follow one another, and of many all that are alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from jobtape.diagnose.likeness import ending_of
from jobtape.views.groups import count, node_names, ranges

if TYPE_CHECKING:
    from jobtape.diagnose.model import Attempt


@dataclass(frozen=True)
class Ending:
    """Attempts that ended alike, in their order."""

    attempts: Sequence[Attempt]

    @property
    def example(self) -> Attempt:
        """The one to show: the last."""
        return self.attempts[-1]


def endings(attempts: Sequence[Attempt]) -> list[Ending]:
    """Consecutive attempts with the same ending put together."""
    return [Ending(list(alike)) for _, alike in groupby(attempts, ending_of)]


def ways(attempts: Iterable[Attempt]) -> list[Ending]:
    """All attempts with the same ending put together, wherever they stand; the commonest first, then the latest."""
    alike: dict[tuple[object, ...], list[Attempt]] = {}
    for attempt in attempts:
        alike.setdefault(ending_of(attempt), []).append(attempt)
    return sorted(map(Ending, alike.values()), key=lambda way: (-len(way.attempts), -way.example.index))


def which(ending: Ending) -> str:
    """``attempt 3`` or ``attempts 0-36``."""
    indices = [attempt.index for attempt in ending.attempts]
    if len(set(indices)) == 1:
        return f"attempt {indices[0]}"
    text = ranges(indices)
    return f"attempts {text}" if len(text) <= 40 else f"attempts {text[:32].rpartition(',')[0]},…"


def firsts(ending: Ending) -> tuple[list[int], list[str]]:
    """The ranks that were first in these attempts, where each has one, and their hosts; both without repetitions."""
    causes = [attempt.cause for attempt in ending.attempts if attempt.cause is not None]
    ranks = dict.fromkeys(cause.rank for cause in causes)
    hosts = dict.fromkeys(cause.host for cause in causes if cause.host)
    return ([] if None in ranks else sorted(rank for rank in ranks if rank is not None)), list(hosts)


def several(ending: Ending) -> list[int]:
    """All ranks that ended alike in one of these attempts, where they are not the same ones in each."""
    sets = {attempt.cause.ranks for attempt in ending.attempts if attempt.cause is not None and attempt.cause.ranks}
    return sorted({rank for ranks in sets for rank in ranks}) if len(sets) > 1 else []


def spread(ending: Ending) -> str:
    """That another rank, or one of another host, was first each time; empty when it was always the same.

    A rank that fails on whatever host it runs, and a host on which whatever rank fails, are two different problems.
    """
    ranks, hosts = firsts(ending)
    told = []
    if several(ending):
        told.append("not with the same ranks each time")
    if len(ranks) > 1:
        text = ranges(ranks)
        told.append(f"with {count(len(ranks), 'different rank')} first" + (f" ({text})" if len(text) <= 30 else ""))
    if len(hosts) > 1:
        told.append(f"on {count(len(hosts), 'different host')} ({node_names(hosts, limit=40)})")
    elif told and hosts:
        told.append("always on the same host")
    return ", ".join(told)
