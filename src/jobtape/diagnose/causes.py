"""From what was decided to a `Cause`: kind, who, when, and the records that prove it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import msgspec

from jobtape.diagnose import evidence, marks
from jobtape.diagnose.clocks import Clocks
from jobtape.diagnose.facts import Agent, Mark, Missed, Point, Worker
from jobtape.diagnose.failure_text import FailureText, crash_location
from jobtape.diagnose.model import Cause
from jobtape.diagnose.nodes import Signalled, Silent
from jobtape.diagnose.signatures import GONE, signature_of
from jobtape.diagnose.suspects import OWN, SUCCEEDED, Suspect

FEW = 4
"""How many victims and stopped ranks a verdict cites."""

_FATAL = (
    ("Segmentation fault", "SIGSEGV"),
    ("Aborted", "SIGABRT"),
    ("Bus error", "SIGBUS"),
    ("Floating", "SIGFPE"),
    ("Illegal instruction", "SIGILL"),
)
"""Headlines of faulthandler and the signals they stand for."""


def of_rank(first: Suspect, suspects: Sequence[Suspect], confidence: str, *, reason: str) -> Cause:
    """A rank's own failure; `reason` names the rule that found it."""
    worker = first.worker
    crashed = has_crashed(worker)
    location = worker.error.location if worker.error is not None else None
    if location is None and crashed:
        location = crash_location(worker.stack)
    words = _words(worker.error, location)
    if crashed and words.get("traceback") is None:
        words["traceback"] = worker.stack
    references = evidence.of_failure(worker, first.signal)
    references += [evidence.said(s.worker) for s in suspects if s.role in ("collateral", "independent")][:FEW]
    references += _stops(suspects)
    return Cause(
        kind=kind_of(first),
        exit_code=worker.exit_code,
        signal=first.signal or (fatal_signal(worker) if crashed else None),
        time=_fault_time(first),
        detected=detected(suspects),
        confidence=confidence,
        evidence=evidence.listed(references),
        reason=reason,
        **process(first),
        **words,
    )


def of_several(candidates: Sequence[Suspect], suspects: Sequence[Suspect]) -> Cause:
    """Several ranks failed of their own causes, and nothing proves which was first: only what they share is said."""
    told = evidence.ranks(_ranks(candidates)) if _ranks(candidates) else f"{len(candidates)} workers"
    cause = _what_they_share(candidates, suspects)
    return msgspec.structs.replace(
        cause,
        confidence="likely" if cause.kind != "unknown" and candidates[0].ending == OWN else "unknown",
        reason="unordered" if candidates[0].ending == OWN else "unordered_wordless",
        note=f"{told} failed, and nothing proves which was first",
    )


def of_all_alike(alike: Sequence[Suspect], suspects: Sequence[Suspect], confidence: str) -> Cause:
    """Several ranks ended in the same way at almost the same time, each by itself: they share one cause."""
    times = [s.earliest for s in alike if s.earliest is not None]
    within = f"{(max(times) - min(times)) * 1000:,.0f} ms"
    return msgspec.structs.replace(
        _what_they_share(alike, suspects),
        time=min(times),
        confidence=confidence,
        note=f"each ended by itself, in the same way and within {within}: look at what they have in common",
        ranks=tuple(_ranks(alike)),
        reason="alike_at_once" if alike[0].ending == OWN else "alike_wordless",
    )


def _stops(suspects: Sequence[Suspect]) -> list[str | None]:
    """The records of the first few ranks that were stopped: of thousands no more are put into words."""
    stopped = (s.worker for s in suspects if s.role == "stopped")
    return [evidence.of_stop(worker) for worker in islice(stopped, FEW)]


def _ranks(candidates: Sequence[Suspect]) -> list[int]:
    return sorted(s.worker.rank for s in candidates if s.worker.rank is not None)


def _what_they_share(candidates: Sequence[Suspect], suspects: Sequence[Suspect]) -> Cause:
    errors = [s.worker.error for s in candidates]
    references = [r for s in candidates for r in evidence.of_failure(s.worker, s.signal)[:3]]
    return Cause(
        kind=_shared(map(kind_of, candidates)) or "unknown",
        host=_shared(s.host for s in candidates),
        exit_code=_shared(s.worker.exit_code for s in candidates),
        signal=_shared(s.signal for s in candidates),
        error_type=_shared(error.error_type if error else None for error in errors),
        message=_shared(error.message if error else None for error in errors),
        location=_shared(error.location if error else None for error in errors),
        traceback=_shared(error.traceback if error else None for error in errors),
        detected=detected(suspects),
        evidence=evidence.listed(references),
    )


