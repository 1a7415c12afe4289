"""The answer of ``jobtape why --json`` beside the truth: every difference, in words."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from ..capture import lab
from .performance import Line, Performance
from .proof import culprits
from .scenario import COLLATERAL, STOPPED, VICTIM, Attempt, Fault, Scenario

CONFIDENCES = ("unknown", "suspected", "likely", "certain")
INFERRED = ("stall", "left_early", "node_lost")
"""Kinds that no record states: an answer may never call them certain."""
EARLY_S = 0.02
"""How much earlier than its witness a fault may be said to have happened: the clock is read twice."""
EXACT_S = 0.08
"""How much later, on a machine at rest. The median over the whole lab has to be far below."""
REFERENCE = re.compile(r"^(?P<place>.+?:\d+) #\d+ ")


def differences(scenario: Scenario, performance: Performance, answer: dict[str, Any]) -> list[str]:
    """What the answer says that is not true, or does not say."""
    return list(_all(scenario, performance, answer))


def time_error_s(fault: Fault, cause: dict[str, Any], performance: Performance) -> float | None:
    """How far the answer's time of a fault is from the moment before it was done; None where that is not exact."""
    at = _seconds(cause["time"])
    return None if at is None or fault.late_s else at - culprits(fault, performance)[0].time


def _all(scenario: Scenario, performance: Performance, answer: dict[str, Any]) -> Iterator[str]:
    yield from _unlike("run_id", f"lab-{scenario.name}", answer["run_id"])
    yield from _unlike("state", scenario.state, answer["state"])
    restarts = tuple(answer["restarts"][kind] for kind in ("failure", "membership", "preemption"))
    yield from _unlike("restarts", scenario.restarts, restarts)
    yield from _unlike("loss", (0, 0), (answer["loss"]["events_missing"], answer["loss"]["damaged_lines"]))
    if agents := {line.ppid for line in performance.said("up") if line.ppid in performance.agents}:
        yield from _unlike("nodes", len(agents), answer["nodes"])
    kinds = {warning["kind"] for warning in answer["warnings"]}
    yield from (f"warnings: no {kind} in {sorted(kinds)}" for kind in scenario.warnings if kind not in kinds)
    outcomes = [attempt["outcome"] for attempt in answer["attempts"]]
    yield from _unlike("outcomes", [attempt.outcome for attempt in scenario.truth], outcomes)
    if len(outcomes) == len(scenario.truth):
        for number, truth in enumerate(scenario.truth):
            found = answer["attempts"][number]
            for text in _attempt(scenario, truth, found, performance, _starts(number, answer, performance)):
                yield f"attempt {number}: {text}"
    yield from _references(scenario, performance, answer)


def _starts(number: int, answer: dict[str, Any], performance: Performance) -> dict[int, Line]:
    """Rank → the first line of its process: a rank's n-th process is of the n-th attempt that has it."""
    found = {}
    for rank, lines in performance.processes().items():
        having = [
            index
            for index, attempt in enumerate(answer["attempts"])
            if rank in {entry["rank"] for entry in attempt["ranks"]}
        ]
        if number in having and having.index(number) < len(lines):
            found[rank] = lines[having.index(number)]
    return found


def _attempt(
    scenario: Scenario, truth: Attempt, found: dict[str, Any], performance: Performance, starts: dict[int, Line]
) -> Iterator[str]:
    if truth.world_size is not None:
        yield from _unlike("world_size", truth.world_size, found["world_size"])
    roles = {entry["rank"]: entry["role"] for entry in found["ranks"]}
    for rank, role in _by_rank(truth.roles, performance, starts).items():
        allowed = _allowed(role, performance.status(starts[rank].pid) if rank in starts else None)
        if roles.get(rank) not in allowed:
            yield f"rank {rank}: role is {roles.get(rank)}, not {' or '.join(allowed)}"
    for entry in found["ranks"]:
        known = performance.deaths.get(starts[entry["rank"]].pid) if entry["rank"] in starts else None
        if known is not None and known.status is not None and entry["exit_code"] not in (None, known.status):
            yield f"rank {entry['rank']}: exit code is {entry['exit_code']}, the kernel says {known.status}"
    started = _seconds(found["started"])
    if starts and started is not None and scenario.agents:
        first = min(line.time for line in starts.values())
        if started > first + EXACT_S:
            yield f"started {started - first:.3f} s after its first process"
    if truth.fault is None:
        yield from _unlike("cause", None, found["cause"] and found["cause"]["kind"])
    elif found["cause"] is None:
        yield f"cause: none, the truth is {truth.fault.kind}"
    else:
        yield from _cause(scenario, truth.fault, found["cause"], performance)


