"""The kernel's word on out-of-memory kills, from a real control group with a real limit."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobtape.capture import kernel

from . import lab

GROUP = f"jobtape-test-{os.getpid()}"
LIMIT = 700 * 1024 * 1024


@pytest.fixture
def memory_group() -> Iterator[Path]:
    """A control group with a memory limit, v1 or v2, whichever this machine lets us make."""
    v1, v2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    for parent, knob in ((v1, "memory.limit_in_bytes"), (v2, "memory.max")):
        group = parent / GROUP
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / knob).write_text(str(LIMIT))
        except OSError:
            group.rmdir()
            continue
        try:
            (group / ("memory.memsw.limit_in_bytes" if parent == v1 else "memory.swap.max")).write_text(
                str(LIMIT if parent == v1 else 0)
            )
        except OSError:
            pass  # a kernel without swap accounting has no such file
        yield group
        group.rmdir()
        return
    pytest.skip("no control group with a memory limit can be made here (needs root and a writable cgroup mount)")


@pytest.mark.torch
@pytest.mark.torchrun
def test_an_out_of_memory_kill_is_known_from_the_kernel(tmp_path: Path, memory_group: Path) -> None:
    """A worker killed by the kernel for memory is an ``oom_kill``, certain; a plain SIGKILL is not."""
    script = """
        import os, time
        if os.environ["RANK"] == "1":
            hog = [bytearray(16 * 1024 * 1024) for _ in range(200)]
        time.sleep(30)
    """
    join = f'echo $$ > {memory_group}/cgroup.procs && exec "$0" "$@"'
    job = lab.start(tmp_path, script, nproc=2, prefix=("sh", "-c", join)).wait()
    cause = job.why()["attempts"][0]["cause"]
    assert ("oom_kill", 1, "SIGKILL") == (cause["kind"], cause["rank"], cause["signal"])
    assert "certain" == cause["confidence"]


def test_the_counter_of_a_real_group_rises(memory_group: Path) -> None:
    """`oom_kills` reads the counter of the group a process is in, before and after a kill."""
    count = (
        "from jobtape.capture.kernel import oom_kills; import subprocess, sys; a = oom_kills(); "
        "subprocess.run([sys.executable, '-c', 'x = bytearray(900 << 20)']); print(a, oom_kills())"
    )
    join = f'echo $$ > {memory_group}/cgroup.procs && exec "$0" "$@"'
    python = str(lab.BIN / "python")
    done = subprocess.run(["sh", "-c", join, python, "-c", count], capture_output=True, text=True, check=True)
    assert "0 1\n" == done.stdout


def test_no_word_is_not_a_zero() -> None:
    """A process that does not exist has no counter; that is None, not 0."""
    assert kernel.oom_kills(2**22 + 1) is None
