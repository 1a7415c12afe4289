"""Jobs on hosts whose clocks are off and drift, with the truth known: what torch's agents would have recorded.

Everything happens in true seconds since `T0`; each host writes down what its own clock says. The rendezvous goes as in
torch's ``dynamic_rendezvous.py``: a node adds itself, renews its heartbeat every 5 s while it waits, looks once a
second, and sees the round complete later than it was; the last to come marks it complete.
"""

from dataclasses import dataclass, field

from tests.diagnose.lab import PEER_CLOSED, T0, Node, answer, raised
from tests.diagnose.live import Agent, Worker

POLL_S = 1.0
BEAT_S = 5.0


@dataclass
class Host:
    """One host: how its clock is off, and how slow it is.

    Attributes:
        skew_s: by how much its clock is ahead at the beginning, and ``drift`` by which share it runs fast.
        arrives_s: how long after the first a round begins for it.
        phase: which part of a second it looks at the store.
        pause_s: for how long it stands still when it should join.
    """

    skew_s: float = 0.0
    drift: float = 0.0
    arrives_s: float = 0.0
    phase: float = 0.0
    pause_s: float = 0.0

    def wall(self, t):
        """What its clock says, in seconds since `T0`."""
        return t + self.drift * t + self.skew_s


@dataclass
class Job:
    """A job of one rank a host.

    Attributes:
        gaps_s: how long the workers of each attempt run.
        latency_s: what the store takes to answer.
        waits: whether agents meet at the store for the ranks of their workers: where these are alike they need not.
        alike: whether all failures have the same words.
        met: when they last met in each round, once it has been simulated.
        fails: in the last attempt, by rank: how long after its beginning it fails of its own cause.
    """

    hosts: list[Host]
    gaps_s: list[float]
    fails: dict[int, float]
    latency_s: float = 0.01
    live: bool = True
    waits: bool = True
    alike: bool = False
    met: list[float] = field(default_factory=list)

    @property
    def first(self):
        """The rank that failed first."""
        return min(self.fails, key=self.fails.__getitem__)

    def said(self):
        """What `why --json` says about it."""
        nodes = [self._node(number) for number in range(len(self.hosts))]
        now = 0.0
        for attempt, gap_s in enumerate(self.gaps_s):
            begun = self._round(nodes, attempt, now)
            now = begun + gap_s
            if attempt < len(self.gaps_s) - 1:
                for node in nodes:
                    self._restart(node, now)
        return answer(*[file for rank, node in enumerate(nodes) for file in self._end(node, rank, begun)])

    def _node(self, number):
        host = self.hosts[number]
        if self.live:
            return _LiveNode(f"node-{number}", 100 + number, host)
        return _LoggedNode(f"node-{number}", 100 + number, host)

    def _round(self, nodes, attempt, now):
        """One rendezvous; returns when the workers were started."""
        came = [now + 0.05 + host.arrives_s for host in self.hosts]
        last = max(range(len(nodes)), key=came.__getitem__)
        complete = came[last] + 0.004 + self.latency_s
        joined = []
        for number, (node, host) in enumerate(zip(nodes, self.hosts, strict=True)):
            says = node.says
            says(came[number] - 0.04, "attempts to join the next round of")
            says(came[number], f"added itself to the participants of round {attempt} of", end=". Pending sync.")
            self._beat(says, came[number] + 0.002)
            if number == last:
                says(came[number] + 0.003, f"marked round {attempt} of", "SUCCEEDED", "' as complete. Pending sync.")
            says(complete if number == last else came[number] + 0.003 + self.latency_s, SYNCED)
            beat = came[number] + BEAT_S
            while number != last and beat + 2 * self.latency_s < complete:
                self._beat(says, beat)
                says(beat + self.latency_s, SYNCED)
                beat += BEAT_S + 0.01
            late = 0.0 if number == last else host.phase * POLL_S + self.latency_s
            joined.append(complete + late + host.pause_s + 0.001)
            end = f" as rank {number} in a world of size {len(nodes)}."
            says(joined[number], f"has joined round {attempt} of", end=end, rank=number)
        ranked = [max(joined) + self.latency_s if self.waits else moment for moment in joined]
        begun = 0.0
        for number, node in enumerate(nodes):
            node.torch(joined[number] + 0.001, "RENDEZVOUS", "AGENT", duration_ms=1.0)
            ranked_at = ranked[number] + 0.002
            node.torch(ranked_at, "ASSIGN_WORKER_RANKS", "AGENT", duration_ms=1.0)
            node.begin(ranked_at + 0.02, number, attempt, len(nodes))
            begun = max(begun, ranked_at + 0.02)
        self.met.append(max(ranked))
        return begun

    def _beat(self, says, t):
        says(t, "updated its keep-alive heartbeat time for", end="'. Pending sync.")

    def _restart(self, node, t):
        node.restart(t)

    def _end(self, node, rank, begun):
        if rank in self.fails:
            return node.fail(begun + self.fails[rank], rank, "cause" if self.alike else f"cause {rank}")
        return node.lose_peer(begun + min(self.fails.values()) + 0.05, rank)


