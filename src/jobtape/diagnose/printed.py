"""Which worker printed which error: what a console says, given to the workers once their ranks are known.

What a worker prints may be an error that it has caught. So of its tracebacks only the last one before its failure
counts, and only when it ended as an uncaught exception ends a process: with exit code 1. A traceback without a label is
a worker's when no other worker can have printed it; it is marked, because that is inferred.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jobtape.diagnose.facts import Agent, Printed, Stint, Worker
from jobtape.diagnose.stints import FROM_OUTPUT, worker_said

_OF_AN_EXCEPTION = (None, 1)
"""Exit codes of a process that an exception may have ended."""


def settle(agents: Iterable[Agent]) -> None:
    """Name the ranks that the lines of an agent leave open, and give its workers what they printed."""
    for agent in agents:
        if agent.live_tape or not any(s.ranks_of or s.printed or _nameless(s) for s in agent.stints):
            continue
        _name_ranks(agent)
        for stint in agent.stints:
            _give(stint)
            stint.printed = []
        agent.printed = []


def _nameless(stint: Stint) -> bool:
    return any(worker.rank is None for worker in stint.workers)


def _name_ranks(agent: Agent) -> None:
    pairs = [(w.rank, w.local_rank) for s in agent.stints for w in s.workers if w.rank is not None]
    # The first node of a job stays the first while the same nodes take part; others' places may change unseen.
    first_node = bool(pairs) and all(rank == local_rank for rank, local_rank in pairs)
    first_node = first_node and not any(stint.membership for stint in agent.stints)
    for stint in agent.stints:
        labelled = {p.local_rank: p.rank for p in stint.printed if p.local_rank is not None and p.rank is not None}
        only = _only_speaker(stint)
        for worker in stint.workers:
            local_rank = worker.local_rank
            if worker.rank is not None or local_rank is None:
                continue
            rank = stint.ranks_of.get(local_rank, labelled.get(local_rank))
            if rank is None and worker.exit_code == 1 and only is not None and only >= local_rank:
                rank, worker.rank_presumed = only, True
            if rank is None and first_node:
                rank, worker.rank_presumed = local_rank, True
            if rank is not None and rank not in stint.ranked():
                worker.rank = rank
                stint.note(worker)
        if stint.ranks_of:
            _add_others(stint)


def _only_speaker(stint: Stint) -> int | None:
    """The one rank that printed an uncaught exception, where the agent named one worker that an exception ended."""
    speakers = {p.rank for p in stint.printed if p.rank is not None and p.text.traceback is not None}
    named = [w for w in stint.workers if w.local_rank is not None and w.stop is None]
    return speakers.pop() if len(speakers) == len(named) == 1 else None


def _add_others(stint: Stint) -> None:
    """The workers that the agent's list of ranks has and no line names; those named by process id alone are of them."""
    open_ranks = {local: rank for local, rank in stint.ranks_of.items() if rank not in stint.ranked()}
    unnamed = [worker for worker in stint.workers if worker.rank is None and worker.local_rank is None]
    known = len(unnamed) == len(open_ranks)
    for (local_rank, rank), worker in zip(sorted(open_ranks.items()), unnamed if known else (), strict=False):
        # All that are left were sent the same signal; of several, nothing says which process was which rank.
        worker.rank, worker.local_rank = rank, local_rank
        worker.pid = worker.pid if len(unnamed) == 1 else None
        worker.start = worker.start or stint.started or stint.joined
        stint.note(worker)
    if not known:
        for local_rank, rank in sorted(open_ranks.items()):
            worker = Worker(rank=rank, local_rank=local_rank, start=stint.started or stint.joined)
            stint.workers.append(worker)
            stint.note(worker)
    for worker in stint.workers:
        worker.start = worker.start or stint.started or stint.joined


def _give(stint: Stint) -> None:
    spoken: set[int] = set()
    of_worker: dict[int, tuple[Worker, list[Printed]]] = {}
    unlabelled: list[Printed] = []
    for printed in stint.printed:
        if printed.rank is None and printed.local_rank is None:
            unlabelled.append(printed)
        for worker in stint.having(printed.rank, printed.local_rank)[:1]:
            of_worker.setdefault(id(worker), (worker, []))[1].append(printed)
            spoken.add(id(worker))
    for worker, words in of_worker.values():
        _say(worker, words)
    failed = [w for w in stint.workers if w.exit_code == 1 and w.stop is None and id(w) not in spoken]
    if not unlabelled or not failed:
        return
    traces = [p for p in unlabelled if p.text.traceback is not None]
    if len({p.text.headline for p in traces}) == 1 and len(traces) >= len(failed):
        pass
    elif len(failed) > 1 or not traces or not _others_lived(stint, failed[0]):
        return
    for worker in failed:
        if worker.error_weight < FROM_OUTPUT:
            worker_said(worker, traces[-1].point, traces[-1].text, FROM_OUTPUT)
            worker.error_unlabelled = True


def _say(worker: Worker, words: Sequence[Printed]) -> None:
    traces = [p for p in words if p.text.traceback is not None]
    if traces and worker.exit_code in _OF_AN_EXCEPTION:
        worker_said(worker, traces[-1].point, traces[-1].text, FROM_OUTPUT)
    elif worker.exit_code != 0:
        # What torch's native code said first is nearest to the cause.
        for printed in words:
            if printed.text.traceback is None:
                worker_said(worker, printed.point, printed.text, FROM_OUTPUT)


def _others_lived(stint: Stint, failed: Worker) -> bool:
    """Whether every other worker of the node was alive when its agent stopped it, or ended well."""
    others = [worker for worker in stint.workers if worker is not failed]
    whole = not stint.ranks_of or len(stint.workers) >= len(stint.ranks_of)
    return whole and all(worker.stop is not None or worker.exit_code == 0 for worker in others)
