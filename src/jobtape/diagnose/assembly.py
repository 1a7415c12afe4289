"""What belongs together across files: copies of one log, console output kept beside the events, workers' own tapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from jobtape.diagnose.facts import Agent, FileFacts, Point, Process, Stint, Worker, as_count
from jobtape.diagnose.log_records import log_line
from jobtape.diagnose.stints import FROM_ITSELF, FROM_OUTPUT, Cast, worker_said


def all_agents(files: Sequence[FileFacts]) -> list[Agent]:
    """The agents of a run, each once, with what the log lines of other files add to them."""
    agents = _without_copies([agent for file in files for agent in file.agents])
    for file in files:
        if file.orphans:
            _take_orphans(file, agents)
    return agents


def _without_copies(agents: Sequence[Agent]) -> list[Agent]:
    """Of an agent that is in several files (a log imported again when it had grown), the one with most records."""
    best: dict[object, Agent] = {}
    for number, agent in enumerate(agents):
        key = _identity(agent) or number
        if key not in best or best[key].records < agent.records:
            best[key] = agent
    kept = set(map(id, best.values()))
    return [agent for agent in agents if id(agent) in kept]


def _identity(agent: Agent) -> tuple[object, ...] | None:
    """What two agents have in common only when they are one: host and process id, and the same first workers."""
    stint = next((s for s in agent.stints if s.workers), None)
    if agent.pid is None or stint is None:
        return None
    workers = tuple((worker.rank, worker.pid) for worker in stint.workers)
    moment = agent.first.time if agent.first is not None else None
    return agent.host, agent.boot_id, agent.pid, agent.pid_start, stint.round, workers, moment


def _take_orphans(file: FileFacts, agents: list[Agent]) -> None:
    """Give log lines of a file without events to the agents that they are about, by the workers' process ids."""
    by_pid: dict[int, tuple[Agent, Stint]] = {}
    for agent in agents:
        for pid, (stint, _) in agent.by_pid.items():
            by_pid[pid] = (agent, stint)
    found: tuple[Agent, Stint] | None = None
    for place, time, name, metadata in file.orphans:
        found = by_pid.get(as_count(metadata.get("pid")) or -1, found)
        if found is None and not agents:
            agent = Agent(file=file.name, host=file.clock.name, clock=file.clock, first=Point(time, place))
            found = agent, Stint(number=0, opened=Point(time, place))
            agent.stints.append(found[1])
            agents.append(agent)
        if found is None:
            continue
        owner, stint = found
        point = Point(time if owner.clock == file.clock or owner.clock.kind == "wall" else None, place)
        # The agent as it was then: what is said without a process id is about that stint and not about its last one.
        then = msgspec.structs.replace(owner, stints=owner.stints[: stint.number + 1], file=file.name)
        cast = Cast(file.name, owner.host)
        cast.agents, cast.current = [then], then
        log_line(cast, name, metadata, point)
        if len(then.stints) > stint.number + 1 and stint is owner.stints[-1]:
            owner.stints.append(then.stints[-1])
        if owner.signal is None:
            owner.signal, owner.signal_at = then.signal, then.signal_at


def attach_tapes(processes: Iterable[Process], agents: Iterable[Agent]) -> list[Process]:
    """Give each worker what its own tape says.

    Returns:
        The processes that no agent started.
    """
    by_pid: dict[tuple[str, int], list[tuple[Agent, Stint, Worker]]] = {}
    by_rank: dict[tuple[str, int], list[tuple[Agent, Stint, Worker]]] = {}
    for agent in agents:
        home = agent.boot_id or agent.host
        for stint in agent.stints:
            for worker in stint.workers:
                if worker.pid is not None:
                    by_pid.setdefault((home, worker.pid), []).append((agent, stint, worker))
                if worker.rank is not None:
                    by_rank.setdefault((home, worker.rank), []).append((agent, stint, worker))
    rest = []
    for process in processes:
        home = process.boot_id or process.host
        fitting = [c for c in by_pid.get((home, process.pid), ()) if process.rank in (None, c[2].rank)]
        if fitting:
            _attach(process, *max(fitting, key=lambda c: _closeness(process, c[1])))
        else:
            rest.append(process)
    left = []
    for process in rest:
        # A shell script between torchrun and python has the process id that the agent knows.
        fitting = [
            candidate
            for candidate in by_rank.get((process.boot_id or process.host, process.rank if process.rank is not None else -1), ())
            if not candidate[2].has_tape and process.restart_count == candidate[1].restart_count
        ]
        if fitting:
            _attach(process, *max(fitting, key=lambda c: _closeness(process, c[1])))
        else:
            left.append(process)
    return left


def _closeness(process: Process, stint: Stint) -> tuple[bool, float]:
    began = stint.started.time if stint.started is not None else None
    if began is None or process.start.time is None:
        return process.restart_count == stint.restart_count, 0.0
    return process.restart_count == stint.restart_count, -abs(process.start.time - began)


def _attach(process: Process, agent: Agent, _stint: Stint, worker: Worker) -> None:
    same_clock = process.clock == agent.clock
    worker.has_tape = True
    worker.tape_closed = process.closed
    worker.alive = process.alive
    worker.stack = process.stack
    if worker.local_rank is None:
        worker.local_rank = process.local_rank
    describe_end(worker, process, same_clock=same_clock)


def describe_end(worker: Worker, process: Process, *, same_clock: bool = True) -> None:
    """What a process says of its own end."""

    def when(point: Point | None) -> tuple[float, float] | None:
        return (point.time, point.time) if same_clock and point is not None and point.time is not None else None

    if process.error is not None and process.error_at is not None:
        worker.fault = when(process.error_at) or worker.fault
        worker_said(worker, process.error_at, process.error, FROM_ITSELF)
    elif process.exit_call and process.exit_code != 0 and process.exit_at is not None:
        worker.exit_call = process.exit_call
        worker.fault = when(process.exit_at) or worker.fault
        worker_said(worker, process.exit_at, process.exit_text, FROM_ITSELF)
    elif process.thread_error is not None and process.thread_error_at is not None:
        worker_said(worker, process.thread_error_at, process.thread_error, FROM_OUTPUT)
        worker.note = "the error was in a thread"
