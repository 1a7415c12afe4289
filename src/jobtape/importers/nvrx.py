"""What NVIDIA's resiliency extension leaves of each restart cycle: cycle files, cycle logs, and its own log.

``cycle_info.<job id>.<attempt>.<cycle>`` is one JSON document a cycle, written by the host of the rendezvous
(``fault_tolerance/cycle_info_writer.py``). Fields of the source: ``job_id``, ``attempt_index`` (Slurm's count of the
job's restarts), ``cycle_number``, ``cycle_start_time`` and ``cycle_end_time`` (ISO 8601 in UTC; empty while it runs),
``cycle_log_file``, ``active_nodes`` and ``standby_nodes`` (Slurm node lists), ``active_ranks`` (of nodes, not of
workers) and ``generation``. It does not say how a cycle ended or which rank failed.

``<name>_cycle<N>.log`` is what the workers of a cycle printed, each line behind its global rank and ``: ``
(``fault_tolerance/per_cycle_logs.py``). The log of the launcher (``shared_utils/log_manager.py``) has ``2026-02-17
09:31:28,500 [INFO] [node-a] [workload:0(0) infra:0(0)] launcher.py:12`` before each message, and of those are read
the profiling events (``shared_utils/profiling.py``: cycle, event, node, group rank, time in UTC) and torchelastic's
lines on failed workers. ``.current`` is a link to a cycle file and not read in directories.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from datetime import timezone, tzinfo
from pathlib import Path
from typing import Any

from jobtape.importers.clock import FileClock, Stamp
from jobtape.importers.dlrover import stamp_of
from jobtape.importers.event_lines import decode_object
from jobtape.importers.foreign import Lines
from jobtape.importers.log_lines import read_log_line
from jobtape.importers.nodelists import host_names
from jobtape.importers.onto_tape import ForeignFile
from jobtape.importers.prefixes import Prefix
from jobtape.importers.worker_output import WorkerError, WorkerOutput
from jobtape.tape.records import EventRecord
from jobtape.tape.values import encode_metadata, plain_text

_CYCLE_LOG = re.compile(r".+_cycle(?P<cycle>\d{1,9})\.[^.]+", re.DOTALL)
_RANKED = re.compile(r" {0,9}(?P<rank>\d{1,7}): (?P<text>.*)", re.DOTALL)
_LOGGED = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d) (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d),(?P<milli>\d{3})"
    r" \[(?P<level>[A-Z]+)\] \[(?P<node>[^\]]*)\] \[workload:(?P<rank>\w+)\((?P<local_rank>\w+)\)"
    r" infra:\w+\(\w+\)\] (?P<writer>[\w.-]+:\d+) (?P<text>.*)",
    re.DOTALL,
)
_PROFILED = re.compile(
    r" *- Cycle: (?P<cycle>\d{1,9}) Event: (?P<event>[a-z_]+) Node: (?P<node>\S+) Rank: (?P<rank>\w+)"
    r" Time: (?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d) (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
    r"\.(?P<milli>\d{3}) UTC"
)
_NODE_SUFFIX = re.compile(r"_\d+_\d+$")
_LONGEST_LINE = 1 << 16


def read_files(sources: Sequence[Path], shelf: Path, zone: tzinfo | None) -> Iterator[tuple[str, Path, ForeignFile]]:
    """Read cycle files, cycle logs and logs of the launcher.

    Yields:
        For each file a hash of its content, the file, and its records.

    Raises:
        ImportFailed: a file cannot be read.
    """
    for source in sources:
        # A cycle file is written anew when its cycle ends.
        target = ForeignFile(source, shelf, stem=source.name, replaces=source.name.startswith("cycle_info."))
        lines = Lines(source)
        first = next(lines, None)
        if first is not None:
            lines.push_back([first])
        if first is not None and (first[1] or b"").lstrip()[:1] == b"{":
            _read_cycle(target, source, lines)
        else:
            _Log(target, source, zone).read(lines)
        yield (
            hashlib.sha256(f"{source.name}:{lines.digest}".encode("utf-8", "surrogateescape")).hexdigest(),
            source,
            target,
        )


def fits(raw: bytes) -> bool:
    """Whether a line is one of the log of NVRx.

    >>> fits(b"2026-02-17 09:31:28,500 [INFO] [node-a] [workload:0(0) infra:0(0)] launcher.py:12 Stopping workers...")
    True
    """
    if b"[workload:" in raw[:400]:
        return _LOGGED.fullmatch(raw[:_LONGEST_LINE].decode("utf-8", "replace")) is not None
    return b"- Cycle: " in raw[:400] and _PROFILED.search(raw[:_LONGEST_LINE].decode("utf-8", "replace")) is not None


def fits_document(content: bytes) -> bool:
    """Whether a file's content is a cycle file's."""
    fields = _document(content)
    return fields is not None


def is_cycle_log(path: Path) -> bool:
    """Whether a file has the name of a cycle log, and its first lines stand behind a rank."""
    if _CYCLE_LOG.fullmatch(path.name) is None:
        return False
    looked_at = [raw for (number, raw), _ in zip(Lines(path), range(20), strict=False) if raw]
    ranked = sum(1 for raw in looked_at if _RANKED.fullmatch(raw[:_LONGEST_LINE].decode("utf-8", "replace")))
    return 0 < len(looked_at) <= 2 * ranked


def _document(content: bytes) -> dict[str, Any] | None:
    text = content.decode("utf-8", "replace").strip()
    decoded = decode_object(text)
    if decoded is None or text[decoded[1] :].strip():
        return None
    fields = decoded[0]
    named = isinstance(fields.get("job_id"), str) or "cycle_number" in fields
    return fields if named and isinstance(fields.get("cycle_start_time"), str) else None


def _read_cycle(target: ForeignFile, source: Path, lines: Lines) -> None:
    content = b"\n".join(raw or b"" for _, raw in lines)
    fields = _document(content)
    if fields is None:
        target.damaged_line(1)
        return
    clock = FileClock(timezone.utc)
    metadata = dict(fields)
    metadata["cycle"] = _count(fields.get("cycle_number"))
    metadata["attempt_index"] = _count(fields.get("attempt_index"))
    for name, ours in (("active_nodes", "nodes"), ("standby_nodes", "standby")):
        hosts = fields.get(name)
        metadata[ours] = host_names(hosts) if isinstance(hosts, str) else []
    ended_ns = clock.peek(stamp_of(str(fields.get("cycle_end_time", ""))))
    if ended_ns is not None:
        metadata["end_s"] = ended_ns / 1e9
    started_ns = clock.read(stamp_of(fields["cycle_start_time"]))
    if isinstance(fields.get("job_id"), str) and fields["job_id"]:
        target.likely_run_id = plain_text(fields["job_id"])
    target.record(_record("nvrx.cycle", metadata, started_ns, source, 1), 1)


def _count(value: object) -> int:
    """A number as protobuf writes it in JSON: 64 bits as text, and nothing at all for a 0."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        value = int(value)
    return value if type(value) is int and 0 <= value < 2**31 else 0


