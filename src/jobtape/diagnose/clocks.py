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
        self._correction: dict[Clock, float] = {}
        self._shift: dict[Clock, float] = {}
        self.skews: dict[str, float] = {}
        for file in files:
            if file.offset_s is not None:
                self._wall_offset.setdefault(file.clock, file.offset_s)

    def unix(self, clock: Clock, seconds: float | None) -> float | None:
        """Unix seconds of a time on a clock; None when they cannot be a real moment."""
        if seconds is None:
            return None
        shift = self._shift.get(clock)
        if shift is None:
            shift = self._wall_offset.get(clock, 0.0) - self._correction.get(clock, 0.0)
            self._shift[clock] = shift
        moment = seconds + shift
        return moment if EARLIEST_S < moment < LATEST_S else None

    def at(self, clock: Clock, point: Point | None) -> float | None:
        """Unix seconds of something that happened, if that is known."""
        return None if point is None else self.unix(clock, point.time)

    def slack(self, one: Clock, other: Clock) -> float:
        """By how much times on two clocks must differ before their order is proven."""
        return 0.0 if one == other else AGREEMENT_S

    def agree(self, rounds: Iterable[Sequence[tuple[Agent, Stint]]]) -> None:
        """Learn the offsets between hosts from the attempts that several of them formed together.

        A node that was slow once is no clock that is off: of several attempts the one where they differ least counts.
        """
        offsets: dict[Clock, float] = {}
        hosts: dict[Clock, str] = {}
        for members in rounds:
            formed: dict[Clock, float] = {}
            for agent, stint in members:
                moment = self.at(agent.clock, stint.joined or stint.started)
                if moment is not None:
                    formed.setdefault(agent.clock, moment)
                    hosts.setdefault(agent.clock, agent.host)
            if len(formed) < 2:
                continue
            reference = next((clock for clock in formed if clock in offsets), next(iter(formed)))
            base = formed[reference] - offsets.setdefault(reference, 0.0)
            for clock, moment in formed.items():
                if clock != reference:
                    offsets[clock] = min(offsets.get(clock, moment - base), moment - base, key=abs)
        self._correction = {clock: offset for clock, offset in offsets.items() if abs(offset) > AGREEMENT_S}
        self._shift = {}
        self.skews = {hosts[clock]: offset for clock, offset in self._correction.items()}
