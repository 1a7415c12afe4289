"""What torch's own records say: the agent's events and the rendezvous' events.

Shapes and texts are those of torch 2.0 to 2.14, ``elastic/agent/server/api.py`` (``_construct_event``) and
``elastic/rendezvous/dynamic_rendezvous.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from jobtape.diagnose.facts import Agent, Missed, Point, Stint, Worker, as_count, as_int, as_text, as_time
from jobtape.diagnose.failure_text import FailureText, from_error_file, from_json, from_text, handled_before
from jobtape.diagnose.stints import (
    FROM_ERROR_FILE,
    Cast,
    agent_ended,
    agent_signalled,
    find_worker,
    joining,
    open_stint,
    start_worker,
    stint_in_progress,
    worker_ended,
    worker_said,
    written_in,
)
from jobtape.tape.records import RdzvRecord

_GOT_SIGNAL = re.compile(r"got signal: (\d+)")
_ROUND = re.compile(r" round (\d{1,9}) of ")
_JOINED = re.compile(
    r"The node '(?P<node>[^']*)' has joined round (?P<round>\d{1,9}) of .*"
    r" as rank (?P<rank>\d{1,9}) in a world of size (?P<size>\d{1,9})\.",
    re.DOTALL,
)
GIVEN_UP_BEATS = 3
"""Heartbeats that may be missing before the others take a node for dead (``keep_alive_max_attempt``)."""
LONGEST_MS = 30 * 24 * 3_600_000.0
"""No rendezvous takes longer: a duration beyond it is damage."""
_FAILED_SHUTDOWN = re.compile(r"has failed to shutdown the rendezvous .* due to an error of type (\w+)", re.DOTALL)


def _one(value: object) -> object:
    """torch puts one value into a list."""
    return value[0] if isinstance(value, list) and value else value


def _inner(metadata: dict[str, Any]) -> dict[str, Any]:
    """The JSON text that torch puts inside the metadata."""
    inner = metadata.get("metadata")
    if isinstance(inner, str):
        inner = from_json(inner)
    return inner if isinstance(inner, dict) else {}


def _worker_agent(cast: Cast, metadata: dict[str, Any], pid: int | None) -> Agent:
    host = as_text(metadata.get("hostname"))
    if pid is not None and cast.fixed is None:
        agent = cast.by_worker(pid)
        if agent is not None and pid in agent.by_pid and host in (None, agent.host):
            return agent
    return cast.by_host(host, as_count(metadata.get("group_rank")))


def worker_started(cast: Cast, metadata: dict[str, Any], point: Point) -> None:
    """``START``: one worker, with its global rank; ``worker_id`` is its process id."""
    agent = cast.fixed
    if agent is None:
        agent = cast.by_host(as_text(metadata.get("hostname")), as_count(metadata.get("group_rank")))
    restart_count = as_count(metadata.get("agent_restarts"))
    if agent.ended and restart_count in (None, 0):
        agent = cast.successor(agent)
    rank, pid = as_count(metadata.get("global_rank")), as_count(metadata.get("worker_id"))
    if pid is not None and pid in agent.by_pid and _says_nothing_new(agent, *agent.by_pid[pid], rank):
        return
    inner = _inner(metadata)
    stint, _ = start_worker(
        agent,
        point,
        rank=rank,
        local_rank=as_count(_one(inner.get("local_rank"))),
        pid=pid,
        restart_count=restart_count,
    )
    _world(stint, metadata, inner)


def _says_nothing_new(agent: Agent, stint: Stint, worker: Worker, rank: int | None) -> bool:
    """Whether the agent's own record of the start has told all of it before."""
    return (
        worker.rank == rank
        and stint is agent.stints[-1]
        and worker.local_rank is not None
        and worker.start is not None
        and stint.world_size is not None
        and stint.group_rank is not None
        and stint.group_world_size is not None
        and stint.restart_count is not None
    )


def _world(stint: Any, metadata: dict[str, Any], inner: dict[str, Any]) -> None:
    if stint.world_size is None:
        stint.world_size = as_count(_one(inner.get("role_world_size")))
    if stint.group_rank is None:
        stint.group_rank = as_count(metadata.get("group_rank"))
    if stint.group_world_size is None:
        stint.group_world_size = as_count(inner.get("group_world_size"))
    if stint.restart_count is None:
        stint.restart_count = as_count(metadata.get("agent_restarts"))


