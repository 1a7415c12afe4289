"""The worker's bridge: what a worker knows of its own end, recorded from inside.

Started before the script's first line (by the agent's bridge) or at ``import torch`` (a job without an agent). It
chains ``sys.excepthook``, what threads call before ``threading.excepthook``, ``sys.exit``, ``os._exit`` and
faulthandler: each does what it did, after a record. It waits for nothing: each record is one write to the local tape.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, NoReturn

from jobtape.capture.destination import Tape, durable_part
from jobtape.capture.faults import caller_location, cut, describe
from jobtape.capture.stacks import StackFile

_current: Worker | None = None


def start() -> None:
    """Record this process as a worker, if ``JOBTAPE_RECORD`` names a tape and it is one; otherwise nothing.

    A process that a recorded worker has started is part of that worker and not one of its own, as long as an agent
    says which processes are workers. Idempotent.
    """
    global _current
    if _current is not None and _current.pid == os.getpid():
        _current.torch_imported()
        return
    destination = durable_part(os.environ.get("JOBTAPE_RECORD", ""))
    if destination is None:
        return
    agent = os.environ.get("JOBTAPE_AGENT")
    owner = os.environ.get("JOBTAPE_WORKER")
    if agent is not None and owner not in (None, str(os.getpid())):
        return
    tape = Tape(destination)
    if tape.open(role="worker"):
        os.environ["JOBTAPE_WORKER"] = str(os.getpid())
        _current = Worker(tape, relayed=agent == str(os.getppid()))
        _current.torch_imported()


def stop() -> None:
    """End the worker's recording in a process that turns out to be a launcher."""
    global _current
    if _current is not None:
        _current.detach()
        _current = None
        os.environ.pop("JOBTAPE_WORKER", None)


class Worker:
    """The hooks of one worker process and what they have seen."""

    def __init__(self, tape: Tape, *, relayed: bool) -> None:
        self.pid = os.getpid()
        self.tape = tape
        self._recorded: BaseException | None = None
        self._exit_call: dict[str, Any] | None = None
        self._torch_seen = False
        self._excepthook = sys.excepthook
        self._make_thread_hook: Callable[[], Callable[[Any], None]] = threading._make_invoke_excepthook  # type: ignore[attr-defined]
        self._sys_exit: Callable[..., NoReturn] = sys.exit
        self._os_exit: Callable[[int], NoReturn] = os._exit
        sys.excepthook = self._on_exception
        threading._make_invoke_excepthook = self._thread_hook  # type: ignore[attr-defined]
        sys.exit = self._on_sys_exit
        os._exit = self._on_os_exit
        self._stacks: StackFile | None = None
        path = tape.path
        if path is not None:
            try:
                self._stacks = StackFile(str(path.with_suffix(".stacks")), relayed=relayed)
            except Exception as error:  # noqa: BLE001 - a recording without stacks is better than none
                tape.record("WORKER", "jobtape.capture.failed", what="stacks", **describe(type(error), error, None))
        atexit.register(self._at_exit)

    def torch_imported(self) -> None:
        """Say once that torch is there and which; the header of a worker is written before its script imports it."""
        torch = sys.modules.get("torch")
        version = getattr(torch, "__version__", None)
        if version is not None and not self._torch_seen:
            self._torch_seen = True
            self.tape.record("WORKER", "jobtape.worker.ready", torch=str(version))

    def detach(self) -> None:
        """Give every hook back that is still ours."""
        if sys.excepthook == self._on_exception:
            sys.excepthook = self._excepthook
        threading._make_invoke_excepthook = self._make_thread_hook  # type: ignore[attr-defined]
        if sys.exit == self._on_sys_exit:
            sys.exit = self._sys_exit
        if os._exit == self._on_os_exit:
            os._exit = self._os_exit  # type: ignore[assignment]
        atexit.unregister(self._at_exit)
        self._end_stacks()

    def _guard(self, function: Callable[..., None], *args: Any) -> None:
        """Call a part of the recording from inside the script's own doing, which goes on whatever we meet."""
        try:
            function(*args)
        except Exception as error:  # noqa: BLE001 - said once, and no more
            self.tape.failed(error)

    def _mine(self) -> bool:
        return os.getpid() == self.pid

    def _on_exception(self, kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        self._guard(self._record_error, kind, value, trace)
        self._excepthook(kind, value, trace)

    def _record_error(self, kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        if self._mine() and value is not self._recorded:
            self._recorded = value
            self.tape.record("WORKER", "jobtape.worker.error", sync=True, **describe(kind, value, trace))

    def _thread_hook(self) -> Callable[[threading.Thread], None]:
        """What a new thread calls when it ends with an exception: ours, then `threading.excepthook` as it then is."""
        invoke = self._make_thread_hook()

        def invoke_excepthook(thread: threading.Thread) -> None:
            self._guard(self._record_thread_error, thread)
            invoke(thread)

        return invoke_excepthook

    def _record_thread_error(self, thread: threading.Thread) -> None:
        kind, value, trace = sys.exc_info()
        if self._mine() and kind is not None and not issubclass(kind, SystemExit):
            fault = describe(kind, value, trace)
            self.tape.record("WORKER", "jobtape.worker.thread_error", sync=True, thread=thread.name, **fault)

    def _on_sys_exit(self, status: Any = None, /) -> NoReturn:
        if self._mine() and threading.current_thread() is threading.main_thread():
            # Kept until the end: SystemExit may be caught, and a later exit is the one that counts.
            frame = sys._getframe(1)
            self._guard(self._note_exit, "sys.exit", status, frame)
        raise SystemExit(status)

    def _on_os_exit(self, status: int) -> NoReturn:
        if self._mine():
            self._guard(self._leave, status, sys._getframe(1))
        self._os_exit(status)

    def _note_exit(self, call: str, status: Any, frame: FrameType) -> None:
        self._exit_call = _exit_call(call, status, frame)

    def _leave(self, status: int, frame: FrameType) -> None:
        self.tape.record("WORKER", "jobtape.worker.exit_call", sync=True, **_exit_call("os._exit", status, frame))
        self._end_stacks()
        self.tape.close("exit")

    def _at_exit(self) -> None:
        if self._mine():
            self._guard(self._end)

    def _end(self) -> None:
        # A script may have replaced sys.excepthook after us; the interpreter keeps what it could not handle.
        value = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if isinstance(value, BaseException):
            self._record_error(type(value), value, value.__traceback__)
        elif self._exit_call is not None:
            self.tape.record("WORKER", "jobtape.worker.exit_call", sync=True, **self._exit_call)
        self._end_stacks()
        self.tape.close("exit")

    def _end_stacks(self) -> None:
        if self._stacks is not None:
            try:
                self._stacks.remove_if_empty()
            except OSError:
                return


def _exit_call(call: str, status: Any, frame: FrameType) -> dict[str, Any]:
    """What `jobtape.worker.exit_call` says; the code is what the shell would see."""
    location, stack = caller_location(frame)
    message = None
    if status is None:
        code = 0
    elif isinstance(status, int):
        code = int(status)
    else:
        code = 1
        message = cut(str(status), 4096)
    return {"call": call, "code": code, "message": message, "location": location, "stack": stack}
