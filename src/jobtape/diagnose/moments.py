"""Moments that all nodes of a rendezvous round share, and between which two times each node's clock read them.

Two things happen once for all agents of a round, and each agent's own records stand before and after them
(torch ``elastic/rendezvous/dynamic_rendezvous.py`` and ``elastic/agent/server/api.py``):

- The round became complete. No participant can have joined it before, and each had written itself into the shared
  state, renewed its heartbeat there while it waited (every 5 s), or marked the round complete, before that.
- The ranks of the workers were given out. An agent asks for them when it has joined, and gets them when the last one
  has asked.

That one record stands before the moment and another one after it is what torch's protocol makes them: a slow store, a
node that looks only once a second or was paused for a minute put them further apart, and never on the wrong side.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobtape.diagnose.facts import Agent, Clock, Stint

LATE_S = 0.1
"""By how much an imported time may be off: it may be that of the line's arrival, or cut to milliseconds."""
WHOLE_S = 1.0
"""A time of whole seconds may have had the rest cut off."""
STARTED_WITHIN_S = 10.0
"""Workers are started this soon after the round, where nothing that the agent wrote before it is on the record."""
MOST_NODES = 2**31
WAITED_S = 0.05
"""Agents that got their ranks sooner did not wait for each other: ``TORCH_ELASTIC_WORKER_IDENTICAL`` spares them it."""


Read = dict["Clock", tuple[float, float]]
"""What each clock read at a moment: at least the first time, at most the second one, in seconds of that clock; the
node of the lowest group rank stands first.
"""


def moments_of(members: Sequence[tuple[Agent, Stint]]) -> list[Read]:
    """What the agents of one attempt saw happen together, in the order in which it happened."""
    if len({agent.clock for agent, _ in members}) < 2:
        return []
    shared = [(agent, stint) for agent, stint in members if _is_shared(stint)]
    shared.sort(key=lambda member: MOST_NODES if member[1].group_rank is None else member[1].group_rank)
    found = [_read((agent.clock, *_formed(stint)) for agent, stint in shared)]
    asked = [
        (agent.clock, stint.met_at, stint.ranked_at)
        for agent, stint in shared
        if stint.workers and stint.met_at is not None and stint.ranked_at is not None
    ]
    waited = sum(got - met >= WAITED_S for _, met, got in asked)
    if waited * 2 >= len(asked):
        found.append(_read(asked))
    return [read for read in found if len(read) > 1]


def _is_shared(stint: Stint) -> bool:
    """Whether its agent waited for the others: with torchrun's static rendezvous only the first time."""
    return stint.round is not None or (stint.number == 0 and not stint.restart_count)


def _formed(stint: Stint) -> tuple[float | None, float | None]:
    """Times on both sides of the moment at which the round of a stint was complete."""
    joined = stint.joined.time if stint.joined is not None else None
    started = stint.started.time if stint.started is not None else None
    after = joined if joined is not None else stint.ranked_at if stint.ranked_at is not None else started
    if after is None or stint.forming_at is not None:
        return stint.forming_at, after
    opened = stint.opened
    if opened.time is not None and (stint.started is None or opened.place != stint.started.place):
        return opened.time, after
    return after - STARTED_WITHIN_S, after


def _read(times: Iterable[tuple[Clock, float | None, float | None]]) -> Read:
    read: Read = {}
    for clock, before, after in times:
        if before is None or after is None or before > after:
            continue
        if clock.kind == "wall":
            before -= LATE_S
            after += LATE_S if after % 1.0 else WHOLE_S
        known = read.get(clock)
        if known is not None and max(known[0], before) <= min(known[1], after):
            before, after = max(known[0], before), min(known[1], after)
        read[clock] = before, after
    return read
