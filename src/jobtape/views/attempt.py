"""One attempt in `jobtape why`: what ended it, what followed, where ranks stood, and the records that prove it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from jobtape.diagnose.likeness import masked
from jobtape.views.clock import duration, moment
from jobtape.views.endings import Ending, spread, which
from jobtape.views.escape import brief, brief_place, folded, visible, visible_lines
from jobtape.views.groups import change_of_nodes, count, node_names, rank_phrase
from jobtape.views.page import Page, Piece
from jobtape.views.sentence import blame, consequences
from jobtape.views.stacks import Standing, standing

if TYPE_CHECKING:
    from jobtape.diagnose.model import Attempt, Cause, RankOutcome, Run
    from jobtape.views.room import Room

STATE_STYLES = {
    "failed": "bold red",
    "succeeded": "bold green",
    "running": "bold cyan",
    "stopped": "yellow",
    "lost": "yellow",
}
WORDS = {
    "membership": "ended for a change of membership",
    "unknown": "ended nobody knows how",
    "running": "has been running",
    "stopped": "was stopped",
    "lost": "was lost",
    "incomplete": "never got its workers started",
}
"""How an attempt ended, after its number."""
UNTOLD = {
    "failed": "the record does not say which rank was first or why",
    "stopped": "the record does not say who stopped it",
    "lost": "its record breaks off without an end",
    "incomplete": "the record does not say what kept its nodes apart",
}
"""What is missing of an attempt without a cause, by its outcome."""
SURENESS = {
    "certain": "certain: there is a record of that very fact",
    "likely": "likely: inferred from the record, not recorded as such",
    "suspected": "suspected: the record hints at it, no more",
    "unknown": "unknown: the record does not say",
}
EXTENSIONS = "Extension modules: "
"""The last line of faulthandler: every extension module that is loaded, hundreds of words after the stack."""
FRAME = re.compile(r'(?P<head> {0,20}File ")(?P<path>[^"]+)(?P<rest>", line \d+.*)')
"""A frame of a traceback or of faulthandler, around its path."""
MARKERS = re.compile(r"\s*[~^]+\s*")
"""The lines of a traceback that only point at a part of the line above."""
SOON_S = 0.0005
"""Sooner than that nobody cares when it was noticed."""
QUOTED_WIDTH = 160
"""Characters of a quoted line. Its source lines may be long; what they say is in the file."""


@dataclass
class Crowd:
    """The ranks of an attempt put together by what they said and where they stood.

    With ten thousand ranks that takes a while, and a page is made several times until it fits: it is kept.
    """

    attempt: Attempt

    @cached_property
    def consequences(self) -> dict[str, str]:
        """What followed for the other ranks."""
        return consequences(self.attempt)

    @cached_property
    def voices(self) -> dict[str, list[list[RankOutcome]]]:
        """For each role the ranks that said the same, the largest group first."""
        roles: dict[str, dict[str, list[RankOutcome]]] = {}
        for outcome in self.attempt.ranks:
            if outcome.message:
                roles.setdefault(outcome.role, {}).setdefault(masked(outcome.message), []).append(outcome)
        return {
            role: sorted(alike.values(), key=lambda group: (-len(group), group[0].rank))
            for role, alike in roles.items()
        }

    @cached_property
    def places(self) -> list[Standing]:
        """Ranks grouped by where they stood; one that raised says more by its error than by how it left."""
        workers = [w for w in self.attempt.workers if w.stack and not (w.role == "collateral" and w.message)]
        return standing(workers, self.apart_from)

    @cached_property
    def step(self) -> int | None:
        """The last step of the rank that was first."""
        return next((r.step for r in self.attempt.ranks if r.rank == self.apart_from), None)

    @property
    def apart_from(self) -> int | None:
        """The rank that is told by itself."""
        return self.attempt.cause.rank if self.attempt.cause is not None else None


def attempt_part(page: Page, group: Ending, room: Room, crowd: Crowd, *, detailed: bool) -> None:
    """One attempt, or several that ended the same way told as one."""
    attempt = group.example
    page.line(*heading(group))
    cause = attempt.cause
    if cause is None:
        untold_part(page, attempt)
    else:
        first_part(page, cause, room, crowd.step, detailed=detailed)
    followers_part(page, crowd, room, detailed=detailed)
    if detailed:
        standing_part(page, crowd, room)
    if cause is not None:
        evidence_part(page, cause, room, detailed=detailed)


def untold_part(page: Page, attempt: Attempt) -> None:
    """What the record does not say of an attempt without a cause."""
    if attempt.outcome in UNTOLD:
        page.line(UNTOLD[attempt.outcome], indent=2)


def change_part(page: Page, run: Run, group: Ending) -> None:
    """Which nodes joined or left after an attempt that ended for that."""
    if len(group.attempts) > 1 or group.example.outcome != "membership":
        return
    later = [attempt for attempt in run.attempts if attempt.index == group.example.index + 1]
    change = change_of_nodes(group.example.nodes, later[0].nodes) if later else ""
    if change:
        page.line(("change    ", "dim"), change, indent=2, hang=10)


def heading(group: Ending) -> list[Piece]:
    """Which attempts, how they ended, how long they took, where they ran."""
    attempt = group.example
    many = len(group.attempts)
    title = which(group)
    told: list[Piece] = [(title[0].upper() + title[1:], "bold"), " "]
    style = STATE_STYLES.get(attempt.outcome, "")
    outcome = WORDS.get(attempt.outcome, visible(attempt.outcome))
    if many > 1:
        differing = f", {text}" if (text := spread(group)) else ""
        told += [(outcome, style), f" {many:,} times in the same way{differing}; shown is attempt {attempt.index}"]
    else:
        told.append((outcome, style))
    if attempt.duration_s is not None:
        lead = {"running": " for", "incomplete": ", gave up after"}.get(
            attempt.outcome, ", after" if many > 1 else " after"
        )
        told.append(f"{lead} {duration(attempt.duration_s)}")
    facts = [count(attempt.world_size, "rank")] if attempt.world_size is not None else []
    if attempt.nodes:
        names = node_names(attempt.nodes)
        facts.append(f"on {names}" if len(attempt.nodes) == 1 else f"on {count(len(attempt.nodes), 'node')} ({names})")
    told.append(f": {' '.join(facts)}" if len(facts) == 2 else "".join(f", {fact}" for fact in facts))
    if attempt.started is not None:
        told.append(f", started {moment(attempt.started)}")
    if attempt.round is not None:
        told.append(f", rendezvous round {attempt.round}")
    return told


def first_part(page: Page, cause: Cause, room: Room, step: int | None, *, detailed: bool) -> None:
    """Who was first, how sure that is, and its own words."""
    page.line(("first     ", "dim"), blame(cause, 100_000 if room.full else room.words), indent=2, hang=10)
    if detailed:
        facts_part(page, cause, step)
    if cause.kind != "unknown" or cause.confidence != "unknown":
        page.line(SURENESS.get(cause.confidence, visible(cause.confidence)), indent=12)
    if room.full and cause.message and "\n" in cause.message.strip():
        page.quote(visible_lines(cause.message), 12)
    if not detailed:
        return
    if cause.traceback:
        page.quote(traceback_lines(cause.traceback, room), 12)
    elif cause.stack and room.stack:
        page.line("where it stood:", indent=12)
        page.quote(visible_lines(cause.stack) if room.full else clipped(folded(raw(cause.stack), room.stack, 0)), 12)
    if cause.note:
        page.line(visible(cause.note) if room.full else brief(cause.note, 300), indent=12)


def traceback_lines(traceback: str, room: Room) -> list[str]:
    """A traceback as lines; unless everything is asked for, the frames at its two ends."""
    if room.full:
        return visible_lines(traceback)
    lines = [line for line in raw(traceback) if not MARKERS.fullmatch(line) and not line.startswith(EXTENSIONS)]
    while lines and not lines[-1].strip():
        lines.pop()
    return clipped(folded(lines, room.head, tail_of(lines, room.tail)))


def raw(text: str) -> list[str]:
    """A text as lines, as they are: of very many only a few are to be shown, and made safe."""
    lines = text.replace("\r\n", "\n").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    return [line.expandtabs(8) if "\t" in line else line for line in lines]


def facts_part(page: Page, cause: Cause, step: int | None) -> None:
    """The numbers by which a person finds the process elsewhere, and when it was."""
    facts = []
    if cause.local_rank is not None and cause.rank is not None:
        facts.append(f"local rank {cause.local_rank}")
    if cause.pid is not None:
        facts.append(f"pid {cause.pid}")
    if step is not None:
        facts.append(f"after step {step:,}")
    if cause.exit_code is not None and cause.kind != "exit_code" and cause.signal is None:
        facts.append(f"exit code {cause.exit_code}")
    if cause.time is not None:
        facts.append(f"at {moment(cause.time, fine=True)}")
    if cause.time is not None and cause.detected is not None and cause.detected - cause.time >= SOON_S:
        facts.append(f"noticed {duration(cause.detected - cause.time)} later")
    if facts:
        page.line(", ".join(facts), indent=12)


def tail_of(lines: Sequence[str], least: int) -> int:
    """How many of a traceback's last lines to show, so that the first of them names a file."""
    for more in range(least, min(least + 4, len(lines))):
        if lines[-more].startswith("  File "):
            return more
    return least


