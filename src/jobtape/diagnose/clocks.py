"""One time for all hosts: from the clock of a process to unix seconds, and how far hosts' clocks can be trusted.

Within a boot of a host all processes share the monotonic clock, so their order is exact. Between hosts, wall clocks
are compared where a rendezvous proves that two agents did the same thing at almost the same time: every node sees a
round complete within the store's latency. A clock that is off by more than that is corrected.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from jobtape.diagnose.facts import EARLIEST_S, LATEST_S, Clock, FileFacts, Point

if TYPE_CHECKING:
    from jobtape.diagnose.facts import Agent, Stint

AGREEMENT_S = 5.0
"""How far apart two nodes may see the same round complete: torch looks once a second, and the store takes its time."""


class Clocks:
    """Offsets of the clocks of one run.

    Attributes:
        skews: by how many seconds a host's clock is ahead of the first node's, for those that are off.
    """

    def __init__(self, files: Iterable[FileFacts]) -> None:
        self._wall_offset: dict[Clock, float] = {}
        self._correction: dict[str, float] = {}
        self.skews: dict[str, float] = {}
        for file in files:
            if file.offset_s is not None:
                self._wall_offset.setdefault(file.clock, file.offset_s)

    def unix(self, clock: Clock, seconds: float | None) -> float | None:
        """Unix seconds of a time on a clock; None when they cannot be a real moment."""
        if seconds is None:
            return None
        moment = seconds + self._wall_offset.get(clock, 0.0) - self._correction.get(self._key(clock), 0.0)
        return moment if EARLIEST_S < moment < LATEST_S else None

    def at(self, clock: Clock, point: Point | None) -> float | None:
        """Unix seconds of something that happened, if that is known."""
        return None if point is None else self.unix(clock, point.time)

    def slack(self, one: Clock, other: Clock) -> float:
        """By how much times on two clocks must differ before their order is proven."""
        return 0.0 if self._key(one) == self._key(other) else AGREEMENT_S

    def _key(self, clock: Clock) -> str:
        return f"{clock.kind} {clock.name}"

    def agree(self, rounds: Iterable[Sequence[tuple[Agent, Stint]]]) -> None:
        """Learn the offsets between hosts from the attempts that several of them formed together."""
        known: dict[str, float] = {}
        for members in rounds:
            seen = []
            for agent, stint in members:
                formed = stint.joined or stint.started
                moment = self.at(agent.clock, formed)
                if moment is not None:
                    seen.append((self._key(agent.clock), moment, agent.host))
            if len({key for key, _, _ in seen}) < 2:
                continue
            reference = next(((key, moment) for key, moment, _ in seen if key in known), None)
            if reference is None:
                reference = seen[0][:2]
                known.setdefault(reference[0], 0.0)
            base = reference[1] - known[reference[0]]
            for key, moment, host in seen:
                if key not in known:
                    offset = moment - base
                    known[key] = offset if abs(offset) > AGREEMENT_S else 0.0
                    if known[key]:
                        self.skews[host] = offset
        self._correction = {key: offset for key, offset in known.items() if offset}
