"""Jobs in a few words: tape files as the importer makes them, and as agents and workers write them while they run.

Time is told in seconds since `T0`; ``None`` leaves it out. Each method adds records to one file and gives the file back, so
that a node's life reads as a chain.
"""

import json
from pathlib import Path

from jobtape.diagnose.model import to_json
from jobtape.diagnose.reconstruct import diagnose
from jobtape.tape.reader import Damage, TapeFile
from jobtape.tape.records import CloseRecord, EventRecord, Header, LossRecord, RdzvRecord

T0 = 1_772_305_500
"""Where all these jobs begin: 2026-02-28 19:05:00 UTC."""

PEER_CLOSED = "[transport/tcp/pair.cc:553] Connection closed by peer [10.4.0.12]:23811. A remote worker has probably crashed."
WATCHDOG = (
    "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=918, OpType=ALLREDUCE, Timeout(ms)=1800000) "
    "ran for 1800041 milliseconds before timing out."
)


def answer(*nodes, alive=(), run_id=None):
    """What `why --json` says about these files."""
    return to_json(diagnose([node.file() for node in nodes], alive=frozenset(alive), run_id=run_id))


def causes(said):
    """Kind and rank of each attempt's cause."""
    return [(a["cause"]["kind"], a["cause"]["rank"]) if a["cause"] else None for a in said["attempts"]]


def roles(attempt):
    """The role of each rank."""
    return {rank["rank"]: rank["role"] for rank in attempt["ranks"]}


def raised(kind, message, frames=(("/srv/train.py", 12),), at=None):
    """torch's error file as JSON text."""
    trace = "Traceback (most recent call last):\n"
    trace += "".join(f'  File "{path}", line {line}, in main\n    step()\n' for path, line in frames)
    extra = {"py_callstack": f"{trace}{kind}: {message}\n", "timestamp": str(int(T0 + at)) if at is not None else "0"}
    return json.dumps({"message": {"message": f"{kind}: {message}", "extraInfo": extra}})


NOTHING = '{"message": "<NONE>"}'


class _File:
    """Records in order, with sequence numbers and lines."""

    def __init__(self, name, header):
        self.name = name
        self.header = header
        self.records = []
        self.damage = []
        self.missing = 0
        self.stacks = ""
        self.boot_s = None
        self.skew = 0.0

    def stamp(self, t):
        """Wall and monotonic nanoseconds of a moment."""
        if t is None:
            return {"time_ns": None, "mono_ns": None}
        mono_ns = None if self.boot_s is None else round((t + self.boot_s) * 1e9)
        return {"time_ns": round((T0 + t + self.skew) * 1e9), "mono_ns": mono_ns}

    def add(self, kind, t, **fields):
        """Add a record."""
        self.records.append(kind(seq=len(self.records) + 1, **self.stamp(t), **fields))
        return self

    def event(self, name, source, t, **metadata):
        """Add an event."""
        return self.add(EventRecord, t, name=name, source=source, metadata=metadata)

    def lost(self, count, reason="write_failed"):
        """Say that something is missing."""
        return self.add(LossRecord, None, reason=reason, count=count, detail="node.log:3")

    def file(self):
        """The tape file as the reader gives it."""
        closed = bool(self.records) and isinstance(self.records[-1], CloseRecord)
        return TapeFile(
            path=Path(self.name),
            header=self.header,
            records=list(self.records),
            lines=list(range(2, len(self.records) + 2)),
            damage=list(self.damage),
            missing=self.missing,
            closed=closed,
            stacks=self.stacks,
        )


