"""What torch's agent and launcher log about workers: the log lines of an import, ``torchelastic.log.*``.

The order of these lines is not the order of events: the agent names a failed worker only after it has stopped the
others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jobtape.diagnose.facts import Agent, Point, Printed, Stint, as_count, as_int, as_text, as_time
from jobtape.diagnose.failure_text import failure_text, from_text
from jobtape.diagnose.marks import KERNEL_OOM, SCHEDULER, mark_told
from jobtape.diagnose.stints import (
    FROM_SUMMARY,
    Cast,
    agent_ended,
    agent_signal_told,
    find_worker,
    joining,
    membership_changed,
    open_stint,
    stint_in_progress,
    worker_ended,
    worker_failed,
    worker_said,
    worker_stopped,
    written_in,
)
from jobtape.diagnose.torch_records import took_signal

Metadata = dict[str, Any]

_BEGINNINGS = frozenset({"torchelastic.log.launch", "torchelastic.log.agent_started"})
"""Lines that torchrun logs once, before its agent does anything."""

ONE_LOOK_S = 0.5
"""Within it an agent names all workers that it has found failed."""


def log_line(cast: Cast, name: str, metadata: Metadata, point: Point) -> bool:
    """Take in one log line.

    Returns:
        False when no agent of the file can be meant: the agent's events are in another file, or nowhere.
    """
    tell = _LINES.get(name)
    if tell is None:
        return True
    agent = agent_of(cast, metadata)
    if agent is None and name == SCHEDULER:
        # It speaks of the whole job, and names the node that it speaks on by its own name for it.
        agent = cast.current
    if agent is None:
        return False
    if name in _BEGINNINGS and agent.stints:
        agent = cast.successor(agent)
    tell(agent, metadata, point)
    return True


def agent_of(cast: Cast, metadata: Metadata) -> Agent | None:
    """The agent of a file whose line it is: by its process id, by a worker's, or the one that spoke last."""
    pid, agent_pid = _worker_pid(metadata), as_count(metadata.get("agent_pid"))
    host = as_text(metadata.get("host"))
    if cast.fixed is not None or host is None:
        agent = cast.by_worker(pid, agent_pid)
        if agent is None or cast.fixed is not None or pid in agent.by_pid:
            return agent
        return agent if agent_pid is None or agent.pid in (None, agent_pid) else None
    ours = [agent for agent in cast.agents if agent.host == host]
    for agent in reversed(ours):
        if agent_pid is not None and agent.pid == agent_pid:
            return agent
    for agent in reversed(ours):
        if pid is not None and pid in agent.by_pid:
            return agent
    return ours[-1] if ours and (agent_pid is None or ours[-1].pid in (None, agent_pid)) else None


def _worker_pid(metadata: Metadata) -> int | None:
    pid = as_count(metadata.get("pid"))
    failures = metadata.get("failures")
    if pid is None and isinstance(failures, list) and failures and isinstance(failures[0], dict):
        return as_count(failures[0].get("pid"))
    return pid


def _enter(agent: Agent, point: Point, pid: int | None) -> None:
    """Begin the next stint when a worker is named that cannot be of the one that is over."""
    stint = agent.current
    if stint is not None and stint.over and (pid is None or pid not in agent.by_pid):
        open_stint(agent, point)
    if agent.printed and agent.current is not None and not agent.current.over:
        # Workers speak before their agent does.
        agent.current.printed += agent.printed
        agent.printed = []


def _same_look(stint: Stint | None, point: Point, local_rank: int | None) -> bool:
    """Whether the agent names one more worker that had failed when it looked, before it says what it will do."""
    if stint is None or stint.failed is None or stint.restarting is not None:
        return False
    if stint.failed.time is None or point.time is None or not 0 <= point.time - stint.failed.time < ONE_LOOK_S:
        return False
    return all(worker.failure is None for worker in stint.having(None, local_rank))


def _ran(agent: Agent, point: Point) -> Stint:
    """The stint in progress, of which a line says that its workers ran; nothing may say when they were started."""
    stint = stint_in_progress(agent, point)
    if not stint.workers and stint.joined is None:
        stint.joined = Point(None, point.place)
    return stint


