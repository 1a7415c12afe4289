"""What an agent leaves behind, line by line, for jobs that tests import; and what jobtape answers about them.

Shapes and texts are torch's (2.1 to 2.14). Time is told in seconds since `ORIGIN`. A log is written in one of four
styles: ``time`` (bare records with an arrival time), ``glog`` and ``bracket`` (torch's prefixes), ``bare`` (no times).
"""

import json
from datetime import datetime, timezone

from jobtape.diagnose.model import to_json
from jobtape.diagnose.reconstruct import diagnose
from jobtape.importers import import_files
from jobtape.tape.shelf import find_run, read_run

ORIGIN = datetime(2026, 4, 9, 8, 0, tzinfo=timezone.utc).timestamp()
AGENT_API = "agent/server/api.py"
PROCESS_API = "multiprocessing/api.py"
SITE = "/opt/venv/lib/python3.11/site-packages/torch/distributed"
PEER_CLOSED = "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.1.0.7]:40113"
WATCHDOG = (
    "[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=77, OpType=ALLREDUCE, NumelIn=512, "
    "NumelOut=512, Timeout(ms)=600000) ran for 600021 milliseconds before timing out."
)


def moment(t):
    """The wall time of a moment, in UTC."""
    return datetime.fromtimestamp(ORIGIN + t, timezone.utc)


def iso(t):
    """A moment as `why --json` writes it."""
    return f"{moment(t):%Y-%m-%dT%H:%M:%S}.{moment(t).microsecond // 1000:03d}Z"


def seconds_of(text):
    """Seconds since `ORIGIN` of a time in an answer."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() - ORIGIN


def error_file(kind, message, t, path="/srv/train.py", line=41):
    """What torch keeps of a worker's error file: whole seconds."""
    trace = (
        f'Traceback (most recent call last):\n  File "{path}", line {line}, in main\n    step()\n{kind}: {message}\n'
    )
    extra = {"py_callstack": trace, "timestamp": str(int(ORIGIN + t))}
    return json.dumps({"message": {"message": f"{kind}: {message}", "extraInfo": extra}})


def signal_error(pid, number):
    """What torch records of an agent that a signal ended."""
    return (
        f'Traceback (most recent call last):\n  File "{SITE}/launcher/api.py", line 374, in launch_agent\n'
        "    result = agent.run()\n"
        f"torch.distributed.elastic.multiprocessing.api.SignalException: Process {pid} got signal: {number}\n"
    )


