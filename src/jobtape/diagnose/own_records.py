"""What jobtape's own records say: ``jobtape.*`` of agents and of workers, on live tapes.

They are written when things happen, by the process they happen to or by its agent, so their times order within a
host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jobtape.diagnose.facts import Agent, Point, Process, Stint, Worker, as_count, as_int, as_text, as_time
from jobtape.diagnose.failure_text import FailureText, failure_text, innermost_location, said
from jobtape.diagnose.stints import (
    FROM_ERROR_FILE,
    agent_ended,
    agent_signal_told,
    agent_signalled,
    find_worker,
    membership_changed,
    open_stint,
    stint_in_progress,
    worker_ended,
    worker_failed,
    worker_said,
    worker_stopped,
    written_in,
)

Metadata = dict[str, Any]


def agent_record(agent: Agent, name: str, metadata: Metadata, point: Point) -> None:
    """Take in one of the agent's own records; others are passed over."""
    if name in _AGENT:
        _AGENT[name](agent, metadata, point)


def worker_record(process: Process, name: str, metadata: Metadata, point: Point) -> None:
    """Take in one of a worker's own records; others are passed over."""
    tell = _WORKER.get(name)
    if tell is not None:
        tell(process, metadata, point)


def _numbers(value: object) -> list[int | None]:
    return [as_count(item) for item in value] if isinstance(value, list) else []


def _attempt_start(agent: Agent, metadata: Metadata, point: Point) -> None:
    ranks, pids = _numbers(metadata.get("ranks")), _numbers(metadata.get("pids"))
    local_ranks = _numbers(metadata.get("local_ranks"))
    attempt_id = as_count(metadata.get("attempt"))
    stint = _stint_of_start(agent, attempt_id, pids, point)
    stint.attempt_id = attempt_id
    stint.started = stint.started or point
    for key, field in _START_FIELDS:
        value = as_count(metadata.get(key))
        if value is not None:
            setattr(stint, field, value)
    agent.descriptor = agent.descriptor or as_text(metadata.get("node")) or ""
    for number, rank in enumerate(ranks):
        pid = pids[number] if number < len(pids) else None
        local_rank = local_ranks[number] if number < len(local_ranks) else None
        its, worker = find_worker(agent, point, rank=rank, local_rank=local_rank, pid=pid, attempt_id=attempt_id)
        worker.start = worker.start or point
        if worker.local_rank is None:
            worker.local_rank = local_rank
            its.note(worker)


_START_FIELDS = (
    ("restart_count", "restart_count"),
    ("round", "round"),
    ("group_rank", "group_rank"),
    ("group_world_size", "group_world_size"),
    ("world_size", "world_size"),
)


def _stint_of_start(agent: Agent, attempt_id: int | None, pids: list[int | None], point: Point) -> Stint:
    """torch's own START events of the same workers may stand before the agent's record of them."""
    stint = agent.current
    if stint is None:
        return open_stint(agent, point)
    if attempt_id is not None and stint.attempt_id == attempt_id:
        return stint
    same = not stint.workers or any(worker.pid is not None and worker.pid in pids for worker in stint.workers)
    return stint if same and not stint.over and stint.attempt_id is None else open_stint(agent, point)


def _of_worker(agent: Agent, metadata: Metadata, point: Point) -> tuple[Stint, Worker]:
    get = metadata.get
    rank, pid, attempt_id = get("rank"), get("pid"), get("attempt")
    if type(pid) is int and type(rank) is int and type(attempt_id) is int and pid in agent.by_pid:
        # What `find_worker` would return, at half its price: most records of a long run are of workers known well.
        found = agent.by_pid[pid]
        if found[1].rank == rank and found[0].attempt_id == attempt_id and found[1].local_rank is not None:
            return found
    return find_worker(
        agent,
        point,
        rank=as_count(rank),
        local_rank=as_count(get("local_rank")),
        pid=as_count(pid),
        attempt_id=as_count(attempt_id),
    )


def _worker_exit(agent: Agent, metadata: Metadata, point: Point) -> None:
    stint, worker = _of_worker(agent, metadata, point)
    exit_code = as_int(metadata.get("exit_code"))
    worker_ended(worker, point, exit_code, at_the_moment=True)
    worker.oom_kills = as_count(metadata.get("oom_kills")) or 0
    if metadata.get("stopped") is True:
        if worker.stop is None:
            worker_stopped(worker, point, None)
    elif exit_code not in (None, 0):
        worker_failed(stint, worker, point)
    if metadata.get("core_dumped") is True:
        worker.note = "core dumped"


