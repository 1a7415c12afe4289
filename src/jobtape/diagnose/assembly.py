"""What belongs together across files: copies of one log, console output kept beside the events, workers' own tapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jobtape.diagnose import evidence
from jobtape.diagnose.cycles import cycles_of
from jobtape.diagnose.error_files import take_error_files
from jobtape.diagnose.facts import Agent, FileFacts, Leaving, Point, Process, Stint, Worker
from jobtape.diagnose.orphans import take_orphans
from jobtape.diagnose.placing import place_tapes
from jobtape.diagnose.printed import settle
from jobtape.diagnose.stints import FROM_ITSELF, FROM_OUTPUT, worker_said

FILE_TICK_S = 0.01
"""Files are dated by the kernel's coarse clock, which stands still for up to a tick (CONFIG_HZ=100)."""


def all_agents(files: Sequence[FileFacts]) -> list[Agent]:
    """The agents of a run, each once, with what the log lines of other files add to them."""
    agents = _without_copies([agent for file in files for agent in file.agents])
    if any(file.orphans for file in files):
        take_orphans([file for file in files if file.orphans], agents)
    agents += cycles_of(files)
    take_error_files(files, agents)
    settle(agents)
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


def attach_tapes(processes: Iterable[Process], agents: Sequence[Agent]) -> list[Process]:
    """Give each worker what its own tape says.

    Returns:
        The processes that no agent started.
    """
    processes = list(processes)
    if not processes:
        return []
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
            for candidate in by_rank.get(
                (process.boot_id or process.host, process.rank if process.rank is not None else -1), ()
            )
            if not candidate[2].has_tape and process.restart_count == candidate[1].restart_count
        ]
        if fitting:
            _attach(process, *max(fitting, key=lambda c: _closeness(process, c[1])))
        else:
            left.append(process)
    return place_tapes(left, agents, _attach)


def _closeness(process: Process, stint: Stint) -> tuple[bool, float]:
    began = stint.started.time if stint.started is not None else None
    if began is None or process.start.time is None:
        return process.restart_count == stint.restart_count, 0.0
    return process.restart_count == stint.restart_count, -abs(process.start.time - began)


def _attach(process: Process, agent: Agent, _stint: Stint, worker: Worker) -> None:
    same_clock = process.clock == agent.clock
    worker.has_tape, worker.imported = True, process.imported
    worker.last = process.last if same_clock else None
    worker.alive = process.alive
    worker.stack = process.stack
    worker.activity = process.activity
    if worker.local_rank is None:
        worker.local_rank = process.local_rank
    describe_end(worker, process, same_clock=same_clock)


def _date_crash(worker: Worker, process: Process, crash_s: float) -> None:
    """A crash is older than the end of its process, which the kernel tells only when it has closed its connections."""
    began, ended = process.start.time, worker.end.time if worker.end is not None else None
    if (began is None or began - FILE_TICK_S <= crash_s) and (ended is None or crash_s <= ended):
        last = crash_s + FILE_TICK_S
        worker.fault = (crash_s, last if ended is None else min(last, ended))


def describe_end(worker: Worker, process: Process, *, same_clock: bool = True) -> None:
    """What a process says of its own end."""

    def when(point: Point | None) -> tuple[float, float] | None:
        return (point.time, point.time) if same_clock and point is not None and point.time is not None else None

    if process.error is not None and process.error_at is not None:
        worker.fault = when(process.error_at) or worker.fault
        worker_said(worker, process.error_at, process.error, FROM_ITSELF)
        worker.error_presumed = process.error_presumed
        _note_thread(worker, process, process.error_at)
    elif process.crash_s is not None and same_clock:
        _date_crash(worker, process, process.crash_s)
    elif worker.error is not None and worker.error.error_type is not None:
        # An error file has an exception: how the process left then (multiprocessing calls sys.exit) adds nothing.
        return
    elif process.exit_call and process.exit_code != 0 and process.exit_at is not None:
        worker.exit_call = process.exit_call
        worker.fault = when(process.exit_at) or worker.fault
        worker_said(worker, process.exit_at, process.exit_text, FROM_ITSELF)
        _note_thread(worker, process, process.exit_at)
    elif process.thread_error is not None and process.thread_error_at is not None:
        worker_said(worker, process.thread_error_at, process.thread_error, FROM_OUTPUT)
        worker.note = "the error was in a thread"
    elif same_clock:
        worker.leaving = _leaving(process)
        if worker.leaving is not None and worker.exit_code is None and process.exit_call:
            worker.exit_code = process.exit_code


def _note_thread(worker: Worker, process: Process, end: Point) -> None:
    """Keep what a thread raised beside how the process ended: it may be why, and no record says so."""
    error, at = process.thread_error, process.thread_error_at
    if error is None or at is None:
        return
    worker.thread_error, worker.thread_error_at = error, at
    name = f" ({evidence.one_line(process.thread_name, 40)})" if process.thread_name else ""
    where = f" at {evidence.end_of_place(error.location)}" if error.location else ""
    before = " before" if at.place.seq < end.place.seq else ""
    note = f"a thread{name} had raised {evidence.one_line(error.headline, 100)}{where}{before}"
    worker.note = f"{worker.note}; {note}" if worker.note else note


def _leaving(process: Process) -> Leaving | None:
    """What a process says that ends well: the line that ends it, or only that its interpreter shuts down."""
    if process.exit_call and process.exit_code == 0 and process.exit_at is not None:
        location = process.exit_text.location if process.exit_text is not None else None
        return Leaving(process.exit_at, f"called {process.exit_call}(0)", location)
    return Leaving(process.last, "came to its own end") if process.closed else None
