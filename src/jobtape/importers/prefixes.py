"""What stands before the text of a log line: a time, a level, who wrote it, or the worker whose output it is.

Forms read, each at the start of the line and several in a row (a collector's before torch's own):

- ``I0217 09:30:00.019000 2101 torch/distributed/elastic/agent/server/api.py:942]`` (from torch 2.4 on), or with a year,
- ``[2026-05-06 14:02:00,123] torch.distributed.elastic.agent.server.api: [INFO]`` (torch 2.1 to 2.3),
- ``ERROR:torch.distributed.elastic.multiprocessing.api:`` (before),
- ``[INFO] 2021-12-08 12:28:26,098 api:`` (torch 1.9 and 1.10, which name the module alone),
- ``1796099768.499810 pid=3780 torchelastic-events-cap`` (unix time),
- ``2026-05-06T14:02:00.123Z stderr F`` and the like, as containers' logs have it,
- ``Feb 17 09:30:00`` of ``ts``, with ``node-a torchrun[77]:`` behind it of syslog and the journal,
- ``[default0]:``, ``[rank0]:`` of a worker's output, ``[E1201 04:36:12.447202838 ProcessGroupGloo.cpp:67]`` of its C++.
"""

from __future__ import annotations

import re
from datetime import timezone
from typing import NamedTuple

from jobtape.importers.clock import Stamp, offset_zone

_LABEL = re.compile(r"\[(?:rank(?P<rank>\d{1,7})|[A-Za-z_][\w-]*?(?P<local>\d{1,7}))\]: ?")
_GLOG = re.compile(
    r"(?P<level>[A-Z])(?P<year>\d{4})?(?P<month>\d\d)(?P<day>\d\d) (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
    r"\.(?P<fraction>\d{1,9}) +(?P<pid>\d{1,10}) (?P<writer>[^\]\s]+:\d+)\] ?"
)
_CPP = re.compile(
    r"\[(?P<level>[IWEF])(?P<month>\d{1,2})(?P<day>\d\d) (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
    r"\.(?P<fraction>\d{1,9}) (?P<writer>[^\]\s]+:\d+)\] ?"
)
_DATED = re.compile(
    r"\[?(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[ T](?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
    r"(?:[.,](?P<fraction>\d{1,9}))? ?(?P<zone>Z|UTC|[+-]\d\d:?\d\d)?\]?(?:[:,]? +|$)"
)
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_NAMED = re.compile(
    rf"(?:<\d{{1,3}}>)?(?P<named>{'|'.join(_MONTHS)}) (?P<day>[ \d]\d) (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
    r"(?:\.(?P<fraction>\d{1,9}))? (?:[\w.:-]+ (?:[\w./()-]+\[\d+\]|kernel): )?"
)
_OLD = re.compile(
    r"\[(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)\] (?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
    r" (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d),(?P<fraction>\d{3}) (?P<writer>[a-z]\w*): ?"
)
_OLD_MODULES = frozenset(
    {"api", "c10d_rendezvous_backend", "dynamic_rendezvous", "local_elastic_agent", "static_tcp_rendezvous"}
)
_EPOCH = re.compile(r"(?P<seconds>\d{10})(?:\.(?P<fraction>\d{1,9}))?(?: +|$)")
_END = r"(?: *[-|:] +|[ :]+|(?=\{))"
_LEVEL = re.compile(rf"\[?(?P<level>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\]?{_END}")
_EVENTS_LOGGER = re.compile(rf"\[?(?P<writer>torchelastic-events-[\w.-]+)\]?{_END}")
_WORD = re.compile(  # only behind a time or a level, where the text has not begun yet
    r"(?:\[?(?:pid[=:])?(?P<pid>\d{1,10})\]?|\[?(?P<writer>torch[\w./-]*(?::\d+)?)\]?|std(?:out|err)(?: [FP])?"
    rf"|(?:[\w.-]+ )?[\w./-]+\[\d+\](?=:)|[a-z][a-z0-9_./-]*(?=:)|[\w./-]+(?= - )|[-|]){_END}"
)


_LONGEST_PREFIX = 300


