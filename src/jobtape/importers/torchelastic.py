"""Import of torchelastic's own records: event lines and what torch's agent and launcher log about workers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import tzinfo
from pathlib import Path
from typing import Any

from jobtape.errors import ImportFailed
from jobtape.importers import closing_block, event_lines
from jobtape.importers.clock import FileClock, Stamp, YearSurvey, find_zone
from jobtape.importers.foreign import Lines, check, shown
from jobtape.importers.log_lines import BarrierError, read_log_line
from jobtape.importers.onto_tape import ForeignFile, ImportReport
from jobtape.importers.prefixes import Prefix, read_prefix, stamp_before
from jobtape.importers.worker_output import WorkerError, WorkerOutput
from jobtape.tape.records import EventRecord
from jobtape.tape.values import plain_text

__all__ = ["ImportReport", "import_files"]

NO_RUN_ID = "none"
"""torchrun's run id when none was given: many jobs have it, so it does not say which records belong together."""


SHORTEST_REPEAT = 40
"""Bytes: no record that carries its own time is shorter."""
REMEMBERED_LINES = 500_000


def import_files(paths: Sequence[str | Path], shelf: Path, tz: str | None = None) -> ImportReport:
    """Put the records of these files, which are taken to belong together, onto the shelf.

    Args:
        paths: log files or files of event lines, one a node or all in one.
        shelf: the directory of runs; made when it is missing.
        tz: zone of times that name none: a name, ``UTC``, or an offset like ``+02:00``; None for this machine's.

    Raises:
        ImportFailed: a file cannot be read, the zone is unknown, nothing in the files is a record, or the shelf cannot
            be written. Unless it was the last, nothing has been written.
    """
    zone = find_zone(tz)
    sources = [Path(path) for path in paths]
    for source in sources:
        check(source)
    surveys = [_survey(source, zone) for source in sources]
    anchor_ns = next((survey.anchor_ns for survey in surveys if survey.anchor_ns is not None), None)
    with _shelf(shelf):
        report = ImportReport(files=len(sources))
        read: dict[str, tuple[Path, ForeignFile]] = {}
        try:
            for source, survey in zip(sources, surveys, strict=True):
                reading = _Reading(source, shelf, survey.clock(anchor_ns, source.stat().st_mtime))
                _add(read, reading.read_all(), source, reading.target, report)
            if not report.records:
                raise ImportFailed(
                    f"no torchelastic record in {_listed(sources)}: expected JSON lines of torchelastic events or"
                    " torchrun's console output; check --format",
                    path=str(sources[0]) if sources else "",
                )
            _save(read, report)
        finally:
            for _, target in read.values():
                target.close()
    return report


@contextmanager
def _shelf(shelf: Path) -> Iterator[None]:
    """The shelf made when it is missing, and taken away again when nothing was put onto it."""
    made = not shelf.exists()
    try:
        shelf.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield
    except BaseException as error:
        if made:
            with suppress(OSError):
                shelf.rmdir()
        if isinstance(error, OSError):
            reason = error.strerror or error
            raise ImportFailed(
                f"cannot write to {shown(shelf)}: {reason}; name another directory with --dir or JOBTAPE_DIR",
                path=str(shelf),
            ) from error
        raise


def _add(
    read: dict[str, tuple[Path, ForeignFile]], digest: str, source: Path, target: ForeignFile, report: ImportReport
) -> None:
    if digest in read:
        target.close()
        if target.records:
            report.warnings.append(f"{shown(source)}: same content as {shown(read[digest][0])}, imported once")
        return
    read[digest] = source, target
    report.records += target.records
    report.damaged += target.damaged
    report.foreign += target.foreign
    if not target.records:
        report.warnings.append(f"{shown(source)}: no torchelastic record in it")


