"""What a scheduler or a kernel says of an attempt: who ended it, and which process it killed for its memory.

The words are those that `jobtape.importers` finds in consoles and event lists: ``torchelastic.log.scheduler`` with
``what``, ``torchelastic.log.kernel_oom`` with the process. A scheduler's word about a job is a record of what it did;
that it also was what ended the attempt is certain only when the agents' own records agree.
"""

from __future__ import annotations

from typing import Any

from jobtape.diagnose import evidence
from jobtape.diagnose.attempts import Group
from jobtape.diagnose.clocks import Clocks
from jobtape.diagnose.facts import Agent, Mark, Point, Worker, as_count, as_text
from jobtape.diagnose.model import Cause
from jobtape.diagnose.stints import stint_in_progress

SCHEDULER, KERNEL_OOM = "torchelastic.log.scheduler", "torchelastic.log.kernel_oom"
NAMES = frozenset({SCHEDULER, KERNEL_OOM})

OOM_KILL, OUT_OF_MEMORY, NODE_FAILURE = "oom_kill", "out_of_memory", "node_failure"
STOPS = {
    "preemption": "preempted the job",
    "time_limit": "ended the job at its time limit",
    "cancelled": "cancelled the job, as somebody asked for",
    "requeued": "queued the job again",
    "evicted": "evicted the pod from its node",
}
"""What a scheduler did to end a job, by ``what``."""

_NAMES = {"slurm": "SLURM", "kubernetes": "Kubernetes"}
_FAILED_NODE = ("Node failure on ", " node/")
"""Before the name of the node that failed; elsewhere the name is that of the node which says it."""


def mark_told(agent: Agent, metadata: dict[str, Any], point: Point) -> None:
    """Take in a line of a scheduler or a kernel: it is about what the agent does then."""
    host = next((text for key in ("host", "node", "pod", "job") if (text := as_text(metadata.get(key)))), "")
    what = as_text(metadata.get("what"))
    stint_in_progress(agent, point).marks.append(
        Mark(
            what=OOM_KILL if what is None and "pid" in metadata else what or "",
            text=evidence.one_line(as_text(metadata.get("text")) or what or "", 300),
            point=point,
            scheduler=as_text(metadata.get("scheduler")) or "",
            host=host,
            pid=as_count(metadata.get("pid")),
        )
    )


def marks_of(group: Group, clocks: Clocks) -> list[tuple[float | None, Mark]]:
    """The marks of the agents that did nothing after this attempt, by time; those without one come last."""
    found = [
        (clocks.at(member.agent.clock, mark.point), mark)
        for member in group.members
        if member.is_last
        for mark in member.stint.marks
    ]
    return sorted(found, key=lambda pair: float("inf") if pair[0] is None else pair[0])


def stop_of(group: Group, clocks: Clocks) -> tuple[float | None, Mark] | None:
    """The first word of a scheduler that it ended the job."""
    return next((pair for pair in marks_of(group, clocks) if pair[1].what in STOPS), None)


def node_failure_of(group: Group, clocks: Clocks) -> tuple[float | None, Mark] | None:
    """The first word of a scheduler that a node of the job failed; one that names the node before one that does not."""
    found = [pair for pair in marks_of(group, clocks) if pair[1].what == NODE_FAILURE]
    return min(found, key=lambda pair: not names_node(pair[1]), default=None)


def names_node(mark: Mark) -> bool:
    """Whether the node that it names is the one that failed."""
    return bool(mark.host) and any(words in mark.text for words in _FAILED_NODE)


def says(mark: Mark) -> str:
    """What the scheduler did, in a few words."""
    who = _NAMES.get(mark.scheduler, mark.scheduler or "the scheduler")
    return f"{who} {STOPS.get(mark.what, 'spoke of the job')}"


def cited(mark: Mark) -> str | None:
    """The record of a mark."""
    return evidence.cite(mark.point, f"{_NAMES.get(mark.scheduler, mark.scheduler) or 'a log'} says: {mark.text}")


def give_kills(group: Group) -> None:
    """Note at each worker that the kernel, or by its word the scheduler, says it was killed for its memory.

    The kernel names the process. SLURM names the step: it is said of a worker that alone was killed on its node.
    """
    for member in group.members:
        marks = member.stint.marks
        if not marks:
            continue
        kills = {mark.pid: mark for mark in marks if mark.what == OOM_KILL and mark.pid is not None}
        for worker in member.stint.workers:
            mark = kills.get(worker.pid) if worker.pid is not None else None
            if mark is not None and worker.stop is None and worker.exit_code in (None, -9):
                _killed(worker, mark)
        step = next((mark for mark in marks if mark.what == OUT_OF_MEMORY), None)
        killed = [w for w in member.stint.workers if w.exit_code == -9 and w.stop is None]
        if step is not None and len(killed) == 1 and not killed[0].oom_kills:
            _killed(killed[0], step)
            killed[0].oom_presumed = True


def _killed(worker: Worker, mark: Mark) -> None:
    worker.oom_kills = max(worker.oom_kills, 1)
    worker.oom_at, worker.oom_text = mark.point, mark.text
    if worker.exit_code is None:
        worker.exit_code = -9
        worker.failure = worker.failure or mark.point


def requeued(group: Group, following: Group | None) -> Cause | None:
    """The scheduler queued a job again whose agents all fell silent: it ended them, and does not say why."""
    if following is None or following.launch == group.launch or not group.members:
        return None
    before = [m.agent.requeues for m in group.members]
    after = [m.agent for m in following.members if m.agent.requeues is not None]
    if not after or None in before or any(m.agent.ended or m.agent.closed or m.agent.alive for m in group.members):
        return None
    agent = after[0]
    if (agent.requeues or 0) <= max(count or 0 for count in before):
        return None
    lasts = [evidence.cite(m.agent.last, f"the last record of the agent on {m.agent.host}") for m in group.members]
    return Cause(
        kind="preempted",
        confidence="suspected",
        evidence=evidence.listed([evidence.cite(agent.first, _count(agent)), *lasts[:4]]),
        note="SLURM ended the job and queued it again; its reason is not on the record",
        reason="requeued",
    )


def _count(agent: Agent) -> str:
    times = "time" if agent.requeues == 1 else "times"
    return f"the agent on {agent.host} began with SLURM_RESTART_COUNT: queued again {agent.requeues} {times} by then"
