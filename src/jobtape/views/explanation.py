"""How each verdict about a run was reached, and what its words mean: ``jobtape why --explain``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobtape.views.clock import duration
from jobtape.views.endings import Ending, ways, which
from jobtape.views.escape import brief, visible
from jobtape.views.groups import count, node_names
from jobtape.views.page import Page
from jobtape.views.reasons import (
    CONFIDENCES,
    KINDS,
    OUTCOMES,
    QUESTIONS,
    REASONS,
    ROLES,
    TERMS,
    WARNINGS,
)
from jobtape.views.sentence import blame_of

if TYPE_CHECKING:
    from jobtape.diagnose.model import Cause, HostClock, Run

SHOWN_VERDICTS = 6
SHOWN_RECORDS = 4
REFERENCE = re.compile(r"(?P<place>.*?) #(?P<seq>[0-9]+) (?P<says>.*)", re.DOTALL)
WORDLESS = {None, 0, 1}
"""Exit codes that nobody need have chosen."""
ASKED_LATER = "Asked later: a script chose this exit code, and no lost peer explains it"
NO_WORKERS = "no worker was started: of what kept the rendezvous from forming the agents alone can tell"


@dataclass(frozen=True)
class Passage:
    """Something explained: a heading, and sentences each with a word before it."""

    title: str
    rows: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """As one text, for programs."""
        return f"{self.title}. " + " ".join(f"{label}: {said}." if label else f"{said}." for label, said in self.rows)


def explanation(run: Run, *, full: bool = False) -> list[Passage]:
    """How the verdicts were reached, then what the words mean that stand in this answer.

    Args:
        run: what the tape means.
        full: every verdict; else those of the commonest ways in which attempts ended.
    """
    found = [way for way in ways(run.attempts) if way.example.cause is not None]
    shown = sorted(found if full else found[:SHOWN_VERDICTS], key=lambda way: way.attempts[0].index)
    passages = [reached(way) for way in shown]
    if len(shown) < len(found):
        rest = count(len(found) - len(shown), "more verdict")
        passages.append(Passage(rest, (("not shown", "--full shows how each of them was reached"),)))
    if run.clocks:
        passages.append(Passage("The clocks of the hosts", tuple(clocks(run.clocks))))
    return [*passages, Passage("What the words mean", tuple(words_of(run)))]


def explained(page: Page, passages: Iterable[Passage]) -> None:
    """Add the passages to a page."""
    for passage in passages:
        page.blank()
        page.line((visible(passage.title), "bold"))
        width = max((len(label) for label, _ in passage.rows), default=0) + 2
        for label, said in passage.rows:
            page.line((f"{label:<{width}}", "dim"), said, indent=2, hang=width)


def reached(way: Ending) -> Passage:
    """How the verdict about attempts that ended alike was reached."""
    cause = way.example.cause
    assert cause is not None
    told = which(way)
    answers = asked(cause) if way.example.outcome != "incomplete" else [NO_WORKERS]
    rows = [(("asked", "")[number > 0], text) for number, text in enumerate(answers)]
    reason = REASONS.get(cause.reason)
    if reason is not None:
        rows.append(("because", reason.why.removesuffix(".")))
    elif cause.kind in KINDS:
        rows.append(("because", f"the records say so: {KINDS[cause.kind]}"))
    rows.append(("how sure", f"{visible(cause.confidence)}: {CONFIDENCES.get(cause.confidence, 'as it says')}"))
    if reason is not None:
        rows.append(("surer with", reason.surer))
    if cause.note:
        rows.append(("besides", brief(cause.note, 300)))
    rows += [(("records", "")[number > 0], text) for number, text in enumerate(records(cause))]
    return Passage(f"{told[0].upper()}{told[1:]}: {blame_of(way, 120)}", tuple(rows))


def asked(cause: Cause) -> list[str]:
    """The questions that were asked, in their order, with the answers."""
    reason = REASONS.get(cause.reason)
    if reason is None:
        return []
    told = []
    for number, question in enumerate(QUESTIONS, 1):
        if number == reason.question:
            decided = (
                "as far as the record goes" if cause.kind == "unknown" and cause.rank is None else "and that decided"
            )
            told.append(f"{number}. {question} Yes, {decided}")
            break
        if number == 3 and reason.question == 4 and cause.exit_code not in WORDLESS and cause.signal is None:
            told.append(f"{number}. {question} {ASKED_LATER}")
        else:
            told.append(f"{number}. {question} No")
    return told


def records(cause: Cause) -> list[str]:
    """The first records of the evidence in words, each with its place."""
    told = []
    for reference in cause.evidence[:SHOWN_RECORDS]:
        match = REFERENCE.fullmatch(reference)
        if match is None:
            told.append(brief(reference, 200))
        else:
            told.append(f"{brief(match['says'], 160)} ({brief(match['place'], 80)})")
    if rest := len(cause.evidence) - len(told):
        told.append(f"and {count(rest, 'more record')}")
    return told


def clocks(known: Sequence[HostClock]) -> list[tuple[str, str]]:
    """How far the hosts' clocks can be trusted to tell who was first."""
    hosts = count(len(known), "host")
    related = [clock for clock in known if clock.offset_s is not None and clock.bound_s is not None]
    told = [("compared", f"{hosts}, by the rounds of the rendezvous in which they met")]
    if related:
        worst = max(related, key=lambda clock: abs(clock.offset_s or 0.0))
        vaguest = max(related, key=lambda clock: clock.bound_s or 0.0)
        ahead = "ahead of" if (worst.offset_s or 0.0) >= 0 else "behind"
        far, bound = duration(abs(worst.offset_s or 0.0)), duration(vaguest.bound_s)
        told.append(("farthest", f"{brief(worst.host, 60)}, {far} {ahead} it; its times were corrected"))
        told.append(("known to", f"{bound} at worst ({brief(vaguest.host, 60)}): a smaller lead proves nothing"))
    if apart := [clock.host for clock in known if clock.offset_s is None]:
        told.append(("unrelated", f"{node_names(apart)}: nothing on the record compares them with the others"))
    if unsteady := [clock.host for clock in known if not clock.steady]:
        told.append(("set back", f"{node_names(unsteady)}, while the job ran"))
    return told


