"""What ended an attempt: which failure was first, what followed from it, and how sure that is.

The order of the questions is that of ``docs/diagnosis.md``: was an agent told to stop; which rank failed of its own
cause, and of several which first; did a node fall silent; did a rank leave or stall while the others waited; and what
is left when every failure is the consequence of something that is not on the record.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from jobtape.diagnose import causes, evidence, marks, nodes
from jobtape.diagnose.absence import Scene, judge_absence, vanished, vanished_rank
from jobtape.diagnose.attempts import Group
from jobtape.diagnose.clocks import Clocks
from jobtape.diagnose.model import Cause
from jobtape.diagnose.rendezvous import cause_of_agent
from jobtape.diagnose.silence import silent_since
from jobtape.diagnose.suspects import (
    COLLATERAL,
    NEEDS_NO_PEER,
    OWN,
    STOPPED,
    UNKNOWN,
    VAGUE,
    Suspect,
    proven_before,
)

AT_ONCE_S = 1.0
"""Ranks that end alike within it did so for one reason: a missing file, a bad setting, a batch that all of them got."""


def judge(group: Group, suspects: Sequence[Suspect], clocks: Clocks, *, went_on: bool) -> Cause | None:
    """What ended an attempt in which workers ran; sets the role of each suspect.

    Args:
        group: the attempt.
        suspects: its workers, from `suspects_of`.
        clocks: whose times are told apart.
        went_on: whether the job had another attempt after it.

    Returns:
        None when nothing went wrong in it.
    """
    for suspect in suspects:
        suspect.role = STOPPED if suspect.ending == STOPPED else UNKNOWN
    failed = [s for s in suspects if s.failed]
    told = nodes.signalled(group, clocks)
    told = [] if told and any(_older_than_signal(s, told[0], clocks) for s in failed) else told
    if (marked := _marked(group, told, failed, suspects, clocks)) is not None:
        return marked
    if told:
        return _preempted(told, suspects, clocks)
    own = [s for s in failed if s.ending == OWN]
    if own:
        return _rank_failed(own, group, suspects, clocks)
    vague = [s for s in failed if s.ending == VAGUE]
    if not any(map(_speaks_for_itself, vague)) and nodes.changed_before(failed, suspects, group, clocks):
        _assign_collateral(failed)
        return None
    silent = [] if any(map(_speaks_for_itself, vague)) else nodes.silent_before(group, failed, clocks)
    if silent and (failed or went_on or not _any_succeeded(group)):
        return _node_lost(silent[0], group, suspects)
    scene = Scene(failed, suspects, group, clocks)
    if vague:
        absence = judge_absence(scene, timed_out=True) if _aborted_by_watchdogs(failed, suspects) else None
        return absence or _rank_failed(vague, group, suspects, clocks)
    if (member := nodes.erring_before(failed, group, clocks)) is not None:
        _assign_collateral(failed)
        return msgspec.structs.replace(cause_of_agent(member, clocks), confidence="likely")
    if failed:
        return judge_absence(scene) or _only_victims(failed, group, suspects, clocks)
    gone = vanished(suspects)
    if len(gone) == 1 and not any(s.worker.alive for s in suspects):
        return vanished_rank(gone[0], scene)
    return _no_worker_failed(group, suspects, clocks)


def _marked(
    group: Group,
    told: Sequence[nodes.Signalled],
    failed: Sequence[Suspect],
    suspects: Sequence[Suspect],
    clocks: Clocks,
) -> Cause | None:
    """What a scheduler says that it did to the job, or that became of a node, unless a rank had failed before."""
    if any(s.ending == OWN for s in failed) and not told:
        return None
    lost, stop = marks.node_failure_of(group, clocks), marks.stop_of(group, clocks)
    if lost is not None and not _failed_before(lost[0], failed):
        _assign_collateral(failed)
        return causes.of_failed_node(lost, nodes.silent_before(group, failed, clocks), failed, suspects)
    if stop is None or any(m.stint.succeeded is not None for m in group.members):
        return None
    if told:
        return causes.with_mark(_preempted(told, suspects, clocks), stop[1])
    if _failed_before(stop[0], failed):
        return None
    _assign_collateral(failed)
    return causes.of_mark(stop, failed, suspects)


def _failed_before(time: float | None, failed: Sequence[Suspect]) -> bool:
    """Whether a rank had failed, other than by the signal that ends a job, when the scheduler acted."""
    grave = [s for s in failed if s.signal not in ("SIGTERM", "SIGKILL", "SIGINT")]
    return any(time is None or s.latest is None or s.latest < time for s in grave)


def _assign_collateral(failed: Sequence[Suspect]) -> None:
    for suspect in failed:
        suspect.role = "collateral"


def _aborted_by_watchdogs(failed: Sequence[Suspect], suspects: Sequence[Suspect]) -> bool:
    """Whether most ranks were aborted and none says why: the watchdogs of a communication library end them so."""
    aborted = [s for s in failed if s.signal == "SIGABRT" and s.worker.error is None]
    most = len(aborted) > 1 and 2 * len(aborted) > len(suspects)
    return most and all(s in aborted or s.ending == COLLATERAL for s in failed)


def _any_succeeded(group: Group) -> bool:
    return any(member.stint.succeeded is not None for member in group.members)


def _older_than_signal(suspect: Suspect, told: nodes.Signalled, clocks: Clocks) -> bool:
    """Whether a rank's failure came before an agent's signal: by their agent's own records, or by time beyond doubt."""
    agent = told.member.agent
    if suspect.member is told.member and agent.signal_at is not None:
        said = suspect.worker.failure or suspect.worker.told
        if suspect.worker.fault is not None and agent.signal_at.time is not None:
            return suspect.worker.fault[1] <= agent.signal_at.time
        return said is not None and nodes.stands_before(said, agent.signal_at)
    if suspect.latest is None or told.time is None:
        return suspect.ending == OWN
    return suspect.latest + clocks.slack(suspect.clock, agent.clock, suspect.latest) <= told.time


