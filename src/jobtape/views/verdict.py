"""The text of ``jobtape why``: the answer, what the record lacks, the attempts with their evidence, the cost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from jobtape.views.clock import duration, moment, span
from jobtape.views.endings import VARYING, Ending, endings
from jobtape.views.escape import brief, brief_place, folded, visible, visible_lines
from jobtape.views.groups import change_of_nodes, count, node_names, rank_phrase
from jobtape.views.page import Page, Piece
from jobtape.views.sentence import apart, blame, consequences, how_ended, sentence, which
from jobtape.views.stacks import standing

if TYPE_CHECKING:
    from jobtape.diagnose.model import Attempt, Cause, RankOutcome, Run

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
SHOWN_ENDINGS = 4
"""Groups of attempts told unless everything is asked for; the last of them in detail."""
TRACEBACK_HEAD, TRACEBACK_TAIL = 5, 6
"""Lines of a traceback: the outermost frames are the user's own, the innermost say what happened."""

EXTENSIONS = "Extension modules: "
"""The last line of faulthandler: every extension module that is loaded, hundreds of words after the stack."""
FRAME = re.compile(r'(?P<head> {0,20}File ")(?P<path>[^"]+)(?P<rest>", line \d+.*)')
"""A frame of a traceback or of faulthandler, around its path."""
MARKERS = re.compile(r"\s*[~^]+\s*")
"""The lines of a traceback that only point at a part of the line above."""

STACK_LINES = 8
SHOWN_EVIDENCE = 3
SHOWN_WARNINGS = 5
WORDS_LIMIT = 120
"""Characters of what somebody said; the first sentence and the traceback have more of it."""

SHOWN_WORDS = 1
SURENESS = {
    "certain": "certain: there is a record of that very fact",
    "likely": "likely: inferred from the record, not recorded as such",
    "suspected": "suspected: the record hints at it, no more",
    "unknown": "unknown: the record does not say",
}


def verdict(run: Run, *, full: bool = False) -> Page:
    """What ended each attempt of a run.

    Args:
        run: what the tape means.
        full: nothing folded and nothing cut.
    """
    page = Page()
    page.line((sentence(run), STATE_STYLES.get(run.state, "bold")))
    page.blank()
    page.line(*summary(run))
    doubts(page, run, full)
    groups = endings(run.attempts)
    shown = groups if full else groups[-SHOWN_ENDINGS:]
    _, futile = apart(run.attempts)
    with_cause = [group for group in shown if group.example.cause is not None]
    of_workers = [group for group in with_cause if group.example not in futile]
    told_whole = next(reversed(of_workers or with_cause), None)
    if len(shown) < len(groups):
        hidden = groups[: len(groups) - len(shown)]
        page.blank()
        page.line(
            f"{count(sum(len(group.attempts) for group in hidden), 'earlier attempt')} not shown, which ended in "
            f"{count(len(hidden), 'way')} of their own; --full shows them",
            hang=2,
        )
    for group in shown:
        page.blank()
        if full:
            for attempt in group.attempts:
                attempt_part(page, Ending([attempt]), full=True, detailed=True)
        else:
            attempt_part(page, group, full=False, detailed=group is told_whole)
        change_part(page, run, group)
    cost(page, run)
    return page


def summary(run: Run) -> list[Piece]:
    """One line about the run as a whole."""
    told: list[Piece] = [("run ", "dim"), (brief(run.run_id, 100) or "(no id)", "bold"), ", "]
    told += [(run.state, STATE_STYLES.get(run.state, "")), f", {count(run.nodes, 'node')}"]
    if run.world_size is not None:
        told.append(f", {count(run.world_size, 'rank')}")
    if run.started is not None:
        told.append(f", {span(run.started, run.ended if run.state != 'running' else None)}")
    return told


def doubts(page: Page, run: Run, full: bool) -> None:
    """What is missing from the record, and the warnings."""
    told_of = {warning.kind for warning in run.warnings}
    lost = "" if told_of & {"lost_events", "damaged_file"} else loss_text(run)
    shown = run.warnings if full else run.warnings[:SHOWN_WARNINGS]
    for text in [*([lost] if lost else []), *(f"{w.kind.replace('_', ' ')}: {w.text}" for w in shown)]:
        page.line(("warning: ", "yellow"), visible(text) if full else brief(text, 400))
    if len(shown) < len(run.warnings):
        page.line(("warning: ", "yellow"), f"{len(run.warnings) - len(shown):,} more; --full shows them")