class AgentLog:
    """The records and log lines of one agent."""

    def __init__(self, host="node-a", pid=4100, run_id="job-1", style="glog", clock_s=0.0, restarts=0):
        self.host, self.pid, self.run_id, self.style = host, pid, run_id, style
        self.clock_s = clock_s
        self.restarts = restarts
        self.group_rank, self.nodes, self.world_size = 0, 1, 0
        self.pids = {}
        self.lines = []

    def raw(self, *lines):
        """Lines as they are."""
        self.lines += lines
        return self

    def record(self, t, fields, channel="torchelastic-events-cap"):
        """A record, with its time in the log's style."""
        text = json.dumps(fields)
        if self.style == "time":
            text = json.dumps({**fields, "time": round(ORIGIN + t + self.clock_s, 4)})
        elif self.style != "bare":
            text = self._prefix(t, "I", "events/__init__.py:70", channel) + text
        return self.raw(text)

    def log(self, t, text, level="W", file=f"{PROCESS_API}:1028"):
        """A line of the agent's log."""
        if self.style == "bare":
            module = file.partition(":")[0].removesuffix(".py").replace("/", ".")
            return self.raw(f"{_LEVELS[level]}:torch.distributed.elastic.{module}:{text}")
        return self.raw(self._prefix(t, level, file, None) + text)

    def _prefix(self, t, level, file, channel):
        when = moment(t + self.clock_s)
        if self.style == "bracket":
            name = channel or "torch.distributed.elastic." + file.partition(":")[0].removesuffix(".py").replace(
                "/", "."
            )
            return f"[{when:%Y-%m-%d %H:%M:%S},{when.microsecond // 1000:03d}] {name}: [{_LEVELS[level]}] "
        return f"{level}{when:%m%d %H:%M:%S.%f} {self.pid} torch/distributed/elastic/{file}] "

    def rdzv(self, t, message, state="RUNNING", trace="", rank=None, method="DynamicRendezvousHandler.next_rendezvous"):
        """A record of the rendezvous."""
        fields = {"name": f"dynamic_rendezvous.py:{method}", "run_id": self.run_id, "message": message}
        fields |= {"hostname": self.host, "pid": self.pid, "node_state": state, "master_endpoint": ""}
        fields |= {"rank": rank, "local_id": 0, "error_trace": trace}
        return self.record(t, fields, "torchelastic-events-dynamic_rendezvous")

    @property
    def node(self):
        """The node's descriptor in the rendezvous."""
        return f"{self.host}_{self.pid}_0"

    def event(self, t, state, source="AGENT", rank=None, pid=None, raw_error=None, inner=None, **more):
        """One of torch's events."""
        metadata = {"run_id": self.run_id, "global_rank": rank, "group_rank": self.group_rank}
        metadata |= {"worker_id": None if pid is None else str(pid), "role": "default", "hostname": self.host}
        metadata |= {"state": state, "total_run_time": int(t), "rdzv_backend": "c10d", "raw_error": raw_error}
        known = {"group_world_size": self.nodes, "entry_point": "python", **(inner or {})}
        metadata |= {"metadata": json.dumps(known), "agent_restarts": self.restarts, "duration_ms": None, **more}
        name = f"torchelastic.worker.status.{state}"
        return self.record(t, {"name": name, "source": source, "timestamp": 0, "metadata": metadata})

    def waits(self, t, round_):
        """The agent begins to join a round."""
        self.rdzv(t, f"The node '{self.node}' attempts to join the next round of the rendezvous '{self.run_id}'.")
        said = f"The node '{self.node}' added itself to the participants of round {round_} of the rendezvous"
        method = "_DistributedRendezvousOpExecutor._add_to_participants"
        return self.rdzv(t + 0.02, f"{said} '{self.run_id}'. Pending sync.", method=method)

    def joins(self, t, round_=0, group_rank=0, nodes=1, took_s=0.3):
        """The agent joins a round that is complete at `t`."""
        self.waits(t - took_s, round_)
        self.group_rank, self.nodes = group_rank, nodes
        said = f"has joined round {round_} of the rendezvous '{self.run_id}' as rank {group_rank}"
        self.rdzv(t, f"The node '{self.node}' {said} in a world of size {nodes}.", rank=group_rank)
        self.event(t + 0.002, "RENDEZVOUS", duration_ms=took_s * 1000 + 2)
        return self.event(t + 0.004, "ASSIGN_WORKER_RANKS", duration_ms=0.5)

    def starts(self, t, ranks, world_size=None, first_pid=None):
        """Workers of these ranks are started."""
        self.world_size = world_size or max(ranks) + 1
        first = first_pid or (max(self.pids.values(), default=self.pid) + 10)
        self.pids = {rank: first + number for number, rank in enumerate(ranks)}
        for number, (rank, pid) in enumerate(self.pids.items()):
            self.event(t + 0.001 * number, "START", "WORKER", rank, pid, inner=self._place(rank, None))
        return self

    def attempt(self, t, ranks, round_=0, group_rank=0, nodes=1, world_size=None, took_s=0.3):
        """Join a round and start workers."""
        self.joins(t, round_, group_rank, nodes, took_s)
        return self.starts(t + 0.01, ranks, world_size)

    def _place(self, rank, code):
        local = list(self.pids).index(rank)
        place = {"local_rank": [local], "role_rank": [rank], "role_world_size": [self.world_size]}
        return {**place, "exit_code": [code], "worker_pid": [self.pids[rank] if code is not None else None]}

    def beats(self, begin, end, every=5.0):
        """Heartbeats."""
        for number in range(int((end - begin) / every) + 1):
            said = f"The node '{self.node}' has sent a keep-alive heartbeat to the rendezvous '{self.run_id}'."
            self.rdzv(begin + number * every, said, method="DynamicRendezvousHandler._keep_alive")
        return self

    def stops(self, t, *ranks, signal="SIGTERM"):
        """The agent sends workers a signal."""
        for number, rank in enumerate(ranks):
            self.log(t + 0.002 * number, f"Sending process {self.pids[rank]} closing signal {signal}")
        return self

    def names(self, t, rank, code):
        """The agent names the worker that failed."""
        local = list(self.pids).index(rank)
        said = f"failed (exitcode: {code}) local_rank: {local} (pid: {self.pids[rank]}) of binary: /opt/venv/bin/python"
        return self.log(t, said, "E", f"{PROCESS_API}:1002")

    def will_restart(self, t, left, limit):
        """The agent says that it restarts its workers."""
        said = f"[default] Worker group FAILED. {left}/{limit} attempts left; will restart worker group"
        self.restarts += 1
        return self.log(t, said, "I", f"{AGENT_API}:942")

    def fails(self, t, rank, code=1, others=(), left=3, limit=3, restart=True):
        """A worker fails and the agent notices at `t`: it stops the others, names it, and may restart."""
        self.stops(t, *others)
        self.names(t + 0.04, rank, code)
        return self.will_restart(t + 0.05, left, limit) if restart else self

    def ends(self, t, states):
        """The workers' last states: rank -> (state, exit code, error file or None)."""
        for number, (rank, (state, code, error)) in enumerate(states.items()):
            raw = error or (None if state == "SUCCEEDED" else '{"message": "<NONE>"}')
            where = self._place(rank, code)
            self.event(t + 0.001 * number, state, "WORKER", rank, self.pids[rank], raw, where)
        return self

    def succeeds(self, t):
        """All workers end well, and so does the agent."""
        self.log(
            t, "[default] worker group successfully finished. Waiting 300 seconds for other agents to finish.", "I"
        )
        self.ends(t + 0.01, dict.fromkeys(self.pids, ("SUCCEEDED", 0, None)))
        return self.event(t + 0.05, "SUCCEEDED")

    def returns(self, t):
        """`agent.run()` returned, whatever became of the workers."""
        return self.event(t, "SUCCEEDED")

    def signalled(self, t, number=15):
        """The agent gets a death signal, stops its workers and gives up."""
        self.log(t, f"Received {number} death signal, shutting down workers", file=f"{AGENT_API}:753")
        self.stops(t + 0.01, *self.pids)
        return self.event(t + 0.5, "FAILED", raw_error=signal_error(self.pid, number))

    def raises(self, t, kind, module="torch.distributed.elastic.rendezvous.api", message="", place="run"):
        """`agent.run()` raised an error."""
        text = f"{module}.{kind}" + (f": {message}" if message else "")
        trace = f'Traceback (most recent call last):\n  File "{SITE}/launcher/api.py", line 374, in launch_agent\n'
        trace += "    result = agent.run()\n"
        trace += f'  File "{SITE}/elastic/rendezvous/dynamic_rendezvous.py", line 680, in {place}\n'
        self.rdzv(t, f"{kind}: {message}", "FAILED", trace + f"    raise {kind}\n{text}\n")
        return self.event(t + 0.01, "FAILED", raw_error=f"{trace}{text}\n")

    def membership(self, t, waiting=1):
        """The agent notices newcomers and stops its healthy workers."""
        said = f"[default] Detected {waiting} new nodes from group_rank={self.group_rank}; will restart worker group"
        self.log(t, said, "I", f"{AGENT_API}:962")
        return self.stops(t + 0.02, *self.pids)


