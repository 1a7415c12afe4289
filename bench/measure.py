"""Measure several ways of doing things in one run, a batch of each in turn: a slow moment of the machine hits all."""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

BATCH_S = 0.002


@dataclass
class Way:
    """One way of doing what `path` names: ours, torch's, or the least that could be done at all (the floor)."""

    path: str
    who: str
    call: Callable[[], object]
    batch: int = 0
    samples_us: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Figures:
    """What the samples of one way say, in microseconds a call."""

    path: str
    who: str
    median_us: float
    p10_us: float
    p90_us: float
    samples: int
    calls: int


def figures(path: str, who: str, samples_us: Sequence[float], calls: int) -> Figures:
    """Median and spread of some samples."""
    deciles = statistics.quantiles(samples_us, n=10, method="inclusive")
    return Figures(path, who, statistics.median(samples_us), deciles[0], deciles[-1], len(samples_us), calls)


def interleave(ways: Sequence[Way], rounds: int, seed: int = 1) -> list[Figures]:
    """Take `rounds` batches of each way, in a new order each round; the first calls of each warm it up uncounted."""
    for way in ways:
        way.batch = _batch(way.call)
    order = list(ways)
    shuffle = random.Random(seed).shuffle
    clock = time.perf_counter
    for _ in range(rounds):
        shuffle(order)
        for way in order:
            call, count = way.call, range(way.batch)
            start = clock()
            for _ in count:
                call()
            way.samples_us.append((clock() - start) / way.batch * 1e6)
    return [figures(way.path, way.who, way.samples_us, way.batch * rounds) for way in ways]


def _batch(call: Callable[[], object]) -> int:
    """How many calls fill a batch."""
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            call()
        took = time.perf_counter() - start
        if took >= BATCH_S / 4:
            return max(1, round(count * BATCH_S / took))
        count *= 4


TIMED = """
import json, logging, sys, time
start = time.perf_counter()
{statement}
print(time.perf_counter() - start)
"""


def interleave_starts(statements: Sequence[tuple[str, str, str, int]]) -> list[Figures]:
    """Time statements in fresh interpreters that have logging and json already; (path, who, statement, runs) each.

    Nothing in their environment asks for a recording.
    """
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("JOBTAPE_", "PET_", "TORCHELASTIC_"))}
    samples: dict[tuple[str, str], list[float]] = {(path, who): [] for path, who, _, _ in statements}
    for turn in range(-1, max(runs for *_, runs in statements)):
        for path, who, statement, runs in statements:
            if turn < runs:
                command = [sys.executable, "-c", TIMED.format(statement=statement)]
                done = subprocess.run(command, capture_output=True, text=True, env=environ, check=True)
                if turn >= 0:  # the one before warms the file cache and writes the bytecode
                    samples[path, who].append(float(done.stdout.split()[-1]) * 1e6)
    return [figures(path, who, samples[path, who], len(samples[path, who])) for path, who, _, _ in statements]


def table(rows: Sequence[Figures]) -> str:
    """The figures as text, a block a path; the last column says how many times ours each other one is."""
    ours = {row.path: row.median_us for row in rows if row.who == "jobtape"}
    lines = [f"{'':46}{'median':>12}{'p10':>12}{'p90':>12}{'/ jobtape':>11}"]
    path = ""
    for row in rows:
        if row.path != path:
            path = row.path
            lines.append(path)
        times = f"{row.median_us / ours[path]:.2f}" if row.who != "jobtape" and ours.get(path) else ""
        spread = "".join(f"{_time(value):>12}" for value in (row.median_us, row.p10_us, row.p90_us))
        lines.append(f"  {row.who:44}{spread}{times:>11}")
    return "\n".join(lines)


def _time(us: float) -> str:
    if us >= 1000:
        return f"{us / 1000:.1f} ms"
    return f"{us:.2f} µs" if us >= 1 else f"{us * 1000:.0f} ns"