def worker_state(cast: Cast, metadata: dict[str, Any], point: Point, state: str) -> None:
    """``SUCCEEDED``, ``FAILED`` or ``TERMINATED`` of a worker: torch writes them only after the last attempt."""
    inner = _inner(metadata)
    pid = as_count(metadata.get("worker_id"))
    if pid is None:
        pid = as_count(_one(inner.get("worker_pid")))
    agent = _worker_agent(cast, metadata, pid)
    stint, worker = find_worker(
        agent,
        point,
        rank=as_count(metadata.get("global_rank")),
        local_rank=as_count(_one(inner.get("local_rank"))),
        pid=pid,
    )
    _world(stint, metadata, inner)
    worker.state = state
    exit_code = as_int(_one(inner.get("exit_code")))
    if state == "SUCCEEDED":
        stint.succeeded = stint.succeeded or point
        worker_ended(worker, point, exit_code)
        return
    worker_ended(worker, point, exit_code)
    if worker.told is None or worker.told.place != point.place:
        worker.told = point
    # A group that failed has no SUCCEEDED and a stopped worker is no failure, but both say that the group failed.
    stint.failed = stint.failed or point
    text = from_error_file(metadata.get("raw_error"))
    if text is not None:
        worker_said(worker, point, text, FROM_ERROR_FILE, written_in(agent, as_time(text.time_s)))


def group_event(cast: Cast, metadata: dict[str, Any], point: Point) -> None:
    """``RENDEZVOUS`` and ``ASSIGN_WORKER_RANKS``: the agent is between two groups of workers; no word of success."""
    agent = cast.by_host(as_text(metadata.get("hostname")))
    if agent.ended and agent.pid is None:
        agent = cast.successor(agent)
    stint = agent.current
    if stint is None or stint.over or stint.workers:
        stint = open_stint(agent, _began(agent, metadata, point))
    if stint.restart_count is None:
        stint.restart_count = as_count(metadata.get("agent_restarts"))
    if metadata.get("state") == "RENDEZVOUS":
        stint.met_at = point.time
    else:
        stint.ranked_at = point.time


def _began(agent: Agent, metadata: dict[str, Any], point: Point) -> Point:
    """When a step began whose event stands at its end."""
    if point.time is None:
        return point
    first = agent.first.time if agent.first is not None else None
    took_ms = metadata.get("duration_ms")
    if isinstance(took_ms, (int, float)) and not isinstance(took_ms, bool) and 0 <= took_ms <= LONGEST_MS:
        began = point.time - took_ms / 1000
        return Point(began if first is None else min(max(began, first), point.time), point.place)
    # Older versions of torch do not say how long it took: the first is what the agent begins with.
    return Point(first, point.place) if agent.live_tape and not agent.stints and first is not None else point


def agent_state(cast: Cast, metadata: dict[str, Any], point: Point, state: str) -> None:
    """``SUCCEEDED`` or ``FAILED`` of an agent: `agent.run()` returned, whatever became of the workers, or raised."""
    agent = cast.by_host(as_text(metadata.get("hostname")))
    text = None
    if state == "FAILED":
        text = from_text(metadata.get("raw_error")) or from_error_file(metadata.get("raw_error"))
        if took_signal(agent, point, text) and text is not None and text.traceback is not None:
            # The signal came while an error was being handled: that error was there first.
            text = handled_before(text.traceback) or text
    stint = agent.current
    if stint is not None and stint.restart_count is None:
        stint.restart_count = as_count(metadata.get("agent_restarts"))
    agent_ended(agent, point, state, text)


def took_signal(agent: Agent, point: Point, text: FailureText | None) -> bool:
    """Whether an agent's error is torch's SignalException; notes the signal."""
    if text is None or not (text.error_type or "").endswith("SignalException"):
        return False
    found = _GOT_SIGNAL.search(text.message or "")
    agent_signalled(agent, point, found[1] if found else None)
    return True


def is_pulse(message: str) -> bool:
    """Whether an event of the rendezvous says only that its node lives: most of the records of a long run do."""
    return "keep-alive" in message or "its local changes" in message


def tells_of_a_pulse(agent: Agent, message: str) -> bool:
    """Whether `pulse` has to hear of it: outside a round that forms, only a heartbeat that was sent says anything."""
    stints = agent.stints
    forming = bool(stints) and stints[-1].joined is None and not stints[-1].workers
    return forming or "' has sent a keep-alive" in message


def pulse(agent: Agent, message: str, time: float | None) -> float | None:
    """Count a heartbeat that was sent; while a round forms, keep when the node last wrote that it still does.

    Returns:
        When the pause began that this heartbeat ended, if it is the longest of the stint so far.
    """
    if time is None:
        return None
    if "' has sent a keep-alive" in message:
        agent.beats += 1
        agent.last_beat = time
        if agent.first_beat is None:
            agent.first_beat = time
        return _pause(agent.current, time)
    stint = agent.current
    if stint is None or stint.joined is not None or stint.workers:
        return None
    if "' updated its keep-alive" in message:
        stint.unsynced_at = time
    elif "' has successfully synced" in message and stint.unsynced_at is not None:
        stint.forming_at, stint.unsynced_at = stint.unsynced_at, None
    elif "' has a stale state" in message:
        stint.unsynced_at = None
    return None