def words_of(run: Run) -> list[tuple[str, str]]:
    """The words that stand in this answer, each with its meaning."""
    causes = [attempt.cause for attempt in run.attempts if attempt.cause is not None]
    roles = {rank.role for attempt in run.attempts for rank in attempt.ranks}
    told = [("attempt", TERMS["attempt"])]
    if any(attempt.round is not None for attempt in run.attempts):
        told.append(("round", TERMS["round"]))
    if run.restarts.failure or run.restarts.membership or run.restarts.preemption:
        told.append(("restart", TERMS["restart"]))
    told += meanings(OUTCOMES, (attempt.outcome for attempt in run.attempts), "attempt")
    told += meanings(KINDS, (cause.kind for cause in causes), "cause")
    told += meanings(ROLES, roles, "rank")
    told += meanings(CONFIDENCES, (cause.confidence for cause in causes), "")
    if any(cause.time is not None and cause.detected is not None for cause in causes):
        told.append(("noticed", TERMS["noticed"]))
    if any(len(attempt.nodes) > 1 for attempt in run.attempts):
        told.append(("hosts", TERMS["hosts"]))
    told += meanings(WARNINGS, (warning.kind for warning in run.warnings), "warning")
    if any(cause.evidence for cause in causes):
        told.append(("evidence", TERMS["evidence"]))
    return told


def meanings(table: Mapping[str, str], used: Iterable[str], of: str) -> list[tuple[str, str]]:
    """Those rows of a table that are used, in the order of the table."""
    present = set(used)
    return [
        (key.replace("_", " "), f"{f'({of}) ' if of else ''}{text}") for key, text in table.items() if key in present
    ]
