"""What a reader of the answer should know besides: damage, losses, odd clocks, trouble at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jobtape.diagnose import evidence, nodes
from jobtape.diagnose.attempts import Group, History, Member
from jobtape.diagnose.clocks import Clocks
from jobtape.diagnose.facts import Agent, FileFacts
from jobtape.diagnose.model import Attempt, HostClock, Loss, Warning_
from jobtape.diagnose.signatures import Added

WORTH_TELLING_S = 1.0
"""An offset below it misleads nobody who reads logs side by side: torch's own times of failures are whole seconds."""
MOST_SKEWS = 5
"""More clocks than this that are off are told of together."""


def warnings_of(
    files: Sequence[FileFacts], agents: Sequence[Agent], past: History, attempts: Sequence[Attempt], clocks: Clocks
) -> list[Warning_]:
    """The warnings of a run, the gravest first."""
    found: list[Warning_] = []
    for file in files:
        if file.damaged_lines:
            lines = "line" if file.damaged_lines == 1 else "lines"
            detail = f" ({evidence.one_line(file.damage)})" if file.damage else ""
            found.append(_warn("damaged_file", f"{file.name}: {file.damaged_lines} {lines} could not be read{detail}"))
        if file.events_missing:
            found.append(_warn("lost_events", f"{file.name}: {file.events_missing} records are missing"))
    found += _skews(clocks.hosts())
    found += _teardown(agents)
    found += _spares(past)
    for attempt, group in zip(attempts, past.groups, strict=True):
        found += _of_attempt(attempt, group, clocks)
    found += _ambiguous(agents)
    return found


def of_signatures(added: Added) -> list[Warning_]:
    """What is wrong with the rows that a user has added to the table of what victims say."""
    return [_warn("signature_file", evidence.one_line(mistake, 400)) for mistake in added.mistakes]


def _warn(kind: str, text: str) -> Warning_:
    return Warning_(kind=kind, text=text)


def _skews(hosts: Sequence[HostClock]) -> list[Warning_]:
    off = [host for host in hosts if host.offset_s is not None and _is_off(host)]
    back = [host for host in hosts if not host.steady]
    found = [
        _warn("clock_skew", f"the clock of {host.host} was set back: what came first there, or elsewhere, is not known")
        for host in back[:MOST_SKEWS]
    ]
    if len(off) > MOST_SKEWS:
        names = ", ".join(host.host for host in off[:MOST_SKEWS])
        least, most = (f"{pick(abs(host.offset_s or 0.0) for host in off):.1f}" for pick in (min, max))
        return [
            *found,
            _warn(
                "clock_skew",
                f"the clocks of {len(off)} hosts are {least} to {most} s ahead of {hosts[0].host}'s or behind it; "
                f"their times were corrected: {names} and {len(off) - MOST_SKEWS} more",
            ),
        ]
    for host in off:
        offset_s = host.offset_s or 0.0
        says = (
            f"the clock of {host.host} is {abs(offset_s):.1f} s {'ahead of' if offset_s > 0 else 'behind'} "
            f"{hosts[0].host}'s (within {_tenths(host.bound_s or 0.0):.1f} s); its times were corrected"
        )
        found.append(_warn("clock_skew", says))
    return found


def _tenths(seconds: float) -> float:
    """Rounded up: a bound that is told smaller than it is would be none."""
    return math.ceil(seconds * 10) / 10


def _is_off(host: HostClock) -> bool:
    offset_s = abs(host.offset_s or 0.0)
    return offset_s >= WORTH_TELLING_S and host.bound_s is not None and offset_s > host.bound_s


def _teardown(agents: Sequence[Agent]) -> list[Warning_]:
    found = []
    for agent in agents:
        # The rendezvous and the agent's log tell of the same trouble.
        for text, place in {text: (text, place) for text, place in reversed(agent.troubles)}.values():
            found.append(
                _warn(
                    "teardown",
                    f"the agent on {agent.host} {text} after its workers ended: {evidence.cite(place, '')}".rstrip(),
                )
            )
        stint = agent.current
        if stint is not None and stint.succeeded is not None and agent.ended == "FAILED":
            what = (
                f"got {agent.signal}"
                if agent.signal
                else f"failed: {agent.error.headline if agent.error else 'no reason given'}"
            )
            found.append(
                _warn(
                    "teardown", f"after its workers had succeeded, the agent on {agent.host} {evidence.one_line(what)}"
                )
            )
    return found


def _spares(past: History) -> list[Warning_]:
    found = []
    for member in past.spares:
        error = member.stint.rendezvous_error or (member.agent.error if member.is_last else None)
        if error is not None:
            found.append(
                _warn(
                    "spare_error",
                    f"the agent on {member.agent.host} waited in vain for a place, and failed: "
                    f"{evidence.one_line(error.headline)}",
                )
            )
    return found


def _of_attempt(attempt: Attempt, group: Group, clocks: Clocks) -> list[Warning_]:
    found = []
    ended_well = sorted({m.agent.host for m in group.members if m.stint.succeeded is not None})
    if attempt.outcome in ("failed", "stopped") and ended_well:
        hosts = ", ".join(ended_well[:5])
        found.append(
            _warn("partial_failure", f"attempt {attempt.index} {attempt.outcome}, but workers on {hosts} ended well")
        )
    for member in group.members:
        agent, stint = member.agent, member.stint
        if attempt.outcome == "succeeded" and stint.succeeded is None and not agent.alive:
            kind = "partial_failure" if agent.live_tape else "missing_end"
            says = f"attempt {attempt.index} succeeded, but how the workers on {agent.host} ended is not on the record"
            found.append(_warn(kind, says))
        outlived = nodes.outlived_s(member, (), clocks) if _is_gone(member) else None
        if outlived is not None and outlived > nodes.UNCLEAR_S:
            found.append(
                _warn(
                    "orphan_workers",
                    f"workers on {agent.host} lived on for {outlived:.1f} s or more after their agent's last record",
                )
            )
    if absent := group.missing_ranks:
        total = len(absent) + len(group.processes)
        says = f"attempt {attempt.index} ran with {total} ranks; there are no records of {evidence.ranks(absent)}"
        found.append(_warn("missing_ranks", says))
    size = group.group_world_size
    if size is not None and group.has_workers and len(group.members) < size:
        missing = size - len(group.members)
        found.append(
            _warn(
                "missing_node",
                f"attempt {attempt.index} ran on {size} nodes; of {missing} of them there are no records",
            )
        )
    return found


def _is_gone(member: Member) -> bool:
    agent = member.agent
    return member.is_last and not (agent.ended or agent.closed or agent.alive)


def _ambiguous(agents: Sequence[Agent]) -> list[Warning_]:
    seen: dict[tuple[str, int | None, str, int], int] = {}
    for agent in agents:
        if agent.pid is not None:
            key = (agent.host, agent.pid, agent.boot_id, agent.pid_start)
            seen[key] = seen.get(key, 0) + 1
    return [
        _warn(
            "ambiguous_node",
            f"{count} agents have the host name {key[0]} and the process id {key[1]}; their records tell them apart",
        )
        for key, count in seen.items()
        if count > 1
    ]


def loss_of(files: Sequence[FileFacts]) -> Loss:
    """How much of the record is missing."""
    return Loss(
        events_missing=sum(file.events_missing for file in files),
        damaged_lines=sum(file.damaged_lines for file in files),
        files=len(files),
    )
