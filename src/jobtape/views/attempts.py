"""The run attempt by attempt, for ``jobtape show``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from jobtape.diagnose.likeness import masked
from jobtape.diagnose.model import iso, to_json
from jobtape.views.attempt import heading, untold_part
from jobtape.views.clock import duration
from jobtape.views.endings import Ending, endings, which
from jobtape.views.escape import brief, brief_place, visible
from jobtape.views.groups import change_of_nodes, count, node_names, ranges
from jobtape.views.page import UNBOUNDED, Grid, Page, Piece
from jobtape.views.room import FULL, Room, fitting
from jobtape.views.sentence import blame, how_they_ended, message, sentence
from jobtape.views.verdict import doubts, restarts_text, summary

if TYPE_CHECKING:
    from jobtape.diagnose.model import Attempt, RankOutcome, Run

ROLE_STYLES = {"first": "bold red", "independent": "red", "collateral": "yellow", "stopped": "dim"}
TIMES = ("started", "ended")


def attempts(run: Run, *, full: bool = False, width: int = UNBOUNDED) -> Page:
    """Every attempt with its workers.

    Args:
        run: what the tape means.
        full: a row a worker and every attempt by itself; else workers that ended alike share a row, and it is a screen
            at most.
        width: of the place it is shown on, in columns.
    """
    if full:
        return in_room(run, FULL, {})
    found: dict[int, list[Alike]] = {}
    return fitting(lambda room: in_room(run, room, found), width)


@dataclass
class Alike:
    """Workers of an attempt that ended alike, and share a row.

    With ten thousand of them their names take a while, and a page is made several times until it fits: they are kept.
    """

    outcomes: Sequence[RankOutcome]

    @cached_property
    def ranks(self) -> str:
        """Their ranks."""
        return ranges(outcome.rank for outcome in self.outcomes)

    @cached_property
    def nodes(self) -> str:
        """Their nodes."""
        return node_names((outcome.host for outcome in self.outcomes), limit=20)

    @cached_property
    def ran(self) -> str:
        """How long they ran."""
        return ran(self.outcomes)


def in_room(run: Run, room: Room, found: dict[int, list[Alike]]) -> Page:
    """The attempts with as much of each thing as there is room for; `found` keeps what was found for other rooms."""
    page = Page()
    page.line(*summary(run))
    told = [count(len(run.attempts), "attempt")]
    if said := restarts_text(run):
        told.append(said)
    page.line(", ".join(told))
    if not run.attempts:
        page.line(sentence(run))
    doubts(page, run, room)
    groups = [Ending([attempt]) for attempt in run.attempts] if room.full else endings(run.attempts)
    hidden = [] if room.full else groups[: -room.tables]
    earlier_part(page, hidden, room)
    before = hidden[-1].example if hidden else None
    for group in groups[len(hidden) :]:
        page.blank()
        restart_line(page, before, group.attempts[0])
        page.line(*heading(group))
        attempt = group.example
        if attempt.cause is not None:
            page.line(blame(attempt.cause, room.said), indent=2)
        else:
            untold_part(page, attempt)
        if room.full:
            workers = [Alike([outcome]) for outcome in attempt.ranks]
        else:
            workers = found[id(attempt)] if id(attempt) in found else found.setdefault(id(attempt), grouped(attempt))
        workers_part(page, attempt, workers, room)
        before = attempt
    return page


def earlier_part(page: Page, hidden: Sequence[Ending], room: Room) -> None:
    """The attempts that are not told one by one, a line for those that ended alike one after the other."""
    if not hidden:
        return
    page.blank()
    shown = hidden[-room.rows :]
    if left_out := hidden[: len(hidden) - len(shown)]:
        attempts = count(sum(len(group.attempts) for group in left_out), "earlier attempt")
        page.line(f"{attempts} not shown; --full shows them")
    for group in shown:
        title = which(group)
        page.line(f"{title[0].upper()}{title[1:]} {how_they_ended(group)}", hang=2)


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


def grouped(attempt: Attempt) -> list[Alike]:
    """The workers of an attempt that ended alike put together, the first failure on top."""
    alike: dict[tuple[object, ...], list[RankOutcome]] = {}
    for outcome in attempt.ranks:
        alike.setdefault(likeness(outcome), []).append(outcome)
    order = sorted(alike.values(), key=lambda group: (group[0].role != "first", group[0].rank))
    return [Alike(group) for group in order]


def workers_part(page: Page, attempt: Attempt, groups: Sequence[Alike], room: Room) -> None:
    """The workers of an attempt as a table."""
    if not groups:
        page.line("no worker of it is on the tape", indent=2)
        return
    shown = groups if room.full else groups[: room.rows]
    headings = ("RANK", "NODE", "PID", "ROLE", "END", "RAN", "SAID")
    page.grid(Grid(headings, [row(group, attempt, room) for group in shown], indent=2, wraps=len(headings) - 1))
    if len(shown) < len(groups):
        rest = sum(len(group.outcomes) for group in groups[len(shown) :])
        page.line(f"{count(rest, 'more rank')}; --full shows them", indent=2)


def likeness(outcome: RankOutcome) -> tuple[object, ...]:
    """What ranks must share to share a row."""
    said, note = (masked(text) if text else "" for text in (outcome.message, outcome.note))
    return outcome.role, outcome.exit_code, outcome.signal, outcome.error_type, outcome.location, said, note


def row(group: Alike, attempt: Attempt, room: Room) -> list[Piece]:
    """A line of the table, of one worker or of several that ended alike."""
    one = group.outcomes[0]
    said = message(one.error_type, one.message, 100_000 if room.full else room.words)
    if one.location:
        said = f"{said} at {brief_place(one.location, 80)}" if said else f"stood at {brief_place(one.location, 80)}"
    if one.note:
        said = f"{said} ({visible(one.note) if room.full else brief(one.note, 2 * room.words)})".lstrip()
    alone = len(group.outcomes) == 1
    return [
        (group.ranks if room.full or len(group.ranks) <= 30 else count(len(group.outcomes), "rank"), "bold"),
        group.nodes,
        str(one.pid) if alone and one.pid is not None else "-",
        (part(one, attempt), ROLE_STYLES.get(one.role, "")),
        end(one, attempt),
        group.ran,
        said or "-",
    ]


def part(outcome: RankOutcome, attempt: Attempt) -> str:
    """Which part a worker had in how the attempt ended, in a word or two."""
    if outcome.role != "unknown":
        return visible(outcome.role)
    if outcome.exit_code == 0:
        return "ended well"
    cause = attempt.cause
    if cause is not None and cause.kind == "node_lost" and cause.host == outcome.host and outcome.exit_code is None:
        return "left alone" if cause.pid is not None else "lost"
    return "-"


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