def _save(read: dict[str, tuple[Path, ForeignFile]], report: ImportReport) -> None:
    run_ids = {run_id for _, target in read.values() for run_id in target.run_ids}
    only = run_ids.pop() if len(run_ids) == 1 else None
    together = hashlib.sha256("".join(read).encode()).hexdigest()[:8]
    own_name = {NO_RUN_ID: f"{NO_RUN_ID}-import-{together}"}
    counts: dict[tuple[str, str], int] = {}
    for digest, (source, target) in read.items():
        if only is None and not target.run_ids and target.records:
            report.warnings.append(f"{shown(source)}: its records name no run; imported as run {source.stem!r}")
        for run_id, path, count in target.save(digest, only or source.stem, own_name):
            if run_id == NO_RUN_ID:
                own_name[run_id] = path.parent.name
            key = run_id, path.parent.name
            counts[key] = counts.get(key, 0) + count
    report.runs = [(run_id, name, count) for (run_id, name), count in counts.items()]


def _listed(sources: list[Path], at_most: int = 3) -> str:
    names = ", ".join(shown(source) for source in sources[:at_most])
    return names if len(sources) <= at_most else f"{names} and {len(sources) - at_most} more"


def _survey(source: Path, zone: tzinfo | None) -> YearSurvey:
    survey = YearSurvey(zone)
    for _, raw in Lines(source):
        if raw and (found := _stamp_of(raw)) is not None and not survey.see(*found):
            break
    return survey


def _stamp_of(raw: bytes) -> tuple[Stamp, bool] | None:
    """A line's time, and whether the line is one of torch's own."""
    if raw[:1] == b"{":
        time_ns = event_lines.arrival_in(raw)
        return None if time_ns is None else (Stamp(epoch_ns=time_ns), True)
    if (dated := closing_block.is_dated(raw)) is not None:
        return dated, True
    prefix = read_prefix(raw[:400].decode("utf-8", "replace"))
    return None if prefix.stamp is None else (prefix.stamp, "torch" in prefix.writer or prefix.text[:7] == '{"name"')


class _Repeats:
    """Which long lines were met before; of the older ones some are forgotten, so that memory stays bounded."""

    def __init__(self) -> None:
        self._newer: set[int] = set()
        self._older: set[int] = set()

    def see(self, raw: bytes) -> bool:
        """Whether the line was met before."""
        if len(raw) < SHORTEST_REPEAT:
            return False
        key = hash(raw)
        if key in self._newer or key in self._older:
            return True
        if len(self._newer) >= REMEMBERED_LINES:
            self._older, self._newer = self._newer, set()
        self._newer.add(key)
        return False


