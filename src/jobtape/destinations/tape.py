"""The durable destination: one tape file for this process, in the directory of its run.

The file is made when the first event comes. When `write_event` returns, the kernel has the event; failures are synced
to the disk as well. Whatever goes wrong is counted, said once on stderr, tried again after a pause, and put on the tape
itself as a loss once that works again.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import sys
import threading
import time
from collections import deque
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

from jobtape.events.delivery import Tally
from jobtape.events.notices import Pause, description, warn_once
from jobtape.tape.header import current_run_id, this_process
from jobtape.tape.names import safe_name
from jobtape.tape.writer import Writer

SYNC_NAMES = frozenset(
    (
        "jobtape.worker.error",
        "jobtape.worker.thread_error",
        "jobtape.worker.exit_call",
        "jobtape.worker.failure",
        "jobtape.agent.signal",
        "jobtape.launch.end",
    )
)
"""Events of jobtape's own that are synced to the disk, besides failed states and workers' exits that are not 0."""

LOOK_EVERY_S = 1.0
"""How often the file is looked at for having been deleted under us; what was written to it in between is lost."""

_EARLY_MOST = 1000
_EVENT_FIELDS = frozenset(("name", "source", "timestamp", "metadata"))
_RDZV_FIELDS = frozenset(
    ("name", "run_id", "message", "hostname", "pid", "node_state", "master_endpoint", "rank", "local_id", "error_trace")
)
_HARMLESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._~-]{0,149}", re.ASCII)
_LOST_FILE = frozenset((errno.EBADF, errno.ESTALE, errno.EIO, errno.ENODEV))
"""Errors after which a descriptor is of no more use."""

_monotonic = time.monotonic


class TapeHandler(logging.Handler):
    """Writes events onto this process's tape file; never raises, never formats, takes no lock to write.

    A forked child begins a file of its own with its first event. ``handler.close()``, which `logging` calls for every
    handler when it is configured anew, syncs the file and leaves it open; `close_tape` ends it, at the latest when the
    interpreter exits.

    Args:
        directory: where the runs are.
        destination: the name it is counted by.

    Attributes:
        writer: the open file, or None.
        tally: what became of the events of this process.
    """

    def __init__(self, directory: Path, destination: str) -> None:
        super().__init__()
        self.directory = directory
        self.destination = destination
        self.tally = Tally()
        self.info = self.write_event
        self._identity: tuple[str | None, str | None, str] = (None, None, "other")
        self._begin()

    def _begin(self) -> None:
        self.writer: Writer | None = None
        self._lock = threading.RLock()
        self._opening = False
        self._early: deque[tuple[Any, bool]] = deque(maxlen=_EARLY_MOST)
        self._pause = Pause()
        self._missing: dict[str, int] = {}
        self._detail = ""
        # When the next event has to look twice: at once while there is no file or something is to be made good.
        self._look_at = 0.0

    @property
    def path(self) -> Path | None:
        """The file written to, once there is one."""
        return self.writer.path if self.writer is not None else None

    def open(self, run_id: str | None = None, run_name: str | None = None, role: str = "other") -> bool:
        """Make the file now, for a process that knows its part in the job.

        Args:
            run_id: the run as its user named it; by default found in the environment.
            run_name: the run's directory; by default ``JOBTAPE_RUN``, else made of the run id.
            role: ``agent``, ``worker`` or ``other``.

        Returns:
            Whether there is a file; if not, the next event tries again.
        """
        identity = (run_id, run_name, role)
        if self.writer is not None and identity != self._identity:
            self.close_tape("reopened")
        self._identity = identity
        try:
            return self._ready_writer() is not None
        except Exception as error:  # noqa: BLE001 - said and counted by `_fail`
            self._fail(error, count=0)
            return False

    def write_event(self, event: Any, *, sync: bool = False) -> bool:
        """Put an event on the tape, jobtape's or torch's, valid or not.

        Args:
            event: the event.
            sync: whether to wait for the disk; failures are synced in any case.

        Returns:
            Whether the tape has it.
        """
        try:
            writer = self.writer
            if writer is None or _monotonic() >= self._look_at:
                writer = self._ready_writer()
                if writer is None:
                    return self._keep_for_later(event, sync)
            try:
                layout = _layouts.get(event.__class__) or _learn_layout(event.__class__)
                if layout == "event":
                    name, source, metadata = event.name, event.source, event.metadata
                    if source.__class__ is not str:
                        source = source._value_
                    if sync or name.endswith(".FAILED") or name.startswith("jobtape."):
                        sync = sync or _is_failure(name, metadata)
                    writer.event(name, source, event.timestamp, metadata, sync=sync)
                elif layout == "rdzv":
                    values = event.__dict__
                    state = values["node_state"]
                    state = getattr(state, "_value_", state)
                    writer.rdzv(**{**values, "node_state": state}, sync=sync or state == "FAILED")
                else:
                    _write_unusual(writer, event, sync)
            except (AttributeError, KeyError, TypeError):  # of torch's class, but not filled as torch would
                _write_unusual(writer, event, sync)
            self.tally.recorded += 1
            return True
        except Exception as error:  # noqa: BLE001 - recording never harms the job
            try:
                if self._has_lost_descriptor(error):
                    return self.write_event(event, sync=sync)
                return self._fail(error)
            except Exception:  # noqa: BLE001 - at the recursion limit or without memory not even counting works
                return False

    def emit(self, record: logging.LogRecord) -> None:
        """Put a log record on the tape: its message is an event, or one's JSON text as torch's loggers have it."""
        try:
            event = getattr(record.msg, "event", record.msg)
            if isinstance(event, str):
                event = _parse(record.getMessage())
        except Exception:  # noqa: BLE001 - a message that cannot be formatted is kept as it is
            event = record.msg
        self.write_event(event)

    def flush(self) -> None:
        """Wait until the disk has what was written."""
        writer = self.writer
        if writer is not None:
            writer.sync()

    def close(self) -> None:
        """Sync the file and leave it open; see the class."""
        self.flush()

    def close_tape(self, reason: str) -> None:
        """Write the closing record and sync; an event that comes later begins a new file.

        Args:
            reason: ``exit``, ``launch_end``, ….
        """
        try:
            with self._lock:
                writer, self.writer = self.writer, None
                self._look_at = 0.0
                if writer is not None and writer.deleted:
                    self._lose_file(writer)
                elif writer is not None and not writer.taken:
                    self._make_good(writer)
                    writer.close(reason)
        except Exception as error:  # noqa: BLE001 - a tape without its last record is read all the same
            self._say(error)

    def at_exit(self) -> None:
        """Called when the interpreter ends, after what the script has registered for that."""
        self.close_tape("exit")

    def _ready_writer(self) -> Writer | None:
        """The writer, once it is there, its file is, and what was lost is on it; None while that has to wait."""
        if not self._pause.over:
            return None
        with self._lock:
            if self._opening:  # a signal handler records in the middle of the lines below
                return None
            self._opening = True
            try:
                writer = self.writer
                if writer is not None and writer.deleted:
                    self._lose_file(writer)
                    writer = self.writer = None
                elif writer is not None and writer.taken:
                    writer = self.writer = None
                if writer is None:
                    writer = self.writer = self._make_writer()
                self._make_good(writer)
                self._pause.succeed()
                self._look_at = _monotonic() + LOOK_EVERY_S
            except BaseException:
                self.tally.dropped += len(self._early)
                self._miss("write_failed", len(self._early))
                self._early.clear()
                raise
            finally:
                self._opening = False
        while self._early:
            event, sync = self._early.popleft()
            self.write_event(event, sync=sync)
        return writer

    def _make_writer(self) -> Writer:
        run_id, run_name, role = self._identity
        header = this_process(run_id, role)
        run_name = run_name or os.environ.get("JOBTAPE_RUN") or ""
        if not _HARMLESS.fullmatch(run_name):
            run_name = safe_name(run_name or (current_run_id()[0] if run_id is None else run_id))
        writer = Writer(self.directory / run_name, header)
        _end_with_process(self)
        return writer

    def _keep_for_later(self, event: Any, sync: bool) -> bool:
        if self._opening and self._pause.over:
            self._early.append((event, sync))
            return True
        self.tally.dropped += 1
        self._miss("write_failed", 1)
        return False

    def _fail(self, error: Exception, *, count: int = 1) -> bool:
        """Count an event that could not be written, and see to it that the next one looks twice."""
        self.tally.failed += count
        self._say(error)
        if isinstance(error, OSError):
            self._pause.fail()
            if error.errno in _LOST_FILE:
                self.writer = None
        self._detail = description(error)[:1000]
        self._miss("write_failed" if isinstance(error, OSError) else "encode_failed", count)
        return False

    def _miss(self, reason: str, count: int) -> None:
        if count:
            self._missing[reason] = self._missing.get(reason, 0) + count
        self._look_at = 0.0

    def _make_good(self, writer: Writer) -> None:
        """Put on the tape what is missing from it."""
        while self._missing:
            reason, count = self._missing.popitem()
            try:
                writer.loss(reason, count, self._detail)
            except BaseException:
                self._miss(reason, count)
                raise

    def _has_lost_descriptor(self, error: Exception) -> bool:
        """Whether the job has closed the descriptor, as daemons do; what is next begins a new file."""
        writer = self.writer
        if not isinstance(error, OSError) or writer is None or not writer.taken:
            return False
        self.writer = None
        return True

    def _lose_file(self, writer: Writer) -> None:
        lost = writer.recorded
        self.tally.recorded -= lost
        self.tally.failed += lost
        self._detail = f"{writer.path} was deleted while it was written"
        warn_once(f"{self._detail}: {lost} events are lost")
        self._miss("file_deleted", lost)

    def _say(self, error: Exception) -> None:
        if isinstance(error, OSError):
            what = f"cannot write the tape in {self.directory}: {error.strerror or error}"
            advice = " (JOBTAPE_DIR names another place)" if self.destination == "tape" else ""
            warn_once(f"{what}; events are lost until that works{advice}", key=f"tape {self.directory}")
        else:
            warn_once("an event cannot be put on the tape", key="tape event", error=error)


def tape_in(directory: str | None) -> TapeHandler:
    """The one handler of this process for the runs in a directory.

    Args:
        directory: an absolute path; None for ``JOBTAPE_DIR``, else ``./jobtape`` as that is when it is first used.
    """
    path = os.path.abspath(directory or os.environ.get("JOBTAPE_DIR") or "jobtape")  # noqa: PTH100
    handler = _handlers.get(path)
    if handler is None:
        handler = _handlers.setdefault(path, TapeHandler(Path(path), f"file://{path}"))
    if directory is None:
        handler.destination = "tape"
    return handler


_handlers: dict[str, TapeHandler] = {}
_layouts: dict[type, str] = {}


def _learn_layout(kind: type) -> str:
    """What to make of the objects of a class: by its fields, so that torch's classes and ours are the same."""
    layout = "unusual"
    if is_dataclass(kind):
        names = {each.name for each in fields(kind)}
        layout = "event" if names == _EVENT_FIELDS else "rdzv" if names == _RDZV_FIELDS else layout
    if len(_layouts) < _EARLY_MOST:
        _layouts[kind] = layout
    return layout


