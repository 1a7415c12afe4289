"""How far the clocks of a run are apart, from what each of them read at moments that they shared.

Two questions are answered. *What to correct*: a clock is left as it is while the moments allow it, and of clocks that
contradict each other the many are believed and not the few; what is off is moved into the middle of what is possible.
*What is proven*: between which values the difference of two clocks lies at a given time. It is taken from the moments
that the two shared, and grows with the time to the nearest one, for clocks drift.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from jobtape.diagnose.facts import Clock
    from jobtape.diagnose.moments import Read

DRIFT = 500e-6
"""How fast two clocks may drift apart: ntpd and the kernel speed a clock up or slow it down by no more (500 ppm)."""
MOST_THIRDS = 16
"""So many clocks are tried as a go-between for two that shared no moment."""


class Stretch(msgspec.Struct, order=True):
    """A time during which one offset explains all that a clock read.

    Attributes:
        begin: from when on, on that clock.
        low: the offset is at least this, and at most `high`.
    """

    begin: float
    low: float = float("-inf")
    high: float = float("inf")

    @property
    def offset(self) -> float:
        """By how much the clock is taken to be ahead: nothing, as long as that is possible."""
        return 0.0 if self.low <= 0.0 <= self.high else (self.low + self.high) / 2


class _Known(msgspec.Struct, eq=False):
    """What is known of one clock: which moments it shared, and its stretches in the order of its own time."""

    met: list[int]
    stretches: list[Stretch]
    latest: Stretch

    def narrow(self, begin: float, low: float, high: float) -> None:
        """Its offset is now known to lie between two values; a contradiction begins a new stretch."""
        latest = self.latest
        if low <= latest.high and latest.low <= high:
            if low > latest.low:
                latest.low = low
            if high < latest.high:
                latest.high = high
        else:
            self.latest = Stretch(begin, low, high)
            insort(self.stretches, self.latest)


class Offsets:
    """The offsets of clocks, learned from shared moments in the order in which they happened.

    Attributes:
        times: when each moment was, in the time that all corrected clocks agree on.
    """

    def __init__(self, moments: Iterable[Read]) -> None:
        self.times: list[float] = []
        self._reads: list[Read] = []
        self._known: dict[Clock, _Known] = {}
        for read in moments:
            self._take(read)

    def __iter__(self) -> Iterator[Clock]:
        """The clocks that shared a moment."""
        return iter(self._known)

    def met(self, clock: Clock) -> Sequence[int]:
        """Which moments a clock shared, by number."""
        known = self._known.get(clock)
        return known.met if known is not None else ()

    def stretches(self, clock: Clock) -> Sequence[Stretch]:
        """The stretches of a clock in the order of its own time; none when it shared no moment."""
        known = self._known.get(clock)
        return known.stretches if known is not None else ()

    def between(self, one: Clock, other: Clock, at: float) -> tuple[float, float] | None:
        """How much the second clock was ahead of the first at a time: at least, and at most; None if nobody knows."""
        found = self._shared(one, other, at)
        if found is not None:
            return found
        best = None
        for third in self._thirds(one, other):
            first, second = self._shared(one, third, at), self._shared(third, other, at)
            if first is None or second is None:
                continue
            span = first[0] + second[0], first[1] + second[1]
            if best is None or span[1] - span[0] < best[1] - best[0]:
                best = span
        return best

    def _thirds(self, one: Clock, other: Clock) -> list[Clock]:
        near = {clock for number in self.met(one) for clock in self._reads[number]}
        both = {clock: None for number in self.met(other) for clock in self._reads[number] if clock in near}
        return list(both)[:MOST_THIRDS]

    def _take(self, read: Read) -> None:
        number, size = len(self.times), len(read)
        clocks: list[_Known] = []
        spans: list[tuple[float, float]] = []
        weights: list[float] = []
        oldest, since = 0, number
        for clock, span in read.items():
            known = self._known.get(clock)
            if known is None:
                stretch = Stretch(float("-inf"))
                known = self._known[clock] = _Known([], [stretch], stretch)
                weights.append(1.0)
            else:
                # Those that were there before are believed before newcomers.
                weights.append(size)
                if known.met[0] < since:
                    oldest, since = len(clocks), known.met[0]
            latest = known.latest
            if not latest.low <= 0.0 <= latest.high:
                span = span[0] - latest.high, span[1] - latest.low
            clocks.append(known)
            spans.append(span)
        # And the oldest of them when in doubt.
        weights[oldest] += 0.5
        first, last = _agreed(spans, weights)
        self.times.append((first + last) / 2)
        self._reads.append(read)
        for known, (low, high) in zip(clocks, read.values(), strict=True):
            known.met.append(number)
            known.narrow(low, low - last, high - first)

    def _shared(self, one: Clock, other: Clock, at: float) -> tuple[float, float] | None:
        here = bisect_right(self.times, at)
        before = self._span(range(here - 1, -1, -1), one, other, at)
        after = self._span(range(here, len(self.times)), one, other, at)
        if before is None or after is None:
            return before or after
        low, high = max(before[0], after[0]), min(before[1], after[1])
        if low <= high:
            return low, high
        # One of the clocks was set in between, nobody knows when.
        return min(before[0], after[0]), max(before[1], after[1])

    def _span(self, numbers: Iterable[int], one: Clock, other: Clock, at: float) -> tuple[float, float] | None:
        """What the moments that two clocks shared leave possible, the nearest first.

        One that contradicts those nearer by tells that a clock was set before it; and what is so long ago that drift
        alone could have done as much says nothing new.
        """
        span = None
        for number in numbers:
            read = self._reads[number]
            if one not in read or other not in read:
                continue
            (low, high), (other_low, other_high) = read[one], read[other]
            drift = abs(at - self.times[number]) * DRIFT
            found = other_low - high - drift, other_high - low + drift
            if span is not None:
                found = max(found[0], span[0]), min(found[1], span[1])
                if found[0] > found[1] or drift > span[1] - span[0]:
                    break
            span = found
        return span


def _agreed(spans: Sequence[tuple[float, float]], weights: Sequence[float]) -> tuple[float, float]:
    """The time that most of these spans share."""
    first, last = max(low for low, _ in spans), min(high for _, high in spans)
    if first <= last:
        return first, last
    edges = sorted(
        edge
        for (low, high), weight in zip(spans, weights, strict=True)
        for edge in ((low, 0, weight), (high, 1, -weight))
    )
    most = weight = 0.0
    for number, (time, _, change) in enumerate(edges):
        weight += change
        if weight > most:
            # What opens a span is never the last edge.
            most, first, last = weight, time, edges[number + 1][0]
    return first, last
