"""What ended an attempt: which failure was first, what followed from it, and how sure that is.

The order of the questions is the order of ``docs/diagnosis.md``: was the agent told to stop; which rank failed of its own
cause, and which of several first; did a node fall silent; did a rank leave or stall while the others waited; and at last, what
is left when every failure is a consequence of something that is not on the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobtape.diagnose import evidence, nodes
from jobtape.diagnose.attempts import Group
from jobtape.diagnose.clocks import Clocks
from jobtape.diagnose.failure_text import crash_location
from jobtape.diagnose.model import Cause
from jobtape.diagnose.signatures import signature_of
from jobtape.diagnose.suspects import (
    COLLATERAL,
    NEEDS_NO_PEER,
    OWN,
    STOPPED,
    SUCCEEDED,
    UNKNOWN,
    VAGUE,
    Suspect,
    proven_before,
)

SURE = ("certain", "likely", "suspected", "unknown")
IN_A_COLLECTIVE = ("all_reduce", "barrier", "broadcast", "all_gather", "reduce_scatter", "torch/distributed/")


def judge(group: Group, suspects: Sequence[Suspect], clocks: Clocks, *, went_on: bool) -> Cause | None:
    """What ended an attempt in which workers ran; None when nothing went wrong in it.

    Sets the role of each suspect.

    Args:
        group: the attempt.
        suspects: its workers, from `suspects_of`.
        went_on: whether the job had another attempt after it.
    """
    for suspect in suspects:
        suspect.role = STOPPED if suspect.ending == STOPPED else UNKNOWN
    failed = [s for s in suspects if s.failed]
    own = [s for s in failed if s.ending == OWN]
    vague = [s for s in failed if s.ending == VAGUE]
    told = nodes.signalled(group, clocks)
    if told and not any(_older_than_signal(s, told[0], clocks) for s in own or vague):
        return _preempted(told, suspects, clocks)
    if own or (len(vague) == 1 and len(failed) > 1 and not _silent_before(group, failed, clocks)):
        return _rank_failed(own or vague, suspects, clocks)
    lost = _silent_before(group, failed, clocks)
    if lost and (failed or went_on or not _any_succeeded(group)):
        return _node_lost(lost[0], suspects, clocks)
    if not failed:
        return _without_failed_worker(group, suspects, clocks)
    if vague:
        return _rank_failed(vague, suspects, clocks)
    return _left_or_stalled(suspects, clocks) or _only_victims(failed, suspects, clocks)


def _any_succeeded(group: Group) -> bool:
    return any(member.stint.succeeded is not None for member in group.members)


def _silent_before(group: Group, failed: Sequence[Suspect], clocks: Clocks) -> list[nodes.Silent]:
    return [node for node in nodes.silent(group, clocks) if nodes.fell_silent_first(node, failed, clocks)]


def _older_than_signal(suspect: Suspect, told: nodes.Signalled, clocks: Clocks) -> bool:
    """Whether a rank's failure came before the agent's signal: by its own agent's records, or by time beyond doubt."""
    if suspect.member is told.member:
        return suspect.worker.failure is not None or suspect.worker.fault is not None
    if suspect.latest is None or told.time is None:
        return suspect.ending == OWN
    slack = clocks.slack(suspect.clock, told.member.agent.clock)
    return suspect.latest + slack <= told.time or (suspect.ending == OWN and suspect.latest <= told.time)


def _first_of(candidates: Sequence[Suspect], clocks: Clocks) -> Suspect | None:
    """The one that is proven to have failed before all the others; None when the record does not say."""
    dated = [s for s in candidates if s.latest is not None]
    if len(candidates) == 1:
        return candidates[0]
    if not dated:
        return None
    best = min(dated, key=lambda s: s.latest if s.latest is not None else 0.0)
    return best if all(s is best or proven_before(best, s, clocks) for s in candidates) else None


def _rank_failed(candidates: Sequence[Suspect], suspects: Sequence[Suspect], clocks: Clocks) -> Cause:
    """Some ranks failed of their own cause (or, when nothing better is known, without saying of what)."""
    first = _first_of(candidates, clocks)
    if first is None and candidates[0].ending == VAGUE:
        # An exit code that a script chose says more than the 1 of any uncaught exception.
        chosen = [s for s in candidates if s.worker.exit_code not in (None, 1) and s.signal != "SIGABRT"]
        if len(chosen) == 1:
            first = chosen[0]
            _assign_roles(first, suspects, clocks)
            return _cause_of(first, suspects, "suspected")
    if first is None:
        return _several(candidates, suspects, clocks)
    _assign_roles(first, suspects, clocks)
    return _cause_of(first, suspects, _confidence(first, suspects, clocks))


