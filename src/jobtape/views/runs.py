"""The list of runs that ``jobtape ls`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobtape.diagnose.model import iso
from jobtape.views.attempt import STATE_STYLES
from jobtape.views.clock import duration, moment
from jobtape.views.escape import brief
from jobtape.views.groups import count
from jobtape.views.page import Grid, Page, Piece
from jobtape.views.time import percent

if TYPE_CHECKING:
    from jobtape.diagnose.model import Run

NUMBERS = frozenset({3, 4, 5, 6, 7})


@dataclass(frozen=True)
class RunRow:
    """A run on the shelf and what its tape means; `run` is None when it cannot be read, and `trouble` says why."""

    name: str
    run_id: str
    run: Run | None
    trouble: str = ""
    productive_share: float | None = None


def table(rows: Sequence[RunRow], *, now: float, hidden: int = 0) -> Page:
    """The list as a table, oldest first, with what is wrong with a run's record below it.

    Args:
        rows: the runs.
        now: unix time, up to which the running ones have lasted.
        hidden: how many older ones are left out.
    """
    page = Page()
    if hidden:
        page.line((f"{count(hidden, 'older run')} not shown", "dim"))
    starts = [moment(row.run.started) for row in rows if row.run is not None and row.run.started is not None]
    zones = {start.rpartition(" ")[2] for start in starts}
    shared = zones.pop() if len(zones) == 1 else ""
    started = f"STARTED ({shared})" if shared else "STARTED"
    headings = ("RUN", "STATE", started, "DURATION", "NODES", "WORLD", "RESTARTS", "PRODUCTIVE")
    page.grid(Grid(headings, [cells(row, shared, now) for row in rows], NUMBERS))
    for row in rows:
        if row.run is None:
            page.line(("warning: ", "yellow"), f"{label(row)}: {brief(row.trouble, 400)}")
        elif row.run.loss.events_missing or row.run.loss.damaged_lines:
            page.line(("warning: ", "yellow"), f"{label(row)}: incomplete record; jobtape why says more")
    return page


def label(row: RunRow) -> str:
    """What to call a run, so that it can be found by it: the id, and the directory where that is named otherwise."""
    name = row.name if row.name.isprintable() else brief(row.name, 120)
    return name if row.run_id == row.name else f"{name} ({brief(row.run_id, 60) or 'no id'})"


def cells(row: RunRow, zone: str, now: float) -> list[Piece]:
    """One line of the table; the zone that all times share stands in the heading."""
    run = row.run
    if run is None:
        return [label(row), ("unreadable", "red"), *["-"] * 6]
    lasted = run.wall_s
    if run.state == "running" and run.started is not None:
        lasted = max(now - run.started, 0.0)
    restarts = run.restarts.failure + run.restarts.membership + run.restarts.preemption
    return [
        (label(row), "bold"),
        (run.state, STATE_STYLES.get(run.state, "")),
        moment(run.started).removesuffix(f" {zone}") if run.started is not None else "-",
        duration(lasted) if lasted is not None else "-",
        f"{run.nodes:,}",
        f"{run.world_size:,}" if run.world_size is not None else "-",
        f"{restarts:,}",
        percent(row.productive_share) if row.productive_share is not None else "-",
    ]


def row_json(row: RunRow) -> dict[str, Any]:
    """One run of the list for programs; of one that cannot be read, `error` says why."""
    run = row.run
    if run is None:
        return {"run_id": row.run_id, "name": row.name, "state": "unknown", "error": row.trouble}
    return {
        "run_id": run.run_id,
        "name": row.name,
        "state": run.state,
        "started": iso(run.started),
        "ended": iso(run.ended),
        "wall_s": run.wall_s,
        "nodes": run.nodes,
        "world_size": run.world_size,
        "attempts": len(run.attempts),
        "restarts": {
            "failure": run.restarts.failure,
            "membership": run.restarts.membership,
            "preemption": run.restarts.preemption,
        },
        "productive_share": None if row.productive_share is None else round(row.productive_share, 6),
        "loss": {
            "events_missing": run.loss.events_missing,
            "damaged_lines": run.loss.damaged_lines,
            "files": run.loss.files,
        },
    }
