"""One import: files and directories in, tape files out, each file read as what it is.

Files of one call are taken to be of one job. A record is of the run that it names; one that names none is of the run
that the others name, when there is just one. torch's run id goes before what other programs call the job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from jobtape.errors import ImportFailed
from jobtape.importers.clock import find_zone
from jobtape.importers.foreign import shown
from jobtape.importers.formats import AUTO, EXPECTED, READERS, Sources, find_sources
from jobtape.importers.onto_tape import ForeignFile, ImportReport
from jobtape.tape.names import safe_name

NO_RUN_ID = "none"
"""torchrun's run id when none was given: many jobs have it, so it does not say which records belong together."""

_OF_A_KIND = frozenset({"structured_logs", "system_logs", "nvrx", "cycle_infos", "logs", "events"})
"""Names of directories that say what is in them, not of which job."""

Read = dict[str, tuple[str, Path, ForeignFile]]
"""Hash of a content -> its format, its file, and the records found."""


def import_files(paths: Sequence[str | Path], shelf: Path, tz: str | None = None, format_: str = AUTO) -> ImportReport:
    """Put the records of these files, which are taken to belong together, onto the shelf.

    Args:
        paths: files, and directories of them.
        shelf: the directory of runs; made when it is missing.
        tz: zone of times that name none: a name, ``UTC``, or an offset like ``+02:00``; None for this machine's.
        format_: what the files are; ``auto`` finds it out of each.

    Raises:
        ImportFailed: a file cannot be read, the zone is unknown, nothing in the files is a record, or the shelf cannot
            be written. Unless it was the last, nothing has been written.
    """
    zone = find_zone(tz)
    given = [Path(path) for path in paths]
    sources = find_sources(given, format_, shelf)
    with _shelf(shelf):
        report = ImportReport(
            files=len(sources.formats),
            formats=[(str(path), name) for path, name in sources.formats.items()],
            guessed=format_ == AUTO,
            passed_over=sources.passed_over,
            warnings=list(sources.warnings),
        )
        read: Read = {}
        try:
            for name in dict.fromkeys(sources.formats.values()):
                files = [path for path, its in sources.formats.items() if its == name]
                for digest, source, target in READERS[name](files, shelf, zone):
                    _add(read, digest, name, source, target, report)
            if not report.records:
                raise _nothing(given, sources, format_)
            _save(read, given, report)
        finally:
            for _, _, target in read.values():
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


def _add(read: Read, digest: str, name: str, source: Path, target: ForeignFile, report: ImportReport) -> None:
    if digest in read:
        target.close()
        if target.records:
            first = shown(read[digest][1])
            report.warnings.append(f"{shown(source)}: same content as {first}, imported once")
        return
    read[digest] = name, source, target
    report.records += target.records
    report.damaged += target.damaged
    report.foreign += target.foreign
    if not target.records:
        report.warnings.append(f"{shown(source)}: no {name} record in it")


def _nothing(given: list[Path], sources: Sources, format_: str) -> ImportFailed:
    path = str(given[0]) if given else ""
    if format_ != AUTO:
        return ImportFailed(
            f"no {format_} record in {_listed(given)}: expected {EXPECTED[format_]}; check --format", path=path
        )
    known = ", ".join(f"{name} ({what})" for name, what in EXPECTED.items())
    count = len(sources.formats) + sources.passed_over
    files = "" if count == len(given) else f" ({count} files)"
    return ImportFailed(f"no record of a known format in {_listed(given)}{files}; known are {known}", path=path)


def _save(read: Read, given: list[Path], report: ImportReport) -> None:
    targets = [target for _, _, target in read.values()]
    named = {run_id for target in targets for run_id in target.run_ids}
    likely = {target.likely_run_id for target in targets if target.likely_run_id is not None and target.records}
    only = next(iter(named if named else likely)) if len(named or likely) == 1 else None
    nameless = {id(t) for t in targets if not t.run_ids and t.likely_run_id is None and t.records}
    together = hashlib.sha256("".join(read).encode()).hexdigest()[:8]
    own_name = {NO_RUN_ID: f"{NO_RUN_ID}-import-{together}"}
    # Files that are named together are of one job, also where none of them names it.
    alone = len(nameless) < 2
    apart = alone and all(name == "torchelastic" for name, _, target in read.values() if id(target) in nameless)
    common = None if apart or only is not None else _name_of(given)
    if common is not None:
        own_name[common] = f"{safe_name(common)}-import-{together}"
        report.warnings.append(f"{_listed(given)}: the records name no run; imported as run {common!r}")
    counts: dict[tuple[str, str], int] = {}
    for digest, (_, source, target) in read.items():
        default = only or target.likely_run_id or common or source.stem
        if only is None and common is None and id(target) in nameless:
            report.warnings.append(f"{shown(source)}: its records name no run; imported as run {source.stem!r}")
        for run_id, path, count in target.save(digest, default, own_name):
            if run_id in own_name:
                own_name[run_id] = path.parent.name
            key = run_id, path.parent.name
            counts[key] = counts.get(key, 0) + count
    report.runs = [(run_id, name, count) for (run_id, name), count in counts.items()]


def _name_of(given: list[Path]) -> str:
    """What to call a run that no record names: as its directory, or as the first of its files."""
    path = Path(given[0]).absolute()
    if not path.is_dir():
        return path.stem
    while path.name in _OF_A_KIND and path.parent.name:
        path = path.parent
    return path.name or "imported"


def _listed(sources: list[Path], at_most: int = 3) -> str:
    names = ", ".join(shown(source) for source in sources[:at_most])
    return names if len(sources) <= at_most else f"{names} and {len(sources) - at_most} more"
