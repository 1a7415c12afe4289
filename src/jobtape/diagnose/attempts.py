"""From the agents' stints to the job's attempts.

An attempt is what the agents of one rendezvous round did together. Rounds count from 0 in each *launch* (a requeued
job begins again at 0 with new agents), so agents are first sorted into launches: an agent belongs to one when the
ranks it held there were free and its life can have met the others'. Where no rendezvous is on the record (torchrun's
`static` one says nothing), the agents' own counts of their starts take the place of rounds.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from jobtape.diagnose.clocks import Clocks
from jobtape.diagnose.facts import Agent, Process, Stint, Worker

APART_S = 7200.0
"""Lives on two hosts that are further apart than two clocks of an hour's error each cannot have met."""

MOST_UNSEEN = 100
"""More attempts than this that left no trace are counted, not listed."""


MOST_RANKS = 1_000_000
"""No world is larger: a size beyond it is a variable that means something else."""


class Member(msgspec.Struct, eq=False):
    """An agent and what it did in one attempt."""

    agent: Agent
    stint: Stint

    @property
    def is_last(self) -> bool:
        """Whether the agent did nothing after it."""
        return self.agent.stints[-1] is self.stint


class Group(msgspec.Struct, eq=False):
    """One attempt: who took part.

    Attributes:
        order: the round, or what stands for it; ``round`` is None where no record names it.
        unseen: nothing of this attempt is on the record but that it was.
    """

    order: int
    launch: int
    members: list[Member] = msgspec.field(default_factory=list)
    processes: list[Process] = msgspec.field(default_factory=list)
    ranks: set[int] = msgspec.field(default_factory=set)
    group_ranks: set[int] = msgspec.field(default_factory=set)
    group_world_size: int | None = None
    complete: bool = True
    unseen: bool = False
    unseen_failed: bool = False

    def has_room_for(self, stint: Stint) -> bool:
        """Whether a stint can be part of it: no rank would be held twice, and all saw a world of one size."""
        size = self.group_world_size
        if size is not None and (stint.group_world_size not in (None, size) or len(self.members) >= size):
            return False
        if stint.group_rank is not None and stint.group_rank in self.group_ranks:
            return False
        return not any(worker.rank in self.ranks for worker in stint.workers if worker.rank is not None)

    def add(self, agent: Agent, stint: Stint) -> None:
        """Take a stint in."""
        self.members.append(Member(agent, stint))
        self.ranks.update(worker.rank for worker in stint.workers if worker.rank is not None)
        if stint.group_rank is not None:
            self.group_ranks.add(stint.group_rank)
        if self.group_world_size is None:
            self.group_world_size = stint.group_world_size

    @property
    def round(self) -> int | None:
        """The rendezvous round, where a record names it."""
        return next((m.stint.round for m in self.members if m.stint.round is not None), None)

    @property
    def missing_ranks(self) -> list[int]:
        """Of a job without an agent: the ranks of its world that left no tape."""
        size = max((p.world_size or 0 for p in self.processes), default=0)
        known = {p.rank if p.rank is not None else 0 for p in self.processes}
        return [rank for rank in range(min(size, MOST_RANKS)) if rank not in known]

    @property
    def has_workers(self) -> bool:
        """Whether any worker was started, as one must have been that ended well."""
        return bool(self.processes) or any(
            m.stint.workers or m.stint.started is not None or m.stint.succeeded is not None for m in self.members
        )


