"""The kernel's word on out-of-memory kills.

A process killed by the kernel for want of memory dies of SIGKILL like any other; only the counter of its control group
tells. Sources: the kernel's cgroup-v2 documentation (``memory.events``, field ``oom_kill``: processes of this group or
below killed by any kind of OOM killer) and cgroup-v1 ``memory.oom_control`` (the same field, since Linux 4.13).
"""

from __future__ import annotations

from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")


def oom_kills(pid: int | str = "self") -> int | None:
    """How many processes of the control group of `pid` the kernel has killed for memory; None when it does not say."""
    for file in _counter_files(pid):
        try:
            with open(file, "rb") as stream:
                text = stream.read(4096)
        except OSError:
            continue
        for line in text.splitlines():
            key, _, value = line.partition(b" ")
            if key == b"oom_kill" and value.strip().isdigit():
                return int(value)
    return None


def _counter_files(pid: int | str) -> list[Path]:
    """Where the counter may stand, the nearest first; inside a container the group's path is often the mount's root."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as stream:
            lines = stream.read(65536).splitlines()
    except OSError:
        return []
    files: list[Path] = []
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        path = path.lstrip("/")
        if "memory" in controllers.split(","):
            files += [_ROOT / "memory" / path / "memory.oom_control", _ROOT / "memory" / "memory.oom_control"]
        elif number == "0" and not controllers:
            for mount in (_ROOT, _ROOT / "unified"):
                files += [mount / path / "memory.events", mount / "memory.events"]
    return files
