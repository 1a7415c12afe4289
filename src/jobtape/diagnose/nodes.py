"""Agents as suspects: a signal from outside, a node that fell silent, an agent that failed itself."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from jobtape.diagnose.attempts import Group, Member
from jobtape.diagnose.clocks import Clocks
from jobtape.diagnose.facts import Missed, Point
from jobtape.diagnose.failure_text import FailureText
from jobtape.diagnose.signatures import signature_of
from jobtape.diagnose.suspects import Suspect

CLOSED = ("RendezvousClosedError", "RendezvousGracefulExitError")
"""Errors of an agent that comes to a rendezvous which no longer lets anybody join."""

MANY_BEATS = 10
"""Heartbeats that would have fitted into a pause, for it to be called one."""

SHORT_S = 30.0
"""A pause up to this is none: a busy store takes so long."""

UNCLEAR_S = 1.0
"""How much longer than an agent without a rhythm others of its boot must have lived to tell that the node did."""


class Signalled(msgspec.Struct, eq=False):
    """An agent that was told to stop, and when (unix seconds)."""

    member: Member
    time: float | None


class Paused(msgspec.Struct, eq=False):
    """A node whose heartbeats stopped for long and came again: when one was due, and for how long there was none."""

    member: Member
    due: float
    silent_s: float


class Silent(msgspec.Struct, eq=False):
    """An agent whose records stop without an end.

    Attributes:
        last: its last sign of life.
        due: when the next one should have come; None when it had no rhythm.
        alone: other processes of its boot went on after that, so the agent is gone and not its node.
    """

    member: Member
    last: float | None
    due: float | None
    alone: bool = False


def signalled(group: Group, clocks: Clocks) -> list[Signalled]:
    """The agents that got a death signal while this attempt was their last and had not ended well, earliest first."""
    found = [
        Signalled(member, clocks.at(member.agent.clock, member.agent.signal_at))
        for member in group.members
        if member.agent.signal is not None and member.is_last and member.stint.succeeded is None
    ]
    return sorted(found, key=lambda s: float("inf") if s.time is None else s.time)


def stands_before(one: Point, other: Point) -> bool:
    """Whether one record of an agent stands before another one."""
    if one.place.file.partition(":")[0] == other.place.file.partition(":")[0]:
        return one.place.seq < other.place.seq
    return one.time is not None and other.time is not None and one.time < other.time


def silent(group: Group, clocks: Clocks) -> list[Silent]:
    """The agents whose records stop during this attempt, without an end and without a failure."""
    found = []
    for member in group.members:
        agent, stint = member.agent, member.stint
        over = stint.succeeded or stint.failed or stint.membership
        if (
            not member.is_last
            or agent.ended
            or agent.alive
            or agent.closed
            or agent.signal is not None
            or over is not None
        ):
            continue
        last = clocks.at(agent.clock, agent.last)
        beat = agent.beat_s
        due = None if last is None or beat is None else last + beat
        lived_s = outlived_s(member, group.members, clocks)
        alone = any(w.alive for w in stint.workers) or (lived_s is not None and lived_s > (beat or UNCLEAR_S))
        found.append(Silent(member, last, due, alone))
    return sorted(found, key=lambda s: float("inf") if s.last is None else s.last)


def outlived_s(member: Member, others: Sequence[Member], clocks: Clocks) -> float | None:
    """How long its workers, or others of the same boot, are known to have lived on after an agent's last record."""
    agent = member.agent
    last = clocks.at(agent.clock, agent.last)
    lives = [worker.last for worker in member.stint.workers]
    if agent.clock.kind == "boot":
        lives += [other.agent.last for other in others if other.agent.clock == agent.clock]
    known = [life for point in lives if (life := clocks.at(agent.clock, point)) is not None]
    return max(known) - last if known and last is not None else None


def silent_before(group: Group, failed: Sequence[Suspect], clocks: Clocks) -> list[Silent]:
    """The silent nodes that gave no sign of life after the first failure on another node."""
    found = silent(group, clocks)
    if not found:
        return []
    dated = sorted((s for s in failed if s.latest is not None), key=lambda s: s.latest or 0.0)
    return [node for node in found if not _outlived(node, dated, clocks)]


def _outlived(node: Silent, dated: Sequence[Suspect], clocks: Clocks) -> bool:
    first = next((s for s in dated if s.member is None or s.member.stint is not node.member.stint), None)
    if first is None or first.latest is None or node.last is None:
        return False
    return node.last > first.latest + clocks.slack(first.clock, node.member.agent.clock, first.latest)


