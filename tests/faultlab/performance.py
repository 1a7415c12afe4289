"""What really happened while a scenario was played, told by everybody but jobtape."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .observer import Death

HARNESS = -1
"""The rank under which the harness itself is a witness."""


@dataclass(frozen=True)
class Line:
    """One line of a witness: who said what when.

    Attributes:
        rank: of the worker, or `HARNESS`.
        pid: whose pid the line is about.
        time: unix seconds, taken right before the fault.
    """

    what: str
    rank: int
    world_size: int
    attempt: int
    pid: int
    ppid: int
    time: float
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Performance:
    """A scenario that has been played.

    Attributes:
        shelf: the directory of tapes.
        folder: where script, consoles and witness files lie.
        host: this machine's name.
        begun: before the first process was started, unix seconds.
        over: after the last one had ended.
        lines: the witnesses' lines by time.
        deaths: pid → the kernel's word on its end.
        agents: the agents' pids.
        exit_codes: theirs, from waitpid.
        consoles: what each agent and its workers printed.
        left: processes that were still there at the end and had to be killed.
        oom_kills: the kernel's count for the job's control group.
        lateness_s: how late the harness itself was woken around each injection, by its name.
        trouble: why it was not played to the end.
    """

    shelf: Path
    folder: Path
    host: str
    begun: float
    over: float
    lines: tuple[Line, ...]
    deaths: dict[int, Death]
    agents: tuple[int, ...]
    exit_codes: tuple[int, ...]
    consoles: tuple[str, ...]
    left: tuple[int, ...]
    oom_kills: int
    lateness_s: dict[str, float]
    trouble: str | None = None

    @property
    def console(self) -> str:
        """All that was printed."""
        return "".join(self.consoles)

    def said(self, what: str) -> list[Line]:
        """The lines of that name, by time."""
        return [line for line in self.lines if line.what == what]

    def processes(self) -> dict[int, list[Line]]:
        """Rank → the first line of each of its processes, in the order of their starts."""
        found: dict[int, list[Line]] = {}
        for line in self.said("up"):
            found.setdefault(line.rank, []).append(line)
        return found

    def status(self, pid: int) -> int | None:
        """How a process ended: the kernel's word, else torch's; None when neither says."""
        death = self.deaths.get(pid)
        if death is not None and death.status is not None:
            return death.status
        return self.torch_says(pid)

    def torch_says(self, pid: int) -> int | None:
        """The exit code of a worker as torch's agent logs it, or its closing block has it."""
        logged = re.search(rf"failed \(exitcode: (-?\d+)\) local_rank: \d+ \(pid: {pid}\)", self.console)
        listed = re.search(rf"^ +exitcode +: (-?\d+) \(pid: {pid}\)$", self.console, re.MULTILINE)
        found = logged or listed
        return int(found.group(1)) if found else None
