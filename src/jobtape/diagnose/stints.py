"""How an agent's stints and workers come about: what both kinds of record have in common.

`torch_records`, `log_records` and `own_records` each say in their own words that workers were started, failed, were
stopped, or ended; all of them say it to these functions. None of them raises, whatever order the facts come in.
"""

from __future__ import annotations

from typing import Any

from jobtape.diagnose.facts import Agent, Clock, Point, Stint, Worker, as_count, indexed, signal_name
from jobtape.diagnose.failure_text import FailureText

FROM_OUTPUT, FROM_SUMMARY, FROM_ERROR_FILE, FROM_ITSELF = 1, 2, 3, 4
"""Sources of an error's text by worth: what was printed, torchrun's closing block, the error file, its own tape."""


class Cast:
    """The agents of one tape file, and which of them a record is about.

    A live tape is one agent's. An imported file may hold several: one after the other where an agent was replaced, or
    side by side where somebody collected all nodes in one file.
    """

    def __init__(self, file: str, host: str, fixed: Agent | None = None) -> None:
        self.file = file
        self.host = host
        self.fixed = fixed
        self.agents: list[Agent] = [fixed] if fixed is not None else []
        self.current: Agent | None = fixed
        self._by_key: dict[tuple[str, int], Agent] = {}
        self._by_host: dict[str, Agent] = {}

    def by_process(self, host: str, pid: int) -> Agent:
        """The agent that is this process of this host."""
        if self.fixed is not None:
            return self.fixed
        agent = self._by_key.get((host, pid))
        if agent is None and not host and pid > 0:
            # A damaged record has lost its host: it is no other agent.
            agent = next((each for each in reversed(self.agents) if each.pid == pid), None)
        if agent is None:
            if pid <= 0:
                return self.by_host(host)
            agent = self._by_host.get(host or self.host)
            if agent is None or agent.pid is not None:
                agent = self._new(host or self.host)
            agent.pid = pid
            self._by_key[host, pid] = agent
        self._by_host[agent.host] = agent
        self.current = agent
        return agent

    def by_host(self, host: str | None, group_rank: int | None = None) -> Agent:
        """The agent of a host that spoke last; of several at the same time the one with that group rank."""
        if self.fixed is not None:
            return self.fixed
        if not host:
            host = self.current.host if self.current is not None else self.host
        agent = self._by_host.get(host) or self._new(host)
        if group_rank is not None and _group_rank(agent) not in (None, group_rank):
            agent = next((a for a in reversed(self.agents) if a.host == host and _group_rank(a) == group_rank), agent)
        self.current = agent
        return agent

    def known(self, host: str | None) -> Agent | None:
        """The agent of a host that spoke last, if there is one; without a host, the one that spoke last of all."""
        if self.fixed is not None:
            return self.fixed
        return self._by_host.get(host, None if len(self._by_host) > 1 else self.current) if host else self.current

    def by_worker(self, pid: int | None, agent_pid: int | None = None) -> Agent | None:
        """The agent that has that process id itself, or started that worker; else the one that spoke last."""
        if self.fixed is not None:
            return self.fixed
        if agent_pid is not None:
            for agent in reversed(self.agents):
                if agent.pid == agent_pid:
                    return agent
        if pid is not None and (self.current is None or pid not in self.current.by_pid):
            for agent in reversed(self.agents):
                if pid in agent.by_pid:
                    return agent
        return self.current

    def successor(self, agent: Agent) -> Agent:
        """The agent after one that has ended, on the same host, where nothing tells them apart but that."""
        if self.fixed is not None:
            return self.fixed
        self.current = self._new(agent.host)
        if agent.pid is not None:
            # A container gives the next agent the same process id.
            self.current.pid = agent.pid
            self._by_key[agent.host, agent.pid] = self.current
        return self.current

    def _new(self, host: str) -> Agent:
        agent = Agent(file=self.file, host=host, clock=Clock("wall", host))
        self.agents.append(agent)
        self._by_host[host] = agent
        return agent


def _group_rank(agent: Agent) -> int | None:
    stint = agent.current
    return stint.group_rank if stint is not None else None


def open_stint(agent: Agent, point: Point) -> Stint:
    """The agent begins anew: what it did before is over."""
    if agent.current is not None:
        agent.current.over = True
    stint = Stint(number=len(agent.stints), opened=point)
    agent.stints.append(stint)
    return stint


def joining(agent: Agent, point: Point) -> Stint:
    """The agent begins to join a rendezvous."""
    stint = agent.current
    if stint is None or stint.over or stint.workers or stint.joined is not None:
        return open_stint(agent, point)
    return stint


def stint_in_progress(agent: Agent, point: Point) -> Stint:
    """The stint that a fact about the agent's group belongs to."""
    return agent.current or open_stint(agent, point)


def start_worker(
    agent: Agent,
    point: Point,
    *,
    rank: int | None,
    local_rank: int | None,
    pid: int | None,
    restart_count: int | None = None,
) -> tuple[Stint, Worker]:
    """A worker was started; opens a stint when it cannot be one of the stint in progress."""
    stint = agent.current
    if pid is not None and pid in agent.by_pid:
        known_stint, known = agent.by_pid[pid]
        repeated = known.rank == rank and restart_count is not None and known_stint.restart_count == restart_count
        if repeated or (known_stint is stint and known.rank in (None, rank)):
            known.start = known.start or point
            _learn(known_stint, known, rank, local_rank)
            return known_stint, known
    if stint is None or stint.over or _is_of_another(stint, rank, restart_count):
        stint = open_stint(agent, point)
    worker = Worker(rank=rank, local_rank=local_rank, pid=pid, start=point)
    stint.workers.append(worker)
    stint.note(worker)
    stint.started = stint.started or point
    if restart_count is not None:
        stint.restart_count = restart_count
    if pid is not None:
        agent.by_pid[pid] = (stint, worker)
    return stint, worker


