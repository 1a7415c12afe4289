"""Jobs in a few words: tape files as the importer makes them; `tests.diagnose.live` has those of running jobs.

Time is told in seconds since `T0`; ``None`` leaves it out. Each method adds records to one file and gives the file
back, so that a node's life reads as a chain.
"""

import json
from pathlib import Path

from jobtape.diagnose.model import to_json
from jobtape.diagnose.reconstruct import diagnose
from jobtape.tape.reader import Damage, TapeFile
from jobtape.tape.records import CloseRecord, EventRecord, Header, LossRecord, RdzvRecord

T0 = 1_772_305_500
"""Where all these jobs begin: 2026-02-28 19:05:00 UTC."""

PEER_CLOSED = (
    "[transport/tcp/pair.cc:553] Connection closed by peer [10.4.0.12]:23811. A remote worker has probably crashed."
)
WATCHDOG = (
    "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=918, OpType=ALLREDUCE, "
    "Timeout(ms)=1800000) ran for 1800041 milliseconds before timing out."
)


def answer(*nodes, alive=(), run_id=None):
    """What `why --json` says about these files."""
    return to_json(diagnosed(*nodes, alive=alive, run_id=run_id))


def diagnosed(*nodes, alive=(), run_id=None):
    """The whole answer about these files, with what only the views show."""
    return diagnose([node.file() for node in nodes], alive=frozenset(alive), run_id=run_id)


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


class File:
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


class Node(File):
    """One node's log, imported: torch's events and log lines, no word of jobtape's own."""

    def __init__(self, host="node-a", pid=100, run_id="job", timed=True, skew=0.0):
        super().__init__(
            f"{host}-{pid}.jsonl", Header(role="import", run_id=run_id, host=host, source_file=f"{host}.log")
        )
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
            RdzvRecord,
            self.at(t),
            name="dynamic_rendezvous.py:x",
            run_id=self.run_id,
            message=message,
            hostname=self.host,
            pid=self.pid,
            node_state=state,
            error_trace=trace,
            rank=rank,
            local_id=0,
            origin=self.origin(),
        )

    def says(self, t, what, state="RUNNING", end=".", rank=None):
        """Add one of the sentences that the rendezvous says of this node."""
        node = f"{self.host}_{self.pid}_0"
        return self.rdzv(t, f"The node '{node}' {what} the rendezvous '{self.run_id}'{end}", state, rank=rank)

    def origin(self):
        """Where the foreign line stood."""
        return f"{self.host}.log:{len(self.records) + 1}"

    def torch(self, t, state, source, inner=None, **fields):
        """Add one of torch's events."""
        metadata = {
            "run_id": self.run_id,
            "global_rank": None,
            "group_rank": self.group_rank,
            "worker_id": None,
            "role": "default",
            "hostname": self.host,
            "state": state,
            "total_run_time": 0,
            "rdzv_backend": "c10d",
            "raw_error": None,
            "metadata": json.dumps({"group_world_size": self.size, "entry_point": "python", **(inner or {})}),
            "agent_restarts": self.restarts,
            **fields,
        }
        return self.add(
            EventRecord,
            self.at(t),
            name=f"torchelastic.worker.status.{state}",
            source=source,
            metadata=metadata,
            origin=self.origin(),
        )

    def log(self, t, name, **metadata):
        """Add a log line."""
        return self.add(
            EventRecord,
            self.at(t),
            name=f"torchelastic.log.{name}",
            source="AGENT",
            metadata=metadata,
            origin=self.origin(),
        )

    def join(self, t, round_=0, rank=0, size=1):
        """Join a rendezvous round."""
        self.says(t, "attempts to join the next round of")
        self.says(t, f"added itself to the participants of round {round_} of", end=". Pending sync.")
        end = f" as rank {rank} in a world of size {size}."
        self.says(t, f"has joined round {round_} of", end=end, rank=rank)
        self.group_rank, self.size = rank, size
        return self

    def start(self, t, ranks, pids, world=None, restarts=None):
        """Start workers."""
        self.world = world or self.world or len(ranks)
        self.restarts = self.restarts if restarts is None else restarts
        self.torch(t, "RENDEZVOUS", "AGENT", duration_ms=1.0)
        for local_rank, (rank, pid) in enumerate(zip(ranks, pids, strict=True)):
            inner = {
                "local_rank": [local_rank],
                "role_rank": [rank],
                "role_world_size": [self.world],
                "exit_code": [None],
            }
            self.torch(t, "START", "WORKER", inner, global_rank=rank, worker_id=str(pid))
        return self

    def beats(self, start, stop, every=5.0):
        """Send heartbeats."""
        t = start
        while t < stop:
            self.says(t, "has sent a keep-alive heartbeat to")
            t += every
        return self

    def stop(self, t, *pids, signal="SIGTERM"):
        """The agent stops workers."""
        for pid in pids:
            self.log(t, "signal_sent", pid=pid, signal=signal)
        return self

    def failed(self, t, local_rank, pid, code=1):
        """The agent names a failed worker."""
        return self.log(
            t, "worker_failed", local_rank=local_rank, pid=pid, exit_code=code, signal=None, entrypoint="python"
        )

    def again(self, t, left, most=3):
        """The agent says that it will restart its workers."""
        self.log(t, "group_failed", role="default", state="FAILED", attempts_left=left, max_restarts=most)
        self.restarts += 1
        return self

    def ended(self, t, rank, pid, code=None, error=None, state="FAILED", local_rank=0):
        """torch's last word on a worker."""
        inner = {
            "local_rank": [local_rank],
            "role_rank": [rank],
            "role_world_size": [self.world],
            "exit_code": [code],
            "worker_pid": [pid],
        }
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
        self.says(t, "attempts to join the next round of")
        return self.says(t, f"added itself to the {how} of round {round_} of", end=". Pending sync.")


def _trace():
    path = "/venv/lib/python3.11/site-packages/torch/distributed/launcher/api.py"
    frame = f'  File "{path}", line 374, in launch_agent\n    result = agent.run()\n'
    return f"Traceback (most recent call last):\n{frame}"


def damaged(node, *lines):
    """A file with lines that could not be read."""
    node.damage = [Damage(line, "not a record") for line in lines]
    return node
