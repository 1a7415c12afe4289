"""torchtitan's structured logs: ``<source>.global_rank_<rank>.<time>-<random>.jsonl``, one file a process.

``torchtitan/observability/structured_logger`` (``jsonl_handler.py``, ``structured_logging.py``) writes one object a
line. Fields of the source: ``rank``, ``global_rank``, ``local_rank``, ``source`` (the program's part in the job),
``host_name``, ``pid``, ``tid``; ``step``, ``relative_step``, ``step_tags``; ``time``, ``time_ms``, ``time_us`` (unix
time); ``log_type`` (``event``, ``instant``, ``text``), ``log_type_name`` (a span's name with ``_start``, ``_end`` or
``_error``, ``metric_value``, or any), ``event_name``, ``value`` (of an end: milliseconds), ``task_name``, ``context``,
``message``, ``caller``, ``log_file``, ``log_function``, ``log_level``, ``logger_name``, ``stack_info``, ``delta_ms``,
``seq_id``. An earlier form, of ``observability/structured_logging.py``, has the same in the columns ``int``,
``normal``, ``double`` and ``normvector``. Spans that the time account knows become those; the rest is kept as
``torchtitan.<name>``. Nothing in it names a run, and nothing says how a process ended.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Any

from jobtape.importers.event_lines import decode_object
from jobtape.importers.foreign import Lines
from jobtape.importers.onto_tape import ForeignFile, Writer
from jobtape.importers.repeats import Repeats
from jobtape.tape.records import EventRecord
from jobtape.tape.values import encode_metadata, plain_text

_SPANS = {
    "step": "step",
    "checkpoint": "checkpoint_save",
    "checkpoint_save": "checkpoint_save",
    "checkpoint_load": "checkpoint_restore",
    "fetching_batch": "data_wait",
    "eval": "evaluation",
    "evaluate": "evaluation",
    "validate": "evaluation",
    "validation": "evaluation",
}
"""torchtitan's spans -> those that the time account knows."""

_COLUMNS = ("int", "normal", "double", "normvector")
_TIMES = frozenset({"time", "time_ms", "time_us"})
_ERROR = re.compile(r"(?:\[step [^\]]*\] )?\S+_error: (?P<type>[A-Za-z_][\w.]*): ?(?P<message>.*)", re.DOTALL)
_EARLIEST_US, _LATEST_US = 10**15, 4 * 10**15
_MOST_OPEN = 10_000
"""Spans of a task that have not ended, at most."""

Fields = dict[str, Any]


def fits(raw: bytes) -> bool:
    """Whether a line is a record of torchtitan's structured logger.

    >>> fits(b'{"rank": 0, "log_type_name": "step_end", "time_us": 1771320688000000, "seq_id": 7}')
    True
    """
    return raw[:1] == b"{" and b'"log_type_name"' in raw and _fields(raw.decode("utf-8", "replace")) is not None


def read_files(sources: Sequence[Path], shelf: Path, _zone: tzinfo | None) -> Iterator[tuple[str, Path, ForeignFile]]:
    """Read structured logs; each process in a file has a tape of its own.

    Yields:
        For each process a hash that is its own, its file, and its records.

    Raises:
        ImportFailed: a file cannot be read.
    """
    readings = [_Reading(source, shelf) for source in sources]
    for reading in readings:
        reading.read_all()
    # Ranks count within one part of the job: a generator's rank 0 is not that of the training.
    parts = {process.part for reading in readings for process in reading.processes}
    for reading in readings:
        yield from reading.finished(alone=len(parts) == 1)


def _fields(text: str) -> Fields | None:
    decoded = decode_object(text)
    if decoded is None or text[decoded[1] :].strip():
        return None
    fields = decoded[0]
    if isinstance(fields.get("int"), dict) and isinstance(fields.get("normal"), dict):
        rest = {name: value for name, value in fields.items() if name not in _COLUMNS}
        columns = [column for name in _COLUMNS if isinstance(column := fields.get(name), dict)]
        fields = {**rest, **{name: value for column in columns for name, value in column.items()}}
    named = isinstance(fields.get("log_type_name"), str) and _number(fields.get("rank")) is not None
    return fields if named and ("seq_id" in fields or "time_us" in fields) else None


