"""Measure several ways of doing a thing in one run, a batch of each in turn: a slow moment of the machine hits all.

Each side (ours, torch's) has a process of its own, since both use the same loggers; the processes take turns, and only
one works at a time.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

BATCH_S = 0.002

Call = Callable[[], object]


@dataclass(frozen=True)
class Figures:
    """What was measured of one way, in microseconds a call."""

    path: str
    """What is done."""
    who: str
    """Who does it: ours, torch's, or the least that could be done at all (the floor)."""
    median_us: float
    p10_us: float
    p90_us: float
    batches: int
    calls: int


def figures(path: str, who: str, samples_us: Sequence[float], calls: int) -> Figures:
    """Median and spread of some samples."""
    deciles = statistics.quantiles(samples_us, n=10, method="inclusive")
    return Figures(path, who, statistics.median(samples_us), deciles[0], deciles[-1], len(samples_us), calls)


def serve(ways: Sequence[tuple[str, str, Call]]) -> None:
    """Be one side: say which ways there are, then time a batch of the one whose number is read, until stdin ends."""
    batches = [batch_of(call) for _, _, call in ways]
    print(json.dumps([(path, who, batch) for (path, who, _), batch in zip(ways, batches, strict=True)]), flush=True)
    clock = time.perf_counter
    for line in sys.stdin:
        number = int(line)
        call, turns = ways[number][2], range(batches[number])
        start = clock()
        for _ in turns:
            call()
        print(clock() - start, flush=True)


def batch_of(call: Call) -> int:
    """How many calls fill a batch."""
    for _ in range(20):  # the first opens files and fills caches
        call()
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            call()
        took = time.perf_counter() - start
        if took >= BATCH_S / 4:
            return max(1, round(count * BATCH_S / took))
        count *= 4


def interleave(sides: Sequence[Sequence[str]], rounds: int, seed: int = 1) -> list[Figures]:
    """Start each side, a command that calls `serve`, and take batches of all their ways in a new order each round.

    Raises:
        RuntimeError: a side failed.
    """
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        for command in sides
    ]
    ways = []
    for side in running:
        said = side.stdout.readline() if side.stdout else ""
        for number, (path, who, batch) in enumerate(json.loads(said or "[]")):
            ways.append((side, number, path, who, batch))
    samples: list[list[float]] = [[] for _ in ways]
    order = list(range(len(ways)))
    shuffle = random.Random(seed).shuffle
    for _ in range(rounds):
        shuffle(order)
        for which in order:
            side, number, _, _, batch = ways[which]
            print(number, file=side.stdin, flush=True)
            samples[which].append(float(side.stdout.readline() if side.stdout else "nan") / batch * 1e6)
    for side in running:
        side.communicate()
        if side.returncode:
            raise RuntimeError(f"{side.args!r} failed")
    return [
        figures(path, who, taken, batch * rounds) for (_, _, path, who, batch), taken in zip(ways, samples, strict=True)
    ]


@dataclass(frozen=True)
class Start:
    """A statement to time in fresh interpreters which have run `before`."""

    path: str
    who: str
    before: str
    statement: str
    runs: int

    def once(self) -> float:
        """Seconds the statement takes, in an environment in which nothing asks for a recording."""
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("JOBTAPE_", "PET_", "TORCHELASTIC_"))}
        lines = ("import time", "start = time.perf_counter()", self.statement, "print(time.perf_counter() - start)")
        text = "\n".join((self.before, *lines))
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=environ, check=True)
        return float(done.stdout.split()[-1])


def interleave_starts(starts: Sequence[Start]) -> list[Figures]:
    """Time statements in fresh interpreters, one of each in turn."""
    samples: list[list[float]] = [[] for _ in starts]
    for start in starts:
        start.once()  # writes the bytecode and warms the file cache
    for turn in range(max(start.runs for start in starts)):
        for start, taken in zip(starts, samples, strict=True):
            if turn < start.runs:
                taken.append(start.once() * 1e6)
    return [figures(start.path, start.who, taken, len(taken)) for start, taken in zip(starts, samples, strict=True)]


def table(rows: Sequence[Figures]) -> str:
    """The figures as text, a block a path; the last column says how many times ours each other one is."""
    ours = {row.path: row.median_us for row in rows if row.who == "jobtape"}
    lines = [f"{'':46}{'median':>12}{'p10':>12}{'p90':>12}{'/ jobtape':>11}"]
    for path in dict.fromkeys(row.path for row in rows):
        lines.append(path)
        for row in rows:
            if row.path == path:
                times = f"{row.median_us / ours[path]:.2f}" if row.who != "jobtape" and path in ours else ""
                spread = "".join(f"{in_words(value):>12}" for value in (row.median_us, row.p10_us, row.p90_us))
                lines.append(f"  {row.who:44}{spread}{times:>11}")
    return "\n".join(lines)


def in_words(us: float) -> str:
    """A duration in the unit that fits it."""
    if us >= 1000:
        return f"{us / 1000:.1f} ms"
    return f"{us:.2f} µs" if us >= 1 else f"{us * 1000:.0f} ns"
