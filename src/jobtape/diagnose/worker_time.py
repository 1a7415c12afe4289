"""What the time of one worker went to, by its own steps and spans.

Between two steps a worker was productive, unless it did them for the second time; spans carve out what they are of; and
of a pause that the rhythm of the steps does not explain, all but the usual time was a stall. Without steps it was
running, and nothing finer is known.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import sub
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from jobtape.diagnose.activity import SPANS, rhythm_s
from jobtape.diagnose.silence import MANY, SHORT_S

if TYPE_CHECKING:
    from jobtape.diagnose.activity import Activity
    from jobtape.diagnose.clocks import Clocks
    from jobtape.diagnose.timeline import Frame, Track

CHUNK = 1000
"""Steps that are looked at together, where nothing happened but steps."""

_FOREVER = float("inf")

Plan = Sequence[tuple[str, float]]
"""Categories in their order, and seconds of each at most; what spans take does not count."""


class Reached(msgspec.Struct):
    """How far the steps had come, from one attempt to the next.

    Attributes:
        highest: the highest number so far; -1 before the first.
        rhythm_s: seconds a step takes as a rule.
        recorded: step records; ``first``, ``last``: their numbers.
        done: steps done for the first time, as far as records tell; ``done_again``: those that were done before.
    """

    highest: int = -1
    rhythm_s: float | None = None
    recorded: int = 0
    first: int | None = None
    last: int | None = None
    done: int = 0
    done_again: int = 0


class Life(NamedTuple):
    """When one worker was there: its start, its end (None: until all were), and whether it ended well."""

    start_ns: int | None = None
    end_ns: int | None = None
    ended_well: bool = False


def spend(track: Track, frame: Frame, activity: Activity | None, clocks: Clocks, reached: Reached, life: Life) -> None:
    """Lay the time of one worker, from when the first one was started until their end was noticed.

    Args:
        track: from `frame.up_ns` to `frame.over_ns`.
        frame: the attempt.
        activity: the worker's steps and spans.
        clocks: whose times are told apart.
        reached: how far the steps had come before; brought up to date.
        life: when the worker was there.
    """
    if life.start_ns is not None:
        track.lay(frame.early, life.start_ns)
    stop = frame.over_ns if life.end_ns is None else min(life.end_ns, frame.over_ns)
    fault = frame.fault_ns
    if activity is None:
        track.lay("running", stop if fault is None else min(fault, stop))
    else:
        work = _Work(track, activity, clocks)
        if fault is not None and activity.times:
            # What it still did after the failure elsewhere, it did.
            fault = max(fault, work.at(work.times[-1]))
        work.lay(stop if fault is None else min(fault, stop), reached, broke=frame.broke)
    track.lay("stalled", stop)
    track.lay("teardown" if life.ended_well else "stalled", frame.over_ns)


class _Work:
    """One worker's steps and spans on the way onto a track."""

    def __init__(self, track: Track, activity: Activity, clocks: Clocks) -> None:
        self.track = track
        self.activity = activity
        self.times, self.shift = _on_one_clock(activity, clocks)
        self.cuts: list[tuple[float, float, str]] = []
        self.cut = 0

    def at(self, seconds: float) -> int:
        """A time of the activity in unix nanoseconds."""
        return round((seconds + self.shift) * 1e9)

    def lay(self, until_ns: int, reached: Reached, *, broke: bool) -> None:
        """Lay startup, steps, and what came after the last one."""
        activity, times = self.activity, self.times
        until = until_ns / 1e9 - self.shift
        begin = self.track.at_ns / 1e9 - self.shift
        self.cuts = _cuts(activity, times, until)
        rhythm = rhythm_s(activity)
        if rhythm is None:
            rhythm = reached.rhythm_s
        reached.rhythm_s = rhythm
        if not times:
            self._fill(begin, until, [("running", _FOREVER)])
            self.track.lay("running", until_ns)
            return
        first = activity.first_begun
        first = times[0] if first is None else min(first, times[0])
        self._fill(begin, first, [("startup", _FOREVER)])
        self._steps(first, reached, rhythm, until)
        usual = None if rhythm is None else rhythm * _last_advance(activity)
        uncovered = self._uncovered(times[-1], until)
        silent = broke and usual is not None and uncovered > longest(usual)
        rest: Plan = [("running", usual), ("stalled", _FOREVER)] if silent and usual is not None else _RUNNING
        self._fill(times[-1], until, rest)
        self.track.lay(rest[-1][0], until_ns)

    def _steps(self, first_begun: float, reached: Reached, rhythm: float | None, until: float) -> None:
        times, steps = self.times, self.activity.steps
        count = len(times)
        pause = _FOREVER if rhythm is None else longest(rhythm)
        again = steps[0] <= reached.highest
        self._fill(first_begun, times[0], _plan(self._uncovered(first_begun, times[0]), 1, int(again), rhythm))
        reached.done_again += again
        reached.done += not again
        reached.recorded += count
        reached.first = steps[0] if reached.first is None else reached.first
        highest = max(reached.highest, steps[0])
        rough = 0  # up to here steps are looked at one by one
        before, number = 0, 1  # one step may be told more than once: the first record of it counts
        while number < count and times[before] < until:
            last = min(before + CHUNK, count - 1)
            smooth = before == number - 1 and rough <= before and self._is_smooth(before, last, highest, pause)
            if smooth:
                advance = steps[last] - steps[before]
                redone = advance if steps[last] <= highest else 0
                self._lay_smooth("lost_work" if redone else "productive", times[before], times[last])
            else:
                rough = max(rough, last)
                last = number
                advance = steps[last] - steps[before]
                if advance == 0:
                    number += 1
                    continue
                redone = min(max(highest - steps[before], 0), advance) if advance > 0 else 1
                advance = max(advance, 1)  # back to a checkpoint without a restart
                plan = _plan(self._uncovered(times[before], times[last]), advance, redone, rhythm)
                self._fill(times[before], times[last], plan)
            reached.done_again += redone
            reached.done += advance - redone
            highest = max(highest, steps[last])
            before, number = last, last + 1
        reached.highest, reached.last = max(highest, max(steps)), steps[-1]

    def _is_smooth(self, first: int, last: int, highest: int, pause: float) -> bool:
        """Whether from one step record to another there were no pauses, and the steps all new or all done before."""
        times, steps = self.times, self.activity.steps
        if not (steps[first] >= highest or steps[last] <= highest):
            return False
        if self._cut_after(times[first]) < times[last] and not self._has_room(times[first], times[last]):
            return False
        ahead = slice(first + 1, last + 1)
        least = min(map(sub, steps[ahead], steps[first:last]))
        return least > 0 and bool(max(map(sub, times[ahead], times[first:last])) <= pause)

    def _has_room(self, begin: float, end: float) -> bool:
        """Whether only sums are wanted, and the track is where the stretch is."""
        track = self.track
        return track.intervals is None and self.at(begin) == track.at_ns and self.at(end) <= track.until_ns

    def _lay_smooth(self, category: str, begin: float, end: float) -> None:
        """Lay a stretch of steps whose spans are only added up."""
        until = self.at(end)
        if self._cut_after(begin) < end:
            cuts, number = self.cuts, self.cut
            while number < len(cuts) and cuts[number][0] < end:
                cut = cuts[number]
                self.track.count(cut[2], self.at(min(cut[1], end)) - self.at(max(cut[0], begin)))
                number += 1
        self.track.lay(category, until)

    def _cut_after(self, time: float) -> float:
        """Where the next span is that ends after a time; times are asked for in their order."""
        cuts = self.cuts
        while self.cut < len(cuts) and cuts[self.cut][1] <= time:
            self.cut += 1
        return cuts[self.cut][0] if self.cut < len(cuts) else _FOREVER

    def _uncovered(self, begin: float, end: float) -> float:
        """Seconds of a stretch in which no span was."""
        left = end - begin
        if self._cut_after(begin) < end:
            number = self.cut
            while number < len(self.cuts) and self.cuts[number][0] < end:
                left -= min(self.cuts[number][1], end) - max(self.cuts[number][0], begin)
                number += 1
        return left

    def _fill(self, begin: float, end: float, plan: Plan) -> None:
        """Lay a stretch: spans where they were, and around them what the plan says."""
        at, stage, left = begin, 0, plan[0][1]
        number = self.cut if self._cut_after(begin) < end else len(self.cuts)
        while at < end:
            cut = self.cuts[number] if number < len(self.cuts) else None
            free = end if cut is None else min(max(cut[0], at), end)
            while at < free:
                until = min(free, at + left)
                self.track.lay(plan[stage][0], self.at(until))
                left -= until - at
                if until < free or left <= 0:
                    stage += 1
                    left = plan[stage][1] if stage < len(plan) else _FOREVER
                    stage = min(stage, len(plan) - 1)
                at = until
            if cut is None or at >= end:
                return
            self.track.lay(cut[2], self.at(min(cut[1], end)))
            at = max(min(cut[1], end), at)
            number += 1


