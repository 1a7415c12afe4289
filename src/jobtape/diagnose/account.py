"""Where a run's wall time went: exact sums over exclusive categories, for the run, its attempts, nodes and ranks.

The run's own account follows one rank of each attempt, that with the most steps: ranks that train together step
together, and adding the time of thousands would hide what the job waited for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from jobtape.diagnose.attempts import workers_of
from jobtape.diagnose.timeline import CATEGORIES, Frame, Sums, Track, frames_of, span_of
from jobtape.diagnose.worker_time import Life, Reached, spend

if TYPE_CHECKING:
    from jobtape.diagnose.activity import Activity
    from jobtape.diagnose.attempts import Group
    from jobtape.diagnose.clocks import Clocks
    from jobtape.diagnose.facts import Clock, Worker
    from jobtape.diagnose.model import Attempt, RankOutcome
    from jobtape.diagnose.reconstruct import Story
    from jobtape.diagnose.timeline import Interval

NO_TIMES = "the record has no times"
NO_STEPS = 'no steps are on the tape; record them with jobtape.events.emit("step", step=N)'
NO_WALL = "the record has no duration"
"""Why there is no productive share."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """The time of one attempt, node or rank.

    Attributes:
        name: the attempt's number, the node's name, or the rank.
        host: a rank's host; hosts where it was on several, one after the other.
        sums: nanoseconds by category; those that have none may be missing.
        started, ended: of attempts, unix seconds.
    """

    name: int | str
    sums: Sums
    host: str = ""
    started: float | None = None
    ended: float | None = None

    @property
    def wall_s(self) -> float:
        """All of it."""
        return sum(self.sums.values()) / 1e9


class RestartCost(msgspec.Struct, frozen=True, kw_only=True):
    """What one restart cost, in seconds: from the failure until the job was where it had been.

    Attributes:
        after: the attempt that ended; ``kind``: ``failure``, ``membership`` or ``preemption``.
        detection_s: from the failure until it was noticed.
        teardown_s: a launch that ended was cleared away; ``no_agent_s``: nothing of the job was alive.
        restarting_s: from then until workers started, but for the rendezvous.
        startup_s: from there to the first step; ``lost_work_s``: steps done again.
    """

    after: int
    kind: str
    detection_s: float
    teardown_s: float
    no_agent_s: float
    restarting_s: float
    rendezvous_s: float
    startup_s: float
    lost_work_s: float

    @property
    def total_s(self) -> float:
        """All of it."""
        waited = self.detection_s + self.teardown_s + self.no_agent_s
        return waited + self.restarting_s + self.rendezvous_s + self.startup_s + self.lost_work_s


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run's wall time went.

    Attributes:
        wall_ns: from its start to its end, or to its last record while it runs; None without times.
        sums: nanoseconds by category.
        reason: why there is no productive share; empty when there is one.
        attempts, nodes, ranks: the same for each; nodes and ranks only where they were asked for.
        intervals: the run's own time in order, where it was asked for.
    """

    wall_ns: int | None
    sums: Sums
    reason: str
    attempts: tuple[Share, ...] = ()
    nodes: tuple[Share, ...] = ()
    ranks: tuple[Share, ...] = ()
    restarts: tuple[RestartCost, ...] = ()
    steps: Reached | None = None
    intervals: tuple[Interval, ...] = ()

    @property
    def wall_s(self) -> float | None:
        """The run's wall time in seconds."""
        return None if self.wall_ns is None else self.wall_ns / 1e9

    @property
    def productive_share(self) -> float | None:
        """Productive time by wall time; None where no steps are on the record."""
        return None if self.reason else self.share("productive")

    def share(self, category: str) -> float | None:
        """A category's part of the wall time; None where that has no duration."""
        return self.sums.get(category, 0) / self.wall_ns if self.wall_ns else None


