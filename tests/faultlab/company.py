"""All scenarios of a session, played beside each other while the tests wait for theirs."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from .observer import Pulse
from .performance import Performance
from .scenario import Scenario
from .stage import play

AT_ONCE = 3
"""Jobs that run at the same time: two for the processors, one because jobs mostly wait."""


@dataclass
class Company:
    """Plays scenarios in the background, each once.

    Attributes:
        errors_s: scenario → by how much each time in its answer was off; filled by the tests.
        produced: the scenarios whose faults really happened, with the kind, the status and the error of each.
    """

    folder: Path
    pulse: Pulse = field(default_factory=Pulse)
    errors_s: dict[str, list[float]] = field(default_factory=dict)
    produced: dict[str, list[tuple[str, int | None, str | None]]] = field(default_factory=dict)
    _futures: dict[tuple[str, bool], Future[Performance]] = field(default_factory=dict)
    _begun: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._pool = ThreadPoolExecutor(min(AT_ONCE, 1 + (os.cpu_count() or 1)))

    def begin(self, wanted: Iterable[tuple[Scenario, bool]]) -> None:
        """Let these scenarios be played, armed or not, in this order."""
        for scenario, armed in wanted:
            if (scenario.name, armed) not in self._futures:
                folder = self.folder / (scenario.name if armed else f"{scenario.name}-disarmed")
                folder.mkdir()
                self._futures[scenario.name, armed] = self._pool.submit(play, scenario, folder, self.pulse, armed=armed)

    def performance(self, scenario: Scenario, *, armed: bool = True) -> Performance:
        """A scenario's performance, when it is over."""
        return self._futures[scenario.name, armed].result()

    @property
    def wall_s(self) -> float:
        """How long the lab has taken until now."""
        return time.monotonic() - self._begun

    def close(self) -> None:
        """Play nothing more that has not begun."""
        self._pool.shutdown(cancel_futures=True)
        self.pulse.close()


def cpu_s() -> float:
    """Processor time of all processes that were started and collected by this one, itself included."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)
