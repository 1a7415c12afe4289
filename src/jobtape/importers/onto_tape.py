"""Foreign records written onto the shelf: one tape file for each file that was read and each run found in it.

What every importer shares: records come in the order of their file; a record that names no run belongs to the run of
the one before it, at the start of a file to the first one named; lines that could not be read are counted; and a tape
file appears whole, under a name made of the source's name and its content's hash, so that another import replaces it.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

import jobtape
from jobtape.importers.earlier import grown_from
from jobtape.tape.names import safe_name
from jobtape.tape.records import CloseRecord, EventRecord, Header, LossRecord, RdzvRecord, encode
from jobtape.tape.values import plain_text
from jobtape.tape.writer import MAX_LINE_BYTES

IN_MEMORY = 4 << 20
SHOWN_LINES = 20
"""Damaged lines that a loss record names; the others are only counted."""


@dataclass
class ImportReport:
    """What an import did."""

    runs: list[tuple[str, str, int]] = field(default_factory=list)
    """Run id, name of its directory, and the records imported, for each run."""
    files: int = 0
    records: int = 0
    damaged: int = 0
    foreign: int = 0
    warnings: list[str] = field(default_factory=list)


class _RunPart:
    """The records of one run out of one file."""

    def __init__(self, spool_dir: Path) -> None:
        spool = tempfile.SpooledTemporaryFile(IN_MEMORY, dir=str(spool_dir))  # noqa: SIM115 - closed in `close`
        self.body = cast(BinaryIO, spool)
        self.count = 0
        self.first_ns: int | None = None
        self.hosts: Counter[str] = Counter()
        self.damaged = 0
        self.shown: list[int] = []
        self.foreign = 0

    def write(self, record: EventRecord | RdzvRecord, line: int, host: str | None) -> None:
        record.seq = self.count + 1
        encoded = encode(record)
        if len(encoded) > MAX_LINE_BYTES:
            self.lose(line)
            return
        self.count += 1
        if record.time_ns is not None and (self.first_ns is None or record.time_ns < self.first_ns):
            self.first_ns = record.time_ns
        if host:
            self.hosts[host] += 1
        self.body.write(encoded + b"\n")

    def lose(self, line: int) -> None:
        self.damaged += 1
        if len(self.shown) < SHOWN_LINES:
            self.shown.append(line)


def _pids_of(record: EventRecord | RdzvRecord) -> Iterator[int]:
    """The processes a record names: the agent that wrote it, then the worker it is about."""
    if isinstance(record, RdzvRecord):
        yield record.pid
        return
    for key in ("agent_pid", "pid", "worker_id"):
        value = record.metadata.get(key)
        if isinstance(value, str) and value.isascii() and value.isdigit():
            yield int(value[:18])
        elif isinstance(value, int):
            yield value


class ForeignFile:
    """One file's records on their way to the shelf."""

    def __init__(self, source: Path, shelf: Path) -> None:
        self._source = source
        self._shelf = shelf
        self._parts: dict[str, _RunPart] = {}
        self._current: str | None = None
        self._early = _RunPart(shelf)  # what came before the first run id
        self._run_of_pid: dict[int, str] = {}

    @property
    def run_ids(self) -> list[str]:
        """The runs its records name, in the order they were met."""
        return list(self._parts)

    @property
    def records(self) -> int:
        """How many records were found."""
        return sum(part.count for part in self._all())

    @property
    def damaged(self) -> int:
        """How many lines were damaged."""
        return sum(part.damaged for part in self._all())

    @property
    def foreign(self) -> int:
        """How many lines were none of a record."""
        return sum(part.foreign for part in self._all())

    def record(
        self, record: EventRecord | RdzvRecord, line: int, run_id: str | None = None, host: str | None = None
    ) -> None:
        """Add the record found in that line, of that run.

        A record that names no run belongs to the run of the process it names, else to that of the records around it.
        """
        pids = list(_pids_of(record))
        if run_id is None and len(self._parts) > 1:
            run_id = next((self._run_of_pid[pid] for pid in pids if pid in self._run_of_pid), None)
        elif run_id is not None:
            self._run_of_pid.update(dict.fromkeys(pids, run_id))
        if run_id is not None:
            self._enter(run_id)
        self._part().write(record, line, host)

    def damaged_line(self, line: int) -> None:
        """Count a line that is damaged or cut off."""
        self._part().lose(line)

    def foreign_line(self) -> None:
        """Count a line that is none of a record."""
        self._part().foreign += 1

    def _part(self) -> _RunPart:
        return self._early if self._current is None else self._parts[self._current]

    def _enter(self, run_id: str) -> None:
        if run_id not in self._parts:
            # the first run of a file gets what came before it; its records are numbered already
            self._parts[run_id] = self._early if not self._parts else _RunPart(self._shelf)
        self._current = run_id

    def save(self, digest: str, default_run_id: str, own_name: Mapping[str, str]) -> list[tuple[str, Path, int]]:
        """Write the tape files; the run id, path and number of records of each.

        Args:
            digest: hash of the file's content, in hexadecimal digits.
            default_run_id: the run of a file whose records name none.
            own_name: directories' names for run ids that do not tell one run from another.

        Raises:
            OSError: the shelf cannot be written.
        """
        if not self._parts and self._early.count:
            self._parts[default_run_id] = self._early
        stem = safe_name(self._source.stem)
        saved = []
        for run_id, part in self._parts.items():
            if not part.count:
                continue
            name = own_name.get(run_id, safe_name(run_id))
            older = self._earlier(f"{safe_name(run_id)}-import-*" if run_id in own_name else name, stem, digest, part)
            directory = older[0].parent if older else self._shelf / name
            path = directory / f"{stem}-import-{digest[:8]}.jsonl"
            self._write(path, run_id, part)
            for file in older:
                if file != path:
                    file.unlink(missing_ok=True)
            saved.append((run_id, path, part.count))
        self.close()
        return saved

    def _earlier(self, directory: str, stem: str, digest: str, part: _RunPart) -> list[Path]:
        files = sorted(self._shelf.glob(f"{directory}/{stem}-import-*.jsonl"))
        renamed = sorted(set(self._shelf.glob(f"{directory}/*-import-{digest[:8]}.jsonl")) - set(files))
        grown = [file for file in files if not file.is_symlink() and grown_from(file, part.body)]
        return grown + [file for file in renamed if not file.is_symlink()]

    def close(self) -> None:
        """Give up what was not saved."""
        for part in self._all():
            part.body.close()

    def _all(self) -> list[_RunPart]:
        return list(self._parts.values()) or [self._early]

    def _write(self, path: Path, run_id: str, part: _RunPart) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.parent.is_symlink():
            raise OSError(errno.ELOOP, f"{path.parent.name} in it is a link, which is not followed")
        header = Header(
            time_ns=part.first_ns,
            run_id=run_id,
            host=plain_text(part.hosts.most_common(1)[0][0]) if part.hosts else "",
            host_from="records" if part.hosts else "",
            role="import",
            jobtape=jobtape.__version__,
            source_file=plain_text(self._source.name),
        )
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(encode(header) + b"\n")
                part.body.seek(0)
                shutil.copyfileobj(part.body, file, 1 << 20)
                file.writelines(self._end(part))
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def _end(self, part: _RunPart) -> Iterable[bytes]:
        seq = part.count
        if part.damaged:
            seq += 1
            name = plain_text(self._source.name)
            detail = ", ".join(f"{name}:{line}" for line in part.shown)
            if part.damaged > len(part.shown):
                detail += f", and {part.damaged - len(part.shown)} more"
            yield encode(LossRecord(seq=seq, reason="damaged_line", count=part.damaged, detail=detail)) + b"\n"
        if part.foreign:
            seq += 1
            yield encode(LossRecord(seq=seq, reason="foreign_line", count=part.foreign)) + b"\n"
        yield encode(CloseRecord(seq=seq + 1, reason="imported", recorded=part.count, lost=part.damaged)) + b"\n"
