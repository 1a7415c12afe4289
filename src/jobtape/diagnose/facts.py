"""What the records of one run say, before anybody asks what it means: agents, their stints, their workers.

Both kinds of record end up here: torch's events and log lines of an import, and jobtape's own facts of a live tape.
An *agent* is one process of torchrun; a *stint* is one agent's part in one attempt, from joining the rendezvous to
the end of its workers; a *worker* is one process of the user's script. Times are seconds on the clock of their
process (`clock`), which `jobtape.diagnose.clocks` turns into unix seconds.
"""

from __future__ import annotations

import signal as _signal
from typing import Any, NamedTuple

import msgspec

from jobtape.diagnose.activity import Activity
from jobtape.diagnose.failure_text import FailureText
from jobtape.diagnose.points import EARLIEST_S as EARLIEST_S
from jobtape.diagnose.points import LATEST_S as LATEST_S
from jobtape.diagnose.points import Clock as Clock
from jobtape.diagnose.points import Place as Place
from jobtape.diagnose.points import Point as Point


class Told(NamedTuple):
    """A record that is of no agent's own file, as it is: who is meant is found out when all files have been read."""

    place: Place
    time: float | None
    name: str
    metadata: dict[str, Any]


class Leaving(NamedTuple):
    """A worker's own tape says that it is about to end well: in which record, in which words, from which line."""

    point: Point
    says: str
    location: str | None = None


class Printed(NamedTuple):
    """An error that a worker printed, and which worker the console's labels say it is; None where they do not."""

    rank: int | None
    local_rank: int | None
    point: Point
    text: FailureText


class Pause(NamedTuple):
    """A time without heartbeats: when it began, and the heartbeat that ended it."""

    began: float
    end: Point


class Mark(NamedTuple):
    """What the scheduler or the kernel says of the job: ``preemption``, ``time_limit``, ``node_failure`` …, in words.

    Attributes:
        host: the node that it names, empty where it names none.
        pid: the process that it names.
    """

    what: str
    text: str
    point: Point
    scheduler: str = ""
    host: str = ""
    pid: int | None = None


class Missed(NamedTuple):
    """Another agent removed a node from the rendezvous, because it had sent no heartbeat."""

    node: str
    """The node's descriptor, ``<host>_<pid>_<local id>``."""
    point: Point


class Worker(msgspec.Struct, eq=False, kw_only=True, omit_defaults=True):
    """One process of the user's script, as its agent and its own tape tell of it."""

    rank: int | None
    local_rank: int | None = None
    pid: int | None = None
    start: Point | None = None
    state: str = ""
    """The last word of torch's events: ``SUCCEEDED``, ``FAILED``, ``TERMINATED``."""
    exit_code: int | None = None
    end: Point | None = None
    """The moment the process ended, where that was seen as it happened."""
    failure: Point | None = None
    """The first record that says it failed."""
    told: Point | None = None
    """The record that gives its exit code or last state."""
    stop: Point | None = None
    """The agent sent it a signal."""
    stop_signal: str | None = None
    stop_reason: str = ""
    oom_kills: int = 0
    oom_at: Point | None = None
    """The line, the kernel's own or the scheduler's, that says that it was killed for its memory."""
    oom_text: str = ""
    oom_presumed: bool = False
    """The line names no process, and this one alone was killed."""
    error: FailureText | None = None
    error_at: Point | None = None
    error_unlabelled: bool = False
    """Whether `error` stands in a console without a word on whose it is."""
    rank_presumed: bool = False
    """Whether its rank is taken from another attempt of its agent."""
    error_weight: int = 0
    """How much the source of `error` is worth: its own tape, its error file, torchrun's summary, what it printed."""
    error_presumed: bool = False
    """That `error` ended it is not on the record, only that nothing came after."""
    host_known: bool = True
    """Whether it was on its agent's host; else nothing says where it was."""
    fault: tuple[float, float] | None = None
    """Between which times (on the same clock) the fault happened."""
    thread_error: FailureText | None = None
    """What one of its threads had raised, where the process did not end of that."""
    thread_error_at: Point | None = None
    exit_call: str = ""
    """``sys.exit`` or ``os._exit`` when it ended itself."""
    leaving: Leaving | None = None
    """Its process may end much later: what it imported takes its time."""
    has_tape: bool = False
    imported: bool = False
    """Its tape was made of another program's file, which need not end with it."""
    last: Point | None = None
    """The last record of its own tape."""
    alive: bool = False
    stack: str = ""
    note: str = ""
    activity: Activity | None = None
    """Its steps and spans, where they are on the record; on the clock that it names."""

    @property
    def left(self) -> Point | None:
        """When it was gone for its peers: its own word of it comes before the end of its process."""
        if self.leaving is None:
            return self.end
        known = [point for point in (self.leaving.point, self.end) if point is not None and point.time is not None]
        return min(known, key=lambda point: point.time or 0.0, default=self.end)