class Launch(msgspec.Struct, eq=False):
    """Agents that met in one rendezvous, and their attempts.

    Attributes:
        begins: when the first of them began, and ``ends`` when the last of them gave its last sign of life.
        waiting: stints that never got as far as workers.
    """

    number: int
    groups: dict[int, Group] = msgspec.field(default_factory=dict)
    waiting: list[Member] = msgspec.field(default_factory=list)
    hosts: set[str] = msgspec.field(default_factory=set)
    files: set[str] = msgspec.field(default_factory=set)
    begins: float | None = None
    ends: float | None = None
    over: bool = True

    def take(self, agent: Agent, formed: Sequence[tuple[int, Stint]], clocks: Clocks) -> None:
        """Take an agent in, with its stints at their places."""
        for order, stint in formed:
            if order not in self.groups:
                self.groups[order] = Group(order, self.number)
            self.groups[order].add(agent, stint)
        self.waiting += [Member(agent, s) for s in agent.stints if not _is_formed(s)]
        self.hosts.add(agent.host)
        self.files.add(agent.file)
        self.over = self.over and bool(agent.ended) and not agent.live_tape
        begins, ends = clocks.at(agent.clock, agent.first), clocks.at(agent.clock, agent.last)
        self.begins = min((t for t in (self.begins, begins) if t is not None), default=None)
        self.ends = max((t for t in (self.ends, ends) if t is not None), default=None)

    def apart_s(self, agent: Agent, clocks: Clocks) -> float | None:
        """Seconds between its life and an agent's: 0 when they can have met, None when they cannot."""
        begins, ends = clocks.at(agent.clock, agent.first), clocks.at(agent.clock, agent.last)
        alone = self.hosts == {agent.host}
        if begins is None or ends is None or self.begins is None or self.ends is None:
            # Without times a file tells: what follows an end there came after it.
            return None if alone and self.over and self.files == {agent.file} else 0.0
        apart = max(begins - self.ends, self.begins - ends, 0.0)
        return apart if apart <= (0.0 if alone else APART_S) else None


class History(msgspec.Struct, eq=False):
    """The attempts of a run in order, and the stints that were part of none."""

    groups: list[Group]
    spares: list[Member]


def history(agents: Sequence[Agent], processes: Sequence[Process], clocks: Clocks) -> History:
    """Join the agents' stints, and the processes of workers that no agent started, into attempts."""
    launches: list[Launch] = []
    for agent in sorted(agents, key=lambda a: (_first_time(a, clocks), _group_rank(a))):
        launch, formed = _launch_of(agent, launches, clocks)
        launch.take(agent, formed, clocks)
    launches.sort(key=lambda found: (found.begins is None, found.begins or 0.0, found.number))
    clocks.agree([(m.agent, m.stint) for m in g.members] for launch in launches for g in _in_order(launch))
    groups: list[Group] = []
    spares: list[Member] = []
    for launch in launches:
        spares += _incomplete(launch)
        groups += _with_unseen(_in_order(launch))
    if not any(group.has_workers for group in groups):
        groups += _without_agents(processes, clocks, len(launches))
    return History(groups, spares)


def _in_order(launch: Launch) -> list[Group]:
    return [launch.groups[order] for order in sorted(launch.groups)]


def _first_time(agent: Agent, clocks: Clocks) -> float:
    moment = clocks.at(agent.clock, agent.first)
    return float("inf") if moment is None else moment


def _group_rank(agent: Agent) -> int:
    return next((s.group_rank for s in agent.stints if s.group_rank is not None), 0)


def _is_formed(stint: Stint) -> bool:
    """Whether it became part of a group; other programs' records may say so without naming a worker."""
    return bool(stint.workers) or stint.joined is not None or stint.started is not None


def _formed(agent: Agent) -> list[tuple[int, Stint]]:
    """Each stint that became part of a group, with its round or what stands for it."""
    stints = [s for s in agent.stints if _is_formed(s)]
    # A stint whose round is not on the record is as far from one whose round is as the agent counts.
    shift = next((s.round - n for n, s in enumerate(stints) if s.round is not None), None)
    if shift is None:
        shift = stints[0].restart_count or 0 if stints else 0
    found: list[tuple[int, Stint]] = []
    for number, stint in enumerate(stints):
        if stint.round is not None:
            shift = stint.round - number
        order = max(number + shift, 0)
        found.append((max(order, found[-1][0] + 1) if found else order, stint))
    return found


def _launch_of(agent: Agent, launches: list[Launch], clocks: Clocks) -> tuple[Launch, list[tuple[int, Stint]]]:
    """The launch an agent belongs to, and at which rounds its stints stand there."""
    formed = _formed(agent)
    # An agent whose first round is a later one carries on a rendezvous that others began.
    carries_on = bool(formed) and formed[0][0] > 0
    near = []
    for launch in launches:
        apart = launch.apart_s(agent, clocks)
        if apart is not None or carries_on:
            near.append((APART_S if apart is None else apart, launch.number, launch))
    near.sort(key=lambda found: found[:2])
    for _, _, launch in near:
        if _has_room(launch, formed):
            return launch, formed
    if formed and not any(stint.round is not None for _, stint in formed):
        # Its rounds are unknown: it may have come when the others had been through some.
        for _, _, launch in near:
            for later in range(1, max(launch.groups, default=0) - formed[0][0] + 1):
                shifted = [(order + later, stint) for order, stint in formed]
                if shifted[0][0] in launch.groups and _has_room(launch, shifted):
                    return launch, shifted
    launches.append(Launch(len(launches)))
    return launches[-1], formed


