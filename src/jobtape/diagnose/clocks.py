"""One time for all hosts: from the clock of a process to unix seconds, and what can be said of two hosts' times.

Within a boot of a host all processes share the monotonic clock, so their order is exact. Clocks of different hosts
are related by the moments that their agents shared (`jobtape.diagnose.moments`): a clock that these prove to be off is
corrected, and the order of two times is proven when they are further apart than the moments leave open. Hosts that
shared none are not related: what their clocks say of each other is what somebody has set them to.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from jobtape.diagnose.facts import EARLIEST_S, LATEST_S, Clock, FileFacts, Point
from jobtape.diagnose.model import HostClock
from jobtape.diagnose.moments import moments_of
from jobtape.diagnose.offsets import Offsets

if TYPE_CHECKING:
    from jobtape.diagnose.facts import Agent, Stint

Teller = Callable[["float | None"], "float | None"]
"""Turns seconds on one clock into unix seconds; None when they are not known, or cannot be a real moment."""

OUT_OF_ORDER_S = 5.0
"""Lines of a log may be this much out of order without its clock having been set back."""


class _Shift(NamedTuple):
    """What to add to a clock's seconds: from each of these times on, in its own seconds."""

    begins: list[float]
    shifts: list[float]


class Clocks:
    """The clocks of one run."""

    def __init__(self, files: Iterable[FileFacts]) -> None:
        self._wall_offset: dict[Clock, float] = {}
        self._shift: dict[Clock, float] = {}
        self._shifts: dict[Clock, _Shift] = {}
        self._hosts: dict[Clock, str] = {}
        self._offsets = Offsets(())
        self._rounds: list[int] = []
        self._set_back: set[Clock] = set()
        self._unsteady: set[Clock] = set()
        # One failure is compared with all others, and the ranks of a host share a clock.
        self._asked: tuple[Clock, float] | None = None
        self._slacks: dict[Clock, float] = {}
        for file in files:
            if file.offset_s is not None:
                self._wall_offset.setdefault(file.clock, file.offset_s)
            for agent in file.agents:
                self._hosts.setdefault(agent.clock, agent.host)
            if file.process is not None:
                self._hosts.setdefault(file.process.clock, file.process.host)

    def unix(self, clock: Clock, seconds: float | None) -> float | None:
        """Unix seconds of a time on a clock; None when they cannot be a real moment."""
        if seconds is None:
            return None
        shift = self._shift.get(clock)
        if shift is None:
            if clock in self._shifts:
                begins, shifts = self._shifts[clock]
                shift = shifts[max(bisect_right(begins, seconds) - 1, 0)]
            else:
                shift = self._shift[clock] = self._wall_offset.get(clock, 0.0)
        moment = seconds + shift
        return moment if EARLIEST_S < moment < LATEST_S else None

    def teller(self, clock: Clock) -> Teller:
        """`unix` of one clock, for many times; good until the clocks learn from another round."""
        if clock in self._shifts:
            return partial(self.unix, clock)
        shift = self._shift.get(clock)
        if shift is None:
            shift = self._wall_offset.get(clock, 0.0)

        def tell(seconds: float | None) -> float | None:
            if seconds is None:
                return None
            moment = seconds + shift
            return moment if EARLIEST_S < moment < LATEST_S else None

        return tell

    def at(self, clock: Clock, point: Point | None) -> float | None:
        """Unix seconds of something that happened, if that is known."""
        return None if point is None else self.unix(clock, point.time)

    def slack(self, one: Clock, other: Clock, at: float) -> float:
        """How much later a time on the second clock must be than one on the first to be proven later.

        Args:
            one: the clock of the time that may be the earlier one.
            other: the clock of the time that may be the later one.
            at: the earlier time, in unix seconds as `unix` gives them.

        Returns:
            Seconds, never negative: 0 on one clock, infinite where nothing relates the two.
        """
        if one in self._unsteady or other in self._unsteady:
            return float("inf")
        if one == other:
            return 0.0
        if (one, at) != self._asked:
            self._asked, self._slacks = (one, at), {}
        slack = self._slacks.get(other)
        if slack is None:
            slack = self._slacks[other] = self._slack(one, other, at)
        return slack

    def _slack(self, one: Clock, other: Clock, at: float) -> float:
        span = self._offsets.between(one, other, at)
        if span is None:
            return float("inf")
        return max(span[1] - self._offset(other, at) + self._offset(one, at), 0.0)

    def agree(self, rounds: Iterable[Sequence[tuple[Agent, Stint]]]) -> None:
        """Learn the offsets between hosts from the attempts that several of them formed together, in their order."""
        moments = []
        agents: dict[int, Agent] = {}
        for number, members in enumerate(rounds):
            agents.update((id(agent), agent) for agent, _ in members)
            self._unsteady.update(_of_one_name(members))
            for read in moments_of(members):
                dated = ((clock, span, self._wall_offset.get(clock, 0.0)) for clock, span in read.items())
                moments.append({clock: (low + offset, high + offset) for clock, (low, high), offset in dated})
                self._rounds.append(number)
        self._set_back = {agent.clock for agent in agents.values() if _was_set_back(agent)}
        self._unsteady |= self._set_back
        self._offsets = Offsets(moments)
        self._asked = None
        self._shift.clear()
        for clock in self._offsets:
            wall = self._wall_offset.get(clock, 0.0)
            stretches = self._offsets.stretches(clock)
            if len(stretches) == 1:
                self._shift[clock] = wall - stretches[0].offset
            else:
                self._shifts[clock] = _Shift(
                    [stretch.begin - wall for stretch in stretches], [wall - stretch.offset for stretch in stretches]
                )

    def _offset(self, clock: Clock, at: float) -> float:
        """By how much a clock was ahead at a time of all."""
        stretches = self._offsets.stretches(clock)
        found = next((s for s in reversed(stretches) if s.begin - s.offset <= at), None)
        return found.offset if found is not None else stretches[0].offset if stretches else 0.0

    def hosts(self) -> tuple[HostClock, ...]:
        """What is known of the clock of each host, the one that the others are compared with first; one is not told."""
        if len(self._hosts) < 2:
            return ()
        best = max(self._offsets, key=self._trust, default=None)
        order = sorted(self._hosts, key=lambda clock: clock != best)
        return tuple(self._host(clock, best) for clock in order)

    def _trust(self, clock: Clock) -> tuple[bool, int]:
        stretches = self._offsets.stretches(clock)
        return all(stretch.offset == 0.0 for stretch in stretches), len(self._offsets.met(clock))

    def _host(self, clock: Clock, best: Clock | None) -> HostClock:
        host, met = self._hosts[clock], self._offsets.met(clock)
        rounds = len({self._rounds[number] for number in met})
        steady = clock not in self._set_back
        if best is None or not met:
            return HostClock(host=host, steady=steady)
        at = self._offsets.times[met[-1]]
        if clock == best:
            return HostClock(host=host, offset_s=0.0, bound_s=0.0, rounds=rounds, steady=steady)
        span = self._offsets.between(best, clock, at)
        if span is None:
            return HostClock(host=host, rounds=rounds, steady=steady)
        offset = self._offset(clock, at) - self._offset(best, at)
        bound = max(span[1] - offset, offset - span[0])
        return HostClock(host=host, offset_s=offset, bound_s=bound, rounds=rounds, steady=steady)


def _of_one_name(members: Sequence[tuple[Agent, Stint]]) -> set[Clock]:
    """Clocks that only a host name tells apart, where two agents had it and one process id at the same time.

    That is what containers look like, and they may be on different machines.
    """
    seen: set[tuple[Clock, int]] = set()
    found = set()
    for agent, _ in members:
        if agent.clock.kind == "wall" and agent.pid is not None:
            if (agent.clock, agent.pid) in seen:
                found.add(agent.clock)
            seen.add((agent.clock, agent.pid))
    return found


def _was_set_back(agent: Agent) -> bool:
    """Whether an agent's times run back from one of its attempts to the next."""
    if agent.clock.kind != "wall":
        return False
    latest = float("-inf")
    for stint in agent.stints:
        for point in (stint.joined, stint.started, stint.failed or stint.membership or stint.succeeded):
            if point is not None and point.time is not None:
                if point.time < latest - OUT_OF_ORDER_S:
                    return True
                latest = max(latest, point.time)
    return False