SYNCED = "has successfully synced its local changes with other nodes in"


class _LoggedNode(Node):
    """An imported log."""

    def __init__(self, name, pid, host):
        super().__init__(name, pid)
        self.clock = host

    def stamp(self, t):
        """Its host's own time, in whole milliseconds as logs have it."""
        return {"time_ns": int((T0 + self.clock.wall(t)) * 1000) * 1_000_000, "mono_ns": None}

    def begin(self, t, rank, attempt, size):
        """Workers are started."""
        self.group_rank, self.size, self.world = rank, size, size
        inner = {"local_rank": [0], "role_rank": [rank], "role_world_size": [size], "exit_code": [None]}
        self.torch(t, "START", "WORKER", inner, global_rank=rank, worker_id=str(1000 + attempt))
        self.worker_pid = 1000 + attempt

    def restart(self, t):
        """The workers are restarted for a new node."""
        self.log(t, "membership", waiting=1)
        self.stop(t + 0.01, self.worker_pid)

    def fail(self, t, rank, cause):
        """Its worker fails of its own cause; the agent sees it within its monitor interval."""
        error = raised("ValueError", cause, at=self.clock.wall(t))
        return [self.ended(t + 0.1, rank, self.worker_pid, 1, error).agent(t + 0.2)]

    def lose_peer(self, t, rank):
        """Its worker fails because another one has."""
        error = raised("RuntimeError", PEER_CLOSED, at=self.clock.wall(t))
        return [self.ended(t + 0.1, rank, self.worker_pid, 1, error).agent(t + 0.2)]


class _LiveNode(Agent):
    """A live tape and its worker's."""

    # The words of torch's own events are the same on both kinds of tape.
    says, rdzv, torch, at, timed, origin = Node.says, Node.rdzv, Node.torch, Node.at, True, Node.origin
    group_rank = size = None
    restarts = 0

    def __init__(self, name, pid, host):
        self.clock = host
        super().__init__(name, pid, boot=f"boot-{name}", boot_s=5000.0 + pid)

    def stamp(self, t):
        """Its host's wall clock and the monotonic clock of its boot: both drift, and only the first one is off."""
        return _stamp(self, t)

    def begin(self, t, rank, attempt, size):
        """Workers are started."""
        self.worker_pid = 1000 + attempt
        self.start(t, [rank], [self.worker_pid], round_=attempt, group_rank=rank, size=size, world=size, restarts=0)

    def restart(self, t):
        """The workers are restarted for a new node."""
        self.membership(t).stop(t + 0.01, self.worker_pid, reason="membership")

    def fail(self, t, rank, cause):
        """Its worker fails of its own cause."""
        return self._die(t, rank, "ValueError", cause)

    def lose_peer(self, t, rank):
        """Its worker fails because another one has."""
        return self._die(t, rank, "RuntimeError", PEER_CLOSED)

    def _die(self, t, rank, kind, message):
        worker = _LiveWorker(self, t - 0.5, rank)
        self.exit(t + 0.1, self.worker_pid, 1).ended(t + 0.2, failed=[rank]).close(t + 0.3)
        return [self, worker.error(t, kind, message).close(t + 0.05)]


class _LiveWorker(Worker):
    def __init__(self, agent, start, rank):
        self.clock = agent.clock
        super().__init__(
            agent.host,
            agent.worker_pid,
            boot=agent.boot,
            boot_s=agent.boot_s,
            start=start,
            parent_pid=agent.pid,
            RANK=rank,
            LOCAL_RANK=0,
            TORCHELASTIC_RESTART_COUNT=0,
        )

    def stamp(self, t):
        return _stamp(self, t)


def _stamp(file, t):
    mono_s = t + file.clock.drift * t + file.boot_s
    return {"time_ns": round((T0 + file.clock.wall(t)) * 1e9), "mono_ns": round(mono_s * 1e9)}