def _preempted(told: Sequence[nodes.Signalled], suspects: Sequence[Suspect], clocks: Clocks) -> Cause:
    for suspect in suspects:
        if suspect.failed:
            suspect.role = "independent" if suspect.ending == OWN else "collateral"
    unsure = any(s.role == "independent" for s in suspects) or (len(told) > 1 and any(t.time is None for t in told))
    confidence = "likely" if unsure else "certain"
    if any(s.role == "independent" and not _younger_than_signal(s, told[0], clocks) for s in suspects):
        confidence = "suspected"
    cause = causes.of_signal(told, suspects, confidence)
    silence = silent_since(suspects, told[0].time, clocks)
    if silence is None or told[0].time is None:
        return cause
    said = f"no rank had recorded a step for {told[0].time - silence.time:,.0f} s before, after step {silence.step}"
    return msgspec.structs.replace(cause, note=said)


def _younger_than_signal(suspect: Suspect, told: nodes.Signalled, clocks: Clocks) -> bool:
    """Whether a rank is proven to have failed after an agent's signal; on the same host that is known."""
    clock = told.member.agent.clock
    if suspect.clock == clock:
        return True
    if told.time is None or suspect.earliest is None:
        return False
    return told.time + clocks.slack(clock, suspect.clock, told.time) <= suspect.earliest


def _rank_failed(candidates: Sequence[Suspect], group: Group, suspects: Sequence[Suspect], clocks: Clocks) -> Cause:
    """Some ranks failed of their own cause; or, when nothing better is known, without a word on why."""
    alike = _all_alike(candidates, clocks)
    if alike:
        _assign_roles(alike[0], suspects)
        for suspect in alike:
            suspect.role = "independent"
        confidence = _confidence(alike, group, suspects, clocks)
        if confidence == "certain" and any(s.clock != alike[0].clock for s in alike):
            confidence = "likely"
        return causes.of_all_alike(alike, suspects, confidence)
    first = _first_of(candidates, clocks)
    if first is not None and causes.kind_of(first) == "unknown" and not _all_accounted_for(group, suspects):
        # That a rank is among those that failed is not that it was first.
        first = None
    if first is not None:
        _assign_roles(first, suspects)
        confidence = _confidence([first], group, suspects, clocks)
        return causes.of_rank(first, suspects, confidence, reason=_why_first(first, candidates))
    if candidates[0].ending == VAGUE and (first := _by_choice(candidates)) is not None:
        _assign_roles(first, suspects)
        rest = [s for s in candidates if s is not first]
        later = [_noticed_later(s, first, clocks) for s in rest]
        if None not in later:
            for suspect in rest:
                suspect.role = "collateral"
        return causes.of_rank(first, suspects, "likely" if all(later) else "suspected", reason="chosen_exit_code")
    for suspect in suspects:
        if suspect.failed and suspect.ending != VAGUE:
            suspect.role = "independent" if suspect.ending == OWN else "collateral"
    return causes.of_several(candidates, suspects)