def _has_room(launch: Launch, formed: Sequence[tuple[int, Stint]]) -> bool:
    return all(order not in launch.groups or launch.groups[order].has_room_for(stint) for order, stint in formed)


def _incomplete(launch: Launch) -> list[Member]:
    """Add the rounds that never formed as attempts; returns the stints of those who came too late or were too many."""
    formed = bool(launch.groups)
    last_of = {id(m.agent): order for order, group in sorted(launch.groups.items()) for m in group.members}
    spares = []
    # Those who had been in a round before tell which one never formed; newcomers may have waited for it too.
    for member in sorted(launch.waiting, key=lambda m: id(m.agent) not in last_of):
        if _is_idle(member):
            continue
        order = member.stint.wanted_round
        if order is None:
            order = last_of.get(id(member.agent), max(launch.groups, default=-1) if formed else -1) + 1
        group = launch.groups.get(order)
        if group is None and (id(member.agent) in last_of or not formed) and order >= max(launch.groups, default=0):
            group = launch.groups[order] = Group(order, launch.number, complete=False)
        if group is None or group.complete:
            spares.append(member)
        else:
            group.add(member.agent, member.stint)
    return spares


def _is_idle(member: Member) -> bool:
    """A stint in which nothing happened: the agent had just begun to look for the next round when it ended well."""
    stint, agent = member.stint, member.agent
    quiet = stint.rendezvous_error is None and stint.wanted_round is None and len(agent.stints) > 1
    return quiet and agent.ended == "SUCCEEDED"


def _with_unseen(groups: list[Group]) -> list[Group]:
    """Put in the attempts that left no trace: earlier rounds, and restarts that only the agents' counters tell of."""
    whole: list[Group] = []
    before = 0
    counted = 0
    for group in groups:
        known = [m.stint.restart_count for m in group.members if m.stint.restart_count is not None]
        count = max(known, default=counted)
        missing = group.order - before
        if 0 < missing <= MOST_UNSEEN:
            failed = max(count - counted, 0)
            for number in range(missing):
                # The restart into this group is one of those counted, when the gap follows a recorded attempt.
                whole.append(
                    Group(
                        before + number,
                        group.launch,
                        unseen=True,
                        unseen_failed=number < failed - bool(whole and before),
                    )
                )
        before = group.order + 1
        counted = count
        whole.append(group)
    return whole


def _without_agents(processes: Sequence[Process], clocks: Clocks, launch: int) -> list[Group]:
    """Attempts of a job that no agent started: a rank that is seen again begins the next one."""
    main = _main_processes(processes)
    groups: list[Group] = []
    ranks: set[int] = set()
    restart_count: int | None = None
    for process in sorted(main, key=lambda p: (_time(p, clocks), p.file)):
        rank = process.rank or 0
        if not groups or rank in ranks or process.restart_count != restart_count:
            groups.append(Group(len(groups), launch + len(groups)))
            ranks = set()
            restart_count = process.restart_count
        ranks.add(rank)
        groups[-1].processes.append(process)
    return groups


def _time(process: Process, clocks: Clocks) -> float:
    moment = clocks.at(process.clock, process.start)
    return 0.0 if moment is None else moment


def _main_processes(processes: Sequence[Process]) -> list[Process]:
    """The processes that are a rank each: not those that a rank has started itself."""
    pids = {(process.host, process.boot_id, process.pid) for process in processes if process.pid}
    main = [p for p in processes if (p.host, p.boot_id, p.parent_pid) not in pids]
    ranked = [p for p in main if p.rank is not None]
    return ranked or main


def workers_of(group: Group) -> list[tuple[Member, Worker]]:
    """The workers of an attempt, each rank once."""
    found: list[tuple[Member, Worker]] = []
    ranks: set[int] = set()
    for member in group.members:
        for worker in member.stint.workers:
            if worker.rank is not None and worker.rank in ranks:
                continue
            if worker.rank is not None:
                ranks.add(worker.rank)
            found.append((member, worker))
    return found
