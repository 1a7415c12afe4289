"""What kept a rendezvous from forming: the cause of an attempt without workers."""

from __future__ import annotations

from collections.abc import Sequence

from jobtape.diagnose import causes, evidence
from jobtape.diagnose.attempts import Group, Member
from jobtape.diagnose.clocks import Clocks
from jobtape.diagnose.facts import Point
from jobtape.diagnose.failure_text import FailureText
from jobtape.diagnose.marks import stop_of
from jobtape.diagnose.model import Attempt, Cause
from jobtape.diagnose.nodes import CLOSED, is_consequence
from jobtape.diagnose.signatures import GONE, signature_of

TIMED_OUT = ("RendezvousTimeoutError",)
NOT_ALL_CAME = "clients joined"
"""In what torch's store says when it waited in vain for the other nodes of a static rendezvous."""


def judge_incomplete(group: Group, clocks: Clocks, before: Attempt | None = None) -> Cause | None:
    """Why no worker was started; None while the agents are still at it.

    An agent that was told to stop, or failed of its own cause, makes the others find the rendezvous closed or wait in
    vain: those errors are the cause only where nothing else is on the record.

    Args:
        group: the attempt.
        clocks: whose times are told apart.
        before: the attempt before it, of the same launch.
    """
    told = [m for m in group.members if m.agent.signal is not None and m.is_last]
    ends = [(m, *_error(m)) for m in group.members]
    errors = [(m, error, point) for m, error, point in ends if error is not None]
    if told and (not errors or _stopped_first(told, errors, clocks)):
        return _stopped(told[0], errors, group, clocks)
    if (stop := stop_of(group, clocks)) is not None and all(is_consequence(error) for _, error, _ in errors):
        return causes.of_mark(stop, (), ())
    for member, error, point in errors:
        if not is_consequence(error) and not _is(error, TIMED_OUT):
            return causes.of_agent(error, member.agent, point, clocks)
    for kind, names in (("rendezvous_timeout", TIMED_OUT), ("rendezvous_closed", CLOSED)):
        found = [
            (m, e, p) for m, e, p in errors if _is(e, names) or (kind == "rendezvous_timeout" and _waited_in_vain(e))
        ]
        if found:
            return _from_errors(kind, found, clocks, _on_the_closing(before) if kind == "rendezvous_closed" else None)
    gone = [m for m in group.members if _is_gone(m)]
    if gone and (errors or len(gone) == len(group.members)):
        return _lost(gone[0], errors, clocks)
    for member, error, point in errors:
        return causes.of_agent(error, member.agent, point, clocks)
    return None


Erring = tuple[Member, FailureText, Point | None]


def cause_of_agent(member: Member, clocks: Clocks) -> Cause:
    """An agent failed while its workers ran, or before it started any."""
    agent = member.agent
    if agent.error is not None and _is(agent.error, CLOSED):
        return _from_errors("rendezvous_closed", [(member, agent.error, agent.end)], clocks)
    return causes.of_agent(agent.error, agent, agent.end, clocks)


def _stopped_first(told: Sequence[Member], errors: Sequence[Erring], clocks: Clocks) -> bool:
    """Whether the errors of the others can follow from the signal: a rendezvous closed by it, or a wait that it made
    vain.
    """
    agent = told[0].agent
    signalled = clocks.at(agent.clock, agent.signal_at)
    for member, error, point in errors:
        time = clocks.at(member.agent.clock, point)
        waited = _is(error, TIMED_OUT) or _waited_in_vain(error)
        if not (is_consequence(error) or waited) or (
            waited and (time is None or signalled is None or time < signalled)
        ):
            return False
    return True


def _stopped(member: Member, errors: Sequence[Erring], group: Group, clocks: Clocks) -> Cause:
    agent = member.agent
    time = clocks.at(agent.clock, agent.signal_at)
    says = f"the agent on {agent.host} got {agent.signal} before workers were started"
    references = [evidence.cite(agent.signal_at, says)]
    references += [evidence.cite(p, f"the agent on {m.agent.host}: {e.headline}") for m, e, p in errors]
    cause = Cause(
        kind="preempted",
        host=agent.host,
        signal=agent.signal,
        time=time,
        detected=time,
        confidence="certain" if not errors else "likely",
        evidence=evidence.listed(references),
        reason="signalled_before_start",
    )
    stop = stop_of(group, clocks)
    return cause if stop is None else causes.with_mark(cause, stop[1])


def _on_the_closing(before: Attempt | None) -> str | None:
    """Why a rendezvous was closed, as the attempt before tells it."""
    if before is None:
        return None
    if before.outcome == "succeeded":
        return "it was closed because the job had ended well"
    if before.outcome == "stopped":
        host = before.cause.host if before.cause is not None else None
        return f"it was closed because the job was stopped{f' on {host}' if host else ''}: see the attempt before"
    return "it was closed because the job had failed: see the attempt before" if before.outcome == "failed" else None


def _error(member: Member) -> tuple[FailureText | None, Point | None]:
    stint, agent = member.stint, member.agent
    if stint.rendezvous_error is not None:
        return stint.rendezvous_error, stint.rendezvous_error_at
    if member.is_last and agent.error is not None and not (agent.error.error_type or "").endswith("SignalException"):
        return agent.error, agent.end
    return None, None


def _is(error: FailureText, names: Sequence[str]) -> bool:
    return (error.error_type or "").rpartition(".")[2] in names


def _waited_in_vain(error: FailureText) -> bool:
    return NOT_ALL_CAME in (error.message or "")


def _lost_a_peer(error: FailureText) -> bool:
    row = signature_of(error)
    return row is not None and row.meaning == GONE


def _is_gone(member: Member) -> bool:
    agent = member.agent
    return member.is_last and not agent.ended and not agent.alive and not agent.closed and agent.signal is None


def _from_errors(kind: str, found: Sequence[Erring], clocks: Clocks, note: str | None = None) -> Cause:
    member, error, point = found[0]
    time = clocks.at(member.agent.clock, point)
    hosts = {m.agent.host for m, _, _ in found}
    references = []
    for each, text, where in found:
        references.append(evidence.cite(where, f"the agent on {each.agent.host}: {text.headline}"))
        opened = each.stint.opened
        references.append(evidence.cite(opened, f"the agent on {each.agent.host} began to join here"))
    return Cause(
        kind=kind,
        host=hosts.pop() if len(hosts) == 1 else None,
        error_type=error.error_type,
        message=error.message,
        traceback=error.traceback,
        time=time,
        detected=time,
        confidence="certain",
        evidence=evidence.listed(references),
        note=note,
        reason=kind,
    )


def _lost(member: Member, errors: Sequence[Erring], clocks: Clocks) -> Cause:
    agent = member.agent
    references = [
        evidence.cite(agent.last, f"the records of the agent on {agent.host} end here, before workers were started")
    ]
    references += [evidence.cite(p, f"the agent on {m.agent.host}: {e.headline}") for m, e, p in errors]
    last, beat = clocks.at(agent.clock, agent.last), agent.beat_s
    return Cause(
        kind="node_lost",
        host=agent.host,
        time=None if last is None or beat is None else last + beat,
        confidence="likely" if any(_lost_a_peer(error) for _, error, _ in errors) else "suspected",
        evidence=evidence.listed(references),
        reason="gone_before_start",
    )