def _why_first(first: Suspect, candidates: Sequence[Suspect]) -> str:
    """The rule by which a rank of these was taken to be first."""
    if first.ending == OWN:
        return "only_own_failure" if len(candidates) == 1 else "first_own_failure"
    return "only_failure" if len(candidates) == 1 else "first_failure"


def _all_alike(candidates: Sequence[Suspect], clocks: Clocks) -> list[Suspect]:
    """The oldest failure and those like it, a moment later: none followed from another, and they share a cause.

    On another host only where the clocks are known well enough to tell what is at once, and older than all others.
    A 1 or an abort without words is no such likeness: those who lost a peer end so too.
    """
    dated = [s for s in candidates if s.exact and s.earliest is not None]
    if len(dated) < len(candidates):
        return []
    oldest = min(dated, key=lambda s: s.earliest or 0.0)
    if oldest.ending == VAGUE and not _speaks_for_itself(oldest):
        return []
    began, likeness = oldest.earliest or 0.0, _likeness(oldest)
    alike = [
        s
        for s in dated
        if (s.earliest or 0.0) <= began + AT_ONCE_S
        and _likeness(s) == likeness
        and clocks.slack(oldest.clock, s.clock, began) <= AT_ONCE_S
    ]
    told = set(map(id, alike))
    alone = all(id(s) in told or proven_before(oldest, s, clocks) for s in dated)
    return alike if len(alike) > 1 and alone else []


def _likeness(suspect: Suspect) -> tuple[object, ...]:
    """What is the same in failures that share a cause.

    An error of its own says what happened; the exit code then only tells whether the agent stopped it on its way out.
    """
    error = suspect.worker.error
    if error is not None and error.error_type is not None:
        return causes.kind_of(suspect), error.error_type, error.message
    said = error.message if error is not None else None
    return causes.kind_of(suspect), suspect.worker.exit_code, said


def _first_of(candidates: Sequence[Suspect], clocks: Clocks) -> Suspect | None:
    """The one that is proven to have failed before all the others; None when the record does not say."""
    if len(candidates) == 1:
        return candidates[0]
    dated = [s for s in candidates if s.latest is not None]
    best = min(dated, key=lambda s: s.latest or 0.0, default=None)
    if best is None or not all(s is best or proven_before(best, s, clocks) for s in candidates):
        return None
    return best


def _by_choice(candidates: Sequence[Suspect]) -> Suspect | None:
    """Of ranks that say nothing, the one whose exit code a script must have chosen: any uncaught exception gives 1."""
    chosen = [s for s in candidates if _speaks_for_itself(s)]
    return chosen[0] if len(chosen) == 1 else None


def _noticed_later(suspect: Suspect, first: Suspect, clocks: Clocks) -> bool | None:
    """Whether a rank that ended with a plain 1 was noticed after the one that chose its exit code, as a victim is.

    Returns:
        Whether that is proven; None when it was not noticed later, as far as is known.
    """
    if suspect.latest is None or first.latest is None or suspect.worker.exit_code != 1:
        return None
    if suspect.latest <= first.latest:
        return None
    return first.latest + clocks.slack(first.clock, suspect.clock, first.latest) < suspect.latest


def _speaks_for_itself(suspect: Suspect) -> bool:
    """Whether a rank without words ended in a way that a lost peer does not explain, as it does a 1 or an abort."""
    return suspect.worker.exit_code not in (None, 1) and suspect.signal != "SIGABRT"