def _is_failure(name: str, metadata: Any) -> bool:
    if name == "jobtape.worker.exit":
        return not isinstance(metadata, dict) or metadata.get("exit_code") != 0
    return name in SYNC_NAMES or name.endswith(".FAILED")


def _write_unusual(writer: Writer, event: Any, sync: bool) -> None:
    """Write an event that has more or fewer fields than torch's, or is none at all: nothing of it is left out."""
    values = dict(event) if isinstance(event, dict) else dict(getattr(event, "__dict__", ()))
    if {"name", "run_id", "node_state"} <= values.keys():
        state = getattr(values["node_state"], "_value_", values["node_state"])
        writer.rdzv(sync=sync or state == "FAILED", **{str(key): value for key, value in values.items()})
        return
    if not {"name", "source"} <= values.keys():
        writer.event("", "", 0, {"text": event}, sync=sync)
        return
    name, source = values.pop("name"), values.pop("source")
    timestamp, metadata = values.pop("timestamp", 0), values.pop("metadata", {})
    if values:
        metadata = {**values, **(metadata if isinstance(metadata, dict) else {"metadata": metadata})}
    sync = sync or (isinstance(name, str) and _is_failure(name, metadata))
    writer.event(name, getattr(source, "_value_", source), timestamp, metadata, sync=sync)


def _parse(text: str) -> Any:
    """The fields of an event's JSON text; the text itself when it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, dict) else text


def _end_with_process(handler: TapeHandler) -> None:
    """In a child of multiprocessing, which leaves without the interpreter's exit, close the tape as that child ends."""
    process = sys.modules.get("multiprocessing.process")
    util = sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and process.parent_process() is not None:
        util.Finalize(None, partial(handler.close_tape, "exit"), exitpriority=-1000)


def _begin_in_child() -> None:
    for handler in list(_handlers.values()):
        run_id, run_name, _ = handler._identity
        handler._identity = (run_id, run_name, "other")
        handler.tally.recorded = handler.tally.dropped = handler.tally.failed = 0
        handler._begin()


os.register_at_fork(after_in_child=_begin_in_child)
