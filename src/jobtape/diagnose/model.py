"""The answer: what `jobtape why` says about a run, as values.

Times are unix seconds, or None where the record has none. `to_json` gives the form that ``docs/why.schema.json``
checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

import msgspec


class RankOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How one rank's worker ended in one attempt.

    Attributes:
        role: ``first`` · ``collateral`` · ``stopped`` · ``independent`` · ``unknown``.
        exit_code: as torch counts: negative for a signal.
        location: ``file.py:12``, the last line of the user's own code on the record.
        stack: what faulthandler wrote when the worker crashed or was stopped.
        note: what else is known, in a few words.
        step: the last step it recorded.
    """

    rank: int
    host: str
    role: str
    exit_code: int | None = None
    signal: str | None = None
    message: str | None = None
    local_rank: int | None = None
    pid: int | None = None
    started: float | None = None
    ended: float | None = None
    error_type: str | None = None
    traceback: str | None = None
    location: str | None = None
    stack: str | None = None
    note: str | None = None
    step: int | None = None


class Outcomes(Sequence[RankOutcome]):
    """The ranks of an attempt, told when somebody asks: of a large run an answer shows few attempts rank by rank."""

    def __init__(self, count: int, tell: Callable[[], Iterable[RankOutcome]]) -> None:
        self._count = count
        self._tell: Callable[[], Iterable[RankOutcome]] | None = tell
        self._told: tuple[RankOutcome, ...] = ()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[RankOutcome]:
        return iter(self._all())

    def __getitem__(self, index: Any) -> Any:
        return self._all()[index]

    def __eq__(self, other: object) -> bool:
        return self._all() == (other._all() if isinstance(other, Outcomes) else other)

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return repr(self._all())

    def _all(self) -> tuple[RankOutcome, ...]:
        if self._tell is not None:
            self._told, self._tell = tuple(self._tell()), None
        return self._told


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """What ended an attempt, with what proves it.

    Attributes:
        rank: the rank that was first; None where the record cannot say, or where no rank is to blame.
        ranks: where no rank is blamed alone: those that ended alike, that did not come, or of which one was waited for.
        pid: of the rank's process, or of the agent that failed or vanished.
        time: when the fault happened; ``detected``: when an agent noticed.
        confidence: ``certain`` · ``likely`` · ``suspected`` · ``unknown``.
        evidence: references to records, ``<file>:<line> #<seq> <what it says>``.
        reason: the rule that decided, such as ``only_own_failure``; `jobtape.views.reasons` has the words of each.
    """

    kind: str
    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    pid: int | None = None
    exit_code: int | None = None
    signal: str | None = None
    error_type: str | None = None
    message: str | None = None
    location: str | None = None
    traceback: str | None = None
    time: float | None = None
    detected: float | None = None
    confidence: str = "unknown"
    evidence: tuple[str, ...] = ()
    stack: str | None = None
    note: str | None = None
    ranks: tuple[int, ...] = ()
    reason: str = ""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of the job: the workers that were started together, or a rendezvous that never got so far."""

    index: int
    outcome: str
    round: int | None = None
    world_size: int | None = None
    nodes: tuple[str, ...] = ()
    started: float | None = None
    ended: float | None = None
    cause: Cause | None = None
    ranks: Sequence[RankOutcome] = ()

    @property
    def workers(self) -> Sequence[RankOutcome]:
        """The ranks, under the name that fits what else is known of each."""
        return self.ranks

    @property
    def duration_s(self) -> float | None:
        """From start to end, where both are known."""
        if self.started is None or self.ended is None:
            return None
        return max(self.ended - self.started, 0.0)


class Restarts(msgspec.Struct, frozen=True, kw_only=True):
    """Restarts of the job, each counted once and named by what ended the attempt before it."""

    failure: int = 0
    membership: int = 0
    preemption: int = 0


class Warning_(msgspec.Struct, frozen=True, kw_only=True):  # noqa: N801 - Warning is a builtin
    """Something a reader of the answer should know: its kind, and a sentence."""

    kind: str
    text: str


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """What is missing from the record."""

    events_missing: int = 0
    damaged_lines: int = 0
    files: int = 0


class HostClock(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one host's clock, compared with that of the host which is named first.

    Attributes:
        offset_s: by how many seconds it was ahead when they last met; its times were corrected by it.
        bound_s: the true offset then was at most this far from it. Both are None where nothing relates the two.
        rounds: in how many rounds of the rendezvous it met others.
        steady: False when it was set back while the job ran.
    """

    host: str
    offset_s: float | None = None
    bound_s: float | None = None
    rounds: int = 0
    steady: bool = True


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A job from its first attempt to its last."""

    run_id: str
    state: str
    started: float | None = None
    ended: float | None = None
    nodes: int = 0
    world_size: int | None = None
    restarts: Restarts = Restarts()
    attempts: tuple[Attempt, ...] = ()
    warnings: tuple[Warning_, ...] = ()
    loss: Loss = Loss()
    clocks: tuple[HostClock, ...] = ()

    @property
    def wall_s(self) -> float | None:
        """From the first record to the last, where times are known."""
        if self.started is None or self.ended is None:
            return None
        return max(self.ended - self.started, 0.0)


_RANK_KEYS = ("rank", "host", "role", "exit_code", "signal", "message")
_CAUSE_KEYS = (
    *("kind", "rank", "local_rank", "host", "pid", "exit_code", "signal"),
    *("error_type", "message", "location", "traceback"),
)


def to_json(run: Run) -> dict[str, Any]:
    """The answer in the form of the contract, ready for a JSON encoder.

    Returns:
        Plain dicts, lists, texts and numbers; times as ISO 8601 in UTC with milliseconds.
    """
    return {
        "run_id": run.run_id,
        "state": run.state,
        "started": iso(run.started),
        "ended": iso(run.ended),
        "wall_s": None if run.wall_s is None else round(run.wall_s, 3),
        "nodes": run.nodes,
        "world_size": run.world_size,
        "restarts": msgspec.structs.asdict(run.restarts),
        "attempts": [_attempt(attempt) for attempt in run.attempts],
        "warnings": [{"kind": warning.kind, "text": warning.text} for warning in run.warnings],
        "loss": msgspec.structs.asdict(run.loss),
        "clocks": [_clock(clock) for clock in run.clocks],
    }


def _clock(clock: HostClock) -> dict[str, Any]:
    return {
        "host": clock.host,
        "offset_s": None if clock.offset_s is None else round(clock.offset_s, 6),
        "bound_s": None if clock.bound_s is None else round(clock.bound_s, 6),
        "rounds": clock.rounds,
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "index": attempt.index,
        "round": attempt.round,
        "world_size": attempt.world_size,
        "nodes": list(attempt.nodes),
        "started": iso(attempt.started),
        "ended": iso(attempt.ended),
        "outcome": attempt.outcome,
        "cause": None if attempt.cause is None else _cause(attempt.cause),
        "ranks": [{key: getattr(rank, key) for key in _RANK_KEYS} for rank in attempt.ranks],
    }


def _cause(cause: Cause) -> dict[str, Any]:
    said: dict[str, Any] = {key: getattr(cause, key) for key in _CAUSE_KEYS}
    said["time"] = iso(cause.time)
    said["detected"] = iso(cause.detected)
    said["confidence"] = cause.confidence
    said["evidence"] = list(cause.evidence)
    said["note"] = cause.note
    said["ranks"] = list(cause.ranks)
    return said


def iso(seconds: float | None) -> str | None:
    """Unix seconds as ISO 8601 in UTC with milliseconds.

    >>> iso(1772305514.25)
    '2026-02-28T19:05:14.250Z'
    """
    if seconds is None:
        return None
    whole, milliseconds = divmod(round(seconds * 1000), 1000)
    try:
        moment = datetime.fromtimestamp(whole, timezone.utc)
    except (OverflowError, OSError, ValueError):
        return None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"
