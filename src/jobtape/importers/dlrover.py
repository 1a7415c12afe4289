"""Files of DLRover's training events: ``events_<rank>.log``, of the job's master, of its agents and of its trainers.

``dlrover/python/training_event`` (``event.py``, ``exporter.py``, ``predefined/``) writes one event a line, as text ::

    [2026-02-17T09:30:12.074419] [426] [22b7ca89] [AtorchTrainerV2] [#step] [BEGIN] {"global_step": 17}

or as an object. Fields of the source: ``event_time`` (local time without a zone), ``pid`` (not before 2025; then it may
stand in the file's name), ``event_id`` (that of a span's begin and end is one), ``target`` (who: ``dlrover-master``,
``dlrover-agent``, a trainer, ``AsyncSaver``, ``ErrorReporter``), ``name``, ``event_type`` (``BEGIN``, ``END``,
``INSTANT``) and ``content``. What has the same meaning as a record of jobtape's becomes that; the rest is kept as
``dlrover.<target>.<name>``. No event names its run; a master's ``#job_train`` has a ``job_name``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from datetime import timezone, tzinfo
from pathlib import Path
from typing import Any, NamedTuple

from jobtape.importers.clock import FileClock, Stamp, offset_zone
from jobtape.importers.dlrover_events import AgentEvents, trainer_event
from jobtape.importers.event_lines import decode_object
from jobtape.importers.foreign import Lines
from jobtape.importers.onto_tape import ForeignFile, Writer
from jobtape.importers.repeats import Repeats
from jobtape.tape.records import EventRecord
from jobtape.tape.values import encode_metadata, plain_text

MASTER, AGENT = "dlrover-master", "dlrover-agent"
_OF_NO_TRAINER = frozenset({MASTER, AGENT, "AsyncSaver", "ErrorReporter", ""})

_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)?"
_LABELS = re.compile(r"(?:\[(?:rank|[A-Za-z_][\w-]*?)\d{1,7}\]: ?)*")
_START = re.compile(
    rf"\[(?P<time>{_TIME})\] (?:\[(?P<pid>\d{{1,10}}|empty)\] )?\[(?P<id>[^\]]{{0,200}})\]"
    r" \[(?P<target>[^\]]{0,500})\] \[(?P<name>[^\]]{0,500})\] \[(?P<type>BEGIN|END|INSTANT)\] (?=\{)"
)
_TORN = re.compile(rf"\[{_TIME}\] \[")
_WHEN = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:(Z)|([+-])(\d\d):(\d\d))?", re.ASCII)
_FILE = re.compile(r"events_(?P<rank>\d{1,7}|empty)(?:_(?P<pid>\d{1,10}|empty))?\.log(?:\.\d+)?")
_OBJECT = frozenset({"event_id", "event_time", "target", "name", "event_type"})
_TYPES = frozenset({"BEGIN", "END", "INSTANT"})
_MOST_STARTS = 64
"""Starts of an event that are tried in one broken line."""


class Event(NamedTuple):
    """One event of DLRover as it stands in a file."""

    when: str
    pid: int | None
    id: str
    target: str
    name: str
    type: str
    content: dict[str, Any]
    unknown: dict[str, Any]
    """Fields beside those."""


def fits(raw: bytes) -> bool:
    """Whether a line is an event of DLRover.

    >>> fits(b'[2026-02-17T09:30:12.074419] [22b7ca89] [dlrover-agent] [#agent_exit] [INSTANT] {"success": true}')
    True
    """
    if raw[:1] not in (b"[", b"{"):
        return False
    events, intact = read_events(raw.decode("utf-8", "replace"))
    return bool(events) and intact


def read_files(sources: Sequence[Path], shelf: Path, zone: tzinfo | None) -> Iterator[tuple[str, Path, ForeignFile]]:
    """Read files of training events; each process in a file has a tape of its own.

    Yields:
        For each process a hash that is its own, its file, and its records.

    Raises:
        ImportFailed: a file cannot be read.
    """
    readings = [_Reading(source, shelf, zone) for source in sources]
    for reading in readings:
        reading.read_all()
    for reading in readings:
        # Agents name their nodes, trainers do not; both write into one directory of the node.
        beside = {host for other in readings if other.folder == reading.folder for host in other.hosts}
        yield from reading.finished(next(iter(beside)) if len(beside) == 1 else "")


def read_events(text: str) -> tuple[list[Event], bool]:
    """The events of a line, and whether it holds nothing else; of a line spliced from several all whole ones."""
    text = text[_LABELS.match(text).end() :]  # type: ignore[union-attr]  # it matches nothing, too
    if text[:1] == "{":
        decoded = decode_object(text)
        event = None if decoded is None else _of_object(decoded[0])
        return ([], False) if event is None or decoded is None else ([event], not text[decoded[1] :].strip())
    found: list[Event] = []
    intact, position = True, 0
    for _ in range(_MOST_STARTS):
        match = _START.search(text, position) if found or position else _START.match(text)
        if match is None:
            # A line may be cut off where it begins and hold a whole one behind it.
            match = _START.search(text, position + 1) if not position and _TORN.match(text) else None
            if match is None:
                break
        intact = intact and not text[position : match.start()].strip()
        decoded = decode_object(text, match.end())
        if decoded is None:
            intact, position = False, match.end()
            continue
        part = match.groupdict()
        pid = int(part["pid"]) if part["pid"] and part["pid"].isdigit() else None
        found.append(Event(part["time"], pid, part["id"], part["target"], part["name"], part["type"], decoded[0], {}))
        position = decoded[1]
    return found, intact and not text[position:].strip()


def _of_object(fields: dict[str, Any]) -> Event | None:
    texts = {name: fields.get(name) for name in _OBJECT}
    content = fields.get("content", {})
    if not all(isinstance(text, str) for text in texts.values()) or texts["event_type"] not in _TYPES:
        return None
    if not isinstance(content, dict) or not _WHEN.fullmatch(str(texts["event_time"])):
        return None
    pid = fields.get("pid")
    if isinstance(pid, str) and pid.isascii() and pid.isdigit():
        pid = int(pid[:10])
    unknown = {name: value for name, value in fields.items() if name not in _OBJECT and name not in ("pid", "content")}
    return Event(
        str(texts["event_time"]),
        pid if type(pid) is int else None,
        str(texts["event_id"]),
        str(texts["target"]),
        str(texts["name"]),
        str(texts["event_type"]),
        content,
        unknown,
    )


class _Process:
    """One process whose events stand in a file."""

    def __init__(self, pid: int | None, target: ForeignFile) -> None:
        self.pid = pid
        self.target = target
        self.agent: AgentEvents | None = None
        self.trains = False
        self.ended = False
        self.began: dict[str, int] = {}
        """Spans that are open: when they began, by their id."""


class _Reading:
    """One file being read."""

    def __init__(self, source: Path, shelf: Path, zone: tzinfo | None) -> None:
        self.folder = source.absolute().parent
        self.hosts: set[str] = set()
        self._source = source
        self._shelf = shelf
        self._clock = FileClock(zone)
        self._lines = Lines(source)
        self._repeats = Repeats()
        self._processes: dict[int | None, _Process] = {}
        self._lost: list[int] = []
        self._foreign = 0
        name = _FILE.fullmatch(source.name)
        self._rank = int(name["rank"]) if name is not None and name["rank"].isdigit() else None
        self._pid = int(name["pid"]) if name is not None and name["pid"] and name["pid"].isdigit() else None

    def read_all(self) -> None:
        """Read the file to its end."""
        for number, raw in self._lines:
            if raw is None:
                self._lost.append(number)
                continue
            events, intact = read_events(raw.decode("utf-8", "replace")) if raw[:1] in (b"[", b"{") else ([], False)
            if events and self._repeats.see(raw):
                self._foreign += 1
                continue
            for event in events:
                self._event(number, event)
            if (events and not intact) or b"\0" in raw or (not events and _TORN.match(raw.decode("utf-8", "replace"))):
                self._lost.append(number)
            elif not events and raw.strip():
                self._foreign += 1

    def _event(self, number: int, event: Event) -> None:
        pid = self._pid if event.pid is None else event.pid
        process = self._processes.get(pid)
        if process is None:
            process = self._processes[pid] = _Process(pid, ForeignFile(self._source, self._shelf))
        time_ns = self._clock.read(stamp_of(event.when))
        for name, source, metadata in self._translate(process, event, time_ns):
            record = EventRecord(
                seq=0,
                time_ns=time_ns,
                name=plain_text(name),
                source=source,
                metadata=encode_metadata(metadata),
                extra=encode_metadata(event.unknown),
                origin=plain_text(f"{self._source.name}:{number}"),
            )
            host = metadata.get("host")
            process.target.record(record, number, host=host if isinstance(host, str) else None)

    def _translate(self, process: _Process, event: Event, time_ns: int | None) -> list[tuple[str, str, dict[str, Any]]]:
        """The records an event becomes: name, source, metadata."""
        took_s = None
        if event.type == "BEGIN" and time_ns is not None:
            process.began[event.id] = time_ns
        elif event.type == "END" and (began := process.began.pop(event.id, None)) is not None and time_ns is not None:
            took_s = max(time_ns - began, 0) / 1e9
        if event.target == AGENT:
            if process.agent is None:
                process.agent = AgentEvents()
            told = process.agent.translate(event, took_s)
            if process.agent.node_name:
                self.hosts.add(process.agent.node_name)
            return told
        if event.target == MASTER and event.name == "#job_train":
            job = event.content.get("job_name")
            if isinstance(job, str) and job:
                process.target.likely_run_id = plain_text(job)
        process.trains = process.trains or event.target not in _OF_NO_TRAINER
        told, ended = trainer_event(event, self._rank, took_s)
        process.ended = process.ended if ended is None else ended
        return told

    def finished(self, host: str) -> Iterator[tuple[str, Path, ForeignFile]]:
        """The processes, now that everything is read.

        Args:
            host: the node of the trainers, where it is known.
        """
        processes = list(self._processes.values()) or [_Process(None, ForeignFile(self._source, self._shelf))]
        for number in self._lost:
            processes[0].target.damaged_line(number)
        for _ in range(self._foreign):
            processes[0].target.foreign_line()
        for process in processes:
            if process.trains and process.agent is None:
                process.target.writer = Writer(self._rank, None, process.pid, host, process.ended)
            digest = hashlib.sha256(f"{self._lines.digest}:{process.pid}".encode()).hexdigest()
            yield digest, self._source, process.target


def stamp_of(text: str) -> Stamp:
    """A time as `datetime.isoformat` writes it; one that is none has no year, month or day that could be."""
    match = _WHEN.fullmatch(text)
    if match is None:
        return Stamp(year=0, month=0, day=0)
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    zone: tzinfo | None = None
    if match[8]:
        zone = timezone.utc
    elif match[9]:
        zone = offset_zone(match[9], int(match[10]), int(match[11]))
    return Stamp(None, year, month, day, hour, minute, second, int((match[7] or "").ljust(9, "0")), zone)
