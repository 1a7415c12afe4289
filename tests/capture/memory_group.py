"""A control group with a memory limit, for jobs that the kernel has to kill."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


class NoMemoryGroup(Exception):
    """This machine lets nobody make such a group."""


@dataclass(frozen=True)
class MemoryGroup:
    """A control group, v1 or v2, that has a memory limit."""

    folder: Path

    @property
    def prefix(self) -> tuple[str, ...]:
        """What to put before a command so that it runs in the group."""
        return ("sh", "-c", f'echo $$ > {self.folder}/cgroup.procs && exec "$0" "$@"')

    def oom_kills(self) -> int:
        """How many of its processes the kernel has killed for memory."""
        for name in ("memory.events", "memory.oom_control"):
            file = self.folder / name
            if file.exists():
                words = dict(line.split() for line in file.read_text().splitlines())
                return int(words.get("oom_kill", 0))
        return 0


@contextlib.contextmanager
def memory_group(limit: int) -> Iterator[MemoryGroup]:
    """A group of that many bytes, whichever kind this machine lets us make; removed at the end.

    Raises:
        NoMemoryGroup: neither kind.
    """
    name = f"jobtape-test-{os.getpid()}-{uuid.uuid4().hex[:6]}"
    v1 = ("memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", limit)
    v2 = ("", "memory.max", "memory.swap.max", 0)
    for parent, knob, swap_knob, swap_limit in (v1, v2):
        folder = ROOT / parent / name
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / knob).write_text(str(limit))
        except OSError:
            folder.rmdir()
            continue
        with contextlib.suppress(OSError):  # a kernel without swap accounting has no such file
            (folder / swap_knob).write_text(str(swap_limit))
        try:
            yield MemoryGroup(folder)
        finally:
            folder.rmdir()
        return
    raise NoMemoryGroup("no control group with a memory limit can be made here (needs root, a writable cgroup mount)")
