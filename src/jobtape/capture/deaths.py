"""The moment each worker of an agent ends, and how.

torch looks every `monitor_interval` and by then several workers may be dead; who was first is lost. A pidfd becomes
readable at the very moment a process ends, and ``waitid(WNOWAIT)`` tells its exit code without taking it away from
torch.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

POLL_S = 0.05
"""How often the workers are looked at where the kernel has no pidfd (before Linux 5.3)."""


class Death(NamedTuple):
    """How a process ended: torch's exit code (negative for a signal), or None when someone else collected it."""

    pid: int
    exit_code: int | None
    core_dumped: bool


class DeathWatch:
    """One daemon thread that reports each of the given children once, when it ends.

    Args:
        pids: the children to watch.
        report: called in the thread for each; must not raise.
        collected: asked for the exit code of a child that torch has collected in the meantime.
    """

    def __init__(
        self,
        pids: list[int],
        report: Callable[[Death], None],
        collected: Callable[[int], int | None],
    ) -> None:
        self._report = report
        self._collected = collected
        self._open: dict[int, int] = {}
        self._rest: list[int] = []
        for pid in pids:
            try:
                self._open[os.pidfd_open(pid)] = pid
            except OSError:
                self._rest.append(pid)
        self.thread = threading.Thread(target=self._run, name="jobtape-deaths", daemon=True)
        self.thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait until all are reported, at most `timeout_s`."""
        if self.thread is not threading.current_thread():
            self.thread.join(timeout_s)

    def _run(self) -> None:
        # The agent's signals are the main thread's business.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        poll = select.poll()
        for fd in self._open:
            poll.register(fd, select.POLLIN)
        while self._open or self._rest:
            ready = poll.poll(POLL_S * 1000 if self._rest else None)
            for fd, _ in ready:
                poll.unregister(fd)
                pid = self._open.pop(fd)
                self._report(self._death(pid, fd))
                os.close(fd)
            for pid in list(self._rest):
                if self._is_gone(pid):
                    self._rest.remove(pid)
                    self._report(self._death(pid, None))

    @staticmethod
    def _is_gone(pid: int) -> bool:
        try:
            return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        except ChildProcessError:
            return True

    def _death(self, pid: int, fd: int | None) -> Death:
        try:
            kind, ident = (os.P_PID, pid) if fd is None else (os.P_PIDFD, fd)
            found = os.waitid(kind, ident, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except OSError:
            found = None
        if found is not None:
            by_signal = found.si_code != os.CLD_EXITED
            return Death(pid, -found.si_status if by_signal else found.si_status, found.si_code == os.CLD_DUMPED)
        # torch was quicker and has collected it; its own object knows the code a moment later.
        for _ in range(20):
            code = self._collected(pid)
            if code is not None:
                return Death(pid, code, False)
            time.sleep(0.01)
        return Death(pid, None, False)


def exit_codes_of(context: Any) -> Callable[[int], int | None]:
    """A function that asks torch's process context for the exit code of a pid it has collected."""

    def look(pid: int) -> int | None:
        handlers: Mapping[int, Any] = getattr(context, "subprocess_handlers", None) or {}
        for handler in list(handlers.values()):
            if getattr(handler.proc, "pid", None) == pid:
                code = handler.proc.returncode
                return int(code) if code is not None else None
        for process in getattr(getattr(context, "_pc", None), "processes", None) or []:
            if process.pid == pid:
                code = process.exitcode
                return int(code) if code is not None else None
        return None

    return look
