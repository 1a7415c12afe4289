"""Restart cycles as NVRx tells of them: who took part and when, and what else is known of it.

A cycle file names the nodes and the times of a cycle and nothing of its workers. What the launcher's log says of failed
workers belongs to the cycle of that time on that node; what workers printed, to the cycle whose log it is. Which node a
rank was on is known only where there was one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jobtape.diagnose.facts import (
    Agent,
    Clock,
    FileFacts,
    Point,
    Stint,
    Told,
    Worker,
    as_count,
    as_int,
    as_text,
    as_time,
)
from jobtape.diagnose.failure_text import failure_text
from jobtape.diagnose.stints import FROM_OUTPUT, find_worker, open_stint, worker_ended, worker_failed, worker_said

PREFIX = "nvrx."


def cycles_of(files: Sequence[FileFacts]) -> list[Agent]:
    """The agents that the cycles of a run tell of, one a node and a start of the job."""
    told = [(file.name, one) for file in files for one in file.told if one.name.startswith(PREFIX)]
    if not told:
        return []
    story = _Story(told[0][0])
    infos: dict[tuple[int, int], Told] = {}
    for _, one in told:
        if one.name == "nvrx.cycle":
            infos[as_count(one.metadata.get("attempt_index")) or 0, as_count(one.metadata.get("cycle")) or 0] = one
    for (start, cycle), one in sorted(infos.items(), key=lambda found: found[0]):
        story.cycle(start, cycle, one)
    for _, one in sorted(told, key=lambda found: (found[1].time is None, found[1].time or 0.0)):
        tell = _TELL.get(one.name)
        if tell is not None:
            tell(story, one)
    return list(story.agents.values())


class _Story:
    """The agents of the cycles seen so far."""

    def __init__(self, file: str) -> None:
        self.agents: dict[tuple[int, str], Agent] = {}
        self._file = file
        self._stints: dict[tuple[int, int], list[tuple[Agent, Stint]]] = {}
        self._spans: list[tuple[float, float, int, int]] = []

    def cycle(self, start: int, cycle: int, told: Told) -> None:
        """A cycle by its file."""
        nodes = told.metadata.get("nodes")
        names = [name for name in nodes if isinstance(name, str) and name] if isinstance(nodes, list) else []
        ends = as_time(told.metadata.get("end_s"))
        for name in names or [""]:
            agent, stint = self._open(start, cycle, name, Point(told.time, told.place))
            stint.group_world_size = len(names) or None
            if ends is not None:
                agent.last = stint.ended = Point(ends, told.place)
                stint.over = True
            else:
                agent.last = stint.started
        if told.time is not None:
            self._spans.append((told.time, ends if ends is not None else float("inf"), start, cycle))

    def _open(self, start: int, cycle: int, host: str, point: Point) -> tuple[Agent, Stint]:
        agent = self.agents.get((start, host))
        if agent is None:
            # Its records may end before the job does: no silence follows from that.
            agent = Agent(file=self._file, host=host, clock=Clock("wall", host), closed=True, first=point)
            self.agents[start, host] = agent
        stint = open_stint(agent, point)
        stint.round = cycle
        stint.joined = stint.started = point
        agent.records += 1
        self._stints.setdefault((start, cycle), []).append((agent, stint))
        return agent, stint

    def of_cycle(self, cycle: int, host: str, told: Told) -> list[tuple[Agent, Stint]]:
        """The parts in a cycle of that number, of the job's last start that had it by then; made if there is none."""
        starts = sorted(start for start, number in self._stints if number == cycle)
        if told.time is not None:
            begun = [s for t, _, s, number in self._spans if number == cycle and t <= told.time]
            starts = sorted(begun) or starts
        if not starts:
            self._open(0, cycle, host, Point(told.time, told.place))
            starts = [0]
        return self._stints[starts[-1], cycle]

    def at(self, told: Told, host: str) -> tuple[Agent, Stint] | None:
        """A node's part in the cycle in which a record was written."""
        cycle = as_count(told.metadata.get("cycle"))
        if cycle is not None:
            parts: Iterable[tuple[Agent, Stint]] = self.of_cycle(cycle, host, told)
        elif told.time is not None:
            # The launcher logs a failure before the cycle's file is closed.
            within = [span for span in self._spans if span[0] <= told.time]
            parts = self._stints[max(within)[2:]] if within else self.of_cycle(0, host, told)
        else:
            return None
        return next((part for part in parts if _same(part[0].host, host)), None)


def _same(one: str, other: str) -> bool:
    return one.partition(".")[0] == other.partition(".")[0]


def _event(story: _Story, told: Told) -> None:
    if told.metadata.get("event") != "failure_detected":
        return
    part = story.at(told, as_text(told.metadata.get("host")) or "")
    if part is not None:
        point = Point(told.time, told.place)
        part[1].failed = part[1].failed or point


def _worker_failed(story: _Story, told: Told) -> None:
    part = story.at(told, as_text(told.metadata.get("host")) or "")
    if part is None:
        return
    agent, stint = part
    point = Point(told.time, told.place)
    pid, local_rank = as_count(told.metadata.get("pid")), as_count(told.metadata.get("local_rank"))
    worker = next(iter(stint.having(None, local_rank)), None)
    if worker is None:
        if stint is agent.current:
            worker = find_worker(agent, point, local_rank=local_rank, pid=pid)[1]
        else:
            worker = Worker(rank=None, local_rank=local_rank, pid=pid)
            stint.workers.append(worker)
            stint.note(worker)
    worker_failed(stint, worker, point)
    worker_ended(worker, point, as_int(told.metadata.get("exit_code")))


def _worker_output(story: _Story, told: Told) -> None:
    cycle, rank = as_count(told.metadata.get("cycle")), as_count(told.metadata.get("rank"))
    if cycle is None or rank is None:
        return
    parts = story.of_cycle(cycle, "", told)
    stint = parts[0][1]
    worker = next(iter(stint.having(rank, None)), None)
    if worker is None:
        worker = Worker(rank=rank, host_known=len(parts) == 1 and bool(parts[0][0].host))
        stint.workers.append(worker)
        stint.note(worker)
    text = failure_text(None, told.metadata.get("message"), told.metadata.get("traceback"))
    worker_said(worker, Point(told.time, told.place), text, FROM_OUTPUT)


_TELL = {"nvrx.event": _event, "nvrx.worker_failed": _worker_failed, "nvrx.worker_output": _worker_output}
