"""Import of torchelastic's own records: event lines and what torch's agent and launcher log about workers.

One file may hold one node or several, with what launchers and collectors have put around its lines (`collectors`); each
node's lines are read by a `Console` of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from pathlib import Path

from jobtape.importers import closing_block, event_lines
from jobtape.importers.clock import FileClock, Stamp, YearSurvey
from jobtape.importers.collectors import Collector, Line, find_collector, find_hosts
from jobtape.importers.console import Console
from jobtape.importers.foreign import Lines
from jobtape.importers.listings import open_listing
from jobtape.importers.log_lines import read_log_line
from jobtape.importers.onto_tape import ForeignFile
from jobtape.importers.prefixes import read_prefix
from jobtape.importers.rendezvous_lines import read_rendezvous
from jobtape.importers.repeats import Repeats
from jobtape.importers.scheduler_lines import read_scheduler_line

_BEGINS_A_PREFIX = frozenset(bytes([byte]) for byte in b"0123456789[<ABCDEFGHIJKLMNOPQRSTUVWXYZ")

_OF_A_SCHEDULER = (b"slurmstepd", b"srun: ")
_READERS_OF_A_LINE = (read_log_line, read_rendezvous, open_listing, read_scheduler_line)

MOST_HELD_BYTES = 128 << 20
"""Of closing blocks of several nodes that are not whole yet, shared equally among them."""


def read_files(sources: Sequence[Path], shelf: Path, zone: tzinfo | None) -> Iterator[tuple[str, Path, ForeignFile]]:
    """Read log files or files of event lines, one a node or all in one.

    Yields:
        For each file the hash of its content, the file, and its records.

    Raises:
        ImportFailed: a file cannot be read.
    """
    collectors = [find_collector(source) for source in sources]
    surveys = [_survey(source, collector, zone) for source, collector in zip(sources, collectors, strict=True)]
    anchor_ns = next((survey.anchor_ns for survey in surveys if survey.anchor_ns is not None), None)
    for source, collector, survey in zip(sources, collectors, surveys, strict=True):
        target = ForeignFile(source, shelf)
        yield _read(source, collector, target, survey.clock(anchor_ns, source.stat().st_mtime)), source, target


def fits(raw: bytes) -> bool:
    """Whether a line is one that is read here: an event, an agent's line about its workers, or of the closing block.

    >>> fits(b"E0217 09:31:28.264000 2101 torch/distributed/elastic/agent/server/api.py:9] Got termination signal: 15")
    True
    """
    if raw == closing_block.ROOT:
        return True
    if raw[:1] != b"{":
        if not raw.startswith(_OF_A_SCHEDULER) and b"torch" not in raw[:400]:
            return False
        prefix = read_prefix(raw.decode("utf-8", "replace"))
        if prefix.worker or prefix.text[:1] != "{":
            return not prefix.worker and any(read(prefix) is not None for read in _READERS_OF_A_LINE)
        text = prefix.text
    else:
        text = raw.decode("utf-8", "replace")
    decoded = event_lines.decode_object(text)
    return decoded is not None and event_lines.is_record(decoded[0])


def _survey(source: Path, collector: Collector, zone: tzinfo | None) -> YearSurvey:
    survey = YearSurvey(zone)
    for number, raw in Lines(source):
        for line in ((Line(number, raw),) if collector.plain else collector.take(number, raw)) if raw else ():
            if line.stamp is not None and (line.stamp.year is not None or line.stamp.epoch_ns is not None):
                found: tuple[Stamp, bool] | None = (line.stamp, True)
            else:
                found = _stamp_of(line.raw) if line.raw else None
            if found is not None and not survey.see(*found):
                for _ in collector.rest():
                    pass
                return survey
    for _ in collector.rest():
        pass
    return survey


def _stamp_of(raw: bytes) -> tuple[Stamp, bool] | None:
    """A line's time, and whether the line is one of torch's own."""
    if raw[:1] == b"{":
        time_ns = event_lines.arrival_in(raw)
        return None if time_ns is None else (Stamp(epoch_ns=time_ns), True)
    if (dated := closing_block.is_dated(raw)) is not None:
        return dated, True
    if raw[:1] not in _BEGINS_A_PREFIX:
        return None
    prefix = read_prefix(raw[:400].decode("utf-8", "replace"))
    return None if prefix.stamp is None else (prefix.stamp, "torch" in prefix.writer or prefix.text[:7] == '{"name"')


def _read(source: Path, collector: Collector, target: ForeignFile, clock: FileClock) -> str:
    """Read a file to its end; the hash of its content."""
    hosts = find_hosts(source, collector) if collector.form is not None or collector.wrapped else {}
    consoles: dict[str, Console] = {}
    repeats = Repeats()
    lines = Lines(source)

    def console_of(label: str) -> Console:
        console = consoles.get(label)
        if console is None:
            host = hosts.get(label) or collector.host(label) if label else ""
            console = consoles[label] = Console(target, source.name, clock, host)
        return console

    for number, raw in lines:
        again = raw is not None and repeats.see(raw)
        for line in (Line(number, raw),) if collector.plain else collector.take(number, raw):
            if again and line.raw and (_stamp_of(line.raw) or (line.stamp and line.raw[:1] == b"{")):
                # A log rotated or shipped twice: no two records of one process share their time and every word.
                target.foreign_line()
                continue
            console = console_of(line.label)
            console.line(line.number, line.raw, line.stamp)
            if console.held_bytes > MOST_HELD_BYTES // len(consoles):
                console.end_block()
    for line in collector.rest():
        console_of(line.label).line(line.number, line.raw, line.stamp)
    for console in consoles.values():
        console.end()
    return lines.digest