_LEVELS = {"I": "INFO", "W": "WARNING", "E": "ERROR"}


def asked(tmp_path, *logs, run_id="job-1", names=None):
    """Import the logs, a file each, and ask why; the whole answer as a value."""
    paths = []
    for number, log in enumerate(logs):
        path = tmp_path / (names[number] if names else f"{number}-{log.host}.log")
        path.write_text("".join(line + "\n" for line in log.lines), encoding="utf-8")
        paths.append(path)
    shelf = tmp_path / "shelf"
    import_files(paths, shelf, "UTC")
    return diagnose(read_run(find_run(shelf, run_id)), run_id=run_id)


def why(tmp_path, *logs, run_id="job-1", names=None):
    """What `jobtape why RUN --json` answers about these logs."""
    return to_json(asked(tmp_path, *logs, run_id=run_id, names=names))


def in_one_file(host, *logs):
    """Several agents' lines in one file, one after the other."""
    joined = AgentLog(host)
    for log in logs:
        joined.lines += log.lines
    return joined


def causes(answer):
    """Kind and rank of what ended each attempt."""
    return [a["cause"] and (a["cause"]["kind"], a["cause"]["rank"]) for a in answer["attempts"]]


def outcomes(answer):
    """The outcome of each attempt."""
    return [attempt["outcome"] for attempt in answer["attempts"]]


def roles(attempt):
    """The role of each rank of an attempt."""
    return {rank["rank"]: rank["role"] for rank in attempt["ranks"]}


def restarts(answer):
    """Failure, membership and preemption restarts."""
    return tuple(answer["restarts"][kind] for kind in ("failure", "membership", "preemption"))


def warning_kinds(answer):
    """The kinds of the warnings."""
    return {warning["kind"] for warning in answer["warnings"]}