def of_victims(failed: Sequence[Suspect], suspects: Sequence[Suspect]) -> Cause:
    """Every rank that failed says that another one went away, and no other failure is on the record."""
    references = [r for s in failed for r in (*evidence.of_failure(s.worker, s.signal)[:1], evidence.said(s.worker))]
    return Cause(
        kind="unknown",
        detected=detected(suspects),
        evidence=evidence.listed(references),
        note="each rank that failed says that another one went away, and no other failure is on the record",
        reason="only_victims",
    )


def of_signal(told: Sequence[Signalled], suspects: Sequence[Suspect], confidence: str) -> Cause:
    """An agent was told to stop, from outside."""
    first = told[0]
    references = [
        evidence.cite(t.member.agent.signal_at, f"the agent on {t.member.agent.host} got {t.member.agent.signal}")
        for t in told[:FEW]
    ]
    references += _stops(suspects)
    references += [r for s in suspects if s.failed for r in evidence.of_failure(s.worker, s.signal)[:1]][:FEW]
    agent = first.member.agent
    return Cause(
        kind="preempted",
        host=agent.host,
        signal=agent.signal,
        time=first.time,
        detected=first.time,
        confidence=confidence,
        evidence=evidence.listed(references),
        reason="agent_signalled",
    )


def with_mark(cause: Cause, mark: Mark) -> Cause:
    """The same, with what the scheduler says of it."""
    said = marks.says(mark)
    return msgspec.structs.replace(
        cause,
        evidence=evidence.listed([*cause.evidence[:2], marks.cited(mark), *cause.evidence[2:]]),
        note=f"{cause.note}; {said}" if cause.note else said,
    )


def of_outside_stop(stopped: Sequence[Suspect], *, whole: bool) -> Cause:
    """Ranks that no agent watched got SIGTERM, and none of them had failed: the scheduler or the launcher stopped them.

    A launcher stops its ranks so too when one of them has failed: with ranks missing from the record it may have.
    """
    first = stopped[0]
    return Cause(
        kind="preempted",
        host=_shared(s.host for s in stopped),
        signal=first.signal,
        confidence="likely" if whole else "suspected",
        evidence=evidence.listed([evidence.of_stop(s.worker) for s in stopped]),
        note="no agent watched these ranks: their own tapes tell of the signal, and not who sent it",
        reason="stopped_from_outside",
    )


def of_mark(stop: tuple[float | None, Mark], failed: Sequence[Suspect], suspects: Sequence[Suspect]) -> Cause:
    """A scheduler says that it ended the job, and no agent recorded how."""
    time, mark = stop
    references = [marks.cited(mark), *(evidence.of_stop(s.worker) for s in suspects if s.role == "stopped")]
    references += [r for s in failed for r in evidence.of_failure(s.worker, s.signal)[:1]]
    return Cause(
        kind="preempted",
        time=time,
        detected=time,
        confidence="likely",
        evidence=evidence.listed(references[: 2 * FEW]),
        note=marks.says(mark),
        reason="scheduler_said",
    )


def of_failed_node(
    lost: tuple[float | None, Mark], silent: Sequence[Silent], failed: Sequence[Suspect], suspects: Sequence[Suspect]
) -> Cause:
    """A scheduler says that a node failed: the one that it names, else the only one that fell silent."""
    time, mark = lost
    named = [node for node in silent if marks.names_node(mark) and _same_host(node.member.agent.host, mark.host)]
    node = named[0] if named else silent[0] if len(silent) == 1 and not marks.names_node(mark) else None
    host = node.member.agent.host if node is not None else mark.host if marks.names_node(mark) else None
    references = [marks.cited(mark)]
    if node is not None:
        references.append(evidence.cite(node.member.agent.last, last_sign(node.member.agent)))
    references += [r for s in failed for r in (*evidence.of_failure(s.worker, s.signal)[:1], evidence.said(s.worker))]
    return Cause(
        kind="node_lost",
        host=host,
        time=node.due if node is not None and node.due is not None else time,
        detected=detected(suspects),
        confidence="certain" if named else "likely",
        evidence=evidence.listed(references[: 2 * FEW]),
        note="the scheduler says that a node of the job failed",
        reason="scheduler_lost_node",
    )


def _same_host(one: str, other: str) -> bool:
    return one.partition(".")[0] == other.partition(".")[0]


