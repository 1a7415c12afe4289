"""From groups and their causes to attempts, restarts and the state of the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter

import msgspec

from jobtape.diagnose import evidence
from jobtape.diagnose.attempts import Group
from jobtape.diagnose.clocks import Clocks, Teller
from jobtape.diagnose.facts import LATEST_S, Agent, Clock, Stint, Worker
from jobtape.diagnose.failure_text import crash_location, user_location
from jobtape.diagnose.marks import requeued
from jobtape.diagnose.model import Attempt, Cause, Outcomes, RankOutcome, Restarts
from jobtape.diagnose.rendezvous import judge_incomplete
from jobtape.diagnose.signatures import NOTHING_ADDED, Added
from jobtape.diagnose.suspects import STOPPED, SUCCEEDED, Suspect, suspects_of
from jobtape.diagnose.verdict import judge


def attempts_of(
    groups: Sequence[Group], clocks: Clocks, names: dict[int, str], added: Added = NOTHING_ADDED
) -> list[Attempt]:
    """Each group as an attempt, with what ended it.

    Args:
        groups: the attempts' groups in order.
        clocks: whose times are told apart.
        names: what to call the node of each agent, by the agent's id.
        added: rows of the user's own to the table of what victims say.
    """
    made: list[Attempt] = []
    for index, group in enumerate(groups):
        following = groups[index + 1] if index + 1 < len(groups) else None
        before = made[-1] if index and groups[index - 1].launch == group.launch else None
        made.append(_attempt(index, group, following, clocks, names, added, before))
    return made


def _attempt(
    index: int,
    group: Group,
    following: Group | None,
    clocks: Clocks,
    names: dict[int, str],
    added: Added,
    before: Attempt | None,
) -> Attempt:
    if group.unseen:
        return _unseen(index, group, following)
    same_launch = following is not None and following.launch == group.launch
    called = dict.fromkeys(names.get(id(m.agent), m.agent.host) for m in group.members)
    nodes = tuple(name for name in called if name)
    if not group.has_workers:
        cause = judge_incomplete(group, clocks, before)
        running = cause is None and any(m.agent.alive for m in group.members)
        started = _earliest(clocks.at(m.agent.clock, m.stint.opened) for m in group.members)
        ended = None if running else _latest(_incomplete_end(group, clocks))
        return Attempt(
            index=index,
            round=_round_of(group),
            nodes=nodes,
            started=started,
            ended=_after(started, ended),
            outcome="running" if running else "incomplete",
            cause=cause,
        )
    suspects = suspects_of(group, clocks, added)
    cause = _noticed_in_time(judge(group, suspects, clocks, went_on=same_launch), suspects)
    if cause is None or (cause.kind == "node_lost" and cause.confidence == "suspected"):
        cause = requeued(group, following) or cause
    if cause is None and same_launch and following is not None:
        cause = _counted_failure(group, following)
    outcome = _outcome(group, suspects, cause, same_launch)
    started = _earliest(_worker_starts(group, suspects, clocks))
    ended = None if outcome == "running" else _latest(_ends(group, suspects, clocks))
    if not nodes:
        nodes = tuple(host for host in dict.fromkeys(s.host for s in suspects) if host)
    return Attempt(
        index=index,
        round=group.round,
        world_size=_world_size(group, suspects),
        nodes=nodes,
        started=started,
        ended=_after(started, ended),
        outcome=outcome,
        cause=cause,
        ranks=_ranks(suspects, clocks),
    )


def _unseen(index: int, group: Group, following: Group | None) -> Attempt:
    """An attempt of which nothing is left but that it was."""
    if not group.unseen_failed:
        return Attempt(index=index, outcome="unknown")
    told = next((m for m in following.members if m.stint.workers), None) if following is not None else None
    place = told.stint.workers[0].told or told.stint.workers[0].start if told is not None else None
    count = told.stint.restart_count if told is not None else None
    says = (
        f"its agent had restarted failed workers {count} times by then"
        if count is not None
        else "restarts were counted"
    )
    cause = Cause(
        kind="unknown",
        evidence=evidence.listed([evidence.cite(place, says)]),
        note="only the agent's count tells of it",
        reason="unseen_attempt",
    )
    return Attempt(index=index, outcome="failed", cause=cause)


def _round_of(group: Group) -> int | None:
    known = group.round
    if known is not None:
        return known
    return next((m.stint.wanted_round for m in group.members if m.stint.wanted_round is not None), None)


def _counted_failure(group: Group, following: Group) -> Cause | None:
    """A failure that only an agent's counter tells of: it rises for a failure and not for a change of membership."""
    if any(m.stint.membership is not None for m in group.members):
        return None
    after = {id(m.agent): m.stint for m in following.members}
    for member in group.members:
        later = after.get(id(member.agent))
        before = member.stint.restart_count
        if (
            later is not None
            and before is not None
            and later.restart_count is not None
            and later.restart_count > before
        ):
            says = f"agent_restarts rose from {before} to {later.restart_count}: workers had failed; nothing says which"
            references = evidence.listed([evidence.cite(later.started or later.opened, says)])
            return Cause(kind="unknown", evidence=references, reason="counted_failure")
    return None


