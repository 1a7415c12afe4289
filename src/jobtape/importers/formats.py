"""Which files an import reads, and as what.

A file's format is found out from its content: from the file as a whole where the format is one JSON document, else by
counting the lines that each format knows; most lines win, and of equals the format that stands first in `READERS`.
Directories are walked for files that have a name of one of the formats.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import NamedTuple

from jobtape.errors import ImportFailed
from jobtape.importers import dlrover, error_files, nvrx, torchelastic, torchtitan
from jobtape.importers.foreign import Lines, check, shown
from jobtape.importers.onto_tape import ForeignFile

AUTO = "auto"

Reader = Callable[[Sequence[Path], Path, tzinfo | None], Iterator[tuple[str, Path, ForeignFile]]]

READERS: dict[str, Reader] = {
    "torchelastic": torchelastic.read_files,
    "error-files": error_files.read_files,
    "dlrover": dlrover.read_files,
    "nvrx": nvrx.read_files,
    "torchtitan": torchtitan.read_files,
}
"""Name of a format -> what reads files of it: their paths, the shelf, and the zone of times without one."""

EXPECTED = {
    "torchelastic": "JSON lines of torchelastic events or torchrun's console output",
    "error-files": "error.json files of torch, or a directory of them",
    "dlrover": "events_*.log files of DLRover",
    "nvrx": "cycle_info files and cycle logs of NVRx",
    "torchtitan": "JSONL of torchtitan's structured logger",
}

_LINES: dict[str, Callable[[bytes], bool]] = {
    "torchelastic": torchelastic.fits,
    "dlrover": dlrover.fits,
    "nvrx": nvrx.fits,
    "torchtitan": torchtitan.fits,
}

HEAD_LINES = 2_000
"""Lines that are looked at to tell formats apart."""
HEAD_BYTES = 64 << 20
"""Bytes in which the first line of a known format must stand."""
WHOLE_BYTES = 4 << 20
"""A larger file is no single document of any format."""
MOST_FILES = 200_000
"""Entries of directories that are looked at in one import."""
DEEPEST = 16
"""Directories within one another that are looked into."""

_TAPE = b'{"kind":"header"'
_NAMES = re.compile(
    r".*error.*\.json|events_.*\.log|cycle_info\..+|.*\.jsonl|.*\.log(\.\d+)?|.*\.(out|err|txt)|std(out|err)", re.DOTALL
)


class Guess(NamedTuple):
    """What a file is: its format, None when it is of none; and other formats that it holds lines of."""

    format: str | None
    also: tuple[str, ...] = ()


class Sources(NamedTuple):
    """The files of an import and what each is read as."""

    formats: dict[Path, str]
    passed_over: int
    warnings: list[str]


def find_sources(given: Sequence[Path], format_: str, shelf: Path) -> Sources:
    """The files that were named, and those in the directories that were.

    A named file of no known format is read as torchelastic's, the most tolerant one.

    Raises:
        ImportFailed: a file that was named cannot be read, or a directory holds too many files.
    """
    formats: dict[Path, str] = {}
    warnings: list[str] = []
    passed_over = 0
    seen: set[str] = set()
    for path in given:
        named = not path.is_dir()
        for file in [path] if named else walk(path, shelf):
            real = os.path.realpath(file)
            if real in seen:
                continue
            seen.add(real)
            if named:
                check(file)
            found = guess(file) if format_ == AUTO or not named else Guess(format_)
            if found.format is None and named:
                found = Guess("torchelastic")
            if found.format is None or (not named and format_ not in (AUTO, found.format)):
                passed_over += 1
                continue
            formats[file] = found.format if format_ == AUTO else format_
            if found.also and format_ == AUTO:
                also = " and ".join(found.also)
                warnings.append(f"{shown(file)}: read as {found.format}; it holds lines of {also} too")
    return Sources(formats, passed_over, warnings)


def walk(directory: Path, shelf: Path) -> Iterator[Path]:
    """The regular files below a directory that have a name of a known format, in the order of their names.

    Links are not followed; the shelf is left out.

    Raises:
        ImportFailed: the directory cannot be read, or holds too many files.
    """

    def refuse(error: OSError) -> None:
        if error.filename == str(directory):
            reason = error.strerror or error
            raise ImportFailed(f"cannot read {shown(directory)}: {reason}", path=str(directory)) from error

    ours = os.path.realpath(shelf)
    looked_at = 0
    depth = len(directory.parts)
    for folder, folders, names in os.walk(directory, onerror=refuse):
        here = Path(folder)
        folders[:] = sorted(f for f in folders if os.path.realpath(here / f) != ours)
        if len(here.parts) - depth >= DEEPEST:
            folders.clear()
        looked_at += len(names) + len(folders)
        if looked_at > MOST_FILES:
            raise ImportFailed(
                f"{shown(directory)} holds more than {MOST_FILES} files: name the directories that hold the records",
                path=str(directory),
            )
        for name in sorted(names):
            file = here / name
            if _NAMES.fullmatch(name) and file.is_file() and not file.is_symlink():
                yield file


def guess(path: Path) -> Guess:
    """What a file is, by its content; of a file that cannot be read: nothing.

    Only where content does not tell, of a worker's output in torchrun's ``--log-dir``, its place does.
    """
    if error_files.is_output(path):
        return Guess("error-files")
    counts: Counter[str] = Counter()
    size = 0
    try:
        whole = path.stat().st_size <= WHOLE_BYTES
        for number, raw in Lines(path):
            if number == 1 and raw is not None:
                if raw.startswith(_TAPE):
                    return Guess(None)
                if whole and raw.lstrip()[:1] == b"{" and (name := _document(path)) is not None:
                    return Guess(name)
            size += len(raw or b"") + 1
            if (counts and number > HEAD_LINES) or size > HEAD_BYTES:
                break
            counts.update(name for name, fits in _LINES.items() if raw and fits(raw))
    except (ImportFailed, OSError):
        return Guess(None)
    if nvrx.is_cycle_log(path) and not counts:
        return Guess("nvrx")
    ranked = sorted(counts, key=lambda name: (-counts[name], list(READERS).index(name)))
    return Guess(ranked[0], tuple(ranked[1:])) if ranked else Guess(None)


def _document(path: Path) -> str | None:
    """The format of a file that is one JSON document."""
    content = path.read_bytes()
    return "error-files" if error_files.fits(content) else "nvrx" if nvrx.fits_document(content) else None
