"""What torch's agent and launcher log about workers: the log lines of an import, ``torchelastic.log.*``.

The order of these lines is not the order of events: the agent names a failed worker only after it has stopped the
others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jobtape.diagnose.facts import Agent, Point, as_count, as_int, as_text, as_time
from jobtape.diagnose.failure_text import failure_text, from_text
from jobtape.diagnose.stints import (
    FROM_OUTPUT,
    FROM_SUMMARY,
    Cast,
    agent_signal_told,
    find_worker,
    membership_changed,
    stint_in_progress,
    worker_ended,
    worker_failed,
    worker_said,
    worker_stopped,
    written_in,
)

Metadata = dict[str, Any]


def log_line(cast: Cast, name: str, metadata: Metadata, point: Point) -> bool:
    """Take in one log line.

    Returns:
        False when no agent of the file can be meant: the agent's events are in another file.
    """
    tell = _LINES.get(name)
    if tell is None:
        return True
    agent = cast.by_worker(_worker_pid(metadata), as_count(metadata.get("agent_pid")))
    if agent is None:
        return False
    tell(agent, metadata, point)
    return True


def _worker_pid(metadata: Metadata) -> int | None:
    pid = as_count(metadata.get("pid"))
    failures = metadata.get("failures")
    if pid is None and isinstance(failures, list) and failures and isinstance(failures[0], dict):
        return as_count(failures[0].get("pid"))
    return pid


def _worker_failed(agent: Agent, metadata: Metadata, point: Point) -> None:
    stint, worker = find_worker(
        agent, point, local_rank=as_count(metadata.get("local_rank")), pid=as_count(metadata.get("pid"))
    )
    worker_failed(stint, worker, point)
    worker_ended(worker, point, as_int(metadata.get("exit_code")))


def _signal_sent(agent: Agent, metadata: Metadata, point: Point) -> None:
    pid = as_count(metadata.get("pid"))
    if pid is not None:
        worker_stopped(find_worker(agent, point, pid=pid)[1], point, metadata.get("signal"))


def _group_failed(agent: Agent, metadata: Metadata, point: Point) -> None:
    stint = stint_in_progress(agent, point)
    stint.failed = stint.failed or point
    left = as_count(metadata.get("attempts_left"))
    stint.restarting = None if left is None else left > 0
    stint.over = True


def _group_succeeded(agent: Agent, _metadata: Metadata, point: Point) -> None:
    stint = stint_in_progress(agent, point)
    stint.succeeded = stint.succeeded or point


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
    rank, local_rank = as_count(metadata.get("rank")), as_count(metadata.get("local_rank"))
    stint = agent.current
    if stint is None:
        return
    for worker in stint.having(rank, local_rank)[:1]:
        text = failure_text(None, metadata.get("message"), metadata.get("traceback"))
        worker_said(worker, point, text, FROM_OUTPUT)


_LINES: dict[str, Callable[[Agent, Metadata, Point], None]] = {
    "torchelastic.log.worker_failed": _worker_failed,
    "torchelastic.log.signal_sent": _signal_sent,
    "torchelastic.log.signal_forced": _signal_sent,
    "torchelastic.log.group_failed": _group_failed,
    "torchelastic.log.membership": membership_changed,
    "torchelastic.log.agent_signal": agent_signal_told,
    "torchelastic.log.group_succeeded": _group_succeeded,
    "torchelastic.log.barrier_failed": _barrier_failed,
    "torchelastic.log.rendezvous_shutdown_failed": _shutdown_failed,
    "torchelastic.log.root_cause": _root_cause,
    "torchelastic.log.worker_output": _worker_output,
}