def _by_rank(roles: Mapping[int | str, str], performance: Performance, starts: dict[int, Line]) -> dict[int, str]:
    found = {rank: role for rank, role in roles.items() if isinstance(rank, int)}
    for number, pid in enumerate(performance.agents):
        if (role := roles.get(f"agent {number}")) is not None:
            found |= {rank: role for rank, up in starts.items() if up.ppid == pid}
    return found


def _allowed(role: str, status: int | None) -> tuple[str, ...]:
    """A victim's role is what the kernel says of its end; one that was stopped may have failed before that."""
    if role != VICTIM:
        return (role,)
    if status is not None and status >= 0:
        return (COLLATERAL,)
    return (COLLATERAL, STOPPED)


def _cause(scenario: Scenario, fault: Fault, cause: dict[str, Any], performance: Performance) -> Iterator[str]:
    lines = culprits(fault, performance)
    first, by_rank = lines[0], fault.ranks is not None
    one = by_rank and len(lines) == 1
    yield from _unlike("kind", fault.kind, cause["kind"])
    yield from _unlike("rank", first.rank if one else None, cause["rank"])
    if one:
        yield from _unlike("pid", first.pid, cause["pid"])
        yield from _unlike("local_rank", first.facts.get("local_rank", cause["local_rank"]), cause["local_rank"])
    if fault.names_agent:
        yield from _unlike("pid", first.pid, cause["pid"])
    if one or first.pid in performance.agents:
        yield from _unlike("host", performance.host, cause["host"])
    code = fault.status if fault.exit_code is None else fault.exit_code
    if scenario.agents or cause["exit_code"] is not None:  # without an agent nobody was told of it
        yield from _unlike("exit_code", code, cause["exit_code"])
    killed = fault.status is not None and fault.status < 0
    yield from _unlike("signal", signal.Signals(-(fault.status or 0)).name if killed else fault.signal, cause["signal"])
    yield from _unlike("error_type", fault.error_type, cause["error_type"])
    if fault.message is not None and fault.message != cause["message"]:
        yield f"message: {_short(cause['message'])}, not {_short(fault.message)}"
    if CONFIDENCES.index(cause["confidence"]) < CONFIDENCES.index(fault.confidence):
        yield f"confidence: {cause['confidence']}, at least {fault.confidence} is earned"
    if fault.kind in INFERRED and cause["confidence"] == "certain":
        yield "confidence: certain, of something that no record states"
    yield from _time(fault, first, cause, performance)


def _time(fault: Fault, first: Line, cause: dict[str, Any], performance: Performance) -> Iterator[str]:
    at = _seconds(cause["time"])
    if at is None:
        if fault.timed:
            yield "time: none"
        return
    noise_s = performance.lateness_s.get(fault.what, 0.0)
    latest = first.time + fault.late_s + EXACT_S + noise_s
    if not first.time - fault.early_s - EARLY_S <= at <= latest:
        yield f"time: {at - first.time:+.3f} s from the injection; at most {latest - first.time:.3f} s later is true"
    detected = _seconds(cause["detected"])
    if detected is not None and detected < first.time - EARLY_S:
        yield f"detected {first.time - detected:.3f} s before it was injected"


def _references(scenario: Scenario, performance: Performance, answer: dict[str, Any]) -> Iterator[str]:
    """Every record that a verdict cites is one that ``jobtape events`` shows."""
    cited = [text for attempt in answer["attempts"] if attempt["cause"] for text in attempt["cause"]["evidence"]]
    for attempt in answer["attempts"]:
        if attempt["cause"] and not attempt["cause"]["evidence"]:
            yield f"attempt {attempt['index']}: a cause without evidence"
    places = sorted({match["place"] for text in cited if (match := REFERENCE.match(text))})
    yield from (f"evidence names no record: {text}" for text in cited if not REFERENCE.match(text))
    if not places:
        return
    wanted = [word for place in places for word in ("--file", place)]
    done = lab.jobtape(performance.shelf, "events", answer["run_id"], "--json", *wanted)
    shown = {f"{record['file']}:{record['line']}" for record in map(json.loads, done.stdout.splitlines())}
    yield from (f"evidence that events does not show: {place}" for place in places if place not in shown)


def _seconds(text: str | None) -> float | None:
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def _unlike(name: str, expected: object, actual: object) -> Iterator[str]:
    if expected != actual:
        yield f"{name}: {_short(actual)}, the truth is {_short(expected)}"


def _short(value: object, width: int = 160) -> str:
    text = repr(value)
    return text if len(text) <= width else f"{text[:width]}… ({len(text)} characters)"
