"""From the records of one tape file to the facts in it.

One pass, one file at a time: most records of a long run are heartbeats, and those cost a glance.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import chain, starmap
from typing import TYPE_CHECKING

from jobtape.diagnose.activity import Activity, is_activity, ordered, take_in
from jobtape.diagnose.cycles import PREFIX
from jobtape.diagnose.error_files import NAMES
from jobtape.diagnose.facts import (
    EARLIEST_S,
    LATEST_S,
    Agent,
    Clock,
    FileFacts,
    Pause,
    Place,
    Point,
    Process,
    Told,
    as_count,
    as_text,
)
from jobtape.diagnose.log_records import log_line
from jobtape.diagnose.own_records import agent_record, worker_record
from jobtape.diagnose.stints import Cast, agent_ended, agent_signalled
from jobtape.diagnose.torch_records import (
    agent_state,
    group_event,
    is_pulse,
    pulse,
    rendezvous,
    tells_of_a_pulse,
    worker_started,
    worker_state,
)
from jobtape.tape.records import CloseRecord, EventRecord, Header, LossRecord, RdzvRecord, Record

if TYPE_CHECKING:
    from jobtape.tape.reader import TapeFile

Timekeeper = Callable[[Record], "float | None"]
"""Tells the time of a record, in seconds on the clock of its file."""

NOT_LOST = frozenset({"damaged_line", "foreign_line"})
"""Reasons of loss records that say nothing of missing events."""

_TORCH = "torchelastic.worker.status."
_RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")
_LOCAL_RANK_VARIABLES = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
_WORLD_VARIABLES = ("WORLD_SIZE", "SLURM_NTASKS", "SLURM_NPROCS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


def read_facts(file: TapeFile, *, alive: bool = False) -> FileFacts:
    """Everything one tape file says.

    Args:
        file: the file, as `jobtape.tape.reader.read_tape` returns it.
        alive: whether the process that writes it is known to live.
    """
    header = file.header or Header()
    live = header.role != "import" and bool(header.role)
    seconds, clock, offset = _timekeeper(header, live)
    facts = FileFacts(name=file.path.name, clock=clock, run_id=header.run_id, offset_s=offset)
    if live and header.role == "worker":
        facts.process = _read_worker(file, header, clock, seconds, alive)
    else:
        fixed = _agent_of(file, header, facts, seconds, alive) if header.role == "agent" else None
        _read_agents(file, header, facts, fixed, seconds)
        if live and not facts.agents:
            facts.process = _read_worker(file, header, clock, seconds, alive)
    _count_losses(file, facts)
    return facts


def fits_a_stream(header: Header | None) -> bool:
    """Whether the facts of a file need no more than one look at each of its records: those of a live agent do not."""
    return header is not None and header.role == "agent"


def _timekeeper(header: Header, live: bool) -> tuple[Timekeeper, Clock, float | None]:
    """How a record's time is told: by the boot's monotonic clock where there is one, else by the host's wall clock."""
    if live and header.boot_id and header.mono_ns is not None and header.time_ns is not None:
        offset_ns = header.time_ns - header.mono_ns

        def monotonic(record: Record) -> float | None:
            mono_ns = record.mono_ns
            if mono_ns is None:
                time_ns = record.time_ns
                if time_ns is None or not EARLIEST_S < time_ns / 1e9 < LATEST_S:
                    return None
                mono_ns = time_ns - offset_ns
            return mono_ns / 1e9

        if EARLIEST_S < header.time_ns / 1e9 < LATEST_S:
            return monotonic, Clock("boot", header.boot_id), offset_ns / 1e9

    def wall(record: Record) -> float | None:
        time_ns = record.time_ns
        if time_ns is None:
            return None
        seconds = time_ns / 1e9
        return seconds if EARLIEST_S < seconds < LATEST_S else None

    return wall, Clock("wall", header.host), None


def _agent_of(file: TapeFile, header: Header, facts: FileFacts, seconds: Timekeeper, alive: bool) -> Agent:
    return Agent(
        file=file.path.name,
        host=header.host,
        clock=facts.clock,
        offset_s=facts.offset_s or 0.0,
        pid=header.pid or None,
        boot_id=header.boot_id,
        pid_start=header.pid_start,
        requeues=as_count(header.scheduler.get("SLURM_RESTART_COUNT")),
        live_tape=True,
        alive=alive,
        first=Point(seconds(header), Place(file.path.name, 1, 0)),
    )