class Node(_File):
    """One node's log, imported: torch's events and log lines, no word of jobtape's own."""

    def __init__(self, host="node-a", pid=100, run_id="job", timed=True, skew=0.0):
        super().__init__(f"{host}-{pid}.jsonl", Header(role="import", run_id=run_id, host=host, source_file=f"{host}.log"))
        self.host, self.pid, self.run_id, self.timed, self.skew = host, pid, run_id, timed, skew
        self.group_rank = self.size = None
        self.world = None
        self.restarts = 0

    def at(self, t):
        """The time, where this log has any."""
        return t if self.timed else None

    def rdzv(self, t, message, state="RUNNING", trace="", rank=None):
        """Add an event of the rendezvous."""
        return self.add(
            RdzvRecord, self.at(t), name="dynamic_rendezvous.py:x", run_id=self.run_id, message=message, hostname=self.host,
            pid=self.pid, node_state=state, error_trace=trace, rank=rank, local_id=0, origin=self.origin(),
        )  # fmt: skip

    def origin(self):
        """Where the foreign line stood."""
        return f"{self.host}.log:{len(self.records) + 1}"

    def torch(self, t, state, source, inner=None, **fields):
        """Add one of torch's events."""
        metadata = {
            "run_id": self.run_id, "global_rank": None, "group_rank": self.group_rank, "worker_id": None, "role": "default",
            "hostname": self.host, "state": state, "total_run_time": 0, "rdzv_backend": "c10d", "raw_error": None,
            "metadata": json.dumps({"group_world_size": self.size, "entry_point": "python", **(inner or {})}),
            "agent_restarts": self.restarts, **fields,
        }  # fmt: skip
        return self.add(
            EventRecord, self.at(t), name=f"torchelastic.worker.status.{state}", source=source, metadata=metadata,
            origin=self.origin(),
        )  # fmt: skip

    def log(self, t, name, **metadata):
        """Add a log line."""
        return self.add(
            EventRecord, self.at(t), name=f"torchelastic.log.{name}", source="AGENT", metadata=metadata, origin=self.origin()
        )

    def join(self, t, round_=0, rank=0, size=1):
        """Join a rendezvous round."""
        node = f"{self.host}_{self.pid}_0"
        self.rdzv(t, f"The node '{node}' attempts to join the next round of the rendezvous '{self.run_id}'.")
        self.rdzv(t, f"The node '{node}' added itself to the participants of round {round_} of the rendezvous '{self.run_id}'. Pending sync.")
        self.rdzv(
            t, f"The node '{node}' has joined round {round_} of the rendezvous '{self.run_id}' as rank {rank} in a world of size {size}.",
            rank=rank,
        )  # fmt: skip
        self.group_rank, self.size = rank, size
        return self

    def start(self, t, ranks, pids, world=None, restarts=None):
        """Start workers."""
        self.world = world or self.world or len(ranks)
        self.restarts = self.restarts if restarts is None else restarts
        self.torch(t, "RENDEZVOUS", "AGENT", duration_ms=1.0)
        for local_rank, (rank, pid) in enumerate(zip(ranks, pids, strict=True)):
            inner = {"local_rank": [local_rank], "role_rank": [rank], "role_world_size": [self.world], "exit_code": [None]}
            self.torch(t, "START", "WORKER", inner, global_rank=rank, worker_id=str(pid))
        return self

    def beats(self, start, stop, every=5.0):
        """Send heartbeats."""
        t = start
        while t < stop:
            self.rdzv(t, f"The node '{self.host}_{self.pid}_0' has sent a keep-alive heartbeat to the rendezvous '{self.run_id}'.")
            t += every
        return self

    def stop(self, t, *pids, signal="SIGTERM"):
        """The agent stops workers."""
        for pid in pids:
            self.log(t, "signal_sent", pid=pid, signal=signal)
        return self

    def failed(self, t, local_rank, pid, code=1):
        """The agent names a failed worker."""
        return self.log(t, "worker_failed", local_rank=local_rank, pid=pid, exit_code=code, signal=None, entrypoint="python")

    def again(self, t, left, most=3):
        """The agent says that it will restart its workers."""
        self.log(t, "group_failed", role="default", state="FAILED", attempts_left=left, max_restarts=most)
        self.restarts += 1
        return self

    def ended(self, t, rank, pid, code=None, error=None, state="FAILED", local_rank=0):
        """torch's last word on a worker."""
        inner = {"local_rank": [local_rank], "role_rank": [rank], "role_world_size": [self.world], "exit_code": [code], "worker_pid": [pid]}
        raw = None if state == "SUCCEEDED" else error or NOTHING
        return self.torch(t, state, "WORKER", inner, global_rank=rank, worker_id=str(pid), raw_error=raw)

    def succeeded(self, t, ranks, pids):
        """All workers ended well, and the agent with them."""
        self.log(t, "group_succeeded", role="default")
        for rank, pid in zip(ranks, pids, strict=True):
            self.ended(t, rank, pid, state="SUCCEEDED")
        return self.agent(t)

    def agent(self, t, state="SUCCEEDED", raw=None):
        """`agent.run()` returned or raised."""
        return self.torch(t, state, "AGENT", raw_error=raw)

    def signalled(self, t, number=15):
        """The agent got a death signal."""
        self.log(t, "agent_signal", signal=f"SIG{'TERM' if number == 15 else 'INT'}")
        return self

    def signal_exception(self, t, number=15):
        """AGENT FAILED by a signal."""
        kind = "torch.distributed.elastic.multiprocessing.api.SignalException"
        return self.agent(t, "FAILED", f"{_trace()}{kind}: Process {self.pid} got signal: {number}\n")

    def rendezvous_error(self, t, kind):
        """Joining raised."""
        self.rdzv(t, f"{kind}: ", "FAILED", f"{_trace()}torch.distributed.elastic.rendezvous.api.{kind}\n")
        self.torch(t, "RENDEZVOUS", "AGENT", duration_ms=5.0)
        return self.agent(t, "FAILED", f"{_trace()}torch.distributed.elastic.rendezvous.api.{kind}\n")

    def wants(self, t, round_=0, how="participants"):
        """Begin to join a round that does not form."""
        node = f"{self.host}_{self.pid}_0"
        self.rdzv(t, f"The node '{node}' attempts to join the next round of the rendezvous '{self.run_id}'.")
        return self.rdzv(t, f"The node '{node}' added itself to the {how} of round {round_} of the rendezvous '{self.run_id}'. Pending sync.")


