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
from typing import BinaryIO, NamedTuple, cast

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
    formats: list[tuple[str, str]] = field(default_factory=list)
    """Each file and the format it was read as."""
    guessed: bool = False
    """Whether the formats were found out from the files."""
    passed_over: int = 0
    """Files in directories that are of no known format."""
    records: int = 0
    damaged: int = 0
    foreign: int = 0
    warnings: list[str] = field(default_factory=list)


class Writer(NamedTuple):
    """The process of the job that wrote a foreign file, where the file is its own.

    Attributes:
        ended: the file says that the process came to its own end.
    """

    rank: int | None
    local_rank: int | None = None
    pid: int | None = None
    host: str = ""
    ended: bool = False


class _RunPart:
    """The records of one run out of one file."""

    def __init__(self, spool_dir: Path) -> None:
        spool = tempfile.SpooledTemporaryFile(IN_MEMORY, dir=str(spool_dir))  # noqa: SIM115 - closed in `close`
        self.body = cast(BinaryIO, spool)
        self.count = 0
        self.first_ns: int | None = None
        self.hosts: Counter[str] = Counter()
        self.damaged = 0
        self.shown: list[str] = []
        self.foreign = 0

    def write(self, record: EventRecord | RdzvRecord, line: int, host: str | None) -> None:
        record.seq = self.count + 1
        encoded = encode(record)
        if len(encoded) > MAX_LINE_BYTES:
            self.lose(record.origin or str(line))
            return
        self.count += 1
        if record.time_ns is not None and (self.first_ns is None or record.time_ns < self.first_ns):
            self.first_ns = record.time_ns
        if host:
            self.hosts[host] += 1
        self.body.write(encoded + b"\n")

    def lose(self, place: str) -> None:
        self.damaged += 1
        if len(self.shown) < SHOWN_LINES:
            self.shown.append(place)


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
    """One file's records on their way to the shelf.

    Args:
        source: the file.
        shelf: the directory of runs.
        stem: what the tape file's name begins with; the source's own name when it is None.
        replaces: whether earlier imports under that stem into the same run are replaced, whatever was in them.

    Attributes:
        writer: the process whose own file it is; its tape is then that worker's.
        likely_run_id: the run it is of, unless the files imported with it name another one.
    """

    def __init__(self, source: Path, shelf: Path, *, stem: str | None = None, replaces: bool = False) -> None:
        self._source = source
        self._shelf = shelf
        self._stem = safe_name(source.stem if stem is None else stem)
        self._replaces = replaces
        self.writer: Writer | None = None
        self.likely_run_id: str | None = None
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

    def damaged_line(self, line: int, name: str | None = None) -> None:
        """Count a line that is damaged or cut off, in the file of that name where there are several."""
        self._part().lose(f"{self._source.name if name is None else name}:{line}")

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
        saved = []
        for run_id, part in self._parts.items():
            if not part.count:
                continue
            name = own_name.get(run_id, safe_name(run_id))
            older = self._earlier(f"{safe_name(run_id)}-import-*" if run_id in own_name else name, digest, part)
            directory = older[0].parent if older else self._shelf / name
            path = directory / f"{self._stem}-import-{digest[:8]}.jsonl"
            self._write(path, run_id, part)
            for file in older:
                if file != path:
                    file.unlink(missing_ok=True)
            saved.append((run_id, path, part.count))
        self.close()
        return saved

    def _earlier(self, directory: str, digest: str, part: _RunPart) -> list[Path]:
        files = sorted(self._shelf.glob(f"{directory}/{self._stem}-import-*.jsonl"))
        renamed = sorted(set(self._shelf.glob(f"{directory}/*-import-{digest[:8]}.jsonl")) - set(files))
        grown = [f for f in files if not f.is_symlink() and (self._replaces or grown_from(f, part.body))]
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
        if self.writer is not None:
            _name_writer(header, self.writer)
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
            detail = plain_text(", ".join(part.shown))
            if part.damaged > len(part.shown):
                detail += f", and {part.damaged - len(part.shown)} more"
            yield encode(LossRecord(seq=seq, reason="damaged_line", count=part.damaged, detail=detail)) + b"\n"
        if part.foreign:
            seq += 1
            yield encode(LossRecord(seq=seq, reason="foreign_line", count=part.foreign)) + b"\n"
        if self.writer is None or self.writer.ended:
            # A worker's tape that is not closed tells of a process that may have been killed.
            yield encode(CloseRecord(seq=seq + 1, reason="imported", recorded=part.count, lost=part.damaged)) + b"\n"


def _name_writer(header: Header, writer: Writer) -> None:
    header.role = "worker"
    header.pid = writer.pid or 0
    if writer.host:
        header.host, header.host_from = plain_text(writer.host), "records"
    ranks = (("RANK", writer.rank), ("LOCAL_RANK", writer.local_rank))
    header.ranks = {name: str(rank) for name, rank in ranks if rank is not None}