class Stint(msgspec.Struct, eq=False, kw_only=True, omit_defaults=True):
    """One agent's part in one attempt."""

    number: int
    """Which stint of its agent it is, counted from 0."""
    opened: Point
    round: int | None = None
    wanted_round: int | None = None
    group_rank: int | None = None
    group_world_size: int | None = None
    world_size: int | None = None
    restart_count: int | None = None
    attempt_id: int | None = None
    """The agent's own number for it, on live tapes."""
    joined: Point | None = None
    forming_at: float | None = None
    """The last time at which its round cannot have been complete: it had not joined, or wrote a state without it."""
    unsynced_at: float | None = None
    """When it last changed the shared state of the rendezvous, until it has heard whether that was taken."""
    met_at: float | None = None
    """When it had joined and went on to meet the others for the ranks of the workers."""
    ranked_at: float | None = None
    """When it knew those ranks: all agents of the round had come to ask for them by then."""
    started: Point | None = None
    workers: list[Worker] = msgspec.field(default_factory=list)
    succeeded: Point | None = None
    failed: Point | None = None
    membership: Point | None = None
    waiting: int | None = None
    restarting: bool | None = None
    """Whether the agent said that it would restart its workers."""
    rendezvous_error: FailureText | None = None
    rendezvous_error_at: Point | None = None
    over: bool = False
    beat_at: float | None = None
    pause: Pause | None = None
    """The longest time between two of its heartbeats."""
    marks: list[Mark] = msgspec.field(default_factory=list)
    """What the scheduler and the kernel said of the job meanwhile."""
    ended: Point | None = None
    """The moment it ended, where another program's record has just that."""
    ranks_of: dict[int, int] = msgspec.field(default_factory=dict)
    """The global rank of each local rank, where the agent's log lists them."""
    printed: list[Printed] = msgspec.field(default_factory=list)
    """Errors in the console of its time, until they are given to its workers."""
    by_rank: Any = None
    """Its workers by rank, once somebody has looked for one: each rank's worker, or a dict of several by their ids."""
    by_local_rank: Any = None

    def note(self, worker: Worker) -> None:
        """Take a worker in, or what has become known of its ranks: a file may tell of many thousands."""
        _index(self.ranked(), worker.rank, worker)
        _index(self.by_local_rank, worker.local_rank, worker)

    def ranked(self) -> dict[int | None, Any]:
        """Its workers by rank; only whether a rank is there is for others to read."""
        if self.by_rank is None:
            self.by_rank, self.by_local_rank = {}, {}
            for worker in self.workers:
                self.note(worker)
        found: dict[int | None, Any] = self.by_rank
        return found

    def having(self, rank: int | None, local_rank: int | None) -> list[Worker]:
        """Its workers of that rank; where the rank is not known, those of that local rank."""
        if rank is not None:
            return indexed(self.ranked(), rank)
        self.ranked()
        return indexed(self.by_local_rank, local_rank) if local_rank is not None else []


def _index(index: dict[int | None, Any], key: int | None, worker: Worker) -> None:
    known = index.setdefault(key, worker)
    if known is worker:
        return
    if type(known) is dict:
        known[id(worker)] = worker
    else:
        index[key] = {id(known): known, id(worker): worker}


def indexed(index: dict[int | None, Any], key: int | None) -> list[Worker]:
    """Every worker that an index of a stint has under a key."""
    known = index.get(key)
    if known is None:
        return []
    return list(known.values()) if type(known) is dict else [known]


class Agent(msgspec.Struct, eq=False, kw_only=True, omit_defaults=True):
    """One process of torchrun."""

    file: str
    host: str
    clock: Clock
    host_known: bool = True
    """Whether `host` is a host's name; else it only tells the agent from others."""
    pid: int | None = None
    boot_id: str = ""
    pid_start: int = 0
    descriptor: str = ""
    offset_s: float = 0.0
    """Wall time minus `clock`."""
    live_tape: bool = False
    alive: bool = False
    closed: bool = False
    stints: list[Stint] = msgspec.field(default_factory=list)
    by_pid: dict[int, tuple[Stint, Worker]] = msgspec.field(default_factory=dict)
    first: Point | None = None
    last: Point | None = None
    first_beat: float | None = None
    last_beat: float | None = None
    beats: int = 0
    ended: str = ""
    """``SUCCEEDED`` or ``FAILED`` once `agent.run()` has returned or raised."""
    end: Point | None = None
    error: FailureText | None = None
    signal: str | None = None
    signal_at: Point | None = None
    printed: list[Printed] = msgspec.field(default_factory=list)
    """Errors in its console between two stints."""
    missed: list[Missed] = msgspec.field(default_factory=list)
    """Nodes that it removed because they had sent no heartbeat."""
    requeues: int | None = None
    """How often its scheduler had queued the job again by then."""
    troubles: list[tuple[str, Place]] = msgspec.field(default_factory=list)
    """What went wrong while it shut down."""
    records: int = 0

    @property
    def current(self) -> Stint | None:
        """The stint it is in, or was in last."""
        return self.stints[-1] if self.stints else None

    @property
    def beat_s(self) -> float | None:
        """Seconds between two heartbeats, as a rule."""
        if self.beats < 3 or self.first_beat is None or self.last_beat is None or self.last_beat <= self.first_beat:
            return None
        return (self.last_beat - self.first_beat) / (self.beats - 1)