def _outcome(group: Group, suspects: Sequence[Suspect], cause: Cause | None, same_launch: bool) -> str:
    if any(m.agent.alive and m.is_last and not m.stint.over and not _ended(m.stint) for m in group.members):
        return "running"
    if cause is not None:
        if cause.kind == "preempted":
            return "stopped"
        vanished = cause.kind == "node_lost" or bool(group.processes)
        if vanished and not any(s.failed for s in suspects) and not same_launch:
            return "lost"
        return "failed"
    if any(m.stint.succeeded is not None for m in group.members):
        return "succeeded"
    if suspects and group.processes and all(s.ending == SUCCEEDED for s in suspects):
        # Nothing but its own tape tells how a rank without an agent ended.
        return "unknown" if group.missing_ranks else "succeeded"
    if any(m.stint.failed is not None for m in group.members) and not suspects:
        return "failed"
    if any(m.stint.membership is not None for m in group.members):
        return "membership"
    if same_launch:
        # Where nobody told of workers, that nobody failed is not on the record either.
        return "membership" if suspects else "unknown"
    if any(p.alive for p in group.processes):
        return "running"
    if group.processes:
        return "unknown" if all(p.imported for p in group.processes) else "lost"
    return "unknown"


def _ended(stint: Stint) -> bool:
    return bool(stint.succeeded or stint.failed or stint.membership)


def _world_size(group: Group, suspects: Sequence[Suspect]) -> int | None:
    told = [m.stint.world_size for m in group.members if m.stint.world_size]
    told += [p.world_size for p in group.processes if p.world_size]
    highest = max((s.worker.rank for s in suspects if s.worker.rank is not None), default=-1) + 1
    size = max(told, default=0)
    return max(size, highest) or None


def _worker_starts(group: Group, suspects: Sequence[Suspect], clocks: Clocks) -> list[float | None]:
    first: dict[Clock, float] = {}
    for suspect in suspects:
        start = suspect.worker.start
        if start is not None and start.time is not None and start.time < first.get(suspect.clock, LATEST_S):
            first[suspect.clock] = start.time
    starts = [clocks.unix(clock, time) for clock, time in first.items()]
    if any(start is not None for start in starts):
        return starts
    return [clocks.at(m.agent.clock, m.stint.joined or m.stint.started) for m in group.members]


def _ends(group: Group, suspects: Sequence[Suspect], clocks: Clocks) -> list[float | None]:
    ends: list[float | None] = []
    by_stint: dict[int, list[Worker]] = {}
    for suspect in suspects:
        if suspect.member is not None:
            by_stint.setdefault(id(suspect.member.stint), []).append(suspect.worker)
    for member in group.members:
        stint, agent = member.stint, member.agent
        points = [stint.failed, stint.membership, stint.succeeded, stint.ended]
        for worker in by_stint.get(id(stint), ()):
            points += (worker.end, worker.failure, worker.stop)
            if worker.end is None and not worker.alive:
                # The workers of an agent that was killed live on; their own tapes tell how long.
                points.append(worker.last)
        # Of the times of one clock only the last one matters.
        times = [p.time for p in points if p is not None and p.time is not None]
        if times:
            ends.append(clocks.unix(agent.clock, max(times)))
            continue
        later = agent.stints[stint.number + 1] if stint.number + 1 < len(agent.stints) else None
        # A start that is the last record of all says nothing of an end.
        last = agent.last if agent.last is not stint.started else None
        ends.append(clocks.at(agent.clock, later.opened if later is not None else agent.end or last))
    return ends + [clocks.at(p.clock, p.last) for p in group.processes]


def _incomplete_end(group: Group, clocks: Clocks) -> list[float | None]:
    ends = []
    for member in group.members:
        agent = member.agent
        ends.append(
            clocks.at(agent.clock, member.stint.rendezvous_error_at or agent.end or agent.signal_at or agent.last)
        )
    return ends


def _earliest(times: Iterable[float | None]) -> float | None:
    return min((t for t in times if t is not None), default=None)


def _latest(times: Iterable[float | None]) -> float | None:
    return max((t for t in times if t is not None), default=None)


def _noticed_in_time(cause: Cause | None, suspects: Sequence[Suspect]) -> Cause | None:
    """A cause that nobody noticed before it was there: what another host's clock says of that cannot be.

    Then the first agent counts whose clock does not contradict.
    """
    time = cause.time if cause is not None else None
    if cause is None or time is None or cause.detected is None or time <= cause.detected:
        return cause
    noticed = _earliest(s.noticed for s in suspects if s.noticed is not None and s.noticed >= time)
    return msgspec.structs.replace(cause, detected=noticed)