def _worker_stop(agent: Agent, metadata: Metadata, point: Point) -> None:
    worker = _of_worker(agent, metadata, point)[1]
    worker_stopped(worker, point, metadata.get("signal"), as_text(metadata.get("reason")) or "")


def _worker_failure(agent: Agent, metadata: Metadata, point: Point) -> None:
    stint, worker = _of_worker(agent, metadata, point)
    stint.failed = stint.failed or point
    if worker.exit_code is None:
        worker_ended(worker, point, as_int(metadata.get("exit_code")))
    text = failure_text(
        metadata.get("error_type"), metadata.get("message"), metadata.get("traceback"), metadata.get("location"), None
    )
    worker_said(worker, point, text, FROM_ERROR_FILE, written_in(agent, as_time(metadata.get("error_time_s"))))


def _attempt_end(agent: Agent, metadata: Metadata, point: Point) -> None:
    stint = stint_in_progress(agent, point)
    attempt_id = as_count(metadata.get("attempt"))
    if attempt_id is not None and stint.attempt_id != attempt_id:
        stint = next((s for s in reversed(agent.stints) if s.attempt_id == attempt_id), stint)
    state = metadata.get("state")
    if state == "SUCCEEDED":
        stint.succeeded = stint.succeeded or point
    elif state in ("FAILED", "UNHEALTHY"):
        stint.failed = stint.failed or point
    if isinstance(restarting := metadata.get("restarting"), bool):
        stint.restarting = restarting
    stint.over = True


def _launch_end(agent: Agent, metadata: Metadata, point: Point) -> None:
    outcome = metadata.get("outcome")
    location = as_text(metadata.get("location"))
    if location is not None and location.startswith("<string>:"):
        # Code that `dataclasses` has made up is no place to look at.
        location = innermost_location(as_text(metadata.get("traceback")) or "")
    text = failure_text(metadata.get("error_type"), metadata.get("message"), metadata.get("traceback"), location)
    if outcome == "signal" and agent.signal is None:
        agent_signalled(agent, point, metadata.get("signal"))
    agent_ended(
        agent,
        point,
        "SUCCEEDED" if outcome in ("succeeded", "failed") else "FAILED",
        text if outcome == "error" else None,
    )
    if outcome == "error" and agent.current is None:
        # It failed before it even began to join: that is an attempt without ranks.
        open_stint(agent, agent.first or point)
    stint = agent.current
    if outcome == "succeeded" and stint is not None and stint.workers and stint.failed is None:
        stint.succeeded = stint.succeeded or point


_AGENT: dict[str, Callable[[Agent, Metadata, Point], None]] = {
    "jobtape.attempt.start": _attempt_start,
    "jobtape.worker.exit": _worker_exit,
    "jobtape.worker.stop": _worker_stop,
    "jobtape.worker.failure": _worker_failure,
    "jobtape.attempt.end": _attempt_end,
    "jobtape.agent.membership": membership_changed,
    "jobtape.agent.signal": agent_signal_told,
    "jobtape.launch.end": _launch_end,
}


def _error(process: Process, metadata: Metadata, point: Point) -> None:
    text = failure_text(
        metadata.get("error_type"), metadata.get("message"), metadata.get("traceback"), metadata.get("location")
    )
    if text is not None and process.error is None:
        process.error, process.error_at = text, point
        process.error_presumed = metadata.get("presumed") is True


def _thread_error(process: Process, metadata: Metadata, point: Point) -> None:
    text = failure_text(
        metadata.get("error_type"), metadata.get("message"), metadata.get("traceback"), metadata.get("location")
    )
    if text is not None and process.thread_error is None:
        process.thread_error, process.thread_error_at = text, point
        process.thread_name = as_text(metadata.get("thread")) or ""


def _exit_call(process: Process, metadata: Metadata, point: Point) -> None:
    process.exit_call = as_text(metadata.get("call")) or "sys.exit"
    process.exit_code = as_int(metadata.get("code"))
    process.exit_at = point
    process.exit_text = FailureText(
        message=said(metadata.get("message")), location=as_text(metadata.get("location")), traceback=None
    )
    process.stack = process.stack or as_text(metadata.get("stack")) or ""


_WORKER: dict[str, Callable[[Process, Metadata, Point], None]] = {
    "jobtape.worker.error": _error,
    "jobtape.worker.thread_error": _thread_error,
    "jobtape.worker.exit_call": _exit_call,
}