def _worker_failed(agent: Agent, metadata: Metadata, point: Point) -> None:
    pid = as_count(metadata.get("pid"))
    local_rank = as_count(metadata.get("local_rank"))
    if not _same_look(agent.current, point, local_rank):
        _enter(agent, point, pid)
    stint, worker = find_worker(agent, point, local_rank=local_rank, pid=pid)
    if agent.printed and not stint.over:
        stint.printed += agent.printed
        agent.printed = []
    worker_failed(stint, worker, point)
    worker_ended(worker, point, as_int(metadata.get("exit_code")))
    if metadata.get("of") != "fn":
        # Its others have been stopped by then; of a function they are stopped afterwards.
        stint.over = True


def _signal_sent(agent: Agent, metadata: Metadata, point: Point) -> None:
    pid = as_count(metadata.get("pid"))
    if pid is not None:
        _enter(agent, point, pid)
        worker_stopped(find_worker(agent, point, pid=pid)[1], point, metadata.get("signal"))


def _worker_stuck(agent: Agent, metadata: Metadata, point: Point) -> None:
    pid = as_count(metadata.get("pid"))
    if pid is not None:
        worker = find_worker(agent, point, pid=pid)[1]
        worker.note = worker.note or "in uninterruptible sleep: it could not be killed"


def _group_failed(agent: Agent, metadata: Metadata, point: Point) -> None:
    stint = _ran(agent, point)
    stint.failed = stint.failed or point
    left = as_count(metadata.get("attempts_left"))
    stint.restarting = None if left is None else left > 0
    stint.over = True


def _ran_well(agent: Agent, point: Point) -> Stint:
    """The stint whose workers ran well: the one after a stint that ended otherwise, of which no line may have told."""
    stint = agent.current
    if stint is not None and (stint.failed is not None or stint.membership is not None):
        open_stint(agent, point)
    return _ran(agent, point)


def _group_succeeded(agent: Agent, _metadata: Metadata, point: Point) -> None:
    stint = _ran_well(agent, point)
    stint.succeeded = stint.succeeded or point


def _group_finished(agent: Agent, metadata: Metadata, point: Point) -> None:
    if metadata.get("state") == "SUCCEEDED":
        _group_succeeded(agent, metadata, point)
    elif metadata.get("state") == "FAILED":
        stint = _ran(agent, point)
        stint.failed = stint.failed or point


def _rendezvous_begun(agent: Agent, _metadata: Metadata, point: Point) -> None:
    joining(agent, point)


def _rendezvous_complete(agent: Agent, metadata: Metadata, point: Point) -> None:
    """The agent's list of what the rendezvous gave it; an event may have said the same."""
    stint = agent.current
    if stint is None or stint.over or stint.workers or stint.failed or stint.membership or stint.succeeded:
        stint = open_stint(agent, point)
    stint.joined = stint.joined or point
    if stint.group_rank is None:
        stint.group_rank = as_count(metadata.get("group_rank"))
    if stint.group_world_size is None:
        stint.group_world_size = as_count(metadata.get("group_world_size"))
    if stint.restart_count is None:
        stint.restart_count = as_count(metadata.get("restart_count"))
    local_ranks, ranks = _counts(metadata.get("local_ranks")), _counts(metadata.get("global_ranks"))
    if len(local_ranks) == len(ranks) <= MOST_LOCAL_RANKS:
        stint.ranks_of = dict(zip(local_ranks, ranks, strict=True))
    sizes = _counts(metadata.get("global_world_sizes")) or _counts(metadata.get("role_world_sizes"))
    if stint.world_size is None and sizes:
        stint.world_size = sizes[0]


MOST_LOCAL_RANKS = 4096
"""No node has more workers."""


def _counts(value: object) -> list[int]:
    items = value if isinstance(value, list) else []
    counts = [count for item in items if (count := as_count(item)) is not None]
    return counts if len(counts) == len(items) else []


def _group_started(agent: Agent, _metadata: Metadata, point: Point) -> None:
    stint = _ran(agent, point)
    stint.started = stint.started or point


def _begun(_agent: Agent, _metadata: Metadata, _point: Point) -> None:
    """The agent is there; that is all."""


