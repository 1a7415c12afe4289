"""What ended an attempt: which failure was first, what followed from it, and how sure that is.

The order of the questions is that of ``docs/diagnosis.md``: was an agent told to stop; which rank failed of its own
cause, and of several which first; did a node fall silent; did a rank leave or stall while the others waited; and what
is left when every failure is the consequence of something that is not on the record.
"""

from __future__ import annotations

from collections.abc import Sequence

from jobtape.diagnose import causes, evidence, nodes
from jobtape.diagnose.attempts import Group
from jobtape.diagnose.clocks import Clocks
from jobtape.diagnose.failure_text import running_thread
from jobtape.diagnose.model import Cause
from jobtape.diagnose.signatures import in_torch_distributed
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
    if told and not any(_older_than_signal(s, told[0], clocks) for s in failed):
        return _preempted(told, suspects)
    own = [s for s in failed if s.ending == OWN]
    if own:
        return _rank_failed(own, group, suspects, clocks)
    vague = [s for s in failed if s.ending == VAGUE]
    silent = [] if any(map(_speaks_for_itself, vague)) else nodes.silent_before(group, failed, clocks)
    if silent and (failed or went_on or not _any_succeeded(group)):
        return _node_lost(silent[0], suspects)
    if vague:
        return _rank_failed(vague, group, suspects, clocks)
    if failed:
        return _left_or_stalled(failed, suspects, clocks) or _only_victims(failed, suspects, clocks)
    gone = _vanished(suspects)
    if len(gone) == 1 and not any(s.worker.alive for s in suspects):
        return _vanished_rank(gone[0], failed, suspects, clocks)
    return _no_worker_failed(group, suspects, clocks)


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
    return suspect.latest + clocks.slack(suspect.clock, agent.clock) <= told.time


def _preempted(told: Sequence[nodes.Signalled], suspects: Sequence[Suspect]) -> Cause:
    for suspect in suspects:
        if suspect.failed:
            suspect.role = "independent" if suspect.ending == OWN else "collateral"
    unsure = any(s.role == "independent" for s in suspects) or (len(told) > 1 and any(t.time is None for t in told))
    return causes.of_signal(told, suspects, "likely" if unsure else "certain")


def _rank_failed(candidates: Sequence[Suspect], group: Group, suspects: Sequence[Suspect], clocks: Clocks) -> Cause:
    """Some ranks failed of their own cause; or, when nothing better is known, without a word on why."""
    alike = _all_alike(candidates)
    if alike:
        _assign_roles(alike[0], suspects)
        for suspect in alike:
            suspect.role = "independent"
        return causes.of_all_alike(alike, suspects, _confidence(alike, group, suspects, clocks))
    first = _first_of(candidates, clocks)
    if first is not None and causes.kind_of(first) == "unknown" and not _all_accounted_for(group, suspects):
        # That a rank is among those that failed is not that it was first.
        first = None
    if first is not None:
        _assign_roles(first, suspects)
        return causes.of_rank(first, suspects, _confidence([first], group, suspects, clocks))
    if candidates[0].ending == VAGUE and (first := _by_choice(candidates)) is not None:
        _assign_roles(first, suspects)
        rest = [s for s in candidates if s is not first]
        if not all(_noticed_later(s, first) for s in rest):
            return causes.of_rank(first, suspects, "suspected")
        for suspect in rest:
            suspect.role = "collateral"
        return causes.of_rank(first, suspects, "likely")
    for suspect in suspects:
        if suspect.failed and suspect.ending != VAGUE:
            suspect.role = "independent" if suspect.ending == OWN else "collateral"
    return causes.of_several(candidates, suspects)


def _all_alike(candidates: Sequence[Suspect]) -> list[Suspect]:
    """The oldest failure and those like it, a moment later: none followed from another, and they share a cause.

    A 1 or an abort without words is no such likeness: those who lost a peer end so too.
    """
    dated = [s for s in candidates if s.exact and s.earliest is not None]
    if len(dated) < len(candidates):
        return []
    oldest = min(dated, key=lambda s: s.earliest or 0.0)
    if oldest.ending == VAGUE and not _speaks_for_itself(oldest):
        return []
    last = (oldest.earliest or 0.0) + AT_ONCE_S
    alike = [s for s in dated if (s.earliest or 0.0) <= last and _likeness(s) == _likeness(oldest)]
    return alike if len(alike) > 1 else []


def _likeness(suspect: Suspect) -> tuple[object, ...]:
    """What is the same in failures that share a cause.

    An error of its own says what happened; the exit code then only tells whether the agent stopped it on its way out.
    """
    error = suspect.worker.error
    if error is not None and error.error_type is not None:
        return causes.kind_of(suspect), suspect.clock, error.error_type, error.message
    said = error.message if error is not None else None
    return causes.kind_of(suspect), suspect.clock, suspect.worker.exit_code, said


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


