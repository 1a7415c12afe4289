"""The torchrun agent's bridge: what an agent knows of its workers' ends and torch never records.

torch keeps the failures of the last attempt only, without times. Here every worker's start, stop signal, exit and
error file is put on the tape as it happens, for every attempt. Nothing here waits for anything but the local disk; at
the end of the launch the last deaths are waited for, `JOIN_S` at most.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any

from jobtape.capture import seams
from jobtape.capture.attempt import Attempt
from jobtape.capture.destination import Tape, durable_part
from jobtape.capture.faults import describe
from jobtape.capture.stacks import EarlyDeath
from jobtape.events.notices import warn_once

JOIN_S = 1.0
"""How long the end of a launch waits for the exit records of workers that are already dead."""

Listener = Callable[[Attempt], None]
listeners: list[Listener] = []
"""Called with each attempt when all its workers have ended; ``jobtape run`` prints its lines from here."""

_current: Launch | None = None


def begin(config: Any, entrypoint: Any) -> None:
    """Begin the recording of a launch if its configuration names a tape; never raises.

    Args:
        config: torch's ``LaunchConfig``.
        entrypoint: what the workers run, a command or a function.
    """
    global _current
    try:
        wish = os.environ.get("JOBTAPE_RECORD")
        if config.event_log_handler == "null" and wish:
            config.event_log_handler = wish
        destination = durable_part(config.event_log_handler)
        if destination is None or not config.run_id:
            return
        _end_current()
        facts = {
            "min_nodes": config.min_nodes,
            "max_nodes": config.max_nodes,
            "nproc_per_node": config.nproc_per_node,
            "rdzv_backend": config.rdzv_backend,
            "rdzv_endpoint": config.rdzv_endpoint,
            "max_restarts": config.max_restarts,
            "monitor_interval_s": config.monitor_interval,
            "entrypoint": entrypoint if isinstance(entrypoint, str) else getattr(entrypoint, "__qualname__", None),
        }
        _current = Launch(destination, str(config.run_id), facts, single_node=config.max_nodes == 1)
    except Exception as error:  # noqa: BLE001 - the job starts whatever happens here
        warn_once(f"this launch is not recorded: {type(error).__name__}: {error}")


def attach(agent: Any) -> None:
    """Let the current launch watch an agent, or begin one for it (launchers other than torch's own); never raises."""
    global _current
    try:
        spec = agent._worker_group.spec
        destination = durable_part(getattr(spec, "event_log_handler", "null"))
        if destination is None:
            return
        run_id = str(spec.rdzv_handler.get_run_id())
        if _current is None or _current.run_id != run_id or _current.agent is not None:
            _end_current()
            _current = Launch(destination, run_id, {"max_restarts": spec.max_restarts}, single_node=False)
        _current.watch(agent)
    except Exception as error:  # noqa: BLE001 - as above
        warn_once(f"this agent's workers are not recorded: {type(error).__name__}: {error}")


def watch_launcher(words: list[str]) -> None:
    """Record the error of a torchrun that fails before it launches anything (a setting that cannot be read).

    Args:
        words: its command line.
    """
    asked = _option(words, "event", "log", "handler") or os.environ.get("PET_EVENT_LOG_HANDLER")
    destination = durable_part(asked or os.environ.get("JOBTAPE_RECORD") or "")
    if destination is None:
        return
    before = sys.excepthook

    def on_exception(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        try:
            if _current is None:
                run_id = _option(words, "rdzv", "id") or os.environ.get("PET_RDZV_ID") or "none"
                tape = Tape(destination)
                if tape.open(role="agent", run_id=run_id, run_name=run_name(run_id, single_node=True)):
                    tape.record("AGENT", "jobtape.launch.end", outcome="error", **describe(kind, value, trace))
                    tape.close("launch_end")
        except Exception as error:  # noqa: BLE001 - the launcher's error must be shown as it would have been
            warn_once(f"this launch is not recorded: {type(error).__name__}: {error}")
        before(kind, value, trace)

    sys.excepthook = on_exception


def _option(words: list[str], *parts: str) -> str | None:
    """The value of an option of torchrun's, which may be written with dashes or underscores."""
    names = {f"--{mark.join(parts)}" for mark in "-_"}
    for number, word in enumerate(words):
        name, given, value = word.partition("=")
        if name in names:
            return value if given else next(iter(words[number + 1 : number + 2]), None)
    return None


def current() -> Launch | None:
    """The launch that is being recorded, if any."""
    return _current


def run_name(run_id: str, *, single_node: bool) -> str:
    """The run's directory: from its id, but a job that was given none does not share the one of the job before it.

    Torch calls every job without ``--rdzv-id`` "none". On a single node each launch of it is a run; on several the
    scheduler's job id tells them apart, and without one they cannot be.
    """
    from jobtape.tape.header import current_run_id
    from jobtape.tape.names import safe_name

    if run_id != "none":
        return safe_name(run_id)
    job, found_in = current_run_id()
    if found_in not in ("made", "JOBTAPE_RUN_ID", "TORCHELASTIC_RUN_ID"):
        return safe_name(f"none-{job}")
    if not single_node:
        return "none"
    return f"none-{datetime.now(timezone.utc):%Y%m%dT%H%M%S}-{os.urandom(2).hex()}"


def _end_current() -> None:
    global _current
    if _current is not None:
        _current.end(None)
        _current = None


class Launch:
    """One agent incarnation being recorded.

    Args:
        destination: ``tape`` or ``file:///dir``.
        run_id: torch's run id.
        facts: what `jobtape.launch.start` says beside it.
        single_node: whether this agent is known to be the job's only one.
    """

    def __init__(self, destination: str, run_id: str, facts: dict[str, Any], *, single_node: bool) -> None:
        from jobtape.capture import worker

        worker.stop()
        self.run_id = run_id
        self.run_name = run_name(run_id, single_node=single_node)
        self.agent: Any = None
        self.attempts: list[Attempt] = []
        self._starts = 0
        self.tape = Tape(destination)
        self._ended = False
        self._signal_said = False
        self.tape.open(role="agent", run_id=run_id, run_name=self.run_name)
        self.directory = self.tape.path.parent if self.tape.path is not None else None
        self.tape.record("AGENT", "jobtape.launch.start", run_id=run_id, **facts)
        self._early = EarlyDeath(self.tape.path)
        seams.route_rendezvous(self.tape.handler)
        _patch_processes()
        self._excepthook = sys.excepthook
        sys.excepthook = self._on_exception
        atexit.register(self.end, None)

    def watch(self, agent: Any) -> None:
        """Wrap the two methods of this agent through which workers start and are shut down."""
        self.agent = agent
        start, shutdown = agent._start_workers, agent._shutdown

        def start_workers(worker_group: Any) -> Any:
            with self._worker_environment():
                ids = start(worker_group)
            self._guard(self._started, worker_group, ids)
            return ids

        def shut_down(*args: Any, **kwargs: Any) -> Any:
            self._guard(self._shutting_down)
            return shutdown(*args, **kwargs)

        agent._start_workers = start_workers
        agent._shutdown = shut_down

    def stopping(self, pid: int, signal_name: str) -> None:
        """Torch is about to send a signal to a worker."""
        if self.attempts:
            self.attempts[-1].stopping(pid, signal_name, self._stop_reason())

    def failed(self, failure: Any) -> None:
        """Torch has made a ``ProcessFailure`` and, if there was one, read the worker's error file."""
        if self.attempts:
            self.attempts[-1].failed(failure)

    def end(self, error: BaseException | None) -> None:
        """Write how the launch ended and close the tape; waits `JOIN_S` at most for records of the dead."""
        if self._ended:
            return
        self._ended = True
        atexit.unregister(self.end)
        if sys.excepthook == self._on_exception:
            sys.excepthook = self._excepthook
        for attempt in self.attempts[-1:]:
            attempt.join(JOIN_S)
        fault: dict[str, Any] = {}
        if error is not None:
            fault = describe(type(error), error, error.__traceback__)
            outcome = {"SignalException": "signal", "ChildFailedError": "failed"}.get(type(error).__name__, "error")
        else:
            outcome = "failed" if self.attempts and self.attempts[-1].has_failed else "succeeded"
        self.tape.record("AGENT", "jobtape.launch.end", outcome=outcome, **fault)
        self._early.leave()
        self.tape.close("launch_end")

    def _on_exception(self, kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        try:
            _without_our_frames(trace)
            self.end(value)
        except Exception as error:  # noqa: BLE001 - the exception must be shown as it would have been
            self.tape.failed(error)
        self._excepthook(kind, value, trace)

    def _guard(self, function: Callable[..., None], *args: Any) -> None:
        try:
            function(*args)
        except Exception as error:  # noqa: BLE001 - torch goes on whatever happens here
            self.tape.failed(error)

    def _started(self, worker_group: Any, ids: dict[int, Any]) -> None:
        if self.attempts:
            self.attempts[-1].join(JOIN_S)
        agent = self.agent
        spec = worker_group.spec
        attempt = Attempt(
            number=self._starts,
            restart_count=spec.max_restarts - agent._remaining_restarts,
            worker_group=worker_group,
            pids={local_rank: int(pid) for local_rank, pid in ids.items()},
            context=agent._pcontext,
            tape=self.tape,
            ended=self._attempt_ended,
        )
        self._starts += 1
        self.attempts.append(attempt)
        del self.attempts[:-2]  # a night of restarts must not fill the agent's memory
        attempt.watch()

    def _attempt_ended(self, attempt: Attempt) -> None:
        for listener in listeners:
            self._guard(listener, attempt)

    def _shutting_down(self) -> None:
        error = sys.exc_info()[1]
        if type(error).__name__ == "SignalException" and not self._signal_said:
            self._signal_said = True
            signal_value = getattr(error, "sigval", None)
            name = getattr(signal_value, "name", str(signal_value))
            self.tape.record("AGENT", "jobtape.agent.signal", signal=name)

    def _stop_reason(self) -> str:
        error = sys.exc_info()[1]
        if type(error).__name__ == "SignalException":
            return "agent_signal"
        if self.attempts[-1].has_failed:
            return "failure"
        return "membership" if error is None else "shutdown"

    def _worker_environment(self) -> _Environment:
        path = self.tape.path
        if path is None:  # nothing can be written where this agent writes: its workers would only say so once more
            return _Environment({})
        early = str(Path(__file__).parent / "early")
        before = os.environ.get("PYTHONPATH")
        return _Environment(
            {
                "JOBTAPE_RECORD": self.tape.destination,
                "JOBTAPE_DIR": str(path.parent.parent),
                "JOBTAPE_RUN": path.parent.name,
                "JOBTAPE_RUN_ID": self.run_id,
                "JOBTAPE_AGENT": str(os.getpid()),
                "JOBTAPE_WORKER": None,
                "JOBTAPE_PYTHONPATH": before,
                "PYTHONPATH": f"{early}{os.pathsep}{before}" if before else early,
            }
        )


class _Environment:
    """Environment variables that workers are started with; the agent's own are as before afterwards."""

    def __init__(self, variables: dict[str, str | None]) -> None:
        self._variables = variables
        self._before: dict[str, str | None] = {}

    def __enter__(self) -> None:
        self._before = {name: os.environ.get(name) for name in self._variables}
        self._set(self._variables)

    def __exit__(self, *exc: object) -> None:
        self._set(self._before)

    @staticmethod
    def _set(variables: dict[str, str | None]) -> None:
        for name, value in variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _patch_processes() -> None:
    """Hear of every signal torch sends to a worker and of every failure it sees; once a process."""
    from torch.distributed.elastic.multiprocessing.api import MultiprocessContext
    from torch.distributed.elastic.multiprocessing.errors import ProcessFailure
    from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler

    if getattr(SubprocessHandler.close, "jobtape", False):
        return
    close, post_init = SubprocessHandler.close, ProcessFailure.__post_init__
    close_functions = MultiprocessContext._close

    def heard_close(self: Any, death_sig: Any = None) -> Any:
        if _current is not None:
            _current._guard(_current.stopping, self.proc.pid, getattr(death_sig, "name", None) or "SIGTERM")
        return close(self, death_sig)

    def heard_close_functions(self: Any, death_sig: Any, *args: Any, **kwargs: Any) -> Any:
        if _current is not None:
            for process in getattr(self._pc, "processes", None) or []:
                if process.is_alive():
                    _current._guard(_current.stopping, process.pid, death_sig.name)
        return close_functions(self, death_sig, *args, **kwargs)

    def heard_post_init(self: Any) -> None:
        post_init(self)
        if _current is not None:
            _current._guard(_current.failed, self)

    heard_close.jobtape = True  # type: ignore[attr-defined]
    SubprocessHandler.close = heard_close
    MultiprocessContext._close = heard_close_functions
    ProcessFailure.__post_init__ = heard_post_init


def _without_our_frames(trace: TracebackType | None) -> None:
    """Unlink the frames of this package from a traceback, so that torchrun prints what it would have printed."""
    ours = str(Path(__file__).parent)
    while trace is not None:
        while trace.tb_next is not None and trace.tb_next.tb_frame.f_code.co_filename.startswith(ours):
            trace.tb_next = trace.tb_next.tb_next
        trace = trace.tb_next