def _assign_roles(first: Suspect, suspects: Sequence[Suspect], clocks: Clocks) -> None:
    first.role = "first"
    for suspect in suspects:
        if suspect is first or not suspect.failed:
            continue
        if suspect.ending == OWN:
            suspect.role = "independent"
        elif suspect.ending == COLLATERAL or _python_gave_up(first, suspect):
            suspect.role = "collateral"


def _python_gave_up(first: Suspect, suspect: Suspect) -> bool:
    """A rank that exits with 1, as Python does on any exception, beside one that was killed or crashed."""
    return first.signal in NEEDS_NO_PEER and suspect.worker.exit_code == 1


def _confidence(first: Suspect, suspects: Sequence[Suspect], clocks: Clocks) -> str:
    """Certain needs a record of the failure and either no other failure or a proven order."""
    if first.worker.exit_code is None and first.worker.error is None:
        return "unknown" if first.worker.exit_code is None and not first.worker.stack else "likely"
    others = [s for s in suspects if s.failed and s is not first]
    if not others:
        unaccounted = any(s.ending == UNKNOWN for s in suspects)
        return "likely" if unaccounted else "certain"
    if first.ending == VAGUE:
        return "suspected" if any(s.ending == VAGUE and not proven_before(first, s, clocks) for s in others) else "likely"
    if all(proven_before(first, s, clocks) for s in others) and (first.exact or first.worker.fault is not None):
        return "certain" if all(clocks.slack(first.clock, s.clock) == 0.0 for s in others) else "likely"
    return "likely"


def _cause_of(first: Suspect, suspects: Sequence[Suspect], confidence: str, kind: str | None = None) -> Cause:
    worker = first.worker
    error = worker.error
    references: list[str | None] = [*evidence.of_failure(worker, first.signal)]
    references += [evidence.said(s.worker) for s in suspects if s.role in ("collateral", "independent")][:4]
    references += [evidence.of_stop(s.worker) for s in suspects if s.role == "stopped"][:4]
    crashed = worker.stack if worker.stack.startswith("Fatal Python error") else ""
    location = error.location if error is not None else None
    return Cause(
        kind=kind or kind_of(first),
        rank=worker.rank,
        local_rank=worker.local_rank,
        host=first.host,
        pid=worker.pid,
        exit_code=worker.exit_code,
        signal=first.signal or _fatal_signal(crashed),
        error_type=error.error_type if error is not None else None,
        message=error.message if error is not None else None,
        traceback=error.traceback if error is not None else None,
        location=location or (crash_location(worker.stack) if crashed else None),
        time=_fault_time(first),
        detected=detected(suspects),
        confidence=confidence,
        evidence=evidence.listed(references),
        stack=worker.stack or None,
        note=worker.note or None,
    )


def _fault_time(suspect: Suspect) -> float | None:
    return suspect.earliest if suspect.exact or suspect.worker.fault is not None else None


_FATAL = (("Segmentation fault", "SIGSEGV"), ("Aborted", "SIGABRT"), ("Bus error", "SIGBUS"),
          ("Floating", "SIGFPE"), ("Illegal instruction", "SIGILL"))  # fmt: skip


def _fatal_signal(stack: str) -> str | None:
    """The signal of faulthandler's headline."""
    headline = stack.partition("\n")[0]
    return next((name for words, name in _FATAL if words in headline), None)


def kind_of(suspect: Suspect) -> str:
    """Which kind of failure a worker's end was."""
    worker = suspect.worker
    if suspect.signal == "SIGKILL" and worker.oom_kills > 0:
        return "oom_kill"
    if suspect.signal is not None and not (worker.stop is not None and worker.error is not None):
        return "signal"
    if worker.exit_call:
        return "exit_code"
    if worker.error is not None and worker.error.headline:
        return "exception"
    if worker.exit_code not in (None, 0):
        return "exit_code"
    return "signal" if _fatal_signal(worker.stack) is not None else "unknown"