def _record(name: str, metadata: dict[str, Any], time_ns: int | None, source: Path, number: int) -> EventRecord:
    origin = plain_text(f"{source.name}:{number}")
    return EventRecord(
        seq=0, time_ns=time_ns, name=name, source="AGENT", metadata=encode_metadata(metadata), origin=origin
    )


class _Log:
    """A cycle log, or the log of a launcher, being read."""

    def __init__(self, target: ForeignFile, source: Path, zone: tzinfo | None) -> None:
        self._target = target
        self._source = source
        self._clock = FileClock(zone)
        self._utc = FileClock(timezone.utc)
        self._output = WorkerOutput()
        name = _CYCLE_LOG.fullmatch(source.name)
        self._cycle = int(name["cycle"]) if name is not None else None
        self._told: set[tuple[str, ...]] = set()

    def read(self, lines: Lines) -> None:
        """Read the file to its end."""
        for number, raw in lines:
            if raw is None:
                self._target.damaged_line(number)
            elif raw.strip() and not self._line(number, raw.decode("utf-8", "replace")):
                self._target.foreign_line()
        self._errors(self._output.flush())

    def _line(self, number: int, text: str) -> bool:
        logged = _LOGGED.fullmatch(text) if len(text) < _LONGEST_LINE else None
        if logged is not None:
            return self._logged(number, logged)
        profiled = _PROFILED.search(text[:_LONGEST_LINE])
        if profiled is not None and not text[: profiled.start()].strip():
            return self._profiled(number, profiled)
        ranked = _RANKED.fullmatch(text) if self._cycle is not None else None
        if ranked is None:
            return False
        prefix = Prefix(ranked["text"].replace("<NUL>", ""), worker=True, rank=int(ranked["rank"]))
        taken, done = self._output.take(number, prefix)
        self._errors(done)
        return taken

    def _logged(self, number: int, logged: re.Match[str]) -> bool:
        profiled = _PROFILED.fullmatch(logged["text"])
        if profiled is not None:
            return self._profiled(number, profiled)
        # The messages are torch's own, of a copy of torchelastic under another name.
        reading = read_log_line(Prefix(logged["text"], writer="torch.distributed.elastic."))
        if reading is None:
            return False
        time_ns = self._clock.read(_stamp(logged))
        metadata = {"host": logged["node"], "cycle": self._cycle, **reading[1]}
        name = f"nvrx.{reading[0].removeprefix('torchelastic.log.')}"
        self._target.record(_record(name, metadata, time_ns, self._source, number), number, host=logged["node"] or None)
        return True

    def _profiled(self, number: int, profiled: re.Match[str]) -> bool:
        key = tuple(str(part) for part in profiled.groups())
        if key in self._told:
            # Its summaries repeat what they have said of earlier cycles.
            return False
        self._told.add(key)
        rank = profiled["rank"]
        metadata: dict[str, Any] = {
            "cycle": int(profiled["cycle"]),
            "event": profiled["event"],
            "node": profiled["node"],
            "host": _NODE_SUFFIX.sub("", profiled["node"]),
            "group_rank": int(rank) if rank.isascii() and rank.isdigit() and len(rank) < 10 else None,
        }
        time_ns = self._utc.peek(_stamp(profiled))
        record = _record("nvrx.event", metadata, time_ns, self._source, number)
        self._target.record(record, number, host=metadata["host"])
        return True

    def _errors(self, errors: list[WorkerError]) -> None:
        for error in errors:
            metadata: dict[str, Any] = {
                "cycle": self._cycle,
                "rank": error.rank,
                "message": "\n".join(error.message),
                "traceback": "\n".join([*error.traceback, *error.message]),
            }
            self._target.record(_record("nvrx.worker_output", metadata, None, self._source, error.line), error.line)


def _stamp(match: re.Match[str]) -> Stamp:
    names = ("year", "month", "day", "hour", "minute", "second")
    year, month, day, hour, minute, second = (int(match[name]) for name in names)
    return Stamp(None, year, month, day, hour, minute, second, int(match["milli"]) * 1_000_000)
