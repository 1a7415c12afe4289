"""The text of ``jobtape why``: the answer, what it cost, what to do, what the record lacks, then the attempts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from jobtape.diagnose.likeness import masked
from jobtape.views.advice import advice
from jobtape.views.attempt import STATE_STYLES, Crowd, attempt_part, change_part
from jobtape.views.clock import duration, span
from jobtape.views.endings import Ending, endings, ways, which
from jobtape.views.escape import brief, visible
from jobtape.views.groups import count
from jobtape.views.page import UNBOUNDED, Page, Piece
from jobtape.views.room import FULL, Room, fitting
from jobtape.views.sentence import apart, how_they_ended, sentence

if TYPE_CHECKING:
    from jobtape.diagnose.model import Attempt, Run, Warning_


def verdict(run: Run, *, full: bool = False, width: int = UNBOUNDED) -> Page:
    """What ended each attempt of a run.

    Args:
        run: what the tape means.
        full: nothing folded and nothing cut; else a screen at most.
        width: of the place it is shown on, in columns.
    """
    if full:
        return in_room(run, FULL, {})
    crowds: dict[int, Crowd] = {}
    return fitting(lambda room: in_room(run, room, crowds), width)


def in_room(run: Run, room: Room, crowds: dict[int, Crowd]) -> Page:
    """The text with as much of each thing as there is room for; `crowds` keeps what was found for other rooms."""
    page = Page()
    page.line((sentence(run, room.said), STATE_STYLES.get(run.state, "bold")))
    page.blank()
    page.line(*summary(run))
    cost(page, run)
    for word, told in zip(("Next: ", "More: "), advice(run), strict=True):
        if told:
            page.line((word, "bold"), told, hang=6)
    doubts(page, run, room)
    groups = endings(run.attempts)
    if room.full:
        for group in groups:
            for attempt in group.attempts:
                page.blank()
                attempt_part(page, Ending([attempt]), room, Crowd(attempt), detailed=True)
                change_part(page, run, Ending([attempt]))
        return page
    whole = told_whole(run, groups)
    shown = groups
    if len(groups) > room.whole:
        ways_part(page, run, room)
        shown = [whole] if whole is not None else groups[-1:]
    for group in shown:
        page.blank()
        crowd = crowds.setdefault(id(group.example), Crowd(group.example))
        attempt_part(page, group, room, crowd, detailed=group is whole)
        change_part(page, run, group)
    return page


def told_whole(run: Run, groups: Sequence[Ending]) -> Ending | None:
    """The group to tell in detail: the last with a cause, rather one that had workers."""
    _, futile = apart(run.attempts)
    with_cause = [group for group in groups if group.example.cause is not None]
    of_workers = [group for group in with_cause if group.example not in futile]
    return next(reversed(of_workers or with_cause), None)


def ways_part(page: Page, run: Run, room: Room) -> None:
    """In which ways all attempts ended, and how often in each."""
    found = ways(run.attempts)
    page.blank()
    page.line(f"{count(len(run.attempts), 'attempt')}, which ended in {count(len(found), 'way')}:")
    for way in found[: room.ways]:
        times = len(way.attempts)
        page.line(
            (f"{'once' if times == 1 else f'{times:,} times':<10}", "dim"),
            f"{which(way)} {how_they_ended(way)}",
            indent=2,
            hang=10,
        )
    if hidden := found[room.ways :]:
        attempts = count(sum(len(way.attempts) for way in hidden), "attempt")
        page.line(f"{count(len(hidden), 'more way')} ({attempts}); --full shows them", indent=2)


def summary(run: Run) -> list[Piece]:
    """One line about the run as a whole."""
    told: list[Piece] = [("run ", "dim"), (brief(run.run_id, 100) or "(no id)", "bold"), ", "]
    told += [(run.state, STATE_STYLES.get(run.state, "")), f", {count(run.nodes, 'node')}"]
    if run.world_size is not None:
        told.append(f", {count(run.world_size, 'rank')}")
    if run.started is not None:
        told.append(f", {span(run.started, run.ended if run.state != 'running' else None)}")
    return told


def doubts(page: Page, run: Run, room: Room) -> None:
    """What is missing from the record, and the warnings; many of one kind are told by one of them."""
    told_of = {warning.kind for warning in run.warnings}
    if not told_of & {"lost_events", "damaged_file"} and (lost := loss_text(run)):
        page.line(("warning: ", "yellow"), lost)
    if room.full:
        for warning in run.warnings:
            page.line(("warning: ", "yellow"), visible(f"{warning.kind.replace('_', ' ')}: {warning.text}"))
        return
    kinds = kinds_of(run.warnings)
    for alike in kinds[: room.warnings]:
        more = f" ({len(alike) - 1:,} more of this kind)" if len(alike) > 1 else ""
        text = f"{alike[0].kind.replace('_', ' ')}: {alike[0].text}"
        page.line(("warning: ", "yellow"), brief(text, room.warning), more)
    if hidden := sum(map(len, kinds[room.warnings :])):
        page.line(("warning: ", "yellow"), f"{hidden:,} more; --full shows them")


def kinds_of(warnings: Sequence[Warning_]) -> list[list[Warning_]]:
    """Warnings of one kind put together, in the order of the first of each; two of a kind that say different things
    stay apart."""
    alike: dict[tuple[str, str], list[Warning_]] = {}
    for warning in warnings:
        alike.setdefault((warning.kind, masked(warning.text)), []).append(warning)
    by_kind: dict[str, list[list[Warning_]]] = {}
    for group in alike.values():
        by_kind.setdefault(group[0].kind, []).append(group)
    found = []
    for groups in by_kind.values():
        found += groups if len(groups) <= 2 else [[warning for group in groups for warning in group]]
    return found


def loss_text(run: Run) -> str:
    """What is missing from the record, in words; empty when nothing is."""
    loss = run.loss
    told = []
    if loss.events_missing:
        told.append(f"{count(loss.events_missing, 'record')} missing")
    if loss.damaged_lines:
        told.append(f"{count(loss.damaged_lines, 'line')} damaged")
    return f"incomplete record: {' and '.join(told)}, in {count(loss.files, 'file')}" if told else ""


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
