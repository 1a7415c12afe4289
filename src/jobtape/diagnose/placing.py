"""Workers' own tapes beside agents whose records name no workers: each belongs to the attempt in which it began."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jobtape.diagnose.facts import Agent, Process, Stint, Worker

EARLY_S = 1.0
"""An agent may tell of an attempt a moment after its workers have begun."""

Attach = Callable[[Process, Agent, Stint, Worker], None]


def place_tapes(processes: Sequence[Process], agents: Sequence[Agent], attach: Attach) -> list[Process]:
    """Make a worker of each process that began in an attempt of its host.

    Only tapes made of other programs' files are placed so: jobtape's own agents name their workers.

    Returns:
        The processes that are left.
    """
    left = []
    for process in processes:
        place = _place_of(process, agents) if process.imported and process.rank is not None else None
        if place is None:
            left.append(process)
            continue
        agent, stint = place
        worker = Worker(rank=process.rank, local_rank=process.local_rank, pid=process.pid or None, start=process.start)
        stint.workers.append(worker)
        stint.note(worker)
        attach(process, agent, stint, worker)
    return left


def _place_of(process: Process, agents: Sequence[Agent]) -> tuple[Agent, Stint] | None:
    began = process.start.time
    if began is None:
        return None
    found = []
    for agent in agents:
        if agent.live_tape or agent.host != process.host:
            continue
        for number, stint in enumerate(agent.stints):
            if stint.started is None or stint.started.time is None or stint.having(process.rank, None):
                continue
            later = agent.stints[number + 1].opened.time if number + 1 < len(agent.stints) else None
            if stint.started.time - EARLY_S <= began and (later is None or began < later):
                found.append((agent, stint))
    return found[0] if len(found) == 1 else None