def detected(suspects: Sequence[Suspect]) -> float | None:
    """When an agent first showed that it had noticed a failure."""
    return min((t for s in suspects if (t := _noticed(s)) is not None), default=None)


def _noticed(suspect: Suspect) -> float | None:
    from_agent = [suspect.worker.stop]
    if suspect.worker.end is None:
        from_agent += [suspect.worker.failure, suspect.worker.told]
    times = [p.time for p in from_agent if p is not None and p.time is not None]
    return min(times) if times else None


def _several(candidates: Sequence[Suspect], suspects: Sequence[Suspect], clocks: Clocks) -> Cause:
    """Several ranks failed of their own causes, and nothing proves which was first."""
    for suspect in suspects:
        if suspect in candidates and suspect.ending == OWN:
            suspect.role = "independent"
        elif suspect.ending == COLLATERAL:
            suspect.role = "collateral"
    shared: dict[str, Any] = {
        name: next(iter(values)) if len(values) == 1 else None
        for name, values in {
            "kind": {kind_of(s) for s in candidates},
            "host": {s.host for s in candidates},
            "exit_code": {s.worker.exit_code for s in candidates},
            "signal": {s.signal for s in candidates},
            "error_type": {s.worker.error.error_type if s.worker.error else None for s in candidates},
            "message": {s.worker.error.message if s.worker.error else None for s in candidates},
            "location": {s.worker.error.location if s.worker.error else None for s in candidates},
        }.items()
    }
    references: list[str | None] = []
    for suspect in candidates:
        references += evidence.of_failure(suspect.worker, suspect.signal)[:2]
    told = sorted(s.worker.rank for s in candidates if s.worker.rank is not None)
    same = shared["kind"] is not None and candidates[0].ending == OWN
    shared["kind"] = shared["kind"] or "unknown"
    return Cause(
        **shared,
        detected=detected(suspects),
        confidence="likely" if same else "unknown",
        evidence=evidence.listed(references),
        note=f"ranks {', '.join(map(str, told[:8]))}{' …' if len(told) > 8 else ''} failed, and nothing proves which was first",
    )


def _preempted(told: Sequence[nodes.Signalled], suspects: Sequence[Suspect], clocks: Clocks) -> Cause:
    """An agent was told to stop, from outside."""
    first = told[0]
    agent = first.member.agent
    for suspect in suspects:
        if suspect.failed:
            suspect.role = "independent" if suspect.ending == OWN else "collateral"
    references = [evidence.cite(t.member.agent.signal_at, f"the agent on {t.member.agent.host} got {t.member.agent.signal}") for t in told]
    references += [evidence.of_stop(s.worker) for s in suspects if s.role == "stopped"][:4]
    references += [r for s in suspects if s.failed for r in evidence.of_failure(s.worker, s.signal)[:1]][:4]
    unsure = any(s.failed and s.ending == OWN for s in suspects) or (len(told) > 1 and any(t.time is None for t in told))
    return Cause(
        kind="preempted",
        host=agent.host,
        signal=agent.signal,
        time=first.time,
        detected=first.time,
        confidence="likely" if unsure else "certain",
        evidence=evidence.listed(references),
    )


def _node_lost(node: nodes.Silent, suspects: Sequence[Suspect], clocks: Clocks) -> Cause:
    """A node's records stop, and others failed or went on without it."""
    agent = node.member.agent
    for suspect in suspects:
        if suspect.failed and suspect.member is not node.member:
            suspect.role = "collateral"
    beat = agent.beat_s
    says = f"the last sign of life of {agent.host}: its records end here, without an end"
    if beat is not None:
        says += f"; until then it had sent a heartbeat every {beat:.1f} s"
    references = [evidence.cite(agent.last, says)]
    references += [r for s in suspects if s.role == "collateral" for r in (*evidence.of_failure(s.worker, s.signal)[:1], evidence.said(s.worker))]
    witnesses = any(s.role == "collateral" and s.signature is not None for s in suspects)
    others = [s for s in suspects if s.member is not node.member]
    return Cause(
        kind="node_lost",
        host=agent.host,
        time=node.due,
        detected=detected(others),
        confidence="likely" if witnesses else "suspected",
        evidence=evidence.listed(references),
    )