def _pause(stint: Stint | None, time: float) -> float | None:
    if stint is None:
        return None
    before, stint.beat_at = stint.beat_at, time
    if before is None or (
        stint.pause is not None and time - before <= (stint.pause.end.time or 0.0) - stint.pause.began
    ):
        return None
    return before


def rendezvous(cast: Cast, agent: Agent, record: RdzvRecord, point: Point) -> Agent:
    """One event of the rendezvous that tells more than a pulse; returns the agent it is of."""
    message = record.message
    if "' attempts to join " in message and (agent.ended or _came_anew(agent, point)):
        agent = cast.successor(agent)
    if agent.ended:
        # Once `agent.run()` is over, what the rendezvous still says is about its end.
        if record.node_state == "FAILED":
            _shutdown(agent, record, point)
        return agent
    for phrase, tell in _PHRASES:
        if phrase in message:
            tell(agent, record, point)
            return agent
    if record.node_state == "FAILED":
        _failed(agent, record, point)
    return agent


def _came_anew(agent: Agent, point: Point) -> bool:
    """Whether who joins is another agent under the same name and process id, as in a container that was started anew.

    Its workers ran, nothing ended them, and heartbeats had stopped for as long as torch takes to give a node up.
    """
    stint, beat_s = agent.current, agent.beat_s
    if stint is None or not stint.workers or stint.failed or stint.membership or stint.succeeded:
        return False
    if beat_s is None or agent.last_beat is None or point.time is None:
        return False
    unharmed = all(worker.stop is None and worker.told is None for worker in stint.workers)
    return unharmed and point.time - agent.last_beat > GIVEN_UP_BEATS * beat_s


def _joining(agent: Agent, _record: RdzvRecord, point: Point) -> None:
    joining(agent, point)


def _wants(agent: Agent, record: RdzvRecord, point: Point) -> None:
    found = _ROUND.search(record.message)
    stint = joining(agent, point)
    # The last time before it is in, it was let in: the round was not complete then.
    stint.forming_at, stint.unsynced_at = point.time, None
    if found is not None:
        stint.wanted_round = int(found[1])


def _marked(agent: Agent, _record: RdzvRecord, point: Point) -> None:
    stint = agent.current
    if stint is not None and stint.joined is None and not stint.workers:
        stint.unsynced_at = point.time


def _joined(agent: Agent, record: RdzvRecord, point: Point) -> None:
    found = _JOINED.match(record.message)
    if found is None:
        return
    stint = joining(agent, point)
    stint.joined = point
    stint.round = int(found["round"])
    stint.group_rank = int(found["rank"])
    stint.group_world_size = int(found["size"])
    agent.descriptor = agent.descriptor or found["node"]


def _shutdown(agent: Agent, record: RdzvRecord, point: Point) -> None:
    found = _FAILED_SHUTDOWN.search(record.message)
    what = (
        f"could not shut the rendezvous down ({found[1]})"
        if found
        else f"met an error in the rendezvous ({record.message[:120]})"
    )
    agent.troubles.append((what, point.place))


def _missed(agent: Agent, record: RdzvRecord, point: Point) -> None:
    nodes = _QUOTED.findall(record.message.partition(_REMOVED)[0][:LONGEST_LIST])
    agent.missed += [Missed(node, point) for node in nodes]


LONGEST_LIST = 100_000
"""Characters of a list of nodes that are read: thousands of them fit."""
_QUOTED = re.compile(r"'([^']{1,300})'")
_REMOVED = " have been removed from the rendezvous "


def _failed(agent: Agent, record: RdzvRecord, point: Point) -> None:
    text = from_text(record.message.strip().rstrip(":"))
    trace = from_text(record.error_trace)
    if text is None or (text.error_type is None and trace is not None):
        text = trace
    if text is None or text.error_type is None:
        return
    stint = stint_in_progress(agent, point)
    if stint.rendezvous_error is None:
        stint.rendezvous_error = FailureText(
            error_type=text.error_type, message=text.message, traceback=record.error_trace or None, location=None
        )
        stint.rendezvous_error_at = point


_PHRASES: tuple[tuple[str, Callable[[Agent, RdzvRecord, Point], None]], ...] = (
    ("' has joined round ", _joined),
    ("' attempts to join ", _joining),
    ("' added itself to the ", _wants),
    ("' marked round ", _marked),
    ("' has failed to shutdown ", _shutdown),
    (_REMOVED, _missed),
)
"""Which piece of a message says what, in the order in which they are tried."""
