"""Where a run's wall time went, for people and for programs: what ``jobtape time`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jobtape.diagnose.account import seconds
from jobtape.diagnose.model import iso
from jobtape.diagnose.timeline import CATEGORIES
from jobtape.views.attempt import STATE_STYLES
from jobtape.views.clock import duration
from jobtape.views.escape import brief
from jobtape.views.groups import count, node_names, ranges
from jobtape.views.page import Grid, Page, Piece

if TYPE_CHECKING:
    from jobtape.diagnose.account import Account, RestartCost, Share
    from jobtape.diagnose.model import Run

MARKS = {
    "productive": ("#", "green"),
    "running": ("=", "cyan"),
    "checkpoint_save": ("s", "blue"),
    "checkpoint_restore": ("r", "blue"),
    "data_wait": ("d", "yellow"),
    "evaluation": ("e", "blue"),
    "startup": ("u", "magenta"),
    "rendezvous": ("v", "magenta"),
    "stalled": ("!", "red"),
    "restarting": (">", "magenta"),
    "lost_work": ("x", "red"),
    "teardown": ("t", "magenta"),
    "no_agent": (".", "red"),
    "unattributed": ("?", "dim"),
}
"""Each category's character in the bar, and its colour."""
MEANINGS = {
    "productive": "steps done for the first time",
    "running": "workers were up; nothing finer is known",
    "checkpoint_save": "spans of that name",
    "checkpoint_restore": "spans of that name",
    "data_wait": "spans of that name",
    "evaluation": "spans of that name",
    "startup": "from the start of the workers to the first step",
    "rendezvous": "nodes were waiting for each other",
    "stalled": "a rank had failed or fallen silent, and nobody had noticed",
    "restarting": "it had been noticed, until workers started again",
    "lost_work": "steps that had been done before",
    "teardown": "workers had ended, agents had not",
    "no_agent": "nothing of the job was alive",
    "unattributed": "the record does not say",
}
BAR_COLUMNS = 72
MOST_ROWS = 20
"""Rows of a table that is not asked for in full."""
ALL_ROWS = 40
"""Rows of one that is asked for: ranks and nodes alike share a row; what is beyond is in the JSON."""
MOST_COLUMNS = 5
"""Categories that have a column of their own where many things are compared."""


def time_page(run: Run, account: Account, by: str = "") -> Page:
    """The account: one line, a bar, a table of categories, the attempts, what restarts cost.

    Args:
        run: whose it is.
        account: where its time went.
        by: ``attempt``, ``node`` or ``rank``: tell these one by one instead.
    """
    page = Page()
    page.line(*_headline(run, account))
    if account.wall_ns is None:
        page.line("The record has no times, so nothing can be said of where they went.")
        return page
    if account.wall_ns == 0:
        return page
    if account.reason:
        page.line(f"No productive share: {account.reason}.")
    page.blank()
    page.line(*_bar(account))
    page.blank()
    _categories(page, account)
    if account.steps is not None:
        done = account.steps
        page.blank()
        again = f", {done.done_again:,} of them again" if done.done_again else ""
        page.line(
            f"Steps {done.first:,} to {done.last:,}: {done.done + done.done_again:,} were done{again}; "
            f"{count(done.recorded, 'record')} of them."
        )
    _restarts(page, account.restarts, full=by == "attempt")
    shares = {"attempt": account.attempts, "node": account.nodes, "rank": account.ranks}.get(by, account.attempts)
    if by or len(account.attempts) > 1:
        page.blank()
        _compared(page, by or "attempt", shares, account, limit=ALL_ROWS if by else MOST_ROWS)
    return page


def _headline(run: Run, account: Account) -> list[Piece]:
    told: list[Piece] = [("run ", ""), (brief(run.run_id, 60) or "without an id", "bold"), ", "]
    told.append((run.state, STATE_STYLES.get(run.state, "")))
    if account.wall_s is not None:
        told.append(f": {duration(account.wall_s)} of wall time")
        kind = "productive" if account.productive_share is not None else "running"
        share = account.share(kind)
        if share is not None:
            told.append(f", {percent(share)} {kind}")
    return told