def _trace():
    return 'Traceback (most recent call last):\n  File "/venv/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 374, in launch_agent\n    result = agent.run()\n'


class Agent(_File):
    """An agent's live tape."""

    def __init__(self, host="node-a", pid=100, run_id="job", boot="boot-a", boot_s=5000.0, skew=0.0, start=0.0):
        super().__init__(f"{host}-{pid}.jsonl", None)
        self.boot_s, self.skew = boot_s, skew
        self.header = Header(
            role="agent", run_id=run_id, host=host, boot_id=boot, pid=pid, pid_start=pid * 10, **self.stamp(start)
        )
        self.host, self.pid, self.boot, self.run_id = host, pid, boot, run_id
        self.attempt = -1

    def own(self, t, name, **metadata):
        """Add one of jobtape's own events."""
        return self.event(f"jobtape.{name}", "AGENT", t, **metadata)

    def start(self, t, ranks, pids, round_=None, group_rank=0, size=1, world=None, restarts=None):
        """Start workers."""
        self.attempt += 1
        self.workers = dict(zip(pids, zip(ranks, range(len(ranks)), strict=True), strict=True))
        return self.own(
            t, "attempt.start", attempt=self.attempt, restart_count=self.attempt if restarts is None else restarts, round=round_,
            group_rank=group_rank, group_world_size=size, world_size=world or len(ranks), local_world_size=len(ranks), node=None,
            ranks=list(ranks), local_ranks=list(range(len(ranks))), pids=list(pids),
        )  # fmt: skip

    def _worker(self, pid):
        rank, local_rank = self.workers[pid]
        return {"attempt": self.attempt, "rank": rank, "local_rank": local_rank, "pid": pid}

    def exit(self, t, pid, code, stopped=False, oom_kills=None, core=False):
        """A worker ended."""
        return self.own(
            t, "worker.exit", **self._worker(pid), exit_code=code, signal=None, core_dumped=core, oom_kills=oom_kills, stopped=stopped
        )

    def stop(self, t, *pids, signal="SIGTERM", reason="failure"):
        """The agent stops workers; they end at once."""
        for pid in pids:
            self.own(t, "worker.stop", **self._worker(pid), signal=signal, reason=reason)
        for pid in pids:
            self.exit(t + 0.01, pid, -15 if signal == "SIGTERM" else -9, stopped=True)
        return self

    def ended(self, t, state="FAILED", failed=()):
        """All workers of the attempt have ended."""
        return self.own(t, "attempt.end", attempt=self.attempt, state=state, failed_ranks=list(failed))

    def membership(self, t, waiting=1):
        """Healthy workers are about to be restarted."""
        return self.own(t, "agent.membership", attempt=self.attempt, waiting=waiting)

    def close(self, t, outcome="failed", **error):
        """The launcher returns."""
        self.own(t, "launch.end", outcome=outcome, **error)
        return self.add(CloseRecord, t, reason="launch_end", recorded=len(self.records), lost=0)

    def worker(self, pid, restarts=None, start=None, **ranks):
        """The tape of one of its workers."""
        rank, local_rank = self.workers[pid]
        return Worker(
            self.host, pid, self.run_id, self.boot, self.boot_s, start if start is not None else 0.5, parent_pid=self.pid, skew=self.skew,
            RANK=rank, LOCAL_RANK=local_rank, TORCHELASTIC_RESTART_COUNT=self.attempt if restarts is None else restarts, **ranks,
        )  # fmt: skip


