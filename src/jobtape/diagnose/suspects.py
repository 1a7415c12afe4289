"""How each worker of an attempt ended: by itself of its own cause, by itself because of another, or stopped by its
agent.
"""

from __future__ import annotations

from signal import SIGABRT

import msgspec

from jobtape.diagnose.assembly import describe_end
from jobtape.diagnose.attempts import Group, Member, workers_of
from jobtape.diagnose.clocks import Clocks, Teller
from jobtape.diagnose.evidence import OUTSIDE
from jobtape.diagnose.facts import Clock, Process, Worker, signal_name
from jobtape.diagnose.marks import give_kills
from jobtape.diagnose.signatures import (
    ABORTED,
    NOTHING_ADDED,
    UNCLEAR,
    Added,
    Signature,
    aborted_by_library,
    row_of,
)
from jobtape.diagnose.stints import FROM_OUTPUT, worker_stopped

OWN, COLLATERAL, VAGUE, STOPPED, SUCCEEDED, UNKNOWN = "own", "collateral", "vague", "stopped", "succeeded", "unknown"

NEEDS_NO_PEER = frozenset(
    {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGKILL", "SIGTRAP", "SIGSYS", "SIGXCPU", "SIGQUIT"}
)
"""Signals whose cause is in the process or on its host. SIGABRT is not one of them: a watchdog aborts too."""


class Suspect(msgspec.Struct, eq=False, kw_only=True):
    """One worker, how it ended, and when its fault happened.

    Attributes:
        ending: ``own`` · ``collateral`` · ``vague`` (it failed by itself, and nothing says of what) · ``stopped`` ·
            ``succeeded`` · ``unknown``.
        earliest: the fault happened at or after this time, and at or before `latest`; unix seconds.
        exact: both are the moment itself.
    """

    worker: Worker
    host: str
    clock: Clock
    member: Member | None
    ending: str
    signature: Signature | None = None
    earliest: float | None = None
    latest: float | None = None
    exact: bool = False
    noticed: float | None = None
    """When its agent showed that it knew of a failure."""
    role: str = "unknown"

    @property
    def failed(self) -> bool:
        """Whether it ended badly and nobody made it."""
        return self.ending in (OWN, COLLATERAL, VAGUE)

    @property
    def signal(self) -> str | None:
        """The signal that ended it, or that the agent sent."""
        code = self.worker.exit_code
        if code is not None and code < 0:
            return signal_name(code)
        return self.worker.stop_signal if self.ending == STOPPED else None


def suspects_of(group: Group, clocks: Clocks, added: Added = NOTHING_ADDED) -> list[Suspect]:
    """Every worker of an attempt, with how it ended.

    Args:
        group: the attempt.
        clocks: whose times are told apart.
        added: rows of the user's own to the table of what victims say.
    """
    if group.processes:
        return [_of_process(process, clocks, added) for process in group.processes]
    give_kills(group)
    tellers = {id(member): clocks.teller(member.agent.clock) for member in group.members}
    found = [_suspect(member, worker, tellers[id(member)], added) for member, worker in workers_of(group)]
    _doubt_unmarked_stops(found)
    return found


def _suspect(member: Member, worker: Worker, tell: Teller, added: Added) -> Suspect:
    agent = member.agent
    row = _row(worker, added) if worker.exit_code != 0 else None
    signature = row if row is not None and row.meaning != UNCLEAR else None
    suspect = Suspect(
        worker=worker,
        host=agent.host if agent.host_known and worker.host_known else "",
        clock=agent.clock,
        member=member,
        ending=UNKNOWN,
        signature=signature,
        noticed=_noticed(worker, tell),
    )
    suspect.ending = _ending(member, worker, row)
    if suspect.failed:
        _date(suspect, tell)
    return suspect


def _row(worker: Worker, added: Added) -> Signature | None:
    """Whose words its own are; of one without words, what its stack says."""
    row = row_of(worker.error, added) if worker.error is not None else None
    if row is None and worker.exit_code == -SIGABRT and _is_wordless(worker) and aborted_by_library(worker.stack):
        return ABORTED
    return row


def _is_wordless(worker: Worker) -> bool:
    return worker.error is None or not worker.error.headline


def _noticed(worker: Worker, tell: Teller) -> float | None:
    stopped = tell(worker.stop.time) if worker.stop is not None else None
    if worker.end is not None:
        return stopped
    told = [tell(point.time) for point in (worker.failure, worker.told) if point is not None]
    return min((time for time in (stopped, *told) if time is not None), default=None)


def _ending(member: Member, worker: Worker, row: Signature | None) -> str:
    code = worker.exit_code
    is_victims = row is not None and row.meaning != UNCLEAR
    if worker.stop is None:
        harmless = _harmless_ending(member, worker)
        if harmless is not None:
            return harmless
    elif not _failed_before_stop(worker):
        # Without a time its own words decide: a victim that had said so, and whose exit code is no signal's.
        had_failed = is_victims and worker.fault is None and code is not None and code > 0
        return COLLATERAL if had_failed else STOPPED
    if row is not None:
        return COLLATERAL if is_victims else VAGUE
    if not _is_wordless(worker):
        return OWN
    if code is not None and (signal_name(code) in NEEDS_NO_PEER if code < 0 else bool(worker.exit_call)):
        return OWN
    return VAGUE


def _harmless_ending(member: Member, worker: Worker) -> str | None:
    """How a worker ended that no agent stopped, unless it failed by itself."""
    code = worker.exit_code
    if code == 0 or (code is None and worker.state == "SUCCEEDED"):
        return SUCCEEDED
    if _ended_with_agent(member, worker):
        return STOPPED
    if worker.state == "TERMINATED" and worker.failure is None:
        # Where the agent's signals are on the record, one who got none had ended by itself.
        return UNKNOWN if any(other.stop is not None for other in member.stint.workers) else STOPPED
    if code is not None or worker.state == "FAILED" or worker.failure is not None:
        return None
    if member.stint.succeeded is not None or worker.leaving is not None:
        # Its agent may be gone, and its own tape tells of its end.
        return SUCCEEDED
    # What a worker prints may be an error that it has caught; only its error file and its own tape tell of its end.
    return None if worker.error is not None and worker.error_weight > FROM_OUTPUT else UNKNOWN


def _failed_before_stop(worker: Worker) -> bool:
    """Whether its fault is proven to be older than the agent's signal: an interpreter may take its time to end."""
    if worker.stop is None or worker.stop.time is None or worker.fault is None:
        return False
    return worker.fault[1] <= worker.stop.time and worker.exit_code != 0


def _ended_with_agent(member: Member, worker: Worker) -> bool:
    """Whether the agent's signal ended the worker too: a scheduler or a terminal signals all processes at once."""
    signal = member.agent.signal
    if signal is None or not member.is_last or (worker.failure is None and worker.exit_code is None):
        return False
    if worker.exit_code is not None and worker.exit_code < 0 and signal_name(worker.exit_code) == signal:
        return True
    error = worker.error.error_type if worker.error is not None else None
    return signal == "SIGINT" and (error == "KeyboardInterrupt" or worker.exit_code == 130)


def _date(suspect: Suspect, tell: Teller) -> None:
    worker = suspect.worker
    if worker.fault is not None:
        first, last = worker.fault
        suspect.exact = first == last
    elif worker.end is not None and worker.end.time is not None:
        first = last = worker.end.time
        suspect.exact = True
    else:
        seen = [point.time for point in (worker.failure, worker.told) if point is not None and point.time is not None]
        if not seen:
            return
        suspect.latest = tell(min(seen))
        return
    suspect.earliest, suspect.latest = tell(first), tell(last)


def _doubt_unmarked_stops(found: list[Suspect]) -> None:
    """Where no record says whom the agent stopped, a SIGTERM beside another failure was its; then a SIGKILL too."""
    by_stint: dict[int, list[Suspect]] = {}
    for suspect in found:
        if suspect.member is not None:
            by_stint.setdefault(id(suspect.member.stint), []).append(suspect)
    unaccounted = any(s.ending == UNKNOWN for s in found)
    for ours in by_stint.values():
        watched = any(s.worker.stop is not None or s.worker.end is not None for s in ours)
        if watched or not any(s.failed for s in ours):
            continue
        if unaccounted or any(s.failed and s.signal not in ("SIGTERM", "SIGINT") for s in found):
            _stopped_by_agent(ours, ("SIGTERM", "SIGINT"))
        sent = any(s.ending == STOPPED for s in ours)
        if sent and any(s.failed and s.signal != "SIGKILL" for s in found):
            _stopped_by_agent(ours, ("SIGKILL",))


def _stopped_by_agent(suspects: list[Suspect], signals: tuple[str, ...]) -> None:
    for suspect in suspects:
        if suspect.failed and suspect.signal in signals:
            suspect.ending = STOPPED


def _of_process(process: Process, clocks: Clocks, added: Added) -> Suspect:
    """A worker that no agent started, from its own tape alone."""
    worker = Worker(
        rank=process.rank if process.rank is not None else 0,
        local_rank=process.local_rank,
        pid=process.pid,
        start=process.start,
        has_tape=True,
        imported=process.imported,
        last=process.last,
        alive=process.alive,
        stack=process.stack,
        activity=process.activity,
    )
    describe_end(worker, process)
    suspect = Suspect(worker=worker, host=process.host, clock=process.clock, member=None, ending=UNKNOWN)
    if process.error is not None:
        row = row_of(process.error, added)
        suspect.signature = row if row is not None and row.meaning != UNCLEAR else None
        suspect.ending = OWN if row is None else COLLATERAL if suspect.signature is not None else VAGUE
    elif process.exit_call and process.exit_code is not None:
        worker.exit_code = process.exit_code
        suspect.ending = SUCCEEDED if process.exit_code == 0 else OWN
    elif process.alive:
        suspect.ending = UNKNOWN
    elif process.closed:
        suspect.ending = SUCCEEDED
    elif process.stack.startswith("Fatal Python error"):
        suspect.ending = OWN
    elif process.stack:
        # faulthandler wrote where it stood when SIGTERM came, and nothing after that says that it lived on.
        suspect.ending = STOPPED
        worker_stopped(worker, process.last, "SIGTERM", OUTSIDE)
    worker.failure = worker.error_at if suspect.failed else None
    worker.end = process.last if process.closed else None
    if suspect.failed:
        _date(suspect, clocks.teller(process.clock))
    return suspect


def proven_before(one: Suspect, other: Suspect, clocks: Clocks) -> bool:
    """Whether the first's fault is proven to be older than the second's."""
    if one.latest is None or other.earliest is None:
        return False
    slack = clocks.slack(one.clock, other.clock, one.latest)
    if one.exact and other.exact and slack == 0.0:
        return one.latest < other.earliest
    return one.latest + slack <= other.earliest and (one.earliest, one.latest) != (other.earliest, other.latest)
