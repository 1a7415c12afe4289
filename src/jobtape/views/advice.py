"""What to look at next, for each kind of cause: where a person would go from the verdict."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobtape.views.clock import moment
from jobtape.views.endings import Ending, endings, firsts
from jobtape.views.escape import brief, brief_place
from jobtape.views.sentence import apart, subject

if TYPE_CHECKING:
    from jobtape.diagnose.model import Attempt, Cause, Run

LOOK = {
    "exception": "look at {where}",
    "signal": "look at where {who} stood, and for a core dump or a line of the kernel's log{on_host}{at}",
    "exit_code": "look in the script for what exits with {code}, and at what {who} printed last",
    "oom_kill": "it was host memory, not the GPU's: look at the memory limit{on_host} and at what {who} loads",
    "stall": "look at where {who} stood{on_host}, while the others waited",
    "node_lost": "look at {node} itself: its kernel's log, and what the scheduler says of it{at}",
    "preempted": "nothing is wrong with the job: queue it again, or ask the scheduler why it was stopped",
    "rendezvous_timeout": "look which nodes never came, and whether they reach the rendezvous endpoint",
    "rendezvous_closed": "look at what ended the attempt before it: agents close the rendezvous when they give up",
    "agent_error": "look at the agent's own error{on_host}: torchrun failed there, not the script",
    "left_early": "look why {who} returned while the others went on: less data than they had, or an early return",
    "unknown": "look at the workers' own output",
}
"""By `Cause.kind`; what is in braces is filled in from the cause."""

FATAL_IN_CODE = frozenset({"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS"})
KILLED = "look who sent {signal}: the kernel's log{on_host}{at}, the scheduler, a memory limit, a person"
"""Of a signal that comes from outside of the process."""

SILENT = frozenset({"named_absent", "several_silent", "paused_node"})
"""By `Cause.reason`: ranks that the others waited for, or may have."""
VICTIMS = frozenset({"first_victim", "only_victims"})
"""By `Cause.reason`: verdicts in which nobody is known to have failed of its own cause."""
LOST_A_PEER = "those who failed only lost a peer, or never found it: look for a rank or node that has no record here"
RECORDED = re.compile(r"-\d+-\d{8}T\d{9}\.jsonl")
"""A tape that a process of the job wrote; imports name the file they came from."""
RECORD = "run under torchrun --event-log-handler=tape, a job leaves each worker's exit and traceback"
BY_HAND = "nothing on the record is wrong with the job: a terminal or a person sent {signal} to torchrun{on_host}"
AGENT_GONE = "look what ended torchrun's own process{on_host}: the kernel's log (memory?), the scheduler, a person"
ANY_EXCEPTION = "look at what {who} printed last (an exit code of 1 is what any uncaught exception gives)"
NO_TRACEBACK = "look at what {who} printed before it{at}: the record has its message and no traceback"
IN_COMMON = "look at what these ranks share, a setting or a file; no single one of them is to blame"
GPU_MEMORY = "the GPU's memory ran out at {where}: look at sizes of batch and model, and who else is on the device"
LOOP = 3
"""Attempts that end alike after which another restart is not expected to help."""

PLAIN_NAME = re.compile(r"[\w.@+][\w.@+-]{0,99}", re.ASCII)


def advice(run: Run) -> tuple[str, str]:
    """What to look at next about a run that did not go well, and the commands that show more of it.

    Returns:
        Both, each empty when there is nothing to say.
    """
    if run.state in {"succeeded", "running"}:
        return "", ""
    attempts, futile = apart(run.attempts)
    told = [attempt for attempt in (*futile, *attempts) if attempt.cause is not None]
    if not told:
        return "", ""
    last = told[-1]
    assert last.cause is not None
    text = repeated(endings(attempts)[-1]) or look(last.cause)
    if last.cause.reason in VICTIMS and (better := known_better(told)) is not None and better.cause is not None:
        text, last = f"{text}; attempt {better.index} says more: {look(better.cause)}", better
    return text, commands(run, last)


def known_better(attempts: Sequence[Attempt]) -> Attempt | None:
    """The last attempt with a cause of its own: what ended it may be what victims of a later one have lost."""
    own = [a for a in attempts if a.cause is not None and a.cause.confidence in {"certain", "likely"}]
    return next((a for a in reversed(own) if a.cause is not None and a.cause.reason not in VICTIMS), None)


def look(cause: Cause) -> str:
    """Where to look, about one cause."""
    text = LOOK.get(cause.kind, LOOK["unknown"])
    if cause.kind == "signal" and cause.signal not in FATAL_IN_CODE:
        text = KILLED
    if cause.kind == "exception" and cause.error_type and cause.error_type.endswith("OutOfMemoryError"):
        text = GPU_MEMORY
    elif cause.kind == "exception" and not cause.location and not cause.traceback:
        text = NO_TRACEBACK
    if cause.kind == "preempted" and cause.signal not in {None, "SIGTERM"}:
        text = BY_HAND
    if cause.kind == "node_lost" and cause.pid is not None:
        text = AGENT_GONE
    if cause.kind == "exit_code" and cause.exit_code == 1:
        text = ANY_EXCEPTION
    if cause.reason in SILENT:
        text = LOOK["stall"]
    elif cause.reason in VICTIMS:
        text = LOST_A_PEER
    elif len(cause.ranks) > 1:
        text = IN_COMMON
    if text is LOOK["unknown"] and not any(RECORDED.search(reference) for reference in cause.evidence):
        text = f"{text}; {RECORD}"
    host = brief(cause.host, 60) if cause.host else ""
    return text.format(
        who=subject(cause).removesuffix(f" on {host}") if cause.rank is not None or cause.ranks else "the rank",
        where=brief_place(cause.location, 80) if cause.location else "the traceback",
        node=host or "the node",
        on_host=f" on {host}" if host else "",
        at=f" at {moment(cause.time)}" if cause.time is not None else "",
        code=cause.exit_code if cause.exit_code is not None else "that code",
        signal=brief(cause.signal, 20) if cause.signal else "the signal",
    )


def repeated(ending: Ending) -> str:
    """Where to look when restarts do not help; at the host, where that stays the same and the rank does not."""
    causes = [attempt.cause for attempt in ending.attempts if attempt.cause is not None]
    if len(causes) < LOOP or any(cause.kind in {"preempted", "unknown"} for cause in causes):
        return ""
    ranks, hosts = firsts(ending)
    if len(hosts) == 1 and len(ranks) > 1 and len(ending.example.nodes) > 1:
        host = brief(hosts[0], 60)
        return f"{len(causes):,} times in a row on one host, whatever the rank: look at {host} and its devices first"
    return f"{len(causes):,} times in a row, so another restart is not likely to help: {look(causes[-1])}"


def commands(run: Run, attempt: Attempt) -> str:
    """The commands that show more of an attempt, where the run's name can be typed as it stands."""
    if not PLAIN_NAME.fullmatch(run.run_id):
        return ""
    rank = f" --rank {attempt.cause.rank}" if attempt.cause is not None and attempt.cause.rank is not None else ""
    return f"jobtape events {run.run_id} --attempt {attempt.index}{rank}; jobtape why {run.run_id} --explain"