def _learn(stint: Stint, worker: Worker, rank: int | None, local_rank: int | None) -> None:
    """Keep what becomes known of a worker's ranks."""
    new_rank = worker.rank is None and rank is not None
    new_local_rank = worker.local_rank is None and local_rank is not None
    if new_rank or new_local_rank:
        worker.rank = rank if new_rank else worker.rank
        worker.local_rank = local_rank if new_local_rank else worker.local_rank
        stint.note(worker)


def _is_of_another(stint: Stint, rank: int | None, restart_count: int | None) -> bool:
    """Whether a worker of that rank cannot have been started in this stint."""
    if not stint.workers:
        return False
    if restart_count is not None and stint.restart_count is not None and restart_count != stint.restart_count:
        return True
    alike = indexed(stint.ranked(), rank)
    return any(worker.rank == rank and worker.start is not None for worker in alike)


def find_worker(
    agent: Agent,
    point: Point,
    *,
    rank: int | None = None,
    local_rank: int | None = None,
    pid: int | None = None,
    attempt_id: int | None = None,
) -> tuple[Stint, Worker]:
    """The worker a fact is about; one that is not known yet is added to the stint in progress."""
    if pid is not None and pid in agent.by_pid:
        stint, worker = agent.by_pid[pid]
        if (rank is None or worker.rank in (None, rank)) and attempt_id in (None, stint.attempt_id):
            # It may have been met by its pid alone, in a line that says no more of it.
            _learn(stint, worker, rank, local_rank)
            return stint, worker
    stint = stint_in_progress(agent, point)
    if attempt_id is not None and stint.attempt_id != attempt_id:
        stint = next((s for s in reversed(agent.stints) if s.attempt_id == attempt_id), stint)
    for worker in stint.having(rank, local_rank):
        if pid is None or worker.pid in (None, pid):
            if pid is not None and worker.pid is None:
                worker.pid = pid
                agent.by_pid[pid] = (stint, worker)
            return stint, worker
    worker = Worker(rank=rank, local_rank=local_rank, pid=pid)
    stint.workers.append(worker)
    stint.note(worker)
    if pid is not None:
        agent.by_pid[pid] = (stint, worker)
    return stint, worker


def worker_ended(worker: Worker, point: Point, exit_code: int | None, *, at_the_moment: bool = False) -> None:
    """A worker's exit code became known.

    Args:
        at_the_moment: the record was written when the process ended, not when somebody looked.
    """
    if at_the_moment and worker.end is None:
        worker.end = point
    if exit_code is not None:
        worker.exit_code = exit_code
    worker.told = worker.told or point


def worker_failed(stint: Stint, worker: Worker, point: Point) -> None:
    """Somebody says that a worker failed by itself."""
    worker.failure = worker.failure or point
    stint.failed = stint.failed or point


def worker_stopped(worker: Worker, point: Point, signal: object, reason: str = "") -> None:
    """The agent sent a worker a signal; the last one counts, the first one tells when."""
    worker.stop = worker.stop or point
    worker.stop_signal = signal_name(signal) or worker.stop_signal
    worker.stop_reason = reason or worker.stop_reason


def worker_said(
    worker: Worker, point: Point, text: FailureText | None, weight: int, fault: tuple[float, float] | None = None
) -> None:
    """A worker's own words on its failure; the best source is kept."""
    if text is None:
        return
    if fault is not None and worker.fault is None:
        worker.fault = fault
    if weight > worker.error_weight or (
        weight == worker.error_weight == FROM_OUTPUT and _says_more(text, worker.error)
    ):
        worker.error, worker.error_at, worker.error_weight = text, point, weight


def written_in(agent: Agent, time_s: float | None) -> tuple[float, float] | None:
    """Between which times on the agent's clock a fault happened whose file carries this whole second of wall time."""
    return None if time_s is None else (time_s - agent.offset_s, time_s - agent.offset_s + 1.0)


def _says_more(text: FailureText, known: FailureText | None) -> bool:
    return known is None or (known.error_type is None and text.error_type is not None)


def agent_ended(agent: Agent, point: Point, state: str, error: FailureText | None = None) -> None:
    """`agent.run()` returned or raised; only the first word on it counts."""
    if not agent.ended:
        agent.ended, agent.end = state, point
    if error is not None and agent.error is None:
        agent.error = error


def agent_signalled(agent: Agent, point: Point, signal: object) -> None:
    """The agent got a death signal."""
    if agent.signal is None:
        agent.signal = signal_name(signal) or "SIGTERM"
        agent.signal_at = point


def agent_signal_told(agent: Agent, metadata: dict[str, Any], point: Point) -> None:
    """A record, the agent's own or a line of its log, names its death signal."""
    agent_signalled(agent, point, metadata.get("signal"))


def membership_changed(agent: Agent, metadata: dict[str, Any], point: Point) -> None:
    """A record, the agent's own or a line of its log, says that healthy workers are restarted for nodes that wait."""
    stint = stint_in_progress(agent, point)
    stint.membership = stint.membership or point
    stint.waiting = as_count(metadata.get("waiting"))
    stint.restarting = True
