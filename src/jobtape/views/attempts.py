"""The run attempt by attempt, for ``jobtape show``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from jobtape.diagnose.model import iso, to_json
from jobtape.views.clock import duration
from jobtape.views.endings import VARYING, Ending, endings
from jobtape.views.escape import brief, brief_place, visible
from jobtape.views.groups import change_of_nodes, count, node_names, ranges
from jobtape.views.page import Grid, Page, Piece
from jobtape.views.sentence import blame, how_ended, message
from jobtape.views.verdict import doubts, heading, restarts_text, summary

if TYPE_CHECKING:
    from jobtape.diagnose.model import Attempt, RankOutcome, Run

SHOWN_ROWS = 12
SHOWN_GROUPS = 8
ROLE_STYLES = {"first": "bold red", "independent": "red", "collateral": "yellow", "stopped": "dim"}
TIMES = ("started", "ended")


def attempts(run: Run, *, full: bool = False) -> Page:
    """Every attempt with its workers.

    Args:
        run: what the tape means.
        full: a row a worker and every attempt by itself; else workers that ended alike share a row.
    """
    page = Page()
    page.line(*summary(run))
    told = [count(len(run.attempts), "attempt")]
    if said := restarts_text(run):
        told.append(said)
    page.line(", ".join(told))
    doubts(page, run, full)
    groups = [Ending([attempt]) for attempt in run.attempts] if full else endings(run.attempts)
    hidden = groups[:-SHOWN_GROUPS] if not full else []
    if hidden:
        page.blank()
        page.line(
            f"{count(sum(len(group.attempts) for group in hidden), 'earlier attempt')} not shown; --full shows them"
        )
    before: Attempt | None = None
    for group in groups[len(hidden) :]:
        page.blank()
        restart_line(page, before, group.attempts[0])
        page.line(*heading(group))
        attempt = group.example
        if attempt.cause is not None:
            page.line(blame(attempt.cause), indent=2)
        elif attempt.outcome not in {"succeeded", "running"}:
            page.line(f"it {how_ended(attempt)}", indent=2)
        workers_part(page, attempt, full)
        before = attempt
    return page


def restart_line(page: Page, before: Attempt | None, attempt: Attempt) -> None:
    """How long it took from the end of one attempt to the start of the next, and which nodes joined or left."""
    if before is None:
        return
    told = []
    if before.ended is not None and attempt.started is not None and attempt.started >= before.ended:
        told.append(f"{duration(attempt.started - before.ended)} until the next attempt started")
    if change := change_of_nodes(before.nodes, attempt.nodes):
        told.append(change)
    if told:
        page.line(("; ".join(told), "dim"))
        page.blank()


def workers_part(page: Page, attempt: Attempt, full: bool) -> None:
    """The workers of an attempt as a table."""
    if not attempt.ranks:
        page.line("no worker of it is on the tape", indent=2)
        return
    if full:
        groups = [[outcome] for outcome in attempt.ranks]
    else:
        alike: dict[tuple[object, ...], list[RankOutcome]] = {}
        for outcome in attempt.ranks:
            alike.setdefault(likeness(outcome), []).append(outcome)
        groups = sorted(alike.values(), key=lambda group: (group[0].role != "first", group[0].rank))
    shown = groups if full else groups[:SHOWN_ROWS]
    headings = ("RANK", "NODE", "PID", "ROLE", "END", "RAN", "SAID")
    page.grid(Grid(headings, [row(group, attempt, full) for group in shown], indent=2, wraps=len(headings) - 1))
    if len(shown) < len(groups):
        rest = sum(len(group) for group in groups[len(shown) :])
        page.line(f"{count(rest, 'more rank')}; --full shows them", indent=2)


def likeness(outcome: RankOutcome) -> tuple[object, ...]:
    """What ranks must share to share a row."""
    said, note = (VARYING.sub("#", (text or "")[:500]) for text in (outcome.message, outcome.note))
    return outcome.role, outcome.exit_code, outcome.signal, outcome.error_type, outcome.location, said, note


def row(group: Sequence[RankOutcome], attempt: Attempt, full: bool) -> list[Piece]:
    """A line of the table, of one worker or of several that ended alike."""
    one = group[0]
    limit = 100_000 if full else 120
    said = message(one.error_type, one.message, limit)
    if one.location:
        said = f"{said} at {brief_place(one.location, 80)}" if said else f"stood at {brief_place(one.location, 80)}"
    if one.note:
        said = f"{said} ({visible(one.note) if full else brief(one.note, 240)})".lstrip()
    ranks = ranges(outcome.rank for outcome in group)
    return [
        (ranks if full or len(ranks) <= 30 else f"{count(len(group), 'rank')}", "bold"),
        node_names((outcome.host for outcome in group), limit=40),
        str(one.pid) if len(group) == 1 and one.pid is not None else "-",
        (one.role if one.role != "unknown" else "-", ROLE_STYLES.get(one.role, "")),
        end(one, attempt),
        ran(group),
        said or "-",
    ]


def end(outcome: RankOutcome, attempt: Attempt) -> str:
    """How a worker ended, in a word or two."""
    if outcome.signal:
        return visible(outcome.signal)
    if outcome.exit_code is not None:
        return f"exit {outcome.exit_code}"
    return "running" if attempt.outcome == "running" and outcome.ended is None else "-"


def ran(group: Sequence[RankOutcome]) -> str:
    """How long these workers ran."""
    known = [
        o.ended - o.started for o in group if o.started is not None and o.ended is not None and o.ended >= o.started
    ]
    if not known:
        return "-"
    shortest, longest = duration(min(known)), duration(max(known))
    return shortest if shortest == longest else f"{shortest} to {longest}"


def run_json(run: Run) -> dict[str, Any]:
    """What ``jobtape why --json`` prints, with each attempt's ``duration_s`` and all that is known of ``workers``."""
    told = to_json(run)
    for attempt, answer in zip(run.attempts, told["attempts"], strict=True):
        answer["duration_s"] = None if attempt.duration_s is None else round(attempt.duration_s, 3)
        answer["workers"] = [worker_json(outcome) for outcome in attempt.ranks]
    return told


def worker_json(outcome: RankOutcome) -> dict[str, Any]:
    """All that is known of one worker."""
    told = msgspec.structs.asdict(outcome)
    for key in TIMES:
        told[key] = iso(told[key])
    return told