def _number(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 2**31 else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


class _Process:
    """One process whose records stand in a file."""

    def __init__(self, fields: Fields, target: ForeignFile) -> None:
        self.rank = _number(fields.get("global_rank"))
        self.rank = _number(fields.get("rank")) if self.rank is None else self.rank
        self.local_rank = _number(fields.get("local_rank"))
        self.pid = _number(fields.get("pid"))
        self.host = _text(fields.get("host_name"))
        self.part = _text(fields.get("source"))
        self.target = target
        self.open: dict[str | None, list[tuple[str, str]]] = {}
        """The spans of each task that have not ended: name and id, the innermost last."""
        self.erred: dict[str, str] = {}
        """Spans that an exception has gone through, by their id: what was said of it."""
        self.leaving: tuple[int | None, int, str] | None = None
        """An exception that leaves one span after the other: when and in which line it was first told of, and what."""

    @property
    def key(self) -> str:
        return f"{self.host}:{self.pid}:{self.rank}:{self.part}"


class _Reading:
    """One file being read."""

    def __init__(self, source: Path, shelf: Path) -> None:
        self._source = source
        self._shelf = shelf
        self._lines = Lines(source)
        self._repeats = Repeats()
        self._known: dict[str, _Process] = {}
        self._lost: list[int] = []
        self._foreign = 0

    @property
    def processes(self) -> list[_Process]:
        return list(self._known.values())

    def read_all(self) -> None:
        """Read the file to its end."""
        for number, raw in self._lines:
            text = (raw or b"").decode("utf-8", "replace")
            fields = _fields(text) if raw and raw[:1] == b"{" else None
            if fields is None and raw is not None and b"\0" in raw:
                # A file system that lost a block leaves NULs in front of what was written next.
                fields = _fields(text.replace("\0", "").strip())
            torn = fields is None and text.startswith('{"') and decode_object(text) is None
            if raw is None or b"\0" in raw or torn:
                self._lost.append(number)
            elif fields is None:
                self._foreign += bool(text.strip())
            if fields is None:
                continue
            if self._repeats.see(raw or b""):
                self._foreign += 1
            else:
                self._record(number, fields)

    def _record(self, number: int, fields: Fields) -> None:
        fresh = _Process(fields, ForeignFile(self._source, self._shelf))
        process = self._known.setdefault(fresh.key, fresh)
        if process is not fresh:
            fresh.target.close()
        time_ns = _time_ns(fields)
        name, ours = _named(process, fields, number, time_ns)
        told = {"rank": process.rank, **ours}
        for key, value in fields.items():
            if key not in _TIMES and key not in ("rank", "global_rank"):
                told[f"torchtitan.{key}" if key in told and told[key] != value else key] = value
        self._write(process, number, name, told, time_ns)

    def _write(self, process: _Process, number: int, name: str, told: Fields, time_ns: int | None) -> None:
        record = EventRecord(
            seq=0,
            time_ns=time_ns,
            name=plain_text(name),
            source="WORKER",
            metadata=encode_metadata(told),
            origin=plain_text(f"{self._source.name}:{number}"),
        )
        process.target.record(record, number, host=process.host or None)

    def finished(self, *, alone: bool) -> Iterator[tuple[str, Path, ForeignFile]]:
        """The processes, now that everything is read.

        Args:
            alone: all of the import are of one part of the job.
        """
        if not self._known:
            self._known[""] = _Process({}, ForeignFile(self._source, self._shelf))
        first = self.processes[0].target
        for number in self._lost:
            first.damaged_line(number)
        for _ in range(self._foreign):
            first.foreign_line()
        for key, process in self._known.items():
            if process.target.records and (alone or process.part.startswith("train")):
                self._say_farewell(process)
                process.target.writer = Writer(process.rank, process.local_rank, process.pid, process.host)
            digest = hashlib.sha256(f"{self._lines.digest}:{key}".encode()).hexdigest()
            yield digest, self._source, process.target

    def _say_farewell(self, process: _Process) -> None:
        """The exception that the process's last records are of, when it went through all of its spans."""
        if process.leaving is None or any(process.open.values()):
            return
        time_ns, number, said = process.leaving
        match = _ERROR.fullmatch(said)
        told: Fields = {"rank": process.rank, "presumed": True}
        told["error_type"] = match["type"] if match is not None else None
        told["message"] = match["message"] if match is not None else said
        self._write(process, number, "jobtape.worker.error", told, time_ns)


def _named(process: _Process, fields: Fields, number: int, time_ns: int | None) -> tuple[str, Fields]:
    """The name of a record on the tape, and what of its metadata is ours."""
    name = fields["log_type_name"]
    base, _, phase = name.rpartition("_")
    if fields.get("log_type") == "instant" or not base or phase not in ("start", "end", "error"):
        process.leaving = None
        return f"torchtitan.{name}", {}
    task = fields.get("task_name")
    spans = process.open.setdefault(task if isinstance(task, str) else None, [])
    if phase == "error":
        said = _text(fields.get("message"))
        found = _innermost(spans, base)
        if found is not None and len(process.erred) < _MOST_OPEN:
            process.erred[spans[found][1]] = said
        process.leaving = process.leaving or (time_ns, number, said)
        return f"torchtitan.{name}", {}
    ours: Fields = {"span.phase": "begin" if phase == "start" else "end"}
    if phase == "start":
        process.leaving = None
        ours["span.id"] = str(fields.get("seq_id", f"line {number}"))
        ours["span.parent"] = spans[-1][1] if spans else None
        if len(spans) < _MOST_OPEN:
            spans.append((base, ours["span.id"]))
    else:
        found = _innermost(spans, base)
        gone: str | None = None
        if found is not None:
            ours["span.id"] = spans[found][1]
            gone = process.erred.pop(spans[found][1], None)
            # What was opened within it and never ended has ended with it.
            del spans[found:]
        ours["span.outcome"] = "ok" if gone is None else "error"
        if gone is None:
            process.leaving = None
        else:
            ours["span.message"] = gone
        took_ms = fields.get("value")
        if isinstance(took_ms, (int, float)) and not isinstance(took_ms, bool) and took_ms >= 0:
            ours["span.duration_s"] = took_ms / 1000
    return _SPANS.get(base, f"torchtitan.{base}"), ours


def _innermost(spans: list[tuple[str, str]], base: str) -> int | None:
    return next((place for place in range(len(spans) - 1, -1, -1) if spans[place][0] == base), None)


def _time_ns(fields: Fields) -> int | None:
    """The time as finely as the record has it; a whole second stays one."""
    for name, factor in (("time_us", 1), ("time_ms", 1000), ("time", 1_000_000)):
        value = fields.get(name)
        if type(value) is int and _EARLIEST_US < value * factor < _LATEST_US:
            return value * factor * 1000
    return None
