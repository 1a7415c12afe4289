"""From the tape files of a run to the answer about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from jobtape.diagnose.assembly import all_agents, attach_tapes
from jobtape.diagnose.attempts import History, Member, history
from jobtape.diagnose.cautions import loss_of, of_signatures, warnings_of
from jobtape.diagnose.clocks import Clocks
from jobtape.diagnose.facts import Agent, FileFacts, Process
from jobtape.diagnose.model import Attempt, Run
from jobtape.diagnose.outcome import attempts_of, restarts_of, state_of
from jobtape.diagnose.reading import read_facts
from jobtape.diagnose.signatures import NOTHING_ADDED, Added

if TYPE_CHECKING:
    from jobtape.tape.reader import TapeFile


def diagnose(
    files: Iterable[TapeFile],
    *,
    alive: frozenset[str] = frozenset(),
    run_id: str | None = None,
    added: Added = NOTHING_ADDED,
) -> Run:
    """What happened in a run, and why.

    Args:
        files: the run's tape files; each is looked at once and may be dropped afterwards.
        alive: names of the files whose processes are known to live.
        run_id: the run's id as its user gave it; else that of the files.
        added: rows of the user's own to the table of what victims say.

    Returns:
        The answer. Nothing that the records say or fail to say makes this raise.
    """
    return conclude([read_facts(file, alive=file.path.name in alive) for file in files], run_id=run_id, added=added)


class Story(msgspec.Struct, frozen=True, eq=False):
    """What the answer was made of: for whoever asks more of the same records than what ended the attempts.

    Attributes:
        run: the answer.
        past: the attempts' groups, in the order of `Run.attempts`, and who was part of none.
        agents: every agent once, and `processes`: every worker that has a tape of its own.
        names: what to call the node of each agent, by the agent's id.
        clocks: whose times are told apart.
        last: the last sign of life on the record, in unix seconds; also of a run that is still running.
    """

    run: Run
    past: History
    agents: list[Agent]
    processes: list[Process]
    names: dict[int, str]
    clocks: Clocks
    last: float | None


def conclude(files: Sequence[FileFacts], *, run_id: str | None = None, added: Added = NOTHING_ADDED) -> Run:
    """The answer, from the facts of each file."""
    return story_of(files, run_id=run_id, added=added).run


def story_of(files: Sequence[FileFacts], *, run_id: str | None = None, added: Added = NOTHING_ADDED) -> Story:
    """The answer with what it was made of, from the facts of each file."""
    clocks = Clocks(files)
    agents = all_agents(files)
    processes = [file.process for file in files if file.process is not None]
    past = history(agents, attach_tapes(processes, agents), clocks)
    names = _node_names(past)
    attempts = attempts_of(past.groups, clocks, names, added)
    started, ended = _span(files, agents, clocks)
    state = state_of(attempts, agents, past.groups)
    run = Run(
        run_id=run_id if run_id is not None else next((file.run_id for file in files if file.run_id), ""),
        state=state,
        started=started,
        ended=None if state == "running" else ended,
        nodes=_count_nodes(past, attempts),
        world_size=next((a.world_size for a in reversed(attempts) if a.world_size is not None), None),
        restarts=restarts_of(attempts),
        attempts=tuple(attempts),
        warnings=(*of_signatures(added), *warnings_of(files, agents, past, attempts, clocks)),
        loss=loss_of(files),
        clocks=clocks.hosts(),
    )
    return Story(run, past, agents, processes, names, clocks, ended)


def _node_names(past: History) -> dict[int, str]:
    """What to call each agent's node: its host; where the host has several at a time, with the agent's process id, or,
    in containers that all have the same one, with the group rank.
    """
    names: dict[int, str] = {}
    for group in past.groups:
        hosts: dict[str, list[Member]] = {}
        for member in group.members:
            hosts.setdefault(member.agent.host, []).append(member)
        for host, members in hosts.items():
            pids = {member.agent.pid for member in members}
            for number, member in enumerate(members):
                agent, group_rank = member.agent, member.stint.group_rank
                if len(members) == 1:
                    names.setdefault(id(agent), host)
                elif len(pids) == len(members) and agent.pid is not None:
                    names[id(agent)] = f"{host}_{agent.pid}"
                else:
                    names[id(agent)] = f"{host}#{group_rank if group_rank is not None else number}"
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
