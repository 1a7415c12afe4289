"""Log lines of an agent whose events are in another file, or nowhere.

Console output kept beside the events adds to the agents that the events tell of, by the process ids of agent and
workers. Where none of a node's lines fits such an agent, the lines alone tell of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from jobtape.diagnose.facts import Agent, FileFacts, Place, Point, Stint, as_count, as_text
from jobtape.diagnose.log_records import agent_of, log_line
from jobtape.diagnose.marks import NAMES
from jobtape.diagnose.stints import Cast

Orphan = tuple[Place, float | None, str, dict[str, Any]]
Owner = tuple[Agent, Stint]

_OUTPUT = "torchelastic.log.worker_output"


def take_orphans(files: Sequence[FileFacts], agents: list[Agent]) -> None:
    """Give each file's log lines to the agents that they are about, or make agents of them."""
    by_pid: dict[int, list[Owner]] = {}
    for agent in agents:
        for pid, (stint, _) in agent.by_pid.items():
            by_pid.setdefault(pid, []).append((agent, stint))
    for file in files:
        nodes: dict[str, list[Orphan]] = {}
        for orphan in file.orphans:
            nodes.setdefault(as_text(orphan[3].get("host")) or "", []).append(orphan)
        for host, lines in nodes.items():
            if all(line[2] in NAMES for line in lines):
                _mark(lines, host, agents, file)
                continue
            own = _owners(lines, host, file, by_pid)
            if own:
                _add_to(own, lines, file)
            else:
                # One file a node: where no line names it, and there are several, the file does.
                name = host or file.clock.name or (_stem(file) if len(files) > 1 else "")
                agents += _agents_of(lines, name, file)


def _mark(lines: Iterable[Orphan], host: str, agents: Sequence[Agent], file: FileFacts) -> None:
    """Nothing but a scheduler's or a kernel's words: they are about agents that others tell of, and make none."""
    ours = [agent for agent in agents if _same_host(agent.host, host)] or list(agents)
    for line in lines:
        time, pid = line[1], as_count(line[3].get("pid"))
        then = [a for a in ours if a.stints and _may_mean(a, time, pid)]
        if then:
            agent = then[-1]
            _take(line, agent, agent.by_pid[pid][0] if pid is not None else _stint_then(agent, time), file)


def _may_mean(agent: Agent, time: float | None, pid: int | None) -> bool:
    if pid is not None:
        return pid in agent.by_pid
    began = agent.first.time if agent.first is not None and agent.clock.kind == "wall" else None
    return began is None or time is None or began <= time


def _stint_then(agent: Agent, time: float | None) -> Stint:
    """The stint of an agent at a time on its clock, as far as times are known."""
    for stint in reversed(agent.stints if agent.clock.kind == "wall" and time is not None else ()):
        if stint.opened.time is not None and time is not None and stint.opened.time <= time:
            return stint
    return agent.stints[-1]


def _owners(lines: Iterable[Orphan], host: str, file: FileFacts, by_pid: dict[int, list[Owner]]) -> dict[int, Owner]:
    """For each worker's process id in these lines the agent that started it, and its stint then."""
    found: dict[int, list[Owner]] = {}
    agent_pids = set()
    for line in lines:
        pid, agent_pid = as_count(line[3].get("pid")), as_count(line[3].get("agent_pid"))
        if agent_pid is not None:
            agent_pids.add(agent_pid)
        if pid is not None and pid in by_pid:
            found[pid] = by_pid[pid]
    votes: dict[int, int] = {}
    agents = {id(agent): agent for owners in found.values() for agent, _ in owners}
    for owners in found.values():
        for agent, _ in owners:
            votes[id(agent)] = votes.get(id(agent), 0) + 1
    best = max(
        agents.values(),
        key=lambda agent: (_is_named(agent, host, file), agent.pid in agent_pids, votes[id(agent)]),
        default=None,
    )
    if best is None or (host and not _same_host(best.host, host) and best.pid not in agent_pids):
        return {}
    near = [a for a in agents.values() if _same_host(a.host, best.host)]
    return {pid: owner for pid, owners in found.items() for owner in owners if owner[0] in near}


def _stem(file: FileFacts) -> str:
    return file.name.partition("-import-")[0].partition(".")[0]


def _is_named(agent: Agent, host: str, file: FileFacts) -> bool:
    """Whether label or file name say that a console is that of the agent's host."""
    return _same_host(agent.host, host) if host else bool(agent.host) and agent.host.partition(".")[0] in file.name


def _same_host(one: str, other: str) -> bool:
    return one.partition(".")[0] == other.partition(".")[0]


def _add_to(own: dict[int, Owner], lines: Iterable[Orphan], file: FileFacts) -> None:
    found: Owner | None = None
    printed: list[Orphan] = []
    for line in lines:
        worker_pid = as_count(line[3].get("pid"))
        if worker_pid is None and line[2] == _OUTPUT:
            # Workers speak before their agent does: whose words these are is told by the next line with a process id.
            printed.append(line)
            continue
        found = own.get(-1 if worker_pid is None else worker_pid, found)
        if found is not None:
            for told in (*printed, line):
                _take(told, *found, file)
        printed = []


def _take(line: Orphan, owner: Agent, stint: Stint, file: FileFacts) -> None:
    place, time, name, metadata = line
    point = Point(time if owner.clock.kind == "wall" else None, place)
    # The agent as it was then: what is said without a process id is about that stint and not about its last one.
    then = msgspec.structs.replace(owner, stints=owner.stints[: stint.number + 1], printed=[])
    cast = Cast(file.name, owner.host)
    cast.agents, cast.current = [then], then
    metadata = {key: value for key, value in metadata.items() if key not in ("host", "agent_pid")}
    log_line(cast, name, metadata, point)
    stint.printed += then.printed
    if owner.signal is None:
        owner.signal, owner.signal_at = then.signal, then.signal_at


def _agents_of(lines: Iterable[Orphan], host: str, file: FileFacts) -> list[Agent]:
    """The agents of a node of which nothing but log lines is on the record."""
    cast = Cast(file.name, host)
    for place, time, name, metadata in lines:
        point = Point(time, place)
        agent_pid = as_count(metadata.get("agent_pid"))
        if name not in NAMES and agent_of(cast, metadata) is None:
            agent = cast.by_host(None) if cast.current is None else cast.successor(cast.current)
            agent.pid = agent_pid
        log_line(cast, name, metadata, point)
        told = cast.current
        if told is not None:
            told.pid = told.pid if told.pid is not None else agent_pid
            if told.first is None or told.first.time is None:
                told.first = point
            if told.last is None or point.time is not None:
                told.last = point
    return cast.agents