class Prefix(NamedTuple):
    """What a line's prefix says; ``text`` is the line without it."""

    text: str
    stamp: Stamp | None = None
    level: str = ""
    writer: str = ""
    """Logger or source file that the line names."""
    pid: int | None = None
    worker: bool = False
    """The line is a worker's output; ``rank`` and ``local_rank`` as far as the label says."""
    rank: int | None = None
    local_rank: int | None = None
    native: bool = False
    """The line was written by torch's C++ code."""


def read_prefix(line: str, stamp: Stamp | None = None) -> Prefix:
    """Take the prefixes off a line.

    Args:
        line: the line, without what a collector is known to put before each.
        stamp: the time that the collector gave it.

    >>> read_prefix("[rank1]: RuntimeError: boom")[0]
    'RuntimeError: boom'
    >>> read_prefix("ERROR:torch.distributed.elastic.multiprocessing.api:failed")[0:4:3]
    ('failed', 'torch.distributed.elastic.multiprocessing.api')
    """
    position = 0
    if match := _OLD.match(line):
        writer = f"torch.distributed.elastic.{match['writer']}" if match["writer"] in _OLD_MODULES else match["writer"]
        return Prefix(line[match.end() :], _surer(stamp, match), match["level"], writer)
    while match := _DATED.match(line, position) or _EPOCH.match(line, position) or _NAMED.match(line, position):
        stamp = _surer(stamp, match)
        position = match.end()
    worker = False
    rank = local_rank = None
    while match := _LABEL.match(line, position):
        worker = True
        rank = int(match["rank"]) if match["rank"] else rank
        local_rank = int(match["local"]) if match["local"] else local_rank
        position = match.end()
    level = writer = ""
    pid: int | None = None
    while True:
        if match := _GLOG.match(line, position) or _CPP.match(line, position):
            glog = match.re is _GLOG
            return Prefix(
                text=line[match.end() :],
                stamp=_surer(stamp, match),
                level=match["level"],
                writer=match["writer"],
                pid=int(match["pid"]) if glog else None,
                worker=worker,
                rank=rank,
                local_rank=local_rank,
                native=not glog,
            )
        if worker or (writer and level):
            break
        match = (None if level else _LEVEL.match(line, position)) or _EVENTS_LOGGER.match(line, position)
        if match is None and (stamp is not None or level):
            match = _WORD.match(line, position)
        if match is None:
            break
        found = match.groupdict()
        level = found.get("level") or level
        writer = found.get("writer") or writer
        pid = int(found["pid"]) if found.get("pid") and pid is None else pid
        position = match.end()
    return Prefix(line[position:], stamp, level, writer, pid, worker, rank, local_rank)


def stamp_before(text: str) -> Stamp | None:
    """The time of a prefix that ends where ``text`` ends, whatever stands before it."""
    tail = text[-_LONGEST_PREFIX:]
    for pattern in (_DATED, _GLOG):
        for match in pattern.finditer(tail):
            prefix = read_prefix(tail[match.start() :])
            if not prefix.text:
                return prefix.stamp
    return None


def find_stamp(text: str) -> Stamp | None:
    """The time a text consists of; None when it is none."""
    text = f"{text} "
    match = _DATED.match(text) or _EPOCH.match(text) or _NAMED.match(text)
    return _stamp(match) if match is not None and match.end() == len(text) else None


def _surer(stamp: Stamp | None, match: re.Match[str]) -> Stamp:
    """Of a collector's time and the line's own, the one whose zone is known; else the line's own."""
    return stamp if stamp is not None and (stamp.zone is not None or stamp.epoch_ns is not None) else _stamp(match)


def _stamp(match: re.Match[str]) -> Stamp:
    part = match.groupdict()
    nanos = int((part["fraction"] or "").ljust(9, "0"))
    if "seconds" in part:
        return Stamp(epoch_ns=int(part["seconds"]) * 1_000_000_000 + nanos)
    if "named" in part:
        part["month"] = str(_MONTHS.index(part["named"]) + 1)
    zone = None
    if text := part.get("zone"):
        zone = offset_zone(text[0], int(text[1:3]), int(text[-2:])) if text[0] in "+-" else timezone.utc
    return Stamp(
        year=int(part["year"]) if part.get("year") else None,
        month=int(part["month"]),
        day=int(part["day"]),
        hour=int(part["hour"]),
        minute=int(part["minute"]),
        second=int(part["second"]),
        nanos=nanos,
        zone=zone,
    )
