"""Reads a tape file and keeps every intact record of it, whatever happened to the rest.

The fast way decodes a block of whole lines at once. A block in which anything is odd is read again line by line, and a
line that is no record goes to `jobtape.tape.salvage`, which finds the records in it. Nothing a file holds makes the
reader raise; only a file that cannot be opened does.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from jobtape.errors import TapeError
from jobtape.tape.names import shown
from jobtape.tape.records import CloseRecord, EventRecord, Header, Known, LossRecord, RdzvRecord, Record
from jobtape.tape.salvage import salvage
from jobtape.tape.values import decode_value

MAX_LINE_BYTES = 64 * 1024 * 1024
MAX_STACKS_BYTES = 256 * 1024

_BLOCK_BYTES = 1024 * 1024
_MAX_SEQ = 2**53
_MIN_FRAGMENT_BYTES = 64
"""A shorter beginning of a line does not show, by its time, that it is the same record as the next line's."""

decode_lines = msgspec.json.Decoder(Known).decode_lines


@dataclass(frozen=True)
class Damage:
    """What could not be read: the line, counted from 1 (0: the file as such), and why."""

    line: int
    reason: str


@dataclass
class TapeFile:
    """What a tape file holds.

    Attributes:
        records: every record but the header, in file order; ``lines`` are their lines, counted from 1.
        missing: sequence numbers below the highest that no record has.
        closed: whether the closing record is there.
        torn: whether the last line lacks its LF: its writer was stopped, or is writing, right there.
        stacks: text of the sidecar ``<stem>.stacks``, at most 256 KiB; empty when there is none.
        stacks_ns: when the sidecar was last written, unix nanoseconds; 0 when there is none. It is the moment of a
            crash as long as nobody has copied the file without its time.
    """

    path: Path
    header: Header | None = None
    records: list[Record] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)
    missing: int = 0
    closed: bool = False
    torn: bool = False
    stacks: str = ""
    stacks_ns: int = 0

    def blocks(self) -> Iterator[tuple[list[Record], Sequence[int]]]:
        """The records with their lines, piece by piece."""
        yield self.records, self.lines

    def notes(self) -> list[Record]:
        """The records on losses and on the end of the file."""
        return [record for record in self.records if type(record) is LossRecord or type(record) is CloseRecord]


def read_tape(path: str | Path) -> TapeFile:
    """Read a tape file.

    Raises:
        TapeError: it cannot be opened, or is no regular file. Links are not followed.
    """
    path = Path(path)
    tape = TapeFile(path)
    fd = open_regular(path)
    try:
        reading = _Reading(tape)
        for block in _blocks(fd, tape):
            if block is None:
                reading.skipped()
            else:
                reading.block(block)
    finally:
        os.close(fd)
    _count_missing(tape)
    tape.stacks, tape.stacks_ns = read_stacks(path)
    return tape


def read_header(path: str | Path) -> Header | None:
    """The header of a tape file, read from its first line alone; None when that line is none.

    Raises:
        TapeError: as `read_tape`.
    """
    fd = open_regular(Path(path))
    try:
        first, _, _ = os.read(fd, _BLOCK_BYTES).partition(b"\n")
    except OSError:
        return None
    finally:
        os.close(fd)
    found = salvage(first.removeprefix(b"\xef\xbb\xbf")).records
    return found[0] if found and isinstance(found[0], Header) else None