class Process(msgspec.Struct, eq=False, kw_only=True, omit_defaults=True):
    """What a worker's own tape says."""

    file: str
    host: str
    clock: Clock
    boot_id: str
    pid: int
    pid_start: int
    parent_pid: int
    rank: int | None
    local_rank: int | None
    world_size: int | None
    restart_count: int | None
    start: Point
    last: Point
    closed: bool
    alive: bool
    imported: bool = False
    """Its tape was made of another program's file: where that ends says nothing of the process."""
    error: FailureText | None = None
    error_at: Point | None = None
    error_presumed: bool = False
    thread_error: FailureText | None = None
    thread_error_at: Point | None = None
    thread_name: str = ""
    exit_call: str = ""
    exit_code: int | None = None
    exit_text: FailureText | None = None
    exit_at: Point | None = None
    stack: str = ""
    crash_s: float | None = None
    """When faulthandler wrote of a crash: the crash is not older, and younger by a tick of the file clock at most."""
    activity: Activity | None = None


class FileFacts(msgspec.Struct, eq=False, kw_only=True, omit_defaults=True):
    """Everything one tape file says."""

    name: str
    clock: Clock
    agents: list[Agent] = msgspec.field(default_factory=list)
    process: Process | None = None
    orphans: list[tuple[Place, float | None, str, dict[str, Any]]] = msgspec.field(default_factory=list)
    """Log lines of an agent whose events are in another file."""
    told: list[Told] = msgspec.field(default_factory=list)
    """What other programs keep of a job, beside its agents: `jobtape.diagnose.cycles` and `error_files`."""
    run_id: str = ""
    offset_s: float | None = None
    """Wall time minus the file's clock, where both are known."""
    events_missing: int = 0
    damaged_lines: int = 0
    damage: str = ""


def as_int(value: object) -> int | None:
    """A whole number of sane size, given as such or as text; None for everything else.

    >>> as_int("97"), as_int([1]), as_int(True), as_int(2.0)
    (97, None, None, 2)
    """
    if type(value) is int:
        return value if -(2**31) <= value < 2**31 else None
    if isinstance(value, float):
        value = int(value) if value.is_integer() else None
    elif isinstance(value, str):
        digits = value[1:] if value[:1] == "-" else value
        value = int(value) if digits.isdecimal() and len(digits) < 12 and digits.isascii() else None
    # A bool is an int and no number.
    return value if type(value) is int and -(2**31) <= value < 2**31 else None


def as_count(value: object) -> int | None:
    """A whole number that is not negative."""
    if type(value) is int:
        return value if 0 <= value < 2**31 else None
    number = as_int(value) if value is not None else None
    return None if number is None or number < 0 else number


def as_text(value: object) -> str | None:
    """Text that says something; None for everything else."""
    return value if isinstance(value, str) and value else None


def as_time(value: object) -> float | None:
    """Unix seconds that can be a real moment; None for everything else (torch's 0 among it)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if EARLIEST_S < value < LATEST_S else None


def signal_name(value: object) -> str | None:
    """The name of a signal given by name or number, in torch's exit codes a negative one.

    >>> signal_name(-11), signal_name("SIGTERM"), signal_name("Signals.SIGKILL"), signal_name("15"), signal_name(3.5)
    ('SIGSEGV', 'SIGTERM', 'SIGKILL', 'SIGTERM', None)
    """
    if type(value) is int and (name := _SIGNAL_NAMES.get(abs(value))) is not None:
        return name
    if isinstance(value, str) and value.rpartition(".")[2][:3] == "SIG":
        return value.rpartition(".")[2]
    number = as_int(value)
    if number is None or number == 0:
        return None
    return _SIGNAL_NAMES.get(abs(number)) or f"signal {abs(number)}"


_SIGNAL_NAMES = {int(each): each.name for each in _signal.Signals}