def _after(started: float | None, ended: float | None) -> float | None:
    """An end that is not before its start; None rather than a wrong one."""
    return None if started is not None and ended is not None and ended < started else ended


def _ranks(suspects: Sequence[Suspect], clocks: Clocks) -> Outcomes:
    ranked = [suspect for suspect in suspects if suspect.worker.rank is not None]

    def made() -> Iterable[RankOutcome]:
        tellers = {clock: clocks.teller(clock) for clock in {suspect.clock for suspect in ranked}}
        return sorted((_rank(s, tellers[s.clock]) for s in ranked), key=attrgetter("rank"))

    return Outcomes(len(ranked), made)


def _rank(suspect: Suspect, tell: Teller) -> RankOutcome:
    worker = suspect.worker
    end = worker.end or worker.left
    error = worker.error if suspect.failed else None
    started = tell(worker.start.time) if worker.start is not None else None
    return RankOutcome(
        rank=worker.rank or 0,
        host=suspect.host,
        role=suspect.role,
        exit_code=worker.exit_code,
        signal=suspect.signal,
        message=error.message if error is not None else None,
        local_rank=worker.local_rank,
        pid=worker.pid,
        started=started,
        ended=_after(started, tell(end.time) if end is not None else None),
        error_type=error.error_type if error is not None else None,
        traceback=error.traceback if error is not None else None,
        location=_location(suspect, worker),
        stack=worker.stack or None,
        note=worker.note or None,
        step=_last_step(worker),
    )


def _last_step(worker: Worker) -> int | None:
    last = worker.activity.last_step if worker.activity is not None else None
    return last[1] if last is not None else None


def _location(suspect: Suspect, worker: Worker) -> str | None:
    """Where it failed; for a worker that was stopped, where it stood."""
    if suspect.failed and worker.error is not None:
        return worker.error.location
    if not worker.stack:
        return None
    if suspect.ending == STOPPED or worker.stack.startswith("Fatal Python error"):
        return crash_location(worker.stack)
    return user_location(worker.stack)


def restarts_of(attempts: Sequence[Attempt]) -> Restarts:
    """Each restart once, named by what ended the attempt before it."""
    failure = membership = preemption = 0
    for attempt in attempts[:-1]:
        if attempt.cause is not None and attempt.cause.kind == "preempted":
            preemption += 1
        elif attempt.cause is not None:
            failure += 1
        elif attempt.outcome == "membership":
            membership += 1
    return Restarts(failure=failure, membership=membership, preemption=preemption)


def state_of(attempts: Sequence[Attempt], agents: Sequence[Agent], groups: Sequence[Group]) -> str:
    """The state of the run, from its last attempt and what came after it."""
    alive = any(agent.alive for agent in agents) or (not agents and any(p.alive for g in groups for p in g.processes))
    if alive:
        return "running"
    if not attempts:
        return _state_without_attempts(agents)
    last = attempts[-1]
    if last.outcome in ("succeeded", "stopped", "lost", "running"):
        return last.outcome
    if last.outcome == "failed":
        return "lost" if _was_restarting(groups[-1]) else "failed"
    if last.outcome == "incomplete":
        return _state_of_incomplete(attempts)
    if last.outcome == "membership":
        return "lost"
    return "unknown"


def _state_without_attempts(agents: Sequence[Agent]) -> str:
    if any(agent.signal is not None for agent in agents):
        return "stopped"
    if any(agent.ended == "FAILED" for agent in agents):
        return "failed"
    return "lost" if agents and any(not agent.ended for agent in agents) else "unknown"


def _was_restarting(group: Group) -> bool:
    """Whether the job meant to go on after this attempt, and its records end without saying how."""
    unended = [m for m in group.members if not m.agent.ended and not m.agent.closed]
    # A live tape is closed when its agent ends; an import may just lack the last line.
    return any(m.stint.restarting is True or m.agent.live_tape for m in unended) and len(unended) == len(group.members)


def _state_of_incomplete(attempts: Sequence[Attempt]) -> str:
    cause = attempts[-1].cause
    if cause is None:
        return "unknown"
    if cause.kind == "preempted":
        return "stopped"
    if cause.kind == "node_lost":
        return "lost"
    before = attempts[-2].cause if len(attempts) > 1 else None
    if cause.kind == "rendezvous_closed" and before is not None and before.kind == "preempted":
        # The rendezvous was closed because the job was stopped.
        return "stopped"
    if cause.kind == "rendezvous_closed" and attempts[-2:-1] and attempts[-2].outcome == "succeeded":
        # It was closed because the job was done; who comes after that has missed it.
        return "succeeded"
    return "failed"
