"""The steps of the ranks against their own rhythm: who stopped before the others, and since when nobody had one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jobtape.diagnose.activity import rhythm_s
from jobtape.diagnose.clocks import Clocks
from jobtape.diagnose.facts import Worker
from jobtape.diagnose.suspects import Suspect

MANY = 10
"""Steps that would have fitted into a pause, for it to be called silence."""

SHORT_S = 30.0
"""A pause up to this is none: an evaluation or a checkpoint of a job with fast steps takes so long."""


class LastStep(NamedTuple):
    """The last step of a rank: when (unix seconds), its number, and when the next one was due."""

    time: float
    step: int
    due: float | None


def last_step(worker: Worker, clocks: Clocks) -> LastStep | None:
    """A rank's last step; None where it recorded none, or at no time that is known."""
    activity = worker.activity
    last = activity.last_step if activity is not None else None
    if activity is None or last is None:
        return None
    time = clocks.unix(activity.clock, last[0])
    rhythm = rhythm_s(activity)
    return None if time is None else LastStep(time, last[1], None if rhythm is None else time + rhythm)


def behind(suspects: Sequence[Suspect], clocks: Clocks) -> tuple[Suspect, int] | None:
    """The one rank whose steps stopped before those of all others, and by how many steps.

    Returns:
        None where steps are not on the record of every rank, or where several stand at the lowest one.
    """
    found = [(last.step, suspect) for suspect in suspects if (last := last_step(suspect.worker, clocks)) is not None]
    if len(found) < 2 or len(found) < len(suspects):
        return None
    found.sort(key=lambda pair: pair[0])
    (lowest, suspect), (second, _) = found[:2]
    return (suspect, second - lowest) if lowest < second else None


def silent_since(suspects: Sequence[Suspect], until: float | None, clocks: Clocks) -> LastStep | None:
    """The last step of any rank, when by the rhythm of the steps many more should have followed until then."""
    lasts = [last for suspect in suspects if (last := last_step(suspect.worker, clocks)) is not None]
    if until is None or not lasts:
        return None
    last = max(lasts, key=lambda each: each.time)
    if last.due is None:
        return None
    return last if until - last.time > max(MANY * (last.due - last.time), SHORT_S) else None
