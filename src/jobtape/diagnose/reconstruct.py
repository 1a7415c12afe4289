"""From the tape files of a run to the answer about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from jobtape.diagnose.assembly import all_agents, attach_tapes
from jobtape.diagnose.attempts import History, history
from jobtape.diagnose.cautions import loss_of, warnings_of
from jobtape.diagnose.clocks import Clocks
from jobtape.diagnose.facts import Agent, FileFacts
from jobtape.diagnose.model import Attempt, Run
from jobtape.diagnose.outcome import attempts_of, restarts_of, state_of
from jobtape.diagnose.reading import read_facts

if TYPE_CHECKING:
    from jobtape.tape.reader import TapeFile


def diagnose(files: Iterable[TapeFile], *, alive: frozenset[str] = frozenset(), run_id: str | None = None) -> Run:
    """What happened in a run, and why.

    Args:
        files: the run's tape files; each is looked at once and may be dropped afterwards.
        alive: names of the files whose processes are known to live.
        run_id: the run's id as its user gave it; else that of the files.

    Returns:
        The answer. Nothing that the records say or fail to say makes this raise.
    """
    return conclude([read_facts(file, alive=file.path.name in alive) for file in files], run_id=run_id)


def conclude(files: Sequence[FileFacts], *, run_id: str | None = None) -> Run:
    """The answer, from the facts of each file."""
    clocks = Clocks(files)
    agents = all_agents(files)
    processes = [file.process for file in files if file.process is not None]
    past = history(agents, attach_tapes(processes, agents), clocks)
    attempts = attempts_of(past.groups, clocks, _node_names(past))
    started, ended = _span(files, agents, clocks)
    state = state_of(attempts, agents, past.groups)
    return Run(
        run_id=run_id if run_id is not None else next((file.run_id for file in files if file.run_id), ""),
        state=state,
        started=started,
        ended=None if state == "running" else ended,
        nodes=_count_nodes(past, attempts),
        world_size=next((a.world_size for a in reversed(attempts) if a.world_size is not None), None),
        restarts=restarts_of(attempts),
        attempts=tuple(attempts),
        warnings=tuple(warnings_of(files, agents, past, attempts, clocks)),
        loss=loss_of(files),
    )


def _node_names(past: History) -> dict[int, str]:
    """What to call each agent's node: its host, with the agent's process id where the host has several at a time."""
    names: dict[int, str] = {}
    for group in past.groups:
        hosts: dict[str, list[Agent]] = {}
        for member in group.members:
            hosts.setdefault(member.agent.host, []).append(member.agent)
        for host, agents in hosts.items():
            for number, agent in enumerate(agents):
                if len(agents) == 1:
                    names.setdefault(id(agent), host)
                else:
                    names[id(agent)] = f"{host}_{agent.pid if agent.pid is not None else number}"
    return names


def _count_nodes(past: History, attempts: Sequence[Attempt]) -> int:
    """How many nodes took part: a host counts once, or as often as it had agents at the same time."""
    most: dict[str, int] = {}
    for group, attempt in zip(past.groups, attempts, strict=True):
        here: dict[str, int] = {}
        for member in group.members:
            here[member.agent.host] = here.get(member.agent.host, 0) + 1
        if not group.members:
            here = dict.fromkeys(attempt.nodes, 1)
        for host, count in here.items():
            most[host] = max(most.get(host, 0), count)
    return sum(most.values())


def _span(files: Sequence[FileFacts], agents: Sequence[Agent], clocks: Clocks) -> tuple[float | None, float | None]:
    """From the first record of the job to its last."""
    times = []
    for agent in agents:
        times += [clocks.at(agent.clock, agent.first), clocks.at(agent.clock, agent.last)]
    for file in files:
        if file.process is not None:
            process = file.process
            times += [clocks.at(process.clock, process.start), clocks.at(process.clock, process.last)]
    known = [time for time in times if time is not None]
    return (min(known), max(known)) if known else (None, None)