def longest(usual_s: float) -> float:
    """Seconds that a pause may last which takes so long as a rule, before it is called a stall."""
    return max(MANY * usual_s, usual_s + SHORT_S)


_RUNNING: Plan = [("running", _FOREVER)]


def _plan(uncovered: float, advance: int, redone: int, rhythm: float | None) -> Plan:
    """What a stretch between two step records went to."""
    worked = uncovered
    if rhythm is not None and uncovered > longest(rhythm * advance):
        worked = rhythm * advance
    if worked == uncovered and redone in (0, advance):
        return [("lost_work" if redone else "productive", _FOREVER)]
    again = worked * redone / advance
    stages = [("lost_work", again), ("productive", worked - again if worked < uncovered else _FOREVER)]
    return [stage for stage in (*stages, ("stalled", _FOREVER)) if stage[1] > 0]


def _last_advance(activity: Activity) -> int:
    steps = activity.steps
    return max(steps[-1] - steps[-2], 1) if len(steps) > 1 else 1


def _on_one_clock(activity: Activity, clocks: Clocks) -> tuple[Sequence[float], float]:
    """The times of the steps, and what to add to them, and to those of the spans, for unix seconds."""
    marks = [*activity.times[:1], *activity.times[-1:], *activity.begins[:1], *activity.ends[-1:]]
    marks += [span.began for span in activity.open.values()][:1]
    moments = [clocks.unix(activity.clock, mark) for mark in marks]
    shifts = {moment - mark for mark, moment in zip(marks, moments, strict=True) if moment is not None}
    shift = min(shifts, default=0.0)
    if not shifts or max(shifts) - shift < 1e-6:
        return activity.times, shift
    # The clock was corrected in stretches.
    told = [(clocks.unix(activity.clock, time) or time + shift) - shift for time in activity.times]
    return array("d", sorted(told)), shift


def _cuts(activity: Activity, times: Sequence[float], until: float) -> list[tuple[float, float, str]]:
    """The spans as stretches that do not overlap: where they do, the one that began last counts.

    A span in which a step was recorded ran beside the steps, in a thread of its own: it took no time from them.
    """
    spans = [*zip(activity.begins, activity.ends, activity.kinds, strict=True)]
    spans += [(span.began, until, span.kind) for span in activity.open.values() if span.began < until]
    spans = [each for each in spans if bisect_right(times, each[0]) >= bisect_left(times, each[1])]
    spans.sort(key=lambda each: (each[0], -each[1]))
    cuts: list[tuple[float, float, str]] = []
    stack: list[tuple[float, str]] = []
    at = float("-inf")

    def close(limit: float) -> None:
        nonlocal at
        while stack and stack[-1][0] <= limit:
            end, name = stack.pop()
            if end > at:
                cuts.append((at, end, name))
                at = end

    for begin, end, kind in spans:
        close(begin)
        if stack and begin > at:
            cuts.append((at, begin, stack[-1][1]))
        at = begin
        stack.append((end, SPANS[kind]))
    close(_FOREVER)
    return cuts