def _place(name: str, line: int, record: Record) -> Place:
    origin = record.origin if type(record) is EventRecord or type(record) is RdzvRecord else None
    return Place(name, line, record.seq) if origin is None else Place(origin, 0, record.seq)


def _read_agents(file: TapeFile, header: Header, facts: FileFacts, fixed: Agent | None, seconds: Timekeeper) -> None:
    """Torch's records, log lines and the agent's own records, in the order of the file."""
    name = file.path.name
    cast = Cast(name, header.host, fixed)
    last_of: dict[int, tuple[Record, int]] = {}
    """The last record of each agent that has a time, and its line."""
    for record, line in chain.from_iterable(starmap(zip, file.blocks())):
        agent = fixed
        kind = type(record)
        if kind is RdzvRecord:
            message = record.message
            if agent is None:
                agent = cast.by_process(record.hostname, record.pid)
            if is_pulse(message):
                began = pulse(agent, message, seconds(record)) if tells_of_a_pulse(agent, message) else None
                if began is not None and agent.current is not None:
                    agent.current.pause = Pause(began, Point(seconds(record), _place(name, line, record)))
            else:
                agent = rendezvous(cast, agent, record, Point(seconds(record), _place(name, line, record)))
        elif kind is EventRecord:
            event = record.name
            topic = _topic_of(event)
            if topic == "torch":
                point = Point(seconds(record), _place(name, line, record))
                if not _torch_event(cast, record, point):
                    facts.orphans.append((point.place, point.time, event, record.metadata))
                agent = cast.current
            elif topic == "own" and (fixed is not None or header.role == "import"):
                agent = fixed or cast.by_host(as_text(record.metadata.get("host")))
                agent_record(agent, event, record.metadata, Point(seconds(record), _place(name, line, record)))
            else:
                if topic == "activity" and record.source == "WORKER":
                    _worker_did(cast, record, seconds(record))
                elif topic == "told":
                    facts.told.append(Told(_place(name, line, record), seconds(record), event, record.metadata))
                continue
        elif kind is not CloseRecord:
            continue
        if agent is not None:
            agent.records += 1
            if record.time_ns is not None or id(agent) not in last_of:
                last_of[id(agent)] = (record, line)
                if agent.first is None or agent.first.time is None:
                    agent.first = Point(seconds(record), _place(name, line, record))
    for agent in cast.agents:
        for stint in agent.stints:
            for worker in stint.workers:
                if worker.activity is not None:
                    worker.activity = ordered(worker.activity)
        if id(agent) in last_of:
            record, line = last_of[id(agent)]
            agent.last = Point(seconds(record), _place(name, line, record))
    if fixed is not None:
        # A file that passes by tells only at its end whether it is closed.
        fixed.closed, fixed.alive = file.closed, fixed.alive and not file.closed
    if fixed is not None and file.stacks and not file.closed and fixed.last is not None:
        # SIGTERM killed it before torch had set its handlers: no event, but its sidecar tells where it stood.
        point = Point(seconds(Header(time_ns=file.stacks_ns)), fixed.last.place)
        agent_signalled(fixed, point, "SIGTERM")
        agent_ended(fixed, point, "FAILED", None)
    facts.agents = cast.agents


@lru_cache(maxsize=1024)
def _topic_of(event: str) -> str:
    """Who is asked about an event of that name."""
    if event in NAMES or event.startswith(PREFIX):
        return "told"
    if event.startswith("torchelastic."):
        return "torch"
    if event.startswith("jobtape."):
        return "own"
    return "activity" if is_activity(event) else ""


def _worker_did(cast: Cast, record: EventRecord, time: float | None) -> None:
    """A step or span in a file that is not the worker's own: it belongs to the worker that has its rank then."""
    metadata = record.metadata
    rank, count = as_count(metadata.get("rank")), as_count(metadata.get("attempt"))
    agent = cast.known(as_text(metadata.get("host")))
    if rank is None or agent is None:
        return
    for stint in reversed(agent.stints):
        found = stint.having(rank, None) if count in (None, stint.restart_count) else []
        if found:
            worker = found[-1]
            if worker.activity is None:
                worker.activity = Activity(clock=agent.clock)
            take_in(worker.activity, record.name, metadata, time)
            return