def clipped(lines: Sequence[str], limit: int = QUOTED_WIDTH) -> list[str]:
    """Lines made safe and cut to a length at which a page stays a page.

    Of a frame's path the front goes, not its line's number.
    """
    return [clip(line, limit) if len(line) > limit else visible(line) for line in lines]


def clip(line: str, limit: int) -> str:
    """One line cut to a length."""
    frame = FRAME.fullmatch(line)
    if frame is None:
        return brief(line, limit)
    rest = brief(frame["rest"], limit // 2)
    return f"{frame['head']}{brief_place(frame['path'], max(limit - len(frame['head'] + rest), 20))}{rest}"


def followers_part(page: Page, crowd: Crowd, room: Room, *, detailed: bool) -> None:
    """What followed for the other ranks, and what they said."""
    for number, (role, phrase) in enumerate(crowd.consequences.items()):
        page.line(("then      " if number == 0 else " " * 10, "dim"), phrase, indent=2, hang=10)
        if not detailed:
            continue
        if room.full:
            for said, ranks in exact_words(crowd.attempt, role).items():
                page.line(f"{rank_phrase(ranks)} said: {visible(said)}", indent=12)
            continue
        for group in crowd.voices.get(role, ())[: room.voices]:
            said = brief((group[0].message or "").strip().partition("\n")[0], room.words)
            page.line(f"{rank_phrase([outcome.rank for outcome in group])} said: {said}", indent=12)


def exact_words(attempt: Attempt, role: str) -> dict[str, list[int]]:
    """Each message of the ranks with a role, and who said it."""
    told: dict[str, list[int]] = {}
    for outcome in attempt.ranks:
        if outcome.role == role and outcome.message:
            told.setdefault(outcome.message, []).append(outcome.rank)
    return told


def standing_part(page: Page, crowd: Crowd, room: Room) -> None:
    """Where the stopped, hung or crashed ranks stood."""
    if not room.places and not room.full:
        return
    groups = standing(crowd.attempt.workers, crowd.apart_from) if room.full else crowd.places
    for group in groups if room.full else groups[: room.places]:
        page.line(
            ("stood     ", "dim"), f"{rank_phrase(group.ranks)} at {brief_place(group.place, 200)}", indent=2, hang=10
        )
        if room.full:
            page.quote(visible_lines(group.stack), 12)
    if not room.full and groups:
        hidden = len(groups) - room.places
        rest = f"{count(hidden, 'other place')} and " if hidden > 0 else ""
        page.line(f"({rest}the whole stacks: --full)", indent=12)


def evidence_part(page: Page, cause: Cause, room: Room, *, detailed: bool) -> None:
    """The records the verdict rests on."""
    shown = cause.evidence if room.full else cause.evidence[: room.evidence if detailed else 1]
    for number, reference in enumerate(shown):
        page.line(
            ("evidence  " if number == 0 else " " * 10, "dim"),
            brief(reference, 4000 if room.full else max(room.words, 100)),
            indent=2,
            hang=12,
        )
    if detailed and len(shown) < len(cause.evidence):
        page.line(f"{len(cause.evidence) - len(shown):,} more; --full shows them", indent=12)