def account_of(story: Story, *, each: bool = False, intervals: bool = False) -> Account:
    """Where the time of a run went.

    Args:
        story: the run, as `jobtape.diagnose.reconstruct.story_of` tells it.
        each: also for each node and rank.
        intervals: also the stretches themselves, in their order; with spans in every step there are many.
    """
    span = span_of(story)
    if span is None:
        return Account(wall_ns=None, sums={}, reason=NO_TIMES)
    frames = frames_of(story)
    groups, attempts = story.past.groups, story.run.attempts
    reached = Reached()
    shares: list[Share] = []
    laid: list[Interval] = []
    costs: list[RestartCost] = []
    total: Sums = {}
    windows: list[Sums] = []
    for index, (frame, group) in enumerate(zip(frames, groups, strict=True)):
        track = Track(frame.up_ns, frame.over_ns, keep=intervals)
        if frame.over_ns > frame.up_ns:
            spend(track, frame, _reference(group), story.clocks, reached, Life())
        windows.append(track.sums)
        sums = frame.around
        _add(sums, track.sums)
        _add(total, sums)
        shares.append(Share(name=index, sums=sums, started=frame.begin_ns / 1e9, ended=frame.end_ns / 1e9))
        laid += (*frame.before, *(track.intervals or ()), *frame.after) if intervals else ()
    if not frames:
        # Agents are on the record, and no attempt of theirs.
        total = {"unattributed": span[1] - span[0]} if span[1] > span[0] else {}
    for index, attempt in enumerate(attempts[:-1]):
        kind = restart_kind(attempt)
        if kind:
            costs.append(_cost(index, kind, frames, shares))
    nodes: tuple[Share, ...] = ()
    ranks: tuple[Share, ...] = ()
    if each:
        nodes, ranks = _of_each(story, frames, windows)
    wall = span[1] - span[0]
    return Account(
        wall_ns=wall,
        sums=total,
        reason=NO_STEPS if not reached.recorded else "" if wall else NO_WALL,
        attempts=tuple(shares),
        nodes=nodes,
        ranks=ranks,
        restarts=tuple(costs),
        steps=reached if reached.recorded else None,
        intervals=tuple(laid),
    )


def restart_kind(attempt: Attempt) -> str:
    """What kind of restart follows an attempt that another one came after; empty when nobody can say."""
    if attempt.cause is not None:
        return "preemption" if attempt.cause.kind == "preempted" else "failure"
    return "membership" if attempt.outcome == "membership" else ""


def _add(sums: Sums, more: Sums) -> None:
    for category, duration in more.items():
        sums[category] = sums.get(category, 0) + duration


def _cost(index: int, kind: str, frames: Sequence[Frame], shares: Sequence[Share]) -> RestartCost:
    frame, after = frames[index], frames[index + 1]
    noticed = frame.over_ns - max(frame.fault_ns, frame.up_ns) if frame.fault_ns is not None else 0
    before: Sums = {}
    for category, begin, end in (*frame.after, *after.before):
        before[category] = before.get(category, 0) + end - begin
    then = shares[index + 1].sums
    return RestartCost(
        after=index,
        kind=kind,
        detection_s=max(min(noticed, shares[index].sums.get("stalled", 0)), 0) / 1e9,
        teardown_s=before.get("teardown", 0) / 1e9,
        no_agent_s=before.get("no_agent", 0) / 1e9,
        restarting_s=before.get("restarting", 0) / 1e9,
        rendezvous_s=before.get("rendezvous", 0) / 1e9,
        startup_s=then.get("startup", 0) / 1e9,
        lost_work_s=then.get("lost_work", 0) / 1e9,
    )


def _reference(group: Group) -> Activity | None:
    """The steps and spans of the rank that the run's account follows: most steps, then the lowest rank."""
    best: Activity | None = None
    most = (-1, 0)
    for rank, _, _, activity in _activities(group):
        if activity is not None and (len(activity.times), -rank) > most:
            best, most = activity, (len(activity.times), -rank)
    return best


def _activities(group: Group) -> Iterator[tuple[int, str, Clock, Activity | None]]:
    for process in group.processes:
        yield process.rank or 0, process.host, process.clock, process.activity
    for member in group.members:
        for worker in member.stint.workers:
            if worker.activity is not None and worker.rank is not None:
                yield worker.rank, member.agent.host, member.agent.clock, worker.activity


class _Member(NamedTuple):
    rank: int
    node: str
    host: str
    activity: Activity | None
    life: Life


class _Tally(msgspec.Struct):
    """One rank's or node's sums on the way: of its own time, and of which attempts it was part."""

    sums: Sums
    hosts: dict[str, None]
    frames: list[int]
    reached: Reached