def percent(share: float) -> str:
    """A share as people read it; what is not nothing is not told as 0, nor what is not all as 100.

    >>> percent(0.5), percent(0.0001), percent(0.99999), percent(1.0)
    ('50.0%', '<0.1%', '>99.9%', '100.0%')
    """
    if 0 < share < 0.001:
        return "<0.1%"
    return ">99.9%" if 0.999 < share < 1 else f"{share * 100:.1f}%"


def _bar(account: Account) -> list[Piece]:
    """A character for each part of the wall time; whatever has any has one."""
    parts = [(c, account.sums[c]) for c in MARKS if account.sums.get(c, 0) > 0]
    total = sum(part for _, part in parts) or 1
    widths = [max(round(part / total * BAR_COLUMNS), 1) for _, part in parts]
    while sum(widths) > BAR_COLUMNS and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
    marks = [MARKS[category] for category, _ in parts]
    return [(mark * width, style) for (mark, style), width in zip(marks, widths, strict=True)]


def _categories(page: Page, account: Account) -> None:
    rows: list[list[Piece]] = []
    for category in sorted(CATEGORIES, key=lambda c: -account.sums.get(c, 0)):
        spent = account.sums.get(category, 0)
        if spent:
            mark, style = MARKS[category]
            share = percent(account.share(category) or 0.0)
            rows.append([(mark, style), category, duration(spent / 1e9), share, (MEANINGS[category], "dim")])
    page.grid(Grid(("", "CATEGORY", "TIME", "SHARE", "WHEN"), rows, frozenset({2, 3}), wraps=4))


def _restarts(page: Page, costs: Sequence[RestartCost], *, full: bool) -> None:
    if not costs:
        return
    page.blank()
    for kind in dict.fromkeys(cost.kind for cost in costs):
        page.line(restart_line([cost for cost in costs if cost.kind == kind]))
    if full and len(costs) > 1:
        page.blank()
        shown = sorted(costs, key=lambda cost: -cost.total_s)[:ALL_ROWS]
        rows: list[list[Piece]] = []
        for cost in sorted(shown, key=lambda cost: cost.after):
            parts = [duration(part) if part else "-" for _, part in _parts(cost)]
            rows.append([f"attempt {cost.after}", cost.kind, *parts, duration(cost.total_s)])
        headings = ("AFTER", "KIND", *(name.upper() for name, _ in _parts(costs[0])), "COST")
        page.grid(Grid(headings, rows, frozenset(range(2, len(headings)))))
        if len(costs) > len(shown):
            page.line((f"{len(costs) - len(shown):,} that cost less are not shown; --json has them", "dim"))


def restart_line(costs: Sequence[RestartCost]) -> str:
    """What restarts of one kind cost together, in one line."""
    what = {"failure": "after failures", "membership": "for changes of membership", "preemption": "after preemption"}
    sums = [(name, sum(dict(_parts(cost))[name] for cost in costs)) for name, _ in _parts(costs[0])]
    parts = ", ".join(f"{name} {duration(part)}" for name, part in sums if part > 0)
    total = sum(cost.total_s for cost in costs)
    told = f"{count(len(costs), 'restart')} {what.get(costs[0].kind, costs[0].kind)} cost {duration(total)}"
    return f"{told}: {parts}." if parts else f"{told}."


def _parts(cost: RestartCost) -> list[tuple[str, float]]:
    return [
        ("detection", cost.detection_s),
        ("teardown", cost.teardown_s),
        ("no agent", cost.no_agent_s),
        ("restarting", cost.restarting_s),
        ("rendezvous", cost.rendezvous_s),
        ("startup", cost.startup_s),
        ("lost work", cost.lost_work_s),
    ]