def _torch_event(cast: Cast, record: EventRecord, point: Point) -> bool:
    name, metadata = record.name, record.metadata
    if not name.startswith(_TORCH):
        return log_line(cast, name, metadata, point)
    state = name[len(_TORCH) :]
    if record.source == "WORKER":
        if state == "START":
            worker_started(cast, metadata, point)
        elif state in ("SUCCEEDED", "FAILED", "TERMINATED"):
            worker_state(cast, metadata, point, state)
    elif record.source == "AGENT":
        if state in ("RENDEZVOUS", "ASSIGN_WORKER_RANKS"):
            group_event(cast, metadata, point)
        elif state in ("SUCCEEDED", "FAILED"):
            agent_state(cast, metadata, point, state)
    return True


def _read_worker(file: TapeFile, header: Header, clock: Clock, seconds: Timekeeper, alive: bool) -> Process:
    name = file.path.name
    start = Point(seconds(header), Place(name, 1, 0))
    process = Process(
        file=name,
        host=header.host,
        clock=clock,
        boot_id=header.boot_id,
        pid=header.pid,
        pid_start=header.pid_start,
        parent_pid=header.parent_pid,
        rank=_first_number(header, _RANK_VARIABLES),
        local_rank=_first_number(header, _LOCAL_RANK_VARIABLES),
        world_size=_first_number(header, _WORLD_VARIABLES),
        restart_count=as_count(header.ranks.get("TORCHELASTIC_RESTART_COUNT")),
        start=start,
        last=start,
        closed=file.closed,
        alive=alive,
        imported=header.source_file is not None,
        stack=_own_text(file.stacks),
    )
    if process.stack.startswith("Fatal Python error") and file.stacks_ns:
        process.crash_s = seconds(Header(time_ns=file.stacks_ns))
    point = start
    activity = Activity(clock=clock)
    for record, line in zip(file.records, file.lines, strict=False):
        if isinstance(record, EventRecord):
            if record.name.startswith("jobtape.worker."):
                point = Point(seconds(record), _place(name, line, record))
                worker_record(process, record.name, record.metadata, point)
            elif is_activity(record.name):
                take_in(activity, record.name, record.metadata, seconds(record))
    process.activity = ordered(activity)
    if file.records:
        # Of an import the records on its end carry no time.
        dated = (
            n for n in range(len(file.records) - 1, -1, -1) if getattr(file.records[n], "time_ns", None) is not None
        )
        at = next(dated, -1)
        last = file.records[at]
        process.last = Point(seconds(last), Place(name, file.lines[at] if file.lines else 0, last.seq))
        if process.last.time is None:
            process.last = point
    return process


def _own_text(stacks: str) -> str:
    """A sidecar's text without the lines in which the worker's bridge notes what the script does with faulthandler."""
    return "".join(line for line in stacks.splitlines(keepends=True) if not line.startswith("#"))


def _first_number(header: Header, names: tuple[str, ...]) -> int | None:
    for name in names:
        number = as_count(header.ranks.get(name))
        if number is None:
            number = as_count(header.scheduler.get(name))
        if number is not None:
            return number
    return None


def _count_losses(file: TapeFile, facts: FileFacts) -> None:
    lost = close_lost = 0
    imported = file.header is not None and file.header.source_file is not None
    reasons = [damage.reason for damage in file.damage]
    facts.damaged_lines = len({damage.line for damage in file.damage if damage.line})
    for record in file.notes():
        if type(record) is LossRecord:
            if record.reason not in NOT_LOST:
                lost += max(record.count, 0)
            elif record.reason == "damaged_line":
                facts.damaged_lines += max(record.count, 0)
                reasons.append(as_text(record.detail) or "")
        elif type(record) is CloseRecord:
            close_lost = max(record.lost, close_lost)
    # An import's last record counts damaged lines; a live tape's sums up what its loss records have told.
    facts.events_missing = max(file.missing, 0) + max(lost, 0 if imported else close_lost)
    facts.damage = next((reason for reason in reasons if reason), "")
