"""When every rank that failed says that another one is missing: which one, and since when they waited for it.

A record that names the absent rank comes first, then a rank that had left, then where each rank stood and at which
step. An abort of a watchdog points at the ranks that said nothing of a timeout, and at one only when it is alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from jobtape.diagnose import causes, evidence, nodes, silence
from jobtape.diagnose.attempts import Group
from jobtape.diagnose.clocks import Clocks
from jobtape.diagnose.failure_text import crash_location, running_thread
from jobtape.diagnose.model import Cause
from jobtape.diagnose.signatures import TIMEOUT, in_torch_distributed
from jobtape.diagnose.stints import FROM_OUTPUT
from jobtape.diagnose.suspects import STOPPED, SUCCEEDED, UNKNOWN, Suspect
from jobtape.diagnose.waits import wait_of


class Scene(NamedTuple):
    """The victims of an attempt, all of its ranks, and whose times are told apart."""

    failed: Sequence[Suspect]
    suspects: Sequence[Suspect]
    group: Group
    clocks: Clocks

    @property
    def rest(self) -> list[Suspect]:
        """The ranks that did not fail."""
        return [s for s in self.suspects if not s.failed]

    @property
    def is_whole(self) -> bool:
        """Whether there is a record of every rank of the world."""
        size = max((m.stint.world_size or 0 for m in self.group.members), default=0)
        return len(self.suspects) >= size


def judge_absence(scene: Scene, *, timed_out: bool = False) -> Cause | None:
    """Which rank the others waited for, or lost; sets the roles when that is known.

    Args:
        scene: an attempt in which every failure is a victim's.
        timed_out: the victims have no words, and ended as a watchdog ends them.

    Returns:
        None when nothing on the record points at ranks.
    """
    gone = vanished(scene.suspects)
    if len(gone) == 1:
        return vanished_rank(gone[0], scene)
    timed_out = timed_out or any(_is_timeout(s) for s in scene.failed)
    return (
        _named(scene, timed_out)
        or _left_early(scene)
        or (_paused_node(scene) if timed_out else None)
        or _removed(scene)
        or (_stalled(scene) if timed_out else None)
    )


def _is_timeout(suspect: Suspect) -> bool:
    return suspect.signature is not None and suspect.signature.meaning == TIMEOUT


def vanished(suspects: Sequence[Suspect]) -> list[Suspect]:
    """Workers that no agent watched and whose own tapes stop without an end."""
    return [
        s for s in suspects if s.member is None and s.ending == UNKNOWN and not s.worker.alive and not s.worker.imported
    ]


def vanished_rank(gone: Suspect, scene: Scene) -> Cause:
    """The one worker without an end."""
    return _of_rank(gone, "unknown", scene, "vanished_rank")


def _named(scene: Scene, timed_out: bool) -> Cause | None:
    """The ranks that the victims themselves say did not come."""
    absent: set[int] = set()
    speakers = []
    for suspect in scene.failed:
        names = set(wait_of(suspect.worker.error).absent) - {suspect.worker.rank}
        if names:
            speakers.append(suspect)
            absent |= names
    if not absent:
        return None
    known = [s for s in scene.suspects if s.worker.rank in absent]
    if len(absent) == 1 and known:
        if known[0].ending == SUCCEEDED:
            return _of_rank(known[0], "left_early", scene, "left_early")
        return _of_rank(known[0], "stall" if timed_out else "unknown", scene, "named_absent")
    for suspect in scene.failed:
        if suspect.worker.rank not in absent:
            suspect.role = "collateral"
    ranks = sorted(absent)
    who = evidence.ranks([s.worker.rank for s in speakers if s.worker.rank is not None]) or "a rank"
    missing = "" if len(known) == len(absent) else "; of them there are no records" if not known else ""
    return Cause(
        kind="stall" if timed_out else "unknown",
        time=waiting_began(scene) if timed_out else None,
        detected=causes.detected(scene.suspects),
        confidence="likely",
        evidence=evidence.listed([*_victims(speakers), *(evidence.of_stop(s.worker) for s in known)]),
        note=f"{evidence.ranks(ranks)} did not come, says {who}{missing}",
        ranks=tuple(ranks),
        reason="named_absent",
    )


def _left_early(scene: Scene) -> Cause | None:
    """A rank that had ended well when the others still needed it."""
    rest = scene.rest
    absent = [s for s in rest if s.ending == SUCCEEDED and _ended_before(s, scene)]
    if not absent and any(s.ending == STOPPED for s in rest):
        # An agent signals whoever still runs: a rank with neither signal nor failure had ended already.
        absent = [s for s in rest if s.ending == UNKNOWN or (s.ending == SUCCEEDED and s.worker.left is None)]
    return _of_rank(absent[0], "left_early", scene, "left_early") if len(absent) == 1 else None


def _ended_before(suspect: Suspect, scene: Scene) -> bool:
    end = scene.clocks.at(suspect.clock, suspect.worker.left)
    return end is not None and all(s.latest is not None and end <= s.latest for s in scene.failed)


def _paused_node(scene: Scene) -> Cause | None:
    """A node whose heartbeats stopped for long and came again: it stood still, and the others waited for its ranks."""
    paused = nodes.paused(scene.group, scene.failed, scene.clocks)
    if len(paused) != 1:
        return None
    member, due = paused[0].member, paused[0].due
    ours = [s.worker.rank for s in scene.suspects if s.member is member and s.worker.rank is not None]
    pause = member.stint.pause
    says = f"the first heartbeat of {member.agent.host} after {paused[0].silent_s:,.0f} s"
    for suspect in scene.failed:
        suspect.role = "collateral"
    return Cause(
        kind="stall",
        host=member.agent.host,
        time=due,
        detected=causes.detected(scene.suspects),
        confidence="suspected",
        evidence=evidence.listed([evidence.cite(pause.end if pause else None, says), *_victims(scene.failed)]),
        note=f"the node sent no heartbeat for {paused[0].silent_s:,.0f} s, and then again",
        ranks=tuple(sorted(ours)),
        reason="paused_node",
    )


def _removed(scene: Scene) -> Cause | None:
    """A node that left no record, and that the others removed because it had sent no heartbeat."""
    found = nodes.missed_strangers(scene.group)
    if len({each.node for each in found}) != 1:
        return None
    for suspect in scene.failed:
        suspect.role = "collateral"
    first = found[0]
    return Cause(
        kind="node_lost",
        host=first.node.rsplit("_", 2)[0] or None,
        detected=causes.detected(scene.suspects),
        confidence="likely",
        evidence=evidence.listed(
            [
                evidence.cite(first.point, f"{first.node} was removed, since it had sent no heartbeat"),
                *_victims(scene.failed),
            ]
        ),
        note="there are no records of that node: the others removed it",
        reason="removed_node",
    )


def _stalled(scene: Scene) -> Cause | None:
    """The rank that did not wait in a collective: by its stack, as the only one, or by its steps."""
    rest = scene.rest
    told = [s for s in rest if s.worker.stack]
    standing = [s for s in told if not in_torch_distributed(running_thread(s.worker.stack))]
    if len(told) == len(rest) and len(standing) == 1:
        return _of_rank(standing[0], "stall", scene, "not_waiting")
    if len(rest) == 1 and not told and scene.is_whole:
        left = rest[0].ending == SUCCEEDED
        return _of_rank(rest[0], *(("left_early", scene, "left_early") if left else ("stall", scene, "not_waiting")))
    found = silence.behind(scene.suspects, scene.clocks)
    if found is not None:
        suspect, steps = found
        cause = _of_rank(suspect, "stall", scene, "steps_stopped")
        said = f"its steps stopped {steps} before those of every other rank"
        return msgspec.structs.replace(cause, note=f"{cause.note}; {said}" if cause.note else said)
    silent = standing if standing and len(told) == len(rest) else [s for s in rest if s not in told or s in standing]
    return _several_silent(silent, scene)


def _several_silent(silent: Sequence[Suspect], scene: Scene) -> Cause | None:
    """A watchdog points at ranks of which nothing tells the one apart: they are named, and none is blamed."""
    ranks = sorted(s.worker.rank for s in silent if s.worker.rank is not None)
    if not ranks:
        return None
    for suspect in scene.failed:
        suspect.role = "collateral"
    missing = "" if scene.is_whole else ", and there are ranks without a record"
    stops = [evidence.of_stop(s.worker) for s in silent]
    return Cause(
        kind="unknown",
        detected=causes.detected(scene.suspects),
        evidence=evidence.listed([*_victims(scene.failed), *stops[: causes.FEW]]),
        note=f"a collective timed out; {evidence.ranks(ranks)} said nothing of it{missing}: "
        "nothing tells whom the others waited for",
        ranks=tuple(ranks),
        reason="several_silent",
    )


def _victims(failed: Sequence[Suspect]) -> list[str | None]:
    found = [r for s in failed for r in (*evidence.of_failure(s.worker, s.signal)[:1], evidence.said(s.worker))]
    return found[: 2 * causes.FEW]


def waiting_began(scene: Scene, absent: Suspect | None = None) -> float | None:
    """Since when the others waited: by what they say of their waiting, else by when the absent rank's step was due.

    Never before the attempt's workers were started.
    """
    began: list[float] = []
    for suspect in scene.failed:
        waited_s, gave_up = wait_of(suspect.worker.error).waited_s, _gave_up(suspect, scene.clocks)
        if waited_s is not None and gave_up is not None:
            began.append(gave_up - waited_s)
    if not began and absent is not None:
        last = silence.last_step(absent.worker, scene.clocks)
        if last is not None and last.due is not None:
            began.append(last.due)
    if not began:
        return None
    starts = [scene.clocks.at(s.clock, s.worker.start) for s in scene.suspects]
    return max([min(began), *(start for start in starts[:1] if start is not None)])


def _gave_up(suspect: Suspect, clocks: Clocks) -> float | None:
    """When a victim gave up waiting: when it raised, printed that it did, or was noticed."""
    if suspect.worker.fault is None and suspect.worker.error_weight == FROM_OUTPUT:
        printed = clocks.at(suspect.clock, suspect.worker.error_at)
        if printed is not None:
            return printed
    return suspect.earliest if suspect.earliest is not None else suspect.latest


def _of_rank(absent: Suspect, kind: str, scene: Scene, reason: str) -> Cause:
    """A rank that the others waited for: it left early, stalled, or vanished."""
    for suspect in scene.failed:
        suspect.role = "collateral"
    absent.role = "first"
    worker, clocks = absent.worker, scene.clocks
    left = kind == "left_early"
    who = evidence.who(worker)
    references = [evidence.cite(worker.end, f"{who} {evidence.how_it_ended(worker, absent.signal)}")]
    location = crash_location(worker.stack) if worker.stack else None
    if left and worker.leaving is not None:
        references.insert(0, evidence.cite(worker.leaving.point, f"{who} {worker.leaving.says}"))
        location = worker.leaving.location or location
    references.append(evidence.of_stop(worker))
    if worker.end is None and kind == "unknown":
        references.append(evidence.cite(worker.last, f"the last record of {who}: its tape has no end"))
    elif kind == "stall" and worker.activity is not None:
        references.append(evidence.cite(worker.last, f"the last record of {who}"))
    references += _victims([s for s in scene.failed if s is not absent])
    if worker.start is not None:
        references.append(evidence.cite(worker.start, f"process {worker.pid} was started as {who}"))
    time = None
    if left:
        time = clocks.at(absent.clock, worker.left)
    elif kind == "stall":
        time = waiting_began(scene, absent)
    is_told = reason == "named_absent" or (left and worker.left is not None)
    return Cause(
        kind=kind,
        exit_code=worker.exit_code if left else None,
        time=time,
        detected=causes.detected(scene.suspects),
        confidence="likely" if is_told else "suspected",
        evidence=evidence.listed(references),
        location=location,
        reason=reason,
        **causes.process(absent),
    )