def _compared(page: Page, noun: str, shares: Sequence[Share], account: Account, *, limit: int) -> None:
    """A row for each attempt, node or rank; those with the same figures share one."""
    if not shares:
        page.line(f"No {noun} is on the record.")
        return
    biggest = sorted(CATEGORIES, key=lambda c: -max(share.sums.get(c, 0) for share in shares))
    columns = [c for c in CATEGORIES if c in biggest[:MOST_COLUMNS] and any(share.sums.get(c, 0) for share in shares)]
    groups: dict[tuple[str, ...], list[Share]] = {}
    rests = [sum(share.sums.values()) - sum(share.sums.get(c, 0) for c in columns) for share in shares]
    for share, rest in zip(shares, rests, strict=True):
        figures = [share.wall_s, *(share.sums.get(c, 0) / 1e9 for c in columns)]
        figures += [rest / 1e9] if any(rests) else []
        groups.setdefault(tuple(duration(figure) if figure else "-" for figure in figures), []).append(share)
    kept = list(groups.items())
    kind = "productive" if account.productive_share is not None else "running"
    if len(kept) > limit:
        # The worst are what a table is looked at for.
        kept.sort(key=lambda group: _share_of(group[1][0], kind))
        hidden = sum(len(members) for _, members in kept[limit:])
        del kept[limit:]
        page.line((f"{count(hidden, noun)} that spent more of the time {kind} not shown; --json has all", "dim"))
    with_nodes = noun == "rank"
    rows: list[list[Piece]] = []
    for figures_, members in kept:
        names = [share.name for share in members]
        name = node_names(map(str, names)) if noun == "node" else _short(ranges(int(n) for n in names))
        hosts = [node_names(dict.fromkeys(share.host for share in members), 30)] if with_nodes else []
        rows.append([name, *hosts, *figures_])
    headings = [noun.upper(), *(["NODE"] if with_nodes else []), "WALL", *(c.upper() for c in columns)]
    headings += ["REST"] if any(rests) else []
    page.grid(Grid(headings, rows, frozenset(range(2 if with_nodes else 1, len(headings)))))


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:36].rpartition(',')[0]},…"


def _share_of(share: Share, category: str) -> float:
    return share.sums.get(category, 0) / (sum(share.sums.values()) or 1)


def time_json(account: Account) -> dict[str, Any]:
    """The account in the form of ``docs/time.schema.json``."""
    share, running = account.productive_share, account.share("running")
    steps = account.steps
    return {
        "wall_s": None if account.wall_s is None else round(account.wall_s, 6),
        "categories": seconds(account.sums),
        "productive_share": None if share is None else round(share, 6),
        "running_share": None if running is None else round(running, 6),
        "reason": account.reason or None,
        "by_attempt": [
            {"index": s.name, "started": iso(s.started), "ended": iso(s.ended), **_sums(s)} for s in account.attempts
        ],
        "by_node": [{"node": s.name, **_sums(s)} for s in account.nodes],
        "by_rank": [{"rank": s.name, "host": s.host, **_sums(s)} for s in account.ranks],
        "restarts": [_cost(cost) for cost in account.restarts],
        "steps": None
        if steps is None
        else {
            "recorded": steps.recorded,
            "first": steps.first,
            "last": steps.last,
            "done": steps.done,
            "done_again": steps.done_again,
        },
    }


def _sums(share: Share) -> dict[str, Any]:
    return {"wall_s": round(share.wall_s, 6), "categories": seconds(share.sums)}


def _cost(cost: RestartCost) -> dict[str, Any]:
    return {
        "after": cost.after,
        "kind": cost.kind,
        "detection_s": round(cost.detection_s, 6),
        "teardown_s": round(cost.teardown_s, 6),
        "no_agent_s": round(cost.no_agent_s, 6),
        "restarting_s": round(cost.restarting_s, 6),
        "rendezvous_s": round(cost.rendezvous_s, 6),
        "startup_s": round(cost.startup_s, 6),
        "lost_work_s": round(cost.lost_work_s, 6),
        "total_s": round(cost.total_s, 6),
    }
