"""Records of a run in the order of their times, and which of them a question is about."""

from __future__ import annotations

import fnmatch
import heapq
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from jobtape.tape.records import CloseRecord, EventRecord, Header, LossRecord, Other, RdzvRecord, Record

if TYPE_CHECKING:
    from jobtape.tape.reader import TapeFile

KINDS = {
    Header: "header",
    EventRecord: "event",
    RdzvRecord: "rdzv",
    LossRecord: "loss",
    CloseRecord: "close",
    Other: "other",
}
REFERENCE = re.compile(r"(?P<file>.+?):(?P<first>[0-9]{1,15})(?:-(?P<last>[0-9]{1,15}))?(?=\s|\Z)", re.DOTALL)
RANK_KEYS = ("rank", "global_rank")
HOST_KEYS = ("host", "hostname")
RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


class Placed(NamedTuple):
    """A record and where it stands."""

    time_ns: int | None
    header: Header | None
    file: str
    line: int
    record: Record

    @property
    def kind(self) -> str:
        """The record's kind as the tape names it."""
        return KINDS[type(self.record)]


@dataclass(frozen=True)
class Wanted:
    """Which records are asked for; what is empty or None does not matter."""

    ranks: frozenset[int] = frozenset()
    hosts: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    kinds: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    since_ns: int | None = None
    until_ns: int | None = None
    pattern: re.Pattern[str] | None = None
    references: tuple[tuple[str, int, int], ...] = field(default=())


def in_order(files: Sequence[TapeFile]) -> Iterator[Placed]:
    """All records by time; one without a time stays behind the record that stands before it in its file."""
    return (placed for _, placed in heapq.merge(*map(by_time, files), key=itemgetter(0)))


def by_time(file: TapeFile) -> Iterable[tuple[int, Placed]]:
    """The records of one file by time, each with the time it is sorted by."""
    name = file.path.name
    records = list(zip(file.records, file.lines, strict=True))
    if file.header is not None:
        records.insert(0, (file.header, 1))
    clock = next((record.time_ns for record, _ in records if record.time_ns is not None), 0)
    clocks = []
    for record, _ in records:
        clock = clock if record.time_ns is None else record.time_ns
        clocks.append(clock)
    # A clock may have been set back: sorting keeps the order of equals, and of a file in order.
    for number in sorted(range(len(records)), key=clocks.__getitem__):
        record, line = records[number]
        yield clocks[number], Placed(record.time_ns, file.header, name, line, record)


def first_time(files: Sequence[TapeFile]) -> int | None:
    """The earliest time on the tape; None when it has none."""
    return min(
        (record.time_ns for file in files for record in file.records if record.time_ns is not None), default=None
    )


def sift(placed: Iterable[Placed], wanted: Wanted) -> Iterator[Placed]:
    """Those that are asked for."""
    return (each for each in placed if is_wanted(each, wanted))


def is_wanted(placed: Placed, wanted: Wanted) -> bool:
    """Whether a record is asked for."""
    time_ns = placed.time_ns
    if wanted.since_ns is not None and (time_ns is None or time_ns < wanted.since_ns):
        return False
    if wanted.until_ns is not None and (time_ns is None or time_ns > wanted.until_ns):
        return False
    record = placed.record
    return (
        (not wanted.kinds or placed.kind in wanted.kinds)
        and (not wanted.sources or str(getattr(record, "source", "")).upper() in wanted.sources)
        and (not wanted.names or any(fnmatch.fnmatchcase(getattr(record, "name", ""), glob) for glob in wanted.names))
        and (not wanted.ranks or not wanted.ranks.isdisjoint(ranks_of(placed)))
        and (
            not wanted.hosts
            or any(fnmatch.fnmatchcase(host, glob) for host in hosts_of(placed) for glob in wanted.hosts)
        )
        and (not wanted.references or any(stands_at(placed, reference) for reference in wanted.references))
        and (wanted.pattern is None or any(wanted.pattern.search(text) for text in texts_of(fields_of(record))))
    )


def fields_of(record: Record) -> dict[str, Any]:
    """The record's own fields, those of an unknown kind included."""
    if isinstance(record, Other):
        return record.fields
    return {name: getattr(record, name) for name in record.__struct_fields__}


def texts_of(value: object) -> Iterator[str]:
    """Every text in a value, keys included, and numbers as they are written."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield f"{key}={each}" if isinstance(each, (str, int, float)) else str(key)
            if not isinstance(each, (int, float)):
                yield from texts_of(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from texts_of(each)
    elif value is not None:
        yield str(value)


def ranks_of(placed: Placed) -> set[int]:
    """The ranks a record is about: those it names, else that of the process that wrote it."""
    record = placed.record
    named: list[Any] = []
    if isinstance(record, EventRecord):
        named = [record.metadata.get(key) for key in RANK_KEYS]
        many = record.metadata.get("ranks")
        named += many if isinstance(many, list) else []
    found = {rank for value in named if (rank := whole(value)) is not None}
    if not found and placed.header is not None and not isinstance(record, RdzvRecord):
        said = next((placed.header.ranks[name] for name in RANK_VARIABLES if name in placed.header.ranks), None)
        rank = whole(said)
        return {rank} if rank is not None and placed.header.role != "agent" else set()
    return found


def whole(value: object) -> int | None:
    """A whole number, also written as text or alone in a list as torch does."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value) else None


def hosts_of(placed: Placed) -> set[str]:
    """The hosts a record names, and that of the process that wrote it."""
    record = placed.record
    found: set[Any] = {placed.header.host} if placed.header is not None else set()
    if isinstance(record, EventRecord):
        found |= {record.metadata.get(key) for key in HOST_KEYS if isinstance(record.metadata.get(key), str)}
    elif isinstance(record, RdzvRecord):
        found.add(record.hostname)
    return {host for host in found if host}


def reference(text: str) -> tuple[str, int, int]:
    """``FILE``, ``FILE:LINE`` or ``FILE:LINE-LINE``, with whatever follows as in the evidence of a verdict.

    Returns:
        The file's name and the first and last line.

    >>> reference("a-7-20260101T000000.jsonl:12"), reference("a.jsonl:3-5 the exit"), reference("a.jsonl")
    (('a-7-20260101T000000.jsonl', 12, 12), ('a.jsonl', 3, 5), ('a.jsonl', 0, 9007199254740992))
    """
    match = REFERENCE.match(text.strip())
    name = (text.strip() if match is None else match["file"]).rpartition("/")[2]
    if match is None:
        return name, 0, 1 << 53
    first = int(match["first"])
    return name, first, int(match["last"] or first)


def stands_at(placed: Placed, where: tuple[str, int, int]) -> bool:
    """Whether a record stands there on the tape, or did in the file it was imported from."""
    name, first, last = where
    if placed.file == name and first <= placed.line <= last:
        return True
    origin = getattr(placed.record, "origin", None)
    if not origin:
        return False
    file, _, line = origin.rpartition(":")
    return file == name and line.isdecimal() and first <= int(line) <= last
