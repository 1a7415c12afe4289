"""A run's wall time cut into stretches: for each attempt before its workers ran, while they ran, and after.

`frames_of` cuts at the moments that the record proves; what the workers did between two of them is told by
`jobtape.diagnose.worker_time`. Times are whole nanoseconds since 1970, so that sums are exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from jobtape.diagnose.facts import Point

if TYPE_CHECKING:
    from jobtape.diagnose.attempts import Group
    from jobtape.diagnose.clocks import Clocks
    from jobtape.diagnose.facts import Agent, Clock
    from jobtape.diagnose.model import Attempt
    from jobtape.diagnose.reconstruct import Story

CATEGORIES = (
    *("productive", "checkpoint_save", "checkpoint_restore", "data_wait", "evaluation", "startup", "rendezvous"),
    *("stalled", "restarting", "lost_work", "teardown", "no_agent", "running", "unattributed"),
)
"""What time can go to; each moment to one of them."""

Sums = dict[str, int]
"""Nanoseconds by category; those that have none may be missing."""


class Interval(NamedTuple):
    """A stretch of time that went to one category."""

    category: str
    begin_ns: int
    end_ns: int


class Track:
    """Stretches laid one behind the other, without a gap and without an overlap, from one time to another.

    Attributes:
        at_ns: where the next one begins.
        intervals: the stretches, neighbours of one category joined; None where only their sums are wanted, since steps
            and spans can be many millions.
    """

    __slots__ = ("at_ns", "counted_ns", "intervals", "sums", "until_ns")

    def __init__(self, begin_ns: int, until_ns: int, *, keep: bool = False) -> None:
        self.at_ns = begin_ns
        self.until_ns = until_ns
        self.counted_ns = 0
        self.sums: Sums = {}
        self.intervals: list[Interval] | None = [] if keep else None

    def lay(self, category: str, until_ns: int) -> None:
        """From where the last one ended until a time; nothing when that is not later."""
        begin, end = self.at_ns, min(until_ns, self.until_ns)
        if end <= begin:
            return
        self.sums[category] = self.sums.get(category, 0) + end - begin - self.counted_ns
        self.counted_ns = 0
        self.at_ns = end
        if self.intervals is not None:
            last = self.intervals[-1] if self.intervals else None
            if last is not None and last.category == category:
                self.intervals[-1] = Interval(category, last.begin_ns, end)
            else:
                self.intervals.append(Interval(category, begin, end))

    def count(self, category: str, duration_ns: int) -> None:
        """Count time that lies somewhere in what is laid next; where, is not kept."""
        self.sums[category] = self.sums.get(category, 0) + duration_ns
        self.counted_ns += duration_ns


class Frame(NamedTuple):
    """One attempt's part of the run's time.

    Attributes:
        begin_ns: where the attempt before it was over, or the run began; ``end_ns``: where this one was, or
            the run ended.
        before: until its workers started.
        up_ns: when they started, and ``over_ns``: when it was noticed that they had failed, would be restarted, or had
            ended. Both are the same where no workers ran.
        after: from then on.
        fault_ns: when the failure happened that ended it, or the waiting for a silent rank began.
        broke: it ended by a failure, so that silence before it was a stall.
        early: what a rank does that is not started yet while others are.
    """

    begin_ns: int
    end_ns: int
    before: tuple[Interval, ...]
    up_ns: int
    over_ns: int
    after: tuple[Interval, ...]
    fault_ns: int | None
    broke: bool
    early: str

    @property
    def around(self) -> Sums:
        """What went to each category outside the time of its workers."""
        sums: Sums = {}
        for category, begin, end in (*self.before, *self.after):
            sums[category] = sums.get(category, 0) + end - begin
        return sums


class _Moments(NamedTuple):
    """What an attempt's records say of it; None where they do not."""

    joining: list[int]
    formed: int | None
    up: int | None
    over: int | None


def nanoseconds(seconds: float | None) -> int | None:
    """Unix seconds as whole nanoseconds."""
    return None if seconds is None else round(seconds * 1e9)


def span_of(story: Story) -> tuple[int, int] | None:
    """When the run began and ended (or was last heard of); None without times."""
    begin, end = nanoseconds(story.run.started), nanoseconds(story.last)
    return None if begin is None or end is None else (begin, max(begin, end))


def frames_of(story: Story) -> list[Frame]:
    """The attempts' parts of the run's time: together they are all of it, in order; none when there are no times."""
    span = span_of(story)
    if span is None:
        return []
    at, end = span
    gaps = _lifeless(story, at, end)
    frames: list[Frame] = []
    known = True
    groups, attempts = story.past.groups, story.run.attempts
    for index, (group, attempt) in enumerate(zip(groups, attempts, strict=True)):
        moments = _moments(group, attempt, story.clocks, end)
        before = groups[index - 1] if index else None
        last = index + 1 == len(groups)
        frame = _frame(at, end, group, before, attempt, moments, gaps, known=known, last=last)
        frames.append(frame)
        known = moments.over is not None
        at = frame.end_ns
    return frames