def of_silence(
    node: Silent, suspects: Sequence[Suspect], erring: Sequence[Agent] = (), missed: Missed | None = None
) -> Cause:
    """A node's records stop without an end, or only its agent's do, and others failed or went on without it.

    Args:
        node: the silent one.
        suspects: the attempt's workers.
        erring: agents that failed meanwhile.
        missed: another agent's record that it removed the node.
    """
    agent = node.member.agent
    victims = [s for s in suspects if s.role == "collateral"]
    references = [evidence.cite(agent.last, _last_of_agent(agent) if node.alone else last_sign(agent))]
    if missed is not None:
        references.append(evidence.cite(missed.point, f"{missed.node} was removed, since it had sent no heartbeat"))
    lost_it = [other for other in erring if (row := signature_of(other.error)) is not None and row.meaning == GONE]
    references += [evidence.cite(a.end, f"the agent on {a.host}: {a.error.headline}") for a in lost_it[:FEW] if a.error]
    references += [
        r for s in victims[:FEW] for r in (*evidence.of_failure(s.worker, s.signal)[:1], evidence.said(s.worker))
    ]
    if node.alone:
        ours = [s.worker for s in suspects if s.member is node.member]
        references += [evidence.cite(w.last, f"{evidence.who(w)} {w.leaving.says}") for w in ours if w.leaving][:FEW]
    return Cause(
        kind="node_lost",
        host=agent.host,
        pid=agent.pid if node.alone else None,
        time=node.due,
        detected=detected([s for s in suspects if s.member is not node.member]),
        # An absence is at most suspected; that others say a peer went away is a record.
        confidence="likely" if missed or lost_it or any(s.signature for s in victims) else "suspected",
        evidence=evidence.listed(references),
        note=_who_went_on(node, suspects) if node.alone else None,
        reason="agent_gone" if node.alone else "silent_node",
    )


def _last_of_agent(agent: Agent) -> str:
    return f"the last record of the agent on {agent.host}, without an end; others of its host went on"


def _who_went_on(node: Silent, suspects: Sequence[Suspect]) -> str | None:
    """What became of those whom a vanished agent left behind."""
    ended = _ranks([s for s in suspects if s.member is node.member and s.ending == SUCCEEDED])
    if not ended:
        return None
    return f"{evidence.ranks(ended)} went on without it and came to {'its' if len(ended) == 1 else 'their'} own end"


def last_sign(agent: Agent) -> str:
    """What the last record of an agent without an end says."""
    beat = agent.beat_s
    rhythm = f"; until then it had sent a heartbeat every {beat:.1f} s" if beat is not None else ""
    return f"the last sign of life of {agent.host}: its records end here, without an end{rhythm}"


def of_agent(error: FailureText | None, agent: Agent, point: Point | None, clocks: Clocks) -> Cause:
    """An agent raised an exception of its own."""
    time = clocks.at(agent.clock, point)
    own = error is not None and signature_of(error) is None
    said = evidence.first_words(error) if error is not None else "no reason given"
    return Cause(
        kind="agent_error",
        host=agent.host,
        pid=agent.pid,
        time=time,
        detected=time,
        confidence="certain" if own else "suspected",
        evidence=evidence.listed([evidence.cite(point, f"the agent on {agent.host} failed: {said}")]),
        reason="agent_failed",
        **_words(error, error.location if error is not None else None),
    )


def process(suspect: Suspect) -> dict[str, Any]:
    """Who a rank is, for a `Cause`."""
    worker = suspect.worker
    return {
        "rank": worker.rank,
        "local_rank": worker.local_rank,
        "host": suspect.host or None,
        "pid": worker.pid,
        "stack": worker.stack or None,
        "note": worker.note or None,
    }


def _words(error: FailureText | None, location: str | None) -> dict[str, Any]:
    if error is None:
        return {"location": location}
    return {
        "error_type": error.error_type,
        "message": error.message,
        "traceback": error.traceback,
        "location": location,
    }


def _shared(values: Iterable[Any]) -> Any:
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _fault_time(suspect: Suspect) -> float | None:
    return suspect.earliest if suspect.exact or suspect.worker.fault is not None else None


def has_crashed(worker: Worker) -> bool:
    """Whether faulthandler saw the process crash, not only being stopped."""
    return worker.stack.startswith("Fatal Python error")


def fatal_signal(worker: Worker) -> str | None:
    """The signal that faulthandler's headline stands for."""
    headline = worker.stack.partition("\n")[0]
    return next((name for words, name in _FATAL if words in headline), None)


def kind_of(suspect: Suspect) -> str:
    """Which kind of failure a worker's end was."""
    worker = suspect.worker
    if suspect.signal == "SIGKILL" and worker.oom_kills > 0 and worker.stop is None:
        return "oom_kill"
    # A signal that the agent sent to a worker that had failed before is not how it failed.
    if suspect.signal is not None and worker.stop is None:
        return "signal"
    if worker.exit_call:
        return "exit_code"
    if worker.error is not None and worker.error.headline:
        return "exception"
    if worker.exit_code not in (None, 0):
        return "exit_code" if worker.exit_code is not None and worker.exit_code > 0 else "signal"
    return "signal" if has_crashed(worker) and fatal_signal(worker) is not None else "unknown"


def detected(suspects: Sequence[Suspect]) -> float | None:
    """When an agent first showed that it had noticed a failure."""
    return min((time for s in suspects if (time := s.noticed) is not None), default=None)