def paused(group: Group, failed: Sequence[Suspect], clocks: Clocks) -> list[Paused]:
    """The nodes that had not sent a heartbeat for many times their rhythm, and did again, before anybody gave up."""
    gave_up = min((s.latest for s in failed if s.latest is not None), default=None)
    found = []
    for member in group.members:
        pause, beat_s = member.stint.pause, member.agent.beat_s
        if pause is None or beat_s is None or pause.end.time is None:
            continue
        silent_s = pause.end.time - pause.began
        # Of a few heartbeats one pause makes half of the mean.
        rhythm_s = (beat_s * (member.agent.beats - 1) - silent_s) / max(member.agent.beats - 2, 1)
        due = clocks.unix(member.agent.clock, pause.began + rhythm_s)
        if silent_s > max(MANY_BEATS * rhythm_s, SHORT_S) and due is not None and (gave_up is None or due <= gave_up):
            found.append(Paused(member, due, silent_s))
    return found


def missed(group: Group, descriptor: str) -> Missed | None:
    """The first record in which another node of the attempt removed this one, because it had sent no heartbeat."""
    found = [m for member in group.members for m in member.agent.missed if descriptor and m.node == descriptor]
    return min(found, key=lambda m: float("inf") if m.point.time is None else m.point.time, default=None)


def missed_strangers(group: Group) -> list[Missed]:
    """The removals, during the attempt and until its agents joined the next one, of nodes that left no record."""
    known = {member.agent.descriptor for member in group.members}
    found = []
    for member in group.members:
        agent, stint = member.agent, member.stint
        later = agent.stints[stint.number + 1] if stint.number + 1 < len(agent.stints) else None
        for each in agent.missed:
            since = stint.started is not None and stands_before(stint.started, each.point)
            until = later is None or later.joined is None or stands_before(each.point, later.joined)
            if since and until and each.node not in known:
                found.append(each)
    return found


def erring(group: Group) -> list[Member]:
    """The agents that failed themselves while this attempt was their last and not yet over; of their own cause first.

    An agent whose error says that the store or a peer went away comes after one that says nothing of that kind.
    """
    found = [
        member
        for member in group.members
        if member.is_last
        and member.agent.ended == "FAILED"
        and member.agent.signal is None
        and member.stint.succeeded is None
    ]
    return sorted(found, key=lambda member: is_consequence(member.agent.error))


def erring_before(failed: Sequence[Suspect], group: Group, clocks: Clocks) -> Member | None:
    """An agent that failed of its own cause while workers of others lost a peer, and not provably after them."""
    for member in erring(group) if failed else ():
        agent = member.agent
        time = clocks.at(agent.clock, agent.end)
        if agent.error is None or is_consequence(agent.error):
            continue
        if not any(
            time is not None and s.latest is not None and s.latest + clocks.slack(s.clock, agent.clock, time) <= time
            for s in failed
        ):
            return member
    return None


def changed_before(failed: Sequence[Suspect], suspects: Sequence[Suspect], group: Group, clocks: Clocks) -> bool:
    """Whether an agent had begun to restart its workers for newcomers before any other noticed a failure.

    Workers whose peers are stopped so fail, when their own agent has not looked yet. An agent whose workers failed
    first joins the next round only afterwards, and so is no newcomer for the others before.
    """
    changes = [(m.agent.clock, clocks.at(m.agent.clock, m.stint.membership)) for m in group.members]
    clock, began = min(
        ((clock, time) for clock, time in changes if time is not None), key=lambda found: found[1], default=(None, 0.0)
    )
    if not failed or clock is None:
        return False
    noticed: dict[int, float] = {}
    for suspect in suspects:
        if suspect.noticed is not None:
            noticed[id(suspect.member)] = min(suspect.noticed, noticed.get(id(suspect.member), suspect.noticed))
    for suspect in failed:
        time = noticed.get(id(suspect.member))
        # A victim's own words speak for the change; of one without words the order has to be proven.
        slack = 0.0 if suspect.signature is not None else clocks.slack(clock, suspect.clock, began)
        if time is None or time <= began + slack:
            return False
    return True


def is_consequence(error: FailureText | None) -> bool:
    """Whether an agent's error says that something else had happened: a closed rendezvous, or a store that is gone."""
    if error is None:
        return False
    closed = (error.error_type or "").rpartition(".")[2] in CLOSED
    return closed or signature_of(error) is not None