def _frame(
    at: int,
    end: int,
    group: Group,
    before: Group | None,
    attempt: Attempt,
    moments: _Moments,
    gaps: list[tuple[int, int]],
    *,
    known: bool,
    last: bool,
) -> Frame:
    up = moments.up if moments.up is not None else moments.over
    over = max(moments.over if moments.over is not None else up if up is not None else at, at)
    track = Track(at, min(over, end), keep=True)
    first = before is None
    # Where nothing tells when the workers were started, most of the time they may have run.
    untold = group.has_workers and moments.up is None and moments.formed is None
    idle = "unattributed" if first or untold or not known else "restarting"
    if up is not None:
        _lay_before(track, max(up, at), moments, gaps, idle, group, before)
    if group.has_workers:
        track.lay("rendezvous" if first else idle if untold else "restarting", up if up is not None else at)
    else:
        track.lay("rendezvous", over)
    started = track.at_ns
    over = min(max(over, started), end)
    rest = Track(over, end if last else over, keep=True)
    _lay_gaps(rest, "teardown", "teardown", end, gaps)
    cause = attempt.cause
    return Frame(
        begin_ns=at,
        end_ns=rest.until_ns,
        before=tuple(track.intervals or ()),
        up_ns=started,
        over_ns=over if group.has_workers else started,
        after=tuple(rest.intervals or ()),
        fault_ns=nanoseconds(cause.time) if cause is not None else None,
        broke=cause is not None and cause.kind != "preempted",
        early="rendezvous" if first else "restarting",
    )


def _lay_before(
    track: Track,
    up: int,
    moments: _Moments,
    gaps: list[tuple[int, int]],
    idle: str,
    group: Group,
    before: Group | None,
) -> None:
    """From where the attempt before was over until the round was complete."""
    # A node that has long waited for a round begins to join when the others do.
    joining = min((t for t in moments.joining if t >= track.at_ns), default=track.at_ns if moments.joining else up)
    formed = up if moments.formed is None else min(moments.formed, up)
    relaunched = before is not None and before.launch != group.launch
    _lay_gaps(track, "teardown" if relaunched else idle, idle, min(joining, up), gaps)
    if moments.joining:
        track.lay("rendezvous", formed)


def _lay_gaps(track: Track, before: str, after: str, until: int, gaps: list[tuple[int, int]]) -> None:
    """Until a time, with the gaps in which nothing of the job was alive; without any, all is what comes after them."""
    until = min(until, track.until_ns)
    found = [(begin, end) for begin, end in gaps if begin < until and end > track.at_ns]
    category = before
    for begin, end in found:
        track.lay(category, begin)
        track.lay("no_agent", min(end, until))
        category = after
    track.lay(after, until)


def _moments(group: Group, attempt: Attempt, clocks: Clocks, end: int) -> _Moments:
    if group.unseen:
        return _Moments([], None, None, None)

    def known(points: Iterable[tuple[Clock, Point | None]]) -> list[int]:
        times = [clocks.at(clock, point) for clock, point in points]
        return [round(time * 1e9) for time in times if time is not None]

    members = [(m.agent.clock, m.stint) for m in group.members]
    joining = known((clock, stint.opened) for clock, stint in members)
    formed = max(known((clock, stint.joined) for clock, stint in members), default=None)
    ended = end if attempt.outcome == "running" else nanoseconds(attempt.ended)
    if not group.has_workers:
        return _Moments(joining, None, None, ended)
    up = nanoseconds(attempt.started)
    if up is None and formed is None:
        joining = []  # what opened the stint is a line about its end
    cause = attempt.cause
    if cause is not None and attempt.outcome != "running":
        noticed = nanoseconds(cause.detected)
        if noticed is None:
            noticed = min(known((clock, stint.failed) for clock, stint in members), default=None)
        fault = nanoseconds(cause.time)
        if noticed is not None and fault is not None and noticed < fault:
            noticed = None
    elif attempt.outcome == "membership":
        noticed = min(known((clock, stint.membership) for clock, stint in members), default=None)
    else:
        noticed = None
    return _Moments(joining, formed, up, noticed if noticed is not None else ended)


def _lifeless(story: Story, begin: int, end: int) -> list[tuple[int, int]]:
    """When no process of the job was alive; nothing where of some of them it is not known when they lived."""
    clocks = story.clocks
    lives: list[tuple[int, int]] = []
    for agent in story.agents:
        lives.append(_life(clocks, agent.clock, agent.first, _last_of(agent), end, agent.alive))
    for process in story.processes:
        lives.append(_life(clocks, process.clock, process.start, process.last, end, process.alive))
    gaps: list[tuple[int, int]] = []
    at = begin
    for born, died in sorted(lives):
        if born < 0:
            return []
        if born > at:
            gaps.append((at, born))
        at = max(at, died)
    return gaps


def _last_of(agent: Agent) -> Point | None:
    points = [p for p in (agent.last, agent.end) if p is not None and p.time is not None]
    return max(points, key=lambda point: point.time or 0.0, default=agent.last)


def _life(
    clocks: Clocks, clock: Clock, first: Point | None, last: Point | None, end: int, alive: bool
) -> tuple[int, int]:
    born, died = clocks.at(clock, first), clocks.at(clock, last)
    if born is None or died is None:
        return (-1, -1)
    return round(born * 1e9), end if alive else round(died * 1e9)
