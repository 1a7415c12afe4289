"""The death watch against real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from jobtape.capture import deaths
from jobtape.capture.deaths import Death, DeathWatch


def watch(processes: list[subprocess.Popen[bytes]]) -> list[Death]:
    """Watch until all have ended, without collecting them."""
    seen: list[Death] = []
    DeathWatch([process.pid for process in processes], seen.append, lambda pid: None).join(10)
    return seen


def shell(command: str) -> subprocess.Popen[bytes]:
    """Start a shell command."""
    return subprocess.Popen(["sh", "-c", command])


def test_deaths_are_told_in_their_order_with_their_codes() -> None:
    """Order and codes are the processes' own, and they can still be collected by whoever started them."""
    processes = [shell("sleep 0.4; exit 3"), shell("sleep 0.2; kill -9 $$"), shell("exit 0")]
    seen = watch(processes)
    expected = [(processes[2].pid, 0), (processes[1].pid, -9), (processes[0].pid, 3)]
    assert expected == [(death.pid, death.exit_code) for death in seen]
    assert [3, -9, 0] == [process.wait() for process in processes]


def test_a_death_is_told_at_once() -> None:
    """The report comes within milliseconds of the end, not at the next look of an agent."""
    process = shell("exec sleep 30")
    told: list[float] = []
    death_watch = DeathWatch([process.pid], lambda death: told.append(time.monotonic()), lambda pid: None)
    time.sleep(0.2)
    process.kill()
    killed = time.monotonic()
    death_watch.join(5)
    process.wait()
    assert told[0] - killed < 0.1


def test_without_pidfd_the_same_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a kernel without pidfd the watch looks often instead."""

    def none(pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(deaths.os, "pidfd_open", none)
    processes = [shell("exit 3"), shell("kill -15 $$")]
    assert {3, -15} == {death.exit_code for death in watch(processes)}
    for process in processes:
        process.wait()


def test_a_child_collected_by_another_is_asked_for() -> None:
    """When the owner was quicker, its own knowledge of the exit code is used."""
    process = shell("exit 5")
    process.wait()
    seen: list[Death] = []
    DeathWatch([process.pid], seen.append, lambda pid: process.returncode).join(5)
    assert [Death(process.pid, 5, False)] == seen


def test_many_deaths_leak_nothing() -> None:
    """No file descriptor stays open after a watch."""
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        process = subprocess.Popen([sys.executable, "-S", "-c", ""])
        watch([process])
        process.wait()
    assert before == len(os.listdir("/proc/self/fd"))
