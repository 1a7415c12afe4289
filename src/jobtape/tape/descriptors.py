"""Descriptors of files that live as long as a job in which anything may be done with descriptors.

Code that turns a process into a daemon closes every descriptor it does not know; the next file the job opens then gets
the lowest free number. A tape that went on writing to its number would write into that file.
"""

from __future__ import annotations

import fcntl
import os
import resource


def out_of_the_way(fd: int) -> int:
    """The same open file under a high number, which no ``open`` of the job is given; the low one is closed.

    Where that cannot be had (a limit of a few descriptors), the number stays what it was.
    """
    try:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, (limit if 0 < limit < 4096 else 4096) // 2)
    except (OSError, ValueError):
        return fd
    os.close(fd)
    return high


def identity(fd: int) -> tuple[int, int] | None:
    """Device and inode of the open file, None when the number is of none."""
    try:
        status = os.fstat(fd)
    except OSError:
        return None
    return status.st_dev, status.st_ino