def _noticed_later(suspect: Suspect, first: Suspect) -> bool:
    """Whether a rank that ended with a plain 1 was noticed after the one that chose its exit code, as a victim is."""
    later = suspect.latest is not None and first.latest is not None and first.latest < suspect.latest
    return later and suspect.worker.exit_code == 1


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
            return "likely" if missing else "certain"
        # torch's line names one failed rank even when several had failed at its look.
        return "suspected" if missing else "certain"
    last = max(first, key=lambda s: s.latest or 0.0)
    proven = all(proven_before(last, s, clocks) for s in others)
    if one.ending == OWN:
        return "certain" if proven and all(clocks.slack(one.clock, s.clock) == 0.0 for s in others) else "likely"
    return "likely" if proven or all(s.ending == COLLATERAL for s in others) else "suspected"


def _all_accounted_for(group: Group, suspects: Sequence[Suspect]) -> bool:
    """Whether it is known of every rank how it ended."""
    ranks = max((m.stint.world_size or 0 for m in group.members), default=0)
    nodes_missing = group.group_world_size is not None and len(group.members) < group.group_world_size
    return not nodes_missing and len(suspects) >= ranks and all(s.ending != UNKNOWN for s in suspects)


def _node_lost(node: nodes.Silent, suspects: Sequence[Suspect]) -> Cause:
    for suspect in suspects:
        if suspect.failed and (suspect.member is not node.member or suspect.ending == COLLATERAL):
            suspect.role = "collateral"
    return causes.of_silence(node, suspects)


def _left_or_stalled(failed: Sequence[Suspect], suspects: Sequence[Suspect], clocks: Clocks) -> Cause | None:
    """Every failure says that another rank is missing: one that had ended before, or one that did not wait."""
    rest = [s for s in suspects if not s.failed]
    gone = _vanished(suspects)
    if len(gone) == 1:
        return _vanished_rank(gone[0], failed, suspects, clocks)
    kind = "left_early"
    absent = [s for s in rest if s.ending == SUCCEEDED and _ended_before(s, failed, clocks)]
    if not absent and any(s.ending == STOPPED for s in rest):
        # An agent signals whoever still runs: a rank with neither signal nor failure had ended already.
        absent = [s for s in rest if s.ending == UNKNOWN]
    if len(absent) != 1 and any(s.signature is not None and s.signature.meaning == "timeout" for s in failed):
        kind = "stall"
        absent = _not_waiting(rest)
    if len(absent) != 1:
        return None
    absent[0].role = "first"
    for suspect in failed:
        suspect.role = "collateral"
    return causes.of_absent_rank(absent[0], kind, failed, suspects, clocks)


def _vanished(suspects: Sequence[Suspect]) -> list[Suspect]:
    """Workers that no agent watched and whose own tapes stop without an end."""
    return [s for s in suspects if s.member is None and s.ending == UNKNOWN and not s.worker.alive]


def _vanished_rank(gone: Suspect, failed: Sequence[Suspect], suspects: Sequence[Suspect], clocks: Clocks) -> Cause:
    gone.role = "first"
    for suspect in failed:
        suspect.role = "collateral"
    return causes.of_absent_rank(gone, "unknown", failed, suspects, clocks)


def _not_waiting(rest: Sequence[Suspect]) -> list[Suspect]:
    """The ranks that did not wait in a collective when they were stopped, as far as the record tells of all."""
    if len(rest) > 1 and not all(s.worker.stack for s in rest):
        return []
    return [s for s in rest if not in_torch_distributed(running_thread(s.worker.stack))]


def _ended_before(suspect: Suspect, failed: Sequence[Suspect], clocks: Clocks) -> bool:
    end = clocks.at(suspect.clock, suspect.worker.left)
    return end is not None and all(s.latest is not None and end <= s.latest for s in failed)


def _only_victims(failed: Sequence[Suspect], suspects: Sequence[Suspect], clocks: Clocks) -> Cause:
    for suspect in failed:
        suspect.role = "collateral"
    first = _first_of(failed, clocks)
    if first is None:
        return causes.of_victims(failed, suspects)
    first.role = "first"
    return causes.of_rank(first, suspects, "suspected")


def _no_worker_failed(group: Group, suspects: Sequence[Suspect], clocks: Clocks) -> Cause | None:
    """No worker is known to have failed by itself: an agent may have, or that the group failed is all that is known."""
    for member in nodes.erring(group):
        return causes.of_agent(member.agent.error, member.agent, member.agent.end, clocks)
    failed = [m for m in group.members if m.stint.failed and m.stint.succeeded is None and m.stint.membership is None]
    if not failed or _any_succeeded(group):
        return None
    references = [
        evidence.cite(m.stint.failed, f"the workers on {m.agent.host} failed; which was first is not recorded")
        for m in failed
    ]
    return Cause(kind="unknown", detected=causes.detected(suspects), evidence=evidence.listed(references))
