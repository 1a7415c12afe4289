"""What differed between two runs' failures, for ``jobtape why --diff``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobtape.views.clock import duration
from jobtape.views.escape import brief, visible
from jobtape.views.groups import count, rank_phrase
from jobtape.views.page import UNBOUNDED, Grid, Page
from jobtape.views.room import FULL, Room, fitting
from jobtape.views.sentence import blame

if TYPE_CHECKING:
    from jobtape.diagnose.comparison import Comparison, Difference, Fact
    from jobtape.diagnose.model import Attempt, Run

ANSWERS = {
    True: ("The two runs failed in the same way", "bold green"),
    False: ("The two runs failed in different ways", "bold red"),
    None: ("Nobody can say whether the two runs failed in the same way: too little is known of them", "yellow"),
}
NEITHER = "Neither of the two runs has a failure on the record"
ONLY_ONE = "Only one of the two runs has a failure on the record"
SECONDS = "_s"
"""How the name of a fact in seconds ends."""


def difference(
    told: Comparison, a: Run, b: Run, names: tuple[str, str], *, full: bool = False, width: int = UNBOUNDED
) -> Page:
    """Whether two runs failed in the same way, what each failure was, what differed and what did not.

    Args:
        told: the comparison.
        a: the first run.
        b: the second.
        names: what to call them.
        full: nothing folded and nothing cut; else a screen at most.
        width: of the place it is shown on, in columns.
    """
    if full:
        return in_room(told, a, b, names, FULL)
    return fitting(lambda room: in_room(told, a, b, names, room), width)


def in_room(told: Comparison, a: Run, b: Run, names: tuple[str, str], room: Room) -> Page:
    """The comparison with as much of each thing as there is room for."""
    page = Page()
    page.line(answer(told))
    page.blank()
    first, second = (brief(name, 60) for name in names)
    width = max(len(first), len(second))
    for name, run, attempt in ((first, a, told.a), (second, b, told.b)):
        page.line((f"{name:<{width}}", "bold"), f"  {failure_text(run, attempt)}", hang=width + 2)
    differing = [fact for fact in told.facts if fact.same is False]
    if differing:
        page.blank()
        limit = 100_000 if room.full else room.words // 2
        rows = [[label(fact), value(fact, fact.a, limit), value(fact, fact.b, limit)] for fact in differing]
        page.grid(Grid(("DIFFERS", first, second), rows))
    alike = [fact for fact in told.facts if fact.same and fact.a]
    if alike:
        page.blank()
        listed = "; ".join(f"{label(fact)} {value(fact, fact.a, 40)}" for fact in alike)
        page.line(("The same in both: ", "bold"), listed, hang=2)
    failures_part(page, told, (first, second), room)
    return page


def answer(told: Comparison) -> tuple[str, str]:
    """The answer in one sentence, with its style."""
    if told.a is None and told.b is None:
        return f"{NEITHER}.", "bold"
    if told.a is None or told.b is None:
        return f"{ONLY_ONE}.", "bold red"
    said, style = ANSWERS[told.same]
    cause = told.a.cause
    if told.same and cause is not None:
        kind = brief(cause.error_type, 60) if cause.error_type else cause.kind.replace("_", " ")
        return f"{said}: {visible(kind)}.", style
    return f"{said}.", style


def failure_text(run: Run, attempt: Attempt | None) -> str:
    """A run's failure in words."""
    if attempt is None or attempt.cause is None:
        return f"{visible(run.state)}, no failure on the record"
    many = f" (of {len(run.attempts):,})" if len(run.attempts) > 1 else ""
    return f"{visible(run.state)}; attempt {attempt.index}{many}: {blame(attempt.cause, 120)}"


def label(fact: Difference) -> str:
    """What a fact is called."""
    return fact.what.removesuffix(SECONDS)


def value(fact: Difference, shown: Fact, limit: int) -> str:
    """A value in a cell."""
    if shown is None:
        return "-"
    if fact.what.endswith(SECONDS) and isinstance(shown, (int, float)):
        return duration(shown)
    if fact.what == "first rank" and isinstance(shown, str):
        return brief(rank_phrase([int(rank) for rank in shown.split(",")]).removeprefix("ranks "), limit)
    return brief(str(shown).replace("_", " ") if fact.what == "kind" else str(shown), limit)


def failures_part(page: Page, told: Comparison, names: tuple[str, str], room: Room) -> None:
    """All failures of the two runs: those of both, and those that only one of them had."""
    if len(told.in_both) + len(told.only_in_a) + len(told.only_in_b) < 2:
        return
    lines: list[tuple[str, str]] = []
    lines += [(f"both, {one:,} and {other:,} times", said(attempt)) for attempt, one, other in told.in_both]
    for name, found in zip(names, (told.only_in_a, told.only_in_b), strict=True):
        lines += [(f"only {name}, {count(times, 'time')}", said(attempt)) for attempt, times in found]
    page.blank()
    page.line(("All failures on record", "bold"))
    shown = lines if room.full else lines[: room.ways]
    for whose, text in shown:
        page.line((f"{whose}: ", "dim"), text, indent=2)
    if len(shown) < len(lines):
        page.line(f"{len(lines) - len(shown):,} more; --full shows them", indent=2)


def said(attempt: Attempt) -> str:
    """A failure in few words."""
    return blame(attempt.cause, 80) if attempt.cause is not None else "-"


def difference_json(told: Comparison, names: tuple[str, str]) -> dict[str, Any]:
    """The comparison for programs."""
    return {
        "same": told.same,
        "runs": list(names),
        "attempts": [attempt.index if attempt is not None else None for attempt in (told.a, told.b)],
        "facts": [
            {"what": key(fact.what), "a": plain(fact.a), "b": plain(fact.b), "same": fact.same} for fact in told.facts
        ],
        "failures": {
            "both": [{"attempt": attempt.index, "a": one, "b": other} for attempt, one, other in told.in_both],
            "only_a": [{"attempt": attempt.index, "times": times} for attempt, times in told.only_in_a],
            "only_b": [{"attempt": attempt.index, "times": times} for attempt, times in told.only_in_b],
        },
    }


def key(what: str) -> str:
    """A name for programs: ``first rank`` is ``first_rank``."""
    return what.replace("'s", "").replace(" ", "_")


def plain(shown: Fact) -> Fact:
    """A value for programs; seconds to the millisecond."""
    return round(shown, 3) if isinstance(shown, float) else shown
