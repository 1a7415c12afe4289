"""What differed between the failures of two runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import msgspec

from jobtape.diagnose.likeness import Failure, failure_of, masked
from jobtape.diagnose.model import Attempt, Cause, Run

Fact: TypeAlias = str | int | float | None

ALMOST = 0.1
"""Durations that differ by no more than this share of the longer one are alike: no two starts take the same time."""


class Difference(msgspec.Struct, frozen=True):
    """One thing that was looked at in both runs.

    Attributes:
        what: such as ``first rank``; names that end in ``_s`` are seconds.
        same: whether it is the same in both, numbers and addresses in messages apart; None where neither has it.
    """

    what: str
    a: Fact
    b: Fact
    same: bool | None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs' failures side by side.

    Attributes:
        same: whether the last failure of both is the same; None where too little is known of one of them to say so.
        a, b: the attempts that are compared, each the last of its run that has a cause; None where a run has none.
        in_both, only_in_a, only_in_b: of all failures of the runs, an example attempt each and how often, so that
            what went before the last failure is compared too.
    """

    same: bool | None
    a: Attempt | None
    b: Attempt | None
    facts: tuple[Difference, ...] = ()
    in_both: tuple[tuple[Attempt, int, int], ...] = ()
    only_in_a: tuple[tuple[Attempt, int], ...] = ()
    only_in_b: tuple[tuple[Attempt, int], ...] = ()


def compare(
    a: Run, b: Run, environment_a: Mapping[str, str] | None = None, environment_b: Mapping[str, str] | None = None
) -> Comparison:
    """What differed between the failures of two runs.

    Args:
        a: a run.
        b: the run it is compared with.
        environment_a: what is known of where the first ran, such as ``torch`` and ``command``.
        environment_b: the same of the second.
    """
    last_a, last_b = decisive(a), decisive(b)
    all_a, all_b = _failures(a), _failures(b)
    return Comparison(
        same=_same(last_a, last_b),
        a=last_a,
        b=last_b,
        facts=(
            *_facts(a, b, last_a, last_b),
            *_differences(environment_a or {}, environment_b or {}),
        ),
        in_both=tuple((found[-1], len(found), len(all_b[key])) for key, found in all_a.items() if key in all_b),
        only_in_a=tuple((found[-1], len(found)) for key, found in all_a.items() if key not in all_b),
        only_in_b=tuple((found[-1], len(found)) for key, found in all_b.items() if key not in all_a),
    )


def decisive(run: Run) -> Attempt | None:
    """The attempt whose failure is compared: the last that had workers and a cause, else the last with a cause."""
    with_cause = [attempt for attempt in run.attempts if attempt.cause is not None]
    of_workers = [attempt for attempt in with_cause if attempt.outcome != "incomplete"]
    found = of_workers or with_cause
    return found[-1] if found else None


def _same(a: Attempt | None, b: Attempt | None) -> bool | None:
    if a is None or b is None or a.cause is None or b.cause is None:
        return a is b
    one, other = failure_of(a.cause), failure_of(b.cause)
    if one == other:
        return True if one.is_known else None
    return False if one.is_known and other.is_known else None


def _failures(run: Run) -> dict[Failure, list[Attempt]]:
    found: dict[Failure, list[Attempt]] = {}
    for attempt in run.attempts:
        if attempt.cause is not None:
            found.setdefault(failure_of(attempt.cause), []).append(attempt)
    return found


def _facts(a: Run, b: Run, last_a: Attempt | None, last_b: Attempt | None) -> Iterator[Difference]:
    if last_a is not None and last_b is not None:
        yield from _differences(_of_cause(last_a.cause), _of_cause(last_b.cause))
        yield from _differences(_of_attempt(last_a), _of_attempt(last_b))
    yield from _differences(_of_run(a), _of_run(b))


def _differences(a: Mapping[str, Fact], b: Mapping[str, Fact]) -> Iterator[Difference]:
    for what in dict.fromkeys([*a, *b]):
        yield _difference(what, a.get(what), b.get(what))


def _difference(what: str, a: Fact, b: Fact) -> Difference:
    if a is None and b is None:
        return Difference(what, a, b, None)
    if isinstance(a, float) and isinstance(b, float):
        return Difference(what, a, b, abs(a - b) <= ALMOST * max(abs(a), abs(b)))
    if isinstance(a, str) and isinstance(b, str) and what == "message":
        return Difference(what, a, b, masked(a) == masked(b))
    return Difference(what, a, b, a == b)


def _of_cause(cause: Cause | None) -> dict[str, Fact]:
    cause = cause if cause is not None else Cause(kind="")
    return {
        "kind": cause.kind or None,
        "error type": cause.error_type,
        "message": cause.message,
        "location": cause.location,
        "exit code": cause.exit_code,
        "signal": cause.signal,
        "first rank": ",".join(map(str, cause.ranks)) if cause.ranks else cause.rank,
        "local rank": cause.local_rank,
        "host": cause.host,
        "confidence": cause.confidence if cause.kind else None,
    }


def _of_attempt(attempt: Attempt) -> dict[str, Fact]:
    failed = attempt.cause.time if attempt.cause is not None else None
    after = failed - attempt.started if failed is not None and attempt.started is not None else attempt.duration_s
    first = [r for r in attempt.ranks if attempt.cause is not None and r.rank == attempt.cause.rank]
    steps = [rank.step for rank in first or attempt.ranks if rank.step is not None]
    return {
        "attempt": attempt.index,
        "last step": max(steps, default=None),
        "time to failure_s": None if after is None else max(float(after), 0.0),
        "world size": attempt.world_size,
        "nodes": len(attempt.nodes) or None,
        "victims": sum(rank.role == "collateral" for rank in attempt.ranks),
        "stopped ranks": sum(rank.role == "stopped" for rank in attempt.ranks),
    }


def _of_run(run: Run) -> dict[str, Fact]:
    return {
        "state": run.state,
        "attempts": len(run.attempts),
        "restarts after failures": run.restarts.failure,
        "restarts for membership": run.restarts.membership,
        "restarts after preemption": run.restarts.preemption,
        "wall time_s": run.wall_s,
    }