def open_regular(path: Path) -> int:
    """A descriptor for reading a regular file, never through a link and never waiting (a FIFO)."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        if getattr(error, "errno", None) == errno.ELOOP:
            reason = "it is a symbolic link, which is not followed"
        raise TapeError(f"cannot read {shown(path)}: {reason}", path=str(path)) from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise TapeError(f"cannot read {shown(path)}: it is not a regular file", path=str(path))
    return fd


class _Reading:
    """Where the reader is in a file, and what it found so far."""

    def __init__(self, tape: TapeFile) -> None:
        self.tape = tape
        self.line = 1
        self._fragment = b""

    def block(self, block: bytes) -> None:
        """Read a block of whole lines, or the cut end of the file."""
        if self.line == 1:
            first = block.find(b"\n") + 1 or len(block)
            self._one_by_one(block[:first].removeprefix(b"\xef\xbb\xbf"))
            block = block[first:]
        count = block.count(b"\n")
        try:
            records: list[Any] = decode_lines(block)
        except Exception:  # noqa: BLE001 - DecodeError, RecursionError, whatever hostile bytes provoke
            records = []
        if len(records) != count or self._fragment or not block.endswith(b"\n"):
            self._one_by_one(block)
            return
        kinds = set(map(type, records))
        # a search for one byte is many times faster than for three
        if Header in kinds or (b"$" in block and b'{"$' in block):
            for index, record in enumerate(records):
                self._keep(record, self.line + index)
        else:
            self.tape.closed = self.tape.closed or CloseRecord in kinds
            self.tape.records += records
            self.tape.lines += range(self.line, self.line + count)
        self.line += count

    def skipped(self) -> None:
        """A line too long to be read has passed."""
        self.tape.damage.append(Damage(self.line, f"a line of more than {MAX_LINE_BYTES} bytes"))
        self.line += 1

    def _one_by_one(self, block: bytes) -> None:
        lines = block.split(b"\n")
        is_cut = bool(lines[-1])
        if not is_cut:
            lines.pop()
        for text in lines:
            if self._fragment and text.startswith(self._fragment):
                # the writer wrote a line again that had been cut: nothing is lost
                self.tape.damage.pop()
            self._fragment = b""
            found = salvage(text)
            for record in found.records:
                self._keep(record, self.line)
            if found.damage:
                self.tape.damage.append(Damage(self.line, found.damage))
                self._fragment = text if len(text) >= _MIN_FRAGMENT_BYTES and not found.records else b""
            self.line += 1
        if is_cut:
            self.tape.torn = True
            if found.damage and not found.records and text.strip(b"\0"):
                self.tape.damage[-1] = Damage(self.line - 1, "cut off at the end of the file")

    def _keep(self, record: Record, line: int) -> None:
        tape = self.tape
        if isinstance(record, Header):
            if tape.header is None:
                tape.header = record
            else:
                tape.damage.append(Damage(line, "a second header"))
            return
        if isinstance(record, EventRecord):
            record.metadata = _decoded(record.metadata)
            record.extra = _decoded(record.extra)
        elif isinstance(record, RdzvRecord):
            record.extra = _decoded(record.extra)
        elif isinstance(record, CloseRecord):
            tape.closed = True
        tape.records.append(record)
        tape.lines.append(line)


def _decoded(metadata: dict[str, Any]) -> dict[str, Any]:
    for value in metadata.values():
        if value.__class__ is dict or value.__class__ is list:
            return {key: decode_value(item) for key, item in metadata.items()}
    return metadata


def _blocks(fd: int, tape: TapeFile) -> Iterator[bytes | None]:
    """Blocks that end with a LF, perhaps the cut end of the file, and None for a line too long to be one."""
    parts: list[bytes] = []
    size = 0
    skipping = False
    while True:
        try:
            chunk = os.read(fd, _BLOCK_BYTES)
        except OSError as error:
            tape.damage.append(Damage(0, f"reading stopped: {error.strerror}"))
            chunk = b""
        if not chunk:
            break
        if skipping:
            first = chunk.find(b"\n") + 1
            if not first:
                continue
            skipping = False
            yield None
            chunk = chunk[first:]
        cut = chunk.rfind(b"\n") + 1
        if cut:
            parts.append(chunk[:cut])
            yield b"".join(parts)
            parts, size = [], 0
            chunk = chunk[cut:]
        if chunk:
            parts.append(chunk)
            size += len(chunk)
        if size > MAX_LINE_BYTES:
            parts, size, skipping = [], 0, True
    if skipping:
        tape.torn = True
        yield None
    elif parts:
        yield b"".join(parts)


def _count_missing(tape: TapeFile) -> None:
    """Gaps as a set difference: lines of two threads may stand in either order."""
    first = tape.header.seq if tape.header is not None else 0
    seqs = [record.seq for record in tape.records]
    if first + len(seqs) < _MAX_SEQ and seqs == list(range(first + 1, first + 1 + len(seqs))):
        return
    seen = set(seqs)
    if len(seen) != len(seqs):
        _drop_repeats(tape)
    strange = {seq for seq in seen if not first <= seq < _MAX_SEQ}
    for record, line in zip(tape.records, tape.lines, strict=True) if strange else ():
        if record.seq in strange:
            tape.damage.append(Damage(line, f"sequence number {record.seq} cannot be"))
    seen -= strange
    seen.add(first)
    tape.missing = max(seen) - first + 1 - len(seen)


def _drop_repeats(tape: TapeFile) -> None:
    """A file system that repeats an append it thought lost (NFS) leaves a line twice; one is kept."""
    first_of: dict[int, Record] = {}
    keep: list[int] = []
    for index, record in enumerate(tape.records):
        if first_of.setdefault(record.seq, record) is record:
            keep.append(index)
        elif first_of[record.seq] == record:
            tape.damage.append(Damage(tape.lines[index], f"record {record.seq} is there twice"))
        else:
            keep.append(index)
            tape.damage.append(Damage(tape.lines[index], f"two records have the number {record.seq}"))
    tape.records = [tape.records[index] for index in keep]
    tape.lines = [tape.lines[index] for index in keep]


def read_stacks(path: Path) -> tuple[str, int]:
    """The text of a tape file's sidecar, and when it was written last; nothing where there is none."""
    try:
        fd = open_regular(path.with_suffix(".stacks"))
    except TapeError:
        return "", 0
    try:
        return os.read(fd, MAX_STACKS_BYTES).decode("utf-8", "replace"), os.fstat(fd).st_mtime_ns
    except OSError:
        return "", 0
    finally:
        os.close(fd)