def _assign_roles(first: Suspect, suspects: Sequence[Suspect]) -> None:
    first.role = "first"
    for suspect in suspects:
        if suspect is first or not suspect.failed:
            continue
        if suspect.ending == OWN:
            suspect.role = "independent"
        elif suspect.ending == COLLATERAL or (first.signal in NEEDS_NO_PEER and suspect.worker.exit_code == 1):
            # Python exits with 1 on any exception, and one is to be expected beside a rank that was killed or crashed.
            suspect.role = "collateral"


def _confidence(first: Sequence[Suspect], group: Group, suspects: Sequence[Suspect], clocks: Clocks) -> str:
    """Certain needs a record of the failure, and that no other rank failed or that the order is proven.

    Args:
        first: who was first: one, or those that ended alike.
    """
    one = first[0]
    if causes.kind_of(one) == "unknown":
        return "unknown"
    told = set(map(id, first))
    others = [s for s in suspects if s.failed and id(s) not in told]
    if not others:
        missing = not _all_accounted_for(group, suspects)
        if one.ending == OWN:
            return "likely" if missing or _is_inferred(one) else "certain"
        # torch's line names one failed rank even when several had failed at its look.
        return "suspected" if missing else "certain"
    last = max(first, key=lambda s: s.latest or 0.0)
    if one.ending == OWN:
        # Many thousands may have failed on other hosts, and that no two hosts are certain is told sooner.
        sure = not _is_inferred(one) and all(s.clock == last.clock for s in others)
        return "certain" if sure and all(proven_before(last, s, clocks) for s in others) else "likely"
    victims = all(s.ending == COLLATERAL for s in others)
    return "likely" if victims or all(proven_before(last, s, clocks) for s in others) else "suspected"


def _is_inferred(suspect: Suspect) -> bool:
    """Whether its words may be another's, or may not be those that ended it."""
    worker = suspect.worker
    return worker.rank_presumed or worker.error_unlabelled or worker.error_presumed or worker.oom_presumed


def _all_accounted_for(group: Group, suspects: Sequence[Suspect]) -> bool:
    """Whether it is known of every rank how it ended."""
    ranks = max((m.stint.world_size or 0 for m in group.members), default=0)
    ranks = max([ranks, *(s.worker.rank + 1 for s in suspects if s.worker.rank is not None)])
    nodes_missing = group.group_world_size is not None and len(group.members) < group.group_world_size
    return not nodes_missing and len(suspects) >= ranks and all(s.ending != UNKNOWN for s in suspects)


def _node_lost(node: nodes.Silent, group: Group, suspects: Sequence[Suspect]) -> Cause:
    for suspect in suspects:
        if suspect.failed and (suspect.member is not node.member or suspect.ending == COLLATERAL):
            suspect.role = "collateral"
    erring = [member.agent for member in nodes.erring(group)]
    return causes.of_silence(node, suspects, erring, nodes.missed(group, node.member.agent.descriptor))


def _only_victims(failed: Sequence[Suspect], group: Group, suspects: Sequence[Suspect], clocks: Clocks) -> Cause:
    for suspect in failed:
        suspect.role = "collateral"
    # The peer that a victim lost may be one without a record.
    first = _first_of(failed, clocks) if _all_accounted_for(group, suspects) else None
    if first is None:
        return causes.of_victims(failed, suspects)
    first.role = "first"
    return causes.of_rank(first, suspects, "suspected", reason="first_victim")


def _no_worker_failed(group: Group, suspects: Sequence[Suspect], clocks: Clocks) -> Cause | None:
    """No worker is known to have failed by itself: an agent may have, or that the group failed is all that is known."""
    stopped = [s for s in suspects if s.member is None and s.ending == STOPPED]
    if stopped and not any(s.worker.alive for s in suspects):
        return causes.of_outside_stop(stopped, whole=not group.missing_ranks)
    for member in nodes.erring(group):
        return cause_of_agent(member, clocks)
    failed = [m for m in group.members if m.stint.failed and m.stint.succeeded is None and m.stint.membership is None]
    if not failed or _any_succeeded(group):
        return None
    references = [
        evidence.cite(m.stint.failed, f"the workers on {m.agent.host} failed; which was first is not recorded")
        for m in failed
    ]
    return Cause(
        kind="unknown",
        detected=causes.detected(suspects),
        evidence=evidence.listed(references),
        reason="only_group_failed",
    )
