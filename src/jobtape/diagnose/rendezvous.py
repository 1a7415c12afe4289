"""What kept a rendezvous from forming: the cause of an attempt without workers."""

from __future__ import annotations

from collections.abc import Sequence

from jobtape.diagnose import causes, evidence
from jobtape.diagnose.attempts import Group, Member
from jobtape.diagnose.clocks import Clocks
from jobtape.diagnose.facts import Point
from jobtape.diagnose.failure_text import FailureText
from jobtape.diagnose.model import Cause

TIMED_OUT = ("RendezvousTimeoutError",)
CLOSED = ("RendezvousClosedError", "RendezvousGracefulExitError")
NOT_ALL_CAME = "clients joined"
"""In what torch's store says when it waited in vain for the other nodes of a static rendezvous."""


def judge_incomplete(group: Group, clocks: Clocks) -> Cause | None:
    """Why no worker was started; None while the agents are still at it."""
    told = [m for m in group.members if m.agent.signal is not None and m.is_last]
    ends = [(m, *_error(m)) for m in group.members]
    errors = [(m, error, point) for m, error, point in ends if error is not None]
    for kind, names in (("rendezvous_timeout", TIMED_OUT), ("rendezvous_closed", CLOSED)):
        found = [
            (m, e, p) for m, e, p in errors if _is(e, names) or (kind == "rendezvous_timeout" and _waited_in_vain(e))
        ]
        if found:
            return _from_errors(kind, found, clocks)
    if told and not errors:
        member = told[0]
        agent = member.agent
        time = clocks.at(agent.clock, agent.signal_at)
        says = f"the agent on {agent.host} got {agent.signal} before workers were started"
        return Cause(
            kind="preempted",
            host=agent.host,
            signal=agent.signal,
            time=time,
            detected=time,
            confidence="certain",
            evidence=evidence.listed([evidence.cite(agent.signal_at, says)]),
        )
    gone = [m for m in group.members if _is_gone(m)]
    if gone and (errors or len(gone) == len(group.members)):
        return _lost(gone[0], errors, clocks)
    for member, error, point in errors:
        return causes.of_agent(error, member.agent, point, clocks)
    return None


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


def _is_gone(member: Member) -> bool:
    agent = member.agent
    return member.is_last and not agent.ended and not agent.alive and not agent.closed and agent.signal is None


def _from_errors(kind: str, found: Sequence[tuple[Member, FailureText, Point | None]], clocks: Clocks) -> Cause:
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
    )


def _lost(member: Member, errors: Sequence[tuple[Member, FailureText, Point | None]], clocks: Clocks) -> Cause:
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
        confidence="suspected",
        evidence=evidence.listed(references),
    )