def _agent_failed(agent: Agent, metadata: Metadata, point: Point) -> None:
    """torchrun's own exception, as it printed it at its end."""
    text = failure_text(None, metadata.get("message"), metadata.get("traceback"))
    if not took_signal(agent, point, text) and (agent.current is None or agent.current.over):
        joining(agent, point)
    agent_ended(agent, point, "FAILED", text)


def _agent_signal(agent: Agent, metadata: Metadata, point: Point) -> None:
    """The agent logs its death signal before it stops its workers: those stopped earlier were restarted."""
    stint = agent.current
    if stint is not None and agent.signal is None and stint.failed is None and stint.succeeded is None:
        unseen = all(worker.start is None for worker in stint.workers)
        if unseen and any(worker.stop is not None for worker in stint.workers):
            stint.over = True
            open_stint(agent, point)
    _ran(agent, point)
    agent_signal_told(agent, metadata, point)


def _barrier_failed(agent: Agent, metadata: Metadata, point: Point) -> None:
    error = (as_text(metadata.get("error")) or "").strip().rpartition("\n")[2]
    agent.troubles.append((f"waited in vain at the exit barrier{f' ({error[:160]})' if error else ''}", point.place))


def _shutdown_failed(agent: Agent, metadata: Metadata, point: Point) -> None:
    error = as_text(metadata.get("error_type"))
    agent.troubles.append((f"could not shut the rendezvous down{f' ({error})' if error else ''}", point.place))


def _root_cause(agent: Agent, metadata: Metadata, point: Point) -> None:
    """torchrun's closing block; not which failure it calls first: it decides by whole seconds, then by rank."""
    failures = metadata.get("failures")
    for failure in failures if isinstance(failures, list) else ():
        if not isinstance(failure, dict):
            continue
        stint, worker = find_worker(
            agent,
            point,
            rank=as_count(failure.get("rank")),
            local_rank=as_count(failure.get("local_rank")),
            pid=as_count(failure.get("pid")),
        )
        if worker.rank is None:
            worker.rank = as_count(failure.get("rank"))
        if worker.local_rank is None:
            worker.local_rank = as_count(failure.get("local_rank"))
        stint.note(worker)
        stint.failed = stint.failed or point
        worker.told = worker.told or point
        if worker.exit_code is None:
            worker.exit_code = as_int(failure.get("exit_code"))
        # Without an error file the block's time is that of the agent's look.
        began = as_time(failure.get("time_s")) if _is_file(failure.get("error_file")) else None
        text = from_text(failure.get("message"))
        worker_said(worker, point, text, FROM_SUMMARY, written_in(agent, began))


def _is_file(name: object) -> bool:
    return isinstance(name, str) and name not in ("", "<N/A>")


def _worker_output(agent: Agent, metadata: Metadata, point: Point) -> None:
    text = failure_text(None, metadata.get("message"), metadata.get("traceback"))
    if text is None:
        return
    printed = Printed(as_count(metadata.get("rank")), as_count(metadata.get("local_rank")), point, text)
    stint = agent.current
    (agent.printed if stint is None or stint.over else stint.printed).append(printed)


_LINES: dict[str, Callable[[Agent, Metadata, Point], None]] = {
    "torchelastic.log.worker_failed": _worker_failed,
    "torchelastic.log.signal_sent": _signal_sent,
    "torchelastic.log.signal_forced": _signal_sent,
    "torchelastic.log.group_failed": _group_failed,
    "torchelastic.log.membership": membership_changed,
    "torchelastic.log.agent_signal": _agent_signal,
    "torchelastic.log.group_succeeded": _group_succeeded,
    "torchelastic.log.barrier_failed": _barrier_failed,
    "torchelastic.log.rendezvous_shutdown_failed": _shutdown_failed,
    "torchelastic.log.root_cause": _root_cause,
    "torchelastic.log.worker_output": _worker_output,
    "torchelastic.log.worker_stuck": _worker_stuck,
    "torchelastic.log.group_finished": _group_finished,
    "torchelastic.log.group_started": _group_started,
    "torchelastic.log.rendezvous_begun": _rendezvous_begun,
    "torchelastic.log.rendezvous_complete": _rendezvous_complete,
    "torchelastic.log.launch": _begun,
    "torchelastic.log.agent_started": _begun,
    "torchelastic.log.agent_failed": _agent_failed,
    SCHEDULER: mark_told,
    KERNEL_OOM: mark_told,
}
