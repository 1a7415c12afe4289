"""The kernel's word on out-of-memory kills, from a real control group with a real limit."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from jobtape.capture import kernel

from . import lab
from .memory_group import MemoryGroup, NoMemoryGroup, memory_group

LIMIT = 700 * 1024 * 1024


@pytest.fixture
def group() -> Iterator[MemoryGroup]:
    """A control group with a memory limit."""
    try:
        with memory_group(LIMIT) as group:
            yield group
    except NoMemoryGroup as error:
        pytest.skip(str(error))


def test_the_counter_of_a_real_group_rises(group: MemoryGroup) -> None:
    """`oom_kills` reads the counter of the group a process is in, before and after a kill."""
    count = (
        "from jobtape.capture.kernel import oom_kills; import subprocess, sys; a = oom_kills(); "
        "subprocess.run([sys.executable, '-c', 'x = bytearray(900 << 20)']); print(a, oom_kills())"
    )
    python = str(lab.BIN / "python")
    done = subprocess.run([*group.prefix, python, "-c", count], capture_output=True, text=True, check=True)
    assert "0 1\n" == done.stdout


def test_no_word_is_not_a_zero() -> None:
    """A process that does not exist has no counter; that is None, not 0."""
    assert kernel.oom_kills(2**22 + 1) is None
