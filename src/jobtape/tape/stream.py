"""Reads a large tape file in one go, keeping none of its records: for files in which nothing is odd.

A record that is looked at while it is still in the processor's cache costs half of one that is looked at after all
others have been read. Whatever would need a second look at an earlier record ends the stream with `Odd`; the file is
then read again by `jobtape.tape.reader.read_tape`, which takes everything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobtape.tape.reader import TapeFile, decode_lines, open_regular, read_stacks
from jobtape.tape.records import CloseRecord, Header, LossRecord, Record

CHUNK_BYTES = 64 * 1024

_MAX_SEQ = 2**53


class Odd(Exception):
    """The file cannot be read as a stream."""


@dataclass
class StreamedTape(TapeFile):
    """A tape file whose records pass by once, in `blocks`; what is true of the whole file is known after the last."""

    _fd: int = -1
    _notes: list[Record] = field(default_factory=list)

    def notes(self) -> list[Record]:
        """The records on losses and on the end of the file, as far as it has been read."""
        return self._notes

    def blocks(self) -> Iterator[tuple[list[Record], Sequence[int]]]:
        """The records with their lines, piece by piece; once.

        Raises:
            Odd: something is not as it should be, in this piece or in the file.
        """
        line, seqs = 2, [0]
        try:
            for chunk in self._chunks():
                if b"$" in chunk and b'{"$' in chunk:
                    raise Odd
                try:
                    records: list[Any] = decode_lines(chunk)
                except Exception as error:
                    raise Odd from error
                kinds = set(map(type, records))
                if len(records) != chunk.count(b"\n") or Header in kinds:
                    raise Odd
                if LossRecord in kinds or CloseRecord in kinds:
                    self._notes += [r for r in records if type(r) is LossRecord or type(r) is CloseRecord]
                    self.closed = self.closed or CloseRecord in kinds
                seqs += [record.seq for record in records]
                yield records, range(line, line + len(records))
                line += len(records)
        finally:
            self.close()
        if seqs != list(range(len(seqs))):
            self._count_missing(seqs)

    def close(self) -> None:
        """Read no further."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _chunks(self) -> Iterator[bytes]:
        """Pieces of whole lines."""
        rest = b""
        while chunk := os.read(self._fd, CHUNK_BYTES):
            end = chunk.rfind(b"\n") + 1
            if not end:
                # a line longer than a chunk
                raise Odd
            yield rest + chunk[:end]
            rest = chunk[end:]
        if rest:
            raise Odd

    def _count_missing(self, seqs: list[int]) -> None:
        """Lines of two threads may stand in either order, and some may be missing; repeated ones are for others."""
        seen = set(seqs)
        if len(seen) != len(seqs) or min(seen) < 0 or max(seen) >= _MAX_SEQ:
            raise Odd
        self.missing = max(seen) + 1 - len(seen)


def stream_tape(path: Path) -> StreamedTape | None:
    """A tape file to be read once; None when its beginning is odd already.

    Raises:
        TapeError: it cannot be opened, or is no regular file.
    """
    tape = StreamedTape(path, _fd=open_regular(path))
    header, size = _read_header(tape._fd)
    if header is None or header.seq != 0:
        tape.close()
        return None
    os.lseek(tape._fd, size, os.SEEK_SET)
    tape.header = header
    tape.stacks, tape.stacks_ns = read_stacks(path)
    return tape


def _read_header(fd: int) -> tuple[Header | None, int]:
    """The header, and how many bytes its line has."""
    try:
        line, end, _ = os.read(fd, CHUNK_BYTES).partition(b"\n")
        found = decode_lines(line) if end else []
    except Exception:  # noqa: BLE001 - DecodeError, RecursionError, whatever hostile bytes provoke
        return None, 0
    return (found[0] if len(found) == 1 and isinstance(found[0], Header) else None), len(line) + 1