def loss_text(run: Run) -> str:
    """What is missing from the record, in words; empty when nothing is."""
    loss = run.loss
    told = []
    if loss.events_missing:
        told.append(f"{count(loss.events_missing, 'record')} missing")
    if loss.damaged_lines:
        told.append(f"{count(loss.damaged_lines, 'line')} damaged")
    return f"incomplete record: {' and '.join(told)}, in {count(loss.files, 'file')}" if told else ""


def attempt_part(page: Page, group: Ending, *, full: bool, detailed: bool) -> None:
    """One attempt, or several that ended the same way told as one."""
    attempt = group.example
    page.line(*heading(group))
    cause = attempt.cause
    if cause is None:
        if attempt.outcome not in {"succeeded", "running", "membership"}:
            page.line(f"it {how_ended(attempt)}", indent=2)
    else:
        first_part(page, cause, full=full, detailed=detailed)
    followers_part(page, attempt, full=full, detailed=detailed)
    if detailed:
        standing_part(page, attempt, full)
    if cause is not None:
        evidence_part(page, cause, full=full, detailed=detailed)


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
    outcome = WORDS.get(attempt.outcome, attempt.outcome)
    if many > 1:
        told += [
            (outcome, style),
            f" {many:,} times in the same way; shown is attempt {attempt.index}",
        ]
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


def first_part(page: Page, cause: Cause, *, full: bool, detailed: bool) -> None:
    """Who was first, how sure that is, and its own words."""
    page.line(("first     ", "dim"), blame(cause, 100_000 if full else WORDS_LIMIT), indent=2, hang=10)
    if detailed:
        facts_part(page, cause)
    if cause.kind != "unknown" or cause.confidence != "unknown":
        page.line(SURENESS.get(cause.confidence, visible(cause.confidence)), indent=12)
    if full and cause.message and "\n" in cause.message.strip():
        page.quote(visible_lines(cause.message), 12)
    if not detailed:
        return
    if cause.traceback:
        lines = visible_lines(cause.traceback)
        if not full:
            lines = [line for line in lines if not MARKERS.fullmatch(line) and not line.startswith(EXTENSIONS)]
            while lines and not lines[-1]:
                lines.pop()
            lines = clipped(folded(lines, TRACEBACK_HEAD, tail_of(lines)))
        page.quote(lines, 12)
    elif cause.stack:
        page.line("where it stood:", indent=12)
        lines = visible_lines(cause.stack)
        page.quote(lines if full else clipped(folded(lines, STACK_LINES, 0)), 12)
    if cause.note:
        page.line(visible(cause.note) if full else brief(cause.note, 300), indent=12)


def facts_part(page: Page, cause: Cause) -> None:
    """The numbers by which a person finds the process elsewhere, and when it was."""
    facts = []
    if cause.local_rank is not None and cause.rank is not None:
        facts.append(f"local rank {cause.local_rank}")
    if cause.pid is not None:
        facts.append(f"pid {cause.pid}")
    if cause.exit_code is not None and cause.kind != "exit_code" and cause.signal is None:
        facts.append(f"exit code {cause.exit_code}")
    if cause.time is not None:
        facts.append(f"at {moment(cause.time, fine=True)}")
    if cause.time is not None and cause.detected is not None and cause.detected > cause.time:
        facts.append(f"noticed {duration(cause.detected - cause.time)} later")
    if facts:
        page.line(", ".join(facts), indent=12)


def tail_of(lines: Sequence[str]) -> int:
    """How many of a traceback's last lines to show, so that the first of them names a file."""
    for more in range(TRACEBACK_TAIL, min(TRACEBACK_TAIL + 4, len(lines))):
        if lines[-more].startswith("  File "):
            return more
    return TRACEBACK_TAIL


def clipped(lines: Sequence[str], limit: int = 160) -> list[str]:
    """Lines cut to a length at which a page stays a page; of a frame's path the front goes, not its line's number."""
    return [clip(line, limit) if len(line) > limit else line for line in lines]


