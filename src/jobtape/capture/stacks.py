"""Where a worker stood when a native crash or a stop signal met it: faulthandler, written beside the worker's tape.

faulthandler works in the signal handler itself, in C, so it tells of a rank that hangs inside a collective, where no
Python handler would ever run. The text goes to ``<tape>.stacks``. What the script does with faulthandler and SIGTERM
works as before:

* ``faulthandler.enable()`` (torch's ``@record`` calls it) keeps its effect: the process has one fatal handler, so
  ours stays and a first line in the file asks the agent's bridge to repeat the text on the worker's stderr. Without
  such an agent the script's call wins.
* ``signal.signal(SIGTERM, …)`` is put underneath: faulthandler writes, then the script's handler runs.
* The default death by SIGTERM stays the default death: exit code -15.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
from pathlib import Path
from typing import Any

from jobtape.tape.descriptors import identity, out_of_the_way

RELAY_MARK = b"# the script enabled faulthandler on stderr\n"
"""Line after which the agent's bridge repeats a fatal error on the worker's stderr, until `MUTE_MARK`."""

MUTE_MARK = b"# the script disabled faulthandler\n"

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW

_enable, _disable, _is_enabled = faulthandler.enable, faulthandler.disable, faulthandler.is_enabled
_signal = signal.signal


class StackFile:
    """The sidecar of one worker; made once a process, by the worker's bridge.

    Args:
        path: the file, made if need be.
        relayed: whether an agent's bridge will repeat a fatal error on the worker's stderr.
    """

    def __init__(self, path: str, *, relayed: bool) -> None:
        self.path = path
        self.fd = out_of_the_way(os.open(path, _FLAGS, 0o600))
        self._file = identity(self.fd)
        self.pid = os.getpid()
        self._relayed = relayed
        self._script_enabled = False
        self._fatal_is_ours = False
        if not _is_enabled():
            self._take_fatal()
        elif relayed:  # python -X faulthandler, or the script was quicker
            self._script_enable(sys.stderr)
        self._register()
        faulthandler.enable = self._script_enable
        faulthandler.disable = self._script_disable  # type: ignore[assignment]
        faulthandler.is_enabled = lambda: self._script_enabled or (not self._fatal_is_ours and _is_enabled())
        signal.signal = self._script_signal
        os.register_at_fork(after_in_child=self.leave)

    def leave(self) -> None:
        """Stop writing: in a forked child, which is not the worker, and at the end of the interpreter."""
        faulthandler.unregister(signal.SIGTERM)
        if self._fatal_is_ours:
            self._fatal_is_ours = False
            if self._script_enabled:
                _enable()
            else:
                _disable()

    def remove_if_empty(self) -> None:
        """Take the file away when nothing was written to it."""
        if os.getpid() == self.pid and identity(self.fd) == self._file:
            with open(self.path, "rb") as stream:
                text = stream.read(64 * 1024)
            if has_marks_only(text):
                os.unlink(self.path)  # noqa: PTH108

    def _write(self, mark: bytes) -> bool:
        """Whether a mark is in the file: not on a full disk, or when the job has closed the descriptor."""
        try:
            return identity(self.fd) == self._file and os.write(self.fd, mark) == len(mark)
        except OSError:
            return False

    def _take_fatal(self) -> None:
        _enable(file=self.fd, all_threads=True)
        self._fatal_is_ours = True

    def _register(self) -> None:
        # A child started by exec inherits an ignored signal but no handler: leave SIG_IGN alone.
        if signal.getsignal(signal.SIGTERM) != signal.SIG_IGN:
            faulthandler.register(signal.SIGTERM, file=self.fd, all_threads=True, chain=True)

    def _script_enable(self, file: Any = None, all_threads: bool = True, **options: Any) -> None:
        """Stands for ``faulthandler.enable`` in the script."""
        ours = os.getpid() == self.pid and self._relayed and _is_stderr(file)
        if not ours or not (self._script_enabled or self._write(RELAY_MARK)):
            self._fatal_is_ours = False
            if file is None:
                _enable(all_threads=all_threads, **options)
            else:
                _enable(file, all_threads, **options)
            return
        self._script_enabled = True
        self._take_fatal()

    def _script_disable(self) -> bool:
        """Stands for ``faulthandler.disable`` in the script."""
        if not self._fatal_is_ours:
            return bool(_disable())
        was = self._script_enabled
        if was:
            self._write(MUTE_MARK)
        self._script_enabled = False
        return was

    def _script_signal(self, signalnum: int, handler: Any) -> Any:
        """Stands for ``signal.signal`` in the script."""
        if signalnum != signal.SIGTERM or os.getpid() != self.pid:
            return _signal(signalnum, handler)
        faulthandler.unregister(signal.SIGTERM)
        try:
            return _signal(signalnum, handler)
        finally:
            self._register()


def has_marks_only(text: bytes) -> bool:
    """Whether faulthandler has written nothing into a sidecar."""
    return not text.replace(RELAY_MARK, b"").replace(MUTE_MARK, b"")


def fatal_error(text: bytes) -> bytes | None:
    """What the script's own faulthandler would have printed of a sidecar's text, None when that is nothing."""
    start = text.find(b"Fatal Python error")
    asked = text.rfind(RELAY_MARK, 0, start)
    if start < 0 or asked < 0 or text.rfind(MUTE_MARK, asked, start) >= 0:
        return None
    return text[start:]


def _is_stderr(file: Any) -> bool:
    if file is None:
        file = sys.stderr
    try:
        return (file if isinstance(file, int) else file.fileno()) == 2
    except Exception:  # noqa: BLE001 - a stream without a descriptor is not stderr; faulthandler will say so itself
        return False


class EarlyDeath:
    """Tells that SIGTERM killed an agent before torch had set its handlers: exit 143, and not one event.

    Torch's own handler replaces this one with the first workers; then the sidecar stays empty and is removed.
    """

    def __init__(self, tape_path: Path | None) -> None:
        self._path: str | None = None
        if tape_path is None or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
            return
        self._path = str(tape_path.with_suffix(".stacks"))
        self._fd = out_of_the_way(os.open(self._path, _FLAGS, 0o600))
        faulthandler.register(signal.SIGTERM, file=self._fd, all_threads=False, chain=True)

    def leave(self) -> None:
        """Remove the file if nothing happened."""
        if self._path is not None:
            if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
                faulthandler.unregister(signal.SIGTERM)
            with contextlib.suppress(OSError):
                if os.fstat(self._fd).st_size == 0:
                    os.unlink(self._path)  # noqa: PTH108
            self._path = None
