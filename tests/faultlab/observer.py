"""Eyes other than jobtape's: the kernel's word on how and when a process ended, and how late this machine is."""

from __future__ import annotations

import os
import select
import threading
import time
from dataclasses import dataclass
from pathlib import Path

LOOK_S = 0.01


@dataclass(frozen=True)
class Death:
    """The end of a process as seen from outside.

    Attributes:
        time: when it was seen, unix seconds; the end was before.
        status: torch's way, negative for a signal; None when its parent had collected it before we looked.
    """

    time: float
    status: int | None


class Observer:
    """A thread that opens a pidfd of every process which has a witness file, and tells how it ended.

    A process that has ended stays a zombie until its parent collects it; until then ``/proc/PID/stat`` has its exit
    code as the last field (proc_pid_stat(5), readable for processes of the same user).
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.deaths: dict[int, Death] = {}
        self._open: dict[int, int] = {}
        self._known: set[int] = set()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._over.set()
        self._thread.join(5)

    def watch(self, pid: int) -> None:
        """Watch a process, whether it has a witness file or not."""
        with self._lock:
            if pid in self._known:
                return
            self._known.add(pid)
            try:
                self._open[os.pidfd_open(pid)] = pid
            except ProcessLookupError:
                self.deaths[pid] = Death(time.time(), None)

    def _run(self) -> None:
        while True:
            over = self._over.is_set()
            for path in self.folder.glob("*.jsonl"):
                seen = path.with_suffix(".seen")
                if path.stem.isdigit() and not seen.exists():
                    self.watch(int(path.stem))
                    seen.touch()
            poll = select.poll()
            with self._lock:
                for fd in self._open:
                    poll.register(fd, select.POLLIN)
            for fd, _ in poll.poll(LOOK_S * 1000):
                pid = self._open.pop(fd)
                self.deaths[pid] = Death(time.time(), _status(pid))
                os.close(fd)
            if over:
                for fd in self._open:
                    os.close(fd)
                return


def _status(pid: int) -> int | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    code = int(fields[-1])
    return -(code & 0x7F) if code & 0x7F else code >> 8


class Pulse:
    """A thread that sleeps and looks how late it woke: by so much a measured time may be wrong on a busy machine."""

    SLEEP_S = 0.01

    def __init__(self) -> None:
        self._late: list[tuple[float, float]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._over.set()
        self._thread.join(5)

    def lateness_s(self, at: float, around_s: float = 1.0) -> float:
        """The longest that this process was kept waiting for a processor around a time (unix seconds)."""
        return max((late for when, late in list(self._late) if abs(when - at) <= around_s), default=0.0)

    def _run(self) -> None:
        while not self._over.is_set():
            before = time.monotonic()
            time.sleep(self.SLEEP_S)
            late = time.monotonic() - before - self.SLEEP_S
            if late > 0.002:
                self._late.append((time.time(), late))


def processes_with(marker: str) -> list[int]:
    """The processes that have this text in their environment, but for this one."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                text = (folder / "environ").read_bytes()
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if marker.encode() in text and state != "Z":
                found.append(int(folder.name))
    return sorted(found)