class _Reading:
    """One file being read."""

    def __init__(self, source: Path, shelf: Path, clock: FileClock) -> None:
        self.target = ForeignFile(source, shelf)
        self._name = source.name
        self._lines = Lines(source)
        self._clock = clock
        self._workers = WorkerOutput()
        self._repeats = _Repeats()
        self._barrier: tuple[BarrierError, EventRecord, int] | None = None

    def read_all(self) -> str:
        """Read the file to its end; the hash of its content."""
        for number, raw in self._lines:
            if raw is None:
                self.target.damaged_line(number)
            elif self._repeats.see(raw) and _stamp_of(raw) is not None:
                # A log rotated or shipped twice: no two records of one process share their time and every word.
                self.target.foreign_line()
            elif raw[:1] == b"{":
                self._end_of_output()
                self._json_line(number, raw)
            elif closing_block.opens(raw) and (block := closing_block.read_block(self._lines, raw, self._clock)):
                self._end_of_output()
                self._closing_block(number, block)
            elif raw:
                self._text_line(number, raw)
        self._end_of_output()
        return self._lines.digest

    def _json_line(self, number: int, raw: bytes) -> None:
        text, intact = _decode(raw)
        self._json(number, text, intact, None)

    def _json(self, number: int, text: str, intact: bool, stamp: Stamp | None) -> None:
        """Import the record, or records, of a text that begins with one; count it when it holds none."""
        decoded = event_lines.decode_object(text)
        if decoded is not None and not text[decoded[1] :].strip():
            if event_lines.is_record(decoded[0]):
                self._event(number, decoded[0], stamp)
            elif intact:
                self.target.foreign_line()
            if not intact:
                self.target.damaged_line(number)
        elif intact and not event_lines.looks_torn(text):
            self.target.foreign_line()
        else:
            found, nothing_else = event_lines.find_records(text)
            for fields, start in found:
                self._event(number, fields, stamp_before(text[:start]) if start else stamp)
            if not (nothing_else and intact):
                self.target.damaged_line(number)

    def _event(self, number: int, fields: dict[str, Any], stamp: Stamp | None) -> None:
        time_ns = None if stamp is None else self._clock.read(stamp)
        record = event_lines.to_record(fields, time_ns, self._origin(number))
        if stamp is None and record.time_ns is not None:
            self._clock.read(Stamp(epoch_ns=record.time_ns))
        self.target.record(record, number, event_lines.run_id_of(fields), event_lines.host_of(record))

    def _text_line(self, number: int, raw: bytes) -> None:
        text, intact = _decode(raw)
        garbage = not intact and (raw[0] == 0 or text[0] == "\ufffd")
        if not intact:
            text = text.replace("\0", "")
        prefix = read_prefix(text)
        if self._barrier is not None and self._barrier[0].take(prefix):
            return
        self._end_of_barrier()
        if prefix.worker or prefix.native:
            self._worker_line(number, prefix)
        elif prefix.text[:1] == "{" and (prefix.stamp or prefix.writer or prefix.level or garbage):
            self._end_of_output()
            self._json(number, prefix.text, intact, prefix.stamp)
        elif garbage:
            self._json(number, text, intact, None)
        elif (reading := read_log_line(prefix)) is not None:
            self._end_of_output()
            self._log_line(number, prefix, *reading)
        elif not intact or event_lines.looks_torn(text):
            self.target.damaged_line(number)
        elif text.strip():
            if prefix.stamp is not None and "torch" in prefix.writer:
                self._clock.read(prefix.stamp)
            self.target.foreign_line()

    def _log_line(self, number: int, prefix: Prefix, name: str, metadata: dict[str, Any]) -> None:
        run_id = metadata.pop("run_id", None)
        record = self._record(number, name, metadata, prefix.stamp)
        if name == "torchelastic.log.barrier_failed":
            self._barrier = BarrierError(prefix, metadata), record, number
        else:
            self.target.record(record, number, run_id)

    def _closing_block(self, number: int, block: closing_block.ClosingBlock) -> None:
        failures = [failure._asdict() for failure in block.failures]
        metadata = {"entrypoint": block.entrypoint, "failures": failures}
        if failures:
            record = self._record(number, "torchelastic.log.root_cause", metadata, None)
            self.target.record(record, number, host=block.failures[0].host)
        if block.cut:
            self.target.damaged_line(number)
        for line in block.damaged:
            self.target.damaged_line(line)

    def _worker_line(self, number: int, prefix: Prefix) -> None:
        if prefix.native and prefix.level in ("E", "F"):
            metadata = {"rank": prefix.rank, "message": prefix.text}
            self.target.record(self._record(number, "torchelastic.log.worker_output", metadata, prefix.stamp), number)
            return
        if prefix.writer:
            self.target.foreign_line()
            return
        taken, done = self._workers.take(number, prefix)
        self._worker_errors(done)
        if not taken:
            self.target.foreign_line()

    def _worker_errors(self, errors: list[WorkerError]) -> None:
        for error in errors:
            metadata: dict[str, Any] = {"rank": error.rank, "message": "\n".join(error.message)}
            if error.local_rank is not None:
                metadata["local_rank"] = error.local_rank
            metadata["traceback"] = "\n".join([*error.traceback, *error.message])
            self.target.record(self._record(error.line, "torchelastic.log.worker_output", metadata, None), error.line)

    def _end_of_output(self) -> None:
        self._worker_errors(self._workers.flush())
        self._end_of_barrier()

    def _end_of_barrier(self) -> None:
        if self._barrier is not None:
            _, record, number = self._barrier
            self._barrier = None
            self.target.record(record, number)

    def _record(self, number: int, name: str, metadata: dict[str, Any], stamp: Stamp | None) -> EventRecord:
        time_ns = None if stamp is None else self._clock.read(stamp)
        return EventRecord(
            seq=0, time_ns=time_ns, name=name, source="AGENT", metadata=metadata, origin=self._origin(number)
        )

    def _origin(self, number: int) -> str:
        return plain_text(f"{self._name}:{number}")


def _decode(raw: bytes) -> tuple[str, bool]:
    """A line's text, and whether it is intact: UTF-8 without NULs."""
    try:
        return raw.decode(), b"\0" not in raw
    except UnicodeDecodeError:
        return raw.decode("utf-8", "replace"), False
