"""Foreign text files: checked when opened, cut into lines at LF and nowhere else.

A log of a crashed job holds anything: U+2028 and carriage returns in error messages, NUL bytes where a file system lost
a block, one line of 100 MB. Nothing here raises on any of it; what is no file of lines at all is an `ImportFailed`.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from jobtape.errors import ImportFailed

LONGEST_LINE = 64 << 20
"""Bytes a line may have; a longer one is counted as damaged and not kept in memory."""

_PACKED = (
    (b"\x1f\x8b", "gzip", "gunzip it first"),
    (b"\x28\xb5\x2f\xfd", "zstd", "unpack it with `zstd -d` first"),
    (b"\xfd7zXZ\x00", "xz", "unpack it with `unxz` first"),
    (b"BZh", "bzip2", "unpack it with `bunzip2` first"),
    (b"PK\x03\x04", "zip", "unzip it first"),
    (b"\xff\xfe", "UTF-16", "convert it with `iconv -f UTF-16 -t UTF-8` first"),
    (b"\xfe\xff", "UTF-16", "convert it with `iconv -f UTF-16 -t UTF-8` first"),
)


def check(path: Path) -> None:
    """Refuse what cannot be read as a file of text lines.

    Raises:
        ImportFailed: missing, unreadable, not a regular file, or compressed; the message says what to do.
    """
    try:
        with _open(path) as file:
            start = file.read(8)
    except OSError as error:
        raise ImportFailed(f"cannot read {shown(path)}: {_reason(error)}", path=str(path)) from error
    for magic, name, advice in _PACKED:
        if start.startswith(magic):
            packed = "written in" if name == "UTF-16" else "compressed with"
            raise ImportFailed(f"{shown(path)} is {packed} {name}: {advice}", path=str(path))


def _open(path: Path) -> BinaryIO:
    try:
        # Without O_NONBLOCK opening a FIFO would wait for a writer that may never come.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise ImportFailed(f"cannot read {shown(path)}: {_reason(error)}", path=str(path)) from error
    except ValueError as error:
        raise ImportFailed(f"cannot read {shown(path)}: {error}", path=str(path)) from error
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb", buffering=1 << 18)
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise ImportFailed(f"{shown(path)} is a directory: name the files in it", path=str(path))
    raise ImportFailed(
        f"{shown(path)} is not a regular file: save what it gives to a file and import that", path=str(path)
    )


def _reason(error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return "there is no such file"
    if error.errno == errno.EACCES:
        return "permission denied; ask its owner for read access"
    return error.strerror or str(error)


def shown(path: Path) -> str:
    """The path on one line and harmless to a terminal."""
    text = str(path)
    return text if text.isprintable() else repr(text)


_COLOURS = re.compile(rb"\x1b\[[0-9;:?]{0,20}[A-Za-z]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)")


def without_colours(raw: bytes) -> bytes:
    """A line without what only a terminal understands: a tool may have coloured each line as a whole."""
    return _COLOURS.sub(b"", raw) if b"\x1b" in raw else raw


class Lines:
    """The lines of a file with their numbers, from 1; ``None`` stands for one longer than `LONGEST_LINE`.

    Colours and the trailing LF, or CR LF, are taken off. Lines handed back by `push_back` come again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._digest = hashlib.sha256()
        self._again: deque[tuple[int, bytes | None]] = deque()
        self._lines = self._read()

    def __iter__(self) -> Iterator[tuple[int, bytes | None]]:
        return self

    def __next__(self) -> tuple[int, bytes | None]:
        if self._again:
            return self._again.popleft()
        return next(self._lines)

    def push_back(self, lines: list[tuple[int, bytes | None]]) -> None:
        """Give lines again that were read too far, in their order."""
        self._again.extendleft(reversed(lines))

    @property
    def digest(self) -> str:
        """Hash of all bytes read so far, in hexadecimal digits."""
        return self._digest.hexdigest()

    def _read(self) -> Iterator[tuple[int, bytes | None]]:
        number = 0
        with _open(self._path) as file:
            try:
                while raw := file.readline(LONGEST_LINE):
                    self._digest.update(raw)
                    number += 1
                    if raw[-1] == 10:
                        raw = raw[:-1]
                    elif len(raw) == LONGEST_LINE:
                        self._skip_line(file)
                        yield number, None
                        continue
                    raw = without_colours(raw)
                    if raw[-1:] == b"\r":
                        raw = raw[:-1]
                    yield number, raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
            except OSError as error:
                raise ImportFailed(
                    f"cannot read {shown(self._path)} beyond line {number}: {_reason(error)}",
                    path=str(self._path),
                    line=number,
                ) from error

    def _skip_line(self, file: BinaryIO) -> None:
        while raw := file.readline(1 << 20):
            self._digest.update(raw)
            if raw[-1] == 10:
                return
