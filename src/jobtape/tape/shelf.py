"""The shelf: a directory of runs, each a directory of tape files.

Only headers are read to list it. Links are not followed and foreign files are left alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jobtape.errors import AmbiguousRun, RunNotFound, TapeError
from jobtape.tape.names import shown
from jobtape.tape.reader import Damage, TapeFile, read_header, read_tape
from jobtape.tape.records import Header

DEFAULT_DIR = "jobtape"
LATEST = "latest"

_OUR_FILE = re.compile(r".+-(?:\d+-(?P<start>\d{8}T\d{9})|import-[0-9a-f]{8})\.jsonl", re.DOTALL)
_HEADERS_READ = 16
"""Headers read of one run to list it: of the files that by their names began first."""


@dataclass(frozen=True)
class ShelfRun:
    """A run on the shelf.

    Attributes:
        name: the name of its directory.
        run_id: the run id as the user gave it; the name when no header could be read.
        started_ns: unix time of the first record of its first file; None when no header says one (imports).
        files: its tape files, sorted by name.
        order_ns: what runs are ordered by: the start, else when the files were last written.
    """

    name: str
    run_id: str
    path: Path
    started_ns: int | None
    files: tuple[Path, ...]
    order_ns: int = 0


def shelf_dir(given: str | Path | None = None) -> Path:
    """The directory of runs: the one given, else ``JOBTAPE_DIR``, else ``./jobtape``."""
    return Path(given or os.environ.get("JOBTAPE_DIR") or DEFAULT_DIR)


def list_runs(directory: str | Path) -> list[ShelfRun]:
    """The runs on a shelf, oldest first; directories that cannot be read are left out.

    Raises:
        TapeError: the shelf is missing, unreadable or no directory, or has only runs that cannot be read.
    """
    runs, unreadable = _list(Path(directory))
    if unreadable and not runs:
        raise _all_unreadable(Path(directory), unreadable)
    return runs


def find_run(directory: str | Path, text: str | None = None) -> ShelfRun:
    """The run a user means: a directory name, a run id (its newest), a unique prefix of either, or the latest.

    Raises:
        TapeError: the shelf cannot be read or has no run on it.
        RunNotFound: there are runs, but not that one.
        AmbiguousRun: the prefix fits several.
    """
    directory = Path(directory)
    runs, unreadable = _list(directory)
    if text is not None and text in unreadable:
        raise TapeError(f"cannot read {shown(directory / text)}: {unreadable[text]}", path=str(directory / text))
    if not runs and unreadable:
        raise _all_unreadable(directory, unreadable)
    if not runs:
        raise TapeError(f"no tape in {shown(directory)}: {_ADVICE}", path=str(directory))
    if text is None or text == LATEST:
        return runs[-1]
    exact = [run for run in runs if run.name == text] or [run for run in runs if run.run_id == text]
    if exact:
        return exact[-1]
    matches = [run for run in runs if text and (run.name.startswith(text) or run.run_id.startswith(text))]
    if not matches:
        raise RunNotFound(
            f"no run {shown(text)} in {shown(directory)}; there are: {_listed(runs)}; `jobtape ls` shows all",
            path=str(directory),
        )
    ids = {run.run_id for run in matches}
    if len(matches) > 1 and (len(ids) > 1 or not ids.pop().startswith(text)):
        raise AmbiguousRun(
            f"{shown(text)} fits {len(matches)} runs: {_listed(matches)}; give more of the name",
            path=str(directory),
            matches=tuple(run.name for run in matches),
        )
    return matches[-1]


def read_run(run: ShelfRun) -> list[TapeFile]:
    """All tape files of a run, sorted by name; one that cannot be read is there with that as its damage.

    Raises:
        TapeError: none of them can be read.
    """
    tapes: list[TapeFile] = []
    errors: list[TapeError] = []
    for path in run.files:
        try:
            tapes.append(read_tape(path))
        except TapeError as error:
            errors.append(error)
            tapes.append(TapeFile(path, damage=[Damage(0, str(error))]))
    if errors and len(errors) == len(tapes):
        raise errors[0]
    return tapes


_ADVICE = "record a job with `torchrun --event-log-handler=tape …`, or name the directory with --dir or JOBTAPE_DIR"


def _all_unreadable(directory: Path, unreadable: dict[str, str]) -> TapeError:
    name, reason = next(iter(unreadable.items()))
    more = f" and {len(unreadable) - 1} more" if len(unreadable) > 1 else ""
    return TapeError(
        f"cannot read {shown(directory / name)}{more}: {reason}; read them as the user who recorded them",
        path=str(directory / name),
    )


def _list(directory: Path) -> tuple[list[ShelfRun], dict[str, str]]:
    """The runs, oldest first, and the directories that cannot be read, with the reason."""
    try:
        with os.scandir(directory) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        raise TapeError(f"no tape in {shown(directory)}: {_ADVICE}", path=str(directory)) from None
    except NotADirectoryError:
        raise TapeError(
            f"{shown(directory)} is a file, not a directory of runs: name the directory with --dir or JOBTAPE_DIR",
            path=str(directory),
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TapeError(f"cannot read {shown(directory)}: {reason}", path=str(directory)) from None
    runs: list[ShelfRun] = []
    unreadable: dict[str, str] = {}
    for name in names:
        try:
            files = sorted(_tape_files(directory / name))
        except OSError as error:
            unreadable[name] = error.strerror or str(error)
            continue
        if files:
            runs.append(_run(directory / name, files))
    return sorted(runs, key=lambda run: (run.order_ns, run.name)), unreadable


def _run(path: Path, files: list[Path]) -> ShelfRun:
    headers = list(_headers(files))
    starts = [header.time_ns for header in headers if header.time_ns is not None]
    started_ns = min(starts, default=None)
    return ShelfRun(
        name=path.name,
        run_id=headers[0].run_id if headers else path.name,
        path=path,
        started_ns=started_ns,
        files=tuple(files),
        order_ns=started_ns if started_ns is not None else _written_ns(files),
    )


def _tape_files(path: Path) -> Iterator[Path]:
    """Files named as ours, and others of that suffix that begin with a header (copies under another name)."""
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.name.endswith(".jsonl") and entry.is_file(follow_symlinks=False):
                file = path / entry.name
                if _OUR_FILE.fullmatch(entry.name) or _header(file) is not None:
                    yield file


def _headers(files: list[Path]) -> Iterator[Header]:
    def start(file: Path) -> str:
        match = _OUR_FILE.fullmatch(file.name)
        return (match and match["start"]) or ""

    found = 0
    for file in sorted(files, key=start):
        header = _header(file)
        if header is not None:
            yield header
            found += 1
        if found == _HEADERS_READ:
            return


def _header(file: Path) -> Header | None:
    try:
        return read_header(file)
    except TapeError:
        return None


def _written_ns(files: list[Path]) -> int:
    try:
        return max(file.stat(follow_symlinks=False).st_mtime_ns for file in files)
    except OSError:
        return 0


def _listed(runs: list[ShelfRun], most: int = 5) -> str:
    names = ", ".join(shown(run.name) for run in reversed(runs[-most:]))
    return names if len(runs) <= most else f"{names} and {len(runs) - most} more"