class Worker(_File):
    """A worker's live tape."""

    def __init__(self, host="node-a", pid=1, run_id="job", boot="boot-a", boot_s=5000.0, start=0.0, parent_pid=1, skew=0.0, **ranks):
        super().__init__(f"{host}-{pid}.jsonl", None)
        self.boot_s, self.skew = boot_s, skew
        self.header = Header(
            role="worker", run_id=run_id, host=host, boot_id=boot, pid=pid, pid_start=pid * 10, parent_pid=parent_pid,
            ranks={name: str(value) for name, value in ranks.items()}, **self.stamp(start),
        )  # fmt: skip

    def error(self, t, kind, message, location="/srv/train.py:12", name="error", **more):
        """An uncaught exception."""
        path, _, line = location.rpartition(":")
        trace = f'Traceback (most recent call last):\n  File "{path}", line {line}, in main\n    step()\n{kind}: {message}\n'
        return self.event(
            f"jobtape.worker.{name}", "WORKER", t, error_type=kind, message=message, traceback=trace, location=location, **more
        )

    def exit_call(self, t, code, call="sys.exit", location="/srv/train.py:30", message=None):
        """The worker ends itself."""
        stack = f'  File "{location.rpartition(":")[0]}", line {location.rpartition(":")[2]}, in main\n    leave()\n'
        return self.event(
            "jobtape.worker.exit_call", "WORKER", t, call=call, code=code, message=message, location=location, stack=stack
        )

    def close(self, t):
        """The interpreter shuts down."""
        return self.add(CloseRecord, t, reason="exit", recorded=len(self.records), lost=0)

    def stood(self, *frames, fatal=None):
        """What faulthandler wrote: the innermost frame first."""
        lines = "".join(f'  File "{path}", line {line} in {name}\n' for path, line, name in frames)
        head = f"Fatal Python error: {fatal}\n\n" if fatal else ""
        self.stacks = f"{head}Current thread 0x00007f0000000000 (most recent call first):\n{lines}"
        return self


def damaged(node, *lines):
    """A file with lines that could not be read."""
    node.damage = [Damage(line, "not a record") for line in lines]
    return node
