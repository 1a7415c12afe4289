"""A job of many nodes and restarts as its tapes have it, written at once: rendered as bytes, never as records.

What stands on the tapes, and in which order, is what jobtape writes of a real job of two agents on torch 2.13: for each
node and attempt about fifty records. In every attempt but the last one rank of one node raises; on one node of four
another rank loses its connection then, and the others restart for the change of membership. The last attempt ends well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

RUN_ID = "simulated"
T0_NS = 1_772_305_500_000_000_000
UPTIME_NS = 86_400_000_000_000
ATTEMPT_NS = 40_000_000_000

RDZV = "dynamic_rendezvous.py:"
EXECUTOR = f"{RDZV}_DistributedRendezvousOpExecutor."
HANDLER = f"{RDZV}DynamicRendezvousHandler."
TRACE = (
    'Traceback (most recent call last):\n  File "/srv/job/train.py", line 212, in <module>\n    main()\n'
    '  File "/srv/job/train.py", line 170, in main\n    step(batch)\n'
)
OWN_ERROR = ("ValueError", "loss is not finite at step 1180")
PEER_ERROR = (
    "RuntimeError",
    "[../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.4.0.12]:23811",
)
FIRST, PEER, MEMBER, LAST = "first", "peer", "member", "last"
"""What an attempt is for a node: the first failure is its own, it loses a peer, it is restarted, or all is well."""

HOST = "n#host#"
NUMBER, IN_TEXT = re.compile(r'\\?"@(\w+)@\\?"'), re.compile(r"#(\w+)#")
"""Places in the lines of an attempt for what differs from one to the next: a number, or part of a text."""

Line = tuple[float, dict[str, Any]]
"""When in its attempt a record is written, as a share of it, and its fields."""


@dataclass(frozen=True)
class Job:
    """A job to simulate.

    Attributes:
        shape: ``live`` (tapes of agents) or ``import`` (their logs, imported: no monotonic clock, no exits).
        beats: heartbeats of each node in each attempt.
        worker_tapes: whether each worker has left a tape as well.
    """

    nodes: int
    restarts: int
    ranks: int = 8
    beats: int = 4
    shape: str = "live"
    worker_tapes: bool = False

    @property
    def is_live(self) -> bool:
        """Whether the tapes are those of running processes."""
        return self.shape == "live"

    def role(self, node: int, attempt: int) -> str:
        """What an attempt is for a node."""
        if attempt == self.restarts:
            return LAST
        if node == attempt * 7 % self.nodes:
            return FIRST
        return PEER if node % 4 == 1 else MEMBER

    def pid(self, attempt: int, rank: int) -> int:
        """The process id of a worker on its host."""
        return 5000 + attempt * self.ranks + rank


def write(job: Job, folder: Path) -> tuple[int, int]:
    """Write the tapes of a job into a folder, one file an agent, and one a worker where it has them.

    Returns:
        How many records and how many bytes there are.
    """
    folder.mkdir(parents=True)
    records = size = 0
    for node in range(job.nodes):
        for name, parts in _files(job, node):
            text = b"".join(parts)
            (folder / name).write_bytes(text)
            records += text.count(b"\n")
            size += len(text)
    return records, size


def _files(job: Job, node: int) -> Iterator[tuple[str, list[bytes]]]:
    yield _file_name(job, node), list(_agent(job, node))
    if job.worker_tapes:
        for attempt in range(job.restarts + 1):
            for rank in range(job.ranks):
                yield _worker(job, node, attempt, rank)


def _file_name(job: Job, node: int) -> str:
    return f"n{node:05}-900-20260228T190500000.jsonl" if job.is_live else f"n{node:05}-import-{node:08x}.jsonl"


def _agent(job: Job, node: int) -> Iterator[bytes]:
    """The tape of one agent, attempt by attempt."""
    yield _header(job, node, "agent", 900, T0_NS, {})
    fixed: dict[bytes, int] = {b"n": node}
    fixed.update((b"r%d" % local, node * job.ranks + local) for local in range(job.ranks))
    seq = 1
    for attempt in range(job.restarts + 1):
        text, shares = _format(job, job.role(node, attempt), attempt > 0, node == 0)
        count = len(shares)
        begins = T0_NS + attempt * ATTEMPT_NS + node * 1000
        times = [begins + share for share in shares]
        values = {**fixed, b"a": attempt, b"last": attempt - 1, b"left": job.restarts - attempt}
        values.update(zip(_names(b"s", count), range(seq, seq + count), strict=True))
        values.update(zip(_names(b"t", count), times, strict=True))
        values.update(zip(_names(b"m", count), [time - T0_NS + UPTIME_NS for time in times], strict=True))
        first = job.pid(attempt, 0)
        values.update(zip(_names(b"p", job.ranks), range(first, first + job.ranks), strict=True))
        yield text % values
        seq += count


@cache
def _names(letter: bytes, count: int) -> list[bytes]:
    return [b"%s%d" % (letter, number) for number in range(count)]


@cache
def _format(job: Job, role: str, again: bool, head: bool) -> tuple[bytes, list[int]]:
    """The lines of an attempt as one format, and when in the attempt each of them is written, in nanoseconds.

    Args:
        head: whether the node has group rank 0, whose agent lists all nodes.
    """
    lines = _lines(job, role, again=again, head=head)
    texts = []
    for number, (_, fields) in enumerate(lines):
        kind = fields.pop("kind")
        stamp = {"seq": f"@s{number}@", "time_ns": f"@t{number}@", "mono_ns": f"@m{number}@"}
        if not job.is_live:
            del stamp["mono_ns"]
            fields["origin"] = f"{HOST}.log:#s{number}#"
        text = json.dumps({"kind": kind, **stamp, **fields}, separators=(",", ":"))
        texts.append(IN_TEXT.sub(r"%(\1)d", NUMBER.sub(r"%(\1)d", text.replace(HOST, "n%(n)05d"))))
    return "".join(f"{text}\n" for text in texts).encode(), [int(share * ATTEMPT_NS) for share, _ in lines]


def _header(job: Job, node: int, role: str, pid: int, time_ns: int, ranks: Mapping[str, str]) -> bytes:
    live = job.is_live
    fields = {
        "kind": "header", "seq": 0, "time_ns": time_ns if live else None,
        "mono_ns": time_ns - T0_NS + UPTIME_NS if live else None, "format": 1, "run_id": RUN_ID, "run_id_from": "given",
        "host": f"n{node:05}", "host_from": "hostname",
        "boot_id": f"00000000-0000-4000-8000-{node:012}" if live else "",
        "pid": pid if live else 0, "pid_start": 157_193 if live else 0, "parent_pid": 900 if role == "worker" else 1,
        "role": role if live else "import", "python": "3.11.7", "torch": "2.13.0+cpu", "jobtape": "0.1.0",
        "command": ["torchrun", "--event-log-handler=tape", "train.py"], "ranks": dict(ranks), "scheduler": {},
        "source_file": None if live else f"n{node:05}.log",
    }  # fmt: skip
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def _lines(job: Job, role: str, *, again: bool, head: bool) -> list[Line]:
    """What an agent writes in one attempt."""
    lines: list[Line] = []
    name = f"{HOST}_900_0"

    def says(share: float, where: str, what: str, end: str = ".", **more: Any) -> None:
        fields = {
            "kind": "rdzv", "name": where, "run_id": RUN_ID,
            "message": f"The node '{name}' {what} the rendezvous '{RUN_ID}'{end}", "hostname": HOST, "pid": 900,
            "node_state": "RUNNING", **more, "local_id": 0,
        }  # fmt: skip
        lines.append((share, fields))

    def event(share: float, what: str, source: str, metadata: dict[str, Any]) -> None:
        lines.append((share, {"kind": "event", "name": what, "source": source, "metadata": metadata}))

    def own(share: float, what: str, **metadata: Any) -> None:
        if job.is_live:
            event(share, f"jobtape.{what}", "AGENT", {"attempt": "@a@", **metadata})

    def log(share: float, what: str, **metadata: Any) -> None:
        if not job.is_live:
            event(share, f"torchelastic.log.{what}", "AGENT", metadata)

    def torch(share: float, state: str, source: str, inner: Mapping[str, Any], **metadata: Any) -> None:
        told = {
            "run_id": RUN_ID, "global_rank": None, "group_rank": "@n@" if again or source == "WORKER" else None,
            "worker_id": None, "role": "default", "hostname": HOST, "state": state, "total_run_time": 40,
            "rdzv_backend": "c10d", "raw_error": None,
            "metadata": json.dumps({"group_world_size": job.nodes, "entry_point": "python3.11", **inner}),
            "agent_restarts": "@a@", "duration_ms": None, **metadata,
        }  # fmt: skip
        event(share, f"torchelastic.worker.status.{state}", source, told)

    def synced(share: float) -> None:
        says(share, f"{EXECUTOR}run", "has successfully synced its local changes with other nodes in")

    def updated(share: float) -> None:
        says(share, f"{EXECUTOR}_keep_alive", "updated its keep-alive heartbeat time for", ". Pending sync.")

    if again:
        says(0.001, f"{HANDLER}next_rendezvous", "attempts to join the next round of")
        left = "removed itself from the participants of round #last# of"
        says(0.002, f"{EXECUTOR}_remove_from_participants", left, ". Pending sync.")
        synced(0.003)
    else:
        if job.is_live:
            facts = {
                "run_id": RUN_ID,
                "min_nodes": job.nodes,
                "nproc_per_node": job.ranks,
                "max_restarts": job.restarts,
            }
            event(0.0, "jobtape.launch.start", "AGENT", facts)
        says(0.001, f"{HANDLER}next_rendezvous", "attempts to join the next round of")
    says(
        0.004, f"{EXECUTOR}_add_to_participants", "added itself to the participants of round #a# of", ". Pending sync."
    )
    updated(0.005)
    synced(0.006)
    joined = f" as rank #n# in a world of size {job.nodes}."
    says(0.02, f"{HANDLER}next_rendezvous", "has joined round #a# of", joined, rank="@n@")
    torch(0.021, "RENDEZVOUS", "AGENT", {}, duration_ms=761.5)
    torch(0.045, "ASSIGN_WORKER_RANKS", "AGENT", {}, duration_ms=970.25)
    ranks = [f"@r{local}@" for local in range(job.ranks)]
    start = {
        "restart_count": "@a@", "group_rank": "@n@", "group_world_size": job.nodes,
        "world_size": job.nodes * job.ranks, "local_world_size": job.ranks, "round": "@a@", "node": name,
        "ranks": ranks, "local_ranks": list(range(job.ranks)), "pids": [f"@p{local}@" for local in range(job.ranks)],
    }  # fmt: skip
    if head:
        start["participants"] = [f"n{other:05}_900_0" for other in range(job.nodes)]
    own(0.05, "attempt.start", **start)
    for local, rank in enumerate(ranks):
        torch(0.051, "START", "WORKER", _of_rank(job, local), global_rank=rank, worker_id=f"#p{local}#")
    for beat in range(job.beats):
        share = 0.1 + 0.8 * beat / job.beats
        updated(share)
        synced(share)
        says(share, f"{HANDLER}_keep_alive", "has sent a keep-alive heartbeat to")
    _end(job, role, ranks, own, log)
    if role == LAST:
        for local, rank in enumerate(ranks):
            inner = _of_rank(job, local)
            torch(0.98, "SUCCEEDED", "WORKER", inner, global_rank=rank, worker_id=f"#p{local}#")
        torch(0.99, "SUCCEEDED", "AGENT", {})
        if job.is_live:
            event(0.995, "jobtape.launch.end", "AGENT", {"outcome": "succeeded"})
            lines.append((1.0, {"kind": "close", "reason": "launch_end", "recorded": "@left@", "lost": 0}))
    return lines


def _of_rank(job: Job, local: int) -> dict[str, Any]:
    return {
        "local_rank": [local], "role_rank": [f"@r{local}@"], "role_world_size": [job.nodes * job.ranks],
        "exit_code": [None], "worker_pid": [None],
    }  # fmt: skip


def _end(job: Job, role: str, ranks: list[str], own: Callable[..., None], log: Callable[..., None]) -> None:
    """How the workers of an agent end in one attempt."""
    each = [
        {"rank": rank, "local_rank": local, "pid": f"@p{local}@"} for local, rank in enumerate(ranks)
    ]  # fmt: skip

    def ended(share: float, worker: dict[str, Any], code: int, signal: str | None, *, stopped: bool) -> None:
        more = {"exit_code": code, "signal": signal, "core_dumped": False, "oom_kills": None, "stopped": stopped}
        own(share, "worker.exit", **worker, **more)

    if role == LAST:
        for worker in each:
            ended(0.96, worker, 0, None, stopped=False)
        own(0.97, "attempt.end", state="SUCCEEDED", failed_ranks=[])
        log(0.97, "group_succeeded", role="default")
        return
    stopped, reason = each, "membership"
    if role == MEMBER:
        own(0.96, "agent.membership", waiting=1)
        log(0.96, "membership", waiting=1)
    else:
        failed, stopped, reason = each[0], each[1:], "failure"
        share = 0.93 if role == FIRST else 0.94
        kind, message = OWN_ERROR if role == FIRST else PEER_ERROR
        ended(share, failed, 1, None, stopped=False)
        trace = f"{TRACE}{kind}: {message}\n"
        told = {"exit_code": 1, "error_type": kind, "message": message, "traceback": trace, "error_time_s": 0.0}
        own(0.95, "worker.failure", **failed, **told, error_file="/tmp/error.json")
    for worker in stopped:
        own(0.961, "worker.stop", **worker, signal="SIGTERM", reason=reason)
        log(0.961, "signal_sent", pid=worker["pid"], signal="SIGTERM")
    for worker in stopped:
        ended(0.97, worker, -15, "SIGTERM", stopped=True)
    if role == MEMBER:
        own(0.98, "attempt.end", state="STOPPED", failed_ranks=[])
        return
    own(0.98, "attempt.end", state="FAILED", failed_ranks=[ranks[0]])
    log(0.97, "worker_failed", local_rank=0, pid=each[0]["pid"], exit_code=1, signal=None, entrypoint="train.py")
    log(0.98, "group_failed", role="default", state="FAILED", attempts_left="@left@", max_restarts=job.restarts)


def _worker(job: Job, node: int, attempt: int, local: int) -> tuple[str, list[bytes]]:
    """The tape of one worker."""
    rank, pid, role = node * job.ranks + local, job.pid(attempt, local), job.role(node, attempt)
    begins = T0_NS + attempt * ATTEMPT_NS + int(0.055 * ATTEMPT_NS)
    ranks = {
        "RANK": str(rank), "LOCAL_RANK": str(local), "GROUP_RANK": str(node), "WORLD_SIZE": str(job.nodes * job.ranks),
        "LOCAL_WORLD_SIZE": str(job.ranks), "TORCHELASTIC_RESTART_COUNT": str(attempt),
    }  # fmt: skip
    parts = [_header(job, node, "worker", pid, begins, ranks)]

    def add(kind: str, time_ns: int, **fields: Any) -> None:
        stamp = {"kind": kind, "seq": len(parts), "time_ns": time_ns, "mono_ns": time_ns - T0_NS + UPTIME_NS}
        parts.append(json.dumps({**stamp, **fields}, separators=(",", ":")).encode() + b"\n")

    add("event", begins + 10**9, name="jobtape.worker.ready", source="WORKER", metadata={"torch": "2.13.0+cpu"})
    failed = local == 0 and role in (FIRST, PEER)
    if failed:
        kind, message = OWN_ERROR if role == FIRST else PEER_ERROR
        trace = f"{TRACE}{kind}: {message}\n"
        told = {"error_type": kind, "message": message, "traceback": trace, "location": "/srv/job/train.py:170"}
        share = 0.925 if role == FIRST else 0.935
        when = T0_NS + attempt * ATTEMPT_NS + int(share * ATTEMPT_NS)
        add("event", when, name="jobtape.worker.error", source="WORKER", metadata=told)
    if failed or role == LAST:
        add("close", begins + int(0.88 * ATTEMPT_NS), reason="exit", recorded=len(parts) - 1, lost=0)
    return f"n{node:05}-{pid}-20260228T{190500000 + attempt:09}.jsonl", parts
