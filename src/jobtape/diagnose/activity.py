"""What a worker says that it did while it ran: its steps, and the spans that the time account knows.

A step is an event named ``step`` with a whole number ``step`` (``emit("step", step=120)``), or the end of a span of
that name that went well. Long runs have millions of both, so they are kept in arrays. Times are seconds on the clock
of the process that wrote them.
"""

from __future__ import annotations

import statistics
from array import array
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from jobtape.diagnose.points import Clock

SPANS = ("checkpoint_save", "checkpoint_restore", "data_wait", "evaluation")
"""Names of spans that are categories of the time account; `Activity.kinds` holds their places here."""

STEP = "step"
PHASE, ID, DURATION, OUTCOME = "span.phase", "span.id", "span.duration_s", "span.outcome"
"""Keys of a span's events, as `jobtape.events.span` writes them."""

MOST_OPEN = 10_000
"""Spans that have begun and not ended, at most: a job that never ends its spans must not fill the memory."""

SAMPLE = 10_000
"""Intervals between steps that a rhythm is taken from, at most, spread evenly."""

_KINDS = {name: kind for kind, name in enumerate(SPANS)}
_HIGHEST = 2**53


class OpenSpan(NamedTuple):
    """A span without an end: its process died in it, or is in it now."""

    kind: int
    began: float


if TYPE_CHECKING:
    Reals: TypeAlias = array[float]
    Integers: TypeAlias = array[int]
else:
    # Before Python 3.12 an array has no subscript, and msgspec wants to know what the fields are.
    Reals = Integers = array


class Activity(msgspec.Struct, eq=False, kw_only=True):
    """The steps and spans of one worker, in the order of their times once `ordered` has been called.

    Attributes:
        clock: whose times these are.
        times: when each step was recorded, and ``steps``: its number.
        kinds: for each span that ended, the place of its name in `SPANS`; ``begins`` and ``ends``: its times.
        open: spans that have not ended, by their id.
        first_begun: when the first step began, where a span says so.
    """

    clock: Clock
    times: Reals = msgspec.field(default_factory=lambda: array("d"))
    steps: Integers = msgspec.field(default_factory=lambda: array("q"))
    kinds: Integers = msgspec.field(default_factory=lambda: array("B"))
    begins: Reals = msgspec.field(default_factory=lambda: array("d"))
    ends: Reals = msgspec.field(default_factory=lambda: array("d"))
    open: dict[str, OpenSpan] = msgspec.field(default_factory=dict)
    first_begun: float | None = None

    @property
    def last_step(self) -> tuple[float, int] | None:
        """When the last step was recorded, and its number."""
        return (self.times[-1], self.steps[-1]) if self.times else None


def is_activity(name: str) -> bool:
    """Whether an event of that name can be a step or a span that counts."""
    return name == STEP or name in _KINDS


def take_in(activity: Activity, name: str, metadata: dict[str, Any], time: float | None) -> None:
    """Take in an event for which `is_activity` holds; one that is neither step nor span is passed over."""
    if time is None:
        return
    phase = metadata.get(PHASE)
    if name == STEP:
        if phase == "begin":
            if activity.first_begun is None and not activity.times:
                activity.first_begun = time
            return
        number = _step_number(metadata.get("step"))
        if number is not None and metadata.get(OUTCOME, "ok") == "ok":
            activity.times.append(time)
            activity.steps.append(number)
        return
    kind, key = _KINDS[name], metadata.get(ID)
    if phase == "begin" and isinstance(key, str):
        if len(activity.open) >= MOST_OPEN:
            del activity.open[next(iter(activity.open))]
        activity.open[key] = OpenSpan(kind, time)
    elif phase == "end":
        begun = activity.open.pop(key, None) if isinstance(key, str) else None
        began = begun.began if begun is not None and begun.kind == kind else _began(time, metadata.get(DURATION))
        if began is not None and began <= time:
            activity.kinds.append(kind)
            activity.begins.append(began)
            activity.ends.append(time)


def ordered(activity: Activity) -> Activity | None:
    """The same with steps in the order of their times; None when there is nothing in it."""
    times, steps = activity.times, activity.steps
    if any(map(float.__gt__, times, times[1:])):
        order = sorted(range(len(times)), key=times.__getitem__)
        activity.times = array("d", map(times.__getitem__, order))
        activity.steps = array("q", map(steps.__getitem__, order))
    return activity if times or activity.kinds or activity.open or activity.first_begun is not None else None


def rhythm_s(activity: Activity) -> float | None:
    """Seconds a step takes as a rule: the median over its intervals, each divided by the steps it covers.

    Steps that are recorded every tenth count as ten. None when there are fewer than three intervals to take it from.
    """
    times, steps = activity.times, activity.steps
    count = len(times) - 1
    each = max(count // SAMPLE, 1)
    spent = [
        (times[n + 1] - times[n]) / (steps[n + 1] - steps[n]) for n in range(0, count, each) if steps[n + 1] > steps[n]
    ]
    return statistics.median(spent) if len(spent) >= 3 else None


def _step_number(value: object) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value < _HIGHEST else None


def _began(time: float, duration: object) -> float | None:
    """When a span began whose begin is not on the record."""
    if isinstance(duration, bool) or not isinstance(duration, (int, float)) or not 0 <= duration < time:
        return None
    return time - duration