def _of_each(
    story: Story, frames: Sequence[Frame], windows: Sequence[Sums]
) -> tuple[tuple[Share, ...], tuple[Share, ...]]:
    """The accounts of nodes and ranks: those of the attempts that they were in, and of rounds that never formed."""
    ranks: dict[int, _Tally] = {}
    nodes: dict[str, _Tally] = {}
    arounds = [frame.around for frame in frames]
    shared: Sums = {}
    for index, (frame, group, attempt) in enumerate(zip(frames, story.past.groups, story.run.attempts, strict=True)):
        if not group.has_workers:
            _add(shared, arounds[index])
            continue
        first_of: dict[str, tuple[int, int, Sums]] = {}
        for member in _members(group, attempt, story):
            tally = ranks.get(member.rank)
            if tally is None:
                tally = ranks[member.rank] = _Tally({}, {}, [], Reached())
            tally.hosts[member.host] = None
            tally.frames.append(index)
            spent = _spent(frame, member.activity, member.life, story.clocks, tally.reached)
            _add(tally.sums, spent)
            steps = len(member.activity.times) if member.activity is not None else 0
            best = first_of.get(member.node)
            if best is None or (steps, -member.rank) > best[:2]:
                first_of[member.node] = (steps, -member.rank, spent)
        for node in dict.fromkeys((*attempt.nodes, *first_of)):
            found = nodes.setdefault(node, _Tally({}, {}, [], Reached()))
            found.frames.append(index)
            _add(found.sums, first_of[node][2] if node in first_of else windows[index])
    summed: dict[tuple[int, ...], Sums] = {}
    for tally in (*ranks.values(), *nodes.values()):
        key = tuple(tally.frames)
        if key not in summed:
            # Most were part of the same attempts.
            sums = summed[key] = dict(shared)
            for index in key:
                _add(sums, arounds[index])
        _add(tally.sums, summed[key])
    return (
        tuple(Share(name=name, sums=tally.sums) for name, tally in nodes.items()),
        tuple(Share(name=n, sums=ranks[n].sums, host=",".join(ranks[n].hosts)) for n in sorted(ranks)),
    )


def _members(group: Group, attempt: Attempt, story: Story) -> Iterator[_Member]:
    """Each rank of an attempt, with what its own record says of when it was there."""
    outcomes: dict[int, RankOutcome] = {outcome.rank: outcome for outcome in attempt.ranks}
    for process in group.processes:
        rank = process.rank or 0
        yield _Member(rank, process.host, process.host, process.activity, _life(None, outcomes.get(rank)))
    if group.processes:
        return
    names: dict[int, str] = {}
    for member, worker in workers_of(group):
        if worker.rank is None:
            continue
        agent = member.agent
        node = names.get(id(agent))
        if node is None:
            node = names[id(agent)] = story.names.get(id(agent), agent.host)
        life = _life(worker, outcomes.get(worker.rank))
        yield _Member(worker.rank, node, agent.host, worker.activity, life)


def _life(worker: Worker | None, outcome: RankOutcome | None) -> Life:
    if outcome is None:
        return Life()
    well = outcome.exit_code == 0 or (worker is not None and worker.state == "SUCCEEDED")
    start, end = outcome.started, outcome.ended
    return Life(None if start is None else round(start * 1e9), None if end is None else round(end * 1e9), well)


def _spent(frame: Frame, activity: Activity | None, life: Life, clocks: Clocks, reached: Reached) -> Sums:
    """What a worker's time went to while any were there."""
    up, over, fault = frame.up_ns, frame.over_ns, frame.fault_ns
    if over <= up:
        return {}
    throughout = (life.start_ns is None or life.start_ns <= up) and (life.end_ns is None or life.end_ns >= over)
    if activity is None and fault is None and throughout:
        # So it is for most ranks of most attempts.
        return {"running": over - up}
    track = Track(up, over)
    spend(track, frame, activity, clocks, reached, life)
    return track.sums


def seconds(sums: Sums) -> dict[str, float]:
    """Sums in seconds, every category by its name, in the order of the contract."""
    return {category: round(sums.get(category, 0) / 1e9, 6) for category in CATEGORIES}