def clip(line: str, limit: int) -> str:
    """One line cut to a length."""
    frame = FRAME.fullmatch(line)
    if frame is None:
        return brief(line, limit)
    rest = brief(frame["rest"], limit // 2)
    return f"{frame['head']}{brief_place(frame['path'], max(limit - len(frame['head'] + rest), 20))}{rest}"


def followers_part(page: Page, attempt: Attempt, *, full: bool, detailed: bool) -> None:
    """What followed for the other ranks, and what they said."""
    for number, (role, phrase) in enumerate(consequences(attempt).items()):
        page.line(("then      " if number == 0 else " " * 10, "dim"), phrase, indent=2, hang=10)
        if not detailed:
            continue
        alike: dict[str, list[RankOutcome]] = {}
        for outcome in attempt.ranks:
            if outcome.role == role and outcome.message:
                key = outcome.message if full else VARYING.sub("#", outcome.message[:500])
                alike.setdefault(key, []).append(outcome)
        commonest = sorted(alike.values(), key=lambda group: (-len(group), group[0].rank))
        for group in commonest if full else commonest[:SHOWN_WORDS]:
            said = group[0].message or ""
            said = visible(said) if full else brief(said.strip().split("\n")[0], WORDS_LIMIT)
            page.line(f"{rank_phrase([outcome.rank for outcome in group])} said: {said}", indent=12)


def standing_part(page: Page, attempt: Attempt, full: bool) -> None:
    """Where the stopped, hung or crashed ranks stood; one that raised says more by its error than by how it left."""
    workers = [worker for worker in attempt.workers if full or not (worker.role == "collateral" and worker.message)]
    groups = standing(workers, attempt.cause.rank if attempt.cause is not None else None)
    for group in groups if full else groups[:4]:
        page.line(
            ("stood     ", "dim"), f"{rank_phrase(group.ranks)} at {brief_place(group.place, 200)}", indent=2, hang=10
        )
        if full:
            page.quote(visible_lines(group.stack), 12)
    if not full and groups:
        rest = f"{count(len(groups) - 4, 'other place')} and " if len(groups) > 4 else ""
        page.line(f"({rest}the whole stacks: --full)", indent=12)


def evidence_part(page: Page, cause: Cause, *, full: bool, detailed: bool) -> None:
    """The records the verdict rests on."""
    shown = cause.evidence if full else cause.evidence[: SHOWN_EVIDENCE if detailed else 1]
    for number, reference in enumerate(shown):
        page.line(
            ("evidence  " if number == 0 else " " * 10, "dim"),
            brief(reference, 4000 if full else WORDS_LIMIT),
            indent=2,
            hang=12,
        )
    if detailed and len(shown) < len(cause.evidence):
        page.line(f"{len(cause.evidence) - len(shown):,} more; --full shows them", indent=12)


def cost(page: Page, run: Run) -> None:
    """What it cost: restarts, and the time that went."""
    told = [text] if (text := restarts_text(run)) else []
    ended = [attempt for attempt in run.attempts if attempt.outcome not in {"succeeded", "running", "membership"}]
    spent = [attempt.duration_s for attempt in ended if attempt.duration_s is not None]
    if not ended and not told:
        return
    if spent:
        told.append(f"{duration(sum(spent))} in {count(len(ended), 'attempt')} that did not succeed")
    if (gap := between(run.attempts)) is not None and gap >= 0.001:
        told.append(f"{duration(gap)} between attempts")
    if run.wall_s is not None:
        told.append(f"{duration(run.wall_s)} in all")
    if told:
        page.blank()
        page.line(("Cost: ", "bold"), ", ".join(told), hang=6)


def restarts_text(run: Run) -> str:
    """How many restarts there were and what for; empty when there was none."""
    restarts = run.restarts
    kinds = [
        (restarts.failure, "after a failure", "after failures"),
        (restarts.membership, "for a change of membership", "for changes of membership"),
        (restarts.preemption, "after a preemption", "after preemptions"),
    ]
    told = [f"{number:,} {one if number == 1 else many}" for number, one, many in kinds if number]
    total = sum(number for number, _, _ in kinds)
    if len(told) == 1:
        return f"{count(total, 'restart')} {told[0].partition(' ')[2]}"
    return f"{count(total, 'restart')} ({', '.join(told)})" if told else ""


def between(attempts: Sequence[Attempt]) -> float | None:
    """Seconds that passed between the end of an attempt and the start of the next one; None when nobody knows."""
    gaps = [
        later.started - sooner.ended
        for sooner, later in pairwise(attempts)
        if sooner.ended is not None and later.started is not None
    ]
    return sum(max(gap, 0.0) for gap in gaps) if gaps else None