def _without_failed_worker(group: Group, suspects: Sequence[Suspect], clocks: Clocks) -> Cause | None:
    """No worker failed by itself, as far as the record goes: the agent may have, or the group's failure is all that is known."""
    for member in nodes.erring(group):
        return agent_error(member.agent.error, member.agent.host, clocks.at(member.agent.clock, member.agent.end), member.agent.end)
    failed = [m for m in group.members if m.stint.failed is not None and m.stint.succeeded is None and m.stint.membership is None]
    if failed and not _any_succeeded(group):
        references = [evidence.cite(m.stint.failed, f"the workers on {m.agent.host} failed; which was first is not recorded") for m in failed]
        return Cause(kind="unknown", confidence="unknown", detected=detected(suspects), evidence=evidence.listed(references))
    return None


def agent_error(error: Any, host: str, time: float | None, place: Any) -> Cause:
    """An agent raised an exception of its own."""
    said = error.headline if error is not None else "no reason"
    return Cause(
        kind="agent_error",
        host=host,
        error_type=error.error_type if error is not None else None,
        message=error.message if error is not None else None,
        location=error.location if error is not None else None,
        traceback=error.traceback if error is not None else None,
        time=time,
        detected=time,
        confidence="likely" if error is not None and signature_of(error) is None else "suspected",
        evidence=evidence.listed([evidence.cite(place, f"the agent on {host} failed: {said}")]),
    )


def _left_or_stalled(suspects: Sequence[Suspect], clocks: Clocks) -> Cause | None:
    """Every failure says that another rank is missing: one rank that ended well before, or one that did not fail, is why."""
    failed = [s for s in suspects if s.failed]
    rest = [s for s in suspects if not s.failed]
    left = [s for s in rest if s.ending == SUCCEEDED and _ended_before(s, failed, clocks)]
    if not left and any(s.ending == STOPPED for s in rest):
        # The agent signals whoever still runs: a rank without signal or failure had ended already.
        left = [s for s in rest if s.ending == UNKNOWN]
    if len(left) == 1:
        _assign_victims(left[0], failed)
        return _cause_of(left[0], suspects, "likely" if left[0].worker.end is not None else "suspected", "left_early")
    timed_out = all(s.signature is not None and s.signature.meaning == "timeout" for s in failed)
    quiet = [s for s in rest if s.ending == STOPPED]
    if timed_out and len(quiet) == 1 and len(rest) == 1 and not _in_a_collective(quiet[0]):
        _assign_victims(quiet[0], failed)
        cause = _cause_of(quiet[0], suspects, "suspected", "stall")
        where = crash_location(quiet[0].worker.stack) if quiet[0].worker.stack else None
        references = [evidence.of_stop(quiet[0].worker), *(evidence.said(s.worker) for s in failed)]
        return _replace(cause, exit_code=None, location=where, evidence=evidence.listed(references))
    return None


def _replace(cause: Cause, **changes: Any) -> Cause:
    from msgspec.structs import replace

    return replace(cause, **changes)


def _assign_victims(first: Suspect, failed: Sequence[Suspect]) -> None:
    first.role = "first"
    for suspect in failed:
        suspect.role = "collateral"


def _ended_before(suspect: Suspect, failed: Sequence[Suspect], clocks: Clocks) -> bool:
    end = clocks.at(suspect.clock, suspect.worker.end)
    return end is not None and all(s.latest is not None and end <= s.latest for s in failed)


def _in_a_collective(suspect: Suspect) -> bool:
    return any(word in suspect.worker.stack for word in IN_A_COLLECTIVE)


def _only_victims(failed: Sequence[Suspect], suspects: Sequence[Suspect], clocks: Clocks) -> Cause:
    """Every rank that failed says that it is a victim, and nobody else did: the cause is not on the record."""
    first = _first_of(failed, clocks)
    for suspect in failed:
        suspect.role = "collateral"
    if first is not None:
        first.role = "first"
        return _cause_of(first, suspects, "suspected")
    references = [r for s in failed for r in (*evidence.of_failure(s.worker, s.signal)[:1], evidence.said(s.worker))]
    return Cause(
        kind="unknown",
        detected=detected(suspects),
        confidence="unknown",
        evidence=evidence.listed(references),
        note="each rank that failed says that another one went away, and no other failure is on the record",
    )
