"""References to records: where a record stands and what it says, in one line each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jobtape.diagnose.facts import Place, Point, Worker
from jobtape.diagnose.failure_text import FailureText

MOST = 16
"""References a verdict lists; a crowd of victims proves no more than a few of them."""

WIDTH = 200

OUTSIDE = "outside"
"""`Worker.stop_reason` of a worker that no agent watched."""


def cite(place: Place | Point | None, says: str) -> str | None:
    """``node-a.log:34 #33 rank 2 exited with 1``; None where there is no record to cite."""
    if place is None:
        return None
    if isinstance(place, Point):
        place = place.place
    where = f"{place.file}:{place.line}" if place.line else place.file
    return f"{' '.join(where.splitlines())} #{place.seq} {one_line(says)}"


def one_line(text: str, width: int = WIDTH) -> str:
    """The first line of a text, cut to a width."""
    line = text.strip().partition("\n")[0].rstrip()
    return line if len(line) <= width else line[: width - 1] + "…"


def end_of_place(place: str, width: int = 80) -> str:
    """A place cut from its front: its end has the file's name and the line."""
    line = " ".join(place.split())
    return line if len(line) <= width else "…" + line[1 - width :]


def listed(references: Iterable[str | None]) -> tuple[str, ...]:
    """References, each once, the first so many."""
    found: dict[str, None] = {}
    for reference in references:
        if reference is not None:
            found.setdefault(reference)
    return tuple(found)[:MOST]


def who(worker: Worker) -> str:
    """``rank 2 (pid 2112)``, or what is known of it."""
    if worker.rank is not None:
        name = f"rank {worker.rank}"
    elif worker.local_rank is not None:
        name = f"local rank {worker.local_rank}"
    else:
        name = "a worker"
    return name if worker.pid is None else f"{name} (pid {worker.pid})"


def ranks(numbers: Sequence[int], most: int = 8) -> str:
    """``rank 1``, ``ranks 0, 1 and 3``, or the first few of them and how many more.

    >>> ranks([1]), ranks([0, 1, 3]), ranks(range(99), most=3)
    ('rank 1', 'ranks 0, 1 and 3', 'ranks 0, 1, 2 and 96 more')
    """
    named = [str(number) for number in numbers[:most]]
    if len(numbers) > most:
        named.append(f"{len(numbers) - most} more")
    if len(named) == 1:
        return f"rank {named[0]}"
    return f"ranks {', '.join(named[:-1])} and {named[-1]}"


def how_it_ended(worker: Worker, signal: str | None) -> str:
    """``exited with 1``, ``was ended by SIGSEGV``, or that it failed."""
    if signal is not None and worker.exit_code is not None and worker.exit_code < 0:
        return f"was ended by {signal}"
    if worker.exit_code is not None:
        return f"exited with {worker.exit_code}"
    return "failed"


def said(worker: Worker) -> str | None:
    """What a worker says of its failure, with the record that has it."""
    if worker.error is None or not worker.error.headline:
        return None
    return cite(worker.error_at, f"{who(worker)} says: {first_words(worker.error)}")


def first_words(error: FailureText) -> str:
    """The first line of an error."""
    return one_line(error.headline)


def of_failure(worker: Worker, signal: str | None) -> list[str | None]:
    """The records that prove a worker's failure."""
    told = f"{who(worker)} {how_it_ended(worker, signal)}"
    found = [cite(worker.end or worker.failure or worker.told, told)]
    if worker.failure is not None and worker.end is None:
        found.append(cite(worker.told, told))
    found.append(said(worker))
    if worker.exit_call and worker.error_at is not None:
        found.append(cite(worker.error_at, f"{who(worker)} called {worker.exit_call}({worker.exit_code})"))
    if worker.thread_error is not None:
        found.append(cite(worker.thread_error_at, f"a thread of {who(worker)} raised {worker.thread_error.headline}"))
    if worker.oom_at is not None:
        found.append(
            cite(worker.oom_at, f"{'the scheduler' if worker.oom_presumed else 'the kernel'} says: {worker.oom_text}")
        )
    elif worker.oom_kills:
        found.append(cite(worker.end, f"the kernel counted {worker.oom_kills} out-of-memory kills meanwhile"))
    if worker.rank is not None and worker.start is not None and worker.pid is not None:
        found.append(cite(worker.start, f"process {worker.pid} was started as rank {worker.rank}"))
    return found


def of_stop(worker: Worker) -> str | None:
    """The record of the agent's signal to a worker."""
    sender = "somebody" if worker.stop_reason == OUTSIDE else "the agent"
    return cite(worker.stop, f"{sender} sent {worker.stop_signal or 'a signal'} to {who(worker)}")
