"""What workers left in torchrun's log directory: error files, and the last error of their output.

One directory is one agent's, and holds a directory for each of its attempts. Which agent it was none of it says: with
one agent on the record it was that one, of several the one whose failed workers fit. Without any, each directory stands
for an agent of which only the failed workers are known, by local rank.
"""

from __future__ import annotations

from collections.abc import Sequence

from jobtape.diagnose.facts import Agent, Clock, FileFacts, Point, Stint, Told, Worker, as_count, as_int, as_text
from jobtape.diagnose.failure_text import FailureText, failure_text, from_error_file
from jobtape.diagnose.stints import FROM_ERROR_FILE, FROM_OUTPUT, open_stint, worker_failed, worker_said, written_in

ERROR_FILE = "torchelastic.log.error_file"
OUTPUT_ERROR = "torchelastic.log.output_error"
NAMES = frozenset({ERROR_FILE, OUTPUT_ERROR})


def take_error_files(files: Sequence[FileFacts], agents: list[Agent]) -> None:
    """Give what the directories hold to the agents' workers, or make agents of it."""
    folders: dict[str, dict[tuple[object, ...], tuple[str, Told]]] = {}
    for file in files:
        for told in file.told:
            if told.name in NAMES:
                folder = as_text(told.metadata.get("directory")) or file.name
                # A file imported by itself and again with its directory is one.
                key = told.name, told.metadata.get("attempt"), told.metadata.get("local_rank"), told.place.file
                folders.setdefault(folder, {})[key] = (file.name, told)
    known = list(agents)
    for folder, entries in folders.items():
        left = sorted((told for _, told in entries.values()), key=_order)
        owner = _owner(left, known)
        if owner is not None:
            for told in left:
                _give(owner, told)
        elif not known:
            agents.append(_agent_of(folder, next(iter(entries.values()))[0], left))


def _order(told: Told) -> tuple[int, int, str]:
    return as_count(told.metadata.get("attempt")) or 0, as_count(told.metadata.get("local_rank")) or 0, told.name


def _owner(entries: Sequence[Told], agents: Sequence[Agent]) -> Agent | None:
    """The agent whose directory it was."""
    fitting = [(score, agent) for agent in agents if (score := _score(entries, agent)) is not None]
    if not fitting:
        return None
    best = max(score for score, _ in fitting)
    found = [agent for score, agent in fitting if score == best]
    return found[0] if len(found) == 1 else None


def _score(entries: Sequence[Told], agent: Agent) -> int | None:
    """How many of its failed workers an agent's directory speaks of; None when it speaks of others."""
    score = 0
    for told in entries:
        if told.name != ERROR_FILE:
            continue
        stint = _stint_of(agent, as_count(told.metadata.get("attempt")))
        if stint is None:
            return None
        for worker in stint.having(None, as_count(told.metadata.get("local_rank")))[:1]:
            if worker.exit_code == 0:
                return None
            said = _text(told)
            same = said is not None and worker.error is not None and said.message == worker.error.message
            score += 2 if same else int(worker.exit_code == 1)
    return score


def _stint_of(agent: Agent, attempt: int | None) -> Stint | None:
    """An attempt's directory is named by torch's count of restarts, and made anew where that did not rise."""
    for stint in reversed(agent.stints):
        count = stint.restart_count if stint.restart_count is not None else stint.number
        if attempt in (None, count) and (stint.workers or stint.restart_count is not None):
            return stint
    return None


def _give(agent: Agent, told: Told) -> None:
    stint = _stint_of(agent, as_count(told.metadata.get("attempt")))
    local_rank = as_count(told.metadata.get("local_rank"))
    if stint is None or local_rank is None:
        return
    worker = next(iter(stint.having(None, local_rank)), None)
    if worker is None:
        worker = Worker(rank=as_count(told.metadata.get("rank")), local_rank=local_rank)
        stint.workers.append(worker)
        stint.note(worker)
    time = None if told.time is None else told.time - agent.offset_s
    _say(agent, stint, worker, told, Point(time, told.place))


def _say(agent: Agent, stint: Stint, worker: Worker, told: Told, point: Point) -> None:
    text = _text(told)
    if told.name == OUTPUT_ERROR:
        worker_said(worker, point, text, FROM_OUTPUT)
        return
    if worker.exit_code is None:
        worker.exit_code = as_int(told.metadata.get("exit_code"))
    stint.failed = stint.failed or point
    worker.told = worker.told or point
    worker_said(worker, point, text, FROM_ERROR_FILE, written_in(agent, text.time_s if text is not None else None))


def _text(told: Told) -> FailureText | None:
    if told.name == OUTPUT_ERROR:
        return failure_text(None, told.metadata.get("message"), told.metadata.get("traceback"))
    return from_error_file(told.metadata.get("raw_error"))


def _agent_of(folder: str, file: str, entries: Sequence[Told]) -> Agent:
    """An agent of which nothing but its directory is on the record."""
    agent = Agent(file=file, host=folder, host_known=False, clock=Clock("wall", folder), closed=True)
    for told in entries:
        attempt = as_count(told.metadata.get("attempt"))
        point = Point(told.time, told.place)
        stint = agent.current
        if stint is None or stint.restart_count != attempt:
            stint = open_stint(agent, point)
            stint.restart_count = attempt
            stint.over = True
        local_rank = as_count(told.metadata.get("local_rank"))
        worker = next(iter(stint.having(None, local_rank)), None)
        if worker is None:
            worker = Worker(rank=as_count(told.metadata.get("rank")), local_rank=local_rank)
            stint.workers.append(worker)
            stint.note(worker)
        if told.name == ERROR_FILE:
            worker_failed(stint, worker, point)
        _say(agent, stint, worker, told, point)
        agent.records += 1
        if told.time is not None:
            agent.first = point if agent.first is None or told.time < (agent.first.time or 0.0) else agent.first
            agent.last = point if agent.last is None or told.time > (agent.last.time or 0.0) else agent.last
    return agent
